//! The sources of a rebuild's keys: key sections, and perhaps an index checkpoint.

use std::sync::Arc;

use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::{Source, TableKeys};
use slmdb_env::Result;
use slmdb_table::{CheckpointStream, EntryKind, Place};

/// A source of keys.
pub(crate) enum Keys<'t> {
    /// The key section of a table file, and the file's position among those of the store.
    Table { file: usize, keys: TableKeys<&'t Tables> },
    /// A checkpoint, and for each of its files the position among those of the store, if it still exists.
    Checkpoint { files: Arc<[Option<usize>]>, stream: CheckpointStream },
}

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) kind: EntryKind,
    pub(crate) place: Place,
    /// The position of its file among those of the store. `None`: the file is gone.
    pub(crate) file: Option<usize>,
    pub(crate) is_of_checkpoint: bool,
}

impl Keys<'_> {
    /// Moves before the first entry with a key at or after `from`, possibly somewhat further back.
    pub(crate) fn seek(&mut self, from: &[u8]) -> Result<()> {
        match self {
            Keys::Table { keys, .. } => keys.seek(from),
            Keys::Checkpoint { stream, .. } => stream.seek(from),
        }
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        match self {
            Keys::Table { keys, .. } => keys.chunks(),
            Keys::Checkpoint { stream, .. } => stream.chunks(),
        }
    }

    /// The first key of a chunk.
    pub(crate) fn first_key(&self, chunk: usize) -> Result<Vec<u8>> {
        match self {
            Keys::Table { keys, .. } => keys.first_key(chunk),
            Keys::Checkpoint { stream, .. } => stream.first_key(chunk),
        }
    }

    /// The current version, if there is one.
    #[inline]
    pub(crate) fn version(&self) -> Option<Version> {
        match self {
            Keys::Table { file, keys } => keys.entry().map(|entry| Version {
                sequence: entry.sequence,
                kind: entry.kind,
                place: entry.place,
                file: Some(*file),
                is_of_checkpoint: false,
            }),
            Keys::Checkpoint { files, stream } => stream.location().map(|location| Version {
                sequence: location.sequence,
                kind: EntryKind::Put,
                place: location.place,
                file: files[location.file_index],
                is_of_checkpoint: true,
            }),
        }
    }
}

impl Source for Keys<'_> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Keys::Table { keys, .. } => keys.advance(),
            Keys::Checkpoint { stream, .. } => stream.advance(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Keys::Table { keys, .. } => keys.key(),
            Keys::Checkpoint { stream, .. } => stream.key(),
        }
    }

    #[inline]
    fn sequence(&self) -> u64 {
        match self {
            Keys::Table { keys, .. } => keys.sequence(),
            Keys::Checkpoint { stream, .. } => stream.location().map_or(0, |location| location.sequence),
        }
    }
}
