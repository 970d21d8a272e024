//! Slots: taken, given back, found again at an opening, and their extents returned.

use std::collections::BTreeSet;
use std::sync::Arc;

use slmdb_env::Error;
use slmdb_pmem::slots::{SLOT_BYTES_MAX, slot_bytes};
use slmdb_pmem::{Dram, ExtentKind, Pool, PoolOptions, Slots, UNIT_BYTES};

fn pool(maximum_bytes: u64) -> Arc<Pool<Dram>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: UNIT_BYTES, maximum_bytes, uuid: [3; 16] };
    Arc::new(Pool::anonymous(Dram, &options).unwrap())
}

#[test]
fn slots_are_apart_and_their_extents_go_back() {
    let pool = pool(64 << 20);
    let before = pool.used_bytes();
    let slots = Slots::open(Arc::clone(&pool)).unwrap();
    let mut taken = Vec::new();
    slots.take(ExtentKind::Leaves, (0..1000).map(|_| 512), &mut taken).unwrap();
    let sizes = || (1..=70_000).step_by(997);
    slots.take(ExtentKind::Records, sizes(), &mut taken).unwrap();
    let sizes: Vec<u32> = (0..1000).map(|_| 512).chain(sizes()).collect();
    let mut ranges: Vec<_> =
        taken.iter().zip(&sizes).map(|(&at, &size)| (at, at + u64::from(slot_bytes(size)))).collect();
    ranges.sort_unstable();
    assert!(ranges.is_sorted_by(|left, right| left.1 <= right.0), "slots overlap");
    let usage = slots.usage(ExtentKind::Leaves);
    assert_eq!((usage.used, usage.used_bytes), (1000, 512_000));
    assert!(usage.extent_bytes >= usage.used_bytes);
    slots.give_back(&taken);
    slots.return_empty();
    assert_eq!(pool.used_bytes(), before);
    assert!(pool.verify().is_empty());
}

#[test]
fn an_opening_finds_free_what_is_not_reached() {
    let pool = pool(64 << 20);
    let slots = Slots::open(Arc::clone(&pool)).unwrap();
    let mut taken = Vec::new();
    slots.take(ExtentKind::Records, (0..5000).map(|_| 40), &mut taken).unwrap();
    drop(slots);

    let slots = Slots::open(Arc::clone(&pool)).unwrap();
    let reached: BTreeSet<u64> = taken.iter().copied().step_by(2).collect();
    slots.mark_used(ExtentKind::Records, reached.iter().map(|&slot| (slot, 40))).unwrap();
    for wrong in [(taken[0], 40), (taken[1], 48), (taken[1] + 8, 40), (7, 40), (u64::MAX, 40)] {
        let error = slots.mark_used(ExtentKind::Records, [wrong]).unwrap_err();
        assert!(matches!(error, Error::Corruption { .. }), "{wrong:?}: {error}");
    }
    assert!(slots.mark_used(ExtentKind::Leaves, [(taken[1], 40)]).is_err());
    let mut again = Vec::new();
    slots.take(ExtentKind::Records, (0..2500).map(|_| 40), &mut again).unwrap();
    assert!(again.iter().all(|slot| !reached.contains(slot)));
    assert_eq!(slots.usage(ExtentKind::Records).used, 5000);
}

#[test]
fn a_full_pool_takes_nothing_and_keeps_nothing() {
    let pool = pool(1 << 20);
    let slots = Slots::open(Arc::clone(&pool)).unwrap();
    let mut taken = vec![1];
    let error = slots.take(ExtentKind::Records, (0..5000).map(|_| 4096), &mut taken).unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    assert_eq!((taken, slots.usage(ExtentKind::Records).used), (vec![1], 0));
    assert!(slots.take(ExtentKind::Records, [SLOT_BYTES_MAX + 1], &mut Vec::new()).is_err());
    assert!(slots.take(ExtentKind::Arena, [64], &mut Vec::new()).is_err());
}

#[test]
fn extents_with_impossible_slots_are_refused() {
    for owner in [0, 4, 12, 264 + 8, SLOT_BYTES_MAX, u32::MAX] {
        let pool = pool(1 << 20);
        pool.allocate_extent(ExtentKind::Records, UNIT_BYTES, owner).unwrap();
        assert!(Slots::open(pool).is_err(), "{owner}");
    }
}
