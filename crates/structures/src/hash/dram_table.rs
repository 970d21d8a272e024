//! The hash table in DRAM: the paper's Auxiliary Bypass Index (section 2.2), and what a MemTable's keys are dealt into.
//!
//! Slots are three atomic words each, in the order of their hashes, with ordered probing. An insertion moves the slots
//! behind it by one, and a replacement changes two words, so readers must not believe what they see meanwhile. A *version*
//! tells them: it is odd while the writer changes slots. A reader that finds it even, and the same after its search, has
//! seen the table as it was at a moment between. Otherwise it searches again.
//!
//! Every word of a slot is stored with Release and loaded with Acquire. So a reader that has met a word of a change also
//! sees, when it looks at the version again, that the change had begun.
//!
//! A table that is full makes a larger copy of its words and puts it in the place of the old ones. Both say the same, so the
//! version stays. The old words go when the last reader has left them.

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::mem::size_of;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use slmdb_sync::modelled::{AtomicU64, spin_loop, yield_now};

use super::identity::Identity;
use super::layout::{entries_for, home, homes_for};
use super::slot::{SLOT_BYTES, Slot, SlotForm, order_rest};
use crate::prefetch::prefetch_range;
use crate::published::Published;

/// A new table has so many homes.
const HOMES_MIN: u64 = 64;
/// Positions behind the homes, at first.
const TAIL_MIN: u64 = 16;
/// So often a reader looks again at once. Then it lets others go first: the writer may have no processor.
const SPINS: u32 = 64;
const WORDS: usize = SLOT_BYTES / 8;

/// A hash table in DRAM, for any number of readers. Its [`DramWriter`] changes it.
pub struct DramTable {
    /// Odd while slots change.
    version: AtomicU64,
    words: Published<Words>,
    entries: AtomicU64,
}

impl DramTable {
    /// The slot of a key. Waits for no lock, at most for the end of an insertion.
    #[inline]
    pub fn get(&self, identity: &Identity) -> Option<Slot> {
        let mut turns = 0;
        loop {
            let version = self.version.load(Acquire);
            if version & 1 == 0 {
                let found = self.words.load().find(identity.order());
                if self.version.load(Relaxed) == version {
                    return found;
                }
            }
            turns += 1;
            if turns < SPINS { spin_loop() } else { yield_now() }
        }
    }

    /// Has the processor fetch what [`DramTable::get`] will look at, for who has something else to do meanwhile.
    #[inline]
    pub fn prefetch(&self, identity: &Identity) {
        let words = self.words.load();
        prefetch_range(words.words_at_home(identity.order().0).1.as_ptr().cast(), 128);
    }

    /// All slots, in the order of their hashes. REQUIRES: its writer changes nothing any more.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        let words = self.words.load_full();
        (0..words.positions() as usize).filter_map(move |position| words.slot(position))
    }

    /// How many slots it has.
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// What it takes of memory, in bytes. (While it grows it takes half as much again.)
    pub fn memory_bytes(&self) -> u64 {
        (size_of::<DramTable>() + size_of::<Words>() + size_of_val(&*self.words.load().words)) as u64
    }
}

/// The one that changes a [`DramTable`].
#[derive(Debug)]
pub struct DramWriter {
    table: Arc<DramTable>,
    /// Those of the table.
    words: Arc<Words>,
    load_percent: u32,
    entries_max: u64,
}

impl DramWriter {
    /// Of a new table, which grows when more than so many percent of its homes are taken, and has room for so many slots before.
    pub fn new(load_percent: u32, entries: u64) -> DramWriter {
        let homes = homes_for(entries, load_percent).max(HOMES_MIN).next_power_of_two();
        DramWriter::with_words(Words::new(homes, TAIL_MIN, [].into_iter()), load_percent)
    }

    fn with_words(words: Words, load_percent: u32) -> DramWriter {
        let entries_max = entries_max(words.homes, load_percent);
        let words = Published::from_pointee(words);
        let table = DramTable { version: AtomicU64::new(0), words, entries: AtomicU64::new(0) };
        DramWriter { words: table.words.load_full(), table: Arc::new(table), load_percent, entries_max }
    }

    /// The table, for readers.
    pub fn table(&self) -> &Arc<DramTable> {
        &self.table
    }

    /// Puts a slot in. Gives the one that it replaces, of the same identity. Never fails: a table that is full grows.
    pub fn insert(&mut self, slot: Slot) -> Option<Slot> {
        let position = match self.words.seek(slot.order()) {
            Ok(position) => {
                let replaced = self.words.slot(position);
                self.change(|words| words.put(position, &slot));
                return replaced;
            }
            Err(position) => position,
        };
        let entries = self.table.entries();
        let end = self.words.end_of_run(position).filter(|_| entries < self.entries_max);
        let Some(end) = end else {
            self.grow(entries);
            return self.insert(slot);
        };
        self.change(|words| words.put_before(position, end, &slot));
        self.table.entries.store(entries + 1, Relaxed);
        None
    }

