//! Crashes of the layers under the store: a pool, its extents, and a tree in it, for what these promise by themselves.
//!
//! The store calls them in an order in which much is covered twice: what one step did not make durable the same thread's next step
//! does, and a creation that was cut short is redone from the beginning whatever it left. Who else builds on these layers, from
//! several threads, may not count on that, nor will the store for ever. So here each operation is done by a thread of its own, which
//! ends with it: what it left undone nobody makes good. When it has returned, its effect is durable; before that, it is there or
//! not; and what a creation left is finished or begun again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use slmdb_env::{Error, Result};
use slmdb_order::{Direction, KeyOrder};
use slmdb_pmem::{Blocks, Dram, ExtentKind, Medium, Pool, PoolOptions, UNIT_BYTES};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{Decision, SegmentEntry, Tree, write_segment};
use slmdb_sync::scheduled::thread;
use slmdb_sync::{epoch, turns};
use slmdb_testkit::{
    Recording, Simulated,
    medium::{Choice, Pick as LinePick, Replay},
};

use crate::Random;
use crate::call_paths::CallPaths;
use crate::explore::Looks;

const OPTIONS: PoolOptions =
    PoolOptions { initial_bytes: 0, growth_bytes: UNIT_BYTES, maximum_bytes: 16 << 20, uuid: [7; 16] };
const NODE_BYTES: u32 = 256;
const KEYS: u64 = 150;
const OPERATIONS: u64 = 200;
/// How intents of the tree lie: a slot for each level, with a mark behind the checksum of the words after these two, then kind and level.
const INTENT_SLOT_BYTES: usize = 256;
const INTENT_MARK: u32 = 0x494e_544e;
const INTENT_BYTES: usize = 168;
const INTENT_GROWS_ROOT: u8 = 2;
/// No tree here has so many levels.
const LEVEL_BEYOND: u8 = 20;
/// At a crash where something is owed, of so many lines each alone is missing, at most.
const LINES_ALONE_MAX: usize = 8;

/// How far the creation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Made {
    #[default]
    Nothing,
    Pool,
    Tree,
    /// Both, and key records for all keys.
    Records,
}

/// What is there, as those who did it know.
#[derive(Debug, Clone, Default)]
struct State {
    made: Made,
    /// Offset, length and owner of the extents that were allocated here.
    arenas: BTreeSet<(u64, u64, u32)>,
    /// The tree's keys, each with its key record.
    keys: BTreeMap<Vec<u8>, u64>,
}

type Changes = BTreeMap<Vec<u8>, Option<u64>>;

/// A pool with a tree.
struct Layers<M: Medium> {
    pool: Arc<Pool<M>>,
    tree: Tree<M>,
}

impl<M: Medium> Layers<M> {
    /// Opens the tree of a pool, or makes it if its creation did not come to the end.
    fn in_pool(pool: Arc<Pool<M>>) -> Result<Layers<M>> {
        let blocks = Arc::new(Blocks::open(pool.clone())?);
        let tree = match Tree::exists(&pool)? {
            true => Tree::open(pool.clone(), blocks, KeyOrder::Bytewise)?,
            false => Tree::create(pool.clone(), blocks, NODE_BYTES, KeyOrder::Bytewise)?,
        };
        Ok(Layers { pool, tree })
    }

    fn change(&self, changes: &Changes) -> Result<()> {
        let decisions: Vec<Decision> =
            changes.values().map(|record| record.map_or(Decision::Remove, Decision::Put)).collect();
        self.tree.update_sorted(changes.keys().map(Vec::as_slice), |index, _| Ok(decisions[index])).map(drop)
    }

    /// What the tree holds.
    fn keys(&self) -> Result<BTreeMap<Vec<u8>, u64>> {
        let guard = epoch::pin();
        let range = self.tree.range(Bound::Unbounded, Direction::Forward, &guard);
        range.map(|record| record.map(|record| (record.key().to_vec(), record.offset()))).collect()
    }

    fn arenas(&self) -> BTreeSet<(u64, u64, u32)> {
        let extents = self.pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::Arena);
        extents.map(|extent| (extent.offset, extent.length_bytes, extent.owner)).collect()
    }

    /// Everything verifies, and nothing is leaked.
    fn verify(&self) -> std::result::Result<(), String> {
        match self.pool.verify().into_iter().chain(self.tree.verify()).next() {
            None => Ok(()),
            Some(fault) => Err(format!("verify finds {fault:?}")),
        }
    }
}

