//! The key segments in the pool, against the table files that the MANIFEST names.

use std::collections::BTreeMap;

use slmdb_engine::VerifyReport;
use slmdb_env::Error;
use slmdb_manifest::FileRecord;
use slmdb_pmem::{AnyMedium, Extent, ExtentKind, Pool};
use slmdb_structures::fast_fair::Segment;

/// See [`KeyIndex::verify_files`](super::KeyIndex::verify_files).
pub(super) fn verify_segments(
    pool: &Pool<AnyMedium>,
    files: &BTreeMap<u32, FileRecord>,
    keys_of: &dyn Fn(u32) -> Option<u64>,
    is_stray: &dyn Fn(u32) -> bool,
    report: &mut VerifyReport,
) {
    let mut segments: BTreeMap<u32, Vec<Extent>> = BTreeMap::new();
    for extent in pool.extents() {
        if extent.kind == ExtentKind::KeySegment {
            segments.entry(extent.owner).or_default().push(extent);
        }
    }
    for (number, parts) in &segments {
        if is_stray(*number) && parts.iter().any(|part| pool.extent_at(part.offset) == Some(*part)) {
            let what = format!("a key segment of table file {number}, which the MANIFEST does not know");
            report.findings.push(Error::corruption(pool.path(), parts[0].offset, what));
        }
    }
    for (number, file) in files {
        let parts = segments.get(number).map_or(&[][..], Vec::as_slice);
        match Segment::open(pool, parts) {
            // A rebuild gives a segment records of what was live then, and no others. If the keys can't be read, that has
            // been reported already.
            Ok(segment) => {
                let keys = keys_of(*number).filter(|keys| !(file.live_keys..=*keys).contains(&segment.count()));
                if let Some(keys) = keys {
                    let count = segment.count();
                    let what = format!("the key segment of table file {number} has {count} records for {keys} keys");
                    report.findings.push(Error::corruption(pool.path(), segment.parts()[0].offset, what));
                }
            }
            Err(_) if parts.is_empty() => {
                let what = format!("the key segment of table file {number} is missing");
                report.findings.push(Error::corruption(pool.path(), 0, what));
            }
            Err(error) => report.findings.push(error),
        }
    }
}
