//! Blocks: fixed-size pieces of extents, for tree nodes and for fences too long to fit into one.
//!
//! A block's size is a power of two from 64 bytes to 256 KiB. All blocks of one extent have one size, which the extent's
//! owner field says, so an extent describes itself:
//!
//! ```text
//! extent of kind Blocks, owner = block size in bytes; a multiple of 64 KiB long
//!   0   bitmap     a bit for each block, bit b of word w for block 64 w + b: 1 = used; bits beyond the last block are 0.
//!                  As many bytes as the extent's length would need if it held nothing else, rounded up to 64
//!   ..  nothing, up to the first multiple of min(block size, 4096)
//!   ..  blocks, one behind the other, as many as fit
//! ```
//!
//! The bit is all that is durable. Which blocks can be had is in DRAM: taking a block takes it off a list and stores
//! nothing, so a crash leaves it free; [`Blocks::mark_used`] and [`Blocks::mark_free`] flip its bit and flush it, without a
//! fence. A caller that links or frees a block names it in a durable record of its own first, and sets the bits after, so
//! that recovery can put them right without a search, and nothing leaks (INV-23). A freed block goes back
//! on the list, by [`Blocks::recycle`], only when no reader can be there any more.
//!
//! New extents are of a comfortable size as long as they leave the pool's reserve alone
//! ([`Pool::set_reserve`](crate::Pool::set_reserve)). What has to come out of the reserve comes in the smallest pieces
//! that hold a block, so that none of it lies idle here while a key segment needs it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_env::{Error, Result};
use slmdb_sync::scheduled::{Mutex, MutexGuard};

use crate::layout::UNIT_BYTES;
use crate::medium::{CACHE_LINE_BYTES, Medium};
use crate::pool::allocate::Claim;
use crate::pool::{Extent, ExtentKind, Pool};

/// The smallest block.
pub const BLOCK_BYTES_MIN: u32 = 64;
/// The largest block.
pub const BLOCK_BYTES_MAX: u32 = 256 << 10;

/// Blocks are aligned to their size up to this.
const ALIGNMENT_BYTES_MAX: u64 = 4096;
/// A new extent is a quarter of what its class has already, within these bounds, so that small stores stay small.
const EXTENT_BYTES_MAX: u64 = 4 << 20;
/// But it holds at least this many blocks.
const EXTENT_BLOCKS_MIN: u64 = 4;
const CLASSES: usize = (BLOCK_BYTES_MAX.ilog2() - BLOCK_BYTES_MIN.ilog2() + 1) as usize;

const _: () = {
    assert!(BLOCK_BYTES_MIN.is_power_of_two() && BLOCK_BYTES_MAX.is_power_of_two());
    // Blocks begin at cache lines, and never share one.
    assert!((BLOCK_BYTES_MIN as u64).is_multiple_of(CACHE_LINE_BYTES));
};

/// The blocks of a pool. Shared between threads as `Arc<Blocks<M>>`.
#[derive(Debug)]
pub struct Blocks<M: Medium> {
    pool: Arc<Pool<M>>,
    classes: [Mutex<Class>; CLASSES],
    /// How many blocks of each class are marked used.
    used: [AtomicU64; CLASSES],
}

/// Blocks of one size.
#[derive(Debug, Default)]
struct Class {
    /// Can be had; the last one next.
    free: Vec<u64>,
    /// Bytes of all its extents.
    extent_bytes: u64,
}

/// Where things are in an extent of blocks.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Offset of the extent, and so of its bitmap.
    extent: u64,
    /// Offset of the first block.
    first: u64,
    /// How many blocks.
    count: u64,
    /// Bytes of the bitmap.
    bitmap_bytes: u64,
    block_bytes: u32,
}

