//! The values of a cursor's entry and of those that follow it, copied out of mapped files and checked, several at a time.
//!
//! Where an entry stands by itself in a mapped file, most of what its value costs is waiting for memory, and looking up its file.
//! Who takes the values of entries that follow each other has them copied one, two, four, at last [`VALUES_AT_ONCE`] at a time, into one
//! **chunk**: the processor fetches them side by side, and those of the next chunk while this one is being used. No more is
//! copied ahead than was taken already, so a short range pays for little that it does not take.
//!
//! No file is kept open between two chunks, so that a cursor at rest does not keep the space of files that are gone.

use std::ops::Range;
use std::sync::{Arc, Weak};

use slmdb_engine::files::location::Location;
use slmdb_env::Result;
use slmdb_pmem::Medium;
use slmdb_structures::fast_fair::Direction;
use slmdb_table::{EntryKind, Slice, TableReader};

use crate::index::index_iterator::IndexSource;
use crate::operations::get::Reader;
use crate::operations::read_ahead::SMALL_BYTES;

/// So many values are copied at once, at most.
const VALUES_AT_ONCE: usize = 16;
/// How long the entries of a chunk are together, in bytes. What is longer is copied by itself.
const CHUNK_BYTES: usize = 4 << 10;
/// How many files a cursor knows, at most.
const FILE_SLOTS: usize = 64;
/// After a value that is not to be had here, so many are not looked for.
const VALUES_LEFT_OUT: usize = 15;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ValuesAhead {
    files: Files,
    /// Which file the last value was from.
    file_last: Option<u32>,
    /// Where values are copied to, used again if nobody has one of them any more.
    chunk: Option<Arc<[u8]>>,
    /// Those that are in the chunk, in the cursor's order.
    values: Vec<Value>,
    /// How many of them the cursor has passed or taken.
    passed: usize,
    /// How many values the next chunk is to have.
    at_once: usize,
    /// How many entries behind those of the chunk the processor was asked to fetch.
    prefetched: usize,
    /// Where the last value by itself was copied to.
    buffer: Option<Arc<[u8]>>,
    /// The value, if it is not in the chunk.
    alone: Slice,
    /// So many values are not looked for.
    left_out: usize,
}

#[derive(Debug)]
struct Value {
    location: Location,
    /// Where it is in the chunk.
    range: Range<usize>,
}

