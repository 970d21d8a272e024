//! Verification of a whole table file.
//!
//! Blocks can't be found by looking at them; the key section names them. So it is gone through chunk by chunk, and for
//! each of its entries the block it names must have that very entry next. What the blocks say is summed up on the way and
//! compared with the properties at the end. Files that are searched by key have chunks that name blocks and no entries (module `by_key`). Memory: one chunk, one window, one block.

use std::sync::Arc;

use slmdb_env::{Error, Result};

use crate::cursor::BlockCursor;
use crate::entry::{KeyEntry, Place, order_of_entries};
use crate::key_section::{Chunk, ChunkEntries};
use crate::properties::Properties;
use crate::reader::TableReader;
use crate::sequential::SequentialReader;

mod by_key;

/// How much of the blocks is read at a time, and how often progress is told.
const WINDOW_BYTES: usize = 1 << 20;

impl TableReader {
    /// Reads the whole file and checks all of it: each block and its entries' order, that the key section says the same
    /// as the blocks, that the properties are right, and that nothing but that is in the file. Returns everything found
    /// wrong; a damaged key chunk leaves the blocks unchecked that it alone names.
    ///
    /// `progress` is called now and then with the number of bytes of this file that are done; at the end with its length.
    pub fn verify(&self, progress: &mut dyn FnMut(u64)) -> Vec<Error> {
        verify(self, progress)
    }
}

fn verify(table: &TableReader, progress: &mut dyn FnMut(u64)) -> Vec<Error> {
    let mut verifier = Verifier {
        table,
        blocks: table.sequential(WINDOW_BYTES),
        findings: Vec::new(),
        sums: Properties::new(table.properties.number, table.properties.created_unix_ns),
        last_key: Vec::new(),
        last_sequence: 0,
        blocks_end: 0,
        seamless: true,
        whole: true,
        done_bytes: 0,
        length_in_header: 0,
        progress,
    };
    verifier.head();
    if let Some(top) = &table.top {
        verifier.chunks_of(top);
        verifier.end();
        return verifier.findings;
    }
    for (offset, length) in table.chunk_places() {
        verifier.done_bytes += length;
        match table.read_chunk(offset, length) {
            Ok(chunk) => verifier.chunk(&chunk),
            Err(error) => verifier.lose_chunk(error),
        }
    }
    verifier.end();
    verifier.findings
}

