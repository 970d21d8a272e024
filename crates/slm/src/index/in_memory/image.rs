//! The image of an index in plain memory: its entries, page by page ([format](../../../../../docs/formats/memory-index.md)), bound to the
//! store and its table files by the seed of each page's checksum.

use std::collections::HashMap;
use std::path::Path;

use slmdb_engine::Options;
use slmdb_env::{Env, Error, File, OpenMode, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::pool::ImageBinding;
use slmdb_structures::memory_tree::{BulkPart, IMAGE_PAGE_BYTES, ImageReader};
use slmdb_sync::scheduled::processors;

use super::MemoryIndex;
use crate::index::side_by_side;

/// Fewer pages are not worth another thread.
const PAGES_A_PART_MIN: u64 = 16;
/// More parts don't make it faster.
const PARTS_MAX: u64 = 16;

/// The seed of the image of this store's index.
pub(crate) fn seed(uuid: [u8; 16], binding: &ImageBinding) -> u32 {
    slmdb_checksum::crc32c_append(slmdb_checksum::crc32c(&uuid), binding)
}

impl MemoryIndex {
    /// Writes an image to a new file. Not durable on return, and it need not be. Gives the file's length.
    pub(super) fn write_pages(&self, env: &dyn Env, path: &Path, seed: u32) -> Result<u64> {
        let file = env.open_file(path, OpenMode::CreateOrTruncate)?;
        let mut length_bytes = 0;
        self.tree.write_image(seed, |page| {
            file.write_at(page, length_bytes)?;
            length_bytes += page.len() as u64;
            Ok(())
        })?;
        Ok(length_bytes)
    }

    /// The index that an image holds. [`Error::Corruption`] if it is not that of this store and these files, or is not what the MANIFEST says: as many keys
    /// in each table file as are live.
    pub(crate) fn of_image(
        options: &Options,
        path: &Path,
        state: &StoreState,
        binding: &ImageBinding,
    ) -> Result<MemoryIndex> {
        let seed = seed(state.uuid, binding);
        let file = options.env.open_file(path, OpenMode::Read)?;
        let index = MemoryIndex::new()?;
        let pages = file.length_bytes()? / IMAGE_PAGE_BYTES as u64;
        let mut files = HashMap::with_capacity(state.files.len());
        for (position, &number) in state.files.keys().enumerate() {
            files.insert(number, (index.tree.files().slot(number)?, position));
        }
        let count = (processors() as u64).min(PARTS_MAX).min(pages / PAGES_A_PART_MIN).max(1);
        let read_part = |part: u64| {
            read_part(&index, &*file, path, seed, &files, (part * pages / count, (part + 1) * pages / count))
        };
        let parts = side_by_side(0..count, read_part)?;
        let mut live = vec![0; state.files.len()];
        let mut loaded = Vec::with_capacity(parts.len());
        for (part, counted) in parts {
            live.iter_mut().zip(counted).for_each(|(sum, count)| *sum += count);
            loaded.push(part);
        }
        if !state.files.values().map(|file| file.live_keys).eq(live) {
            return Err(Error::corruption(
                path,
                0,
                "it has other keys of the table files than the MANIFEST says are live",
            ));
        }
        index.finish_load(loaded).map_err(|error| match error {
            Error::Invalid { what } => Error::corruption(path, 0, what),
            error => error,
        })?;
        Ok(index)
    }
}

/// Reads some pages, and the one behind them if their last key ends there. Also counts the keys of each file.
fn read_part(
    index: &MemoryIndex,
    file: &dyn File,
    path: &Path,
    seed: u32,
    files: &HashMap<u32, (u32, usize)>,
    (from, to): (u64, u64),
) -> Result<(BulkPart, Vec<u64>)> {
    let mut reader = ImageReader::new(&index.tree, seed, from, path);
    let mut live = vec![0; files.len()];
    let mut bytes = vec![0; IMAGE_PAGE_BYTES];
    let mut page = from;
    while page < to || reader.needs_next_page() {
        file.read_exact_at(&mut bytes, page * IMAGE_PAGE_BYTES as u64)?;
        reader.add_page(&bytes, |number| {
            let &(slot, position) = files.get(&number)?;
            live[position] += 1;
            Some(slot)
        })?;
        page += 1;
    }
    let (part, _) = reader.finish()?;
    Ok((part, live))
}
