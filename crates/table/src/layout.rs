//! [`Layout`] and [`View`]: what is in a block's bytes, wherever they lie. The format is told where [`Block`](crate::Block) is.
//!
//! Whoever wants one entry of a block that he has only for a moment looks it up in a view and copies what he wants.

use std::ops::Range;

use crate::codec::{get_length, get_range, get_u16, get_u32, get_varint};
use crate::entry::EntryKind;
use crate::single;

/// Length of the interval and the count at the end.
pub(crate) const TAIL_BYTES: usize = size_of::<u16>() + size_of::<u32>();
/// The bit of the count that says that offsets are four bytes wide.
pub(crate) const WIDE: u32 = 1 << 31;
/// The highest offset that needs no such.
pub(crate) const NARROW_BYTES_AT_MOST: usize = u16::MAX as usize;

/// An entry as it lies in its block; the ranges are of the block's bytes.
#[derive(Debug, Clone)]
pub(crate) struct RawEntry {
    pub(crate) shared: usize,
    pub(crate) kind: EntryKind,
    pub(crate) sequence: u64,
    pub(crate) suffix: Range<usize>,
    pub(crate) value: Range<usize>,
}

/// What the entries' tags are made of their keys with. Any even spread would do; this one the processor has built in.
#[inline]
pub(crate) fn tag_of(key: &[u8]) -> u8 {
    (slmdb_checksum::crc32c(key) >> 24) as u8
}

/// Where the parts of a block are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) entries: usize,
    /// 2 or 4; 0: it is an entry by itself, and no block.
    offset_bytes: usize,
    restart_interval: usize,
    /// Where the entries end and the offsets start.
    offsets_at: usize,
    tags_at: usize,
}

/// A block's bytes, and where in them is what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) bytes: &'a [u8],
    layout: &'a Layout,
}

/// What is wrong with a block, in words.
pub(crate) type Looked<T> = Result<T, &'static str>;

impl Layout {
    /// Takes a block's tail apart; `None` if there is none that fits.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Layout> {
        let tags_end = bytes.len().checked_sub(TAIL_BYTES)?;
        let mut at = tags_end;
        let restart_interval = usize::from(get_u16(bytes, &mut at)?);
        let count = get_u32(bytes, &mut at)?;
        let entries = (count & !WIDE) as usize;
        let offset_bytes = if count & WIDE == 0 { 2 } else { 4 };
        let tags_at = tags_end.checked_sub(entries)?;
        let offsets_at = tags_at.checked_sub(entries.checked_mul(offset_bytes)?)?;
        if restart_interval == 0 || entries == 0 {
            return None;
        }
        let layout = Layout { entries, offset_bytes, restart_interval, offsets_at, tags_at };
        (layout.of(bytes).start(0) == Some(0)).then_some(layout)
    }

    /// Of a checked entry by itself, whose value ends here.
    pub(crate) fn single(value_end: usize) -> Layout {
        Layout { entries: 1, offset_bytes: 0, restart_interval: 1, offsets_at: value_end, tags_at: value_end }
    }

    /// Whether it is of an entry by itself.
    #[inline(always)]
    pub(crate) fn is_single(&self) -> bool {
        self.offset_bytes == 0
    }

    /// The bytes that it was parsed from, to be looked into.
    #[inline(always)]
    pub(crate) fn of<'a>(&'a self, bytes: &'a [u8]) -> View<'a> {
        View { bytes, layout: self }
    }
}

impl<'a> View<'a> {
    /// Where an entry starts; that of the one behind the last is where the entries end.
    #[inline(always)]
    fn start(self, slot: usize) -> Option<usize> {
        if slot == self.layout.entries {
            return Some(self.layout.offsets_at);
        }
        let mut at = self.layout.offsets_at + slot * self.layout.offset_bytes;
        match self.layout.offset_bytes {
            2 => get_u16(self.bytes, &mut at).map(usize::from),
            _ => get_u32(self.bytes, &mut at).map(|offset| offset as usize),
        }
    }

    /// Decodes the entry in a slot, which must be one of the block's.
    #[inline(always)]
    pub(crate) fn entry(self, slot: usize) -> Looked<RawEntry> {
        self.decoded(slot).ok_or("an entry is cut off")
    }

