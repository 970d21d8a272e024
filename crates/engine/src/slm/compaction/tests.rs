//! Moving keys: whatever is cut short and begun anew, each version ends in the file with the largest number that has it, and
//! the counts are those of one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_order::KeyOrder;
use slmdb_pmem::{Blocks, Dram, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, Segment, SegmentEntry, Tree, write_segment};

use super::move_to;

fn segment_with(pool: &Arc<Pool<Dram>>, file: u32, sequence: u64) -> Segment {
    let entry = SegmentEntry { key: b"key", sequence, kind: EntryKind::Put, block_offset: 0, block_length: 100 };
    write_segment(pool, file, std::iter::once(entry)).unwrap()
}

/// A compaction of file 1 was given up after it had sent output 2, and another one of the same file made output 3, before
/// the key was moved to 2. Both are moved by a recovery that is cut short, and by the next.
#[test]
fn a_recovery_that_begins_anew_moves_no_key_back_to_an_earlier_output() {
    let options = PoolOptions { initial_bytes: 2 << 20, growth_bytes: 1 << 20, maximum_bytes: 64 << 20, uuid: [1; 16] };
    let pool = Arc::new(Pool::anonymous(Dram, &options).unwrap());
    let blocks = Arc::new(Blocks::open(pool.clone()).unwrap());
    let tree = Tree::create(pool.clone(), blocks, 512, KeyOrder::Bytewise).unwrap();
    let [input, first, second] = [1, 2, 3].map(|file| segment_with(&pool, file, 7));
    {
        let guard = crossbeam_epoch::pin();
        let record = input.records(&pool, &guard).next().unwrap().unwrap().offset();
        tree.update(b"key", |_| Ok(Decision::Put(record))).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(move_to(&tree, &pool, &first).unwrap(), BTreeMap::from([(1, 1)]));
        assert_eq!(move_to(&tree, &pool, &second).unwrap(), BTreeMap::from([(2, 1)]));
        let guard = crossbeam_epoch::pin();
        assert_eq!(tree.get(b"key", &guard).unwrap().map(|record| record.file()), Some(3));
    }
}
