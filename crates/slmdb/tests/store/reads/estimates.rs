//! Estimates of ranges and properties: how near they come to what is there.

use std::ops::Bound;

use crate::common::{Home, MEDIA, On, Random, engine, no_compaction, wait_until, with_a_larger_level_zero};
use slmdb::{Compression, Db, EngineName, LevelStats};

fn key(number: u64) -> String {
    format!("user{number:08}")
}

/// The number of keys from a range, counted.
fn counted(db: &Db, from: u64, to: u64) -> f64 {
    db.range(key(from)..key(to)).unwrap().keys_only().filter(|key| key.is_ok()).count() as f64
}

#[test]
fn a_range_is_estimated_across_table_files_and_memtables() {
    for on in MEDIA {
        let home = Home::new(on);
        let options = home.options().memtable_bytes(4 << 20).memory_budget_bytes(8 << 20);
        let db = options.compression(Compression::None).open(home.store()).unwrap();
        let mut random = Random(5);
        // Each key once in table files, in no order; then overwrites, new keys and deletes that stay in MemTables.
        let count = 40_000;
        for step in 0..count {
            db.put(key(step * 7919 % count), [step as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        let check = |what: &str, tolerance: f64| {
            for (from, to) in
                [(0, 50_000), (10_000, 30_000), (20_000, 26_000), (39_000, 50_000), (5, 105), (9, 9), (9, 3)]
            {
                let (truth, found) = (counted(&db, from, to), db.approximate(key(from)..key(to)).unwrap());
                let error = (found.keys as f64 - truth).abs();
                assert!(error <= tolerance * truth, "{on:?}, {what}, {from} to {to}: {found:?} of {truth} keys");
            }
        };
        check("flushed", 0.15);
        let stats = db.stats();
        let all = db.approximate::<&str>(..).unwrap();
        assert_eq!(all.memtable_bytes, 0);
        // Only an index of all keys knows what is live.
        let live_bytes = if engine() == EngineName::Slm { stats.live_bytes } else { count * 112 } as f64;
        let error = all.table_bytes as f64 / live_bytes - 1.0;
        assert!(error.abs() < 0.15, "{on:?}: {all:?}, {live_bytes}");
        let part = db.approximate(key(10_000)..key(20_000)).unwrap().table_bytes as f64;
        assert!((part / (live_bytes / 4.0) - 1.0).abs() < 0.18, "{on:?}: {part}");

        for _ in 0..8_000 {
            db.put(key(random.below(count)), [1; 100]).unwrap();
        }
        for number in count..count + 4_000 {
            db.put(key(number), [2; 100]).unwrap();
        }
        for number in 20_000..23_000 {
            db.delete(key(number)).unwrap();
        }
        assert!(db.stats().memtable_entries > 10_000, "{on:?}");
        // Half of the second narrowest range is deleted, and one delete in 16 is sampled: 7 % are one standard deviation. (With
        // 20 % 1 of 16 runs failed.)
        check("with MemTables", 0.30);
        let found = db.approximate::<&str>(..).unwrap();
        let truth = (12_000 * 112 + 3_000 * 12) as f64;
        assert!((found.memtable_bytes as f64 / truth - 1.0).abs() < 0.2, "{on:?}: {found:?}");
    }
}

#[test]
fn few_entries_are_counted_exactly_wherever_they_are() {
    let home = Home::new(On::Dram);
    // LAB-DB counts what newer versions hide in its levels. So its keys stay in level 0.
    let db = with_a_larger_level_zero(home.options()).open(home.store()).unwrap();
    for number in 0..100 {
        db.put(key(number), "v").unwrap();
    }
    db.flush().unwrap();
    db.delete(key(10)).unwrap();
    db.delete(key(1000)).unwrap();
    db.put(key(11), "again").unwrap();
    db.put(key(11), "and again").unwrap();
    db.put(key(100), "new").unwrap();
    assert_eq!(db.approximate::<&str>(..).unwrap().keys, 100);
    assert_eq!(db.approximate(key(10)..=key(11)).unwrap().keys, 1);
    let after = (Bound::Excluded(key(11)), Bound::Included(key(100)));
    assert_eq!(db.approximate(after).unwrap().keys, 89);
}

/// Every other number is a key, so bounds are keys and lie between keys.
#[test]
fn a_bound_of_each_kind_is_counted_exactly() {
    let home = Home::new(On::Dram);
    let db = with_a_larger_level_zero(home.options()).open(home.store()).unwrap();
    for number in (0..200).step_by(2) {
        db.put(key(number), [number as u8; 100]).unwrap();
    }
    let check = |place: &str| {
        let bounds = [0, 1, 2, 77, 78, 79, 198, 199].map(key);
        let bounds = bounds.iter().flat_map(|key| [Bound::Included(key), Bound::Excluded(key)]);
        let bounds: Vec<_> = bounds.chain([Bound::Unbounded]).collect();
        for (&from, &to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (from, to))) {
            let truth = db.range::<String>((from, to)).unwrap().count() as u64;
            assert_eq!(db.approximate::<String>((from, to)).unwrap().keys, truth, "{place}, {from:?} to {to:?}");
        }
    };
    check("in a MemTable");
    db.flush().unwrap();
    check("flushed");
    db.compact_range::<&str>(..).unwrap();
    check("compacted");
    db.put(key(79), "new").unwrap();
    db.flush().unwrap();
    db.put(key(199), "new").unwrap();
    db.put(key(78), "overwritten").unwrap();
    db.delete(key(2)).unwrap();
    check("everywhere");
}

/// Large values count whole and small ones beside them do not count as large.
#[test]
fn large_values_count_whole_and_small_ones_as_small() {
    let home = Home::new(On::Dram);
    let db = home.options().compression(Compression::None).open(home.store()).unwrap();
    for number in 0..40 {
        db.put(format!("large{number}"), [3; 20_000]).unwrap();
        db.put(format!("small{number}"), [3; 10]).unwrap();
    }
    db.flush().unwrap();
    let large = db.approximate("large".."m").unwrap().table_bytes as f64;
    assert!((large / 800_000.0 - 1.0).abs() < 0.05, "{large}");
    let small = db.approximate("small".."t").unwrap().table_bytes;
    assert!(small < 40 * 4200, "{small}: no more than their blocks");
}

#[test]
fn levels_have_what_lies_on_them() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().memtable_bytes(64 << 10).open(home.store()).unwrap();
        assert_eq!(db.stats().levels_with_runs().count(), 0);
        for step in 0..4000 {
            db.put(key(step * 7919 % 4000), [step as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        db.compact_range(key(0)..key(3000)).unwrap();
        db.put(key(1), "newer").unwrap();
        db.flush().unwrap();
        // (Compactions may still run, and the two are asked one after the other.)
        wait_until("both say the same", || {
            let (files, stats) = (db.table_files(), db.stats());
            if matches!(engine(), EngineName::Slm | EngineName::Chameleon) {
                return stats.levels.is_empty();
            }
            let of_level = |level: usize| {
                let files = files.iter().filter(|file| file.level as usize == level);
                files.fold(LevelStats::default(), |sum, file| LevelStats {
                    runs: sum.runs + 1,
                    bytes: sum.bytes + file.bytes,
                    bytes_in_pool: sum.bytes_in_pool + if file.is_in_pool { file.bytes } else { 0 },
                })
            };
            let deepest = files.iter().map(|file| file.level as usize).max().unwrap();
            let levels: Vec<LevelStats> = (0..=deepest).map(of_level).collect();
            deepest > 0 && stats.levels == levels
        });
        let in_pool: u64 = db.stats().levels.iter().map(|level| level.bytes_in_pool).sum();
        assert_eq!(in_pool > 0, !crate::common::flushes_to_files(on), "{on:?}");
    }
}

#[test]
fn table_files_and_stats_say_the_same() {
    let home = Home::new(*crate::common::media_with_files().last().unwrap());
    let db = home.options().compaction(no_compaction()).open(home.store()).unwrap();
    db.put("a", [1; 500]).unwrap();
    db.put("b\n", "2").unwrap();
    db.delete("c").unwrap();
    db.flush().unwrap();
    db.put("a", "newer").unwrap();
    db.flush().unwrap();
    let (stats, files) = (db.stats(), db.table_files());
    assert_eq!(files.len(), 2);
    // (TLSM takes all that are no deletes to live.)
    let live = if crate::common::is_tlsm() { 2 } else { 1 };
    assert_eq!((files[0].number, files[0].entries, files[0].deletes, files[0].live_keys), (1, 3, 1, live));
    assert_eq!((files[0].smallest_key.as_slice(), files[0].largest_key.as_slice()), (&b"a"[..], &b"c"[..]));
    assert_eq!((files[0].lowest_sequence, files[0].highest_sequence), (1, 3));
    assert_eq!(files.iter().map(|file| file.bytes).sum::<u64>(), stats.table_bytes);

    let amplification = stats.write_amplification_since_open();
    assert!(amplification.files > 1.0, "{amplification:?}");
    assert!(amplification.fast_tier > 1.0 || crate::common::is_tlsm(), "{amplification:?}");
    assert_eq!(amplification.compactions, 0.0);
    assert!(stats.space_amplification() > 1.0 || crate::common::is_tlsm());
}
