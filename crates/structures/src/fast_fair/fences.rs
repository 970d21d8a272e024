//! What a node covers: its shape and fences, and where a key is as seen from them.
//!
//! A node's keys k have low <= k < high. Under the order by bytes they all begin with the common prefix of low and high,
//! which is kept once, and what a slot shows of its key, its *head*, comes after that. Under a comparator fences are
//! whole keys and there are no heads, see [`node`](super::node).

use std::cmp::Ordering;

use slmdb_order::{KeyOrder, common_prefix_bytes};

/// Fences up to so many bytes stand in the node itself.
pub(super) const FENCE_BYTES_INLINE: usize = 24;

const HIGH_IS_INFINITE: u8 = 1;
const FENCES_OUTSIDE: u8 = 2;
const LOW_IS_INFINITE: u8 = 4;
const WHOLE_KEYS: u8 = 8;

/// The fixed properties of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub level: u8,
    flags: u8,
    pub prefix: u16,
    pub low: u16,
    pub high: u16,
}

impl Shape {
    /// `low` and `high` are the whole fences, `None` where there is none; their common prefix becomes the node's, if the
    /// order is by bytes.
    pub fn new(level: u8, low: Option<&[u8]>, high: Option<&[u8]>, order: &KeyOrder) -> Shape {
        let prefix = match (low, high) {
            (Some(low), Some(high)) if order.is_bytewise() => common_prefix_bytes(low, high),
            _ => 0,
        };
        let rest = |fence: &[u8]| (fence.len() - prefix) as u16;
        let bytes = low.map_or(0, <[u8]>::len) + high.map_or(0, |high| high.len() - prefix);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(low.is_none(), LOW_IS_INFINITE)
            | flag(high.is_none(), HIGH_IS_INFINITE)
            | flag(bytes > FENCE_BYTES_INLINE, FENCES_OUTSIDE)
            | flag(!order.is_bytewise(), WHOLE_KEYS);
        Shape { level, flags, prefix: prefix as u16, low: low.map_or(0, rest), high: high.map_or(0, rest) }
    }

    #[inline]
    pub fn from_word(word: u64) -> Shape {
        Shape {
            level: word as u8,
            flags: (word >> 8) as u8,
            prefix: (word >> 16) as u16,
            low: (word >> 32) as u16,
            high: (word >> 48) as u16,
        }
    }

    pub fn word(self) -> u64 {
        u64::from(self.level)
            | u64::from(self.flags) << 8
            | u64::from(self.prefix) << 16
            | u64::from(self.low) << 32
            | u64::from(self.high) << 48
    }

    /// Bytes of prefix, low rest and high rest together.
    #[inline]
    pub fn fence_bytes(self) -> usize {
        usize::from(self.prefix) + usize::from(self.low) + usize::from(self.high)
    }

    #[inline]
    pub fn fences_outside(self) -> bool {
        self.flags & FENCES_OUTSIDE != 0
    }

    #[inline]
    pub fn high_is_infinite(self) -> bool {
        self.flags & HIGH_IS_INFINITE != 0
    }

    #[inline]
    fn low_is_infinite(self) -> bool {
        self.flags & LOW_IS_INFINITE != 0
    }

    /// Whether there are heads, and the fences stand in the node.
    #[inline]
    pub fn has_heads_and_short_fences(self) -> bool {
        self.flags & (FENCES_OUTSIDE | WHOLE_KEYS) == 0 && self.fence_bytes() <= FENCE_BYTES_INLINE
    }

    /// Whether whole keys are compared, because the tree's order is not by bytes.
    #[inline]
    pub fn has_whole_keys(self) -> bool {
        self.flags & WHOLE_KEYS != 0
    }
}

/// The first 8 bytes as a number, zeros for what is missing.
#[inline]
pub(super) fn head_of(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => rest.iter().enumerate().fold(0, |head, (index, &byte)| head | u64::from(byte) << (56 - 8 * index)),
    }
}

