//! The trees of a `Dram` store, made again from its run files; and those of a store whose pool is made anew.
//!
//! Each tree gets the entries of the run files of its era, oldest first: the newest version of a key stays. Of the
//! immutable tree's keys those that have gone to level 1 are left out. This is right because run files leave the MANIFEST
//! oldest first (I4), and because a delete is dropped only if no run file has anything older (I8). What comes back beside
//! that is in the levels, too, with the same number.

use std::path::Path;

use slmdb_engine::Options;
use slmdb_engine::files::table_cache::Tables;
use slmdb_env::Result;
use slmdb_manifest::StoreState;
use slmdb_structures::hybrid_tree::Entry;

use super::trees_in_pool::{self, Trees};
use crate::flush::version;
use crate::level_zero::run_files;
use crate::level_zero::state::Eras;

/// The trees of a `Dram` store.
pub(crate) fn in_memory(options: &Options, directory: &Path, state: &StoreState) -> Result<Trees> {
    let trees = trees_in_pool::in_memory(options, state)?;
    fill(&trees, options, directory, state)?;
    Ok(trees)
}

/// Brings what the run files have into empty trees.
pub(crate) fn fill(trees: &Trees, options: &Options, directory: &Path, state: &StoreState) -> Result<()> {
    let eras = Eras::of(state)?;
    let tables = Tables::new(options, directory.into(), state.files_uuid);
    for run_file in run_files(state) {
        let (number, tree) = (run_file.0, &trees[eras.tree(run_file) as usize]);
        let keys = tables.reader(number)?.key_section()?;
        let mut failure = None;
        let entries = keys.newest_entries().map_while(|entry| entry.map_err(|error| failure = Some(error)).ok());
        let left = entries.filter(|entry| eras.has(run_file, entry.key, &options.comparator));
        tree.apply(left.map(|entry| Entry { key: entry.key, version: version(number, &entry) }), |_, _| ())?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        tables.forget(number);
    }
    Ok(())
}
