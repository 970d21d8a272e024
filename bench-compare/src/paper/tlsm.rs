//! TLSM's evaluation (section V): its figures and tables, what they are made from, and what the paper says; and sweeps of ours.
//!
//! LevelDB-NVM, LevelDB on a file system in memory, is `leveldb:nvm`. Numbers of the paper are those of its text, which has none
//! of most pictures. The method without a persistent buffer (PS+BAC) is not built, and Table 2's lifetimes of runs are not
//! counted, so neither is here. Nor is eviction by reads.

use super::evaluation::{Evaluation, Figure, First, InPaper, Lines, Load, Measure, Plot, Point, Sweep};

/// Everything that the paper compares is of 8, 10 or 12 GB.
const GIGABYTE: f64 = (1_u64 << 30) as f64;
const MEGABYTE: f64 = 1_048_576.0;
const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 100;
/// YCSB's ten fields.
const RECORD_BYTES: u64 = 1000;
/// A write buffer of 4 MB, to 64.
const SMALL_BUFFERS: f64 = 1.0 / 16.0;

/// Ours, with levels and lists like LevelDB's, and more options. Lists are a few segments, which are as short as can be.
macro_rules! tlsm {
    ($more:literal) => {
        concat!("slmdb:emulated,engine=tlsm,level_base={level_base},run={run},segment=64KiB,", $more)
    };
}

/// Theirs, ours with all in the pool, and so on a slower medium; and what else stands.
const STORES: &str = concat!(
    "leveldb:nvm,",
    tlsm!("tiering=none"),
    ",",
    tlsm!("tiering=none,latency=450,read=100,model=line"),
    ",leveldb,slmdb:emulated,slmdb:emulated,engine=lab,level_base={level_base}"
);

/// The methods one by one, as far as they are built.
const METHODS: &str = concat!(
    "leveldb:nvm,",
    tlsm!("tiering=none,bac=off"),
    ",",
    tlsm!("tiering=none,persists=each"),
    ",",
    tlsm!("tiering=none"),
    ",",
    tlsm!("tiering=none,latency=450,read=100,model=line"),
    ",slmdb:emulated,slmdb:emulated,engine=lab,level_base={level_base}"
);

/// The policies, and LevelDB.
const POLICIES: &str = concat!(
    "leveldb:nvm,",
    tlsm!("tiering=none"),
    ",",
    tlsm!("tiering=upper:{lru}"),
    ",",
    tlsm!("tiering=lru:{lru}"),
    ",",
    tlsm!("tiering=leveled:3")
);

fn load(benchmarks: &'static str, bytes: f64, value_bytes: u64, write_buffers: f64) -> Load {
    Load {
        benchmarks,
        value_bytes,
        keys: bytes / (KEY_BYTES + value_bytes) as f64,
        operations_part: 0.1,
        threads: 1,
        range_keys: 0,
        write_buffers,
        flags: &[],
    }
}

fn point(label: &str, loads: Vec<Load>) -> Point {
    Point { label: label.to_string(), loads }
}

/// Random writes, then random reads, by the size of the data.
fn by_data<const N: usize>(gigabytes: [u64; N], benchmarks: &'static str) -> Vec<Point> {
    let one = |size| load(benchmarks, size as f64 * GIGABYTE, VALUE_BYTES, SMALL_BUFFERS);
    gigabytes.map(|size| point(&format!("{size} GB"), vec![one(size)])).into()
}

/// By the size of values, of 12 GB, small ones and large ones.
fn by_value() -> Vec<Point> {
    let one = |bytes, buffers| load("fillrandom,readrandom", 12.0 * GIGABYTE, bytes, buffers);
    let small = [100, 400, 1600].map(|bytes| point(&format!("{bytes} B"), vec![one(bytes, SMALL_BUFFERS)]));
    let large = [1, 4, 16].map(|kib| point(&format!("{kib} KiB"), vec![one(kib << 10, 1.0)]));
    small.into_iter().chain(large).collect()
}