    #[inline(always)]
    fn decoded(self, slot: usize) -> Option<RawEntry> {
        if self.layout.is_single() {
            let entry = single::decode(self.bytes.get(..self.layout.offsets_at)?)?;
            let (kind, sequence) = (entry.kind, entry.sequence);
            return Some(RawEntry { shared: 0, kind, sequence, suffix: entry.key, value: entry.value });
        }
        let (mut at, end) = (self.start(slot)?, self.start(slot + 1)?);
        if end > self.layout.offsets_at {
            return None;
        }
        let bytes = &self.bytes[..end];
        let shared = get_length(bytes, &mut at)?;
        let unshared = get_length(bytes, &mut at)?;
        let sequence = get_varint(bytes, &mut at)?;
        let suffix = get_range(bytes, &mut at, unshared >> 1)?;
        let kind = EntryKind::of_bit(unshared as u64);
        let is_whole = (kind == EntryKind::Put || at == end) && (shared == 0 || !self.is_restart(slot));
        is_whole.then_some(RawEntry { shared, kind, sequence, suffix, value: at..end })
    }

    #[inline(always)]
    fn is_restart(self, slot: usize) -> bool {
        slot.is_multiple_of(self.layout.restart_interval)
    }

    /// The first entry of `key` that is wanted, versions of one key coming newest first.
    #[inline]
    pub(crate) fn find(self, key: &[u8], is_wanted: impl Fn(&RawEntry) -> bool) -> Looked<Option<RawEntry>> {
        let entries = self.layout.entries;
        if entries == 1 {
            return Ok(self.entry_of(0, key)?.filter(is_wanted));
        }
        for slot in self.tagged(tag_of(key)) {
            if slot < entries {
                let found = self.entry_of(slot, key)?.filter(&is_wanted);
                if found.is_some() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// The entry in a slot, if its key is this one.
    #[inline]
    fn entry_of(self, slot: usize, key: &[u8]) -> Looked<Option<RawEntry>> {
        let entry = self.entry(slot)?;
        let Some((head, tail)) = key.split_at_checked(entry.shared) else { return Ok(None) };
        if *tail != self.bytes[entry.suffix.clone()] {
            return Ok(None);
        }
        if !head.is_empty() && !self.restart_key(slot)?.starts_with(head) {
            return Ok(None);
        }
        Ok(Some(entry))
    }

    /// The key that the key in a slot is shortened against: the whole key of the restart before, or its own.
    pub(crate) fn restart_key(self, slot: usize) -> Looked<&'a [u8]> {
        let restart = self.entry(slot - slot % self.layout.restart_interval)?;
        Ok(&self.bytes[restart.suffix])
    }

    /// What the key in a slot shares with its restart key.
    #[inline]
    pub(crate) fn head(self, slot: usize, shared: usize) -> Looked<&'a [u8]> {
        if shared == 0 {
            return Ok(&[]);
        }
        self.restart_key(slot)?.get(..shared).ok_or("a key shares more than there is")
    }

    /// Whether the tag in a slot, if there are tags, is that of this key, as [`View::find`] takes for granted.
    pub(crate) fn has_tag_of(self, slot: usize, key: &[u8]) -> bool {
        self.layout.is_single() || self.bytes.get(self.layout.tags_at + slot) == Some(&tag_of(key))
    }

    /// The slots whose tag this is, and now and then one whose is not.
    #[inline]
    pub(crate) fn tagged(self, tag: u8) -> Tagged<'a> {
        let wanted = u64::from_le_bytes([tag; 8]);
        let tags_at = self.layout.tags_at;
        Tagged { tags: &self.bytes[tags_at..tags_at + self.layout.entries], base: 0, found: 0, wanted }
    }
}

/// Eight tags at a time.
pub(crate) struct Tagged<'a> {
    /// Those not looked at yet.
    tags: &'a [u8],
    /// The slot of the first of them.
    base: usize,
    /// A bit for each slot found among the eight before `base`, in the byte's highest place.
    found: u64,
    wanted: u64,
}

impl Iterator for Tagged<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        const LOWEST: u64 = u64::from_le_bytes([0x01; 8]);
        const HIGHEST: u64 = u64::from_le_bytes([0x80; 8]);
        while self.found == 0 {
            let mut word = [!(self.wanted as u8); 8];
            let some = self.tags.len().min(8);
            if some == 0 {
                return None;
            }
            let (now, later) = self.tags.split_at(some);
            word[..some].copy_from_slice(now);
            // A byte that becomes zero is found; a borrow may let the byte above it be found, too, if it becomes one.
            let differing = u64::from_le_bytes(word) ^ self.wanted;
            self.found = differing.wrapping_sub(LOWEST) & !differing & HIGHEST;
            self.tags = later;
            self.base += some;
            if some < 8 {
                // So that slots count back from `base` as with a whole word.
                self.base += 8 - some;
            }
        }
        let byte = self.found.trailing_zeros() as usize / 8;
        self.found &= self.found - 1;
        Some(self.base - 8 + byte)
    }
}
