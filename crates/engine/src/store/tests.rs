//! A store on the smallest tier there can be: a map in memory, which dies with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use slmdb_env::{Env, Error, Result};
use slmdb_manifest::{Edit, EngineSection, FileRecord, StoreState};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{AnyMedium, Pool, PoolOptions};
use slmdb_structures::EntryKind;
use slmdb_sync::scheduled::Mutex;
use slmdb_testkit::{MemoryEnv, Random};

use super::cursor::{SeekTo, TierCursor};
use super::opening::{Found, Opening, Recovered, Recovery, StateOf, start};
use super::parts::Parts;
use super::store::Store;
use super::tier::{Moment, Tier};
use super::tier_state::TierState;
use crate::background::bell::Bell;
use crate::background::crew::Next;
use crate::background::workers::{Task, task};
use crate::batch::Totals;
use crate::directory::EngineKind;
use crate::files::file_records::numbered;
use crate::files::location::Location;
use crate::files::obsolete_files::PinnedFiles;
use crate::read::snapshots::{Moments, Snapshots};
use crate::space::allowance::{Grant, table_bytes};
use crate::space::controller::{Resource, TakenFrom, TierSpace};
use crate::write::memtables::Immutable;
use crate::{
    Approximate, Capabilities, Condition, Engine, Memory, Options, Slice, Stats, TableFile, VerifyProgress,
    VerifyReport, WriteBatch,
};

struct MapState {
    pool: Arc<Pool<AnyMedium>>,
    snapshots: Snapshots<Location>,
    map: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// How often the map was asked.
    asked: AtomicU64,
    /// The most entries for which the pool has space.
    pool_entries_max: AtomicU64,
    /// Entries for which pool space is set aside.
    granted_entries: AtomicU64,
    /// The disk has no space for any table file until a compaction gives it back.
    is_disk_short: AtomicBool,
    /// Runs once, before anybody registers a moment.
    before_moments: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl PinnedFiles for MapState {
    fn pins(&self, _: u32) -> bool {
        false
    }
}

impl TierSpace for MapState {
    fn pool_path(&self) -> &Path {
        self.pool.path()
    }

    fn reserve(&self, grant: &Grant, _: TakenFrom) -> Result<()> {
        if grant.totals.entries > self.pool_entries_max.load(Ordering::SeqCst) {
            return Err(Error::Full { path: self.pool_path().into(), what: "set aside".into() });
        }
        self.granted_entries.store(grant.totals.entries, Ordering::SeqCst);
        Ok(())
    }

    fn returned_by_readers(&self) -> u64 {
        0
    }

    fn readers_hold(&self) -> bool {
        false
    }

    fn file_bytes(&self, options: &Options, allowance: &Totals) -> u64 {
        if self.is_disk_short.load(Ordering::SeqCst) { 2 << 30 } else { table_bytes(options, allowance) }
    }

    fn compact_for(&self, resource: Resource, _: bool) -> bool {
        resource == Resource::Disk && self.is_disk_short.swap(false, Ordering::SeqCst)
    }
}

impl TierState for MapState {
    fn pool(&self) -> &Arc<Pool<AnyMedium>> {
        &self.pool
    }

    fn moments(&self) -> &dyn Moments {
        let before = self.before_moments.lock().take();
        before.into_iter().for_each(|run| run());
        &self.snapshots
    }

    fn count_memory(&self, _: &mut Memory) {}

    fn wake_compactions(&self) {}

    fn stop_compactions(&self) {}
}

struct MapTier {
    store: Arc<Parts>,
    state: Arc<MapState>,
}

impl MapTier {
    fn flush(store: &Parts, state: &MapState, immutable: Immutable) -> Result<bool> {
        let began_ns = store.flush_begins(&immutable);
        immutable.newest_entries(|entry| {
            match entry.kind {
                EntryKind::Put => drop(state.map.lock().insert(entry.key.to_vec(), entry.value.to_vec())),
                EntryKind::Delete => drop(state.map.lock().remove(entry.key)),
            }
            Ok(())
        })?;
        store.catalog.commit(|_| Edit {
            arenas_removed: immutable.arenas_removed(),
            flushed_through: Some(immutable.last_sequence),
            ..Edit::default()
        })?;
        store.flush_ends(immutable, began_ns, None).map(|()| true)
    }
}

impl Tier for MapTier {
    type State = MapState;
    type Cursor = MapCursor;