/// All of it.
pub(super) fn evaluation() -> Evaluation {
    Evaluation {
        design: "TLSM",
        size_there: "keys of 16 bytes, values of 100 bytes unless a figure says otherwise, 8 to 12 GB of them",
        key_bytes: KEY_BYTES,
        scale: 0.125,
        stores: STORES,
        sizes: &[
            ("lru", 8.0 * GIGABYTE, 4.0 * MEGABYTE),
            // LevelDB's.
            ("level_base", 10.0 * MEGABYTE, MEGABYTE),
            ("run", 2.0 * MEGABYTE, MEGABYTE / 4.0),
            // Of the records of `sizes`.
            ("quarter", 2.0 * GIGABYTE, 4.0 * MEGABYTE),
            ("half", 4.0 * GIGABYTE, 8.0 * MEGABYTE),
            ("three_quarters", 6.0 * GIGABYTE, 12.0 * MEGABYTE),
        ],
        sweeps: sweeps(),
        figures: FIGURES,
    }
}

/// Everything that is measured.
fn sweeps() -> Vec<Sweep> {
    let ycsb = |benchmarks| load(benchmarks, 12.0 * GIGABYTE, RECORD_BYTES, SMALL_BUFFERS);
    let records = |benchmarks, flags| Load { flags, ..load(benchmarks, 8.0 * GIGABYTE, 1 << 10, SMALL_BUFFERS) };
    let fill_and_read = "fillrandom,readrandom";
    let fill_and_rest = "fillrandom,flush,waitforcompaction";
    vec![
        Sweep { name: "methods", stores: Some(METHODS), points: by_data([2, 4, 8], fill_and_read) },
        Sweep { name: "tiering", stores: Some(POLICIES), points: by_data([4, 8, 12], fill_and_read) },
        Sweep { name: "values", stores: None, points: by_value() },
        // Each workload has a new store.
        Sweep {
            name: "ycsb",
            stores: Some(POLICIES),
            points: vec![point(
                "1 KB",
                [
                    "ycsbload,ycsba",
                    "ycsbload,ycsbb",
                    "ycsbload,ycsbc",
                    "ycsbload,ycsbd",
                    "ycsbload,ycsbe",
                    "ycsbload,ycsbf",
                ]
                .map(ycsb)
                .into(),
            )],
        },
        Sweep {
            name: "writes",
            stores: Some(concat!(
                "leveldb:nvm,leveldb,",
                tlsm!("tiering=none"),
                ",",
                tlsm!("tiering=upper:{lru}"),
                ",",
                tlsm!("tiering=lru:{lru}"),
                ",",
                tlsm!("tiering=leveled:3"),
                ",slmdb:emulated,slmdb:emulated,engine=lab,level_base={level_base}"
            )),
            points: by_data([4, 8, 10], fill_and_rest),
        },
        Sweep {
            name: "threshold",
            stores: Some(concat!(
                tlsm!("tiering=leveled:1"),
                ",",
                tlsm!("tiering=leveled:2"),
                ",",
                tlsm!("tiering=leveled:3")
            )),
            points: by_data([4, 8], fill_and_read),
        },
        Sweep {
            name: "cleaning",
            stores: Some(concat!(
                tlsm!("tiering=none,segment_live_min=0"),
                ",",
                tlsm!("tiering=none,segment_live_min=0.25"),
                ",",
                tlsm!("tiering=none")
            )),
            points: vec![point(
                "1 KiB",
                vec![load(
                    "filluniquerandom,overwrite:operations={five times},flush,waitforcompaction",
                    2.0 * GIGABYTE,
                    1 << 10,
                    SMALL_BUFFERS,
                )],
            )],
        },
        Sweep {
            name: "filters",
            stores: Some(concat!(
                tlsm!("tiering=none,filter=0"),
                ",",
                tlsm!("tiering=none"),
                ",",
                tlsm!("tiering=none,read=100,filter=0"),
                ",",
                tlsm!("tiering=none,read=100")
            )),
            points: by_data([2, 8], "fillrandom,readrandom,readmissing"),
        },
        Sweep {
            name: "sizes",
            stores: Some(concat!(
                "slmdb:emulated,slmdb:emulated,engine=lab,level_base={level_base},rocksdb:level_base={level_base},",
                tlsm!("tiering=upper:{quarter}"),
                ",",
                tlsm!("tiering=upper:{half}"),
                ",",
                tlsm!("tiering=upper:{three_quarters}"),
                ",",
                tlsm!("tiering=none")
            )),
            points: vec![
                point("uniform", vec![records(SIZES, &["--request_distribution=uniform"])]),
                point("Zipf 0.99", vec![records(SIZES, &["--request_distribution=zipfian"])]),
            ],
        },
    ]
}