impl Layout {
    /// `None` if the extent's owner is no block size.
    #[inline]
    fn of(extent: &Extent) -> Option<Layout> {
        let block_bytes = extent.owner;
        if !block_bytes.is_power_of_two() || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes) {
            return None;
        }
        // Shifts instead of divisions: this is on the way of every followed reference to a node.
        let shift = block_bytes.trailing_zeros();
        let bitmap_bytes = (extent.length_bytes >> shift).div_ceil(8).next_multiple_of(CACHE_LINE_BYTES);
        let alignment = u64::from(block_bytes).min(ALIGNMENT_BYTES_MAX);
        let first = (bitmap_bytes + alignment - 1) & !(alignment - 1);
        let count = extent.length_bytes.saturating_sub(first) >> shift;
        Some(Layout { extent: extent.offset, first: extent.offset + first, count, bitmap_bytes, block_bytes })
    }

    fn block(&self, index: u64) -> u64 {
        self.first + index * u64::from(self.block_bytes)
    }

    /// The number of the block that begins at an offset.
    #[inline]
    fn index(&self, offset: u64) -> Option<u64> {
        let distance = offset.checked_sub(self.first)?;
        let index = distance >> self.block_bytes.trailing_zeros();
        (distance & (u64::from(self.block_bytes) - 1) == 0 && index < self.count).then_some(index)
    }

    /// Offset of the bitmap's word that holds a block's bit, and the bit.
    fn bit(&self, index: u64) -> (u64, u64) {
        (self.extent + index / 64 * 8, 1 << (index % 64))
    }
}

impl<M: Medium> Blocks<M> {
    /// Reads the bitmaps of all extents of kind `Blocks` and lists what is free. [`Error::Corruption`] for an extent that
    /// claims an impossible block size, or more blocks than it has.
    pub fn open(pool: Arc<Pool<M>>) -> Result<Self> {
        let classes = std::array::from_fn(|_| Mutex::default());
        let blocks = Blocks { pool, classes, used: std::array::from_fn(|_| AtomicU64::new(0)) };
        // From the back, so that the lists end with the lowest offsets, which are then taken first.
        for extent in blocks.pool.extents().iter().rev().filter(|extent| extent.kind == ExtentKind::Blocks) {
            let layout = blocks.layout(extent)?;
            let mut class = blocks.class(layout.block_bytes);
            class.extent_bytes += extent.length_bytes;
            for index in (0..layout.count).rev() {
                let (word, bit) = layout.bit(index);
                if blocks.pool.load(word)? & bit == 0 {
                    class.free.push(layout.block(index));
                } else {
                    blocks.used[class_of(layout.block_bytes)].fetch_add(1, Ordering::Relaxed);
                }
            }
            blocks.check_bits_beyond(&layout)?;
        }
        Ok(blocks)
    }

    /// The pool they are in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// Takes a free block of at least so many bytes: the size is rounded up to a power of two, and to 64 at least. Its
    /// content is not defined. Nothing durable happens: a crash leaves the block free until [`Blocks::mark_used`].
    /// [`Error::Full`] if there is none and the pool has no room; [`Error::Invalid`] above 256 KiB.
    pub fn take(&self, size_bytes: u32) -> Result<u64> {
        if size_bytes > BLOCK_BYTES_MAX {
            return Err(Error::invalid(format!("a block of {size_bytes} bytes; the largest has {BLOCK_BYTES_MAX}")));
        }
        let block_bytes = rounded(size_bytes);
        let mut class = self.class(block_bytes);
        if class.free.is_empty() {
            self.add_extent(&mut class, block_bytes)?;
        }
        class.free.pop().ok_or_else(|| Error::invalid("an extent of blocks without a block"))
    }

    /// Sets a block's durable bit. Flushed, not fenced. Setting it twice is setting it once.
    pub fn mark_used(&self, block: u64) -> Result<()> {
        self.change_bit(block, |word, bit| word | bit)
    }

    /// Clears a block's durable bit. Flushed, not fenced. Clearing it twice is clearing it once. The block can be had again
    /// after [`Blocks::recycle`], or after the next opening.
    pub fn mark_free(&self, block: u64) -> Result<()> {
        self.change_bit(block, |word, bit| word & !bit)
    }

