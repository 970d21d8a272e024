//! How fast a MemTable takes writes and comes back: for docs/lab/2026-11-media-and-arenas.md.
//!
//! `cargo run --release -p slmdb-structures --example memtable_speed -- [write|open|all] [ns added a line]`
//!
//! The medium is `Emulated` on anonymous memory; the latency is spun for each line written back, at the fence.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Emulated, ExtentKind, FlushCounters, Medium, Pool, PoolOptions};
use slmdb_structures::memtable::{ExpectedSequence, LinkPolicy, MemTable, MemTableOptions, Payload, read};

const UUID: [u8; 16] = [7; 16];
const ARENA_BYTES: u64 = 64 << 20;
/// Rounds of so many writes; the best one counts, because others may use the machine.
const ROUNDS: usize = 60;
const WRITES: u64 = 4_000;
/// With an added latency, so that a round is still shorter than a turn on the processor.
const SLOW_WRITES: u64 = 300;

/// `Emulated`, which spins for every line that a fence waits for.
#[derive(Clone)]
struct Slow {
    inner: Emulated,
    line_ns: u64,
}

thread_local!(static LINES: Cell<u64> = const { Cell::new(0) });

impl Medium for Slow {
    const PERSISTENT: bool = true;

    fn flush(&self, start: *const u8, length_bytes: usize) {
        self.inner.flush(start, length_bytes);
        if self.line_ns > 0 && length_bytes > 0 {
            let lines = (start.addr() + length_bytes - 1) / 64 - start.addr() / 64 + 1;
            LINES.set(LINES.get() + lines as u64);
        }
    }

    fn fence(&self) {
        self.inner.fence();
        let wait = Duration::from_nanos(LINES.replace(0) * self.line_ns);
        let start = Instant::now();
        while start.elapsed() < wait {
            std::hint::spin_loop();
        }
    }

    fn counters(&self) -> FlushCounters {
        self.inner.counters()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"user000000000000";
    let mut rest = number % 1_000_000_000_000;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn pool(line_ns: u64, arenas: u64) -> Arc<Pool<Slow>> {
    let bytes = (arenas + 1) * (ARENA_BYTES + (1 << 20));
    let options = PoolOptions { initial_bytes: bytes, growth_bytes: 1 << 20, maximum_bytes: 4 * bytes, uuid: UUID };
    Arc::new(Pool::anonymous(Slow { inner: Emulated::new(), line_ns }, &options).expect("memory for a pool"))
}

fn arena(pool: &Arc<Pool<Slow>>, owner: u32) -> Arena<Slow> {
    let extent = pool.allocate_extent(ExtentKind::Arena, ARENA_BYTES, owner).expect("room in the pool");
    Arena::in_pool(pool.clone(), extent)
}

fn existing_arena(pool: &Arc<Pool<Slow>>) -> Option<Arena<Slow>> {
    let extent = pool.extents().into_iter().find(|extent| extent.kind == ExtentKind::Arena)?;
    Some(Arena::in_pool(pool.clone(), extent))
}

fn with(links: LinkPolicy) -> MemTableOptions {
    MemTableOptions { links, ..MemTableOptions::default() }
}

/// Fills a MemTable from several threads; returns writes, time and what was flushed.
fn write(
    pool: &Arc<Pool<Slow>>,
    arena: Arena<Slow>,
    links: LinkPolicy,
    threads: u64,
    value_bytes: usize,
) -> (u64, Duration, FlushCounters) {
    let memtable = MemTable::create(arena, 1, UUID, &with(links));
    let next = Mutex::new(1_u64);
    let limit = if pool.medium().line_ns == 0 { WRITES } else { SLOW_WRITES };
    let before = pool.medium().counters();
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (memtable, next) = (&memtable, &next);
            scope.spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (thread << 32));
                let value = vec![b'v'; value_bytes];
                let mut payload = Payload::new();
                loop {
                    payload.clear();
                    payload.put(&key(random.next()), &value).expect("within the limits");
                    let (place, sequence) = {
                        let mut next = next.lock().expect("nobody panics");
                        if *next > limit {
                            return;
                        }
                        *next += 1;
                        (
                            memtable.try_reserve(payload.len_bytes(), payload.count()).expect("within the arena"),
                            *next - 1,
                        )
                    };
                    memtable.fill(place, &payload, sequence, 0);
                }
            });
        }
    });
    let took = start.elapsed();
    let after = pool.medium().counters();
    let flushed = FlushCounters {
        persists: after.persists - before.persists,
        lines_flushed: after.lines_flushed - before.lines_flushed,
        media_bytes: after.media_bytes - before.media_bytes,
        ..FlushCounters::default()
    };
    (limit, took, flushed)
}

