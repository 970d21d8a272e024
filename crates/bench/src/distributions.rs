//! Which record is asked for: YCSB's distributions (Cooper et al., "Benchmarking cloud serving systems with YCSB", 2010).
//!
//! A Zipf distribution gives the item of rank r (from 1) a part of r^-θ ÷ ζ(n, θ), where ζ(n, θ) is the sum of r^-θ over all n
//! items; YCSB's θ is 0.99. Numbers are drawn as in Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994): the first two ranks exactly, the others by inverting a continuous approximation.
//!
//! YCSB's own programs sum ζ up item by item, which takes minutes for its 10¹⁰ items, so they have one number built in. Here it
//! is computed in microseconds for any θ: the first thousand terms, then the Euler–Maclaurin formula.

use crate::random::Random;

/// How records are chosen, by YCSB's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// [`Scrambled`].
    Zipfian,
    /// [`Latest`].
    Latest,
    /// Each as often as any other.
    Uniform,
}

impl Distribution {
    /// The one of this name; or what there is.
    pub fn by_name(name: &str) -> Result<Distribution, String> {
        match name {
            "zipfian" => Ok(Distribution::Zipfian),
            "latest" => Ok(Distribution::Latest),
            "uniform" => Ok(Distribution::Uniform),
            _ => Err("there are zipfian, latest and uniform".to_string()),
        }
    }
}

/// YCSB's θ.
pub const ZIPF: f64 = 0.99;

/// [`Scrambled`] draws from so many items, whatever the number of records, as YCSB does.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;

/// Terms of ζ that are summed one by one.
const TERMS: u64 = 1000;

/// The sum of r^-θ for r from 1 to `items`; θ is between 0 and 1.
pub fn zeta(items: u64, theta: f64) -> f64 {
    let term = |rank: f64| rank.powf(-theta);
    if items <= TERMS {
        return (1..=items).map(|rank| term(rank as f64)).sum();
    }
    let head: f64 = (1..TERMS).map(|rank| term(rank as f64)).sum();
    let (from, to) = (TERMS as f64, items as f64);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let slope = |rank: f64| -theta * rank.powf(-theta - 1.0);
    head + integral + (term(from) + term(to)) / 2.0 + (slope(to) - slope(from)) / 12.0
}

