//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. All of it is
//! [`slmdb_engine::repair`]'s and the levels' ([`slmdb_levels::save_level_files`]).

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::repair::{Repair, RepairSteps};
use slmdb_engine::{Options, RepairProgress};
use slmdb_env::Result;
use slmdb_pmem::AnyMedium;

use super::open_levels;
use crate::KIND;

/// See the module.
pub(crate) struct TlsmRepair;

impl RepairSteps for TlsmRepair {
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair> {
        let mut repair = Repair::begin(&KIND, options, directory, |record| record.entries)?;
        repair.check_tables(progress)?;
        slmdb_levels::save_level_files(&mut repair)?;
        // Levels that contradict each other would be refused by every opening. That is better said before anything changes.
        let tables = Tables::new(&repair.options, repair.directory.clone(), repair.state.files_uuid).into();
        open_levels(&repair.options, &repair.directory, &repair.state, &tables)?;
        Ok(repair)
    }

    fn on_dram(repair: &mut Repair) -> Result<()> {
        let pool = Arc::new(slmdb_engine::directory::pool_binding::in_memory(&repair.options, &repair.state)?);
        if !repair.log_is_whole(&pool) {
            repair.save_log(&pool)?;
        }
        finish(repair)
    }

    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()> {
        repair.give_up_pool(medium)?;
        slmdb_engine::directory::pool_binding::new_pool(medium.clone(), &repair.options, &repair.state)?.seal()?;
        finish(repair)
    }
}

fn finish(repair: &mut Repair) -> Result<()> {
    repair.report.index_keys = repair.state.files.values().map(|file| file.entries - file.deletes).sum();
    let mut lost = repair.lost_keys();
    repair.take_out_replaced(&mut lost)?;
    repair.tell_lost_keys(&lost);
    repair.end()
}
