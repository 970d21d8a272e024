//! The compaction candidate list and the paper's choice from it (section 3.3): each source on a load made for it, on and off;
//! what the default choice makes of seeks; and that a store comes to rest.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    Home, MEDIA, Model, On, Random, assert_same, assert_verified, budget, contents, put_or_delete, wait_until,
};
use slmdb::{CompactionChoices, CompactionOptions, CompactionPolicy, Db, Event, Options};

/// The paper's policy with the paper's parameters, files of a few kibibytes.
fn paper() -> CompactionOptions {
    CompactionOptions { policy: CompactionPolicy::Paper, table_file_bytes: 16 << 10, ..CompactionOptions::default() }
}

/// The same with nothing that names candidates.
fn all_off() -> CompactionOptions {
    CompactionOptions { live_key_ratio: false, leaf_node_scans: false, range_queries: false, seeks: false, ..paper() }
}

fn open(home: &Home, compaction: CompactionOptions) -> Db {
    options(home, compaction).open(home.store()).unwrap()
}

fn options(home: &Home, compaction: CompactionOptions) -> Options {
    home.options().memtable_bytes(1 << 20).compaction(compaction)
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// So many files, each with every so manieth key: as disordered as can be.
fn interleave(db: &Db, files: u64, keys_each: u64) {
    for file in 0..files {
        for number in 0..keys_each {
            db.put(key(number * files + file), [file as u8; 100]).unwrap();
        }
        db.flush().unwrap();
    }
}

/// Keys of which each file has some are written again.
fn supersede(db: &Db, keys: impl Iterator<Item = u64>) {
    keys.for_each(|number| db.put(key(number), [255; 100]).unwrap());
    db.flush().unwrap();
}

/// Waits until so many compactions have ended.
fn wait_for_compactions(db: &Db, count: u64) {
    wait_until(&format!("{count} compactions"), || db.stats().since_open.compactions >= count);
}

/// Waits until what is told of the choices is so: a compaction is counted before they are.
fn wait_for_choices(db: &Db, what: &str, is_so: impl Fn(&CompactionChoices) -> bool) {
    wait_until(what, || is_so(&db.stats().choices));
}

/// Waits until nothing has been compacted for a while; how much has been until then. (Where the processor is busy more may come: what
/// has to come first is to be waited for.)
fn rest(db: &Db) -> u64 {
    let mut last = (db.stats().since_open.compactions, Instant::now());
    wait_until("rest", || {
        let now = db.stats().since_open.compactions;
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() >= Duration::from_millis(300)
    });
    last.0
}

/// Reads everything, in range queries of 50 keys.
fn scan(db: &Db, keys: u64) {
    for from in (0..keys).step_by(50) {
        assert!(db.range(key(from)..).unwrap().take(50).all(|entry| entry.is_ok()));
    }
}

#[test]
fn live_key_ratios_name_candidates_unless_they_are_off() {
    for on in MEDIA {
        // 35 % of the keys of each of two files are superseded.
        let named = |live_key_ratio, live_key_threshold| {
            let home = Home::new(on);
            let db = open(&home, CompactionOptions { live_key_ratio, live_key_threshold, ..all_off() });
            interleave(&db, 2, 200);
            supersede(&db, (0..400).filter(|number| number % 40 < 14));
            if live_key_ratio && live_key_threshold > 0.65 {
                wait_for_choices(&db, "files with much garbage", |choices| choices.by_live_key_ratio.files > 0);
            }
            rest(&db);
            let choices = db.stats().choices;
            assert_eq!(choices.by_live_key_ratio.gained_bytes > 0, choices.by_live_key_ratio.files > 0);
            assert_eq!(choices.all.files, choices.by_live_key_ratio.files);
            assert_verified(&db, "verify");
            choices.by_live_key_ratio.files
        };
        // The paper's section 6.5.
        assert_eq!((named(true, 0.6), named(true, 0.7), named(true, 0.8)), (0, 2, 2));
        assert_eq!(named(false, 0.7), 0);
    }
}

#[test]
fn range_queries_name_candidates_unless_they_are_off() {
    for on in MEDIA {
        let named = |range_queries, files, sequentiality_degree_threshold| {
            let home = Home::new(on);
            let compaction = CompactionOptions { range_queries, sequentiality_degree_threshold, ..all_off() };
            let db = open(&home, CompactionOptions { candidates_threshold: 8, ..compaction });
            interleave(&db, files, 100);
            assert_eq!(db.stats().choices.candidates, 0);
            assert!(db.range(key(500)..).unwrap().take(4).all(|entry| entry.is_ok()));
            assert!(db.range(key(500)..).unwrap().take(30).all(|entry| entry.is_ok()));
            let named = db.stats().choices.by_range_queries.candidates;
            if named > 0 {
                wait_for_choices(&db, "all that is named", |choices| choices.by_range_queries.files >= named);
                assert!(rest(&db) < files, "they are merged several at once");
                let before = db.stats();
                assert_eq!(before.choices.by_range_queries.files, named);
                scan(&db, files * 100);
                assert_eq!(rest(&db), before.since_open.compactions, "it is in order now");
            }
            assert_verified(&db, "verify");
            named
        };
        assert_eq!((named(true, 9, 8), named(true, 8, 8), named(true, 9, 9)), (9, 0, 0));
        assert_eq!(named(false, 9, 8), 0);
    }
}

#[test]
fn leaf_node_scans_name_candidates_unless_they_are_off() {
    for on in MEDIA {
        let named = |leaf_node_scans, leaf_node_threshold| {
            let home = Home::new(on);
            let compaction = CompactionOptions { leaf_node_scans, leaf_node_threshold, ..all_off() };
            let db = open(&home, CompactionOptions { live_key_ratio: true, ..compaction });
            interleave(&db, 11, 100);
            // One file is nearly all garbage, so that something is compacted.
            supersede(&db, (0..90).map(|number| number * 11));
            wait_for_compactions(&db, 1);
            if leaf_node_scans {
                wait_for_choices(&db, "a scan of leaves", |choices| choices.leaf_node_scans > 0);
            }
            rest(&db);
            assert_verified(&db, "verify");
            let choices = db.stats().choices;
            assert_eq!(choices.leaf_node_scans > 0, leaf_node_scans);
            choices.by_leaf_node_scans.candidates
        };
        assert!(named(true, 10) > 10);
        assert_eq!(named(true, 13), 0);
        assert_eq!(named(false, 10), 0);
    }
}

#[test]
fn seeks_name_candidates_unless_they_are_off() {
    const KEYS: u64 = 360;
    for on in MEDIA {
        let named = |seeks, seeks_min| {
            let home = Home::new(on);
            let compaction = CompactionOptions { seeks, seeks_min, ..all_off() };
            let db = options(&home, compaction).memory_budget_bytes(0).open(home.store()).unwrap();
            // More files than a cursor keeps anything of.
            interleave(&db, 30, 12);
            for number in 0..KEYS {
                assert!(db.get(key(number)).unwrap().is_some());
            }
            assert_eq!(db.stats().choices.by_seeks.candidates, 0, "a get turns to one file, whatever the order");
            // Each key is in another file than the one before.
            let read_all = || assert_eq!(db.iter().unwrap().filter(|entry| entry.is_ok()).count(), KEYS as usize);
            let named = || db.stats().choices.by_seeks.candidates;
            read_all();
            // (A file that is sought while the catalog is held, for a record or for a choice, is named at a later seek. One
            // alone has nothing to be merged with.)
            if seeks && seeks_min <= 12 {
                wait_until("two files are named", || {
                    let are_named = named() >= 2;
                    (!are_named).then(read_all);
                    are_named
                });
            }
            let named = named();
            if named > 0 {
                wait_for_compactions(&db, 1);
                // The first may have been merged before the others were named; then these are noticed again.
                for round in 0.. {
                    let before = rest(&db);
                    (0..3).for_each(|_| read_all());
                    if rest(&db) == before {
                        break;
                    }
                    assert!(round < 20, "a cursor reads on in each file: {:?}", db.stats().choices);
                }
            }
            assert_verified(&db, "verify");
            named
        };
        assert!((2..=30).contains(&named(true, 10)));
        assert_eq!(named(true, 13), 0);
        assert_eq!(named(false, 10), 0);
    }
}

/// The default policy, too, puts in order what is scanned; nobody else's.
#[test]
fn what_scans_pay_for_is_put_in_order_by_the_default_policy() {
    for on in MEDIA {
        let after_scans = |scans: bool| {
            let home = Home::new(on);
            let compaction =
                CompactionOptions { seeks_min: 20, table_file_bytes: 1 << 10, ..CompactionOptions::default() };
            let db = options(&home, compaction).memory_budget_bytes(0).open(home.store()).unwrap();
            // 20 files of 50 keys.
            interleave(&db, 20, 50);
            for number in 0..1000 {
                assert!(db.get(key(number)).unwrap().is_some());
            }
            // Scanned until all is in order (the last file may cost nobody enough), and nothing more is compacted for it.
            let (mut compactions, mut quiet_rounds) = (rest(&db), 0);
            while quiet_rounds < 3 || (scans && db.stats().choices.by_seeks.files < 19) {
                if scans {
                    scan(&db, 1000);
                }
                let before = std::mem::replace(&mut compactions, rest(&db));
                quiet_rounds = if before == compactions { quiet_rounds + 1 } else { 0 };
                let stats = db.stats();
                assert!(quiet_rounds < 200, "nothing is compacted: {:?}", stats.choices);
                assert!(stats.choices.all.rewritten_bytes <= 10 * stats.table_bytes, "no end of it: {stats:?}");
            }
            assert_verified(&db, "verify");
            let choices = db.stats().choices;
            assert_eq!(choices.all.files, choices.by_seeks.files, "{choices:?}");
            let CompactionChoices { by_seeks, all, .. } = choices;
            let without_paper = CompactionChoices { by_seeks, all, ..CompactionChoices::default() };
            assert_eq!(choices, without_paper, "nothing of the paper's policy runs");
            by_seeks
        };
        assert_eq!(after_scans(false).files, 0);
        assert!(after_scans(true).files >= 19);
    }
}

/// Merges for order give way to writers. But a store that is never left alone is put in order, too, as long as it is
/// asked for ranges.
#[test]
fn what_scans_pay_for_is_put_in_order_beside_writers() {
    for pause in [Duration::from_millis(5), Duration::ZERO] {
        let home = Home::new(On::Dram);
        let compaction = CompactionOptions { seeks_min: 20, table_file_bytes: 4 << 10, ..CompactionOptions::default() };
        let merges = Arc::new(AtomicU64::new(0));
        let counted = merges.clone();
        let options = options(&home, compaction).memory_budget_bytes(0).event_listener(move |event: &Event| {
            if matches!(event, Event::CompactionBegan { chosen_by: "order", .. }) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let db = options.open(home.store()).unwrap();
        interleave(&db, 20, 50);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // New keys, behind those that are scanned: so there is never garbage to remove first.
                for number in 1_000.. {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    db.put(key(number), [7; 100]).unwrap();
                    std::thread::sleep(pause);
                }
            });
            if pause == Duration::ZERO {
                let flushes = db.stats().since_open.flushes;
                wait_until("flushes", || db.stats().since_open.flushes > flushes + 3);
            }
            let ended = catch_unwind(AssertUnwindSafe(|| {
                wait_until("a merge for order", || {
                    scan(&db, 1000);
                    merges.load(Ordering::Relaxed) > 0
                })
            }));
            is_done.store(true, Ordering::Relaxed);
            ended.unwrap_or_else(|panic| resume_unwind(panic));
        });
        assert_verified(&db, "verify");
    }
}

