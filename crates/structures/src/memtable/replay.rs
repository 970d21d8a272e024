//! Rebuilding MemTables from what a crash left in their arenas.
//!
//! The arenas of a store, in the order of their generations, are one log: sequence numbers run gap-free through each and
//! from one to the next. The replay takes whole records as long as each is the next one, and **ends for good at the
//! first that is not**: so what it gives is always a prefix of what was written, "a suffix may be lost, never a hole".
//! Writers fill side by side, so whole records may well stand behind the one at which it ends: they were never published
//! and never acknowledged.
//!
//! A broken record is thus the ordinary end of a log, but it is also what damage looks like. Two things tell them apart:
//!
//! - a **voucher**: every record says up to which sequence number everything was known to be durable when it was
//!   reserved. If any later whole record of the generation says so of the record that is missing (of this arena or,
//!   where this one does not go on from there, an earlier one), the medium has lost what it had promised to keep:
//!   [`Error::Corruption`];
//! - a **seal**: once recovery has ended a log, or a MemTable is followed by another, the MANIFEST may keep the last
//!   sequence number of the arena. The replay then reaches exactly that, or it is [`Error::Corruption`].
//!
//! The bytes may be anything. A CRC that is right over content that can't be (counts that do not match, numbers that run
//! backwards) was written so, and is [`Error::Corruption`] too. Memory: the towers of the entries taken, nothing else;
//! time: in proportion to the arena's length, whatever is in it.

use std::ops::ControlFlow;

use slmdb_env::{Error, Result};
use slmdb_pmem::{Arena, Medium};

use super::arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES, ArenaHeader};
use super::memtable::MemTable;
use super::record::{
    RECORD_ALIGNMENT_BYTES, RECORD_HEADER_BYTES, RecordHeader, RecordHeaderBytes, crc_seed, split_entry,
};
use super::skiplist::Splice;

/// What a scan for whole records may spend on payload CRCs, in lengths of the bytes scanned. Honest bytes need less than
/// one: only forged headers, whose payloads overlap, can ask for more.
const SCAN_WORK_FACTOR: u64 = 4;

/// With which sequence number an arena's records must begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedSequence {
    /// Nothing of the log was taken yet, and everything up to `flushed_through` is in table files. The arena may begin
    /// anywhere up to `flushed_through + 1`; records up to there are passed over. This is for the first arena.
    First {
        /// The last sequence number that is in table files.
        flushed_through: u64,
    },
    /// The log was taken up to the number before this one, so the arena must go on with it.
    Exactly(u64),
}

impl ExpectedSequence {
    /// The lowest sequence number that is still wanted.
    pub fn wanted(self) -> u64 {
        match self {
            ExpectedSequence::First { flushed_through } => flushed_through.saturating_add(1),
            ExpectedSequence::Exactly(sequence) => sequence,
        }
    }
}

/// Why a replay ended where it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// There is nothing: zeros, the end of the arena, or the end that it was sealed with.
    End,
    /// There is something that is not the next record: a torn one, what the arena held before, or (in front only) a whole
    /// record that is not the next because the log before it lost its end.
    Broken {
        /// Where in the arena, in bytes.
        offset: u64,
    },
}

/// A MemTable as it was, up to where its arena could be read.
#[derive(Debug)]
pub struct Replayed<M: Medium> {
    /// The entries taken. It takes no more.
    pub memtable: MemTable<M>,
    /// Sequence number of the last entry read, taken or passed over; `None` if there was none.
    pub last_sequence: Option<u64>,
    /// What to expect of the next arena.
    pub expected_next: ExpectedSequence,
    /// Entries passed over because they are in table files.
    pub entries_skipped: u64,
    /// Where in the arena the last record read ends, in bytes; 0 where there is no arena header.
    pub end_offset: u64,
    /// Why it ended there.
    pub stopped: Stop,
}