impl ValuesAhead {
    /// Brings the value at `location`, if it is in a mapped file by itself; else `false`. `index` stands on its key, and `direction` is
    /// where the cursor goes.
    #[inline]
    pub(crate) fn bring<M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        source: (&IndexSource, Direction),
        location: Location,
    ) -> Result<bool> {
        Ok(self.turn_to(reader, location) || self.copy(reader, source, location)?)
    }

    /// The value that was brought.
    pub(crate) fn value(&self) -> Slice {
        match self.in_chunk() {
            Some((chunk, range)) => Slice::of(chunk.clone(), range),
            None => self.alone.clone(),
        }
    }

    /// The same, lent.
    #[inline]
    pub(crate) fn value_lent(&self) -> &[u8] {
        self.in_chunk().map_or(&self.alone, |(chunk, range)| &chunk[range])
    }

    /// Where in the chunk the value is that was brought, if it is there.
    #[inline]
    fn in_chunk(&self) -> Option<(&Arc<[u8]>, Range<usize>)> {
        let value = self.values.get(self.passed.checked_sub(1)?)?;
        Some((self.chunk.as_ref()?, value.range.clone()))
    }

    /// Turns to a value that is in the chunk. `false`: it is not.
    #[inline]
    pub(crate) fn turn_to<M: Medium + Clone>(&mut self, reader: &Reader<M>, location: Location) -> bool {
        let is_it = |value: &Value| value.location == location;
        let at = match self.values.get(self.passed) {
            Some(next) if is_it(next) => self.passed,
            // It may be the one that was taken last, once more, or some were left out.
            _ => match self.values.iter().position(is_it) {
                Some(at) => at,
                None => return false,
            },
        };
        self.passed = at + 1;
        self.note_file(reader, location.file);
        true
    }

    #[inline]
    fn note_file<M: Medium + Clone>(&mut self, reader: &Reader<M>, file: u32) {
        if self.file_last.replace(file) != Some(file) {
            reader.naming.file_sought(file);
        }
    }

    /// Copies the value at `location`, and some of those that follow.
    fn copy<M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        source: (&IndexSource, Direction),
        location: Location,
    ) -> Result<bool> {
        if self.left_out > 0 {
            self.left_out -= 1;
            return Ok(false);
        }
        if !reader.tables.are_mapped() {
            return Ok(false);
        }
        if self.passed < self.values.len() {
            // Who has left out values may leave out the next, too.
            self.set_out();
        }
        self.values.clear();
        // Who still had it would keep its memory from being used again.
        (self.passed, self.alone) = (0, Slice::new());
        let (index, direction) = source;
        let is_copied = match direction {
            Direction::Forward => self.copy_first_of(reader, index.entries_forward(), location),
            Direction::Backward => self.copy_first_of(reader, index.entries_backward(), location),
        };
        self.files.close();
        match is_copied {
            Ok(true) => self.note_file(reader, location.file),
            Ok(false) => self.left_out = VALUES_LEFT_OUT,
            Err(_) => {}
        }
        is_copied
    }

    /// Copies the values of the first of these entries. That of the very first is at `location`.
    fn copy_first_of<'k, M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        entries: impl Iterator<Item = (&'k [u8], Location)> + Clone,
        location: Location,
    ) -> Result<bool> {
        let at_once = self.at_once.clamp(1, VALUES_AT_ONCE);
        self.at_once = 2 * at_once;
        let prefetched = std::mem::take(&mut self.prefetched);
        let count = self.prefetch(entries.clone(), at_once, prefetched);
        let mut following = entries.clone();
        let Some((key, is_there)) = following.next().map(|(key, first)| (key, first == location)) else {
            return Ok(false);
        };
        // (It may have been moved since the index was read.)
        if count > 1 && is_there {
            self.fill_chunk(reader, entries, count)?;
            following.nth(count - 2);
            self.prefetched = self.prefetch(following, self.at_once.min(VALUES_AT_ONCE), 0);
            self.passed = 1;
            return Ok(!self.values.is_empty());
        }
        let table = self.files.open(reader, location.file)?;
        let found = table.read_mapped_entry(location.place, key, location.sequence, &mut self.buffer)?;
        self.buffer.take_if(|buffer| buffer.len() > SMALL_BYTES);
        self.prefetched = self.prefetch(following, self.at_once.min(VALUES_AT_ONCE), 0);
        // Who asks for the block is told what is there instead.
        let value = found.filter(|entry| entry.kind == EntryKind::Put).map(|entry| entry.value);
        let is_copied = value.is_some();
        self.alone = value.unwrap_or_default();
        Ok(is_copied)
    }

    /// Copies so many values into a chunk, or those that are to be had. The error is that of the first: of the others' the cursor hears
    /// when it comes to them.
    fn fill_chunk<'k, M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        entries: impl Iterator<Item = (&'k [u8], Location)>,
        count: usize,
    ) -> Result<()> {
        let unused = self.chunk.take().filter(|chunk| Arc::strong_count(chunk) == 1);
        let mut chunk = unused.unwrap_or_else(|| std::iter::repeat_n(0, CHUNK_BYTES).collect());
        let Some(bytes) = Arc::get_mut(&mut chunk) else { return Ok(()) };
        let mut start = 0;
        for (key, location) in entries.take(count) {
            let table = self.files.open(reader, location.file);
            let into = bytes.get_mut(start..).unwrap_or_default();
            match table.and_then(|table| table.copy_mapped_entry(location.place, key, location.sequence, into)) {
                Ok(Some(value)) => {
                    self.values.push(Value { location, range: start + value.start..start + value.end });
                }
                Err(error) if start == 0 => return Err(error),
                Ok(None) | Err(_) => break,
            }
            start += room_bytes(location);
        }
        self.chunk = Some(chunk);
        Ok(())
    }

    /// Has the processor fetch the entries of a chunk, which are the first of these, `most` at most; but not those that it was asked for
    /// already. Returns how many there are: as many as fit into a chunk, or one.
    #[inline]
    fn prefetch<'k>(
        &mut self,
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
                self.files.prefetch(location);
            }
            count += 1;
        }
        count
    }

    /// The cursor leaves its entry for a place that does not follow from it.
    pub(crate) fn set_out(&mut self) {
        self.values.clear();
        (self.passed, self.at_once, self.prefetched, self.left_out) = (0, 0, 0, 0);
    }

    /// What all of it takes in memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let of_copies = [&self.chunk, &self.buffer].map(|copy| copy.as_ref().map_or(0, |copy| copy.len()));
        let of_values = self.values.capacity() * size_of::<Value>();
        (of_copies.iter().sum::<usize>() + of_values) as u64 + self.files.memory_bytes()
    }
}

