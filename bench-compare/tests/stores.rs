//! Every store against a model through the bench's trait, and the whole command on each.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use slmdb_bench::random::Random;
use slmdb_bench::store::{Entry, Opener, Start, Store, Which};
use slmdb_compare::footing::{Compression, Footing};
use slmdb_compare::loop_device::LoopDevice;
use slmdb_compare::spec::StoreSpec;
use tempfile::TempDir;

/// Every store there is, and ours in every kind.
const STORES: &str = "slmdb,slmdb:policy=paper,slmdb:emulated,slmdb:emulated,latency=500,model=line,policy=paper,links=persisted,\
                      slmdb:emulated,latency=300,model=persist,slmdb:engine=lab,slmdb:engine=tlsm,\
                      slmdb:emulated,engine=tlsm,tiering=upper:1MiB,segment=64KiB,level_base=256KiB,rocksdb,\
                      rocksdb:level_base=1MiB,leveldb,leveldb:nvm,lmdb,redb,fjall,fjall:values=apart";

const SVG: &str = "http://www.w3.org/2000/svg";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn footing() -> Footing {
    Footing {
        memory_budget_bytes: 16 << 20,
        // Small, so that stores have files to read from.
        write_buffer_bytes: 256 << 10,
        data_bytes: 4 << 20,
        keys: 1000,
        compression: Compression::None,
        memory_limit_bytes: None,
    }
}

/// What a walk sees, at most so many entries.
fn walked(store: &dyn Store, start: Start<'_>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut seen = Vec::new();
    let visit = &mut |entry: &mut dyn Entry| {
        let key = entry.key().to_vec();
        seen.push((key, entry.value()?.to_vec()));
        Ok(seen.len() < limit)
    };
    store.walk(start, visit).unwrap();
    seen
}

fn got(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut seen = None;
    let found = store.get(key, &mut |value| seen = Some(value.to_vec())).unwrap();
    assert_eq!(found, seen.is_some(), "what is found is looked at");
    seen
}

fn assert_agrees(store: &dyn Store, model: &Model, random: &mut Random) {
    let all: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(walked(store, Start::First, usize::MAX), all);
    let backwards: Vec<_> = all.iter().rev().cloned().collect();
    assert_eq!(walked(store, Start::Last, usize::MAX), backwards);
    assert_eq!(walked(store, Start::Last, 3), backwards[..3]);
    for _ in 0..100 {
        let key = key(random);
        assert_eq!(got(store, &key).as_ref(), model.get(&key));
        let expected: Vec<_> =
            model.range(key.clone()..).take(5).map(|(key, value)| (key.clone(), value.clone())).collect();
        assert_eq!(walked(store, Start::At(&key), 5), expected);
    }
    assert_eq!(walked(store, Start::At(b"z"), 5), []);
}

fn key(random: &mut Random) -> Vec<u8> {
    format!("{:05}", random.below(1500)).into_bytes()
}

fn value(random: &mut Random) -> Vec<u8> {
    // Empty ones, and ones beyond the threshold of those that are kept apart.
    let length_bytes = [0, 1, 100, 3000][random.below(4) as usize];
    let byte = random.number() as u8;
    vec![byte; length_bytes]
}

fn opener(spec: &StoreSpec, place: &Path) -> Box<dyn Opener> {
    spec.opener(&place.join("db"), &place.join("pool"), &footing()).unwrap()
}

