//! Slots: fixed-size pieces of extents whose use nothing durable says.
//!
//! A structure that reads all of itself at every opening needs no bitmap in the pool: what it reaches is used, and the rest
//! is free. So taking a slot and giving it back store nothing durable, and a crash leaks nothing. Only the extents
//! are durable. An extent's owner is the size of its slots, which begin at its front, one behind the other.
//!
//! There are two kinds, [`ExtentKind::Leaves`] and [`ExtentKind::Records`]. Records come in classes of sizes: multiples of 8 bytes up
//! to 256, and then eight classes for each doubling, so that no slot is more than an eighth too large.
//!
//! An opening goes so: [`Slots::open`] lists the extents with all slots free, [`Slots::mark_used`] takes what is
//! reached, and [`Slots::return_empty`] gives the pool what nobody has reached.
//!
//! A slot may be given back only when nobody can be reading it, and when its removal is durable. The lowest free slot of the lowest
//! extent is taken first, so that high extents become empty. Of those one is kept in each class, the others go back to the pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use crate::layout::UNIT_BYTES;
use crate::medium::Medium;
use crate::pool::allocate::Claim;
use crate::pool::{Extent, ExtentKind, Pool};

/// The largest slot.
pub const SLOT_BYTES_MAX: u32 = 128 << 10;
/// Sizes are multiples of it.
const STEP_BYTES: u32 = 8;
/// Up to here every multiple is a class.
const FINE_BYTES_MAX: u32 = 256;
/// A new extent is a quarter of what its class has already, up to this.
const EXTENT_BYTES_MAX: u64 = 1 << 20;

/// The size of the slot that so many bytes get.
pub fn slot_bytes(bytes: u32) -> u32 {
    if bytes <= FINE_BYTES_MAX {
        return bytes.max(STEP_BYTES).next_multiple_of(STEP_BYTES);
    }
    let step = (bytes - 1).ilog2() - 3;
    bytes.next_multiple_of(1 << step)
}

/// How many slots are used, and what they take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotUsage {
    /// Slots that are used, or wait until no reader is left.
    pub used: u64,
    /// Slots that can be had without a new extent.
    pub free: u64,
    /// Bytes of the used ones.
    pub used_bytes: u64,
    /// Bytes of the extents.
    pub extent_bytes: u64,
}

/// The slots of a pool. Shared between threads as `Arc<Slots<M>>`.
#[derive(Debug)]
pub struct Slots<M: Medium> {
    pool: Arc<Pool<M>>,
    classes: Mutex<BTreeMap<(ExtentKind, u32), Class>>,
    retiring: AtomicU64,
    /// How often such slots were given back.
    returned: AtomicU64,
}

/// Slots of one kind and size.
#[derive(Debug, Default)]
struct Class {
    parts: BTreeMap<u64, Part>,
    /// The extents with a free slot.
    open: BTreeSet<u64>,
    used: u64,
    extent_bytes: u64,
}

/// The slots of one extent.
#[derive(Debug)]
struct Part {
    slot_bytes: u32,
    count: u32,
    used: u32,
    /// A set bit is a used slot. Bits beyond the last slot are set.
    bits: Box<[u64]>,
    /// No word before this one has a clear bit.
    first_word: usize,
}

impl Part {
    fn new(extent: &Extent) -> Part {
        let count = extent.length_bytes / u64::from(extent.owner);
        let mut bits = vec![0; count.div_ceil(64) as usize].into_boxed_slice();
        if let (Some(last), true) = (bits.last_mut(), !count.is_multiple_of(64)) {
            *last = u64::MAX << (count % 64);
        }
        Part { slot_bytes: extent.owner, count: count as u32, used: 0, bits, first_word: 0 }
    }

    /// Takes the lowest free slot.
    fn take(&mut self) -> Option<u32> {
        while let Some(word) = self.bits.get_mut(self.first_word) {
            if *word != u64::MAX {
                let bit = word.trailing_ones();
                *word |= 1 << bit;
                self.used += 1;
                return Some(self.first_word as u32 * 64 + bit);
            }
            self.first_word += 1;
        }
        None
    }

    /// Changes a slot. `false`: it was so already.
    fn set(&mut self, index: u32, used: bool) -> bool {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if (self.bits[word] & bit != 0) == used {
            return false;
        }
        self.bits[word] ^= bit;
        if used {
            self.used += 1;
        } else {
            self.used -= 1;
            self.first_word = self.first_word.min(word);
        }
        true
    }
}

impl<M: Medium> Slots<M> {
    /// Lists all extents of slots of a pool, with all slots free. [`Error::Corruption`] for an impossible size of slots.
    pub fn open(pool: Arc<Pool<M>>) -> Result<Self> {
        let mut classes = BTreeMap::<_, Class>::new();
        for extent in pool.extents() {
            if !matches!(extent.kind, ExtentKind::Leaves | ExtentKind::Records) {
                continue;
            }
            if !is_possible(&extent) {
                let what = format!("an extent of {} bytes for slots of {} bytes", extent.length_bytes, extent.owner);
                return Err(Error::corruption(pool.path(), extent.offset, what));
            }
            classes.entry((extent.kind, extent.owner)).or_default().add(&extent);
        }
        Ok(Slots { pool, classes: Mutex::new(classes), retiring: AtomicU64::new(0), returned: AtomicU64::new(0) })
    }

