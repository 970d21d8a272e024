//! [`Debt`]: how much is still to be moved down, for pacing.

use crate::depth::LEVEL_LAST;
use crate::options::LevelOptions;
use crate::run::Run;
use crate::version::Version;

/// How much is still to be moved down until every level is within its bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Debt {
    /// What levels have beyond what they may hold, in bytes. All of level 0, once it has enough runs to be merged.
    pub above_target_bytes: u64,
    /// About how many bytes compactions will read until nothing is above its bound: what is moved down, and what it
    /// meets there, level after level.
    pub pending_bytes: u64,
    /// How full the fullest level is: 1 is as full as it may be.
    pub fullest: f64,
}

impl Debt {
    pub(crate) fn of<R: Run>(version: &Version<R>, options: &LevelOptions) -> Debt {
        let mut debt = Debt::default();
        // What the level above will send down.
        let mut incoming = 0;
        for level in 0..LEVEL_LAST {
            let (own, below) = (version.level_bytes(level), version.level_bytes(level + 1));
            let target = options.target_bytes(level);
            let (excess, part) = match level {
                0 => excess_of_level_0(version, options),
                _ => (own.saturating_sub(target), own as f64 / target as f64),
            };
            debt.above_target_bytes += excess;
            debt.fullest = debt.fullest.max(part);
            let bytes = own + incoming;
            let leaving = if level == 0 { excess } else { bytes.saturating_sub(target) };
            debt.pending_bytes = debt.pending_bytes.saturating_add(leaving + met_below(leaving, bytes, below));
            incoming = leaving;
        }
        debt
    }
}

/// Level 0 goes down as a whole. How many runs it has says how full it is.
fn excess_of_level_0<R: Run>(version: &Version<R>, options: &LevelOptions) -> (u64, f64) {
    let runs = version.level(0).len();
    let excess = if runs >= options.level_0_runs { version.level_bytes(0) } else { 0 };
    (excess, runs as f64 / options.level_0_runs as f64)
}

/// What of the level below `leaving` of a level's `bytes` meet, if keys are spread alike.
fn met_below(leaving: u64, bytes: u64, below: u64) -> u64 {
    (u128::from(below) * u128::from(leaving) / u128::from(bytes.max(1))) as u64
}
