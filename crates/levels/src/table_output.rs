//! [`TableOutput`]: the outputs of a merge as table files.
//!
//! A file is durable when it is complete, and its name when all are. Their numbers are [under
//! way](FileNumbers::is_under_way) until the engine [ends](FileNumbers::end) them: when the MANIFEST has the files, or
//! when they are [given up](LevelFiles::give_up).
//!
//! On a full disk all outputs are given up, with [`Error::Full`]. The merge may be tried again later. The store's
//! reserve is not touched.
//!
//! After a write or a sync that failed, the store has to [fail](StoreContext::fail), and nothing is deleted (INV-27).
//! So the files stay for the next opening to remove. Their numbers stay under way, and no verification takes them for
//! strays.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_numbers::FileNumbers;
use slmdb_engine::files::table_cache::Tables;
use slmdb_env::{Error, Result};
use slmdb_table::{EntryKind, FinishedTable, Properties, TableBuilder, TableForm, TableOptions};

use crate::merge::{AddError, RunOutput};
use crate::run::{EntrySource, Run, RunRecord};
use crate::table_run::TableRun;

/// Where table files of levels are made.
#[derive(Clone, Copy)]
pub struct LevelFiles<'s> {
    /// The store's directory, options and counters.
    pub context: &'s StoreContext,
    /// Gives the files their numbers.
    pub numbers: &'s FileNumbers,
    /// Reads them.
    pub tables: &'s Arc<Tables>,
}

impl LevelFiles<'_> {
    fn builder(&self, number: u32) -> Result<TableBuilder> {
        let context = self.context;
        let path = names::table(&context.directory, number);
        let options = TableOptions { form: TableForm::LEVELS, ..context.options.table() };
        let order = context.options.comparator.clone();
        TableBuilder::new_in_order(&*context.env, &path, number, context.files_uuid, options, order)
    }

    /// Gives up a complete output that the MANIFEST does not have, and will never have.
    /// LOCKS: file numbers
    pub fn give_up(&self, run: &TableRun) {
        self.remove(run.number());
        self.tables.forget(run.number());
    }

    /// Removes a file that was begun, and ends its number. If the file stays, because the store has failed or it can't
    /// be removed, the next opening removes it.
    fn remove(&self, number: u32) {
        if self.context.has_failed() {
            return;
        }
        let (env, path) = (&self.context.env, names::table(&self.context.directory, number));
        let removed = match env.exists(&path) {
            Ok(false) => Ok(()),
            _ => env.remove_file(&path),
        };
        match removed {
            Ok(()) => self.numbers.end(number),
            Err(error) => tracing::warn!(%error, "an unfinished table file stays for now"),
        }
    }
}

/// The outputs of a merge as table files. To be ended by [`finish`](RunOutput::finish) or
/// [`abandon`](RunOutput::abandon).
///
/// Among the errors are those of the environment. After one that may not be [tried
/// again](Error::may_be_tried_again) the engine [fails](StoreContext::fail) the store. [`Error::Invalid`]: versions of
/// one key don't fit a file, which takes [4 GiB](slmdb_table::MAXIMUM_FILE_BYTES).
pub struct TableOutput<'s> {
    files: LevelFiles<'s>,
    /// The number and builder of the file that is being filled.
    filling: Option<(u32, TableBuilder)>,
    /// Complete files.
    made: Vec<Arc<TableRun>>,
    /// The current key.
    key: Vec<u8>,
    /// A write or a sync has failed.
    has_failed: bool,
}

impl<'s> TableOutput<'s> {
    /// No outputs yet.
    pub fn new(files: LevelFiles<'s>) -> TableOutput<'s> {
        TableOutput { files, filling: None, made: Vec::new(), key: Vec::new(), has_failed: false }
    }

    /// Begins a file.
    fn begin(&mut self) -> Result<(u32, TableBuilder)> {
        let number = self.files.numbers.begin()?;
        match self.files.builder(number) {
            Ok(builder) => Ok((number, builder)),
            Err(error) => {
                self.note(&error);
                self.remove(number);
                Err(error)
            }
        }
    }

    /// Completes the file that is being filled.
    fn complete(&mut self) -> Result<()> {
        let Some((number, builder)) = self.filling.take() else { return Ok(()) };
        let finished = builder.finish().inspect_err(|error| {
            self.note(error);
            self.remove(number);
        })?;
        let counted = &self.files.context.counted;
        counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
        counted.compaction_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
        let FinishedTable { properties, length_bytes, .. } = finished;
        let run = TableRun::new(number, record_of(properties, length_bytes), self.files.tables.clone());
        self.made.push(Arc::new(run));
        Ok(())
    }

    /// Completes all files, and makes their names durable.
    fn complete_all(&mut self) -> Result<()> {
        self.complete()?;
        if self.made.is_empty() {
            return Ok(());
        }
        let context = self.files.context;
        context.env.sync_directory(&context.directory).inspect_err(|error| self.note(error))
    }

    /// Notes whether an error is one after which nothing is deleted.
    fn note(&mut self, error: &Error) {
        self.has_failed |= matches!(error, Error::Io { .. }) && !error.may_be_tried_again();
    }

    fn remove(&self, number: u32) {
        if !self.has_failed {
            self.files.remove(number);
        }
    }

    /// Gives up all files.
    fn give_up(&mut self) {
        if let Some((number, builder)) = self.filling.take() {
            builder.abandon();
            self.remove(number);
        }
        if !self.has_failed {
            self.made.drain(..).for_each(|run| self.files.give_up(&run));
        }
    }
}

impl<S: EntrySource> RunOutput<S> for TableOutput<'_> {
    type Run = Arc<TableRun>;
    type Error = Error;

    fn add(&mut self, source: &mut S) -> Result<(), AddError<Error>> {
        let (sequence, kind) = (source.sequence(), source.kind());
        self.key.clear();
        self.key.extend_from_slice(source.key());
        let value = match kind {
            EntryKind::Put => source.value().map_err(AddError::Source)?,
            EntryKind::Delete => &[],
        };
        let (_, builder) = match &mut self.filling {
            Some(filling) => filling,
            None => {
                let begun = self.begin().map_err(AddError::Output)?;
                self.filling.insert(begun)
            }
        };
        builder.add(&self.key, sequence, kind, value).map_err(|error| {
            self.note(&error);
            AddError::Output(error)
        })
    }

    fn bytes(&self) -> u64 {
        self.filling.as_ref().map_or(0, |(_, builder)| builder.estimated_bytes())
    }

    /// Makes the file's content durable.
    fn cut(&mut self) -> Result<()> {
        self.complete()
    }

    /// Returns durable runs. Their numbers are still under way.
    fn finish(mut self) -> Result<Vec<Arc<TableRun>>> {
        match self.complete_all() {
            Ok(()) => Ok(self.made),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    fn abandon(mut self) {
        self.give_up();
    }
}

fn record_of(properties: Properties, length_bytes: u64) -> RunRecord {
    RunRecord {
        entries: properties.entries,
        deletes: properties.deletes,
        bytes: length_bytes,
        smallest_key: properties.smallest_key.into(),
        largest_key: properties.largest_key.into(),
        lowest_sequence: properties.lowest_sequence,
        highest_sequence: properties.highest_sequence,
        created_unix_ns: properties.created_unix_ns,
    }
}