/// Done by a thread that ends with it.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("nothing fails on this medium"))
}

/// What was done, and the moments at which it was.
struct Recorded {
    replay: Replay,
    /// Each with the moment from which it is certain.
    states: Vec<(u64, State)>,
    moments: Vec<u64>,
    /// Some step was left out.
    is_owing: bool,
}

fn record(paths: &CallPaths, seed: u64, looks: Looks) -> Result<Recorded> {
    let medium = Simulated::recording(Arc::new(Recording::watched_by(paths.clone())));
    let mut states = vec![(0, State::default())];
    let mut state = State { made: Made::Pool, ..State::default() };
    let mut done = |state: &State| states.push((medium.moment(), state.clone()));
    let pool = Arc::new(apart(|| Pool::anonymous(medium.clone(), &OPTIONS))?);
    done(&state);
    static STALE: OnceLock<StaleIntent> = OnceLock::new();
    let stale = STALE.get_or_init(|| stale_intent().expect("nothing fails on this medium"));
    apart(|| stale.leave_in(&pool))?;
    let layers = apart(|| Layers::in_pool(pool.clone()))?;
    state.made = Made::Tree;
    done(&state);
    let names: Vec<[u8; 2]> = (0..KEYS).map(|number| (number as u16 * 257).to_be_bytes()).collect();
    let records = [apart(|| write_records(&pool, 1, &names))?, apart(|| write_records(&pool, 2, &names))?];
    state.made = Made::Records;
    done(&state);

    let mut random = Random(seed);
    for number in 0..OPERATIONS {
        // The tree grows, loses all its keys but a few, and grows again.
        let growth = [15, 15, 1, 1, 12][(number * 5 / OPERATIONS) as usize];
        let arena = state.arenas.iter().nth(random.below(state.arenas.len().max(1) as u64) as usize).copied();
        match (random.below(12), arena) {
            (0, _) => {
                let length_bytes = UNIT_BYTES * (1 + random.below(3));
                let extent = apart(|| pool.allocate_extent(ExtentKind::Arena, length_bytes, number as u32 + 1))?;
                state.arenas.insert((extent.offset, extent.length_bytes, extent.owner));
            }
            (1, Some(arena)) => {
                let extent = apart(|| pool.set_extent_owner(arena.0, number as u32 + 1))?;
                state.arenas.remove(&arena);
                state.arenas.insert((extent.offset, extent.length_bytes, extent.owner));
            }
            (2, Some(arena)) => {
                apart(|| pool.free_extent(arena.0))?;
                state.arenas.remove(&arena);
            }
            _ => {
                let changes = any_changes(&mut random, growth, &names, &records);
                apart(|| layers.change(&changes))?;
                apply(&mut state.keys, &changes);
            }
        }
        done(&state);
    }
    let history = medium.history();
    let stops = history.stops();
    let is_owing = looks != Looks::Everywhere && stops.iter().any(|stop| !stop.done);
    let stops = stops.iter().filter(|stop| is_owing || stop.done);
    let mut moments: Vec<u64> = stops.map(|stop| stop.moment).chain(states.iter().map(|(at, _)| *at)).collect();
    moments.sort_unstable();
    moments.dedup();
    Ok(Recorded { replay: history.replay(), states, moments, is_owing })
}

/// An intent of a tree, under way, and where it lay.
struct StaleIntent {
    offset: u64,
    words: Vec<u64>,
}

/// What the space where a tree's intents come to lie may hold from an earlier life: what a new extent contains is not defined. That
/// the tree grows by a level that this one never comes to, for which it took a block that this one uses, too.
fn stale_intent() -> Result<StaleIntent> {
    let medium = Simulated::new();
    let layers = Layers::in_pool(Arc::new(Pool::anonymous(medium.clone(), &OPTIONS)?))?;
    let names: Vec<[u8; 2]> = (0..KEYS).map(|number| (number as u16).to_be_bytes()).collect();
    let records = write_records(&layers.pool, 1, &names)?;
    for (name, &record) in names.iter().zip(&records) {
        layers.tree.insert_or_replace(name, record)?;
    }
    let mut replay = medium.history().replay();
    while replay.to_next_crash() {
        let image = replay.image(Choice::Everything);
        for (slot, offset) in image.chunks_exact(INTENT_SLOT_BYTES).zip((0..).step_by(INTENT_SLOT_BYTES)) {
            if slot[4..8] == INTENT_MARK.to_le_bytes() && slot[8] == INTENT_GROWS_ROOT {
                let mut bytes = slot[..INTENT_BYTES].to_vec();
                let levels_up = LEVEL_BEYOND - bytes[9];
                bytes[9] = LEVEL_BEYOND;
                let check = crc32c::crc32c(&bytes[8..]);
                bytes[..4].copy_from_slice(&check.to_le_bytes());
                let words = bytes.chunks_exact(8).flat_map(|word| word.try_into().map(u64::from_le_bytes)).collect();
                let offset = offset + u64::from(levels_up) * INTENT_SLOT_BYTES as u64;
                return Ok(StaleIntent { offset, words });
            }
        }
    }
    Err(Error::invalid("no root ever grows in a tree that grows"))
}

