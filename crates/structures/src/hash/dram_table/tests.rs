use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::super::slot::SlotPlace;
use super::*;

fn slot(identity: &Identity, number: u32) -> Slot {
    Slot::new(identity, SlotPlace { file: number, offset: !number, length_bytes: 1 + number }, number.is_multiple_of(3))
        .unwrap()
}

/// Hashes of all kinds: spread, together at one end or the other, and equal ones.
fn identity() -> impl Strategy<Value = Identity> {
    let hash = prop_oneof![any::<u64>(), 0..40_u64, (0..40_u64).prop_map(|low| u64::MAX - low), Just(1 << 63)];
    (hash, 0..3_u64).prop_map(|(hash, rest)| Identity::new(0, hash, rest))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_has_what_was_put_in(
        identities in prop::collection::vec(identity(), 0..300),
        others in prop::collection::vec(identity(), 30),
        load_percent in 0..120_u32,
    ) {
        let (mut writer, mut model) = (DramWriter::new(load_percent, 0), BTreeMap::new());
        for (number, identity) in (0..).zip(&identities) {
            let slot = slot(identity, number);
            prop_assert_eq!(writer.insert(slot), model.insert(*identity, slot));
        }
        prop_assert_eq!(writer.table().entries(), model.len() as u64);
        prop_assert!(writer.slots().eq(model.values().copied()));
        for identity in identities.iter().chain(&others) {
            writer.table().prefetch(identity);
            prop_assert_eq!(writer.table().get(identity), model.get(identity).copied());
        }
    }
}

/// However the hashes lie, a table takes memory for its slots alone.
#[test]
fn memory_is_bounded() {
    for shift in [0, 40, 50] {
        let mut writer = DramWriter::new(75, 0);
        let start = writer.table().memory_bytes();
        for number in 0..5000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift;
            writer.insert(slot(&Identity::new(0, hash, 0), number as u32));
        }
        let bytes = writer.table().memory_bytes() - start;
        // Twice as many homes as slots at most, and where all have one home, three times as many positions.
        assert!(bytes < 5000 * 24 * 5, "{bytes} bytes at {shift}");
    }
}

#[test]
fn what_is_expected_has_room() {
    for entries in [0, 63, 64, 1000, 25_000] {
        let mut writer = DramWriter::new(80, entries);
        let before = Arc::as_ptr(&writer.words);
        for number in 0..entries {
            // Evenly, so that no position behind the homes is missed.
            writer.insert(slot(&Identity::new(0, number * (u64::MAX / entries), 0), number as u32));
        }
        assert_eq!(before, Arc::as_ptr(&writer.words), "{entries}");
    }
}

/// Readers beside a writer see each key from when it was put in, and never an older slot again.
#[test]
fn readers_see_every_slot_beside_a_writer() {
    const KEYS: u64 = 3000;
    let identity = |key: u64| Identity::new(0, key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key);
    let mut writer = DramWriter::new(85, 0);
    let (progress, has_ended) = (std::sync::atomic::AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (table, progress, has_ended) = (Arc::clone(writer.table()), &progress, &has_ended);
            scope.spawn(move || {
                let (mut seen, mut key) = (vec![0; KEYS as usize], reader);
                while !has_ended.load(Acquire) {
                    key = (key * 5 + 7) % KEYS;
                    let written = progress.load(Acquire);
                    let found = table.get(&identity(key)).map(|slot| slot.place());
                    if let Some(SlotPlace { file, offset, length_bytes }) = found {
                        assert!(offset == !file && length_bytes == file + 1, "a torn slot");
                        assert!(u64::from(file) % KEYS == key && file >= seen[key as usize], "an older slot");
                        seen[key as usize] = file;
                    }
                    let expected = (written.saturating_sub(1 + key) / KEYS * KEYS + key) as u32;
                    assert!(written <= key || found.is_some_and(|found| found.file >= expected), "{key} is missing");
                }
            });
        }
        for number in 0..40 * KEYS {
            writer.insert(slot(&identity(number % KEYS), number as u32));
            progress.store(number + 1, Release);
        }
        has_ended.store(true, Release);
    });
    assert_eq!(writer.table().entries(), KEYS);
}
