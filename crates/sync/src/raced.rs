//! Loom's atomics, made to see all races.
//!
//! Loom 0.7 remembers of each atomic only its last access. A thread that loads and then stores hides by its own load the loads
//! of others before, and the order in which the store comes first is never tried: of a reader and a writer who begins with
//! a load loom tries one interleaving out of all (its issues 166 and 392). So an atomic here has a mark beside for every
//! thread: a load first loads its own thread's mark, a store first stores to the marks of all others, and of each mark the
//! last access is the one that counts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::Ordering::{self, Relaxed};

use loom::sync::atomic as checked;

/// Threads that a model can have, its first one included.
const THREADS_MAX: usize = 3;

thread_local! {
    /// The numbers of the threads of this execution.
    static NUMBERS: RefCell<HashMap<loom::thread::ThreadId, usize>> = RefCell::default();
}

/// A new execution begins.
pub(crate) fn reset() {
    NUMBERS.take();
}

/// The number of the calling thread.
pub(crate) fn number() -> usize {
    let thread = loom::thread::current().id();
    NUMBERS.with_borrow_mut(|numbers| {
        let next = numbers.len();
        let number = *numbers.entry(thread).or_insert(next);
        assert!(number < THREADS_MAX, "a model of more than {THREADS_MAX} threads");
        number
    })
}

#[derive(Debug)]
struct Marks([checked::AtomicBool; THREADS_MAX]);

impl Marks {
    fn new() -> Marks {
        Marks(std::array::from_fn(|_| checked::AtomicBool::new(false)))
    }

    fn before_load(&self) {
        self.0[number()].load(Relaxed);
    }

    fn before_store(&self) {
        let number = number();
        for (_, mark) in self.0.iter().enumerate().filter(|(other, _)| *other != number) {
            mark.store(false, Relaxed);
        }
    }
}

/// An atomic of a kind.
macro_rules! atomic {
    ($name:ident, $value:ty $(, $parameter:ident)?) => {
        /// As the standard library's.
        pub struct $name$(<$parameter>)? {
            marks: Marks,
            value: checked::$name$(<$parameter>)?,
        }

        impl$(<$parameter>)? std::fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Its value is for the threads that load it.
                formatter.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// With a value.
            pub fn new(value: $value) -> Self {
                Self { marks: Marks::new(), value: checked::$name::new(value) }
            }

            /// The atomic without its marks.
            #[allow(dead_code)] // not of every kind
            pub(crate) fn bare(&self) -> &checked::$name$(<$parameter>)? {
                &self.value
            }

            /// Reads it.
            pub fn load(&self, order: Ordering) -> $value {
                self.marks.before_load();
                self.value.load(order)
            }

            /// Stores to it.
            pub fn store(&self, value: $value, order: Ordering) {
                self.marks.before_store();
                self.value.store(value, order);
            }

            /// Stores `new` if it is `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.marks.before_store();
                self.value.compare_exchange(current, new, success, failure)
            }
        }
    };
}

/// The operations of a number.
macro_rules! number {
    ($name:ident, $value:ty: $($operation:ident)*) => {
        impl $name {
            $(
                /// As the standard library's.
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    self.marks.before_store();
                    self.value.$operation(value, order)
                }
            )*
        }
    };
}

atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
atomic!(AtomicPtr, *mut T, T);
number!(AtomicU64, u64: fetch_add fetch_sub fetch_max fetch_or);
number!(AtomicUsize, usize: fetch_add fetch_sub fetch_max);