/// Gets after a fill, then two and a half times as many updates as there are records.
const SIZES: &str = "ycsbload,waitforcompaction,ycsbc,ycsba:operations={five times},flush,waitforcompaction";

const WRITE: Plot = Plot::of("Write", &["fillrandom"], Measure::LatencyUs { keys: 1 });
const READ: Plot = Plot::of("Read", &["readrandom"], Measure::LatencyUs { keys: 1 });

/// Means to LevelDB-NVM's, at the paper's largest size; without numbers for smaller ones.
const fn to_leveldb(written: &'static [InPaper], read: &'static [InPaper]) -> [(Plot, &'static [InPaper]); 2] {
    [
        (Plot::of("Write", &["fillrandom"], Measure::ToFirst), written),
        (Plot::of("Read", &["readrandom"], Measure::ToFirst), read),
    ]
}

const IN_PAPER: &str = "TLSM in the paper, at best";
const AT_WORST: &str = "TLSM in the paper, at worst";

static METHODS_ROWS: [(Plot, &[InPaper]); 2] = to_leveldb(&[(IN_PAPER, &[0.66])], &[(IN_PAPER, &[0.43])]);
const METHODS_LINES: Lines =
    Lines { title: "Mean latencies to LevelDB-NVM's", rows: &METHODS_ROWS, unmeasured_points: 2 };

/// No number in the paper's text.
const NONE: f64 = f64::NAN;
static VALUES_ROWS: [(Plot, &[InPaper]); 2] = to_leveldb(
    &[("TLSM in the paper", &[NONE, NONE, 0.25, NONE, NONE, 0.1])],
    &[("TLSM in the paper", &[NONE, NONE, 0.24, NONE, NONE, 0.28])],
);
const VALUES_LINES: Lines =
    Lines { title: "Mean latencies to LevelDB-NVM's", rows: &VALUES_ROWS, unmeasured_points: 0 };

/// Of each workload, what the paper's best and worst policy has.
macro_rules! workload {
    ($title:literal, $benchmark:literal, $best:expr, $worst:expr) => {
        (Plot::of($title, &[$benchmark], Measure::ToFirst), &[(IN_PAPER, &[$best]), (AT_WORST, &[$worst])])
    };
}

const YCSB_LINES: Lines = Lines {
    title: "Figure 6b: mean latencies to LevelDB-NVM's",
    rows: &[
        workload!("load", "ycsbload", 0.75, 0.84),
        workload!("A", "ycsba", 0.78, 0.91),
        workload!("B", "ycsbb", 0.69, 0.82),
        workload!("C", "ycsbc", 0.69, 0.78),
        workload!("D", "ycsbd", 0.82, 0.89),
        workload!("E", "ycsbe", 0.67, 0.78),
        workload!("F", "ycsbf", 0.77, 0.91),
    ],
    unmeasured_points: 0,
};

const STALL_LINES: Lines = Lines {
    title: "Seconds in writes of more than a millisecond each",
    rows: &[(
        Plot::of("fillrandom", &["fillrandom"], Measure::Number("over_1_ms_ns", 1e9, "s")),
        &[("LevelDB on an SSD in the paper, with all of the data (the last: more)", &[900.0, 1200.0])],
    )],
    unmeasured_points: 1,
};

/// In the paper's order.
const FIGURES: &[Figure] = &[
    Figure {
        title: "Figure 5a, 5b: the methods",
        sweep: "methods",
        first: First::Lines(&METHODS_LINES),
        plots: &[WRITE, READ],
        said: "The paper: all methods together write up to 34 % and read up to 57 % faster than LevelDB-NVM, and the \
               skiplist alone writes slower. Bars after the first: entries copied by compactions (the paper's PS, but \
               with its buffer), each node made durable by itself as there, all methods, and all at 450 ns a line \
               written and 100 ns a dependent read, which is not comparable with LevelDB: its files are at the speed \
               of memory. The method without a buffer is not built here. Two processors: a compaction competes with \
               the writer, where the paper had idle ones. All stores have filters of 10 bits a key, the paper's have \
               none; lists are packed here, not linked.",
    },
    Figure {
        title: "Figure 5c, 5d: tiering",
        sweep: "tiering",
        first: First::Nothing,
        plots: &[WRITE, READ],
        said: "The paper's pictures have no numbers in its text: no tiering is best, LRU is as good until the 8 GB of \
               its fast tier are full, leveled is worst. Beside them is our default, the upper levels in as much of \
               the pool as LRU has. Files are in the page cache here unless memory is limited, so that reads of them \
               wait for no device.",
    },
    Figure {
        title: "Figure 5e to 5h: the size of values",
        sweep: "values",
        first: First::Lines(&VALUES_LINES),
        plots: &[WRITE, READ],
        said: "The paper: of 100 to 1600 bytes, with write buffers of 4 MB, writes take about 75 % less time than \
               LevelDB-NVM's and reads about 76 % less; of 1 to 16 KB, with buffers of 64 MB, writes up to 90 % less \
               and reads about 72 % (its conclusion has 62 % for reads). Pointing at values instead of copying them \
               saves the more the larger they are. LevelDB's level 1 and its files are not scaled here, as its \
               interface has no option for them: it has a level less than in the paper, and copies less.",
    },
    Figure {
        title: "Figure 6: YCSB",
        sweep: "ycsb",
        first: First::Lines(&YCSB_LINES),
        plots: &[
            Plot::of("Figure 6a: load", &["ycsbload"], Measure::Rate),
            Plot::of("A", &["ycsba"], Measure::Rate),
            Plot::of("B", &["ycsbb"], Measure::Rate),
            Plot::of("C", &["ycsbc"], Measure::Rate),
            Plot::of("D", &["ycsbd"], Measure::Rate),
            Plot::of("E", &["ycsbe"], Measure::Rate),
            Plot::of("F", &["ycsbf"], Measure::Rate),
        ],
        said: "The paper's best is no tiering, its worst leveled, in each workload. What its client takes of each \
               operation is in its latencies, whatever the store, and brings ratios nearer to 1. Updates look for the \
               record first here, in LevelDB by a get.",
    },
    Figure {
        title: "Table 1, Figure 7a: how long writes stand still",
        sweep: "writes",
        first: First::Lines(&STALL_LINES),
        plots: &[Plot::of(
            "Seconds in writes of more than a millisecond each",
            &["fillrandom"],
            Measure::Number("over_1_ms_ns", 1e9, "s"),
        )],
        said: "The paper: LevelDB on an SSD stands still for 15 minutes while 8 GB are filled, and for more than 20 \
               with 10 GB; LevelDB-NVM and TLSM by far less. LevelDB tells no stall, so what is added up for every \
               store is the time of writes of more than a millisecond each; LevelDB slows single writes by one \
               millisecond before it stops them. Here is a part of the data, and the SSD is the device under --db, \
               whose writes wait in the page cache.",
    },
    Figure {
        title: "Figure 7b: bytes written by compactions",
        sweep: "writes",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "Written to both tiers, log and flush included",
                benchmarks: &["fillrandom", "flush", "waitforcompaction"],
                measure: Measure::WrittenPerBytePut,
            },
            Plot {
                title: "Of these to files",
                benchmarks: &["fillrandom", "flush", "waitforcompaction"],
                measure: Measure::BytesPerBytePut("file_written_bytes_asked"),
            },
        ],
        said: "The paper: compactions without tiering write 18 % less than with LRU and 36 % less than with leveled \
               tiering. In each store a byte put is written once to a log or a MemTable in the pool and once by a \
               flush; what is above 2 is what compactions wrote. `slm` on a pool has no copy in the pool beyond the \
               MemTable. LevelDB-NVM's files are in memory, and count as files.",
    },
    Figure {
        title: "Figure 7c, 7d: the threshold of leveled tiering",
        sweep: "threshold",
        first: First::Nothing,
        plots: &[WRITE, READ],
        said: "The paper's pictures have no numbers in its text: the more levels lie in the pool, the faster writes \
               and reads are. Level 1 is scaled with the data, so that the levels down to 3 have about an eighth of \
               it, as there.",
    },
    Figure {
        title: "Ours: emptying sparse segments",
        sweep: "cleaning",
        first: First::Nothing,
        plots: &[
            Plot::of(
                "The pool's bytes to the data, after five overwrites of everything",
                &["overwrite"],
                Measure::ToBytesPutBy("fast_tier_bytes", "filluniquerandom"),
            ),
            Plot::of(
                "The same after a rest",
                &["waitforcompaction"],
                Measure::ToBytesPutBy("fast_tier_bytes", "filluniquerandom"),
            ),
            Plot::of("Written to both tiers for a byte put", &["overwrite"], Measure::WrittenPerBytePut),
            Plot::of("Overwrites", &["overwrite"], Measure::Rate),
        ],
        said: "The paper never empties a buffer that is mostly garbage (the first bar). By arithmetic what is alive \
               then takes about six times its size with segments of 256 KiB and values of 1 KiB; emptied below a \
               quarter 1.85 times for 1.33 bytes written a byte, below a half 1.39 times for 2. MemTables and the \
               lists themselves come on top.",
    },
    Figure {
        title: "Ours: filters of lists",
        sweep: "filters",
        first: First::Nothing,
        plots: &[
            Plot::of("Gets", &["readrandom"], Measure::Rate),
            Plot::of("Gets of missing keys", &["readmissing"], Measure::Rate),
        ],
        said: "The paper has no filters. First without and with 10 bits a key at the speed of memory, then both with \
               100 ns a dependent read of the pool: a filter is one such read, a search through a list is one for \
               each of its steps.",
    },
    Figure {
        title: "Ours: the size of the fast tier",
        sweep: "sizes",
        first: First::Nothing,
        plots: &[
            Plot::of("Gets", &["ycsbc"], Measure::Rate),
            Plot::of("YCSB's A", &["ycsba"], Measure::Rate),
            Plot::of(
                "Device bytes for a byte put, filling",
                &["ycsbload"],
                Measure::BytesPerBytePut("device_written_bytes"),
            ),
            Plot {
                title: "Device bytes for a byte put, A",
                benchmarks: &["ycsba", "flush"],
                measure: Measure::BytesPerBytePut("device_written_bytes"),
            },
            Plot::of(
                "Device bytes read for a get",
                &["ycsbc"],
                Measure::PerOperation("device_read_bytes", 1.0, "bytes"),
            ),
        ],
        said: "`slm`, `lab` and RocksDB, then `tlsm` with a fast tier of a quarter, a half, three quarters of the \
               records, and with all of them. With little in the pool its levels are an ordinary LSM tree's, and \
               write as one. Gets wait for the device only with --memory-limit.",
    },
    Figure {
        title: "Table 2: lifetimes, and eviction by reads",
        sweep: "threshold",
        first: First::Nothing,
        plots: &[],
        said: "Not measured: the engine does not count how many compactions a run of a level outlives, and evicts \
               lists by their age alone.",
    },
];
