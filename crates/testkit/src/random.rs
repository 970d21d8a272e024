//! A small generator with a seed (SplitMix64), for machines in memory and for tests: the same numbers everywhere.

/// The generator; what it holds is its seed.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Whether one of so many chances came true.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Anything.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for some in bytes.chunks_mut(8) {
            some.copy_from_slice(&self.number().to_le_bytes()[..some.len()]);
        }
    }
}
