//! Mutations for where libFuzzer is not: few, plain, and the same on every machine.

/// A small generator of random numbers (SplitMix64): the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Changes an input in one to four places.
pub fn mutate(input: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len() + 1);
        match random.below(6) {
            0 => input.insert(at, random.next() as u8),
            1 => input.truncate(at.max(1)),
            2 => {
                let end = input.len().min(at + 1 + random.below(8));
                input.drain(at..end);
            }
            3 => {
                let from = random.below(input.len() + 1);
                let end = input.len().min(from + random.below(32));
                let copied = input[from..end].to_vec();
                input.splice(at..at, copied);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = match random.below(4) {
                        0 => *byte ^ 1 << random.below(8),
                        1 => [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                        _ => random.next() as u8,
                    };
                }
            }
        }
    }
}
