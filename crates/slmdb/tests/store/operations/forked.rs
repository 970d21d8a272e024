//! A child that is forked while a store is open.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{Home, MEDIA, Model, assert_same, assert_verified, contents};
use slmdb::{Db, ErrorKind, Shared, SharedOptions, WriteBatch};

/// Does something in a forked child. Whether it came to its end.
fn in_child(work: impl FnOnce()) -> bool {
    // SAFETY: the child calls what a program would call there, and ends without going back to the harness.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let is_done = catch_unwind(AssertUnwindSafe(work)).is_ok();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_done)) };
    }
    let mut status = -1;
    // SAFETY: `status` lives until the call returns.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status == 0
}

fn is_refused<T>(done: slmdb::Result<T>) {
    let Err(error) = done else { panic!("was done") };
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("forked"), "{error}");
}

#[test]
fn a_forked_child_can_not_use_the_store_and_does_no_harm() {
    for on in MEDIA {
        let home = Home::new(on);
        let db = home.open();
        let mut model = Model::new();
        for number in 0..100 {
            let key = format!("before{number}").into_bytes();
            db.put(&key, "value").unwrap();
            model.insert(key, b"value".to_vec());
        }
        let (snapshot, mut cursor, mut range) =
            (db.snapshot().unwrap(), db.cursor().unwrap(), db.range("a".."c").unwrap());
        cursor.seek_first().unwrap();
        range.next().unwrap().unwrap();
        let copy = home.store().with_file_name("copy");
        // What only the child drops.
        let of_child = (db.clone(), db.snapshot().unwrap(), db.cursor().unwrap(), db.iter().unwrap());
        let is_done = in_child(|| {
            is_refused(db.put("c", "v"));
            is_refused(db.delete("c"));
            is_refused(db.write(&WriteBatch::new()));
            is_refused(db.insert_if_absent("c", "v"));
            is_refused(db.update_if_present("c", "v"));
            is_refused(db.get("c"));
            is_refused(db.contains_key("c"));
            is_refused(db.iter());
            is_refused(db.prefix("c"));
            is_refused(db.cursor());
            is_refused(db.snapshot());
            is_refused(db.sync());
            is_refused(db.flush());
            is_refused(db.compact_range::<&[u8]>(..));
            is_refused(db.checkpoint(&copy));
            is_refused(db.approximate("a".."c"));
            is_refused(db.verify(&mut |_| ()));
            assert_eq!((db.stats().last_sequence_number, db.table_files().len()), (0, 0));
            is_refused(snapshot.get("c"));
            is_refused(snapshot.contains_key("c"));
            is_refused(snapshot.iter());
            is_refused(snapshot.cursor());
            is_refused(cursor.next());
            is_refused(cursor.seek("c"));
            is_refused(cursor.value());
            assert!(!cursor.valid() && cursor.key().is_empty());
            is_refused(range.next().unwrap());
            assert!(range.next().is_none());
            let (of_child, snapshot, cursor, range) = of_child;
            drop((snapshot, cursor, range));
            of_child.close().unwrap();
            // It is locked, and not the child's.
            let opened = Db::open(home.store());
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::Locked);
        });
        assert!(is_done, "{on:?}: the child failed");
        assert_eq!(crate::common::options().open(home.store()).unwrap_err().kind(), ErrorKind::Locked);
        for number in 0..100 {
            let key = format!("after{number}").into_bytes();
            db.put(&key, "value").unwrap();
            model.insert(key, b"value".to_vec());
        }
        drop((snapshot, cursor, range));
        assert_same(&contents(&db).unwrap(), &model, "the parent");
        assert_verified(&db, "the parent");
        db.close().unwrap();
        assert_same(&contents(&home.open()).unwrap(), &model, "the parent, opened again");
    }
}

/// (An opening succeeded, and its first flush was waited for without end; dropping what was shared ended the child.)
#[test]
fn a_forked_child_can_not_open_with_what_its_parent_shares_and_does_no_harm() {
    for on in MEDIA {
        let (home, other) = (Home::new(on), Home::new(on));
        let shared = Shared::new(SharedOptions::default()).unwrap();
        let options = |home: &Home| home.options().shared(&shared);
        options(&home).open(home.store()).unwrap().close().unwrap();
        let is_done = in_child(|| {
            is_refused(options(&home).open(home.store()));
            is_refused(options(&other).open(other.store()));
            assert!(!other.store().exists(), "a byte was changed");
        });
        assert!(is_done, "{on:?}: the child failed");
        let db = options(&home).open(home.store()).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        drop(db);
        assert!(in_child(move || drop(shared)), "{on:?}: the child failed");
    }
}
