//! LAB-DB's evaluation (section 4): its figures and tables, what they are made from, and what the paper says.
//!
//! NoveLSM and MatrixKV are not here. RocksDB-NVM, which all its ratios are to, is approached by RocksDB with its first path in memory.

use super::evaluation::{Evaluation, Figure, First, Lines, Load, Measure, Plot, Point, Sweep};

/// Keys of a store.
const KEYS: f64 = 90e6;
const VALUE_BYTES: u64 = 1 << 10;

/// Ours and theirs, by the sizes of the paper: ratios are to the first.
const STORES: &str = "rocksdb:nvm={nvm},level_base={level_base},\
                      rocksdb,\
                      slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base},\
                      slmdb:engine=lab,level_zero={level_zero},level_base={level_base},\
                      slmdb:emulated";

/// What a tree of 256 MB holds there: "over 16 M keys", which is 17.8 % of all.
const LEVEL_ZERO_KEYS: f64 = 16e6;
/// Ours have whole keys and sequence numbers in their records: what leaf and record of a key take together.
const LEVEL_ZERO_BYTES: f64 = LEVEL_ZERO_KEYS * 63.0;
const LEVEL_ZERO_BYTES_MIN: f64 = 128.0 * 1024.0;

fn load(benchmarks: &'static str) -> Load {
    Load {
        benchmarks,
        value_bytes: VALUE_BYTES,
        keys: KEYS,
        operations_part: 0.5,
        threads: 2,
        range_keys: 0,
        write_buffers: 1.0,
        flags: &["--report_interval_ms=100"],
    }
}

fn point(label: &str, loads: Vec<Load>) -> Point {
    Point { label: label.to_string(), loads }
}

/// All of it.
pub(super) fn evaluation() -> Evaluation {
    Evaluation {
        design: "LAB-DB",
        size_there: "90 M keys of 8 bytes with values of 1 KiB, 8 GB of NVM for RocksDB-NVM and 16 M keys in LAB-DB's trees",
        key_bytes: 8,
        scale: 0.003,
        stores: STORES,
        sizes: &[
            // Of level 0, of level 1 and of level 2, which has ten times as much as that, a part.
            ("nvm", 8.0 * (1_u64 << 30) as f64, 16.0 * MEGABYTE),
            // Four write buffers, of which the smallest is 1 MiB here.
            ("level_base", 256.0 * MEGABYTE, 4.0 * MEGABYTE),
            ("level_zero", LEVEL_ZERO_BYTES, LEVEL_ZERO_BYTES_MIN),
            ("level_zero_half", LEVEL_ZERO_BYTES / 2.0, LEVEL_ZERO_BYTES_MIN / 2.0),
            ("level_zero_double", LEVEL_ZERO_BYTES * 2.0, LEVEL_ZERO_BYTES_MIN * 2.0),
        ],
        sweeps: sweeps(),
        figures: FIGURES,
    }
}

/// Everything that is measured.
fn sweeps() -> Vec<Sweep> {
    let micro =
        "filluniquerandom,flush,waitforcompaction,overwriteseq,overwrite,flush,waitforcompaction,readseq,readrandom";
    let memtables = [("64 MB", 1.0), ("128 MB", 2.0), ("256 MB", 4.0), ("512 MB", 8.0)];
    let skews: [(&str, &'static [&'static str]); 4] =
        [("0.7", &["--zipf=0.7"]), ("0.8", &["--zipf=0.8"]), ("0.9", &["--zipf=0.9"]), ("0.99", &["--zipf=0.99"])];
    let sizes = [256, 1 << 10, 4 << 10];
    vec![
        Sweep { name: "micro", stores: None, points: vec![point("1 KiB", vec![load(micro)])] },
        Sweep {
            name: "memtables",
            stores: Some(
                "rocksdb:nvm={nvm},level_base={level_base},\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base}",
            ),
            points: memtables
                .map(|(label, write_buffers)| point(label, vec![Load { write_buffers, ..load("ycsbload,ycsba") }]))
                .into(),
        },
        Sweep { name: "recovery", stores: None, points: vec![point("1 KiB", vec![load("ycsbload,recover")])] },
        Sweep {
            name: "scans",
            stores: Some(
                "rocksdb:nvm={nvm},level_base={level_base},\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base},leaf_scan=1,\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base},leaf_scan=0.8,\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base},leaf_scan=0.5",
            ),
            points: vec![point("1 KiB", vec![Load { operations_part: 2.0, ..load("ycsbload,ycsba") }])],
        },
        // One store does A, B, C, D and F, as there; another does E.
        Sweep {
            name: "ycsb",
            stores: None,
            points: vec![point(
                "1 KiB",
                vec![
                    load("ycsbload,ycsba,ycsbb,ycsbc,ycsbd,ycsbf"),
                    Load { operations_part: 0.1, ..load("ycsbload,ycsbe") },
                ],
            )],
        },
        Sweep {
            name: "skew",
            stores: None,
            points: skews.map(|(label, flags)| point(label, vec![Load { flags, ..load("ycsbload,ycsba") }])).into(),
        },
        Sweep {
            name: "values",
            stores: None,
            points: sizes
                .map(|value_bytes| {
                    point(&slmdb_cli::units::bytes(value_bytes), vec![Load { value_bytes, ..load("ycsbload,ycsba") }])
                })
                .into(),
        },
        Sweep {
            name: "capacity",
            stores: Some(
                "slmdb:emulated,engine=lab,level_zero={level_zero_half},level_base={level_base},\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base},\
                 slmdb:emulated,engine=lab,level_zero={level_zero_double},level_base={level_base}",
            ),
            points: vec![point("1 KiB", vec![Load { operations_part: 2.0, ..load("ycsbload,ycsba") }])],
        },
        Sweep {
            name: "slm",
            stores: Some(
                "slmdb:emulated,policy=paper,live=0.7,links=persisted,\
                 slmdb:emulated,\
                 slmdb:emulated,engine=lab,level_zero={level_zero},level_base={level_base}",
            ),
            points: vec![point("1 KiB", vec![Load { threads: 1, ..load(micro) }])],
        },
    ]
}

