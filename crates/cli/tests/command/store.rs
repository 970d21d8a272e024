//! Stores that are missing, held by another process, damaged, or on a fast tier of their own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use crate::{Place, command, slmdb, snapshot};

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
fn a_store_keeps_its_engine() {
    let place = Place::new();
    place.run("put", &["--engine", "rocksdb", "k", "v"]).failed(2, "usage");
    assert!(!place.path("db").exists(), "nothing was made");
    place.run("put", &["--engine", "slm", "k", "v"]).printed("");
    let copy = place.path("copy");
    let copy = copy.to_str().unwrap();
    let verbs = [
        ("put", &["k", "w"][..]),
        ("get", &["k"]),
        ("del", &["k"]),
        ("insert", &["j", "w"]),
        ("update", &["k", "w"]),
        ("scan", &[]),
        ("import", &["-"]),
        ("export", &[]),
        ("stats", &[]),
        ("size", &[]),
        ("verify", &[]),
        ("checkpoint", &[copy]),
        ("compact", &[]),
        ("repair", &[]),
        ("shell", &[]),
        ("destroy", &["--yes"]),
        ("bench", &["--use_existing_db", "--num=1", "--benchmarks=readseq"]),
    ];
    for (verb, arguments) in verbs {
        let ran = place.run(verb, &[&["--engine", "lab"][..], arguments].concat());
        ran.failed(3, "invalid");
        assert!(ran.stderr.contains("slm"), "{verb}: {}", ran.stderr);
    }
    // The demo makes its own stores.
    let empty = Place::new();
    std::fs::create_dir(empty.path("db")).unwrap();
    empty.run("demo", &["--engine", "rocksdb", "--keys", "100"]).failed(2, "usage");
    assert_eq!(std::fs::read_dir(empty.path("db")).unwrap().count(), 0, "nothing was left");
    // No verb is missing from the two lists.
    let help = slmdb(&["--help"], b"").out();
    let verbs: Vec<&str> = verbs.iter().map(|(verb, _)| *verb).chain(["demo", "help"]).collect();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let verb = line.split_whitespace().next().unwrap();
        assert!(verbs.contains(&verb), "{verb} was not tried");
    }
    place.run("get", &["k"]).printed("v\n");
    assert!(place.run("stats", &["--json"]).expect(0).out().contains("\"engine\":\"slm\""));
}

#[test]
fn a_fast_tier_that_can_not_be_had_is_refused() {
    let place = Place::new();
    let pool = place.path("pool").to_str().unwrap().to_string();
    // Temporary directories are not on persistent memory, and if they were, shared memory is not.
    let shared = format!("/dev/shm/slmdb-test-{}", std::process::id());
    let no_dax = if Path::new("/dev/shm").is_dir() { &shared } else { &pool };
    let ran = place.run("put", &["--pm", no_dax, "k", "v"]);
    ran.failed(3, "unsupported");
    assert!(ran.stderr.contains(&format!("emulated:{no_dax}")), "{}", ran.stderr);
    assert!(!place.path("db").exists() && !Path::new(no_dax).exists(), "nothing was made");
    std::fs::write(&pool, "somebody's").unwrap();
    for tier in [&pool, &format!("emulated:{pool}")] {
        place.run("put", &["--pm", tier, "k", "v"]).failed(3, "invalid");
        assert!(!place.path("db").exists());
    }
    assert_eq!(std::fs::read(&pool).unwrap(), b"somebody's");
    std::fs::remove_file(&pool).unwrap();

    place.run("put", &["k", "v"]).expect(0);
    for tier in [&pool, &format!("emulated:{pool}")] {
        place.run("get", &["--pm", tier, "k"]).failed(3, "invalid");
        place.run("put", &["--pm", tier, "k", "w"]).failed(3, "invalid");
    }
    assert!(!place.path("pool").exists());
    // What is emulated and what caches survive fits no store in plain memory.
    place.run("put", &["--eadr", "k", "w"]).failed(3, "invalid");
    place.run("get", &["k"]).printed("v\n");
}

#[test]
fn a_pool_that_is_not_the_stores_own_is_refused() {
    let place = Place::new();
    let pool = place.path("pool");
    let tier = format!("emulated:{}", pool.display());
    place.run("put", &["--pm", &tier, "k", "v"]).printed("");

    // Dax named for an Emulated store.
    let ran = place.run("put", &["--pm", pool.to_str().unwrap(), "k", "w"]);
    ran.failed(3, "invalid");
    assert!(ran.stderr.contains("Emulated"), "{}", ran.stderr);
    place.run("put", &["--eadr", "k", "w"]).failed(3, "invalid");

    // Another store's pool; a file that is no pool; nothing at all.
    let other = Place::new();
    let foreign = format!("emulated:{}", other.path("pool").display());
    other.run("put", &["--pm", &foreign, "k", "other"]).printed("");
    let no_pool = format!("emulated:{}", place.file("text", [b'x'; 4096]));
    let missing = format!("emulated:{}", place.path("missing").display());
    for (tier, kind) in [(&foreign, "invalid"), (&no_pool, "corruption"), (&missing, "invalid")] {
        for (verb, words) in [("get", &["k"][..]), ("put", &["k", "w"])] {
            let ran = place.run(verb, &[&["--pm", tier][..], words].concat());
            ran.failed(3, kind);
            assert!(ran.stderr.contains("slmdb repair"), "{tier}: {}", ran.stderr);
        }
    }
    assert!(!place.path("missing").exists(), "a missing pool must never be made anew");
    other.run("get", &["k"]).printed("other\n");
    place.run("get", &["k"]).printed("v\n");
}