impl StaleIntent {
    /// Leaves it in space that is free, at the same place.
    fn leave_in<M: Medium>(&self, pool: &Pool<M>) -> Result<()> {
        let mut taken = Vec::new();
        loop {
            let extent = pool.allocate_extent(ExtentKind::Arena, UNIT_BYTES, 1)?;
            taken.push(extent.offset);
            if extent.end() > self.offset {
                break;
            }
        }
        for (&word, offset) in self.words.iter().zip((self.offset..).step_by(8)) {
            pool.store(offset, word)?;
        }
        pool.persist(self.offset, INTENT_SLOT_BYTES as u64);
        taken.into_iter().try_for_each(|offset| pool.free_extent(offset))
    }
}

fn write_records<M: Medium>(pool: &Arc<Pool<M>>, file: u32, names: &[[u8; 2]]) -> Result<Vec<u64>> {
    let entries = names.iter().map(|key| SegmentEntry {
        key: key.as_slice(),
        sequence: u64::from(file),
        kind: EntryKind::Put,
        block_offset: 0,
        block_length: 0,
    });
    let segment = write_segment(pool, file, entries)?;
    let guard = epoch::pin();
    segment.records(pool, &guard).map(|record| record.map(|record| record.offset())).collect()
}

/// One key is changed, or many in a row; `growth` of 16 of them come, the others go.
fn any_changes(random: &mut Random, growth: u64, names: &[[u8; 2]], records: &[Vec<u64>; 2]) -> Changes {
    let first = random.below(KEYS) as usize;
    let count = if random.one_in(3) { random.below(40) as usize } else { 1 };
    let change = |index: usize| {
        let record = records[random.below(2) as usize][index];
        (names[index].to_vec(), (random.below(16) < growth).then_some(record))
    };
    (first..names.len()).take(count).map(change).collect()
}

fn apply(keys: &mut BTreeMap<Vec<u8>, u64>, changes: &Changes) {
    for (key, record) in changes {
        match record {
            Some(record) => drop(keys.insert(key.clone(), *record)),
            None => drop(keys.remove(key)),
        }
    }
}

/// Records what this seed says, and crashes it everywhere; or, unless `looks` says everywhere, if steps are left out, where something
/// is owed for that. What was wrong.
pub fn explore(paths: &CallPaths, seed: u64, looks: Looks, until: Instant) -> Option<String> {
    let paths = paths.clone();
    let explored = turns::take(seed, move || {
        let recorded = match catch_unwind(AssertUnwindSafe(|| record(&paths, seed, looks))) {
            Ok(Ok(recorded)) => recorded,
            Ok(Err(error)) => return Some(format!("fails: {error:?}")),
            Err(_) => return Some("a panic".into()),
        };
        crash_everywhere(recorded, seed, until)
    });
    explored.unwrap_or_else(Some)
}

fn crash_everywhere(recorded: Recorded, seed: u64, until: Instant) -> Option<String> {
    let Recorded { mut replay, states, moments, is_owing } = recorded;
    let (mut checked, mut random) = (HashSet::new(), Random(seed));
    for moment in moments {
        replay.to_moment(moment);
        let last = states.partition_point(|(at, _)| *at <= moment) - 1;
        let (certain, possible) = (&states[last].1, states.get(last + 1).map_or(&states[last].1, |(_, state)| state));
        let is_returned = states[last].0 == moment;
        for image in images(&replay, is_owing, is_returned, &mut random) {
            if Instant::now() >= until {
                return None;
            }
            if !checked.insert((crc32c::crc32c(&image), last)) {
                continue;
            }
            let whole = catch_unwind(AssertUnwindSafe(|| check(image, certain, possible, &mut random)));
            if let Err(what) = whole.unwrap_or_else(|_| Err("a panic".into())) {
                return Some(format!("layers, seed {seed}, moment {moment}: {what}"));
            }
        }
    }
    None
}

