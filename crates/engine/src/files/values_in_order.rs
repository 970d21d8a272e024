//! The values of a table file in the order of the file, for compactions. Only blocks with a value that is asked for are
//! read, each once, and a window at a time.

use std::path::{Path, PathBuf};

use slmdb_env::{Error, Result};
use slmdb_table::{Block, EntryKind, KeyEntry, Lent, SequentialReader, Slice, TableReader};

/// The values of one table file, read in its order.
pub struct Values {
    reader: SequentialReader,
    block: Option<(u32, Block)>,
    /// The last value that was in a block.
    value: Slice,
    path: PathBuf,
    /// Bytes of blocks that were read.
    pub read_bytes: u64,
}

impl Values {
    /// The values of the reader's file, of which `window_bytes` are read at a time.
    pub fn new(reader: &TableReader, window_bytes: usize) -> Values {
        Values {
            reader: reader.sequential(window_bytes),
            block: None,
            value: Slice::new(),
            path: reader.path().into(),
            read_bytes: 0,
        }
    }

    /// The value of a put in the file's key section. It is lent until the next call. [`Error::Corruption`] if the
    /// entry, or the block that should hold it, disagrees with the key section.
    pub fn value(&mut self, entry: &KeyEntry<'_>) -> Result<&[u8]> {
        let block = match self.block.take() {
            Some((offset, block)) if offset == entry.place.offset => block,
            _ => {
                self.read_bytes += u64::from(entry.place.length);
                match self.reader.read(entry.place)? {
                    Lent::Entry { key, sequence, kind: EntryKind::Put, value }
                        if key == entry.key && sequence == entry.sequence =>
                    {
                        return Ok(value);
                    }
                    Lent::Entry { .. } => return Err(disagreement(&self.path, entry)),
                    Lent::Block(block) => block,
                }
            }
        };
        let found = block.get_version(entry.key, entry.sequence)?;
        self.block = Some((entry.place.offset, block));
        match found {
            Some(found) if found.kind == EntryKind::Put => {
                self.value = found.value;
                Ok(&self.value)
            }
            _ => Err(disagreement(&self.path, entry)),
        }
    }
}

#[cold]
fn disagreement(path: &Path, entry: &KeyEntry<'_>) -> Error {
    let what = "an entry, or a block, does not hold what the key section says";
    Error::corruption(path, u64::from(entry.place.offset), what)
}

#[cfg(test)]
mod tests {
    use slmdb_table::{TableBuilder, TableOptions};
    use slmdb_testkit::MemoryEnv;

    use super::*;

    /// Versions that snapshots saw stand beside the newest, mostly in the same block.
    #[test]
    fn each_version_of_a_key_has_its_own_value() {
        let (env, path) = (MemoryEnv::new(), Path::new("/table"));
        let mut builder = TableBuilder::new(&env, path, 1, [7; 16], TableOptions::default()).unwrap();
        for (sequence, kind, value) in
            [(9, EntryKind::Put, "new"), (5, EntryKind::Delete, ""), (3, EntryKind::Put, "old")]
        {
            builder.add(b"key", sequence, kind, value.as_bytes()).unwrap();
        }
        builder.finish().unwrap();
        let reader = TableReader::open(&env, path, 1, [7; 16]).unwrap();
        let (keys, mut values) = (reader.key_section().unwrap(), Values::new(&reader, 1 << 20));
        let mut found = Vec::new();
        for entry in keys.entries().map(Result::unwrap) {
            match entry.kind {
                EntryKind::Put => found.push(values.value(&entry).unwrap().to_vec()),
                EntryKind::Delete => assert!(matches!(values.value(&entry), Err(Error::Corruption { .. }))),
            }
        }
        assert_eq!(found, [b"new", b"old"]);
        let never_written = KeyEntry { sequence: 4, ..keys.entries().next().unwrap().unwrap() };
        assert!(matches!(values.value(&never_written), Err(Error::Corruption { .. })));
    }
}
