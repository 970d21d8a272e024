//! Under loom.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{self as memory, Ordering, Ordering::Relaxed};

use crate::raced;

const WORD_BYTES: usize = size_of::<u64>();

/// What loom knows of atomics in memory, by address. All of loom's threads are on one thread of the system.
#[derive(Default)]
struct Table {
    watched: Vec<Range<usize>>,
    /// The only thread that stores to watched words, if there is but one.
    writer: Option<usize>,
    words: HashMap<usize, Rc<raced::AtomicU64>>,
    links: HashMap<usize, Rc<raced::AtomicUsize>>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

/// Forgets everything: a new execution begins.
pub fn reset() {
    TABLE.take();
}

/// From now on the calling thread alone stores to watched words. What it reads there is then the newest value and nothing
/// else, so loom need not be asked; that leaves few enough interleavings for larger models.
pub fn write_alone() {
    let writer = raced::number();
    TABLE.with_borrow_mut(|table| table.writer = Some(writer));
}

/// From now on loom follows the words of a range, which has these bytes. REQUIRES: there is one thread only.
pub fn watch(start: *const u8, bytes: &[u8]) {
    TABLE.with_borrow_mut(|table| table.watched.push(start.addr()..start.addr() + bytes.len()));
    overwritten(start, bytes);
}

/// Says that this thread, which alone knew of a range, has written it as bytes.
pub fn overwritten(start: *const u8, bytes: &[u8]) {
    begin_anew(start.addr()..start.addr() + bytes.len(), |at| {
        u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]))
    });
}

/// As [`overwritten`], with zeros.
pub fn zeroed(start: *const u8, length_bytes: usize) {
    begin_anew(start.addr()..start.addr() + length_bytes, |_| 0);
}

/// Makes new atomics of the watched words of a range, with the values at so many bytes from its beginning.
fn begin_anew(range: Range<usize>, value: impl Fn(usize) -> u64) {
    let watched = TABLE.with_borrow(|table| table.watched.clone());
    for watched in watched {
        let first = range.start.max(watched.start).next_multiple_of(WORD_BYTES);
        let end = range.end.min(watched.end);
        for address in (first..end).step_by(WORD_BYTES).take_while(|address| address + WORD_BYTES <= end) {
            let word = Rc::new(raced::AtomicU64::new(value(address - range.start)));
            TABLE.with_borrow_mut(|table| table.words.insert(address, word));
        }
    }
}

/// A word in memory.
#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicU64(memory::AtomicU64);

impl AtomicU64 {
    /// A word of its own; loom does not follow it unless it is watched.
    pub const fn new(value: u64) -> AtomicU64 {
        AtomicU64(memory::AtomicU64::new(value))
    }

    /// The word as loom knows it, and the only thread that stores to it.
    fn followed(&self) -> Option<(Rc<raced::AtomicU64>, Option<usize>)> {
        TABLE.with_borrow(|table| Some((table.words.get(&self.as_ptr().addr()).cloned()?, table.writer)))
    }

    /// Where it is.
    pub const fn as_ptr(&self) -> *mut u64 {
        self.0.as_ptr()
    }

    /// Reads it.
    pub fn load(&self, order: Ordering) -> u64 {
        match self.followed() {
            None => self.0.load(order),
            Some((word, None)) => word.load(order),
            Some((_, Some(writer))) if writer == raced::number() => self.0.load(order),
            Some((word, Some(_))) => word.bare().load(order),
        }
    }

    /// Stores to it.
    pub fn store(&self, value: u64, order: Ordering) {
        match self.followed() {
            None => {}
            Some((word, None)) => word.store(value, order),
            Some((word, Some(writer))) => {
                assert_eq!(writer, raced::number(), "another thread stores than the one that writes alone");
                word.bare().store(value, order);
            }
        }
        self.0.store(value, order);
    }

    /// Stores `new` if it is `current`.
    pub fn compare_exchange(&self, current: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64> {
        let Some((word, writer)) = self.followed() else {
            return self.0.compare_exchange(current, new, success, failure);
        };
        let result = match writer {
            None => word.compare_exchange(current, new, success, failure),
            Some(writer) => {
                assert_eq!(writer, raced::number(), "another thread stores than the one that writes alone");
                word.bare().compare_exchange(current, new, success, failure)
            }
        };
        if result.is_ok() {
            self.0.store(new, Relaxed);
        }
        result
    }
}

/// A link in memory. It has to be stored to before anything else, by the thread that made it.
#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicPtr<T>(memory::AtomicPtr<T>);

impl<T> AtomicPtr<T> {
    /// The link as loom knows it. The table has addresses only; the provenance of all of them is exposed where they are
    /// stored.
    fn followed(&self) -> Rc<raced::AtomicUsize> {
        let address = self.0.as_ptr().addr();
        let known = TABLE.with_borrow(|table| table.links.get(&address).cloned());
        known.unwrap_or_else(|| {
            let link = Rc::new(raced::AtomicUsize::new(0));
            TABLE.with_borrow_mut(|table| table.links.insert(address, Rc::clone(&link)));
            link
        })
    }

    /// Reads it.
    pub fn load(&self, order: Ordering) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.followed().load(order))
    }

    /// Stores to it.
    pub fn store(&self, value: *mut T, order: Ordering) {
        self.followed().store(value.expose_provenance(), order);
    }

    /// Stores `new` if it is `current`.
    pub fn compare_exchange(
        &self,
        current: *mut T,
        new: *mut T,
        success: Ordering,
        failure: Ordering,
    ) -> Result<*mut T, *mut T> {
        self.followed()
            .compare_exchange(current.expose_provenance(), new.expose_provenance(), success, failure)
            .map(std::ptr::with_exposed_provenance_mut)
            .map_err(std::ptr::with_exposed_provenance_mut)
    }
}
