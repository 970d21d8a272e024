//! SIGKILL while threads race for the same keys: what was won stays won, what was refused was there, and the log has no gap
//! where places stayed void.
//!
//! The writer is this test program itself, started again as a child. Its threads insert the same keys in the same order,
//! each its own value, and note in a file whom a key was given to, and how far each of them has come. A thread updates a
//! key of its own as it goes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Home, Model, On, Random, assert_same, assert_verified, budget, contents, wait_until};
use slmdb::Db;

const THREADS: u64 = 4;

/// Keys that a round can be about; a child that gets there waits to be killed.
const KEYS: u64 = 1 << 16;

fn key(round: u64, number: u64) -> Vec<u8> {
    format!("key/{round:04}/{number:06}").into_bytes()
}

/// What a thread gives to a key: at most 340 bytes that begin with the thread.
fn value(thread: u64, round: u64, number: u64) -> Vec<u8> {
    let mut random = Random(thread << 48 | round << 32 | number);
    let length = random.below(340) as usize;
    [vec![thread as u8], random.bytes(length)].concat()
}

fn own_key(thread: u64) -> String {
    format!("own/{thread}")
}

/// Where the notes are: of each thread how many keys it has seen taken and how many updates it has been told of; then, a
/// byte a key, who won it (0: nobody has said so).
fn seen_at(thread: u64) -> u64 {
    thread * 16
}

fn winner_at(number: u64) -> u64 {
    THREADS * 16 + number
}

/// The child: races until it is killed. Does nothing when the tests are run as usual.
#[test]
fn child_that_races_until_it_is_killed() {
    let Ok(plan) = std::env::var("SLMDB_CONDITIONAL_KILL_TEST") else { return };
    let mut words = plan.split('|');
    let mut next = || words.next().unwrap();
    let (store, pool, notes) = (next(), next(), File::options().write(true).open(next()).unwrap());
    let (memtable_bytes, round) = (next().parse().unwrap(), next().parse().unwrap());
    let options = crate::common::options()
        .memtable_bytes(memtable_bytes)
        .pool_initial_bytes(4 << 20)
        .pool_growth_bytes(1 << 20)
        .pool_maximum_bytes(4 << 30);
    let options = if pool.is_empty() { options } else { options.medium(slmdb::Medium::Emulated { path: pool.into() }) };
    let db = options.open(store).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, notes) = (&db, &notes);
            scope.spawn(move || race(db, notes, thread, round));
        }
    });
    std::thread::sleep(Duration::from_secs(600));
}

fn race(db: &Db, notes: &File, thread: u64, round: u64) {
    let own_key = own_key(thread);
    for number in 0..KEYS {
        if db.insert_if_absent(key(round, number), value(thread, round, number)).unwrap() {
            notes.write_all_at(&[thread as u8 + 1], winner_at(number)).unwrap();
        }
        notes.write_all_at(&(number + 1).to_le_bytes(), seen_at(thread)).unwrap();
        // In its first round a thread finds its own key absent, so inserts it.
        let counter = ((round << 32) | (number + 1)).to_le_bytes();
        if !db.update_if_present(&own_key, counter).unwrap() {
            assert!(db.insert_if_absent(&own_key, counter).unwrap());
        }
        notes.write_all_at(&counter, seen_at(thread) + 8).unwrap();
    }
}

struct Parent {
    home: Home,
    known: Model,
    /// Of each thread the counter in its own key.
    counters: Vec<u64>,
    inserted: u64,
}

impl Parent {
    fn round(&mut self, round: u64, random: &mut Random, context: &str) {
        let notes = self.home.store().with_file_name("notes");
        std::fs::write(&notes, vec![0; winner_at(KEYS) as usize]).unwrap();
        let pool = self.home.pool();
        let plan = [
            self.home.store().to_str().unwrap().to_string(),
            pool.as_deref().and_then(Path::to_str).unwrap_or("").to_string(),
            notes.to_str().unwrap().to_string(),
            // The largest are never full: what is recovered of them is copied.
            [4 << 10, 32 << 10, 16 << 20][random.below(3) as usize].to_string(),
            round.to_string(),
        ];
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "recovery::conditional_kill::child_that_races_until_it_is_killed", "--nocapture"])
            .env("SLMDB_CONDITIONAL_KILL_TEST", plan.join("|"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Some kills hit the opening; most hit the race, however long this machine takes to get there.
        let hits_opening = random.one_in(4);
        if !hits_opening {
            wait_until("a race", || std::fs::read(&notes).unwrap().iter().any(|&byte| byte != 0));
        }
        std::thread::sleep(Duration::from_micros(random.below(if hits_opening { 25_000 } else { 60_000 })));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert!(status.code().is_none(), "{context}: the child ended by itself: {status}");
        if self.home.store().join("MANIFEST").exists() {
            self.check(round, &std::fs::read(&notes).unwrap(), context);
        }
    }

    fn check(&mut self, round: u64, notes: &[u8], context: &str) {
        let number_at = |at: u64| u64::from_le_bytes(notes[at as usize..][..8].try_into().unwrap());
        let db = self.home.open();
        let mut found = contents(&db).unwrap();
        for (thread, known) in self.counters.iter_mut().enumerate() {
            let thread = thread as u64;
            let acknowledged = number_at(seen_at(thread) + 8).max(*known);
            let counter = found.remove(own_key(thread).as_bytes());
            let counter = counter.map_or(0, |counter| u64::from_le_bytes(counter.try_into().unwrap()));
            // One that was under way may be there.
            let possible = [acknowledged, acknowledged + 1, round << 32 | 1];
            assert!(counter >= acknowledged && possible.contains(&counter), "{context}: {thread} has {counter:x}");
            *known = counter;
        }
        let seen = (0..THREADS).map(|thread| number_at(seen_at(thread))).max().unwrap_or(0);
        // Beyond what was seen each thread may have one under way.
        for number in 0..(seen + 1).min(KEYS) {
            let winner = notes[winner_at(number) as usize];
            let there = found.get(&key(round, number));
            let Some(there) = there else {
                assert!(
                    number == seen && winner == 0,
                    "{context}: key {number} is missing, won by {winner}, of {seen}"
                );
                continue;
            };
            let thread = u64::from(there[0]);
            assert_eq!(*there, value(thread, round, number), "{context}: key {number}");
            assert!(winner == 0 || thread + 1 == u64::from(winner), "{context}: {winner} won {number}, not {thread}");
            self.known.insert(key(round, number), there.clone());
            self.inserted += 1;
        }
        assert_same(&found, &self.known, context);
        assert_verified(&db, context);
    }
}

fn kill_rounds(on: On, seed: u64, rounds: u64) {
    let mut random = Random(seed);
    let counters = vec![0; THREADS as usize];
    let mut parent = Parent { home: Home::new(on), known: Model::new(), counters, inserted: 0 };
    for round in 0..rounds {
        parent.round(round, &mut random, &format!("{on:?}, seed {seed}, round {round}"));
    }
    let sequences = parent.home.open().stats().last_sequence_number;
    println!("{on:?}: {rounds} kills, {} keys won, {sequences} sequence numbers", parent.inserted);
    assert!(parent.inserted > 0, "the child never came to write");
}

#[test]
fn what_was_won_stays_won_through_kills_on_dram() {
    kill_rounds(On::Dram, 1, 20 * budget());
}

#[test]
fn what_was_won_stays_won_through_kills_on_emulated() {
    kill_rounds(On::Emulated, 2, 20 * budget());
}