/// A merge of small files ends its files by what they would have before the last block is compressed. Where that is most of
/// them they stay small.
#[test]
fn small_files_that_a_merge_makes_no_fewer_are_merged_once() {
    let home = Home::new(On::Dram);
    // One at a time: another would take what the first has just made for files that were never merged.
    let one = CompactionOptions { threads: 1, ..CompactionOptions::default() };
    let compaction = CompactionOptions { table_file_bytes: 2 << 10, seeks: false, ..one };
    let db = open(&home, compaction);
    for number in 0..160 {
        db.put(key(number), [0; 500]).unwrap();
        if number % 4 == 3 {
            db.flush().unwrap();
        }
    }
    wait_for_choices(&db, "all files merged", |choices| choices.all.files >= 40);
    rest(&db);
    let (choices, table_bytes) = (db.stats().choices, db.stats().table_bytes);
    assert!(choices.all.rewritten_bytes <= 2 * table_bytes, "of {table_bytes}: {choices:?}");
}

/// Published SLM-DB code scanned a fixed number of keys: with values of 16 KiB that was all of a small store, which it
/// rewrote for ever.
#[test]
fn an_ordered_store_of_large_values_is_left_alone() {
    for value_bytes in [4 << 10, 16 << 10] {
        let home = Home::new(On::Dram);
        let db = open(&home, CompactionOptions { table_file_bytes: 32 << 10, ..paper() });
        let keys_each = (32 << 10) / value_bytes as u64;
        let mut random = Random(1);
        let value = random.bytes(value_bytes);
        for number in 0..40 * keys_each {
            db.put(key(number), &value).unwrap();
            if number % keys_each == keys_each - 1 {
                db.flush().unwrap();
            }
        }
        assert_eq!(rest(&db), 0, "it was written in order");
        // Something is compacted again and again, and leaves are scanned: mostly once for each compaction, but where the
        // processor is busy one scan may do for two.
        let mut rounds = 0;
        while rounds < 20 || db.stats().choices.leaf_node_scans < 20 {
            rounds += 1;
            assert!(rounds < 200, "{:?}", db.stats().choices);
            supersede(&db, 0..keys_each);
            wait_for_compactions(&db, rounds);
        }
        rest(&db);
        scan(&db, 40 * keys_each);
        rest(&db);
        let stats = db.stats();
        let choices = stats.choices;
        assert!(choices.leaf_node_scans >= 20, "{choices:?}");
        assert!(choices.leaf_node_scan_keys <= choices.leaf_node_scans * 3 * keys_each, "{choices:?}");
        assert_eq!(choices.by_leaf_node_scans.candidates, 0, "{choices:?}");
        assert_eq!(
            choices.by_range_queries.files, 0,
            "30 keys may be in more than 8 files, but no two overlap: {choices:?}"
        );
        let superseded = (rounds + 1) * keys_each * (value_bytes as u64 + 500);
        assert!(choices.all.rewritten_bytes <= superseded, "{choices:?}");
        assert_verified(&db, "verify");
    }
}

