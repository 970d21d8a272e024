//! The MemTable: an arena filled front to back with records, and a skiplist over it.
//!
//! A write goes through two hands. The one that holds the write path's lock **reserves** ([`MemTable::try_reserve`]) and
//! numbers, which takes nanoseconds; then it lets go, and any number of threads **fill** ([`MemTable::fill`]) their
//! reservations side by side: copy the record in, link its entries, write its cache lines back, one fence. Nothing that
//! can fail stands between the two, because a place that is reserved and never filled ends the log there for good: the
//! replay can't look past a hole, and nothing behind it was ever published.
//!
//! An entry can be found as soon as it is linked, before it is durable and before its turn. Readers therefore name the
//! sequence number up to which they look, and the engine publishes numbers only over a gap-free durable prefix: what is
//! not published is in the list and yet invisible.
//!
//! Links are not persisted (see [`skiplist`](super::skiplist)), so the fence in `fill` is the only one of a write.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::Result;
use slmdb_pmem::{Arena, Medium};

use super::arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES, ArenaHeader};
use super::cursor::MemTableCursor;
use super::record::{
    self, MAXIMUM_BATCH_BYTES, Payload, PayloadEntry, RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES, RecordHeader,
};
use super::skiplist::{EntryRef, NewEntry, SkipList, Splice};
use crate::EntryKind;

/// A place in an arena for one record, given out by [`MemTable::try_reserve`] and used up by [`MemTable::fill`].
#[derive(Debug)]
#[must_use = "a place that is never filled is a hole that ends the log"]
pub struct Reservation {
    /// Of which MemTable of this process.
    identity: u64,
    offset: u64,
    payload_bytes: u64,
}

impl Reservation {
    /// Where in the arena the record will start, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// The version of a key that [`MemTable::get`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Put, or a delete that hides whatever is older.
    pub kind: EntryKind,
    /// The version's sequence number.
    pub sequence: u64,
    /// The value, in the arena; empty for a delete.
    pub value: &'a [u8],
}

/// One version of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemTableEntry<'a> {
    /// The whole key, in the arena.
    pub key: &'a [u8],
    /// Its sequence number.
    pub sequence: u64,
    /// Put or delete.
    pub kind: EntryKind,
    /// The value, in the arena; empty for a delete.
    pub value: &'a [u8],
}

/// The newest data of a store, and its log; see the module. Shared as `Arc<MemTable<M>>`.
///
/// What survives what: a record whose `fill` returned survives all that the medium promises a flushed and fenced store
/// to survive; on a medium backed by a file it survives a power cut once [`sync`](MemTable::sync) returned.
pub struct MemTable<M: Medium> {
    /// Before the arena, so that it goes first: its nodes point there.
    list: SkipList,
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    crc_seed: u32,
    identity: u64,
    capacity_bytes: u64,
    /// Whether records may be added: not to one that was recovered.
    appendable: bool,
    /// Where the next record goes.
    end_offset: AtomicU64,
    entries: AtomicU64,
    /// `u64::MAX` while there is no entry.
    first_sequence: AtomicU64,
    /// 0 while there is no entry.
    last_sequence: AtomicU64,
}

impl<M: Medium> MemTable<M> {
    /// An empty MemTable in this arena, which belongs to it from now on; whatever the arena held is forgotten. Writes
    /// the arena header, flushes and fences it. `generation` was never used before in this store.
    ///
    /// The header must be durable before the first record is reserved: where the arena is a file, that takes a
    /// [`sync`](MemTable::sync). A replay that finds records behind no header takes that for damage.
    ///
    /// Panics when the arena is too small for its header.
    pub fn create(arena: Arena<M>, generation: u64, store_uuid: [u8; 16]) -> MemTable<M> {
        MemTable::create_expecting(arena, generation, store_uuid, &[])
    }

    /// As [`create`](MemTable::create), with what most keys are expected to begin with, say the
    /// [`shared_prefix`](MemTable::shared_prefix) of the MemTable before. A right guess makes searches among keys with
    /// long equal beginnings about twice as fast; a wrong one costs as much, and nothing else.
    pub fn create_expecting(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        expected_prefix: &[u8],
    ) -> MemTable<M> {
        let capacity_bytes = arena.length_bytes();
        assert!(capacity_bytes >= ARENA_HEADER_BYTES, "an arena of {capacity_bytes} bytes");
        let table = MemTable::empty(arena, generation, store_uuid, expected_prefix, true);
        let header = ArenaHeader { format_version: ARENA_FORMAT_VERSION, generation, store_uuid, capacity_bytes };
        // SAFETY: the MemTable owns the arena, and nobody else knows the MemTable yet.
        unsafe { table.arena.write(0, &header.encode()) };
        table.arena.flush(0, ARENA_HEADER_BYTES);
        table.arena.fence();
        table
    }

    /// One whose arena is filled already, for the replay to link. It is never appended to: what is behind its last
    /// record is not known to be harmless.
    pub(super) fn recovered(arena: Arena<M>, generation: u64, store_uuid: [u8; 16]) -> MemTable<M> {
        MemTable::empty(arena, generation, store_uuid, &[], false)
    }