/// What a descent looks for: the node at a level that covers...
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target<'k> {
    /// this key: low <= key < high.
    At(&'k [u8]),
    /// the keys just below this one: low < key <= high.
    Below(&'k [u8]),
    /// the smallest keys of all.
    First,
    /// the greatest keys of all.
    Last,
}

impl<'k> Target<'k> {
    /// The node that begins at this low fence.
    pub fn at_low(low: Option<&'k [u8]>) -> Target<'k> {
        low.map_or(Target::First, Target::At)
    }

    /// How an entry with this whole key stands to the target: `Less` and `Equal` are on the way to it.
    #[inline]
    pub fn compare(&self, entry: &[u8], order: &KeyOrder) -> Ordering {
        match self {
            Target::At(key) => order.compare(entry, key),
            Target::Below(key) if order.compare(entry, key).is_lt() => Ordering::Less,
            Target::Below(_) | Target::First => Ordering::Greater,
            Target::Last => Ordering::Less,
        }
    }

    /// As [`Target::compare`], for a node with this low fence.
    #[inline]
    pub fn compare_low(&self, low: Option<&[u8]>, order: &KeyOrder) -> Ordering {
        low.map_or(Ordering::Less, |low| self.compare(low, order))
    }
}

/// Where a target is, as seen from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    /// Within the fences; with its head in this node.
    Inside(u64),
    Right,
}

/// The fences of a node.
pub(super) struct Fences<'p> {
    pub shape: Shape,
    /// Those that stand in the node...
    pub inline: [u8; FENCE_BYTES_INLINE],
    /// ...or else in a block.
    pub outside: &'p [u8],
}

impl Fences<'_> {
    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.shape.fences_outside() { self.outside } else { &self.inline[..self.shape.fence_bytes()] }
    }

    /// The low fence: the smallest key that can be here; `None`: there is no bound.
    #[inline]
    pub fn low(&self) -> Option<&[u8]> {
        let low = &self.bytes()[..usize::from(self.shape.prefix) + usize::from(self.shape.low)];
        (!self.shape.low_is_infinite()).then_some(low)
    }

    /// The high fence, beyond all keys that can be here; `None`: there is no bound.
    pub fn high(&self) -> Option<Vec<u8>> {
        let mut high = Vec::new();
        self.copy_high(&mut high).then_some(high)
    }

    /// Copies the high fence; `false`: there is no bound.
    pub fn copy_high(&self, into: &mut Vec<u8>) -> bool {
        into.clear();
        if self.shape.high_is_infinite() {
            return false;
        }
        let (bytes, prefix) = (self.bytes(), usize::from(self.shape.prefix));
        into.extend_from_slice(&bytes[..prefix]);
        into.extend_from_slice(&bytes[prefix + usize::from(self.shape.low)..]);
        true
    }

    /// Where a target is.
    #[inline]
    pub fn side(&self, target: &Target, order: &KeyOrder) -> Side {
        match target {
            Target::First if self.shape.low_is_infinite() => Side::Inside(0),
            Target::First => Side::Left,
            Target::Last if self.shape.high_is_infinite() => Side::Inside(u64::MAX),
            Target::Last => Side::Right,
            _ if !order.is_bytewise() => self.side_by_whole_keys(target, order),
            Target::At(key) => self.side_of_key(key),
            Target::Below(key) => self.side_of_bound(key),
        }
    }

    fn side_by_whole_keys(&self, target: &Target, order: &KeyOrder) -> Side {
        let bytes = self.bytes();
        let high = &bytes[bytes.len() - usize::from(self.shape.high)..];
        if self.low().is_some_and(|low| target.compare(low, order).is_gt()) {
            Side::Left
        } else if !self.shape.high_is_infinite() && target.compare(high, order).is_le() {
            Side::Right
        } else {
            Side::Inside(0)
        }
    }

    fn side_of_key(&self, key: &[u8]) -> Side {
        let (prefix, rest) = self.bytes().split_at(usize::from(self.shape.prefix));
        let (low, high) = rest.split_at(usize::from(self.shape.low));
        let Some(key_rest) = key.strip_prefix(prefix) else {
            return if key < prefix { Side::Left } else { Side::Right };
        };
        if key_rest < low {
            Side::Left
        } else if !self.shape.high_is_infinite() && key_rest >= high {
            Side::Right
        } else {
            Side::Inside(head_of(key_rest))
        }
    }

    /// As for a key, but the low fence is not inside and the high fence is.
    fn side_of_bound(&self, key: &[u8]) -> Side {
        let (prefix, rest) = self.bytes().split_at(usize::from(self.shape.prefix));
        let (low, high) = rest.split_at(usize::from(self.shape.low));
        let Some(key_rest) = key.strip_prefix(prefix) else {
            return if key < prefix { Side::Left } else { Side::Right };
        };
        if key_rest <= low {
            Side::Left
        } else if !self.shape.high_is_infinite() && key_rest > high {
            Side::Right
        } else {
            Side::Inside(head_of(key_rest))
        }
    }
}
