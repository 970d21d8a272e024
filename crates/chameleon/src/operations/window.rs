//! [`Window`]: what a moment sees of the table files between two keys.
//!
//! A window is merged from the key sections of all files in its range. Forwards it has some dozen keys, and more with each that
//! follows, from the same merge. Backwards it begins where a chunk of some key section begins.
//!
//! A merge sees the files of its beginning. What is flushed meanwhile the cursor has in its MemTables. What is collected meanwhile
//! it reads as it was, as long as it has a chunk in memory; then it finds the file gone, and begins anew.

use std::ops::Range;
use std::sync::Arc;

use slmdb_engine::files::location::Location;
use slmdb_engine::read::merge::Merge;
use slmdb_engine::store::cursor::SeekTo;
use slmdb_env::Result;
use slmdb_order::Direction;

use super::file_keys::{FileKeys, file_keys, last_chunk_before};
use super::get::{Reader, Version};

/// Keys of the first window of a range, and of the largest one.
const KEYS: (usize, usize) = (16, 1024);

/// Versions of keys that follow each other, and a position among them.
#[derive(Default)]
pub(super) struct Window {
    /// The keys of all entries, concatenated.
    keys: Vec<u8>,
    entries: Vec<(Range<usize>, Version)>,
    /// The current entry. Outside of `entries`: none.
    position: Option<usize>,
    /// Where the next window begins: before this key, or from it on. `None`: there is no other.
    next: Option<Vec<u8>>,
    /// How many keys a window forwards has.
    keys_wanted: usize,
    /// What the next window forwards is made from: it stands there.
    merge: Option<Merge<FileKeys>>,
}

impl Window {
    /// Begins a range: its first window is short.
    pub(super) fn begin(&mut self) {
        (self.keys_wanted, self.merge) = (KEYS.0, None);
    }

    /// Takes what follows, if anything may. `false`: nothing may.
    /// LOCKS: catalog; file numbers
    pub(super) fn go_on(&mut self, reader: &Reader, direction: Direction, moment: u64) -> Result<bool> {
        let Some(next) = self.next.take() else { return Ok(false) };
        if let Some(mut merge) = self.merge.take().filter(|_| direction == Direction::Forward) {
            self.clear();
            // After an error it looks which files there are.
            if self.fill_forward(&mut merge, moment).is_ok() {
                self.merge = Some(merge);
                return Ok(true);
            }
        }
        let to = match direction {
            Direction::Forward => SeekTo::At(&next),
            Direction::Backward => SeekTo::Before(&next),
        };
        self.load(reader, to, moment).map(|()| true)
    }

    /// Takes what a moment sees from a place on.
    /// LOCKS: catalog; file numbers
    pub(super) fn load(&mut self, reader: &Reader, to: SeekTo<'_>, moment: u64) -> Result<()> {
        let order = reader.store.context.options.comparator.clone();
        self.merge = None;
        loop {
            self.clear();
            let files = reader.files(|file| {
                let is_in_range = match to {
                    SeekTo::First | SeekTo::Last => true,
                    SeekTo::At(key) => order.compare(&file.largest_key, key).is_ge(),
                    SeekTo::Before(key) => order.compare(&file.smallest_key, key).is_lt(),
                };
                is_in_range && file.lowest_sequence <= moment
            });
            let loaded = match to.direction() {
                Direction::Forward => self.load_forward(reader, &files, to, moment),
                Direction::Backward => self.load_backward(reader, &files, to, moment),
            };
            match loaded {
                // A collection has moved its entries.
                Err(_) if files.iter().any(|&file| reader.is_gone(file)) => {}
                loaded => return loaded.inspect_err(|_| self.clear()),
            }
        }
    }

    fn clear(&mut self) {
        (self.position, self.next) = (None, None);
        self.keys.clear();
        self.entries.clear();
    }

