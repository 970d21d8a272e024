//! [`CheckpointWriter`]: writes an index checkpoint from front to back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_order::KeyOrder;

use super::layout::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, CheckpointedFile, CheckpointedLocation, ENTRY_HEAD_BYTES_AT_MOST, FOOTER_BYTES,
    Footer, SUMMARY_NUMBER,
};
use crate::codec::{put_varint, zigzag};
use crate::compression::Compression;
use crate::entry::Place;
use crate::options::MAXIMUM_KEY_BYTES;
use crate::part::{self, Identity, PartKind};
use crate::write_back::WriteBack;

/// How much is collected before it is written.
const WRITE_BYTES: usize = 256 << 10;

/// An index checkpoint being written. Nothing of it counts before [`finish`](CheckpointWriter::finish) has returned; the
/// file of one that is given up is the caller's to remove.
#[derive(Debug)]
pub struct CheckpointWriter {
    file: Arc<dyn File>,
    store_uuid: [u8; 16],
    number: u32,
    through: u64,
    created_unix_ns: u64,
    listed: u32,
    files: Vec<CheckpointedFile>,
    places: HashMap<u32, usize>,
    order: KeyOrder,
    /// Sealed parts that are not written yet, and where they go.
    buffer: Vec<u8>,
    written_bytes: u64,
    write_back: WriteBack,
    scratch: Vec<u8>,
    /// The entries of the chunk under way.
    chunk: Vec<u8>,
    chunk_entries: u32,
    sequence_before_chunk: u64,
    chunk_lengths: Vec<u32>,
    entries: u64,
    last_key: Vec<u8>,
    sequence: u64,
}

/// What [`CheckpointWriter::finish`] returns: a checkpoint whose content is durable, though not its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedCheckpoint {
    /// The length of the file, in bytes.
    pub length_bytes: u64,
    /// How many entries it has.
    pub entries: u64,
}

impl CheckpointWriter {
    /// Makes the file of checkpoint `number`, which must not exist. `through` is S, and `listed` are the numbers of the
    /// table files at that moment.
    pub fn new(
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        through: u64,
        listed: impl IntoIterator<Item = u32>,
        order: KeyOrder,
    ) -> Result<CheckpointWriter> {
        let files: Vec<_> =
            listed.into_iter().map(|number| CheckpointedFile { number, entries: 0, key_bytes: 0 }).collect();
        let places = files.iter().enumerate().map(|(place, file)| (file.number, place)).collect();
        Ok(CheckpointWriter {
            file: env.open_file(path, OpenMode::CreateNew)?,
            store_uuid,
            number,
            through,
            created_unix_ns: env.unix_time_ns(),
            listed: files.len() as u32,
            files,
            places,
            order,
            buffer: Vec::with_capacity(WRITE_BYTES + 2 * CHUNK_BYTES),
            written_bytes: 0,
            write_back: WriteBack::default(),
            scratch: Vec::new(),
            chunk: Vec::with_capacity(CHUNK_BYTES),
            chunk_entries: 0,
            sequence_before_chunk: 0,
            chunk_lengths: Vec::new(),
            entries: 0,
            last_key: Vec::new(),
            sequence: 0,
        })
    }

    /// Appends an entry; keys ascend strictly.
    pub fn add(&mut self, key: &[u8], sequence: u64, file: u32, place: Place) -> Result<()> {
        if key.len() > MAXIMUM_KEY_BYTES {
            return Err(Error::invalid(format!("a key of {} bytes in an index checkpoint", key.len())));
        }
        if self.entries > 0 && self.order.compare(&self.last_key, key).is_ge() {
            return Err(Error::invalid("the keys of an index checkpoint do not ascend"));
        }
        if self.chunk_entries > 0
            && CHUNK_HEADER_BYTES + self.chunk.len() + ENTRY_HEAD_BYTES_AT_MOST + key.len() > CHUNK_BYTES
        {
            self.end_chunk()?;
        }
        let shared = if self.chunk_entries == 0 {
            0
        } else {
            self.last_key.iter().zip(key).take_while(|(last, new)| last == new).count()
        };
        let location = CheckpointedLocation { file_index: self.file_index(file, key.len()), sequence, place };
        put_varint(&mut self.chunk, shared as u64);
        put_varint(&mut self.chunk, (key.len() - shared) as u64);
        self.chunk.extend_from_slice(&key[shared..]);
        put_varint(&mut self.chunk, location.file_index as u64);
        put_varint(&mut self.chunk, zigzag(self.sequence, sequence));
        put_varint(&mut self.chunk, place.offset.into());
        put_varint(&mut self.chunk, place.length.into());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.sequence = sequence;
        self.chunk_entries += 1;
        self.entries += 1;
        Ok(())
    }

