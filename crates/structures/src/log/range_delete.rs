//! The delete of a range, as a payload has it.
//!
//! Its lower bound is the entry's key. The entry's value is one byte that says how the bounds are meant, then the upper bound:
//!
//! | bit | meaning |
//! |---|---|
//! | 1 | the lower bound itself is not in the range |
//! | 2 | the upper bound itself is in the range |
//! | 4 | there is no upper bound (it is empty) |
//! | 8 | there is no lower bound (it is empty, and bit 1 is off) |

use std::ops::Bound;

/// A range of keys, in the order of the store.
pub type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The bytes of both bounds.
pub fn bytes_of_bounds((from, to): KeyBounds<'_>) -> u64 {
    let bytes = |bound: Bound<&[u8]>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.len() as u64,
        Bound::Unbounded => 0,
    };
    bytes(from) + bytes(to)
}

const FROM_EXCLUDED: u8 = 1;
const TO_INCLUDED: u8 = 2;
const NO_END: u8 = 4;
const NO_BEGINNING: u8 = 8;

/// Key and value of the entry.
pub(super) fn encode_bounds((from, to): KeyBounds<'_>) -> (&[u8], Vec<u8>) {
    let (from, of_from) = match from {
        Bound::Included(key) => (key, 0),
        Bound::Excluded(key) => (key, FROM_EXCLUDED),
        Bound::Unbounded => (&[][..], NO_BEGINNING),
    };
    let (to, of_to) = match to {
        Bound::Included(key) => (key, TO_INCLUDED),
        Bound::Excluded(key) => (key, 0),
        Bound::Unbounded => (&[][..], NO_END),
    };
    let mut value = Vec::with_capacity(1 + to.len());
    value.push(of_from | of_to);
    value.extend_from_slice(to);
    (from, value)
}

/// The range that key and value of an entry mean. `None`: they mean none.
pub(super) fn decode_bounds<'a>(key: &'a [u8], value: &'a [u8]) -> Option<KeyBounds<'a>> {
    let (&bits, to) = value.split_first()?;
    let from = match bits & (FROM_EXCLUDED | NO_BEGINNING) {
        0 => Bound::Included(key),
        FROM_EXCLUDED => Bound::Excluded(key),
        NO_BEGINNING if key.is_empty() => Bound::Unbounded,
        _ => return None,
    };
    let to = match bits & !(FROM_EXCLUDED | NO_BEGINNING) {
        0 => Bound::Excluded(to),
        TO_INCLUDED => Bound::Included(to),
        NO_END if to.is_empty() => Bound::Unbounded,
        _ => return None,
    };
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_come_back_as_they_were() {
        let bounds = [Bound::Included(&b"ab"[..]), Bound::Excluded(b"ab"), Bound::Included(b""), Bound::Unbounded];
        for from in bounds {
            for to in bounds {
                let (key, value) = encode_bounds((from, to));
                assert_eq!(decode_bounds(key, &value), Some((from, to)));
            }
        }
    }

    #[test]
    fn what_means_no_range_is_refused() {
        for (key, value) in
            [(&b"a"[..], &b""[..]), (b"a", b"\x08b"), (b"a", b"\x04b"), (b"", b"\x09"), (b"", b"\x10"), (b"", b"\x06")]
        {
            assert_eq!(decode_bounds(key, value), None, "{key:?} {value:?}");
        }
    }
}