const MEGABYTE: f64 = 1_048_576.0;
const SECOND_NS: f64 = 1e9;

const A_RATE: Plot = Plot { title: "YCSB's A", benchmarks: &["ycsba"], measure: Measure::Rate };
const A_COMPACTIONS: Plot = Plot {
    title: "Flushes and compactions during A, added up",
    benchmarks: &["ycsba"],
    measure: Measure::Number("compaction_ns", SECOND_NS, "s"),
};

static YCSB: [&str; 7] = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"];
static YCSB_IN_ONE_STORE: [&str; 6] = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbf"];

/// What the paper has for each of its stores.
macro_rules! in_paper {
    ($rocksdb_nvm:expr, $novelsm:expr, $matrixkv:expr, $lab_db:expr) => {
        &[
            ("RocksDB-NVM in the paper", &[$rocksdb_nvm]),
            ("NoveLSM in the paper", &[$novelsm]),
            ("MatrixKV in the paper", &[$matrixkv]),
            ("LAB-DB in the paper", &[$lab_db]),
        ]
    };
}

/// Table 2, by the paper's names.
const TAILS: Lines = Lines {
    title: "Table 2: microseconds an operation of YCSB's A",
    rows: &[
        (Plot::of("Average", &["ycsba"], Measure::LatencyUs { keys: 1 }), in_paper!(726.0, 618.0, 479.0, 406.0)),
        (Plot::of("90 %", &["ycsba"], Measure::Number("p90_ns", 1e3, "us")), in_paper!(1536.0, 1445.0, 1221.0, 1198.0)),
        (Plot::of("99 %", &["ycsba"], Measure::Number("p99_ns", 1e3, "us")), in_paper!(3311.0, 2645.0, 1981.0, 1559.0)),
        (
            Plot::of("99.9 %", &["ycsba"], Measure::Number("p99_9_ns", 1e3, "us")),
            in_paper!(64647.0, 53521.0, 31539.0, 9404.0),
        ),
        (
            Plot::of("99.99 %", &["ycsba"], Measure::Number("p99_99_ns", 1e3, "us")),
            in_paper!(228490.0, 209102.0, 188635.0, 45332.0),
        ),
    ],
    unmeasured_points: 0,
};

/// Table 3, by the paper's names.
const BESIDE_SLM_DB: Lines = Lines {
    title: "Table 3: operations a second, one thread",
    rows: &[
        (
            Plot::of("Sequential write", &["overwriteseq"], Measure::Rate),
            &[("SLM-DB in the paper", &[28072.0]), ("LAB-DB in the paper", &[30885.0])],
        ),
        (
            Plot::of("Random write", &["overwrite"], Measure::Rate),
            &[("SLM-DB in the paper", &[6179.0]), ("LAB-DB in the paper", &[24241.0])],
        ),
        (
            Plot::of("Sequential read", &["readseq"], Measure::Rate),
            &[("SLM-DB in the paper", &[22816.0]), ("LAB-DB in the paper", &[44315.0])],
        ),
        (
            Plot::of("Random read", &["readrandom"], Measure::Rate),
            &[("SLM-DB in the paper", &[2068.0]), ("LAB-DB in the paper", &[1681.0])],
        ),
    ],
    unmeasured_points: 0,
};

