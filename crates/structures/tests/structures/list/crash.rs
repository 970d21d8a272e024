//! Crashes: a job is recorded on the simulated medium, and every crash that its fences part is looked at.

use std::collections::BTreeSet;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use slmdb_env::ErrorKind;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Dram, ExtentKind, Medium, Pool, UNIT_BYTES};
use slmdb_structures::list::{List, ListCursor, ListOptions, ListRecord, ListWriter, Persists, SegmentWriter};
use slmdb_testkit::{Recording, Seen, Simulated, Step, Watcher};

use super::{
    Entry, check, complete_one, entry, extents_of, list_options, open, pool, segment_options, sort, write_one,
};
use crate::fast_fair::support::budget;

/// Old entries, new ones, and both, in order.
fn models(count: u64) -> (Vec<Entry>, Vec<Entry>, Vec<Entry>) {
    let key = |number: u64| format!("key{:04}", number * 37 % 1000).into_bytes();
    let mut old: Vec<Entry> = (1..count).map(|number| entry(&key(number), number)).collect();
    let mut new: Vec<Entry> = (1..count).map(|number| entry(&key(number * 3), 1000 + number)).collect();
    let mut both = [old.clone(), new.clone()].concat();
    [&mut old, &mut new, &mut both].into_iter().for_each(|entries| sort(entries, &KeyOrder::Bytewise));
    (old, new, both)
}

/// Merges a list and new entries into two lists over the old bytes, and completes both.
fn job(pool: &Arc<Pool<Simulated>>, old: &Arc<List<Simulated>>, new: &[Entry], segment_bytes: u64) -> [ListRecord; 2] {
    let mut segments = SegmentWriter::new(Arc::clone(pool), segment_options(segment_bytes));
    let fresh = write_one(pool, &mut segments, 2, new, list_options(&KeyOrder::Bytewise, 10));
    let mut merged = ListWriter::new(Arc::clone(pool), 3, list_options(&KeyOrder::Bytewise, 10));
    let mut cursor = ListCursor::new(Arc::clone(old));
    cursor.seek_first().unwrap();
    while cursor.valid() {
        merged.add(cursor.key(), cursor.sequence(), cursor.kind(), cursor.place().unwrap()).unwrap();
        cursor.next().unwrap();
    }
    let merged = merged.finish(1).unwrap();
    segments.complete(&[fresh.clone(), merged.clone()]).unwrap();
    [fresh.into_record(), merged.into_record()]
}

/// The list of this number, if it is not refused.
fn list_in(pool: Pool<Dram>, number: u32) -> Option<Arc<List<Dram>>> {
    let pool = Arc::new(pool);
    let extent = extents_of(&pool, ExtentKind::List).into_iter().find(|extent| extent.owner == number)?;
    List::open(Arc::clone(&pool), extent, number, KeyOrder::Bytewise).ok().map(Arc::new)
}

/// What a list of this number is in an image: refused, or whole.
fn look(image: Vec<u8>, number: u32, model: &[Entry]) -> bool {
    let pool = Pool::from_image(Dram, image).unwrap();
    list_in(pool, number).inspect(|list| check(list, model)).is_some()
}

/// Whether a list of this number is whole in an image. `None`: it is refused, or the pool is.
fn is_whole(image: &[u8], number: u32, model: &[Entry]) -> Option<bool> {
    let list = list_in(Pool::from_image(Dram, image.to_vec()).ok()?, number)?;
    Some(list.verify().is_empty() && list.record().entries == model.len() as u64)
}

/// Looks at what crashes leave from a moment on. `look` is told whether all had ended.
fn each_crash(medium: &Simulated, begin: u64, seed: u64, mut look: impl FnMut(Vec<u8>, bool)) {
    let end = medium.moment();
    let mut replay = medium.history().replay();
    replay.to_moment(begin);
    loop {
        let is_complete = replay.moment() >= end;
        replay.images(24 * budget() as u64, seed).for_each(|image| look(image, is_complete));
        if !replay.to_next_crash() {
            return;
        }
    }
}

#[test]
fn a_crash_leaves_a_list_whole_or_none() {
    // A segment of one unit is never shortened, so that no fence of the pool's comes between.
    for (count, seed, segment_bytes) in [(4, 1, 64 << 10), (60, 2, 128 << 10), (700, 3, 64 << 10)] {
        let (old, new, _) = models(count);
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        // A list that is no more has left its bytes where the new ones come to lie.
        let gone = complete_one(&pool, 9, &new, list_options(&KeyOrder::Bytewise, 10));
        for offset in [gone.record().extent.offset, gone.record().segments[0].segment] {
            pool.free_extent(offset).unwrap();
        }
        drop(gone);
        let list = complete_one(&pool, 1, &old, list_options(&KeyOrder::Bytewise, 10));
        let begin = medium.moment();
        job(&pool, &list, &new, segment_bytes);
        let mut seen = BTreeSet::new();
        each_crash(&medium, begin, seed, |image, is_complete| {
            assert!(look(image.clone(), 1, &old));
            let found = [(2, &new), (3, &old)].map(|(number, model)| look(image.clone(), number, model));
            assert!(!is_complete || found == [true; 2], "complete, and a crash has lost it");
            seen.insert(found);
        });
        assert!(seen.contains(&[false; 2]) && seen.contains(&[true; 2]) && seen.len() > 2, "{seen:?}");
    }
}