    fn empty(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        expected_prefix: &[u8],
        appendable: bool,
    ) -> MemTable<M> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        let capacity_bytes = arena.length_bytes();
        let [uuid_low, uuid_high] = [0, 8].map(|at| {
            let mut half = [0; 8];
            half.copy_from_slice(&store_uuid[at..at + 8]);
            u64::from_le_bytes(half)
        });
        MemTable {
            list: SkipList::new(uuid_low ^ uuid_high.rotate_left(32) ^ generation, expected_prefix),
            arena,
            generation,
            store_uuid,
            crc_seed: record::crc_seed(generation, &store_uuid),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            capacity_bytes,
            appendable,
            end_offset: AtomicU64::new(ARENA_HEADER_BYTES.min(capacity_bytes)),
            entries: AtomicU64::new(0),
            first_sequence: AtomicU64::new(u64::MAX),
            last_sequence: AtomicU64::new(0),
        }
    }

    /// Bytes of arena that a record with this payload takes, header and padding included. An arena for just this record
    /// needs [`ARENA_HEADER_BYTES`] more.
    pub fn space_for(payload_bytes: u64) -> u64 {
        record::record_bytes(payload_bytes)
    }

    /// Reserves the next place for a payload of this length; `None` when it does not fit any more (a shorter one may
    /// still), when it is longer than [`MAXIMUM_BATCH_BYTES`] or when this MemTable was recovered.
    ///
    /// Reservations must be numbered in their order, so the caller holds the write path's lock from here until the
    /// record has its sequence numbers. The place itself is taken atomically. Whoever reserves must fill: a hole ends
    /// the log.
    pub fn try_reserve(&self, payload_bytes: u64) -> Option<Reservation> {
        if !self.appendable || payload_bytes > MAXIMUM_BATCH_BYTES {
            return None;
        }
        let record_bytes = Self::space_for(payload_bytes);
        let offset = self
            .end_offset
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| {
                offset.checked_add(record_bytes).filter(|&end| end <= self.capacity_bytes)
            })
            .ok()?;
        Some(Reservation { identity: self.identity, offset, payload_bytes })
    }

    /// Copies the record in, links its entries (all but the [void](Payload::void) ones), writes its cache lines back and fences: when it returns, the record is
    /// as durable as the medium makes a flushed and fenced store, and can be found at its sequence numbers,
    /// `first_sequence` and those that follow. Of two entries with the same key in one payload the later one is newer.
    ///
    /// `known_safe_sequence` is the number up to which everything was known to be durable when the place was reserved
    /// (0 if nothing was). If this record is whole at a restart and one up to that number is not, then the replay knows
    /// that the medium lost something, instead of taking the broken record for the log's end.
    ///
    /// Cannot fail. Panics when called with what can't be right: a reservation of another MemTable or another length,
    /// an empty payload, the sequence number 0, or `known_safe_sequence >= first_sequence`.
    pub fn fill(&self, at: Reservation, payload: &Payload, first_sequence: u64, known_safe_sequence: u64) {
        assert!(at.identity == self.identity, "the reservation belongs to another MemTable");
        assert!(at.payload_bytes == payload.len_bytes(), "the reservation is for another length");
        let header = RecordHeader {
            payload_crc: payload.crc(),
            payload_length: payload.len_bytes() as u32,
            entry_count: payload.count(),
            first_sequence,
            known_safe_sequence,
        };
        if let Some(fault) = header.fault(self.capacity_bytes - at.offset) {
            panic!("{fault}: {header:?}");
        }

        let payload_offset = at.offset + RECORD_HEADER_BYTES;
        // SAFETY: the reservation is this MemTable's, inside its arena, given out once and used up here: no other thread
        // writes this range, and none reads it before the entries are linked below.
        let stored = unsafe {
            self.arena.write(payload_offset, payload.as_bytes());
            self.arena.write(at.offset, &header.encode(self.crc_seed));
            // Never written again.
            self.arena.bytes(payload_offset, at.payload_bytes)
        };
        let stored = stored.expect("a reservation is inside the arena");

        let (mut splice, mut linked) = (Splice::new(), 0);
        for (entry, sequence) in payload.iter().zip(first_sequence..) {
            let key_offset = entry.key.as_ptr() as usize - payload.as_bytes().as_ptr() as usize;
            // SAFETY: `stored` is an equal copy of the payload, so what is inside the one is inside the other; it is
            // never written again, and the arena's memory stays where it is as long as the MemTable owns the arena.
            linked += unsafe { self.link(&mut splice, &entry, stored[key_offset..].as_ptr(), sequence) };
        }
        self.count_linked(&header, linked);

        self.arena.flush(at.offset, RECORD_HEADER_BYTES + at.payload_bytes);
        self.arena.fence();
    }

    /// Links an entry, unless it is void; returns how many that makes.
    ///
    /// # Safety
    /// The key's bytes are at `stored_key`, the value's right behind, unchanged as long as `self` lives. The splice is
    /// new or was used with this MemTable only.
    pub(super) unsafe fn link(
        &self,
        splice: &mut Splice,
        entry: &PayloadEntry<'_>,
        stored_key: *const u8,
        sequence: u64,
    ) -> u64 {
        let Some(kind) = entry.kind else { return 0 };
        let value_length = entry.value.len() as u32;
        let entry = NewEntry { key: entry.key, stored_key, value_length, kind, sequence };
        // SAFETY: the caller's promise.
        unsafe { self.list.insert(splice, &entry) };
        1
    }

    /// Adds a record, `linked` of whose entries are in the list, to the figures.
    pub(super) fn count_linked(&self, header: &RecordHeader, linked: u64) {
        self.entries.fetch_add(linked, Ordering::Relaxed);
        // Looking first saves a write to a cache line that all writers share.
        if self.first_sequence.load(Ordering::Relaxed) > header.first_sequence {
            self.first_sequence.fetch_min(header.first_sequence, Ordering::Relaxed);
        }
        self.last_sequence.fetch_max(header.last_sequence(), Ordering::Relaxed);
    }

    /// Sets where a recovered log ends.
    pub(super) fn end_at(&mut self, offset: u64) {
        *self.end_offset.get_mut() = offset;
    }

    /// The newest version of `key` that is not above `at_most_sequence`.
    pub fn get(&self, key: &[u8], at_most_sequence: u64) -> Option<Found<'_>> {
        let entry = self.list.first_from(key, at_most_sequence)?;
        (entry.key() == key).then(|| Found { kind: entry.kind(), sequence: entry.sequence(), value: entry.value() })
    }

    /// A cursor over all versions of all keys, which keeps the MemTable alive. It is nowhere until it is moved.
    pub fn cursor(self: &Arc<Self>) -> MemTableCursor<M> {
        MemTableCursor::new(Arc::clone(self))
    }

    /// The newest version of each key, deletes included, in key order: what a flush writes. Meant for a MemTable that is
    /// fully published and gets no more records; with records coming in it shows some of them.
    pub fn newest_entries(&self) -> NewestEntries<'_> {
        NewestEntries { next: self.list.first() }
    }

    /// What all keys begin with, as far as the first and the last of them agree. Empty when there are none.
    pub fn shared_prefix(&self) -> &[u8] {
        let (Some(first), Some(last)) = (self.list.first(), self.list.last()) else { return &[] };
        let (first, last) = (first.key(), last.key());
        let shared_bytes = first.iter().zip(last).take_while(|(one, other)| one == other).count();
        &first[..shared_bytes]
    }

    /// The arena's generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The store that the arena belongs to.
    pub fn store_uuid(&self) -> [u8; 16] {
        self.store_uuid
    }

    /// Number of entries, every version and delete counted; void ones are not.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Bytes of the arena that are reserved or filled, its header included.
    pub fn used_bytes(&self) -> u64 {
        self.end_offset.load(Ordering::Relaxed)
    }

    /// Bytes of DRAM that the skiplist takes (the arena not counted).
    pub fn memory_bytes(&self) -> u64 {
        self.list.memory_bytes()
    }

    /// Bytes of the arena.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Lowest sequence number of an entry that is filled, be it void.
    pub fn first_sequence(&self) -> Option<u64> {
        Some(self.first_sequence.load(Ordering::Relaxed)).filter(|&sequence| sequence != u64::MAX)
    }

    /// Highest sequence number of an entry that is filled, be it void. While others fill, lower ones may still be missing.
    pub fn last_sequence(&self) -> Option<u64> {
        Some(self.last_sequence.load(Ordering::Relaxed)).filter(|&sequence| sequence != 0)
    }

    /// Makes everything whose `fill` has returned survive a power cut, where that takes more than a fence (files).
    pub fn sync(&self) -> Result<()> {
        self.arena.sync()
    }

    /// The arena, for its place and length.
    pub fn arena(&self) -> &Arena<M> {
        &self.arena
    }

    pub(super) fn list(&self) -> &SkipList {
        &self.list
    }

    pub(super) fn crc_seed(&self) -> u32 {
        self.crc_seed
    }
}

impl<M: Medium> fmt::Debug for MemTable<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemTable")
            .field("generation", &self.generation)
            .field("entries", &self.entries())
            .field("first_sequence", &self.first_sequence())
            .field("last_sequence", &self.last_sequence())
            .field("used_bytes", &self.used_bytes())
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

/// Iterator of [`MemTable::newest_entries`].
#[derive(Debug, Clone)]
pub struct NewestEntries<'a> {
    next: Option<EntryRef<'a>>,
}

impl<'a> Iterator for NewestEntries<'a> {
    type Item = MemTableEntry<'a>;

    fn next(&mut self) -> Option<MemTableEntry<'a>> {
        let newest = self.next?;
        let key = newest.key();
        let mut following = newest.next();
        while following.is_some_and(|older| older.key() == key) {
            following = following.and_then(EntryRef::next);
        }
        self.next = following;
        Some(MemTableEntry { key, sequence: newest.sequence(), kind: newest.kind(), value: newest.value() })
    }
}

const _: () = assert!(RECORD_ALIGNMENT_BYTES == 8, "reservations keep the alignment that the arena header begins with");
