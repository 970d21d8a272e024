//! Cursors: the whole store in key order, forwards and backwards, as it was at one moment (paper, section 4 «Range
//! query»).
//!
//! A cursor merges the MemTables of its moment, which it keeps alive, with the index, which moves on; what the index no
//! longer holds for it is in the map of replaced records ([`crate::index::snapshots`]). Every source gives at most one version a
//! key, the newest that the moment covers; among sources the highest sequence number wins, and a delete hides the key.
//! Blocks are read when a value is asked for, not before.
//!
//! Taking the moment: the cursor registers, which tells it what is published, and takes the list of MemTables; if the list
//! has changed meanwhile it starts over. So everything up to its moment is in the list it holds, or was in the index
//! before it registered. A cursor of a snapshot takes over that one's moment, and the list as it is then: for a snapshot
//! flushes have seen to it that this does.
//!
//! The MemTables of its list are all that a cursor keeps alive, however many follow. So it costs what was in memory when it
//! was made, and flushes write nothing for it that a scan of a moment would leave behind as garbage.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use slmdb_engine::EngineCursor;
use slmdb_engine::files::location::Location;
use slmdb_engine::read::memtable_iterator::MemTableSource;
use slmdb_engine::write::memtables::MemTableView;
use slmdb_env::{Error, Result};
use slmdb_order::Passage;
use slmdb_pmem::Medium;
use slmdb_structures::EntryKind;
use slmdb_table::Slice;

use crate::index::index_iterator::IndexSource;
use crate::index::snapshots::SnapshotKind;
use crate::operations::ask_ahead::{SCOUT_BYTES, Scout, Temperature};
use crate::operations::get::Reader;
use crate::operations::heading::Heading;
use crate::operations::scan_buffers::ScanBuffers;
use crate::operations::values_ahead::ValuesAhead;
use crate::selection::sequentiality_degree::Sequentiality;

/// See [`EngineCursor`].
pub(crate) struct Cursor<M: Medium + Clone> {
    reader: Arc<Reader<M>>,
    moment: u64,
    memtables: Vec<MemTableSource<M>>,
    index: IndexSource,
    heading: Heading,
    /// Where the value is that the cursor is on; `None`: it is on none.
    at: Option<At>,
    /// The key that it is on, or was on last.
    key: Vec<u8>,
    /// Whether the index stands on that key.
    is_index_on_key: bool,
    /// Whether no MemTable has an entry left where the cursor goes. (Never with a comparator, whose keys are watched one by one.)
    is_index_alone: bool,
    /// The keys passed since the cursor was placed or turned round, if the order is a comparator's.
    passage: Passage,
    /// The value that it is on, and those that follow, where entries stand by themselves in mapped files.
    values_ahead: ValuesAhead,
    /// The blocks that the last values came from: neighbours often share one.
    at_hand: ScanBuffers,
    /// The last value that was lent from one of these.
    lent: Slice,
    /// Asks for what comes next, where data is cold.
    scout: Option<Box<Scout>>,
    /// What these take in memory, as the budget knows it.
    held_bytes: u64,
    /// How many files a range query has had to turn to.
    sequentiality: Sequentiality,
}

const ON_NO_ENTRY: &str = "the cursor is on no entry";

#[derive(Debug, Clone, Copy)]
enum At {
    MemTable(usize),
    Index(Location),
}

impl<M: Medium + Clone> Cursor<M> {
    /// A cursor on no entry, at the present moment.
    pub(crate) fn new(reader: Arc<Reader<M>>) -> Cursor<M> {
        let (moment, view) = loop {
            let before = reader.writes.view.load_full();
            let moment =
                reader.index.snapshots.register(SnapshotKind::Cursor, || reader.writes.publication.published());
            let after = reader.writes.view.load_full();
            if Arc::ptr_eq(&before, &after) {
                break (moment, before);
            }
            reader.release(moment, SnapshotKind::Cursor);
        };
        Cursor::over(reader, moment, &view)
    }

