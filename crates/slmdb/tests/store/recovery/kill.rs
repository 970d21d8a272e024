//! SIGKILL at random moments, with several threads writing, on every medium: nothing acknowledged is lost, of what was
//! under way each operation is there wholly or not at all, nothing else appears, and `verify` is clean.
//!
//! The writer is this test program itself, started again as a child. Each of its threads owns the keys of one prefix and
//! applies operations that follow from the thread's number and a counter alone; before each operation it has noted, in a
//! file, how many it has had acknowledged. So the parent can tell what must be there, whatever moment the kill hit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Home, MEDIA, Model, On, Random, assert_same, assert_verified, budget, contents, dax_device, dax_directory,
};
use slmdb::{CompactionOptions, Db, LinkPolicy, WriteBatch};

const THREADS: u64 = 3;
const KEYS: u64 = 300;
/// A child that has written nothing after this long never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// What operation `number` of `thread` does: a batch of puts (with values) and deletes.
fn operation(thread: u64, number: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random(thread << 48 | number);
    let changes = if random.one_in(10) { 1 + random.below(20) } else { 1 };
    (0..changes)
        .map(|_| {
            let key = format!("{thread}/{:04}", random.below(KEYS)).into_bytes();
            let length = if random.one_in(200) { random.below(100_000) } else { random.below(300) };
            let value = (!random.one_in(4)).then(|| vec![random.next() as u8; length as usize]);
            (key, value)
        })
        .collect()
}

