//! A flush makes deletes of the ranges that a MemTable deletes: one for each key in them that has a value below the MemTable. After
//! that the tier has never heard of ranges.
//!
//! The keys below it are known once all older MemTables have been flushed, so such a MemTable waits for that. If there
//! are few, they are flushed with it. Else it is flushed in *parts*, and stays in the readers' list until the last:
//!
//! - The first part has its entries up to the void entry before the first range (their numbers are the smaller ones), and
//!   the first deletes that the range comes to, under the void entry's number.
//! - Each further part has more deletes of that range, under the same number.
//! - After the last of them the MemTable goes on behind that range.
//!
//! A part is a flush like any other, *through* the number of the void entry. So a crash between parts leaves the range's
//! own entry in the log: the next opening finds it, and goes on with the keys that still have a value. Before the first
//! part the log is synced: else a power cut might keep deletes, and not the range that they come from.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::CycleDetector;
use slmdb_structures::EntryKind;
use slmdb_structures::log::KeyBounds;
use slmdb_structures::memtable::DeletedRanges;

use super::deletes::{Deletes, Progress};
use crate::batch::Totals;
use crate::read::snapshot_registry::SnapshotKind;
use crate::space::controller::TakenFrom;
use crate::space::reserved_file::ReservedFile;
use crate::store::cursor::{SeekTo, TierCursor};
use crate::store::parts::Parts;
use crate::write::memtables::Immutable;

/// Deletes that are flushed at once take no more than this part of a MemTable's usual size,
const MEMTABLE_PART: u64 = 8;
/// but there may be so many in any case.
const DELETES_MIN: u64 = 16;
/// How many keys are passed before somebody looks whether the store closes.
const KEYS_BETWEEN_LOOKS: u64 = 4096;

/// What a look into the tier gives.
enum Gathered {
    /// All deletes.
    All(Deletes),
    /// So many that there is no room for more, and the last key among them.
    Some(Deletes, Vec<u8>),
    /// There is no space for them at once.
    TooMany,
    /// The store closes, or has failed.
    Ends,
}

/// Where the values are that ranges take.
struct Below<'a, F> {
    store: &'a Parts,
    /// Makes a cursor of the tier at a moment.
    cursor: F,
    ranges: &'a DeletedRanges,
}

impl Parts {
    /// What of an Immutable MemTable is flushed next. If that is a part, the rest is put back. `None`: the store closes, or has failed.
    /// LOCKS: snapshots; those of the cursor; those of [`SpaceController::grant`](crate::space::controller::SpaceController::grant);
    /// memtables
    pub(crate) fn next_part<C: TierCursor>(
        &self,
        mut immutable: Immutable,
        cursor: impl Fn(u64) -> C,
    ) -> Result<Option<Immutable>> {
        let Some(ranges) = immutable.memtable.deleted_ranges() else { return Ok(Some(immutable)) };
        let (env, below) = (&*self.context.env, Below { store: self, cursor, ranges: &ranges });
        let bytes_max = Cell::new(self.context.options.memtable_bytes / MEMTABLE_PART);
        let file_bytes = self.space.file_bytes(&immutable.totals);
        if immutable.space.is_none() && file_bytes > 0 {
            // A part has taken it. Where there is none, the flush looks for space.
            let (directory, generation) = (&self.context.directory, immutable.generation());
            immutable.space = ReservedFile::set_aside(env, directory, generation, file_bytes)?;
        }
        loop {
            // The oldest range that has not come to deletes.
            let from_sequence = immutable.progress.from_sequence;
            let next = ranges.all().iter().find(|range| range.sequence >= from_sequence);
            let Some(range) = next else { return Ok(Some(immutable)) };
            if immutable.progress.up_to.is_none() {
                // All at once, where there is room for that. (A part needs less space.)
                let all = || match self.all_deletes(&immutable, &below, bytes_max.get()) {
                    Err(Error::Full { .. }) => Ok(Gathered::TooMany),
                    gathered => gathered,
                };
                match self.space.until_there_is_space(all)? {
                    Gathered::All(deletes) => {
                        immutable.totals = immutable.totals.plus(&deletes.totals());
                        immutable.deletes = deletes;
                        return Ok(Some(immutable));
                    }
                    Gathered::Ends => return Ok(None),
                    Gathered::TooMany | Gathered::Some(..) => {}
                }
            }
            let has_entries = immutable.flushed_through < range.sequence;
            let part = || loop {
                let (from, to) = range.bounds();
                let from = immutable.progress.up_to.as_deref().map_or(from, Bound::Excluded);
                let gathered = below.gather(&[(from, to)], range.sequence, bytes_max.get())?;
                let (Gathered::All(deletes) | Gathered::Some(deletes, _)) = &gathered else { return Ok(None) };
                let (totals, generation) = (deletes.totals(), immutable.generation());
                let (granted, space) = match &immutable.space {
                    // With the MemTable's own entries up to the range, for which its space is.
                    Some(space) if has_entries => {
                        let totals = immutable.totals.plus(&totals);
                        (self.space.grant(generation, &totals, TakenFrom::Reserve, Some(space)), space.clone())
                    }
                    _ => {
                        let space = Arc::new(ReservedFile::new(env, &self.context.directory, 0)?);
                        (self.space.grant(0, &totals, TakenFrom::Reserve, Some(&space)), space)
                    }
                };
                if granted.is_ok() {
                    return Ok(Some((gathered, space)));
                }
                if immutable.space.as_ref().is_none_or(|own| !Arc::ptr_eq(own, &space)) {
                    space.discard(env)?;
                }
                match granted {
                    // Fewer of them may find space.
                    Err(Error::Full { .. }) if deletes.len() as u64 > DELETES_MIN => bytes_max.set(bytes_max.get() / 2),
                    refused => refused?,
                }
            };
            let Some((gathered, space)) = self.space.until_there_is_space(part)? else { return Ok(None) };
            let (deletes, up_to) = match gathered {
                Gathered::Some(deletes, last) => (deletes, Some(last)),
                Gathered::All(deletes) => (deletes, None),
                Gathered::TooMany | Gathered::Ends => return Ok(None),
            };
            let own_totals = if has_entries { immutable.totals } else { Totals::default() };
            let part = Immutable {
                flushed_through: immutable.flushed_through,
                progress: Progress { is_part: true, ..Progress::default() },
                space: Some(space),
                ..Immutable::recovered(immutable.memtable.clone(), own_totals.plus(&deletes.totals()), range.sequence)
            };
            let part = Immutable { deletes, ..part };
            immutable.progress.from_sequence = range.sequence + u64::from(up_to.is_none());
            immutable.progress.up_to = up_to;
            if part.is_empty() {
                let is_own =
                    immutable.space.as_ref().zip(part.space.as_ref()).is_some_and(|(own, of)| Arc::ptr_eq(own, of));
                part.space.filter(|_| !is_own).map_or(Ok(()), |space| space.discard(env))?;
                self.space.change_grant(0, None)?;
                continue;
            }
            if has_entries && !self.writes.arenas.are_in_pool() {
                immutable.memtable.sync().inspect_err(|error| self.context.fail(error.clone()))?;
            }
            if has_entries {
                immutable.space = None;
            }
            immutable.flushed_through = range.sequence;
            self.writes.part_begins(immutable);
            return Ok(Some(part));
        }
    }