/// Items by rank: 0 is the most popular, then 1.
#[derive(Debug, Clone)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    zeta: f64,
    /// 1 + 2^-θ: below this times 1 ÷ ζ are the first two ranks.
    two: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// Over the numbers below `items` (at least one); θ is between 0 and 1.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        let items = items.max(1);
        let (alpha, two) = (1.0 / (1.0 - theta), 1.0 + 0.5_f64.powf(theta));
        let mut zipfian = Zipfian { items, theta, zeta: zeta(items, theta), two, alpha, eta: 0.0 };
        zipfian.set_eta();
        zipfian
    }

    fn set_eta(&mut self) {
        self.eta = (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / (1.0 - self.two / self.zeta);
    }

    /// Over more items from now on. Fewer are ignored.
    pub fn grow(&mut self, items: u64) {
        if items <= self.items {
            return;
        }
        // One by one while these are few: that is how insertions come.
        self.zeta = if items - self.items <= TERMS {
            self.zeta + (self.items + 1..=items).map(|rank| (rank as f64).powf(-self.theta)).sum::<f64>()
        } else {
            zeta(items, self.theta)
        };
        self.items = items;
        self.set_eta();
    }

    /// The rank of an item.
    pub fn rank(&self, random: &mut Random) -> u64 {
        let fraction = random.fraction();
        let share = fraction * self.zeta;
        if share < 1.0 || self.items == 1 {
            return 0;
        }
        if share < self.two || self.items == 2 {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * fraction - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// Items by a Zipf distribution, but the popular ones anywhere: YCSB's request distribution `zipfian`.
///
/// A rank is drawn from 10¹⁰ items and hashed. So several ranks share a record, and the most popular record has 3.8 %
/// of all requests at θ = 0.99, however many records there are.
#[derive(Debug, Clone)]
pub struct Scrambled {
    ranks: Zipfian,
    items: u64,
}

impl Scrambled {
    /// Over the numbers below `items` (at least one).
    pub fn new(items: u64, theta: f64) -> Scrambled {
        Scrambled { ranks: Zipfian::new(SCRAMBLED_ITEMS, theta), items: items.max(1) }
    }

    /// An item.
    pub fn item(&self, random: &mut Random) -> u64 {
        hash(self.ranks.rank(random)) % self.items
    }
}

/// Items by how new they are, the newest most: YCSB's `latest`.
#[derive(Debug, Clone)]
pub struct Latest {
    ages: Zipfian,
}

impl Latest {
    /// Over the numbers below `items` (at least one).
    pub fn new(items: u64, theta: f64) -> Latest {
        Latest { ages: Zipfian::new(items, theta) }
    }

    /// An item, where there are `items` by now.
    pub fn item(&mut self, random: &mut Random, items: u64) -> u64 {
        self.ages.grow(items);
        items.saturating_sub(1).saturating_sub(self.ages.rank(random))
    }
}

/// YCSB's hash of a number: FNV-1a over its eight bytes, lowest first, as a positive signed number.
pub fn hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    (hash as i64).unsigned_abs() & i64::MAX as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: u64 = 1_000_000;

    fn counts(items: u64, mut draw: impl FnMut(&mut Random) -> u64) -> Vec<u64> {
        let mut random = Random::new(11);
        let mut counts = vec![0; items as usize];
        (0..DRAWN).for_each(|_| counts[draw(&mut random) as usize] += 1);
        counts
    }

    #[test]
    fn zeta_is_the_sum_it_stands_for() {
        for theta in [0.2, 0.5, 0.99] {
            for items in [1, 2, 999, 1000, 1001, 1_000_000] {
                let sum: f64 = (1..=items).map(|rank| (rank as f64).powf(-theta)).sum();
                assert!(
                    (zeta(items, theta) / sum - 1.0).abs() < 1e-11,
                    "{items} {theta}: {} {sum}",
                    zeta(items, theta)
                );
            }
        }
        // The number that YCSB has built in for its 10¹⁰ items.
        assert!((zeta(SCRAMBLED_ITEMS, ZIPF) - 26.469_028_201_783_02).abs() < 1e-6, "{}", zeta(SCRAMBLED_ITEMS, ZIPF));
    }

    #[test]
    fn ranks_are_as_frequent_as_the_theory_has_them() {
        for (items, theta) in [(1000, 0.99), (100_000, 0.99), (1000, 0.5)] {
            let zipfian = Zipfian::new(items, theta);
            let counts = counts(items, |random| zipfian.rank(random));
            let share = |ranks: u64| counts[..ranks as usize].iter().sum::<u64>() as f64 / DRAWN as f64;
            let theory = |ranks: u64| zeta(ranks, theta) / zeta(items, theta);
            for (ranks, tolerance) in [(1, 0.03), (2, 0.03), (10, 0.06), (100, 0.04), (500, 0.02)] {
                let (share, theory) = (share(ranks), theory(ranks));
                assert!((share / theory - 1.0).abs() < tolerance, "{items} {theta} {ranks}: {share} {theory}");
            }
            assert_eq!(share(items), 1.0);
        }
    }

    #[test]
    fn few_items_are_drawn_too() {
        for items in [0, 1, 2, 3] {
            let zipfian = Zipfian::new(items, ZIPF);
            let counts = counts(items.max(1), |random| zipfian.rank(random));
            assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
            assert!(counts.is_sorted_by(|left, right| left >= right), "{counts:?}");
        }
    }

    #[test]
    fn growing_is_as_having_been_so_large_from_the_start() {
        let mut grown = Zipfian::new(10, ZIPF);
        for items in [11, 12, 500, 400, 5000, 5001] {
            grown.grow(items);
        }
        let large = Zipfian::new(5001, ZIPF);
        assert!((grown.zeta - large.zeta).abs() < 1e-9 && (grown.eta - large.eta).abs() < 1e-9);
        assert_eq!(grown.items, 5001);
    }

    #[test]
    fn scrambled_items_are_as_popular_as_zipfian_ones_and_anywhere() {
        let items = 1000;
        let scrambled = Scrambled::new(items, ZIPF);
        let mut counts = counts(items, |random| scrambled.item(random));
        let popular: Vec<u64> = (0..items).filter(|item| counts[*item as usize] > DRAWN / 100).collect();
        assert!(popular.len() >= 3, "{popular:?}");
        assert!(popular.windows(2).all(|pair| pair[1] - pair[0] > 1), "side by side: {popular:?}");
        assert_eq!(counts[(hash(0) % items) as usize], *counts.iter().max().unwrap());
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        // What no popular rank falls on still has its share of the many unpopular ones.
        assert!(counts[items as usize - 1] > DRAWN / items / 10, "{counts:?}");
        let theory = 1.0 / zeta(SCRAMBLED_ITEMS, ZIPF);
        let share = counts[0] as f64 / DRAWN as f64;
        assert!((share / theory - 1.0).abs() < 0.05, "{share} {theory}");
    }

    #[test]
    fn the_latest_are_the_newest() {
        let items = 10_000;
        let mut latest = Latest::new(items / 2, ZIPF);
        let counts = counts(items, |random| latest.item(random, items));
        let share = counts[items as usize - 1] as f64 / DRAWN as f64;
        assert!((share * zeta(items, ZIPF) - 1.0).abs() < 0.03, "{share}");
        assert!(counts[items as usize - 1] > counts[items as usize - 2]);
        assert!(counts[9_000..].iter().sum::<u64>() > 3 * counts[..1_000].iter().sum::<u64>());
    }

    #[test]
    fn the_hash_is_ycsbs() {
        // FNV-1a of eight zero bytes is 0xa8c7f832281a39c5: negative as a signed number.
        assert_eq!(hash(0), 0xa8c7_f832_281a_39c5_u64.wrapping_neg());
        assert_eq!(hash(0), 6_284_781_860_667_377_211);
    }
}
