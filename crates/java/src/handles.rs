//! [`Table`]: objects that Java holds by numbers.
//!
//! A number is a slot of the table and the slot's generation. A slot is used again for another object, under the next
//! generation; so the number of an object that is gone finds nothing, whatever stands in its slot now. Looking an object up takes
//! no lock, and threads that look up the same one don't slow each other.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use slmdb::Error;

use crate::failure::{Failure, Result};

/// A number that stands for an object: its slot, and in the upper half the generation. Never 0, and never negative in Java.
pub type Handle = u64;

/// Slots come in segments, each twice as large as the one before. This is the first one's size.
const FIRST_SEGMENT: usize = 64;

/// How many segments there can be: together they have a thousand million slots.
const SEGMENTS: usize = 24;

/// A slot's last generation: the sign stays free.
const LAST_GENERATION: u32 = i32::MAX as u32;

/// How often a thread that takes an object gives way to those that use it, before it sleeps between two looks.
const TURNS: u32 = 64;

/// How long it sleeps.
const LOOK_AGAIN_AFTER: Duration = Duration::from_micros(200);

/// Objects, and the numbers that they are known by.
pub struct Table<T> {
    segments: [OnceLock<Box<[Slot<T>]>>; SEGMENTS],
    free: Mutex<Free>,
}

struct Slot<T> {
    entry: ArcSwapOption<Entry<T>>,
    /// The generation of the next object.
    generation: AtomicU32,
}

struct Entry<T> {
    handle: Handle,
    object: T,
}

#[derive(Default)]
struct Free {
    /// Slots that had an object.
    slots: Vec<u32>,
    /// How many slots have ever been used.
    used: u32,
}

/// An object while a call uses it.
pub struct Use<T>(Guard<Option<Arc<Entry<T>>>>);

impl<T> Deref for Use<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &*self.0 {
            Some(entry) => &entry.object,
            None => unreachable!("a use is of an object"),
        }
    }
}

/// Where a slot is: its segment and its place there.
fn place(slot: u32) -> (usize, usize) {
    let number = slot as usize + FIRST_SEGMENT;
    let segment = (number / FIRST_SEGMENT).ilog2() as usize;
    (segment, number - (FIRST_SEGMENT << segment))
}

impl<T> Table<T> {
    /// An empty one.
    pub const fn new() -> Table<T> {
        Table { segments: [const { OnceLock::new() }; SEGMENTS], free: Mutex::new(Free { slots: Vec::new(), used: 0 }) }
    }

    #[inline]
    fn slot(&self, handle: Handle) -> Option<&Slot<T>> {
        let (segment, place) = place(handle as u32);
        self.segments.get(segment)?.get()?.get(place)
    }

