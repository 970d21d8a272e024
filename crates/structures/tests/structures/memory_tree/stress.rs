//! Readers beside a writer, with real threads; and what waits for readers who sleep.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use slmdb_order::Direction;
use slmdb_structures::memory_tree::{Decision, Found, MemoryTree, Place, RangeRead, Settings};
use slmdb_sync::epoch;

use super::{place, read_all, tiny, tree};
use crate::fast_fair::support::Random;

/// Keys that stay, and others between them that come and go.
const STEADY: u64 = 3000;

fn key(number: u64) -> [u8; 12] {
    let mut key = [b'k'; 12];
    key[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// A place that tells its round, and that is wide in every third one.
fn of_round(round: u64) -> Place {
    Place {
        slot: (round % 4) as u32,
        offset: round as u32,
        length_bytes: if round.is_multiple_of(3) { 70_000 } else { 7 },
    }
}

fn check_reads(tree: &MemoryTree, steady: &BTreeSet<[u8; 12]>, least: u64, number: u64, read: &mut RangeRead) {
    let guard = epoch::pin();
    let from = key(2 * number);
    let found = tree.get(&from, &guard).expect("a key that stays is missing");
    let round = u64::from(found.place.offset);
    assert!(round >= least && found.place == of_round(round), "an older place, or a torn one");
    // A place that was moved keeps the number from the round before.
    let numbers = if round.is_multiple_of(5) { [round, round - 1] } else { [round, round] };
    assert!(found.sequence == 0 || numbers.contains(&found.sequence), "the number of another place");
    for direction in [Direction::Forward, Direction::Backward] {
        tree.read(Bound::Included(&from), direction, 40, &guard, read);
        let is_ascending = |one: &[u8], next: &[u8]| one < next;
        let keys: Vec<&[u8]> = read.iter().map(|(key, _)| key).collect();
        let in_order = match direction {
            Direction::Forward => keys.is_sorted_by(|one, next| is_ascending(one, next)),
            Direction::Backward => keys.is_sorted_by(|one, next| is_ascending(next, one)),
        };
        assert!(in_order, "a key comes twice, or out of order");
        let seen = keys.iter().filter(|key| steady.contains(**key)).count();
        let expected = match (direction, keys.last()) {
            (_, None) => unreachable!("the first key stays"),
            (Direction::Forward, Some(last)) => {
                steady.range::<[u8], _>((Bound::Included(&from[..]), Bound::Included(*last))).count()
            }
            (Direction::Backward, Some(last)) => {
                steady.range::<[u8], _>((Bound::Included(*last), Bound::Included(&from[..]))).count()
            }
        };
        assert_eq!(seen, expected, "a key that stays was missed");
        for (key, found) in read.iter().filter(|(key, _)| steady.contains(*key)) {
            assert!(u64::from(found.place.offset) >= least, "an older place of {key:?}");
        }
    }
}

#[test]
fn readers_beside_a_writer_miss_nothing_and_never_go_back() {
    let tree = tree(Settings { leaf_keys: 12, inner_children: 6, ..tiny() });
    let mut steady: Vec<[u8; 12]> = (0..STEADY).map(|number| key(2 * number)).collect();
    steady.sort_unstable();
    let set: BTreeSet<[u8; 12]> = steady.iter().copied().collect();
    let put = |round: u64| {
        // With numbers in some rounds, so that leaves are copied, and changed in place in others.
        let sequence = if round % 4 < 2 { 0 } else { round };
        let decide = |_: usize, was: Option<Found>| {
            assert_eq!(was.map(|was| was.place), (round > 1).then(|| of_round(round - 1)));
            Ok(Decision::Put(Found { place: of_round(round), sequence }))
        };
        tree.update_sorted(&steady, decide, |_, _| {}).unwrap();
    };
    put(1);
    let (done, has_ended) = (AtomicU64::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (tree, set, done, has_ended) = (&tree, &set, &done, &has_ended);
            scope.spawn(move || {
                let (mut random, mut read) = (Random::new(reader), RangeRead::default());
                while !has_ended.load(Acquire) {
                    let least = done.load(Acquire);
                    check_reads(tree, set, least, random.next() % STEADY, &mut read);
                }
            });
        }
        let mut random = Random::new(9);
        for round in 2..120 {
            if round % 5 == 0 {
                let mut moved = 0;
                tree.repoint(&steady, |_| (of_round(round - 1), of_round(round)), |_| moved += 1).unwrap();
                assert_eq!(moved, steady.len());
            } else {
                put(round);
            }
            done.store(round, Release);
            let others: BTreeSet<[u8; 12]> = (0..600).map(|_| key(2 * (random.next() % STEADY) + 1)).collect();
            let others: Vec<[u8; 12]> = others.into_iter().collect();
            let goes = round % 3 == 0;
            tree.update_sorted(
                &others,
                |index, was| {
                    Ok(if goes || was.is_some() || index % 7 == 0 {
                        Decision::Remove
                    } else {
                        Decision::Put(Found { place: place(round), sequence: 0 })
                    })
                },
                |_, _| {},
            )
            .unwrap();
        }
        has_ended.store(true, Release);
    });
    assert!(tree.verify(&epoch::pin()).is_empty());
}

