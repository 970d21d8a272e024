//! Reading back what a crash left of a log in its arena.
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
//! - a **seal**: once recovery has ended a log, or one is followed by another, the MANIFEST may keep the last
//!   sequence number of the arena. The replay then reaches exactly that, or it is [`Error::Corruption`].
//!
//! The bytes may be anything. A CRC that is right over content that can't be (counts that do not match, numbers that run
//! backwards) was written so, and is [`Error::Corruption`] too. Time: in proportion to the arena's length, whatever is
//! in it.

use slmdb_env::{Error, Result};
use slmdb_pmem::{Arena, Medium};

use super::arena_header::{ARENA_FORMAT_VERSION, ARENA_HEADER_BYTES, ArenaHeader, MAXIMUM_ARENA_BYTES};
use super::log::Log;
use super::log_bytes::LogBytes;
use super::record::{PayloadEntry, PayloadKind, RecordHeader, crc_seed, entries, slot_of, split_entry};
use super::record_form::RecordForm;

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

/// Why a reading ended where it did.
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

/// The outcome of a reading of a log.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
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
    /// The largest known-safe sequence number of a record that was taken; 0 if there was none.
    pub known_safe_sequence: u64,
}

/// An entry that counts, as a reading finds it.
#[derive(Debug, Clone, Copy)]
pub struct LoggedEntry<'a> {
    /// Key, value and kind. A void entry takes its sequence number and has no other meaning.
    pub entry: PayloadEntry<'a>,
    /// Its sequence number: that of the entry before and 1.
    pub sequence: u64,
    /// Where in the arena it begins, in bytes.
    pub offset: u64,
    /// Where its slot is, if records have slots.
    pub slot: Option<u64>,
}

/// Reads an arena's log: takes whole records in order, from the expected sequence number on, gap-free, and stops at the first
/// that is not whole or not the next. See the module for what is an end and what is an error.
///
/// `sealed_last_sequence`, where known, is the last sequence number of the arena: nothing beyond it is taken, and less
/// is an error. An arena may be sealed empty, with the number before the expected one.
///
/// `take` is shown every entry that is taken, in order. What it was shown before an error means nothing.
///
/// Arenas are read in the order of their generations, each with [`Reading::expected_next`] of the one before.
///
/// Errors: [`Error::Corruption`] with file and offset; [`Error::Unsupported`] for an arena of another format version.
pub fn read<M: Medium>(
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
    take: impl FnMut(LoggedEntry<'_>),
) -> Result<(Log<M>, Reading)> {
    // SAFETY: the arena is ours, and nobody writes to it before it is part of a log.
    let form = found_form(unsafe { arena.bytes(0, arena.length_bytes()) }.unwrap_or_default(), generation, store_uuid);
    let mut recovered = Log::recovered(arena, generation, store_uuid, form.unwrap_or_default());
    let log = recovered.bytes();
    let mut reader = Reader {
        arena: recovered.arena(),
        log,
        generation,
        store_uuid,
        expected,
        sealed_last_sequence,
        offset: log.form.first_record_offset() as usize,
        last_sequence: None,
        entries_skipped: 0,
        first: None,
        known_safe_sequence: 0,
        take,
    };
    let stopped = reader.run()?;
    let Reader { expected, offset, last_sequence, entries_skipped, first, known_safe_sequence, .. } = reader;
    let end_offset = offset.min(log.bytes.len()) as u64;
    let (first_sequence, first_record) = first.unwrap_or((u64::MAX, end_offset));
    (*recovered.end_offset.get_mut(), recovered.first_record) = (end_offset, first_record);
    if let Some(last_sequence) = last_sequence.filter(|_| first.is_some()) {
        recovered.count(first_sequence, last_sequence);
    }
    let expected_next = expected;
    Ok((recovered, Reading { last_sequence, expected_next, entries_skipped, end_offset, stopped, known_safe_sequence }))
}

/// The form that the header of this generation names; `None` if there is no such header, or no such form.
fn found_form(arena: &[u8], generation: u64, store_uuid: [u8; 16]) -> Option<RecordForm> {
    let header = ArenaHeader::decode(arena)?;
    let is_ours = header.generation == generation && header.store_uuid == store_uuid;
    if is_ours { RecordForm::of_number(header.form) } else { None }
}

/// The arena as a log; as that of either form when it does not say which.
fn logs(arena: &[u8], generation: u64, store_uuid: [u8; 16]) -> impl Iterator<Item = LogBytes<'_>> {
    let found = found_form(arena, generation, store_uuid);
    let forms = RecordForm::ALL.into_iter().filter(move |&form| found.is_none_or(|found| found == form));
    forms.map(move |form| LogBytes { bytes: arena, crc_seed: crc_seed(generation, &store_uuid, form), form })
}

/// The largest known-safe sequence number of any whole record of this generation that starts at `offset` or behind it:
/// everything up to there, in this arena and earlier ones, was durable once. [`read`] asks this of its arena by itself.
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
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    logs(bytes, generation, store_uuid).filter_map(|log| log.known_safe_after(offset)).max()
}

/// Whether there is any whole record of this generation in the arena, wherever it stands.
pub fn holds_records<M: Medium>(arena: &mut Arena<M>, generation: u64, store_uuid: [u8; 16]) -> bool {
    // SAFETY: `&mut`: nobody else uses the arena during the call, and the slice does not outlive it.
    let bytes = unsafe { arena.bytes(0, arena.length_bytes()) }.unwrap_or_default();
    logs(bytes, generation, store_uuid).any(|log| log.holds_records())
}

