//! [`WriteBatch`]: several changes that take effect together.

use slmdb_env::Result;
use slmdb_structures::KeyLengths;
use slmdb_structures::memtable::Payload;

/// Puts and deletes that are applied together, in order, or not at all.
///
/// A batch is encoded as it is filled, in the form that it has in the MemTable's arena. So nothing that can fail is
/// left to do once its place is reserved (INV-2).
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    payload: Payload,
    totals: Totals,
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
    /// The long keys among them.
    pub long_keys: KeyLengths,
    /// Bytes of the values.
    pub value_bytes: u64,
}

impl Totals {
    /// Adds one entry. `value_bytes` is `None` for a delete.
    pub fn add(&mut self, key_bytes: usize, value_bytes: Option<usize>) {
        self.entries += 1;
        self.puts += u64::from(value_bytes.is_some());
        self.key_bytes += key_bytes as u64;
        self.long_keys.add(key_bytes);
        self.value_bytes += value_bytes.unwrap_or(0) as u64;
    }

    /// The sum of both.
    #[inline]
    pub fn plus(&self, other: &Totals) -> Totals {
        let mut long_keys = self.long_keys;
        long_keys.add_all(other.long_keys);
        Totals {
            long_keys,
            entries: self.entries + other.entries,
            puts: self.puts + other.puts,
            key_bytes: self.key_bytes + other.key_bytes,
            value_bytes: self.value_bytes + other.value_bytes,
        }
    }

    /// The totals with each entry `count` times.
    pub fn times(&self, count: u64) -> Totals {
        let KeyLengths { longest_bytes, long_bytes } = self.long_keys;
        Totals {
            entries: self.entries * count,
            puts: self.puts * count,
            key_bytes: self.key_bytes * count,
            long_keys: KeyLengths { longest_bytes, long_bytes: long_bytes * count },
            value_bytes: self.value_bytes * count,
        }
    }

    /// Whether an index with space for this has space for `other`, too.
    #[inline]
    pub fn covers_in_index(&self, other: &Totals) -> bool {
        self.entries >= other.entries
            && self.key_bytes >= other.key_bytes
            && self.long_keys.longest_bytes >= other.long_keys.longest_bytes
            && self.long_keys.long_bytes >= other.long_keys.long_bytes
    }

    /// The smaller of each sum.
    pub fn at_most(&self, other: &Totals) -> Totals {
        Totals {
            long_keys: KeyLengths {
                longest_bytes: self.long_keys.longest_bytes.min(other.long_keys.longest_bytes),
                long_bytes: self.long_keys.long_bytes.min(other.long_keys.long_bytes),
            },
            entries: self.entries.min(other.entries),
            puts: self.puts.min(other.puts),
            key_bytes: self.key_bytes.min(other.key_bytes),
            value_bytes: self.value_bytes.min(other.value_bytes),
        }
    }

    /// The totals without `part` of them. The longest key stays, because it is unknown which part had it.
    pub fn minus(&self, part: &Totals) -> Totals {
        let longest_bytes = if self.entries <= part.entries { 0 } else { self.long_keys.longest_bytes };
        let long_bytes = self.long_keys.long_bytes.saturating_sub(part.long_keys.long_bytes);
        Totals {
            long_keys: KeyLengths { longest_bytes, long_bytes },
            entries: self.entries.saturating_sub(part.entries),
            puts: self.puts.saturating_sub(part.puts),
            key_bytes: self.key_bytes.saturating_sub(part.key_bytes),
            value_bytes: self.value_bytes.saturating_sub(part.value_bytes),
        }
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
        self.totals.add(key.len(), Some(value.len()));
        Ok(())
    }

    /// Adds a delete. The key need not have a value. Limits as in [`WriteBatch::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.payload.delete(key)?;
        self.totals.add(key.len(), None);
        Ok(())
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.totals = Totals::default();
    }

    /// Number of puts and deletes.
    pub fn len(&self) -> usize {
        self.payload.count() as usize
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
        self.totals.key_bytes + self.totals.value_bytes
    }

    /// The totals of its entries.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The encoded form.
    pub fn payload(&self) -> &Payload {
        &self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A delete takes space like a put: it takes the key from the index.
    #[test]
    fn totals_count_deletes_like_puts_without_values() {
        let lengths = [0, 3, 40, 300, 9_000];
        let (mut deletes, mut puts) = (WriteBatch::new(), WriteBatch::new());
        for length in lengths {
            deletes.delete(vec![b'k'; length]).unwrap();
            puts.put(vec![b'k'; length], [0; 10]).unwrap();
        }
        let mut expected =
            Totals { entries: 5, puts: 0, key_bytes: 9_343, long_keys: KeyLengths::default(), value_bytes: 0 };
        lengths.iter().for_each(|&length| expected.long_keys.add(length));
        assert_eq!(expected.long_keys.longest_bytes, 9_000);
        assert_eq!(*deletes.totals(), expected);
        assert_eq!(*puts.totals(), Totals { puts: 5, value_bytes: 50, ..expected });
        assert!(deletes.totals().covers_in_index(puts.totals()));

        let both = deletes.totals().plus(puts.totals());
        assert_eq!(both.entries, 10);
        assert_eq!(both.minus(puts.totals()), expected);
        assert_eq!(both.at_most(deletes.totals()), expected);
        deletes.clear();
        assert_eq!(*deletes.totals(), Totals::default());
    }
}
