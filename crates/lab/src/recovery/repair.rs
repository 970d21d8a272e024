//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. What any
//! engine needs for that is in [`slmdb_engine::repair`], what the levels need in [`slmdb_levels::save_level_files`]; here
//! is what level 0 adds.
//!
//! - A damaged entry of a run file becomes a delete with its number, in a run file with the same numbers. So it keeps its
//!   place among the run files, and hides what levels have of its key. A file scan may have moved the same version to a
//!   level already, and the run file is still there: then it is taken from there.
//! - A key of a level that is lost may be in a run file still. So if levels have lost anything, the immutable tree begins
//!   anew with all keys of its run files. What has gone to level 1 goes there once more, with the same numbers.
//! - The trees are made again from the run files, in a new pool. That is right for the reasons that [`super::rebuild`]
//!   has.

use std::path::Path;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::repair::{Repair, RepairSteps};
use slmdb_engine::{Options, RepairProgress};
use slmdb_env::{Error, Result};
use slmdb_pmem::AnyMedium;

use super::rebuild;
use super::recover::open_levels;
use super::trees_in_pool::{self, Trees};
use crate::KIND;
use crate::level_zero::state::LevelZeroState;

/// See the module.
pub(crate) struct LabRepair;

impl RepairSteps for LabRepair {
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair> {
        let mut repair = Repair::begin(&KIND, options, directory, |record| record.entries)?;
        let options = &*repair.options.clone();
        let mut level_zero = LevelZeroState::of(&repair.state).or_else(|error| match error {
            // Without it all keys of all run files belong to one tree, as after a store's first flushes.
            Error::Corruption { .. } => {
                repair.report.damage.push(error);
                Ok(LevelZeroState::default())
            }
            error => Err(error),
        })?;
        let on_levels = |repair: &Repair| -> Vec<u32> {
            let files = repair.state.files.iter().filter(|(_, record)| record.level > 0);
            files.map(|(&number, _)| number).collect()
        };
        let before = on_levels(&repair);
        repair.check_tables(progress)?;
        let tables = Tables::new(options, repair.directory.clone(), repair.state.files_uuid);
        let (state, order) = (repair.state.clone(), &options.comparator);
        repair.save_run_files(&|key, sequence| slmdb_levels::value_in_levels(&tables, &state, order, key, sequence))?;
        slmdb_levels::save_level_files(&mut repair)?;
        if on_levels(&repair) != before {
            level_zero.compacted_through = None;
        }
        repair.state.engine_section = level_zero.section();
        // Levels that contradict each other would be refused by every opening. That is better said before anything changes.
        let tables = Tables::new(options, repair.directory.clone(), repair.state.files_uuid).into();
        open_levels(options, &repair.directory, &repair.state, &tables)?;
        Ok(repair)
    }

    /// Every opening makes the trees again; that it can is seen here.
    fn on_dram(repair: &mut Repair) -> Result<()> {
        let empty = trees_in_pool::in_memory(&repair.options, &repair.state)?;
        let pool = empty[0].slots().pool();
        if !repair.log_is_whole(pool) {
            repair.save_log(pool)?;
        }
        drop(empty);
        let trees = rebuild::in_memory(&repair.options, &repair.directory, &repair.state)?;
        finish(repair, &trees)
    }

    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()> {
        repair.give_up_pool::<LabRepair>(medium)?;
        let trees = trees_in_pool::make_anew(medium.clone(), &repair.options, &repair.state)?;
        rebuild::fill(&trees, &repair.options, &repair.directory, &repair.state)?;
        trees[0].slots().pool().seal()?;
        finish(repair, &trees)
    }
}

/// Makes the trees the store's.
fn finish(repair: &mut Repair, trees: &Trees) -> Result<()> {
    repair.report.index_keys = trees.iter().map(|tree| tree.counts().keys).sum();
    // Which entries of a run file count, the trees know alone.
    repair.state.files.values_mut().for_each(|file| file.live_keys = 0);
    let mut lost = repair.lost_keys();
    repair.take_out_replaced(&mut lost)?;
    repair.tell_lost_keys(&lost);
    repair.end()
}
