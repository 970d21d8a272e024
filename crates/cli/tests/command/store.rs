//! Stores that are missing, held by another process, damaged, or on a fast tier of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use crate::{Place, command, snapshot};

#[test]
fn a_missing_store_is_an_error_and_stays_missing() {
    let place = Place::new();
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for (verb, arguments) in [
        ("get", &["k"][..]),
        ("scan", &[]),
        ("export", &[]),
        ("stats", &[]),
        ("verify", &[]),
        ("del", &["k"]),
        ("update", &["k", "v"]),
    ] {
        let ran = place.run(verb, arguments);
        ran.failed(3, "invalid");
        assert!(ran.stderr.contains("no store"), "{}", ran.stderr);
        let in_empty = [&[verb, "--db", empty.to_str().unwrap()][..], arguments].concat();
        crate::slmdb(&in_empty, b"").failed(3, "invalid");
    }
    assert!(!place.path("db").exists());
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn reading_changes_no_byte() {
    let place = Place::new();
    place.run_with_input("import", &["-"], b"a\t1\nb\t2\n").expect(0);
    let before = snapshot(Path::new(&place.db));
    place.run("get", &["a"]).printed("1\n");
    place.run("scan", &[]).expect(0);
    place.run("stats", &[]).expect(0);
    place.run("verify", &[]).expect(0);
    place.run("export", &[]).expect(0);
    assert!(before == snapshot(Path::new(&place.db)));
}

#[test]
fn a_store_that_is_held_names_its_holder() {
    let place = Place::new();
    let mut holder = command(&["shell", "--db", &place.db]).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    let mut answers = BufReader::new(holder.stdout.take().unwrap()).lines();
    writeln!(stdin, "put k v").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "ok");
    for ran in [place.run("get", &["k"]), place.run("put", &["k", "w"]), place.run("verify", &[])] {
        ran.failed(3, "locked");
        assert!(ran.stderr.contains(&holder.id().to_string()), "{}", ran.stderr);
    }
    writeln!(stdin, "exit").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "ok");
    // `exit` is answered once the store is closed.
    place.run("get", &["k"]).printed("v\n");
    assert_eq!(holder.wait().unwrap().code(), Some(0));
}

#[test]
fn damage_is_found_and_told() {
    let place = Place::new();
    let mut input = String::new();
    for number in 0..2000 {
        input.push_str(&format!("put {number:05} value-{number}-{}\n", "x".repeat(50)));
    }
    input.push_str("flush\n");
    place.run_with_input("shell", &[], input.as_bytes()).expect(0);
    let clean = place.run("verify", &[]);
    clean.expect(0);
    assert!(clean.out().starts_with("ok: "), "{}", clean.out());

    // The largest file of the store is its table file.
    let (path, mut content) =
        snapshot(Path::new(&place.db)).into_iter().max_by_key(|(_, content)| content.len()).unwrap();
    let place_of_damage = content.len() / 4;
    content[place_of_damage] ^= 0x40;
    std::fs::write(&path, &content).unwrap();

    let ran = place.run("verify", &[]);
    ran.expect(1);
    let out = ran.out();
    assert!(out.starts_with("corruption: ") && out.contains(&format!("[{}@", path.display())), "{out}");
    assert!(out.lines().last().unwrap().starts_with("damaged: "), "{out}");
    // A scan runs into it: a message and 3, never a short answer with 0.
    let ran = place.run("scan", &[]);
    ran.failed(3, "corruption");
    assert!(ran.stderr.contains(&path.display().to_string()), "{}", ran.stderr);
}

