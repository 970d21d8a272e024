//! How much of the pool applying entries may need: a bound that holds whatever the keys are.
//!
//! Each entry needs a record slot of its own, and nothing that it replaces is free before the group is over, or while a
//! reader is there. A slot is up to an eighth larger than its record, and extents that come out of the reserve have as many slots as
//! fit into a unit or two. In each size one extent may be filled in part.
//!
//! A leaf that overflows has 48 keys, and its successors at least 24 each. So an insertion splits one of the leaves that are there, or it
//! takes 24 insertions to fill a new one. Leaves that were replaced are needed twice for the few groups until no
//! reader is left.

use slmdb_pmem::{Medium, Slots, UNIT_BYTES};

use super::apply::GROUP_KEYS;
use super::layout::{LEAF_BYTES, LEAF_SLOTS, RECORD_HEADER_BYTES};

/// Groups after which a replaced leaf is free again, if nobody keeps a reader waiting.
const GROUPS_WAITED_FOR: u64 = 4;

/// What applying so many entries can need of the pool at most, in bytes. Their keys have `key_bytes` together, and
/// `longest_key_bytes` at most. The tree has `leaves` leaves now.
pub fn pool_bytes_max<M: Medium>(entries: u64, key_bytes: u64, longest_key_bytes: u32, leaves: u64) -> u64 {
    if entries == 0 {
        return 0;
    }
    let longest = RECORD_HEADER_BYTES as u32 + longest_key_bytes;
    let record_bytes = entries.saturating_mul(RECORD_HEADER_BYTES + 7).saturating_add(key_bytes);
    let rounded = record_bytes.saturating_add(record_bytes / 8);
    // What does not fit at the end of an extent: less than a slot.
    let slot_bytes = u64::from(slmdb_pmem::slots::slot_bytes(longest));
    let filled =
        if slot_bytes <= UNIT_BYTES / 16 { rounded.saturating_add(rounded / 15) } else { rounded.saturating_mul(2) };
    let sizes = sizes_up_to(longest).min(entries);
    let part_extents = sizes.saturating_mul(slot_bytes.next_multiple_of(UNIT_BYTES).max(UNIT_BYTES));
    let half = LEAF_SLOTS as u64 / 2;
    let splits = entries.min(leaves).saturating_add(entries / half).saturating_add(1);
    let waiting = (2 * GROUPS_WAITED_FOR * GROUP_KEYS as u64).min(splits.saturating_mul(2));
    let new_leaves = splits.saturating_add(waiting).saturating_add(2);
    filled.saturating_add(part_extents).saturating_add(Slots::<M>::extent_bytes_max(LEAF_BYTES as u32, new_leaves))
}

/// How many sizes of slots there are up to one.
fn sizes_up_to(bytes: u32) -> u64 {
    let slot_bytes = slmdb_pmem::slots::slot_bytes(bytes);
    let (mut size, mut count) = (0, 0);
    while size < slot_bytes {
        size = slmdb_pmem::slots::slot_bytes(size + 1);
        count += 1;
    }
    count
}