struct Verifier<'a> {
    table: &'a TableReader,
    blocks: SequentialReader,
    findings: Vec<Error>,
    /// What the properties should say.
    sums: Properties,
    last_key: Vec<u8>,
    last_sequence: u64,
    /// Where the last known block ended.
    blocks_end: u64,
    /// Whether the next block must start there. After a damaged chunk it may be further on, though never before: no
    /// block is looked at twice, however often chunks name it.
    seamless: bool,
    /// Whether everything could be looked at, so that the sums mean something.
    whole: bool,
    done_bytes: u64,
    length_in_header: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl Verifier<'_> {
    /// Footer and properties, anew: the file may have changed since it was opened.
    fn head(&mut self) {
        let table = self.table;
        let (source, footer) = (&table.source, &table.footer);
        self.done_bytes += footer.file_bytes - footer.properties_offset;
        let (file, path, order) = (Arc::clone(&source.file), source.path.clone(), source.order.clone());
        match TableReader::load(file, path, footer.number, footer.store_uuid, order) {
            Err(error) => self.findings.push(error),
            Ok(now) => {
                let same = now.footer == *footer && now.properties == table.properties;
                let top = |table: &TableReader| table.top.as_ref().map(|top| top.as_slice().to_vec());
                if !same || now.chunk_lengths != table.chunk_lengths || top(&now) != top(table) {
                    let what = "properties: changed since the file was opened";
                    self.find(footer.properties_offset, what);
                }
            }
        }
    }

    fn error(&self, offset: u64, what: &str) -> Error {
        Error::corruption(self.table.path(), offset, what)
    }

    fn find(&mut self, offset: u64, what: &str) {
        self.findings.push(self.error(offset, what));
    }

    fn lose_chunk(&mut self, error: Error) {
        self.findings.push(error);
        self.seamless = false;
        self.whole = false;
    }

    fn chunk(&mut self, chunk: &Chunk) {
        if let Err(error) = self.entries_of(chunk) {
            self.lose_chunk(error);
        }
    }

    /// Goes through a chunk and its blocks. What is wrong with a block is a finding and ends that block; what is wrong
    /// with the chunk is the error returned.
    fn entries_of(&mut self, chunk: &Chunk) -> Result<()> {
        let mut entries = ChunkEntries::new(chunk, self.table.path())?;
        let first_block = u64::from(entries.position.place.offset);
        if first_block < self.blocks_end || (self.seamless && first_block != self.blocks_end) {
            return Err(entries.corrupt("does not go on where the one before ended"));
        }
        if self.whole && entries.position.first_ordinal != self.sums.entries {
            return Err(entries.corrupt("does not count on where the one before ended"));
        }
        self.seamless = true;
        let mut block: Option<OpenBlock> = None;
        while let Some(entry) = entries.advance()? {
            let (last, here) = ((&*self.last_key, self.last_sequence), (entry.key, entry.sequence));
            if self.sums.entries > 0 && order_of_entries(&self.table.source.order, last, here).is_ge() {
                return Err(entries.corrupt("its keys do not ascend"));
            }
            let is_older = self.sums.entries > 0 && self.last_key == entry.key;
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
            self.last_sequence = entry.sequence;
            if block.as_ref().is_none_or(|block| block.place != entry.place) {
                if let Some(block) = block.take() {
                    self.end_block(block);
                }
                block = Some(self.begin_block(entry.place));
            }
            if let Some(block) = &mut block {
                self.entry(block, &entry, is_older);
            }
        }
        if let Some(block) = block {
            self.end_block(block);
        }
        Ok(())
    }

    fn begin_block(&mut self, place: Place) -> OpenBlock {
        self.sums.blocks += 1;
        self.blocks_end = place.end();
        self.done_bytes += u64::from(place.length);
        if self.done_bytes - self.length_in_header >= WINDOW_BYTES as u64 {
            self.length_in_header = self.done_bytes;
            (self.progress)(self.done_bytes.min(self.table.footer.file_bytes));
        }
        let opened = self.blocks.read_block(place).and_then(|block| {
            let mut cursor = block.cursor();
            cursor.seek_first()?;
            Ok(cursor)
        });
        OpenBlock { place, cursor: self.or_find(opened) }
    }

    /// Compares an entry of the key section with the next one of its block, and goes on in that.
    fn entry(&mut self, block: &mut OpenBlock, entry: &KeyEntry<'_>, is_older: bool) {
        let mut value_bytes = 0;
        if let Some(mut cursor) = block.cursor.take() {
            value_bytes = cursor.value().len();
            let compared = compare(&cursor, entry).map_err(|what| self.error(block.place.offset.into(), what));
            let moved = compared.and_then(|()| cursor.next()).map(|()| cursor);
            block.cursor = self.or_find(moved);
        }
        self.sums.count(entry.key, entry.sequence, entry.kind, value_bytes, is_older);
    }

    fn end_block(&mut self, block: OpenBlock) {
        if block.cursor.is_some_and(|cursor| cursor.valid()) {
            self.find(block.place.offset.into(), "block: it has entries that the key section has not");
        }
    }

    /// The value, or `None` and a finding.
    fn or_find<T>(&mut self, result: Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                self.whole = false;
                self.findings.push(error);
            })
            .ok()
    }

    fn end(&mut self) {
        let footer = &self.table.footer;
        if self.whole {
            self.sums.largest_key = std::mem::take(&mut self.last_key);
            self.sums.data_bytes = self.blocks_end;
            if self.sums.data_bytes != footer.key_section_offset {
                self.find(footer.key_section_offset, "key section: does not cover all blocks");
            } else if self.sums != self.table.properties {
                self.find(footer.properties_offset, "properties: not those of the entries");
            }
        }
        (self.progress)(footer.file_bytes);
    }
}

/// What is wrong with the entry that a block has where the key section has this one.
fn compare(cursor: &BlockCursor, entry: &KeyEntry<'_>) -> Result<(), &'static str> {
    if !cursor.valid() {
        return Err("block: the key section has entries that it has not");
    }
    let found = (cursor.key(), cursor.sequence(), cursor.kind());
    if found != (entry.key, entry.sequence, entry.kind) {
        return Err("block: its entries are not those of the key section");
    }
    if !cursor.has_right_tag() {
        return Err("block: a tag is not that of its key");
    }
    Ok(())
}

/// A block whose entries are being compared; without a cursor once something is wrong with it.
struct OpenBlock {
    place: Place,
    cursor: Option<BlockCursor>,
}

#[cfg(test)]
mod tests;