/// Rebuilds the MemTable of an arena: takes whole records in order, from the expected sequence number on, gap-free, and
/// stops at the first that is not whole or not the next. See the module for what is an end and what is an error.
///
/// `sealed_last_sequence`, where known, is the last sequence number of the arena: nothing beyond it is taken, and less
/// is an error. An arena may be sealed empty, with the number before the expected one.
///
/// Arenas are replayed in the order of their generations, each with [`Replayed::expected_next`] of the one before.
///
/// Errors: [`Error::Corruption`] with file and offset; [`Error::Unsupported`] for an arena of another format version.
pub fn replay<M: Medium>(
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
) -> Result<Replayed<M>> {
    let memtable = MemTable::recovered(arena, generation, store_uuid);
    // SAFETY: the MemTable owns the arena and nobody else knows it; nothing writes to a recovered arena any more.
    let bytes = unsafe { memtable.arena().bytes(0, memtable.arena().length_bytes()) }.unwrap_or_default();
    let log = Log { bytes, crc_seed: memtable.crc_seed() };
    let mut reading = Reading {
        memtable: &memtable,
        log,
        expected,
        sealed_last_sequence,
        offset: ARENA_HEADER_BYTES as usize,
        last_sequence: None,
        entries_skipped: 0,
    };
    let stopped = reading.run()?;
    let Reading { expected, offset, last_sequence, entries_skipped, .. } = reading;
    let end_offset = offset.min(bytes.len()) as u64;
    let mut memtable = memtable;
    memtable.end_at(end_offset);
    Ok(Replayed { memtable, last_sequence, expected_next: expected, entries_skipped, end_offset, stopped })
}

/// The largest known-safe sequence number of any whole record of this generation that starts at `offset` or behind it:
/// everything up to there, in this arena and earlier ones, was durable once. [`replay`] asks this of its arena by itself.
///
/// Looks at every eighth byte. The arena must not be written to meanwhile.
pub fn known_safe_after<M: Medium>(
    arena: &mut Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    offset: u64,
) -> Option<u64> {
    // SAFETY: `&mut`: nobody else uses the arena during the call, and the slice does not outlive it.
    let bytes = unsafe { arena.bytes(0, arena.length_bytes()) }.unwrap_or_default();
    let log = Log { bytes, crc_seed: crc_seed(generation, &store_uuid) };
    log.known_safe_after(usize::try_from(offset).unwrap_or(usize::MAX))
}

/// Whether there is any whole record of this generation in the arena, wherever it stands.
pub fn holds_records<M: Medium>(arena: &mut Arena<M>, generation: u64, store_uuid: [u8; 16]) -> bool {
    // SAFETY: `&mut`: nobody else uses the arena during the call, and the slice does not outlive it.
    let bytes = unsafe { arena.bytes(0, arena.length_bytes()) }.unwrap_or_default();
    Log { bytes, crc_seed: crc_seed(generation, &store_uuid) }.holds_records()
}

/// A replay under way.
struct Reading<'a, M: Medium> {
    memtable: &'a MemTable<M>,
    log: Log<'a>,
    /// Moves on with every record.
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
    /// Of the next record.
    offset: usize,
    last_sequence: Option<u64>,
    entries_skipped: u64,
}

