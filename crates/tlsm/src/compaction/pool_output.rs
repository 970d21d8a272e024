//! [`TlsmOutput`]: the outputs of a compaction, as lists or as table files.
//!
//! A list points at the entries where they lie in the pool: that is the paper's byte-addressable compaction (IV-B). Two kinds of
//! entries are copied: those from a table file, and those of a segment of which little is needed any more.

use std::sync::Arc;

use slmdb_engine::read::merge::Source;
use slmdb_env::{Error, Result};
use slmdb_levels::jobs::level_source::Input;
use slmdb_levels::{AddError, EntrySource, RunOutput, TableOutput};
use slmdb_order::EntryKind;

use crate::persistent_skiplist::job_lists::JobLists;
use crate::persistent_skiplist::run::{TlsmRun, TlsmRunSource};
use crate::persistent_skiplist::segments::Segments;

/// The outputs of a compaction.
pub(crate) enum TlsmOutput<'s> {
    /// Lists in the pool.
    Lists(Box<PoolOutput<'s>>),
    /// Table files.
    Tables(Box<TableOutput<'s>>),
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
        match self {
            TlsmOutput::Lists(lists) => lists.add(source),
            TlsmOutput::Tables(tables) => tables.add(source),
        }
    }

    #[inline]
    fn bytes(&self) -> u64 {
        match self {
            TlsmOutput::Lists(output) => output.lists.bytes(),
            TlsmOutput::Tables(tables) => RunOutput::<Input<TlsmRun>>::bytes(&**tables),
        }
    }

    fn cut(&mut self) -> Result<()> {
        match self {
            TlsmOutput::Lists(output) => output.lists.cut(),
            TlsmOutput::Tables(tables) => RunOutput::<Input<TlsmRun>>::cut(&mut **tables),
        }
    }

    fn finish(self) -> Result<Vec<Arc<TlsmRun>>> {
        match self {
            TlsmOutput::Lists(output) => output.lists.finish(),
            TlsmOutput::Tables(tables) => {
                let tables = RunOutput::<Input<TlsmRun>>::finish(*tables)?;
                Ok(tables.into_iter().map(|table| Arc::new(TlsmRun::from(table))).collect())
            }
        }
    }

    fn abandon(self) {
        if let TlsmOutput::Tables(tables) = self {
            RunOutput::<Input<TlsmRun>>::abandon(*tables);
        }
    }
}
