//! The files that a compaction makes, on their way to the index thread.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use slmdb_env::{Error, Result};
use slmdb_pmem::{Claim, Medium};
use slmdb_table::{KeyEntry, TableBuilder};

use super::{In, Stopped};
use crate::slm::flush::{BuiltFile, Finished, file_record, segment_of, table_options};
use crate::slm::job::Job;
use crate::slm::names;
use crate::slm::older_versions::OlderVersions;
use crate::slm::set_aside::SetAside;
use crate::slm::store::Store;
use crate::slm::traffic::entries_max;

/// A file that a compaction has made, or the end of one.
pub(crate) struct Output {
    pub(super) file: Option<BuiltFile>,
    /// The inputs, if this is the last.
    pub(super) removed: Vec<u32>,
    /// Deletes up to here may have been left out because the index checkpoints cover them.
    pub(super) deletes_dropped_through: u64,
    /// Told once it is in the MANIFEST. (Dropped without a word if it does not get there.)
    pub(super) done: SyncSender<()>,
}

/// The files that a compaction makes.
pub(super) struct Outputs<'s, M: Medium + Clone> {
    store: &'s Store<M>,
    /// The one that is being filled.
    builder: Option<(u32, TableBuilder)>,
    finished: &'s SyncSender<Finished<M>>,
    /// Those that are on their way to the MANIFEST.
    sent: Vec<Receiver<()>>,
    /// The numbers of those that were finished.
    pub(super) made: Vec<u32>,
    pub(super) bytes_written: u64,
    /// Up to here deletes were left out because the index checkpoints cover them.
    pub(super) deletes_dropped_through: u64,
    space: In,
    /// What was kept back, while a file that is not finished has it.
    kept_back: Option<SetAside>,
}

impl<'s, M: Medium + Clone> Outputs<'s, M> {
    pub(super) fn new(store: &'s Store<M>, finished: &'s SyncSender<Finished<M>>, space: In) -> Outputs<'s, M> {
        Outputs {
            store,
            builder: None,
            finished,
            sent: Vec::new(),
            made: Vec::new(),
            bytes_written: 0,
            deletes_dropped_through: 0,
            space,
            kept_back: None,
        }
    }

    pub(super) fn add(&mut self, entry: &KeyEntry<'_>, value: &[u8]) -> Result<(), Stopped> {
        let builder = match &mut self.builder {
            Some((_, builder)) => builder,
            None => {
                let begun = self.begin()?;
                &mut self.builder.insert(begun).1
            }
        };
        builder.add(entry.key, entry.sequence, entry.kind, value)?;
        let usual_bytes = self.store.options.compaction.table_file_bytes;
        let is_filled = builder.estimated_bytes() >= usual_bytes || builder.entries() >= entries_max(usual_bytes);
        if is_filled && self.space == In::FreeSpace {
            let file = self.finish()?;
            self.send(file, Vec::new())?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(u32, TableBuilder), Stopped> {
        let store = self.store;
        let number = store.file_numbers.begin()?;
        let path = names::table(&store.directory, number);
        let (options, order) = (table_options(&store.options), store.options.comparator.clone());
        let build = || {
            let env = &*store.env;
            let kept_back = if self.space == In::KeptBack { store.kept_back.take(env, &path)? } else { None };
            let Some((space, file)) = kept_back else {
                return TableBuilder::new_in_order(env, &path, number, store.files_uuid, options, order);
            };
            self.kept_back = Some(space);
            TableBuilder::in_file(file, env, &path, number, store.files_uuid, options, order)
        };
        match build().map_err(Stopped::from) {
            Ok(builder) => Ok((number, builder)),
            Err(stopped @ Stopped::NoSpace(_)) => Err(self.remove(number, stopped)),
            Err(stopped) => {
                store.file_numbers.end(number);
                Err(stopped)
            }
        }
    }

    /// Makes the file that is being filled durable, and its key segment.
    fn finish(&mut self) -> Result<Option<BuiltFile>, Stopped> {
        let store = self.store;
        let Some((number, builder)) = self.builder.take() else { return Ok(None) };
        let build = || {
            let finished = builder.finish()?;
            store.env.sync_directory(&store.directory)?;
            store.counted.file_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            store.counted.compaction_bytes_written.fetch_add(finished.length_bytes, Ordering::Relaxed);
            let claim = match self.space {
                In::FreeSpace => Claim::Ordinary,
                In::KeptBack => Claim::Part(store.kept_back.segment_bytes()),
            };
            let segment = segment_of(&store.pool, number, &finished.keys, claim)?;
            let slot = if M::PERSISTENT { Some(store.jobs.record(&store.pool, &Job::moving(number))?) } else { None };
            let record = file_record(&finished.properties, finished.length_bytes);
            Ok(BuiltFile { number, record, segment, older: OlderVersions::default(), slot })
        };
        match build().map_err(|error: Error| Stopped::from(error)) {
            Ok(file) => {
                self.kept_back = None;
                self.made.push(number);
                self.bytes_written += file.record.length_bytes;
                Ok(Some(file))
            }
            Err(stopped @ Stopped::NoSpace(_)) => Err(self.remove(number, stopped)),
            Err(stopped) => Err(stopped),
        }
    }

    fn send(&mut self, file: Option<BuiltFile>, removed: Vec<u32>) -> Result<(), Stopped> {
        let (done, told) = sync_channel(1);
        let output = Output { file, removed, deletes_dropped_through: self.deletes_dropped_through, done };
        // Two at most are on their way: the records of their jobs have slots.
        while self.sent.len() > 1 {
            self.sent.remove(0).recv().map_err(|_| Stopped::Closing)?;
        }
        self.sent.push(told);
        self.finished.send(Finished::Compaction(output)).map_err(|_| Stopped::Closing)
    }

    /// The last file, and the end of the inputs; returns when that is in the MANIFEST.
    pub(super) fn end(&mut self, inputs: &[u32]) -> Result<(), Stopped> {
        let file = self.finish()?;
        self.send(file, inputs.to_vec())?;
        self.sent.drain(..).try_for_each(|told| told.recv()).map_err(|_| Stopped::Closing)
    }

    /// Gives up the file that was being filled, if there is one.
    pub(super) fn abandon(&mut self) {
        if let Some((number, builder)) = self.builder.take() {
            builder.abandon();
            let _ = self.remove(number, Stopped::Closing);
        }
    }

    /// Removes a file that is not to be; gives back why.
    fn remove(&mut self, number: u32, why: Stopped) -> Stopped {
        let store = self.store;
        if !store.has_failed() {
            let path = names::table(&store.directory, number);
            let put_back = |space| store.kept_back.put_back(space, &*store.env, &path);
            let is_put_back = self.kept_back.take().map_or(Ok(false), put_back).unwrap_or_else(|error| {
                tracing::warn!(%error, "space kept back for compactions is not for now");
                false
            });
            // If it can't be removed, the next opening does.
            let is_gone = is_put_back || store.env.exists(&path).is_ok_and(|exists| !exists);
            let removed = if is_gone { Ok(()) } else { store.env.remove_file(&path) };
            let _ = removed.inspect_err(|error| tracing::warn!(%error, "an unfinished table file stays for now"));
        }
        store.file_numbers.end(number);
        why
    }
}