    /// The place of a file in the summary; counts an entry in it.
    fn file_index(&mut self, number: u32, key_bytes: usize) -> usize {
        let files = &mut self.files;
        let place = *self.places.entry(number).or_insert_with(|| {
            files.push(CheckpointedFile { number, entries: 0, key_bytes: 0 });
            files.len() - 1
        });
        files[place].entries += 1;
        files[place].key_bytes += key_bytes as u64;
        place
    }

    fn end_chunk(&mut self) -> Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&(self.entries - u64::from(self.chunk_entries)).to_le_bytes());
        self.buffer.extend_from_slice(&self.chunk_entries.to_le_bytes());
        self.buffer.extend_from_slice(&self.sequence_before_chunk.to_le_bytes());
        self.buffer.extend_from_slice(&self.chunk);
        let number = self.chunk_lengths.len() as u32;
        let length = self.seal(start, PartKind::CheckpointKeys, number, Compression::None);
        self.chunk_lengths.push(length as u32);
        self.chunk.clear();
        self.chunk_entries = 0;
        self.sequence_before_chunk = self.sequence;
        if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn seal(&mut self, start: usize, kind: PartKind, number: u32, compression: Compression) -> usize {
        let identity = Identity::new(self.store_uuid, self.number);
        part::seal(&mut self.buffer, start, identity, kind, number, compression, &mut self.scratch);
        self.buffer.len() - start
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_at(&self.buffer, self.written_bytes)?;
        self.written_bytes += self.buffer.len() as u64;
        self.write_back.written_through(&*self.file, self.written_bytes);
        self.buffer.clear();
        Ok(())
    }

    /// Writes what is left and makes the file's content durable.
    pub fn finish(mut self) -> Result<FinishedCheckpoint> {
        if self.chunk_entries > 0 {
            self.end_chunk()?;
        }
        let start = self.buffer.len();
        let summary_offset = self.written_bytes + start as u64;
        for word in [self.through, self.entries, self.created_unix_ns] {
            self.buffer.extend_from_slice(&word.to_le_bytes());
        }
        for count in [self.listed, self.files.len() as u32, self.chunk_lengths.len() as u32] {
            self.buffer.extend_from_slice(&count.to_le_bytes());
        }
        for file in &self.files {
            self.buffer.extend_from_slice(&file.number.to_le_bytes());
            self.buffer.extend_from_slice(&file.entries.to_le_bytes());
            self.buffer.extend_from_slice(&file.key_bytes.to_le_bytes());
        }
        for length in &self.chunk_lengths {
            self.buffer.extend_from_slice(&length.to_le_bytes());
        }
        let summary_bytes = self.seal(start, PartKind::CheckpointSummary, SUMMARY_NUMBER, Compression::Lz4) as u64;
        let file_bytes = summary_offset + summary_bytes + FOOTER_BYTES as u64;
        let (store_uuid, number) = (self.store_uuid, self.number);
        let footer = Footer { store_uuid, number, summary_offset, summary_bytes, file_bytes };
        self.buffer.extend_from_slice(&footer.encode());
        self.write()?;
        self.file.sync_data()?;
        Ok(FinishedCheckpoint { length_bytes: file_bytes, entries: self.entries })
    }
}
