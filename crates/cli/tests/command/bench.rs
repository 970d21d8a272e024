//! `bench`: each benchmark at a tiny size, in lines and in JSON, on each medium; its flags, and what it must not remove.

use serde_json::Value;

use crate::{Place, Ran, slmdb};

/// What is measured, and what only tells something.
const MEASURED: [&str; 28] = [
    "fillseq",
    "fillbatch",
    "filluniquerandom",
    "fillsync",
    "fill100K",
    "fillrandom",
    "overwrite",
    "readrandom",
    "readmissing",
    "readhot",
    "readseq",
    "readreverse",
    "seekrandom",
    "seekordered",
    "readwhilewriting",
    "readrandomwriterandom",
    "deleterandom",
    "flush",
    "compact",
    "waitforcompaction",
    "deleteseq",
    "ycsbload",
    "ycsba",
    "ycsbb",
    "ycsbc",
    "ycsbf",
    "ycsbd",
    "ycsbe",
];
/// What one thread does for all.
const MAINTENANCE: [&str; 3] = ["flush", "compact", "waitforcompaction"];
const TOLD: [&str; 2] = ["stats", "sstables"];

fn all() -> String {
    format!("--benchmarks={},{}", MEASURED.join(","), TOLD.join(","))
}

fn objects(ran: &Ran) -> Vec<Value> {
    ran.expect(0).out().lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// One benchmark's object, on a store of its own.
fn object(arguments: &[&str]) -> Value {
    let mut all = vec!["bench", "--json"];
    all.extend_from_slice(arguments);
    objects(&slmdb(&all, b"")).pop().expect("an object")
}

#[test]
fn every_benchmark_runs_and_prints_a_line_of_db_bench() {
    let ran = slmdb(&["bench", &all(), "--num=2000", "--reads=500", "--seek_nexts=3", "--memtable=64KiB"], b"");
    let out = ran.expect(0).out();
    assert_eq!(ran.stderr, "");
    let mut results = out.lines().filter(|line| line.contains(" micros/op "));
    for name in MEASURED {
        let line = results.next().unwrap_or_else(|| panic!("{name}: {out}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(line.starts_with(&format!("{name:<12} : ")), "{line}");
        let (micros, rate): (f64, u64) = (words[2].parse().expect(line), words[4].parse().expect(line));
        assert_eq!((words[3], words[5]), ("micros/op", "ops/sec;"), "{line}");
        let expected = 1e6 / micros;
        assert!(micros > 0.0 && (rate as f64 - expected).abs() <= 1.0 + 0.01 * expected, "{line}");
        let moves_bytes = !["readmissing", "deleteseq", "deleterandom"].contains(&name) && !MAINTENANCE.contains(&name);
        assert_eq!(line.contains(" MB/s"), moves_bytes, "{line}");
    }
    assert_eq!(results.next(), None);
    assert!(out.contains("(2000 of 2000 found)"), "YCSB asks for what is there: {out}");
    assert!(out.contains("memtable-entries: ") && out.contains("sequence numbers"), "stats and sstables: {out}");
    assert!(out.lines().any(|line| line.starts_with("Keys:       16 bytes each")), "{out}");
    for told in ["  latency, us   : p50 ", "  written, MB   : put ", "  taken, MB     : disk "] {
        assert!(out.contains(told), "{told}: {out}");
    }
}

#[test]
fn json_has_what_was_measured_on_each_medium() {
    for emulated in [false, true] {
        let place = Place::new();
        let pm = format!("emulated:{}", place.path("pool").display());
        let mut arguments = vec!["--json", "--num=1000", "--threads=2", "--write_buffer_size", "64KiB"];
        let all = all();
        arguments.push(&all);
        if emulated {
            arguments.extend(["--pm", &pm, "--policy=paper", "--memtable_links=persisted"]);
        }
        let objects = objects(&place.run("bench", &arguments));
        assert_eq!(objects.len(), MEASURED.len() + TOLD.len());
        for (object, name) in objects.iter().zip(MEASURED) {
            assert_eq!(object["benchmark"], *name);
            assert_eq!(object["store"], "slmdb");
            let maintains = MAINTENANCE.contains(&name);
            assert_eq!(object["threads"], if maintains { 1 } else { 2 }, "{object}");
            for field in ["seconds", "ops_per_second", "cpu_seconds"] {
                assert!(object[field].as_f64() > Some(0.0), "{field}: {object}");
            }
            for field in ["operations", "resident_bytes", "resident_anonymous_bytes", "space_bytes", "memory_bytes"] {
                assert!(object[field].as_u64() > Some(0), "{field}: {object}");
            }
            let latency = &object["latency"];
            let ns = ["min_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns", "p99_99_ns", "max_ns"]
                .map(|field| latency[field].as_u64().unwrap_or_else(|| panic!("{field}: {object}")));
            assert!(ns[1..].is_sorted() && ns[0] <= ns[7] && ns[7] > 0, "{object}");
            let counted: u64 =
                object["latency_by_kind"].as_object().unwrap().values().filter_map(|kind| kind["count"].as_u64()).sum();
            assert_eq!(latency["count"].as_u64(), Some(counted));
            let operations = object["operations"].as_u64().unwrap();
            match name {
                "fillbatch" => {}
                // Of entries in order each thread times one in thirteen alone.
                "readseq" | "readreverse" => {
                    assert!((operations..operations + 26).contains(&(13 * counted)), "{object}")
                }
                _ => assert_eq!(operations, counted, "{object}"),
            }
            // Nothing is written back on Dram: that is no 0, but nothing.
            for field in ["fast_tier_bytes_asked", "fast_tier_bytes_flushed", "fast_tier_media_bytes"] {
                assert_eq!(object.get(field).is_some(), emulated, "{field}: {object}");
            }
        }
        let of = |name: &str| &objects[MEASURED.iter().position(|other| *other == name).unwrap()];
        assert_eq!(of("fillseq")["operations"], 2000, "each thread writes them all");
        assert_eq!(of("filluniquerandom")["operations"], 1000, "each has its part");
        assert_eq!(of("fillsync")["operations"], 2);
        assert_eq!(of("fillseq")["bytes_put"], 2000 * 116);
        assert_eq!(of("ycsbload")["operations"], 1000);
        assert_eq!(of("ycsba")["operations"], 1000);
        assert_eq!(of("ycsbc")["latency_by_kind"].as_object().unwrap().len(), 1);
        for name in ["ycsba", "ycsbb", "ycsbc", "ycsbd", "ycsbe", "ycsbf"] {
            assert_eq!(of(name)["found"], of(name)["asked"], "YCSB asks for what is there");
        }
        assert_eq!(of("readmissing")["found"], 0);
        assert!(of("readwhilewriting")["operations_beside"].as_u64() > Some(0));
        assert_eq!(of("readseq")["operations"].as_u64().unwrap() % 2, 0);
        if emulated {
            assert!(of("fillseq")["fast_tier_media_bytes"].as_u64() > of("fillseq")["bytes_put"].as_u64());
            assert!(place.path("pool").exists(), "kept with the store that was named");
        }
        assert!(objects.last().unwrap()["text"].as_str().unwrap().contains("sequence numbers"));
    }
}

#[test]
fn what_is_found_is_counted_and_the_same_each_time() {
    let place = Place::new();
    let counts = |arguments: &[&str]| {
        let mut all = vec!["--json", "--num=3000", "--compression_type=none"];
        all.extend_from_slice(arguments);
        let found = objects(&place.run("bench", &all)).pop().unwrap();
        (found["found"].as_u64().unwrap(), found["asked"].as_u64().unwrap())
    };
    let filled = |seed: &str| counts(&["--benchmarks", "fillrandom,readrandom", "--seed", seed]);
    assert_eq!(counts(&["--benchmarks=fillseq,readrandom", "--batch_size=7"]), (3000, 3000));
    assert_eq!(counts(&["--benchmarks=fillseq,readrandom", "--look_at_values=0"]), (3000, 3000));
    assert_eq!(counts(&["--benchmarks=filluniquerandom,seekrandom", "--threads", "3"]), (9000, 9000));
    let (found, asked) = filled("5");
    // Of numbers drawn as often as there are, 1 - 1/e come at all: 63.2 %.
    assert!((1750..2050).contains(&found) && asked == 3000, "{found}");
    assert_eq!(filled("5"), (found, asked));
    assert_ne!(filled("6").0, found);
    assert_eq!(counts(&["--benchmarks=fillseq,deleteseq,readrandom"]), (0, 3000));
}

#[test]
fn a_store_of_one_s_own_is_measured_but_never_removed() {
    let place = Place::new();
    place.run("put", &["mine", "value"]).expect(0);
    let before = place.exported();
    place.run("bench", &["--benchmarks=fillseq", "--num=10"]).failed(3, "invalid");
    assert_eq!(place.exported(), before);
    let arguments = ["--use_existing_db=1", "--benchmarks=fillseq,readseq", "--num", "10"];
    let ran = place.run("bench", &arguments);
    assert!(ran.expect(0).out().contains("fillseq      : skipped (--use_existing_db is true)"), "{}", ran.out());
    assert!(ran.out().contains("readseq      : "), "{}", ran.out());
    assert_eq!(place.exported(), before);

    // One that a bench has made is another's to remove.
    let other = Place::new();
    for _ in 0..2 {
        other.run("bench", &["--benchmarks=fillseq", "--num=10"]).expect(0);
    }
    assert_eq!(other.exported().lines().count(), 10);
    let ran = other.run("bench", &["--use_existing_db", "--benchmarks=readrandom", "--num=10"]);
    assert!(ran.expect(0).out().contains("(10 of 10 found)"), "{}", ran.out());
    place.run("bench", &["--use_existing_db", "--benchmarks=readseq", "--sync"]).expect(0);
    Place::new().run("bench", &["--use_existing_db", "--benchmarks=readseq"]).failed(3, "invalid");
}

#[test]
fn a_duration_ends_what_would_go_on() {
    let object = object(&["--benchmarks=readrandom", "--num=100", "--duration=1", "--threads=2"]);
    let seconds = object["seconds"].as_f64().unwrap();
    assert!((1.0..10.0).contains(&seconds) && object["operations"].as_u64() > Some(200), "{object}");
    let object = self::object(&["--benchmarks=fillseq", "--num=100", "--duration=100"]);
    assert_eq!(object["operations"], 100, "what goes in order has an end of its own");
}

#[test]
fn a_pool_in_a_named_place_goes_with_a_temporary_store() {
    let place = Place::new();
    let pm = format!("emulated:{}", place.path("pool").display());
    slmdb(&["bench", "--pm", &pm, "--benchmarks=fillrandom", "--num=100"], b"").expect(0);
    assert!(!place.path("pool").exists());
}

#[test]
fn histograms_are_printed_as_db_bench_does() {
    let ran = slmdb(&["bench", "--empty", "--benchmarks=fillseq,readwhilewriting", "--num=1000", "--histogram=1"], b"");
    let out = ran.expect(0).out();
    assert!(out.contains("Microseconds per write:\nCount: 1000 Average: "), "{out}");
    assert!(out.contains("Microseconds per read:\nCount: 1000 Average: "), "{out}");
    assert!(out.contains("\nPercentiles: P50: ") && out.contains(" P99.99: "), "{out}");
    assert!(!out.contains("  written, MB   : put 0.0, files"), "an empty store counts nothing: {out}");
}

#[test]
fn wrong_flags_are_usage_errors() {
    for arguments in [
        &["--benchmarks=fillseq,crc32c"][..],
        &["--benchmarks="],
        &["--num=0"],
        &["--num=lots"],
        &["--num=100000", "--key_size=3"],
        &["--zipf=1.5"],
        &["--threads=0"],
        &["--histogram=perhaps"],
        &["--compression_type=snappy"],
        &["--policy=best"],
        &["--use_existing_db"],
        &["--empty", "--db", "d"],
        &["--no_such_flag=1"],
    ] {
        let mut all = vec!["bench"];
        all.extend_from_slice(arguments);
        slmdb(&all, b"").failed(2, "usage");
    }
}
