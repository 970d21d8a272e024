//! The MemTable: a skiplist over a log.
//!
//! A write gets its place from the log ([`Log::try_reserve`]), under the write path's lock. Then any number of threads
//! **fill** ([`MemTable::fill`]) their places side by side: the record is written to the log, its entries are linked, and
//! it is persisted. Nothing of that can fail.
//!
//! An entry can be found as soon as it is linked, before it is durable and before its turn. Readers therefore name the
//! sequence number up to which they look, and the engine publishes numbers only over a gap-free durable prefix: what is
//! not published is in the list and yet invisible.
//!
//! As long as links are not persisted, the fence in `fill` is the only one of a write; else [`chain`](super::chain) has two.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Medium};
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::chain::{Chain, NewLink};
use super::entries::{AllEntries, Found, NewestEntries};
use super::filter::Filter;
use super::links::LinkPolicy;
use super::range_deletes::{DeletedRange, DeletedRanges, RangeDeletes};
use super::skiplist::{NewEntry, SkipList, Splice};
use crate::EntryKind;
use crate::log::{Log, Payload, RecordForm, Reservation, slot_of};

/// What a MemTable is made with.
#[derive(Debug, Clone, Default)]
pub struct MemTableOptions {
    /// What becomes of the lowest level's links.
    pub links: LinkPolicy,
    /// The order of keys.
    pub order: KeyOrder,
    /// What most keys are expected to begin with, say the [`MemTable::usual_prefix`] of the MemTable before. A right guess
    /// makes searches among keys with long equal beginnings about twice as fast; a wrong one costs as much, and
    /// nothing else. It means nothing where keys are not ordered by bytes.
    pub expected_prefix: Vec<u8>,
}

/// The newest data of a store: an index over a [`Log`], whose bytes, numbers and arena it gives as its own. See the module.
/// Shared as `Arc<MemTable<M>>`.
pub struct MemTable<M: Medium> {
    /// Before the log, so that it goes first: its nodes point there.
    list: SkipList,
    /// Of the keys in the list. `None`: they are not remembered.
    filter: Option<Filter>,
    range_deletes: RangeDeletes,
    entries: AtomicU64,
    log: Log<M>,
}

impl<M: Medium> Deref for MemTable<M> {
    type Target = Log<M>;
    #[inline]
    fn deref(&self) -> &Log<M> {
        &self.log
    }
}

impl<M: Medium> MemTable<M> {
    /// An empty MemTable in this arena, made as [`Log::create`] makes its log.
    pub fn create(arena: Arena<M>, generation: u64, store_uuid: [u8; 16], options: &MemTableOptions) -> MemTable<M> {
        let log = Log::create(arena, generation, store_uuid, options.links.form());
        MemTable::over(log, &options.order, &options.expected_prefix)
    }

    /// One over this log, whose list is empty yet.
    pub(super) fn over(log: Log<M>, order: &KeyOrder, expected_prefix: &[u8]) -> MemTable<M> {
        let uuid = u128::from_le_bytes(log.store_uuid());
        let seed = uuid as u64 ^ ((uuid >> 64) as u64).rotate_left(32) ^ log.generation();
        let with_slots = log.form() == RecordForm::WithSlots;
        MemTable {
            filter: order.is_bytewise().then(|| Filter::for_arena(log.capacity_bytes())),
            list: SkipList::new(seed, order, expected_prefix, with_slots).noting(log.arena().reads()),
            range_deletes: RangeDeletes::new(order),
            entries: AtomicU64::new(0),
            log,
        }
    }

