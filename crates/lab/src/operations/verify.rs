//! Verification: everything in the store, checked against everything else.
//!
//! - Every table file from end to end ([`FileVerifier`]).
//! - Both trees: chain, order, fingerprints, check bytes, slots.
//! - Every record of a tree against the key section of its run file.
//! - Both trees against what an opening would make of the run files, if they were lost ([`crate::recovery`]). What a file
//!   scan has taken out must be in the levels.
//! - The levels: in order, disjoint, and older versions of a key below newer ones.
//! - The directory against the MANIFEST.
//!
//! Flushes and compactions of level 0 wait meanwhile. Reads and writes don't.

use std::collections::HashMap;
use std::sync::Arc;

use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{VerifyProgress, VerifyReport};
use slmdb_env::{Error, Result};
use slmdb_manifest::FILE_NAME as MANIFEST_NAME;
use slmdb_pmem::AnyMedium;
use slmdb_structures::hybrid_tree::{HybridTree, LeafCopy, Version};
use slmdb_sync::scheduled::MutexGuard;

use crate::compaction::compactor::Compactor;
use crate::flush::version;
use crate::level_zero::state::Eras;
use crate::level_zero::{self};
use crate::state::LabState;

/// Where the entries of a run file lie: key and version.
type Records = HashMap<Vec<u8>, Version>;

/// Checks everything there is against everything else.
pub(crate) struct Verifier<'s> {
    pub(crate) files: FileVerifier,
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<LabState>,
    pub(crate) compactor: &'s Compactor,
}

