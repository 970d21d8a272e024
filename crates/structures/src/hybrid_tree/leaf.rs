//! A leaf: reading it without a lock, and the words that its one writer stores.
//!
//! A slot whose bit is clear in the commit word does not exist. The writer fills such slots, fences, and then sets their
//! bits with one store. A key stays in its slot as long as it is there, and gets a new version by one store of the slot's
//! record offset. Every store to the commit word changes its counter, so a reader can tell that the set of keys was the
//! same all along.

use std::sync::atomic::Ordering;

use slmdb_env::Result;
use slmdb_pmem::{ExtentKind, Medium, Pool};
use slmdb_sync::mapped::AtomicU64;

use super::damage::damaged;
use super::layout::{
    COMMIT_WORD, FINGERPRINT_WORD, LEAF_BYTES, LEAF_SLOTS, LEAF_WORDS, NEXT_WORD, OWNER_MASK, RECORD_WORD, TAG_WORD,
    VALID_BITS, link, owner, parse_link, tag,
};

/// A leaf where it lies.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'t> {
    pub offset: u64,
    words: &'t [AtomicU64; LEAF_WORDS],
}

/// The slots of a mask, from the lowest.
pub(super) fn slots_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (slot < 64).then_some(slot)
    })
}

/// The commit word with other valid bits and the next counter.
pub(super) fn next_commit(commit: u64, valid: u64) -> u64 {
    (commit & !VALID_BITS).wrapping_add(1 << LEAF_SLOTS) | valid & VALID_BITS
}

