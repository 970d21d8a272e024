//! slmdb as a [`Store`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb::{Cursor, Db, ErrorKind, Event, EventListener, Options, WriteBatch};

use crate::description;
use crate::error::Result;
use crate::place;
use crate::store::{Description, Entry, Numbers, Opener, Start, Store, Which};

/// What is written back to the fast tier at a time.
const LINE_BYTES: u64 = 64;

/// Makes stores of slmdb.
#[derive(Debug, Clone)]
pub struct SlmOpener {
    name: String,
    directory: PathBuf,
    options: Options,
}

impl SlmOpener {
    /// In `directory`, with `options`; whether writes are synced is set by what is measured.
    pub fn new(name: impl Into<String>, directory: impl Into<PathBuf>, options: Options) -> SlmOpener {
        SlmOpener { name: name.into(), directory: directory.into(), options }
    }

    fn open_fresh(&self, options: Options) -> Result<Db> {
        place::may_be_cleared(&self.directory)?;
        match slmdb::destroy(&self.directory, &self.options) {
            Err(error) if error.kind() != ErrorKind::Invalid => return Err(error.into()),
            // There was none, and opening says what else may be wrong.
            _ => {}
        }
        // A store wants a directory without the mark.
        place::remove(&self.directory)?;
        let db = options.create_if_missing(true).error_if_exists(true).open(&self.directory)?;
        place::mark(&self.directory)?;
        Ok(db)
    }
}

impl Opener for SlmOpener {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, which: Which, sync: bool) -> Result<Box<dyn Store>> {
        let compaction_ns = Arc::new(AtomicU64::new(0));
        let options = self.options.clone().event_listener(counting(compaction_ns.clone()));
        let db = match which {
            Which::Fresh => self.open_fresh(options.sync(sync))?,
            Which::Existing => options.create_if_missing(false).sync(sync).open(&self.directory)?,
        };
        Ok(Box::new(Slm { db, compaction_ns }))
    }

    fn directory(&self) -> Option<&Path> {
        Some(&self.directory)
    }
}

