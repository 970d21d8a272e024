//! Faults that compaction has had here, or has in published code, each a test by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{
    Home, MEDIA, On, Random, SetAtEnd, assert_verified, budget, eager_compaction, no_compaction, wait_until,
};
use slmdb::{CompactionOptions, CompactionPolicy, Compression, Db};
use slmdb_testkit::MemoryEnv;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// What compactions defer until no reader can be there once kept the pool of a closed store mapped, and would have freed
/// extents of one that had been opened again.
#[test]
fn the_pool_of_a_closed_store_is_let_go_after_compactions() {
    let home = Home::new(On::Emulated);
    let db = home.options().compaction(eager_compaction()).open(home.store()).unwrap();
    for round in 0..3 {
        (0..100).for_each(|number| db.put(key(number), format!("round {round}")).unwrap());
        db.flush().unwrap();
    }
    db.compact_range::<&[u8]>(..).unwrap();
    assert!(db.stats().since_open.compactions > 0);
    let pool = home.pool().unwrap();
    let is_mapped = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| line.contains(pool.to_str().unwrap()))
    };
    assert!(is_mapped());
    db.close().unwrap();
    // Another test's thread may be giving back what was deferred, and has the pool for that moment.
    wait_until("the pool of a closed store is let go", || !is_mapped());
}

/// A crash leaves table files that the MANIFEST does not name: outputs that were not finished, inputs whose removal was not
/// durable. That is no damage, and a reader may not remove them.
#[test]
fn what_a_crash_left_over_goes_with_the_next_writer() {
    let env = MemoryEnv::new();
    let options = crate::common::options().env(Arc::new(env.clone())).compaction(eager_compaction());
    let db = options.open("/db").unwrap();
    for round in 0..3 {
        (0..100).for_each(|number| db.put(key(number), format!("round {round}")).unwrap());
        db.flush().unwrap();
    }
    db.compact_range::<&[u8]>(..).unwrap();
    db.close().unwrap();
    // The removals were not synced.
    let after = env.crash();
    let tables = |env: &MemoryEnv| {
        let listed = slmdb_env::Env::list_directory(env, std::path::Path::new("/db")).unwrap();
        listed.iter().filter(|entry| entry.name.ends_with(".sst")).count()
    };
    after.set_content("/db/0000000099.sst", b"an output that was not finished");
    let options = options.env(Arc::new(after.clone()));
    {
        let db = options.clone().read_only(true).open("/db").unwrap();
        assert!(tables(&after) > db.table_files().len());
        assert_verified(&db, "read-only");
    }
    let db = options.open("/db").unwrap();
    assert_verified(&db, "opened");
    assert_eq!(tables(&after), db.table_files().len());
}

/// A file that was compacted away and went between the listing of the directory and the question whether it may linger was
/// once a finding.
#[test]
fn a_verification_while_files_are_retired_finds_nothing() {
    for on in MEDIA {
        let home = Home::new(on);
        let options = home.options().memtable_bytes(4 << 10).compaction(CompactionOptions {
            table_file_bytes: 1 << 10,
            threads: 2,
            ..eager_compaction()
        });
        let db = options.open(home.store()).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = Random(5);
                while !done.load(Ordering::Relaxed) {
                    db.put(key(random.below(60)), [1; 100]).unwrap();
                    // Snapshots pin files, whose removal is then up to whoever lets go of them.
                    drop(random.one_in(50).then(|| db.snapshot().unwrap()));
                }
            });
            let _done = SetAtEnd(&done);
            while db.stats().since_open.compactions < 40 * budget() {
                assert_verified(&db, &format!("{on:?}"));
                // Verifications keep compactions from ending.
                std::thread::sleep(Duration::from_micros(300));
            }
        });
    }
}

/// As published code has it: iterators, and gets, that opened a table file just when it went away.
#[test]
fn no_read_misses_a_key_while_files_go_away() {
    const KEYS: u64 = 120;
    for on in MEDIA {
        let home = Home::new(on);
        // One open file and next to no cache, so that nearly every read opens one.
        let options = home.options().memtable_bytes(8 << 10).open_tables_max(1).memory_budget_bytes(1 << 10);
        let options = options.compaction(CompactionOptions {
            table_file_bytes: 1 << 10,
            live_key_threshold: 0.95,
            threads: 3,
            ..eager_compaction()
        });
        let db = options.open(home.store()).unwrap();
        (0..KEYS).for_each(|number| db.put(key(number), [0; 60]).unwrap());
        let done = AtomicBool::new(false);
        let while_written = |read: &(dyn Fn(&mut Random) + Sync), seed: u64| {
            let mut random = Random(seed);
            while !done.load(Ordering::Relaxed) {
                read(&mut random);
            }
        };
        let get = |random: &mut Random| {
            let number = random.below(KEYS);
            assert!(db.get(key(number)).unwrap().is_some(), "{on:?}: key {number} is missing");
        };
        let iterate = |random: &mut Random| {
            let entries = db.iter().unwrap();
            let count = if random.one_in(2) {
                entries.map(Result::unwrap).count()
            } else {
                entries.rev().map(Result::unwrap).count()
            };
            assert_eq!(count as u64, KEYS, "{on:?}: an iterator ended early");
        };
        let snapshot = |_: &mut Random| {
            let snapshot = db.snapshot().unwrap();
            let before: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).collect();
            std::thread::sleep(Duration::from_millis(5));
            let after: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).collect();
            assert_eq!(before.len() as u64, KEYS, "{on:?}: a snapshot lacks keys");
            assert!(before == after, "{on:?}: a snapshot has changed");
        };
        let readers: [&(dyn Fn(&mut Random) + Sync); 3] = [&get, &iterate, &snapshot];
        std::thread::scope(|scope| {
            for (seed, read) in (0..).zip(readers) {
                scope.spawn(move || while_written(read, seed));
            }
            let _done = SetAtEnd(&done);
            let mut random = Random(77);
            let compactions = || db.stats().since_open.compactions;
            // However little of the processor they get meanwhile.
            for number in (0..600_000_u64).take_while(|&number| number < 6000 * budget() || compactions() <= 10) {
                db.put(key(random.below(KEYS)), number.to_le_bytes().repeat(8)).unwrap();
            }
        });
        assert!(db.stats().since_open.compactions > 10);
        assert_verified(&db, "afterwards");
    }
}

