//! What is said when something fails: what happened, where, and what to do.

use crate::{Place, Ran, command};

/// Runs `slmdb VERB --db DIR …` with a standard output that takes nothing. None where there is no such device.
fn with_full_output(place: &Place, verb: &str, arguments: &[&str], input: &str) -> Option<Ran> {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").ok()?;
    let input = std::fs::File::open(place.file("input", input)).expect("the file");
    let arguments = [&[verb, "--db", &place.db], arguments].concat();
    let output = command(&arguments).stdin(input).stdout(full).output().expect("the binary starts");
    let stderr = String::from_utf8(output.stderr).expect("standard error in UTF-8");
    Some(Ran { code: output.status.code(), stdout: Vec::new(), stderr })
}

/// It was said that nothing was written, of a store that was destroyed.
#[test]
fn a_full_output_is_told_from_what_was_done() {
    let verbs: [(&str, &[&str], &str); 11] = [
        ("get", &["k"], ""),
        ("get", &["--raw", "k"], ""),
        ("scan", &[], ""),
        ("export", &[], ""),
        ("stats", &[], ""),
        ("stats", &["--json"], ""),
        ("size", &[], ""),
        ("verify", &[], "verified"),
        ("shell", &[], "line 1 "),
        ("repair", &[], "is repaired"),
        ("destroy", &["--yes"], "is destroyed"),
    ];
    let place = Place::new();
    place.run("put", &["k", "v"]).expect(0);
    for (verb, arguments, done) in verbs {
        let Some(ran) = with_full_output(&place, verb, arguments, "put l 1\nput m 1\n") else { return };
        ran.failed(3, "full");
        assert!(ran.stderr.contains("standard output could not be written"), "{verb}: {ran:?}");
        assert!(ran.stderr.contains(done) && !ran.stderr.contains("nothing was written"), "{verb}: {ran:?}");
    }
    assert!(!place.path("db").exists());
}

#[test]
fn the_advice_fits_the_cause() {
    let place = Place::new();
    let file = place.file("file", "a\t1\n");
    let directory = place.directory.path().to_str().unwrap();
    let long = place.path(&"n".repeat(300));
    place.run("put", &["k", "v"]).expect(0);
    for (verb, path, advice) in [
        ("import", format!("{directory}/missing"), "nothing at this path"),
        ("import", directory.to_string(), "name a file"),
        ("import", format!("{file}/below"), "no directory"),
        ("import", long.display().to_string(), "shorten the name"),
        ("export", format!("{directory}/missing/out"), "nothing at this path"),
        ("export", directory.to_string(), "name a file"),
        ("export", format!("{file}/below"), "no directory"),
        ("export", long.display().to_string(), "shorten the name"),
        ("checkpoint", long.display().to_string(), "shorten the name"),
    ] {
        let ran = place.run(verb, &[&path]);
        ran.failed(3, "io");
        assert!(ran.stderr.contains(advice) && !ran.stderr.contains("the device"), "{verb} {path}: {ran:?}");
    }
}
