//! Damaged bytes: a right answer, a missing key or an error, never a panic, and an end.

use std::sync::Arc;

use slmdb_env::ErrorKind;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, ExtentKind};
use slmdb_structures::hybrid_tree::{HybridTree, LeafCopy, Place};
use slmdb_testkit::Simulated;

use super::{Model, Store, version};
use crate::fast_fair::support::Random;

/// An image of a pool with a tree, and what is in the tree.
fn image() -> (Vec<u8>, Model) {
    let medium = Simulated::new();
    let store = Store::create(medium.clone(), KeyOrder::Bytewise);
    let model: Model = (0..300).map(|number| (format!("key{number:04}").into_bytes(), version(1 + number))).collect();
    store.apply(&model);
    let mut replay = medium.history().replay();
    while replay.to_next_crash() {}
    let image = replay.images(1, 1).last().unwrap();
    (image, model)
}

/// Opens damaged bytes, and looks at everything.
fn look(image: Vec<u8>, model: &Model, what: &str) {
    let store = match Store::open(Dram, image, KeyOrder::Bytewise) {
        Ok(store) => store,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported), "{what}: {error}");
            return;
        }
    };
    let _ = HybridTree::verify(&[&store.tree]);
    for (key, version) in model {
        match store.tree.get(key) {
            Ok(found) => assert!(found.is_none_or(|found| found == *version), "{what}: {found:?}, not {version:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}"),
        }
    }
    let (mut copy, mut place) = (LeafCopy::default(), Vec::new());
    for _ in 0..1000 {
        match store.tree.copy_leaf(Place::At(&place), &mut copy) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                break;
            }
        }
        assert!(copy.iter().all(|(key, version)| model.get(key) == Some(&version)), "{what}");
        let Some(high) = copy.high() else { return };
        place = high.to_vec();
    }
}

/// Where the tree's bytes are in the pool: root, leaves and records.
fn places() -> Vec<u64> {
    let (image, _) = image();
    let store = Store::open(Dram, image, KeyOrder::Bytewise).unwrap();
    let root = store.pool.root_offset();
    let mut places: Vec<u64> = (root..root + 256).collect();
    for extent in store.pool.extents() {
        let bytes = match extent.kind {
            ExtentKind::Leaves => 3 * 512,
            ExtentKind::Records => 40 * 40,
            _ => continue,
        };
        places.extend(extent.offset..extent.offset + bytes);
    }
    places
}

#[test]
fn every_damaged_byte_is_noticed_or_harmless() {
    let (image, model) = image();
    for place in places() {
        for flip in [0x01, 0x80, 0xff] {
            let mut damaged = image.clone();
            damaged[place as usize] ^= flip;
            look(damaged, &model, &format!("byte {place} with {flip:#x}"));
        }
    }
}

#[test]
fn words_that_lead_anywhere_are_harmless() {
    let (image, model) = image();
    let mut random = Random::new(1);
    let words: Vec<u64> = places().into_iter().filter(|place| place % 8 == 0).collect();
    for &place in &words {
        let other = words[random.below(words.len())];
        for word in [0, u64::MAX, other, other & !511, random.next() % image.len() as u64, random.next()] {
            let mut damaged = image.clone();
            damaged[place as usize..place as usize + 8].copy_from_slice(&word.to_le_bytes());
            look(damaged, &model, &format!("word {place} with {word:#x}"));
        }
    }
}

/// Bytes that change under an open tree.
#[test]
fn damage_after_the_opening_is_noticed_or_harmless() {
    let (image, model) = image();
    let store = Store::open(Dram, image, KeyOrder::Bytewise).unwrap();
    for place in places().into_iter().filter(|place| place % 8 == 0) {
        let word = store.pool.load(place).unwrap();
        for flip in [1, 1 << 17, 1 << 47, 1 << 63, u64::MAX] {
            store.pool.store(place, word ^ flip).unwrap();
            for (key, version) in &model {
                if let Ok(found) = store.tree.get(key) {
                    assert!(found.is_none_or(|found| found == *version), "word {place}, {flip:#x}: {found:?}");
                }
            }
            let _ = HybridTree::verify(&[&store.tree]);
        }
        store.pool.store(place, word).unwrap();
    }
    store.check(&model);
}

#[test]
fn a_circle_of_leaves_ends() {
    struct Circle;
    impl slmdb_order::Comparator for Circle {
        fn name(&self) -> &str {
            "circle"
        }
        fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
            let at = |key: &[u8]| u32::from(key.last().copied().unwrap_or(0) % 3);
            match (3 + at(right) - at(left)) % 3 {
                0 => std::cmp::Ordering::Equal,
                1 => std::cmp::Ordering::Less,
                _ => std::cmp::Ordering::Greater,
            }
        }
    }
    let store = Store::create(Dram, KeyOrder::Custom(Arc::new(Circle)));
    let mut random = Random::new(5);
    for round in 0..2000 {
        let keys: Vec<Vec<u8>> = (0..2).map(|_| (random.next() % 5000).to_be_bytes().to_vec()).collect();
        let entries = keys.iter().map(|key| slmdb_structures::hybrid_tree::Entry { key, version: version(1 + round) });
        let _ = store.tree.apply(entries, |_, _| {});
        let _ = store.tree.get(&keys[0]);
    }
    let _ = store.tree.cut_through(&7u64.to_be_bytes());
    let _ = HybridTree::verify(&[&store.tree]);
}
