//! What verbs share of the command line, and how wrong ones are answered.
//!
//! Verbs define their own options beside their code; here are the ones they share. clap's own errors are several lines
//! long; the contract wants one, so they are folded.

use std::io;
use std::path::PathBuf;

use clap::Args;
use clap::error::ErrorKind;
use slmdb::{Compression, Db, Destroyed, EngineName, Error, Options};

use crate::failure::{Failure, Result};
use crate::pm::FastTier;
use crate::units::parse_size;

/// Which store, and how it is opened.
#[derive(Args, Debug, Clone)]
pub struct StoreArguments {
    /// The store's directory
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,

    /// The design that a new store follows: slm, lab, tlsm or chameleon [default: slm]
    ///
    /// A store remembers its engine; naming another than its own is an error. A build may lack some of them.
    #[arg(long, value_name = "NAME", verbatim_doc_comment, value_parser = parse_engine, help_heading = "Opening the store")]
    pub engine: Option<EngineName>,

    /// Where the fast tier is: a pool file, made together with the store [default: plain memory]
    ///
    /// PATH is on persistent memory: a file system mounted for direct access (-o dax), or a device (/dev/dax0.0), which
    /// is taken whole and has to hold nothing.
    /// emulated:PATH[,latency=NS][,model=line|persist][,read=NS][,bandwidth=MB/s][,unit=BYTES] maps any file and treats
    /// it as persistent memory; the rest emulates slower memory, for this opening alone: NS nanoseconds for each 64-byte
    /// line written back (model=line, the default) or for each fence (model=persist); NS nanoseconds for each read that
    /// is waited for; a bandwidth; the write unit that bytes are counted in (default 256).
    /// Only a new store, or one whose pool has been moved, needs it: a store remembers its pool. The new place of a
    /// pool is remembered by verbs that write; others must be told it every time.
    #[arg(long, value_name = "[emulated:]PATH", verbatim_doc_comment, value_parser = FastTier::parser(), help_heading = "Opening the store")]
    pub pm: Option<FastTier>,

    /// This machine saves its caches to persistent memory when the power goes (eADR): fences suffice
    ///
    /// For a fast tier on persistent memory alone. Nothing can check it: where it is not so, a power cut loses writes.
    #[arg(long, verbatim_doc_comment, help_heading = "Opening the store")]
    pub eadr: bool,

    /// Memory for all that the store keeps there, like 256MiB or 1G [default: 256MiB]
    ///
    /// Cached blocks take what the rest leaves (open files, MemTables, and on plain memory the index), and at least a
    /// sixteenth. What is needed is taken, even beyond; `slmdb stats` tells how much that is.
    #[arg(long, value_name = "SIZE", verbatim_doc_comment, value_parser = parse_size, help_heading = "Opening the store")]
    pub memory_budget: Option<u64>,
}

/// The same for verbs that write, with what these take besides.
#[derive(Args, Debug, Clone)]
pub struct WritableStoreArguments {
    #[command(flatten)]
    store: StoreArguments,

    /// Answer only when a write would also outlive a power cut (a kill takes nothing back either way)
    #[arg(long, help_heading = "Opening the store")]
    pub sync: bool,

    /// Size of a MemTable, like 64MiB: when it is full it becomes a table file [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Opening the store")]
    pub memtable: Option<u64>,

    /// How blocks of table files are compressed from now on: zstd is smaller and slower than lz4, and only in builds that
    /// have it [default: lz4]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Opening the store")]
    pub compression: Option<HowCompressed>,
}

/// What `--engine` can say.
pub fn parse_engine(text: &str) -> std::result::Result<EngineName, Error> {
    text.parse()
}

/// What `--compression` can say.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowCompressed {
    /// Not at all
    None,
    /// LZ4
    Lz4,
    /// zstd; needs the feature `zstd` of the build
    Zstd,
}

impl From<HowCompressed> for Compression {
    fn from(how: HowCompressed) -> Compression {
        match how {
            HowCompressed::None => Compression::None,
            HowCompressed::Lz4 => Compression::Lz4,
            HowCompressed::Zstd => Compression::Zstd,
        }
    }
}

/// What becomes of a store that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is made.
    Create,
    /// It is an error, and nothing is made.
    Refuse,
}

impl StoreArguments {
    /// Opens the store for reading alone: no byte of it changes.
    pub fn open_for_reading(&self) -> Result<Db> {
        self.open(&self.options().read_only(true), Missing::Refuse)
    }

    /// Removes the store.
    pub fn destroy(&self) -> Result<Destroyed> {
        Ok(slmdb::destroy(&self.db, &self.options())?)
    }

    fn open(&self, options: &Options, missing: Missing) -> Result<Db> {
        match options.clone().create_if_missing(missing == Missing::Create).open(&self.db) {
            Err(Error::Invalid { .. }) if missing == Missing::Refuse && self.is_empty() => {
                Err(Failure::invalid(format!(
                    "there is no store in {}; correct --db, or make a store with put, insert, import or shell",
                    self.db.display()
                )))
            }
            opened => Ok(opened?),
        }
    }

    /// Whether there is nothing at all where the store should be.
    fn is_empty(&self) -> bool {
        std::fs::read_dir(&self.db)
            .map_or_else(|error| error.kind() == std::io::ErrorKind::NotFound, |mut entries| entries.next().is_none())
    }

    /// The options that these arguments mean.
    pub fn options(&self) -> Options {
        let mut options = Options::default().caches_are_persistent(self.eadr);
        if let Some(engine) = self.engine {
            options = options.engine(engine);
        }
        if let Some(tier) = &self.pm {
            options = tier.apply(options);
        }
        if let Some(bytes) = self.memory_budget {
            options = options.memory_budget_bytes(bytes);
        }
        options
    }
}

impl WritableStoreArguments {
    /// Opens the store for writing. Close it at the end: the last errors show there.
    pub fn open(&self, missing: Missing) -> Result<Db> {
        self.store.open(&self.options(), missing)
    }

    /// Opens the store to be copied: for reading alone, where nothing can be written.
    pub fn open_to_copy(&self) -> Result<Db> {
        match self.options().create_if_missing(false).open(&self.store.db) {
            Err(Error::Io { source, .. })
                if [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied].contains(&source.kind()) =>
            {
                self.store.open_for_reading()
            }
            Ok(db) => Ok(db),
            Err(_) => self.open(Missing::Refuse),
        }
    }

    fn options(&self) -> Options {
        let mut options = self.store.options().sync(self.sync);
        if let Some(bytes) = self.memtable {
            options = options.memtable_bytes(bytes);
        }
        if let Some(how) = self.compression {
            options = options.compression(how.into());
        }
        options
    }
}

/// One of clap's errors as one of ours, in one line.
pub fn fold(error: &clap::Error) -> Failure {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => return Failure::Help(error.render().to_string()),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            return Failure::usage("a verb is missing; `slmdb --help` lists them");
        }
        _ => {}
    }
    let rendered = error.render().to_string();
    let mut parts = Vec::new();
    for paragraph in rendered.split("\n\n") {
        let paragraph = paragraph.trim();
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") || paragraph.is_empty() {
            continue;
        }
        let words: Vec<&str> = paragraph.lines().map(str::trim).collect();
        parts.push(words.join(" ").trim_start_matches("error: ").to_string());
    }
    Failure::usage(format!("{}; see `slmdb --help`, or `slmdb VERB --help`", parts.join("; ")))
}
