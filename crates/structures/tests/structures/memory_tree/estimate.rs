//! Estimates of ranges too large to be counted, in an index whose leaves are of uneven length.

use std::ops::Bound;

use slmdb_structures::memory_tree::{Decision, Settings};
use slmdb_sync::epoch;

use super::{found, tree};
use crate::fast_fair::support::Random;

#[test]
fn the_weights_of_a_sample_add_up_to_the_keys_of_a_range() {
    const KEYS: u32 = 300_000;
    let tree = tree(Settings { leaf_keys: 16, inner_children: 24, ..Settings::default() });
    let key = |number: u32| number.to_be_bytes();
    let mut part = tree.bulk_part();
    (0..KEYS).for_each(|number| part.add(&key(number), found(u64::from(number), 0)).unwrap());
    tree.finish_bulk_load(vec![part]).unwrap();
    // Of the upper half most keys go.
    let mut random = Random::new(4);
    let is_gone = |number: u32| number > KEYS / 2 && !number.is_multiple_of(8);
    let gone: Vec<[u8; 4]> = (0..KEYS).filter(|number| is_gone(*number)).map(key).collect();
    tree.update_sorted(&gone, |_, _| Ok(Decision::Remove), |_, _| {}).unwrap();
    let guard = epoch::pin();
    for _ in 0..60 {
        let (one, other) = (random.below(KEYS as usize) as u32, random.below(KEYS as usize) as u32);
        let (from, to) = (one.min(other), one.max(other));
        let truth = (from..to).filter(|number| !is_gone(*number)).count() as f64;
        let range = (key(from), key(to));
        let samples = tree.sample((Bound::Included(&range.0), Bound::Excluded(&range.1)), &guard);
        let sum: f64 = samples.iter().map(|sample| sample.weight).sum();
        assert!((sum - truth).abs() <= truth * 0.2 + 50.0, "{sum} for {truth} from {from} to {to}");
        assert!(samples.len() <= 4096 && samples.iter().all(|sample| sample.key_bytes == 4));
    }
    let all = tree.sample((Bound::Unbounded, Bound::Unbounded), &guard);
    let (sum, truth) = (all.iter().map(|sample| sample.weight).sum::<f64>(), tree.count(&guard) as f64);
    assert!((sum - truth).abs() <= truth * 0.1, "{sum} for {truth}");
    assert!(tree.sample((Bound::Included(&[9]), Bound::Included(&[1])), &guard).is_empty());
}
