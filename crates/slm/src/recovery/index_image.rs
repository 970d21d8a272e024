//! The index image: what a clean close on `Dram` leaves of a large index, so that the next opening need not make it anew.
//!
//! It is the sealed pool in the file `INDEX` ([`Pool::write_image`]), bound to the table files whose entries the index
//! points to. The index follows from these files, and their numbers are never given out twice. So an image that is
//! bound to the files of the MANIFEST is the index of this store, whatever has happened since it was written
//! (INV-35). Any other file of that name means nothing: the index is rebuilt.
//!
//! Nobody relies on an image. It is not synced, a full disk costs the image alone, and the first opening that takes the
//! store over removes it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::Options;
use slmdb_engine::directory::pool_binding;
use slmdb_engine::files::file_names as names;
use slmdb_engine::observe::spans::timed;
use slmdb_env::{Env, Result};
use slmdb_manifest::StoreState;
use slmdb_pmem::Medium;
use slmdb_pmem::pool::ImageBinding;
use tracing::field::Empty;
use tracing::info_span;

use crate::index::in_memory::MemoryIndex;
use crate::index::{OpenIndex, has_memory_tree, in_pool};
use crate::recovery::index_checkpoint::IndexCheckpointer;

/// What the image of an index belongs to: the table files of the store, with what the index has of each.
fn binding(state: &StoreState) -> ImageBinding {
    let mut crc = 0;
    let mut live_keys = 0_u64;
    for (number, file) in &state.files {
        live_keys = live_keys.wrapping_add(file.live_keys);
        crc = slmdb_checksum::crc32c_append(crc, &number.to_le_bytes());
        for word in [file.length_bytes, file.entries, file.live_keys, file.lowest_sequence, file.highest_sequence] {
            crc = slmdb_checksum::crc32c_append(crc, &word.to_le_bytes());
        }
    }
    let mut binding = ImageBinding::default();
    binding[..8].copy_from_slice(&state.flushed_through.to_le_bytes());
    binding[8..16].copy_from_slice(&live_keys.to_le_bytes());
    binding[16..20].copy_from_slice(&(state.files.len() as u32).to_le_bytes());
    binding[20..24].copy_from_slice(&state.next_file_number.to_le_bytes());
    binding[24..28].copy_from_slice(&crc.to_le_bytes());
    binding
}

/// The index of a store that was closed clean, if there is an image of it. An image that can't be read is none.
pub(crate) fn open(options: &Options, directory: &Path, state: &StoreState) -> Option<OpenIndex> {
    let path = names::index_image(directory);
    state.closed_at_sequence?;
    if !options.env.exists(&path).is_ok_and(|exists| exists) {
        return None;
    }
    let open = || -> Result<_> {
        if has_memory_tree(options) {
            let index = MemoryIndex::of_image(options, &path, state, &binding(state))?;
            return Ok(Some(OpenIndex::new(Arc::new(pool_binding::in_memory(options, state)?), index)));
        }
        let Some(pool) = pool_binding::image(options, state, &path, &binding(state))? else { return Ok(None) };
        in_pool::open::of_pool(pool, options).map(Some)
    };
    let opened = timed(&*options.env, info_span!("open_index_image", ms = Empty), open);
    opened.unwrap_or_else(|error| {
        tracing::warn!(%error, "the index image can't be read; the index is rebuilt");
        None
    })
}

/// Removes an image, if there is one.
pub(crate) fn remove(env: &dyn Env, directory: &Path) -> Result<()> {
    let path = names::index_image(directory);
    if env.exists(&path)? { env.remove_file(&path) } else { Ok(()) }
}

impl IndexCheckpointer {
    /// Leaves what spares the next opening on `Dram` a rebuild: an image of a large index, a checkpoint of another. All
    /// background threads have ended.
    pub(crate) fn leave_index(&self) -> Result<()> {
        if self.state.index.pool.medium().is_persistent() || self.write_image()? {
            Ok(())
        } else {
            self.take_at_close()
        }
    }

    /// Writes the image. `false` if there is none: the index is small, is not the MANIFEST's, or can't be written.
    /// LOCKS: catalog; indexing
    fn write_image(&self) -> Result<bool> {
        let (options, path) = (&self.store.context.options, names::index_image(&self.store.context.directory));
        let (live_keys, uuid, binding) = {
            let catalog = self.store.catalog.lock();
            let state = catalog.state();
            (state.files.values().map(|file| file.live_keys).sum::<u64>(), state.uuid, binding(state))
        };
        if live_keys < options.index_image_keys_min
            || *self.state.index.indexing.lock()
            || self.store.context.has_failed()
        {
            return Ok(false);
        }
        let span = info_span!("write_index_image", keys = live_keys, ms = Empty);
        match timed(&*options.env, span, || self.state.index.keys.write_image(&*options.env, &path, uuid, &binding)) {
            Ok(bytes) => {
                self.store.context.counted.file_bytes_written.fetch_add(bytes, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => {
                tracing::warn!(%error, "no index image could be written");
                remove(&*options.env, &self.store.context.directory)?;
                Ok(false)
            }
        }
    }
}
