//! Power cuts on simulated persistent memory: whatever subset of cache lines a crash leaves, a replay finds every record
//! that was published before, in order, and nothing that was not written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::support::*;
use crate::hooked::{Event, Hooked};
use slmdb_pmem::{Arena, Extent, ExtentKind, Medium, Pool, PoolOptions};
use slmdb_structures::log::{ExpectedSequence, Payload, Reservation};
use slmdb_structures::memtable::{LinkPolicy, MemTable, Replayed, replay};
use slmdb_testkit::Simulated;

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
            let Some(place) = self.memtable.try_reserve(payload.len_bytes(), payload.count()) else { return false };
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
    replay(arena, SECOND_LIFE, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), sealed).expect("a crash is no corruption")
}

fn run(links: LinkPolicy, threads: usize, batches: usize, seed: u64) {
    let options = with_links(links);
    let medium = Simulated::new();
    let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 64 << 10, 1).unwrap();
    // A past that must not come back: the same batches, numbered likewise, in the same places.
    let past = WritePath {
        memtable: MemTable::create(Arena::in_pool(pool.clone(), extent), FIRST_LIFE, UUID, &options),
        state: Mutex::default(),
    };
    for _ in 0..batches {
        past.write(&medium);
    }
    drop(past);
    let begin = medium.moment();
    let path = WritePath {
        memtable: MemTable::create(Arena::in_pool(pool.clone(), extent), SECOND_LIFE, UUID, &options),
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
    let (mut crashes, mut suffixes, mut cut_off) = (0, 0, 0);
    let mut crash = medium.history().replay();
    crash.to_moment(begin);
    while crash.to_next_crash() {
        let moment = crash.moment();
        let published = state.acknowledged.iter().rfind(|(at, _)| *at <= moment).map_or(0, |(_, published)| *published);
        for image in crash.images(6, seed) {
            let pool = Arc::new(Pool::from_image(slmdb_pmem::Dram, image).unwrap());
            let recovered = replay_second_life(pool.clone(), extent, None);
            let last = recovered.reading.last_sequence.unwrap_or(0);
            assert!(last >= published, "{last} recovered, {published} published, at {moment}, seed {seed}");
            let unlinked = recovered.unlinked_from;
            assert!(
                unlinked.is_none_or(|from| from > published),
                "{unlinked:?} of {published} at {moment}, seed {seed}"
            );
            cut_off += u64::from(unlinked.is_some());
            let mut model = Model::new();
            let mut end = 0;
            for (&first, payload) in state.batches.iter().take_while(|(first, _)| **first <= last) {
                apply(&mut model, payload, first);
                end = first + u64::from(payload.count()) - 1;
            }
            assert_eq!(end, last, "half a batch, at {moment}, seed {seed}");
            assert_eq!(contents(&Arc::new(recovered.memtable)), model, "at {moment}, seed {seed}");
            // Recovery writes nothing here, so a crash in it changes nothing; sealed there, it ends there again.
            assert_eq!(
                replay_second_life(pool, extent, Some(last)).reading.last_sequence,
                recovered.reading.last_sequence
            );
            crashes += 1;
            suffixes += u64::from(last > published);
        }
    }
    assert!(crashes > batches && suffixes > 0, "{crashes} crashes, {suffixes} with more than was published");
    assert_eq!(cut_off > 0, links == LinkPolicy::Persisted, "{cut_off} crashes between a record and its links");
}

#[test]
fn no_crash_takes_back_what_was_published() {
    let seed = seed();
    for round in 0..budget(4) as u64 {
        LinkPolicy::ALL.into_iter().for_each(|links| run(links, 1, 60, seed + round));
    }
}

#[test]
fn no_crash_takes_back_what_several_writers_published() {
    let seed = seed();
    for round in 0..budget(4) as u64 {
        LinkPolicy::ALL.into_iter().for_each(|links| run(links, 3, 60, seed + round));
    }
}