    fn load_forward(&mut self, reader: &Reader, files: &[u32], to: SeekTo<'_>, moment: u64) -> Result<()> {
        let from = match to {
            SeekTo::At(key) => Some(key),
            _ => None,
        };
        let mut merge = merge(reader, files, (from, None))?;
        self.fill_forward(&mut merge, moment)?;
        self.merge = self.next.is_some().then_some(merge);
        Ok(())
    }

    fn fill_forward(&mut self, merge: &mut Merge<FileKeys>, moment: u64) -> Result<()> {
        let keys_max = self.keys_wanted.clamp(KEYS.0, KEYS.1);
        self.next = self.fill(merge, moment, keys_max)?;
        (self.keys_wanted, self.position) = (2 * keys_max, Some(0));
        Ok(())
    }

    fn load_backward(&mut self, reader: &Reader, files: &[u32], to: SeekTo<'_>, moment: u64) -> Result<()> {
        let until = match to {
            SeekTo::Before(key) => Some(key),
            _ => None,
        };
        let order = &reader.store.context.options.comparator;
        let mut low: Option<Arc<[u8]>> = None;
        for &file in files {
            let (_, begin) = last_chunk_before(reader, &file_keys(reader, file, None)?, until)?;
            let is_higher = |begin: &Arc<[u8]>| low.as_ref().is_none_or(|low| order.compare(begin, low).is_gt());
            if let Some(begin) = begin.filter(is_higher) {
                low = Some(begin);
            }
        }
        self.fill(&mut merge(reader, files, (low.as_deref(), until))?, moment, usize::MAX)?;
        self.next = low.map(|low| low.to_vec());
        self.position = self.entries.len().checked_sub(1);
        Ok(())
    }

    /// Takes what a moment sees of a merge, up to so many keys. Gives the next key, if there is one; the merge stands there.
    fn fill(&mut self, merge: &mut Merge<FileKeys>, moment: u64, keys_max: usize) -> Result<Option<Vec<u8>>> {
        while let Some((file, entry)) = merge.first().and_then(|(_, source)| Some((source.number(), source.entry()?))) {
            let is_new = self.last_key() != Some(entry.key);
            if is_new && entry.sequence <= moment {
                if self.entries.len() >= keys_max {
                    return Ok(Some(entry.key.to_vec()));
                }
                let begin = self.keys.len();
                self.keys.extend_from_slice(entry.key);
                let location = Location { file, place: entry.place, sequence: entry.sequence };
                self.entries.push((begin..self.keys.len(), Version { kind: entry.kind, location }));
            }
            merge.advance().map_err(|(_, error)| error)?;
        }
        Ok(None)
    }

    fn last_key(&self) -> Option<&[u8]> {
        self.entries.last().map(|(key, _)| &self.keys[key.clone()])
    }

    /// The current entry.
    #[inline]
    pub(super) fn current(&self) -> Option<(&[u8], Version)> {
        self.entries.get(self.position?).map(|(key, version)| (&self.keys[key.clone()], *version))
    }

    /// Moves on by one entry.
    #[inline]
    pub(super) fn pass(&mut self, direction: Direction) {
        self.position = self.position.and_then(|at| match direction {
            Direction::Forward => Some(at + 1),
            Direction::Backward => at.checked_sub(1),
        });
    }

    /// What it takes in memory, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let of_entries = self.keys.capacity() + self.entries.capacity() * size_of::<(Range<usize>, Version)>();
        of_entries + self.merge.iter().flat_map(Merge::sources).map(FileKeys::memory_bytes).sum::<usize>()
    }

    /// Keeps keys and versions alone: what follows them is looked for anew.
    pub(super) fn drop_merge(&mut self) {
        self.merge = None;
    }
}

/// The key sections of these files between two keys, merged.
fn merge(reader: &Reader, files: &[u32], (from, until): (Option<&[u8]>, Option<&[u8]>)) -> Result<Merge<FileKeys>> {
    let sources: Result<Vec<FileKeys>> = files.iter().map(|&file| file_keys(reader, file, from)).collect();
    let order = reader.store.context.options.comparator.clone();
    Merge::new(sources?, order, Vec::new(), (from, until)).map_err(|(_, error)| error)
}
