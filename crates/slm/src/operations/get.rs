//! Point reads (paper, section 4 «Get»): MemTable, Immutable MemTables (which the store searches), index, one block.
//!
//! This order makes reads right while flushes go on. A MemTable leaves the readers' list only after the index points
//! to all of its entries (INV-9). So a reader that takes the list first and looks in the index afterwards misses
//! nothing. The index knows every key that has a value in a table file. A key that it does not know is missing, and
//! no block is read.
//!
//! A read at a snapshot's moment goes the same way and passes over newer versions. A version that the index has
//! replaced since is in the map of replaced records ([`slmdb_engine::read::snapshots`]).
//!
//! After the look into the index, a compaction may move the entry and remove its file before the block is read. Then
//! the file is gone from the store, and the key is looked up again.

use std::sync::Arc;

use slmdb_engine::files::location::Location;
use slmdb_engine::read::scan_buffers::SeekCounter;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::store::tier::Moment;
use slmdb_env::Result;
use slmdb_table::Slice;

use crate::operations::ask_ahead::range_lengths::RangeLengths;
use crate::operations::range_query::spare_buffers::SpareBuffers;
use crate::paper::candidate_list::Source;
use crate::state::SlmState;

/// What readers need of the store.
pub(crate) struct Reader {
    pub(crate) store: Arc<Parts>,
    pub(crate) state: Arc<SlmState>,
    pub(crate) cold_ranges: RangeLengths,
    pub(crate) spare_buffers: SpareBuffers,
}

impl Reader {
    /// The value at a moment of a key that no MemTable has then.
    /// LOCKS: snapshots; file numbers; catalog (if the file is gone)
    #[inline]
    pub(crate) fn get(&self, key: &[u8], moment: Moment) -> Result<Option<Slice>> {
        let mut before = None;
        loop {
            let Some(location) = self.location(key, moment)? else { return Ok(None) };
            match self.store.tables.value(key, location) {
                // A compaction has moved the entry, so the index has a new place. If it is the same, the error is real.
                Err(_) if self.store.catalog.is_gone(location.file) && before != Some(location) => {
                    before = Some(location);
                }
                value => return value.map(Some),
            }
        }
    }

    /// Whether a key has a value at a moment that no MemTable has then. Reads no table file.
    /// LOCKS: snapshots
    pub(crate) fn contains_key(&self, key: &[u8], moment: Moment) -> Result<bool> {
        Ok(self.location(key, moment)?.is_some())
    }

    /// Where the version of a key is that a moment sees.
    #[inline]
    fn location(&self, key: &[u8], moment: Moment) -> Result<Option<Location>> {
        match moment {
            Moment::Now => self.state.index.keys.get(key),
            Moment::At(moment) => self.state.index.location_at(key, moment),
        }
    }
}

impl SeekCounter for Reader {
    /// Names the file if cursors have turned to it too often.
    /// LOCKS: catalog (tried); compaction candidates; compactions
    fn count_seek(&self, file: u32) {
        let (options, state) = (&self.store.context.options, &self.state);
        if !options.compaction.seeks || options.read_only || state.is_manual {
            return;
        }
        let (seeks, seeks_min) = (state.notes.seeks.add(file), options.compaction.seeks_min);
        // Of later seeks one in a power of two is looked at: dividing would take longer than counting.
        if seeks < seeks_min || seeks & ((1 << seeks_min.ilog2()) - 1) != 0 {
            return;
        }
        // A commit holds the catalog while the disk writes. A reader does not wait for that; a later seek checks again.
        let Some(catalog) = self.store.catalog.try_lock() else { return };
        let length_bytes = catalog.state().files.get(&file).map(|file| file.length_bytes);
        drop(catalog);
        if length_bytes.is_some_and(|bytes| u64::from(seeks) >= bytes / options.compaction.seek_bytes) {
            state.notes.seeks.clear(file);
            if let Some(paper) = &state.paper {
                paper.candidates.name([file], Source::Seeks);
            }
            if state.notes.name_sought(file) {
                state.compactions.wake();
            }
        }
    }
}
