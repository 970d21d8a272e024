//! Building nodes: of keys one behind the other, or of a leaf and a few entries that are put in or changed.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

use slmdb_env::{Error, Result};
use slmdb_sync::mapped;

use super::keys::Keys;
use super::node::{
    FIRST_EMPTY, HEADER_BYTES, HEADS_AT_ONCE, Header, LONG, NUMBERS, Node, VARIABLE, WIDE_NUMBERS, head_of,
};
use super::slab::Slab;

/// Ends of tails below this have room in 14 bits.
const SHORT_ENDS_MAX: usize = u16::MAX as usize >> 2;

/// What a node of some keys looks like.
struct Shape {
    keys: usize,
    values: usize,
    flags: u8,
    prefix: usize,
    /// The length of all suffixes, where they have one.
    suffix: usize,
    /// Sequence numbers are kept as what they are above this.
    base: u64,
    bytes: usize,
}

impl Shape {
    fn new(keys: &Keys, range: Range<usize>, values: usize, numbers: &[u64]) -> Shape {
        let count = range.len();
        let prefix = keys.prefix_bytes(range.clone());
        let suffix = range.clone().next().map_or(0, |first| keys.key(first).len() - prefix);
        let (mut tails, mut is_variable) = (0, false);
        for key in range.map(|index| keys.key(index)) {
            tails += (key.len() - prefix).saturating_sub(4);
            is_variable |= key.len() - prefix != suffix;
        }
        let (number_flags, base) = number_form(numbers);
        let mut flags = number_flags;
        if is_variable {
            flags |= VARIABLE;
            flags |= if suffix == 0 { FIRST_EMPTY } else { 0 };
            flags |= if tails > SHORT_ENDS_MAX { LONG } else { 0 };
        }
        Shape {
            keys: count,
            values,
            flags,
            prefix,
            suffix,
            base,
            bytes: node_bytes(count, values, flags, prefix, tails),
        }
    }

    fn header(&self, level: u8) -> Result<Header> {
        let too_much = || Error::invalid("a node with too much in it");
        let suffix = if self.flags & VARIABLE == 0 { self.suffix } else { 0 };
        Ok(Header {
            keys: u16::try_from(self.keys).map_err(|_| too_much())?,
            values: u16::try_from(self.values).map_err(|_| too_much())?,
            flags: self.flags,
            level,
            prefix: u16::try_from(self.prefix).map_err(|_| too_much())?,
            tail: u16::try_from(suffix.saturating_sub(4)).map_err(|_| too_much())?,
            head: suffix.min(4) as u8,
            is_replaced: AtomicU8::new(0),
            bytes: u32::try_from(self.bytes).ok().filter(|bytes| bytes >> 30 == 0).ok_or_else(too_much)?,
        })
    }
}

/// The length of a node.
fn node_bytes(keys: usize, values: usize, flags: u8, prefix: usize, tails: usize) -> usize {
    let numbers = match flags & (NUMBERS | WIDE_NUMBERS) {
        0 => 0,
        NUMBERS => 8 + 4 * keys,
        _ => 8 * keys,
    };
    let end = match flags & (VARIABLE | LONG) {
        0 => 0,
        VARIABLE => 2,
        _ => 4,
    };
    HEADER_BYTES + 4 * keys.next_multiple_of(HEADS_AT_ONCE) + 8 * values + numbers + end * keys + prefix + tails
}

/// The flags for sequence numbers, and their base.
fn number_form(numbers: &[u64]) -> (u8, u64) {
    let present = || numbers.iter().copied().filter(|&number| number != 0);
    match (present().min(), present().max()) {
        (Some(least), Some(most)) if most - (least - 1) <= u64::from(u32::MAX) => (NUMBERS, least - 1),
        (Some(_), Some(_)) => (NUMBERS | WIDE_NUMBERS, 0),
        _ => (0, 0),
    }
}

/// Memory that a node is written to, before anybody knows of it.
struct Space {
    base: NonNull<u8>,
    bytes: usize,
}

impl Space {
    fn new(slab: &mut Slab, header: Header) -> Result<Space> {
        let space = Space { base: slab.take(header.bytes as usize)?, bytes: header.bytes as usize };
        space.put(0, header);
        Ok(space)
    }

    /// The node, as far as it is written.
    fn node<'n>(&self) -> Node<'n> {
        // SAFETY: the header is written, and what else is asked for before the node is whole was written too.
        unsafe { Node::at(self.base) }
    }

    #[inline(always)]
    fn put<T>(&self, at: usize, value: T) {
        assert!(at + size_of::<T>() <= self.bytes);
        // SAFETY: within memory that this thread alone knows of, at an offset that is aligned for what lies there.
        unsafe { self.base.add(at).cast().write(value) };
    }