/// In the paper's order.
const FIGURES: &[Figure] = &[
    Figure {
        title: "Figure 3: random writes over time",
        sweep: "micro",
        first: First::OverTime("overwrite"),
        plots: &[Plot {
            title: "The longest of these writes",
            benchmarks: &["overwrite"],
            measure: Measure::Number("max_ns", 1e6, "ms"),
        }],
        said: "The paper has RocksDB alone here, whose rate goes from a peak of 40 k/s down to 1.6 k/s, with a mean of 5 k/s: \
               compactions cannot make room as fast as keys come. Ours is far smaller and has two writers, so what is seen are \
               seconds, not hours. What can be compared is how deep and how long the falls are. LAB-DB's writers are slowed before \
               level 0 is full here, so that they are seldom stopped.",
    },
    Figure {
        title: "Figure 4: the size of MemTables",
        sweep: "memtables",
        first: First::Nothing,
        plots: &[A_RATE, A_COMPACTIONS],
        said: "The paper has RocksDB alone: from 64 to 512 MB in-place updates in the MemTable rise from 34 to 44 %, so less is \
               compacted. Here MemTables are scaled, and the smallest has 1 MiB.",
    },
    Figure {
        title: "Figure 9: recovery",
        sweep: "recovery",
        first: First::Nothing,
        plots: &[Plot {
            title: "Opening a store into which a process wrote that was killed",
            benchmarks: &["recover"],
            measure: Measure::Number("mean_ns", 1e6, "ms"),
        }],
        said: "The paper, with 90 GB: LAB-DB reads its leaves in 0.164 s, builds the tree in 1.177 s and replays its log in 6.5 s; \
               RocksDB-NVM replays 11.3 s of log. Ours is the whole of opening. A MemTable here is its own log, so nothing is \
               replayed into files: what takes time is its list, and, on plain memory, reading the lists of keys of level 0's files, \
               as its trees are not persistent there.",
    },
    Figure {
        title: "Figure 10: leaf scan and file scan",
        sweep: "scans",
        first: First::Nothing,
        plots: &[
            A_COMPACTIONS,
            Plot {
                title: "Files of level 0 during A, on average: the paper's log",
                benchmarks: &["ycsba"],
                measure: Measure::MeanOverTime("level_zero_bytes", MEGABYTE, "MB"),
            },
            Plot {
                title: "Bytes written to the device",
                benchmarks: &["ycsbload", "ycsba"],
                measure: Measure::BytesPerBytePut("device_written_bytes"),
            },
        ],
        said: "The paper: file scans take as long as leaf scans late in a compaction, and leave a log that is 11 % smaller. It takes \
               leaf scans for 80 % of a tree, and file scans then. Bars after the first: leaf scans alone, for 80 % and for 50 %. A \
               file scan takes the keys of the oldest file, which lie all over level 1, so more of that is written anew: the last \
               picture has that price.",
    },
    Figure {
        title: "Figure 11: writes and reads of a filled store",
        sweep: "micro",
        first: First::Nothing,
        plots: &[
            Plot { title: "Sequential write", benchmarks: &["overwriteseq"], measure: Measure::Rate },
            Plot { title: "Random write", benchmarks: &["overwrite"], measure: Measure::Rate },
            Plot { title: "Sequential read", benchmarks: &["readseq"], measure: Measure::Rate },
            Plot { title: "Random read", benchmarks: &["readrandom"], measure: Measure::Rate },
        ],
        said: "The paper's bars of LAB-DB have no numbers in the text, which calls it superior especially for random writes and \
               random reads; MatrixKV has 1.52 times the sequential and 1.75 times the random writes, and all read in order within 4 \
               %. Here all of it is in memory, so reads wait for no device, and writes of RocksDB are as quick as its compactions, \
               which write to a page cache.",
    },
    Figure {
        title: "Figure 12: YCSB",
        sweep: "ycsb",
        first: First::Workloads { all: &YCSB, in_one_store: &YCSB_IN_ONE_STORE },
        plots: &[],
        said: "The paper has LAB-DB above RocksDB-NVM in all, most in A, D and F, by 24 % in E; there are no other numbers in its \
               text. Here an update is a look-up and a put that no other write may come between. RocksDB does without that. Half of \
               A's operations are such updates, and two clients that want the same key wait for each other.",
    },
    Figure {
        title: "Table 2: tails of A",
        sweep: "ycsb",
        first: First::Lines(&TAILS),
        plots: &[],
        said: "The paper's clients wait for an SSD, ours for memory, so all of ours are shorter by one or two powers of ten. What can \
               be compared is the ratio of LAB-DB to RocksDB-NVM: 0.56 of its average, 0.47 at 99 %, 0.15 at 99.9 % and 0.20 at 99.99 \
               % there.",
    },
    Figure {
        title: "Figure 13: the device's traffic in A",
        sweep: "ycsb",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "Written",
                benchmarks: &["ycsba"],
                measure: Measure::Number("device_written_bytes", MEGABYTE, "MB"),
            },
            Plot {
                title: "Read",
                benchmarks: &["ycsba"],
                measure: Measure::Number("device_read_bytes", MEGABYTE, "MB"),
            },
        ],
        said: "The paper's bars have no numbers in the text: RocksDB-NVM writes and reads much more than LAB-DB, as keys that were \
               updated in place are compacted once. Here the first levels of the first store are in memory and so are missing from \
               its traffic, while all files of LAB-DB are on the device, those of level 0 included, as in the paper. The device's \
               bytes come after a sync, and other programs' are in them.",
    },
    Figure {
        title: "Figure 14: the time that flushes and compactions take in A",
        sweep: "ycsb",
        first: First::Nothing,
        plots: &[A_COMPACTIONS],
        said: "The paper: 69 % less than RocksDB-NVM, of which LAB-DB's longer flushes are 0.5 %. Here it is the time that the \
               threads took, their waits for a processor included: with two processors and two clients that is much of it. RocksDB's \
               is by its own table, ours by our events.",
    },
    Figure {
        title: "Figure 15: skew",
        sweep: "skew",
        first: First::Nothing,
        plots: &[A_RATE],
        said: "The paper: 1.53 times RocksDB-NVM with a constant of 0.7, where 16 % of LAB-DB's look-ups are answered by its trees; \
               and more with more skew. Here both gain by skew what a MemTable updates in place, and two clients that want the same \
               key wait for each other.",
    },
    Figure {
        title: "Figure 15: the size of values",
        sweep: "values",
        first: First::Nothing,
        plots: &[A_RATE],
        said: "The paper's text has no numbers that can be told apart: LAB-DB is above RocksDB-NVM with all three. Here larger values \
               make the part of the device and of the page cache larger, and that of look-ups smaller.",
    },
    Figure {
        title: "Figure 17: parts of the design",
        sweep: "scans",
        first: First::Nothing,
        plots: &[A_RATE],
        said: "The paper: 1.74 times RocksDB-NVM by the trees alone, 1.94 times with file scans and the hot buffer. The bars are the \
               trees alone, and with file scans from 80 % and from 50 % on. The hot buffer is not there. Our log is in the fast tier \
               whatever the key, and that is what the paper's buffer is for.",
    },
    Figure {
        title: "Figure 18: the size of the trees",
        sweep: "capacity",
        first: First::Nothing,
        plots: &[
            A_RATE,
            Plot {
                title: "Files of level 0 during A, on average",
                benchmarks: &["ycsba"],
                measure: Measure::MeanOverTime("level_zero_bytes", MEGABYTE, "MB"),
            },
        ],
        said: "The paper: trees of 512 MB have 1.72 times the rate of those of 128 MB, and more log. The bars are half, once and \
               twice the keys. Here all levels are in memory unless it is limited, so what larger trees save is above all what is \
               compacted.",
    },
    Figure {
        title: "Table 3: beside SLM-DB",
        sweep: "slm",
        first: First::Lines(&BESIDE_SLM_DB),
        plots: &[],
        said: "The paper has LAB-DB 2.9 times above SLM-DB for random writes, where SLM-DB had too many candidates to choose from, \
               and 0.81 times for random reads. (Its text says that SLM-DB has 18.74 % more; its table that LAB-DB has 18.74 % less.) \
               Its SLM-DB is the authors' code. Ours is our own, which keeps a list of what can be compacted and does not go through \
               all files.",
    },
    Figure {
        title: "Figure 19: YCSB's A over time",
        sweep: "ycsb",
        first: First::OverTime("ycsba"),
        plots: &[],
        said: "The paper's LAB-DB is even but for one fall between 45 and 60 s, at the compaction of a tree; RocksDB-NVM is lower \
               throughout. Here A is over in seconds.",
    },
];
