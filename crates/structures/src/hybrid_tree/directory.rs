//! The directory: which leaf covers a key. In plain memory, copied on write, without `unsafe`.
//!
//! Leaves are named in key order, each with a *separator*: it covers the keys from its separator to the next one's. The
//! first leaf's separator counts as below all keys, whatever it is. Chunks of up to 512 separators stand under a top; an edit
//! makes new chunks where something changes, and a new top.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_order::{KeyOrder, common_prefix_bytes};

/// Separators of a chunk.
const CHUNK_MAX: usize = 512;
/// A chunk that would be smaller joins the one before it, if there is room.
const CHUNK_MIN: usize = 128;

/// Separators in order, to be searched.
#[derive(Debug, Default)]
struct Separators {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// What all separators begin with, as bytes of the first. Only where the order is bytewise, as heads.
    prefix_bytes: usize,
    /// The 8 bytes behind the prefix, as numbers.
    heads: Vec<u64>,
}

/// The first 8 bytes as a number. Shorter ones count as filled up with zeros.
#[inline]
pub(super) fn head_of(bytes: &[u8]) -> u64 {
    if let Some(head) = bytes.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    let length = bytes.len().min(8);
    head[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(head)
}

impl Separators {
    fn new<'s>(separators: impl Iterator<Item = &'s [u8]> + Clone, order: &KeyOrder) -> Separators {
        let mut made = Separators::default();
        for separator in separators.clone() {
            made.bytes.extend_from_slice(separator);
            made.ends.push(made.bytes.len() as u32);
        }
        if order.is_bytewise() {
            // The first counts as below all keys, so it has no say; in order the others differ most at their ends.
            let (second, last) = (made.get(1.min(made.len().max(1) - 1)), made.get(made.len().max(1) - 1));
            made.prefix_bytes = common_prefix_bytes(second, last);
            let prefix_bytes = made.prefix_bytes;
            made.heads =
                separators.map(|separator| head_of(separator.get(prefix_bytes..).unwrap_or_default())).collect();
        }
        made
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        self.ends.get(index).map_or(&[], |&end| &self.bytes[start..end as usize])
    }

    /// The last one that is not above the key (not at it either, if `before`); the first if all are.
    fn search(&self, key: &[u8], before: bool, order: &KeyOrder) -> usize {
        let is_left = |ordering: Ordering| if before { ordering.is_lt() } else { ordering.is_le() };
        let count = self.len();
        if count < 2 {
            return 0;
        }
        if !order.is_bytewise() {
            return partition(1, count, |index| is_left(order.compare(self.get(index), key))) - 1;
        }
        let prefix = &self.get(1)[..self.prefix_bytes];
        let front = &key[..key.len().min(self.prefix_bytes)];
        match front.cmp(prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return count - 1,
            Ordering::Equal => {}
        }
        let head = head_of(&key[self.prefix_bytes..]);
        partition(1, count, |index| match self.heads[index].cmp(&head) {
            Ordering::Equal => is_left(self.get(index).cmp(key)),
            other => other.is_lt(),
        }) - 1
    }

    fn memory_bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * 4 + self.heads.capacity() * 8) as u64
    }
}

/// The first number of a range for which this does not hold.
#[inline]
fn partition(mut from: usize, mut to: usize, holds: impl Fn(usize) -> bool) -> usize {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

#[derive(Debug)]
struct Chunk {
    separators: Separators,
    leaves: Vec<u64>,
}

/// Where a leaf stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    chunk: usize,
    index: usize,
}

/// What takes the place of a leaf: leaves with their separators. `None` stands for the old leaf's.
pub(super) type Successors = Vec<(Option<Vec<u8>>, u64)>;

/// A directory at one moment.
#[derive(Debug, Default)]
pub(super) struct Directory {
    tops: Separators,
    chunks: Vec<Arc<Chunk>>,
    leaves: usize,
}

impl Directory {
    /// Of these leaves, which are in order.
    pub fn new(leaves: Vec<(Vec<u8>, u64)>, order: &KeyOrder) -> Directory {
        let chunks = leaves.chunks(CHUNK_MAX * 3 / 4).map(|part| {
            let separators = Separators::new(part.iter().map(|(separator, _)| &separator[..]), order);
            Arc::new(Chunk { separators, leaves: part.iter().map(|(_, leaf)| *leaf).collect() })
        });
        Directory::of(chunks.collect(), order)
    }

    fn of(chunks: Vec<Arc<Chunk>>, order: &KeyOrder) -> Directory {
        let tops = Separators::new(chunks.iter().map(|chunk| chunk.separators.get(0)), order);
        let leaves = chunks.iter().map(|chunk| chunk.leaves.len()).sum();
        Directory { tops, chunks, leaves }
    }

    pub fn leaves(&self) -> usize {
        self.leaves
    }

    pub fn memory_bytes(&self) -> u64 {
        let chunk = |chunk: &Arc<Chunk>| chunk.separators.memory_bytes() + chunk.leaves.capacity() as u64 * 8;
        self.tops.memory_bytes() + self.chunks.iter().map(chunk).sum::<u64>()
    }

    /// The leaf that covers a key. `None`: there are no leaves.
    #[inline]
    pub fn find(&self, key: &[u8], order: &KeyOrder) -> Option<Position> {
        self.search(key, false, order)
    }

