//! [`TableBuilder`]: writes a table file, once, from front to back.
//!
//! Without compression each entry is written [by itself](crate::single). With it, entries are gathered in a block, and if that does
//! not become smaller they are written by themselves after all. After some blocks in vain most entries are not gathered
//! any more: on data that can't be compressed, trying was three tenths of the work.
//!
//! Blocks are cut by looking ahead: an entry that would carry its block past [`TableOptions::block_bytes`] begins the
//! next one. So a block of more than one entry is never longer than that, and a value that is has a block of its own by
//! itself: no read of a small entry ever brings a large one.
//!
//! Nothing that was written is looked at again. The key section grows in memory meanwhile, goes to the file at the end
//! and is handed back, since the index wants it next. A file that is [searched by key](TableForm::ByKey) has an index there instead; its entries
//! stay in blocks, whether these become smaller or not.

mod by_key;

use std::path::Path;
use std::sync::Arc;

use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_order::KeyOrder;

use crate::block::NO_BLOCK;
use crate::block_builder::{BlockBuilder, ENTRY_HEAD_BYTES_AT_MOST};
use crate::compression::Compression;
use crate::entry::{EntryKind, NewEntry, Place, order_of_entries};
use crate::footer::{FOOTER_BYTES, Footer, HAS_INDEX};
use crate::index_builder::IndexBuilder;
use crate::key_chunk_sizes::{RUN_BYTES, RUN_HEAD_BYTES_AT_MOST};
use crate::key_section::{Chunk, KeySection, KeySectionBuilder};
use crate::layout::Layout;
use crate::options::{MAXIMUM_FILE_BYTES, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES, TableForm, TableOptions};
use crate::part::{Content, Identity, PartKind};
use crate::properties::Properties;
use crate::single;
use crate::trials::Trials;
use crate::writer::{KEPT_BYTES, PartWriter};

/// What one more entry can add to the file apart from its key, twice or three times, and its value: its head in the block
/// and in the key section, a new block's end, a new chunk's head. With room to spare.
const ENTRY_OVERHEAD_BYTES_AT_MOST: u64 = ENTRY_HEAD_BYTES_AT_MOST as u64 + 128;

/// A table file being written. Nothing of it counts before [`finish`](TableBuilder::finish) has returned.
///
/// After an error other than [`Error::Invalid`] nothing more can be written and every call repeats the error; the file is
/// still there then, as after [`abandon`](TableBuilder::abandon), for the caller to remove.
#[derive(Debug)]
pub struct TableBuilder {
    path: Arc<Path>,
    store_uuid: [u8; 16],
    options: TableOptions,
    writer: PartWriter,
    block: BlockBuilder,
    /// What the block's entries would take by themselves, in the key section, too.
    gathered_bytes: u64,
    trials: Trials,
    /// The content of a block that did not become smaller, kept for its memory.
    content: Vec<u8>,
    keys: KeySectionBuilder,
    /// In place of the key section, if the file is searched by key.
    index: Option<IndexBuilder>,
    properties: Properties,
    last_key: Vec<u8>,
    last_sequence: u64,
    order: KeyOrder,
    failure: Option<Error>,
}

/// What [`TableBuilder::finish`] returns: a table file whose content is durable. Its name is not yet: that takes
/// [`Env::sync_directory`].
#[derive(Debug, Clone)]
pub struct FinishedTable {
    /// What the file says about itself.
    pub properties: Properties,
    /// Its keys and their places, for the index. Empty for a file that is [searched by key](TableForm::ByKey).
    pub keys: KeySection,
    /// Its length in bytes: what was written, no more and no less.
    pub length_bytes: u64,
}

impl TableBuilder {
    /// Makes the file, which must not exist. (Never written over: a checkpoint may share it.) Its keys are ordered by bytes.
    ///
    /// [`Error::Invalid`] for options outside their limits.
    pub fn new(
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        options: TableOptions,
    ) -> Result<TableBuilder> {
        TableBuilder::new_in_order(env, path, number, store_uuid, options, KeyOrder::Bytewise)
    }

    /// As [`new`](TableBuilder::new), for a store with this order of keys.
    pub fn new_in_order(
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        options: TableOptions,
        order: KeyOrder,
    ) -> Result<TableBuilder> {
        options.check()?;
        let file = env.open_file(path, OpenMode::CreateNew)?;
        TableBuilder::in_file(file, env, path, number, store_uuid, options, order)
    }

