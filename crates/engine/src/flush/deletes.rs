//! [`Deletes`]: what the ranges that a MemTable deletes [come to](super::range_deletes) below it.

use crate::batch::Totals;

/// So many bytes are beside each key.
const BYTES_PER_DELETE: u64 = 32;

/// Deletes of keys, in the order of keys, each with its number.
#[derive(Debug, Default)]
pub struct Deletes {
    keys: Vec<u8>,
    /// Where each key ends, and its number.
    ends: Vec<(usize, u64)>,
}

impl Deletes {
    /// Adds one behind the others.
    pub(crate) fn add(&mut self, key: &[u8], sequence: u64) {
        self.keys.extend_from_slice(key);
        self.ends.push((self.keys.len(), sequence));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Each key and its number.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        begins.zip(&self.ends).map(|(begin, &(end, sequence))| (&self.keys[begin..end], sequence))
    }

    /// What they take, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.keys.len() as u64 + self.len() as u64 * BYTES_PER_DELETE
    }

    /// What a flush of them takes.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.iter().for_each(|(key, _)| totals.add(key.len(), None));
        totals
    }
}

/// How far the ranges of a MemTable have come to deletes.
#[derive(Debug, Default)]
pub struct Progress {
    /// This is a part of the MemTable.
    pub(crate) is_part: bool,
    /// Ranges with smaller numbers have come to them.
    pub(super) from_sequence: u64,
    /// The range with this number has come to them up to this key.
    pub(super) up_to: Option<Vec<u8>>,
}
