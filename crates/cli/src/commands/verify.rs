//! `verify`: everything read, and compared with its checksums and with the index.

use slmdb::{Db, ErrorKind, VerifyReport};

use crate::arguments::StoreArguments;
use crate::failure::{Exit, Failure, Result, one_line};
use crate::output::Output;
use crate::progress::Progress;
use crate::units::count;

const AFTER_HELP: &str = "\
Prints a line for each thing that is wrong, with its file and offset, then a summary. Changes nothing.
Exit codes: 0 all is well; 1 there is damage; 3 the store could not be examined.

Example:
  slmdb verify --db debs";

/// What `verify` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: StoreArguments,
}

/// Checks `db` and writes what is wrong and a summary to `output`, `before` in front of each line. Gives the number of
/// findings.
pub fn check(db: &Db, output: &mut Output, before: &str) -> Result<u64> {
    let progress = Progress::of_bytes("verifying", Some(0));
    let report = db.verify(&mut |so_far| progress.at_of(so_far.done_bytes, so_far.total_bytes))?;
    drop(progress);
    let findings = report.findings.len() as u64;
    let written = write(&report, output, before);
    written.map_err(|failure| failure.after(format!("the store was verified (findings: {findings})")))?;
    Ok(findings)
}

fn write(report: &VerifyReport, output: &mut Output, before: &str) -> Result<()> {
    for finding in &report.findings {
        let line = format!("{}: {finding}", finding.kind().name());
        output.line(&format!("{before}{}", one_line(&line)))?;
    }
    let checked = format!(
        "{} table files with {} entries, {} keys in the index, {} entries in MemTables",
        count(report.table_files_checked),
        count(report.entries_checked),
        count(report.index_keys_checked),
        count(report.memtable_entries),
    );
    let verdict = match report.findings.len() as u64 {
        0 => format!("ok: nothing wrong in {checked}"),
        1 => format!("damaged: 1 finding in {checked}"),
        more => format!("damaged: {} findings in {checked}", count(more)),
    };
    output.line(&format!("{before}{verdict}"))?;
    output.flush()
}

/// Verifies. A store too damaged to be opened has been found damaged, too.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let mut output = Output::standard();
    let found = arguments.store.open_for_reading().and_then(|db| check(&db, &mut output, ""));
    match found {
        Ok(0) => Ok(Exit::Done),
        Ok(_) => Ok(Exit::No),
        Err(Failure::Store(error)) if error.kind() == ErrorKind::Corruption => {
            output.line(&one_line(&format!("corruption: {error}")))?;
            output.line("damaged: the store can't be opened")?;
            output.flush()?;
            Ok(Exit::No)
        }
        Err(failure) => Err(failure),
    }
}