impl<M: Medium> Reading<'_, M> {
    fn run(&mut self) -> Result<Stop> {
        self.check_seal()?;
        if self.is_sealed_here() {
            return Ok(Stop::End);
        }
        if let Some(stopped) = self.read_arena_header()? {
            return self.judge_the_end(stopped);
        }
        loop {
            if self.is_sealed_here() {
                return Ok(Stop::End);
            }
            let Some(header_bytes) = self.log.header_at(self.offset) else { return self.judge_the_end(Stop::End) };
            let Some((header, payload)) = self.log.whole_record_at(self.offset) else {
                if let Some(fault) = self.log.signed_fault_at(self.offset) {
                    return Err(self.corruption(self.offset, fault));
                }
                let nothing = header_bytes.iter().all(|&byte| byte == 0);
                return self.judge_the_end(if nothing { Stop::End } else { self.broken_here() });
            };
            if self.is_next(&header)? {
                self.take(&header, payload)?;
            } else {
                return self.judge_the_end(self.broken_here());
            }
            self.last_sequence = Some(header.last_sequence());
            self.offset = self.offset.saturating_add(header.record_bytes() as usize);
        }
    }

    /// Checks the arena header; `Some` if there is none of this generation, hence nothing to read.
    fn read_arena_header(&mut self) -> Result<Option<Stop>> {
        let found = ArenaHeader::decode(self.log.bytes);
        let ours = found.filter(|header| {
            (header.generation, header.store_uuid) == (self.memtable.generation(), self.memtable.store_uuid())
        });
        if let Some(header) = ours {
            if header.format_version != ARENA_FORMAT_VERSION {
                let file = Some(self.memtable.arena().place(0).0);
                let what = format!("an arena of format version {}", header.format_version);
                return Err(Error::Unsupported { what, file });
            }
            let capacity = usize::try_from(header.capacity_bytes).ok();
            let Some(bytes) = capacity.and_then(|capacity| self.log.bytes.get(..capacity)) else {
                let what = format!("the arena is shorter than its {} bytes", header.capacity_bytes);
                return Err(self.corruption(self.log.bytes.len(), what));
            };
            self.log.bytes = bytes;
            return Ok(None);
        }
        // Either there never was a record, or the header is lost. Where the medium promises nothing before a sync, a power
        // cut may keep records and lose the header in front of them; then no record vouches for another.
        let front = self.log.bytes.len().min(ARENA_HEADER_BYTES as usize);
        let nothing = self.log.bytes[..front].iter().all(|&byte| byte == 0);
        self.offset = 0;
        Ok(Some(if nothing { Stop::End } else { Stop::Broken { offset: 0 } }))
    }

    /// A seal can't be behind what the log before this arena reached.
    fn check_seal(&self) -> Result<()> {
        match (self.sealed_last_sequence, self.expected) {
            (Some(sealed), ExpectedSequence::Exactly(next)) if sealed.saturating_add(1) < next => {
                let what = format!("the arena was sealed with {sealed}, but {} came before it", next - 1);
                Err(self.corruption(0, what))
            }
            _ => Ok(()),
        }
    }

    /// Whether the seal says that there is no more to read.
    fn is_sealed_here(&self) -> bool {
        match (self.sealed_last_sequence, self.expected) {
            (None, _) => false,
            // All of it is in table files.
            (Some(sealed), ExpectedSequence::First { flushed_through }) => sealed <= flushed_through,
            (Some(sealed), ExpectedSequence::Exactly(next)) => sealed.checked_add(1) == Some(next),
        }
    }

    /// Whether a whole record is the one that must come now; an error if it can't have come here by any crash.
    fn is_next(&self, header: &RecordHeader) -> Result<bool> {
        let (first, last) = (header.first_sequence, header.last_sequence());
        let in_front = self.last_sequence.is_none();
        // Within an arena the numbers are gap-free even where everything is in table files.
        let must_be = match (self.expected, self.last_sequence) {
            (ExpectedSequence::Exactly(next), _) => Some(next),
            (ExpectedSequence::First { .. }, last) => last.map(|last| last + 1),
        };
        let wanted = self.expected.wanted();
        if in_front && first > wanted {
            // The end of the log was in an earlier arena and is lost: this suffix is, too.
            return Ok(false);
        }
        if must_be.is_some_and(|must_be| first != must_be) {
            let what =
                format!("a record begins with sequence number {first}, where {} must follow", must_be.unwrap_or(0));
            return Err(self.corruption(self.offset, what));
        }
        if first < wanted && wanted <= last {
            let what = format!("a record from {first} to {last} was flushed through {} only", wanted - 1);
            return Err(self.corruption(self.offset, what));
        }
        if let Some(sealed) = self.sealed_last_sequence.filter(|&sealed| first <= sealed && sealed < last) {
            let what = format!("a record from {first} to {last} in an arena that ends with {sealed}");
            return Err(self.corruption(self.offset, what));
        }
        Ok(true)
    }

    /// Links the record's entries, or passes it over if they are in table files.
    fn take(&mut self, header: &RecordHeader, payload: &[u8]) -> Result<()> {
        if header.last_sequence() < self.expected.wanted() {
            self.entries_skipped += u64::from(header.entry_count);
            return Ok(());
        }
        let (mut splice, mut linked) = (Splice::new(), 0);
        let mut rest = payload;
        for sequence in header.first_sequence..=header.last_sequence() {
            let at = self.offset + RECORD_HEADER_BYTES as usize + (payload.len() - rest.len());
            let (entry, following) = split_entry(rest).map_err(|fault| self.corruption(at, fault))?;
            // SAFETY: key and value lie one behind the other in the arena, which the MemTable owns and nobody writes.
            linked += unsafe { self.memtable.link(&mut splice, &entry, entry.key.as_ptr(), sequence) };
            rest = following;
        }
        if !rest.is_empty() {
            let at = self.offset + RECORD_HEADER_BYTES as usize + (payload.len() - rest.len());
            return Err(self.corruption(at, format!("more in a record than its {} entries", header.entry_count)));
        }
        self.memtable.count_linked(header, linked);
        self.expected = ExpectedSequence::Exactly(header.last_sequence() + 1);
        Ok(())
    }

    /// The log can't be read beyond here: whether that is its end, or damage.
    fn judge_the_end(&self, stopped: Stop) -> Result<Stop> {
        let offset = match stopped {
            Stop::Broken { offset } => offset as usize,
            Stop::End => self.offset.min(self.log.bytes.len()),
        };
        let wanted = self.expected.wanted();
        if let Some(sealed) = self.sealed_last_sequence {
            let what = format!("the arena ends before sequence number {wanted}, but it was sealed with {sealed}");
            return Err(self.corruption(offset, what));
        }
        match self.log.known_safe_after(offset) {
            Some(known_safe) if known_safe >= wanted => {
                let what =
                    format!("the record with sequence number {wanted} is lost, though all up to {known_safe} was safe");
                Err(self.corruption(offset, what))
            }
            _ => Ok(stopped),
        }
    }

    fn broken_here(&self) -> Stop {
        Stop::Broken { offset: self.offset as u64 }
    }

    fn corruption(&self, offset: usize, what: impl Into<String>) -> Error {
        let (file, offset) = self.memtable.arena().place(offset as u64);
        Error::corruption(file, offset, what)
    }
}