    /// A cursor on no entry, at the moment of a snapshot that is held.
    pub(crate) fn at(reader: Arc<Reader<M>>, moment: u64) -> Cursor<M> {
        let moment = reader.index.snapshots.register(SnapshotKind::Cursor, || moment);
        let view = reader.writes.view.load_full();
        Cursor::over(reader, moment, &view)
    }

    fn over(reader: Arc<Reader<M>>, moment: u64, view: &MemTableView<M>) -> Cursor<M> {
        let memtables = view.memtables.iter().map(|memtable| MemTableSource::new(memtable, moment)).collect();
        let index = IndexSource::new(moment);
        let (heading, key, passage) = (Heading::Forward, Vec::new(), Passage::default());
        let sequentiality = reader.naming.candidates.range_query();
        let (at_hand, scout) = (ScanBuffers::new(Temperature::new(reader.tables.are_cold.load(Relaxed))), None);
        let (at, held_bytes) = (None, 0);
        Cursor {
            reader,
            moment,
            memtables,
            index,
            heading,
            at,
            key,
            is_index_on_key: false,
            is_index_alone: false,
            passage,
            values_ahead: ValuesAhead::default(),
            at_hand,
            lent: Slice::new(),
            scout,
            held_bytes,
            sequentiality,
        }
    }

    /// Tells the budget what is at hand.
    fn account(&mut self) {
        let at_hand_bytes = self.values_ahead.memory_bytes() + self.at_hand.memory_bytes();
        let bytes = at_hand_bytes + self.scout.as_ref().map_or(0, |_| SCOUT_BYTES);
        if bytes != self.held_bytes {
            self.reader.context.budget.cursor_blocks.replace(self.held_bytes, bytes);
            self.held_bytes = bytes;
        }
    }

    /// With all sources at or after the wanted place: stops at the smallest key that is not deleted.
    fn settle_forward(&mut self) -> Result<()> {
        self.heading = Heading::Forward;
        while !self.settle_on(Ordering::Less)? {
            self.step_sources_forward()?;
        }
        Ok(())
    }

    /// With all sources before the wanted place: stops at the largest key that is not deleted.
    fn settle_backward(&mut self) -> Result<()> {
        self.heading = Heading::Backward;
        while !self.settle_on(Ordering::Greater)? {
            self.step_sources_backward()?;
        }
        Ok(())
    }

