//! The shell's protocol, as a program meets it.

use std::io::{BufRead, BufReader, Write};

use crate::{Place, command};

/// Runs the lines and gives the answers.
#[track_caller]
fn answers(place: &Place, input: &str, code: i32) -> Vec<String> {
    let ran = place.run_with_input("shell", &[], input.as_bytes());
    ran.expect(code);
    assert_eq!(ran.stderr, "");
    ran.out().lines().map(str::to_string).collect()
}

#[test]
fn each_command_is_answered() {
    let place = Place::new();
    let input = "put apple red\nget apple\nget pear\n\n  \t\ndel apple\ndel apple\nget apple\n";
    assert_eq!(answers(&place, input, 1), ["ok", "= red", "ok", "not found", "ok", "ok", "not found"]);
    assert_eq!(
        answers(&place, "put a 1\nput b 2\nscan\nflush\nsync\n", 0),
        ["ok", "ok", "= a\t1", "= b\t2", "ok", "ok", "ok"]
    );
    assert_eq!(
        answers(&place, "scan --reverse --keys-only\nscan --prefix a --json", 0),
        ["= b", "= a", "ok", "= {\"key\":\"a\",\"value\":\"1\"}", "ok"]
    );
}

#[test]
fn words() {
    let place = Place::new();
    let input = "put \"\" \"\"\nput\ta\\x20b \t c\\td \nput \"q\" --sync\nput --raw -h\nget \"\"\nget a\\x20b\nget \"q\"\nget --raw\nscan\n";
    let expected = [
        "ok",
        "ok",
        "ok",
        "ok",
        "= ",
        "ok",
        "= c\\td",
        "ok",
        "= --sync",
        "ok",
        "= -h",
        "ok",
        "= \t",
        "= \"q\"\t--sync",
        "= --raw\t-h",
        "= a b\tc\\td",
        "ok",
    ];
    assert_eq!(answers(&place, input, 0), expected);
    assert_eq!(answers(&place, "scan --from \"\" --to \\x22\n", 0), ["= \t", "ok"]);
}

#[test]
fn errors_end_nothing_and_decide_the_code() {
    let place = Place::new();
    let lines = answers(&place, "frob\nput a\nget \\q\nput a 1\nget a --raw\nscan --limit x\nimport -\n", 2);
    for (position, line) in lines.iter().enumerate() {
        assert!(if position == 3 { line == "ok" } else { line.starts_with("error usage: ") }, "{line}");
    }
    let lines = answers(&place, "bench\nrepair\nget a\nget b\nfrob\n", 3);
    assert!(lines[..2].iter().all(|line| line.starts_with("error unsupported: ")), "{lines:?}");
    assert_eq!(lines[2..5], ["= 1", "ok", "not found"]);
    let lines = answers(&place, &format!("put {} v\nget a\n", "k".repeat(65_536)), 3);
    assert!(lines[0].starts_with("error invalid: "), "{lines:?}");
    assert_eq!(lines[1..], ["= 1", "ok"]);
}

#[test]
fn batches() {
    let place = Place::new();
    let input = "put a 0\nbegin\nput a 1\nput b 2\ndel a\nget a\nget b\ncommit\nget a\nget b\n";
    assert_eq!(
        answers(&place, input, 1),
        ["ok", "ok", "ok", "ok", "ok", "= 0", "ok", "not found", "ok", "not found", "= 2", "ok"]
    );
    assert_eq!(answers(&place, "begin\nput c 3\nabort\nget c\n", 1), ["ok", "ok", "ok", "not found"]);
    assert_eq!(answers(&place, "begin\ncommit\n", 0), ["ok", "ok"]);
    let lines = answers(&place, "commit\nabort\nbegin\nbegin\nput d 4\ncommit\nget d\n", 2);
    assert!([0, 1, 3].iter().all(|&at| lines[at].starts_with("error usage: ")), "{lines:?}");
    assert_eq!(lines[4..], ["ok", "ok", "= 4", "ok"]);
}

/// It was dropped without a word, and the exit code was 0.
#[test]
fn a_batch_that_is_open_at_the_end_is_told() {
    let place = Place::new();
    for (input, out) in [
        ("begin\nput e 5\ndel f\n", "ok\nok\nok\n"),
        ("begin\nput e 5\ndel f\nexit\n", "ok\nok\nok\nok\n"),
        ("begin\ncommit\nbegin\nput e 5\ndel f", "ok\nok\nok\nok\nok\n"),
    ] {
        let ran = place.run_with_input("shell", &[], input.as_bytes());
        ran.failed(2, "usage");
        assert!(ran.stderr.contains("writes: 2") && ran.stderr.contains("commit"), "{ran:?}");
        assert_eq!(ran.out(), out);
        place.run("get", &["e"]).expect(1);
    }
    // An empty one loses nothing.
    assert_eq!(answers(&place, "begin\n", 0), ["ok"]);
    let ran = place.run_with_input("shell", &[], b"begin\nput e 5\nsnapshot\nsnapshot\nverify --no\nput \\q\n");
    ran.failed(2, "usage");
}

