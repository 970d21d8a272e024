//! `import`: records from a file or a pipe, in batches.
//!
//! A batch is what a crash takes or leaves as a whole. They are small: large enough that a batch's cost is shared, small
//! enough that a malformed line finds nearly everything before it in the store already, the rest following at once. Where
//! the next record would have to be waited for, what has gathered is written first.

use std::cell::RefCell;
use std::io::{BufReader, Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use slmdb::{Db, WriteBatch};

use crate::arguments::{Missing, WritableStoreArguments};
use crate::failure::{Exit, Failure, Result, one_line};
use crate::formats::{Foreign, ImportFormat, Malformed, Record, Step, read_head, reader, recognize};
use crate::input::Input;
use crate::output::tell;
use crate::progress::Progress;
use crate::units::{megabytes_per_second, per_second};

const BATCH_RECORDS: usize = 1000;
const BATCH_BYTES: usize = 1 << 20;
/// An import of this size ends with a flush: every later command opens the store anew, and would read so much back from
/// the MemTables each time. A small one does not, so that many of them do not make as many small table files.
const FLUSH_FROM_BYTES: u64 = 16 << 20;
const INPUT_BUFFER_BYTES: usize = 256 * 1024;

const AFTER_HELP: &str = "\
A malformed line ends the import with its number (exit code 3); what came before it is in the store. With
--skip-bad it is counted and passed over. Of records with the same key the last wins.
What has been read from a pipe is stored before more is waited for. SIGINT (Ctrl-C) and SIGTERM end the import in order:
what was read whole is stored and told; exit code 130 or 143. The second one ends it at once.

All formats are UTF-8 and read by lines, which end with LF or CR LF. A byte order mark at the start is taken off, and
blank lines are passed over. UTF-16, UTF-32, packed files, databases and JSON arrays are refused by name before anything
is stored.

tsv: the first tab ends the key; spaces are not trimmed. Bytes that are not UTF-8 are taken as they are.
jsonl: {\"key\":…,\"value\":…}, strings, and nothing beside them; key_b64, value_b64 for bytes that are not UTF-8. With
  --key FIELD an object may be anything: the value is the whole line, the key what FIELD says (a string's text; a
  number or boolean as it stands there). A field that is read and given twice makes a line malformed.
paragraphs: `Field: text` lines, continued by lines that start with a space or tab; blank lines (empty, or only spaces
  and tabs) end a stanza. --key names the field that is the key, whatever its case; the first one in a stanza counts.
  The value is the stanza's lines, joined by line feeds, none at the end.

Examples:
  slmdb import --db fruit fruit.tsv
  apt-cache dumpavail | slmdb import --format paragraphs --key Package --db debs -
  zcat events.jsonl.gz | slmdb import --db events --format jsonl --key id --skip-bad -";

/// What `import` takes.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    store: WritableStoreArguments,
    #[command(flatten)]
    options: ImportOptions,
}

/// What is read, and how. The shell's `import` takes the same.
#[derive(clap::Args, Debug)]
pub struct ImportOptions {
    /// What the input is [default: by the file's name; jsonl for .jsonl .ndjson .json, else tsv]
    #[arg(long, value_enum)]
    format: Option<ImportFormat>,
    /// The field that holds the key (jsonl, paragraphs)
    #[arg(long, value_name = "FIELD")]
    key: Option<String>,
    /// Pass over malformed records and count them
    #[arg(long)]
    skip_bad: bool,
    /// The file to read; - for standard input
    file: PathBuf,
}

impl ImportOptions {
    /// Whether standard input is to be read.
    pub fn reads_standard_input(&self) -> bool {
        self.file == Path::new("-")
    }

    fn format(&self) -> Result<ImportFormat> {
        let format = self.format.unwrap_or_else(|| ImportFormat::by_name(&self.file));
        match (format, &self.key) {
            (ImportFormat::Paragraphs, None) => Err(Failure::usage(
                "--format paragraphs alone doesn't say what the key is; name its field with --key FIELD",
            )),
            (ImportFormat::Tsv, Some(_)) => {
                Err(Failure::usage("--key FIELD is for jsonl and paragraphs; a tsv line begins with its key"))
            }
            (_, Some(key)) if key.is_empty() => Err(Failure::usage("--key is empty; give the name of a field")),
            _ => Ok(format),
        }
    }

    fn open(&self) -> Result<Input> {
        if self.reads_standard_input() { Input::standard() } else { Input::open(&self.file) }
    }
}

/// Reads records into `db`, and says how many and how fast. The store is asked for only once there is an input, and it is
/// known to be no file of another kind, given by mistake.
pub fn import(options: &ImportOptions, db: impl FnOnce() -> Result<Db>) -> Result<Db> {
    let format = options.format()?;
    let input = options.open()?;
    let started = Instant::now();
    let head = match read_head(&mut &input, format).map_err(|error| input.failure(error)) {
        Ok(head) => head,
        Err(failure) => {
            if matches!(failure, Failure::Interrupted(_)) {
                tell_numbers(&Numbers::default(), started, " (interrupted)");
            }
            return Err(failure);
        }
    };
    if let Some(Foreign { name, remedy }) = recognize(&head, format) {
        return Err(Failure::invalid(format!("this is {name} [{}]; {remedy}", input.name.display())));
    }
    let db = db()?;

    let started = Instant::now();
    let pending = RefCell::new(Pending { db: &db, batch: WriteBatch::new(), bytes: 0, numbers: Numbers::default() });
    let ended = take_records(options, format, head, &input, &pending);
    let numbers = pending.into_inner().numbers;
    match ended {
        Ok(()) => {
            if numbers.imported_bytes >= FLUSH_FROM_BYTES {
                db.flush()?;
            }
            if numbers.imported == 0 {
                tell(&one_line(&format!("slmdb: warning: no record was found in {}", input.name.display())));
            }
            tell_numbers(&numbers, started, "");
            Ok(db)
        }
        Err(failure @ Failure::Interrupted(_)) => {
            tell_numbers(&numbers, started, " (interrupted)");
            db.close()?;
            Err(failure)
        }
        Err(failure) => Err(failure),
    }
}

/// What an import has done.
#[derive(Debug, Default)]
struct Numbers {
    imported: u64,
    imported_bytes: u64,
    skipped: u64,
}

fn tell_numbers(numbers: &Numbers, started: Instant, how_ended: &str) {
    let Numbers { imported, imported_bytes, skipped } = *numbers;
    let elapsed = started.elapsed();
    tell(&format!(
        "imported {imported}, skipped {skipped} in {:.2} s: {:.0} keys/s, {:.1} MB/s{how_ended}",
        elapsed.as_secs_f64(),
        per_second(imported, elapsed),
        megabytes_per_second(imported_bytes, elapsed),
    ));
}

/// Stores the records of an input that begins with `head`, up to its end or a signal. However it ends, what has been read is
/// in the store, unless the store itself failed.
fn take_records(
    options: &ImportOptions,
    format: ImportFormat,
    head: Vec<u8>,
    input: &Input,
    pending: &RefCell<Pending<'_>>,
) -> Result<()> {
    let progress = Progress::of_bytes("importing", input.length_bytes);
    let rest = input.storing(|| pending.borrow_mut().write(), |bytes| progress.at(bytes));
    let rest = BufReader::with_capacity(INPUT_BUFFER_BYTES, rest);
    let mut records = reader(format, options.key.as_deref(), Box::new(Cursor::new(head).chain(rest)));
    let mut record = Record::default();
    loop {
        let step = records.next(&mut record);
        let mut pending = pending.borrow_mut();
        let malformed = match step {
            Ok(Step::Record) => match pending.add(&record)? {
                Ok(()) => continue,
                // Too long for a store is as wrong as a line that can't be understood.
                Err(error) => Malformed { line: record.line, offset: record.offset, why: error.to_string() },
            },
            Ok(Step::Malformed(malformed)) => malformed,
            Ok(Step::End) => return pending.write(),
            Err(error) => {
                pending.write()?;
                return Err(input.failure(error));
            }
        };
        if !options.skip_bad {
            pending.write()?;
            return Err(complaint(&input.name, &malformed, pending.numbers.imported));
        }
        pending.numbers.skipped += 1;
    }
}

/// The batch that is being filled, and what has been written.
struct Pending<'d> {
    db: &'d Db,
    batch: WriteBatch,
    bytes: usize,
    numbers: Numbers,
}