fn apply(model: &mut Model, thread: u64, number: u64) {
    for (key, value) in operation(thread, number) {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

fn write(db: &Db, thread: u64, number: u64) {
    let operation = operation(thread, number);
    match &operation[..] {
        [(key, Some(value))] => db.put(key, value),
        [(key, None)] => db.delete(key),
        many => {
            let mut batch = WriteBatch::new();
            for (key, value) in many {
                match value {
                    Some(value) => batch.put(key, value).unwrap(),
                    None => batch.delete(key).unwrap(),
                }
            }
            db.write(&batch)
        }
    }
    .unwrap();
}

/// The child: writes until it is killed. Does nothing when the tests are run as usual.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(plan) = std::env::var("SLMDB_KILL_TEST") else { return };
    let mut words = plan.split('|');
    let mut next = || words.next().unwrap();
    let on = next();
    let on = MEDIA.into_iter().chain([On::DaxDevice]).find(|known| format!("{known:?}") == on).unwrap();
    let (store, pool, acknowledged, memtable_bytes) = (next(), next(), next(), next().parse().unwrap());
    let compaction = CompactionOptions {
        threads: next().parse().unwrap(),
        table_file_bytes: next().parse().unwrap(),
        live_key_threshold: 0.95,
        ..crate::common::eager_compaction()
    };
    let first: Vec<u64> = next().split(',').map(|number| number.parse().unwrap()).collect();
    // One size in three with persisted links, which the parent's own openings then follow, and copy away.
    let links = LinkPolicy::ALL[usize::from(memtable_bytes == 64 << 10)];
    let options = crate::common::options()
        .memtable_bytes(memtable_bytes)
        .advanced(|advanced| advanced.checkpoint_entries(500))
        .advanced(|advanced| advanced.memtable_links(links))
        .compaction(compaction)
        .pool_initial_bytes(4 << 20)
        .pool_growth_bytes(1 << 20)
        .pool_maximum_bytes(4 << 30)
        .medium(on.medium((!pool.is_empty()).then(|| pool.into())));
    let db = options.open(store).unwrap();
    let acknowledged = File::options().write(true).open(acknowledged).unwrap();
    std::thread::scope(|scope| {
        for (thread, &first) in first.iter().enumerate() {
            let (db, acknowledged) = (db.clone(), &acknowledged);
            scope.spawn(move || {
                for number in first.. {
                    write(&db, thread as u64, number);
                    acknowledged.write_all_at(&(number + 1).to_le_bytes(), thread as u64 * 8).unwrap();
                }
            });
        }
        scope.spawn(|| meddle(&db, first.iter().sum()));
    });
}

/// Flushes, compacts, and holds snapshots, which keep files that were compacted away.
fn meddle(db: &Db, seed: u64) {
    let mut random = Random(seed);
    let mut snapshots = Vec::new();
    loop {
        match random.below(8) {
            0 => db.flush().unwrap(),
            1 => db.compact_range::<&[u8]>(..).unwrap(),
            2 => {
                let thread = random.below(THREADS);
                db.compact_range(format!("{thread}/")..format!("{thread}/{:04}", random.below(KEYS))).unwrap();
            }
            3 => snapshots.push(db.snapshot().unwrap()),
            4 => drop(snapshots.pop()),
            _ => std::thread::sleep(Duration::from_millis(random.below(10))),
        }
    }
}

struct Parent {
    home: Home,
    /// Per thread: how many operations are in the model, and the model.
    known: Vec<(u64, Model)>,
}

impl Parent {
    fn round(&mut self, random: &mut Random, context: &str) {
        let acknowledged = self.home.store().with_file_name("acknowledged");
        let counts: Vec<u8> = self.known.iter().flat_map(|(count, _)| count.to_le_bytes()).collect();
        std::fs::write(&acknowledged, &counts).unwrap();
        let first: Vec<String> = self.known.iter().map(|(count, _)| count.to_string()).collect();
        let pool = self.home.pool();
        let plan = [
            format!("{:?}", self.home.on),
            self.home.store().to_str().unwrap().to_string(),
            pool.as_deref().and_then(Path::to_str).unwrap_or("").to_string(),
            acknowledged.to_str().unwrap().to_string(),
            [8 << 10, 64 << 10, 512 << 10][random.below(3) as usize].to_string(),
            (1 + random.below(3)).to_string(),
            [1 << 10, 4 << 10, 32 << 10][random.below(3) as usize].to_string(),
            first.join(","),
        ];
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "recovery::kill::child_that_writes_until_it_is_killed", "--nocapture"])
            .env("SLMDB_KILL_TEST", plan.join("|"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Some kills hit the opening, where what the last one left is recovered; most hit the work after it, however long
        // this machine takes to get there.
        let hits_opening = random.one_in(4);
        let since = Instant::now();
        while !hits_opening && std::fs::read(&acknowledged).unwrap() == counts && since.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let at_most_us = if hits_opening { 25_000 } else { 123_000 };
        std::thread::sleep(Duration::from_micros(random.below(at_most_us)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.code().is_none(), "{context}: the child ended by itself: {status}");
        let acknowledged = std::fs::read(&acknowledged).unwrap();
        self.check(&acknowledged, random, context);
    }

    fn check(&mut self, acknowledged: &[u8], random: &mut Random, context: &str) {
        let read_only_first = random.one_in(3);
        if !self.home.store().join("MANIFEST").exists() {
            return; // killed before there was a store: nothing was acknowledged
        }
        if read_only_first {
            match self.home.options().read_only(true).open(self.home.store()) {
                Ok(db) => {
                    self.check_contents(&contents(&db).unwrap(), acknowledged, context);
                    assert_verified(&db, context);
                }
                // A creation that was cut short can only be finished by a writer.
                Err(error) => assert!(self.known.iter().all(|(count, _)| *count == 0), "{context}: {error}"),
            }
        }
        let db = self.home.open();
        self.check_contents(&contents(&db).unwrap(), acknowledged, context);
        assert_verified(&db, context);
        if random.one_in(2) {
            db.close().unwrap();
        }
    }

    /// Each thread's keys must be as after all its acknowledged operations, or as after one more.
    fn check_contents(&mut self, found: &Model, acknowledged: &[u8], context: &str) {
        let mut accounted = 0;
        for (thread, (count, model)) in self.known.iter_mut().enumerate() {
            let acknowledged = u64::from_le_bytes(acknowledged[thread * 8..][..8].try_into().unwrap());
            while *count < acknowledged {
                apply(model, thread as u64, *count);
                *count += 1;
            }
            let prefix = format!("{thread}/").into_bytes();
            let end = format!("{thread}0").into_bytes();
            let mine: Model = found.range(prefix..end).map(|(key, value)| (key.clone(), value.clone())).collect();
            if mine != *model && *count == acknowledged {
                apply(model, thread as u64, *count);
                *count += 1;
            }
            assert_same(&mine, model, &format!("{context}, thread {thread}, operation {count}"));
            accounted += mine.len();
        }
        assert_eq!(found.len(), accounted, "{context}: keys that nobody wrote");
    }
}

fn kill_rounds(on: On, seed: u64, rounds: u64) {
    let mut random = Random(seed);
    let mut parent = Parent { home: Home::new(on), known: (0..THREADS).map(|_| (0, Model::new())).collect() };
    for round in 0..rounds {
        parent.round(&mut random, &format!("{on:?}, seed {seed}, round {round}"));
    }
    let operations: u64 = parent.known.iter().map(|(count, _)| count).sum();
    println!("{on:?}: {rounds} kills, {operations} operations");
    assert!(operations > 0, "the child never came to write");
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_on_dram() {
    kill_rounds(On::Dram, 1, 25 * budget());
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_on_emulated() {
    kill_rounds(On::Emulated, 2, 25 * budget());
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_on_dax() {
    if dax_directory().is_none() {
        return println!("SKIPPED: SLMDB_TEST_DAX is not set; `scripts/dax-machine test` sets it");
    }
    kill_rounds(On::Dax, 3, 25 * budget());
}

#[test]
fn nothing_acknowledged_is_lost_by_kills_on_dax_device() {
    if dax_device().is_none() {
        return println!("SKIPPED: SLMDB_TEST_DAX_DEVICE is not set; `scripts/dax-machine test` sets it");
    }
    kill_rounds(On::DaxDevice, 4, 10 * budget());
}
