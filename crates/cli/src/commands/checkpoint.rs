//! `checkpoint`: a copy of the store.

use std::path::PathBuf;

use crate::arguments::WritableStoreArguments;
use crate::failure::{Exit, Result};
use crate::progress::Progress;

const AFTER_HELP: &str = "\
The copy is a store of its own, without a fast tier: it opens on plain memory. It shares the table files with this one
(hard links), so it is made at once and takes no space until one of the two compacts; on another file system the files
are copied. DIR must be new or empty, or hold a copy that was cut short. A store that may only be read, such as on a
read-only mount, is copied entry by entry.

Examples:
  slmdb checkpoint --db debs debs-of-today
  slmdb checkpoint --db debs /backup/debs && slmdb verify --db /backup/debs";

/// What `checkpoint` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    /// Where the copy is to be
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Makes the copy.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_to_copy()?;
    let progress = Progress::of_time("copying");
    db.checkpoint(&arguments.directory)?;
    drop(progress);
    db.close()?;
    Ok(Exit::Done)
}