    fn new(store: &Arc<Parts>, state: &Arc<MapState>) -> MapTier {
        MapTier { store: store.clone(), state: state.clone() }
    }

    fn work(&self) -> Vec<Task> {
        let mut all = self.store.compaction_work(&Arc::new(Bell::default()), |_| Next::End);
        let (store, state, bell) = (self.store.clone(), self.state.clone(), &self.store.writes.bell);
        let step =
            move || store.flush_next(|_| MapCursor::new(&state), |immutable| MapTier::flush(&store, &state, immutable));
        all.push(task(&self.store.context, bell, step));
        all
    }

    fn get(&self, key: &[u8], _: Moment) -> Result<Option<Slice>> {
        self.state.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.state.map.lock().get(key).map(|value| Slice::from(&value[..])))
    }

    fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(self.get(key, moment)?.is_some())
    }

    fn cursor(&self, _: u64) -> MapCursor {
        MapCursor::new(&self.state)
    }

    fn approximate(&self, _: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        Ok(Approximate { keys: self.state.map.lock().len() as u64, table_bytes: 0, memtable_bytes: 0 })
    }

    fn compact_range(&self, _: Bound<&[u8]>, _: Bound<&[u8]>) -> Result<()> {
        self.store.writes.flush()
    }

    fn verify(&self, _: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        Ok(VerifyReport::default())
    }

    fn table_files(&self) -> Vec<TableFile> {
        Vec::new()
    }

    fn count_stats(&self, _: &mut Stats) {}
}

/// A copy of the map.
struct MapCursor {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    at: Option<Vec<u8>>,
    direction: Direction,
}

impl MapCursor {
    fn new(state: &MapState) -> MapCursor {
        MapCursor { map: state.map.lock().clone(), at: None, direction: Direction::Forward }
    }
}

impl TierCursor for MapCursor {
    fn begin_range(&mut self) {}

    fn seek(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.direction = to.direction();
        let at = match to {
            SeekTo::First => self.map.keys().next(),
            SeekTo::Last => self.map.keys().next_back(),
            SeekTo::At(key) => self.map.range(key.to_vec()..).next().map(|(key, _)| key),
            SeekTo::Before(key) => self.map.range(..key.to_vec()).next_back().map(|(key, _)| key),
        };
        self.at = at.cloned();
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(at) = self.at.take() else { return Ok(()) };
        let next = match self.direction {
            Direction::Forward => self.map.range((Bound::Excluded(at), Bound::Unbounded)).next(),
            Direction::Backward => self.map.range(..at).next_back(),
        };
        self.at = next.map(|(key, _)| key.clone());
        Ok(())
    }

    fn key(&self) -> Option<&[u8]> {
        self.at.as_deref()
    }

    fn version(&self) -> (u64, EntryKind) {
        (0, EntryKind::Put)
    }

    fn value(&mut self) -> Result<Slice> {
        self.value_ref().map(Slice::from)
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        Ok(&self.map[self.at.as_ref().unwrap()])
    }

    fn out_of_order(&self) -> Error {
        Error::invalid("a map is in order")
    }

    fn let_go(&mut self) -> u64 {
        0
    }
}

struct MapOpening;

impl Opening for MapOpening {
    const KIND: EngineKind = EngineKind {
        name: "map",
        capabilities: Capabilities::INDEXED,
        threads: &["slmdb-flush"],
        table_form: slmdb_table::TableForm::ByPlace,
        check_pool: |_, _, _| Ok(()),
        own_files: |_| Ok(Vec::new()),
        open: super::opening::open::<MapOpening>,
        repair: |_, _, _, _| unreachable!("no test repairs one"),
    };
    type Fast = Arc<Pool<AnyMedium>>;
    type Tier = MapTier;

