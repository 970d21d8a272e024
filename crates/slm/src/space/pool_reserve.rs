//! What flushing takes of the pool at worst: key records, and nodes that may have to be split.

use slmdb_engine::space::flush_cost::Grant;
use slmdb_env::Result;
use slmdb_pmem::{Medium, Pool};
use slmdb_structures::fast_fair::{KeyLengths, Tree, segment_bytes_max};

/// What flushing so much takes of the pool at most, in bytes, and the pieces it takes it in. `indexed`: the keys that are in
/// the index.
fn pool_bytes<M: Medium>(tree: &Tree<M>, grant: &Grant, indexed: KeyLengths) -> Result<(u64, u64)> {
    let Grant { totals, memtables } = grant;
    let mut keys = totals.long_keys;
    keys.add_all(indexed);
    let piece_bytes = tree.piece_bytes(keys);
    let segments = segment_bytes_max(totals.key_record_bytes, totals.long_keys.longest_bytes, piece_bytes)
        + memtables * piece_bytes;
    Ok((segments + tree.node_bytes_max(totals.entries, keys)?, piece_bytes))
}

/// Sets aside in the pool what flushing so much takes, and keeps back so much for a compaction.
pub(crate) fn reserve<M: Medium>(
    pool: &Pool<M>,
    tree: &Tree<M>,
    grant: &Grant,
    indexed: KeyLengths,
    kept_back_bytes: u64,
) -> Result<()> {
    let (bytes, piece_bytes) = pool_bytes(tree, grant, indexed)?;
    let bytes = bytes + kept_back_bytes.next_multiple_of(piece_bytes);
    // Lowered first to what of it is free, so that raising it finds out what is not.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
