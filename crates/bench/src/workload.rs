//! YCSB's core workloads A to F: which operations they have, and how these are mixed.
//!
//! | workload | operations | records chosen by |
//! |---|---|---|
//! | A | 50 % reads, 50 % updates | zipfian, scrambled |
//! | B | 95 % reads, 5 % updates | zipfian, scrambled |
//! | C | reads | zipfian, scrambled |
//! | D | 95 % reads, 5 % inserts | latest |
//! | E | 95 % ranges, 5 % inserts | zipfian, scrambled; lengths uniform from 1 |
//! | F | 50 % reads, 50 % read-modify-writes | zipfian, scrambled |
//!
//! [`Settings::request_distribution`](crate::Settings::request_distribution) has records chosen otherwise.

use crate::meter::Kind;
use crate::random::Random;

/// YCSB's core workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    /// Update heavy.
    A,
    /// Read mostly.
    B,
    /// Read only.
    C,
    /// Read latest.
    D,
    /// Short ranges.
    E,
    /// Read-modify-write.
    F,
}

impl Workload {
    /// What of a hundred operations are not reads (of E: not ranges), and which kind these are.
    pub(crate) fn others(self) -> (u64, Kind) {
        match self {
            Workload::A => (50, Kind::Update),
            Workload::B => (5, Kind::Update),
            Workload::C => (0, Kind::Update),
            Workload::D | Workload::E => (5, Kind::Insert),
            Workload::F => (50, Kind::ReadModifyWrite),
        }
    }

    /// The kind of the next operation.
    pub(crate) fn kind(self, random: &mut Random) -> Kind {
        let (percent, kind) = self.others();
        match self {
            _ if random.below(100) < percent => kind,
            Workload::E => Kind::Seek,
            _ => Kind::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_mixed_as_the_table_says() {
        let mut random = Random::new(1);
        for (workload, kind, expected) in [
            (Workload::A, Kind::Update, 50_000),
            (Workload::B, Kind::Update, 5_000),
            (Workload::C, Kind::Read, 100_000),
            (Workload::D, Kind::Insert, 5_000),
            (Workload::E, Kind::Insert, 5_000),
            (Workload::E, Kind::Seek, 95_000),
            (Workload::F, Kind::ReadModifyWrite, 50_000),
        ] {
            let count = (0..100_000).filter(|_| workload.kind(&mut random) == kind).count();
            assert!(count.abs_diff(expected) <= 1_000, "{workload:?} {kind:?}: {count}");
        }
    }
}
