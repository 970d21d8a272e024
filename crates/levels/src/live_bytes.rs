//! [`live_bytes`]: how much of levels is no garbage.

use std::ops::Bound;

use crate::run::Run;
use crate::version::Version;

/// What of these levels is not garbage, in bytes, about: the deepest level, and what lies above it and overlaps nothing below.
pub fn live_bytes<R: Run>(version: &Version<R>) -> u64 {
    let deepest = version.deepest_level((Bound::Unbounded, Bound::Unbounded)).unwrap_or(0);
    let is_alone = |level: u8, run: &R| {
        let record = run.record();
        let range = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
        (level + 1..=deepest).all(|below| version.overlapping(below, range).is_empty())
    };
    version.runs().filter(|(level, run)| is_alone(*level, run)).map(|(_, run)| run.record().bytes).sum()
}
