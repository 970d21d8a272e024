//! The keys of a node: putting them together, and finding one.

use std::cmp::Ordering;

use super::node::{FIRST_EMPTY, Node, VARIABLE, head_bytes, head_of};
use super::search::below_and_upto;

impl<'n> Node<'n> {
    /// Where the tail of key `index` begins, from the first one on.
    #[inline(always)]
    pub fn tail_start(self, index: usize) -> usize {
        match (self.has(VARIABLE), index) {
            (false, _) => index * usize::from(self.header().tail),
            (true, 0) => 0,
            (true, _) => self.end(index - 1).0,
        }
    }

    /// Bytes of all tails.
    #[inline(always)]
    pub fn tails_bytes(self) -> usize {
        self.bytes() - self.prefix_at() - usize::from(self.header().prefix)
    }

    /// All tails, one behind the other.
    #[inline(always)]
    pub fn tails(self) -> &'n [u8] {
        self.part(self.prefix_at() + usize::from(self.header().prefix), self.tails_bytes())
    }

    /// How many bytes each head and each tail has, if all suffixes are of one length.
    #[inline(always)]
    pub fn fixed_suffix(self) -> Option<(usize, usize)> {
        let header = self.header();
        (!self.has(VARIABLE)).then_some((usize::from(header.head), usize::from(header.tail)))
    }

    /// How many bytes the head of key `index` has, and its tail.
    #[inline(always)]
    pub fn head_bytes_and_tail(self, index: usize) -> (usize, &'n [u8]) {
        let tails_at = self.prefix_at() + usize::from(self.header().prefix);
        let (start, tail, head) = if self.has(VARIABLE) {
            let (start, (end, head)) = (self.tail_start(index), self.end(index));
            (start, end - start, if index == 0 && self.has(FIRST_EMPTY) { 0 } else { head })
        } else {
            let tail = usize::from(self.header().tail);
            (index * tail, tail, usize::from(self.header().head))
        };
        (head, self.part(tails_at + start, tail))
    }

    /// Appends key `index`.
    #[inline(always)]
    pub fn append_key(self, index: usize, to: &mut Vec<u8>) {
        to.extend_from_slice(self.prefix());
        let (head, tail) = self.head_bytes_and_tail(index);
        to.extend_from_slice(&head_bytes(self.heads()[index])[..head]);
        to.extend_from_slice(tail);
    }

    /// Key `index`.
    pub fn key(self, index: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.append_key(index, &mut key);
        key
    }

    /// Bytes of key `index`.
    pub fn key_bytes(self, index: usize) -> usize {
        let (head, tail) = self.head_bytes_and_tail(index);
        usize::from(self.header().prefix) + head + tail.len()
    }

    /// How key `index` compares with one that has the same prefix and head.
    #[inline(always)]
    fn compare(self, index: usize, suffix: &[u8]) -> Ordering {
        let (head, tail) = self.head_bytes_and_tail(index);
        head.cmp(&suffix.len().min(4)).then_with(|| tail.cmp(suffix.get(4..).unwrap_or_default()))
    }

    /// Which key this is, or how many are below it.
    #[inline(always)]
    pub fn find(self, key: &[u8]) -> Result<usize, usize> {
        let prefix = self.prefix();
        let suffix = match key.split_at_checked(prefix.len()) {
            Some((start, suffix)) if start == prefix => suffix,
            _ => return Err(if key < prefix { 0 } else { self.keys() }),
        };
        let (mut low, upto) = below_and_upto(self.heads(), head_of(suffix));
        let mut high = upto.min(self.keys());
        while low < high {
            let middle = low.midpoint(high);
            match self.compare(middle, suffix) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Which child of an inner node has a key.
    #[inline(always)]
    pub fn child_of(self, key: &[u8]) -> usize {
        match self.find(key) {
            Ok(equal) => equal + 1,
            Err(below) => below,
        }
    }
}
