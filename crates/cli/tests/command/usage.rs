//! Exit codes and the one line of a failure, for command lines that can't be carried out.

use crate::{Place, command, slmdb};
use std::io::Read;

#[test]
fn wrong_usage_is_2_and_one_line() {
    let place = Place::new();
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["get"],
        &["get", "k"],
        &["get", "--db", "d"],
        &["get", "--db"],
        &["get", "--db", "d", "a", "b"],
        &["put", "--db", "d", "a"],
        &["insert", "--db", "d", "a"],
        &["update", "--db", "d", "a", "b", "c"],
        &["scan", "--db", "d", "--sideways"],
        &["scan", "--db", "d", "--limit", "-1"],
        &["import", "--db", "d"],
        &["import", "--db", "d", "--format", "csv", "-"],
        &["import", "--db", "d", "--format", "paragraphs", "-"],
        &["import", "--db", "d", "--key", "K", "x.tsv"],
        &["demo", "--keys", "0"],
        &["shell", "--db", "d", "--pm", "emulated:"],
        &["put", "--db", "d", "--memory-budget", "lots", "k", "v"],
        &["destroy"],
        &["destroy", "--db", "d"],
        &["size", "--db", "d", "--limit", "1"],
        &["put", "--db", "d", "\\q", "v"],
        &["put", "--db", "d", "k", "\\x0"],
        &["scan", "--db", "d", "--prefix", "\\"],
    ] {
        slmdb(arguments, b"").failed(2, "usage");
    }
    assert!(!place.path("db").exists() && !std::path::Path::new("d").exists());
}

#[test]
fn help_and_version_are_0() {
    for verb in [
        "put",
        "get",
        "del",
        "insert",
        "update",
        "scan",
        "import",
        "export",
        "stats",
        "size",
        "verify",
        "repair",
        "checkpoint",
        "compact",
        "shell",
        "destroy",
        "demo",
        "bench",
    ] {
        let ran = slmdb(&[verb, "--help"], b"");
        ran.expect(0);
        assert!(ran.out().contains("Example") && ran.out().contains("--db"), "{verb}: {}", ran.out());
    }
    assert!(slmdb(&["--help"], b"").expect(0).out().contains("Exit codes"));
    assert!(slmdb(&["--version"], b"").expect(0).out().starts_with("slmdb "));
}

#[test]
fn a_closed_output_pipe_ends_quietly() {
    let place = Place::new();
    let mut input = Vec::new();
    for number in 0..20_000 {
        input.extend_from_slice(format!("{number}\t{}\n", "x".repeat(100)).as_bytes());
    }
    place.run_with_input("import", &["-"], &input).expect(0);
    for arguments in [
        &["scan", "--db", &place.db][..],
        &["scan", "--db", &place.db, "--json", "--reverse"],
        &["export", "--db", &place.db],
        &["--help"],
    ] {
        let mut child = command(arguments).spawn().unwrap();
        let mut some = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap(); // and is closed
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{arguments:?}");
    }
}

#[test]
fn a_full_output_is_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else { return };
    let place = Place::new();
    place.run("put", &["k", "v"]).expect(0);
    let output = command(&["scan", "--db", &place.db]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stderr.starts_with(b"slmdb: "));
}
