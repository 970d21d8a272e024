//! Cursors: the whole store in key order, forwards and backwards, as it was at one moment (paper, section 4 «Range
//! query»).
//!
//! A cursor merges the MemTables of its moment with the index. It keeps the MemTables alive. The index moves on:
//! versions that it no longer holds are in the map of replaced records ([`slmdb_engine::read::snapshots`]). Every source
//! gives at most one version of a key, the newest that the moment covers. Among sources the highest sequence number
//! wins, and a delete hides the key. A block is read only when a value is asked for.
//!
//! The store takes a cursor's moment in two steps ([`slmdb_engine::store::shared`]): it registers what is published, and takes the list of MemTables. If the list
//! has changed meanwhile, it starts over (INV-11). So everything up to its moment is in its list, or was in the index
//! before it registered. A cursor of a snapshot takes over the snapshot's moment, and the present list. That is enough,
//! because flushes keep what a snapshot sees.
//!
//! A cursor keeps alive the MemTables of its list and no later ones. So it costs what was in memory when it was made,
//! and flushes write nothing for it.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_engine::EngineCursor;
use slmdb_engine::files::location::Location;
use slmdb_engine::read::empty_ranges::PassedDeletes;
use slmdb_engine::read::memtable_iterator::MemTableSource;
use slmdb_engine::read::scan_buffers::ScanBuffers;
use slmdb_engine::read::snapshot_registry::SnapshotKind;
use slmdb_engine::read::temperature::Temperature;
use slmdb_engine::read::values_ahead::ValuesAhead;
use slmdb_engine::write::memtables::MemTableView;
use slmdb_env::{Error, Result};
use slmdb_order::CycleDetector;
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::Direction;
use slmdb_table::Slice;

use crate::index::index_iterator::IndexSource;
use crate::operations::ask_ahead::{SCOUT_BYTES, Scout};
use crate::operations::get::Reader;
use crate::operations::heading::Heading;
use crate::paper::PaperPolicy;
use crate::paper::sequentiality_degree::Sequentiality;