    /// As [`TableBuilder::new`], in a file that is there already, under the name `path`, with space set aside in it:
    /// whatever it holds is written over from the front, and [`finish`](TableBuilder::finish) cuts it to what was
    /// written. No other name may share it.
    pub fn in_file(
        file: Arc<dyn File>,
        env: &dyn Env,
        path: &Path,
        number: u32,
        store_uuid: [u8; 16],
        options: TableOptions,
        order: KeyOrder,
    ) -> Result<TableBuilder> {
        let restart_interval = options.check()?;
        let index = match options.form {
            TableForm::ByPlace => None,
            TableForm::ByKey { filter_bits_per_key } => {
                Some(IndexBuilder::new(order.is_bytewise(), filter_bits_per_key))
            }
        };
        Ok(TableBuilder {
            path: Arc::from(path),
            store_uuid,
            options,
            writer: PartWriter::new(file, Identity::new(store_uuid, number), options.compression),
            block: BlockBuilder::new(restart_interval),
            gathered_bytes: 0,
            trials: Trials::default(),
            content: Vec::new(),
            keys: KeySectionBuilder::default(),
            index,
            properties: Properties::new(number, env.unix_time_ns()),
            last_key: Vec::new(),
            last_sequence: 0,
            order,
            failure: None,
        })
    }

