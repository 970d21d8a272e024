//! What a listener is told, and that whatever it does the store goes on.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{Home, MEDIA, no_compaction};
use slmdb::{Db, ErrorKind, Event, Options, SpaceFor, StallCause};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

const STORE: &str = "/db";

/// Everything that was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Event>>>);

impl Told {
    fn listener(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let told = self.0.clone();
        move |event| told.lock().unwrap().push(event.clone())
    }

    fn all(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// What was told of flushes.
    fn flushes(&self) -> Vec<Event> {
        let is_of_flush = |event: &Event| matches!(event, Event::FlushBegan { .. } | Event::FlushEnded { .. });
        self.all().into_iter().filter(is_of_flush).collect()
    }

    /// Waits until an event is told that is so.
    #[track_caller]
    fn wait_for(&self, what: &str, is_so: impl Fn(&Event) -> bool) {
        let start = Instant::now();
        while !self.all().iter().any(&is_so) {
            assert!(start.elapsed() < Duration::from_secs(60), "not told: {what}; but {:#?}", self.all());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn options(env: &MemoryEnv, told: &Told) -> Options {
    crate::common::options()
        .env(Arc::new(env.clone()))
        .memtable_bytes(16 << 10)
        .memory_budget_bytes(1 << 16)
        .pool_initial_bytes(1 << 20)
        .pool_maximum_bytes(1 << 28)
        .event_listener(told.listener())
}

/// Puts 10,000 times (many MemTables), or until a put is refused.
fn put_until_refused(db: &Db) -> Option<ErrorKind> {
    (0..10_000).find_map(|number| db.put(format!("{number:06}"), [7; 200]).err()).map(|error| error.kind())
}

/// Flushes are told in order and all of them before close returns.
#[test]
fn flushes_are_told_in_order_and_before_close_returns() {
    for on in MEDIA {
        let (home, told) = (Home::new(on), Told::default());
        let options = home.options().compaction(no_compaction()).event_listener(told.listener());
        let db = options.open(home.store()).unwrap();
        for round in 0..3 {
            for number in 0..=round {
                db.put(format!("{number}"), [round; 50]).unwrap();
                db.put(format!("{number}"), [round; 70]).unwrap();
            }
            db.flush().unwrap();
        }
        let run_bytes: u64 = db.table_files().iter().map(|file| file.bytes).sum();
        db.close().unwrap();
        // A flush may begin while the one before it is being committed.
        let (began, ended): (Vec<_>, Vec<_>) =
            told.flushes().into_iter().partition(|event| matches!(event, Event::FlushBegan { .. }));
        assert_eq!((began.len(), ended.len()), (3, 3), "{on:?}: {began:#?} {ended:#?}");
        let mut bytes_told = 0;
        for (flush, (began, ended)) in (1..).zip(began.iter().zip(&ended)) {
            match (began, ended) {
                (
                    Event::FlushBegan { generation, entries, memtable_bytes, .. },
                    Event::FlushEnded { generation: ended, file, entries: in_file, bytes, duration, .. },
                ) => {
                    assert_eq!((generation, *file), (ended, Some(flush)), "{on:?}");
                    assert_eq!((*entries, *in_file), (2 * u64::from(flush), u64::from(flush)), "{on:?}");
                    assert!(*memtable_bytes > 100 && *duration > Duration::ZERO, "{on:?}: {began:?} {ended:?}");
                    bytes_told += bytes;
                }
                other => panic!("{on:?}: {other:?}"),
            }
        }
        assert_eq!(bytes_told, run_bytes, "{on:?}");
    }
}

/// A flush that finds no space is told with the writers that wait for it.
#[test]
fn a_flush_without_space_is_told_with_its_stalled_writers() {
    let (env, told) = (MemoryEnv::new(), Told::default());
    let db = options(&env, &told).open(STORE).unwrap();
    env.fail_next("write /db/0000000001.sst", Failure::Full, Repeat::ForGood);
    assert_eq!(put_until_refused(&db), Some(ErrorKind::Full));
    told.wait_for("the job's want of space", |event| {
        matches!(event, Event::SpaceRefused { needed_by: SpaceFor::Job, cause, .. } if cause.kind() == ErrorKind::Full)
    });
    // A writer that comes later waits, too, until it is told that it is for nothing.
    told.wait_for("writers wait", |event| {
        matches!(event, Event::WriteStallBegan { waits_for: StallCause::Flush | StallCause::MemTable, .. })
    });
    told.wait_for("they gave up", |event| {
        matches!(event, Event::WriteStallEnded { waits_for: StallCause::Flush | StallCause::MemTable, .. })
    });
    env.clear_failures();
    told.wait_for("space again", |event| matches!(event, Event::SpaceFound { needed_by: SpaceFor::Job, .. }));
    db.flush().unwrap();
    db.close().unwrap();
    let events = told.all();
    let delays = |is_so: fn(&Event) -> bool| events.iter().filter(|event| is_so(event)).count();
    let began = delays(|event| matches!(event, Event::WriteStallBegan { .. }));
    assert_eq!(began, delays(|event| matches!(event, Event::WriteStallEnded { .. })), "{events:#?}");
    assert!(events.iter().any(|event| matches!(event, Event::FlushEnded { .. })));
    assert!(!events.iter().any(|event| matches!(event, Event::Failed { .. })), "{events:#?}");
}

#[test]
fn a_full_disk_is_told_once_and_so_is_its_end() {
    let (env, told) = (MemoryEnv::new(), Told::default());
    let db = options(&env, &told).open(STORE).unwrap();
    env.set_capacity(64 << 10);
    assert_eq!(put_until_refused(&db), Some(ErrorKind::Full));
    for _ in 0..10 {
        assert_eq!(db.put("one more", [1; 4000]).unwrap_err().kind(), ErrorKind::Full);
    }
    let refused = |event: &Event| matches!(event, Event::SpaceRefused { .. });
    told.wait_for("a refusal", refused);
    assert!(told.all().iter().filter(|event| refused(event)).count() <= 3, "one of a kind: {:#?}", told.all());
    env.set_capacity(1 << 30);
    assert_eq!(put_until_refused(&db), None);
    told.wait_for("space again", |event| matches!(event, Event::SpaceFound { .. }));
    db.close().unwrap();
}

#[test]
fn a_failure_that_stops_all_writing_is_told_with_its_cause() {
    let (env, told) = (MemoryEnv::new(), Told::default());
    let db = options(&env, &told).open(STORE).unwrap();
    db.put("k", "v").unwrap();
    env.fail_next("sync /db/0000000001.sst", Failure::FailedSync, Repeat::Once);
    db.flush().unwrap_err();
    told.wait_for("the failure", |event| {
        matches!(event, Event::Failed { cause, .. }
            if cause.kind() == ErrorKind::Io && cause.to_string().contains("0000000001.sst"))
    });
    assert_eq!(db.put("k", "w").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert!(db.close().is_err());
    assert_eq!(told.all().iter().filter(|event| matches!(event, Event::Failed { .. })).count(), 1);
}

#[test]
fn a_listener_may_use_the_store_that_it_listens_to() {
    let slot: Arc<Mutex<Option<Db>>> = Arc::default();
    let (own, told) = (slot.clone(), Told::default());
    let tell = told.listener();
    let home = Home::new(crate::common::On::Dram);
    let options = home.options().event_listener(move |event: &Event| {
        tell(event);
        let db = own.lock().unwrap().clone();
        if let (Some(db), Event::FlushEnded { file: Some(1), .. }) = (db, event) {
            db.put("from the listener", "v").unwrap();
            db.flush().unwrap(); // needs the very threads that tell
            assert_eq!(db.stats().table_files, 2);
        }
    });
    let db = options.open(home.store()).unwrap();
    *slot.lock().unwrap() = Some(db.clone());
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    told.wait_for("the listener's own flush", |event| matches!(event, Event::FlushEnded { file: Some(2), .. }));
    slot.lock().unwrap().take();
    assert_eq!(db.get("from the listener").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    home.open().close().unwrap();
}

#[test]
fn a_listener_may_close_the_store() {
    let slot: Arc<Mutex<Option<Db>>> = Arc::default();
    let (own, told) = (slot.clone(), Told::default());
    let tell = told.listener();
    let home = Home::new(crate::common::On::Dram);
    let options = home.options().event_listener(move |event: &Event| {
        if let (Event::FlushEnded { .. }, Some(db)) = (event, own.lock().unwrap().take()) {
            db.close().unwrap();
        }
        tell(event);
    });
    let db = options.open(home.store()).unwrap();
    db.put("k", "v").unwrap();
    let mut held = slot.lock().unwrap();
    db.flush().unwrap();
    *held = Some(db);
    drop(held);
    told.wait_for("the flush, after the close", |event| matches!(event, Event::FlushEnded { .. }));
    assert_eq!(home.open().get("k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_listener_that_panics_harms_nobody() {
    let told = Told::default();
    let tell = told.listener();
    let home = Home::new(crate::common::On::Emulated);
    let options = home.options().event_listener(move |event: &Event| {
        tell(event);
        panic!("a listener of the test panics");
    });
    let db = options.open(home.store()).unwrap();
    for number in 0..3 {
        db.put("k", [number]).unwrap();
        db.flush().unwrap();
    }
    db.close().unwrap();
    assert_eq!(told.flushes().len(), 6);
    assert_eq!(home.open().get("k").unwrap().as_deref(), Some(&[2][..]));
}