/// See [`EngineCursor`].
pub(crate) struct Cursor {
    reader: Arc<Reader>,
    memtables: Vec<MemTableSource>,
    index: IndexSource,
    heading: Heading,
    /// Where the current value is. `None`: the cursor is on no entry.
    at: Option<At>,
    /// The current key, or the last one.
    key: Vec<u8>,
    /// Whether the index stands on that key.
    is_index_on_key: bool,
    /// Whether no MemTable has an entry left in this direction. Never with a comparator, whose keys are watched one by one.
    is_index_alone: bool,
    /// Finds out if the comparator leads the cursor round in a circle (INV-25).
    cycle_detector: CycleDetector,
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

const ON_NO_ENTRY: &str = "the cursor is on no entry";

#[derive(Debug, Clone, Copy)]
enum At {
    MemTable(usize),
    Index(Location),
}

impl Cursor {
    /// A cursor on no entry, at a moment that is registered for it.
    pub(crate) fn new(reader: Arc<Reader>, moment: u64, view: &MemTableView) -> Cursor {
        let memtables = view.memtables.iter().map(|memtable| MemTableSource::new(memtable, moment)).collect();
        let index = IndexSource::new(moment);
        let (heading, key, cycle_detector) = (Heading::Forward, Vec::new(), CycleDetector::default());
        let sequentiality = reader.state.paper.as_ref().and_then(PaperPolicy::range_query);
        let (buffers, scout) = (ScanBuffers::new(Temperature::new(reader.store.tables.are_cold.load(Relaxed))), None);
        let (at, held_bytes) = (None, 0);
        Cursor {
            reader,
            memtables,
            index,
            heading,
            at,
            key,
            is_index_on_key: false,
            is_index_alone: false,
            cycle_detector,
            values_ahead: ValuesAhead::default(),
            buffers,
            lent: Slice::new(),
            scout,
            values_read: 0,
            held_bytes,
            sequentiality,
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

    /// Stops at the smallest key that is not deleted. REQUIRES: all sources are at or after the wanted place.
    fn settle_forward(&mut self) -> Result<()> {
        self.heading = Heading::Forward;
        let mut deletes = PassedDeletes::new(self.index.moment, true);
        while !self.settle_on(Ordering::Less)? {
            match deletes.pass(&self.key, &self.reader.store.writes.empty_ranges) {
                None => self.step_sources_forward()?,
                Some(key) => {
                    self.memtables.iter_mut().for_each(|source| source.seek(&key));
                    self.index.seek(&self.reader.state.index, &key)?;
                }
            }
        }
        self.end_deletes(deletes);
        Ok(())
    }

    /// Stops at the largest key that is not deleted. REQUIRES: all sources are before the wanted place.
    fn settle_backward(&mut self) -> Result<()> {
        self.heading = Heading::Backward;
        let mut deletes = PassedDeletes::new(self.index.moment, false);
        while !self.settle_on(Ordering::Greater)? {
            match deletes.pass(&self.key, &self.reader.store.writes.empty_ranges) {
                None => self.step_sources_backward()?,
                Some(key) => {
                    self.memtables.iter_mut().for_each(|source| source.seek_before(&key));
                    self.index.seek_before(&self.reader.state.index, &key)?;
                }
            }
        }
        self.end_deletes(deletes);
        Ok(())
    }

    #[inline]
    fn end_deletes(&self, deletes: PassedDeletes) {
        let writes = &self.reader.store.writes;
        deletes.end(&writes.empty_ranges, || writes.publication.begun());
    }

    /// Moves to the key of the sources that compares as `stands` to all others. Returns `false` if that key is
    /// deleted. If no source has a key left, the cursor is on no entry.
    fn settle_on(&mut self, stands: Ordering) -> Result<bool> {
        let order = self.reader.state.index.tree.order();
        self.at = None;
        let mut best = self.index.key();
        self.is_index_on_key = best.is_some();
        self.is_index_alone = order.is_bytewise() && self.memtables.iter().all(|source| !source.valid());
        for source in self.memtables.iter().filter(|source| source.valid()) {
            if best.is_none_or(|best| order.compare(source.key(), best) == stands) {
                (best, self.is_index_on_key) = (Some(source.key()), false);
            }
        }
        self.key.clear();
        let Some(best) = best else { return Ok(true) };
        self.key.extend_from_slice(best);
        if !order.is_bytewise() && !self.cycle_detector.visit(&self.key) {
            let what = format!("the comparator {:?} is no total order: a cursor came back to a key", order.name());
            return Err(Error::invalid(what));
        }

        let mut newest = 0;
        let mut deleted = false;
        if let Some(location) = self.index.location().filter(|_| self.is_index_on_key) {
            (newest, self.at) = (location.sequence, Some(At::Index(location)));
        }
        for (number, source) in self.memtables.iter().enumerate() {
            if source.valid() && source.key() == self.key && source.sequence() >= newest {
                newest = source.sequence();
                deleted = source.kind() == EntryKind::Delete;
                self.at = Some(At::MemTable(number));
            }
        }
        if deleted {
            self.at = None;
        }
        Ok(!deleted)
    }

    /// The value of the current key, at the place that the index or the map of replaced records had. A compaction may
    /// have moved the entry since and removed the file. Then the key is looked up again. `None`: [`Cursor::values_ahead`]
    /// has the value.
    fn value_at(&mut self, location: Location) -> Result<Option<Slice>> {
        let mut location = location;
        loop {
            match self.bring(location) {
                Ok(true) => {
                    self.account();
                    return Ok(None);
                }
                // If a compaction has moved the entry, fetching its block below finds that out.
                Err(error) if !self.reader.store.catalog.is_gone(location.file) => return Err(error),
                Ok(false) | Err(_) => {}
            }
            self.keep_key();
            let block = match self.buffers.block(location) {
                Some(block) => Ok(block.clone()),
                None => self.buffers.fetch(&self.reader.store.tables, &*self.reader, location),
            };
            self.account();
            match block {
                Ok(block) => return self.reader.store.tables.value_in(&block, &self.key, location).map(Some),
                Err(error) if self.reader.store.catalog.is_gone(location.file) => {
                    match self.reader.state.index.location_at(&self.key, self.index.moment)? {
                        Some(moved) if moved != location => location = moved,
                        _ => return Err(error),
                    }
                    self.at = Some(At::Index(location));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Has [`Cursor::values_ahead`] bring the value at a place; `false`: it can't.
    fn bring(&mut self, location: Location) -> Result<bool> {
        let (tables, seeks) = (&self.reader.store.tables, &*self.reader);
        match self.heading {
            Heading::Forward => self.values_ahead.bring(tables, seeks, self.index.entries_forward(), location),
            Heading::Backward => self.values_ahead.bring(tables, seeks, self.index.entries_backward(), location),
        }
    }

    fn value_in_memtable(&mut self, number: usize) -> &[u8] {
        if let Some(sequentiality) = &mut self.sequentiality {
            sequentiality.read(self.memtables[number].sequence(), None);
        }
        self.memtables[number].value()
    }

    /// The value of the current key at a place of the index, as [`Cursor::value_at`] has it.
    fn value_in_table(&mut self, location: Location) -> Result<Option<Slice>> {
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
        self.value_at(location)
    }

    /// Asks the disk for the value that is about to be read and for those behind it.
    fn ask_ahead(&mut self) {
        self.keep_key();
        let scout = self.scout.get_or_insert_with(|| Box::new(Scout::new(self.index.moment)));
        scout.ask(&self.reader, &self.key, self.heading, &mut self.values_read, &mut self.buffers.temperature);
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

    /// Leaves the current entry before a seek.
    fn leave_entry(&mut self) {
        self.at = None;
        self.cycle_detector.begin();
        self.values_ahead.prepare_seek();
        self.buffers.prepare_seek();
        self.account();
        self.end_range_query();
    }

    /// Moves to the next entry in this direction if only the index has entries left, and has read that one already; else `false`.
    #[inline]
    fn step_within_batch(&mut self, direction: Direction) -> bool {
        if !self.is_index_alone || !self.index.step(direction) {
            return false;
        }
        if let Some(scout) = &mut self.scout {
            scout.passed();
        }
        self.at = self.index.location().map(At::Index);
        true
    }

    /// Keeps the key that the cursor is on, if the index alone has it.
    fn keep_key(&mut self) {
        if self.is_index_alone {
            self.key.clear();
            self.key.extend_from_slice(self.index.key().unwrap_or_default());
        }
    }

    /// Moves every source that stands on the cursor's key past it.
    fn step_sources_forward(&mut self) -> Result<()> {
        for source in &mut self.memtables {
            if source.valid() && source.key() == self.key {
                source.next();
            }
        }
        self.step_index(Heading::Forward)
    }

    fn step_sources_backward(&mut self) -> Result<()> {
        for source in &mut self.memtables {
            if source.valid() && source.key() == self.key {
                source.prev();
            }
        }
        self.step_index(Heading::Backward)
    }

    fn step_index(&mut self, heading: Heading) -> Result<()> {
        if !self.is_index_on_key {
            return Ok(());
        }
        if let Some(scout) = &mut self.scout {
            scout.passed();
        }
        match heading {
            Heading::Forward => self.index.next(&self.reader.state.index),
            Heading::Backward => self.index.prev(&self.reader.state.index),
        }
    }
}

/// Every move first leaves the entry, so that after an error the cursor is on none.
impl EngineCursor for Cursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.leave_entry();
        self.memtables.iter_mut().for_each(|source| source.seek(key));
        self.index.seek(&self.reader.state.index, key)?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.leave_entry();
        self.memtables.iter_mut().for_each(|source| source.seek_before(key));
        self.index.seek_before(&self.reader.state.index, key)?;
        self.settle_backward()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.leave_entry();
        self.memtables.iter_mut().for_each(MemTableSource::seek_first);
        self.index.seek_first(&self.reader.state.index)?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.leave_entry();
        self.memtables.iter_mut().for_each(MemTableSource::seek_last);
        self.index.seek_last(&self.reader.state.index)?;
        self.settle_backward()
    }

    fn next(&mut self) -> Result<()> {
        if self.at.take().is_none() {
            return Ok(());
        }
        if self.heading == Heading::Forward && self.step_within_batch(Direction::Forward) {
            return Ok(());
        }
        self.keep_key();
        if self.heading == Heading::Backward {
            self.cycle_detector.begin();
            let key = self.key.clone();
            self.memtables.iter_mut().for_each(|source| source.seek(&key));
            self.index.seek(&self.reader.state.index, &key)?;
            self.is_index_on_key = self.index.key() == Some(&key);
        }
        self.step_sources_forward()?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if self.at.take().is_none() {
            return Ok(());
        }
        if self.heading == Heading::Backward && self.step_within_batch(Direction::Backward) {
            return Ok(());
        }
        self.keep_key();
        if self.heading == Heading::Forward {
            let key = self.key.clone();
            return self.seek_before(&key);
        }
        self.step_sources_backward()?;
        self.settle_backward()
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        match self.at {
            None => &[],
            Some(At::MemTable(_)) => &self.key,
            Some(At::Index(_)) => self.index.key().unwrap_or_default(),
        }
    }

    fn value(&mut self) -> Result<Slice> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::MemTable(number)) => Ok(Slice::from(self.value_in_memtable(number))),
            Some(At::Index(location)) => {
                if let Some(value) = self.value_in_table(location)? {
                    return Ok(value);
                }
                let value = self.values_ahead.take_value();
                self.account();
                Ok(value)
            }
        }
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::MemTable(number)) => Ok(self.value_in_memtable(number)),
            Some(At::Index(location)) => match self.value_in_table(location)? {
                None => Ok(self.values_ahead.value_lent()),
                Some(value) => {
                    self.lent = value;
                    Ok(&self.lent)
                }
            },
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.end_range_query();
        let is_cold = self.buffers.temperature.is_cold();
        if self.reader.store.tables.are_cold.load(Relaxed) != is_cold {
            self.reader.store.tables.are_cold.store(is_cold, Relaxed);
        }
        (self.values_ahead, self.buffers, self.scout) = (ValuesAhead::default(), ScanBuffers::default(), None);
        self.account();
        self.memtables.clear();
        self.reader.store.release(self.index.moment, SnapshotKind::Cursor, 0);
    }
}

#[cfg(test)]
mod buffer_tests;
#[cfg(test)]
mod read_ahead_tests;

#[cfg(test)]
mod tests;