    /// Puts a block back on the list, once nobody can be reading it: a taken one that was never marked, or one that was
    /// marked free. Each block once; a block that is marked used stays off the list, and so does one that the map, which
    /// may have been damaged since, does not know any more.
    pub fn recycle(&self, block: u64) {
        let used = self.is_used(block);
        debug_assert!(!matches!(used, Ok(true)), "INV-23: block {block} is recycled, which is in use");
        if let (Ok(false), Ok(size)) = (used, self.block_size(block)) {
            let mut class = self.class(size);
            debug_assert!(!class.free.contains(&block), "INV-23: block {block} is recycled twice");
            class.free.push(block);
        }
    }

    /// Whether a block's durable bit is set. [`Error::Corruption`] if no block begins there.
    pub fn is_used(&self, block: u64) -> Result<bool> {
        let (word, bit) = self.bit(block)?;
        Ok(self.pool.load(word)? & bit != 0)
    }

    /// All blocks whose durable bit is set, in order of offset. Extents that make no sense are left out: opening refuses
    /// them.
    pub fn used(&self) -> Vec<u64> {
        let mut used = Vec::new();
        for extent in self.pool.extents().iter().filter(|extent| extent.kind == ExtentKind::Blocks) {
            let Ok(layout) = self.layout(extent) else { continue };
            for index in 0..layout.count {
                let (word, bit) = layout.bit(index);
                if self.pool.load(word).is_ok_and(|word| word & bit != 0) {
                    used.push(layout.block(index));
                }
            }
        }
        used
    }

    /// The size of the block that begins at an offset, whatever the offset is. [`Error::Corruption`] if none begins there.
    #[inline]
    pub fn block_size(&self, block: u64) -> Result<u32> {
        let (layout, _) = self.locate(block)?;
        Ok(layout.block_bytes)
    }

    /// How many blocks of a size are marked used. No walk.
    pub fn used_count(&self, block_bytes: u32) -> u64 {
        self.used[class_of(block_bytes)].load(Ordering::Relaxed)
    }

    /// How many blocks of a size can be had without a new extent.
    pub fn free_count(&self, block_bytes: u32) -> u64 {
        self.class(block_bytes).free.len() as u64
    }

    /// What so many more blocks of a size take of the pool if they have to come out of its reserve, in pieces of
    /// `piece_bytes` ([`Pool::set_reserve`](crate::Pool::set_reserve)).
    pub fn extent_bytes_max(block_bytes: u32, count: u64, piece_bytes: u64) -> u64 {
        let block_bytes = rounded(block_bytes);
        let piece_bytes = piece_bytes.max(UNIT_BYTES).next_multiple_of(UNIT_BYTES);
        let extent_bytes = smallest_extent_bytes(block_bytes, 1).max(piece_bytes);
        let extent = Extent { offset: 0, length_bytes: extent_bytes, kind: ExtentKind::Blocks, owner: block_bytes };
        let blocks = Layout::of(&extent).map_or(1, |layout| layout.count.max(1));
        count.div_ceil(blocks).saturating_mul(extent_bytes.next_multiple_of(piece_bytes))
    }

    fn add_extent(&self, class: &mut Class, block_bytes: u32) -> Result<()> {
        let comfortable = smallest_extent_bytes(block_bytes, EXTENT_BLOCKS_MIN);
        let wanted = comfortable.max((class.extent_bytes / 4).min(EXTENT_BYTES_MAX).next_multiple_of(UNIT_BYTES));
        let allocate = |length_bytes, claim| {
            let extent = Extent { offset: 0, length_bytes, kind: ExtentKind::Blocks, owner: block_bytes };
            let bitmap_bytes = Layout::of(&extent).map_or(0, |layout| layout.bitmap_bytes);
            self.pool.allocate_claimed(extent.kind, length_bytes, block_bytes, bitmap_bytes, claim)
        };
        let mut extent = allocate(wanted, Claim::Ordinary);
        let least = smallest_extent_bytes(block_bytes, 1);
        for length_bytes in [least.max(self.pool.reserve_piece_bytes()), least] {
            if matches!(extent, Err(Error::Full { .. })) {
                extent = allocate(length_bytes, Claim::Privileged);
            }
        }
        let extent = extent?;
        let layout = self.layout(&extent)?;
        class.extent_bytes += extent.length_bytes;
        class.free.extend((0..layout.count).rev().map(|index| layout.block(index)));
        Ok(())
    }

