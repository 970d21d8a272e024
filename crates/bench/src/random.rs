//! Random numbers: the same from the same seed, on every machine, and cheap beside what is measured.
//!
//! SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), written out because it is four
//! lines and because its numbers must not change with the version of a crate.

/// What SplitMix64 adds for each number: 2⁶⁴ divided by the golden ratio, odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        Random { state: mixed(seed.wrapping_add(GAMMA)) }
    }

    /// The stream of one thread in one phase: no two share theirs, and each is the same in every run with that seed.
    pub fn stream(seed: u64, phase: u64, thread: u64) -> Random {
        Random::new(mixed(mixed(seed.wrapping_add(GAMMA)) ^ phase.wrapping_mul(GAMMA)) ^ mixed(thread.wrapping_add(1)))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mixed(self.state)
    }

    /// A number below `end`, all as likely as each other (but for a part of 2⁻⁶⁴ × `end`); 0 for an end of 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// A number from 0 up to, and without, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A bijection of 64-bit numbers that leaves no bit where it was.
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The numbers below `count`, each once, in an order that looks random: position to number.
///
/// A bijection of the next power of two, applied again until it leads below `count` (at most twice on average).
#[derive(Debug, Clone)]
pub struct Permutation {
    count: u64,
    mask: u64,
    bits: u32,
    keys: [u64; 3],
}

impl Permutation {
    /// A permutation of the numbers below `count`, another one for another seed.
    pub fn new(count: u64, seed: u64) -> Permutation {
        let bits = (u64::BITS - count.saturating_sub(1).leading_zeros()).max(2);
        let mut random = Random::new(seed);
        let keys = [(); 3].map(|()| random.number());
        Permutation { count, mask: u64::MAX >> (u64::BITS - bits), bits, keys }
    }

    /// The number at a position below the count.
    pub fn at(&self, position: u64) -> u64 {
        let mut number = position;
        loop {
            number = self.step(number);
            if number < self.count {
                return number;
            }
        }
    }

    /// Every step can be undone within the mask: adding, multiplying by something odd, mixing high bits into low ones.
    fn step(&self, mut number: u64) -> u64 {
        for key in self.keys {
            number = number.wrapping_add(key).wrapping_mul(key | 1) & self.mask;
            number ^= number >> self.bits.div_ceil(2);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The first numbers from state 1234567, as the reference implementation has them.
        let mut random = Random { state: 1_234_567 };
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.number()), expected);
    }

    #[test]
    fn each_thread_has_its_own_stream_and_always_the_same() {
        let first = |seed, phase, thread| Random::stream(seed, phase, thread).number();
        let mut seen = HashSet::new();
        for seed in 0..10 {
            for phase in 0..10 {
                for thread in 0..10 {
                    assert!(seen.insert(first(seed, phase, thread)), "{seed} {phase} {thread}");
                    assert_eq!(first(seed, phase, thread), first(seed, phase, thread));
                }
            }
        }
    }

    #[test]
    fn numbers_below_an_end_are_even() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        let mean = (0..100_000).map(|_| random.fraction()).sum::<f64>() / 1e5;
        assert!((0.49..0.51).contains(&mean), "{mean}");
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        for count in [1, 2, 3, 7, 64, 1000, 65_537] {
            let permutation = Permutation::new(count, 3);
            let numbers: HashSet<u64> = (0..count).map(|position| permutation.at(position)).collect();
            assert_eq!(numbers.len() as u64, count);
            assert!(numbers.iter().all(|number| *number < count));
        }
        let permutation = Permutation::new(100_000, 3);
        let ascents = (1..100_000).filter(|at| permutation.at(*at) > permutation.at(at - 1)).count();
        assert!((48_000..52_000).contains(&ascents), "{ascents}");
        assert_ne!(permutation.at(5), Permutation::new(100_000, 4).at(5));
    }
}