    /// The pool they are in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Takes a slot for each of these sizes, which are rounded up by [`slot_bytes`]. Their content is not defined. Nothing is taken
    /// if one can't be had: [`Error::Full`] if the pool has no room, [`Error::Invalid`] above [`SLOT_BYTES_MAX`].
    pub fn take(&self, kind: ExtentKind, sizes: impl IntoIterator<Item = u32>, taken: &mut Vec<u64>) -> Result<()> {
        let before = taken.len();
        let mut classes = self.classes();
        for size in sizes {
            match self.take_one(&mut classes, kind, slot_bytes(size)) {
                Ok(slot) => taken.push(slot),
                Err(error) => {
                    drop(classes);
                    self.give_back(&taken.split_off(before));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take_one(
        &self,
        classes: &mut BTreeMap<(ExtentKind, u32), Class>,
        kind: ExtentKind,
        slot_bytes: u32,
    ) -> Result<u64> {
        if slot_bytes > SLOT_BYTES_MAX || !matches!(kind, ExtentKind::Leaves | ExtentKind::Records) {
            return Err(Error::invalid(format!("a slot of {slot_bytes} bytes in an extent of kind {kind:?}")));
        }
        let class = classes.entry((kind, slot_bytes)).or_default();
        loop {
            let Some(&offset) = class.open.first() else {
                let extent = self.add_extent(kind, slot_bytes, class.extent_bytes)?;
                class.add(&extent);
                continue;
            };
            if let Some(index) = class.parts.get_mut(&offset).and_then(Part::take) {
                class.used += 1;
                return Ok(offset + u64::from(index) * u64::from(slot_bytes));
            }
            class.open.remove(&offset);
        }
    }

    /// Leaves the pool's reserve alone as long as it can. What comes out of the reserve comes in the smallest pieces.
    fn add_extent(&self, kind: ExtentKind, slot_bytes: u32, class_bytes: u64) -> Result<Extent> {
        let least = u64::from(slot_bytes).next_multiple_of(UNIT_BYTES);
        let wanted = least.max((class_bytes / 4).min(EXTENT_BYTES_MAX).next_multiple_of(UNIT_BYTES));
        match self.pool.allocate_claimed(kind, wanted, slot_bytes, 0, Claim::Ordinary) {
            Err(Error::Full { .. }) => self.pool.allocate_claimed(kind, least, slot_bytes, 0, Claim::Privileged),
            extent => extent,
        }
    }

    /// Gives slots back. REQUIRES: nobody can be reading them, and nothing durable leads to them. Slots that are free, or
    /// are none, are left alone. A failure to return an emptied extent to the pool leaves it here.
    pub fn give_back(&self, slots: &[u64]) {
        let mut classes = self.classes();
        for &slot in slots {
            let Ok((extent, index)) = self.locate(slot) else { continue };
            let key = (extent.kind, extent.owner);
            let Some(class) = classes.get_mut(&key) else { continue };
            let Some(part) = class.parts.get_mut(&extent.offset) else { continue };
            let was_used = part.set(index, false);
            debug_assert!(was_used, "slot {slot} is given back twice");
            if was_used {
                class.used -= 1;
                let is_empty = part.used == 0;
                class.open.insert(extent.offset);
                if is_empty && class.has_another_empty(extent.offset) {
                    self.remove_part(class, extent.offset);
                }
            }
        }
    }

    /// Marks slots as used that a structure reaches. [`Error::Corruption`] for one that is none of this kind and size, or is
    /// used already.
    pub fn mark_used(&self, kind: ExtentKind, slots: impl IntoIterator<Item = (u64, u32)>) -> Result<()> {
        let mut classes = self.classes();
        for (slot, bytes) in slots {
            let (extent, index) = self.locate(slot)?;
            let part = classes.get_mut(&(extent.kind, extent.owner)).and_then(|class| {
                let part = class.parts.get_mut(&extent.offset)?;
                (extent.kind == kind && extent.owner == slot_bytes(bytes) && part.set(index, true))
                    .then(|| class.used += 1)
            });
            if part.is_none() {
                return Err(self.fault(slot, "a slot is reached twice, or is not of the size of what is in it"));
            }
        }
        Ok(())
    }

    /// Returns all extents without a used slot to the pool.
    pub fn return_empty(&self) {
        let mut classes = self.classes();
        for class in classes.values_mut() {
            let empty: Vec<_> =
                class.parts.iter().filter(|(_, part)| part.used == 0).map(|(&offset, _)| offset).collect();
            empty.into_iter().for_each(|offset| self.remove_part(class, offset));
        }
        classes.retain(|_, class| !class.parts.is_empty());
    }

    fn remove_part(&self, class: &mut Class, offset: u64) {
        if let Some(part) = class.parts.get(&offset) {
            let length_bytes = (u64::from(part.count) * u64::from(part.slot_bytes)).next_multiple_of(UNIT_BYTES);
            let length_bytes = self.pool.extent_at(offset).map_or(length_bytes, |extent| extent.length_bytes);
            if self.pool.free_extent(offset).is_ok() {
                class.parts.remove(&offset);
                class.open.remove(&offset);
                class.extent_bytes -= length_bytes;
            }
        }
    }

    /// Whether a slot is used: `None` if none begins there.
    pub fn is_used(&self, slot: u64) -> Option<bool> {
        let (extent, index) = self.locate(slot).ok()?;
        let classes = self.classes();
        let part = classes.get(&(extent.kind, extent.owner))?.parts.get(&extent.offset)?;
        Some(part.bits[index as usize / 64] >> (index % 64) & 1 != 0)
    }

    /// How many slots of a kind are used, and what they take.
    pub fn usage(&self, kind: ExtentKind) -> SlotUsage {
        let mut usage = SlotUsage::default();
        for ((_, slot_bytes), class) in self.classes().iter().filter(|((of, _), _)| *of == kind) {
            usage.used += class.used;
            usage.free += class.parts.values().map(|part| u64::from(part.count - part.used)).sum::<u64>();
            usage.used_bytes += class.used * u64::from(*slot_bytes);
            usage.extent_bytes += class.extent_bytes;
        }
        usage
    }

    /// Counts slots that wait until no reader is left: [`Slots::give_back_retired`] counts them off again.
    pub fn count_retired(&self, slots: usize) {
        self.retiring.fetch_add(slots as u64, Ordering::AcqRel);
    }

    /// Gives back slots that [`Slots::count_retired`] has counted.
    pub fn give_back_retired(&self, slots: &[u64]) {
        self.give_back(slots);
        // Count first: whoever does not see them waiting any more sees the count.
        self.returned.fetch_add(1, Ordering::AcqRel);
        self.retiring.fetch_sub(slots.len() as u64, Ordering::AcqRel);
    }

    /// How many slots wait until no reader is left.
    pub fn retiring(&self) -> u64 {
        self.retiring.load(Ordering::Acquire)
    }

    /// How often slots that waited were given back. A change is a reason to look for space again.
    pub fn returned(&self) -> u64 {
        self.returned.load(Ordering::Acquire)
    }

    /// What so many more slots for so many bytes each take of the pool at most, be nothing free.
    pub fn extent_bytes_max(bytes: u32, count: u64) -> u64 {
        let slot_bytes = u64::from(slot_bytes(bytes));
        let extent_bytes = slot_bytes.next_multiple_of(UNIT_BYTES);
        count.div_ceil(extent_bytes / slot_bytes).saturating_mul(extent_bytes)
    }

    fn locate(&self, slot: u64) -> Result<(Extent, u32)> {
        let located = self.pool.extent_at(slot).filter(is_possible).and_then(|extent| {
            let (index, rest) =
                ((slot - extent.offset) / u64::from(extent.owner), (slot - extent.offset) % u64::from(extent.owner));
            (rest == 0 && slot + u64::from(extent.owner) <= extent.end()).then_some((extent, index as u32))
        });
        located.ok_or_else(|| self.fault(slot, "a reference to a slot where none begins"))
    }

    #[cold]
    fn fault(&self, slot: u64, what: &str) -> Error {
        Error::corruption(self.pool.path(), slot, what)
    }

    fn classes(&self) -> MutexGuard<'_, BTreeMap<(ExtentKind, u32), Class>> {
        self.classes.lock()
    }
}

impl Class {
    fn add(&mut self, extent: &Extent) {
        self.parts.insert(extent.offset, Part::new(extent));
        self.open.insert(extent.offset);
        self.extent_bytes += extent.length_bytes;
    }

    fn has_another_empty(&self, than: u64) -> bool {
        self.open.iter().any(|offset| *offset != than && self.parts.get(offset).is_some_and(|part| part.used == 0))
    }
}

/// Whether an extent can be one of slots.
fn is_possible(extent: &Extent) -> bool {
    matches!(extent.kind, ExtentKind::Leaves | ExtentKind::Records)
        && (STEP_BYTES..=SLOT_BYTES_MAX).contains(&extent.owner)
        && slot_bytes(extent.owner) == extent.owner
        && u64::from(extent.owner) <= extent.length_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_at_most_an_eighth_too_large() {
        for bytes in 1..=70_000 {
            let slot = slot_bytes(bytes);
            assert!(slot >= bytes && slot.is_multiple_of(8) && slot_bytes(slot) == slot, "{bytes}: {slot}");
            assert!(slot - bytes < 8.max(bytes.div_ceil(8)), "{bytes}: {slot}");
        }
    }
}
