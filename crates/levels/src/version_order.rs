//! [`verify_levels`]: whether runs are where they may be, and whether going down finds ever older versions of each key (INV-L2).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use slmdb_engine::VerifyReport;
use slmdb_engine::read::merge::{Merge, Source};
use slmdb_env::{Error, Result};

use crate::depth::LEVEL_LAST;
use crate::jobs::level_source::{LEAST_WINDOW_BYTES, LevelSource};
use crate::run::Run;
use crate::version::Version;

/// Checks the levels, whose MANIFEST is `manifest`. If nothing was found before, all runs are read, and their versions compared.
pub fn verify_levels<R: Run>(version: &Version<R>, manifest: &Path, report: &mut VerifyReport) -> Result<()> {
    let finding = |what| Error::corruption(manifest, 0, what);
    report.findings.extend(version.check().err().map(finding));
    if !report.findings.is_empty() {
        return Ok(());
    }
    match find_newer_below_older(version) {
        Ok(found) => report.findings.extend(found.map(finding)),
        Err(error @ Error::Corruption { .. }) => report.findings.push(error),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Finds a version of a key that lies above a newer one, and tells of it.
pub(crate) fn find_newer_below_older<R: Run>(version: &Version<R>) -> Result<Option<String>> {
    // Runs of level 0 overlap, the newest first; those of another level don't.
    let of_level_zero = version.level(0).iter().map(|run| (0, vec![run.clone()]));
    let of_others = (1..=LEVEL_LAST).map(|level| (level, version.level(level).to_vec()));
    let (levels, sources): (Vec<u8>, Vec<LevelSource<R>>) = of_level_zero
        .chain(of_others.filter(|(_, runs)| !runs.is_empty()))
        .map(|(level, runs)| (level, LevelSource::new(runs, LEAST_WINDOW_BYTES, Arc::new(AtomicU32::new(0)))))
        .unzip();
    let order = version.order().clone();
    let mut merge = Merge::new(sources, order.clone(), Vec::new(), (None, None)).map_err(|(_, error)| error)?;
    // The last key, and the newest of its versions that lies deepest so far.
    let (mut key, mut newer): (Vec<u8>, Option<(usize, u64)>) = (Vec::new(), None);
    while let Some((position, source)) = merge.first() {
        let sequence = source.sequence();
        let newer_of_key = newer.filter(|_| order.compare(source.key(), &key).is_eq());
        if let Some((deeper, newest)) = newer_of_key.filter(|(deeper, newest)| position < *deeper && sequence < *newest)
        {
            let (level, below) = (levels[position], levels[deeper]);
            return Ok(Some(format!(
                "key {}: sequence number {sequence} on level {level} lies above the newer {newest} on level {below}",
                key.escape_ascii()
            )));
        }
        if newer_of_key.is_none() {
            key.clear();
            key.extend_from_slice(source.key());
        }
        newer = Some(newer_of_key.filter(|(deeper, _)| *deeper >= position).unwrap_or((position, sequence)));
        merge.advance().map_err(|(_, error)| error)?;
    }
    Ok(None)
}
