//! [`KeyLengths`]: how long keys are, as far as it matters for the space that they take in a structure.

use crate::fast_fair::MAXIMUM_KEY_BYTES;

/// A key that is longer than this counts as long.
pub const LONG_KEY_BYTES: usize = 32;

/// How long keys are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLengths {
    /// Length of the longest key.
    pub longest_bytes: u32,
    /// Lengths of all keys longer than [`LONG_KEY_BYTES`], added up.
    pub long_bytes: u64,
}

impl KeyLengths {
    /// Counts one more key.
    #[inline]
    pub fn add(&mut self, key_bytes: usize) {
        let long_bytes = if key_bytes > LONG_KEY_BYTES { key_bytes as u64 } else { 0 };
        self.add_all(KeyLengths { longest_bytes: key_bytes.min(MAXIMUM_KEY_BYTES) as u32, long_bytes });
    }

    /// Counts those keys too.
    #[inline]
    pub fn add_all(&mut self, keys: KeyLengths) {
        self.longest_bytes = self.longest_bytes.max(keys.longest_bytes);
        self.long_bytes = self.long_bytes.saturating_add(keys.long_bytes);
    }
}