/// What an entry takes in a chunk, in bytes: each begins at a multiple of 8, from where it is quicker to check.
#[inline]
fn room_bytes(location: Location) -> usize {
    (location.place.length as usize).next_multiple_of(8)
}

/// The files that a cursor knows, each in the slot of its number.
#[derive(Debug, Default)]
struct Files {
    slots: Vec<FileSlot>,
    /// A bit for each slot whose file is held open.
    held: u64,
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
    fn open<M: Medium + Clone>(&mut self, reader: &Reader<M>, number: u32) -> Result<&TableReader> {
        if self.slots.is_empty() {
            self.slots.resize_with(FILE_SLOTS, FileSlot::default);
        }
        let index = number as usize % FILE_SLOTS;
        let slot = &mut self.slots[index];
        if slot.number == number {
            if let Some(table) = slot.held.take() {
                return Ok(slot.held.insert(table));
            }
        }
        let known = slot.known.upgrade().filter(|_| slot.number == number);
        let table = known.map_or_else(|| reader.tables.reader(number), Ok)?;
        *slot = FileSlot { number, known: Arc::downgrade(&table), held: None };
        self.held |= 1 << index;
        Ok(slot.held.insert(table))
    }

    /// Has the processor fetch an entry, if its file is known.
    #[inline]
    fn prefetch(&mut self, location: Location) {
        let index = location.file as usize % FILE_SLOTS;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.number == location.file) else { return };
        if slot.held.is_none() {
            slot.held = slot.known.upgrade();
            self.held |= 1 << index;
        }
        if let Some(table) = &slot.held {
            table.prefetch_mapped(location.place);
        }
    }

    /// Keeps no file open any more.
    fn close(&mut self) {
        while self.held != 0 {
            self.slots[self.held.trailing_zeros() as usize].held = None;
            self.held &= self.held - 1;
        }
    }

    fn memory_bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<FileSlot>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use slmdb_engine::{CompactionOptions, CompactionPolicy, Engine, ErrorKind, Options, Slice, WriteBatch};
    use slmdb_env::memory::{MemoryEnv, Random};
    use slmdb_table::Compression;

    use crate::recovery::open;

    const KEYS: usize = 600;

    fn key(number: usize) -> String {
        format!("key {number:04}")
    }

    /// A store whose neighbouring keys lie in three files that are mapped, and what is in it.
    fn filled(env: &MemoryEnv, random: &mut Random) -> (Arc<dyn Engine>, Vec<Vec<u8>>) {
        let compaction = CompactionOptions { policy: CompactionPolicy::Manual, ..CompactionOptions::default() };
        let compression = Compression::None;
        let options = Options { env: Arc::new(env.clone()), compaction, compression, ..Options::default() };
        let engine = open::open(&options, Path::new("/db")).unwrap();
        let values: Vec<Vec<u8>> = (0..KEYS)
            .map(|_| {
                let longest = [100, 100, 100, 2000, 6000][random.below(5) as usize];
                let mut value = vec![0; random.below(longest) as usize];
                random.fill(&mut value);
                value
            })
            .collect();
        for file in 0..3 {
            let mut batch = WriteBatch::new();
            (file..KEYS).step_by(3).for_each(|number| batch.put(key(number), &values[number]).unwrap());
            engine.write(&batch, false).unwrap();
            engine.flush().unwrap();
        }
        (engine, values)
    }

    #[test]
    fn values_taken_here_and_there_are_the_right_ones() {
        let (env, mut random) = (MemoryEnv::new(), Random(5));
        let (engine, values) = filled(&env, &mut random);
        let mut cursor = engine.cursor().unwrap();
        let mut held: Vec<(usize, Slice)> = Vec::new();
        for _ in 0..300 {
            let mut at = random.below(KEYS as u64) as usize;
            cursor.seek(key(at).as_bytes()).unwrap();
            // So many of ten values are taken.
            let taken = [10, 10, 5, 1][random.below(4) as usize];
            for _ in 0..random.below(90) {
                if random.below(10) < taken {
                    if random.below(2) == 0 {
                        assert_eq!(cursor.value_ref().unwrap(), values[at]);
                    }
                    let value = cursor.value().unwrap();
                    assert_eq!(*value, *values[at]);
                    if random.below(20) == 0 {
                        held.push((at, value));
                    }
                }
                // Mostly forwards; now and then it turns round.
                let backwards = random.below(8) == 0;
                at = if backwards { at.wrapping_sub(1) } else { at + 1 };
                if backwards {
                    cursor.prev().unwrap()
                } else {
                    cursor.next().unwrap()
                }
                if at >= KEYS {
                    assert!(!cursor.valid() && cursor.value_ref().is_err());
                    break;
                }
                assert_eq!(cursor.key(), key(at).as_bytes());
            }
        }
        assert!(held.len() > 50);
        held.iter().for_each(|(at, value)| assert_eq!(**value, *values[*at], "what is held stays"));
    }

    #[test]
    fn a_damaged_entry_is_told_when_the_cursor_comes_to_it() {
        let env = MemoryEnv::new();
        let (engine, values) = filled(&env, &mut Random(6));
        let damaged = (300..).find(|&number| values[number].len() > 20).unwrap();
        let table = Path::new("/db").join(format!("{:010}.sst", damaged % 3 + 1));
        let mut content = env.content(&table).unwrap();
        let at = content.windows(20).position(|bytes| *bytes == values[damaged][..20]).unwrap();
        content[at] ^= 1;
        env.set_content(&table, &content);
        let mut cursor = engine.cursor().unwrap();
        cursor.seek(key(damaged - 60).as_bytes()).unwrap();
        for number in damaged - 60..damaged + 60 {
            match cursor.value_ref() {
                Ok(value) => assert!(value == values[number] && number != damaged),
                Err(error) => assert!(error.kind() == ErrorKind::Corruption && number == damaged, "{number}: {error}"),
            }
            cursor.next().unwrap();
        }
    }

    #[test]
    fn no_more_is_copied_ahead_than_was_taken() {
        let env = MemoryEnv::new();
        let (engine, _) = filled(&env, &mut Random(7));
        let copied = |taken: u64| {
            let before = env.operation_count();
            let mut cursor = engine.cursor().unwrap();
            cursor.seek(key(100).as_bytes()).unwrap();
            for _ in 0..taken {
                cursor.value_ref().unwrap();
                cursor.next().unwrap();
            }
            env.operation_count() - before
        };
        copied(50);
        for taken in [1, 2, 5, 10, 50] {
            assert!((taken..=2 * taken).contains(&copied(taken)), "{taken}: {}", copied(taken));
        }
    }
}