#[test]
fn a_moved_pool_is_remembered_by_verbs_that_write() {
    let place = Place::new();
    let (pool, moved) = (place.path("pool"), place.path("moved"));
    let (tier, new_tier) = (format!("emulated:{}", pool.display()), format!("emulated:{}", moved.display()));
    place.run("put", &["--pm", &tier, "k", "v"]).printed("");
    std::fs::rename(&pool, &moved).unwrap();
    place.run("get", &["--pm", &new_tier, "k"]).printed("v\n");
    // Reading changes no byte of a store, so nothing was remembered.
    place.run("get", &["k"]).failed(3, "invalid");
    place.run("put", &["--pm", &new_tier, "k2", "v2"]).printed("");
    place.run("scan", &[]).printed("k\tv\nk2\tv2\n");
}

#[test]
fn a_pool_that_was_open_when_the_machine_went_down_is_refused() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::FileExt;

    let place = Place::new();
    let pool = place.path("pool");
    let tier = format!("emulated:{}", pool.display());
    let mut shell = crate::command(&["shell", "--db", &place.db, "--pm", &tier]).spawn().unwrap();
    let mut answers = BufReader::new(shell.stdout.take().unwrap());
    shell.stdin.as_mut().unwrap().write_all(b"put k v\n").unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    assert_eq!(answer, "ok\n");
    shell.kill().unwrap();
    shell.wait().unwrap();
    // Under the same boot that was a killed process, and nothing is lost.
    place.run("get", &["k"]).printed("v\n");
    // As if it had been another boot: its id is at byte 80 of the pool (docs/formats/pool.md).
    let file = std::fs::File::options().write(true).open(&pool).unwrap();
    file.write_all_at(&[0x5a; 16], 80).unwrap();
    for (verb, words) in [("get", &["k"][..]), ("put", &["k", "w"])] {
        let ran = place.run(verb, words);
        ran.failed(3, "corruption");
        assert!(ran.stderr.contains("restarted") && ran.stderr.contains("slmdb repair"), "{}", ran.stderr);
    }
}

