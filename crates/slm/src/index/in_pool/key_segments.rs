//! Key segments: the key records of one table file, to which the index points. Also what the MANIFEST keeps of that
//! file.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, Claim, Pool};
use slmdb_structures::fast_fair::{Segment, SegmentEntry, write_segment_claiming};
use slmdb_table::KeySection;

/// Writes the key segment of a finished table file: the newest version of each key.
pub(crate) fn segment_of(pool: &Arc<Pool<AnyMedium>>, number: u32, keys: &KeySection, claim: Claim) -> Result<Segment> {
    let mut entries = Vec::with_capacity(keys.len() as usize);
    let mut key_bytes = Vec::new();
    for entry in keys.newest_entries() {
        let entry = entry?;
        let start = key_bytes.len();
        key_bytes.extend_from_slice(entry.key);
        entries.push((start..key_bytes.len(), entry.sequence, entry.kind, entry.place));
    }
    let entries = entries.iter().map(|(key, sequence, kind, place)| SegmentEntry {
        key: &key_bytes[key.clone()],
        sequence: *sequence,
        kind: *kind,
        block_offset: place.offset,
        block_length: place.length,
    });
    write_segment_claiming(pool, number, entries, claim)
}