fn agrees_with_the_model(spec: &StoreSpec, sync: bool, operations: u64) {
    let place = TempDir::new().unwrap();
    let opener = opener(spec, place.path());
    let (mut model, mut random) = (Model::new(), Random::new(7));
    let mut store = opener.open(Which::Fresh, sync).unwrap();
    assert_eq!(walked(&*store, Start::First, 1), []);
    assert_eq!(walked(&*store, Start::Last, 1), []);
    for round in 0..3 {
        for _ in 0..operations {
            let (key, value) = (key(&mut random), value(&mut random));
            match random.below(10) {
                0..5 => {
                    store.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                5 | 6 => {
                    store.delete(&key).unwrap();
                    model.remove(&key);
                }
                7 => {
                    let updated = store.update_if_present(&key, &value).unwrap();
                    assert_eq!(updated, model.contains_key(&key));
                    if updated {
                        model.insert(key, value);
                    }
                }
                8 => {
                    let other = self::key(&mut random);
                    store.put_all(&[(&key, &value), (&other, b"of a batch")]).unwrap();
                    model.insert(key, value);
                    model.insert(other, b"of a batch".to_vec());
                }
                _ => assert_eq!(got(&*store, &key).as_ref(), model.get(&key)),
            }
        }
        assert_agrees(&*store, &model, &mut random);
        match round {
            0 => store.flush().unwrap(),
            1 => store.compact().unwrap(),
            _ => store.sync().unwrap(),
        }
        assert_agrees(&*store, &model, &mut random);
        store.close().unwrap();
        store = opener.open(Which::Existing, sync).unwrap();
        assert_agrees(&*store, &model, &mut random);
    }
    // What it says of itself is text, if there is any; numbers make sense.
    let _ = store.describe(slmdb_bench::store::Description::Stats);
    assert!(store.numbers().memory_bytes.is_none_or(|bytes| bytes < 1 << 30));
    store.close().unwrap();
    assert!(!spec.setup(&footing()).is_empty());

    let store = opener.open(Which::Fresh, sync).unwrap();
    assert_eq!(walked(&*store, Start::First, 1), [], "a fresh store is empty");
    store.close().unwrap();
}

#[test]
fn every_store_agrees_with_a_model() {
    for spec in StoreSpec::parse_list(STORES).unwrap() {
        eprintln!("{}", spec.name);
        agrees_with_the_model(&spec, false, 2000);
        agrees_with_the_model(&spec, true, 100);
    }
}

#[test]
fn readers_see_earlier_writes_while_another_thread_writes() {
    const WRITTEN: u64 = 2000;
    for spec in StoreSpec::parse_list(STORES).unwrap() {
        eprintln!("{}", spec.name);
        let place = TempDir::new().unwrap();
        let store = opener(&spec, place.path()).open(Which::Fresh, false).unwrap();
        let done = std::sync::atomic::AtomicU64::new(0);
        let failed = std::sync::atomic::AtomicBool::new(false);
        use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
        std::thread::scope(|scope| {
            let reader = || {
                let mut random = Random::new(1);
                loop {
                    let before = done.load(Acquire);
                    if before > 0 {
                        let number = random.below(before);
                        let key = format!("{number:06}").into_bytes();
                        assert_eq!(got(&*store, &key), Some(number.to_le_bytes().to_vec()), "{}", spec.name);
                        let next = walked(&*store, Start::At(&key), 1);
                        assert_eq!(next.first().map(|entry| &entry.0), Some(&key));
                    }
                    if before == WRITTEN || failed.load(Relaxed) {
                        break;
                    }
                }
            };
            let readers = [scope.spawn(reader), scope.spawn(reader)];
            for number in 0..WRITTEN {
                // Who reads would wait for ever for what is never written.
                let put = || store.put(format!("{number:06}").as_bytes(), &number.to_le_bytes()).unwrap();
                let put = std::panic::catch_unwind(std::panic::AssertUnwindSafe(put));
                failed.store(put.is_err(), Relaxed);
                put.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                done.store(number + 1, Release);
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        store.close().unwrap();
    }
}

#[test]
fn opening_what_is_not_there_is_an_error() {
    for spec in StoreSpec::parse_list(STORES).unwrap() {
        let place = TempDir::new().unwrap();
        assert!(opener(&spec, place.path()).open(Which::Existing, false).is_err(), "{}", spec.name);
    }
}

fn command(place: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb-compare"));
    command.arg("run").args(arguments).arg("--pools").arg(place.path()).arg("--db").arg(place.path().join("stores"));
    command.output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_command_measures_every_store_in_turns() {
    let place = TempDir::new().unwrap();
    let benchmarks = "fillseq,filluniquerandom,flush,readrandom,readmissing,seekrandom,readseq,readreverse,overwrite,\
                      deleterandom,compact,waitforcompaction,fillsync,ycsbload,ycsba,ycsbf,ycsbe,stats";
    let stores = format!("{STORES},empty");
    let output = command(
        &place,
        &[
            "--json",
            "--stores",
            &stores,
            "--benchmarks",
            benchmarks,
            "--num=1000",
            "--repeat=2",
            "--value_size=100",
            "--seek_nexts=5",
            "--memory_budget=16MiB",
            "--write_buffer_size=1MiB",
            "--threads=2",
        ],
    );
    assert!(output.status.success(), "{}", said(&output.stderr));
    let names: Vec<String> = StoreSpec::parse_list(&stores).unwrap().into_iter().map(|spec| spec.name).collect();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let told: Vec<&str> = summary["stores"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(told, names);
    assert!(summary["machine"]["processors"].as_u64().unwrap() > 0);

    // In the second repeat the order is turned by one.
    let turns: Vec<String> =
        said(&output.stderr).lines().map(|line| line.split_once(": ").unwrap().1.to_string()).collect();
    let turned = names[1..].iter().chain(&names[..1]);
    assert_eq!(turns, names.iter().chain(turned).cloned().collect::<Vec<_>>());

    let phases = summary["benchmarks"].as_array().unwrap();
    assert_eq!(phases.len(), benchmarks.split(',').count());
    for (phase, name) in phases.iter().zip(benchmarks.split(',')) {
        assert_eq!(phase["benchmark"], name);
        let rows = phase["stores"].as_array().unwrap();
        if name == "stats" {
            assert!(rows.is_empty(), "text is not measured");
            continue;
        }
        assert_eq!(rows.len(), names.len(), "{name}");
        for (row, store) in rows.iter().zip(&names) {
            assert_eq!(row["store"], store.as_str());
            let rate = |which: &str| row["ops_per_second"][which].as_f64().unwrap();
            assert!(0.0 < rate("min") && rate("min") <= rate("median") && rate("median") <= rate("max"));
            assert!(row["ratio"].as_f64().unwrap() > 0.0 && row["max_ns"].as_f64() >= row["p99_9_ns"].as_f64());
            assert!(row["resident_bytes"].as_f64().unwrap() > 1e6);
            let runs = row["runs"].as_array().unwrap();
            assert_eq!(runs.len(), 2);
            if name == "readrandom" && store != "empty" {
                assert_eq!((&runs[0]["asked"], &runs[0]["found"]), (&2000.into(), &2000.into()), "{store}");
            }
            if name == "readmissing" {
                assert_eq!(runs[1]["found"], 0, "{store}");
            }
            if name == "readseq" && store != "empty" {
                assert_eq!(runs[1]["operations"], 2000, "{store}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(place.path().join("stores")).unwrap().count(), 1, "the marker alone is left");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "no pool is left");

    let file = place.path().join("run.json");
    std::fs::write(&file, &output.stdout).unwrap();
    let drawn = Command::new(env!("CARGO_BIN_EXE_slmdb-compare")).arg("picture").arg(&file).output().unwrap();
    assert!(drawn.status.success(), "{}", said(&drawn.stderr));
    let svg = said(&drawn.stdout);
    let picture = roxmltree::Document::parse(&svg).unwrap();
    let is_bar =
        |node: &roxmltree::Node| node.first_element_child().is_some_and(|child| child.has_tag_name((SVG, "title")));
    assert_eq!(picture.descendants().filter(is_bar).count(), 4 * names.len(), "a bar for each store and benchmark");
}

#[test]
fn a_table_has_every_store() {
    let place = TempDir::new().unwrap();
    let output =
        command(&place, &["--stores=slmdb,lmdb", "--benchmarks=fillrandom,readrandom", "--num=500", "--repeat=1"]);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let text = said(&output.stdout);
    for part in ["fillrandom ", "readrandom ", "LMDB 0.9", "slmdb: memory budget"] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("lmdb ")).count(), 2, "{text}");
}

#[test]
fn compression_makes_files_shorter_in_stores_that_have_it() {
    let space_bytes = |compression: &str| {
        let place = TempDir::new().unwrap();
        let stores = "--stores=slmdb,slmdb:engine=lab,slmdb:engine=tlsm,rocksdb,leveldb,lmdb";
        let output = command(
            &place,
            &[
                "--json",
                stores,
                compression,
                "--benchmarks=filluniquerandom,flush",
                "--num=20000",
                "--value_size=1000",
                "--compression_ratio=0.2",
                "--write_buffer_size=1MiB",
                "--repeat=1",
            ],
        );
        assert!(output.status.success(), "{}", said(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let bytes = |store: &Value| (store["store"].to_string(), store["space_bytes"].as_f64().unwrap());
        summary["benchmarks"][1]["stores"].as_array().unwrap().iter().map(bytes).collect::<Vec<_>>()
    };
    let (plain, shorter) = (space_bytes("--compression_type=none"), space_bytes("--compression_type=lz4"));
    for ((store, plain), (_, shorter)) in plain.into_iter().zip(shorter) {
        assert_eq!(shorter < 0.8 * plain, store != "\"lmdb\"", "{store}: {shorter} bytes instead of {plain}");
    }
}

#[test]
fn a_store_that_fails_is_told_and_the_others_are_measured() {
    let place = TempDir::new().unwrap();
    // LMDB's keys have at most 511 bytes.
    let output = command(
        &place,
        &["--json", "--stores=lmdb,redb", "--benchmarks=fillrandom", "--num=100", "--key_size=600", "--repeat=1"],
    );
    assert_eq!(output.status.code(), Some(1));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(summary["stores"][0]["failed"].as_str().unwrap().contains("lmdb: "), "{summary}");
    assert!(summary["stores"][1].get("failed").is_none());
    assert_eq!(summary["benchmarks"][0]["stores"][0]["store"], "redb");
}

#[test]
fn a_directory_with_other_things_is_left_alone() {
    let place = TempDir::new().unwrap();
    std::fs::create_dir(place.path().join("stores")).unwrap();
    std::fs::write(place.path().join("stores/mine"), "mine").unwrap();
    let output = command(&place, &["--stores=lmdb", "--benchmarks=fillrandom", "--num=100", "--repeat=1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("not made to be measured"), "{}", said(&output.stderr));
    assert_eq!(std::fs::read(place.path().join("stores/mine")).unwrap(), b"mine");
}

#[test]
fn a_memory_limit_holds_or_is_skipped_with_a_reason() {
    let place = TempDir::new().unwrap();
    // The pool alone is larger than the limit: it does not count.
    let output = command(
        &place,
        &[
            "--json",
            "--stores=slmdb:emulated,lmdb",
            "--benchmarks=filluniquerandom,readrandom",
            "--num=20000",
            "--value_size=1000",
            "--repeat=1",
            "--memory-limit=48MiB",
            "--memory_budget=8MiB",
            "--write_buffer_size=16MiB",
        ],
    );
    let text = said(&output.stdout);
    assert!(output.status.success(), "{text} {}", said(&output.stderr));
    if let Some(why) = text.strip_prefix("SKIPPED: ") {
        println!("SKIPPED: {why}");
        assert!(why.contains("--memory-limit"));
        return;
    }
    let summary: Value = serde_json::from_str(&text).unwrap();
    for row in summary["benchmarks"][1]["stores"].as_array().unwrap() {
        assert_eq!(row["runs"][0]["found"], 20000);
    }
}

#[test]
fn a_loop_device_is_the_run_s_own_or_is_skipped_with_a_reason() {
    let place = tempfile::Builder::new().prefix("with a space ").tempdir().unwrap();
    let measure = || {
        command(
            &place,
            &[
                "--json",
                "--stores=lmdb",
                "--benchmarks=filluniquerandom,flush",
                "--num=4000",
                "--value_size=1000",
                "--repeat=2",
                "--loop-device=64MiB",
            ],
        )
    };
    let output = measure();
    let text = said(&output.stdout);
    assert!(output.status.success(), "{text} {}", said(&output.stderr));
    if let Some(why) = text.strip_prefix("SKIPPED: ") {
        println!("SKIPPED: {why}");
        assert!(why.contains("--loop-device"));
        return;
    }
    let summary: Value = serde_json::from_str(&text).unwrap();
    for run in summary["benchmarks"][0]["stores"][0]["runs"].as_array().unwrap() {
        let written = run["device_written_bytes"].as_u64().unwrap();
        assert!((4_000_000..40_000_000).contains(&written), "{written} bytes were written to a device of its own");
    }
    assert_eq!(std::fs::read_dir(place.path().join("stores")).unwrap().count(), 1, "the marker alone is left");

    // One that is mounted there already is somebody's.
    let device = LoopDevice::create(&place.path().join("stores"), 16 << 20).unwrap();
    std::fs::write(device.directory().join("theirs"), "theirs").unwrap();
    let output = measure();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("still mounted"), "{}", said(&output.stderr));
    assert_eq!(std::fs::read(device.directory().join("theirs")).unwrap(), b"theirs");
    drop(device);
    assert_eq!(std::fs::read_dir(place.path().join("stores")).unwrap().count(), 1);
}

/// SLM-DB's evaluation, small.
const SLM: [&str; 2] = ["--scale=0.0001", "--stores=leveldb,slmdb:emulated,latency=500,model=line,policy=paper"];
/// LAB-DB's.
const LAB: [&str; 3] =
    ["--paper=lab", "--scale=0.00002", "--stores=rocksdb:nvm=16MiB,level_base=4MiB,slmdb:engine=lab"];

/// Does a paper's evaluation; the page, and the JSON.
fn evaluated(place: &TempDir, arguments: &[&str], more: &[&str]) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb-compare"));
    command.arg("paper").args(arguments);
    for (flag, directory) in [("--out", "out"), ("--db", "stores"), ("--pools", ".")] {
        command.arg(flag).arg(place.path().join(directory));
    }
    let output = command.args(more).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let page = std::fs::read_to_string(place.path().join("out/paper.html")).unwrap();
    assert!(!page.contains("://"), "nothing is fetched from elsewhere");
    (page, serde_json::from_slice(&std::fs::read(place.path().join("out/paper.json")).unwrap()).unwrap())
}

#[test]
fn the_paper_s_evaluation_is_a_page_and_json() {
    let place = TempDir::new().unwrap();
    let (page, json) = evaluated(&place, &SLM, &[]);
    for title in
        ["Table 1", "Figure 2", "Figure 4", "Figure 5", "Figure 6", "Table 2", "Figure 7", "Figure 8", "Section 7"]
    {
        assert!(page.contains(title), "{title}");
    }
    assert_eq!(page.matches("Section 6.5").count(), 4);
    assert_eq!(json["values"].as_array().unwrap().len(), 5);
    assert_eq!(json["ycsb"][0]["runs"][1]["benchmarks"][1]["benchmark"], "ycsbe");
    for (sweep, stores) in [("latency", 4), ("ranges", 2), ("live", 3), ("schemes", 4), ("bandwidth", 3), ("larger", 2)]
    {
        let measured = &json[sweep][0]["runs"][0]["stores"];
        assert_eq!(measured.as_array().unwrap().len(), stores, "{sweep}");
    }
}

#[test]
fn a_part_of_the_paper_s_evaluation_is_measured_alone() {
    let place = TempDir::new().unwrap();
    let (page, json) = evaluated(&place, &SLM, &["--only=ranges"]);
    assert!(page.contains("Figure 8") && !page.contains("Figure 6") && json["values"].is_null());
    assert_eq!(page.matches("<rect ").count(), 4 * 2, "each number of keys has a bar for each store");
}

#[test]
fn the_evaluation_of_lab_db_is_a_page_and_json() {
    let place = TempDir::new().unwrap();
    let (page, json) = evaluated(&place, &LAB, &[]);
    let figures = [3, 4, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19].map(|number| format!("Figure {number}: "));
    for title in figures.iter().map(String::as_str).chain(["Table 2: ", "Table 3: "]) {
        assert!(page.contains(title), "{title}");
    }
    // A store whose process was killed was opened again.
    let recovered = &json["recovery"][0]["runs"][0]["benchmarks"][1];
    assert_eq!(recovered["benchmark"], "recover");
    for store in recovered["stores"].as_array().unwrap() {
        assert!(
            store["runs"][0]["operations"] == 1 && store["runs"][0]["latency"]["max_ns"].as_u64() > Some(0),
            "{store}"
        );
    }
    let unlike = page.matches("RocksDB-NVM in the paper").count();
    assert_eq!(unlike, 5, "each line of Table 2 has the paper's numbers");
}

#[test]
fn the_evaluation_of_tlsm_is_a_page_and_json() {
    let place = TempDir::new().unwrap();
    let stores = "--stores=leveldb:nvm,slmdb:emulated,engine=tlsm,tiering=none";
    let (page, json) = evaluated(&place, &["--paper=tlsm", "--scale=0.0005", stores], &["--only=values,threshold"]);
    for title in ["Figure 5e to 5h", "Figure 7c, 7d", "Table 2: lifetimes"] {
        assert!(page.contains(title), "{title}");
    }
    assert!(!page.contains("Figure 6") && json["ycsb"].is_null());
    assert_eq!(page.matches("<td>TLSM in the paper</td>").count(), 2, "writes and reads");
    // What has no number is no number.
    assert!(page.contains("<td>0.25</td>") && !page.contains("NaN"));
}

#[test]
fn what_no_paper_has_is_refused_with_what_there_is() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb-compare"));
    let output = command.args(["paper", "--paper=lab", "--only=bandwidth"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("there are micro, memtables"), "{}", said(&output.stderr));
}

#[test]
fn all_designs_are_compared_with_a_part_of_the_data() {
    let place = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb-compare"));
    command.args(["designs", "--scale=0.002", "--repeat=1"]);
    for (flag, directory) in [("--out", "out"), ("--db", "stores"), ("--pools", ".")] {
        command.arg(flag).arg(place.path().join(directory));
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let file = |name: &str| std::fs::read_to_string(place.path().join("out").join(name)).unwrap();
    let (page, tables) = (file("designs.html"), file("designs.md"));
    let json: Value = serde_json::from_str(&file("designs.json")).unwrap();
    let works = json["works"].as_array().unwrap();
    assert_eq!(works.len(), 5);
    for (work, stores) in works.iter().zip([20, 10, 10, 20, 10]) {
        assert_eq!(work["designs"].as_array().unwrap().len(), stores, "{}", work["work"]);
        if let Some(why) = work["skipped"].as_str() {
            println!("SKIPPED: {}: {why}", work["work"]);
            continue;
        }
        for step in work["run"]["benchmarks"].as_array().unwrap() {
            assert_eq!(step["stores"].as_array().unwrap().len(), stores, "{}: {}", work["work"], step["benchmark"]);
        }
    }
    let rows = |label: &str| tables.lines().filter(|line| line.starts_with(&format!("| {label} |"))).count();
    assert!(rows("slm, plain memory") > 20 && rows("RocksDB, plain memory") == rows("slm, plain memory"), "{tables}");
    assert!(rows("tlsm, all, a pool like persistent memory") > 0 && tables.contains("| design | gets | puts |"));
    assert!(!page.contains("://") && !page.contains("<script"), "one file, which does nothing");
    assert!(page.matches("<svg ").count() > 60);
    for svg in page.split("<svg ").skip(1).map(|rest| rest.split("</svg>").next().unwrap()) {
        roxmltree::Document::parse(&format!("<svg {svg}</svg>")).unwrap();
    }
    assert_eq!(std::fs::read_dir(place.path().join("stores")).unwrap().count(), 1, "the marker alone is left");
}

#[test]
fn a_work_that_there_is_not_is_refused_with_what_there_is() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slmdb-compare"));
    let output = command.args(["designs", "--only=small,tiny"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("--only=tiny: there are small, medium, large, skew, larger"));
}
