//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. A damaged entry becomes a
//! delete with its number. The index needs nothing: each opening makes it anew. The rest is [`slmdb_engine::repair`]'s.

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::directory::pool_binding;
use slmdb_engine::repair::{Repair, RepairSteps};
use slmdb_engine::{Options, RepairProgress};
use slmdb_env::Result;
use slmdb_pmem::AnyMedium;

use super::rebuild::rebuild;
use crate::KIND;

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

/// Sees that the index can be made.
fn finish(repair: &mut Repair) -> Result<()> {
    let tables = slmdb_engine::files::table_cache::Tables::new(
        &repair.options,
        repair.directory.clone(),
        repair.state.files_uuid,
    );
    let index = rebuild(&repair.options, &repair.state, &tables)?;
    repair.report.index_keys = index.writers.lock().slots().filter(|(_, slot)| !slot.is_delete()).count() as u64;
    // Which entries count, the index knows alone.
    repair.state.files.values_mut().for_each(|file| file.live_keys = 0);
    let mut lost = repair.lost_keys();
    repair.take_out_replaced(&mut lost)?;
    repair.tell_lost_keys(&lost);
    repair.end()
}
