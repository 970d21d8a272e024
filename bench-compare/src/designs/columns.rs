//! [`SECTIONS`]: what is told of each store, and what is to be seen in it.

use super::Measured;
use crate::plot::{Measure, Plot};

/// Columns that belong together.
pub(super) struct Section {
    /// What is measured, and in what.
    pub title: &'static str,
    /// Whether more is better.
    pub is_more_better: bool,
    /// Its pictures.
    pub pictures: &'static [Picture],
    /// Its columns.
    pub columns: &'static [Column],
}

/// A picture for each medium.
pub(super) struct Picture {
    /// The work that it is of; or, if there is none, what it shows of all works.
    pub of: &'static str,
    /// What to see.
    pub see: &'static str,
}

/// A number of each store.
pub(super) struct Column {
    plot: Plot,
    per: Per,
    /// The picture of all works that it is in, if it is in one.
    picture: &'static str,
}

/// What a number is divided by.
#[derive(Clone, Copy)]
enum Per {
    One,
    Key,
    /// Of keys and values.
    Byte,
}

impl Column {
    /// Its name, within its section.
    pub fn title(&self) -> &'static str {
        self.plot.title
    }

    /// Whether the work has it.
    pub fn is_of(&self, work: &Measured) -> bool {
        self.plot.benchmarks.iter().any(|label| work.work.steps.iter().any(|step| step.label == *label))
    }

    /// Whether it is in a picture of this work.
    pub fn is_in(&self, picture: &Picture, work: &Measured) -> bool {
        let of = if self.picture.is_empty() { work.work.name } else { self.picture };
        of == picture.of && self.is_of(work)
    }

    /// What it says of a store.
    pub fn number(&self, work: &Measured, store: usize) -> Option<f64> {
        let filled = |name| work.point.row("fill", store)?.median(name).filter(|number| *number > 0.0);
        let per = match self.per {
            Per::One => 1.0,
            Per::Key => filled("operations")?,
            Per::Byte => filled("bytes_put")?,
        };
        Some(self.plot.number(&work.point, store)? / per)
    }
}

/// Columns, each of one step and called as that.
macro_rules! of_each {
    ($measure:expr; $($label:literal)*) => {
        &[$(Column { plot: Plot::of($label, &[$label], $measure), per: Per::One, picture: "" }),*]
    };
}

const fn column(title: &'static str, steps: &'static [&'static str], measure: Measure) -> Column {
    Column { plot: Plot { title, benchmarks: steps, measure }, per: Per::One, picture: "" }
}

const fn of_all(
    picture: &'static str,
    title: &'static str,
    steps: &'static [&'static str],
    measure: Measure,
    per: Per,
) -> Column {
    Column { plot: Plot { title, benchmarks: steps, measure }, per, picture }
}

const TAIL: Measure = Measure::Number("p99_9_ns", 1e3, "us");
const LONGEST: Measure = Measure::Worst("max_ns", 1e3, "us");
const DEVICE: Measure = Measure::BytesPerBytePut("device_written_bytes");
const MEDIA: Measure = Measure::BytesPerBytePut("fast_tier_media_bytes");
/// What a store has done in the background after them is theirs.
const FILL: &[&str] = &["fill", "flush", "rest"];
const OVERWRITES: &[&str] = &["overwrites", "second flush", "second rest"];
/// The last writes of each work, and what followed them.
const WRITTEN: &[&str] = &["overwrites", "A, Zipf 0.99", "A beyond memory"];
const AT_REST: &[&str] = &["second rest", "A, Zipf 0.99", "A beyond memory"];

const fn counted(field: &'static str) -> Measure {
    Measure::Number(field, 1.0, "bytes")
}

const DEVICE_FILL: &str = "Device bytes for a byte put, filling";
const DEVICE_AFTER: &str = "Device bytes for a byte put, overwriting";
const MEDIA_FILL: &str = "Fast tier's media bytes for a byte put, filling";
const MEDIA_AFTER: &str = "Fast tier's media bytes for a byte put, overwriting";
const READ: &str = "Device bytes read for a get";
const MEMORY: &str = "Memory by the store's account, bytes a key";
const ANONYMOUS: &str = "Anonymous memory of the process, bytes a key";
const FAST_TIER: &str = "Fast tier, bytes a key";
const SPACE: &str = "Disk space to keys and values";
const FAST_SPACE: &str = "Fast tier to keys and values";
const OPENING: &str = "Opening after a kill, ms";