/// What of a crash here is looked at.
fn images(replay: &Replay, is_owing: bool, is_returned: bool, random: &mut Random) -> Vec<Vec<u8>> {
    let owed: Vec<u64> = if is_owing { replay.owed().collect() } else { Vec::new() };
    let mut images = Vec::new();
    if is_returned || !owed.is_empty() {
        images.push(replay.image(Choice::Nothing));
    }
    let all = LinePick { stores: usize::MAX, words: 0 };
    let none = LinePick { stores: 0, words: 0 };
    if !owed.is_empty() {
        images.push(replay.image_of(|line, _| if owed.contains(&line) { none } else { all }));
        let step = owed.len().div_ceil(LINES_ALONE_MAX);
        let alone = owed.iter().skip(random.below(step as u64) as usize).step_by(step);
        images.extend(alone.map(|&owed| replay.image_of(|line, _| if line == owed { none } else { all })));
    }
    if !is_owing {
        images.extend(
            [Choice::Everything, Choice::Random(random.number())].into_iter().map(|choice| replay.image(choice)),
        );
        let unfenced = replay.unfenced();
        images.push(replay.image_of(|line, _| if unfenced.contains(&line) { none } else { all }));
        let pending: BTreeMap<u64, u64> = replay.pending_since().collect();
        if let Some(&since) = pending.values().nth(random.below(pending.len().max(1) as u64) as usize) {
            images.push(replay.image_of(|line, _| if pending[&line] < since { none } else { all }));
        }
    }
    images
}

/// Opens an image: what is certain must be there, and of what is possible besides anything may be.
fn check(image: Vec<u8>, certain: &State, possible: &State, random: &mut Random) -> std::result::Result<(), String> {
    let is_unfinished = image.len() < 8 || image[..8] == [0; 8];
    if is_unfinished && certain.made == Made::Nothing {
        return Ok(());
    }
    let failed = |what: &str, error| format!("{what}: {error:?}");
    let pool = Pool::from_image(Dram, image).map_err(|error| failed("the pool does not open", error))?;
    let pool = Arc::new(pool);
    if certain.made >= Made::Tree && !Tree::exists(&pool).is_ok_and(|exists| exists) {
        return Err("the tree was made, and is not there".into());
    }
    let layers = Layers::in_pool(pool).map_err(|error| failed("the tree does not open", error))?;
    layers.verify()?;
    let arenas = layers.arenas();
    // (Until there is a tree some may be there in which an earlier life is left.)
    if certain.made >= Made::Tree && arenas != certain.arenas && arenas != possible.arenas {
        return Err(format!("extents {arenas:?} are neither as before {:?} nor as after", certain.arenas));
    }
    let keys = layers.keys().map_err(|error| failed("the tree can't be read", error))?;
    let all: BTreeSet<_> = keys.keys().chain(certain.keys.keys()).chain(possible.keys.keys()).collect();
    for key in all {
        let is = keys.get(key);
        if is != certain.keys.get(key) && is != possible.keys.get(key) {
            return Err(format!("key {} is neither as before nor as after", key.escape_ascii()));
        }
    }
    if certain.made == Made::Records {
        go_on(&layers, keys, random)?;
    }
    Ok(())
}

/// What was recovered can be built on: keys go and come, so that nodes are freed, made and split, and extents with them.
fn go_on(
    layers: &Layers<Dram>,
    mut keys: BTreeMap<Vec<u8>, u64>,
    random: &mut Random,
) -> std::result::Result<(), String> {
    let before = keys.clone();
    let removed: Changes = before.keys().filter(|_| random.one_in(2)).map(|key| (key.clone(), None)).collect();
    let put_back: Changes = removed.keys().map(|key| (key.clone(), before.get(key).copied())).collect();
    for changes in [removed, put_back] {
        layers.change(&changes).map_err(|error| format!("does not go on: {error:?}"))?;
        apply(&mut keys, &changes);
    }
    let taken = layers.pool.allocate_extent(ExtentKind::Arena, 2 * UNIT_BYTES, u32::MAX);
    let taken = taken.and_then(|extent| layers.pool.free_extent(extent.offset));
    taken.map_err(|error| format!("does not go on: {error:?}"))?;
    layers.verify()?;
    match layers.keys() {
        Ok(found) if found == keys => Ok(()),
        other => Err(format!("goes on and holds something else: {other:?}")),
    }
}
