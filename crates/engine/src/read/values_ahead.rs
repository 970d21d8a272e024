//! [`ValuesAhead`]: a cursor's value and those that follow it, copied from mapped files and checked, several at a time.
//!
//! An entry that stands by itself in a mapped file needs no block. It is copied and the copy is checked. A cursor that
//! takes the values of entries in a row has one copied, then two, four, and at last `VALUES_AT_ONCE` together, into one
//! **chunk**. So a file is looked up once for several values, and the processor fetches the next chunk's entries while
//! this one is used. No more is copied ahead than was taken already, so a short range pays for little that it does not take.
//!
//! Between two chunks no file is held open. So a cursor at rest does not keep the space of removed files.

use std::ops::Range;
use std::sync::{Arc, Weak};

use slmdb_env::Result;
use slmdb_table::{EntryKind, Slice, TableReader};

use super::read_ahead::SMALL_BYTES;
use super::scan_buffers::SeekCounter;
use crate::files::location::Location;
use crate::files::table_cache::Tables;

/// Values that are copied together, at most.
const VALUES_AT_ONCE: usize = 16;
/// Bytes of a chunk. A longer entry is copied by itself.
const CHUNK_BYTES: usize = 4 << 10;
/// Number of files that a cursor remembers, at first and at most: powers of two.
const FILE_SLOTS_MIN: usize = 32;
const FILE_SLOTS_MAX: usize = 512;
/// After a value that can't be had here, this many are not looked for.
const VALUES_LEFT_OUT: usize = 15;

/// A cursor's value and those that follow it.
#[derive(Debug, Default)]
pub struct ValuesAhead {
    files: Files,
    /// The file of the last value.
    file_last: Option<u32>,
    /// Where values are copied to. It is used again when no caller has a value of it.
    chunk: Option<Arc<[u8]>>,
    /// The values in the chunk, in the cursor's order.
    values: Vec<Value>,
    /// How many of them the cursor has passed or taken.
    passed: usize,
    /// Number of values of the next chunk, at most.
    at_once: usize,
    /// Number of entries behind the chunk that the processor was asked to fetch.
    prefetched: usize,
    /// Where the last value by itself was copied to.
    buffer: Option<Arc<[u8]>>,
    /// The value, if it is not in the chunk.
    alone: Slice,
    /// Number of values that are still not to be looked for.
    left_out: usize,
}

#[derive(Debug)]
struct Value {
    location: Location,
    /// Where it is in the chunk.
    range: Range<u32>,
}

impl ValuesAhead {
    /// Brings the value of the current key, which is at `location`, if its entry stands by itself in a mapped file; else
    /// `false`. `entries` are the current key's and those that the cursor will come to, as the index has them.
    #[inline]
    pub fn bring<'k>(
        &mut self,
        tables: &Tables,
        seeks: &impl SeekCounter,
        entries: impl Iterator<Item = (&'k [u8], Location)> + Clone,
        location: Location,
    ) -> Result<bool> {
        Ok(self.turn_to(seeks, location) || self.copy(tables, seeks, entries, location)?)
    }

    /// Takes the value that was brought. A long one is the caller's alone then.
    pub fn take_value(&mut self) -> Slice {
        match self.in_chunk() {
            Some((chunk, range)) => Slice::of(chunk.clone(), range),
            None => std::mem::take(&mut self.alone),
        }
    }

    /// The same, lent.
    #[inline]
    pub fn value_lent(&self) -> &[u8] {
        self.in_chunk().map_or(&self.alone, |(chunk, range)| &chunk[range])
    }

    /// Where in the chunk the value is that was brought, if it is there.
    #[inline]
    fn in_chunk(&self) -> Option<(&Arc<[u8]>, Range<usize>)> {
        let value = self.values.get(self.passed.checked_sub(1)?)?;
        Some((self.chunk.as_ref()?, value.range.start as usize..value.range.end as usize))
    }

    /// Turns to a value that is in the chunk. `false`: it is not.
    #[inline]
    pub fn turn_to(&mut self, seeks: &impl SeekCounter, location: Location) -> bool {
        let is_it = |value: &Value| value.location == location;
        let at = match self.values.get(self.passed) {
            Some(next) if is_it(next) => self.passed,
            // It may be the one that was taken last, once more, or some were left out.
            _ => {
                let last = self.passed.saturating_sub(1);
                match self.values[last..].iter().position(is_it) {
                    Some(at) => last + at,
                    None => return false,
                }
            }
        };
        self.passed = at + 1;
        self.note_file(seeks, location.file);
        true
    }

    #[inline]
    fn note_file(&mut self, seeks: &impl SeekCounter, file: u32) {
        if self.file_last.replace(file) != Some(file) {
            seeks.count_seek(file);
        }
    }

