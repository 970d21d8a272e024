//! The keys of many files, merged in order: what the index gets is the newest version of each key.
//!
//! Sources are key sections and perhaps an index checkpoint, each in key order. They stand in a tournament whose losers are
//! kept, so that the next smallest costs one comparison a level; and mostly that of 8 bytes behind what all keys have in
//! common.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_table::{CheckpointStream, EntryKind, KeyStream, Place};

use super::super::tables::Tables;

/// Where keys come from.
pub(super) enum Keys<'t> {
    /// The key section of a table file: its number, and its place among the files of the store.
    Table { number: u32, file: usize, tables: &'t Tables, stream: KeyStream },
    /// A checkpoint, and for each of its files the place among those of the store, if it is there still.
    Checkpoint { files: Arc<[Option<usize>]>, stream: CheckpointStream },
}

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) sequence: u64,
    pub(super) kind: EntryKind,
    pub(super) place: Place,
    /// The place of its file among those of the store; `None`: it is not there any more.
    pub(super) file: Option<usize>,
    pub(super) is_of_checkpoint: bool,
}

impl<'t> Keys<'t> {
    /// Before the first entry with this key or a larger one, or somewhat before.
    pub(super) fn seek(&mut self, from: &[u8]) -> Result<()> {
        match self {
            Keys::Table { number, tables, stream, .. } => stream.seek(&*tables.reader(*number)?, from),
            Keys::Checkpoint { stream, .. } => stream.seek(from),
        }
    }

    /// How many chunks it has.
    pub(super) fn chunks(&self) -> usize {
        match self {
            Keys::Table { stream, .. } => stream.chunks(),
            Keys::Checkpoint { stream, .. } => stream.chunks(),
        }
    }

    /// The first key of a chunk.
    pub(super) fn first_key(&self, chunk: usize) -> Result<Vec<u8>> {
        match self {
            Keys::Table { number, tables, stream, .. } => stream.first_key(&*tables.reader(*number)?, chunk),
            Keys::Checkpoint { stream, .. } => stream.first_key(chunk),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Keys::Table { number, tables, stream, .. } => stream.advance(|| tables.reader(*number)),
            Keys::Checkpoint { stream, .. } => stream.advance(),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            Keys::Table { stream, .. } => stream.entry().map_or(&[], |entry| entry.key),
            Keys::Checkpoint { stream, .. } => stream.key(),
        }
    }

    #[inline]
    fn version(&self) -> Option<Version> {
        match self {
            Keys::Table { file, stream, .. } => stream.entry().map(|entry| Version {
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

struct Source<'t> {
    keys: Keys<'t>,
    /// 8 bytes of its key behind the common prefix.
    head: u64,
    is_done: bool,
}

/// See the module.
pub(super) struct Merge<'t> {
    sources: Vec<Source<'t>>,
    /// The loser at each inner place of the tournament, from 1 on; at 0 who wins it all.
    losers: Vec<usize>,
    order: KeyOrder,
    /// What all keys begin with, under the order by bytes; what does not is found in its place all the same.
    prefix: Vec<u8>,
}

impl<'t> Merge<'t> {
    /// Of sources that are before their first entry or, for all but the first part of the key space, before `from`.
    pub(super) fn new(
        sources: Vec<Keys<'t>>,
        order: KeyOrder,
        prefix: Vec<u8>,
        from: Option<&[u8]>,
    ) -> Result<Merge<'t>> {
        let mut merge = Merge { sources: Vec::with_capacity(sources.len()), losers: Vec::new(), order, prefix };
        for mut keys in sources {
            let mut is_done = false;
            if let Some(from) = from {
                keys.seek(from)?;
                is_done = loop {
                    if !keys.advance()? {
                        break true;
                    }
                    if merge.order.compare(keys.key(), from).is_ge() {
                        break false;
                    }
                };
            } else if !keys.advance()? {
                is_done = true;
            }
            let head = merge.head(keys.key());
            merge.sources.push(Source { keys, head, is_done });
        }
        merge.play_all();
        Ok(merge)
    }

    fn play_all(&mut self) {
        let count = self.sources.len();
        let mut winners: Vec<usize> = (0..2 * count).map(|place| place.saturating_sub(count)).collect();
        self.losers = vec![0; count.max(1)];
        for place in (1..count).rev() {
            let (left, right) = (winners[2 * place], winners[2 * place + 1]);
            let left_wins = self.is_before(left, right);
            (winners[place], self.losers[place]) = if left_wins { (left, right) } else { (right, left) };
        }
        self.losers[0] = if count > 1 { winners[1] } else { 0 };
    }

    #[inline]
    fn head(&self, key: &[u8]) -> u64 {
        if !self.order.is_bytewise() {
            return 0;
        }
        match key.strip_prefix(&self.prefix[..]) {
            Some(rest) => match rest.first_chunk::<8>() {
                Some(first) => u64::from_be_bytes(*first),
                None => rest.iter().enumerate().fold(0, |head, (at, &byte)| head | u64::from(byte) << (56 - 8 * at)),
            },
            None if key < &self.prefix[..] => 0,
            None => u64::MAX,
        }
    }

    #[inline]
    fn is_before(&self, left: usize, right: usize) -> bool {
        let (left, right) = (&self.sources[left], &self.sources[right]);
        if left.is_done || right.is_done {
            return !left.is_done;
        }
        match left.head.cmp(&right.head) {
            Ordering::Equal => self.order.compare(left.keys.key(), right.keys.key()).is_lt(),
            different => different.is_lt(),
        }
    }

    fn first(&self) -> Option<&Source<'t>> {
        self.sources.get(self.losers[0]).filter(|source| !source.is_done)
    }

    /// The smallest key that is left.
    #[inline]
    pub(super) fn key(&self) -> Option<&[u8]> {
        self.first().map(|source| source.keys.key())
    }

    /// One version of it.
    #[inline]
    pub(super) fn version(&self) -> Option<Version> {
        self.first().and_then(|source| source.keys.version())
    }

    /// Goes on behind that.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<()> {
        let mut winner = self.losers[0];
        let source = &mut self.sources[winner];
        source.is_done = !source.keys.advance()?;
        let head = self.head(self.sources[winner].keys.key());
        self.sources[winner].head = head;
        let mut place = (winner + self.sources.len()) / 2;
        while place > 0 {
            if self.is_before(self.losers[place], winner) {
                std::mem::swap(&mut self.losers[place], &mut winner);
            }
            place /= 2;
        }
        self.losers[0] = winner;
        Ok(())
    }
}
