//! [`FileSlots`]: small numbers for table files, so that a place has room in a word.
//!
//! A slot leads to its file as long as any place in the index, or any that a reader still has, may name it. It is given out again
//! only when its file is forgotten, which is when no place leads there any more, and all guards from then are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};

use slmdb_env::{Error, Result};
use slmdb_sync::epoch;
use slmdb_sync::modelled::{AtomicU64, Mutex};

use super::place::SLOTS_MAX;

/// So many slots are made at once.
const PART_SLOTS: u32 = if cfg!(loom) { 2 } else { 1024 };

/// Which file each slot stands for.
pub struct FileSlots {
    parts: Box<[OnceLock<Box<[AtomicU64]>>]>,
    given: Arc<Mutex<Given>>,
}

#[derive(Debug, Default)]
struct Given {
    of_file: BTreeMap<u32, u32>,
    free: BTreeSet<u32>,
    /// Slots from here on were never given out.
    fresh: u32,
}

impl FileSlots {
    pub(super) fn new() -> FileSlots {
        let parts = (0..SLOTS_MAX / PART_SLOTS).map(|_| OnceLock::new()).collect();
        FileSlots { parts, given: Arc::default() }
    }

    /// The file of a slot, under the guard that its place was found under. 0: none has had it yet.
    #[inline]
    pub fn file(&self, slot: u32) -> u32 {
        let part = self.parts.get((slot / PART_SLOTS) as usize).and_then(OnceLock::get);
        // (Acquire, so that the file is known to be there. Whoever has the place has seen the slot's store already.)
        part.map_or(0, |part| part[(slot % PART_SLOTS) as usize].load(Acquire) as u32)
    }

    /// The slot of a file, which is its own from here on. [`Error::Full`] if 131,072 files have one.
    pub fn slot(&self, file: u32) -> Result<u32> {
        let mut given = self.given.lock();
        if let Some(&slot) = given.of_file.get(&file) {
            return Ok(slot);
        }
        let slot = given.free.pop_first().unwrap_or(given.fresh);
        if slot >= SLOTS_MAX {
            return Err(Error::Full { path: Path::new("index").into(), what: "a slot for one more table file".into() });
        }
        given.fresh = given.fresh.max(slot + 1);
        given.of_file.insert(file, slot);
        let part = self.parts[(slot / PART_SLOTS) as usize]
            .get_or_init(|| (0..PART_SLOTS).map(|_| AtomicU64::new(0)).collect());
        part[(slot % PART_SLOTS) as usize].store(file.into(), Release);
        Ok(slot)
    }

    /// Has the slot of a file given out again once nobody can have it any more. REQUIRES: no place in the index leads there.
    pub fn forget(&self, file: u32) {
        let Some(slot) = self.given.lock().of_file.remove(&file) else { return };
        let (given, guard) = (Arc::clone(&self.given), epoch::pin());
        guard.defer(move || given.lock().free.insert(slot));
        guard.flush();
    }

    /// All files that have slots, with these.
    pub fn files(&self) -> Vec<(u32, u32)> {
        self.given.lock().of_file.iter().map(|(&file, &slot)| (file, slot)).collect()
    }

    /// What it takes of memory, about, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        let parts = self.parts.iter().filter(|part| part.get().is_some()).count();
        (size_of_val(&*self.parts) + parts * PART_SLOTS as usize * size_of::<AtomicU64>()) as u64
    }
}

impl fmt::Debug for FileSlots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FileSlots").field("files", &self.files().len()).finish_non_exhaustive()
    }
}
