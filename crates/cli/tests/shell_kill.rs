//! Random operations through `slmdb shell` against a dictionary, with SIGKILL at random moments, on both media, with each engine.
//!
//! Each round starts a shell, sends it commands without always waiting for their answers, kills it somewhere, and opens
//! the store again. What was answered must be there. What was sent and not answered was carried out in the order in
//! which it was sent, up to some point: so the store must equal the dictionary after one of those points, and nothing
//! else. `verify` must find nothing. The next round goes on with the same store. While a shell holds a snapshot, what it reads must
//! be what the dictionary was at that moment.
//!
//! `SLMDB_TEST_BUDGET` (default 1) multiplies the rounds, `SLMDB_TEST_SEED` (default 0) chooses other ones.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const ROUNDS: f64 = 20.0;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// SplitMix64.
struct Random {
    state: u64,
    /// How many different keys there are.
    keys: u64,
    /// Whether the shell was told to hold a snapshot.
    holds_snapshot: bool,
}

impl Random {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn bytes(&mut self, length: u64) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// Keys that meet again; some empty, binary, long, or the beginning of others.
    fn key(&mut self) -> Vec<u8> {
        let number = self.below(self.keys);
        match number % 8 {
            0 if number == 0 => Vec::new(),
            0 => vec![0xff; number as usize % 40],
            1 => vec![0; number as usize % 40],
            2 => format!("a key of words {number}").into_bytes(),
            3 => [&[b'p'; 100][..], &number.to_be_bytes()].concat(),
            4 => [&b"long"[..], &vec![number as u8; 700], &number.to_be_bytes()].concat(),
            5 => number.to_be_bytes()[5..].to_vec(),
            _ => format!("--key-{number}").into_bytes(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.below(20) {
            0 => 0,
            1 => self.below(20_000),
            _ => self.below(600),
        };
        self.bytes(length)
    }
}

/// A word of the shell: everything but plain letters, digits and hyphens escaped.
fn word(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "\"\"".to_string();
    }
    let mut word = String::new();
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            word.push(char::from(byte));
        } else {
            let _ = write!(word, "\\x{byte:02x}");
        }
    }
    word
}

fn from_text(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let (byte, used) = match (first, tail) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&digits).expect("digits"), 16).expect("hexadecimal"), 4)
            }
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b'r', ..]) => (b'\r', 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', _) => panic!("an escape that there is not: {text}"),
            (plain, _) => (*plain, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    bytes
}

/// One or several commands that take effect together or not at all.
#[derive(Debug)]
struct Unit {
    lines: Vec<String>,
    changes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// What is read, for a `get`: the answer is compared with the dictionary as of then.
    reads: Option<Vec<u8>>,
    /// From then on reads are of this moment (`true`), or of the present again.
    holds: Option<bool>,
}

impl Unit {
    fn random(random: &mut Random) -> Unit {
        let mut unit = Unit { lines: Vec::new(), changes: Vec::new(), reads: None, holds: None };
        match random.below(100) {
            0..=64 => unit.change(random),
            65..=79 => {
                unit.lines.push("begin".to_string());
                for _ in 0..random.below(12) {
                    unit.change(random);
                }
                if random.one_in(6) {
                    unit.changes.clear();
                    unit.lines.push("abort".to_string());
                } else {
                    unit.lines.push("commit".to_string());
                }
            }
            80..=83 => {
                random.holds_snapshot = !random.holds_snapshot;
                unit.lines.push(["release", "snapshot"][usize::from(random.holds_snapshot)].to_string());
                unit.holds = Some(random.holds_snapshot);
            }
            84..=97 => {
                let key = random.key();
                unit.lines.push(format!("get {}", word(&key)));
                unit.reads = Some(key);
            }
            98 => unit.lines.push(["flush", "compact"][usize::from(random.one_in(4))].to_string()),
            _ => unit.lines.push("sync".to_string()),
        }
        unit
    }

    fn change(&mut self, random: &mut Random) {
        let key = random.key();
        if random.one_in(4) {
            self.lines.push(format!("del {}", word(&key)));
            self.changes.push((key, None));
        } else {
            let value = random.value();
            self.lines.push(format!("put {} {}", word(&key), word(&value)));
            self.changes.push((key, Some(value)));
        }
    }

    fn apply(&self, model: &mut Model) {
        for (key, value) in &self.changes {
            match value {
                Some(value) => model.insert(key.clone(), value.clone()),
                None => model.remove(key),
            };
        }
    }
}

/// A shell and the units it has been sent and has not answered.
struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
    waiting: VecDeque<Unit>,
    /// Answered lines of the first one waiting.
    answered: usize,
    data: Vec<String>,
    /// What the snapshot sees that the shell holds.
    snapshot: Option<Model>,
    /// Units answered to their end.
    carried_out: u64,
}

