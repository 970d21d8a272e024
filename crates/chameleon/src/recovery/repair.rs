//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. A damaged entry becomes a
//! delete with its number. The index goes: the next opening makes it
//! anew. The rest is [`slmdb_engine::repair`]'s.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::directory::pool_binding;
use slmdb_engine::repair::{Repair, RepairSteps};
use slmdb_engine::{Options, RepairProgress};
use slmdb_env::Result;
use slmdb_pmem::AnyMedium;
use slmdb_structures::hash::KeyHasher;

use super::open::shards_of;
use super::rebuild::rebuild;
use crate::KIND;
use crate::shards::section::{Section, forget_index};

/// See the module.
pub(crate) struct ChameleonRepair;

impl RepairSteps for ChameleonRepair {
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair> {
        let mut repair = Repair::begin(&KIND, options, directory, |record| record.entries)?;
        repair.check_tables(progress)?;
        repair.save_run_files(&|_, _| None)?;
        Ok(repair)
    }

    fn on_dram(repair: &mut Repair) -> Result<()> {
        let pool = Arc::new(pool_binding::in_memory(&repair.options, &repair.state)?);
        if !repair.log_is_whole(&pool) {
            repair.save_log(&pool)?;
        }
        finish(repair)
    }

    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()> {
        repair.give_up_pool::<ChameleonRepair>(medium)?;
        pool_binding::new_pool(medium.clone(), &repair.options, &repair.state)?.seal()?;
        finish(repair)
    }
}

/// Sees that the index can be made, and leaves that to the next opening.
fn finish(repair: &mut Repair) -> Result<()> {
    let tables = slmdb_engine::files::table_cache::Tables::new(
        &repair.options,
        repair.directory.clone(),
        repair.state.files_uuid,
    );
    let shards = Section::of(&repair.state).map_or(None, |section| section.shards);
    forget_index(&mut repair.state);
    let hasher = KeyHasher::new(&repair.state.files_uuid, shards_of(shards, &repair.options)?)?;
    let (shards, _) = rebuild(&repair.state, &tables, &hasher)?;
    let slots = shards.iter().flat_map(|shard| shard.bypass.slots());
    repair.report.index_keys = slots.filter(|slot| !slot.is_delete()).count() as u64;
    let mut lost = repair.lost_keys();
    repair.take_out_replaced(&mut lost)?;
    repair.tell_lost_keys(&lost);
    repair.end()
}
