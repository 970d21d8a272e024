//! [`FileKeys`]: the key section of a table file, from some key on; and [`ChunkKeys`], which remembers where its chunks begin.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::Source;
use slmdb_env::Result;
use slmdb_sync::scheduled::Mutex;
use slmdb_table::{KeyEntry, KeyStream};

use super::get::Reader;

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

    fn first_key(&self, file: u32, chunk: usize, read: impl FnOnce() -> Result<Vec<u8>>) -> Result<Arc<[u8]>> {
        if let Some(key) = self.known.lock().get(&file).and_then(|chunks| chunks.get(&chunk)) {
            return Ok(key.clone());
        }
        let key: Arc<[u8]> = read()?.into();
        self.known.lock().entry(file).or_default().insert(chunk, key.clone());
        Ok(key)
    }
}

/// The key section of a table file, for as long as one likes. It keeps no file open.
pub(super) struct FileKeys {
    pub(super) file: u32,
    tables: Arc<Tables>,
    stream: KeyStream,
}

impl FileKeys {
    /// Before the first entry with a key at or after `from`, or somewhat further back.
    pub(super) fn new(reader: &Reader, file: u32, from: Option<&[u8]>) -> Result<FileKeys> {
        let tables = reader.store.tables.clone();
        let mut keys = FileKeys { file, stream: KeyStream::new(&*tables.reader(file)?), tables };
        if let Some(from) = from {
            let (chunk, _) = keys.last_chunk_before(reader, Some(from))?;
            keys.stream.enter(&keys.tables.key_chunk(file, &keys.stream, chunk)?, from);
        }
        Ok(keys)
    }

    /// The last chunk that begins before a key, and its first key. The first chunk always counts, and its first key is not told.
    pub(super) fn last_chunk_before(
        &self,
        reader: &Reader,
        until: Option<&[u8]>,
    ) -> Result<(usize, Option<Arc<[u8]>>)> {
        let order = &reader.store.context.options.comparator;
        let (mut before, mut behind, mut begin) = (0, self.stream.chunks(), None);
        while before + 1 < behind {
            let middle = before + (behind - before) / 2;
            let read = || self.stream.first_key(&*self.tables.reader(self.file)?, middle);
            let first_key = reader.state.chunk_keys.first_key(self.file, middle, read)?;
            if until.is_none_or(|until| order.compare(&first_key, until).is_lt()) {
                (before, begin) = (middle, Some(first_key));
            } else {
                behind = middle;
            }
        }
        Ok((before, begin))
    }

    /// The current entry, if there is one.
    #[inline]
    pub(super) fn entry(&self) -> Option<KeyEntry<'_>> {
        self.stream.entry()
    }

    /// How many entries the table file has before the current one.
    pub(super) fn ordinal(&self) -> Option<u64> {
        self.stream.ordinal()
    }
}

impl Source for FileKeys {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        self.stream.advance(|| self.tables.reader(self.file))
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.stream.entry().map_or(&[], |entry| entry.key)
    }

    #[inline]
    fn sequence(&self) -> u64 {
        self.stream.entry().map_or(0, |entry| entry.sequence)
    }
}
