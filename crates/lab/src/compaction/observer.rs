//! What listeners and counters are told of a compaction.

use std::sync::atomic::Ordering;
use std::time::Duration;

use slmdb_engine::Event;
use slmdb_engine::observe::spans::timed;
use slmdb_env::{Error, Result};
use tracing::field::Empty;
use tracing::info_span;

use super::compactor::Compactor;
use super::work::{Done, Work};

impl Compactor {
    /// Lets the store fail, unless the error may pass: behind what could not be written nothing is sure.
    pub(super) fn fail_unless_it_passes(&self, error: &Error) {
        if !error.may_be_tried_again() && !matches!(error, Error::ReadOnly { .. }) {
            self.store.context.fail(error.clone());
        }
    }

    /// Runs a compaction, and tells listeners of its beginning and its end. What it gave back is there when it is told.
    /// LOCKS: those of `compact` and [`Compactor::gave_space_back`]
    pub(super) fn observe(&self, work: Work, compact: impl FnOnce(&mut Done) -> Result<()>) -> Result<()> {
        let Work { chosen_by, inputs, input_bytes } = work;
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let (began_ns, mut done) = (self.store.context.env.monotonic_ns(), Done::default());
        let span = info_span!("compaction", number, chosen_by, files = inputs.len(), ms = Empty);
        self.store.context.notify(|| Event::CompactionBegan { number, chosen_by, inputs: inputs.clone(), input_bytes });
        let ended = timed(&*self.store.context.env, span, || compact(&mut done)).and_then(|()| self.gave_space_back());
        if let Err(cause) = ended {
            tracing::warn!(%cause, "a compaction was given up");
            match done.unreadable {
                Some(file) => self.unreadable.note(file, &cause),
                None => self.fail_unless_it_passes(&cause),
            }
            self.store.context.notify(|| Event::CompactionGivenUp { number, inputs, cause: cause.clone() });
            return Err(cause);
        }
        self.store.context.counted.compactions.fetch_add(1, Ordering::Relaxed);
        let Done { outputs, bytes_read, bytes_written, .. } = done;
        self.store.context.counted.compaction_bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
        let duration = Duration::from_nanos(self.store.context.env.monotonic_ns().saturating_sub(began_ns));
        self.store.context.notify(|| Event::CompactionEnded {
            number,
            inputs,
            outputs,
            bytes_read,
            bytes_written,
            duration,
        });
        Ok(())
    }
}
