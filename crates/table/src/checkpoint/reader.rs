//! Reading an index checkpoint: [`CheckpointReader`] knows what is in it, [`CheckpointStream`] goes through its entries, a
//! chunk at a time. Any bytes give an error or what was written.

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_order::KeyOrder;

use super::layout::{
    CHUNK_BYTES_AT_MOST, CHUNK_HEADER_BYTES, CheckpointedFile, CheckpointedLocation, FILE_BYTES, FOOTER_BYTES, Footer,
    SUMMARY_HEADER_BYTES, SUMMARY_NUMBER,
};
use crate::codec::{get_length, get_range, get_u32, get_u64, get_varint, unzigzag};
use crate::entry::Place;
use crate::options::MAXIMUM_KEY_BYTES;
use crate::part::{self, Content, Identity, PartKind, TRAILER_BYTES};

/// An open index checkpoint.
#[derive(Debug)]
pub struct CheckpointReader {
    file: Arc<dyn File>,
    path: Arc<Path>,
    identity: Identity,
    order: KeyOrder,
    length_bytes: u64,
    through: u64,
    entries: u64,
    created_unix_ns: u64,
    listed: usize,
    files: Vec<CheckpointedFile>,
    /// Offset and length of each chunk.
    chunks: Vec<(u64, u32)>,
}

impl CheckpointReader {
    /// Opens checkpoint `number` of the store. Reads footer and summary.
    pub fn open(
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        order: KeyOrder,
    ) -> Result<CheckpointReader> {
        let file = env.open_file(path, OpenMode::Read)?;
        let length_bytes = file.length_bytes()?;
        let Some(footer_offset) = length_bytes.checked_sub(FOOTER_BYTES as u64) else {
            let what = format!("{length_bytes} bytes are too short for an index checkpoint");
            return Err(Error::corruption(path, 0, what));
        };
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_offset)?;
        let footer = Footer::decode(&footer, path, length_bytes, number, store_uuid)?;
        let (identity, offset) = (Identity::new(store_uuid, number), footer.summary_offset);
        let corrupt = |what: &str| Error::corruption(path, offset, format!("checkpoint summary: {what}"));
        // Longer than this it would tell of more files and chunks than there can be.
        let summary_bytes = usize::try_from(footer.summary_bytes).ok().filter(|&bytes| u32::try_from(bytes).is_ok());
        let summary_bytes = summary_bytes.ok_or_else(|| corrupt("is impossibly long"))?;
        let kind = PartKind::CheckpointSummary;
        let content = part::read_numbered(&*file, identity, kind, path, SUMMARY_NUMBER, (offset, summary_bytes))?;
        let mut reader = CheckpointReader {
            file,
            path: Arc::from(path),
            identity,
            order,
            length_bytes,
            through: 0,
            entries: 0,
            created_unix_ns: 0,
            listed: 0,
            files: Vec::new(),
            chunks: Vec::new(),
        };
        reader.take_summary(content.as_slice()).ok_or_else(|| corrupt("its lists are cut off"))?;
        let sum = reader.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.entries));
        let end = reader.chunks.last().map_or(0, |&(offset, length)| offset + u64::from(length));
        let fits = |&(_, length): &(u64, u32)| {
            (CHUNK_HEADER_BYTES + TRAILER_BYTES..=CHUNK_BYTES_AT_MOST + TRAILER_BYTES).contains(&(length as usize))
        };
        if end != offset || !reader.chunks.iter().all(fits) {
            return Err(corrupt("the chunks are not where it says"));
        }
        if reader.listed > reader.files.len() || sum != Some(reader.entries) {
            return Err(corrupt("its counts contradict each other"));
        }
        Ok(reader)
    }

    /// `None`: it is not as long as it says.
    fn take_summary(&mut self, bytes: &[u8]) -> Option<()> {
        let mut at = 0;
        self.through = get_u64(bytes, &mut at)?;
        self.entries = get_u64(bytes, &mut at)?;
        self.created_unix_ns = get_u64(bytes, &mut at)?;
        self.listed = get_u32(bytes, &mut at)? as usize;
        let [files, chunks] = [get_u32(bytes, &mut at)? as usize, get_u32(bytes, &mut at)? as usize];
        let whole = files.checked_mul(FILE_BYTES)?.checked_add(chunks.checked_mul(size_of::<u32>())?)?;
        if whole.checked_add(SUMMARY_HEADER_BYTES)? != bytes.len() {
            return None;
        }
        for _ in 0..files {
            let number = get_u32(bytes, &mut at)?;
            let (entries, key_bytes) = (get_u64(bytes, &mut at)?, get_u64(bytes, &mut at)?);
            self.files.push(CheckpointedFile { number, entries, key_bytes });
        }
        let mut offset = 0;
        for _ in 0..chunks {
            let length = get_u32(bytes, &mut at)?;
            self.chunks.push((offset, length));
            offset += u64::from(length);
        }
        Some(())
    }

    /// S: every flush up to this sequence number had been committed when the checkpoint was begun.
    pub fn through(&self) -> u64 {
        self.through
    }

    /// How many entries it has.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The length of the file, in bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// When it was begun, in nanoseconds since 1970 UTC.
    pub fn created_unix_ns(&self) -> u64 {
        self.created_unix_ns
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table files that there were when it was begun: it stands for them.
    pub fn listed_files(&self) -> impl Iterator<Item = u32> + '_ {
        self.files[..self.listed].iter().map(|file| file.number)
    }

    /// Those and the others that entries are in.
    pub fn files(&self) -> impl Iterator<Item = &CheckpointedFile> {
        self.files.iter()
    }

    fn read_chunk(&self, number: usize) -> Result<Content> {
        let (offset, length) = self.chunks[number];
        let place = (offset, length as usize);
        part::read_numbered(&*self.file, self.identity, PartKind::CheckpointKeys, &self.path, number as u32, place)
    }

    fn corrupt(&self, chunk: usize, what: &str) -> Error {
        let offset = self.chunks.get(chunk).map_or(0, |chunk| chunk.0);
        Error::corruption(&self.path, offset, format!("checkpoint chunk: {what}"))
    }
}

