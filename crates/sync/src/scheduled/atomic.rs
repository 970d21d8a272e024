//! Atomics of one's own: the standard library's, and before each operation a place to be interrupted at.

use std::sync::atomic as memory;
use std::sync::atomic::Ordering;

use super::point;

/// An atomic of a kind.
macro_rules! atomic {
    ($name:ident, $value:ty $(, $parameter:ident)?) => {
        /// As the standard library's, and as large.
        #[repr(transparent)]
        pub struct $name$(<$parameter>)?(memory::$name$(<$parameter>)?);

        impl$(<$parameter>)? std::fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(formatter)
            }
        }

        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// With a value.
            pub const fn new(value: $value) -> Self {
                Self(memory::$name::new(value))
            }

            /// Where it is.
            pub const fn as_ptr(&self) -> *mut $value {
                self.0.as_ptr()
            }

            /// The value, of which nobody else knows.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Reads it.
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// Stores to it.
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// Stores to it, and says what was there.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// Stores `new` if it is `current`.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }
        }
    };
}

/// The operations of a number.
macro_rules! number {
    ($name:ident, $value:ty: $($operation:ident)*) => {
        impl Default for $name {
            fn default() -> $name {
                $name::new(0)
            }
        }

        impl $name {
            $(
                /// As the standard library's.
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$operation(value, order)
                }
            )*

            /// As the standard library's.
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.fetch_update(set_order, fetch_order, change)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic!(AtomicU64, u64);
atomic!(AtomicUsize, usize);
atomic!(AtomicPtr, *mut T, T);
number!(AtomicU64, u64: fetch_add fetch_sub fetch_max fetch_min fetch_and fetch_or);
number!(AtomicUsize, usize: fetch_add fetch_sub fetch_max fetch_min fetch_and fetch_or);

impl Default for AtomicBool {
    fn default() -> AtomicBool {
        AtomicBool::new(false)
    }
}
