//! What can be read of a damaged file that is searched by key.
//!
//! Such a file has no list of its keys. Of a block that can't be read the index still tells between which keys its own
//! lie, how many they are, and, by the filter, of nearly every other key that it was not there.

use std::cmp::Ordering;
use std::ops::Bound;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;

use crate::block::Block;
use crate::cursor::BlockCursor;
use crate::index_chunk::{IndexChunk, Row, Separator};
use crate::reader::TableReader;

/// A part of a file that is searched by key.
pub enum SalvagedPart {
    /// A block that is sound.
    Block(Block),
    /// Entries that can't be read.
    Gap(Gap),
}

/// Entries of a file that is searched by key, and that can't be read.
#[derive(Debug)]
pub struct Gap {
    /// How many they are.
    pub entries: u64,
    /// Where their keys begin.
    pub from: Bound<Vec<u8>>,
    /// No key of theirs is larger than this.
    pub through: Vec<u8>,
    /// Set if `through` is a key of theirs that goes on behind them, in older versions: the lowest sequence number that
    /// it has among them.
    pub goes_on_at: Option<u64>,
    /// Its filter knows their keys. `None`: the chunk can't be read either.
    chunk: Option<IndexChunk>,
}

impl Gap {
    /// Whether the file can still tell which keys they may have.
    pub fn knows_keys(&self) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| !chunk.filter().is_empty())
    }

    /// Whether they may have this key. About one key in a hundred is said to be among them and is not.
    pub fn may_have(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let is_within = order.is_from(key, self.from.as_ref().map(Vec::as_slice))
            && order.compare(key, &self.through) != Ordering::Greater;
        is_within && self.chunk.as_ref().is_none_or(|chunk| chunk.may_have(key))
    }
}

impl TableReader {
    /// Hands over the file part by part, in order. What is damaged comes as a [`Gap`]. The file must be
    /// [searched by key](TableReader::is_searched_by_key), else [`Error::Unsupported`].
    pub fn salvage(&self, take: &mut dyn FnMut(SalvagedPart) -> Result<()>) -> Result<()> {
        let (top, mut before) = (self.top()?, None);
        for row in (0..top.rows()).map(|row| top.row(row)) {
            match self.read_index_chunk(row.place) {
                Ok(chunk) => self.salvage_chunk(&chunk, before, take)?,
                Err(Error::Corruption { .. }) => take(SalvagedPart::Gap(self.gap(&row, before, None)))?,
                Err(error) => return Err(error),
            }
            before = Some(row.separator);
        }
        Ok(())
    }

