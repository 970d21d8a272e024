//! The spans and events of `tracing` that a store's life leaves, seen by a subscriber of the test's own; and that there are
//! none on the way of a write or a read.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use common::Home;
use slmdb::EngineName;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A span or an event, with its fields as text.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: String,
    fields: BTreeMap<String, String>,
}

static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
static SPANS: AtomicU64 = AtomicU64::new(0);

struct Watcher;

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.name = format!("{value:?}");
        } else {
            self.fields.insert(field.name().to_string(), format!("{value:?}"));
        }
    }
}

impl Subscriber for Watcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("slmdb")
    }

    /// A span's number is its place in the list, plus 1.
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut seen = Seen { name: span.metadata().name().into(), ..Seen::default() };
        span.record(&mut seen);
        let mut all = SEEN.lock().unwrap();
        all.push(seen);
        SPANS.fetch_add(1, Ordering::Relaxed);
        Id::from_u64(all.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut SEEN.lock().unwrap()[span.into_u64() as usize - 1]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut seen = Seen::default();
        event.record(&mut seen);
        SEEN.lock().unwrap().push(seen);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn all(name: &str) -> Vec<BTreeMap<String, String>> {
    SEEN.lock().unwrap().iter().filter(|seen| seen.name == name).map(|seen| seen.fields.clone()).collect()
}

#[track_caller]
fn assert_fields(name: &str, expected: &[(&str, &str)]) {
    let found = all(name);
    let has = |fields: &BTreeMap<String, String>| {
        fields.get("ms").is_none_or(|ms| ms.parse::<f64>().is_ok_and(|ms| ms >= 0.0))
            && expected.iter().all(|(field, value)| fields.get(*field).map(String::as_str) == Some(*value))
    };
    assert!(found.iter().any(has), "{name} with {expected:?}: {found:?}");
}

// The subscriber is the process's, so there is one test.
/// A store's life is told in spans and single writes and reads are not.
#[test]
fn a_stores_life_is_told_in_spans_but_no_write_or_read() {
    tracing::subscriber::set_global_default(Watcher).unwrap();
    for on in common::MEDIA {
        SEEN.lock().unwrap().clear();
        let home = Home::new(on);
        let db = home.open();
        db.put("k", "v").unwrap();
        let before = SEEN.lock().unwrap().len();
        for number in 0..100 {
            db.put(format!("{number}"), "v").unwrap();
            assert!(db.get(format!("{number}")).unwrap().is_some());
        }
        assert_eq!(SEEN.lock().unwrap().len(), before, "{:?}", SEEN.lock().unwrap());
        db.flush().unwrap();
        assert!(db.verify(&mut |_| ()).unwrap().is_clean());
        db.close().unwrap();

        let directory = home.store().display().to_string();
        assert_fields("open", &[("directory", &directory), ("read_only", "false")]);
        assert_fields("replay_log", &[("arenas", "0")]);
        assert_fields("take_over", &[("memtables", "0")]);
        assert_fields("recovered", &[("table_files", "0"), ("last_sequence_number", "0")]);
        assert_fields("flush_build", &[("entries", "101")]);
        // (TLSM has no index, and ChameleonDB's gets its slots with the commit.)
        if matches!(common::engine(), EngineName::Slm | EngineName::Lab) {
            assert_fields("flush_index", &[("file", "1")]);
        }
        assert_eq!(all("flush_commit").len(), 1);
        assert_fields("flushed", &[("file", "1"), ("entries", "101")]);
        let bytes: u64 = all("flushed")[0]["bytes"].parse().unwrap();
        assert!(bytes > 1000, "{on:?}: {bytes}");
        // (Lists are none.)
        let files = if common::flushes_to_files(on) { "1" } else { "0" };
        assert_fields("verify", &[("table_files", files), ("entries", "101"), ("findings", "0")]);
        for name in ["open", "flush_build", "flush_index", "flush_commit", "flushed", "verify", "close"] {
            assert!(all(name).iter().all(|fields| fields.contains_key("ms")), "{on:?}: {name}: {:?}", all(name));
        }
        assert_eq!(all("close").len(), 1);

        SEEN.lock().unwrap().clear();
        drop(home.options().read_only(true).open(home.store()).unwrap());
        assert_fields("open", &[("read_only", "true")]);
        assert_fields("recovered", &[("table_files", files), ("last_sequence_number", "101")]);
        assert!(all("take_over").is_empty());
    }
    assert!(SPANS.load(Ordering::Relaxed) > 10);
}

#[test]
fn every_other_engine_passes() {
    common::every_other_engine_passes();
}
