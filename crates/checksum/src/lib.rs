//! CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of everything that slmdb stores, and a hash of keys where a filter or
//! a fingerprint needs one that never changes.
//!
//! The library that computes it multiplies without carry where the processor can, which for long values takes a third to a fifth
//! of the time of the processor's own instruction for this checksum.
#![forbid(unsafe_code)]

use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// The checksum of these bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32_iscsi(bytes)
}

/// The checksum of what `before` is the checksum of, with these bytes behind it.
#[inline]
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    // (The state of the computation is the checksum with its bits turned over.)
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The polynomial, its bits in turned order.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    /// As it is defined, bit by bit.
    fn by_definition(bytes: &[u8]) -> u32 {
        let step = |state: u32, _| (state >> 1) ^ if state & 1 == 1 { POLYNOMIAL } else { 0 };
        !bytes.iter().fold(!0, |state, byte| (0..8).fold(state ^ u32::from(*byte), step))
    }

    /// RFC 3720, appendix B.4.
    #[test]
    fn the_examples_of_the_standard_have_their_checksums() {
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (bytes, checksum) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&rising, 0x46dd_794e),
            (&falling, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!((crc32c(bytes), by_definition(bytes)), (checksum, checksum), "{bytes:?}");
        }
    }

    /// (The library takes another way for each range of lengths, and for what is not aligned.)
    #[test]
    fn every_length_at_every_alignment_is_right() {
        let bytes: Vec<u8> = (0..6000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in [0, 1, 3, 8, 15, 31, 63] {
            for end in (start..start + 1200).chain([2047, 2048, 4095, 4096, 5000, 6000]).filter(|end| *end >= start) {
                assert_eq!(crc32c(&bytes[start..end]), by_definition(&bytes[start..end]), "{start}..{end}");
            }
        }
    }

    proptest! {
        /// Two parts make the whole, and another library says the same.
        #[test]
        fn parts_make_the_whole(bytes in proptest::collection::vec(any::<u8>(), 0..5000), at in any::<proptest::sample::Index>()) {
            let (before, after) = bytes.split_at(at.index(bytes.len() + 1));
            let whole = crc32c(&bytes);
            prop_assert_eq!(crc32c_append(crc32c(before), after), whole);
            prop_assert_eq!(crc32c_append(0, &bytes), whole);
            prop_assert_eq!(crc32c::crc32c(&bytes), whole);
            prop_assert_eq!(crc32c::crc32c_append(whole, before), crc32c_append(whole, before));
        }
    }
}
