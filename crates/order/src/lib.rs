//! The order of keys: by bytes, or by a [`Comparator`] of the user's own.
//!
//! Everything sorted in a store (the MemTable's skiplist, the B+-tree, table files) is sorted in one order, which is
//! settled when the store is made; the MANIFEST has its name. [`KeyOrder`] is what those structures hold. By bytes is what
//! nearly everybody wants, and the fast way: a node of the tree then compares 8-byte heads of keys as numbers. Under a
//! comparator there are no heads, no prefixes and no shortened separators: whole keys are compared, each time.
//!
//! A comparator is the user's code, so nothing may rest on its being right. [`CycleDetector`] is what walks in key order end by
//! when it is not.
//!
//! [`EntryKind`] is here because everything sorted has it beside each key.
#![forbid(unsafe_code)]

mod common_prefix;
mod cycle_detector;
mod entry_kind;

pub use common_prefix::common_prefix_bytes;
pub use cycle_detector::CycleDetector;
pub use entry_kind::EntryKind;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// An order of keys other than by bytes.
///
/// A store is only as right as its comparator. If it is not a total order the store answers with errors, or with entries
/// missing or out of order, but never with undefined behaviour, a panic of its own or a loop without end.
pub trait Comparator: Send + Sync + 'static {
    /// The name that the MANIFEST records and every opening checks: 1 to 255 bytes. Change it whenever the order changes.
    /// Names that begin with `bytewise` are taken.
    fn name(&self) -> &str;

    /// Compares two keys: total, transitive, the same for ever. Keys of different bytes are different keys, also where this
    /// calls them equal: they are then ordered by their bytes.
    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering;
}

/// The direction in which something goes through keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// To larger keys.
    #[default]
    Forward,
    /// To smaller keys.
    Backward,
}

/// The name of the order by bytes.
pub const BYTEWISE_NAME: &str = "bytewise";

/// The longest name of a comparator.
pub const MAXIMUM_NAME_BYTES: usize = 255;

/// The order of a store's keys.
#[derive(Clone, Default)]
pub enum KeyOrder {
    /// By bytes, a key before the keys that it is a prefix of: Rust's order of `[u8]`.
    #[default]
    Bytewise,
    /// As a comparator says.
    Custom(Arc<dyn Comparator>),
}

impl KeyOrder {
    /// The name that the MANIFEST records.
    pub fn name(&self) -> &str {
        match self {
            KeyOrder::Bytewise => BYTEWISE_NAME,
            KeyOrder::Custom(comparator) => comparator.name(),
        }
    }

    /// Compares two keys.
    #[inline]
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            KeyOrder::Bytewise => left.cmp(right),
            KeyOrder::Custom(comparator) => comparator.compare(left, right).then_with(|| left.cmp(right)),
        }
    }

    /// Whether a key is not before the range that begins at `from`.
    #[inline]
    pub fn is_from<K: AsRef<[u8]>>(&self, key: &[u8], from: Bound<K>) -> bool {
        match from {
            Bound::Unbounded => true,
            Bound::Included(from) => self.compare(key, from.as_ref()).is_ge(),
            Bound::Excluded(from) => self.compare(key, from.as_ref()).is_gt(),
        }
    }

    /// Whether a key is not behind the range that ends at `to`.
    #[inline]
    pub fn is_up_to<K: AsRef<[u8]>>(&self, key: &[u8], to: Bound<K>) -> bool {
        match to {
            Bound::Unbounded => true,
            Bound::Included(to) => self.compare(key, to.as_ref()).is_le(),
            Bound::Excluded(to) => self.compare(key, to.as_ref()).is_lt(),
        }
    }

    /// What is wrong with the name of a comparator; `None`: nothing.
    pub fn fault_of_name(&self) -> Option<&'static str> {
        match self.name() {
            _ if self.is_bytewise() => None,
            "" => Some("a comparator without a name"),
            name if name.len() > MAXIMUM_NAME_BYTES => Some("a comparator whose name is longer than 255 bytes"),
            name if name.starts_with(BYTEWISE_NAME) => {
                Some("a comparator whose name begins with \"bytewise\", which is taken")
            }
            _ => None,
        }
    }

    /// Whether keys are ordered by their bytes, so that heads, prefixes and shortened separators mean something.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, KeyOrder::Bytewise)
    }
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyOrder({:?})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Backwards;

    impl Comparator for Backwards {
        fn name(&self) -> &str {
            "backwards"
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            right.cmp(left)
        }
    }

    #[test]
    fn a_comparator_orders_and_is_named() {
        let backwards = KeyOrder::Custom(Arc::new(Backwards));
        assert_eq!(backwards.compare(b"a", b"b"), Ordering::Greater);
        assert_eq!((backwards.name(), backwards.is_bytewise()), ("backwards", false));
        let bytewise = KeyOrder::default();
        assert_eq!(bytewise.compare(b"a", b"ab"), Ordering::Less);
        assert_eq!((bytewise.name(), bytewise.is_bytewise()), (BYTEWISE_NAME, true));
        assert_eq!(format!("{backwards:?}"), "KeyOrder(\"backwards\")");
    }

    #[test]
    fn bounds_part_what_is_within_from_what_is_not() {
        let bytewise = KeyOrder::Bytewise;
        let from = |key, from| bytewise.is_from::<&[u8]>(key, from);
        let to = |key, to| bytewise.is_up_to::<&[u8]>(key, to);
        assert!(from(b"", Bound::Unbounded) && to(b"\xff", Bound::Unbounded));
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| from(key, Bound::Included(b"b"))), [false, true, true]);
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| from(key, Bound::Excluded(b"b"))), [false, false, true]);
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| to(key, Bound::Included(b"b"))), [true, true, false]);
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| to(key, Bound::Excluded(b"b"))), [true, false, false]);
        let backwards = KeyOrder::Custom(Arc::new(Backwards));
        assert!(backwards.is_from(b"a", Bound::Excluded("b")) && !backwards.is_up_to(b"a", Bound::Included("b")));
    }

    struct Named(String);

    impl Comparator for Named {
        fn name(&self) -> &str {
            &self.0
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            left.to_ascii_lowercase().cmp(&right.to_ascii_lowercase())
        }
    }

    /// Different bytes are different keys whatever the comparator says.
    #[test]
    fn different_bytes_are_different_keys_in_every_order() {
        let order = KeyOrder::Custom(Arc::new(Named("letters".into())));
        assert_eq!(order.compare(b"a", b"B"), Ordering::Less);
        assert_eq!(order.compare(b"a", b"A"), Ordering::Greater);
        assert_eq!(order.compare(b"A", b"A"), Ordering::Equal);
    }

    #[test]
    fn names_that_would_be_mistaken_are_found_out() {
        let faulty = |name: &str| KeyOrder::Custom(Arc::new(Named(name.into()))).fault_of_name().is_some();
        assert!(faulty("") && faulty("bytewise") && faulty("bytewise-2") && faulty(&"x".repeat(256)));
        assert!(!faulty("x") && !faulty(&"x".repeat(255)));
        assert_eq!(KeyOrder::Bytewise.fault_of_name(), None);
    }
}
