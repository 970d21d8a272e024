//! [`merge`]: a compaction's inputs become its outputs.

use std::ops::ControlFlow;
use std::sync::Arc;

use slmdb_engine::read::merge::Merge;
use slmdb_env::Error;
use slmdb_order::KeyOrder;
use slmdb_table::EntryKind;

use crate::retention::{Fate, Retention};
use crate::run::{EntrySource, Run};

/// Where a merge begins a new output. It does so only between two keys: all versions of a key stay together (INV-L1).
#[derive(Clone)]
pub struct Cut<R: Run> {
    /// An output that has so many bytes is complete. See [`RunOutput::bytes`].
    pub output_bytes: u64,
    /// The runs two levels further down, in key order, that outputs may overlap.
    pub grandparents: Vec<Arc<R>>,
    /// An output that overlaps more bytes of the grandparents is complete.
    pub grandparent_bytes_max: u64,
    /// How many entries all sources have, and how many bytes of files. Both tell how much is still to come.
    pub input_entries: u64,
    /// See [`input_entries`](Cut::input_entries).
    pub input_bytes: u64,
}

/// What is left for a last output goes into the one before it, if it is less than this part of an output. A full run that
/// gets a few keys would leave a tail of a few entries otherwise, and a file takes a block of the disk at least.
const TAIL_PART: u64 = 4;

impl<R: Run> Cut<R> {
    /// Whether an output with so many bytes is long enough. `entries_read`: of all sources, the one that would be added
    /// included.
    fn is_full(&self, output_bytes: u64, entries_read: u64) -> bool {
        if output_bytes < self.output_bytes {
            return false;
        }
        let entries_left = (self.input_entries + 1).saturating_sub(entries_read);
        let entry_bytes = self.input_bytes.checked_div(self.input_entries).unwrap_or(0);
        let tail_bytes = self.output_bytes / TAIL_PART;
        entries_left.saturating_mul(entry_bytes) >= tail_bytes || output_bytes >= self.output_bytes + tail_bytes
    }
}

/// How a merge goes.
pub struct MergeSettings<'a, R: Run> {
    /// The order of the keys.
    pub order: KeyOrder,
    /// What all keys begin with: see [`common_prefix`](slmdb_engine::read::merge::common_prefix). It only makes the
    /// merge quicker.
    pub prefix: Vec<u8>,
    /// Where outputs end.
    pub cut: Cut<R>,
    /// What is kept.
    pub retention: Retention<R>,
    /// After so many bytes of inputs, `report` is called.
    pub report_every_bytes: u64,
    /// Is told how far the merge has come. It may wait, to go at a slower pace, and may end the merge, because the
    /// store closes.
    pub report: &'a mut dyn FnMut(&MergeCounts) -> ControlFlow<()>,
}

/// What a merge has done so far. Bytes are those of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeCounts {
    /// Entries of the inputs that were passed.
    pub entries_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Entries that went to outputs.
    pub entries_kept: u64,
    /// Their bytes.
    pub bytes_kept: u64,
    /// Versions that newer ones hid from all.
    pub superseded: u64,
    /// Deletes that hid nothing any more.
    pub deletes_dropped: u64,
}

/// Why an entry was not added to an output.
#[derive(Debug)]
pub enum AddError<E> {
    /// Its value can't be read.
    Source(Error),
    /// It can't be written.
    Output(E),
}

/// Why a merge ended early. Its outputs are abandoned.
#[derive(Debug)]
pub enum MergeError<E> {
    /// The report said so.
    Ended,
    /// The source at this position can't be read.
    Source(usize, Error),
    /// An output can't be written.
    Output(E),
}

/// What writes the outputs of a merge, one after the other. `S` is what the entries come from, so an output may take
/// more from it than a value (TLSM takes the place of an entry that it need not copy).
pub trait RunOutput<S> {
    /// A complete output. It may still have to become visible, and durable.
    type Run;
    /// Why an output can't be written.
    type Error;

    /// Adds the source's current entry to the output that is being filled, or to a new one.
    fn add(&mut self, source: &mut S) -> Result<(), AddError<Self::Error>>;
    /// Bytes of the output that is being filled, about; 0: there is none.
    fn bytes(&self) -> u64;
    /// Completes the output that is being filled. Nothing happens if there is none.
    fn cut(&mut self) -> Result<(), Self::Error>;
    /// Completes the last output, and returns all, in key order. If that fails, it gives up all.
    fn finish(self) -> Result<Vec<Self::Run>, Self::Error>;
    /// Gives up all outputs, complete ones too.
    fn abandon(self);
}

