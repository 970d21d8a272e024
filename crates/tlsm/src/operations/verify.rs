//! Verification: every table file from end to end ([`FileVerifier`]); every list, with all its entries; the levels in order and
//! disjoint, and older versions of a key below newer ones; directory and pool against the MANIFEST. Commits of flushes and
//! compactions wait meanwhile. Reads and writes don't.

use std::sync::Arc;

use slmdb_engine::files::file_verifier::{FileVerifier, FilesUnderWay};
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{VerifyProgress, VerifyReport};
use slmdb_env::{Error, Result};
use slmdb_levels::{Run, Version};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, StoreState};
use slmdb_pmem::{Extent, ExtentKind};

use crate::persistent_skiplist::run::TlsmRun;
use crate::state::TlsmState;

/// See [`slmdb_engine::Engine::verify`].
/// LOCKS: memtables; indexing (tried); catalog
pub(crate) fn verify(
    store: &Parts,
    state: &TlsmState,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport> {
    let files: FileVerifier = store.file_verifier();
    let _agreement = store.writes.take_from_jobs(|| Ok(state.commit.try_lock()))?;
    let under_way = files.under_way();
    let named = files.catalog.lock().state().clone();
    let mut report = VerifyReport::default();
    store.writes.verify_memtables(&mut report);
    report.findings.extend(state.pool.verify());
    files.verify_tables(&named.files, &mut report, progress, |_, reader, report| {
        report.entries_checked += reader.properties().entries;
    });
    let version = state.levels.current();
    let manifest = store.context.directory.join(MANIFEST_NAME);
    if let Some(what) = difference(&version, &named) {
        report.findings.push(Error::corruption(&manifest, 0, what));
    }
    for (_, run) in version.runs() {
        if let Some(list) = run.list() {
            report.entries_checked += list.record().entries;
            report.findings.extend(list.list().verify());
        }
    }
    slmdb_levels::verify_levels(&version, &manifest, &mut report)?;
    find_stray_extents(state, &files, &under_way, &mut report);
    files.find_stray_tables(&named.files, &under_way, |number| state.levels.pins(number), &mut report)?;
    files.limit_findings(&mut report);
    Ok(report)
}

/// How the levels differ from what the MANIFEST says.
fn difference(version: &Arc<Version<TlsmRun>>, named: &StoreState) -> Option<String> {
    let mut in_levels: Vec<(u32, u8, bool)> =
        version.runs().map(|(level, run)| (run.number(), level, run.is_file())).collect();
    let mut in_manifest: Vec<(u32, u8, bool)> =
        named.runs().map(|(number, run)| (number, run.level, named.files.contains_key(&number))).collect();
    in_levels.sort_unstable();
    in_manifest.sort_unstable();
    let differing = in_levels.iter().find(|run| !in_manifest.contains(run));
    let differing = differing.or_else(|| in_manifest.iter().find(|run| !in_levels.contains(run)));
    differing
        .map(|(number, level, _)| format!("run {number} on level {level} is in the levels or in the MANIFEST alone"))
}

/// Finds extents of lists and segments that belong to nobody. What a crash has left over is for the next opening that writes.
fn find_stray_extents(state: &TlsmState, files: &FileVerifier, under_way: &FilesUnderWay, report: &mut VerifyReport) {
    let is_named = |extent: &Extent| match extent.kind {
        ExtentKind::List => state.segments.has_list(extent.owner),
        ExtentKind::Segment => state.segments.has(extent.offset),
        _ => true,
    };
    for extent in state.pool.extents() {
        // Segments belong to the first list of the job that makes them. What is named no more may have been freed since it was listed.
        let is_stray = !is_named(&extent)
            && files.is_stray(extent.owner, under_way)
            && state.pool.extent_at(extent.offset) == Some(extent);
        if is_stray {
            let what = format!("an extent ({:?}) that nothing names", extent.kind);
            report.findings.push(Error::corruption(state.pool.path(), extent.offset, what));
        }
    }
}
