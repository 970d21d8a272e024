//! SLM-DB's evaluation (section 6): its figures and tables, what they are made from, and what the paper says.
//!
//! What its authors' published code reaches was measured by us on a machine of the class that the project's own figures are from
//! (an index of integers, no recovery, its allocator replaced), against LevelDB 1.23 with everything in memory.

use super::evaluation::{Evaluation, Figure, First, Lines, Load, Measure, Plot, Point, Sweep};

/// What a store is filled with, in bytes.
const DATA_BYTES: f64 = 8.0 * (1_u64 << 30) as f64;
const RANGE_KEYS: u64 = 100;
/// Of values. Those of 128 bytes are in its section 6.5, and not everywhere.
const VALUE_BYTES: [u64; 5] = [128, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

fn load(benchmarks: &'static str, value_bytes: u64) -> Load {
    let keys = DATA_BYTES / value_bytes as f64;
    Load {
        benchmarks,
        value_bytes,
        keys,
        operations_part: 0.2,
        threads: 1,
        range_keys: RANGE_KEYS,
        write_buffers: 1.0,
        flags: &[],
    }
}

fn by_value_size(smallest_bytes: u64, benchmarks: &[&'static str]) -> Vec<Point> {
    let sizes = VALUE_BYTES.into_iter().filter(|bytes| *bytes >= smallest_bytes);
    let loads = |bytes| benchmarks.iter().map(|benchmarks| load(benchmarks, bytes)).collect();
    sizes.map(|bytes| Point { label: slmdb_cli::units::bytes(bytes), loads: loads(bytes) }).collect()
}

fn one_point(load: Load) -> Vec<Point> {
    vec![Point { label: slmdb_cli::units::bytes(load.value_bytes), loads: vec![load] }]
}

/// What the paper compares, and ours as it is by default.
const STORES: &str = "leveldb,slmdb:emulated,latency=500,model=line,policy=paper,links=persisted,\
                      slmdb:emulated,latency=500,model=line,slmdb:emulated,slmdb,rocksdb";

/// All of it.
pub(super) fn evaluation() -> Evaluation {
    Evaluation {
        design: "SLM-DB",
        size_there: "8 GB of values in each store",
        key_bytes: 20,
        scale: 0.016,
        stores: STORES,
        sizes: &[],
        sweeps: sweeps(),
        figures: FIGURES,
    }
}

/// Everything that is measured.
fn sweeps() -> Vec<Sweep> {
    let micro = "fillrandom,flush,waitforcompaction,readrandom,readmissing,seekrandom,readseq";
    let ranges = [5, 10, 50, 100].map(|keys| Point {
        label: format!("{keys} keys"),
        loads: vec![Load { range_keys: keys, ..load("fillrandom,flush,waitforcompaction,seekrandom", 1 << 10) }],
    });
    vec![
        Sweep { name: "values", stores: None, points: by_value_size(128, &[micro]) },
        Sweep {
            name: "latency",
            stores: Some(
                "slmdb:emulated,latency=0,model=line,policy=paper,links=persisted,\
                 slmdb:emulated,latency=300,model=line,policy=paper,links=persisted,\
                 slmdb:emulated,latency=500,model=line,policy=paper,links=persisted,\
                 slmdb:emulated,latency=900,model=line,policy=paper,links=persisted",
            ),
            points: by_value_size(1 << 10, &["fillrandom,flush"]),
        },
        // One store does A, B, C, F and D; another does E.
        Sweep {
            name: "ycsb",
            stores: None,
            points: by_value_size(1 << 10, &["ycsbload,ycsba,ycsbb,ycsbc,ycsbf,ycsbd", "ycsbload,ycsbe"]),
        },
        Sweep { name: "ranges", stores: None, points: ranges.into() },
        Sweep {
            name: "live",
            stores: Some(
                "slmdb:emulated,latency=500,model=line,policy=paper,live=0.6,\
                 slmdb:emulated,latency=500,model=line,policy=paper,live=0.7,\
                 slmdb:emulated,latency=500,model=line,policy=paper,live=0.8",
            ),
            points: one_point(load("fillrandom,overwrite,flush,waitforcompaction,seekrandom", 1 << 10)),
        },
        Sweep {
            name: "schemes",
            stores: Some(
                "slmdb:emulated,latency=500,model=line,policy=paper,\
                 slmdb:emulated,latency=500,model=line,policy=paper,scans=off,degree=off,\
                 slmdb:emulated,latency=500,model=line,policy=paper,degree=off,\
                 slmdb:emulated,latency=500,model=line,policy=paper,scans=off",
            ),
            points: one_point(load("ycsbload,ycsbe", 1 << 10)),
        },
        Sweep {
            name: "bandwidth",
            stores: Some(
                "slmdb:emulated,bandwidth=8000,policy=paper,\
                 slmdb:emulated,bandwidth=5000,policy=paper,\
                 slmdb:emulated,bandwidth=2000,policy=paper",
            ),
            points: one_point(load("fillrandom,flush,waitforcompaction,readrandom", 1 << 10)),
        },
        Sweep {
            name: "larger",
            stores: None,
            points: one_point(Load {
                keys: 2.5 * DATA_BYTES / 1024.0,
                ..load("fillrandom,flush,waitforcompaction,readrandom,seekrandom", 1 << 10)
            }),
        },
    ]
}

/// Figure 7's groups of bars.
static YCSB: [&str; 7] = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"];

/// Those that follow each other in one store, in this order.
static YCSB_IN_ONE_STORE: [&str; 6] = ["ycsbload", "ycsba", "ycsbb", "ycsbc", "ycsbf", "ycsbd"];

/// Table 2, by the paper's names.
const LATENCIES: Lines = Lines {
    title: "Table 2: microseconds an operation, by the size of values",
    rows: &[
        (
            Plot::of("Random write", &["fillrandom"], Measure::LatencyUs { keys: 1 }),
            &[("SLM-DB in the paper", &[25.14, 77.44, 262.41, 1065.68])],
        ),
        (
            Plot::of("Random read", &["readrandom"], Measure::LatencyUs { keys: 1 }),
            &[("SLM-DB in the paper", &[323.56, 338.25, 406.94, 851.98])],
        ),
        (
            Plot::of("Range query (100 keys), for each key", &["seekrandom"], Measure::LatencyUs { keys: RANGE_KEYS }),
            &[("SLM-DB in the paper", &[14.68, 25.15, 54.41, 307.71])],
        ),
        (
            Plot::of("Sequential read", &["readseq"], Measure::LatencyUs { keys: 1 }),
            &[("SLM-DB in the paper", &[4.74, 19.35, 80.74, 182.28])],
        ),
    ],
    unmeasured_points: 1,
};

/// In the paper's order.
const FIGURES: &[Figure] = &[
    Figure {
        title: "Table 1 and Figure 2: the part of a read that is locating",
        sweep: "values",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "Latency of a look-up of a key that is not there, to that of a read",
                benchmarks: &["readmissing"],
                measure: Measure::PartOf("readrandom"),
            },
            Plot {
                title: "Read from the device in all reads",
                benchmarks: &["readrandom"],
                measure: Measure::Number("device_read_bytes", 1_048_576.0, "MB"),
            },
        ],
        said: "The paper times LevelDB's own steps; from outside, a look-up that finds nothing is what locating takes. In the paper locating is \
               up to 36.66 % of a read of LevelDB with Bloom filters (20 GB of data, 4 GB of memory, while it compacts), and next to \
               nothing of SLM-DB's. Where all is in memory, as at a small scale, a read has no wait for a device to hide locating behind, so \
               its part is larger for every store.",
    },
    Figure {
        title: "Figure 4: random writes, and what is written to the disk",
        sweep: "values",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "(a) Latency of a random write",
                benchmarks: &["fillrandom"],
                measure: Measure::LatencyUs { keys: 1 },
            },
            Plot {
                title: "(b) Bytes written to the device, compactions included",
                benchmarks: &["fillrandom", "flush", "waitforcompaction"],
                measure: Measure::BytesPerBytePut("device_written_bytes"),
            },
        ],
        said: "The paper has SLM-DB at 0.51 times LevelDB's latency and 0.43 times its bytes, on average. (LevelDB with a persistent MemTable, \
               its third store, is not here.) Its authors' code writes 1.0 bytes for each put while it fills, but 1.8 to 15.6 while it \
               overwrites, growing with the value. Device bytes are the whole device's, so other programs' are in them.",
    },
    Figure {
        title: "Figure 5: the medium's write latency",
        sweep: "latency",
        first: First::Nothing,
        plots: &[Plot {
            title: "Latency of a random write",
            benchmarks: &["fillrandom"],
            measure: Measure::LatencyUs { keys: 1 },
        }],
        said: "The paper's writes take up to 1.75 times as long at 900 ns with values of 1 KB, and less so with larger ones. The emulation here \
               charges each cache line, and a larger value has more of them: what a value of 64 KiB waits for does not become less, as it \
               does if a persist is charged once (`model=persist`). The authors' code went from 150 k/s at 0 ns to 49 k/s at 500 ns with \
               1 KiB.",
    },
    Figure {
        title: "Figure 6: db_bench's work over value sizes",
        sweep: "values",
        first: First::Lines(&LATENCIES),
        plots: &[
            Plot { title: "(a) Random write", benchmarks: &["fillrandom"], measure: Measure::Rate },
            Plot { title: "(b) Random read", benchmarks: &["readrandom"], measure: Measure::Rate },
            Plot { title: "(c) Range query (100 keys)", benchmarks: &["seekrandom"], measure: Measure::Rate },
            Plot { title: "(d) Sequential read", benchmarks: &["readseq"], measure: Measure::Rate },
        ],
        said: "The paper has SLM-DB at 1.56 to 2.22 times LevelDB's random writes from 1 KB up, 0.64 times at 128 B; at 1.07 to 1.96 times its \
               random reads. Its authors' code in memory: writes 0.28 (128 B), 0.58 (1 KiB), 0.41 (4 KiB) and 0.15 (16 KiB) times LevelDB \
               at 500 ns a line; reads 0.9 to 4.3 times, ranges 0.3 to 1.5 times. Ours differ: LevelDB's reads of 16 and 64 KiB are quicker than \
               in the paper, as they wait for no disk here, and it takes them from mapped files without checking them, where ours are copied and \
               checked; ranges and reading in order lose, as each key of ours is found by the index and may lie in another file; and writes lose at 128 B, as there, to the medium's latency.",
    },
    Figure {
        title: "Figure 7: YCSB",
        sweep: "ycsb",
        first: First::Workloads { all: &YCSB, in_one_store: &YCSB_IN_ONE_STORE },
        plots: &[],
        said: "The paper has SLM-DB above LevelDB in all workloads and with all sizes but E with records of 1 KB; in A 2.7 times on average, in E \
               1.156 times on average of 4 to 64 KB. Of 1 KB it writes 0.13 times as much by the end of D. (Its authors' code was not measured \
               with YCSB.) Ours differ where the paper's stores wait for a disk and these do not: in memory LevelDB's look-ups are quick and its \
               blocks are read in order from its mapped files, so B, C, D and E gain less or lose, while A, F and the load gain as they do \
               there, from what is not written. In (c) a store's compactions that were still to be done at its end are not in it.",
    },
    Figure {
        title: "Figure 8: short ranges",
        sweep: "ranges",
        first: First::Nothing,
        plots: &[Plot { title: "Range queries, values of 1 KiB", benchmarks: &["seekrandom"], measure: Measure::Rate }],
        said: "In the paper short ranges are like random reads (faster than LevelDB's), long ones a little slower: the more keys, the more \
               it is the order of the files that counts. Ours are slower than LevelDB's at every length where all is in memory: then \
               LevelDB's look-up of the first key waits for no disk, which is what SLM-DB saves, and each further key costs ours a look into \
               the index and often another block. Its authors' code has 0.55 to 1.0 times LevelDB's rate for 100 keys of 1 KiB.",
    },
    Figure {
        title: "Section 6.5: the live-key ratio",
        sweep: "live",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "Latency of an overwrite",
                benchmarks: &["overwrite"],
                measure: Measure::LatencyUs { keys: 1 },
            },
            Plot {
                title: "Latency of a range query of 100 keys",
                benchmarks: &["seekrandom"],
                measure: Measure::LatencyUs { keys: 1 },
            },
            Plot {
                title: "Bytes written to files",
                benchmarks: &["fillrandom", "overwrite", "flush", "waitforcompaction"],
                measure: Measure::BytesPerBytePut("file_bytes_written"),
            },
            Plot {
                title: "Space at the end",
                benchmarks: &["seekrandom"],
                measure: Measure::Number("space_bytes", 1_048_576.0, "MB"),
            },
        ],
        said: "The paper, 0.7 and 0.8 to 0.6: writes take 1.17 and 2 times as long, ranges 0.92 times, space 0.984 and 0.970 times, bytes written \
               1.075 and 1.12 times. (Its authors' code was not measured so.) Here all keys are written a second time, so that there is garbage to \
               collect: so thresholds make more of a difference to the overwrites than in the paper, where files had little garbage, and \
               less to ranges, which wait for no disk.",
    },
    Figure {
        title: "Section 6.5: the schemes that select candidates, one switched off",
        sweep: "schemes",
        first: First::Nothing,
        plots: &[
            Plot {
                title: "Latency of an operation of YCSB's E",
                benchmarks: &["ycsbe"],
                measure: Measure::LatencyUs { keys: 1 },
            },
            Plot {
                title: "Bytes written to files",
                benchmarks: &["ycsbload", "ycsbe"],
                measure: Measure::BytesPerBytePut("file_bytes_written"),
            },
        ],
        said: "The paper: more than 10 times as long without both, 1.5 times without the degree of sequentiality, 1.15 times without leaf node \
               scans. (Its authors' code was not measured so.) There, reads out of order wait for a disk; in memory they cost little.",
    },
    Figure {
        title: "Section 6.5: the medium's bandwidth",
        sweep: "bandwidth",
        first: First::Nothing,
        plots: &[
            Plot { title: "Random write", benchmarks: &["fillrandom"], measure: Measure::Rate },
            Plot { title: "Random read", benchmarks: &["readrandom"], measure: Measure::Rate },
        ],
        said: "The paper: writes at 2 GB/s are about 6 % slower than at 8 GB/s, at 5 GB/s no slower; reads do not change. (Its authors' code was not measured so.) Here, too, a \
               record of 1 KiB takes half a microsecond at 2 GB/s, of some 25 that a put of the paper takes, and of the few that one of ours takes: so \
               what differs by more than a tenth here is the noise of one short run, or that half microsecond.",
    },
    Figure {
        title: "Section 6.5: a larger store (20 GB, scaled)",
        sweep: "larger",
        first: First::Nothing,
        plots: &[
            Plot { title: "Random write", benchmarks: &["fillrandom"], measure: Measure::Rate },
            Plot { title: "Random read", benchmarks: &["readrandom"], measure: Measure::Rate },
            Plot { title: "Range query (100 keys)", benchmarks: &["seekrandom"], measure: Measure::Rate },
        ],
        said: "The paper: 2.48, 1.34 and 0.90 times LevelDB, on average of all value sizes; 8 GB 1.96, 1.45 and 0.89 times. Here the values are of \
               1 KiB. Of 8 GB with 1 GiB of memory the authors' code reads 10.7 k/s, and ranges at 0.3 times LevelDB's rate. Ours differ as in Figure 6: without a \
               memory limit nothing is larger than memory here, so LevelDB's reads wait for no disk however many levels it has.",
    },
    Figure {
        title: "Section 7: what the index takes of the fast tier",
        sweep: "values",
        first: First::Nothing,
        plots: &[Plot {
            title: "Bytes of index, key segments included, for each key",
            benchmarks: &["flush"],
            measure: Measure::Number("fast_tier_index_bytes_per_key", 1.0, "bytes a key"),
        }],
        said: "The paper has 26 bytes a key in leaves, for keys of 8 bytes. Here a leaf has 16 bytes a key and the key's record stands beside it, \
               with the whole key of any length, its sequence number and its place: 40 bytes for a key of 20. The fast tier is given out in units of 64 \
               KiB, which is most of it where there are only some hundred keys.",
    },
];