/// A reading under way.
struct Reader<'a, M: Medium, T> {
    /// For places in messages.
    arena: &'a Arena<M>,
    log: LogBytes<'a>,
    generation: u64,
    store_uuid: [u8; 16],
    /// Moves on with every record.
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
    /// Of the next record.
    offset: usize,
    last_sequence: Option<u64>,
    entries_skipped: u64,
    /// Of the first record that was taken: its sequence number and its place.
    first: Option<(u64, u64)>,
    known_safe_sequence: u64,
    take: T,
}

impl<M: Medium, T: FnMut(LoggedEntry<'_>)> Reader<'_, M, T> {
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
            self.offset = self.offset.saturating_add(header.record_bytes(self.log.form) as usize);
        }
    }

    /// Checks the arena header; `Some` if there is none of this generation, hence nothing to read.
    fn read_arena_header(&mut self) -> Result<Option<Stop>> {
        let found = ArenaHeader::decode(self.log.bytes);
        let ours = found.filter(|header| (header.generation, header.store_uuid) == (self.generation, self.store_uuid));
        if let Some(header) = ours {
            if header.format_version != ARENA_FORMAT_VERSION {
                let file = Some(self.arena.place(0).0);
                let what = format!("an arena of format version {}", header.format_version);
                return Err(Error::Unsupported { what, file });
            }
            if RecordForm::of_number(header.form).is_none() {
                return Err(self.corruption(0, format!("an arena with records of kind {}", header.form)));
            }
            if header.capacity_bytes > MAXIMUM_ARENA_BYTES {
                return Err(self.corruption(0, format!("no arena has {} bytes", header.capacity_bytes)));
            }
            if header.capacity_bytes > self.arena.whole_bytes() {
                let what = format!("the arena is shorter than its {} bytes", header.capacity_bytes);
                return Err(self.corruption(self.log.bytes.len(), what));
            }
            let capacity = usize::try_from(header.capacity_bytes).unwrap_or(usize::MAX);
            self.log.bytes = &self.log.bytes[..capacity.min(self.log.bytes.len())];
            return Ok(None);
        }
        // Either there never was a record, or the header is lost. Where the medium promises nothing before a sync, a power
        // cut may keep records and lose the header in front of them; then no record vouches for another.
        let nothing = self.log.bytes.iter().take(ARENA_HEADER_BYTES as usize).all(|&byte| byte == 0);
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
        if first < wanted && wanted <= last && !self.deletes_range_at(header, wanted) {
            let what = format!("a record from {first} to {last} was flushed through {} only", wanted - 1);
            return Err(self.corruption(self.offset, what));
        }
        if let Some(sealed) = self.sealed_last_sequence.filter(|&sealed| first <= sealed && sealed < last) {
            let what = format!("a record from {first} to {last} in an arena that ends with {sealed}");
            return Err(self.corruption(self.offset, what));
        }
        Ok(true)
    }

    /// Whether the entry with this number deletes a range, or is the void one before it. Flushes may end there.
    fn deletes_range_at(&self, header: &RecordHeader, sequence: u64) -> bool {
        let payload = self.log.whole_record_at(self.offset).map_or(&[][..], |(_, payload)| payload);
        let mut entries = entries(payload).skip((sequence - header.first_sequence) as usize);
        let is_void = |entry: &PayloadEntry<'_>| entry.kind == PayloadKind::Void;
        let entry = entries.next().and_then(|entry| if is_void(&entry) { entries.next() } else { Some(entry) });
        entry.is_some_and(|entry| entry.kind == PayloadKind::DeleteRange)
    }

    /// Takes the record's entries, but for those that are in table files.
    fn take(&mut self, header: &RecordHeader, payload: &[u8]) -> Result<()> {
        let wanted = self.expected.wanted();
        if header.last_sequence() < wanted {
            self.entries_skipped += u64::from(header.entry_count);
            return Ok(());
        }
        let record_offset = self.offset as u64;
        let payload_offset = self.offset + header.payload_start(self.log.form) as usize;
        let mut rest = payload;
        for index in 0..u64::from(header.entry_count) {
            let at = payload_offset + (payload.len() - rest.len());
            let (entry, following) = split_entry(rest).map_err(|fault| self.corruption(at, fault))?;
            let slot = (self.log.form == RecordForm::WithSlots).then(|| slot_of(record_offset, index));
            let sequence = header.first_sequence + index;
            if sequence >= wanted {
                (self.take)(LoggedEntry { entry, sequence, offset: at as u64, slot });
            } else {
                self.entries_skipped += 1;
            }
            rest = following;
        }
        if !rest.is_empty() {
            let at = payload_offset + (payload.len() - rest.len());
            return Err(self.corruption(at, format!("more in a record than its {} entries", header.entry_count)));
        }
        self.first.get_or_insert((header.first_sequence.max(wanted), record_offset));
        self.known_safe_sequence = self.known_safe_sequence.max(header.known_safe_sequence);
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
        // Where there is no header, the records behind it may be of either form.
        let logs = match self.offset {
            0 => logs(self.log.bytes, self.generation, self.store_uuid).collect(),
            _ => vec![self.log],
        };
        match logs.iter().filter_map(|log| log.known_safe_after(offset)).max() {
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
        let (file, offset) = self.arena.place(offset as u64);
        Error::corruption(file, offset, what)
    }
}
