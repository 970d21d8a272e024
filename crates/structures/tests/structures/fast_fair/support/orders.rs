//! Orders other than by bytes: some that are orders, and some that are none.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use slmdb_order::{Comparator, KeyOrder};

use super::Random;

type Compare = Box<dyn Fn(&[u8], &[u8]) -> Ordering + Send + Sync>;

struct Named {
    name: &'static str,
    compare: Compare,
}

impl Comparator for Named {
    fn name(&self) -> &str {
        self.name
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        (self.compare)(left, right)
    }
}

fn order(name: &'static str, compare: impl Fn(&[u8], &[u8]) -> Ordering + Send + Sync + 'static) -> KeyOrder {
    KeyOrder::Custom(Arc::new(Named { name, compare: Box::new(compare) }))
}

/// The largest first.
pub fn backwards() -> KeyOrder {
    order("backwards", |left, right| right.cmp(left))
}

/// The shortest first; of equal length by bytes.
pub fn by_length() -> KeyOrder {
    order("by length", |left, right| left.len().cmp(&right.len()).then_with(|| left.cmp(right)))
}

/// By bytes, but as a comparator.
pub fn as_comparator() -> KeyOrder {
    order("as bytes", |left, right| left.cmp(right))
}

/// Always the same about the same two keys, and nothing else about it is right.
pub fn nonsense(seed: u64) -> KeyOrder {
    let hash = |seed, key: &[u8]| key.iter().fold(seed, |hash, &byte| Random::new(hash ^ u64::from(byte)).next());
    order("nonsense", move |left, right| hash(hash(seed, left), right).cmp(&(1 << 63)))
}

/// a before b, b before c, c before a.
pub fn circle() -> KeyOrder {
    let class = |key: &[u8]| key.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 3;
    order("circle", move |left, right| match (3 + class(right) - class(left)) % 3 {
        0 => left.cmp(right),
        1 => Ordering::Less,
        _ => Ordering::Greater,
    })
}

/// Another answer every time.
pub fn fickle(seed: u64) -> KeyOrder {
    let calls = AtomicU64::new(seed);
    order("fickle", move |_, _| Random::new(calls.fetch_add(1, Relaxed)).next().cmp(&(1 << 63)))
}

/// As by bytes but for one answer in a hundred.
pub fn unreliable(seed: u64) -> KeyOrder {
    let calls = AtomicU64::new(seed);
    order("unreliable", move |left, right| match Random::new(calls.fetch_add(1, Relaxed)).next() % 100 {
        0 => right.cmp(left),
        _ => left.cmp(right),
    })
}
