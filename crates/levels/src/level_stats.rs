//! [`level_stats`]: what each level has.

use slmdb_engine::LevelStats;

use crate::run::Run;
use crate::version::Version;

/// What each level has, down to the deepest that has something.
pub fn level_stats<R: Run>(version: &Version<R>) -> Vec<LevelStats> {
    let mut levels = Vec::new();
    for (level, run) in version.runs() {
        levels.resize(usize::from(level) + 1, LevelStats::default());
        let (bytes, counted) = (run.record().bytes, &mut levels[usize::from(level)]);
        counted.runs += 1;
        counted.bytes += bytes;
        counted.bytes_in_pool += if run.is_file() { 0 } else { bytes };
    }
    levels
}
