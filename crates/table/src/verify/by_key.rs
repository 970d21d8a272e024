//! Verification of a file that is searched by key.
//!
//! The top names the chunks, and these the blocks. What is in a block must lie between its separators, and its keys must be
//! what the chunk's filter is made of: the filter is made again and compared.

use slmdb_env::{Error, Result};

use super::{OpenBlock, Verifier};
use crate::entry::{Place, order_of_entries};
use crate::index_chunk::{IndexChunk, Row, Separator};

/// A filter being made again.
struct Filter {
    bytes: Vec<u8>,
    probes: u32,
    /// Whether all keys could be read.
    is_whole: bool,
}

impl Verifier<'_> {
    /// Goes through all chunks and their blocks.
    pub(super) fn chunks_of(&mut self, top: &IndexChunk) {
        for number in 0..top.rows() {
            let place = top.row(number).place;
            let before = number.checked_sub(1).map(|before| top.separator(before));
            self.done_bytes += u64::from(place.length);
            let read = self.table.read_index_chunk(place);
            if let Err(error) = read.and_then(|chunk| self.blocks_of(&chunk, place, before)) {
                self.lose_chunk(error);
            }
        }
    }

    /// Goes through a chunk's blocks, as `entries_of` goes through those of a key chunk. `before` stands before the first of them.
    fn blocks_of<'a>(&mut self, chunk: &'a IndexChunk, place: Place, mut before: Option<Separator<'a>>) -> Result<()> {
        let source = &self.table.source;
        let first_block = u64::from(chunk.row(0).place.offset);
        if first_block < self.blocks_end || (self.seamless && first_block != self.blocks_end) {
            return Err(source.corrupt_chunk(place, "does not go on where the one before ended"));
        }
        self.seamless = true;
        let bytes = vec![0; chunk.filter().len()];
        let mut filter = Filter { bytes, probes: chunk.probes(), is_whole: true };
        for row in (0..chunk.rows()).map(|row| chunk.row(row)) {
            let separator = row.separator;
            if before.is_some_and(|before| before.compare(&source.order, separator.key, separator.sequence).is_ge()) {
                return Err(source.corrupt_chunk(place, "its separators do not ascend"));
            }
            let block = self.begin_block(row.place);
            let walked = self.walk(block, &row, before, &mut filter).map_err(|what| source.corrupt_chunk(place, what));
            walked.inspect_err(|_| self.blocks_end = row.place.end())?;
            before = Some(separator);
        }
        if filter.is_whole && filter.bytes != chunk.filter() {
            return Err(source.corrupt_chunk(place, "its filter is not that of its keys"));
        }
        Ok(())
    }

    /// Goes through a block. What is wrong with it is a finding; what is wrong with its row is the error returned.
    fn walk(
        &mut self,
        block: OpenBlock,
        row: &Row<'_>,
        before: Option<Separator<'_>>,
        filter: &mut Filter,
    ) -> Result<(), &'static str> {
        let Some(mut cursor) = block.cursor else {
            filter.is_whole = false;
            return Ok(());
        };
        let order = self.table.source.order.clone();
        if before.is_some_and(|before| before.compare(&order, cursor.key(), cursor.sequence()).is_ge()) {
            return Err("a separator is behind what follows it");
        }
        let mut entries = 0;
        while cursor.valid() {
            entries += 1;
            if !cursor.has_right_tag() {
                self.lose_block(row.place, "block: a tag is not that of its key");
                filter.is_whole = false;
            }
            let (key, sequence) = (cursor.key(), cursor.sequence());
            let is_older = self.sums.entries > 0 && self.last_key == key;
            self.sums.count(key, sequence, cursor.kind(), cursor.value().len(), is_older);
            if !filter.bytes.is_empty() {
                slmdb_filter::insert(&mut filter.bytes, filter.probes, slmdb_filter::hash_of(key));
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
            self.last_sequence = sequence;
            if let Err(error) = cursor.next() {
                self.findings.push(error);
                (self.whole, filter.is_whole) = (false, false);
                return Ok(());
            }
        }
        let (last, separator) = ((&*self.last_key, self.last_sequence), row.separator);
        let side = order_of_entries(&order, last, (separator.key, separator.sequence));
        if side.is_gt() || (separator.goes_on && side.is_ne()) {
            return Err("a separator is before what it stands behind");
        }
        if entries != row.entries {
            return Err("does not tell how many entries a block has");
        }
        Ok(())
    }

    fn lose_block(&mut self, place: Place, what: &str) {
        self.whole = false;
        self.findings.push(Error::corruption(self.table.path(), place.offset.into(), what));
    }
}

#[cfg(test)]
mod tests;