/// The outputs of a merge, in key order, and what it has done.
pub type Merged<R, E> = Result<(Vec<R>, MergeCounts), MergeError<E>>;

/// Merges sources, of which none was advanced, and returns the outputs. Keys and values are lent from source to output.
pub fn merge<R: Run, S: EntrySource, O: RunOutput<S>>(
    sources: Vec<S>,
    mut settings: MergeSettings<'_, R>,
    mut output: O,
) -> Merged<O::Run, O::Error> {
    match merge_into(sources, &mut settings, &mut output) {
        Ok(counts) => Ok((output.finish().map_err(MergeError::Output)?, counts)),
        Err(error) => {
            output.abandon();
            Err(error)
        }
    }
}

fn merge_into<R: Run, S: EntrySource, O: RunOutput<S>>(
    sources: Vec<S>,
    settings: &mut MergeSettings<'_, R>,
    output: &mut O,
) -> Result<MergeCounts, MergeError<O::Error>> {
    let unreadable = |(source, error)| MergeError::Source(source, error);
    let (order, prefix) = (settings.order.clone(), std::mem::take(&mut settings.prefix));
    let mut merge = Merge::new(sources, order, prefix, (None, None)).map_err(unreadable)?;
    let mut cutter = Cutter::new(&settings.cut, &settings.order);
    let mut counts = MergeCounts::default();
    let mut report_at = settings.report_every_bytes;
    // Whether something was kept of the current key.
    let mut has_key = false;
    while let Some((position, source)) = merge.first_mut() {
        let (key, sequence, kind) = (source.key(), source.sequence(), source.kind());
        let bytes = key.len() as u64 + if kind == EntryKind::Put { source.value_bytes() } else { 0 };
        counts.entries_read += 1;
        counts.bytes_read += bytes;
        let fate = settings.retention.fate(key, sequence, kind);
        has_key &= !settings.retention.is_new_key();
        match fate {
            Fate::Superseded => counts.superseded += 1,
            Fate::DeleteDropped => counts.deletes_dropped += 1,
            Fate::Kept => {
                if !has_key && cutter.is_due(key, output.bytes(), counts.entries_read) {
                    output.cut().map_err(MergeError::Output)?;
                }
                has_key = true;
                output.add(source).map_err(|error| match error {
                    AddError::Source(error) => MergeError::Source(position, error),
                    AddError::Output(error) => MergeError::Output(error),
                })?;
                counts.entries_kept += 1;
                counts.bytes_kept += bytes;
            }
        }
        if counts.bytes_read >= report_at {
            report_at = counts.bytes_read + settings.report_every_bytes;
            if (settings.report)(&counts).is_break() {
                return Err(MergeError::Ended);
            }
        }
        merge.advance().map_err(unreadable)?;
    }
    Ok(counts)
}

/// Finds out where an output ends.
struct Cutter<'c, R: Run> {
    cut: &'c Cut<R>,
    order: &'c KeyOrder,
    /// The first grandparent that does not end before the last key.
    position: usize,
    /// Bytes of the grandparents that the output has passed.
    passed_bytes: u64,
}

impl<'c, R: Run> Cutter<'c, R> {
    fn new(cut: &'c Cut<R>, order: &'c KeyOrder) -> Cutter<'c, R> {
        Cutter { cut, order, position: 0, passed_bytes: 0 }
    }

    /// Whether an output with so many bytes is complete before this key, which is not in it. `entries_read`: of all sources.
    fn is_due(&mut self, key: &[u8], output_bytes: u64, entries_read: u64) -> bool {
        let runs = &self.cut.grandparents;
        while let Some(run) = runs.get(self.position) {
            if self.order.compare(&run.record().largest_key, key).is_ge() {
                break;
            }
            self.passed_bytes += run.record().bytes;
            self.position += 1;
        }
        if output_bytes == 0 {
            // Nothing of what was passed so far is overlapped by the output that begins here.
            self.passed_bytes = 0;
            return false;
        }
        let overlaps_enough = self.passed_bytes > self.cut.grandparent_bytes_max;
        let is_due = overlaps_enough || self.cut.is_full(output_bytes, entries_read);
        if is_due {
            self.passed_bytes = 0;
        }
        is_due
    }
}
