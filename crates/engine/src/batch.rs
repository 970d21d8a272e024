//! [`WriteBatch`]: several changes that take effect together.

use std::ops::RangeBounds;

use slmdb_env::Result;
use slmdb_structures::log::{KeyBounds, Payload, PayloadKind, bytes_of_bounds};
use slmdb_structures::{KeyLengths, LONG_KEY_BYTES};

/// Puts, deletes, and deletes of ranges that are applied together, in order, or not at all.
///
/// A batch is encoded as it is filled, in the form that it has in the MemTable's arena. So nothing that can fail is
/// left to do once its place is reserved (INV-2).
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    payload: Payload,
    /// What the flush of its entries takes at worst.
    totals: Totals,
    /// The part of `totals` since the last delete of a range, if there is one.
    since_range: Totals,
    user_bytes: u64,
    range_deletes: u64,
}

/// One change of a [`WriteBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key gets this value.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The key loses its value.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// All keys in a range lose their values.
    DeleteRange {
        /// Where it begins and where it ends.
        range: KeyBounds<'a>,
    },
}

/// The sums of entries that decide how much space their flush takes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Puts and deletes.
    pub entries: u64,
    /// Puts among them.
    pub puts: u64,
    /// Bytes of the keys.
    pub key_bytes: u64,
    /// Bytes of the longest key.
    pub longest_key_bytes: u32,
    /// Bytes of the keys that are longer than [`LONG_KEY_BYTES`].
    pub long_key_bytes: u64,
    /// Bytes of the values.
    pub value_bytes: u64,
}

impl Totals {
    /// Adds one entry. `value_bytes` is `None` for a delete.
    pub fn add(&mut self, key_bytes: usize, value_bytes: Option<usize>) {
        self.entries += 1;
        self.puts += u64::from(value_bytes.is_some());
        self.key_bytes += key_bytes as u64;
        self.longest_key_bytes = self.longest_key_bytes.max(key_bytes as u32);
        self.long_key_bytes += if key_bytes > LONG_KEY_BYTES { key_bytes as u64 } else { 0 };
        self.value_bytes += value_bytes.unwrap_or(0) as u64;
    }

    /// The same keys, deleted.
    pub fn as_deletes(&self) -> Totals {
        Totals { puts: 0, value_bytes: 0, ..*self }
    }

    /// How long the keys are, for the index.
    pub fn long_keys(&self) -> KeyLengths {
        KeyLengths { longest_bytes: self.longest_key_bytes, long_bytes: self.long_key_bytes }
    }

    /// Whether these are deletes alone: the way out of a full disk.
    pub fn are_deletes(&self) -> bool {
        self.entries > 0 && self.puts == 0
    }

    /// Each sum of the one with that of the other; `longest` joins the lengths of the longest keys.
    #[inline]
    fn with(&self, other: &Totals, join: impl Fn(u64, u64) -> u64, longest: impl Fn(u32, u32) -> u32) -> Totals {
        Totals {
            entries: join(self.entries, other.entries),
            puts: join(self.puts, other.puts),
            key_bytes: join(self.key_bytes, other.key_bytes),
            longest_key_bytes: longest(self.longest_key_bytes, other.longest_key_bytes),
            long_key_bytes: join(self.long_key_bytes, other.long_key_bytes),
            value_bytes: join(self.value_bytes, other.value_bytes),
        }
    }

    /// The sum of both.
    #[inline]
    pub fn plus(&self, other: &Totals) -> Totals {
        self.with(other, u64::saturating_add, u32::max)
    }

    /// The totals with each entry `count` times.
    pub fn times(&self, count: u64) -> Totals {
        self.with(self, |sum, _| sum * count, u32::max)
    }

    /// So much of each sum, rounded up: with the number of entries, an average entry.
    pub fn divided_by(&self, count: u64) -> Totals {
        self.with(self, |sum, _| sum.div_ceil(count), u32::max)
    }

    /// The smaller of each sum.
    pub fn at_most(&self, other: &Totals) -> Totals {
        self.with(other, u64::min, u32::min)
    }

    /// The larger of each sum.
    pub fn at_least(&self, other: &Totals) -> Totals {
        self.with(other, u64::max, u32::max)
    }

    /// Whether space for this is enough for `other`, too.
    #[inline]
    pub fn covers(&self, other: &Totals) -> bool {
        self.entries >= other.entries
            && self.key_bytes >= other.key_bytes
            && self.longest_key_bytes >= other.longest_key_bytes
            && self.long_key_bytes >= other.long_key_bytes
            && self.value_bytes >= other.value_bytes
    }

