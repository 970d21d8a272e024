//! [`WriteBatch`]: several changes that take effect together.

use slmdb_env::Result;
use slmdb_structures::memtable::Payload;

/// Puts and deletes that are applied together, in order, or not at all.
///
/// It is encoded as it is filled, in the very form in which it will lie in the MemTable's arena, so that nothing that
/// can fail is left to do once room for it has been reserved.
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    payload: Payload,
    user_bytes: u64,
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Adds a put. [`slmdb_env::Error::Invalid`] (and the batch as it was) when the key is longer than 65,535 bytes, the
    /// value longer than 256 MiB, or the batch would pass 1 GiB.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.payload.put(key, value)?;
        self.user_bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Adds a delete; of a key that has no value, too. Limits as in [`WriteBatch::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.payload.delete(key)?;
        self.user_bytes += key.len() as u64;
        Ok(())
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.payload.clear();
        self.user_bytes = 0;
    }

    /// Number of puts and deletes.
    pub fn len(&self) -> usize {
        self.payload.count() as usize
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its encoded length in bytes.
    pub fn byte_len(&self) -> usize {
        self.payload.len_bytes() as usize
    }

    /// Keys and values in it, in bytes.
    pub(crate) fn user_bytes(&self) -> u64 {
        self.user_bytes
    }

    /// The encoded form.
    pub(crate) fn payload(&self) -> &Payload {
        &self.payload
    }
}