    /// Makes that one of the sources' keys which stands so to all others the cursor's, unless it is deleted (then:
    /// `false`). If no source has one left, the cursor is on none.
    fn settle_on(&mut self, stands: Ordering) -> Result<bool> {
        let order = self.reader.index.tree.order();
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
        if !order.is_bytewise() && !self.passage.pass(&self.key) {
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

    /// The value of its key at a place that was in the index, or in the map of replaced records, when its leaf was read. A
    /// compaction may have moved it since and removed the file; then it is looked for again.
    /// `None`: [`Cursor::values_ahead`] has it.
    fn value_at(&mut self, location: Location) -> Result<Option<Slice>> {
        let mut location = location;
        loop {
            let direction = self.heading.direction();
            match self.values_ahead.bring(&self.reader, (&self.index, direction), location) {
                Ok(true) => {
                    self.account();
                    return Ok(None);
                }
                // If a compaction has moved it, who asks for the block finds out where to.
                Err(error) if !self.reader.catalog.is_gone(location.file) => return Err(error),
                Ok(false) | Err(_) => {}
            }
            self.keep_key();
            let block = match self.at_hand.block(location) {
                Some(block) => Ok(block.clone()),
                None => self.at_hand.fetch(&self.reader, location),
            };
            self.account();
            match block {
                Ok(block) => return self.reader.tables.value_in(&block, &self.key, location).map(Some),
                Err(error) if self.reader.catalog.is_gone(location.file) => {
                    match self.reader.index.location_at(&self.key, self.moment)? {
                        Some(moved) if moved != location => location = moved,
                        _ => return Err(error),
                    }
                    self.at = Some(At::Index(location));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn value_in_memtable(&mut self, number: usize) -> &[u8] {
        self.sequentiality.read(self.memtables[number].sequence(), None);
        self.memtables[number].value()
    }

    /// The value of its key at a place of the index, as [`Cursor::value_at`] has it.
    fn value_in_table(&mut self, location: Location) -> Result<Option<Slice>> {
        self.sequentiality.read(location.sequence, Some(location.file));
        if self.values_ahead.turn_to(&self.reader, location) {
            return Ok(None);
        }
        if self.at_hand.temperature.is_cold() && !self.at_hand.goes_through_a_file() {
            self.ask_ahead();
        }
        self.value_at(location)
    }

    /// Asks the disk for the value that is about to be read, and for those behind it, where that gains something.
    fn ask_ahead(&mut self) {
        self.keep_key();
        let scout = self.scout.get_or_insert_with(|| Box::new(Scout::new(self.moment)));
        scout.ask(&self.reader, &self.key, self.heading, &mut self.at_hand.temperature);
    }

    /// The range query is done, and another may begin.
    fn end_range_query(&mut self) {
        let files = self.sequentiality.end();
        if files.len() > 1 {
            self.reader.naming.range_query_ended(files);
        }
    }

    /// The cursor leaves its entry, for a place that does not follow from it.
    fn set_out(&mut self) {
        self.at = None;
        self.passage.begin();
        self.values_ahead.set_out();
        self.at_hand.set_out();
        self.account();
        if let Some(scout) = &mut self.scout {
            scout.turn_back();
        }
        self.end_range_query();
    }

    /// Moves to the next entry in this direction if only the index has entries left, and has read that one already; else `false`.
    #[inline]
    fn step_within_batch(&mut self, heading: Heading) -> bool {
        if !self.is_index_alone || !self.index.step(heading.direction()) {
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
            Heading::Forward => self.index.next(&self.reader.index),
            Heading::Backward => self.index.prev(&self.reader.index),
        }
    }
}

/// Every move first leaves the entry, so that after an error the cursor is on none.
impl<M: Medium + Clone> EngineCursor for Cursor<M> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.set_out();
        self.memtables.iter_mut().for_each(|source| source.seek(key));
        self.index.seek(&self.reader.index, key)?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.set_out();
        self.memtables.iter_mut().for_each(|source| source.seek_before(key));
        self.index.seek_before(&self.reader.index, key)?;
        self.settle_backward()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.set_out();
        self.memtables.iter_mut().for_each(MemTableSource::seek_first);
        self.index.seek_first(&self.reader.index)?;
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.set_out();
        self.memtables.iter_mut().for_each(MemTableSource::seek_last);
        self.index.seek_last(&self.reader.index)?;
        self.settle_backward()
    }

    fn next(&mut self) -> Result<()> {
        if self.at.take().is_none() {
            return Ok(());
        }
        if self.heading == Heading::Forward && self.step_within_batch(Heading::Forward) {
            return Ok(());
        }
        self.keep_key();
        if self.heading == Heading::Backward {
            self.passage.begin();
            let key = self.key.clone();
            self.memtables.iter_mut().for_each(|source| source.seek(&key));
            self.index.seek(&self.reader.index, &key)?;
            self.is_index_on_key = self.index.key() == Some(&key);
        }
        self.step_sources_forward()?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if self.at.take().is_none() {
            return Ok(());
        }
        if self.heading == Heading::Backward && self.step_within_batch(Heading::Backward) {
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
                Ok(self.value_in_table(location)?.unwrap_or_else(|| self.values_ahead.value()))
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

impl<M: Medium + Clone> Drop for Cursor<M> {
    fn drop(&mut self) {
        self.end_range_query();
        let is_cold = self.at_hand.temperature.is_cold();
        if self.reader.tables.are_cold.load(Relaxed) != is_cold {
            self.reader.tables.are_cold.store(is_cold, Relaxed);
        }
        (self.values_ahead, self.at_hand, self.scout) = (ValuesAhead::default(), ScanBuffers::default(), None);
        self.account();
        self.memtables.clear();
        self.reader.release(self.moment, SnapshotKind::Cursor);
    }
}
