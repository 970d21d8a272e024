//! The log of an arena: records, front to back.
//!
//! The holder of the write path's lock **reserves** a place ([`Log::try_reserve`]) and numbers it, which takes nanoseconds.
//! Then any number of threads **write** ([`Log::write`]) and **persist** ([`Log::persist`]) their records side by side, and an
//! index takes the entries. Nothing of that can fail, because a place that is reserved and never filled ends the log there
//! for good: the replay can't look past a hole, and nothing behind it was ever published.

use std::fmt;
use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_pmem::{Arena, Medium};
use slmdb_sync::scheduled::atomic::AtomicU64;

use super::arena_header::{ARENA_FORMAT_VERSION, ArenaHeader, MAXIMUM_ARENA_BYTES};
use super::log_bytes::LogBytes;
use super::record::{self, MAXIMUM_BATCH_BYTES, Payload, PayloadEntry, RECORD_ALIGNMENT_BYTES, RecordHeader, slot_of};
use super::record_form::{FRONT_SLOT, RecordForm, SLOT_BYTES, Slot};

/// A place in an arena for one record, given out by [`Log::try_reserve`] and used up by [`Log::write`].
#[derive(Debug)]
#[must_use = "a place that is never filled is a hole that ends the log"]
pub struct Reservation {
    /// Of which log of this process.
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

/// A record that [`Log::write`] has copied to its place.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Where in the arena it starts, in bytes.
    pub offset: u64,
    /// How long it is, in bytes, without padding.
    pub length_bytes: u64,
    /// Its payload as it lies in the arena, where it stays and never changes as long as the log lives.
    pub payload: &'a [u8],
}

/// An arena with its records; see the module.
///
/// A record that was [persisted](Log::persist) survives all that the medium promises a flushed and
/// fenced store to survive; on a medium backed by a file it survives a power cut once [`sync`](Log::sync) returned.
pub struct Log<M: Medium> {
    pub(super) arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    form: RecordForm,
    pub(super) crc_seed: u32,
    identity: u64,
    capacity_bytes: u64,
    /// Whether records may be added: only if nothing was ever written behind the end in this generation.
    pub(super) appendable: bool,
    /// Where the first record starts that counts: only a recovered log may have others in front.
    pub(super) first_record: u64,
    /// Where the next record goes.
    pub(super) end_offset: AtomicU64,
    /// `u64::MAX` while there is no entry.
    first_sequence: AtomicU64,
    /// 0 while there is no entry.
    last_sequence: AtomicU64,
}

impl<M: Medium> Log<M> {
    /// An empty log in this arena, which belongs to it from now on; whatever the arena held is forgotten. Writes the arena
    /// header, flushes and fences it. `generation` was never used before in this store.
    ///
    /// The header must be durable before the first record is reserved: where the arena is a file, that takes a
    /// [`sync`](Log::sync). A replay that finds records behind no header takes that for damage.
    ///
    /// Panics when the arena is too small for its header, or longer than [`MAXIMUM_ARENA_BYTES`].
    pub fn create(arena: Arena<M>, generation: u64, store_uuid: [u8; 16], form: RecordForm) -> Log<M> {
        let (capacity_bytes, front_bytes) = (arena.length_bytes(), form.first_record_offset());
        assert!((front_bytes..=MAXIMUM_ARENA_BYTES).contains(&capacity_bytes), "an arena of {capacity_bytes} bytes");
        let header = ArenaHeader {
            format_version: ARENA_FORMAT_VERSION,
            form: form as u32,
            generation,
            store_uuid,
            capacity_bytes,
        };
        // SAFETY: the arena is ours, and nobody else knows it.
        unsafe {
            arena.write(0, &header.encode());
            if form == RecordForm::WithSlots {
                arena.write(FRONT_SLOT, &[0; SLOT_BYTES as usize]);
            }
        }
        arena.flush(0, front_bytes);
        arena.fence();
        Log { appendable: true, ..Log::recovered(arena, generation, store_uuid, form) }
    }