/// All that is told, in this order.
pub(super) static SECTIONS: [Section; 6] = [
    Section {
        title: "Operations a second",
        is_more_better: true,
        pictures: &[
            Picture {
                of: "small",
                see: "With small values the cost of finding and keeping a key is most of each operation, and with it the design.",
            },
            Picture {
                of: "medium",
                see: "With values of 1 KiB copying and writing them weighs as much as keys do; ranges show how far the order of \
                      files has suffered by the overwrites.",
            },
            Picture {
                of: "large",
                see: "With large values the bytes that each design moves count, and hardly its index.",
            },
            Picture {
                of: "skew",
                see: "The more skewed A's updates are, the more of them a MemTable replaces in place, and the less is compacted.",
            },
            Picture {
                of: "larger",
                see: "Most gets wait for the device here, unless their values lie in the fast tier, which is outside the limit.",
            },
        ],
        columns: of_each!(Measure::Rate; "fill" "gets" "missing keys" "ranges" "keys in order" "overwrites" "ranges, aged"
                          "A, uniform" "A, Zipf 0.7" "A, Zipf 0.99" "C" "gets beyond memory" "A beyond memory"),
    },
    Section {
        title: "Tails: p99.9, and the longest put of all repeats, us",
        is_more_better: false,
        pictures: &[
            Picture {
                of: "small",
                see: "The longest puts show whether a writer ever waits for compactions; p99.9 whether it often does.",
            },
            Picture {
                of: "medium",
                see: "What is far above the other stores' are puts that waited for a flush or a compaction.",
            },
            Picture {
                of: "large",
                see: "A MemTable of 8 MiB takes 500 such values, so more than one put in a thousand meets its end.",
            },
            Picture {
                of: "skew",
                see: "A's operations are reads and updates of two threads that also wait for each other.",
            },
            Picture {
                of: "larger",
                see: "A get that waits for the device is the device's; an update of A is, too, where it has to look for its key.",
            },
        ],
        columns: &[
            column("fill", &["fill"], TAIL),
            column("overwrites", &["overwrites"], TAIL),
            column("gets", &["gets"], TAIL),
            column("ranges", &["ranges"], TAIL),
            column("ranges, aged", &["ranges, aged"], TAIL),
            column("A, uniform", &["A, uniform"], TAIL),
            column("A, Zipf 0.7", &["A, Zipf 0.7"], TAIL),
            column("A, Zipf 0.99", &["A, Zipf 0.99"], TAIL),
            column("gets beyond memory", &["gets beyond memory"], TAIL),
            column("A beyond memory", &["A beyond memory"], TAIL),
            column("longest, fill", &["fill"], LONGEST),
            column("longest, overwrites", &["overwrites"], LONGEST),
        ],
    },
    Section {
        title: "Bytes",
        is_more_better: false,
        pictures: &[
            Picture {
                of: DEVICE_FILL,
                see: "What a fill and the compactions after it wrote to the device; MemTables on plain memory are files, too.",
            },
            Picture {
                of: DEVICE_AFTER,
                see: "What designs differ by most: `slm` rewrites what is garbage, the others go from level to level, and values \
                      that stay in the pool are not written at all.",
            },
            Picture {
                of: MEDIA_FILL,
                see: "The price of a pool that holds values: each goes there with its MemTable, and once more with its list.",
            },
            Picture {
                of: MEDIA_AFTER,
                see: "Compactions by pointer write nodes; emptying sparse segments copies values.",
            },
            Picture {
                of: READ,
                see: "How much of the device a get reads that does not find its value in memory or in the fast tier.",
            },
        ],
        columns: &[
            of_all(DEVICE_FILL, "device, fill", FILL, DEVICE, Per::One),
            of_all(DEVICE_AFTER, "device, overwrites", OVERWRITES, DEVICE, Per::One),
            of_all(DEVICE_AFTER, "device, A uniform", &["A, uniform"], DEVICE, Per::One),
            of_all(DEVICE_AFTER, "device, A 0.7", &["A, Zipf 0.7"], DEVICE, Per::One),
            of_all(DEVICE_AFTER, "device, A 0.99", &["A, Zipf 0.99"], DEVICE, Per::One),
            of_all(DEVICE_AFTER, "device, A beyond memory", &["A beyond memory"], DEVICE, Per::One),
            of_all(MEDIA_FILL, "fast tier, fill", FILL, MEDIA, Per::One),
            of_all(MEDIA_AFTER, "fast tier, overwrites", OVERWRITES, MEDIA, Per::One),
            of_all(MEDIA_AFTER, "fast tier, A uniform", &["A, uniform"], MEDIA, Per::One),
            of_all(MEDIA_AFTER, "fast tier, A 0.7", &["A, Zipf 0.7"], MEDIA, Per::One),
            of_all(MEDIA_AFTER, "fast tier, A 0.99", &["A, Zipf 0.99"], MEDIA, Per::One),
            of_all(MEDIA_AFTER, "fast tier, A beyond memory", &["A beyond memory"], MEDIA, Per::One),
            of_all(
                READ,
                "read for a get",
                &["gets beyond memory"],
                Measure::PerOperation("device_read_bytes", 1.0, "bytes"),
                Per::One,
            ),
        ],
    },
    Section {
        title: "Memory and space after the overwrites",
        is_more_better: false,
        pictures: &[
            Picture {
                of: MEMORY,
                see: "The cache is in it, as far as it has filled: what is above the others' is the index.",
            },
            Picture {
                of: ANONYMOUS,
                see: "What of the process the system can't give up: neither arenas nor pools, which are mapped.",
            },
            Picture {
                of: FAST_TIER,
                see: "MemTables and index; with `tlsm` in a pool, the values that stay there, too.",
            },
            Picture {
                of: SPACE,
                see: "The data are 1; what is above that is garbage, what is being merged, and MemTables that are files.",
            },
            Picture { of: FAST_SPACE, see: "Where values lie in the fast tier both pictures have to be added up." },
        ],
        columns: &[
            of_all(MEMORY, "memory, bytes a key", WRITTEN, counted("memory_bytes"), Per::Key),
            of_all(ANONYMOUS, "anonymous, bytes a key", WRITTEN, counted("resident_anonymous_bytes"), Per::Key),
            of_all(FAST_TIER, "fast tier, bytes a key", WRITTEN, counted("fast_tier_bytes"), Per::Key),
            of_all(SPACE, "disk to data", AT_REST, counted("space_bytes"), Per::Byte),
            of_all(FAST_SPACE, "fast tier to data", AT_REST, counted("fast_tier_bytes"), Per::Byte),
        ],
    },
    Section {
        title: "Opening",
        is_more_better: false,
        pictures: &[Picture {
            of: OPENING,
            see: "A process has overwritten half of the keys and died: who keeps all keys in plain memory finds them again here.",
        }],
        columns: &[of_all(OPENING, "opening, ms", &["opening"], Measure::Number("mean_ns", 1e6, "ms"), Per::One)],
    },
    Section {
        title: "Processor time, us an operation",
        is_more_better: false,
        pictures: &[
            Picture {
                of: "small",
                see: "Compactions during a benchmark are in it; those after a fill and a flush are not.",
            },
            Picture {
                of: "medium",
                see: "Where this is lower than the rate suggests a store waits; where it is higher it works beside.",
            },
            Picture { of: "large", see: "Copies of values, and checksums over them." },
            Picture { of: "skew", see: "Two threads, and those of the store." },
            Picture { of: "larger", see: "Waiting for the device costs no processor time, reading from it does." },
        ],
        columns: of_each!(Measure::PerOperation("cpu_seconds", 1e6, "us"); "fill" "gets" "missing keys" "ranges" "keys in order"
                          "overwrites" "ranges, aged" "A, uniform" "A, Zipf 0.7" "A, Zipf 0.99" "C" "gets beyond memory"
                          "A beyond memory"),
    },
];