    /// Puts an object in. Its number.
    pub fn insert(&self, object: T) -> Result<Handle> {
        let number = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            match free.slots.pop() {
                Some(slot) => slot,
                None => {
                    let slot = free.used;
                    if place(slot).0 >= SEGMENTS {
                        return Err(Error::invalid("too many stores, snapshots and cursors are open").into());
                    }
                    free.used += 1;
                    slot
                }
            }
        };
        let (segment, place) = place(number);
        let slots = self.segments[segment].get_or_init(|| {
            let empty = || Slot { entry: ArcSwapOption::const_empty(), generation: AtomicU32::new(1) };
            (0..FIRST_SEGMENT << segment).map(|_| empty()).collect()
        });
        let slot = &slots[place];
        let handle = Handle::from(slot.generation.load(Ordering::Relaxed)) << 32 | Handle::from(number);
        slot.entry.store(Some(Arc::new(Entry { handle, object })));
        Ok(handle)
    }

    /// The object of that number.
    #[inline]
    pub fn get(&self, handle: Handle) -> Result<Use<T>> {
        let entry = self.slot(handle).ok_or(Failure::Closed)?.entry.load();
        if entry.as_ref().is_some_and(|entry| entry.handle == handle) { Ok(Use(entry)) } else { Err(Failure::Closed) }
    }

    /// Takes the object of that number out, and waits until no call uses it. Of all that take it one gets it.
    pub fn take(&self, handle: Handle) -> Option<T> {
        let slot = self.slot(handle)?;
        let mut taken = slot.entry.load_full().filter(|entry| entry.handle == handle)?;
        let before = slot.entry.compare_and_swap(&taken, None);
        if !before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &taken)) {
            return None;
        }
        drop(before);
        self.give_back(slot, handle as u32);
        for turn in 0.. {
            match Arc::try_unwrap(taken) {
                Ok(entry) => return Some(entry.object),
                Err(still_used) => taken = still_used,
            }
            if turn < TURNS { std::thread::yield_now() } else { std::thread::sleep(LOOK_AGAIN_AFTER) }
        }
        None
    }

    /// Lets a slot be used again, unless its generations are used up.
    fn give_back(&self, slot: &Slot<T>, number: u32) {
        let generation = slot.generation.load(Ordering::Relaxed);
        if generation < LAST_GENERATION {
            slot.generation.store(generation + 1, Ordering::Relaxed);
            self.free.lock().unwrap_or_else(PoisonError::into_inner).slots.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn slots_have_places_side_by_side() {
        assert_eq!([0, 63, 64, 191, 192].map(place), [(0, 0), (0, 63), (1, 0), (1, 127), (2, 0)]);
        assert!(place(u32::MAX).0 >= SEGMENTS);
        assert_eq!([(1 << 30) - 65, (1 << 30) - 64].map(|slot| place(slot).0), [SEGMENTS - 1, SEGMENTS]);
    }

    #[test]
    fn a_number_finds_its_object_until_that_is_taken_and_never_another() {
        let table = Table::new();
        let numbers: Vec<_> = (0..1000).map(|object| table.insert(object).unwrap()).collect();
        for (object, &number) in numbers.iter().enumerate() {
            assert_eq!(*table.get(number).unwrap(), object);
            assert!(number != 0 && i64::try_from(number).is_ok());
        }
        for (object, &number) in numbers.iter().enumerate() {
            assert_eq!(table.take(number), Some(object));
            assert_eq!(table.take(number), None);
        }
        let again: Vec<_> = (0..1000).map(|object| table.insert(object).unwrap()).collect();
        assert!(numbers.iter().all(|&number| matches!(table.get(number), Err(Failure::Closed))));
        assert!(again.iter().all(|&number| table.get(number).is_ok()));
    }

    #[test]
    fn any_number_finds_nothing_in_an_empty_table() {
        let table = Table::<()>::new();
        for number in [0, 1, u64::from(u32::MAX), u64::MAX, 1 << 32, 1 << 63] {
            assert!(table.get(number).is_err() && table.take(number).is_none());
        }
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_not_used_again() {
        let table = Table::new();
        let first = table.insert(1).unwrap();
        table.slot(first).unwrap().generation.store(LAST_GENERATION, Ordering::Relaxed);
        assert_eq!(table.take(first), Some(1));
        assert_ne!(table.insert(2).unwrap() as u32, first as u32);
    }

    #[test]
    fn one_thread_takes_an_object_and_only_when_no_call_uses_it() {
        let table = Table::new();
        for _ in 0..200 {
            let number = table.insert(AtomicUsize::new(0)).unwrap();
            let taken = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        while let Ok(used) = table.get(number) {
                            used.fetch_add(1, Ordering::SeqCst);
                            std::thread::yield_now();
                            used.fetch_sub(1, Ordering::SeqCst);
                        }
                    });
                }
                for _ in 0..2 {
                    scope.spawn(|| {
                        if let Some(object) = table.take(number) {
                            assert_eq!(object.into_inner(), 0);
                            taken.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
            });
            assert_eq!(taken.into_inner(), 1);
        }
    }
}