    /// Appends an entry. Keys must ascend in the table's order; of one key there may be several versions, with descending
    /// sequence numbers. A delete has no value.
    ///
    /// [`Error::Invalid`], and nothing appended, if that is not so, if key or value is longer than the format takes, or
    /// if the file could pass [`MAXIMUM_FILE_BYTES`]: then end this table and put the entry into the next.
    pub fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<()> {
        self.check(key, sequence, kind, value)?;
        self.append(&NewEntry { key, sequence, kind, value }).inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// How long the file would be if it were finished now; at most that, since compression is not reckoned with for what
    /// is not written yet.
    pub fn estimated_bytes(&self) -> u64 {
        self.writer.offset()
            + self.gathered_bytes.max(self.block.length_bytes(self.writer.part_bytes()) as u64)
            + self.index_bytes()
            + self.properties_bytes()
            + FOOTER_BYTES as u64
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// Writes what is left and makes the file's content durable, though not its name.
    ///
    /// [`Error::Invalid`] if there is no entry: a table of none has no use and no smallest key.
    pub fn finish(mut self) -> Result<FinishedTable> {
        self.check_sound()?;
        if self.properties.entries == 0 {
            return Err(Error::invalid(format!("{}: a table without entries", self.path.display())));
        }
        if !self.block.is_empty() {
            self.end_block(None)?;
        }
        self.properties.data_bytes = self.writer.offset();
        self.properties.largest_key = std::mem::take(&mut self.last_key);
        let index = self.index.take();
        let (optional_parts, chunks, chunk_lengths) = match index {
            None => {
                let chunks = self.write_key_section()?;
                let lengths = chunks.iter().map(|(_, length)| *length).collect();
                (0, chunks.into_iter().map(|(chunk, _)| chunk).collect(), lengths)
            }
            Some(index) => (HAS_INDEX, Vec::new(), vec![self.write_index(index)?]),
        };
        let properties_offset = self.writer.offset();
        self.properties.encode(&chunk_lengths, self.writer.buffer());
        let properties_bytes = u64::from(self.writer.seal(PartKind::Properties)?.length);
        let footer = Footer {
            store_uuid: self.store_uuid,
            number: self.properties.number,
            key_section_offset: self.properties.data_bytes,
            key_section_bytes: properties_offset - self.properties.data_bytes,
            properties_offset,
            properties_bytes,
            file_bytes: properties_offset + properties_bytes + FOOTER_BYTES as u64,
            optional_parts,
        };
        self.writer.buffer().extend_from_slice(&footer.encode());
        let length_bytes = self.writer.finish()?;
        let covers_all = optional_parts & HAS_INDEX == 0;
        let (entries, data_bytes) =
            if covers_all { (self.properties.entries, self.properties.data_bytes) } else { (0, 0) };
        let keys = KeySection::new(self.path, chunks, entries, data_bytes, self.order);
        Ok(FinishedTable { properties: self.properties, keys, length_bytes })
    }

    /// Gives up. What was written stays for the caller to remove.
    pub fn abandon(self) {}

    /// The failure that ended this table, if one did.
    fn check_sound(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Refuses what can't be appended.
    fn check(&self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<()> {
        self.check_sound()?;
        let invalid = |what: String| Err(Error::invalid(format!("{}: {what}", self.path.display())));
        if key.len() > MAXIMUM_KEY_BYTES {
            return invalid(format!("a key of {} bytes: more than {MAXIMUM_KEY_BYTES}", key.len()));
        }
        if value.len() > MAXIMUM_VALUE_BYTES {
            return invalid(format!("a value of {} bytes: more than {MAXIMUM_VALUE_BYTES}", value.len()));
        }
        if kind == EntryKind::Delete && !value.is_empty() {
            return invalid("a delete with a value".to_string());
        }
        let last = (&*self.last_key, self.last_sequence);
        if self.properties.entries > 0 && order_of_entries(&self.order, (key, sequence), last).is_le() {
            return invalid("a key that is not larger than the one before, nor an older version of it".to_string());
        }
        if self.index.is_some() && self.properties.entries == u64::from(u32::MAX) {
            return invalid(format!("more than {} entries", u32::MAX));
        }
        // The key is also in the key section, or twice in the index, and, while it is the largest or as the smallest, in the properties.
        let copies = if self.index.is_some() { 4 } else { 3 };
        let more = (copies * key.len() + value.len()) as u64 + ENTRY_OVERHEAD_BYTES_AT_MOST;
        if self.estimated_bytes() + more > MAXIMUM_FILE_BYTES {
            return invalid(format!("the file would pass {MAXIMUM_FILE_BYTES} bytes"));
        }
        Ok(())
    }

    fn append(&mut self, entry: &NewEntry<'_>) -> Result<()> {
        if !self.block.is_empty() {
            let block_bytes = self.block.length_bytes_with(self.writer.part_bytes(), entry);
            let is_long_run = self.index.is_none() && self.keys.run_bytes_with(entry.key) > RUN_BYTES;
            if block_bytes > self.options.block_bytes || is_long_run {
                self.end_block(Some(entry.key))?;
            }
        }
        if let Some(index) = &mut self.index {
            let start = self.writer.part_start();
            self.block.add(self.writer.buffer(), start, entry);
            index.add(entry.key);
        } else if self.options.compression == Compression::None || self.trials.passes() {
            self.add_single(entry)?;
        } else {
            let start = self.writer.part_start();
            self.block.add(self.writer.buffer(), start, entry);
            self.keys.add(entry.key, entry.sequence, entry.kind);
            self.gathered_bytes += (single::stored_bytes(entry) + RUN_HEAD_BYTES_AT_MOST) as u64;
        }
        let is_older = self.properties.entries > 0 && self.last_key == entry.key;
        self.properties.count(entry.key, entry.sequence, entry.kind, entry.value.len(), is_older);
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
        self.last_sequence = entry.sequence;
        Ok(())
    }

    /// Writes the block that was gathered, or its entries by themselves. `next` is the key of the entry behind it.
    fn end_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.index.is_some() {
            return self.end_block_by_key(next);
        }
        self.block.finish(self.writer.buffer());
        self.gathered_bytes = 0;
        let mut content = std::mem::take(&mut self.content);
        match self.writer.seal_if_smaller(&mut content)? {
            Some(place) => {
                self.keys.end_run(place);
                self.properties.blocks += 1;
                self.trials.succeeded();
            }
            None => {
                self.keys.clear_run();
                self.add_singly(&content)?;
                self.trials.failed(self.options.block_bytes);
            }
        }
        if content.capacity() <= KEPT_BYTES {
            self.content = content;
        }
        Ok(())
    }

    /// Writes each entry of a block's content by itself; returns the last one's place.
    fn add_singly(&mut self, content: &[u8]) -> Result<Place> {
        let (path, offset) = (self.path.clone(), self.writer.offset());
        let corrupt = |what| Error::corruption(&path, offset, what);
        let layout = Layout::parse(content).ok_or_else(|| corrupt(NO_BLOCK))?;
        let (view, mut key) = (layout.of(content), Vec::new());
        let mut last = Place { offset: 0, length: 0 };
        for slot in 0..layout.entries {
            let entry = view.entry(slot).map_err(corrupt)?;
            key.clear();
            key.extend_from_slice(view.head(slot, entry.shared).map_err(corrupt)?);
            key.extend_from_slice(&content[entry.suffix]);
            let (sequence, kind, value) = (entry.sequence, entry.kind, &content[entry.value]);
            last = self.add_single(&NewEntry { key: &key, sequence, kind, value })?;
        }
        Ok(last)
    }

    fn add_single(&mut self, entry: &NewEntry<'_>) -> Result<Place> {
        let place = self.writer.add_single(entry)?;
        if self.index.is_none() {
            self.keys.add(entry.key, entry.sequence, entry.kind);
            self.keys.end_run(place);
        }
        self.properties.blocks += 1;
        self.trials.passed(place.length);
        Ok(place)
    }

    /// Writes the key section; returns its chunks with their lengths as stored.
    fn write_key_section(&mut self) -> Result<Vec<(Chunk, u32)>> {
        let mut chunks = Vec::new();
        for content in std::mem::take(&mut self.keys).finish() {
            let offset = self.writer.offset();
            self.writer.buffer().extend_from_slice(&content);
            let place = self.writer.seal(PartKind::Keys)?;
            let content = Content { length: content.len(), bytes: content.into(), was_compressed: false };
            chunks.push((Chunk { content, offset }, place.length));
        }
        Ok(chunks)
    }

    /// What the key section or the index would take now, at most.
    fn index_bytes(&self) -> u64 {
        match &self.index {
            None => self.keys.length_bytes(),
            Some(index) => index.length_bytes(self.last_key.len()),
        }
    }

    /// What the properties would take now, at most.
    fn properties_bytes(&self) -> u64 {
        let keys_bytes = self.properties.smallest_key.len() + self.last_key.len();
        Properties::length_bytes(keys_bytes, self.keys.chunks())
    }
}