#[test]
fn a_crash_of_a_job_that_fills_a_segment_further_leaves_its_first_entries_whole() {
    for (count, seed) in [(4, 1), (60, 2), (300, 3)] {
        let (old, new, _) = models(count);
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
        let list = write_one(&pool, &mut segments, 1, &old, list_options(&KeyOrder::Bytewise, 10));
        let open_segment = segments.complete_open(slice::from_ref(&list)).unwrap().unwrap();
        let begin = medium.moment();
        let mut segments = SegmentWriter::resume(Arc::clone(&pool), segment_options(64 << 10), open_segment);
        let list = write_one(&pool, &mut segments, 2, &new, list_options(&KeyOrder::Bytewise, 10));
        segments.complete_open(slice::from_ref(&list)).unwrap();
        let mut seen = BTreeSet::new();
        each_crash(&medium, begin, seed, |image, is_complete| {
            assert!(look(image.clone(), 1, &old), "the list before it");
            let found = look(image, 2, &new);
            assert!(!is_complete || found, "complete, and a crash has lost it");
            seen.insert(found);
        });
        assert_eq!(seen.len(), 2);
    }
}

#[test]
fn a_job_takes_two_fences_whatever_it_writes() {
    let (old, new, both) = models(500);
    for (lists, entries) in [(1, &old), (3, &both)] {
        let medium = Simulated::new();
        let pool = pool(medium.clone());
        let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
        let fences = || medium.counters().persists;
        let written: Vec<_> = (0..lists)
            .map(|number| write_one(&pool, &mut segments, number, entries, list_options(&KeyOrder::Bytewise, 10)))
            .collect();
        // The extents took fences of the pool's.
        let before = fences();
        segments.complete(&written).unwrap();
        assert_eq!(fences() - before, 2);
        open(&pool, written[0].record(), &KeyOrder::Bytewise).unwrap();
    }
    // The paper's way: four for each node.
    let medium = Simulated::new();
    let pool = pool(medium.clone());
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let options = ListOptions { persists: Persists::FourEach, ..list_options(&KeyOrder::Bytewise, 10) };
    let start = medium.counters().persists;
    let list = write_one(&pool, &mut segments, 1, &new, options);
    assert!(medium.counters().persists - start >= 4 * new.len() as u64);
    segments.complete(slice::from_ref(&list)).unwrap();
    check(&open(&pool, list.record(), &KeyOrder::Bytewise).unwrap(), &new);
}

/// Counts flushes and fences down, and leaves out the one at 0.
#[derive(Clone)]
struct LeavesOut(Arc<AtomicI64>);

impl Watcher for LeavesOut {
    fn see(&self, step: Step) -> Seen {
        let is_counted = matches!(step, Step::Flush | Step::Fence);
        Seen { path: 0, done: !is_counted || self.0.fetch_sub(1, Ordering::SeqCst) != 0 }
    }
}

/// Each flush and each fence of a job is left out in turn. Then some crash shows a list that is not whole, or has lost one. But for those
/// of the pool that make extents: what comes later makes their words durable, too.
#[test]
fn no_flush_or_fence_of_a_job_can_be_left_out() {
    // A flush and a fence for the segment and for each list.
    let of_pool = [0, 1, 2, 3, 5, 6];
    let (old, new, _) = models(4);
    let mut left_out = 0;
    loop {
        let steps = LeavesOut(Arc::new(AtomicI64::new(i64::MAX)));
        let medium = Simulated::recording(Arc::new(Recording::watched_by(steps.clone())));
        let pool = pool(medium.clone());
        let list = complete_one(&pool, 1, &old, list_options(&KeyOrder::Bytewise, 10));
        // The pool has no need to grow.
        let room = pool.allocate_extent(ExtentKind::Arena, 4 * UNIT_BYTES, 1).unwrap();
        pool.free_extent(room.offset).unwrap();
        let begin = medium.moment();
        steps.0.store(left_out, Ordering::SeqCst);
        job(&pool, &list, &new, 64 << 10);
        if steps.0.load(Ordering::SeqCst) >= 0 {
            break;
        }
        let mut is_shown = false;
        each_crash(&medium, begin, left_out as u64, |image, is_complete| {
            let found = [(1, &old), (2, &new), (3, &old)].map(|(number, model)| is_whole(&image, number, model));
            is_shown |=
                found[0] != Some(true) || found.contains(&Some(false)) || (is_complete && found.contains(&None));
        });
        assert!(is_shown || of_pool.contains(&left_out), "step {left_out} can be left out");
        left_out += 1;
    }
    // Those, one for what each list and the segment have, a fence, one for each list's word, and a fence.
    assert_eq!(left_out, 6 + 3 + 1 + 2 + 1);
}

/// An extent that had a list before may still have its first word.
#[test]
fn the_first_word_of_another_list_completes_none() {
    let (old, new, _) = models(60);
    let pool = pool(Dram);
    let list = complete_one(&pool, 1, &old, list_options(&KeyOrder::Bytewise, 10));
    let extent = list.record().extent;
    let word = pool.load(extent.offset).unwrap();
    drop(list);
    pool.free_extent(extent.offset).unwrap();
    let mut segments = SegmentWriter::new(Arc::clone(&pool), segment_options(64 << 10));
    let list = write_one(&pool, &mut segments, 1, &new, list_options(&KeyOrder::Bytewise, 10));
    let offset = list.record().extent.offset;
    assert_eq!(pool.load(offset).unwrap(), 0);
    for word in [0, word, word & u64::from(u32::MAX), u64::MAX] {
        pool.store(offset, word).unwrap();
        assert_eq!(open(&pool, list.record(), &KeyOrder::Bytewise).unwrap_err().kind(), ErrorKind::Corruption);
    }
    segments.complete(slice::from_ref(&list)).unwrap();
    check(&open(&pool, list.record(), &KeyOrder::Bytewise).unwrap(), &new);
}
