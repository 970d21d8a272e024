//! How much a MemTable may take, and what its flush needs of disk and pool.
//!
//! A MemTable is made together with the space for its flush (INV-30). Its *allowance* says how many entries, keys and values
//! that is for. It is full when its arena or its allowance is used up. So a writer only adds and compares, and no flush of what
//! was accepted lacks space.
//!
//! The allowance is what a MemTable is expected to take, from what the last one took. Where there is no space for that, the
//! ladder decides ([`super::ladder`]). When nothing brings more space, a smaller one has to do.

use slmdb_table::WorstCase;

use crate::Options;
use crate::batch::Totals;

/// A MemTable or a compaction's output of usual size has at most one entry per this many bytes, but at least this many.
const BYTES_PER_ENTRY_MIN: u64 = 256;
const ENTRIES_IN_ANY_CASE: u64 = 1024;
/// With nothing known of the entries to come, there is one for this many bytes at most, with keys of this length.
const BYTES_PER_UNKNOWN_ENTRY: u64 = 32;
const UNKNOWN_KEY_BYTES: u64 = 32;
/// The last MemTable tells what the next will take if it took this part of its usual size.
const TELLING_PART: u64 = 8;
/// A MemTable is expected to take this part of the most entries in any case.
const ENTRIES_LEAST_PART: u64 = 16;
/// Any key may be as long as this.
const LONGEST_KEY_BYTES_LEAST: u32 = 64;
/// What has to do where there is no space for all that is expected: these parts of it, but for so many entries in any case.
const PARTS: [u64; 3] = [2, 8, 64];
const ENTRIES_LEAST: u64 = 64;
/// Space for one delete is reserved per this many bytes of a MemTable,
const BYTES_PER_KEPT_DELETE: u64 = 4096;
/// and for at least this many deletes.
const KEPT_DELETES_MIN: u64 = 16;

/// The most entries of a MemTable, or of a compaction's output, of this size in bytes. An opening after a kill rebuilds
/// the lists of all MemTables and carries on the jobs that were under way, at about a microsecond per entry. With tiny
/// entries and no bound that would be seconds.
pub fn entries_max(usual_bytes: u64) -> u64 {
    (usual_bytes / BYTES_PER_ENTRY_MIN).max(ENTRIES_IN_ANY_CASE)
}

/// What a writer needs a MemTable for. Without entries: for a flush, or for whatever comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// The least capacity of its arena, in bytes.
    pub arena_bytes: u64,
    /// What is written.
    pub totals: Totals,
}

impl Request {
    /// Whether a MemTable that does for `other` does for this.
    pub fn is_at_most(&self, other: &Request) -> bool {
        self.arena_bytes <= other.arena_bytes && self.totals.is_at_most(&other.totals)
    }
}

/// What a MemTable has taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Its entries.
    pub totals: Totals,
    /// Bytes of its arena.
    pub arena_bytes: u64,
}

/// The allowances of MemTables, all together: what the pool must have space for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Grant {
    /// Their entries.
    pub totals: Totals,
    /// How many MemTables. Each begins a key segment of its own.
    pub memtables: u64,
}

impl Grant {
    /// With one MemTable more.
    pub fn and(&self, allowance: &Totals) -> Grant {
        Grant { totals: self.totals.plus(allowance), memtables: self.memtables + 1 }
    }

    /// The least with which a store takes writes: one MemTable, and the deletes that must find space after it.
    pub fn least(options: &Options) -> Grant {
        let smallest = smaller(&expected(options.memtable_bytes, &Taken::default())).last().unwrap_or_default();
        Grant::default().and(&smallest).and(&kept_for_deletes(options))
    }
}

