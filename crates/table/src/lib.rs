//! Table files: the sorted, checked, write-once files on the slow tier that hold what no MemTable holds any more
//! (SSTables in the paper, section 2.1; SLM-DB keeps one level of them, section 3).
//!
//! A table file serves three readers, and its forms follow from them:
//!
//! - **A `get` that comes from the index** brings a [`Place`] and wants one entry. So each entry stands by itself, with a checksum of
//!   its own, and is all that is read: one operation of the device. Only where entries become smaller by being compressed together they lie
//!   in blocks of about 4 KiB.
//!   Such a file has no index and no filter; the tree in the fast tier has replaced both (section 3.1).
//! - **A rebuild of that index** wants every key and no value. So at the end lies a *key section*: each entry's key,
//!   sequence number, kind and place, in order. [`TableBuilder::finish`] hands the same section back from memory, since
//!   whoever has written a table next puts its keys into the index.
//!
//! - **A `get` that brings its key alone**, in a store of levels, wants to know which block has it. A file that is
//!   [searched by key](TableForm::ByKey) has an index in chunks, with a filter each, in place of the key section, and its entries in blocks.
//!
//! ```text
//! +-------+-------+-------+-- --+-----------+-- --+------------+--------+
//! | entry | entry | block |  …  | key chunk |  …  | properties | footer |
//! +-------+-------+-------+-- --+-----------+-- --+------------+--------+
//! 0                             key section                             file length < 4 GiB
//! ```
//!
//! Every part but the footer ends in a checksum (module `part`), which covers not only the bytes but also
//! the store, the file and the offset they belong to: bytes that are whole but in the wrong place are found out. Parts
//! follow one another without gaps and the footer knows the file's length, so there is no byte in a table file that can
//! change unnoticed. `docs/formats/table.md` has the byte tables.
//!
//! What is read is taken as hostile throughout. Whatever the bytes, the answer is right or an
//! [`Error`](slmdb_env::Error) that names file and offset; no read allocates more than the part's length in the file or
//! than [`COMPRESSED_PART_MAXIMUM_BYTES`], and nothing is decoded before its checksum was right.
//!
//! ```
//! # use std::path::Path;
//! # use slmdb_testkit::MemoryEnv;
//! use slmdb_table::{EntryKind, TableBuilder, TableOptions, TableReader};
//!
//! # let (env, path, store_uuid) = (MemoryEnv::new(), Path::new("/7.table"), [0; 16]);
//! let mut builder = TableBuilder::new(&env, path, 7, store_uuid, TableOptions::default())?;
//! builder.add(b"key", 1, EntryKind::Put, b"value")?;
//! let finished = builder.finish()?;
//!
//! let table = TableReader::open(&env, path, 7, store_uuid)?;
//! for entry in finished.keys.entries() {
//!     let entry = entry?;
//!     let block = table.read_block(entry.place)?;
//!     assert_eq!(block.get(entry.key)?.map(|found| found.value.to_vec()), Some(b"value".to_vec()));
//! }
//! # Ok::<(), slmdb_env::Error>(())
//! ```
//!
//! To read this crate: `part` and `compression`, `single`, [`Block`], `layout` and `block_builder`, `key_section`, `properties` and `footer`, then
//! [`TableBuilder`], `source` and [`TableReader`], `mapping` and `mapped`, and [`SequentialReader`]; for files that are searched by key [`slmdb_filter`], [`IndexChunk`],
//! `index_builder`, `find`, [`TableCursor`], [`TableScan`] and `salvage`.
#![forbid(unsafe_code)]

mod block;
mod block_builder;
mod builder;
mod checkpoint;
mod codec;
mod compression;
mod cursor;
mod entry;
mod find;
mod footer;
mod index_builder;
mod index_chunk;
mod key_chunk_sizes;
mod key_section;
mod key_stream;
mod layout;
mod mapped;
mod mapping;
mod options;
mod part;
mod properties;
mod reader;
mod salvage;
mod sequential;
mod single;
mod slice;
mod source;
mod table_cursor;
mod table_scan;
#[cfg(test)]
#[allow(dead_code)]
mod testing;
mod trials;
mod verify;
mod worst_case;
mod write_back;
mod writer;

pub use block::Block;
pub use builder::{FinishedTable, TableBuilder};
pub use checkpoint::{
    CHECKPOINT_FORMAT_VERSION, CheckpointReader, CheckpointStream, CheckpointWriter, CheckpointedFile,
    CheckpointedLocation, FinishedCheckpoint,
};
pub use compression::Compression;
pub use cursor::{BlockCursor, BlockEntries};
pub use entry::{BlockEntry, EntryKind, KeyEntry, Place, TableEntry};
pub use find::{EntriesBefore, TableParts};
pub use footer::FORMAT_VERSION;
pub use index_chunk::IndexChunk;
pub use key_chunk_sizes::CHUNK_BYTES as KEY_CHUNK_BYTES;
pub use key_section::{KeyEntries, KeySection};
pub use key_stream::{KeyChunk, KeyStream};
pub use mapped::MappedRead;
pub use options::{
    LARGEST_BLOCK_BYTES, MAXIMUM_FILE_BYTES, MAXIMUM_FILTER_BITS_PER_KEY, MAXIMUM_KEY_BYTES, MAXIMUM_VALUE_BYTES,
    SMALLEST_BLOCK_BYTES, TableForm, TableOptions,
};
pub use part::COMPRESSED_PART_MAXIMUM_BYTES;
pub use properties::Properties;
pub use reader::TableReader;
pub use salvage::{Gap, SalvagedPart};
pub use sequential::{Lent, Piece, SequentialReader};
pub use slice::Slice;
pub use table_cursor::TableCursor;
pub use table_scan::TableScan;
pub use worst_case::WorstCase;
