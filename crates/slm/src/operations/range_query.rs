//! A cursor's view of the index, as it was at one moment (paper, section 4 «Range query»).
//!
//! The index moves on while a cursor is there: versions that it no longer holds are in the map of replaced records
//! ([`slmdb_engine::read::snapshots`]). A block is read only when a value is asked for.

pub(crate) mod spare_buffers;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_engine::read::scan_buffers::ScanBuffers;
use slmdb_engine::read::temperature::Temperature;
use slmdb_engine::read::values_ahead::ValuesAhead;
use slmdb_engine::store::cursor::{SeekTo, TierCursor};
use slmdb_env::{Error, Result};
use slmdb_order::{Direction, EntryKind};
use slmdb_table::Slice;

use crate::index::index_iterator::IndexSource;
use crate::operations::ask_ahead::{SCOUT_BYTES, Scout};
use crate::operations::get::Reader;
use crate::paper::PaperPolicy;
use crate::paper::sequentiality_degree::Sequentiality;

/// See [`TierCursor`].
pub(crate) struct SlmCursor {
    reader: Arc<Reader>,
    index: IndexSource,
    direction: Direction,
    /// The current value and those that follow, where entries stand by themselves in mapped files.
    values_ahead: ValuesAhead,
    /// What it keeps of the files that it scans.
    buffers: ScanBuffers,
    /// The last value that was lent from these.
    lent: Slice,
    /// Asks the disk for what comes next, where data is cold.
    scout: Option<Box<Scout>>,
    /// Values that were read from table files in this range query.
    values_read: usize,
    /// Memory of the buffers and the scout, as reported to the budget.
    held_bytes: u64,
    /// In how many files the keys of the range query are, where the paper's policy asks for that.
    sequentiality: Option<Box<Sequentiality>>,
}

impl SlmCursor {
    /// A cursor on no key, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64) -> SlmCursor {
        let are_cold = reader.store.tables.are_cold.load(Relaxed);
        let (read, values_ahead) = reader.spare_buffers.take();
        SlmCursor {
            sequentiality: reader.state.paper.as_ref().and_then(PaperPolicy::range_query),
            reader,
            index: IndexSource::new(moment, read),
            direction: Direction::Forward,
            values_ahead,
            buffers: ScanBuffers::new(Temperature::new(are_cold)),
            lent: Slice::new(),
            scout: None,
            values_read: 0,
            held_bytes: 0,
        }
    }

    /// Reports the memory of its buffers to the budget.
    fn account(&mut self) {
        let buffers_bytes = self.values_ahead.memory_bytes() + self.buffers.memory_bytes();
        let bytes = buffers_bytes + self.scout.as_ref().map_or(0, |_| SCOUT_BYTES);
        if bytes != self.held_bytes {
            self.reader.store.context.budget.cursor_blocks.replace(self.held_bytes, bytes);
            self.held_bytes = bytes;
        }
    }

    /// The value of the current key. `None`: [`SlmCursor::values_ahead`] has it.
    fn read_value(&mut self) -> Result<Option<Slice>> {
        let Some(location) = self.index.location() else { return Ok(Some(Slice::new())) };
        if let Some(sequentiality) = &mut self.sequentiality {
            sequentiality.read(location.sequence, Some(location.file));
        }
        if self.values_ahead.turn_to(&*self.reader, location) {
            return Ok(None);
        }
        if self.buffers.temperature.is_cold() && !self.buffers.is_in_order() {
            self.ask_ahead();
        }
        self.values_read += 1;
        let value = self.value_at();
        self.account();
        value
    }

    /// The value of the current key, at the place that the index or the map of replaced records had. A compaction may
    /// have moved the entry since and removed the file. Then the key is looked up again.
    fn value_at(&mut self) -> Result<Option<Slice>> {
        let (Some(key), Some(mut location)) = (self.index.key(), self.index.location()) else { return Ok(None) };
        let (tables, seeks) = (&self.reader.store.tables, &*self.reader);
        loop {
            let brought = match self.direction {
                Direction::Forward => self.values_ahead.bring(tables, seeks, self.index.entries_forward(), location),
                Direction::Backward => self.values_ahead.bring(tables, seeks, self.index.entries_backward(), location),
            };
            let block = match brought {
                Ok(true) => break Ok(None),
                // If a compaction has moved the entry, fetching its block below finds that out.
                Err(error) if !self.reader.store.catalog.is_gone(location.file) => break Err(error),
                Ok(false) | Err(_) => match self.buffers.block(location) {
                    Some(block) => Ok(block.clone()),
                    None => self.buffers.fetch(tables, seeks, location),
                },
            };
            match block {
                Ok(block) => break tables.value_in(&block, key, location).map(Some),
                Err(error) if self.reader.store.catalog.is_gone(location.file) => {
                    match self.reader.state.index.location_at(key, self.index.moment)? {
                        Some(moved) if moved != location => location = moved,
                        _ => break Err(error),
                    }
                }
                Err(error) => break Err(error),
            }
        }
    }

    /// Asks the disk for the value that is about to be read and for those behind it.
    fn ask_ahead(&mut self) {
        let scout = self.scout.get_or_insert_with(|| Box::new(Scout::new(self.index.moment)));
        let key = self.index.key().unwrap_or_default();
        scout.ask(&self.reader, key, self.direction, &mut self.values_read, &mut self.buffers.temperature);
    }

    /// Ends the range query. Another may begin.
    fn end_range_query(&mut self) {
        let values_read = std::mem::take(&mut self.values_read);
        if let Some(scout) = self.scout.as_mut().filter(|_| values_read > 0) {
            scout.end_range();
            self.reader.cold_ranges.record(values_read);
        }
        if let (Some(sequentiality), Some(paper)) = (&mut self.sequentiality, &self.reader.state.paper) {
            paper.range_query_ended(sequentiality.end());
        }
    }
}