#[test]
fn a_store_too_damaged_to_open_is_damage_for_verify() {
    let place = Place::new();
    place.run("put", &["k", "v"]).expect(0);
    for (path, content) in snapshot(Path::new(&place.db)) {
        if path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST") {
            std::fs::write(&path, vec![0x55; content.len()]).unwrap();
        }
    }
    place.run("get", &["k"]).failed(3, "corruption");
    let ran = place.run("verify", &[]);
    ran.expect(1);
    assert!(ran.out().starts_with("corruption: ") && ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn the_fast_tier_is_named_once() {
    let place = Place::new();
    let pool = place.path("pool");
    let tier = format!("emulated:{}", pool.display());
    place.run("put", &["--pm", &tier, "k", "v"]).printed("");
    assert!(pool.exists());
    place.run("put", &["k2", "v2"]).printed("");
    place.run("scan", &[]).printed("k\tv\nk2\tv2\n");
    place.run("get", &["--pm", &tier, "k"]).printed("v\n");
    assert!(place.run("stats", &["--json"]).expect(0).out().contains("\"medium\":\"emulated\""));
    place.run("verify", &[]).expect(0);

    let moved = place.path("moved");
    std::fs::rename(&pool, &moved).unwrap();
    let ran = place.run("get", &["k"]);
    ran.expect(3);
    assert!(ran.stderr.contains("slmdb repair") && !pool.exists(), "{}", ran.stderr);
    place.run("put", &["--pm", &format!("emulated:{}", moved.display()), "k3", "v3"]).printed("");
    place.run("get", &["k3"]).printed("v3\n");
}

#[test]
fn a_fast_tier_that_can_not_be_had_is_refused() {
    let place = Place::new();
    let pool = place.path("pool").to_str().unwrap().to_string();
    let ran = place.run("put", &["--pm", &pool, "k", "v"]);
    ran.failed(3, "unsupported");
    assert!(ran.stderr.contains(&format!("emulated:{pool}")), "{}", ran.stderr);
    for options in ["latency=500", "model=persist", "bandwidth=2000"] {
        place.run("put", &["--pm", &format!("emulated:{pool},{options}"), "k", "v"]).failed(3, "unsupported");
    }
    assert!(!place.path("db").exists() && !place.path("pool").exists());
    place.run("put", &["k", "v"]).expect(0);
    place.run("get", &["--pm", &format!("emulated:{pool}"), "k"]).failed(3, "invalid");
    place.run("put", &["--pm", &format!("emulated:{pool}"), "k", "w"]).failed(3, "invalid");
    assert!(!place.path("pool").exists());
    place.run("get", &["k"]).printed("v\n");
}

#[test]
fn stats_in_both_forms() {
    let place = Place::new();
    place.run_with_input("shell", &[], b"put a 1\nput b 22\nflush\nput c 333\n").expect(0);
    let stats: serde_json::Value = serde_json::from_slice(&place.run("stats", &["--json"]).expect(0).stdout).unwrap();
    assert_eq!(stats["medium"], "dram");
    assert_eq!(stats["index_keys"], 2);
    assert_eq!(stats["table_files"], 1);
    assert_eq!(stats["memtable_entries"], 1);
    assert_eq!(stats["last_sequence_number"], 3);
    assert_eq!(stats["lifetime"]["flushes"], 1);
    assert_eq!(stats["lifetime"]["user_bytes_put"], 9);
    assert!(stats["since_open"]["user_bytes_put"].is_u64());
    assert!(stats["fast_tier_index_bytes_per_key"].as_f64().unwrap() > 0.0);
    let text = place.run("stats", &[]).expect(0).out();
    assert!(text.lines().any(|line| line.trim_start().starts_with("index keys") && line.ends_with(" 2")), "{text}");
}

#[test]
fn compression_is_of_each_opening() {
    let place = Place::new();
    let built_in = slmdb::Compression::BUILT_IN.len();
    let all = ["none", "lz4", "zstd"];
    let mut table_bytes = Vec::new();
    for how in &all[..built_in] {
        let other = Place::new();
        for place in [&place, &other] {
            // An import ends with a flush or leaves a MemTable; the shell's `flush` is certain.
            let commands = format!("put {how} {}\nflush\n", "0123456789".repeat(300));
            assert_eq!(
                place.run_with_input("shell", &["--compression", how], commands.as_bytes()).expect(0).out(),
                "ok\nok\n"
            );
        }
        let stats: serde_json::Value = serde_json::from_str(&other.run("stats", &["--json"]).expect(0).out()).unwrap();
        table_bytes.push(stats["table_bytes"].as_u64().unwrap());
        other.run("verify", &[]).expect(0);
    }
    assert!(table_bytes.iter().skip(1).all(|&bytes| bytes < table_bytes[0] / 2), "{table_bytes:?}");
    for how in &all[..built_in] {
        place.run("get", &[how]).printed(&format!("{}\n", "0123456789".repeat(300)));
    }
    place.run("verify", &[]).expect(0);
    for how in &all[built_in..] {
        let missing = Place::new();
        for place in [&place, &missing] {
            let ran = place.run("put", &["--compression", how, "k", "v"]);
            ran.failed(3, "unsupported");
            assert!(ran.stderr.contains("feature `zstd`"), "{}", ran.stderr);
        }
        assert!(!missing.path("db").exists());
        place.run("get", &["k"]).expect(1);
    }
    place.run("put", &["--compression", "lzma", "k", "v"]).failed(2, "usage");
}
