//! `export`: everything, in key order, in a form that `import` reads back.

use std::path::{Path, PathBuf};
use std::time::Instant;

use slmdb::Cursor;

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Result};
use crate::formats::ExportFormat;
use crate::output::{Output, tell_people};
use crate::span::Span;
use crate::units::{megabytes_per_second, per_second};

const AFTER_HELP: &str = "\
Importing what was exported gives a store with the same keys and values, whatever bytes are in them.
If something can't be read, the export ends with a message and exit code 3, never quietly.

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

/// Writes every record of a new cursor's moment to `output`, `before` in front of each line.
pub fn export(options: &ExportOptions, cursor: Cursor, output: &mut Output, before: &[u8]) -> Result<()> {
    let format = options.format.unwrap_or_else(|| ExportFormat::by_name(&options.file));
    let started = Instant::now();
    let mut line = Vec::new();
    let mut exported_bytes = 0;
    let written = Span::everything().walk(cursor, false, None, |cursor| {
        line.clear();
        line.extend_from_slice(before);
        let value = cursor.value()?;
        format.write_record(&mut line, cursor.key(), &value);
        exported_bytes += (cursor.key().len() + value.len()) as u64;
        output.write(&line)
    });
    // What was read before a failure is shown; the failure decides how the command ends.
    let flushed = output.flush();
    let exported = written?;
    flushed?;
    if options.file().is_some() {
        let elapsed = started.elapsed();
        tell_people(&format!(
            "exported {exported} in {:.2} s: {:.0} keys/s, {:.1} MB/s",
            elapsed.as_secs_f64(),
            per_second(exported, elapsed),
            megabytes_per_second(exported_bytes, elapsed)
        ));
    }
    Ok(())
}

/// Exports. The file is touched only once the store is open.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = arguments.store.open_for_reading()?;
    let mut output = match arguments.options.file() {
        Some(file) => Output::file(file)?,
        None => Output::standard(),
    };
    export(&arguments.options, db.cursor()?, &mut output, b"")?;
    Ok(Exit::Done)
}
