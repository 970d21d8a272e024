//! Merging: the entries of many sources in key order, versions of one key newest first (paper, section 3.3:
//! merge-sort).
//!
//! Compactions and rebuilds of the index merge key sections; a rebuild also an index checkpoint. Each source is read
//! one chunk at a time, so the memory of a merge depends on the number of sources and not on their length. They form a
//! tournament tree of losers: the next smallest costs one comparison per level, mostly of the 8 bytes behind the common
//! prefix of all keys.

use std::cmp::Ordering;
use std::ops::Deref;

use slmdb_env::{Error, Result};
use slmdb_order::{KeyOrder, common_prefix_bytes};
use slmdb_table::{KeyEntry, KeyStream, TableReader};

use crate::files::table_cache::Tables;

/// Entries in key order, versions of one key newest first.
pub trait Source {
    /// Moves to the next entry. `false`: there is none. A new source is before its first entry.
    fn advance(&mut self) -> Result<bool>;
    /// The current entry's key.
    fn key(&self) -> &[u8];
    /// The current entry's sequence number.
    fn sequence(&self) -> u64;
}

impl<S: Source + ?Sized> Source for Box<S> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        (**self).advance()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        (**self).key()
    }

    #[inline]
    fn sequence(&self) -> u64 {
        (**self).sequence()
    }
}

/// The key section of a table file, as a [`Source`]. It keeps no file open. `T`: how it has the table files.
pub struct TableKeys<T> {
    number: u32,
    tables: T,
    stream: KeyStream,
}

impl<T: Deref<Target = Tables>> TableKeys<T> {
    /// The key section of this table file, before its first entry.
    pub fn new(number: u32, reader: &TableReader, tables: T) -> TableKeys<T> {
        TableKeys { number, tables, stream: KeyStream::new(reader) }
    }

    /// The number of the table file.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Moves before the first entry with a key at or after `from`, possibly somewhat further back.
    pub fn seek(&mut self, from: &[u8]) -> Result<()> {
        self.stream.seek(&*self.tables.reader(self.number)?, from)
    }

    /// The same within this chunk, which comes from the cache if it is there.
    pub fn seek_in_chunk(&mut self, chunk: usize, from: &[u8]) -> Result<()> {
        let chunk = self.tables.key_chunk(self.number, &self.stream, chunk)?;
        self.stream.enter(&chunk, from);
        Ok(())
    }

    /// How many entries the table file has before the current one.
    pub fn ordinal(&self) -> Option<u64> {
        self.stream.ordinal()
    }

    /// What it takes in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.stream.memory_bytes()
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.stream.chunks()
    }

    /// The first key of a chunk.
    pub fn first_key(&self, chunk: usize) -> Result<Vec<u8>> {
        self.stream.first_key(&*self.tables.reader(self.number)?, chunk)
    }

    /// The current entry, if there is one.
    #[inline]
    pub fn entry(&self) -> Option<KeyEntry<'_>> {
        self.stream.entry()
    }

    /// Bytes of the chunks that were passed or are being read.
    pub fn read_bytes(&self) -> u64 {
        self.stream.read_bytes()
    }
}

impl<T: Deref<Target = Tables>> Source for TableKeys<T> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        self.stream.advance(|| self.tables.reader(self.number))
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

struct Contender<S> {
    source: S,
    /// The 8 bytes of its key behind the common prefix.
    head: u64,
    is_done: bool,
}

/// Merges sources.
pub struct Merge<S> {
    contenders: Vec<Contender<S>>,
    /// The loser at each inner place of the tournament, from 1 on. At 0: the winner of all.
    losers: Vec<usize>,
    order: KeyOrder,
    /// The common prefix of all keys, in the order by bytes. A key without it is still ordered correctly.
    prefix: Vec<u8>,
    /// Entries from this key on are left out. With its head.
    until: Option<(Vec<u8>, u64)>,
}

