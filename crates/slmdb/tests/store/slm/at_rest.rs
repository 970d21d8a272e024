//! What is left in a store that nobody writes to any more.

use crate::common::{Home, MEDIA, Random, assert_verified, contents, wait_until};
use slmdb::{CompactionOptions, CompactionPolicy};

const KEYS: u64 = 8000;

/// Where 1.4 × the live data is allowed, what is there at rest is 1.25 ×: overwrites stop at any time, and processors
/// have nothing else to do.
#[test]
fn a_store_at_rest_has_a_quarter_of_garbage_at_most() {
    let compaction = || CompactionOptions {
        policy: CompactionPolicy::GarbageFirst,
        table_file_bytes: 16 << 10,
        ..Default::default()
    };
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.options().memtable_bytes(16 << 10).compaction(compaction()).open(home.store()).unwrap();
        let mut random = Random(1);
        for turn in 0..3 * KEYS {
            let number = if turn < KEYS { turn } else { random.below(KEYS) };
            db.put(format!("key{number:05}").as_bytes(), random.bytes(200)).unwrap();
        }
        db.flush().unwrap();
        wait_until("a quarter of garbage at most", || db.stats().space_amplification() <= 1.26);
        assert_eq!(contents(&db).unwrap().len() as u64, KEYS, "on {on:?}");
        assert_verified(&db, "at rest");
        db.close().unwrap();
    }
}
