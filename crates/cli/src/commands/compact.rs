//! `compact`: table files merged now.

use std::time::Duration;

use crate::arguments::{Missing, WritableStoreArguments};
use crate::failure::{Exit, Result};
use crate::output::tell;
use crate::progress::Progress;
use crate::span::SpanArguments;
use crate::units;

const AFTER_HELP: &str = "\
Takes every table file that has keys in the range. Afterwards no two of them overlap there, and nothing obsolete is left
in them but deletes that are still needed. The store compacts by itself what is worth it; this is for a store that will
be read much and written little, or for space that is wanted back at once. It needs space for the new files beside the
old ones.

Examples:
  slmdb compact --db debs
  slmdb compact --db debs --prefix lib
  slmdb compact --db log --from 2026-11-01 --to 2026-12-01";

/// How often the progress is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// What `compact` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    #[command(flatten)]
    span: SpanArguments,
}

/// Compacts, and says what came of it.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open(Missing::Refuse)?;
    db.flush()?;
    let before = db.stats();
    let progress = Progress::of_bytes("compacting", Some(before.table_bytes));
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range(arguments.span.span().bounds()));
        while !compacting.is_finished() {
            std::thread::sleep(BETWEEN_LOOKS);
            progress.at(db.stats().since_open.compaction_bytes_read);
        }
        compacting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    drop(progress);
    let after = db.stats();
    let told = |stats: &slmdb::Stats| {
        format!("{} table files, {}", units::count(stats.table_files), units::bytes(stats.table_bytes))
    };
    tell(&format!("compacted: {} before, {} now", told(&before), told(&after)));
    db.close()?;
    Ok(Exit::Done)
}
