//! `compact`: table files merged now.

use std::time::Duration;

use crate::arguments::{Missing, StoreArguments, WriteArguments};
use crate::bytes::Word;
use crate::failure::{Exit, Result};
use crate::output::tell;
use crate::progress::Progress;
use crate::span::Span;
use crate::units;

const AFTER_HELP: &str = "\
Afterwards no two table files overlap in the range, and nothing obsolete is left in them but deletes that are still
needed. The store compacts by itself what is worth it; this is for a store that will be read much and written little, or
for space that is wanted back at once. It needs space for the new files beside the old ones.

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
    store: StoreArguments,
    #[command(flatten)]
    write: WriteArguments,
    /// Only files with keys from this one on; it is included
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    from: Option<Word>,
    /// Only files with keys before this one
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    to: Option<Word>,
    /// Only files with keys that begin with this
    #[arg(long, value_name = "KEY", value_parser = Word::parser(), allow_hyphen_values = true)]
    prefix: Option<Word>,
}

/// Compacts, and says what came of it.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let bytes = |word: &Option<Word>| word.as_ref().map(|word| word.0.clone());
    let span = Span::new(bytes(&arguments.from), bytes(&arguments.to), bytes(&arguments.prefix));
    let db = arguments.store.open_for_writing(&arguments.write, Missing::Refuse)?;
    db.flush()?;
    let before = db.stats();
    let progress = Progress::of_bytes("compacting", Some(before.table_bytes));
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| db.compact_range(span.bounds()));
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