    /// One whose arena is filled already, for a reading to go over. It is never appended to: what is behind its last record
    /// is not known to be harmless.
    pub(super) fn recovered(arena: Arena<M>, generation: u64, store_uuid: [u8; 16], form: RecordForm) -> Log<M> {
        static IDENTITIES: AtomicU64 = AtomicU64::new(0);
        let (capacity_bytes, first_record) = (arena.length_bytes(), form.first_record_offset());
        Log {
            arena,
            generation,
            store_uuid,
            form,
            crc_seed: record::crc_seed(generation, &store_uuid, form),
            identity: IDENTITIES.fetch_add(1, Ordering::Relaxed),
            capacity_bytes,
            appendable: false,
            first_record,
            end_offset: AtomicU64::new(first_record.min(capacity_bytes)),
            first_sequence: AtomicU64::new(u64::MAX),
            last_sequence: AtomicU64::new(0),
        }
    }

    /// Whether it was read back from what its arena held. It takes no more records.
    pub fn is_recovered(&self) -> bool {
        !self.appendable
    }

    /// Reserves the next place for a payload of this length with so many entries; `None` when it does not fit any more (a
    /// shorter one may still), when it is longer than [`MAXIMUM_BATCH_BYTES`] or when this log was recovered.
    ///
    /// Reservations must be numbered in their order, so the caller holds the write path's lock from here until the
    /// record has its sequence numbers. The place itself is taken atomically. A reserved place must be filled: a hole ends
    /// the log.
    #[inline]
    pub fn try_reserve(&self, payload_bytes: u64, entry_count: u32) -> Option<Reservation> {
        if !self.appendable || payload_bytes > MAXIMUM_BATCH_BYTES {
            return None;
        }
        let record_bytes = self.form.space_for(payload_bytes, entry_count);
        let offset = self
            .end_offset
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| {
                offset.checked_add(record_bytes).filter(|&end| end <= self.capacity_bytes)
            })
            .ok()?;
        Some(Reservation { identity: self.identity, offset, payload_bytes, entry_count })
    }

    /// Copies a record to its place, with the sequence numbers `first_sequence` and those that follow for its entries.
    /// Nothing is written back before [`persist`](Log::persist).
    ///
    /// `known_safe_sequence` is the number up to which everything was known to be durable when the place was reserved
    /// (0 if nothing was). If this record is whole at a restart and one up to that number is not, then the replay knows
    /// that the medium lost something, instead of taking the broken record for the log's end.
    ///
    /// Cannot fail (INV-2). Panics when called with what can't be right: a reservation of another log or another length,
    /// an empty payload, the sequence number 0, or `known_safe_sequence >= first_sequence`.
    #[inline]
    pub fn write(
        &self,
        at: Reservation,
        payload: &Payload,
        first_sequence: u64,
        known_safe_sequence: u64,
    ) -> Written<'_> {
        assert!(at.identity == self.identity, "ARENA-2: the reservation belongs to another log");
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
        if let Some(fault) = header.fault(self.capacity_bytes - at.offset, self.form) {
            panic!("{fault}: {header:?}");
        }
        self.write_record(at.offset, &header, payload.as_bytes())
    }

    /// Copies a record to a place that is reserved for it, the words of its slots 0.
    #[inline]
    pub(super) fn write_record(&self, offset: u64, header: &RecordHeader, payload: &[u8]) -> Written<'_> {
        let payload_offset = offset + header.payload_start(self.form);
        if self.form == RecordForm::WithSlots {
            let mut entry_offset = payload_offset;
            for (entry, index) in record::entries(payload).zip(0..) {
                let slot = Slot::encode(entry_offset, index);
                entry_offset += entry.encoded_bytes();
                // SAFETY: as below.
                unsafe { self.arena.write(slot_of(offset, u64::from(index)), &slot) };
            }
        }
        // SAFETY: the reservation is this log's, inside its arena, given out once and used up here: no other thread
        // writes this range, and none reads it before an index has its entries.
        let stored = unsafe {
            self.arena.write(payload_offset, payload);
            self.arena.write(offset, &header.encode(self.crc_seed));
            // Never written again (ARENA-6).
            self.arena.bytes(payload_offset, payload.len() as u64)
        };
        self.count(header.first_sequence, header.last_sequence());
        Written {
            offset,
            length_bytes: header.payload_start(self.form) + payload.len() as u64,
            payload: stored.expect("ARENA-2: a reservation is inside the arena"),
        }
    }

    /// Writes a record's cache lines back and fences: when it returns, the record is as durable as the medium makes a
    /// flushed and fenced store.
    #[inline]
    pub fn persist(&self, record: &Written<'_>) {
        self.arena.flush(record.offset, record.length_bytes);
        self.arena.fence();
    }

    /// Adds entries to the figures.
    #[inline]
    pub(super) fn count(&self, first_sequence: u64, last_sequence: u64) {
        // Looking first saves a write to a cache line that all writers share.
        if self.first_sequence.load(Ordering::Relaxed) > first_sequence {
            self.first_sequence.fetch_min(first_sequence, Ordering::Relaxed);
        }
        self.last_sequence.fetch_max(last_sequence, Ordering::Relaxed);
    }

    /// The arena's generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The store that the arena belongs to.
    pub fn store_uuid(&self) -> [u8; 16] {
        self.store_uuid
    }

    /// The form of its records.
    #[inline]
    pub fn form(&self) -> RecordForm {
        self.form
    }

    /// Bytes of the arena that are reserved or filled, its header included.
    #[inline]
    pub fn used_bytes(&self) -> u64 {
        self.end_offset.load(Ordering::Relaxed)
    }

    /// Bytes of the arena.
    #[inline]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Lowest sequence number of an entry that is written, be it void.
    pub fn first_sequence(&self) -> Option<u64> {
        Some(self.first_sequence.load(Ordering::Relaxed)).filter(|&sequence| sequence != u64::MAX)
    }

    /// Highest sequence number of an entry that is written, be it void. While others write, lower ones may still be missing.
    pub fn last_sequence(&self) -> Option<u64> {
        Some(self.last_sequence.load(Ordering::Relaxed)).filter(|&sequence| sequence != 0)
    }

    /// Makes everything that was persisted survive a power cut, where that takes more than a fence (files).
    pub fn sync(&self) -> Result<()> {
        self.arena.sync(self.used_bytes())
    }

    /// The arena, for its place and length.
    #[inline]
    pub fn arena(&self) -> &Arena<M> {
        &self.arena
    }

    /// The bytes of a log that nobody writes to.
    pub(crate) fn bytes(&self) -> LogBytes<'_> {
        // SAFETY: called while the log is recovered or copied, by the one thread that knows it: nothing else writes to it.
        let bytes = unsafe { self.arena.bytes(0, self.arena.length_bytes()) }.unwrap_or_default();
        LogBytes { bytes, crc_seed: self.crc_seed, form: self.form }
    }

    /// The records of a recovered log that count, with their payloads.
    pub(super) fn records(&self) -> impl Iterator<Item = (RecordHeader, &[u8])> {
        let log = self.bytes();
        let (mut offset, end_offset) = (self.first_record, self.used_bytes());
        std::iter::from_fn(move || {
            if offset >= end_offset {
                return None;
            }
            let (header, payload) = log.signed_header_at(offset as usize)?;
            offset += header.record_bytes(log.form);
            Some((header, payload))
        })
    }

    /// Everything that is in a recovered log and counts, in the order in which it was written, superseded entries
    /// included.
    pub fn logged_entries(&self) -> impl Iterator<Item = PayloadEntry<'_>> {
        self.records().flat_map(|(_, payload)| record::entries(payload))
    }

    /// Whether its first entry that counts is within a record, because those before it are in table files.
    pub fn begins_within_a_record(&self) -> bool {
        let first = self.records().next().map(|(header, _)| header.first_sequence);
        first.zip(self.first_sequence()).is_some_and(|(of_record, first)| of_record < first)
    }
}

impl<M: Medium> fmt::Debug for Log<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("generation", &self.generation)
            .field("first_sequence", &self.first_sequence())
            .field("last_sequence", &self.last_sequence())
            .field("used_bytes", &self.used_bytes())
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

const _: () = assert!(RECORD_ALIGNMENT_BYTES == 8, "reservations keep the alignment that the arena header begins with");
