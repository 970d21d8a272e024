//! Crashes: writing a table is recorded on the simulated medium, and every crash that its fences part is looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use slmdb_pmem::{Claim, Dram, Medium, Pool};
use slmdb_testkit::Simulated;

use super::{Parts, built, check, extents, open, parts, pool, written};
use crate::fast_fair::support::budget;

/// Whether a table of this number is in an image: then it is whole, else it is refused.
fn look(image: Vec<u8>, number: u32, parts: &Parts) -> bool {
    let pool = Arc::new(Pool::from_image(Dram, image).unwrap());
    let Some(extent) = extents(&pool).into_iter().find(|extent| extent.owner == number) else { return false };
    match open(&pool, extent, number) {
        Ok(table) => {
            check(&table, parts);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn a_crash_leaves_a_table_whole_or_none() {
    for (count, seed) in [(3, 1), (60, 2), (900, 3)] {
        let [old, new] = [1, 2].map(|seed| parts([(2, count), (4, 0), (5, count / 2)], seed));
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        // A table that is no more has left its bytes where the new one comes to lie.
        let gone = written(&pool, 9, &new);
        pool.free_extent(gone.offset).unwrap();
        let begin = medium.moment();
        assert_eq!(written(&pool, 2, &new).offset, gone.offset);
        let end = medium.moment();
        written(&pool, 3, &old);
        let mut replay = medium.history().replay();
        replay.to_moment(begin);
        let mut seen = BTreeSet::new();
        loop {
            for image in replay.images(24 * budget() as u64, seed) {
                let is_there = look(image, 2, &new);
                assert!(replay.moment() < end || is_there, "complete, and a crash has lost it");
                seen.insert(is_there);
            }
            if !replay.to_next_crash() {
                break;
            }
        }
        assert_eq!(seen.len(), 2);
    }
}

#[test]
fn a_table_takes_two_fences_whatever_it_has() {
    for count in [1, 3000] {
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        // The first extent has made the pool grow.
        written(&pool, 1, &parts([(2, 3000)], 1));
        let table = built(2, &parts([(2, count)], 1), 75);
        let alone = |length_bytes| {
            let before = medium.counters().persists;
            let kind = slmdb_pmem::ExtentKind::HashTable;
            pool.allocate_part(kind, length_bytes, length_bytes, 5, Claim::Privileged).unwrap();
            medium.counters().persists - before
        };
        let of_extent = alone(table.record().length_bytes);
        let before = medium.counters().persists;
        table.write_to_pool(&pool, Claim::Privileged).unwrap();
        assert_eq!(medium.counters().persists - before, of_extent + 2);
    }
}