/// An arena's bytes, which may be anything, looked at as records of one generation.
#[derive(Clone, Copy)]
struct Log<'a> {
    bytes: &'a [u8],
    crc_seed: u32,
}

impl<'a> Log<'a> {
    fn header_at(&self, offset: usize) -> Option<&'a RecordHeaderBytes> {
        self.bytes.get(offset..)?.first_chunk()
    }

    /// What is impossible about the header there, although its CRC is right.
    fn signed_fault_at(&self, offset: usize) -> Option<&'static str> {
        let header = self.header_at(offset)?;
        let fault = RecordHeader::read(header).fault((self.bytes.len() - offset) as u64)?;
        RecordHeader::crc_matches(header, self.crc_seed).then_some(fault)
    }

    /// The header there, if it is one, and the payload behind it, whole or not.
    fn signed_header_at(&self, offset: usize) -> Option<(RecordHeader, &'a [u8])> {
        let bytes = self.header_at(offset)?;
        let header = RecordHeader::read(bytes);
        if header.fault((self.bytes.len() - offset) as u64).is_some()
            || !RecordHeader::crc_matches(bytes, self.crc_seed)
        {
            return None;
        }
        let payload = &self.bytes[offset + RECORD_HEADER_BYTES as usize..][..header.payload_length as usize];
        Some((header, payload))
    }

    fn whole_record_at(&self, offset: usize) -> Option<(RecordHeader, &'a [u8])> {
        self.signed_header_at(offset).filter(|(header, payload)| crc32c::crc32c(payload) == header.payload_crc)
    }

    /// Visits the whole records at or behind `offset`, wherever they stand; behind a whole one it goes on at its end.
    fn scan(&self, offset: usize, mut visit: impl FnMut(&RecordHeader) -> ControlFlow<()>) {
        const STEP: usize = RECORD_ALIGNMENT_BYTES as usize;
        let mut offset = offset.max(ARENA_HEADER_BYTES as usize);
        let mut work = (self.bytes.len().saturating_sub(offset) as u64).saturating_mul(SCAN_WORK_FACTOR);
        while let Some(aligned) = offset.checked_next_multiple_of(STEP).filter(|&offset| offset < self.bytes.len()) {
            offset = aligned + STEP;
            let Some((header, payload)) = self.signed_header_at(aligned) else { continue };
            let Some(left) = work.checked_sub(payload.len() as u64) else { return };
            work = left;
            if crc32c::crc32c(payload) == header.payload_crc {
                if visit(&header).is_break() {
                    return;
                }
                offset = aligned.saturating_add(header.record_bytes() as usize);
            }
        }
    }

    fn holds_records(&self) -> bool {
        let mut any = false;
        self.scan(0, |_| {
            any = true;
            ControlFlow::Break(())
        });
        any
    }

    fn known_safe_after(&self, offset: usize) -> Option<u64> {
        let mut largest = None;
        self.scan(offset, |header| {
            largest = largest.max(Some(header.known_safe_sequence));
            ControlFlow::Continue(())
        });
        largest
    }
}
