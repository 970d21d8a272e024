//! A store at rest: alone in its process, so that what its threads take of a processor can be told.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use slmdb_engine::{CompactionOptions, Medium, Options, WriteBatch};
use slmdb_testkit::{MemoryEnv, Random};
use slmdb_tlsm::TlsmOptions;

/// How long all threads of this process have run, in microseconds, and how often they were given a processor.
fn run_so_far() -> (u64, u64) {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0) / 1000, numbers.nth(1).unwrap_or(0))
    };
    tasks.map(of_task).fold((0, 0), |(us, times), (more_us, more_times)| (us + more_us, times + more_times))
}

/// Lists take more than they may, some entries lie in sparse segments, and the disk has no space for all of the lists.
#[test]
fn threads_of_a_store_at_rest_wake_nobody_in_vain() {
    for capacity in [u64::MAX >> 1, (8 << 20) + (1 << 20)] {
        let env = MemoryEnv::new();
        env.set_capacity(capacity);
        let mut own = TlsmOptions::default();
        (own.segment_bytes, own.fast_tier_bytes, own.level_base_bytes) = (64 << 10, 1 << 20, 256 << 10);
        let options = Options {
            env: Arc::new(env.clone()),
            memtable_bytes: 64 << 10,
            compaction: CompactionOptions { table_file_bytes: 64 << 10, ..CompactionOptions::default() },
            own: Some(Arc::new(own)),
            medium: Some(Medium::Emulated { path: "/pool".into() }),
            pool_initial_bytes: 8 << 20,
            pool_maximum_bytes: 8 << 20,
            ..Options::default()
        };
        let engine = (slmdb_tlsm::KIND.open)(&options, Path::new("/db"), None).unwrap();
        let mut random = Random(8);
        for _ in 0..20_000 {
            let mut value = vec![0; 400];
            random.fill(&mut value);
            let mut batch = WriteBatch::new();
            batch.put(random.below(8000).to_be_bytes(), &value).unwrap();
            if engine.write(&batch, false).is_err() {
                assert!(capacity < u64::MAX >> 1, "there is space for all");
                break;
            }
        }
        engine.flush().unwrap();
        // Until it has come to rest: each thread looks five times in 2 s. After a pause a processor's caches are cold, so that alone takes
        // half a millisecond on some machines.
        let mut taken = Vec::new();
        let is_at_rest = |taken: &Vec<(u64, u64)>| taken.last().is_some_and(|&(us, times)| us < 60_000 && times < 40);
        for _ in 0..20 {
            let before = run_so_far();
            std::thread::sleep(Duration::from_secs(2));
            let after = run_so_far();
            taken.push((after.0 - before.0, after.1 - before.1));
            if is_at_rest(&taken) {
                break;
            }
        }
        println!("{:?} {:?}", engine.stats().levels, taken);
        assert!(is_at_rest(&taken), "it never comes to rest: microseconds and times in 2 s {taken:?}");
        engine.close().unwrap();
    }
}
