//! The commands of cases.
//!
//! | command | |
//! |---|---|
//! | `open SETTING=VALUE…` | opens the store, on a new machine at first. Settings stay for later openings |
//! | `new machine` | forgets all that was, settings too |
//! | `close`, `kill`, `power cut` | the store's end; the next opening finds what that leaves |
//! | `put KEYS TEXT [BYTES]` | a put for each key, with a value that begins with the text, of so many bytes |
//! | `delete KEYS` | a delete for each key |
//! | `batch put KEYS TEXT, delete KEYS, …` | all of it in one batch |
//! | `fill TEXT BYTES [at least N]` | puts new keys until one is refused |
//! | `delete filled FROM-TO of N` | deletes these of each N keys that `fill` has put |
//! | `give back FROM-TO of N` | the same, and whenever one is refused, a compaction of everything comes first |
//! | `scan KEYS by N` | range queries of so many keys, one after the other |
//! | `snapshot`, `drop snapshot` | there is one at most |
//! | `sync`, `flush`, `compact [KEYS]` | |
//! | `await checkpoint` | until an index checkpoint is taken that was not there when the store was opened, or this was last asked |
//! | `get KEY`, `get KEY of snapshot` | the text that its value begins with |
//! | `contents`, `contents of snapshot` | all entries, by their text |
//! | `files` | the table files, and what of each is live |
//! | `logs` | how many there are in the directory (on `dram`) |
//! | `tables` | the table files that are in the directory, whether the MANIFEST names them or not |
//! | `compactions` | those that have ended since this was last asked, once the store is at rest: by what, of what, into what |
//! | `recovered` | what the opening has found: how many entries in table files and in logs |
//! | `events` | what listeners were told of space and of failures since this was last asked, each kind once |
//! | `verify` | |
//! | `disk BYTES`, `disk full`, `disk plenty` | the size of the disk; `full` is as much as is used |
//! | `fail OPERATION: FAILURE [for good]`, `heal` | makes the next operation fail whose line begins so |
//! | `flip TEXT`, `cut EXTENSION BYTES`, `remove EXTENSION` | damages the files: the byte where a value begins; the last file |
//! | `repair` | |
//!
//! Keys are numbers and ranges of them: `7`, `1-20`, `1-4,9`. Bytes may end with `k` or `m`. What fails says the kind of its error.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slmdb::{
    CompactionOptions, CompactionPolicy, Compression, Db, Error, ErrorKind, Event, Medium, Snapshot, WriteBatch,
};
use slmdb_env::{DaxDevice, Env};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::common;

const STORE: &str = "/db";
const DEVICE: &str = "/dev/dax0.0";
const PLENTY_BYTES: u64 = 1 << 30;
/// A store at which nothing has happened for so long is at rest.
const REST: Duration = Duration::from_millis(250);
/// What is expected comes before so much time has gone, on the slowest machine.
const LATEST: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Script {
    env: Option<MemoryEnv>,
    db: Option<Db>,
    snapshot: Option<Snapshot>,
    settings: BTreeMap<String, String>,
    told: Arc<Mutex<Vec<Event>>>,
    /// How many compactions, and how many events, were asked for already.
    compactions_said: usize,
    events_said: usize,
    /// How many index checkpoints had been taken by then.
    checkpoints_seen: usize,
    /// How many keys `fill` has put.
    filled: u64,
}

/// Numbers that `fill` begins with.
const FILLED_FROM: u64 = 50_000;

fn key(number: u64) -> String {
    format!("{number:05}")
}

fn number(key: &[u8]) -> u64 {
    std::str::from_utf8(key).unwrap().parse().unwrap()
}

fn value(text: &str, bytes: usize) -> String {
    text.to_string() + &".".repeat(bytes.saturating_sub(text.len()))
}

fn bytes(text: &str) -> u64 {
    let (digits, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "k" => 10,
        "m" => 20,
        _ => panic!("bytes: {text}"),
    };
    digits.parse::<u64>().unwrap() << shift
}

fn bounds(text: &str) -> (u64, u64) {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    (from.parse().unwrap(), to.parse().unwrap())
}

fn numbers(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.split(',').map(bounds).flat_map(|(from, to)| from..=to)
}

/// `1-4, 7`.
fn ranges(numbers: &[u64]) -> String {
    let chunks = numbers.chunk_by(|one, next| one + 1 == *next);
    let range = |chunk: &[u64]| match chunk {
        [one] => one.to_string(),
        _ => format!("{}-{}", chunk[0], chunk[chunk.len() - 1]),
    };
    chunks.map(range).collect::<Vec<_>>().join(", ")
}