    fn in_memory(_: &Options, _: &Path, _: &mut StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 1 << 20, uuid: [0; 16] };
        Pool::anonymous(AnyMedium::dram(), &options).map(Arc::new)
    }

    fn in_pool(_: AnyMedium, _: &Options, _: &StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        Err(Error::invalid("there are none in a pool"))
    }

    fn pool(fast: &Arc<Pool<AnyMedium>>) -> &Arc<Pool<AnyMedium>> {
        fast
    }

    fn recover(_: Recovery<'_>, pool: Arc<Pool<AnyMedium>>) -> Result<Recovered<StateOf<Self>>> {
        let (snapshots, map) = (Snapshots::new(KeyOrder::Bytewise), Mutex::new(BTreeMap::new()));
        let state = Arc::new(MapState {
            pool,
            snapshots,
            map,
            asked: AtomicU64::new(0),
            pool_entries_max: AtomicU64::new(u64::MAX),
            granted_entries: AtomicU64::new(0),
            is_disk_short: AtomicBool::new(false),
            before_moments: Mutex::new(None),
        });
        Ok(Recovered { state, remove_leftovers: Box::new(|_| Ok(())) })
    }
}

fn open() -> Store<MapTier> {
    open_in(&MemoryEnv::new())
}

fn open_in(env: &MemoryEnv) -> Store<MapTier> {
    let options = Options { env: Arc::new(env.clone()), memtable_bytes: 64 << 10, ..Options::default() };
    let mut found = Found::of(&MapOpening::KIND, &options, Path::new("/db")).unwrap();
    let fast = MapOpening::in_memory(&options, Path::new("/db"), &mut found.state).unwrap();
    start::<MapOpening>(found, fast).unwrap()
}

fn put(key: &str, value: &str) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(key, value).unwrap();
    batch
}

#[test]
fn memtables_come_first_and_the_tier_has_what_was_flushed() {
    let store = open();
    for number in 0..3000 {
        store.write(&put(&format!("key{:03}", number % 300), &format!("value {number}")), false).unwrap();
    }
    store.flush().unwrap();
    store.write(&put("key000", "the newest"), false).unwrap();
    assert_eq!(store.shared.tier.state.map.lock().len(), 300);
    assert_eq!(store.get(b"key000").unwrap().as_deref(), Some(&b"the newest"[..]));
    assert_eq!(store.get(b"key001").unwrap().as_deref(), Some(&b"value 2701"[..]));
    assert!(!store.contains_key(b"other").unwrap());
    let range = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(store.approximate(range).unwrap().keys, 300);
    let stats = store.stats();
    assert!(stats.since_open.flushes > 0 && stats.memtable_entries == 1 && stats.engine == "map");
    store.close().unwrap();
    assert!(matches!(store.write(&put("late", ""), false), Err(Error::ReadOnly { .. })));
}