    /// Whether space for the write `other` would do for this write. Deletes may take more than puts.
    pub fn is_at_most(&self, other: &Totals) -> bool {
        (self.are_deletes() || !other.are_deletes()) && other.covers(self)
    }
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds a put. [`slmdb_env::Error::Invalid`], with the batch unchanged, when the key is longer than 65,535 bytes,
    /// the value longer than 256 MiB, or the batch would exceed 1 GiB.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.payload.put(key, value)?;
        self.count(key.len(), Some(value.len()));
        Ok(())
    }

    /// Adds a delete. The key need not have a value. Limits as in [`WriteBatch::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.payload.delete(key)?;
        self.count(key.len(), None);
        Ok(())
    }

    /// Adds a delete of all keys in a range, in the order of the store. It takes what was put before, also by this batch. In the
    /// log it takes some bytes, whatever the range holds. Limits as in [`WriteBatch::put`], for both bounds.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, range: impl RangeBounds<K>) -> Result<()> {
        let bounds = (range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref));
        self.payload.delete_range(bounds)?;
        // A snapshot may see each of the entries before it, so that a flush writes it and its delete.
        self.totals = self.totals.plus(&self.since_range().as_deletes());
        self.totals.add(0, None);
        self.since_range = Totals::default();
        self.user_bytes += bytes_of_bounds(bounds);
        self.range_deletes += 1;
        Ok(())
    }

    fn count(&mut self, key_bytes: usize, value_bytes: Option<usize>) {
        self.totals.add(key_bytes, value_bytes);
        if self.range_deletes > 0 {
            self.since_range.add(key_bytes, value_bytes);
        }
        self.user_bytes += (key_bytes + value_bytes.unwrap_or(0)) as u64;
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        *self = WriteBatch { payload, ..WriteBatch::default() };
    }

    /// The changes, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.payload.iter().filter_map(|entry| match entry.kind {
            PayloadKind::Put => Some(Change::Put { key: entry.key, value: entry.value }),
            PayloadKind::Delete => Some(Change::Delete { key: entry.key }),
            PayloadKind::DeleteRange => entry.deleted_range().map(|range| Change::DeleteRange { range }),
            PayloadKind::Void => None,
        })
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        // (A void entry comes before each delete of a range.)
        self.payload.count() as usize - self.range_deletes as usize
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its encoded length in bytes.
    pub fn byte_len(&self) -> usize {
        self.payload.len_bytes() as usize
    }

    /// Bytes of keys and values in it.
    pub fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// What the flush of its entries takes at worst.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The part of that which entries take that come after its last delete of a range.
    pub(crate) fn since_range(&self) -> &Totals {
        if self.range_deletes == 0 { &self.totals } else { &self.since_range }
    }

    /// How many ranges it deletes.
    pub fn range_deletes(&self) -> u64 {
        self.range_deletes
    }

    /// The encoded form.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_their_order() {
        let mut batch = WriteBatch::new();
        batch.put("b", "1").unwrap();
        batch.delete("").unwrap();
        batch.put("a", "").unwrap();
        let expected = [
            Change::Put { key: b"b", value: b"1" },
            Change::Delete { key: b"" },
            Change::Put { key: b"a", value: b"" },
        ];
        assert_eq!(batch.iter().collect::<Vec<_>>(), expected);
        batch.clear();
        assert_eq!(batch.iter().count(), 0);
    }

    /// A delete takes space like a put: it takes the key from the index.
    #[test]
    fn totals_count_deletes_like_puts_without_values() {
        let lengths = [0, 3, 40, 300, 9_000];
        let (mut deletes, mut puts) = (WriteBatch::new(), WriteBatch::new());
        for length in lengths {
            deletes.delete(vec![b'k'; length]).unwrap();
            puts.put(vec![b'k'; length], [0; 10]).unwrap();
        }
        let mut long_keys = KeyLengths::default();
        lengths.iter().for_each(|&length| long_keys.add(length));
        let KeyLengths { longest_bytes: longest_key_bytes, long_bytes: long_key_bytes } = long_keys;
        assert_eq!(longest_key_bytes, 9_000);
        let expected = Totals { entries: 5, key_bytes: 9_343, longest_key_bytes, long_key_bytes, ..Totals::default() };
        assert_eq!(*deletes.totals(), expected);
        assert_eq!(*puts.totals(), Totals { puts: 5, value_bytes: 50, ..expected });
        assert_eq!(puts.totals().long_keys(), long_keys);
        assert!(deletes.totals().are_deletes() && !puts.totals().are_deletes() && !Totals::default().are_deletes());
        assert!(puts.totals().covers(deletes.totals()) && !deletes.totals().covers(puts.totals()));

        let both = deletes.totals().plus(puts.totals());
        assert_eq!(both.entries, 10);
        assert_eq!((both.at_least(deletes.totals()), both.at_most(deletes.totals())), (both, expected));
        deletes.clear();
        assert_eq!(*deletes.totals(), Totals::default());
    }
}
