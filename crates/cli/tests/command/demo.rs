//! `demo`, small: it says what it must, leaves nothing behind, and also not when it is killed.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{Place, command, slmdb};

#[test]
fn it_shows_everything_and_cleans_up() {
    let place = Place::new();
    let ran = slmdb(&["demo", "--keys", "3000", "--db", place.directory.path().to_str().unwrap()], b"");
    ran.expect(0);
    assert_eq!(ran.stderr, "");
    let out = ran.out();
    for wanted in [
        "3,000 puts",
        "3,000 gets",
        "forwards and backwards",
        "deleted",
        "SIGKILL after ",
        "bytes written to files per byte put",
        "index bytes per key",
        "medium dram",
        "medium emulated",
        "persistent memory",
        "--pm emulated:PATH",
        "\nok: ",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 0);
}

#[test]
fn a_demo_that_is_killed_is_cleaned_up_after() {
    let place = Place::new();
    let arguments = ["demo", "--keys", "200000", "--db", place.directory.path().to_str().unwrap()];
    let mut child = command(&arguments).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let working = lines.by_ref().map(Result::unwrap).find(|line| line.starts_with("medium dram"));
    assert!(working.is_some());
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let since = Instant::now();
    while std::fs::read_dir(place.directory.path()).unwrap().count() > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "the temporary directory is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_place_that_is_not_there_is_refused() {
    let place = Place::new();
    slmdb(&["demo", "--db", &place.db], b"").failed(3, "invalid");
    // More keys than any machine of today has room for.
    slmdb(&["demo", "--keys", "50000000", "--db", "/proc"], b"").expect(3);
}