/// Against a map that was copied when the cursor was made: MemTables and the tier have any part of the keys, and deletes lie over
/// both.
#[test]
fn a_cursor_goes_through_memtables_and_tier_in_both_directions() {
    const KEYS: u64 = 60;
    let (store, mut random, mut model) = (open(), Random(7), BTreeMap::new());
    for round in 0..200 {
        for _ in 0..random.below(20) {
            let key = format!("key{:02}", random.below(KEYS)).into_bytes();
            let mut batch = WriteBatch::new();
            if random.below(3) == 0 {
                batch.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let value = format!("value {}", random.below(1000)).into_bytes();
                batch.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            store.write(&batch, false).unwrap();
        }
        let (mut cursor, seen) = (store.cursor().unwrap(), model.clone());
        if random.below(4) == 0 {
            store.flush().unwrap();
        }
        let mut at: Option<Vec<u8>> = None;
        for step in 0..60 {
            let key = format!("key{:02}", random.below(KEYS)).into_bytes();
            let (moved, next) = match random.below(if at.is_some() { 12 } else { 4 }) {
                0 => (cursor.seek(&key), seen.range(key..).next()),
                1 => (cursor.seek_before(&key), seen.range(..key).next_back()),
                2 => (cursor.seek_first(), seen.iter().next()),
                3 => (cursor.seek_last(), seen.iter().next_back()),
                4..8 => (cursor.next(), seen.range((Bound::Excluded(at.take().unwrap()), Bound::Unbounded)).next()),
                _ => (cursor.prev(), seen.range(..at.take().unwrap()).next_back()),
            };
            moved.unwrap();
            at = next.map(|(key, _)| key.clone());
            assert_eq!(cursor.valid(), at.is_some(), "round {round}, step {step}");
            if let Some((key, value)) = next {
                assert_eq!(cursor.key(), key, "round {round}, step {step}");
                assert_eq!((&*cursor.value().unwrap(), cursor.value_ref().unwrap()), (&value[..], &value[..]));
            }
        }
    }
    store.close().unwrap();
}

/// What has come since the look was flushed, so it asks the tier again, and that fails. The place is filled all the same.
#[test]
fn a_decision_that_fails_leaves_a_void_place() {
    let store = open();
    let writes = &store.shared.parts.writes;
    let looks = AtomicU64::new(0);
    let contains = |_: &[u8]| match looks.fetch_add(1, Ordering::SeqCst) {
        0 => {
            store.write(&put("other", "flushed meanwhile"), false)?;
            store.flush().map(|()| false)
        }
        _ => Err(Error::invalid("it can't be read")),
    };
    let before = writes.publication.published();
    let decided = writes.write_if(Condition::Absent(b"new"), &put("new", "1"), false, contains);
    assert!(matches!(decided, Err(Error::Invalid { .. })), "{decided:?}");
    assert_eq!(looks.load(Ordering::SeqCst), 2);
    assert_eq!(writes.publication.published() - before, 2, "another put, and a void place");
    assert!(!store.contains_key(b"new").unwrap());
    store.write(&put("behind", "it"), false).unwrap();
    assert_eq!(store.get(b"behind").unwrap().as_deref(), Some(&b"it"[..]));
    store.close().unwrap();
}

/// What is below may take a disk read, and every later write waits meanwhile.
#[test]
fn a_conditional_write_asks_the_tier_before_it_has_a_place_and_not_again() {
    let store = open();
    store.write(&put("there", "below"), false).unwrap();
    store.flush().unwrap();
    let asked = || store.shared.tier.state.asked.load(Ordering::SeqCst);
    let before = asked();
    assert!(store.write_if(Condition::Absent(b"new"), &put("new", "1"), false).unwrap());
    assert!(store.write_if(Condition::Present(b"there"), &put("there", "again"), false).unwrap());
    assert_eq!(asked() - before, 2);
    // MemTables have both now.
    assert!(!store.write_if(Condition::Absent(b"new"), &put("new", "2"), false).unwrap());
    assert!(store.write_if(Condition::Present(b"there"), &put("there", "and again"), false).unwrap());
    assert_eq!(asked() - before, 2);
    assert_eq!(store.get(b"new").unwrap().as_deref(), Some(&b"1"[..]));
}

/// What is free is less than the file of a MemTable, and nothing brings more.
#[test]
fn a_full_disk_takes_deletes_and_no_puts() {
    const CAPACITY_BYTES: u64 = 1 << 30;
    let env = MemoryEnv::new();
    let store = open_in(&env);
    store.write(&put("first", "value"), false).unwrap();
    let (reserve, memtables) = (&store.shared.parts.catalog.reserve, &store.shared.parts.writes.memtables);
    let set_aside_bytes = memtables.lock().active.as_ref().unwrap().space.as_ref().unwrap().length_bytes();
    env.set_capacity(CAPACITY_BYTES);
    let free_bytes = env.available_bytes(Path::new("/db")).unwrap();
    env.set_capacity(CAPACITY_BYTES - free_bytes - set_aside_bytes);

    let key = |number: u32| format!("key {number}");
    let mut keys = 0;
    while store
        .write(&put(&key(keys), "value"), false)
        .map_err(|error| assert!(matches!(error, Error::Full { .. })))
        .is_ok()
    {
        keys += 1;
    }
    assert!(keys > 100, "the space of {keys} was set aside");
    for number in 0..keys / 2 {
        let mut delete = WriteBatch::new();
        delete.delete(key(number)).unwrap();
        store.write(&delete, false).unwrap_or_else(|error| panic!("delete {number}: {error}"));
        assert!(matches!(store.write(&put("another", "value"), false), Err(Error::Full { .. })));
        assert!(reserve.length_bytes() >= reserve.output_bytes(), "delete {number}");
    }
    store.flush().unwrap();
    for number in 0..keys {
        assert_eq!(store.contains_key(key(number).as_bytes()).unwrap(), number >= keys / 2, "{number} of {keys}");
    }
    env.set_capacity(CAPACITY_BYTES);
    store.write(&put("another", "value"), false).unwrap();
    store.close().unwrap();
}

/// The pool had no space for a usual MemTable and nothing to compact; the smallest one found none on the disk. Nobody asked for that
/// of the disk, so deletes were refused for ever.
#[test]
fn deletes_lead_out_of_a_full_pool_while_the_disk_keeps_too_little_back() {
    // The pool does for the deletes for which space is kept, and for no usual MemTable.
    const POOL_ENTRIES_MAX: u64 = 100;
    let env = MemoryEnv::new();
    env.set_capacity(1 << 30);
    let store = open_in(&env);
    store.write(&put("key", "value"), false).unwrap();
    let (parts, state) = (&store.shared.parts, &store.shared.tier.state);
    state.pool_entries_max.store(POOL_ENTRIES_MAX, Ordering::SeqCst);
    state.is_disk_short.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let compacts = scope.spawn(|| {
            while state.is_disk_short.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            parts.gave_space_back(None).unwrap();
        });
        let mut delete = WriteBatch::new();
        delete.delete("key").unwrap();
        // The first ones find space in the MemTable that is there.
        while !compacts.is_finished() {
            let written = store.write(&delete, false);
            let is_asked_for = written.is_ok() || !state.is_disk_short.swap(false, Ordering::SeqCst);
            assert!(is_asked_for, "what the disk lacks was not asked for: {written:?}");
        }
        compacts.join().unwrap();
    });
    assert!(!store.contains_key(b"key").unwrap());
    store.close().unwrap();
}