/// A MemTable with persisted links on simulated persistent memory with a hook, and the extent of its arena.
struct Linked {
    medium: Hooked<Simulated>,
    extent: Extent,
    memtable: Arc<MemTable<Hooked<Simulated>>>,
}

impl Linked {
    fn new() -> Linked {
        let medium = Hooked::new(Simulated::new());
        let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
        let extent = pool.allocate_extent(ExtentKind::Arena, 64 << 10, 1).unwrap();
        let arena = Arena::in_pool(pool, extent);
        let memtable = Arc::new(MemTable::create(arena, SECOND_LIFE, UUID, &with_links(LinkPolicy::Persisted)));
        Linked { medium, extent, memtable }
    }

    /// A place for a put of this key, larger than a cache line, so that no slot is in the line of another record.
    fn reserve(&self, key: &[u8]) -> (Reservation, Payload) {
        let mut payload = Payload::new();
        payload.put(key, &[7; 200]).unwrap();
        (self.memtable.try_reserve(payload.len_bytes(), 1).unwrap(), payload)
    }
}

/// Between the swing of a link and its second fence another writer puts an entry behind it, and is acknowledged first. If it
/// did not persist that link too, a crash would cut its entry off.
#[test]
fn whoever_builds_on_an_unpersisted_link_persists_it_first() {
    let linked = Linked::new();
    let Linked { medium, extent, memtable } = &linked;
    let (first, payload) = linked.reserve(b"a");
    memtable.fill(first, &payload, 1, 0);
    // Reserved in this order, but the later one is filled first: nothing it does waits for the other's number.
    let (behind, behind_payload) = linked.reserve(b"c");
    let (between, between_payload) = linked.reserve(b"b");

    let (moments, hooked) = std::sync::mpsc::channel();
    let simulated = medium.inner.clone();
    let (mut flushes, mut behind) = (0, Some(behind));
    let other = memtable.clone();
    medium.set(move |event| {
        flushes += u32::from(event == Event::Flush);
        // The first is for the record, the second for the link, which is swung.
        if flushes < 2 {
            return true;
        }
        let place = behind.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| other.fill(place, &behind_payload, 2, 1));
        });
        moments.send(simulated.moment()).unwrap();
        false
    });
    memtable.fill(between, &between_payload, 3, 1);
    let acknowledged = hooked.recv().unwrap();

    let mut crash = medium.inner.history().replay();
    crash.to_moment(acknowledged);
    let mut images: Vec<_> = crash.images(40, seed()).collect();
    while crash.to_next_crash() {
        images.extend(crash.images(10, seed()));
    }
    for image in images {
        let pool = Arc::new(Pool::from_image(slmdb_pmem::Dram, image).unwrap());
        let recovered = replay_second_life(pool, *extent, None);
        assert!(recovered.reading.last_sequence >= Some(2));
        assert!(recovered.unlinked_from.is_none_or(|from| from > 2), "an acknowledged entry was cut off");
    }
}

/// While a writer's entry is durable and not linked yet, another one links an entry to the same place, behind it. The first leads
/// its own on to that one then: if it did not persist this new link, a crash would cut the other entry off.
#[test]
fn a_link_that_another_writer_has_overtaken_is_persisted_again() {
    let linked = Linked::new();
    let Linked { medium, extent, memtable } = &linked;
    let (first, payload) = linked.reserve(b"a");
    memtable.fill(first, &payload, 1, 0);
    let (between, between_payload) = linked.reserve(b"b");
    let (behind, behind_payload) = linked.reserve(b"c");

    let (mut behind, other) = (Some(behind), memtable.clone());
    medium.set(move |event| {
        if !matches!(event, Event::Exchange { .. }) {
            return true;
        }
        let place = behind.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| other.fill(place, &behind_payload, 3, 1));
        });
        false
    });
    memtable.fill(between, &between_payload, 2, 1);

    let mut crash = medium.inner.history().replay();
    crash.to_moment(medium.inner.moment());
    for image in crash.images(40, seed()) {
        let pool = Arc::new(Pool::from_image(slmdb_pmem::Dram, image).unwrap());
        let recovered = replay_second_life(pool, *extent, None);
        assert_eq!((recovered.reading.last_sequence, recovered.unlinked_from), (Some(3), None), "an entry was cut off");
    }
}