fn measure_writes(line_ns: u64, links: LinkPolicy) {
    for value_bytes in [128, 1024] {
        for threads in [1, 2] {
            let pool = pool(line_ns, 1);
            let mut best = None;
            for round in 0..ROUNDS {
                let arena = existing_arena(&pool).unwrap_or_else(|| arena(&pool, 1));
                let (writes, took, flushed) = write(&pool, arena, links, threads, value_bytes);
                // The first touches every page.
                if round > 0 && best.as_ref().is_none_or(|&(_, least, _)| took < least) {
                    best = Some((writes, took, flushed));
                }
            }
            let Some((writes, took, flushed)) = best else { continue };
            println!(
                "write {links:?} {value_bytes} B, {threads} writers, {line_ns} ns/line: {:.0} ns a write of one thread, \
                 {:.2} fences, {:.2} lines",
                took.as_nanos() as f64 * threads as f64 / writes as f64,
                flushed.persists as f64 / writes as f64,
                flushed.lines_flushed as f64 / writes as f64,
            );
        }
    }
}

/// What this thread has spent on a processor. (The clock also counts what others spend on it.)
fn processor_time() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(spent.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Fills an arena with what `batch` makes of a random generator.
fn fill_up(arena: Arena<Slow>, links: LinkPolicy, mut batch: impl FnMut(&mut Random, &mut Payload)) -> u64 {
    let memtable = MemTable::create(arena, 1, UUID, &with(links));
    let (mut random, mut payload, mut next) = (Random(88_172_645_463_325_252), Payload::new(), 1);
    loop {
        payload.clear();
        batch(&mut random, &mut payload);
        let Some(place) = memtable.try_reserve(payload.len_bytes(), payload.count()) else { return next - 1 };
        memtable.fill(place, &payload, next, 0);
        next += u64::from(payload.count());
    }
}

type Batch = fn(&mut Random, &mut Payload);

fn measure_opens(links: LinkPolicy) {
    let shapes: [(&str, Batch); 3] = [
        ("20-byte keys, no values, one a record", |random, payload| {
            let mut long = [b'0'; 20];
            long[4..].copy_from_slice(&key(random.next()));
            payload.put(&long, b"").expect("within the limits");
        }),
        ("3-byte keys, no values, one a record", |random, payload| {
            payload.put(&random.next().to_be_bytes()[..3], b"").expect("within the limits");
        }),
        ("4-byte keys, no values, 1000 a record", |random, payload| {
            for _ in 0..1000 {
                payload.put(&random.next().to_be_bytes()[..4], b"").expect("within the limits");
            }
        }),
    ];
    for (shape, batch) in shapes {
        let pool = pool(0, 1);
        let entries = fill_up(arena(&pool, 1), links, batch);
        let mut best = (Duration::MAX, Duration::MAX);
        for _ in 0..3 {
            let arena = existing_arena(&pool).expect("just filled");
            let start = processor_time();
            let read = read(arena, 1, UUID, &KeyOrder::Bytewise, ExpectedSequence::Exactly(1), None);
            let read = read.expect("what was written");
            let took_reading = processor_time() - start;
            let replayed = read.build().expect("what was written");
            best = best.min((processor_time() - start, took_reading));
            assert_eq!(replayed.memtable.entries(), entries);
        }
        println!(
            "open {links:?}, {shape}: {entries} entries in {:.0} ms ({:.0} reading), {:.1} M/s",
            best.0.as_secs_f64() * 1e3,
            best.1.as_secs_f64() * 1e3,
            entries as f64 / best.0.as_secs_f64() / 1e6
        );
    }
}

fn main() {
    let what = std::env::args().nth(1).unwrap_or_else(|| "all".into());
    let line_ns = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(0);
    if what != "open" {
        LinkPolicy::ALL.into_iter().for_each(|links| measure_writes(line_ns, links));
    }
    if what != "write" {
        LinkPolicy::ALL.into_iter().for_each(measure_opens);
    }
}
