//! The `slmdb` binary from outside, against the contract of the command line.

mod bench;
mod data;
mod debian;
mod demo;
mod export;
mod formats;
mod import;
mod interrupted;
mod operations;
mod shell;
mod store;
mod usage;
mod words;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A directory for a test, with the path of a store in it that is not there yet.
struct Place {
    directory: TempDir,
    db: String,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = directory.path().join("db").to_str().expect("a path in UTF-8").to_string();
        Place { directory, db }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("a file");
        path.to_str().expect("a path in UTF-8").to_string()
    }

    /// Runs `slmdb VERB --db DIR …`.
    fn run(&self, verb: &str, arguments: &[&str]) -> Ran {
        self.run_with_input(verb, arguments, b"")
    }

    fn run_with_input(&self, verb: &str, arguments: &[&str], input: &[u8]) -> Ran {
        let mut all = vec![verb, "--db", &self.db];
        all.extend_from_slice(arguments);
        slmdb(&all, input)
    }

    /// Everything in the store, as tsv.
    fn exported(&self) -> String {
        let ran = self.run("export", &[]);
        ran.expect(0);
        ran.out()
    }
}

/// What a run of the binary gave.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    fn out(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("standard output in UTF-8")
    }

    #[track_caller]
    fn expect(&self, code: i32) -> &Ran {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// It ended with `code`, and said so in one line of that kind.
    #[track_caller]
    fn failed(&self, code: i32, kind: &str) -> &Ran {
        self.expect(code);
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{self:?}");
        assert!(lines[0].starts_with(&format!("slmdb: {kind}: ")), "{self:?}");
        assert!(lines[0].contains("; "), "no word on what to do: {self:?}");
        self
    }

    /// It ended with 0, said nothing, and printed `out`.
    #[track_caller]
    fn printed(&self, out: &str) {
        self.expect(0);
        assert_eq!((self.out().as_str(), self.stderr.as_str()), (out, ""));
    }
}

/// A command begins with the signals that it inherits. Whoever runs the tests in the background may have had SIGINT ignored, and what
/// has a handler is not inherited.
fn heed_signals() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            let as_usual = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal, as_usual).expect("a handler");
        }
    });
}

fn command(arguments: &[impl AsRef<OsStr>]) -> Command {
    heed_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn slmdb(arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Ran {
    let mut child = command(arguments).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // In a thread: the binary may print before it has read everything, or end without reading.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(&input);
    });
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the input is written");
    Ran {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8(output.stderr).expect("standard error in UTF-8"),
    }
}

/// All files below a directory with their content, to see whether anything changed.
fn snapshot(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let content = std::fs::read(&path).expect("a file");
                files.push((path, content));
            }
        }
    }
    files.sort();
    files
}
