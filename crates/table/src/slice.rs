//! [`Slice`]: bytes that share what they were cut from.
//!
//! A value found in a block is handed to the caller without a copy: the slice holds the block's buffer, which stays in
//! memory as long as any slice of it does, whatever the cache does meanwhile. The price is that a small slice can pin a
//! whole block (4 KiB, or one large value); who wants to keep many should copy them out.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt::{self, Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Immutable bytes, cheap to clone; derefs to `[u8]`.
#[derive(Clone, Default)]
pub struct Slice {
    /// `None`: empty. Holds nothing, allocates nothing.
    bytes: Option<Arc<[u8]>>,
    start: usize,
    end: usize,
}

impl Slice {
    /// The empty slice.
    pub const fn new() -> Slice {
        Slice { bytes: None, start: 0, end: 0 }
    }

    /// A range of shared bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the bytes.
    pub fn of(bytes: Arc<[u8]>, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= bytes.len(), "slice {range:?} of {} bytes", bytes.len());
        if range.is_empty() {
            return Slice::new();
        }
        Slice { bytes: Some(bytes), start: range.start, end: range.end }
    }

    /// A part of this slice that shares its bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the slice.
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(range.start <= range.end && range.end <= self.len(), "slice {range:?} of {} bytes", self.len());
        match &self.bytes {
            Some(bytes) => Slice::of(bytes.clone(), self.start + range.start..self.start + range.end),
            None => Slice::new(),
        }
    }

    /// Bytes of memory that this slice keeps alive: those of the whole buffer that it was cut from.
    pub fn pinned_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }
}

impl Deref for Slice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Some(bytes) => &bytes[self.start..self.end],
            None => &[],
        }
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

/// As a byte string, `b"key\x00"`; a long one is cut and its length told.
impl Debug for Slice {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES: usize = 64;
        let shown = &self[..self.len().min(SHOWN_BYTES)];
        write!(formatter, "b\"{}\"", shown.escape_ascii())?;
        if self.len() > SHOWN_BYTES {
            write!(formatter, "… ({} bytes)", self.len())?;
        }
        Ok(())
    }
}

impl From<Arc<[u8]>> for Slice {
    fn from(bytes: Arc<[u8]>) -> Slice {
        let length = bytes.len();
        Slice::of(bytes, 0..length)
    }
}

/// Copies.
impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        if bytes.is_empty() { Slice::new() } else { Slice::from(Arc::<[u8]>::from(bytes)) }
    }
}

/// Copies.
impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Slice {
        Slice::from(bytes.as_slice())
    }
}

/// Copies.
impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.to_vec()
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Slice) -> bool {
        **self == **other
    }
}

impl Eq for Slice {}

impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Slice) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Slice {
    fn cmp(&self, other: &Slice) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq<[u8]> for Slice {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for Slice {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for Slice {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == **other
    }
}

impl<const N: usize> PartialEq<[u8; N]> for Slice {
    fn eq(&self, other: &[u8; N]) -> bool {
        **self == *other
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for Slice {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == **other
    }
}

impl PartialEq<Slice> for [u8] {
    fn eq(&self, other: &Slice) -> bool {
        *self == **other
    }
}

impl PartialEq<Slice> for Vec<u8> {
    fn eq(&self, other: &Slice) -> bool {
        **self == **other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_its_bytes() {
        let whole = Slice::from(b"abcdef".as_slice());
        let part = whole.slice(2..5);
        assert_eq!(part, b"cde");
        assert_eq!(part.pinned_bytes(), 6);
        assert_eq!(part.slice(1..1), b"");
        assert_eq!(part.slice(1..1).pinned_bytes(), 0);
        assert_eq!(Vec::from(part.clone()), b"cde".to_vec());
        assert!(part > whole);
        assert_eq!(Slice::from(Vec::new()), Slice::new());
        assert_eq!(format!("{:?}", Slice::from(vec![0, b'a', 0xff])), r#"b"\x00a\xff""#);
        assert!(format!("{:?}", Slice::from(vec![b'x'; 100])).ends_with("x\"… (100 bytes)"));
    }

    #[test]
    #[should_panic(expected = "slice 0..4 of 3 bytes")]
    fn a_slice_ends_where_it_ends() {
        Slice::from(b"abcdef".as_slice()).slice(0..3).slice(0..4);
    }
}