    /// The last leaf that covers keys before this one.
    pub fn find_before(&self, key: &[u8], order: &KeyOrder) -> Option<Position> {
        self.search(key, true, order)
    }

    #[inline]
    fn search(&self, key: &[u8], before: bool, order: &KeyOrder) -> Option<Position> {
        let chunk = self.tops.search(key, before, order);
        let index = self.chunks.get(chunk)?.separators.search(key, before, order);
        Some(Position { chunk, index })
    }

    pub fn first(&self) -> Option<Position> {
        (self.leaves > 0).then_some(Position { chunk: 0, index: 0 })
    }

    pub fn last(&self) -> Option<Position> {
        let chunk = self.chunks.len().checked_sub(1)?;
        Some(Position { chunk, index: self.chunks[chunk].leaves.len() - 1 })
    }

    #[inline]
    pub fn leaf(&self, position: Position) -> u64 {
        self.chunks[position.chunk].leaves[position.index]
    }

    pub fn next(&self, Position { chunk, index }: Position) -> Option<Position> {
        if index + 1 < self.chunks[chunk].leaves.len() {
            return Some(Position { chunk, index: index + 1 });
        }
        (chunk + 1 < self.chunks.len()).then_some(Position { chunk: chunk + 1, index: 0 })
    }

    pub fn previous(&self, Position { chunk, index }: Position) -> Option<Position> {
        if index > 0 {
            return Some(Position { chunk, index: index - 1 });
        }
        let chunk = chunk.checked_sub(1)?;
        Some(Position { chunk, index: self.chunks[chunk].leaves.len() - 1 })
    }

    /// The separator of a leaf; of the first there is none.
    pub fn low(&self, position: Position) -> Option<&[u8]> {
        (Some(position) != self.first()).then(|| self.chunks[position.chunk].separators.get(position.index))
    }

    /// The separator behind a leaf; of the last there is none.
    pub fn high(&self, position: Position) -> Option<&[u8]> {
        self.low(self.next(position)?)
    }

    /// With other leaves in the place of some. The edits are in order, one for each position.
    pub fn edited(&self, edits: &[(Position, Successors)], order: &KeyOrder) -> Directory {
        let mut chunks: Vec<Arc<Chunk>> = Vec::with_capacity(self.chunks.len() + 2);
        let mut edits = edits.iter().peekable();
        for (number, chunk) in self.chunks.iter().enumerate() {
            if edits.peek().is_none_or(|(position, _)| position.chunk != number) {
                chunks.push(Arc::clone(chunk));
                continue;
            }
            let mut parts: Vec<(&[u8], u64)> = Vec::with_capacity(chunk.leaves.len() + 16);
            for (index, &leaf) in chunk.leaves.iter().enumerate() {
                let separator = chunk.separators.get(index);
                match edits.next_if(|(position, _)| *position == Position { chunk: number, index }) {
                    None => parts.push((separator, leaf)),
                    Some((_, successors)) => {
                        parts.extend(successors.iter().map(|(own, leaf)| (own.as_deref().unwrap_or(separator), *leaf)));
                    }
                }
            }
            push_chunks(&mut chunks, &parts, order);
        }
        Directory::of(chunks, order)
    }

    /// Without the leaves before this one.
    pub fn without_prefix(&self, position: Position, order: &KeyOrder) -> Directory {
        let mut chunks = Vec::with_capacity(self.chunks.len() - position.chunk);
        let chunk = &self.chunks[position.chunk];
        let kept = position.index..chunk.leaves.len();
        let parts: Vec<_> = kept.map(|index| (chunk.separators.get(index), chunk.leaves[index])).collect();
        push_chunks(&mut chunks, &parts, order);
        chunks.extend(self.chunks[position.chunk + 1..].iter().cloned());
        Directory::of(chunks, order)
    }

    pub fn all_leaves(&self) -> impl Iterator<Item = u64> {
        self.chunks.iter().flat_map(|chunk| chunk.leaves.iter().copied())
    }
}

/// Adds these leaves, in as many chunks as they need.
fn push_chunks(chunks: &mut Vec<Arc<Chunk>>, parts: &[(&[u8], u64)], order: &KeyOrder) {
    if parts.is_empty() {
        return;
    }
    let joins = |last: &Arc<Chunk>| parts.len() < CHUNK_MIN && last.leaves.len() + parts.len() <= CHUNK_MAX / 2;
    let previous = if chunks.last().is_some_and(joins) { chunks.pop() } else { None };
    let before = previous
        .iter()
        .flat_map(|chunk| chunk.leaves.iter().enumerate().map(|(index, &leaf)| (chunk.separators.get(index), leaf)));
    let parts: Vec<_> = before.chain(parts.iter().copied()).collect();
    let count = parts.len().div_ceil(CHUNK_MAX);
    for part in parts.chunks(parts.len().div_ceil(count)) {
        let separators = Separators::new(part.iter().map(|(separator, _)| *separator), order);
        chunks.push(Arc::new(Chunk { separators, leaves: part.iter().map(|(_, leaf)| *leaf).collect() }));
    }
}

/// The shortest key that is above `below` and not above `at`: under a comparator, `at` itself.
pub(super) fn separator(below: &[u8], at: &[u8], order: &KeyOrder) -> Vec<u8> {
    if !order.is_bytewise() {
        return at.to_vec();
    }
    at[..(common_prefix_bytes(below, at) + 1).min(at.len())].to_vec()
}