/// With everything on, and thresholds as low as they go.
#[test]
fn a_store_that_is_left_alone_comes_to_rest() {
    for on in MEDIA {
        for seed in 0..3 * budget() {
            let home = Home::new(on);
            let mut random = Random(seed);
            let compaction = CompactionOptions {
                table_file_bytes: 1 << (10 + random.below(6)),
                files_merged_max: 1 + random.below(6) as usize,
                threads: 1 + random.below(2) as usize,
                live_key_threshold: 1.0,
                leaf_node_threshold: random.below(3) as usize,
                leaf_node_scan_files: 1 + random.below(5) as usize,
                sequentiality_degree_threshold: random.below(3) as usize,
                sub_range_keys: 2 + random.below(63) as usize,
                seek_bytes: 1 << 20,
                seeks_min: 1 + random.below(20) as u32,
                candidates_threshold: random.below(5) as usize,
                ..paper()
            };
            let options = options(&home, compaction.clone()).memtable_bytes(16 << 10).memory_budget_bytes(0);
            let db = options.open(home.store()).unwrap();
            let mut model = Model::new();
            for _ in 0..3000 {
                let number = random.below(900);
                put_or_delete(&db, &mut model, &mut random, key(number), 200, 8);
                if random.one_in(50) {
                    let from = random.below(900);
                    let range = db.range(key(from)..).unwrap().take(random.below(100) as usize);
                    assert!(range.filter_map(Result::ok).count() <= 100);
                }
            }
            db.flush().unwrap();
            rest(&db);
            // What is read may show disorder that is left, but only so often.
            for round in 0.. {
                let before = db.stats().since_open.compactions;
                assert_same(&contents(&db).unwrap(), &model, "contents");
                scan(&db, 900);
                if rest(&db) == before {
                    break;
                }
                assert!(round < 100, "{compaction:?} {:?}", db.stats().choices);
            }
            assert_verified(&db, "verify");
        }
    }
}

