//! What is kept free in the pool: what flushes take of it at worst (key records, and nodes that may be split), and the key segment of
//! one output of a compaction.

use slmdb_engine::space::allowance::Grant;
use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::KeyLengths;
use slmdb_structures::fast_fair::{Tree, segment_bytes_max};

/// The bytes that flushing a grant takes of the pool at most, and the size of their pieces. `indexed`: the long keys in
/// the index.
fn pool_bytes(tree: &Tree<AnyMedium>, grant: &Grant, indexed: KeyLengths) -> Result<(u64, u64)> {
    let Grant { totals, memtables } = grant;
    let mut keys = totals.long_keys();
    keys.add_all(indexed);
    let piece_bytes = tree.piece_bytes(keys);
    let segments = segment_bytes_max(totals.entries, totals.key_bytes, totals.longest_key_bytes, piece_bytes)
        + memtables * piece_bytes;
    Ok((segments + tree.node_bytes_max(totals.entries, keys)?, piece_bytes))
}

/// Sets aside in the pool what flushing a grant takes, and `kept_back_bytes` for a compaction.
/// [`Error::Full`] if it is not there.
/// LOCKS: pool grant (held), in an open store
pub(crate) fn reserve(
    pool: &Pool<AnyMedium>,
    tree: &Tree<AnyMedium>,
    grant: &Grant,
    indexed: KeyLengths,
    kept_back_bytes: u64,
) -> Result<()> {
    let (bytes, piece_bytes) = pool_bytes(tree, grant, indexed)?;
    let bytes = bytes + kept_back_bytes.next_multiple_of(piece_bytes);
    // First lowered to the part that is free, so that raising it finds out what is missing.
    pool.set_reserve(pool.reserve_free_bytes().min(bytes), piece_bytes)?;
    pool.set_reserve(bytes, piece_bytes)
}
