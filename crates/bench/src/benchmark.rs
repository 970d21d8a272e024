//! The benchmarks by name: db_bench's, and YCSB's.

use crate::workload::Workload;

/// One thing to be measured, known by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Benchmark {
    /// What `--benchmarks` calls it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What it starts from, and how much of it is done.
    pub(crate) scale: Scale,
    pub(crate) work: Work,
}

/// What a benchmark does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    Put(Order),
    Delete(Order),
    Get(Asked),
    Walk { backwards: bool },
    Seek { ordered: bool },
    ReadWhileWriting,
    ReadRandomWriteRandom,
    YcsbLoad,
    Ycsb(Workload),
    Flush,
    Compact,
    Wait,
    Recover,
    Describe(crate::store::Description),
}

/// Which numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// 0, 1, 2 …
    Sequential,
    /// Any, again and again: some come twice, some never.
    Random,
    /// Each once, in an order that looks random.
    Unique,
}

/// Which numbers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Random,
    Missing,
    Hot,
}

/// What is other than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    /// It starts with a new store.
    pub fresh: bool,
    /// Its writes are synced whatever was asked for.
    pub sync: bool,
    /// It does this part of the operations.
    pub divided_by: u64,
    /// Its values have so many bytes.
    pub value_bytes: Option<usize>,
    /// It writes so much at once.
    pub batch_size: Option<u64>,
}

const USUAL: Scale = Scale { fresh: false, sync: false, divided_by: 1, value_bytes: None, batch_size: None };
const FRESH: Scale = Scale { fresh: true, ..USUAL };

const fn benchmark(name: &'static str, about: &'static str, scale: Scale, work: Work) -> Benchmark {
    Benchmark { name, about, scale, work }
}

/// All of them, in the order in which `--help` shows them.
pub const BENCHMARKS: &[Benchmark] = &[
    benchmark("fillseq", "put --num keys in order into a new store", FRESH, Work::Put(Order::Sequential)),
    benchmark(
        "fillbatch",
        "the same, 1000 at once",
        Scale { batch_size: Some(1000), ..FRESH },
        Work::Put(Order::Sequential),
    ),
    benchmark("fillrandom", "put --num random keys, some twice, into a new store", FRESH, Work::Put(Order::Random)),
    benchmark("filluniquerandom", "put each of --num keys once, in random order", FRESH, Work::Put(Order::Unique)),
    benchmark(
        "fillsync",
        "put --num ÷ 1000 random keys, each synced, into a new store",
        Scale { sync: true, divided_by: 1000, ..FRESH },
        Work::Put(Order::Random),
    ),
    benchmark(
        "fill100K",
        "put --num ÷ 1000 random keys with values of 100,000 bytes",
        Scale { divided_by: 1000, value_bytes: Some(100_000), ..FRESH },
        Work::Put(Order::Random),
    ),
    benchmark("overwrite", "put --num random keys into the store that is there", USUAL, Work::Put(Order::Random)),
    benchmark(
        "overwriteseq",
        "put --num keys in order into the store that is there",
        USUAL,
        Work::Put(Order::Sequential),
    ),
    benchmark("readrandom", "get random keys", USUAL, Work::Get(Asked::Random)),
    benchmark("readmissing", "get keys that are not there", USUAL, Work::Get(Asked::Missing)),
    benchmark("readhot", "get random keys of the first hundredth", USUAL, Work::Get(Asked::Hot)),
    benchmark("readseq", "walk over the entries from the first", USUAL, Work::Walk { backwards: false }),
    benchmark("readreverse", "walk over the entries from the last, down", USUAL, Work::Walk { backwards: true }),
    benchmark("seekrandom", "seek random keys, and read --seek_nexts entries", USUAL, Work::Seek { ordered: false }),
    benchmark("seekordered", "seek keys a little further each time", USUAL, Work::Seek { ordered: true }),
    benchmark("readwhilewriting", "readrandom, while one more thread writes", USUAL, Work::ReadWhileWriting),
    benchmark(
        "readrandomwriterandom",
        "get and put random keys, --readwritepercent of them gets",
        USUAL,
        Work::ReadRandomWriteRandom,
    ),
    benchmark("deleteseq", "delete --num keys in order", USUAL, Work::Delete(Order::Sequential)),
    benchmark("deleterandom", "delete --num random keys", USUAL, Work::Delete(Order::Random)),
    benchmark("ycsbload", "put YCSB's --num records into a new store", FRESH, Work::YcsbLoad),
    benchmark("ycsba", "half reads, half updates (zipfian)", USUAL, Work::Ycsb(Workload::A)),
    benchmark("ycsbb", "95 % reads, 5 % updates (zipfian)", USUAL, Work::Ycsb(Workload::B)),
    benchmark("ycsbc", "reads (zipfian)", USUAL, Work::Ycsb(Workload::C)),
    benchmark("ycsbd", "95 % reads of the latest, 5 % inserts", USUAL, Work::Ycsb(Workload::D)),
    benchmark("ycsbe", "95 % ranges of up to --scan_length (zipfian), 5 % inserts", USUAL, Work::Ycsb(Workload::E)),
    benchmark("ycsbf", "half reads, half read-modify-writes (zipfian)", USUAL, Work::Ycsb(Workload::F)),
    benchmark("flush", "bring what is in memory into table files", USUAL, Work::Flush),
    benchmark("compact", "compact the whole store", USUAL, Work::Compact),
    benchmark("waitforcompaction", "wait until the store has done nothing for a second", USUAL, Work::Wait),
    benchmark(
        "recover",
        "open the store after a process that wrote into it was killed (slmdb-compare)",
        USUAL,
        Work::Recover,
    ),
    benchmark("stats", "print the store's statistics", USUAL, Work::Describe(crate::store::Description::Stats)),
    benchmark("sstables", "print its table files", USUAL, Work::Describe(crate::store::Description::TableFiles)),
];

/// What is done when nothing is named: db_bench's, as far as they are the store's.
pub const DEFAULT: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readrandom,readseq,readreverse,compact,readrandom,\
                           readseq,readreverse,fill100K";

impl Benchmark {
    /// The one of that name.
    pub fn by_name(name: &str) -> Option<Benchmark> {
        BENCHMARKS.iter().find(|benchmark| benchmark.name == name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_found_and_no_two_are_the_same() {
        let names: HashSet<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        assert_eq!(names.len(), BENCHMARKS.len());
        for name in DEFAULT.split(',') {
            assert_eq!(Benchmark::by_name(name).map(|benchmark| benchmark.name), Some(name));
        }
        assert_eq!(Benchmark::by_name("crc32c"), None);
    }
}