/// The reserve kept as much back for a new MANIFEST as the old one had, although that was written for much longer keys.
#[test]
fn a_manifest_longer_than_its_state_takes_no_delete_its_space() {
    const CAPACITY_BYTES: u64 = 1 << 30;
    const LONG_BYTES: usize = 300 << 10;
    let env = MemoryEnv::new();
    let section = |bytes: Vec<u8>| Edit { engine_section: EngineSection::from([(1, bytes)]), ..Edit::default() };
    let store = open_in(&env);
    store.shared.parts.catalog.commit(|_| section(vec![7; LONG_BYTES])).unwrap();
    store.close().unwrap();
    drop(store);
    let store = open_in(&env);
    let Parts { catalog, writes, .. } = &*store.shared.parts;
    catalog.commit(|_| section(Vec::new())).unwrap();
    for number in 0..100 {
        store.write(&put(&format!("key {number}"), "value"), false).unwrap();
    }
    catalog.reserve.discard().unwrap();
    env.set_capacity(CAPACITY_BYTES);
    let set_aside_bytes = writes.memtables.lock().active.as_ref().unwrap().space.as_ref().unwrap().length_bytes();
    let free_bytes = env.available_bytes(Path::new("/db")).unwrap() + set_aside_bytes;
    env.set_capacity(CAPACITY_BYTES - free_bytes + LONG_BYTES as u64 / 2);

    for number in 0..100 {
        let mut delete = WriteBatch::new();
        delete.delete(format!("key {number}")).unwrap();
        store.write(&delete, false).unwrap_or_else(|error| panic!("delete {number}: {error}"));
        if number % 30 == 0 {
            store.flush().unwrap();
        }
    }
    env.set_capacity(CAPACITY_BYTES);
    assert!((0..100).all(|number| !store.contains_key(format!("key {number}").as_bytes()).unwrap()));
    store.close().unwrap();
}

/// (A flush said so after its record. If another thread had compacted the file away by then, a reader that found it gone took it for
/// one that is being made, and told of a missing file.)
#[test]
fn a_file_is_under_way_until_the_manifest_has_it_and_no_longer() {
    let store = open();
    let catalog = &store.shared.parts.catalog;
    let number = catalog.numbers.begin().unwrap();
    assert!(!catalog.is_gone(number), "it is being made");
    let record =
        FileRecord { length_bytes: 1, entries: 1, lowest_sequence: 1, highest_sequence: 1, ..FileRecord::default() };
    let added = Edit { files_added: vec![(number, record)], ..Edit::default() };
    catalog.commit(|state| numbered(state, added)).unwrap();
    assert!(!catalog.numbers.is_under_way(number) && !catalog.is_gone(number));
    let removed = Edit { files_removed: vec![number], ..Edit::default() };
    catalog.commit(|state| numbered(state, removed)).unwrap();
    assert!(catalog.is_gone(number));
    store.close().unwrap();
}

