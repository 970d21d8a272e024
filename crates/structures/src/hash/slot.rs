//! Slots: 24 bytes for a key, whatever its length.
//!
//! A slot has no sequence number: of two tables one is newer as a whole, and a table has a key once.

use slmdb_env::{Error, Result};

use super::identity::{Identity, REST_BITS};

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 24;

/// The longest entry that a slot can lead to, in bytes.
pub const LENGTH_BYTES_MAX: u32 = (1 << DELETE_BIT) - 1;

const DELETE_BIT: u32 = 29;
const REST_SHIFT: u32 = 64 - REST_BITS;

const _: () = assert!(SLOT_BYTES == size_of::<Slot>() && REST_SHIFT == DELETE_BIT + 1);

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPlace {
    /// The number of its table file.
    pub file: u32,
    /// Where in the file, in bytes.
    pub offset: u32,
    /// How long it is there, in bytes; never 0.
    pub length_bytes: u32,
}

/// What a table has of a key: the identity without the shard, where the newest entry lies, and whether that is a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot([u64; 3]);

/// What three words stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotForm {
    /// All zeros.
    Empty,
    Full(Slot),
    /// An entry without a length, which no table leads to.
    Damaged,
}

impl Slot {
    /// [`Error::Invalid`] if the entry has no length, or more than [`LENGTH_BYTES_MAX`].
    pub fn new(identity: &Identity, place: SlotPlace, is_delete: bool) -> Result<Slot> {
        let SlotPlace { file, offset, length_bytes } = place;
        if length_bytes == 0 || length_bytes > LENGTH_BYTES_MAX {
            return Err(Error::invalid(format!("a slot for an entry of {length_bytes} bytes")));
        }
        let (hash, rest) = identity.order();
        let last = rest << REST_SHIFT | u64::from(is_delete) << DELETE_BIT | u64::from(length_bytes);
        Ok(Slot([hash, u64::from(offset) << 32 | u64::from(file), last]))
    }

    /// The identity of its key, in this shard.
    pub fn identity(&self, shard: u16) -> Identity {
        let (hash, rest) = self.order();
        Identity::new(shard, hash, rest)
    }

    /// Where the entry lies.
    #[inline]
    pub fn place(&self) -> SlotPlace {
        let [_, place, last] = self.0;
        SlotPlace { file: place as u32, offset: (place >> 32) as u32, length_bytes: last as u32 & LENGTH_BYTES_MAX }
    }

    /// Whether the entry is a delete.
    #[inline]
    pub fn is_delete(&self) -> bool {
        self.0[2] >> DELETE_BIT & 1 == 1
    }

    /// What slots are sorted by.
    #[inline]
    pub(super) fn order(&self) -> (u64, u64) {
        (self.0[0], order_rest(self.0[2]))
    }

    #[inline]
    pub(super) fn words(&self) -> [u64; 3] {
        self.0
    }

    /// Its bytes in a table.
    pub(super) fn bytes(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        bytes.as_chunks_mut().0.iter_mut().zip(self.0).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }
}

/// What the last word of a slot says for the order.
#[inline]
pub(super) fn order_rest(last: u64) -> u64 {
    last >> REST_SHIFT
}

impl SlotForm {
    #[inline]
    pub fn of_words(words: [u64; 3]) -> SlotForm {
        if words[2] & u64::from(LENGTH_BYTES_MAX) != 0 {
            SlotForm::Full(Slot(words))
        } else if words == [0; 3] {
            SlotForm::Empty
        } else {
            SlotForm::Damaged
        }
    }

    #[inline]
    pub fn of_bytes(bytes: &[u8; SLOT_BYTES]) -> SlotForm {
        let mut words = [0; 3];
        words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
        SlotForm::of_words(words)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_slot_says_what_it_was_made_of(
            (shard, hash, rest) in any::<(u16, u64, u64)>(),
            (file, offset, length_bytes) in (any::<u32>(), any::<u32>(), 1..=LENGTH_BYTES_MAX),
            is_delete in any::<bool>(),
        ) {
            let identity = Identity::new(shard, hash, rest);
            let place = SlotPlace { file, offset, length_bytes };
            let slot = Slot::new(&identity, place, is_delete).unwrap();
            prop_assert_eq!((slot.identity(shard), slot.place(), slot.is_delete()), (identity, place, is_delete));
            prop_assert_eq!(SlotForm::of_bytes(&slot.bytes()), SlotForm::Full(slot));
        }

        /// Any bytes are a slot, nothing or damage, and a slot has its bytes.
        #[test]
        fn any_bytes_have_a_form(bytes in any::<[u8; SLOT_BYTES]>(), without_length in any::<bool>()) {
            let mut bytes = bytes;
            if without_length {
                bytes[16..20].copy_from_slice(&(1_u32 << 29).to_le_bytes());
            }
            match SlotForm::of_bytes(&bytes) {
                SlotForm::Full(slot) => prop_assert_eq!(slot.bytes(), bytes),
                SlotForm::Empty => prop_assert_eq!(bytes, [0; SLOT_BYTES]),
                SlotForm::Damaged => prop_assert!(without_length),
            }
        }
    }

    #[test]
    fn an_entry_without_a_length_or_too_long_is_refused() {
        let identity = Identity::new(0, 1, 2);
        for length_bytes in [0, LENGTH_BYTES_MAX + 1, u32::MAX] {
            assert!(Slot::new(&identity, SlotPlace { file: 1, offset: 2, length_bytes }, false).is_err());
        }
        assert_eq!(SlotForm::of_words([0; 3]), SlotForm::Empty);
        assert_eq!(SlotForm::of_words([0, 0, 1 << 30]), SlotForm::Damaged);
    }
}
