//! Moving keys: whatever is cut short and begun anew, each version ends in the file with the largest number that has
//! it, and the counts are those of one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_manifest::{Edit, FileRecord};
use slmdb_order::KeyOrder;
use slmdb_pmem::{AnyMedium, Blocks, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, Segment, SegmentEntry, Tree, write_segment};
use slmdb_sync::epoch;
use slmdb_testkit::Simulated;

use crate::compaction::repointing::add_output;
use crate::index::in_pool::compaction_log::{CompactionLog, Job, Phase};
use crate::index::in_pool::insertion::{insert_segment, repoint_to};

fn pool_of(medium: AnyMedium) -> Arc<Pool<AnyMedium>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 64 << 20, uuid: [1; 16] };
    Arc::new(Pool::anonymous(medium, &options).unwrap())
}

fn blocks_of(pool: &Arc<Pool<AnyMedium>>) -> Arc<Blocks<AnyMedium>> {
    Arc::new(Blocks::open(pool.clone()).unwrap())
}

fn entry(key: &[u8], sequence: u64, kind: EntryKind) -> SegmentEntry<'_> {
    SegmentEntry { key, sequence, kind, block_offset: 0, block_length: 100 }
}

/// The index gets what is in a segment.
fn put_all(tree: &Tree<AnyMedium>, pool: &Pool<AnyMedium>, segment: &Segment) {
    let guard = epoch::pin();
    for record in segment.records(pool, &guard) {
        let record = record.unwrap();
        tree.update(record.key(), |_| Ok(Decision::Put(record.offset()))).unwrap();
    }
}

/// A compaction of file 1 was given up after it had sent output 2, and another one of the same file made output 3,
/// before the key was moved to 2. Both are moved by a recovery that is cut short, and by the next.
#[test]
fn a_recovery_begun_anew_moves_no_key_to_an_earlier_output() {
    let pool = pool_of(AnyMedium::dram());
    let tree = Tree::create(pool.clone(), blocks_of(&pool), 512, KeyOrder::Bytewise).unwrap();
    let segment = |file| write_segment(&pool, file, std::iter::once(entry(b"key", 7, EntryKind::Put))).unwrap();
    let [input, first, second] = [1, 2, 3].map(segment);
    put_all(&tree, &pool, &input);
    for _ in 0..3 {
        assert_eq!(repoint_to(&tree, &pool, &first).unwrap(), BTreeMap::from([(1, 1)]));
        assert_eq!(repoint_to(&tree, &pool, &second).unwrap(), BTreeMap::from([(2, 1)]));
        let guard = epoch::pin();
        assert_eq!(tree.get(b"key", &guard).unwrap().map(|record| record.file()), Some(3));
    }
}

/// A flush has given the key the very next sequence number since. Its file was begun before the output, so it has the
/// lower number.
#[test]
fn a_key_that_a_flush_has_put_at_the_next_number_is_not_moved() {
    let pool = pool_of(AnyMedium::dram());
    let tree = Tree::create(pool.clone(), blocks_of(&pool), 512, KeyOrder::Bytewise).unwrap();
    let segment = |file, sequence| {
        let keys = [&b"moved"[..], b"put again"];
        let sequences = [7, sequence];
        let entries = keys.into_iter().zip(sequences).skip(usize::from(file == 2));
        write_segment(&pool, file, entries.map(|(key, sequence)| entry(key, sequence, EntryKind::Put))).unwrap()
    };
    let [input, flushed, output] = [(1, 8), (2, 9), (3, 8)].map(|(file, sequence)| segment(file, sequence));
    put_all(&tree, &pool, &input);
    put_all(&tree, &pool, &flushed);
    assert_eq!(repoint_to(&tree, &pool, &output).unwrap(), BTreeMap::from([(1, 1)]));
    let guard = epoch::pin();
    let place = |key| tree.get(key, &guard).unwrap().map(|record| (record.sequence(), record.file()));
    assert_eq!([place(b"moved"), place(b"put again")], [Some((7, 3)), Some((9, 2))]);
}

const KEYS: u16 = 60;

/// The files of [`crash_everywhere`]: the even keys are in file 1 and the odd ones in 2, a compaction of both has
/// copied the first two thirds of the keys to 3, another the last two thirds to 5, and file 4 is a flush's, which
/// puts or deletes every third.
fn entries_of(file: u32) -> Vec<(u16, u64, EntryKind)> {
    let copy = |key: u16| (key, u64::from(key) + 1, EntryKind::Put);
    let newer = |key: u16| {
        let kind = if key.is_multiple_of(2) { EntryKind::Delete } else { EntryKind::Put };
        (key, 1000 + u64::from(key), kind)
    };
    let third = KEYS / 3;
    match file {
        1 | 2 => (0..KEYS).filter(|key| key % 2 == (file as u16 - 1)).map(copy).collect(),
        3 => (0..2 * third).map(copy).collect(),
        5 => (third..KEYS).map(copy).collect(),
        _ => (0..KEYS).step_by(3).map(newer).collect(),
    }
}

fn job_of(file: u32) -> Job {
    match file {
        4 => Job { phase: Phase::Indexing, generation: 1, file, last_sequence: 2000, order: 2000 },
        _ => Job::moving(file),
    }
}

