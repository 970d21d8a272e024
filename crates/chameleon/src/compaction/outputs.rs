//! [`Outputs`]: the table files that a collection writes.

use std::sync::atomic::Ordering;

use slmdb_engine::files::file_names as names;
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_order::EntryKind;
use slmdb_table::{FinishedTable, TableBuilder, TableForm, TableOptions};

/// The table files that a collection writes. Their numbers are under way until they are the store's, or given up.
pub(super) struct Outputs<'s> {
    store: &'s Parts,
    output_bytes: u64,
    filling: Option<(u32, TableBuilder)>,
    made: Vec<(u32, FinishedTable)>,
    /// A write or a sync has failed for good: nothing is removed (INV-27).
    has_failed: bool,
}

impl<'s> Outputs<'s> {
    /// None yet. They will be about so long, in bytes.
    pub(super) fn new(store: &'s Parts, output_bytes: u64) -> Outputs<'s> {
        Outputs { store, output_bytes, filling: None, made: Vec::new(), has_failed: false }
    }

    /// Adds an entry. `is_first_of_key`: it may begin a file.
    pub(super) fn add(
        &mut self,
        key: &[u8],
        (sequence, kind, value): (u64, EntryKind, &[u8]),
        is_first_of_key: bool,
    ) -> Result<()> {
        let added = self.try_add(key, (sequence, kind, value), is_first_of_key);
        added.inspect_err(|error| self.note(error))
    }

    fn try_add(
        &mut self,
        key: &[u8],
        (sequence, kind, value): (u64, EntryKind, &[u8]),
        is_first_of_key: bool,
    ) -> Result<()> {
        let is_full = |(_, builder): &(u32, TableBuilder)| builder.estimated_bytes() >= self.output_bytes;
        if is_first_of_key && self.filling.as_ref().is_some_and(is_full) {
            self.complete()?;
        }
        let (_, builder) = match &mut self.filling {
            Some(filling) => filling,
            None => {
                let begun = self.begin()?;
                self.filling.insert(begun)
            }
        };
        builder.add(key, sequence, kind, value)
    }

    fn begin(&mut self) -> Result<(u32, TableBuilder)> {
        let context = &self.store.context;
        let number = self.store.catalog.numbers.begin()?;
        let path = names::table(&context.directory, number);
        let options = TableOptions { form: TableForm::ByPlace, ..context.options.table() };
        let order = context.options.comparator.clone();
        match TableBuilder::new_in_order(&*context.env, &path, number, context.files_uuid, options, order) {
            Ok(builder) => Ok((number, builder)),
            Err(error) => {
                self.note(&error);
                self.remove(number);
                Err(error)
            }
        }
    }

    fn complete(&mut self) -> Result<()> {
        let Some((number, builder)) = self.filling.take() else { return Ok(()) };
        match builder.finish() {
            Ok(finished) => {
                let counted = &self.store.context.counted;
                counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
                counted.compaction_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
                self.made.push((number, finished));
                Ok(())
            }
            Err(error) => {
                self.note(&error);
                self.remove(number);
                Err(error)
            }
        }
    }

    /// Makes all files and their names durable.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.complete()?;
        let context = &self.store.context;
        let synced = if self.made.is_empty() { Ok(()) } else { context.env.sync_directory(&context.directory) };
        synced.inspect_err(|error| self.note(error))
    }

    /// The files that are whole.
    pub(super) fn made(&self) -> &[(u32, FinishedTable)] {
        &self.made
    }

    /// Gives all files up.
    pub(super) fn give_up(mut self) {
        if let Some((number, builder)) = self.filling.take() {
            builder.abandon();
            self.remove(number);
        }
        for (number, _) in std::mem::take(&mut self.made) {
            self.remove(number);
        }
    }

    fn note(&mut self, error: &Error) {
        self.has_failed |= matches!(error, Error::Io { .. }) && !error.may_be_tried_again();
    }

    /// Removes a file. If it stays, the next opening removes it.
    fn remove(&self, number: u32) {
        let context = &self.store.context;
        if self.has_failed || context.has_failed() {
            return;
        }
        self.store.tables.forget(number);
        let path = names::table(&context.directory, number);
        let removed = match context.env.exists(&path) {
            Ok(false) => Ok(()),
            _ => context.env.remove_file(&path),
        };
        match removed {
            Ok(()) => self.store.catalog.numbers.end(number),
            Err(error) => tracing::warn!(%error, "an unfinished table file stays for now"),
        }
    }
}
