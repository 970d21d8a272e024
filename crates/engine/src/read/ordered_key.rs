//! Keys in the store's order: [`OrderedKey`] carries its order, for maps; [`positions_in_order`] sorts.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use slmdb_order::KeyOrder;

/// A key of a map that is sorted as the store is.
///
/// If a comparator is no total order, a `BTreeMap` returns anything but does not fail, except that `range` with two
/// bounds may panic. So give it one bound, and compare with the other (INV-25).
#[derive(Debug, Clone)]
pub struct OrderedKey {
    /// The key's bytes.
    pub key: Arc<[u8]>,
    order: KeyOrder,
}

impl OrderedKey {
    /// A key in this order.
    pub fn new(key: Arc<[u8]>, order: &KeyOrder) -> OrderedKey {
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

/// A key and its position. It is no [`OrderedKey`], because it need not own its bytes.
struct Ranked<'a>(&'a [u8], usize, &'a KeyOrder);

impl Ord for Ranked<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.2.compare(self.0, other.0)
    }
}

impl PartialOrd for Ranked<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked<'_> {}

/// The positions of keys, smaller keys first. The library's sorting may panic if a comparator is no total order; a heap
/// does not (INV-25).
pub fn positions_in_order<'a>(keys: impl IntoIterator<Item = &'a [u8]>, order: &'a KeyOrder) -> Vec<usize> {
    let keys = keys.into_iter().enumerate();
    let heap: BinaryHeap<Ranked<'_>> = keys.map(|(position, key)| Ranked(key, position, order)).collect();
    heap.into_sorted_vec().into_iter().map(|Ranked(_, position, _)| position).collect()
}

#[cfg(test)]
mod tests {
    use slmdb_order::Comparator;

    use super::*;

    /// No order at all.
    struct Disorder;

    impl Comparator for Disorder {
        fn name(&self) -> &str {
            "test.disorder"
        }
        fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
            if (7 * usize::from(left[0]) + 13 * usize::from(right[0])) % 3 == 0 {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
    }

    #[test]
    fn keys_are_sorted_and_no_order_loses_any() {
        let keys: Vec<[u8; 1]> = (0..=255_u8).map(|number| [number.wrapping_mul(77)]).collect();
        let sorted = positions_in_order(keys.iter().map(|key| &key[..]), &KeyOrder::Bytewise);
        assert!(sorted.windows(2).all(|pair| keys[pair[0]] < keys[pair[1]]));
        let disorder = KeyOrder::Custom(Arc::new(Disorder));
        let mut found = positions_in_order(keys.iter().map(|key| &key[..]), &disorder);
        found.sort_unstable();
        assert!(found.into_iter().eq(0..keys.len()));
    }
}