#[test]
fn reads_see_the_snapshot_until_it_is_released() {
    let place = Place::new();
    let input = "put a 1\nput b 2\nsnapshot\nput a 9\ndel b\nput c 3\nget a\nget b\nget c\nscan\nflush\nget a\n\
                 scan --reverse --keys-only\nexport\nrelease\nget a\nget b\nscan\n";
    let expected = [
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "ok",
        "= 1",
        "ok",
        "= 2",
        "ok",
        "not found",
        "= a\t1",
        "= b\t2",
        "ok",
        "ok",
        "= 1",
        "ok",
        "= b",
        "= a",
        "ok",
        "= a\t1",
        "= b\t2",
        "ok",
        "ok",
        "= 9",
        "ok",
        "not found",
        "= a\t9",
        "= c\t3",
        "ok",
    ];
    assert_eq!(answers(&place, input, 1), expected);
    // What is written depends on what is there now, and each write is answered as ever.
    let input = "snapshot\ninsert b 5\ninsert a 5\nupdate c 7\nbegin\nput d 1\ncommit\nget d\nrelease\nget d\n";
    assert_eq!(
        answers(&place, input, 1),
        ["ok", "ok", "not found", "ok", "ok", "ok", "ok", "not found", "ok", "= 1", "ok"]
    );
    let lines = answers(&place, "release\nsnapshot\nsnapshot\nrelease\nrelease\nget a\n", 2);
    assert!([0, 2, 4].iter().all(|&at| lines[at].starts_with("error usage: ")), "{lines:?}");
    assert_eq!((&lines[1][..], &lines[3][..], &lines[5][..]), ("ok", "ok", "= 9"));
    // One that nobody released goes with the shell, and `exit` closes the store all the same.
    assert_eq!(answers(&place, "snapshot\nput e 1\nexit\n", 0), ["ok", "ok", "ok"]);
    assert_eq!(answers(&place, "get e\n", 0), ["= 1", "ok"]);
}

#[test]
fn conditional_writes() {
    let place = Place::new();
    let input = "update a 0\ninsert a 1\ninsert a 2\nget a\nupdate a 3\nget a\ndel a\nupdate a 4\nget a\n";
    assert_eq!(
        answers(&place, input, 1),
        ["not found", "ok", "not found", "= 1", "ok", "ok", "= 3", "ok", "ok", "not found", "not found"]
    );
    assert_eq!(answers(&place, "insert -k -v\nupdate -k \"\"\nget -k\n", 0), ["ok", "ok", "= ", "ok"]);
    // What a batch holds is not there yet, so nothing can depend on it.
    let lines = answers(&place, "begin\nput b 1\ninsert b 2\nupdate b 3\ncommit\ninsert b 4\nget b\n", 2);
    assert!(lines[2..4].iter().all(|line| line.starts_with("error usage: ")), "{lines:?}");
    assert_eq!(lines[4..], ["ok", "not found", "= 1", "ok"]);
}

#[test]
fn verbs_of_the_command_line() {
    let place = Place::new();
    let file = place.file("in put.tsv", "x\t1\ny\t2\n");
    let import = format!("import {}\n", file.replace(' ', "\\x20"));
    let ran = place.run_with_input("shell", &[], import.as_bytes());
    ran.expect(0);
    assert_eq!(ran.out(), "ok\n");
    assert!(ran.stderr.starts_with("imported 2, skipped 0 in "));
    assert_eq!(answers(&place, "export\n", 0), ["= x\t1", "= y\t2", "ok"]);
    let out = place.path("out.jsonl");
    assert_eq!(answers(&place, &format!("export {}\n", out.display()), 0), ["ok"]);
    assert_eq!(std::fs::read_to_string(out).unwrap().lines().count(), 2);
    let lines = answers(&place, "verify\nstats --json\nstats\nscan --help\nhelp\n", 0);
    assert!(lines[0].starts_with("= ok: ") && lines[1] == "ok", "{lines:?}");
    assert!(lines[2].starts_with("= {\"format_version\":") && lines[3] == "ok", "{lines:?}");
    assert!(lines.iter().all(|line| line == "ok" || line.starts_with("= ")), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| *line == "ok").count(), 5);
}

#[test]
fn lines_may_end_as_on_windows_and_begin_with_a_mark() {
    let place = Place::new();
    let input = "\u{feff}put a 1\r\nput b \"\"\r\n\r\nput c 3\\r\r\nscan\r\nget a\r";
    assert_eq!(answers(&place, input, 0), ["ok", "ok", "ok", "= a\t1", "= b\t", "= c\t3\\r", "ok", "= 1", "ok"]);
}

#[test]
fn an_answer_comes_before_the_next_command() {
    let place = Place::new();
    let mut child = command(&["shell", "--db", &place.db]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    for number in 0..100 {
        writeln!(stdin, "put k {number}").unwrap();
        assert_eq!(lines.next().unwrap(), "ok");
        writeln!(stdin, "get k").unwrap();
        assert_eq!(lines.next().unwrap(), format!("= {number}"));
        assert_eq!(lines.next().unwrap(), "ok");
    }
    writeln!(stdin, "exit\nput k never").unwrap();
    assert_eq!(lines.next().unwrap(), "ok");
    assert_eq!(lines.next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    place.run("get", &["k"]).printed("99\n");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let place = Place::new();
    let mut child = command(&["shell", "--db", &place.db]).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "put a 1\nput b 2").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
