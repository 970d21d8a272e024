//! [`TlsmOutput`]: the outputs of a compaction, as lists and as table files.
//!
//! A list points at the entries where they lie in the pool: that is the paper's byte-addressable compaction (IV-B). Two kinds of
//! entries are copied: those from a table file, and those of a segment of which little is needed any more.

use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_env::{Error, Result};
use slmdb_levels::jobs::level_source::Input;
use slmdb_levels::{AddError, EntrySource, LevelFiles, Run, RunOutput, TableOutput};
use slmdb_order::EntryKind;

use crate::persistent_skiplist::job_lists::JobLists;
use crate::persistent_skiplist::run::{TlsmRun, TlsmRunSource};
use crate::persistent_skiplist::segments::Segments;
use crate::tiering::policy::RunKind;

/// The outputs of a compaction: lists first, as many as may be, and then table files.
pub(crate) struct TlsmOutput<'s> {
    files: LevelFiles<'s>,
    /// No list begins when they take so many bytes.
    lists_bytes_max: u64,
    /// What lists have taken that are complete, in bytes.
    lists_bytes: u64,
    /// How long a list should be, and an output of the plan, in bytes.
    lengths_bytes: (u64, u64),
    /// What the output becomes that is being filled.
    filling: Option<RunKind>,
    lists: PoolOutput<'s>,
    tables: TableOutput<'s>,
}

impl<'s> TlsmOutput<'s> {
    /// No outputs yet. When lists take `lists_bytes_max`, the next ones are files. `lengths_bytes`: how long a list should be, and where
    /// the merge cuts outputs.
    pub(crate) fn new(
        files: LevelFiles<'s>,
        lists: PoolOutput<'s>,
        lists_bytes_max: u64,
        lengths_bytes: (u64, u64),
    ) -> TlsmOutput<'s> {
        let tables = TableOutput::new(files);
        TlsmOutput { files, lists_bytes_max, lists_bytes: 0, lengths_bytes, filling: None, lists, tables }
    }

    /// What the output becomes that is being filled, or the next one.
    #[inline]
    fn kind(&mut self) -> RunKind {
        match self.filling {
            Some(kind) => kind,
            None => {
                let is_list = self.lists_bytes < self.lists_bytes_max;
                *self.filling.insert(if is_list { RunKind::List } else { RunKind::Table })
            }
        }
    }
}

/// Outputs as lists.
pub(crate) struct PoolOutput<'s> {
    lists: JobLists<'s>,
    copying: Copying<'s>,
    /// The current key.
    key: Vec<u8>,
}

impl<'s> PoolOutput<'s> {
    /// No outputs yet.
    pub(crate) fn new(lists: JobLists<'s>, copying: Copying<'s>) -> PoolOutput<'s> {
        PoolOutput { lists, copying, key: Vec::new() }
    }

    fn add(&mut self, source: &mut Input<TlsmRun>) -> Result<(), AddError<Error>> {
        let (sequence, kind) = (source.sequence(), source.kind());
        let place = source.of_run().and_then(TlsmRunSource::place);
        if let Some(place) = place
            && !self.copying.is_wanted(place.segment())
        {
            return self.lists.point_at(source.key(), sequence, kind, place).map_err(AddError::Output);
        }
        self.key.clear();
        self.key.extend_from_slice(source.key());
        let value = match kind {
            EntryKind::Put => source.value().map_err(AddError::Source)?,
            EntryKind::Delete => &[],
        };
        self.lists.add(&self.key, sequence, kind, value).map_err(AddError::Output)
    }
}

/// Which entries are copied that lie in the pool already.
pub(crate) enum Copied {
    /// Those of segments of which less than this part is needed.
    OfSparse(f64),
    /// Those of this segment.
    Of(u64),
    /// All.
    All,
}

/// Decides of each segment once in a row.
pub(crate) struct Copying<'s> {
    segments: &'s Segments,
    copied: Copied,
    /// What was found out last: a segment, and whether its entries are copied.
    last: Option<(u64, bool)>,
}

impl<'s> Copying<'s> {
    /// Nothing is known of any segment yet.
    pub(crate) fn new(copied: Copied, segments: &'s Segments) -> Copying<'s> {
        Copying { segments, copied, last: None }
    }

    /// Whether entries of this segment are copied. Neighbours mostly lie in the same one.
    #[inline]
    fn is_wanted(&mut self, segment: u64) -> bool {
        match self.last {
            Some((last, is_wanted)) if last == segment => is_wanted,
            _ => {
                let is_wanted = match self.copied {
                    Copied::OfSparse(live_part) => self.segments.is_sparse(segment, live_part),
                    Copied::Of(emptied) => segment == emptied,
                    Copied::All => true,
                };
                self.last = Some((segment, is_wanted));
                is_wanted
            }
        }
    }
}

impl RunOutput<Input<TlsmRun>> for TlsmOutput<'_> {
    type Run = Arc<TlsmRun>;
    type Error = Error;

    #[inline]
    fn add(&mut self, source: &mut Input<TlsmRun>) -> Result<(), AddError<Error>> {
        match self.kind() {
            RunKind::List => self.lists.add(source),
            RunKind::Table => self.tables.add(source),
        }
    }

    #[inline]
    fn bytes(&self) -> u64 {
        match self.filling {
            None => 0,
            Some(RunKind::List) => {
                let (list_bytes, cut_bytes) = self.lengths_bytes;
                self.lists.lists.bytes().saturating_mul(cut_bytes) / list_bytes.max(1)
            }
            Some(RunKind::Table) => RunOutput::<Input<TlsmRun>>::bytes(&self.tables),
        }
    }

    fn cut(&mut self) -> Result<()> {
        match self.filling.take() {
            None => Ok(()),
            Some(RunKind::List) => {
                self.lists_bytes += self.lists.lists.bytes();
                self.lists.lists.cut()
            }
            Some(RunKind::Table) => RunOutput::<Input<TlsmRun>>::cut(&mut self.tables),
        }
    }

    fn finish(self) -> Result<Vec<Arc<TlsmRun>>> {
        let tables = RunOutput::<Input<TlsmRun>>::finish(self.tables)?;
        let lists = self.lists.lists.finish();
        let mut runs = lists.inspect_err(|_| tables.iter().for_each(|table| self.files.give_up(table)))?;
        runs.extend(tables.into_iter().map(|table| Arc::new(TlsmRun::from(table))));
        let order = &self.files.context.options.comparator;
        runs.sort_by(|one, other| order.compare(&one.record().smallest_key, &other.record().smallest_key));
        Ok(runs)
    }

    fn abandon(self) {
        RunOutput::<Input<TlsmRun>>::abandon(self.tables);
    }
}