/// What recovery copies into a new arena is durable when the copy is made, links included, whatever its thread does next.
#[test]
fn a_copy_is_durable_when_it_is_made() {
    for links in LinkPolicy::ALL {
        let medium = Simulated::new();
        let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
        let extent = |owner| pool.allocate_extent(ExtentKind::Arena, 64 << 10, owner).unwrap();
        let (from, to) = (extent(1), extent(2));
        let options = with_links(links);
        let original = MemTable::create(Arena::in_pool(pool.clone(), from), FIRST_LIFE, UUID, &options);
        for number in 1..20 {
            let mut payload = Payload::new();
            payload.put(&[b'k', number * 7 % 20], &[number; 60]).unwrap();
            let place = original.try_reserve(payload.len_bytes(), 1).unwrap();
            original.fill(place, &payload, u64::from(number), 0);
        }
        let recovered =
            replay(Arena::in_pool(pool.clone(), from), FIRST_LIFE, UUID, &BYTEWISE, ExpectedSequence::Exactly(1), None);
        let recovered = recovered.unwrap().memtable;
        let copy = Arena::in_pool(pool.clone(), to);
        let copy = MemTable::copied_from(copy, SECOND_LIFE, UUID, &options, &[&recovered]).unwrap();

        let mut crash = medium.history().replay();
        crash.to_moment(medium.moment());
        drop(copy);
        for image in crash.images(40, seed()) {
            let pool = Arc::new(Pool::from_image(slmdb_pmem::Dram, image).unwrap());
            let found = replay_second_life(pool, to, None);
            assert_eq!((found.reading.last_sequence, found.unlinked_from), (Some(19), None), "{links:?}");
        }
    }
}

/// One fence a write is what not persisting links is for; with persisted links it is two, for a batch too.
#[test]
fn a_write_takes_one_fence_or_two_and_flushes_its_own_lines() {
    // 32 bytes of header, 10 entries of 28; and 10 slots of 16.
    let rebuilt = [(64, 5), (376, 6), (688, 6)];
    let persisted = [(80, 8), (552, 8), (1024, 8)];
    for (links, records, fences) in [(LinkPolicy::Rebuilt, rebuilt, 1), (LinkPolicy::Persisted, persisted, 2)] {
        let medium = Simulated::new();
        let pool = Arc::new(Pool::anonymous(medium.clone(), &OPTIONS).unwrap());
        let extent = pool.allocate_extent(ExtentKind::Arena, 64 << 10, 1).unwrap();
        let memtable = MemTable::create(Arena::in_pool(pool, extent), 1, UUID, &with_links(links));
        let mut payload = Payload::new();
        for n in 0..10_u8 {
            payload.put(&[n], &[n; 20]).unwrap();
        }
        for (((start, lines), first), round) in records.into_iter().zip([1, 11, 21]).zip(0..) {
            let before = medium.counters();
            let place = memtable.try_reserve(payload.len_bytes(), payload.count()).unwrap();
            assert_eq!(place.offset(), start);
            memtable.fill(place, &payload, first, 0);
            let after = medium.counters();
            assert_eq!(after.persists - before.persists, fences);
            // Into an empty list all ten go with one link; later ones go to ten places.
            let swung = if fences == 1 {
                0
            } else if round == 0 {
                1
            } else {
                10
            };
            assert_eq!(after.lines_flushed - before.lines_flushed, lines + swung, "a record at {start}");
        }
    }
}