impl Pending<'_> {
    /// Adds a record, and writes what has gathered when it is enough; a large record lets it go first, so that a batch is
    /// hardly larger than its largest record. Nothing is added when the store could not take it: the inner error.
    fn add(&mut self, record: &Record) -> Result<slmdb::Result<()>> {
        if self.bytes + record.value.len() > BATCH_BYTES {
            self.write()?;
        }
        if let Err(error) = self.batch.put(&record.key, &record.value) {
            return Ok(Err(error));
        }
        self.bytes += record.key.len() + record.value.len();
        if self.batch.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(Ok(()))
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.db.write(&self.batch)?;
        self.numbers.imported += self.batch.len() as u64;
        self.numbers.imported_bytes += self.bytes as u64;
        if self.bytes > BATCH_BYTES {
            self.batch = WriteBatch::new()
        } else {
            self.batch.clear()
        }
        self.bytes = 0;
        Ok(())
    }
}

fn complaint(name: &Path, malformed: &Malformed, imported: u64) -> Failure {
    let Malformed { line, offset, why } = malformed;
    let name = name.display();
    Failure::invalid(format!(
        "line {line} is malformed [{name}@{offset}]: {why}; correct it, or pass over such lines with --skip-bad (what \
         came before it is in the store; records: {imported})"
    ))
}

/// Imports, making the store if there is none.
pub fn run(arguments: &Arguments) -> Result<Exit> {
    let db = import(&arguments.options, || arguments.store.open(Missing::Create))?;
    db.close()?;
    Ok(Exit::Done)
}