#[test]
fn the_list_outlives_a_close() {
    for on in MEDIA {
        let home = Home::new(on);
        // What is merged one by one, and has no garbage, stays on the list.
        let compaction = CompactionOptions { files_merged_max: 1, range_queries: true, ..all_off() };
        let db = open(&home, compaction.clone());
        interleave(&db, 20, 50);
        scan(&db, 1000);
        assert_eq!(db.stats().choices.candidates, 20);
        db.close().unwrap();
        let db = open(&home, compaction);
        let choices = db.stats().choices;
        assert_eq!((choices.candidates, choices.by_manifest.candidates), (20, 20));
        drop(db);
        let db = open(&home, all_off());
        wait_for_choices(&db, "all of the list", |choices| choices.by_manifest.files >= 20);
        rest(&db);
        assert_eq!(db.stats().choices.by_manifest.files, 20);
        assert_verified(&db, "verify");
    }
}

/// The authors' published code stops writers at 35 candidates.
#[test]
fn a_long_list_stops_no_writer() {
    let home = Home::new(On::Dram);
    let compaction = CompactionOptions { files_merged_max: 1, range_queries: true, sub_range_keys: 64, ..all_off() };
    let db = open(&home, compaction);
    interleave(&db, 60, 20);
    scan(&db, 1200);
    assert!(db.stats().choices.candidates > 35);
    for file in 0..10 {
        supersede(&db, (0..100).map(|number| 2000 + number * 10 + file));
    }
    assert_eq!(db.stats().since_open.compactions, 0);
    assert_eq!(db.stats().table_files, 70);
}

#[test]
fn nothing_is_named_where_only_what_is_asked_for_is_compacted() {
    let home = Home::new(On::Dram);
    let db = open(&home, CompactionOptions { policy: CompactionPolicy::Manual, ..paper() });
    interleave(&db, 12, 50);
    supersede(&db, 0..400);
    scan(&db, 600);
    db.compact_range::<&[u8]>(..).unwrap();
    let choices = db.stats().choices;
    assert_eq!((choices.candidates, choices.leaf_node_scans), (0, 0));
    assert!(choices.parts().iter().all(|(_, chosen)| chosen.candidates == 0 && chosen.files == 0), "{choices:?}");
}
