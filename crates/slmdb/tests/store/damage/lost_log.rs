//! What a store has kept and its medium has lost is told, although a killed store's log may end anywhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb::ErrorKind;
use slmdb_env::Env;
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

use crate::common::{Home, MEDIA};

fn key(number: u32) -> String {
    format!("key{number:03}")
}

fn value(number: u32) -> String {
    format!("the value with the number {number:04}")
}

/// The content with a byte of this value changed, if it is in there.
fn damaged(mut content: Vec<u8>, number: u32) -> Option<Vec<u8>> {
    let value = value(number).into_bytes();
    let at = content.windows(value.len()).position(|window| window == value)?;
    content[at] ^= 1;
    Some(content)
}

/// A damaged record that later ones vouch for is told after a kill.
#[test]
fn a_damaged_record_with_vouchers_is_told_after_a_kill() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        (0..20).for_each(|number| db.put(key(number), value(number)).unwrap());
        // On `Dram` this is what later records vouch for; with a pool each put is.
        db.sync().unwrap();
        (20..40).for_each(|number| db.put(key(number), value(number)).unwrap());
        for (number, is_kept) in [(5, true), (39, false)] {
            // As after a kill.
            let left = home.copy();
            let entries = std::fs::read_dir(left.store()).unwrap();
            let files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).chain(left.pool()).collect();
            let mut count = 0;
            for path in files {
                if let Some(content) = damaged(std::fs::read(&path).unwrap(), number) {
                    std::fs::write(&path, content).unwrap();
                    count += 1;
                }
            }
            assert_eq!(count, 1, "{on:?}: value {number} lies in one file");
            let opened = left.options().open(left.store());
            if is_kept {
                let error = opened.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption, "{on:?}: {error}");
            } else {
                // The last record: nobody can know that it was there.
                let db = opened.unwrap();
                assert!(!db.contains_key(key(39)).unwrap() && db.contains_key(key(38)).unwrap(), "{on:?}");
            }
        }
    }
}

/// An opening that has found what a killed store left says in the MANIFEST where each log ends: from then on less is a loss.
#[test]
fn the_last_record_that_an_opening_has_found_is_missed() {
    const STORE: &str = "/db";
    let options = |env: &MemoryEnv| crate::common::options().env(Arc::new(env.clone())).memtable_bytes(16 << 10);
    let first = MemoryEnv::new();
    let db = options(&first).open(STORE).unwrap();
    // More than a quarter of an arena: it stays where it is.
    (0..100).for_each(|number| db.put(key(number), value(number)).unwrap());
    db.sync().unwrap();
    let second = first.kill();
    // Its flush comes to no end.
    second.fail_next(&format!("rename {STORE}/0"), Failure::Full, Repeat::ForGood);
    let db = options(&second).open(STORE).unwrap();
    assert!(db.contains_key(key(99)).unwrap());
    let third = second.kill();
    let names: Vec<_> = third.list_directory(Path::new(STORE)).unwrap().into_iter().map(|entry| entry.name).collect();
    assert!(!names.iter().any(|name| name.ends_with(".sst")), "{names:?}");
    let is_damaged = |name: &String| {
        let path = Path::new(STORE).join(name);
        let damaged = third.content(&path).and_then(|content| damaged(content, 99));
        damaged.map(|content| third.set_content(&path, &content)).is_some()
    };
    assert_eq!(names.iter().filter(|name| is_damaged(name)).count(), 1);
    let error = options(&third).open(STORE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}