/// A place in a checkpoint.
#[derive(Debug)]
pub struct CheckpointStream {
    reader: Arc<CheckpointReader>,
    next_chunk: usize,
    content: Option<Content>,
    at: usize,
    entries_left: u32,
    /// Whether the next entry is the chunk's first.
    begins_chunk: bool,
    /// How many entries there are up to the end of the chunk, once one was read.
    passed: Option<u64>,
    key: Vec<u8>,
    /// Whether `key` is that of an entry before.
    has_key: bool,
    location: Option<CheckpointedLocation>,
    sequence: u64,
    /// A key put together, under a comparator.
    candidate: Vec<u8>,
}

impl CheckpointStream {
    /// Before the first entry.
    pub fn new(reader: Arc<CheckpointReader>) -> CheckpointStream {
        CheckpointStream {
            reader,
            next_chunk: 0,
            content: None,
            at: 0,
            entries_left: 0,
            begins_chunk: false,
            passed: None,
            key: Vec::new(),
            has_key: false,
            location: None,
            sequence: 0,
            candidate: Vec::new(),
        }
    }

    /// How many chunks there are.
    pub fn chunks(&self) -> usize {
        self.reader.chunks.len()
    }

    /// The first key of a chunk.
    pub fn first_key(&self, chunk: usize) -> Result<Vec<u8>> {
        let mut stream = CheckpointStream::new(self.reader.clone());
        stream.next_chunk = chunk;
        stream.advance()?;
        Ok(stream.key)
    }

    /// Goes to where keys from this one on begin, or somewhat before.
    pub fn seek(&mut self, from: &[u8]) -> Result<()> {
        let (mut before, mut behind) = (0, self.chunks());
        while before + 1 < behind {
            let middle = before + (behind - before) / 2;
            if self.reader.order.compare(&self.first_key(middle)?, from).is_le() {
                before = middle;
            } else {
                behind = middle;
            }
        }
        *self = CheckpointStream { next_chunk: before, ..CheckpointStream::new(self.reader.clone()) };
        Ok(())
    }

