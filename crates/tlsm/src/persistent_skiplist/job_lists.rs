//! [`JobLists`]: the lists that a flush or a compaction makes.
//!
//! Nothing that it writes counts before the MANIFEST names it, and all of it is durable before. A crash leaves extents that nobody
//! names, and the next opening frees them.

use std::sync::Arc;

use slmdb_engine::context::StoreContext;
use slmdb_engine::files::file_numbers::FileNumbers;
use slmdb_env::Result;
use slmdb_order::EntryKind;
use slmdb_pmem::{AnyMedium, Claim};
use slmdb_structures::list::{
    FinishedList, List, ListOptions, ListWriter, Persists, Place, SegmentOptions, SegmentWriter,
};

use super::pool_run::PoolRun;
use super::run::TlsmRun;
use crate::options::TlsmOptions;
use crate::state::TlsmState;

/// An entry of a list counts as so many bytes at least, so that no list becomes very long.
const ENTRY_BYTES_LEAST: u64 = 128;

/// What a job may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolJob {
    /// What it may take of the pool's reserve.
    pub(crate) claim: Claim,
    /// A number that the first list gets, if it is under way already.
    pub(crate) given: Option<u32>,
    /// Its entries go to the segment that is open, and that one stays open for the next job.
    pub(crate) fills_open_segment: bool,
}

/// The lists that a job makes, one after the other. To be ended by [`finish`](JobLists::finish); dropped, it gives up all.
pub(crate) struct JobLists<'s> {
    context: &'s StoreContext,
    numbers: &'s FileNumbers,
    state: &'s TlsmState,
    own: TlsmOptions,
    job: PoolJob,
    segments: Option<SegmentWriter<AnyMedium>>,
    filling: Option<(u32, ListWriter<AnyMedium>)>,
    made: Vec<FinishedList>,
    /// The numbers that were begun here.
    begun: Vec<u32>,
}

impl<'s> JobLists<'s> {
    /// No list yet.
    pub(crate) fn new(
        context: &'s StoreContext,
        numbers: &'s FileNumbers,
        state: &'s TlsmState,
        job: PoolJob,
    ) -> JobLists<'s> {
        let own = context.options.own();
        JobLists {
            context,
            numbers,
            state,
            own,
            job,
            segments: None,
            filling: None,
            made: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Adds an entry, which is copied into a segment.
    pub(crate) fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, value: &[u8]) -> Result<()> {
        self.begin()?;
        let Some(segments) = &mut self.segments else { return Ok(()) };
        let place = segments.add(key, sequence, kind, value)?;
        self.point_at(key, sequence, kind, place)
    }

    /// Adds an entry that lies in a segment already.
    pub(crate) fn point_at(&mut self, key: &[u8], sequence: u64, kind: EntryKind, place: Place) -> Result<()> {
        self.begin()?;
        self.filling.as_mut().map_or(Ok(()), |(_, list)| list.add(key, sequence, kind, place))
    }

    /// Bytes of the list that is being filled, with its entries; 0: there is none.
    pub(crate) fn bytes(&self) -> u64 {
        let of_list = |list: &ListWriter<_>| (list.bytes() + list.data_bytes()).max(list.entries() * ENTRY_BYTES_LEAST);
        self.filling.as_ref().map_or(0, |(_, list)| of_list(list))
    }

    /// Bytes of the list that is being filled, without its entries.
    pub(crate) fn list_bytes(&self) -> u64 {
        self.filling.as_ref().map_or(0, |(_, list)| list.bytes())
    }

    fn begin(&mut self) -> Result<()> {
        if self.filling.is_some() {
            return Ok(());
        }
        let number = match self.job.given.take() {
            Some(number) => number,
            None => {
                let number = self.numbers.begin()?;
                self.begun.push(number);
                number
            }
        };
        let pool = &self.state.pool;
        self.segments.get_or_insert_with(|| {
            let options =
                SegmentOptions { segment_bytes: self.own.segment_bytes, owner: number, claim: self.job.claim };
            match self.state.segments.open_segment().filter(|_| self.job.fills_open_segment) {
                Some(open) => SegmentWriter::resume(pool.clone(), options, open),
                None => SegmentWriter::new(pool.clone(), options),
            }
        });
        let options = ListOptions {
            order: self.context.options.comparator.clone(),
            filter_bits_per_key: self.own.list_filter_bits,
            claim: self.job.claim,
            persists: if self.own.persists_each_node { Persists::FourEach } else { Persists::Once },
        };
        self.filling = Some((number, ListWriter::new(pool.clone(), number, options)));
        Ok(())
    }

    /// Completes the list that is being filled. It is not durable yet. Nothing happens if there is none.
    pub(crate) fn cut(&mut self) -> Result<()> {
        let Some((_, list)) = self.filling.take() else { return Ok(()) };
        self.made.push(list.finish(self.context.env.unix_time_ns())?);
        Ok(())
    }

    /// Completes the last list, and makes all durable. Returns them in the order of their keys. Their numbers are under way.
    pub(crate) fn finish(mut self) -> Result<Vec<Arc<TlsmRun>>> {
        // First, as the list needs space, too: what is set aside for a small MemTable may be no longer than a segment, which takes
        // all of it while it is filled.
        if let Some(segments) = self.segments.as_mut().filter(|_| !self.job.fills_open_segment) {
            segments.close()?;
        }
        self.cut()?;
        let Some(segments) = self.segments.take() else { return Ok(Vec::new()) };
        let open = segments.complete_open(&self.made)?;
        let order = &self.context.options.comparator;
        let mut runs = Vec::new();
        // From here on a list that is dropped frees its segments.
        for list in self.made.drain(..) {
            let record = list.into_record();
            let list = List::open(self.state.pool.clone(), record.extent, record.number, order.clone())?;
            runs.push(Arc::new(TlsmRun::List(PoolRun::new(list, self.state.segments.clone()))));
        }
        if self.job.fills_open_segment {
            self.state.segments.keep_open(open);
        }
        self.begun.clear();
        Ok(runs)
    }
}

impl Drop for JobLists<'_> {
    /// Gives up what was made. (The segments give up theirs themselves.)
    fn drop(&mut self) {
        for list in self.made.drain(..) {
            if let Err(error) = self.state.pool.free_extent(list.record().extent.offset) {
                tracing::debug!(%error, "a list that was given up stays until the next opening");
            }
        }
        self.segments = None;
        self.begun.drain(..).for_each(|number| self.numbers.end(number));
    }
}