impl Verifier<'_> {
    /// See [`slmdb_engine::Engine::verify`].
    /// LOCKS: memtables; chunk, indexing (tried); catalog
    pub(crate) fn verify(&self, progress: &mut dyn FnMut(VerifyProgress)) -> Result<VerifyReport> {
        let _chunk = self.store.writes.take_from_jobs(|| Ok(self.compactor.chunk.try_lock()))?;
        let _agreement = self.agreement()?;
        let under_way = self.files.under_way();
        let files = self.files.catalog.lock().state().files.clone();
        let mut report = VerifyReport::default();
        self.store.writes.verify_memtables(&mut report);
        report.findings.extend(self.state.level_zero.pool.verify());
        report.findings.extend(HybridTree::verify(&self.state.level_zero.trees()));
        let mut run_files: HashMap<u32, Records> = HashMap::new();
        self.files.verify_tables(&files, &mut report, progress, |number, reader, report| {
            report.entries_checked += reader.properties().entries;
            if !reader.is_searched_by_key() {
                match records(number, reader) {
                    Ok(records) => drop(run_files.insert(number, records)),
                    Err(error) => report.findings.push(error),
                }
            }
        });
        for tree in self.state.level_zero.trees() {
            let found = self.verify_records(tree, &run_files, &mut report);
            self.verify_rebuild(tree, found.as_ref(), &run_files, &mut report);
        }
        let manifest = self.files.context.directory.join(MANIFEST_NAME);
        slmdb_levels::verify_levels(&self.state.levels.current(), &manifest, &mut report)?;
        let is_kept = |number| slmdb_engine::files::obsolete_files::PinnedFiles::pins(&self.state.levels, number);
        self.files.find_stray_tables(&files, &under_way, is_kept, &mut report)?;
        self.files.limit_findings(&mut report);
        Ok(report)
    }

    /// Waits until no flush is between its first change of a tree and its commit, and keeps it so. See
    /// [`WritePath::take_from_jobs`].
    /// LOCKS: memtables, indexing (tried); indexing is held by what is returned
    fn agreement(&self) -> Result<MutexGuard<'_, bool>> {
        self.store.writes.take_from_jobs(|| match self.state.level_zero.indexing.try_lock() {
            Some(is_ahead) if *is_ahead => {
                let what = "a flush was given up; the store can be verified when it has been opened again";
                Err(Error::ReadOnly { cause: what.into() })
            }
            agreement => Ok(agreement),
        })
    }

    /// Checks that each record of a tree leads to an entry of its run file. Returns what the tree has, unless it can't be
    /// read.
    fn verify_records(
        &self,
        tree: &HybridTree<AnyMedium>,
        run_files: &HashMap<u32, Records>,
        report: &mut VerifyReport,
    ) -> Option<Records> {
        let (mut leaves, mut copy, mut found) = (tree.leaves(), LeafCopy::default(), Records::new());
        loop {
            match leaves.copy_next(&mut copy) {
                Ok(true) => {}
                Ok(false) => return Some(found),
                Err(error) => {
                    report.findings.push(error);
                    return None;
                }
            }
            for (key, version) in copy.iter() {
                let in_file = run_files.get(&version.file).and_then(|records| records.get(key));
                if in_file != Some(&version) {
                    let what = format!("level 0 leads to table file {}, which does not have the entry", version.file);
                    report.findings.push(Error::corruption(self.state.level_zero.pool.path(), 0, what));
                }
                found.insert(key.to_vec(), version);
            }
        }
    }

    /// Checks that the run files alone would give the same tree.
    fn verify_rebuild(
        &self,
        tree: &HybridTree<AnyMedium>,
        found: Option<&Records>,
        run_files: &HashMap<u32, Records>,
        report: &mut VerifyReport,
    ) {
        let state = self.files.catalog.lock().state().clone();
        let is_whole = state.files.iter().all(|(number, file)| file.level > 0 || run_files.contains_key(number));
        // What can't be read was told already.
        let (Some(found), true, Ok(eras)) = (found, is_whole, Eras::of(&state)) else { return };
        let mut rebuilt = Records::new();
        for run_file in level_zero::run_files(&state) {
            if eras.tree(run_file) != tree.number() {
                continue;
            }
            let entries = run_files.get(&run_file.0).into_iter().flatten();
            for (key, version) in entries.filter(|(key, _)| eras.has(run_file, key, tree.order())) {
                let newest = rebuilt.entry(key.clone()).or_insert(*version);
                *newest = if newest.sequence < version.sequence { *version } else { *newest };
            }
        }
        let is_same = rebuilt.len() >= found.len()
            && found.iter().all(|(key, version)| rebuilt.get(key) == Some(version))
            && rebuilt.iter().all(|(key, version)| found.contains_key(key) || self.has_moved_on(key, version, report));
        if !is_same {
            let what = format!("tree {} of level 0 is not what its run files have", tree.number());
            report.findings.push(Error::corruption(self.state.level_zero.pool.path(), 0, what));
        }
    }

    /// Whether what a tree lacks of its run files is right to be missing. The levels have what a file scan took out, or
    /// something newer. If not, whoever looks for the key finds something newer before: a chunk leaves that out, and an
    /// opening takes out what a flush replaced that did not commit.
    fn has_moved_on(&self, key: &[u8], version: &Version, report: &mut VerifyReport) -> bool {
        let view = self.store.writes.view.load();
        let in_memtables = view.memtables.iter().find_map(|memtable| memtable.get(key, u64::MAX));
        if in_memtables.is_some_and(|newer| newer.sequence > version.sequence) {
            return true;
        }
        let in_mutable = self.state.level_zero.mutable().get(key);
        let in_levels = self.state.levels.current().get(key, u64::MAX).map(|found| found.map(|found| found.sequence));
        match (in_mutable, in_levels) {
            (Ok(in_mutable), Ok(in_levels)) => {
                in_levels.is_some_and(|sequence| sequence >= version.sequence)
                    || in_mutable.is_some_and(|newer| newer.sequence > version.sequence)
            }
            (Err(error), _) | (_, Err(error)) => {
                report.findings.push(error);
                true
            }
        }
    }
}

fn records(number: u32, reader: &slmdb_table::TableReader) -> Result<Records> {
    let keys = reader.key_section()?;
    keys.newest_entries().map(|entry| entry.map(|entry| (entry.key.to_vec(), version(number, &entry)))).collect()
}
