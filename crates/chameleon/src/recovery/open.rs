//! What ChameleonDB adds to an [opening](slmdb_engine::store::opening): the index, from its tables, or anew if it has none.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::Options;
use slmdb_engine::directory::EngineKind;
use slmdb_engine::directory::pool_binding::{self, FoundPool};
use slmdb_engine::store::opening::{Opening, Recovered, Recovery, StateOf};
use slmdb_env::{Error, Result};
use slmdb_manifest::{MediumKind, StoreState};
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::hash::KeyHasher;

use super::load::load;
use super::rebuild::{rebuild, write_last};
use crate::KIND;
use crate::options::ChameleonOptions;
use crate::shards::Index;
use crate::shards::section::Section;
use crate::shards::tables::HashTables;
use crate::state::ChameleonState;
use crate::tier::ChameleonTier;

/// A new store has so many shards, unless its options say otherwise, or its MemTables are so small that few of their keys would come
/// into each.
const SHARDS: u32 = 256;
/// So much of a MemTable is for each shard, in bytes.
const MEMTABLE_BYTES_PER_SHARD: u64 = 32 << 10;
/// The bypass takes this part of the memory budget, unless the options say otherwise.
const BYPASS_PART: u64 = 4;

/// See the module.
pub(crate) struct ChameleonOpening;

impl Opening for ChameleonOpening {
    const KIND: EngineKind = KIND;
    type Fast = Arc<Pool<AnyMedium>>;
    type Tier = ChameleonTier;

    fn in_memory(options: &Options, _: &Path, state: &mut StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        pool_binding::in_memory(options, state).map(Arc::new)
    }

    fn in_pool(medium: AnyMedium, options: &Options, state: &StoreState) -> Result<Arc<Pool<AnyMedium>>> {
        match pool_binding::find_pool(medium, options, state)? {
            FoundPool::New(pool) | FoundPool::Old(pool) => Ok(Arc::new(pool)),
        }
    }

    fn pool(pool: &Arc<Pool<AnyMedium>>) -> &Arc<Pool<AnyMedium>> {
        pool
    }

    fn recover(recovery: Recovery<'_>, pool: Arc<Pool<AnyMedium>>) -> Result<Recovered<StateOf<ChameleonOpening>>> {
        let Recovery { options, directory, state, tables } = recovery;
        let Section { shards, rows } = Section::of(state)?;
        let own = options.own::<ChameleonOptions>();
        let hasher = KeyHasher::new(&state.files_uuid, shards_of(shards, options)?)?;
        let in_pool = (state.medium.kind != MediumKind::Dram).then(|| pool.clone());
        let hash_tables = HashTables::new(options.env.clone(), directory, state.files_uuid, in_pool);
        let bypass_bytes = own.bypass_bytes.unwrap_or(options.memory_budget_bytes / BYPASS_PART);
        let index = if shards.is_none() && !state.files.is_empty() {
            let (mut shards, leads_to) = rebuild(state, tables, &hasher)?;
            // An opening for reading alone writes nothing.
            let rows = match options.read_only {
                true => Vec::new(),
                false => write_last(&mut shards, state, &hash_tables, &hasher, own.job_bytes)?,
            };
            Index::new(hasher, shards, rows, leads_to, bypass_bytes)
        } else {
            load(state, tables, &hash_tables, hasher, rows, bypass_bytes)?
        };
        let made = Arc::new(ChameleonState::new(options, pool, index, hash_tables));
        let recovered = made.clone();
        let remove_leftovers = move |state: &StoreState| {
            let rows = Section::of(state)?.rows;
            recovered.hash_tables.free_unnamed(|number| rows.iter().any(|row| row.has_table() && row.number == number))
        };
        Ok(Recovered { state: made, remove_leftovers: Box::new(remove_leftovers) })
    }
}

/// How many shards a store has. [`Error::Invalid`] if the options want others.
pub(super) fn shards_of(stored: Option<u32>, options: &Options) -> Result<u32> {
    match (stored, options.own::<ChameleonOptions>().shards) {
        (Some(stored), Some(wanted)) if stored != wanted => {
            Err(Error::invalid(format!("shards: {wanted}, but the store was made with {stored}, and keeps them")))
        }
        (Some(shards), _) | (None, Some(shards)) => Ok(shards),
        (None, None) => {
            let shards = (options.memtable_bytes / MEMTABLE_BYTES_PER_SHARD).clamp(1, u64::from(SHARDS));
            Ok(1 << shards.ilog2())
        }
    }
}