/// Numbers of files, in order.
fn list(files: &[u32]) -> String {
    if files.is_empty() {
        return "nothing".into();
    }
    let mut files = files.to_vec();
    files.sort_unstable();
    files.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

fn said<T>(result: slmdb::Result<T>) -> String {
    result.map_or_else(|error| format!("{:?}\n", error.kind()), |_| String::new())
}

fn got(found: slmdb::Result<Option<slmdb::Slice>>) -> String {
    match found {
        Ok(Some(value)) => format!("{}\n", String::from_utf8_lossy(&value).trim_end_matches('.')),
        Ok(None) => "nothing\n".into(),
        Err(error) => said::<()>(Err(error)),
    }
}

/// All entries, by the text that their values begin with.
fn grouped(entries: impl Iterator<Item = slmdb::Result<(Vec<u8>, Vec<u8>)>>) -> slmdb::Result<String> {
    let mut groups: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in entries {
        let (key, value) = entry?;
        let text = String::from_utf8(value).unwrap();
        groups.entry(text.trim_end_matches('.').into()).or_default().push(number(&key));
    }
    if groups.is_empty() {
        return Ok("nothing\n".into());
    }
    Ok(groups.into_iter().map(|(text, numbers)| format!("{text}: {}\n", ranges(&numbers))).collect())
}

impl Script {
    fn env(&self) -> &MemoryEnv {
        self.env.as_ref().unwrap()
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Does it, and returns what it says. `expected`: with what that begins, if it is known.
    pub fn run(&mut self, command: &str, expected: Option<&str>, context: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["new", "machine"] => {
                *self = Script::default();
                String::new()
            }
            ["open", ref settings @ ..] => self.open(settings),
            ["close"] => said(self.db.take().unwrap().close()),
            ["kill"] => self.crash(MemoryEnv::kill),
            ["power", "cut"] => self.crash(MemoryEnv::crash),
            ["put", keys, text] => self.put(keys, text, 0),
            ["put", keys, text, length] => self.put(keys, text, bytes(length)),
            ["delete", "filled", part, "of", all] => {
                self.delete(self.filled(bounds(part), all.parse().unwrap()).into_iter())
            }
            ["give", "back", part, "of", all] => self.give_back(self.filled(bounds(part), all.parse().unwrap())),
            ["delete", keys] => self.delete(numbers(keys)),
            ["batch", ..] => self.batch(&command["batch".len()..]),
            ["fill", text, length] => self.fill(text, bytes(length), 1),
            ["fill", text, length, "at", "least", least] => self.fill(text, bytes(length), least.parse().unwrap()),
            ["scan", keys, "by", count] => self.scan(bounds(keys), count.parse().unwrap()),
            ["snapshot"] => {
                self.snapshot = Some(self.db().snapshot().unwrap());
                String::new()
            }
            ["drop", "snapshot"] => {
                self.snapshot = None;
                String::new()
            }
            ["sync"] => said(self.db().sync()),
            ["flush"] => said(self.db().flush()),
            ["await", "checkpoint"] => self.await_checkpoint(),
            ["compact"] => said(self.db().compact_range::<&[u8]>(..)),
            ["compact", keys] => {
                let (from, to) = bounds(keys);
                said(self.db().compact_range(key(from)..=key(to)))
            }
            ["contents"] => {
                let found = common::contents(self.db());
                found
                    .and_then(|found| grouped(found.into_iter().map(Ok)))
                    .unwrap_or_else(|error| said::<()>(Err(error)))
            }
            ["contents", "of", "snapshot"] => {
                let range = self.snapshot.as_ref().unwrap().iter();
                let owned =
                    range.map(|range| range.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))));
                owned.and_then(grouped).unwrap_or_else(|error| said::<()>(Err(error)))
            }
            ["get", number] => got(self.db().get(key(number.parse().unwrap()))),
            ["get", number, "of", "snapshot"] => got(self.snapshot.as_ref().unwrap().get(key(number.parse().unwrap()))),
            ["files"] => self.files(),
            ["logs"] => format!("{}\n", self.paths().iter().filter(|path| path.ends_with(".arena")).count()),
            ["tables"] => {
                let number = |path: &String| path.strip_suffix(".sst")?.rsplit('/').next()?.parse().ok();
                list(&self.paths().iter().filter_map(number).collect::<Vec<_>>()) + "\n"
            }
            ["compactions"] => self.at_rest(expected, Script::compactions, context),
            ["events"] => self.at_rest(expected, Script::events, context),
            ["recovered"] => {
                let stats = self.db().stats();
                let in_tables: u64 = self.db().table_files().iter().map(|file| file.entries).sum();
                format!("{in_tables} in table files, {} in logs\n", stats.memtable_entries)
            }
            ["verify"] => match self.db().verify(&mut |_| ()) {
                Ok(report) if report.is_clean() => "clean\n".into(),
                Ok(report) => format!("findings: {}\n", report.findings.len()),
                Err(error) => said::<()>(Err(error)),
            },
            ["disk", size] => {
                let used_bytes = || {
                    let entries = self.env().list_directory(Path::new(STORE)).unwrap();
                    entries.iter().map(|entry| entry.length_bytes).sum()
                };
                let size_bytes = match size {
                    "full" => used_bytes(),
                    "plenty" => PLENTY_BYTES,
                    size => bytes(size),
                };
                self.machine().set_capacity(size_bytes);
                String::new()
            }
            ["fail", ..] => self.fail(&command["fail ".len()..]),
            ["heal"] => {
                self.env().clear_failures();
                String::new()
            }
            ["flip", text] => self.flip(text),
            ["cut", extension, length] => {
                let path = self.last_file(extension);
                let mut content = self.env().content(&path).unwrap();
                content.truncate(bytes(length) as usize);
                self.env().set_content(&path, &content);
                String::new()
            }
            ["remove", extension] => {
                let path = self.last_file(extension);
                self.env().remove_file(Path::new(&path)).unwrap();
                String::new()
            }
            ["repair"] => {
                let report = self.options().repair(STORE, &mut |_| ());
                let told = |report: slmdb::RepairReport| format!("losses: {}\n", report.losses.len());
                report.map_or_else(|error| said::<()>(Err(error)), told)
            }
            _ => panic!("{context}: no command: {command}"),
        }
    }

    fn machine(&mut self) -> &MemoryEnv {
        self.env.get_or_insert_with(|| {
            let env = MemoryEnv::new();
            let device = DaxDevice { size_bytes: 8 << 20, alignment_bytes: 4096, is_persistent: true };
            env.add_dax_device(DEVICE, device);
            env.set_capacity(PLENTY_BYTES);
            env
        })
    }

    fn options(&self) -> slmdb::Options {
        let mut compaction = CompactionOptions {
            policy: CompactionPolicy::Manual,
            threads: 1,
            live_key_ratio: false,
            leaf_node_scans: false,
            range_queries: false,
            seeks: false,
            ..Default::default()
        };
        let told = self.told.clone();
        let mut options = common::options()
            .env(Arc::new(self.env().clone()))
            .memtable_bytes(64 << 10)
            .memory_budget_bytes(64 << 10)
            .pool_initial_bytes(1 << 20)
            .pool_growth_bytes(64 << 10)
            .compression(Compression::None)
            .event_listener(move |event: &Event| told.lock().unwrap().push(event.clone()));
        for (name, value) in &self.settings {
            let is_on = value == "on";
            match &name[..] {
                "medium" => {
                    options = options.medium(match &value[..] {
                        "dram" => Medium::Dram,
                        "device" => Medium::Dax { path: DEVICE.into() },
                        "file" => Medium::Emulated { path: "/pool".into() },
                        _ => panic!("medium: {value}"),
                    });
                }
                "index" => {
                    assert_eq!(value, "pool");
                    options = common::with_index_in_pool(options);
                }
                "memtable" => options = options.memtable_bytes(bytes(value)),
                "pool" => options = options.pool_initial_bytes(bytes(value)).pool_maximum_bytes(bytes(value)),
                "sync" => options = options.sync(is_on),
                "read_only" => options = options.read_only(is_on),
                "checkpoint_entries" => {
                    options = options.advanced(|advanced| advanced.checkpoint_entries(bytes(value)))
                }
                "policy" => {
                    compaction.policy = match &value[..] {
                        "manual" => CompactionPolicy::Manual,
                        "garbage-first" => CompactionPolicy::GarbageFirst,
                        "paper" => CompactionPolicy::Paper,
                        _ => panic!("policy: {value}"),
                    };
                }
                "table_file" => compaction.table_file_bytes = bytes(value),
                "files_merged_max" => compaction.files_merged_max = value.parse().unwrap(),
                "space_amplification_max" => compaction.space_amplification_max = value.parse().unwrap(),
                "live_key_threshold" => {
                    compaction.live_key_ratio = true;
                    compaction.live_key_threshold = value.parse().unwrap();
                }
                "sequentiality_degree_threshold" => {
                    compaction.range_queries = true;
                    compaction.candidates_threshold = 0;
                    compaction.sequentiality_degree_threshold = value.parse().unwrap();
                }
                _ => panic!("no setting: {name}"),
            }
        }
        options.compaction(compaction)
    }

    fn checkpoints(&self) -> usize {
        let is_taken = |event: &&Event| matches!(event, Event::IndexCheckpointTaken { .. });
        self.told.lock().unwrap().iter().filter(is_taken).count()
    }

    fn await_checkpoint(&mut self) -> String {
        common::wait_until("no index checkpoint was taken", || self.checkpoints() > self.checkpoints_seen);
        self.checkpoints_seen = self.checkpoints();
        String::new()
    }

    fn open(&mut self, settings: &[&str]) -> String {
        self.checkpoints_seen = self.checkpoints();
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap();
            self.settings.insert(name.into(), value.into());
        }
        self.machine();
        self.told.lock().unwrap().clear();
        (self.compactions_said, self.events_said) = (0, 0);
        let opened = self.options().open(STORE).map(|db| self.db = Some(db));
        said(opened)
    }

    /// What a crash at this moment leaves is the machine from then on.
    fn crash(&mut self, left: impl Fn(&MemoryEnv) -> MemoryEnv) -> String {
        let left = left(self.env());
        self.snapshot = None;
        self.db = None;
        self.env = Some(left);
        String::new()
    }

    /// What one write says after the other, until one fails.
    fn writes(&self, numbers: impl Iterator<Item = u64>, write: impl Fn(String) -> slmdb::Result<()>) -> String {
        said(numbers.map(key).try_for_each(write))
    }

    fn put(&self, keys: &str, text: &str, bytes: u64) -> String {
        let value = value(text, bytes as usize);
        self.writes(numbers(keys), |key| self.db().put(key, &value))
    }

    fn delete(&self, numbers: impl Iterator<Item = u64>) -> String {
        self.writes(numbers, |key| self.db().delete(key))
    }

    /// These of each `all` keys that were filled in.
    fn filled(&self, (from, to): (u64, u64), all: u64) -> Vec<u64> {
        let filled = (0..self.filled).filter(|at| (from..=to).contains(&(at % all + 1)));
        filled.map(|at| FILLED_FROM + at).collect()
    }

    fn give_back(&self, numbers: Vec<u64>) -> String {
        self.writes(numbers.into_iter(), |key| match self.db().delete(&key) {
            Err(error) if error.kind() == ErrorKind::Full => {
                self.db().compact_range::<&[u8]>(..)?;
                self.db().delete(key)
            }
            deleted => deleted,
        })
    }

    fn batch(&self, changes: &str) -> String {
        let mut batch = WriteBatch::new();
        for change in changes.split(", ") {
            match change.split_whitespace().collect::<Vec<_>>()[..] {
                ["put", keys, text] => numbers(keys).for_each(|number| batch.put(key(number), text).unwrap()),
                ["delete", keys] => numbers(keys).for_each(|number| batch.delete(key(number)).unwrap()),
                _ => panic!("no change: {change}"),
            }
        }
        said(self.db().write(&batch))
    }

    fn fill(&mut self, text: &str, bytes: u64, least: u64) -> String {
        let value = value(text, bytes as usize);
        let before = self.filled;
        loop {
            if let Err(error) = self.db().put(key(FILLED_FROM + self.filled), &value) {
                let count = self.filled - before;
                let few = if count < least { format!(", after {count}") } else { String::new() };
                return format!("{:?}{few}\n", error.kind());
            }
            self.filled += 1;
            assert!(self.filled < 1_000_000, "never full");
        }
    }

    fn scan(&self, (from, to): (u64, u64), by: usize) -> String {
        let mut from = (from..=to).step_by(by);
        let read = |from: u64| self.db().range(key(from)..)?.take(by).try_for_each(|entry| entry.map(drop));
        said(from.try_for_each(read))
    }

    fn files(&self) -> String {
        let files = self.db().table_files();
        let lines = files.iter().map(|file| {
            let (from, to) = (number(&file.smallest_key), number(&file.largest_key));
            let deletes = if file.deletes > 0 { format!(", {} deletes", file.deletes) } else { String::new() };
            format!("{}: {from}-{to}, {} of {} live{deletes}\n", file.number, file.live_keys, file.entries)
        });
        if files.is_empty() { "none\n".into() } else { lines.collect() }
    }

    /// What something says once the store is at rest; and, if it is known what that is to be, once it is that.
    fn at_rest(&mut self, expected: Option<&str>, say: fn(&Script) -> (String, usize, usize), context: &str) -> String {
        let began = Instant::now();
        let mut last = (String::new(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(5));
            let now = (say(self), self.db().stats().since_open.compactions);
            let ended = self.count(|event| matches!(event, Event::CompactionEnded { .. }));
            let moved = format!("{now:?}");
            if moved != last.0 {
                last = (moved, Instant::now());
            }
            let (text, compactions, events) = now.0;
            let is_quiet = last.1.elapsed() > REST && ended as u64 == now.1;
            let is_expected = expected.is_none_or(|expected| {
                expected.starts_with(&text) && (text != "none\n" || expected.starts_with("none"))
            });
            if (is_quiet && is_expected) || began.elapsed() > LATEST {
                assert!(is_quiet || began.elapsed() < 2 * LATEST, "{context}: it never comes to rest");
                (self.compactions_said, self.events_said) = (compactions, events);
                return text;
            }
        }
    }

    fn count(&self, is_one: impl Fn(&Event) -> bool) -> usize {
        self.told.lock().unwrap().iter().filter(|event| is_one(event)).count()
    }

    fn compactions(&self) -> (String, usize, usize) {
        let told = self.told.lock().unwrap();
        let mut reasons = BTreeMap::new();
        let mut lines = Vec::new();
        for event in &*told {
            match event {
                Event::CompactionBegan { number, chosen_by, .. } => drop(reasons.insert(*number, *chosen_by)),
                Event::CompactionEnded { number, inputs, outputs, .. } => {
                    lines.push(format!("{}: {} -> {}\n", reasons[number], list(inputs), list(outputs)));
                }
                _ => {}
            }
        }
        let new = lines[self.compactions_said..].concat();
        (if new.is_empty() { "none\n".into() } else { new }, lines.len(), self.events_said)
    }

    fn events(&self) -> (String, usize, usize) {
        let told = self.told.lock().unwrap();
        let line = |event: &Event| match event {
            Event::SpaceRefused { needed_by, .. } => Some(format!("no space for {needed_by:?}\n")),
            Event::SpaceFound { needed_by } => Some(format!("space again for {needed_by:?}\n")),
            Event::Failed { cause } => Some(format!("failed: {:?}\n", cause.kind())),
            Event::CompactionGivenUp { inputs, cause, .. } => {
                Some(format!("given up: {}: {:?}\n", list(inputs), cause.kind()))
            }
            _ => None,
        };
        let mut lines: Vec<String> = told[self.events_said..].iter().filter_map(line).collect();
        lines.sort();
        lines.dedup();
        (if lines.is_empty() { "none\n".into() } else { lines.concat() }, self.compactions_said, told.len())
    }

    fn fail(&self, what: &str) -> String {
        let (operation, failure) = what.split_once(": ").unwrap();
        let (failure, repeat) = match failure.strip_suffix(" for good") {
            Some(failure) => (failure, Repeat::ForGood),
            None => (failure, Repeat::Once),
        };
        let failure = match failure {
            "full" => Failure::Full,
            "error" => Failure::Io,
            "failed sync" => Failure::FailedSync,
            _ => panic!("no failure: {failure}"),
        };
        self.env().fail_next(operation, failure, repeat);
        String::new()
    }

    fn paths(&self) -> Vec<String> {
        let entries = self.env().list_directory(Path::new(STORE)).unwrap();
        let mut paths: Vec<String> = entries.into_iter().map(|entry| format!("{STORE}/{}", entry.name)).collect();
        paths.sort();
        paths
    }

    fn last_file(&self, extension: &str) -> String {
        self.paths().into_iter().rfind(|path| path.ends_with(extension)).unwrap()
    }

    /// One bit, where a value begins with this text.
    fn flip(&self, text: &str) -> String {
        let mut count = 0;
        for path in self.paths() {
            let mut content = self.env().content(&path).unwrap_or_default();
            let at = content.windows(text.len()).position(|window| window == text.as_bytes());
            if let Some(at) = at {
                content[at] ^= 1;
                self.env().set_content(&path, &content);
                count += 1;
            }
        }
        assert_eq!(count, 1, "{text} is in one file");
        String::new()
    }
}

/// (Of what an error is, nothing but its kind is said.)
#[test]
fn a_failure_is_said_by_its_kind() {
    assert_eq!(said::<()>(Err(Error::invalid("whatever"))), "Invalid\n");
}

#[test]
fn keys_are_read_and_said_in_ranges() {
    assert_eq!(numbers("1-4,7,9-10").collect::<Vec<_>>(), [1, 2, 3, 4, 7, 9, 10]);
    assert_eq!(ranges(&[1, 2, 3, 4, 7, 9, 10]), "1-4, 7, 9-10");
    assert_eq!(bytes("64k"), 65_536);
}
