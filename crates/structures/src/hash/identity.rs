//! The identity of a key: a hash of 128 bits under the store's secret, of which a shard and a slot keep 106 or more.
//!
//! The hash is SipHash-1-3. Without the secret nobody can choose keys that meet in a shard or in a part of a table.

use std::fmt;

use siphasher::sip128::SipHasher13;
use slmdb_env::{Error, Result};

/// The most shards that a store has.
pub const SHARDS_MAX: u32 = 1 << 14;

/// So many bits of an identity are beside those of the shard and the 64 of the hash.
pub(super) const REST_BITS: u32 = 34;

/// Load factors lie between these, in percent, both included (section 2.5 of the paper).
const LOAD_PERCENT: (u32, u32) = (65, 85);

/// What a table knows of a key. The order is that of shards, and of slots within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    shard: u16,
    hash: u64,
    rest: u64,
}

impl Identity {
    /// From its parts: the shard, the 64 bits of hash behind those that name it, and the 34 bits behind these, which are the lower
    /// ones of `rest`.
    pub fn new(shard: u16, hash: u64, rest: u64) -> Identity {
        Identity { shard, hash, rest: rest & ((1 << REST_BITS) - 1) }
    }

    /// The number of its shard.
    #[inline]
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// What slots of one shard are sorted by.
    #[inline]
    pub(super) fn order(&self) -> (u64, u64) {
        (self.hash, self.rest)
    }
}

/// Makes identities of keys, in one store.
#[derive(Clone)]
pub struct KeyHasher {
    hasher: SipHasher13,
    shard_bits: u32,
}

impl KeyHasher {
    /// For a store with this secret, and so many shards. [`Error::Invalid`] if that is no power of two up to [`SHARDS_MAX`].
    pub fn new(secret: &[u8; 16], shards: u32) -> Result<KeyHasher> {
        if !shards.is_power_of_two() || shards > SHARDS_MAX {
            return Err(Error::invalid(format!("{shards} shards: there can be 1, 2, 4 and so on, up to {SHARDS_MAX}")));
        }
        Ok(KeyHasher { hasher: SipHasher13::new_with_key(secret), shard_bits: shards.trailing_zeros() })
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        1 << self.shard_bits
    }

    /// The identity of a key.
    #[inline]
    pub fn identity(&self, key: &[u8]) -> Identity {
        let hash = self.hasher.hash(key);
        let shard = u128::from(hash.h1) << self.shard_bits >> 64;
        let behind = (u128::from(hash.h1) << 64 | u128::from(hash.h2)) << self.shard_bits;
        let rest = (behind as u64) >> (64 - REST_BITS);
        Identity { shard: shard as u16, hash: (behind >> 64) as u64, rest }
    }

    /// The load factor of a shard, in percent: from 65 to 85, so that shards fill at different times.
    pub fn load_percent(&self, shard: u16) -> u32 {
        let (least, most) = LOAD_PERCENT;
        let hash = self.hasher.hash(&shard.to_le_bytes()).h1;
        least + (hash % u64::from(most - least + 1)) as u32
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays one.
        formatter.debug_struct("KeyHasher").field("shards", &self.shards()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another implementation has it, after the function's definition: what is stored must not change with a version of the library.
    #[test]
    fn a_hash_never_changes() {
        let secret: [u8; 16] = std::array::from_fn(|at| at as u8);
        let key: Vec<u8> = (0..20).collect();
        let one = KeyHasher::new(&secret, 1).unwrap();
        let Identity { shard, hash, rest } = one.identity(&key);
        assert_eq!((shard, hash, rest), (0, 0x0bcf_90bb_112f_2c3c, 0x2_dfa6_44ba));
        assert_eq!(one.load_percent(3), 79);
    }

    /// Shards only move the border between their own bits and the others.
    #[test]
    fn all_bits_of_an_identity_follow_each_other() {
        for bits in 0..=14 {
            let [hasher, whole] = [bits, 0].map(|bits| KeyHasher::new(&[7; 16], 1 << bits).unwrap());
            for number in 0..200_u32 {
                let (few, all) = (hasher.identity(&number.to_le_bytes()), whole.identity(&number.to_le_bytes()));
                assert_eq!(u64::from(few.shard), if bits == 0 { 0 } else { all.hash >> (64 - bits) });
                let hash = (u128::from(all.hash) << 64 | u128::from(all.rest) << 30) << bits;
                assert_eq!(few.hash, (hash >> 64) as u64);
                assert_eq!(few.rest >> bits, (hash as u64 >> 30 << bits >> bits) >> bits, "{bits} bits");
            }
        }
    }

    #[test]
    fn shards_and_load_factors_are_spread_evenly() {
        let hasher = KeyHasher::new(b"a secret of ours", 256).unwrap();
        let mut shards = [0_u32; 256];
        (0..256_000_u32).for_each(|key| shards[usize::from(hasher.identity(&key.to_le_bytes()).shard())] += 1);
        assert!(shards.iter().all(|keys| (800..1200).contains(keys)), "{shards:?}");
        let loads: Vec<u32> = (0..256).map(|shard| hasher.load_percent(shard)).collect();
        assert!((65..=85).all(|percent| loads.contains(&percent)) && loads.iter().all(|load| (65..=85).contains(load)));
    }

    #[test]
    fn other_counts_of_shards_are_refused() {
        for shards in [0, 3, 255, 2 * SHARDS_MAX, u32::MAX] {
            assert!(KeyHasher::new(&[0; 16], shards).is_err());
        }
        assert_eq!(KeyHasher::new(&[0; 16], SHARDS_MAX).unwrap().shards(), SHARDS_MAX);
    }
}
