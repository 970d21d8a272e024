//! `export`: everything, in key order, in a form that `import` reads back.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use slmdb::{Cursor, Db};

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Failure, Result};
use crate::formats::ExportFormat;
use crate::output::{Output, tell_people};
use crate::progress::Progress;
use crate::span::Span;
use crate::units::{self, count, megabytes_per_second, per_second};

const AFTER_HELP: &str = "\
Importing what was exported gives a store with the same keys and values, whatever bytes are in them.
If something can't be read, the export ends with a message and exit code 3, never quietly.
FILE is written under another name beside it and takes its name once it is whole and durable. Whatever goes wrong before,
also a signal, leaves nothing under that name, or the file that was there. Pipes and devices are written as it goes.
A FILE in the directory of a store is refused, and so is a store's pool.

Examples:
  slmdb export --db fruit > fruit.tsv
  slmdb export --db fruit fruit.jsonl
  slmdb export --db old | slmdb import --db new -";

/// What `export` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    options: ExportOptions,
}

/// What is written, and where to. The shell's `export` takes the same.
#[derive(clap::Args, Debug)]
pub struct ExportOptions {
    /// What to write [default: by the file's name; jsonl for .jsonl .ndjson .json, else tsv]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// The file to write, replacing one that is there; - for standard output
    #[arg(default_value = "-")]
    file: PathBuf,
}

impl ExportOptions {
    /// The file to write; none for standard output.
    pub fn file(&self) -> Option<&Path> {
        if self.file == Path::new("-") { None } else { Some(&self.file) }
    }
}

/// Writes every record of a new cursor's moment to the file, or else to `output`, `before` in front of each line there.
pub fn export(options: &ExportOptions, db: &Db, cursor: Cursor, output: &mut Output, before: &[u8]) -> Result<()> {
    let started = Instant::now();
    let Some(file) = options.file() else {
        let mut exported = Exported::default();
        let written = write(options, db, cursor, output, before, &mut exported);
        // What was read before a failure is shown; the failure decides how the command ends.
        let flushed = output.flush();
        return written.and(flushed);
    };
    let mut output = Output::file(file)?;
    let mut exported = Exported::default();
    let stays = output.what_stays();
    let written = write(options, db, cursor, &mut output, b"", &mut exported).and_then(|()| output.finish());
    let Exported { records, bytes } = exported;
    written.map_err(|failure| match (failure, stays) {
        (Failure::ClosedPipe, _) => Failure::ClosedPipe,
        (failure, stays) => {
            let so_far = format!("{} records ({}) were exported", count(records), units::bytes(bytes));
            failure.after(so_far).leaving(stays.unwrap_or("what was written before stays"))
        }
    })?;
    let elapsed = started.elapsed();
    tell_people(&format!(
        "exported {records} in {:.2} s: {:.0} keys/s, {:.1} MB/s",
        elapsed.as_secs_f64(),
        per_second(records, elapsed),
        megabytes_per_second(bytes, elapsed)
    ));
    Ok(())
}

/// How much has been written.
#[derive(Debug, Default)]
struct Exported {
    records: u64,
    bytes: u64,
}

fn write(
    options: &ExportOptions,
    db: &Db,
    cursor: Cursor,
    output: &mut Output,
    before: &[u8],
    exported: &mut Exported,
) -> Result<()> {
    let format = options.format.unwrap_or_else(|| ExportFormat::by_name(&options.file));
    // A bar between records on the same terminal helps nobody.
    let progress = match options.file().is_some() || !io::stdout().is_terminal() {
        true => Some(Progress::of_operations("exporting", Some(db.approximate::<&[u8]>(..)?.keys))),
        false => None,
    };
    let mut line = Vec::new();
    Span::everything().walk(cursor, false, None, |cursor| {
        line.clear();
        line.extend_from_slice(before);
        let value = cursor.value()?;
        format.write_record(&mut line, cursor.key(), &value);
        output.write(&line)?;
        exported.records += 1;
        exported.bytes += (cursor.key().len() + value.len()) as u64;
        if let Some(progress) = &progress {
            progress.at(exported.records);
        }
        Ok(())
    })?;
    Ok(())
}

/// Exports. The file is touched only once the store is open.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    export(&arguments.options, &db, db.cursor()?, &mut Output::standard(), b"")?;
    Ok(Exit::Done)
}