    #[inline(always)]
    fn put_bytes(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.bytes);
        // SAFETY: within memory that this thread alone knows of.
        unsafe { self.base.add(at).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
    }

    /// Copies from another node.
    #[inline(always)]
    fn copy(&self, at: usize, from: Node<'_>, from_at: usize, bytes: usize) {
        assert!(at + bytes <= self.bytes && from_at + bytes <= from.bytes());
        // SAFETY: both are within their nodes, and nobody changes those bytes of `from` but this thread.
        unsafe { self.base.add(at).copy_from_nonoverlapping(from.base().add(from_at), bytes) };
    }

    #[inline(always)]
    fn put_end(&self, node: Node<'_>, index: usize, end: usize, head: usize) {
        let head = head.clamp(1, 4) - 1;
        if node.has(LONG) {
            self.put(node.ends_at() + 4 * index, end as u32 | (head as u32) << 30);
        } else {
            self.put(node.ends_at() + 2 * index, end as u16 | (head as u16) << 14);
        }
    }

    #[inline(always)]
    fn put_number(&self, node: Node<'_>, index: usize, number: u64, base: u64) {
        if node.has(WIDE_NUMBERS) {
            self.put(node.numbers_at() + 8 * index, number);
        } else if node.has(NUMBERS) {
            let above = if number == 0 { 0 } else { (number - base) as u32 };
            self.put(node.numbers_at() + 8 + 4 * index, above);
        }
    }

    #[inline(always)]
    fn put_head(&self, index: usize, head: i32) {
        self.put(HEADER_BYTES + 4 * index, head);
    }

    /// The node, which is whole but for what fills up the heads.
    fn finish<'n>(self) -> Node<'n> {
        let node = self.node();
        for index in node.keys()..node.keys().next_multiple_of(HEADS_AT_ONCE) {
            self.put_head(index, i32::MAX);
        }
        // SAFETY: the values were written.
        let values = unsafe { std::slice::from_raw_parts(self.base.add(node.values_at()).as_ptr(), 8 * node.values()) };
        mapped::overwritten(values.as_ptr(), values);
        node
    }
}

/// Builds a node of keys, with those values; a leaf with their sequence numbers, if there are any.
pub(super) fn build<'n>(
    slab: &mut Slab,
    level: u8,
    keys: &Keys,
    range: Range<usize>,
    values: &[u64],
) -> Result<Node<'n>> {
    let numbers = keys.numbers.get(range.clone()).filter(|_| level == 0).unwrap_or_default();
    let shape = Shape::new(keys, range.clone(), values.len(), numbers);
    let space = Space::new(slab, shape.header(level)?)?;
    let node = space.node();
    for (index, &value) in values.iter().enumerate() {
        space.put(node.values_at() + 8 * index, value);
    }
    if node.has(NUMBERS) {
        if !node.has(WIDE_NUMBERS) {
            space.put(node.numbers_at(), shape.base);
        }
        numbers.iter().enumerate().for_each(|(index, &number)| space.put_number(node, index, number, shape.base));
    }
    if let Some(first) = range.clone().next() {
        space.put_bytes(node.prefix_at(), &keys.key(first)[..shape.prefix]);
    }
    let (tails_at, mut end) = (node.prefix_at() + shape.prefix, 0);
    for (index, key) in range.map(|index| keys.key(index)).enumerate() {
        let suffix = &key[shape.prefix..];
        let tail = suffix.get(4..).unwrap_or_default();
        space.put_head(index, head_of(suffix));
        space.put_bytes(tails_at + end, tail);
        end += tail.len();
        if node.has(VARIABLE) {
            space.put_end(node, index, end, suffix.len());
        }
    }
    Ok(space.finish())
}

/// The same node elsewhere.
pub(super) fn copy_of<'n>(slab: &mut Slab, old: Node<'_>) -> Result<Node<'n>> {
    let Header { keys, values, flags, level, prefix, tail, head, bytes, .. } = *old.header();
    let header = Header { keys, values, flags, level, prefix, tail, head, bytes, is_replaced: AtomicU8::new(0) };
    let space = Space::new(slab, header)?;
    space.copy(HEADER_BYTES, old, HEADER_BYTES, old.bytes() - HEADER_BYTES);
    Ok(space.finish())
}

/// A change of a leaf: an entry before slot `at`, or in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit<'k> {
    pub at: usize,
    /// `None`: the key stays, and only the rest is new.
    pub key: Option<&'k [u8]>,
    pub value: u64,
    pub number: u64,
}

