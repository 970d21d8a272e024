//! Numbers in bytes: little endian where a field has a fixed width, LEB128 varints where most values are small.
//!
//! Readers return `None` instead of an error, since only the caller knows which part of which file it is reading. A
//! varint has exactly one valid form (no padding, no bits beyond the 64th), so that equal content has equal bytes.

/// Bytes that `value` takes as a varint: 1 to 10.
#[inline]
pub(crate) fn varint_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends `value` as a varint.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the varint at `*at` and moves `*at` behind it; `None` if there is no valid one.
#[inline(always)]
pub(crate) fn get_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(u64::from(first));
    }
    get_long_varint(bytes, at)
}

/// One of two bytes or more.
fn get_long_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    if let Some(word) = bytes.get(*at..)?.first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends != 0 {
            // All bytes at once: what is behind the one that ends it is cleared, and groups of 7, 14 and 28 bits are joined.
            let last_bit = ends.trailing_zeros();
            let own = word & (u64::MAX >> (63 - last_bit));
            let value = own & 0x7f7f_7f7f_7f7f_7f7f;
            let value = (value & 0x007f_007f_007f_007f) | (value & 0x7f00_7f00_7f00_7f00) >> 1;
            let value = (value & 0x0000_3fff_0000_3fff) | (value & 0x3fff_0000_3fff_0000) >> 2;
            let value = (value & 0x0000_0000_0fff_ffff) | (value & 0x0fff_ffff_0000_0000) >> 4;
            *at += last_bit as usize / 8 + 1;
            // A last byte of zero adds nothing: then it is not the shortest form.
            return (last_bit < 8 || own >> (last_bit - 7) != 0).then_some(value);
        }
    }
    get_varint_at_end(bytes, at)
}

/// One that is longer than 8 bytes, or ends less than 8 bytes before the end.
fn get_varint_at_end(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0;
    for (index, &byte) in bytes.get(*at..)?.iter().take(10).enumerate() {
        if index == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *at += index + 1;
            return (byte != 0 || index == 0).then_some(value);
        }
    }
    None
}

/// As [`get_varint`], for lengths.
#[inline(always)]
pub(crate) fn get_length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    usize::try_from(get_varint(bytes, at)?).ok()
}

/// The range of `length` bytes from `*at`, which is moved behind it; `None` if `bytes` ends before.
#[inline(always)]
pub(crate) fn get_range(bytes: &[u8], at: &mut usize, length: usize) -> Option<std::ops::Range<usize>> {
    let start = *at;
    let end = start.checked_add(length)?;
    if end > bytes.len() {
        return None;
    }
    *at = end;
    Some(start..end)
}

/// The `N` bytes at `*at`, which is moved behind them.
#[inline]
pub(crate) fn get_array<const N: usize>(bytes: &[u8], at: &mut usize) -> Option<[u8; N]> {
    let array = bytes.get(*at..)?.first_chunk::<N>()?;
    *at += N;
    Some(*array)
}

/// Reads a little-endian `u16`.
pub(crate) fn get_u16(bytes: &[u8], at: &mut usize) -> Option<u16> {
    get_array(bytes, at).map(u16::from_le_bytes)
}

/// Reads a little-endian `u32`.
#[inline]
pub(crate) fn get_u32(bytes: &[u8], at: &mut usize) -> Option<u32> {
    get_array(bytes, at).map(u32::from_le_bytes)
}

/// Reads a little-endian `u64`.
pub(crate) fn get_u64(bytes: &[u8], at: &mut usize) -> Option<u64> {
    get_array(bytes, at).map(u64::from_le_bytes)
}

/// Maps differences of sequence numbers to small unsigned numbers whichever their sign. Wraps, so that every pair of
/// sequence numbers has a difference.
#[inline]
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from) as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Undoes [`zigzag`]: the `to` it was made of.
#[inline]
pub(crate) fn unzigzag(from: u64, difference: u64) -> u64 {
    from.wrapping_add((difference >> 1) ^ (difference & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_come_back() {
        let mut numbers = vec![0, 1, 127, 128, 16_383, 16_384, u64::MAX - 1, u64::MAX];
        numbers.extend((0..64).map(|bit| 1 << bit));
        numbers.extend((0..64).map(|bit| (1 << bit) - 1));
        for number in numbers {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_bytes(number), "{number}");
            let mut at = 0;
            assert_eq!(get_varint(&bytes, &mut at), Some(number));
            assert_eq!(at, bytes.len());
            // Whatever is behind it.
            for behind in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let (mut followed, mut at) = ([&[0xff], &bytes[..]].concat(), 1);
                followed.resize(followed.len() + 9, behind);
                assert_eq!(get_varint(&followed, &mut at), Some(number), "{number} with {behind:#x} behind it");
                assert_eq!(at, 1 + bytes.len());
            }
            for cut in 0..bytes.len() {
                assert_eq!(get_varint(&bytes[..cut], &mut 0), None, "{number} cut to {cut} bytes");
            }
        }
    }

    #[test]
    fn a_varint_has_one_form() {
        assert_eq!(get_varint(&[0x80, 0x00], &mut 0), None, "padded zero");
        assert_eq!(get_varint(&[0x81, 0x80, 0x00], &mut 0), None, "padded one");
        for length in 2..10 {
            let mut padded = [0x80; 16];
            padded[length - 1] = 0;
            assert_eq!(get_varint(&padded, &mut 0), None, "zero padded to {length} bytes");
            padded[length - 1] = 1;
            assert_eq!(get_varint(&padded, &mut 0), Some(1 << (7 * (length - 1))));
        }
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(get_varint(&most, &mut 0), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(get_varint(&most, &mut 0), None, "65 bits");
        assert_eq!(get_varint(&[0x80; 11], &mut 0), None, "no end");
        assert_eq!(get_varint(&[1], &mut usize::MAX.clone()), None, "behind the end");
    }

    #[test]
    fn every_difference_of_sequence_numbers_comes_back() {
        let numbers = [0, 1, 2, 1 << 32, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX];
        for from in numbers {
            for to in numbers {
                assert_eq!(unzigzag(from, zigzag(from, to)), to, "{from} {to}");
            }
        }
        assert_eq!(zigzag(7, 8), 2);
        assert_eq!(zigzag(8, 7), 1);
    }

    #[test]
    fn ranges_do_not_overflow() {
        assert_eq!(get_range(&[0; 4], &mut 1, usize::MAX), None);
        assert_eq!(get_range(&[0; 4], &mut 1, 3), Some(1..4));
        assert_eq!(get_range(&[0; 4], &mut 2, 3), None);
        assert_eq!(get_u32(&[0; 4], &mut 1), None);
    }
}