/// Bytes of compactions, once there is nothing more to do.
fn settled(db: &Db) -> u64 {
    let written = || db.stats().since_open.compaction_bytes_written;
    let mut before = written();
    for _ in 0..600 {
        std::thread::sleep(Duration::from_millis(150));
        let now = written();
        if now == before {
            return now;
        }
        before = now;
    }
    panic!("compaction goes on without end: {before} bytes written");
}

/// Only SLM-DB's compactions read key sections. Levels write a byte more often than it does.
mod slm {
    use super::*;

    /// A compaction reads key sections piece by piece, so it may find only after its first outputs that one can't be read. It
    /// names the file, what it has moved stays moved, and nothing is lost by that.
    #[test]
    fn a_damaged_key_section_is_named_and_costs_nothing_else() {
        let home = Home::new(On::Emulated);
        let compaction = CompactionOptions { table_file_bytes: 128 << 10, ..no_compaction() };
        let db = home.options().compaction(compaction).compression(Compression::None).open(home.store()).unwrap();
        let (mut random, count) = (Random(7), 3000);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| random.bytes(200)).collect();
        for (round, step) in [(0_u64, 1), (1, 2)] {
            keys.iter().step_by(step).for_each(|key| db.put(key, round.to_le_bytes()).unwrap());
            db.flush().unwrap();
        }
        let value = |number: usize| if number.is_multiple_of(2) { 1_u64 } else { 0 }.to_le_bytes();
        let assert_all_there = |when: &str| {
            for (number, key) in keys.iter().enumerate() {
                assert_eq!(db.get(key).unwrap().as_deref(), Some(&value(number)[..]), "{when}: key {number}");
            }
        };
        let listed = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path());
        let table = listed.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).max().unwrap();
        // Keys stand in the blocks, and whole in the key section behind them: this is in the middle of that.
        let flip = || {
            let mut bytes = std::fs::read(&table).unwrap();
            let at = bytes.len() * 3 / 4;
            bytes[at] ^= 1;
            let file = std::fs::OpenOptions::new().write(true).open(&table).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..=at], at as u64).unwrap();
        };
        flip();
        let error = db.compact_range::<&[u8]>(..).expect_err("a key section is damaged");
        assert!(matches!(&error, slmdb::Error::Corruption { file, .. } if *file == table), "{error:?}");
        assert!(db.stats().table_files > 2, "outputs were made before that");
        assert_all_there("behind the error");
        db.put("new", "written").unwrap();

        flip();
        db.compact_range::<&[u8]>(..).unwrap();
        assert!(!table.exists());
        assert_all_there("compacted");
        assert_verified(&db, "compacted");
    }

    /// In published code compaction rewrote the whole store for ever once values had some KiB: 13 to 38 bytes written per byte put.
    #[test]
    fn bytes_written_per_byte_put_stay_bounded_as_values_grow() {
        const LIVE_BYTES: u64 = 1 << 20;
        for policy in [CompactionPolicy::GarbageFirst, CompactionPolicy::Paper] {
            for value_bytes in [128, 1 << 10, 4 << 10, 16 << 10] {
                let home = Home::new(On::Emulated);
                let compaction = CompactionOptions { policy, table_file_bytes: 128 << 10, ..Default::default() };
                let options = home.options().memtable_bytes(128 << 10).compression(Compression::None);
                let db = options.compaction(compaction).open(home.store()).unwrap();
                let keys = LIVE_BYTES / value_bytes;
                let mut random = Random(value_bytes);
                let mut value = random.bytes(value_bytes as usize);
                for number in 0..5 * keys {
                    // All once, then at random.
                    let number = if number < keys { number } else { random.below(keys) };
                    value[..8].copy_from_slice(&random.next().to_le_bytes());
                    db.put(key(number), &value).unwrap();
                }
                db.flush().unwrap();
                let of_compactions = settled(&db);
                let counted = db.stats().since_open;
                let per_byte_put = counted.file_bytes_written as f64 / counted.user_bytes_put as f64;
                println!(
                    "{policy:?}, {value_bytes} bytes: {per_byte_put:.2} bytes written per byte put, {of_compactions} by compactions"
                );
                assert!(counted.compactions > 0, "{policy:?}, {value_bytes} bytes: nothing was compacted");
                assert!(per_byte_put < 5.0, "{policy:?}, {value_bytes} bytes: {per_byte_put:.2} written per byte put");
                let stats = db.stats();
                let space = stats.table_bytes as f64 / stats.live_bytes as f64;
                assert!(space < 2.5, "{policy:?}, {value_bytes} bytes: {space:.2} times the live data");
            }
        }
    }
}