    /// Copies the value at `location`, and some of those that follow.
    fn copy<'k>(
        &mut self,
        tables: &Tables,
        seeks: &impl SeekCounter,
        entries: impl Iterator<Item = (&'k [u8], Location)> + Clone,
        location: Location,
    ) -> Result<bool> {
        if self.left_out > 0 {
            self.left_out -= 1;
            return Ok(false);
        }
        if !tables.are_mapped() {
            return Ok(false);
        }
        if self.passed < self.values.len() {
            // Who has left out values may leave out the next, too.
            self.prepare_seek();
        }
        self.values.clear();
        // Who still had it would keep its memory from being used again.
        (self.passed, self.alone) = (0, Slice::new());
        let is_copied = self.copy_first_of(tables, entries, location);
        self.files.close();
        match is_copied {
            Ok(true) => self.note_file(seeks, location.file),
            Ok(false) => self.left_out = VALUES_LEFT_OUT,
            Err(_) => {}
        }
        is_copied
    }

    /// Copies the values of the first of these entries. That of the very first is at `location`.
    fn copy_first_of<'k>(
        &mut self,
        tables: &Tables,
        entries: impl Iterator<Item = (&'k [u8], Location)> + Clone,
        location: Location,
    ) -> Result<bool> {
        let at_once = self.at_once.clamp(1, VALUES_AT_ONCE);
        self.at_once = 2 * at_once;
        let prefetched = std::mem::take(&mut self.prefetched);
        let count = self.prefetch(tables, entries.clone(), at_once, prefetched);
        let mut following = entries.clone();
        let Some((key, is_there)) = following.next().map(|(key, first)| (key, first == location)) else {
            return Ok(false);
        };
        // (It may have been moved since the index was read.)
        if count > 1 && is_there {
            following.nth(count - 2);
            let asked_for = self.fill_chunk(tables, entries, count, following.clone())?;
            self.prefetched = self.prefetch(tables, following, self.at_once.min(VALUES_AT_ONCE), asked_for);
            self.passed = 1;
            return Ok(!self.values.is_empty());
        }
        let table = self.files.open(tables, location.file)?;
        let found = table.read_mapped_entry(location.place, key, location.sequence, &mut self.buffer)?;
        self.buffer.take_if(|buffer| buffer.len() > SMALL_BYTES);
        self.prefetched = self.prefetch(tables, following, self.at_once.min(VALUES_AT_ONCE), 0);
        // Who asks for the block is told what is there instead.
        let value = found.filter(|entry| entry.kind == EntryKind::Put).map(|entry| entry.value);
        let is_copied = value.is_some();
        self.alone = value.unwrap_or_default();
        Ok(is_copied)
    }

    /// Copies so many values into a chunk, or those that are to be had. The error is that of the first: of the others' the cursor hears
    /// when it comes to them. With each that is copied, the processor is asked to fetch one of those that follow, so that it checks the one
    /// while it waits for the other. Returns how many were asked for.
    fn fill_chunk<'k>(
        &mut self,
        tables: &Tables,
        entries: impl Iterator<Item = (&'k [u8], Location)>,
        count: usize,
        mut following: impl Iterator<Item = (&'k [u8], Location)>,
    ) -> Result<usize> {
        let unused = self.chunk.take().filter(|chunk| Arc::strong_count(chunk) == 1);
        let mut chunk = unused.unwrap_or_else(|| std::iter::repeat_n(0, CHUNK_BYTES).collect());
        let Some(bytes) = Arc::get_mut(&mut chunk) else { return Ok(0) };
        let (mut start, mut asked_for) = (0, 0);
        for (key, location) in entries.take(count) {
            if let Some((_, next)) = following.next() {
                self.files.prefetch(tables, next);
                asked_for += 1;
            }
            let table = match self.files.open(tables, location.file) {
                Ok(table) => table,
                Err(error) if start == 0 => return Err(error),
                Err(_) => break,
            };
            let into = bytes.get_mut(start..).unwrap_or_default();
            match table.copy_mapped_entry(location.place, key, location.sequence, into) {
                Ok(Some(value)) => {
                    let range = (start + value.start) as u32..(start + value.end) as u32;
                    self.values.push(Value { location, range });
                }
                Err(error) if start == 0 => return Err(error),
                Ok(None) | Err(_) => break,
            }
            start += room_bytes(location);
        }
        self.chunk = Some(chunk);
        Ok(asked_for)
    }

    /// Has the processor fetch the entries of a chunk, which are the first of these, `most` at most; but not those that it was asked for
    /// already. Returns how many there are: as many as fit into a chunk, or one.
    #[inline]
    fn prefetch<'k>(
        &mut self,
        tables: &Tables,
        entries: impl Iterator<Item = (&'k [u8], Location)>,
        most: usize,
        already: usize,
    ) -> usize {
        let (mut count, mut end) = (0, 0);
        for (_, location) in entries {
            end += room_bytes(location);
            if count == most || (count > 0 && end > CHUNK_BYTES) {
                break;
            }
            if count >= already {
                self.files.prefetch(tables, location);
            }
            count += 1;
        }
        count
    }

    /// The cursor leaves its entry for a place that does not follow from it.
    pub fn prepare_seek(&mut self) {
        self.values.clear();
        (self.passed, self.at_once, self.prefetched, self.left_out) = (0, 0, 0, 0);
    }

    /// Forgets all values, for another cursor. Its memory is kept, but for what a caller still has.
    pub fn reset(&mut self) {
        self.prepare_seek();
        (self.file_last, self.alone) = (None, Slice::new());
        for copy in [&mut self.chunk, &mut self.buffer] {
            copy.take_if(|copy| Arc::strong_count(copy) > 1);
        }
        if self.files.slots.len() > FILE_SLOTS_MIN {
            self.files = Files::default();
        }
    }

    /// What all of it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let of_copies = [&self.chunk, &self.buffer].map(|copy| copy.as_ref().map_or(0, |copy| copy.len()));
        // A short value by itself lies in the buffer.
        let of_alone = if self.buffer.is_none() { self.alone.pinned_bytes() } else { 0 };
        let of_values = self.values.capacity() * size_of::<Value>() + of_alone;
        (of_copies.iter().sum::<usize>() + of_values) as u64 + self.files.memory_bytes()
    }
}