impl TierCursor for SlmCursor {
    fn begin_range(&mut self) {
        self.values_ahead.prepare_seek();
        self.buffers.prepare_seek();
        self.account();
        self.end_range_query();
    }

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.direction = to.direction();
        let index = &self.reader.state.index;
        match to {
            SeekTo::First => self.index.seek_first(index),
            SeekTo::Last => self.index.seek_last(index),
            SeekTo::At(key) => self.index.seek(index, key),
            SeekTo::Before(key) => self.index.seek_before(index, key),
        }
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(scout) = &mut self.scout {
            scout.passed();
        }
        match self.direction {
            Direction::Forward => self.index.next(&self.reader.state.index),
            Direction::Backward => self.index.prev(&self.reader.state.index),
        }
    }

    #[inline]
    fn advance_to_known(&mut self) -> bool {
        if !self.index.step(self.direction) {
            return false;
        }
        if let Some(scout) = &mut self.scout {
            scout.passed();
        }
        true
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.index.key()
    }

    /// The index points to puts only.
    #[inline]
    fn version(&self) -> (u64, EntryKind) {
        (self.index.location().map_or(0, |location| location.sequence), EntryKind::Put)
    }

    fn value(&mut self) -> Result<Slice> {
        if let Some(value) = self.read_value()? {
            return Ok(value);
        }
        let value = self.values_ahead.take_value();
        self.account();
        Ok(value)
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        match self.read_value()? {
            None => Ok(self.values_ahead.value_lent()),
            Some(value) => {
                self.lent = value;
                Ok(&self.lent)
            }
        }
    }

    fn note_memtable_value(&mut self, sequence: u64) {
        if let Some(sequentiality) = &mut self.sequentiality {
            sequentiality.read(sequence, None);
        }
    }

    fn out_of_order(&self) -> Error {
        Error::corruption(self.reader.state.index.pool.path(), 0, "the keys of the index do not ascend")
    }

    fn let_go(&mut self) -> u64 {
        self.end_range_query();
        let is_cold = self.buffers.temperature.is_cold();
        if self.reader.store.tables.are_cold.load(Relaxed) != is_cold {
            self.reader.store.tables.are_cold.store(is_cold, Relaxed);
        }
        let values_ahead = std::mem::take(&mut self.values_ahead);
        (self.buffers, self.scout) = (ScanBuffers::default(), None);
        self.account();
        self.reader.spare_buffers.give(self.index.take_buffers(), values_ahead);
        0
    }
}

#[cfg(test)]
mod buffer_tests;
#[cfg(test)]
mod read_ahead_tests;

#[cfg(test)]
mod tests;
