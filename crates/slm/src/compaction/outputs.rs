//! The files that a compaction makes, on their way to the index thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use slmdb_engine::batch::Totals;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::file_records::file_record;
use slmdb_engine::memory::budget::flush_bytes;
use slmdb_engine::space::allowance::entries_max;
use slmdb_engine::space::reserve::OutputSpace;
use slmdb_engine::store::parts::Parts;
use slmdb_env::{Error, Result};
use slmdb_pmem::Claim;
use slmdb_sync::scheduled::mpsc::{Receiver, sync_channel};
use slmdb_table::{KeyEntry, TableBuilder};

use crate::compaction::plan::Stopped;
use crate::flush::finished::{BuiltFile, Finished, Origin, Output, ToIndex};
use crate::state::SlmState;
use slmdb_engine::flush::older_versions::OlderVersions;

/// The files that a compaction makes.
pub(crate) struct Outputs<'s> {
    files: &'s OutputFiles,
    /// The number and builder of the file that is being filled.
    builder: Option<(u32, TableBuilder)>,
    finished: &'s ToIndex,
    /// Receipts of files on their way to the MANIFEST.
    sent: Vec<Receiver<()>>,
    origin: Arc<Origin>,
    /// Numbers of finished files.
    pub(crate) made: Vec<u32>,
    pub(crate) bytes_written: u64,
    /// Totals of the file that is being filled.
    filled: Totals,
    /// The most memory that one output took until its key segment was written, in bytes.
    pub(crate) memory_bytes_max: u64,
    /// Deletes up to this sequence number were left out (INV-18).
    pub(crate) deletes_dropped_through: u64,
    space: OutputSpace,
}

