//! Key sections of table files, from some key on; and [`ChunkKeys`], which remembers where their chunks begin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::TableKeys;
use slmdb_env::Result;
use slmdb_sync::scheduled::Mutex;

use super::get::Reader;

/// The key section of a table file, for as long as one likes.
pub(super) type FileKeys = TableKeys<Arc<Tables>>;

/// The first keys of chunks of a key section, by the numbers of the chunks.
type FirstKeys = BTreeMap<usize, Arc<[u8]>>;

/// The first keys of chunks of key sections, as far as anybody has asked for them. A key section has a chunk for each 64 KiB.
#[derive(Default)]
pub(crate) struct ChunkKeys {
    known: Mutex<HashMap<u32, FirstKeys>>,
}

impl ChunkKeys {
    /// Forgets a table file that has left the store.
    pub(crate) fn forget(&self, file: u32) {
        self.known.lock().remove(&file);
    }

    fn first_key(&self, keys: &FileKeys, chunk: usize) -> Result<Arc<[u8]>> {
        if let Some(key) = self.known.lock().get(&keys.number()).and_then(|chunks| chunks.get(&chunk)) {
            return Ok(key.clone());
        }
        let key: Arc<[u8]> = keys.first_key(chunk)?.into();
        self.known.lock().entry(keys.number()).or_default().insert(chunk, key.clone());
        Ok(key)
    }
}

/// A file's key section, before the first entry with a key at or after `from`, or somewhat further back.
pub(super) fn file_keys(reader: &Reader, file: u32, from: Option<&[u8]>) -> Result<FileKeys> {
    let tables = reader.store.tables.clone();
    let mut keys = TableKeys::new(file, &*tables.reader(file)?, tables);
    if let Some(from) = from {
        let (chunk, _) = last_chunk_before(reader, &keys, Some(from))?;
        keys.seek_in_chunk(chunk, from)?;
    }
    Ok(keys)
}

/// The last chunk that begins before a key, and its first key. The first chunk always counts, and its first key is not told.
pub(super) fn last_chunk_before(
    reader: &Reader,
    keys: &FileKeys,
    until: Option<&[u8]>,
) -> Result<(usize, Option<Arc<[u8]>>)> {
    let order = &reader.store.context.options.comparator;
    let (mut before, mut behind, mut begin) = (0, keys.chunks(), None);
    while before + 1 < behind {
        let middle = before + (behind - before) / 2;
        let first_key = reader.state.chunk_keys.first_key(keys, middle)?;
        if until.is_none_or(|until| order.compare(&first_key, until).is_lt()) {
            (before, begin) = (middle, Some(first_key));
        } else {
            behind = middle;
        }
    }
    Ok((before, begin))
}