#[test]
fn emulated_latency_is_taken_and_counted() {
    let place = Place::new();
    let pool = format!("emulated:{}", place.path("pool").display());
    let puts: String = (0..200).map(|number| format!("put key{number} {}\n", "v".repeat(200))).collect();
    let script = format!("{puts}stats --json\n");
    let since_open = |options: &str| {
        let start = std::time::Instant::now();
        let ran = place.run_with_input("shell", &["--pm", &format!("{pool}{options}")], script.as_bytes());
        ran.expect(0);
        let out = ran.out();
        let json = out.lines().find_map(|line| line.strip_prefix("= {")).map(|line| format!("{{{line}")).unwrap();
        let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(stats["medium"], "emulated");
        let number = |name: &str| stats["since_open"][name].as_u64().unwrap();
        let counted = ["persists", "lines_flushed", "media_bytes", "fast_tier_bytes_asked"].map(number);
        (start.elapsed(), counted)
    };
    let (_, [persists, lines, media_bytes, bytes_asked]) = since_open("");
    assert!(persists >= 200 && bytes_asked >= 200 * 200);
    assert!(lines * 64 >= bytes_asked && media_bytes >= lines * 64 && media_bytes % 256 == 0);

    let (took, [persists, lines, media_bytes, _]) = since_open(",latency=20000,unit=64");
    assert!(took.as_nanos() as f64 >= (lines * 20_000) as f64 * 0.95, "{took:?} for {lines} lines");
    assert!(persists >= 200 && media_bytes <= lines * 64);
    let (took, [persists, ..]) = since_open(",latency=50000,model=persist,bandwidth=1000");
    assert!(took.as_nanos() as f64 >= (persists * 50_000) as f64 * 0.95, "{took:?} for {persists} persists");

    let gets: String = (0..200).map(|number| format!("get key{number}\n")).collect();
    let reads = |options: &str| {
        let start = std::time::Instant::now();
        let script = format!("{gets}stats --json\n");
        let ran = place.run_with_input("shell", &["--pm", &format!("{pool}{options}")], script.as_bytes());
        ran.expect(0);
        let out = ran.out();
        let json = out.lines().find_map(|line| line.strip_prefix("= {")).map(|line| format!("{{{line}")).unwrap();
        let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
        (start.elapsed(), stats["fast_tier_reads"].as_u64().unwrap())
    };
    assert_eq!(reads("").1, 0, "nothing is emulated");
    let (took, reads) = reads(",read=100000");
    assert!(reads >= 200 && took.as_nanos() as f64 >= (reads * 100_000) as f64 * 0.95, "{took:?} for {reads} reads");
    place.run("verify", &[]).expect(0);
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

/// The memory budget is what it was given and what is in memory adds up.
#[test]
fn the_memory_budget_and_what_is_in_memory_add_up() {
    let place = Place::new();
    place.run("put", &["--memory-budget", "2MiB", "a", "1"]).expect(0);
    let answer = place.run("stats", &["--json", "--memory-budget", "3MiB"]);
    let stats: serde_json::Value = serde_json::from_slice(&answer.expect(0).stdout).unwrap();
    assert_eq!(stats["memory_budget_bytes"], 3 << 20);
    let parts =
        ["block_cache", "open_tables", "memtable_lists", "memtable_arenas", "index", "replaced_records", "cursors"];
    let parts = parts.into_iter().chain(["catalog", "background"]);
    let sum: u64 = parts.map(|part| stats[format!("{part}_bytes")].as_u64().unwrap()).sum();
    assert_eq!(stats["memory_bytes"], sum);
    assert_eq!(stats["memtable_arenas_bytes"], 4096, "the put is in a MemTable");
    let values: String = (0..200).map(|key| format!("put {key} {}\n", "v".repeat(60_000))).collect();
    let reads: String = (0..200).map(|key| format!("get {key}\n")).collect();
    for (budget, cached_at_most) in [("3MiB", 3 << 20), ("100MiB", 100 << 20)] {
        let script = format!("{values}flush\n{reads}stats --json\n");
        let out = place.run_with_input("shell", &["--memory-budget", budget], script.as_bytes()).expect(0).out();
        let json = out.lines().find_map(|line| line.strip_prefix("= {")).map(|rest| format!("{{{rest}")).unwrap();
        let cached = serde_json::from_str::<serde_json::Value>(&json).unwrap()["block_cache_bytes"].as_u64().unwrap();
        let all = 200 * 60_000;
        assert!(cached <= cached_at_most && (cached > all) == (cached_at_most > all), "{budget}: {cached}");
    }
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

/// A store with a comparator is refused and both orders are named.
#[test]
fn a_store_of_another_order_is_refused_and_both_are_named() {
    struct Backwards;

    impl slmdb::Comparator for Backwards {
        fn name(&self) -> &str {
            "test.backwards"
        }

        fn compare(&self, left: &[u8], right: &[u8]) -> std::cmp::Ordering {
            right.cmp(left)
        }
    }

    let place = Place::new();
    let db = slmdb::Options::default().comparator(Backwards).open(&place.db).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let before = snapshot(Path::new(&place.db));
    for (verb, arguments) in [("get", &["k"][..]), ("put", &["k", "w"]), ("scan", &[]), ("stats", &[]), ("verify", &[])]
    {
        let ran = place.run(verb, arguments);
        ran.failed(3, "unsupported");
        assert!(ran.stderr.contains("\"test.backwards\"") && ran.stderr.contains("\"bytewise\""), "{}", ran.stderr);
    }
    assert!(before == snapshot(Path::new(&place.db)));
}

#[test]
fn a_store_whose_pool_is_lost_is_repaired() {
    let place = Place::new();
    let pool = place.path("pool");
    let tier = format!("emulated:{}", pool.display());
    place.run("put", &["--pm", &tier, "kept", "flushed"]).expect(0);
    place.run_with_input("shell", &[], b"flush\n").expect(0);
    std::fs::remove_file(&pool).unwrap();
    place.run("get", &["kept"]).failed(3, "invalid");
    let ran = place.run("repair", &[]);
    ran.expect(0);
    assert!(ran.out().contains("nothing lost") && ran.out().contains("new pool: "), "{}", ran.out());
    assert_eq!(place.run("get", &["kept"]).expect(0).out(), "flushed\n");
    place.run("verify", &[]).expect(0);
    std::fs::remove_file(&pool).unwrap();
    place.run("put", &["kept", "again"]).failed(3, "invalid");
    let ran = place.run("repair", &["--json"]);
    ran.expect(0);
    let report: serde_json::Value = serde_json::from_str(&ran.out()).unwrap();
    assert_eq!((&report["index_keys"], &report["losses"]), (&1.into(), &serde_json::Value::Array(Vec::new())));
    assert_eq!(place.run("get", &["kept"]).expect(0).out(), "flushed\n");
}
