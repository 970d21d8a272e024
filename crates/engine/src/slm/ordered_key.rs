//! [`OrderedKey`]: a key that knows the order it is in, for maps in the store's order.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_order::KeyOrder;

/// A key of a map that is sorted as the store is.
///
/// What `BTreeMap` does under an order that is none is its own affair, but for `range` with two bounds, which may panic
/// then: give it one, and compare with the other.
#[derive(Debug, Clone)]
pub(crate) struct OrderedKey {
    pub(crate) key: Arc<[u8]>,
    order: KeyOrder,
}

impl OrderedKey {
    pub(crate) fn new(key: Arc<[u8]>, order: &KeyOrder) -> OrderedKey {
        OrderedKey { key, order: order.clone() }
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.order.compare(&self.key, &other.key)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.key == other.key
    }
}

impl Eq for OrderedKey {}
