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
//! As long as links are not persisted, the fence in `fill` is the only one of a write; else [`chain`](super::chain) has two.

use std::fmt;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Medium};
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::arena_header::{ARENA_FORMAT_VERSION, ArenaHeader, MAXIMUM_ARENA_BYTES};
use super::chain::{Chain, NewLink};
use super::entries::{AllEntries, Found, NewestEntries};
use super::filter::Filter;
use super::gathered::Gathered;
use super::links::{FRONT_SLOT, LinkPolicy, SLOT_BYTES, new_slot};
use super::record::{self, MAXIMUM_BATCH_BYTES, Payload, RECORD_ALIGNMENT_BYTES, RecordHeader, slot_of};
use super::skiplist::{NewEntry, SkipList, Splice};

/// A place in an arena for one record, given out by [`MemTable::try_reserve`] and used up by [`MemTable::fill`].
#[derive(Debug)]
#[must_use = "a place that is never filled is a hole that ends the log"]
pub struct Reservation {
    /// Of which MemTable of this process.
    identity: u64,
    offset: u64,
    payload_bytes: u64,
    entry_count: u32,
}

impl Reservation {
    /// Where in the arena the record will start, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

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

/// The newest data of a store, and its log; see the module. Shared as `Arc<MemTable<M>>`.
///
/// What survives what: a record whose `fill` returned survives all that the medium promises a flushed and fenced store
/// to survive; on a medium backed by a file it survives a power cut once [`sync`](MemTable::sync) returned.
pub struct MemTable<M: Medium> {
    /// Before the arena, so that it goes first: its nodes point there.
    list: SkipList,
    /// Of the keys in the list. `None`: they are not remembered.
    filter: Option<Filter>,
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    links: LinkPolicy,
    crc_seed: u32,
    identity: u64,
    capacity_bytes: u64,
    /// Whether records may be added: not to one that was recovered.
    appendable: bool,
    /// Where the first record starts that counts: only a recovered one may have others in front.
    first_record: u64,
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
    /// Panics when the arena is too small for its header, or longer than [`MAXIMUM_ARENA_BYTES`].
    pub fn create(arena: Arena<M>, generation: u64, store_uuid: [u8; 16], options: &MemTableOptions) -> MemTable<M> {
        let (capacity_bytes, links) = (arena.length_bytes(), options.links);
        let front_bytes = links.first_record_offset();
        assert!((front_bytes..=MAXIMUM_ARENA_BYTES).contains(&capacity_bytes), "an arena of {capacity_bytes} bytes");
        let table = MemTable::empty(arena, generation, store_uuid, options, true);
        let header = ArenaHeader {
            format_version: ARENA_FORMAT_VERSION,
            links: links.number(),
            generation,
            store_uuid,
            capacity_bytes,
        };
        // SAFETY: the MemTable owns the arena, and nobody else knows the MemTable yet.
        unsafe {
            table.arena.write(0, &header.encode());
            if links == LinkPolicy::Persisted {
                table.arena.write(FRONT_SLOT, &[0; SLOT_BYTES as usize]);
            }
        }
        table.arena.flush(0, front_bytes);
        table.arena.fence();
        table
    }

    /// One whose arena is filled already, for the replay to link. It is never appended to: what is behind its last
    /// record is not known to be harmless.
    pub(super) fn recovered(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        order: &KeyOrder,
        links: LinkPolicy,
    ) -> MemTable<M> {
        let options = MemTableOptions { links, order: order.clone(), expected_prefix: Vec::new() };
        MemTable::empty(arena, generation, store_uuid, &options, false)
    }

    fn empty(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        options: &MemTableOptions,
        appendable: bool,
    ) -> MemTable<M> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        let capacity_bytes = arena.length_bytes();
        let [uuid_low, uuid_high] = [0, 8].map(|at| {
            let mut half = [0; 8];
            half.copy_from_slice(&store_uuid[at..at + 8]);
            u64::from_le_bytes(half)
        });
        let seed = uuid_low ^ uuid_high.rotate_left(32) ^ generation;
        let with_slots = options.links == LinkPolicy::Persisted;
        let first_record = options.links.first_record_offset();
        let has_filter = options.order.is_bytewise();
        MemTable {
            filter: has_filter.then(|| Filter::for_arena(capacity_bytes)),
            list: SkipList::new(seed, &options.order, &options.expected_prefix, with_slots),
            arena,
            generation,
            store_uuid,
            links: options.links,
            crc_seed: record::crc_seed(generation, &store_uuid, options.links),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            capacity_bytes,
            appendable,
            first_record,
            end_offset: AtomicU64::new(first_record.min(capacity_bytes)),
            entries: AtomicU64::new(0),
            first_sequence: AtomicU64::new(u64::MAX),
            last_sequence: AtomicU64::new(0),
        }
    }

