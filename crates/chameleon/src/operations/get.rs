//! Point reads (paper, section 2.2): the index leads to the newest entry, in one read.
//!
//! A reader at an earlier moment that meets a newer entry searches the table files. Between a look into the index and the read, a
//! collection may have moved the entry and removed its file. Then the key is looked up again.

use std::sync::Arc;

use slmdb_engine::files::file_names as names;
use slmdb_engine::files::location::Location;
use slmdb_engine::read::merge::Source;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::Moment;
use slmdb_env::{Error, Result};
use slmdb_order::EntryKind;
use slmdb_structures::hash::Slot;
use slmdb_table::{BlockEntry, Slice};

use super::file_keys::file_keys;
use crate::shards::place_of;
use crate::state::ChameleonState;

/// A version of a key, in a table file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Version {
    pub(crate) kind: EntryKind,
    pub(crate) location: Location,
}

/// What readers need of the store.
pub(crate) struct Reader {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<ChameleonState>,
}

impl Reader {
    /// The value at a moment of a key that no MemTable has then.
    /// LOCKS: file numbers; catalog (at an earlier moment, or if a file is gone)
    #[inline]
    pub(crate) fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let mut before = None;
        loop {
            let Some(slot) = self.state.index.find(key)? else {
                return match moment {
                    Moment::At(moment) if self.state.index.forgets_deletes_after(moment) => {
                        self.get_earlier(key, moment)
                    }
                    _ => Ok(None),
                };
            };
            match moment {
                Moment::Now if slot.is_delete() => return Ok(None),
                Moment::At(moment) if slot.is_delete() => return self.get_earlier(key, moment),
                _ => {}
            }
            match self.entry(key, &slot) {
                Ok(entry) => match moment {
                    Moment::At(moment) if entry.sequence > moment => return self.get_earlier(key, moment),
                    _ => return Ok((entry.kind == EntryKind::Put).then_some(entry.value)),
                },
                // If the slot is still the same, the error is real.
                Err(error) if !self.is_gone(slot.place().file) || before == Some(slot) => return Err(error),
                Err(_) => before = Some(slot),
            }
        }
    }

    /// Whether a key has a value at a moment that no MemTable has then. For the present one no table file is read.
    pub(crate) fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        match moment {
            Moment::Now => Ok(self.state.index.find(key)?.is_some_and(|slot| !slot.is_delete())),
            Moment::At(_) => Ok(self.get(key, moment)?.is_some()),
        }
    }

    /// The entry that a slot leads to.
    #[inline]
    fn entry(&self, key: &[u8], slot: &Slot) -> Result<BlockEntry> {
        let (file, place) = (slot.place().file, place_of(slot));
        let entry = self.store.tables.entry(file, place, key)?;
        entry.ok_or_else(|| {
            let what = "the index leads to an entry of another key: damage, or two keys with one hash, of which the other hides \
                        this one";
            Error::corruption(names::table(&self.store.context.directory, file), u64::from(place.offset), what)
        })
    }

    /// The value that an earlier moment sees.
    #[cold]
    fn get_earlier(&self, key: &[u8], moment: u64) -> Result<Option<Slice>> {
        loop {
            let Some(Version { kind, location }) = self.version_at(key, moment)? else { return Ok(None) };
            if kind == EntryKind::Delete {
                return Ok(None);
            }
            match self.store.tables.value(key, location) {
                Err(_) if self.is_gone(location.file) => {}
                read => return read.map(Some),
            }
        }
    }

    /// The version of a key that a registered moment sees, deletes too, by the key sections of table files.
    /// LOCKS: catalog; file numbers
    pub(super) fn version_at(&self, key: &[u8], moment: u64) -> Result<Option<Version>> {
        let order = &self.store.context.options.comparator;
        loop {
            let files = self.files(|file| {
                let is_in_range =
                    order.compare(&file.smallest_key, key).is_le() && order.compare(key, &file.largest_key).is_le();
                is_in_range && file.lowest_sequence <= moment
            });
            match files.iter().try_fold(None, |newest, &number| self.newer_in_file(number, key, moment, newest)) {
                Err(_) if files.iter().any(|&number| self.is_gone(number)) => {}
                found => return found,
            }
        }
    }

    fn newer_in_file(&self, file: u32, key: &[u8], moment: u64, newest: Option<Version>) -> Result<Option<Version>> {
        let order = &self.store.context.options.comparator;
        let mut keys = file_keys(self, file, Some(key))?;
        while keys.advance()? {
            let Some(entry) = keys.entry() else { break };
            match order.compare(entry.key, key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal if entry.sequence > moment => {}
                std::cmp::Ordering::Equal => {
                    let is_newer = newest.is_none_or(|newest| newest.location.sequence < entry.sequence);
                    let location = Location { file, place: entry.place, sequence: entry.sequence };
                    return Ok(if is_newer { Some(Version { kind: entry.kind, location }) } else { newest });
                }
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(newest)
    }

    /// The numbers of the table files that are wanted.
    /// LOCKS: catalog
    pub(super) fn files(&self, is_wanted: impl Fn(&slmdb_manifest::FileRecord) -> bool) -> Vec<u32> {
        let catalog = self.store.catalog.lock();
        let files = catalog.state().files.iter();
        files.filter(|(_, file)| is_wanted(file)).map(|(&number, _)| number).collect()
    }

    /// Whether a table file has left the store.
    pub(super) fn is_gone(&self, file: u32) -> bool {
        self.store.catalog.is_gone(file)
    }
}
