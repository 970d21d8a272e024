//! Keys and values of many shapes: whether what is fast for the benchmarks' keys is fast for others, too.
//!
//! ```sh
//! cargo run --release --locked --example shapes -- --db DIRECTORY [--stores slmdb,leveldb,lmdb] [--shapes NAME,...] [--megabytes 400]
//! ```
//!
//! Each store gets each shape: it is filled, then read, then overwritten, in this process, with LZ4 (in LevelDB Snappy, in LMDB
//! nothing). Whether what is read is there is checked. A line for each,
//! in microseconds for an operation, and what the directory takes for a byte of live data.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Parser;
use slmdb::{Comparator, Compression, Options};
use slmdb_bench::random::{Permutation, Random};
use slmdb_bench::slm::SlmOpener;
use slmdb_bench::store::{Start, Store, Which};
use slmdb_bench::system::{space_bytes, wait_until_idle};
use slmdb_bench::values::Values;
use slmdb_compare::footing::{self, Footing};
use slmdb_compare::spec::StoreSpec;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

const GETS: u64 = 200_000;
const RANGES: u64 = 4_000;
const RANGE_KEYS: usize = 100;
/// So many neighbours are deleted together.
const DELETED_TOGETHER: u64 = 1000;
const LONGEST_VALUE_BYTES: usize = 1 << 20;
/// Before anything is read, the store has done nothing for so long, or has been given so much time.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_AT_MOST: Duration = Duration::from_secs(30);

#[derive(Parser)]
struct Arguments {
    /// An empty directory, on the device that is to be measured
    #[arg(long)]
    db: PathBuf,
    #[arg(long, value_delimiter = ',', default_value = "slmdb,leveldb,lmdb")]
    stores: Vec<String>,
    /// Which shapes, by their names [default: all]
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
    /// Keys and values of each store together
    #[arg(long, default_value_t = 400)]
    megabytes: u64,
}

/// The order in which a store is filled.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Random,
    Ascending,
    Descending,
}

struct Shape {
    name: &'static str,
    /// The key of a number. Numbers and keys are in the same order.
    key: fn(u64) -> Vec<u8>,
    value_bytes: fn(&mut Random) -> usize,
    mean_bytes: u64,
    compression_ratio: f64,
    order: Order,
    /// Nine of ten gets and overwrites are of a hundredth of the keys.
    is_hot: bool,
    /// Three of ten keys are deleted before anything is read, many neighbours at a time.
    deletes: bool,
    /// A cursor stays on the first entry from the fill to the end.
    is_held: bool,
    /// Keys are compared by a function of the user's. (Only slmdb is measured.)
    has_comparator: bool,
}

fn digits(number: u64) -> Vec<u8> {
    format!("{number:020}").into_bytes()
}

const USUAL: Shape = Shape {
    name: "usual",
    key: digits,
    value_bytes: |_| 1024,
    mean_bytes: 1044,
    compression_ratio: 1.0,
    order: Order::Random,
    is_hot: false,
    deletes: false,
    is_held: false,
    has_comparator: false,
};

const SHAPES: &[Shape] = &[
    USUAL,
    Shape {
        name: "long-prefixes",
        key: |number| format!("/tenants/{:0100}/objects/{number:020}", number / 50_000).into_bytes(),
        mean_bytes: 1162,
        ..USUAL
    },
    Shape {
        name: "binary-keys",
        key: |number| (number << 24 | 0xff_00ff).to_be_bytes().into(),
        mean_bytes: 1032,
        ..USUAL
    },
    Shape { name: "compressible", compression_ratio: 0.25, ..USUAL },
    Shape {
        name: "mixed-sizes",
        // Each size from 10 bytes to 1 MiB is as probable as its double.
        value_bytes: |random| (10.0 * (LONGEST_VALUE_BYTES as f64 / 10.0).powf(random.fraction())) as usize,
        mean_bytes: 90_000,
        ..USUAL
    },
    Shape { name: "tiny", value_bytes: |_| 10, mean_bytes: 30, ..USUAL },
    Shape { name: "ascending", order: Order::Ascending, ..USUAL },
    Shape { name: "descending", order: Order::Descending, ..USUAL },
    Shape { name: "hot", is_hot: true, ..USUAL },
    Shape { name: "deleted-ranges", deletes: true, ..USUAL },
    Shape { name: "held-cursor", is_held: true, ..USUAL },
    Shape { name: "comparator", has_comparator: true, ..USUAL },
];

/// The order of bytes, by a function that the store knows nothing of.
#[derive(Debug)]
struct ByFunction;

impl Comparator for ByFunction {
    fn name(&self) -> &str {
        "of this example"
    }

    fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
        left.cmp(right)
    }
}

