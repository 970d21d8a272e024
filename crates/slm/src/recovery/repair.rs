//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. What any
//! engine needs for that is in [`slmdb_engine::repair`]; here is what the index adds.
//!
//! The index is rebuilt in the new pool. A checkpoint of it replaces all earlier ones, from which losses must not come
//! back. One MANIFEST then has the new pool, the checkpoint, the live counts, and the files that are whole.

use std::path::Path;

use slmdb_engine::repair::{LostKeys, Repair, RepairSteps};
use slmdb_engine::{Loss, Options, RepairProgress};
use slmdb_env::{Error, Result};
use slmdb_pmem::AnyMedium;

use crate::KIND;
use crate::index::key_index::KeyIndex;
use crate::index::{in_plain_memory, in_pool};
use crate::manifest_section::Section;
use crate::recovery::index_checkpoint::NewCheckpoint;
use crate::recovery::rebuild::Rebuilt;
use crate::recovery::{index_image, rebuild};

/// See the module.
pub(crate) struct SlmRepair;

impl RepairSteps for SlmRepair {
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair> {
        let mut repair = Repair::begin(&KIND, options, directory, |record| record.live_keys)?;
        if let Err(error @ Error::Corruption { .. }) = Section::of(&repair.state) {
            // Without it any delete may have been dropped.
            repair.report.damage.push(error);
            let deletes_dropped_through = repair.state.flushed_through;
            Section { deletes_dropped_through, ..Section::default() }.write_to(&mut repair.state);
        }
        repair.check_tables(progress)?;
        repair.save_run_files(&|_, _| None)?;
        Ok(repair)
    }

    fn on_dram(repair: &mut Repair) -> Result<()> {
        index_image::remove(repair.env(), &repair.directory)?;
        let fast = in_plain_memory(&repair.options, &repair.state)?;
        if !repair.log_is_whole(&fast.pool) {
            repair.save_log(&fast.pool)?;
        }
        drop(fast);
        let (options, state) = (&*repair.options.clone(), repair.state.clone());
        let rebuilt =
            rebuild::as_far_as_possible(options, &repair.directory, &state, deletes_gone_through(repair)?, || {
                in_plain_memory(options, &state)
            })?;
        finish(repair, rebuilt)
    }

    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()> {
        repair.give_up_pool::<SlmRepair>(medium)?;
        let (options, state) = (&*repair.options.clone(), repair.state.clone());
        let rebuilt =
            rebuild::as_far_as_possible(options, &repair.directory, &state, deletes_gone_through(repair)?, || {
                in_pool::open::make(medium.clone(), options, &state)
            })?;
        rebuilt.fast.pool.seal()?;
        finish(repair, rebuilt)
    }
}

/// The sequence number up to which deletes may be in no table file any more: compactions have dropped them, or they went
/// with a damaged file.
fn deletes_gone_through(repair: &Repair) -> Result<u64> {
    let state = &repair.state;
    let dropped_through = Section::of(state)?.deletes_dropped_through;
    Ok(if repair.has_given_up_tables() { state.flushed_through } else { dropped_through })
}

/// Makes the rebuilt index the store's.
fn finish(repair: &mut Repair, rebuilt: Rebuilt) -> Result<()> {
    let Rebuilt { fast, checkpoints, live, lost, through, may_have_come_back } = rebuilt;
    repair.report.index_keys = live.iter().sum();
    for (file, live) in repair.state.files.values_mut().zip(live) {
        file.live_keys = live;
    }
    forget_what_was_dead(repair, &*fast.keys, through)?;
    for (key, sequence) in lost {
        let loss = Loss::Key { key, sequence };
        if !repair.report.losses.contains(&loss) {
            repair.report.losses.push(loss);
        }
    }
    let mut section = Section::of(&repair.state)?;
    if may_have_come_back {
        let through_sequence = section.deletes_dropped_through;
        repair.report.losses.push(Loss::Deletes { through_sequence });
    }
    if !repair.report.losses.is_empty() || repair.has_given_up_tables() {
        // Older versions of lost keys, and of keys whose deletes are lost, may lie in files. From now on no rebuild may
        // take them for the newest.
        section.deletes_dropped_through = repair.complete_through();
    }
    // What is lost must stay lost in every later rebuild, and no other checkpoint says so.
    let last = section.checkpoints.iter().chain(&checkpoints).map(|checkpoint| checkpoint.number).max();
    let new = NewCheckpoint {
        env: repair.env(),
        directory: &repair.directory,
        store_uuid: repair.state.files_uuid,
        index: &*fast.keys,
        pool_path: fast.pool.path(),
        number: last.unwrap_or(0).saturating_add(1),
        through: repair.complete_through(),
        files: repair.state.files.keys().copied().collect(),
    };
    let checkpoint = new.write(&|| false)?;
    section.checkpoints = checkpoint.into_iter().collect();
    section.write_to(&mut repair.state);
    repair.end()
}

/// Drops reported losses that were dead, or are whole in another file. At or below `through` a checkpoint shows what was
/// lost; above it, the deletes in table files do.
fn forget_what_was_dead(repair: &mut Repair, index: &dyn KeyIndex, through: u64) -> Result<()> {
    let mut unsure = LostKeys::new();
    for loss in &repair.report.losses {
        let Loss::Key { key, sequence } = loss else { continue };
        let is_there = index.get(key)?.is_some_and(|newest| newest.sequence >= *sequence);
        if *sequence > through && !is_there {
            let newest = unsure.entry(key.clone()).or_insert(*sequence);
            *newest = (*newest).max(*sequence);
        }
    }
    repair.take_out_replaced(&mut unsure)?;
    repair.tell_lost_keys(&unsure);
    Ok(())
}
