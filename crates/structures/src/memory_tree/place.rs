//! [`Place`]: where an entry lies, in a word of a leaf.
//!
//! ```text
//! bit 63: 0 · file slot, 17 bits · offset, 30 bits · length, 16 bits
//! bit 63: 1 · address of a wide place: file slot u32, offset u32, length u32
//! ```
//!
//! A wide place never changes. It belongs to the one word of the current leaf that leads to it, and is retired with it, as a node
//! is.

use std::ptr::NonNull;

use slmdb_env::{Error, Result};

use super::slab::Slab;

const SLOT_BITS: u32 = 17;
const OFFSET_BITS: u32 = 30;
const LENGTH_BITS: u32 = 16;
const WIDE: u64 = 1 << 63;
/// Bytes of a wide place.
pub(super) const WIDE_BYTES: usize = 16;
/// There are so many file slots.
pub(super) const SLOTS_MAX: u32 = 1 << SLOT_BITS;

const _: () = assert!(SLOT_BITS + OFFSET_BITS + LENGTH_BITS == 63 && size_of::<Place>() <= WIDE_BYTES);

/// Where an entry lies. Of one entry it is the same for ever, and no other entry has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The slot of its file: [`FileSlots::file`](super::FileSlots::file) tells the file.
    pub slot: u32,
    /// Where in the file, in bytes.
    pub offset: u32,
    /// How long it is there, in bytes.
    pub length_bytes: u32,
}

/// What the index has of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Where its entry lies.
    pub place: Place,
    /// The sequence number of the entry; 0: every reader sees it.
    pub sequence: u64,
}

impl Place {
    /// Its word, and a wide place of its own where it needs one.
    pub(super) fn word(self, slab: &mut Slab) -> Result<u64> {
        let Place { slot, offset, length_bytes } = self;
        if slot >= SLOTS_MAX {
            return Err(Error::invalid(format!("there is no file slot {slot}")));
        }
        if offset >> OFFSET_BITS == 0 && length_bytes >> LENGTH_BITS == 0 {
            let low = u64::from(offset) << LENGTH_BITS | u64::from(length_bytes);
            return Ok(u64::from(slot) << (OFFSET_BITS + LENGTH_BITS) | low);
        }
        let memory = slab.take(WIDE_BYTES)?;
        // SAFETY: the memory is ours alone, long enough, and aligned to 16 bytes.
        unsafe { memory.cast::<Place>().write(self) };
        Ok(WIDE | memory.as_ptr().expose_provenance() as u64)
    }

    /// What a word says.
    ///
    /// # Safety
    ///
    /// The word was loaded (acquire) from a leaf within the guard, or the writer's turn, that still lasts.
    #[inline(always)]
    pub(super) unsafe fn of_word(word: u64) -> Place {
        if let Some(wide) = wide(word) {
            // SAFETY: a wide place was written before its word was stored, never changes, and is freed after all guards.
            return unsafe { wide.cast::<Place>().read() };
        }
        Place {
            slot: (word >> (OFFSET_BITS + LENGTH_BITS)) as u32,
            offset: (word >> LENGTH_BITS) as u32 & ((1 << OFFSET_BITS) - 1),
            length_bytes: word as u32 & ((1 << LENGTH_BITS) - 1),
        }
    }
}

/// The wide place of a word, if it has one.
#[inline(always)]
pub(super) fn wide(word: u64) -> Option<NonNull<u8>> {
    if word & WIDE == 0 { None } else { NonNull::new(std::ptr::with_exposed_provenance_mut((word & !WIDE) as usize)) }
}