    /// All deletes that the ranges come to, if there is room for them in the flush of the MemTable.
    fn all_deletes<C: TierCursor>(
        &self,
        immutable: &Immutable,
        below: &Below<'_, impl Fn(u64) -> C>,
        bytes_max: u64,
    ) -> Result<Gathered> {
        let from_sequence = immutable.progress.from_sequence;
        let gathered = below.gather(&below.ranges.spans(from_sequence), from_sequence, bytes_max)?;
        if let Gathered::All(deletes) = &gathered
            && !deletes.is_empty()
        {
            let totals = immutable.totals.plus(&deletes.totals());
            self.space.grant(immutable.generation(), &totals, TakenFrom::Reserve, immutable.space.as_deref())?;
        }
        Ok(gathered)
    }
}

impl<C: TierCursor, F: Fn(u64) -> C> Below<'_, F> {
    /// The keys in these spans that have a value in the tier, each with the number of the first range from this number on that deletes
    /// it.
    /// LOCKS: snapshots; those of the cursor; memtables
    fn gather(&self, spans: &[KeyBounds<'_>], from_sequence: u64, bytes_max: u64) -> Result<Gathered> {
        let moment = self.store.register(SnapshotKind::Cursor);
        let mut tier = (self.cursor)(moment);
        let gathered = self.gather_from(&mut tier, spans, from_sequence, bytes_max);
        let freed_bytes = tier.let_go();
        drop(tier);
        self.store.release(moment, SnapshotKind::Cursor, freed_bytes);
        gathered
    }

    fn gather_from(
        &self,
        tier: &mut C,
        spans: &[KeyBounds<'_>],
        from_sequence: u64,
        bytes_max: u64,
    ) -> Result<Gathered> {
        let order = self.ranges.order();
        let (mut deletes, mut passed) = (Deletes::default(), 0_u64);
        for &(from, to) in spans {
            tier.begin_range();
            tier.seek(match from {
                Bound::Unbounded => SeekTo::First,
                Bound::Included(key) | Bound::Excluded(key) => SeekTo::At(key),
            })?;
            let mut cycle_detector = CycleDetector::default();
            while let Some(key) = tier.key().filter(|key| order.is_up_to(key, to)) {
                if !order.is_bytewise() && !cycle_detector.visit(key) {
                    return Err(tier.out_of_order());
                }
                passed += 1;
                if passed.is_multiple_of(KEYS_BETWEEN_LOOKS) && self.store.writes.gives_up() {
                    return Ok(Gathered::Ends);
                }
                if tier.version().1 == EntryKind::Put
                    && order.is_from(key, from)
                    && let Some(sequence) = self.ranges.next_over(key, from_sequence.saturating_sub(1))
                {
                    deletes.add(key, sequence);
                    if deletes.bytes() >= bytes_max && deletes.len() as u64 >= DELETES_MIN {
                        let last = key.to_vec();
                        return Ok(Gathered::Some(deletes, last));
                    }
                }
                tier.advance()?;
            }
        }
        Ok(Gathered::All(deletes))
    }
}
