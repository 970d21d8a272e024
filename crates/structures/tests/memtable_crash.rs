//! Power cuts on simulated persistent memory: whatever subset of cache lines a crash leaves, a replay finds every record
//! that was published before, in order, and nothing that was not written.
#![allow(clippy::unwrap_used)]

mod memtable_support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use memtable_support::*;
use slmdb_pmem::{Arena, Extent, ExtentKind, Medium, Pool, PoolOptions, Simulated};
use slmdb_structures::memtable::{ExpectedSequence, MemTable, Payload, Replayed, replay};

const FIRST_LIFE: u64 = 5;
const SECOND_LIFE: u64 = 6;
const OPTIONS: PoolOptions = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 4 << 20, uuid: UUID };

/// A batch of one to four entries that depends on its number alone.
fn batch(number: u64) -> Payload {
    let mut random = Random::new(number);
    let mut payload = Payload::new();
    for _ in 0..1 + random.below(4) {
        let key = vec![b'k', random.below(6) as u8];
        match random.below(5) {
            0 => payload.delete(&key).unwrap(),
            // From less than a cache line to several.
            _ => payload.put(&key, &vec![random.number() as u8; random.below(200) as usize]).unwrap(),
        }
    }
    payload
}

/// The write path as an engine has it: numbers under a lock, fills side by side, publishes a gap-free prefix.
struct WritePath<M: Medium> {
    memtable: MemTable<M>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_batch: u64,
    /// The last number given out.
    reserved: u64,
    published: u64,
    /// Filled, but not published yet: first number to last.
    filled: BTreeMap<u64, u64>,
    /// Every batch by its first number.
    batches: BTreeMap<u64, Payload>,
    /// What was published at which moment of the medium.
    acknowledged: Vec<(u64, u64)>,
}

impl WritePath<Simulated> {
    /// Writes the next batch; `false` when the arena is full.
    fn write(&self, medium: &Simulated) -> bool {
        let (payload, place, first, known_safe) = {
            let mut state = self.state.lock().unwrap();
            let payload = batch(state.next_batch);
            let Some(place) = self.memtable.try_reserve(payload.len_bytes()) else { return false };
            let first = state.reserved + 1;
            state.next_batch += 1;
            state.reserved += u64::from(payload.count());
            state.batches.insert(first, payload.clone());
            (payload, place, first, state.published)
        };
        self.memtable.fill(place, &payload, first, known_safe);
        let mut state = self.state.lock().unwrap();
        state.filled.insert(first, first + u64::from(payload.count()) - 1);
        while let Some(last) = {
            let next = state.published + 1;
            state.filled.remove(&next)
        } {
            state.published = last;
        }
        let (moment, published) = (medium.moment(), state.published);
        state.acknowledged.push((moment, published));
        true
    }
}

fn replay_second_life<M: Medium>(pool: Arc<Pool<M>>, extent: Extent, sealed: Option<u64>) -> Replayed<M> {
    let arena = Arena::in_pool(pool, extent);
    // Never an error: nothing is damaged, a crash is no corruption.
    replay(arena, SECOND_LIFE, UUID, ExpectedSequence::Exactly(1), sealed).expect("a crash is no corruption")
}

fn run(threads: usize, batches: usize, seed: u64) {
    let medium = Simulated::new();
    let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 64 << 10, 1).unwrap();
    // A past that must not come back: the same batches, numbered likewise, in the same places.
    let past = WritePath {
        memtable: MemTable::create(Arena::in_pool(pool.clone(), extent), FIRST_LIFE, UUID),
        state: Mutex::default(),
    };
    for _ in 0..batches {
        past.write(&medium);
    }
    drop(past);
    let begin = medium.moment();
    let path = WritePath {
        memtable: MemTable::create(Arena::in_pool(pool.clone(), extent), SECOND_LIFE, UUID),
        state: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..batches / threads {
                    assert!(path.write(&medium), "the extent is large enough for the test");
                }
            });
        }
    });
    let state = path.state.lock().unwrap();
    assert_eq!(state.published, state.reserved);
    let (mut crashes, mut suffixes) = (0, 0);
    let mut crash = medium.history().replay();
    crash.to_moment(begin);
    while crash.to_next_crash() {
        let moment = crash.moment();
        let published = state.acknowledged.iter().rfind(|(at, _)| *at <= moment).map_or(0, |(_, published)| *published);
        for image in crash.images(6, seed) {
            let pool = Arc::new(Pool::from_image(slmdb_pmem::Dram, image).unwrap());
            let recovered = replay_second_life(pool.clone(), extent, None);
            let last = recovered.last_sequence.unwrap_or(0);
            assert!(last >= published, "{last} recovered, {published} published, at {moment}, seed {seed}");
            let mut model = Model::new();
            let mut end = 0;
            for (&first, payload) in state.batches.iter().take_while(|(first, _)| **first <= last) {
                apply(&mut model, payload, first);
                end = first + u64::from(payload.count()) - 1;
            }
            assert_eq!(end, last, "half a batch, at {moment}, seed {seed}");
            assert_eq!(contents(&Arc::new(recovered.memtable)), model, "at {moment}, seed {seed}");
            // Recovery writes nothing here, so a crash in it changes nothing; sealed there, it ends there again.
            assert_eq!(replay_second_life(pool, extent, Some(last)).last_sequence, recovered.last_sequence);
            crashes += 1;
            suffixes += u64::from(last > published);
        }
    }
    assert!(crashes > batches && suffixes > 0, "{crashes} crashes, {suffixes} with more than was published");
}

#[test]
fn no_crash_takes_back_what_was_published() {
    let seed = seed();
    for round in 0..budget(4) as u64 {
        run(1, 60, seed + round);
    }
}

#[test]
fn no_crash_takes_back_what_several_writers_published() {
    let seed = seed();
    for round in 0..budget(4) as u64 {
        run(3, 60, seed + round);
    }
}

/// One fence a write is what not persisting links is for.
#[test]
fn a_write_takes_one_fence_and_flushes_its_own_lines() {
    let medium = Simulated::new();
    let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 64 << 10, 1).unwrap();
    let memtable = MemTable::create(Arena::in_pool(pool, extent), 1, UUID);
    let mut payload = Payload::new();
    for n in 0..10_u8 {
        payload.put(&[n], &[n; 20]).unwrap();
    }
    // 32 bytes of header, 10 entries of 28.
    let lines = [(64, 5), (376, 6), (688, 6)];
    for ((start, lines), first) in lines.into_iter().zip([1, 11, 21]) {
        let before = medium.counters();
        let place = memtable.try_reserve(payload.len_bytes()).unwrap();
        assert_eq!(place.offset(), start);
        memtable.fill(place, &payload, first, 0);
        let after = medium.counters();
        assert_eq!(after.persists - before.persists, 1);
        assert_eq!(after.lines_flushed - before.lines_flushed, lines, "a record at {start}");
    }
}
