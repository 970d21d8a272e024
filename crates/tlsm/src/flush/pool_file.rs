//! A MemTable becomes a list (paper, IV-C, algorithm 1). Its entries are copied into segments, sorted and a segment at a time; the
//! list points at them.

use std::sync::Arc;

use slmdb_engine::flush::older_versions::OlderVersions;
use slmdb_engine::store::parts::Parts;
use slmdb_engine::write::memtables::Immutable;
use slmdb_env::{Error, Result};
use slmdb_pmem::Claim;

use crate::persistent_skiplist::job_lists::{JobLists, PoolJob};
use crate::persistent_skiplist::run::TlsmRun;
use crate::space::PIECE_BYTES;
use crate::state::TlsmState;

/// Writes a MemTable to lists: the newest version of each key, and older ones that snapshots at these moments see, deletes too. It
/// becomes one list, of this number; where the pool is full but for pieces that are too short for that, several with disjoint keys.
/// All is durable on return.
pub(super) fn write_lists(
    store: &Parts,
    state: &TlsmState,
    immutable: &Immutable,
    number: u32,
    moments: &[u64],
) -> Result<Vec<Arc<TlsmRun>>> {
    match write(store, state, immutable, number, moments, u64::MAX) {
        Err(Error::Full { .. }) => write(store, state, immutable, number, moments, PIECE_BYTES / 2),
        written => written,
    }
}

/// No list is longer than `list_bytes_max` by much.
fn write(
    store: &Parts,
    state: &TlsmState,
    immutable: &Immutable,
    number: u32,
    moments: &[u64],
    list_bytes_max: u64,
) -> Result<Vec<Arc<TlsmRun>>> {
    let numbers = &store.catalog.numbers;
    let job = PoolJob { claim: Claim::Privileged, given: Some(number), fills_open_segment: false };
    let mut lists = JobLists::new(&store.context, numbers, state, job);
    let mut last_key = Vec::new();
    OlderVersions::write(immutable, moments.to_vec(), true, |entry| {
        // All versions of a key stay together.
        if lists.list_bytes() > list_bytes_max && entry.key != last_key {
            lists.cut()?;
        }
        if list_bytes_max != u64::MAX {
            last_key.clear();
            last_key.extend_from_slice(entry.key);
        }
        lists.add(entry.key, entry.sequence, entry.kind, entry.value)
    })?;
    lists.finish()
}