impl<'t> Leaf<'t> {
    /// The leaf of this tree and epoch at an offset, which may come from anywhere.
    #[inline]
    pub fn at<M: Medium>(pool: &'t Pool<M>, offset: u64, tree: u32, epoch: u32) -> Result<Leaf<'t>> {
        let leaf = Leaf::place(pool, offset)?;
        leaf.expect(pool, tag(offset, tree, epoch), u64::MAX)?;
        Ok(leaf)
    }

    /// The same at an offset from the directory: tree and epoch are looked at, and their check is not made anew.
    #[inline]
    pub fn known<M: Medium>(pool: &'t Pool<M>, offset: u64, tree: u32, epoch: u32) -> Result<Leaf<'t>> {
        let leaf = Leaf::place(pool, offset)?;
        leaf.expect(pool, owner(tree, epoch), OWNER_MASK)?;
        Ok(leaf)
    }

    #[inline]
    fn place<M: Medium>(pool: &'t Pool<M>, offset: u64) -> Result<Leaf<'t>> {
        if !offset.is_multiple_of(LEAF_BYTES) || pool.kind_at(offset) != Some(ExtentKind::Leaves) {
            return Err(damaged(pool, offset, "a reference to a leaf where none can be"));
        }
        let pointer = pool.pointer(offset, LEAF_BYTES)?;
        // SAFETY: 64 mapped words, aligned because the mapping and the offset are. Leaves are only written through atomics, or
        // as bytes before anything leads to them.
        Ok(Leaf { offset, words: unsafe { &*pointer.cast() } })
    }

    #[inline]
    fn expect<M: Medium>(&self, pool: &Pool<M>, tag: u64, mask: u64) -> Result<()> {
        if self.words[TAG_WORD].load(Ordering::Acquire) & mask == tag {
            return Ok(());
        }
        Err(damaged(pool, self.offset, "a leaf of another tree or another epoch, or a damaged one"))
    }

    #[inline]
    pub fn commit(&self) -> u64 {
        self.words[COMMIT_WORD].load(Ordering::Acquire)
    }

    /// Reads the commit word again, after everything that was read before.
    #[inline]
    pub fn is_still(&self, commit: u64) -> bool {
        // The words read since were read with Acquire, so this is not read before them.
        self.commit() == commit
    }

    /// Where its word is that leads to the next leaf.
    pub fn next_place(&self) -> u64 {
        self.offset + NEXT_WORD as u64 * 8
    }

    /// The next leaf, 0 for none.
    pub fn next<M: Medium>(&self, pool: &Pool<M>) -> Result<u64> {
        let word = self.words[NEXT_WORD].load(Ordering::Acquire);
        parse_link(self.next_place(), word)
            .ok_or_else(|| damaged(pool, self.next_place(), "a leaf's link to the next one is damaged"))
    }

    /// The slots whose fingerprint is this, valid or not.
    #[inline]
    pub fn candidates(&self, fingerprint: u8) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let pattern = u64::from(fingerprint) * 0x0101_0101_0101_0101;
        let mut mask = 0;
        for index in 0..LEAF_SLOTS / 8 {
            let word = self.words[FINGERPRINT_WORD + index].load(Ordering::Acquire) ^ pattern;
            let zeros = !(((word & LOW) + LOW) | word | LOW) >> 7;
            mask |= (zeros.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (index * 8);
        }
        mask
    }

    #[inline]
    pub fn fingerprint(&self, slot: usize) -> u8 {
        (self.words[FINGERPRINT_WORD + slot / 8].load(Ordering::Acquire) >> (slot % 8 * 8)) as u8
    }

    #[inline]
    pub fn record(&self, slot: usize) -> u64 {
        self.words[RECORD_WORD + slot].load(Ordering::Acquire)
    }

    /// Stores a word, and notes its line in the mask of those to be flushed.
    fn store<M: Medium>(&self, pool: &Pool<M>, word: usize, value: u64, lines: &mut u8) {
        pool.medium().store(&self.words[word], value);
        *lines |= 1 << (word / 8);
    }

    /// Fills a slot that is not valid.
    pub fn fill<M: Medium>(&self, pool: &Pool<M>, slot: usize, fingerprint: u8, record: u64, lines: &mut u8) {
        let (word, shift) = (FINGERPRINT_WORD + slot / 8, slot % 8 * 8);
        let others = self.words[word].load(Ordering::Acquire) & !(0xff << shift);
        self.store(pool, word, others | u64::from(fingerprint) << shift, lines);
        self.store(pool, RECORD_WORD + slot, record, lines);
    }

    /// Leads a slot to a new version of its key.
    pub fn swing<M: Medium>(&self, pool: &Pool<M>, slot: usize, record: u64, lines: &mut u8) {
        self.store(pool, RECORD_WORD + slot, record, lines);
    }

    /// Makes these slots the valid ones.
    pub fn set_valid<M: Medium>(&self, pool: &Pool<M>, valid: u64, lines: &mut u8) {
        self.store(pool, COMMIT_WORD, next_commit(self.commit(), valid), lines);
    }

    /// Flushes the lines of a mask.
    pub fn flush<M: Medium>(&self, pool: &Pool<M>, lines: u8) {
        slots_of(u64::from(lines)).for_each(|line| pool.flush(self.offset + line as u64 * 64, 64));
    }

    /// Asks the processor for the lines that every look-up reads, or for all of them.
    #[inline]
    pub fn prefetch<M: Medium>(pool: &Pool<M>, offset: u64, all: bool) {
        if let Ok(pointer) = pool.pointer(offset, LEAF_BYTES) {
            crate::prefetch::prefetch_range(pointer, if all { LEAF_BYTES as usize } else { 128 });
        }
    }
}

/// The bytes of a new leaf.
#[derive(Debug, Clone)]
pub(super) struct Image {
    pub offset: u64,
    words: [u64; LEAF_WORDS],
}

impl Image {
    /// Of a leaf with these fingerprints and records.
    pub fn new(offset: u64, tree: u32, epoch: u32, entries: impl IntoIterator<Item = (u8, u64)>) -> Image {
        let mut words = [0; LEAF_WORDS];
        words[TAG_WORD] = tag(offset, tree, epoch);
        for (slot, (fingerprint, record)) in entries.into_iter().take(LEAF_SLOTS).enumerate() {
            words[COMMIT_WORD] |= 1 << slot;
            words[FINGERPRINT_WORD + slot / 8] |= u64::from(fingerprint) << (slot % 8 * 8);
            words[RECORD_WORD + slot] = record;
        }
        Image { offset, words }
    }

    /// Writes it, with a link to the next leaf. Flushed, not fenced.
    ///
    /// # Safety
    /// The slot is the caller's alone: taken, and nothing leads to it.
    pub unsafe fn write<M: Medium>(mut self, pool: &Pool<M>, next: u64) -> Result<()> {
        self.words[NEXT_WORD] = link(self.offset + NEXT_WORD as u64 * 8, next);
        let mut bytes = [0; LEAF_BYTES as usize];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        // SAFETY: the caller's promise.
        unsafe { pool.write_durably(self.offset, &bytes) }
    }
}
