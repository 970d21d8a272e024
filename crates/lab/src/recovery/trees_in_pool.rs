//! The trees of level 0 in a store's pool: opened, or made.

use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_pmem::{AnyMedium, Pool, Slots};
use slmdb_structures::hybrid_tree::{Entry, HybridTree};

use crate::level_zero::state::LevelZeroState;

/// The two trees of a pool, by number.
pub(crate) type Trees = [HybridTree<AnyMedium>; 2];

/// Opens the pool of a store and its trees. If the store has no pool yet, makes all of it.
///
/// Entries of run files that the MANIFEST lacks are taken out: a flush that did not commit has left them, and its MemTable
/// is replayed. So are those that a chunk has moved on, if a crash came before they left the tree.
pub(crate) fn find(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Trees> {
    let level_zero = LevelZeroState::of(state)?;
    match pool_binding::find_pool(medium, options, state)? {
        FoundPool::New(pool) => make(pool, options, &level_zero),
        FoundPool::Old(pool) => open(Arc::new(pool), options, state, &level_zero),
    }
}

/// The fast tier of a `Dram` store: memory, with empty trees that recovery fills.
pub(crate) fn in_memory(options: &Options, state: &StoreState) -> Result<Trees> {
    make(pool_binding::in_memory(options, state)?, options, &LevelZeroState::of(state)?)
}

/// Makes a new pool, as the MANIFEST describes it, with empty trees.
pub(crate) fn make_anew(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Trees> {
    make(pool_binding::new_pool(medium, options, state)?, options, &LevelZeroState::of(state)?)
}

fn make(pool: Pool<AnyMedium>, options: &Options, level_zero: &LevelZeroState) -> Result<Trees> {
    let slots = Arc::new(Slots::open(Arc::new(pool))?);
    let tree =
        |number| HybridTree::create(slots.clone(), number, epoch_of(number, level_zero), options.comparator.clone());
    Ok([tree(0)?, tree(1)?])
}

/// The epoch in which a tree was begun.
fn epoch_of(number: u32, level_zero: &LevelZeroState) -> u32 {
    if level_zero.epoch % 2 == number { level_zero.epoch } else { level_zero.epoch.saturating_sub(1) }
}

fn open(
    pool: Arc<Pool<AnyMedium>>,
    options: &Options,
    state: &StoreState,
    level_zero: &LevelZeroState,
) -> Result<Trees> {
    let slots = Arc::new(Slots::open(pool)?);
    let order = &options.comparator;
    let tree = |number: u32| {
        let is_immutable = level_zero.epoch % 2 != number;
        let compacted_through = level_zero.compacted_through.as_deref().filter(|_| is_immutable);
        let keep = |entry: &Entry<'_>| {
            let is_left = compacted_through.is_none_or(|through| order.compare(entry.key, through).is_gt());
            is_left && state.files.get(&entry.version.file).is_some_and(|file| file.level == 0)
        };
        HybridTree::open(slots.clone(), number, order.clone(), keep)
    };
    let trees = [tree(0)?, tree(1)?];
    if !options.read_only {
        slots.return_empty();
    }
    Ok(trees)
}