/// Adds up how long flushes and compactions take.
fn counting(total_ns: Arc<AtomicU64>) -> impl EventListener {
    move |event: &Event| {
        if let Event::FlushEnded { duration, .. } | Event::CompactionEnded { duration, .. } = event {
            total_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// An open store of slmdb.
struct Slm {
    db: Db,
    compaction_ns: Arc<AtomicU64>,
}

impl Store for Slm {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.put(key, value)?)
    }

    fn put_all(&self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in entries {
            batch.put(key, value)?;
        }
        Ok(self.db.write(&batch)?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        Ok(self.db.delete(key)?)
    }

    fn get(&self, key: &[u8], look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.db.get(key)?;
        if let Some(value) = &value {
            look(value);
        }
        Ok(value.is_some())
    }

    fn update_if_present(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.db.update_if_present(key, value)?)
    }

    fn walk(&self, start: Start<'_>, visit: &mut dyn FnMut(&mut dyn Entry) -> Result<bool>) -> Result<()> {
        let mut cursor = self.db.cursor()?;
        match start {
            Start::At(key) => cursor.seek(key)?,
            Start::First => cursor.seek_first()?,
            Start::Last => cursor.seek_last()?,
        }
        while cursor.valid() && visit(&mut OnCursor { cursor: &mut cursor })? {
            match start {
                Start::Last => cursor.prev()?,
                Start::At(_) | Start::First => cursor.next()?,
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(self.db.sync()?)
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn compact(&self) -> Result<()> {
        Ok(self.db.compact_range::<&[u8]>(..)?)
    }

    fn numbers(&self) -> Numbers {
        let stats = self.db.stats();
        let counters = &stats.since_open;
        let files = self.db.table_files();
        let level_zero = files.iter().filter(|file| file.level == 0);
        // On `Dram` nothing is written back, so there is nothing to count.
        let of_medium = |count: u64| (stats.medium != "dram").then_some(count);
        Numbers {
            file_bytes_written: Some(counters.file_bytes_written),
            compaction_ns: Some(self.compaction_ns.load(Ordering::Relaxed)),
            level_zero_bytes: Some(level_zero.map(|file| file.bytes).sum()),
            fast_tier_bytes_asked: of_medium(counters.fast_tier_bytes_asked),
            fast_tier_bytes_flushed: of_medium(counters.lines_flushed * LINE_BYTES),
            fast_tier_media_bytes: of_medium(counters.media_bytes),
            fast_tier_bytes: Some(stats.fast_tier_bytes),
            fast_tier_index_bytes_per_key: (stats.index_keys > 0).then_some(stats.fast_tier_index_bytes_per_key),
            memory_bytes: Some(stats.memory_bytes),
        }
    }

    fn describe(&self, what: Description) -> Option<String> {
        Some(match what {
            Description::Stats => description::stats(&self.db.stats()),
            Description::TableFiles => description::table_files(&self.db.table_files()),
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

/// The entry a cursor is on.
struct OnCursor<'c> {
    cursor: &'c mut Cursor,
}

impl Entry for OnCursor<'_> {
    fn key(&self) -> &[u8] {
        self.cursor.key()
    }

    fn value(&mut self) -> Result<&[u8]> {
        Ok(self.cursor.value_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::error::Error;

    fn put(opener: &SlmOpener, which: Which, key: &str) {
        let store = opener.open(which, false).unwrap();
        store.put(key.as_bytes(), b"value").unwrap();
        store.close().unwrap();
    }

    fn has(opener: &SlmOpener, key: &str) -> bool {
        let store = opener.open(Which::Existing, false).unwrap();
        let mut seen = Vec::new();
        let found = store.get(key.as_bytes(), &mut |value| seen = value.to_vec()).unwrap();
        assert_eq!(found, seen == b"value");
        found
    }

    #[test]
    fn what_was_made_to_be_measured_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let opener = SlmOpener::new("slmdb", place.path().join("db"), Options::default());
        assert!(opener.open(Which::Existing, false).is_err(), "there is none yet");
        put(&opener, Which::Fresh, "a");
        assert!(has(&opener, "a"));
        put(&opener, Which::Existing, "b");
        put(&opener, Which::Fresh, "c");
        assert!(!has(&opener, "a") && !has(&opener, "b") && has(&opener, "c"));

        let own = SlmOpener::new("slmdb", place.path().join("own"), Options::default());
        Options::default().open(place.path().join("own")).unwrap().put("mine", "value").unwrap();
        assert!(matches!(own.open(Which::Fresh, false), Err(Error::Refused(_))));
        assert!(has(&own, "mine"));

        // A directory of notes is not to become a store either.
        let notes = SlmOpener::new("slmdb", place.path().join("notes"), Options::default());
        fs::create_dir(place.path().join("notes")).unwrap();
        fs::write(place.path().join("notes/a.txt"), "a").unwrap();
        assert!(matches!(notes.open(Which::Fresh, false), Err(Error::Refused(_))));
        assert_eq!(fs::read_dir(place.path().join("notes")).unwrap().count(), 1);
    }

    #[test]
    fn a_walk_goes_both_ways_and_stops_when_told() {
        let place = tempfile::tempdir().unwrap();
        let opener = SlmOpener::new("slmdb", place.path().join("db"), Options::default());
        let store = opener.open(Which::Fresh, false).unwrap();
        store.put_all(&[(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]).unwrap();
        let walked = |start, limit| {
            let mut seen = Vec::new();
            let visit = &mut |entry: &mut dyn Entry| {
                seen.extend_from_slice(entry.key());
                seen.extend_from_slice(entry.value()?);
                Ok(seen.len() < limit)
            };
            store.walk(start, visit).unwrap();
            String::from_utf8(seen).unwrap()
        };
        assert_eq!(walked(Start::First, 100), "a1b2c3");
        assert_eq!(walked(Start::Last, 100), "c3b2a1");
        assert_eq!(walked(Start::At(b"aa"), 100), "b2c3");
        assert_eq!(walked(Start::At(b"d"), 100), "");
        assert_eq!(walked(Start::First, 3), "a1b2");
        assert!(!store.update_if_present(b"x", b"4").unwrap() && store.update_if_present(b"a", b"4").unwrap());
        store.delete(b"b").unwrap();
        store.flush().unwrap();
        store.compact().unwrap();
        assert_eq!(walked(Start::First, 100), "a4c3");
        let numbers = store.numbers();
        assert!(numbers.file_bytes_written > Some(0) && numbers.fast_tier_index_bytes_per_key > Some(0.0));
        assert_eq!(numbers.fast_tier_media_bytes, None, "nothing is counted on Dram");
        store.close().unwrap();
    }
}