#[test]
fn a_power_cut_while_a_killed_store_is_opened_leaves_one_that_opens() {
    let env = MemoryEnv::new();
    let store = open_in(&env);
    for number in 0..20 {
        store.write(&put(&format!("key{number}"), "value"), false).unwrap();
    }
    let options =
        |env: &MemoryEnv| Options { env: Arc::new(env.clone()), memtable_bytes: 64 << 10, ..Options::default() };
    for k in 0.. {
        let opening = env.kill();
        opening.fail_at(k, slmdb_testkit::Failure::Io, slmdb_testkit::Repeat::ForGood);
        let opened = super::opening::open::<MapOpening>(&options(&opening), Path::new("/db"), None).map(drop);
        let cut = opening.crash();
        super::opening::open::<MapOpening>(&options(&cut), Path::new("/db"), None)
            .unwrap_or_else(|error| panic!("cut at {k} after {:?}: {error:?}", opening.operations().last()));
        if opening.failures_struck() == 0 {
            opened.unwrap();
            break;
        }
    }
}

#[test]
fn a_spare_that_is_given_back_is_granted_nothing() {
    let store = open();
    store.write(&put("key", "value"), false).unwrap();
    let (parts, state) = (&store.shared.parts, &store.shared.tier.state);
    let granted = || state.granted_entries.load(Ordering::SeqCst);
    let until = |is: &dyn Fn() -> bool| {
        while !is() {
            std::thread::yield_now();
        }
    };
    until(&|| parts.writes.memtables.lock().wanted.is_none());
    parts.space.give_back_spare().unwrap();
    let before = granted();
    parts.writes.want_spare(&mut parts.writes.memtables.lock());
    until(&|| {
        let memtables = parts.writes.memtables.lock();
        memtables.spare.is_some() && memtables.wanted.is_none()
    });
    assert!(granted() > before);
    parts.space.give_back_spare().unwrap();
    assert_eq!(granted(), before);
    store.close().unwrap();
}

#[test]
fn no_number_of_a_file_is_given_twice() {
    let env = MemoryEnv::new();
    let store = open_in(&env);
    let catalog = &store.shared.parts.catalog;
    let number = catalog.numbers.begin().unwrap();
    let record =
        FileRecord { length_bytes: 1, entries: 1, lowest_sequence: 1, highest_sequence: 1, ..FileRecord::default() };
    let added = Edit { files_added: vec![(number, record)], ..Edit::default() };
    catalog.commit(|state| numbered(state, added)).unwrap();
    let removed = Edit { files_removed: vec![number], ..Edit::default() };
    catalog.commit(|state| numbered(state, removed)).unwrap();
    store.close().unwrap();
    drop(store);
    let store = open_in(&env);
    assert!(store.shared.parts.catalog.numbers.begin().unwrap() > number);
}

#[test]
fn the_first_writes_after_a_rest_fill_the_reserve_again() {
    let store = open();
    store.write(&put("key", "value"), false).unwrap();
    let parts = &store.shared.parts;
    let reserve = &parts.catalog.reserve;
    let usual_bytes = reserve.wanted_bytes();
    while !parts.space.give_back_at_rest().unwrap() {}
    assert!(reserve.wanted_bytes() < usual_bytes);
    for number in 0..3000 {
        store.write(&put(&format!("key{number}"), &"v".repeat(50)), false).unwrap();
    }
    store.flush().unwrap();
    assert!(reserve.wanted_bytes() >= usual_bytes && reserve.length_bytes() >= usual_bytes);
    store.close().unwrap();
}

/// INV-13: a flush between the two would see no snapshot, and leave out versions that it sees.
#[test]
fn a_snapshot_covers_what_was_published_before_it_was_registered() {
    let store = Arc::new(open());
    store.write(&put("key", "before"), false).unwrap();
    let writes = store.shared.parts.writes.clone();
    let write = move || writes.write(&put("key", "meanwhile"), false).unwrap();
    *store.shared.tier.state.before_moments.lock() = Some(Box::new(write));
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.get(b"key").unwrap().as_deref(), Some(&b"meanwhile"[..]));
    drop(snapshot);
    store.close().unwrap();
}