    /// Whether it was rebuilt from what its arena held. It takes no more records.
    pub fn is_recovered(&self) -> bool {
        !self.appendable
    }

    /// Reserves the next place for a payload of this length with so many entries; `None` when it does not fit any more (a
    /// shorter one may still), when it is longer than [`MAXIMUM_BATCH_BYTES`] or when this MemTable was recovered.
    ///
    /// Reservations must be numbered in their order, so the caller holds the write path's lock from here until the
    /// record has its sequence numbers. The place itself is taken atomically. A reserved place must be filled: a hole ends
    /// the log.
    pub fn try_reserve(&self, payload_bytes: u64, entry_count: u32) -> Option<Reservation> {
        if !self.appendable || payload_bytes > MAXIMUM_BATCH_BYTES {
            return None;
        }
        let record_bytes = self.links.space_for(payload_bytes, entry_count);
        let offset = self
            .end_offset
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| {
                offset.checked_add(record_bytes).filter(|&end| end <= self.capacity_bytes)
            })
            .ok()?;
        Some(Reservation { identity: self.identity, offset, payload_bytes, entry_count })
    }

    /// Copies the record in, links its entries (all but the [void](Payload::void) ones), writes its cache lines back and
    /// fences: when it returns, the record is as durable as the medium makes a flushed and fenced store, and can be found at
    /// its sequence numbers, `first_sequence` and those that follow. Of two entries with the same key in one payload the
    /// later one is newer.
    ///
    /// `known_safe_sequence` is the number up to which everything was known to be durable when the place was reserved
    /// (0 if nothing was). If this record is whole at a restart and one up to that number is not, then the replay knows
    /// that the medium lost something, instead of taking the broken record for the log's end.
    ///
    /// Cannot fail (INV-2). Panics when called with what can't be right: a reservation of another MemTable or another length,
    /// an empty payload, the sequence number 0, or `known_safe_sequence >= first_sequence`.
    pub fn fill(&self, at: Reservation, payload: &Payload, first_sequence: u64, known_safe_sequence: u64) {
        assert!(at.identity == self.identity, "ARENA-2: the reservation belongs to another MemTable");
        assert!(
            (at.payload_bytes, at.entry_count) == (payload.len_bytes(), payload.count()),
            "ARENA-2: the reservation is for another length"
        );
        let header = RecordHeader {
            payload_crc: payload.crc(),
            payload_length: payload.len_bytes() as u32,
            entry_count: payload.count(),
            first_sequence,
            known_safe_sequence,
        };
        if let Some(fault) = header.fault(self.capacity_bytes - at.offset, self.links) {
            panic!("{fault}: {header:?}");
        }
        let stored = self.write_record(at.offset, &header, payload.as_bytes());
        let stored_key = |key: &[u8]| stored[key.as_ptr() as usize - payload.as_bytes().as_ptr() as usize..].as_ptr();
        let record_bytes = header.payload_start(self.links) + at.payload_bytes;
        if self.links == LinkPolicy::Persisted {
            let entries = payload.iter().zip(0..).filter(|(entry, _)| entry.kind.is_some());
            let links = entries.map(|(entry, index)| NewLink {
                key: entry.key,
                sequence: first_sequence + index,
                slot: slot_of(at.offset, index),
            });
            Chain { arena: &self.arena, list: &self.list }.link(at.offset, record_bytes, links.collect());
        }

        let (mut splice, mut linked) = (Splice::new(), 0);
        for (entry, index) in payload.iter().zip(0..) {
            let Some(kind) = entry.kind else { continue };
            let new = NewEntry {
                key: entry.key,
                stored_key: stored_key(entry.key),
                value_length: entry.value.len() as u32,
                kind,
                sequence: first_sequence + index,
                slot: slot_of(at.offset, index),
            };
            if let Some(filter) = &self.filter {
                filter.add(entry.key);
            }
            // SAFETY: `stored` is an equal copy of the payload, so key and value lie there one behind the other; it is never
            // written again, and the arena's memory stays where it is as long as the MemTable owns the arena. The splice
            // is this record's own.
            unsafe { self.list.insert(&mut splice, &new) };
            linked += 1;
        }
        self.count(linked, header.first_sequence, header.last_sequence());

        if self.links == LinkPolicy::Rebuilt {
            self.arena.flush(at.offset, record_bytes);
            self.arena.fence();
        }
    }

    /// Copies a record to a place that is reserved for it, its slots leading nowhere; returns the payload as it lies there.
    /// Nothing is written back.
    pub(super) fn write_record(&self, offset: u64, header: &RecordHeader, payload: &[u8]) -> &[u8] {
        let payload_offset = offset + header.payload_start(self.links);
        if self.links == LinkPolicy::Persisted {
            let mut entry_offset = payload_offset;
            for (entry, index) in record::entries(payload).zip(0..) {
                let slot = new_slot(entry_offset, index);
                entry_offset += entry.encoded_bytes();
                // SAFETY: as below.
                unsafe { self.arena.write(slot_of(offset, u64::from(index)), &slot) };
            }
        }
        // SAFETY: the reservation is this MemTable's, inside its arena, given out once and used up here: no other thread
        // writes this range, and none reads it before the entries are linked.
        let stored = unsafe {
            self.arena.write(payload_offset, payload);
            self.arena.write(offset, &header.encode(self.crc_seed));
            // Never written again (ARENA-6).
            self.arena.bytes(payload_offset, payload.len() as u64)
        };
        stored.expect("ARENA-2: a reservation is inside the arena")
    }

    /// Adds entries, `linked` of which are in the list, to the figures.
    fn count(&self, linked: u64, first_sequence: u64, last_sequence: u64) {
        self.entries.fetch_add(linked, Ordering::Relaxed);
        // Looking first saves a write to a cache line that all writers share.
        if self.first_sequence.load(Ordering::Relaxed) > first_sequence {
            self.first_sequence.fetch_min(first_sequence, Ordering::Relaxed);
        }
        self.last_sequence.fetch_max(last_sequence, Ordering::Relaxed);
    }

    /// Settles where the records of a recovered log are that count.
    pub(super) fn recovered_until(&mut self, end_offset: u64, gathered: &Gathered) {
        *self.end_offset.get_mut() = end_offset;
        self.first_record = if gathered.len() == 0 { end_offset } else { gathered.first_record };
    }

    /// Where the first record starts that counts.
    pub(super) fn first_record(&self) -> u64 {
        self.first_record
    }

    /// Gives the arena up.
    pub(super) fn into_arena(self) -> Arena<M> {
        self.arena
    }

    /// Lets a MemTable that was read back take records again. REQUIRES: nothing was ever written behind its end in this generation.
    pub(super) fn go_on(&mut self) {
        self.appendable = true;
    }

    /// Adds what was gathered, `linked` entries of it now in the list, to the figures.
    pub(super) fn count_gathered(&self, linked: u64, gathered: &Gathered) {
        if gathered.len() > 0 {
            self.count(linked, gathered.first_sequence, gathered.first_sequence + gathered.len() - 1);
        }
    }

    /// The newest version of `key` that is not above `at_most_sequence`.
    pub fn get(&self, key: &[u8], at_most_sequence: u64) -> Option<Found<'_>> {
        if self.filter.as_ref().is_some_and(|filter| !filter.may_have(key)) {
            return None;
        }
        let entry = self.list.first_from(key, at_most_sequence)?;
        (entry.key() == key).then(|| Found { kind: entry.kind(), sequence: entry.sequence(), value: entry.value() })
    }

    /// The newest version of each key, deletes included, in key order: what a flush writes. Meant for a MemTable that is
    /// fully published and gets no more records; with records coming in it shows some of them.
    pub fn newest_entries(&self) -> NewestEntries<'_> {
        NewestEntries::new(self.list.first())
    }

    /// Every version of each key, deletes included: in key order, newest first. With the same caution as
    /// [`newest_entries`](MemTable::newest_entries).
    pub fn all_entries(&self) -> AllEntries<'_> {
        AllEntries::new(self.list.first())
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

    /// Bytes of DRAM that the skiplist takes, with its filter (the arena not counted).
    pub fn memory_bytes(&self) -> u64 {
        self.list.memory_bytes() + self.filter.as_ref().map_or(0, Filter::memory_bytes)
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
        self.arena.sync(self.used_bytes())
    }

    /// The arena, for its place and length.
    pub fn arena(&self) -> &Arena<M> {
        &self.arena
    }

    /// What becomes of the lowest level's links.
    pub fn links(&self) -> LinkPolicy {
        self.links
    }

    pub(super) fn list(&self) -> &SkipList {
        &self.list
    }

    pub(super) fn list_mut(&mut self) -> &mut SkipList {
        &mut self.list
    }

    /// Builds the empty list of these, all at once.
    ///
    /// # Safety
    /// As for [`SkipList::build`].
    pub(super) unsafe fn build_list<'a>(&mut self, entries: impl Iterator<Item = (u64, NewEntry<'a>)>) {
        let filter = self.filter.as_ref();
        let remembered = entries.inspect(|(_, entry)| filter.iter().for_each(|filter| filter.add(entry.key)));
        // SAFETY: the caller's.
        unsafe { self.list.build(remembered) };
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

const _: () = assert!(RECORD_ALIGNMENT_BYTES == 8, "reservations keep the alignment that the arena header begins with");
