//! Verification: every table file from end to end ([`FileVerifier`]), the levels in order and disjoint, the directory against the
//! MANIFEST. Commits of flushes and compactions wait meanwhile. Reads and writes don't.

use slmdb_engine::files::file_verifier::FileVerifier;
use slmdb_engine::files::obsolete_files::PinnedFiles;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::{VerifyProgress, VerifyReport};
use slmdb_env::{Error, Result};
use slmdb_manifest::FILE_NAME as MANIFEST_NAME;

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
    let named = files.catalog.lock().state().files.clone();
    let mut report = VerifyReport::default();
    store.writes.verify_memtables(&mut report);
    report.findings.extend(state.pool.verify());
    files.verify_tables(&named, &mut report, progress, |_, reader, report| {
        report.entries_checked += reader.properties().entries;
    });
    if let Err(what) = state.levels.current().check() {
        report.findings.push(Error::corruption(store.context.directory.join(MANIFEST_NAME), 0, what));
    }
    files.find_stray_tables(&named, &under_way, |number| state.levels.pins(number), &mut report)?;
    files.limit_findings(&mut report);
    Ok(report)
}