    /// Writes the record to the log, links its entries (all but the [void](Payload::void) ones), notes the ranges that it deletes, and persists it: when it
    /// returns, the record is as durable as the medium makes a flushed and fenced store, and can be found at its sequence
    /// numbers. Of two entries with the same key in one payload the later one is newer.
    ///
    /// The parameters, and when it panics: see [`Log::write`]. Cannot fail (INV-2).
    pub fn fill(&self, at: Reservation, payload: &Payload, first_sequence: u64, known_safe_sequence: u64) {
        let record = self.log.write(at, payload, first_sequence, known_safe_sequence);
        let stored_key =
            |key: &[u8]| record.payload[key.as_ptr() as usize - payload.as_bytes().as_ptr() as usize..].as_ptr();
        let form = self.log.form();
        if form == RecordForm::WithSlots {
            let entries = payload.iter().zip(0..).filter(|(entry, _)| entry.kind.of_key().is_some());
            let links = entries.map(|(entry, index)| NewLink {
                key: entry.key,
                sequence: first_sequence + index,
                slot: slot_of(record.offset, index),
            });
            let chain = Chain { arena: self.log.arena(), list: &self.list };
            chain.link(record.offset, record.length_bytes, links.collect());
        }

        let (mut splice, mut linked) = (Splice::new(), 0);
        let mut deleted = Vec::new();
        for (entry, index) in payload.iter().zip(0..) {
            let Some(kind) = entry.kind.of_key() else {
                let number = (first_sequence + index).saturating_sub(1);
                deleted.extend(entry.deleted_range().map(|range| DeletedRange::new(range, number)));
                continue;
            };
            let new = NewEntry {
                key: entry.key,
                stored_key: stored_key(entry.key),
                value_length: entry.value.len() as u32,
                kind,
                sequence: first_sequence + index,
                slot: slot_of(record.offset, index),
            };
            if let Some(filter) = &self.filter {
                filter.add(entry.key);
            }
            // SAFETY: the record's payload is an equal copy of the payload, so key and value lie there one behind the
            // other; it is never written again, and the arena's memory stays where it is as long as the MemTable owns the
            // log. The splice is this record's own.
            unsafe { self.list.insert(&mut splice, &new) };
            linked += 1;
        }
        self.entries.fetch_add(linked, Ordering::Relaxed);
        self.range_deletes.add(deleted);

        if form == RecordForm::Plain {
            self.log.persist(&record);
        }
    }

    /// The newest version of `key` that is not above `at_most_sequence`. A range that was deleted since is a delete of it.
    #[inline]
    pub fn get(&self, key: &[u8], at_most_sequence: u64) -> Option<Found<'_>> {
        let found = self.get_entry(key, at_most_sequence);
        if self.range_deletes.count() == 0 {
            return found;
        }
        let ranges = self.range_deletes.get()?;
        let hidden_from = ranges.next_over(key, found.map_or(0, |found| found.sequence));
        let hidden_from = hidden_from.filter(|&sequence| sequence <= at_most_sequence);
        hidden_from.map(|sequence| Found { kind: EntryKind::Delete, sequence, value: &[] }).or(found)
    }

    /// The ranges that it deletes; `None` if there are none.
    #[inline]
    pub fn deleted_ranges(&self) -> Option<Arc<DeletedRanges>> {
        self.range_deletes.get()
    }

    /// How many ranges it deletes.
    #[inline]
    pub fn range_deletes(&self) -> u64 {
        self.range_deletes.count()
    }

    pub(super) fn delete_ranges(&self, ranges: Vec<DeletedRange>) {
        self.range_deletes.add(ranges);
    }

    fn get_entry(&self, key: &[u8], at_most_sequence: u64) -> Option<Found<'_>> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have(key)) {
            return None;
        }
        let entry = self.list.first_from(key, at_most_sequence)?;
        self.log.arena().note_read();
        (entry.key() == key).then(|| Found { kind: entry.kind(), sequence: entry.sequence(), value: entry.value() })
    }

    /// The newest version of each key, deletes included, in key order, whatever ranges were deleted. Meant for a MemTable that is
    /// fully published and gets no more records; with records coming in it shows some of them.
    pub fn newest_entries(&self) -> NewestEntries<'_> {
        NewestEntries::new(self.list.first())
    }

    /// Every version of each key, deletes included: in key order, newest first. With the same caution as
    /// [`newest_entries`](MemTable::newest_entries).
    pub fn all_entries(&self) -> AllEntries<'_> {
        AllEntries::new(self.list.first())
    }

    /// Number of entries, every version and delete counted; void ones and deletes of ranges are not.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM that the skiplist takes, with its filter and the deleted ranges (the arena not counted).
    pub fn memory_bytes(&self) -> u64 {
        self.list.memory_bytes()
            + self.filter.as_ref().map_or(0, Filter::memory_bytes)
            + self.range_deletes.memory_bytes()
    }

    pub(super) fn list(&self) -> &SkipList {
        &self.list
    }

    /// Builds the empty list of these, all at once.
    ///
    /// # Safety
    /// As for [`SkipList::build`].
    pub(super) unsafe fn build_list<'a>(&mut self, entries: impl Iterator<Item = (u64, NewEntry<'a>)>) {
        let (filter, mut linked) = (self.filter.as_ref(), 0);
        let remembered = entries.inspect(|(_, entry)| {
            filter.iter().for_each(|filter| filter.add(entry.key));
            linked += 1;
        });
        // SAFETY: the caller's.
        unsafe { self.list.build(remembered) };
        *self.entries.get_mut() = linked;
    }
}

impl<M: Medium> fmt::Debug for MemTable<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTable").field("entries", &self.entries()).field("log", &self.log).finish_non_exhaustive()
    }
}