/// Does what is left to do of a job, as the index thread and recovery do.
fn carry_on(job: &Job, pool: &Arc<Pool<AnyMedium>>, tree: &Tree<AnyMedium>) -> Edit {
    let segment = Segment::of_file(pool, job.file).unwrap();
    let mut edit = Edit::default();
    if job.phase == Phase::Repointing {
        let moved = repoint_to(tree, pool, &segment).unwrap();
        add_output(&mut edit, job.file, FileRecord::default(), &moved);
    } else {
        edit.live_changes = insert_segment(tree, pool, &segment, &|_, _, _| ()).unwrap().into_iter().collect();
        let puts = entries_of(job.file).iter().filter(|(_, _, kind)| *kind == EntryKind::Put).count() as u64;
        edit.files_added = vec![(job.file, FileRecord { live_keys: puts, ..FileRecord::default() })];
    }
    edit
}

/// Live counts by file, as the MANIFEST has them.
type Live = BTreeMap<u32, i64>;

fn commit(live: &mut Live, edit: &Edit) {
    let added = edit.files_added.iter().map(|(file, record)| (*file, record.live_keys as i64));
    added.chain(edit.live_changes.iter().copied()).for_each(|(file, change)| *live.entry(file).or_default() += change);
}

/// What the index has of each key: sequence number and file.
fn places(tree: &Tree<AnyMedium>) -> BTreeMap<u16, (u64, u32)> {
    let guard = epoch::pin();
    let place = |key: u16| Some((key, tree.get(&key.to_be_bytes(), &guard).unwrap()?));
    (0..KEYS).filter_map(place).map(|(key, record)| (key, (record.sequence(), record.file()))).collect()
}

/// The jobs' files in the order of their commits, each with the moment at which it was committed and what it said.
type Committed = Vec<(u64, u32, Edit)>;

/// Opens what a crash has left, carries on what was not committed at that moment, and checks that all is as if there
/// had been no crash. Some recoveries are crashed too.
fn recover(medium: AnyMedium, image: Vec<u8>, moment: u64, committed: &Committed) -> Arc<Pool<AnyMedium>> {
    let pool = Arc::new(Pool::from_image(medium, image).unwrap());
    let tree = Tree::open(pool.clone(), blocks_of(&pool), KeyOrder::Bytewise).unwrap();
    let mut live: Live = [1, 2].map(|file| (file, entries_of(file).len() as i64)).into();
    let before = committed.iter().filter(|(at, _, _)| *at <= moment);
    before.clone().for_each(|(_, _, edit)| commit(&mut live, edit));
    let is_committed = |file: u32| before.clone().any(|(_, other, _)| *other == file);
    for (job, _) in CompactionLog::default().left(&pool).unwrap() {
        if !is_committed(job.file) {
            commit(&mut live, &carry_on(&job, &pool, &tree));
        }
    }
    assert!(tree.verify().is_empty(), "{:?}", tree.verify());
    let found = places(&tree);
    for key in 0..KEYS {
        let copied = if key < KEYS / 3 { 3 } else { 5 };
        let expected = match (key % 3, key % 2) {
            (0, 0) => None,
            (0, _) => Some((1000 + u64::from(key), 4)),
            _ => Some((u64::from(key) + 1, copied)),
        };
        assert_eq!(found.get(&key), expected.as_ref(), "key {key}, crashed at {moment}");
    }
    let mut counted: Live = (1..=5).map(|file| (file, 0)).collect();
    found.values().for_each(|(_, file)| *counted.entry(*file).or_default() += 1);
    assert_eq!(live, counted, "crashed at {moment}");
    pool
}

/// Carries out the jobs in this order, and crashes before every fence; and every so many recoveries before each of
/// their own.
fn crash_everywhere(order: [u32; 3]) {
    let medium = Simulated::new();
    let pool = pool_of(AnyMedium::other(medium.clone()));
    let tree = Tree::create(pool.clone(), blocks_of(&pool), 256, KeyOrder::Bytewise).unwrap();
    for file in 1..=5 {
        let entries: Vec<_> =
            entries_of(file).into_iter().map(|(key, sequence, kind)| (key.to_be_bytes(), sequence, kind)).collect();
        let entries = entries.iter().map(|(key, sequence, kind)| entry(key, *sequence, *kind));
        let segment = write_segment(&pool, file, entries).unwrap();
        if file <= 2 {
            put_all(&tree, &pool, &segment);
        }
    }
    let jobs = CompactionLog::default();
    let slots: Vec<_> = order.iter().map(|&file| jobs.record(&pool, &job_of(file)).unwrap()).collect();
    let begin = medium.moment();
    let mut committed = Committed::new();
    for (file, slot) in order.into_iter().zip(slots) {
        let edit = carry_on(&job_of(file), &pool, &tree);
        committed.push((medium.moment(), file, edit));
        jobs.clear(&pool, slot).unwrap();
    }
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    let (mut images, mut crashed_again) = (0, 0);
    loop {
        for image in replay.images(12, 1) {
            images += 1;
            if images % 37 != 0 {
                recover(AnyMedium::dram(), image, replay.moment(), &committed);
                continue;
            }
            let medium = Simulated::new();
            let pool = recover(AnyMedium::other(medium.clone()), image, replay.moment(), &committed);
            drop(pool);
            let mut again = medium.history().replay();
            while again.to_next_crash() {
                for image in again.images(2, images) {
                    crashed_again += 1;
                    recover(AnyMedium::dram(), image, replay.moment(), &committed);
                }
            }
        }
        if !replay.to_next_crash() {
            break;
        }
    }
    assert!(images > 300 && crashed_again > 300, "{images} {crashed_again}");
}

#[test]
fn a_crash_at_any_fence_leaves_keys_and_counts_as_without_one() {
    for order in [[3, 4, 5], [5, 3, 4], [4, 5, 3]] {
        crash_everywhere(order);
    }
}