impl Shell {
    fn start(arguments: &[String], memtable_bytes: u64) -> Shell {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb"));
        command.arg("shell").args(arguments).args(["--memtable", &memtable_bytes.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("a pipe");
        let (sender, answers) = channel();
        // In a thread, so that a full pipe on one side never waits for one on the other.
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                // A line that the kill cut off is no answer.
                let Some(whole) = line.strip_suffix('\n') else { break };
                if sender.send(whole.to_string()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        let (waiting, data, snapshot) = (VecDeque::new(), Vec::new(), None);
        Shell { child, stdin, answers, waiting, answered: 0, data, snapshot, carried_out: 0 }
    }

    /// Sends a unit; false if the shell is gone.
    fn send(&mut self, unit: Unit) -> bool {
        let mut text = unit.lines.join("\n");
        text.push('\n');
        self.waiting.push_back(unit);
        self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(text.as_bytes()).is_ok())
    }

    /// Takes one line of an answer; when it completes the first waiting unit, the dictionary follows.
    fn take(&mut self, line: String, model: &mut Model) {
        if let Some(data) = line.strip_prefix("= ") {
            self.data.push(data.to_string());
            return;
        }
        let unit = self.waiting.front().expect("an answer to something that was sent");
        self.answered += 1;
        match &unit.reads {
            Some(key) => {
                let found = if line == "ok" { Some(from_text(&self.data[0])) } else { None };
                assert!(line == "ok" || line == "not found", "{line}");
                let (seen, moment) = match &self.snapshot {
                    Some(snapshot) => (snapshot, "a snapshot"),
                    None => (&*model, "now"),
                };
                assert_eq!(found.as_ref(), seen.get(key), "get of {}, {moment}", word(key));
            }
            None => assert_eq!(line, "ok", "to {:.100}", unit.lines[self.answered - 1]),
        }
        self.data.clear();
        if self.answered == unit.lines.len() {
            unit.apply(model);
            match unit.holds {
                Some(true) => self.snapshot = Some(model.clone()),
                Some(false) => self.snapshot = None,
                None => {}
            }
            self.waiting.pop_front();
            self.carried_out += 1;
            self.answered = 0;
        }
    }

    /// Ends it, with SIGKILL or by the end of its input, and gives what was sent and not answered.
    fn end(mut self, kill: bool, model: &mut Model) -> VecDeque<Unit> {
        if kill {
            self.child.kill().expect("the shell is killed");
        }
        drop(self.stdin.take());
        while let Ok(line) = self.answers.recv() {
            self.take(line, model);
        }
        let status = self.child.wait().expect("the shell ends");
        if !kill {
            assert!(matches!(status.code(), Some(0 | 1)), "{status}");
            assert!(self.waiting.is_empty());
        }
        std::mem::take(&mut self.waiting)
    }
}

/// Runs a verb to its end; its exit code and standard output.
fn run(verb: &str, arguments: &[String]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_slmdb")).arg(verb).args(arguments).output().expect("the binary runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{verb}: {} {said} {text}", output.status);
    (output.status.code(), text)
}

fn stored(arguments: &[String]) -> Model {
    let pairs = run("scan", arguments).1;
    let mut keys = Vec::new();
    let mut model = Model::new();
    for line in pairs.lines() {
        let (key, value) = line.split_once('\t').expect("a tab");
        keys.push(from_text(key));
        model.insert(from_text(key), from_text(value));
    }
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "a scan out of order");
    model
}

/// The dictionary after the answered units and as many of the unanswered ones as makes it equal to the store.
fn settle(mut model: Model, unanswered: &VecDeque<Unit>, stored: &Model) -> Model {
    let acknowledged = model.clone();
    for unit in unanswered {
        if model == *stored {
            return model;
        }
        unit.apply(&mut model);
    }
    if model == *stored {
        return model;
    }
    for (key, value) in &acknowledged {
        if stored.get(key) != Some(value) && !unanswered.iter().any(|unit| unit.changes.iter().any(|(k, _)| k == key)) {
            panic!("lost or wrong: {} ({} bytes, now {:?})", word(key), value.len(), stored.get(key).map(Vec::len));
        }
    }
    for key in stored.keys() {
        if !acknowledged.contains_key(key) && !unanswered.iter().any(|unit| unit.changes.iter().any(|(k, _)| k == key))
        {
            panic!("there, and never put or deleted since: {}", word(key));
        }
    }
    panic!("the store is at no point between the {} unanswered units", unanswered.len());
}

fn variable(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn rounds_on(medium: &str, arguments: &[String], seed: u64) {
    let mut random = Random { state: seed, keys: 0, holds_snapshot: false };
    random.keys = [300, 3_000, 30_000][random.below(3) as usize];
    let rounds = (ROUNDS * variable("SLMDB_TEST_BUDGET", 1.0)).max(1.0) as u64;
    let mut model = Model::new();
    for round in 0..rounds {
        print!("{medium}, seed {seed}, round {round}: {} keys, ", model.len());
        let mut shell = Shell::start(arguments, 4096 << random.below(8));
        random.holds_snapshot = false;
        let window = 1 + random.below(12) as usize;
        let kill = !random.one_in(8);
        // Some kills hit the opening, where what the last kill left is recovered; most hit the work after it.
        let hits_opening = random.one_in(4);
        let longest_us = if random.one_in(4) { 400_000 } else { 60_000 };
        let time = Duration::from_micros(random.below(longest_us));
        let mut since = hits_opening.then(Instant::now);
        while since.is_none_or(|since| since.elapsed() < time) {
            if shell.waiting.len() < window {
                let unit = Unit::random(&mut random);
                assert!(shell.send(unit), "the shell ended by itself");
                continue;
            }
            match shell.answers.recv_timeout(Duration::from_millis(1)) {
                Ok(line) => {
                    shell.take(line, &mut model);
                    since.get_or_insert_with(Instant::now);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the shell ended by itself"),
            }
        }
        let carried_out = shell.carried_out;
        let unanswered = shell.end(kill, &mut model);
        println!("{carried_out} units carried out, {} sent and not answered", unanswered.len());
        let exists = Path::new(&arguments[1]).exists();
        if !exists || model.is_empty() && unanswered.is_empty() {
            continue;
        }
        let found = match run_if_made(arguments, &model) {
            Some(found) => found,
            None => continue,
        };
        model = settle(model, &unanswered, &found);
        let (code, findings) = run("verify", arguments);
        assert_eq!(code, Some(0), "{findings}");
    }
}

/// What is stored; none when the kill came while the store was being made, before anything could be acknowledged.
fn run_if_made(arguments: &[String], acknowledged: &Model) -> Option<Model> {
    let output =
        Command::new(env!("CARGO_BIN_EXE_slmdb")).arg("stats").args(arguments).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) && acknowledged.is_empty() && said.contains("no store") {
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    Some(stored(arguments))
}

fn seed() -> u64 {
    variable("SLMDB_TEST_SEED", 0.0) as u64
}

/// So little that on plain memory LAB-DB's level 0 is full after some thousand keys.
const MEMORY_BUDGET: &str = "1MiB";

#[test]
fn kills_on_dram() {
    for engine in slmdb::engines::names().map(slmdb::EngineName::as_str) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = directory.path().join("db").display().to_string();
        let arguments = ["--db", &db, "--engine", engine, "--memory-budget", MEMORY_BUDGET].map(str::to_string);
        rounds_on(&format!("{engine} on dram"), &arguments, seed());
    }
}

#[test]
fn kills_on_emulated() {
    for engine in slmdb::engines::names().map(slmdb::EngineName::as_str) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = directory.path().join("db").display().to_string();
        let pools = pool_directory();
        let tier = format!("emulated:{}", pools.path().join("pool").display());
        let arguments = ["--db", &db, "--engine", engine, "--pm", &tier].map(str::to_string);
        rounds_on(&format!("{engine} on emulated"), &arguments, seed().wrapping_add(1 << 32));
    }
}

/// In shared memory when there is room, else with other temporary files.
fn pool_directory() -> tempfile::TempDir {
    let shared_memory = PathBuf::from("/dev/shm");
    let roomy = rustix::fs::statvfs(&shared_memory).is_ok_and(|free| free.f_bavail * free.f_frsize >= 1 << 30);
    let directory = if roomy { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() };
    directory.expect("a temporary directory")
}