/// What an entry takes in a chunk, in bytes: each begins at a multiple of 8, from where it is quicker to check.
#[inline]
fn room_bytes(location: Location) -> usize {
    (location.place.length as usize).next_multiple_of(8)
}

/// The files that a cursor knows, each in the slot of its number. Where two want the same slot, there are twice as many.
#[derive(Debug, Default)]
struct Files {
    slots: Vec<FileSlot>,
    /// A bit for each slot whose file is held open.
    held: [u64; FILE_SLOTS_MAX / 64],
}

#[derive(Debug, Default)]
struct FileSlot {
    number: u32,
    known: Weak<TableReader>,
    held: Option<Arc<TableReader>>,
}

impl Files {
    /// The file's reader, which is held open until [`Files::close`].
    #[inline]
    fn open(&mut self, tables: &Tables, number: u32) -> Result<&TableReader> {
        self.hold(number, || tables.reader(number))
    }

    /// Has the processor fetch an entry, if its file is open.
    #[inline]
    fn prefetch(&mut self, tables: &Tables, location: Location) {
        if let Ok(table) = self.hold(location.file, || tables.open_reader(location.file).ok_or(())) {
            table.prefetch_mapped(location.place);
        }
    }

    /// Holds a file open, which `find` finds if it is not known.
    #[inline]
    fn hold<E>(
        &mut self,
        number: u32,
        find: impl FnOnce() -> std::result::Result<Arc<TableReader>, E>,
    ) -> std::result::Result<&TableReader, E> {
        let mut index = self.slot_of(number);
        // Threads share what counts a file's owners, so nothing is counted that need not be.
        let is_known = self.slots.get(index).is_some_and(|slot| slot.number == number);
        let known = if is_known { self.slots[index].take() } else { None };
        let table = match known {
            Some(table) => table,
            None => {
                let table = find()?;
                self.make_room(number);
                index = self.slot_of(number);
                self.slots[index] = FileSlot { number, known: Arc::downgrade(&table), held: None };
                table
            }
        };
        self.held[index / 64] |= 1 << (index % 64);
        Ok(self.slots[index].held.insert(table))
    }

    #[inline]
    fn slot_of(&self, number: u32) -> usize {
        // There are none, or a power of two.
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Makes room for another file: at first, and where its slot has one that is still there.
    fn make_room(&mut self, number: u32) {
        let slots = self.slots.len();
        let is_taken = self.slots.get(self.slot_of(number)).is_none_or(FileSlot::is_in_use);
        if !is_taken || slots == FILE_SLOTS_MAX {
            return;
        }
        self.close();
        let before = std::mem::take(&mut self.slots);
        self.slots.resize_with((2 * slots).max(FILE_SLOTS_MIN), FileSlot::default);
        for known in before.into_iter().filter(FileSlot::is_in_use) {
            let index = self.slot_of(known.number);
            self.slots[index] = known;
        }
    }

    /// Keeps no file open any more.
    fn close(&mut self) {
        for (word, held) in self.held.iter_mut().enumerate() {
            while *held != 0 {
                self.slots[64 * word + held.trailing_zeros() as usize].held = None;
                *held &= *held - 1;
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<FileSlot>()) as u64
    }
}

impl FileSlot {
    /// The file, which is not held here any more.
    #[inline]
    fn take(&mut self) -> Option<Arc<TableReader>> {
        self.held.take().or_else(|| self.known.upgrade())
    }

    fn is_in_use(&self) -> bool {
        self.known.strong_count() > 0
    }
}

#[cfg(test)]
mod tests;
