//! `size`, `stats --files` and `destroy`.

use crate::{Place, Ran, command, slmdb};

fn filled() -> Place {
    let place = Place::new();
    let lines: String = (0..3000).map(|number| format!("key{number:04}\t{}\n", "x".repeat(50))).collect();
    place.run_with_input("import", &["--memtable", "64KiB", "-"], lines.as_bytes()).expect(0);
    place
}

#[test]
fn size_tells_about_how_much_a_range_has() {
    let place = filled();
    let json = |arguments: &[&str]| {
        let ran = place.run("size", &[arguments, &["--json"]].concat());
        ran.expect(0);
        serde_json::from_str::<serde_json::Value>(&ran.out()).expect("an object")
    };
    let keys = |arguments: &[&str]| json(arguments)["keys"].as_u64().expect("a number");
    assert!((2400..=3600).contains(&keys(&[])), "{}", keys(&[]));
    assert!((800..=1200).contains(&keys(&["--prefix", "key1"])));
    assert!((400..=600).contains(&keys(&["--from", "key1000", "--to", "key1500"])));
    assert_eq!(keys(&["--from", "z"]), 0);
    let all = json(&[]);
    let bytes = all["table_bytes"].as_u64().unwrap() + all["memtable_bytes"].as_u64().unwrap();
    assert!((40_000..400_000).contains(&bytes), "{all}");
    let ran = place.run("size", &["--from", "z"]);
    ran.printed("about 0 keys\nabout 0 B in table files\nabout 0 B in MemTables\n");
    let missing = Place::new();
    missing.run("size", &[]).failed(3, "invalid");
}

