//! `put get del scan`: what goes in comes out, in order, escaped where it must be.

use crate::{Place, slmdb};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

#[test]
fn put_get_del() {
    let place = Place::new();
    place.run("put", &["apple", "red"]).printed("");
    place.run("get", &["apple"]).printed("red\n");
    place.run("put", &["apple", "green"]).printed("");
    place.run("get", &["apple"]).printed("green\n");
    let missing = place.run("get", &["pear"]);
    assert_eq!((missing.code, missing.out().as_str(), missing.stderr.as_str()), (Some(1), "", ""));
    place.run("del", &["pear"]).printed("");
    place.run("del", &["apple"]).printed("");
    place.run("get", &["apple"]).expect(1);
    place.run("put", &["--sync", "synced", "1"]).printed("");
    place.run("get", &["synced"]).printed("1\n");
}

#[test]
fn a_range_is_deleted_by_its_limits() {
    let place = Place::new();
    let keys = |left: &str| place.run("scan", &["--keys-only"]).printed(left);
    for key in ["a", "b", "ba", "bb", "c", "--to"] {
        place.run("put", &[key, "1"]).printed("");
    }
    place.run("del", &["--prefix", "b", "--from", "ba"]).printed("");
    keys("--to\na\nb\nc\n");
    place.run("del", &["--from", "b", "--to", "c"]).printed("");
    keys("--to\na\nc\n");
    place.run("del", &["--", "--to"]).printed("");
    for both in [&["a", "--from", "a"][..], &["--prefix", "a", "a"], &[]] {
        place.run("del", both).failed(2, "usage");
    }
    keys("a\nc\n");
    place
        .run_with_input("shell", &[], b"delrange a b\nbegin\ndelrange a z\nput d 1\ncommit\n")
        .printed("ok\nok\nok\nok\nok\n");
    keys("d\n");
    place.run("del", &["--from", ""]).printed("");
    keys("");
}

#[test]
fn empty_keys_and_values_are_keys_and_values() {
    let place = Place::new();
    place.run("put", &["", "nothing"]).printed("");
    place.run("put", &["k", ""]).printed("");
    place.run("get", &[""]).printed("nothing\n");
    place.run("get", &["k"]).printed("\n");
    place.run("get", &["--raw", "k"]).printed("");
    place.run("scan", &[]).printed("\tnothing\nk\t\n");
}

#[test]
fn escapes_go_in_and_out() {
    let place = Place::new();
    place.run("put", &["a\\tb\\x00", "\\n\\r\\\\\\x7f\\xffé"]).printed("");
    place.run("get", &["a\\tb\\x00"]).printed("\\n\\r\\\\\\x7f\\xffé\n");
    assert_eq!(place.run("get", &["--raw", "a\\x09b\\x00"]).stdout, b"\n\r\\\x7f\xff\xc3\xa9");
    place.run("scan", &[]).printed("a\\tb\\x00\t\\n\\r\\\\\\x7f\\xffé\n");
    let raw = OsString::from_vec(b"\xfe raw".to_vec());
    let arguments: Vec<OsString> = ["put".into(), "--db".into(), place.db.clone().into(), raw, "v".into()].into();
    slmdb(&arguments, b"").expect(0);
    place.run("get", &["\\xfe\\x20raw"]).printed("v\n");
}

#[test]
fn keys_may_look_like_options() {
    let place = Place::new();
    place.run("put", &["-1", "--minus"]).printed("");
    place.run("get", &["-1"]).printed("--minus\n");
    place.run("put", &["--", "--sync", "-h"]).printed("");
    place.run("get", &["--", "--sync"]).printed("-h\n");
    place.run("del", &["-1"]).printed("");
    place.run("scan", &["--from", "--s", "--to", "--t"]).printed("--sync\t-h\n");
}

#[test]
fn scans() {
    let place = Place::new();
    place.run_with_input("import", &["-"], b"a\t1\nb1\t2\nb2\t3\nb3\t4\nc\t5\n\\xff\t6\n\\xff\\xff\t7\n").expect(0);
    let scan = |arguments: &[&str], expected: &str| {
        let keys: String = place.run("scan", arguments).expect(0).out().lines().map(|l| l.to_string() + " ").collect();
        assert_eq!(keys.trim_end(), expected, "{arguments:?}");
    };
    scan(&["--keys-only"], "a b1 b2 b3 c \\xff \\xff\\xff");
    scan(&["--keys-only", "--reverse"], "\\xff\\xff \\xff c b3 b2 b1 a");
    scan(&["--keys-only", "--from", "b1", "--to", "c"], "b1 b2 b3");
    scan(&["--keys-only", "--from", "b1", "--to", "c", "--reverse"], "b3 b2 b1");
    scan(&["--keys-only", "--from", "b1", "--to", "c", "--reverse", "--limit", "2"], "b3 b2");
    scan(&["--keys-only", "--limit", "2"], "a b1");
    scan(&["--keys-only", "--limit", "0"], "");
    scan(&["--keys-only", "--prefix", "b"], "b1 b2 b3");
    scan(&["--keys-only", "--prefix", "b", "--from", "b2"], "b2 b3");
    scan(&["--keys-only", "--prefix", "b", "--to", "b2", "--reverse"], "b1");
    scan(&["--keys-only", "--prefix", "b", "--from", "c"], "");
    scan(&["--keys-only", "--prefix", "\\xff", "--reverse"], "\\xff\\xff \\xff");
    scan(&["--keys-only", "--from", "x", "--to", "b"], "");
    scan(&["--keys-only", "--from", "b1", "--to", "b1"], "");
    scan(&["--prefix", "b", "--limit", "1"], "b1\t2");
    place.run("scan", &["--prefix", "b3", "--json"]).printed("{\"key\":\"b3\",\"value\":\"4\"}\n");
    place.run("scan", &["--prefix", "b3", "--json", "--keys-only"]).printed("{\"key\":\"b3\"}\n");
    place.run("scan", &["--prefix", "\\xff\\xff", "--json"]).printed("{\"key_b64\":\"//8=\",\"value\":\"7\"}\n");
}

#[test]
fn a_key_that_is_too_long_is_refused_and_changes_nothing() {
    let place = Place::new();
    place.run("put", &["k", "v"]).printed("");
    place.run("put", &[&"x".repeat(65_536), "v"]).failed(3, "invalid");
    place.run("put", &[&"x".repeat(65_535), "v"]).printed("");
    place.run("scan", &["--limit", "1"]).printed("k\tv\n");
}

#[test]
fn conditional_writes_tell_by_their_exit_code() {
    let place = Place::new();
    let silent = |verb: &str, arguments: &[&str], code: i32| {
        let ran = place.run(verb, arguments);
        ran.expect(code);
        assert_eq!((ran.out().as_str(), ran.stderr.as_str()), ("", ""), "{verb} {arguments:?}");
    };
    silent("insert", &["k", "first"], 0);
    silent("insert", &["--sync", "k", "second"], 1);
    silent("update", &["absent", "v"], 1);
    place.run("get", &["k"]).printed("first\n");
    silent("update", &["k", "--third"], 0);
    silent("insert", &["--", "--db", "\\x00"], 0);
    assert_eq!(place.exported(), "--db\t\\x00\nk\t--third\n");
    silent("del", &["k"], 0);
    silent("update", &["k", "v"], 1);
    silent("insert", &["k", "again"], 0);
    place.run("insert", &["\\q", "v"]).failed(2, "usage");
    place.run("get", &["k"]).printed("again\n");
}
