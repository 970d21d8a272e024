//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. Lists of a pool that can
//! be read become table files of the same levels. The rest is [`slmdb_engine::repair`]'s and the levels'
//! ([`slmdb_levels::save_level_files`]).

use std::path::Path;
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::repair::{Repair, RepairSteps};
use slmdb_engine::{Loss, Options, RepairProgress};
use slmdb_env::{Error, Result};
use slmdb_order::EntryKind;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::list::{List, ListCursor};
use slmdb_table::{TableBuilder, TableForm};

use super::recover::{lists_of, open_levels, open_list};
use crate::KIND;

/// See the module.
pub(crate) struct TlsmRepair;

impl RepairSteps for TlsmRepair {
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair> {
        let mut repair = Repair::begin(&KIND, options, directory, |record| record.entries)?;
        repair.check_tables(progress)?;
        Ok(repair)
    }

    fn on_dram(repair: &mut Repair) -> Result<()> {
        save_tables(repair)?;
        let pool = Arc::new(slmdb_engine::directory::pool_binding::in_memory(&repair.options, &repair.state)?);
        if !repair.log_is_whole(&pool) {
            repair.save_log(&pool)?;
        }
        finish(repair)
    }

    /// Lists first: damaged files ask what is below them.
    fn save_lists(repair: &mut Repair, old_pool: Option<&Arc<Pool<AnyMedium>>>) -> Result<()> {
        if let Some(pool) = old_pool {
            let extents = lists_of(pool);
            for (number, record) in repair.state.lists.clone() {
                match open_list(&repair.options, number, &record, pool, &extents) {
                    Ok(list) => save_list(repair, Arc::new(list), record.level)?,
                    Err(error @ Error::Corruption { .. }) => repair.report.damage.push(error),
                    Err(error) => return Err(error),
                }
            }
        }
        save_tables(repair)
    }

    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()> {
        repair.give_up_pool::<TlsmRepair>(medium)?;
        slmdb_engine::directory::pool_binding::new_pool(medium.clone(), &repair.options, &repair.state)?.seal()?;
        finish(repair)
    }
}

/// Makes what can be read of damaged files the store's.
fn save_tables(repair: &mut Repair) -> Result<()> {
    slmdb_levels::save_level_files(repair)?;
    check_levels(repair)
}

/// Levels that contradict each other would be refused by every opening. That is better said before anything changes.
fn check_levels(repair: &Repair) -> Result<()> {
    let tables = Tables::new(&repair.options, repair.directory.clone(), repair.state.files_uuid).into();
    open_levels(&repair.options, &repair.directory, &repair.state, &tables, Vec::new()).map(drop)
}

/// Makes a table file of what can be read of a list: the newest version of each key. Of an entry whose value can't be read, a delete
/// with the same number.
fn save_list(repair: &mut Repair, list: Arc<List<AnyMedium>>, level: u8) -> Result<()> {
    let number = list.record().number;
    let mut cursor = ListCursor::new(list.clone());
    let mut filling: Option<(u32, TableBuilder)> = None;
    let mut last_key: Option<Vec<u8>> = None;
    let mut gap: Option<Gap> = None;
    for index in 0..list.record().entries {
        match cursor.seek_index(index) {
            Ok(()) => {}
            Err(error @ Error::Corruption { .. }) => {
                gap.get_or_insert_with(|| Gap { after: last_key.clone(), entries: 0, cause: error }).entries += 1;
                continue;
            }
            Err(error) => return Err(error),
        }
        let key = cursor.key();
        if let Some(gap) = gap.take() {
            gap.tell(repair, &list, key);
        }
        if last_key.as_deref() == Some(key) {
            // An older version: no reader asks for it any more.
            continue;
        }
        last_key = Some(key.to_vec());
        let (sequence, mut kind) = (cursor.sequence(), cursor.kind());
        let value = match cursor.value() {
            Ok(value) => value,
            Err(error) => {
                repair.report.damage.push(error);
                repair.report.losses.push(Loss::Key { key: key.to_vec(), sequence });
                kind = EntryKind::Delete;
                &[]
            }
        };
        let (_, builder) = match &mut filling {
            Some(filling) => filling,
            None => {
                let begun = repair.new_table(TableForm::LEVELS)?;
                filling.insert(begun)
            }
        };
        builder.add(key, sequence, kind, value)?;
    }
    if let Some(gap) = gap {
        gap.tell(repair, &list, &list.record().largest_key);
    }
    if let Some((number, builder)) = filling {
        repair.add_table(number, builder, level)?;
    }
    repair.state.lists.remove(&number);
    Ok(())
}

/// Entries of a list that can't be read, so that nobody knows their keys.
struct Gap {
    /// The last key before them.
    after: Option<Vec<u8>>,
    entries: u64,
    cause: Error,
}

impl Gap {
    /// Tells of it. `through`: no key of theirs is larger.
    fn tell(self, repair: &mut Repair, list: &List<AnyMedium>, through: &[u8]) {
        repair.report.damage.push(self.cause);
        repair.report.losses.push(Loss::Entries {
            number: list.record().number,
            entries: self.entries,
            smallest_key: self.after.unwrap_or_else(|| list.record().smallest_key.to_vec()),
            largest_key: through.to_vec(),
            older_may_be_back: true,
        });
    }
}

fn finish(repair: &mut Repair) -> Result<()> {
    repair.report.index_keys = repair.state.files.values().map(|file| file.entries - file.deletes).sum();
    let mut lost = repair.lost_keys();
    repair.take_out_replaced(&mut lost)?;
    repair.tell_lost_keys(&lost);
    // What was in MemTables is in files of level 0 by now.
    check_levels(repair)?;
    repair.end()
}
