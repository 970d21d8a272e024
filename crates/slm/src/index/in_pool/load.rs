//! Filling an empty index: key segments of all files, and the tree from the bottom up (`fast_fair/bulk.rs`), the parts of the key space
//! side by side.

use slmdb_env::Result;
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_structures::EntryKind;
use slmdb_structures::fast_fair::{BulkPart, SegmentEntry, SegmentWriter, Tree};
use slmdb_table::Place;

use crate::index::key_index::LoadEntry;
use crate::index::side_by_side;

/// See [`KeyIndex::load`](super::KeyIndex::load).
pub(super) fn load(
    pool: &Pool<AnyMedium>,
    tree: &Tree<AnyMedium>,
    bounds: &[Vec<u8>],
    files: &[(u32, u64)],
    fill: &(dyn Fn(usize, LoadEntry<'_>) -> Result<()> + Sync),
) -> Result<()> {
    let parts = tree.bulk_load(bounds)?;
    let share = parts.len() as u64;
    let fill_part = |(number, part)| fill_part(pool, part, files, share, number, fill);
    let filled = side_by_side(parts.into_iter().enumerate(), fill_part)?;
    let mut segments: Vec<Vec<SegmentWriter<'_, AnyMedium>>> = files.iter().map(|_| Vec::new()).collect();
    let mut loaded = Vec::with_capacity(filled.len());
    for (part, writers) in filled {
        segments.iter_mut().zip(writers).for_each(|(all, writer)| all.push(writer));
        loaded.push(part);
    }
    for writers in segments {
        SegmentWriter::finish(writers)?;
    }
    tree.finish_bulk_load(loaded)
}

/// A part, and what it has of each file's key segment.
type Filled<'p> = (BulkPart<'p, AnyMedium>, Vec<SegmentWriter<'p, AnyMedium>>);

fn fill_part<'p>(
    pool: &'p Pool<AnyMedium>,
    mut part: BulkPart<'p, AnyMedium>,
    files: &[(u32, u64)],
    share: u64,
    number: usize,
    fill: &(dyn Fn(usize, LoadEntry<'_>) -> Result<()> + Sync),
) -> Result<Filled<'p>> {
    let mut writers: Vec<_> =
        files.iter().map(|&(file, bytes)| SegmentWriter::new(pool, file, bytes / share)).collect();
    fill(number, &mut |key: &[u8], sequence, place: Place, file: usize| {
        let (block_offset, block_length) = (place.offset, place.length);
        let entry = SegmentEntry { key, sequence, kind: EntryKind::Put, block_offset, block_length };
        part.add(key, writers[file].add(&entry)?)
    })?;
    Ok((part, writers))
}