/// What the last table tells of each design.
pub(super) static IN_WORDS: [Aspect; 6] = [
    Aspect { title: "gets", section: 0, columns: &["gets", "gets beyond memory", "C"] },
    Aspect { title: "puts", section: 0, columns: &["fill", "overwrites"] },
    Aspect { title: "ranges", section: 0, columns: &["ranges", "ranges, aged"] },
    Aspect { title: "memory", section: 3, columns: &["anonymous, bytes a key"] },
    Aspect { title: "SSD bytes", section: 2, columns: &["device, overwrites", "device, A uniform"] },
    Aspect { title: "opening", section: 4, columns: &["opening, ms"] },
];

/// What is told in words: the mean of several columns' multiples of the first design's.
pub(super) struct Aspect {
    /// What it is called.
    pub title: &'static str,
    /// Which of [`SECTIONS`] they are of.
    section: usize,
    columns: &'static [&'static str],
}

impl Aspect {
    /// Its columns.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> {
        SECTIONS[self.section].columns.iter().filter(|column| self.columns.contains(&column.title()))
    }

    /// Whether more is better.
    pub fn is_more_better(&self) -> bool {
        SECTIONS[self.section].is_more_better
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::designs::works::works;

    /// Each column is of a step that some work has, and in a picture.
    #[test]
    fn every_column_is_measured_and_shown() {
        let works = works();
        for section in &SECTIONS {
            for column in section.columns {
                let has = |label: &&str| works.iter().any(|work| work.steps.iter().any(|step| step.label == *label));
                assert!(column.plot.benchmarks.iter().all(has), "{}", column.title());
                let shown = |picture: &Picture| column.picture.is_empty() || picture.of == column.picture;
                assert!(section.pictures.iter().any(shown), "{}", column.title());
            }
            if section.columns[0].picture.is_empty() {
                assert!(works.iter().all(|work| section.pictures.iter().any(|picture| picture.of == work.name)));
            }
        }
        for aspect in &IN_WORDS {
            assert_eq!(aspect.columns().count(), aspect.columns.len(), "{}", aspect.title);
        }
    }
}