    fn change_bit(&self, block: u64, change: impl Fn(u64, u64) -> u64) -> Result<()> {
        let (layout, index) = self.locate(block)?;
        let (word, bit) = layout.bit(index);
        let mut current = self.pool.load(word)?;
        loop {
            let new = change(current, bit);
            if new == current {
                // Somebody may have flipped it and not flushed it yet.
                break;
            }
            match self.pool.compare_exchange(word, current, new)? {
                Ok(_) => {
                    let used = &self.used[class_of(layout.block_bytes)];
                    if new & bit != 0 {
                        used.fetch_add(1, Ordering::Relaxed)
                    } else {
                        used.fetch_sub(1, Ordering::Relaxed)
                    };
                    break;
                }
                Err(found) => current = found,
            }
        }
        self.pool.flush(word, 8);
        Ok(())
    }

    fn bit(&self, block: u64) -> Result<(u64, u64)> {
        let (layout, index) = self.locate(block)?;
        Ok(layout.bit(index))
    }

    #[inline]
    fn locate(&self, block: u64) -> Result<(Layout, u64)> {
        let located =
            self.pool.extent_at(block).filter(|extent| extent.kind == ExtentKind::Blocks).and_then(|extent| {
                let layout = Layout::of(&extent)?;
                Some((layout, layout.index(block)?))
            });
        located.ok_or_else(|| Error::corruption(self.pool.path(), block, "a reference to a block where none begins"))
    }

    fn layout(&self, extent: &Extent) -> Result<Layout> {
        Layout::of(extent).filter(|layout| layout.count > 0).ok_or_else(|| {
            let what = format!("an extent of {} bytes for blocks of {} bytes", extent.length_bytes, extent.owner);
            Error::corruption(self.pool.path(), extent.offset, what)
        })
    }

    fn check_bits_beyond(&self, layout: &Layout) -> Result<()> {
        for word in 0..layout.bitmap_bytes / 8 {
            let blocks_here = layout.count.saturating_sub(word * 64).min(64);
            let mask = if blocks_here == 64 { 0 } else { u64::MAX << blocks_here };
            let offset = layout.extent + word * 8;
            if self.pool.load(offset)? & mask != 0 {
                let what = format!("the bitmap marks more blocks used than the {} there are", layout.count);
                return Err(Error::corruption(self.pool.path(), offset, what));
            }
        }
        Ok(())
    }

    fn class(&self, block_bytes: u32) -> MutexGuard<'_, Class> {
        self.classes[class_of(block_bytes)].lock()
    }
}

/// The size of the block that so many bytes get.
fn rounded(size_bytes: u32) -> u32 {
    size_bytes.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).next_power_of_two()
}

/// The number of the class of blocks for so many bytes.
fn class_of(size_bytes: u32) -> usize {
    (rounded(size_bytes).ilog2() - BLOCK_BYTES_MIN.ilog2()) as usize
}

/// The smallest extent for so many large blocks, or for more small ones: the bitmap fits into what the alignment of the
/// first block takes.
fn smallest_extent_bytes(block_bytes: u32, count: u64) -> u64 {
    let size = u64::from(block_bytes);
    (count * size + size.min(ALIGNMENT_BYTES_MAX)).next_multiple_of(UNIT_BYTES)
}
