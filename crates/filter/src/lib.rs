//! The filter of a table file's index chunk, and of a list in the fast tier: a Bloom filter (Bloom, CACM 13(7), 1970) in lines of
//! 64 bytes.
//!
//! All bits of a key lie in one line, so a look costs one or two lines of the processor's cache (Putze, Sanders and
//! Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007). At 10 bits a key about one missing key in a hundred
//! seems to be there.
//!
//! The hash of a key is its CRC-32C `c`, spread over 64 bits:
//!
//! ```text
//! h = c × 0x9e3779b97f4a7c15;  h = (h ^ h >> 32) × 0xd6e8feb86659fd93;  h = h ^ h >> 32      (modulo 2^64)
//! line = (h >> 32) × lines >> 32
//! b = h modulo 2^32; for each probe: the bit b >> 23 of the line, then b = b × 0x9e3779b9 (modulo 2^32)
//! ```
//!
//! Bit `n` of a line is bit `n` modulo 8 of its byte `n / 8`.
#![forbid(unsafe_code)]

/// Length of a line.
pub const LINE_BYTES: usize = 64;
/// The most probes that a filter may ask for.
pub const PROBES_AT_MOST: u32 = 40;

const LINE_BITS: u64 = 8 * LINE_BYTES as u64;
const BIT_SHIFT: u32 = u32::BITS - LINE_BITS.trailing_zeros();

/// What a filter keeps of a key.
#[inline]
pub fn hash_of(key: &[u8]) -> u32 {
    slmdb_checksum::crc32c(key)
}

#[inline]
fn spread(hash: u32) -> u64 {
    let mut spread = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread = (spread ^ (spread >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    spread ^ (spread >> 32)
}

/// How many lines so many keys need; 0: no filter.
pub fn lines_of(keys: u64, bits_per_key: u32) -> u64 {
    (keys * u64::from(bits_per_key)).div_ceil(LINE_BITS)
}

/// How many bits of each key are set, at most [`PROBES_AT_MOST`] for up to 64 bits a key: what gives the fewest false answers in lines of this length.
pub fn probes_of(bits_per_key: u32) -> u32 {
    (bits_per_key * 3 / 5).max(1)
}

/// The bits of a hash in the line.
#[inline]
fn bits_of(spread: u64, probes: u32) -> impl Iterator<Item = usize> {
    let mut bits = spread as u32;
    (0..probes).map(move |_| {
        let bit = bits >> BIT_SHIFT;
        bits = bits.wrapping_mul(0x9e37_79b9);
        bit as usize
    })
}

/// Where in the filter the line of a hash starts.
#[inline]
fn line_at(spread: u64, filter: &[u8]) -> usize {
    let lines = (filter.len() / LINE_BYTES) as u64;
    (((spread >> 32) * lines) >> 32) as usize * LINE_BYTES
}

/// Sets the bits of a key in a filter, which has one line at least.
pub fn insert(filter: &mut [u8], probes: u32, hash: u32) {
    let spread = spread(hash);
    let at = line_at(spread, filter);
    let line = &mut filter[at..at + LINE_BYTES];
    bits_of(spread, probes).for_each(|bit| line[bit / 8] |= 1 << (bit % 8));
}

/// Whether a key may be there; false: it is not. A filter without lines knows nothing.
#[inline]
pub fn may_have(filter: &[u8], probes: u32, hash: u32) -> bool {
    let spread = spread(hash);
    match filter.get(line_at(spread, filter)..).and_then(|line| line.first_chunk::<LINE_BYTES>()) {
        Some(line) => bits_of(spread, probes).all(|bit| line[bit / 8] & 1 << (bit % 8) != 0),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(keys: std::ops::Range<u32>, bits_per_key: u32) -> Vec<u8> {
        let mut filter = vec![0; lines_of(keys.len() as u64, bits_per_key) as usize * LINE_BYTES];
        keys.for_each(|key| insert(&mut filter, probes_of(bits_per_key), hash_of(&key.to_be_bytes())));
        filter
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        for (bits_per_key, at_most) in [(1, 0.7), (5, 0.15), (10, 0.015), (16, 0.003), (64, 0.0005)] {
            let filter = filter_of(0..5000, bits_per_key);
            let found = |keys: std::ops::Range<u32>| {
                let probes = probes_of(bits_per_key);
                keys.filter(|key| may_have(&filter, probes, hash_of(&key.to_be_bytes()))).count()
            };
            assert_eq!(found(0..5000), 5000);
            let rate = found(5000..105_000) as f64 / 100_000.0;
            assert!(rate <= at_most, "{bits_per_key} bits a key: {rate}");
        }
    }

    #[test]
    fn without_lines_everything_may_be_there() {
        assert_eq!(lines_of(5000, 0), 0);
        assert!(may_have(&[], 0, 7) && may_have(&[], PROBES_AT_MOST, u32::MAX));
        assert!(!may_have(&[0; LINE_BYTES], 1, 7));
        assert!(probes_of(64) <= PROBES_AT_MOST);
    }
}