impl<'s> Outputs<'s> {
    /// No outputs yet, of a compaction of `inputs` files.
    pub(crate) fn new(files: &'s OutputFiles, finished: &'s ToIndex, space: OutputSpace, inputs: usize) -> Outputs<'s> {
        Outputs {
            files,
            builder: None,
            finished,
            sent: Vec::new(),
            origin: Arc::new(Origin { inputs, refused: OnceLock::new() }),
            made: Vec::new(),
            bytes_written: 0,
            filled: Totals::default(),
            memory_bytes_max: 0,
            deletes_dropped_through: 0,
            space,
        }
    }

    /// Adds an entry to the file that is being filled. A full file is finished and sent, except in the reserve's space, where
    /// the planner chose inputs that fit one file.
    pub(crate) fn add(&mut self, entry: &KeyEntry<'_>, value: &[u8]) -> Result<(), Stopped> {
        let builder = match &mut self.builder {
            Some((_, builder)) => builder,
            None => {
                let begun = self.begin()?;
                &mut self.builder.insert(begun).1
            }
        };
        builder.add(entry.key, entry.sequence, entry.kind, value)?;
        self.filled.add(entry.key.len(), Some(value.len()));
        let usual_bytes = self.files.store.context.options.compaction.table_file_bytes;
        let is_filled = builder.estimated_bytes() >= usual_bytes || builder.entries() >= entries_max(usual_bytes);
        if is_filled && self.space == OutputSpace::Free {
            let file = self.finish()?;
            self.send(file, Vec::new())?;
        }
        Ok(())
    }

    /// Begins a file.
    fn begin(&mut self) -> Result<(u32, TableBuilder), Stopped> {
        self.check_refused()?;
        let files = self.files;
        let context = &files.store.context;
        let number = files.store.catalog.numbers.begin()?;
        let path = names::table(&context.directory, number);
        let (options, order) = (context.options.table(), context.options.comparator.clone());
        let build = || TableBuilder::new_in_order(&*context.env, &path, number, context.files_uuid, options, order);
        match build().map_err(Stopped::from) {
            Ok(builder) => Ok((number, builder)),
            Err(stopped @ (Stopped::NoSpace(_) | Stopped::Lacking(_))) => {
                files.remove(number);
                Err(stopped)
            }
            Err(stopped) => {
                files.store.catalog.numbers.end(number);
                Err(stopped)
            }
        }
    }

    /// Makes the file that is being filled durable, and then what the index needs of it.
    fn finish(&mut self) -> Result<Option<BuiltFile>, Stopped> {
        let files = self.files;
        let Some((number, builder)) = self.builder.take() else { return Ok(None) };
        let memory_bytes = flush_bytes(&std::mem::take(&mut self.filled));
        self.memory_bytes_max = memory_bytes.max(self.memory_bytes_max);
        let _held = files.store.context.budget.background.hold(memory_bytes);
        let build = || {
            let finished = builder.finish()?;
            files.store.context.env.sync_directory(&files.store.context.directory)?;
            files.store.context.counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            files.store.context.counted.compaction_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            let claim = match self.space {
                OutputSpace::Free => Claim::Ordinary,
                OutputSpace::Reserve => Claim::Part(files.state.pool_reserve.segment_bytes()),
            };
            let job = files.state.index.keys.output_is_durable(number, &finished.keys, claim)?;
            let record = file_record(&finished.properties, finished.length_bytes);
            Ok(BuiltFile { number, record, job, older: OlderVersions::default() })
        };
        match build().map_err(|error: Error| Stopped::from(error)) {
            Ok(file) => {
                self.made.push(number);
                self.bytes_written += file.record.length_bytes;
                Ok(Some(file))
            }
            Err(stopped @ (Stopped::NoSpace(_) | Stopped::Lacking(_))) => {
                files.remove(number);
                Err(stopped)
            }
            Err(stopped) => Err(stopped),
        }
    }

    /// Sends a file to the index thread. `removed`: the inputs, with the last file.
    fn send(&mut self, file: Option<BuiltFile>, removed: Vec<u32>) -> Result<(), Stopped> {
        let (done, receipt) = sync_channel(1);
        let origin = self.origin.clone();
        let deletes_dropped_through = self.deletes_dropped_through;
        let output = Output { file, origin, removed, deletes_dropped_through, done };
        // At most two are on their way: as many slots for job records as a compaction may take.
        while self.sent.len() > 1 {
            self.sent.remove(0).recv().map_err(|_| Stopped::Closing)?;
        }
        self.sent.push(receipt);
        if self.finished.send(Finished::Compaction(output)) { Ok(()) } else { Err(Stopped::Closing) }
    }

    /// Sends the last file and the end of these inputs. Returns when both are in the MANIFEST.
    pub(crate) fn end(&mut self, inputs: &[u32]) -> Result<(), Stopped> {
        let file = self.finish()?;
        if file.is_some() || !inputs.is_empty() {
            self.send(file, inputs.to_vec())?;
        }
        self.sent.drain(..).try_for_each(|receipt| receipt.recv()).map_err(|_| Stopped::Closing)?;
        self.check_refused()
    }

    /// The index thread's error, if it has refused an output.
    fn check_refused(&self) -> Result<(), Stopped> {
        self.origin.refused.get().map_or(Ok(()), |full| Err(Stopped::from(full.clone())))
    }

    /// Gives up the file that is being filled, if there is one. Returns when those before it are in the MANIFEST, or
    /// refused: whoever compacts the inputs next must find out what has moved. If the store closes or has failed, nobody does.
    pub(crate) fn abandon(&mut self) {
        if let Some((number, builder)) = self.builder.take() {
            builder.abandon();
            self.files.remove(number);
        }
        for receipt in self.sent.drain(..) {
            let _ = receipt.recv();
        }
    }
}

/// What outputs of all compactions need to be made and removed.
pub(crate) struct OutputFiles {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
}

impl OutputFiles {
    /// Gives up a finished file that the index does not know yet.
    pub(crate) fn give_up(&self, file: BuiltFile) -> Result<()> {
        self.state.index.keys.give_up(file.job)?;
        self.remove(file.number);
        Ok(())
    }

    /// Removes a table file that is given up.
    fn remove(&self, number: u32) {
        if !self.store.context.has_failed() {
            let path = names::table(&self.store.context.directory, number);
            // If it can't be removed now, the next opening removes it.
            let is_gone = self.store.context.env.exists(&path).is_ok_and(|exists| !exists);
            let removed = if is_gone { Ok(()) } else { self.store.context.env.remove_file(&path) };
            let _ = removed.inspect_err(|error| tracing::warn!(%error, "an unfinished table file stays for now"));
        }
        self.store.catalog.numbers.end(number);
    }
}