fn main() -> Result<(), AnyError> {
    let arguments = Arguments::parse();
    println!(
        "{:16}{:10}{:>9}{:>9}{:>12}{:>11}{:>8}",
        "shape", "store", "put", "get", "range of 100", "overwrite", "space"
    );
    for shape in
        SHAPES.iter().filter(|shape| arguments.shapes.is_empty() || arguments.shapes.contains(&shape.name.into()))
    {
        let keys = (arguments.megabytes * 1_000_000 / shape.mean_bytes).max(2 * DELETED_TOGETHER);
        for name in arguments.stores.iter().filter(|name| !shape.has_comparator || *name == "slmdb") {
            let directory = arguments.db.join(name);
            let footing = Footing {
                memory_budget_bytes: 256 << 20,
                write_buffer_bytes: 64 << 20,
                data_bytes: keys * shape.mean_bytes,
                keys,
                compression: footing::Compression::Lz4,
                memory_limit_bytes: None,
            };
            let opener = if shape.has_comparator {
                let options = Options::default().compression(Compression::Lz4).comparator(ByFunction);
                Box::new(SlmOpener::new(name.clone(), &directory, options))
            } else {
                StoreSpec::parse(name)?.opener(&directory, &arguments.db.join("pool"), &footing)?
            };
            let store = opener.open(Which::Fresh, false)?;
            let measured = Bench { shape, keys, store: &*store, directory: &directory }.run()?;
            println!("{:16}{name:10}{measured}", shape.name);
            store.close()?;
            std::fs::remove_dir_all(&directory)?;
        }
    }
    Ok(())
}

struct Bench<'b> {
    shape: &'b Shape,
    keys: u64,
    store: &'b dyn Store,
    directory: &'b Path,
}

impl Bench<'_> {
    /// The columns of a line.
    fn run(&self) -> Result<String, AnyError> {
        let mut values = Values::new(LONGEST_VALUE_BYTES, self.shape.compression_ratio, 1);
        let (mut random, mut live_bytes) = (Random::new(2), 0);
        let order = Permutation::new(self.keys, 3);
        let put = self.timed(self.keys, |position| {
            let number = match self.shape.order {
                Order::Random => order.at(position),
                Order::Ascending => position,
                Order::Descending => self.keys - 1 - position,
            };
            let (key, value) = ((self.shape.key)(number), values.value((self.shape.value_bytes)(&mut random)));
            live_bytes += (key.len() + value.len()) as u64;
            Ok(self.store.put(&key, value)?)
        })?;
        if !self.shape.is_held {
            return self.read_and_overwrite(put, live_bytes, &mut values);
        }
        // In a thread of its own: LMDB's have one transaction each.
        let mut line = Ok(String::new());
        self.store.walk(Start::First, &mut |_| {
            let work = || self.read_and_overwrite(put, live_bytes, &mut values);
            line = std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"));
            Ok(false)
        })?;
        line
    }

    fn read_and_overwrite(&self, put: f64, mut live_bytes: u64, values: &mut Values) -> Result<String, AnyError> {
        let mut random = Random::new(4);
        if self.shape.deletes {
            for first in (0..self.keys).step_by(DELETED_TOGETHER as usize) {
                let end = (first + DELETED_TOGETHER * 3 / 10).min(self.keys);
                (first..end).try_for_each(|number| self.store.delete(&(self.shape.key)(number)))?;
            }
            live_bytes = live_bytes * 7 / 10;
        }
        let is_deleted = |number: u64| self.shape.deletes && number % DELETED_TOGETHER < DELETED_TOGETHER * 3 / 10;
        self.store.flush()?;
        wait_until_idle(QUIET, QUIET_AT_MOST);
        // Once to have all in memory, and once to be measured.
        let mut get = 0.0;
        for _ in 0..2 {
            get = self.timed(GETS, |_| {
                let number = self.chosen(&mut random);
                let is_found = self.store.get(&(self.shape.key)(number), &mut look_at)?;
                if is_found == is_deleted(number) { Err(format!("key {number} is wrong").into()) } else { Ok(()) }
            })?;
        }
        let mut range = 0.0;
        for _ in 0..2 {
            range = self.timed(RANGES, |_| {
                let number = random.below(self.keys - RANGE_KEYS as u64);
                let mut seen = 0;
                self.store.walk(Start::At(&(self.shape.key)(number)), &mut |entry| {
                    seen += 1;
                    look_at(entry.value()?);
                    Ok(seen < RANGE_KEYS)
                })?;
                Ok(())
            })?;
        }
        let overwrite = self.timed(self.keys / 2, |_| {
            let number = self.chosen(&mut random);
            Ok(self.store.put(&(self.shape.key)(number), values.value((self.shape.value_bytes)(&mut random)))?)
        })?;
        self.store.flush()?;
        wait_until_idle(QUIET, QUIET_AT_MOST);
        let space = space_bytes(self.directory).unwrap_or(0) as f64 / live_bytes as f64;
        Ok(format!("{put:9.2}{get:9.2}{range:12.1}{overwrite:11.2}{space:8.2}"))
    }

    fn chosen(&self, random: &mut Random) -> u64 {
        if self.shape.is_hot && random.below(10) > 0 {
            // Every hundredth key.
            return random.below(self.keys / 100) * 100;
        }
        random.below(self.keys)
    }

    /// Microseconds for each of so many.
    fn timed(&self, count: u64, mut work: impl FnMut(u64) -> Result<(), AnyError>) -> Result<f64, AnyError> {
        let began = Instant::now();
        (0..count).try_for_each(&mut work)?;
        Ok(began.elapsed().as_secs_f64() * 1e6 / count as f64)
    }
}

/// Has a byte of each page of it, as the benchmarks do.
fn look_at(value: &[u8]) {
    value.iter().step_by(4096).chain(value.last()).for_each(|byte| _ = std::hint::black_box(*byte));
}
