//! [`Node`]: the layout of a node, and reading it.
//!
//! ```text
//!  0  u16 keys, u16 values, u8 flags, u8 level, u16 bytes of the prefix
//!  8  u16 bytes of a tail, u8 bytes of a head, u8 whether it was replaced, u32 bytes of the node
//! 16  i32 heads, up to a multiple of 8 of them; the rest i32::MAX
//!     u64 values: places, or references to children
//!     [NUMBERS] u64 base, u32 sequence numbers: number - base, or 0; [WIDE_NUMBERS] u64 sequence numbers instead
//!     [VARIABLE] u16 ends of tails, upper 2 bits: bytes of the head - 1; [LONG] u32 ends
//!     prefix, tails
//! ```
//!
//! All keys begin with the prefix, which is what the first and the last have in common. What follows is a key's suffix: the head
//! has its first 4 bytes, big-endian with the sign bit turned, so that numbers compare as bytes do; the tail has the rest. A head
//! of a shorter suffix is filled with zeros. Where all suffixes have one length the header says it, and there are no ends.
//! [FIRST_EMPTY] The first suffix has no byte.
//!
//! An inner node has one value more than keys: child i has the keys below key i, child i + 1 those from key i on.
//!
//! Of a node only values change, and the mark that it was replaced.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use slmdb_sync::mapped::AtomicU64;

use super::place::{Found, Place};
use crate::prefetch::prefetch_range;

pub(super) const VARIABLE: u8 = 1;
pub(super) const FIRST_EMPTY: u8 = 2;
pub(super) const NUMBERS: u8 = 4;
pub(super) const LONG: u8 = 8;
pub(super) const WIDE_NUMBERS: u8 = 16;
pub(super) const HEADER_BYTES: usize = 16;
/// Heads come in multiples of this.
pub(super) const HEADS_AT_ONCE: usize = 8;

const REFERENCE_BITS: u32 = 48;
/// So many lines are asked for at most.
const LINES_MAX: u64 = 96;

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

#[derive(Debug)]
#[repr(C)]
pub(super) struct Header {
    pub keys: u16,
    pub values: u16,
    pub flags: u8,
    pub level: u8,
    pub prefix: u16,
    pub tail: u16,
    pub head: u8,
    pub is_replaced: AtomicU8,
    pub bytes: u32,
}

/// A word that leads to a node: its address, and in the upper bits how many lines it has, so that all can be asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference(pub u64);

impl Reference {
    pub fn to(node: Node<'_>) -> Reference {
        let address = node.base.as_ptr().expose_provenance() as u64;
        let lines = (u64::from(node.header().bytes) + address % 64).div_ceil(64).min(LINES_MAX);
        Reference(lines << REFERENCE_BITS | address)
    }

    #[inline(always)]
    fn pointer(self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.0 & ((1 << REFERENCE_BITS) - 1)) as usize)
    }

    /// Has the processor fetch the node.
    #[inline(always)]
    pub fn prefetch(self) {
        prefetch_range(self.pointer(), (self.0 >> REFERENCE_BITS) as usize * 64);
    }

    /// The node.
    ///
    /// # Safety
    ///
    /// It was made of a whole node, with Release or by this thread, and found with Acquire; and that node is not freed for `'n`.
    #[inline(always)]
    pub unsafe fn node<'n>(self) -> Node<'n> {
        // SAFETY: the address of a node is not 0.
        Node { base: unsafe { NonNull::new_unchecked(self.pointer()) }, whose: PhantomData }
    }
}

/// A node that is not freed as long as `'n` lasts: the guard of a reader, or the turn of the writer. Neither are those that it leads
/// to then.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'n> {
    base: NonNull<u8>,
    whose: PhantomData<&'n Header>,
}

/// The first four bytes of a suffix, as a number. (Fewer are put together without a copy in memory, which a processor would wait for.)
#[inline(always)]
pub(super) fn head_of(suffix: &[u8]) -> i32 {
    let head = match *suffix {
        [first, second, third, fourth, ..] => u32::from_be_bytes([first, second, third, fourth]),
        [first, second, third] => u32::from_be_bytes([first, second, third, 0]),
        [first, second] => u32::from_be_bytes([first, second, 0, 0]),
        [first] => u32::from_be_bytes([first, 0, 0, 0]),
        [] => 0,
    };
    (head ^ 1 << 31) as i32
}

#[inline(always)]
pub(super) fn head_bytes(head: i32) -> [u8; 4] {
    (head as u32 ^ 1 << 31).to_be_bytes()
}