/// What the next MemTable with an arena of this length will take, if its entries are like those of the last one.
pub fn expected(arena_bytes: u64, last: &Taken) -> Totals {
    let most = entries_max(arena_bytes).min(arena_bytes / BYTES_PER_UNKNOWN_ENTRY);
    let unknown = Totals {
        entries: most,
        puts: 0,
        key_bytes: (most * UNKNOWN_KEY_BYTES).min(arena_bytes),
        longest_key_bytes: LONGEST_KEY_BYTES_LEAST,
        long_key_bytes: 0,
        value_bytes: arena_bytes,
    };
    let Taken { totals, arena_bytes: taken_bytes } = last;
    if totals.entries == 0 || *taken_bytes < arena_bytes / TELLING_PART {
        return unknown;
    }
    // A quarter more, so that usually the arena is full first.
    let more = |sum: u64| sum.saturating_add(sum / 4);
    let entries =
        more(totals.entries.saturating_mul(arena_bytes) / taken_bytes).max(most / ENTRIES_LEAST_PART).min(most);
    let of_all = |sum: u64| more(entries.saturating_mul(sum.div_ceil(totals.entries))).min(arena_bytes);
    Totals {
        entries,
        key_bytes: of_all(totals.key_bytes),
        longest_key_bytes: totals.longest_key_bytes.next_power_of_two().max(LONGEST_KEY_BYTES_LEAST),
        long_key_bytes: of_all(totals.long_key_bytes),
        ..unknown
    }
}

/// What is left to be tried where there is no space for so much.
pub fn smaller(expected: &Totals) -> impl Iterator<Item = Totals> + use<> {
    let expected = *expected;
    PARTS.into_iter().map(move |part| {
        let of_part = expected.divided_by(part);
        let times = ENTRIES_LEAST.max(of_part.entries) / of_part.entries.max(1);
        of_part.times(times).at_most(&expected)
    })
}

/// So much, but enough for a request. If its keys are longer than expected, all may be.
pub fn at_least(expected: &Totals, request: &Request) -> Totals {
    let mut allowance = expected.at_least(&request.totals);
    if request.totals.long_key_bytes > expected.long_key_bytes {
        allowance.key_bytes = allowance.key_bytes.max(2 * request.totals.key_bytes);
        allowance.long_key_bytes = allowance.key_bytes;
    }
    allowance
}

/// The deletes that must find space when puts find none any more.
pub fn kept_for_deletes(options: &Options) -> Totals {
    let mut one = Totals::default();
    one.add(UNKNOWN_KEY_BYTES as usize, None);
    one.times((options.memtable_bytes / BYTES_PER_KEPT_DELETE).max(KEPT_DELETES_MIN))
}

/// The most bytes that the table file of such entries takes.
pub fn table_bytes(options: &Options, totals: &Totals) -> u64 {
    if totals.entries == 0 {
        return 0;
    }
    let worst_case = WorstCase {
        entries: totals.entries,
        key_bytes: totals.key_bytes,
        longest_key_bytes: u64::from(totals.longest_key_bytes),
        value_bytes: totals.value_bytes,
    };
    worst_case.file_bytes(&options.table())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(entries: u64, key_bytes: u64, arena_bytes: u64) -> Taken {
        let mut one = Totals::default();
        one.add(key_bytes as usize, Some(100));
        Taken { totals: one.times(entries), arena_bytes }
    }

    #[test]
    fn a_memtable_is_expected_to_take_a_quarter_more_than_the_last_one() {
        for (last, entries) in [
            (Taken::default(), 65_536),
            (taken(10, 20, 2000), 65_536),
            (taken(40_000, 20, 16 << 20), 50_000),
            (taken(10_000, 20, 4 << 20), 50_000),
            (taken(10, 20, 16 << 20), 4096),
            (taken(100_000, 20, 16 << 20), 65_536),
        ] {
            let expected = expected(16 << 20, &last);
            assert_eq!(expected.entries, entries, "after {last:?}");
            assert_eq!(expected.value_bytes, 16 << 20);
            assert!(expected.key_bytes >= entries * 20 && expected.longest_key_bytes == 64, "{expected:?}");
            assert_eq!(expected.long_key_bytes, 0);
        }
        let long = expected(16 << 20, &taken(5000, 300, 16 << 20));
        assert_eq!((long.longest_key_bytes, long.long_key_bytes), (512, 6250 * 375));
    }

    #[test]
    fn what_is_asked_for_is_always_allowed() {
        let mut request = Request::default();
        request.totals.add(60_000, Some(100 << 20));
        let expected = expected(64 << 20, &Taken::default());
        let mut last = expected;
        for part in smaller(&expected) {
            assert!(at_least(&part, &request).covers(&request.totals), "{part:?}");
            assert!(last.covers(&part) && part != last && part.entries >= ENTRIES_LEAST, "{part:?}");
            last = part;
        }
        assert_eq!(Grant::least(&Options::default()).memtables, 2);
    }
}