impl<S: Source> Merge<S> {
    /// Merges sources that are before their first entry. Ends before `until`. Entries before `from` are skipped one by
    /// one; a caller that begins far in lets the sources [seek](TableKeys::seek) first. An error comes with the
    /// position of its source.
    pub fn new(
        sources: Vec<S>,
        order: KeyOrder,
        prefix: Vec<u8>,
        (from, until): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<Merge<S>, (usize, Error)> {
        let contenders = Vec::with_capacity(sources.len());
        let mut merge = Merge { contenders, losers: Vec::new(), order, prefix, until: None };
        merge.until = until.map(|until| (until.to_vec(), merge.head(until)));
        for (number, mut source) in sources.into_iter().enumerate() {
            let is_before = |key: &[u8]| from.is_some_and(|from| merge.order.compare(key, from).is_lt());
            let is_done = loop {
                match source.advance() {
                    Ok(true) if is_before(source.key()) => {}
                    advanced => break !advanced.map_err(|error| (number, error))?,
                }
            };
            let head = merge.head(source.key());
            merge.contenders.push(Contender { source, head, is_done });
        }
        merge.play_all();
        Ok(merge)
    }

    fn play_all(&mut self) {
        let count = self.contenders.len();
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
        let (left, right) = (&self.contenders[left], &self.contenders[right]);
        if left.is_done || right.is_done {
            return !left.is_done;
        }
        match left.head.cmp(&right.head) {
            Ordering::Equal => {
                let by_key = self.order.compare(left.source.key(), right.source.key());
                by_key.then_with(|| right.source.sequence().cmp(&left.source.sequence())).is_lt()
            }
            different => different.is_lt(),
        }
    }

    /// The source whose entry is next, and its position. `None` at the end.
    #[inline]
    pub fn first(&self) -> Option<(usize, &S)> {
        let number = self.losers[0];
        let first = self.contenders.get(number).filter(|contender| !contender.is_done)?;
        if let Some((until, head)) = &self.until
            && first.head >= *head
            && self.order.compare(first.source.key(), until).is_ge()
        {
            return None;
        }
        Some((number, &first.source))
    }

    /// [`Merge::first`], for a source that reads its value only when it is asked.
    /// REQUIRES: only [`Merge::advance`] moves it.
    #[inline]
    pub fn first_mut(&mut self) -> Option<(usize, &mut S)> {
        let (number, _) = self.first()?;
        Some((number, &mut self.contenders[number].source))
    }

    /// [`Merge::first`], if its entry has this key. `head` is what [`Merge::first_head`] returned for it.
    #[inline]
    pub fn first_of(&self, key: &[u8], head: u64) -> Option<&S> {
        let (number, source) = self.first()?;
        (self.contenders[number].head == head && source.key() == key).then_some(source)
    }

    /// The head of the next entry: the same for equal keys, and mostly different for others.
    #[inline]
    pub fn first_head(&self) -> u64 {
        self.contenders.get(self.losers[0]).map_or(0, |contender| contender.head)
    }

    /// Moves to the next entry. An error comes with the position of its source.
    #[inline]
    pub fn advance(&mut self) -> Result<(), (usize, Error)> {
        let mut winner = self.losers[0];
        let Some(contender) = self.contenders.get_mut(winner).filter(|contender| !contender.is_done) else {
            return Ok(());
        };
        contender.is_done = !contender.source.advance().map_err(|error| (winner, error))?;
        let head = self.head(self.contenders[winner].source.key());
        self.contenders[winner].head = head;
        let mut place = (winner + self.contenders.len()) / 2;
        while place > 0 {
            if self.is_before(self.losers[place], winner) {
                std::mem::swap(&mut self.losers[place], &mut winner);
            }
            place /= 2;
        }
        self.losers[0] = winner;
        Ok(())
    }

    /// All sources, wherever they stand.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.contenders.iter().map(|contender| &contender.source)
    }
}

/// The common prefix of these keys: the smallest and largest of all sources.
pub fn common_prefix<'k>(mut bounds: impl Iterator<Item = &'k [u8]>) -> Vec<u8> {
    let Some(first) = bounds.next() else { return Vec::new() };
    let length = bounds.map(|other| common_prefix_bytes(first, other)).min().unwrap_or(0);
    first[..length].to_vec()
}

#[cfg(test)]
mod tests;