    /// The key that the stream is at; empty if it is at none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Where the newest version of that key was.
    #[inline]
    pub fn location(&self) -> Option<CheckpointedLocation> {
        self.location
    }

    /// Goes to the next entry; `false` at the end. After an error it is at its end, too.
    pub fn advance(&mut self) -> Result<bool> {
        let advanced = self.try_advance();
        if !matches!(advanced, Ok(true)) {
            self.location = None;
            self.key.clear();
            (self.entries_left, self.next_chunk) = (0, self.chunks());
            self.passed = Some(self.reader.entries);
        }
        advanced
    }

    fn try_advance(&mut self) -> Result<bool> {
        if self.entries_left == 0 && !self.open_chunk()? {
            return Ok(false);
        }
        let chunk = self.next_chunk - 1;
        self.take().ok_or_else(|| self.reader.corrupt(chunk, "an entry is cut off, or not in its place"))?;
        self.entries_left -= 1;
        let is_at_end = self.content.as_ref().is_none_or(|content| self.at == content.as_slice().len());
        if self.entries_left == 0 && !is_at_end {
            return Err(self.reader.corrupt(chunk, "has bytes left over"));
        }
        Ok(true)
    }

    fn open_chunk(&mut self) -> Result<bool> {
        if self.next_chunk >= self.chunks() {
            let passed = self.passed.unwrap_or(0);
            let what = "there are more or fewer entries than it says";
            return if passed == self.reader.entries { Ok(false) } else { Err(self.reader.corrupt(0, what)) };
        }
        let chunk = self.next_chunk;
        let content = self.reader.read_chunk(chunk)?;
        let (bytes, mut at) = (content.as_slice(), 0);
        let header = (|| Some((get_u64(bytes, &mut at)?, get_u32(bytes, &mut at)?, get_u64(bytes, &mut at)?)))();
        let Some((first_ordinal, entries, sequence)) = header.filter(|&(_, entries, _)| entries > 0) else {
            return Err(self.reader.corrupt(chunk, "shorter than its header, or without entries"));
        };
        let expected = self.passed.unwrap_or(if chunk == 0 { 0 } else { first_ordinal });
        if first_ordinal != expected {
            return Err(self.reader.corrupt(chunk, "does not go on where the one before ended"));
        }
        self.passed = Some(first_ordinal.saturating_add(entries.into()));
        (self.at, self.entries_left, self.sequence) = (at, entries, sequence);
        self.content = Some(content);
        self.begins_chunk = true;
        self.next_chunk += 1;
        Ok(true)
    }

    /// Decodes an entry; `None` if it is not one, or does not follow the one before.
    #[inline]
    fn take(&mut self) -> Option<()> {
        let content = self.content.as_ref()?;
        let bytes = content.as_slice();
        let at = &mut self.at;
        let shared = get_length(bytes, at)?;
        let rest_bytes = get_length(bytes, at)?;
        let rest = &bytes[get_range(bytes, at, rest_bytes)?];
        let file_index = get_length(bytes, at)?;
        self.sequence = unzigzag(self.sequence, get_varint(bytes, at)?);
        let offset = u32::try_from(get_varint(bytes, at)?).ok()?;
        let length = u32::try_from(get_varint(bytes, at)?).ok()?;
        let is_possible = shared <= self.key.len()
            && shared + rest.len() <= MAXIMUM_KEY_BYTES
            && !(std::mem::take(&mut self.begins_chunk) && shared > 0)
            && file_index < self.reader.files.len()
            && self.sequence >> 56 == 0;
        if !is_possible {
            return None;
        }
        let order = &self.reader.order;
        let ascends = if !self.has_key {
            true
        } else if order.is_bytewise() {
            &self.key[shared..] < rest
        } else {
            self.candidate.clear();
            self.candidate.extend_from_slice(&self.key[..shared]);
            self.candidate.extend_from_slice(rest);
            order.compare(&self.key, &self.candidate).is_lt()
        };
        if !ascends {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.has_key = true;
        self.location =
            Some(CheckpointedLocation { file_index, sequence: self.sequence, place: Place { offset, length } });
        Some(())
    }
}