impl<'n> Node<'n> {
    /// # Safety
    ///
    /// A whole node begins there, and is not freed for `'n`.
    pub unsafe fn at(base: NonNull<u8>) -> Node<'n> {
        Node { base, whose: PhantomData }
    }

    #[inline(always)]
    pub fn base(self) -> NonNull<u8> {
        self.base
    }

    #[inline(always)]
    pub fn header(self) -> &'n Header {
        // SAFETY: a node begins with its header, which does not change, but for an atomic mark.
        unsafe { self.base.cast().as_ref() }
    }

    #[inline(always)]
    pub fn keys(self) -> usize {
        usize::from(self.header().keys)
    }

    #[inline(always)]
    pub fn values(self) -> usize {
        usize::from(self.header().values)
    }

    #[inline(always)]
    pub fn level(self) -> u8 {
        self.header().level
    }

    /// Bytes of the node.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        self.header().bytes as usize
    }

    #[inline(always)]
    pub fn has(self, flag: u8) -> bool {
        self.header().flags & flag != 0
    }

    /// A part of the node. REQUIRES: `count` of `T` lie there, aligned, and never change.
    #[inline(always)]
    pub fn part<T>(self, at: usize, count: usize) -> &'n [T] {
        debug_assert!(at + count * size_of::<T>() <= self.bytes());
        // SAFETY: all callers ask for parts of the layout, which the builder has written whole.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast().as_ptr(), count) }
    }

    #[inline(always)]
    pub fn heads(self) -> &'n [i32] {
        self.part(HEADER_BYTES, self.keys().next_multiple_of(HEADS_AT_ONCE))
    }

    #[inline(always)]
    pub fn values_at(self) -> usize {
        HEADER_BYTES + 4 * self.keys().next_multiple_of(HEADS_AT_ONCE)
    }

    #[inline(always)]
    fn word(self, index: usize) -> &'n AtomicU64 {
        assert!(index < self.values(), "a value that a node does not have");
        // SAFETY: the values of a node are atomic words.
        unsafe { self.base.add(self.values_at() + 8 * index).cast().as_ref() }
    }

    /// Value `index`, and all that was written before it was stored.
    #[inline(always)]
    pub fn value(self, index: usize) -> u64 {
        self.word(index).load(Acquire)
    }

    /// Publishes a value. REQUIRES: this is the writer, and the node was not replaced.
    #[inline]
    pub fn store(self, index: usize, value: u64) {
        debug_assert_eq!(self.header().is_replaced.load(Relaxed), 0, "a store into a node that was replaced");
        self.word(index).store(value, Release);
    }

    /// From here on nothing is stored into it.
    pub fn mark_replaced(self) {
        self.header().is_replaced.store(1, Relaxed);
    }

    /// The reference to child `index` of an inner node.
    #[inline(always)]
    pub fn reference(self, index: usize) -> Reference {
        debug_assert!(self.level() > 0);
        Reference(self.value(index))
    }

    /// Child `index` of an inner node.
    #[inline(always)]
    pub fn child(self, index: usize) -> Node<'n> {
        // SAFETY: a value of an inner node is a reference, published with Release, to a node that is freed only after all guards and
        // turns are over in which the value could be loaded.
        unsafe { self.reference(index).node() }
    }

    #[inline(always)]
    pub fn numbers_at(self) -> usize {
        self.values_at() + 8 * self.values()
    }

    /// The sequence number of entry `index` of a leaf; 0: it has none.
    #[inline(always)]
    pub fn number(self, index: usize) -> u64 {
        if !self.has(NUMBERS) {
            return 0;
        }
        let at = self.numbers_at();
        if self.has(WIDE_NUMBERS) {
            return self.part::<u64>(at, self.keys())[index];
        }
        match self.part::<u32>(at + 8, self.keys())[index] {
            0 => 0,
            number => self.base_number() + u64::from(number),
        }
    }

    /// What the numbers of a leaf are above. REQUIRES: it has numbers, which are not wide.
    #[inline(always)]
    pub fn base_number(self) -> u64 {
        self.part::<u64>(self.numbers_at(), 1)[0]
    }

    /// Entry `index` of a leaf.
    #[inline(always)]
    pub fn found(self, index: usize) -> Found {
        debug_assert!(self.level() == 0);
        // SAFETY: the word is a leaf's, and this guard or turn lasts.
        Found { place: unsafe { Place::of_word(self.value(index)) }, sequence: self.number(index) }
    }

    #[inline(always)]
    pub fn ends_at(self) -> usize {
        let numbers_bytes = match self.header().flags & (NUMBERS | WIDE_NUMBERS) {
            0 => 0,
            NUMBERS => 8 + 4 * self.keys(),
            _ => 8 * self.keys(),
        };
        self.numbers_at() + numbers_bytes
    }

    /// Where tail `index` ends, and how many bytes its head has. REQUIRES: suffixes are of different lengths.
    #[inline(always)]
    pub fn end(self, index: usize) -> (usize, usize) {
        if self.has(LONG) {
            let word = self.part::<u32>(self.ends_at(), self.keys())[index];
            ((word & (u32::MAX >> 2)) as usize, (word >> 30) as usize + 1)
        } else {
            let word = self.part::<u16>(self.ends_at(), self.keys())[index];
            (usize::from(word & (u16::MAX >> 2)), usize::from(word >> 14) + 1)
        }
    }

    #[inline(always)]
    pub fn prefix_at(self) -> usize {
        let end_bytes = match self.header().flags & (VARIABLE | LONG) {
            0 => 0,
            VARIABLE => 2,
            _ => 4,
        };
        self.ends_at() + end_bytes * self.keys()
    }

    #[inline(always)]
    pub fn prefix(self) -> &'n [u8] {
        self.part(self.prefix_at(), usize::from(self.header().prefix))
    }
}