/// What a reader who sleeps keeps from being freed is bounded, and comes back when he wakes.
#[test]
fn a_reader_who_sleeps_holds_up_little_memory() {
    // (Other tests have guards, too.)
    let patience = Duration::from_secs(5);
    let tree = tree(Settings { garbage_bytes_min: 256 << 10, readers_patience: patience, ..Settings::default() });
    let keys: Vec<[u8; 12]> = (0..40_000).map(key).collect::<BTreeSet<_>>().into_iter().collect();
    let put = |round: u64| {
        let decide = |_: usize, _| Ok(Decision::Put(Found { place: of_round(1), sequence: round }));
        tree.update_sorted(&keys, decide, |_, _| {}).unwrap();
    };
    put(1);
    let live_bytes = tree.memory_bytes();
    let (begun, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut most_bytes = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Acquire) {
                let _guard = epoch::pin();
                begun.store(true, Release);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        while !begun.load(Acquire) {
            std::thread::yield_now();
        }
        for round in 2..8 {
            put(round);
            most_bytes = most_bytes.max(tree.memory_bytes());
        }
        is_over.store(true, Release);
    });
    assert!(most_bytes <= live_bytes + (4 << 20), "{live_bytes} bytes became {most_bytes}");
    put(9);
    assert!(read_all(&tree, Direction::Forward, 100).iter().all(|(_, found)| found.sequence == 9));
}

/// The first chunks are short.
#[test]
fn a_small_index_takes_little_memory() {
    let tree = tree(Settings::default());
    let keys: Vec<[u8; 12]> = (0..1000).map(key).collect::<BTreeSet<_>>().into_iter().collect();
    for (count, most_bytes) in [(1, 160 << 10), (1000, 1 << 20)] {
        let decide = |_: usize, _| Ok(Decision::Put(Found { place: of_round(1), sequence: 1 }));
        tree.update_sorted(&keys[..count], decide, |_, _| {}).unwrap();
        println!("{count} keys: {} bytes", tree.memory_bytes());
        assert!(tree.memory_bytes() <= most_bytes, "{} bytes for {count} keys", tree.memory_bytes());
    }
}

/// Nine of ten keys go, at random or all that are next to each other: chunks go back to the system.
#[test]
fn memory_goes_back_when_most_keys_have_gone() {
    for is_random in [true, false] {
        let settings = Settings { garbage_bytes_min: 0, ..Settings::default() };
        let tree = tree(settings);
        let mut random = Random::new(3);
        // In the order of hashes, so that leaves next to each other lie apart.
        let mut keys: Vec<[u8; 40]> = (0..1_500_000_u64)
            .map(|number| {
                let mut key = [b'-'; 40];
                key[..12].copy_from_slice(&self::key(number));
                key[32..].copy_from_slice(&random.next().to_be_bytes());
                key
            })
            .collect();
        for batch in keys.chunks_mut(250_000) {
            batch.sort_unstable();
            let decide = |_: usize, _| Ok(Decision::Put(Found { place: of_round(1), sequence: 1 }));
            tree.update_sorted(batch, decide, |_, _| {}).unwrap();
        }
        keys.sort_unstable();
        let full_bytes = tree.memory_bytes();
        let kept: Vec<[u8; 40]> = if is_random {
            keys.iter().copied().filter(|_| random.below(10) == 0).collect()
        } else {
            keys[keys.len() / 10 * 9..].to_vec()
        };
        let mut stays = kept.iter().peekable();
        let gone: Vec<[u8; 40]> = keys.into_iter().filter(|key| stays.next_if(|kept| *kept == key).is_none()).collect();
        for batch in gone.chunks(150_000) {
            tree.update_sorted(batch, |_, _| Ok(Decision::Remove), |_, _| {}).unwrap();
        }
        assert!(tree.verify(&epoch::pin()).is_empty());
        // Other tests have readers that sleep. What they hold goes back with a change that comes after them.
        let is_bounded = || tree.memory_bytes() <= tree.live_bytes() * 5 / 4 + (2 << 20);
        for _ in (0..3000).take_while(|_| !is_bounded()) {
            std::thread::sleep(Duration::from_millis(10));
            let put = Decision::Put(Found { place: of_round(2), sequence: 2 });
            tree.update_sorted(&kept[..1], |_, _| Ok(put), |_, _| {}).unwrap();
        }
        // The same keys, loaded anew, are as dense as can be.
        let dense = super::tree(settings);
        let mut part = dense.bulk_part();
        kept.iter().for_each(|key| part.add(key, Found { place: of_round(1), sequence: 1 }).unwrap());
        dense.finish_bulk_load(vec![part]).unwrap();
        let (bytes, live_bytes) = (tree.memory_bytes(), tree.live_bytes());
        println!(
            "random {is_random}: {full_bytes} bytes, then {bytes}, {live_bytes} live, {} at best",
            dense.live_bytes()
        );
        assert!(bytes <= live_bytes * 5 / 4 + (2 << 20), "{bytes} bytes for {live_bytes}");
        assert!(live_bytes * 2 <= dense.live_bytes() * 3, "{live_bytes} bytes, {} at best", dense.live_bytes());
    }
}