    /// Changes slots, and has readers look again.
    fn change(&self, act: impl FnOnce(&Words)) {
        let version = &self.table.version;
        let before = version.load(Relaxed);
        version.store(before + 1, Relaxed);
        act(&self.words);
        version.store(before + 2, Release);
    }

    /// Makes room: more homes, or where the hashes are unlike any hash's, more positions behind them.
    fn grow(&mut self, entries: u64) {
        let (homes, tail) = match entries < self.entries_max {
            true => (self.words.homes, 2 * (self.words.positions() - self.words.homes)),
            false => (2 * self.words.homes, TAIL_MIN),
        };
        self.words = Arc::new(Words::new(homes, tail, self.words.slots()));
        self.entries_max = entries_max(homes, self.load_percent);
        self.table.words.store(Arc::clone(&self.words));
    }

    /// All slots, in the order of their hashes.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.words.slots()
    }
}

/// A table of so many homes has room for so many slots.
fn entries_max(homes: u64, load_percent: u32) -> u64 {
    entries_for(homes, load_percent).max(1)
}

/// The words of a table's slots, three for each position. Each slot lies at its home, or behind it where smaller ones have come
/// before it; between a slot and its home there is no empty one.
struct Words {
    homes: u64,
    words: Box<[AtomicU64]>,
}

impl Words {
    /// With these slots, which are in order.
    fn new(homes: u64, tail: u64, slots: impl Iterator<Item = Slot>) -> Words {
        let mut words = vec![0; (homes + tail) as usize * WORDS];
        let mut next = 0;
        for slot in slots {
            let position = home(slot.order().0, homes).max(next);
            next = position + 1;
            let at = position as usize * WORDS;
            if at + WORDS > words.len() {
                // Only where hashes are unlike any hash's.
                words.resize((at + WORDS).max(words.len() + words.len() / 2).next_multiple_of(WORDS), 0);
            }
            words[at..at + WORDS].copy_from_slice(&slot.words());
        }
        Words { homes, words: words.into_iter().map(AtomicU64::new).collect() }
    }

    fn positions(&self) -> u64 {
        (self.words.len() / WORDS) as u64
    }

    /// The home of a hash, and the words from there on.
    #[inline]
    fn words_at_home(&self, hash: u64) -> (usize, &[AtomicU64]) {
        let home = home(hash, self.homes) as usize;
        (home, self.words.get(home * WORDS..).unwrap_or_default())
    }

    #[inline]
    fn find(&self, order: (u64, u64)) -> Option<Slot> {
        self.seek(order).ok().and_then(|position| self.slot(position))
    }

    /// The position of this order; or the one where it would come, at most [`Words::positions`].
    #[inline]
    fn seek(&self, order: (u64, u64)) -> Result<usize, usize> {
        let (home, from) = self.words_at_home(order.0);
        // A search seldom needs more than two lines: both are asked for at once.
        prefetch_range(from.as_ptr().cast(), 128);
        for (step, [hash, _, last]) in from.as_chunks().0.iter().enumerate() {
            let last = last.load(Acquire);
            let here = (hash.load(Acquire), order_rest(last));
            if last == 0 || here > order {
                return Err(home + step);
            }
            if here == order {
                return Ok(home + step);
            }
        }
        Err(home + from.len() / WORDS)
    }

    #[inline]
    fn slot(&self, position: usize) -> Option<Slot> {
        let words = &self.words.as_chunks::<WORDS>().0[position];
        match SlotForm::of_words([0, 1, 2].map(|word| words[word].load(Acquire))) {
            SlotForm::Full(slot) => Some(slot),
            // Empty; or seen in the middle of a change, as the version will tell.
            SlotForm::Empty | SlotForm::Damaged => None,
        }
    }

    fn put(&self, position: usize, slot: &Slot) {
        let words = &self.words[position * WORDS..][..WORDS];
        words.iter().zip(slot.words()).for_each(|(to, word)| to.store(word, Release));
    }

    /// The first empty position from this one on.
    fn end_of_run(&self, position: usize) -> Option<usize> {
        (position..self.positions() as usize).find(|&position| self.words[position * WORDS + 2].load(Relaxed) == 0)
    }

    /// Moves the slots between a position and an empty one, and puts a slot there.
    fn put_before(&self, position: usize, empty: usize, slot: &Slot) {
        let words = &self.words[position * WORDS..(empty + 1) * WORDS];
        for at in (WORDS..words.len()).rev() {
            words[at].store(words[at - WORDS].load(Relaxed), Release);
        }
        self.put(position, slot);
    }

    fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.positions() as usize).filter_map(|position| self.slot(position))
    }
}

impl fmt::Debug for DramTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DramTable").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Words").field("homes", &self.homes).finish_non_exhaustive()
    }
}