/// The same leaf with changes, in order, copied run by run. `None`: it would have another prefix or form, so it is to be built.
pub(super) fn with_edits<'n>(slab: &mut Slab, old: Node<'_>, edits: &[Edit<'_>]) -> Result<Option<Node<'n>>> {
    let Some(form) = Form::of(old, edits) else { return Ok(None) };
    let header = form.header(old)?;
    let space = Space::new(slab, header)?;
    let node = space.node();
    let prefix = usize::from(node.header().prefix);
    space.copy(node.prefix_at(), old, old.prefix_at(), prefix);
    if node.has(NUMBERS) && !node.has(WIDE_NUMBERS) {
        space.put(node.numbers_at(), form.base);
    }
    let (old_tails, tails) = (old.prefix_at() + prefix, node.prefix_at() + prefix);
    // Slots before these are done; tails are so many bytes further back than they were.
    let (mut from, mut to, mut shift) = (0, 0, 0);
    for edit in edits.iter().map(Some).chain([None]) {
        let end = edit.map_or(old.keys(), |edit| edit.at);
        let run = end - from;
        space.copy(HEADER_BYTES + 4 * to, old, HEADER_BYTES + 4 * from, 4 * run);
        for index in 0..run {
            space.put(node.values_at() + 8 * (to + index), old.value(from + index));
        }
        form.copy_numbers(&space, (old, from), (node, to), run);
        let (start, stop) = (old.tail_start(from), old.tail_start(end));
        space.copy(tails + start + shift, old, old_tails + start, stop - start);
        if node.has(VARIABLE) {
            for index in 0..run {
                let (end, head) = old.end(from + index);
                space.put_end(node, to + index, end + shift, head);
            }
        }
        (from, to) = (end, to + run);
        let Some(edit) = edit else { break };
        space.put(node.values_at() + 8 * to, edit.value);
        space.put_number(node, to, edit.number, form.base);
        match edit.key {
            Some(key) => {
                let suffix = &key[prefix..];
                let tail = suffix.get(4..).unwrap_or_default();
                space.put_head(to, head_of(suffix));
                space.put_bytes(tails + stop + shift, tail);
                shift += tail.len();
                if node.has(VARIABLE) {
                    space.put_end(node, to, stop + shift, suffix.len());
                }
            }
            None => {
                space.put_head(to, old.heads()[from]);
                let tail = old.head_bytes_and_tail(from).1;
                space.put_bytes(tails + stop + shift, tail);
                if node.has(VARIABLE) {
                    let (end, head) = old.end(from);
                    space.put_end(node, to, end + shift, head);
                }
                from += 1;
            }
        }
        to += 1;
    }
    Ok(Some(space.finish()))
}

/// The form of a leaf with changes.
struct Form {
    keys: usize,
    flags: u8,
    base: u64,
    tails: usize,
}

impl Form {
    /// `None`: another prefix, or other lengths.
    fn of(old: Node<'_>, edits: &[Edit<'_>]) -> Option<Form> {
        if old.keys() < 2 {
            return None;
        }
        let (header, prefix) = (old.header(), old.prefix());
        let suffix = usize::from(header.head) + usize::from(header.tail);
        let (mut keys, mut tails) = (old.keys(), old.tails_bytes());
        for key in edits.iter().filter_map(|edit| edit.key) {
            let rest = key.strip_prefix(prefix)?;
            if if old.has(VARIABLE) { rest.is_empty() } else { rest.len() != suffix } {
                return None;
            }
            keys += 1;
            tails += rest.len().saturating_sub(4);
        }
        let flags = header.flags;
        if flags & (VARIABLE | LONG) == VARIABLE && tails > SHORT_ENDS_MAX {
            return None;
        }
        let base = if flags & (NUMBERS | WIDE_NUMBERS) == NUMBERS { old.base_number() } else { 0 };
        let fits = |number: u64| match flags & (NUMBERS | WIDE_NUMBERS) {
            0 => number == 0,
            NUMBERS => number == 0 || number.checked_sub(base).is_some_and(|above| above > 0 && above >> 32 == 0),
            _ => true,
        };
        edits.iter().all(|edit| fits(edit.number)).then_some(Form { keys, flags, base, tails })
    }

    fn header(&self, old: Node<'_>) -> Result<Header> {
        let prefix = usize::from(old.header().prefix);
        let bytes = node_bytes(self.keys, self.keys, self.flags, prefix, self.tails);
        let shape =
            Shape { keys: self.keys, values: self.keys, flags: self.flags, prefix, suffix: 0, base: self.base, bytes };
        Ok(Header { tail: old.header().tail, head: old.header().head, ..shape.header(0)? })
    }

    #[inline(always)]
    fn copy_numbers(&self, space: &Space, (old, from): (Node<'_>, usize), (node, to): (Node<'_>, usize), count: usize) {
        match self.flags & (NUMBERS | WIDE_NUMBERS) {
            0 => {}
            NUMBERS => space.copy(node.numbers_at() + 8 + 4 * to, old, old.numbers_at() + 8 + 4 * from, 4 * count),
            _ => space.copy(node.numbers_at() + 8 * to, old, old.numbers_at() + 8 * from, 8 * count),
        }
    }
}
