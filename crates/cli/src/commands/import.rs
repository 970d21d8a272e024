//! `import`: records from a file or a pipe, in batches.
//!
//! A batch is what a crash takes or leaves as a whole. They are small: large enough that a batch's cost is shared, small
//! enough that a malformed line finds nearly everything before it in the store already, the rest following at once.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use slmdb::{Db, WriteBatch};

use crate::arguments::{Missing, WritableStoreArguments};
use crate::failure::{Exit, Failure, Result};
use crate::formats::{Foreign, ImportFormat, Malformed, Record, Step, read_head, reader, recognize};
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

    /// Opens the input, and refuses it if it is of another kind than what is imported.
    fn open(&self, format: ImportFormat) -> Result<Input> {
        let mut input = self.open_unseen()?;
        let head = read_head(&mut input.reader, format).map_err(|error| Failure::io("read", &input.name, error))?;
        if let Some(Foreign { name, remedy }) = recognize(&head, format) {
            return Err(Failure::invalid(format!("this is {name} [{}]; {remedy}", input.name.display())));
        }
        Ok(Input { reader: Box::new(Cursor::new(head).chain(input.reader)), ..input })
    }

    fn open_unseen(&self) -> Result<Input> {
        if self.reads_standard_input() {
            let reader = BufReader::with_capacity(INPUT_BUFFER_BYTES, io::stdin());
            return Ok(Input { reader: Box::new(reader), name: PathBuf::from("standard input"), length_bytes: None });
        }
        let failed = |error| Failure::io("open", &self.file, error);
        let file = File::open(&self.file).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Input {
            reader: Box::new(BufReader::with_capacity(INPUT_BUFFER_BYTES, file)),
            name: self.file.clone(),
            length_bytes: metadata.is_file().then_some(metadata.len()),
        })
    }
}

/// What is read.
struct Input {
    reader: Box<dyn BufRead>,
    name: PathBuf,
    length_bytes: Option<u64>,
}

/// Reads records into `db`, and says how many and how fast. The store is asked for only once there is an input.
pub fn import(options: &ImportOptions, db: impl FnOnce() -> Result<Db>) -> Result<Db> {
    let format = options.format()?;
    let input = options.open(format)?;
    let db = db()?;

    let started = Instant::now();
    let progress = Progress::of_bytes("importing", input.length_bytes);
    let name = input.name;
    let mut records = reader(format, options.key.as_deref(), input.reader);
    let mut pending = Pending { db: &db, batch: WriteBatch::new(), bytes: 0, imported: 0, imported_bytes: 0 };
    let mut record = Record::default();
    let mut skipped: u64 = 0;
    loop {
        let step = match records.next(&mut record) {
            Ok(step) => step,
            Err(error) => {
                pending.write()?;
                return Err(Failure::io("read", &name, error));
            }
        };
        let malformed = match step {
            Step::End => break,
            Step::Record => {
                pending.make_room(&record)?;
                // Too long for a store is as wrong as a line that can't be understood.
                pending.add(&record).err().map(|error| Malformed {
                    line: record.line,
                    offset: record.offset,
                    why: error.to_string(),
                })
            }
            Step::Malformed(malformed) => Some(malformed),
        };
        if let Some(malformed) = malformed {
            if options.skip_bad {
                skipped += 1;
            } else {
                pending.write()?;
                drop(progress);
                return Err(complaint(&name, &malformed, pending.imported));
            }
        }
        if pending.is_full() {
            pending.write()?;
            progress.at(records.position());
        }
    }
    pending.write()?;
    let (imported, imported_bytes) = (pending.imported, pending.imported_bytes);
    if imported_bytes >= FLUSH_FROM_BYTES {
        db.flush()?;
    }
    drop(progress);
    let elapsed = started.elapsed();
    if imported == 0 {
        tell(&crate::failure::one_line(&format!("slmdb: warning: no record was found in {}", name.display())));
    }
    tell(&format!(
        "imported {imported}, skipped {skipped} in {:.2} s: {:.0} keys/s, {:.1} MB/s",
        elapsed.as_secs_f64(),
        per_second(imported, elapsed),
        megabytes_per_second(imported_bytes, elapsed)
    ));
    Ok(db)
}

/// The batch that is being filled, and what has been written.
struct Pending<'d> {
    db: &'d Db,
    batch: WriteBatch,
    bytes: usize,
    imported: u64,
    imported_bytes: u64,
}

impl Pending<'_> {
    /// A large record first lets go what has gathered, so that a batch is hardly larger than its largest record.
    fn make_room(&mut self, record: &Record) -> Result<()> {
        if self.bytes + record.value.len() > BATCH_BYTES { self.write() } else { Ok(()) }
    }

    /// Nothing is added when the store could not take it.
    fn add(&mut self, record: &Record) -> slmdb::Result<()> {
        self.batch.put(&record.key, &record.value)?;
        self.bytes += record.key.len() + record.value.len();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.batch.len() >= BATCH_RECORDS || self.bytes >= BATCH_BYTES
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.db.write(&self.batch)?;
        self.imported += self.batch.len() as u64;
        self.imported_bytes += self.bytes as u64;
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