    fn salvage_chunk<'c>(
        &self,
        chunk: &'c IndexChunk,
        mut before: Option<Separator<'c>>,
        take: &mut dyn FnMut(SalvagedPart) -> Result<()>,
    ) -> Result<()> {
        for row in (0..chunk.rows()).map(|row| chunk.row(row)) {
            let part = match self.read_block(row.place) {
                Ok(block) if self.is_sound(&block, &row, before) => SalvagedPart::Block(block),
                Ok(_) | Err(Error::Corruption { .. }) => SalvagedPart::Gap(self.gap(&row, before, Some(chunk))),
                Err(error) => return Err(error),
            };
            take(part)?;
            before = Some(row.separator);
        }
        Ok(())
    }

    /// Whether all entries of a block can be read, are as many as its row says, and lie between its separators.
    fn is_sound(&self, block: &Block, row: &Row<'_>, before: Option<Separator<'_>>) -> bool {
        let (order, mut cursor, mut entries) = (&self.source.order, block.cursor(), 0);
        let mut moved = cursor.seek_first();
        while moved.is_ok() && cursor.valid() {
            let is_behind = before.is_none_or(|before| before.compare(order, cursor.key(), cursor.sequence()).is_lt());
            if !is_behind || row.separator.compare(order, cursor.key(), cursor.sequence()).is_lt() {
                return false;
            }
            entries += 1;
            moved = BlockCursor::next(&mut cursor);
        }
        moved.is_ok() && entries == row.entries
    }

    fn gap(&self, row: &Row<'_>, before: Option<Separator<'_>>, chunk: Option<&IndexChunk>) -> Gap {
        let from = match before {
            None => Bound::Included(self.properties().smallest_key.clone()),
            Some(separator) if separator.goes_on => Bound::Included(separator.key.to_vec()),
            Some(separator) => Bound::Excluded(separator.key.to_vec()),
        };
        Gap {
            entries: row.entries.into(),
            from,
            through: row.separator.key.to_vec(),
            goes_on_at: row.separator.goes_on.then_some(row.separator.sequence),
            chunk: chunk.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use slmdb_testkit::MemoryEnv;

    use super::*;
    use crate::{EntryKind, TableBuilder, TableForm, TableOptions};

    const PATH: &str = "/7.table";
    const UUID: [u8; 16] = [7; 16];

    /// Keys of a few blocks and two chunks. Every tenth has so many versions that it goes over the end of a block.
    fn entries() -> Vec<(Vec<u8>, u64)> {
        let key = |number: u64| format!("key {number:04}{}", "-".repeat(300)).into_bytes();
        let versions = |number: u64| if number % 10 == 3 { 1..=40 } else { 40..=40 };
        (0..300).flat_map(|number| versions(number).rev().map(move |sequence| (key(number), sequence))).collect()
    }

    /// What a part has of the entries, or what it says that it has.
    fn parts(env: &MemoryEnv) -> Result<Vec<SalvagedPart>> {
        let mut parts = Vec::new();
        TableReader::open(env, Path::new(PATH), 7, UUID)?.salvage(&mut |part| {
            parts.push(part);
            Ok(())
        })?;
        Ok(parts)
    }

    /// Whatever byte is damaged: what is read are entries of the file, and each of the others is in a gap that may have it.
    #[test]
    fn what_is_not_read_is_in_a_gap() {
        let (env, entries) = (MemoryEnv::new(), entries());
        let options = TableOptions { form: TableForm::LEVELS, block_bytes: 512, ..TableOptions::default() };
        let mut builder = TableBuilder::new(&env, Path::new(PATH), 7, UUID, options).unwrap();
        for (key, sequence) in &entries {
            builder.add(key, *sequence, EntryKind::Put, &sequence.to_le_bytes()).unwrap();
        }
        builder.finish().unwrap();
        let whole = env.content(PATH).unwrap();
        let (mut with_gaps, mut without_filter, mut going_on, mut unreadable) = (0, 0, 0, 0);
        for at in (0..whole.len()).step_by(61) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            env.set_content(PATH, &bytes);
            let Ok(parts) = parts(&env) else {
                unreadable += 1;
                continue;
            };
            let mut left = entries.iter();
            for part in parts {
                match part {
                    SalvagedPart::Block(block) => {
                        let mut cursor = block.cursor();
                        cursor.seek_first().unwrap();
                        while cursor.valid() {
                            let (key, sequence) = left.next().unwrap();
                            assert_eq!((cursor.key(), cursor.sequence()), (&key[..], *sequence), "byte {at}");
                            cursor.next().unwrap();
                        }
                    }
                    SalvagedPart::Gap(gap) => {
                        (with_gaps, without_filter) = (with_gaps + 1, without_filter + u32::from(!gap.knows_keys()));
                        let lost: Vec<_> = left.by_ref().take(gap.entries as usize).collect();
                        assert!(lost.iter().all(|(key, _)| gap.may_have(&KeyOrder::Bytewise, key)), "byte {at}");
                        let next = left.clone().next();
                        let last = lost.last().unwrap();
                        let goes_on = next.is_some_and(|next| next.0 == last.0).then_some(last.1);
                        assert_eq!(gap.goes_on_at, goes_on, "byte {at}");
                        going_on += u32::from(goes_on.is_some());
                        assert!(!gap.may_have(&KeyOrder::Bytewise, b"key"));
                    }
                }
            }
            assert_eq!(left.next(), None, "byte {at}");
        }
        let seen = (with_gaps, without_filter, going_on, unreadable);
        assert!(
            with_gaps > 20 && without_filter > 0 && going_on > 0 && unreadable > 0,
            "{} bytes: {seen:?}",
            whole.len()
        );
    }
}