#[test]
fn stats_shows_table_files_and_amplification() {
    let place = filled();
    let ran = place.run("stats", &["--json"]);
    let stats: serde_json::Value = serde_json::from_str(&ran.out()).expect("an object");
    assert!(stats["space_amplification"].as_f64().unwrap() >= 1.0, "{stats}");
    assert!(stats["lifetime"]["write_amplification_of_files"].as_f64().unwrap() > 0.5, "{stats}");
    let ran = place.run("stats", &["--files"]);
    ran.expect(0);
    let files = stats["table_files"].as_u64().unwrap() as usize;
    assert!(files >= 2);
    assert_eq!(ran.out().lines().count(), files + 1, "{}", ran.out());
    assert!(ran.out().lines().next().unwrap().trim_start().starts_with("number"), "{}", ran.out());
    let ran = place.run("stats", &["--files", "--json"]);
    let objects: Vec<serde_json::Value> =
        ran.out().lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(objects.len(), files);
    assert_eq!(objects[0]["smallest_key"], "key0000");
    let bytes: u64 = objects.iter().map(|file| file["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, stats["table_bytes"].as_u64().unwrap());
}

#[test]
fn stats_show_levels_where_there_are_some() {
    let lines: String = (0..3000).map(|number| format!("key{number:04}\t{}\n", "x".repeat(50))).collect();
    for engine in ["slm", "lab", "tlsm"] {
        let place = Place::new();
        let pm = format!("emulated:{}", place.path("pool").display());
        let arguments = ["--engine", engine, "--pm", &pm, "--memtable", "64KiB", "-"];
        place.run_with_input("import", &arguments, lines.as_bytes()).expect(0);
        let ran = place.run("stats", &["--json"]);
        let stats: serde_json::Value = serde_json::from_str(&ran.out()).expect("an object");
        let levels = stats["levels"].as_array().unwrap();
        let sum = |field: &str| levels.iter().map(|level| level[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!(levels.is_empty(), engine == "slm", "{stats}");
        assert!(levels.iter().all(|level| level["runs"].as_u64() > Some(0)), "{stats}");
        assert_eq!(sum("bytes_in_pool") > 0, engine == "tlsm", "{stats}");
        assert_eq!(stats["demotions"], 0);
        assert!(stats["space_amplification"].as_f64() >= Some(1.0), "{stats}");
        let text = place.run("stats", &[]).out();
        assert_eq!(text.contains("bytes in pool"), engine != "slm", "{text}");
        let files = place.run("stats", &["--files", "--json"]).out();
        let in_pool = files.lines().filter(|line| line.contains("\"in_pool\":true")).count();
        assert_eq!(in_pool > 0, engine == "tlsm", "{files}");
        if !levels.is_empty() {
            assert_eq!(files.lines().count() as u64, sum("runs"), "{files}");
        }
    }
}

#[test]
fn destroy_asks_or_is_told_yes_and_removes_the_store_alone() {
    let place = Place::new();
    let pool = place.path("pool");
    let pm = format!("emulated:{}", pool.display());
    place.run("put", &["--pm", &pm, "k", "v"]).expect(0);
    place.run_with_input("destroy", &[], b"yes\n").failed(2, "usage");
    assert_eq!(place.run("get", &["k"]).expect(0).out(), "v\n");
    std::fs::write(place.path("db/notes.txt"), "mine").unwrap();
    let ran = place.run("destroy", &["--yes"]);
    ran.expect(0);
    let out = ran.out();
    assert!(out.starts_with("destroyed: "), "{out}");
    assert!(out.contains(&format!("destroyed: the pool {}\n", pool.display())), "{out}");
    assert!(out.ends_with("notes.txt\n") && out.contains("left: "), "{out}");
    assert!(!pool.exists());
    assert_eq!(std::fs::read_dir(place.path("db")).unwrap().count(), 1);
    place.run("destroy", &["--yes"]).failed(3, "invalid");

    let place = filled();
    place.run("destroy", &["--yes"]).expect(0);
    assert!(!place.path("db").exists());
}

#[test]
fn compact_drops_what_was_overwritten() {
    let place = Place::new();
    for round in 0..3 {
        let value = char::from(b'a' + round).to_string().repeat(100);
        let lines: String = (0..2000).map(|number| format!("key{number:04}\t{value}{number}\n")).collect();
        place.run_with_input("import", &["--memtable", "64KiB", "-"], lines.as_bytes()).expect(0);
    }
    let ran = place.run("compact", &["--prefix", "key1"]);
    assert!(ran.expect(0).stderr.contains("compacted: "), "{ran:?}");
    place.run("compact", &[]).expect(0);
    let stats: serde_json::Value = serde_json::from_str(&place.run("stats", &["--json"]).out()).expect("an object");
    assert_eq!((&stats["space_amplification"], &stats["index_keys"]), (&1.0.into(), &2000.into()), "{stats}");
    place.run("verify", &[]).expect(0);
    assert_eq!(place.run("get", &["key1999"]).out(), format!("{}1999\n", "c".repeat(100)));
    Place::new().run("compact", &[]).failed(3, "invalid");
}

#[test]
fn checkpoint_makes_a_store_that_goes_its_own_way() {
    let place = filled();
    let copy = place.path("copy");
    let copy = copy.to_str().unwrap();
    place.run("checkpoint", &[copy]).expect(0);
    place.run("checkpoint", &[copy]).failed(3, "invalid");
    let lines = format!("put key0000 changed\ncheckpoint {copy}2\nput key0000 again\n");
    assert_eq!(place.run_with_input("shell", &[], lines.as_bytes()).expect(0).out(), "ok\nok\nok\n");
    let of = |directory: &str, arguments: &[&str]| {
        let ran = crate::slmdb(&[&[arguments[0], "--db", directory], &arguments[1..]].concat(), b"");
        ran.expect(0);
        ran.out()
    };
    assert_eq!(of(copy, &["get", "key0000"]), format!("{}\n", "x".repeat(50)));
    assert_eq!(of(&format!("{copy}2"), &["get", "key0000"]), "changed\n");
    of(copy, &["put", "key0001", "mine"]);
    of(copy, &["compact"]);
    of(copy, &["verify"]);
    assert_eq!(place.run("get", &["key0001"]).out(), format!("{}\n", "x".repeat(50)));
    place.run("verify", &[]).expect(0);
}

/// They said that a lock, a look-up or a list had failed.
#[test]
fn what_is_no_directory_is_said_to_be_none() {
    let place = Place::new();
    let file = place.file("file", "content");
    for db in [file.clone(), format!("{file}/below")] {
        let verbs: [(&str, &[&str]); 8] = [
            ("put", &["k", "v"]),
            ("get", &["k"]),
            ("scan", &[]),
            ("stats", &[]),
            ("verify", &[]),
            ("repair", &[]),
            ("compact", &[]),
            ("destroy", &["--yes"]),
        ];
        for (verb, arguments) in verbs {
            let mut all = vec![verb, "--db", &db];
            all.extend_from_slice(arguments);
            let ran = slmdb(&all, b"");
            ran.failed(3, "invalid");
            assert!(ran.stderr.contains(&format!("{file} is no directory")), "{verb}: {ran:?}");
        }
    }
    place.run("put", &["k", "v"]).expect(0);
    let ran = place.run("checkpoint", &[&file]);
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains(&format!("{file} is no directory")), "{ran:?}");
    let inside = format!("{}/../db/copy", place.db);
    let ran = place.run("checkpoint", &[&inside]);
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains("inside the store itself"), "{ran:?}");
    assert_eq!(std::fs::read(&file).expect("the file"), b"content");
}

#[test]
fn an_empty_path_is_no_store() {
    for verb in ["get", "put", "verify", "repair", "destroy"] {
        let ran = slmdb(&[verb, "--db", "", "k"], b"");
        assert!([Some(2), Some(3)].contains(&ran.code), "{ran:?}");
        assert!(ran.stderr.lines().count() == 1 && ran.stderr.starts_with("slmdb: "), "{ran:?}");
    }
}

/// It was opened, and read-only from birth.
#[test]
fn without_threads_nothing_is_opened_and_nothing_is_made() {
    let place = Place::new();
    let without_threads = |arguments: &[&str]| {
        // No address space has room for such a stack.
        let mut command = command(arguments);
        let output = command.env("RUST_MIN_STACK", "140737488355328").output().expect("the binary starts");
        let stderr = String::from_utf8(output.stderr).expect("standard error in UTF-8");
        Ran { code: output.status.code(), stdout: output.stdout, stderr }
    };
    without_threads(&["put", "--db", &place.db, "k", "v"]).failed(3, "io");
    assert!(!std::path::Path::new(&place.db).exists(), "something was made");
    place.run("put", &["k", "v"]).expect(0);
    without_threads(&["put", "--db", &place.db, "k", "w"]).failed(3, "io");
    place.run("get", &["k"]).printed("v\n");
}
