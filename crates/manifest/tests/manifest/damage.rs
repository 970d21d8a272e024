//! Wrong bytes: every one is noticed, and never a state given that was not there.
//!
//! The one damage that can't be told from a crash is that of the last record: it gives the state before it.

use std::path::Path;

use crate::common::{FILE, Random, Written, budget, machine_with, read, written};
use slmdb_env::Error;
use slmdb_manifest::Reading;

/// What is to be expected of a file whose first differing byte is at `first` and whose last whole header after that
/// place is that of a later record or not.
#[derive(Debug, PartialEq)]
enum Expected {
    Corruption(usize),
    Prefix(usize),
}

/// Compares the damaged bytes with the original ones.
fn expected(original: &Written, damaged: &[u8]) -> Expected {
    let bounds = &original.bounds;
    let is_whole = |from: usize, to: usize| damaged.get(from..to) == Some(&original.bytes[from..to]);
    if !is_whole(0, bounds[0]) {
        return Expected::Corruption(0);
    }
    let records = bounds.len() - 1;
    let broken = (0..records).find(|&record| !is_whole(bounds[record], bounds[record + 1])).unwrap_or(records);
    let header_survives = |record: usize| is_whole(bounds[record], bounds[record] + 24);
    if broken == 0 || (broken + 1..records).any(header_survives) {
        return Expected::Corruption(bounds[broken]);
    }
    Expected::Prefix(broken)
}

#[track_caller]
fn check(original: &Written, damaged: &[u8], what: &str) {
    match (read(&machine_with(damaged)), expected(original, damaged)) {
        (Ok(Reading { state, edits, torn_tail, length_bytes }), Expected::Prefix(records)) => {
            assert_eq!(edits as usize + 1, records, "{what}");
            assert_eq!(state, original.states[records - 1], "{what}");
            let end = original.bounds[records];
            assert_eq!(torn_tail, (damaged.len() > end).then_some(end as u64), "{what}");
            assert_eq!(length_bytes as usize, damaged.len());
        }
        (Err(Error::Corruption { file, offset, .. }), Expected::Corruption(at)) => {
            assert_eq!(file, Path::new(FILE), "{what}");
            // A header that is cut is reported where it ends.
            assert!(offset as usize == at || (at == 0 && offset as usize == damaged.len()), "{what}: {offset}");
        }
        (got, expected) => panic!("{what}: expected {expected:?}, got {got:?}"),
    }
}

#[test]
fn cut_at_every_byte() {
    for seed in 0..budget() {
        let original = written(seed, 5);
        for length in 0..=original.bytes.len() {
            check(&original, &original.bytes[..length], &format!("seed {seed}, cut to {length}"));
        }
    }
}

#[test]
fn every_bit_flipped() {
    for seed in 0..budget() {
        let original = written(seed, 5);
        for at in 0..original.bytes.len() {
            for bit in 0..8 {
                let mut damaged = original.bytes.clone();
                damaged[at] ^= 1 << bit;
                check(&original, &damaged, &format!("seed {seed}, bit {bit} of byte {at} flipped"));
            }
        }
    }
}

#[test]
fn every_byte_replaced() {
    let original = written(11, 3);
    for at in 0..original.bytes.len() {
        for value in [0, 0xff, original.bytes[at].wrapping_add(1)] {
            let mut damaged = original.bytes.clone();
            damaged[at] = value;
            check(&original, &damaged, &format!("byte {at} set to {value}"));
        }
    }
}

#[test]
fn ranges_overwritten() {
    for seed in 0..4000 * budget() {
        let mut random = Random(seed);
        let original = written(seed % 4, 6);
        let mut damaged = original.bytes.clone();
        let start = random.below(damaged.len() as u64) as usize;
        let length = 1 + random.below((damaged.len() - start) as u64) as usize;
        let garbage = random.one_in(2);
        damaged[start..start + length]
            .iter_mut()
            .for_each(|byte| *byte = if garbage { random.next() as u8 } else { 0 });
        check(&original, &damaged, &format!("seed {seed}, {length} bytes at {start} overwritten"));
    }
}

#[test]
fn whole_file_zeroed_or_foreign() {
    let original = written(1, 3);
    check(&original, &vec![0; original.bytes.len()], "zeroed");
    check(&original, &vec![0xff; original.bytes.len()], "all ones");
    check(&original, &[0; 1 << 20], "a larger file of zeros");
}

#[test]
fn grown() {
    let original = written(2, 4);
    let mut random = Random(2);
    for length in (0..200).chain([4096, 1 << 20]) {
        let zeros = vec![0; length];
        let garbage: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        for tail in [zeros, garbage] {
            check(&original, &[original.bytes.as_slice(), &tail].concat(), &format!("{length} bytes more"));
        }
    }
    // Records copied behind the end have a wrong number there.
    for window in original.bounds.windows(2) {
        let copied = [original.bytes.as_slice(), &original.bytes[window[0]..window[1]]].concat();
        match read(&machine_with(&copied)) {
            Err(Error::Corruption { offset, .. }) => assert_eq!(offset as usize, original.bytes.len()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn records_exchanged_or_left_out() {
    let original = written(3, 5);
    let record = |index: usize| &original.bytes[original.bounds[index]..original.bounds[index + 1]];
    let records = original.bounds.len() - 1;
    let header = &original.bytes[..original.bounds[0]];
    let put_together = |order: &[usize]| -> Vec<u8> {
        let records: Vec<u8> = order.iter().flat_map(|&index| record(index).to_vec()).collect();
        [header, records.as_slice()].concat()
    };
    let in_order: Vec<usize> = (0..records).collect();
    assert_eq!(put_together(&in_order), original.bytes);
    for first in 0..records {
        for second in first + 1..records {
            let mut order = in_order.clone();
            order.swap(first, second);
            let result = read(&machine_with(&put_together(&order)));
            assert!(matches!(result, Err(Error::Corruption { .. })), "{first} and {second}: {result:?}");
        }
        let mut order = in_order.clone();
        order.remove(first);
        if first + 1 < records {
            let result = read(&machine_with(&put_together(&order)));
            assert!(matches!(result, Err(Error::Corruption { .. })), "without {first}: {result:?}");
        }
    }
}

/// The other file has the same uuid and the same edits; only its nonce differs.
#[test]
fn records_of_an_older_manifest_of_the_same_store() {
    let original = written(4, 4);
    let older = {
        let env = crate::common::machine();
        let mut random = Random(4);
        env.set_content("/other/x", b"");
        // One more file made before draws another nonce.
        slmdb_manifest::Manifest::create(&env, Path::new("/other"), &Random(99).state()).unwrap();
        let mut manifest =
            slmdb_manifest::Manifest::create(&env, Path::new(crate::common::DIRECTORY), &random.state()).unwrap();
        for _ in 0..4 {
            manifest.append(&random.edit(manifest.state())).unwrap();
        }
        env.content(FILE).unwrap()
    };
    assert_eq!(older.len(), original.bytes.len());
    for window in original.bounds.windows(2) {
        let mut damaged = original.bytes.clone();
        damaged[window[0]..window[1]].copy_from_slice(&older[window[0]..window[1]]);
        assert_ne!(damaged, original.bytes);
        check(&original, &damaged, &format!("the record at {} taken from the older file", window[0]));
    }
}
