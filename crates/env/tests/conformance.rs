//! One suite that every [`Env`] has to pass, run on [`OsEnv`] (in a temporary directory) and on [`MemoryEnv`].
//!
//! What is stated here is what the layers above rely on. A new environment joins by one line at the end.
#![allow(clippy::unwrap_used)]

use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use slmdb_env::{Env, Error, ErrorKind, File, LockMode, OpenMode, OsEnv, Result};
use slmdb_testkit::MemoryEnv;

/// An environment and a fresh directory in it.
struct Place {
    env: Arc<dyn Env>,
    root: PathBuf,
    _cleanup: Option<tempfile::TempDir>,
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.env.open_file(&self.path(name), mode)
    }

    fn create(&self, name: &str, content: &[u8]) -> Arc<dyn File> {
        let file = self.open(name, OpenMode::CreateNew).unwrap();
        file.write_at(content, 0).unwrap();
        file
    }

    fn names(&self, directory: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            self.env.list_directory(directory).unwrap().into_iter().map(|entry| entry.name).collect();
        names.sort();
        names
    }
}

fn content(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0; file.length_bytes().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// The system's word for what went wrong.
fn cause(error: Error) -> IoErrorKind {
    match error {
        Error::Io { source, .. } => source.kind(),
        other => panic!("not an Io error: {other:?}"),
    }
}

fn modes_of_opening(place: &Place) {
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(cause(place.open("file", mode).unwrap_err()), IoErrorKind::NotFound);
    }
    let file = place.create("file", b"abc");
    assert_eq!(file.path(), place.path("file"));
    assert_eq!(cause(place.open("file", OpenMode::CreateNew).unwrap_err()), IoErrorKind::AlreadyExists);
    let again = place.open("file", OpenMode::ReadWrite).unwrap();
    again.write_at(b"B", 1).unwrap();
    assert_eq!(content(&*file), b"aBc");
    let emptied = place.open("file", OpenMode::CreateOrTruncate).unwrap();
    assert_eq!((file.length_bytes().unwrap(), emptied.length_bytes().unwrap()), (0, 0));
    place.open("made", OpenMode::CreateOrTruncate).unwrap().write_at(b"x", 0).unwrap();
    assert_eq!(cause(place.open("no/file", OpenMode::CreateNew).unwrap_err()), IoErrorKind::NotFound);
    assert_eq!(cause(place.open("made/file", OpenMode::CreateNew).unwrap_err()), IoErrorKind::NotADirectory);
    place.open("", OpenMode::ReadWrite).unwrap_err();
}

fn a_file_opened_for_reading_is_not_changed(place: &Place) {
    place.create("file", b"abc");
    let file = place.open("file", OpenMode::Read).unwrap();
    file.write_at(b"x", 0).unwrap_err();
    file.set_length(1).unwrap_err();
    file.allocate(0, 10).unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(content(&*file), b"abc");
}

fn reads_end_with_the_file(place: &Place) {
    let file = place.create("file", b"0123456789");
    let mut into = [b'-'; 4];
    assert_eq!(file.read_at(&mut into, 2).unwrap(), 4);
    assert_eq!(&into, b"2345");
    assert_eq!(file.read_at(&mut into, 8).unwrap(), 2);
    assert_eq!(&into, b"8945");
    for offset in [10, 11, 1 << 40, i64::MAX as u64 - 1, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        assert_eq!(file.read_at(&mut into, offset).unwrap(), 0, "{offset}");
        let error = file.read_exact_at(&mut into, offset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{offset}: {error:?}");
    }
    assert_eq!(file.read_at(&mut [], 3).unwrap(), 0);
    file.read_exact_at(&mut [], 10).unwrap();
    match file.read_exact_at(&mut into, 7).unwrap_err() {
        Error::Corruption { file, offset, .. } => assert_eq!((file, offset), (place.path("file"), 10)),
        other => panic!("{other:?}"),
    }
}

fn writes_grow_the_file_and_leave_zeros_between(place: &Place) {
    let file = place.create("file", b"ab");
    file.write_at(b"", 50).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 2);
    file.write_at(b"xy", 5).unwrap();
    assert_eq!(content(&*file), b"ab\0\0\0xy");
    file.write_at(b"123", 1).unwrap();
    assert_eq!(content(&*file), b"a123\0xy");
    file.write_at(b"x", u64::MAX).unwrap_err();
    file.write_at(b"x", u64::MAX - 1).unwrap_err();
    file.sync_data().unwrap();
    assert_eq!(content(&*file), b"a123\0xy");
}

fn lengths_are_set(place: &Place) {
    let file = place.create("file", b"abcdef");
    file.set_length(3).unwrap();
    file.set_length(5).unwrap();
    assert_eq!(content(&*file), b"abc\0\0");
    file.set_length(0).unwrap();
    assert_eq!(content(&*file), b"");
    file.set_length(u64::MAX).unwrap_err();
}

fn a_reservation_changes_neither_length_nor_content(place: &Place) {
    let file = place.create("file", b"abcdef");
    for length_bytes in [0, 3, 6, 100, 1 << 20] {
        file.reserve(length_bytes).unwrap();
        assert_eq!(content(&*file), b"abcdef");
    }
    file.write_at(b"gh", 6).unwrap();
    assert_eq!(content(&*file), b"abcdefgh");
    file.allocate(8, 2).unwrap();
    file.set_length(9).unwrap();
    assert_eq!(content(&*file), b"abcdefgh\0");
    file.reserve(u64::MAX).unwrap_err();
}

fn allocation_grows_and_keeps_what_is_there(place: &Place) {
    let file = place.create("file", b"abcdef");
    file.allocate(0, 0).unwrap();
    file.allocate(100, 0).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 6);
    file.allocate(0, 6).unwrap();
    file.allocate(2, 2).unwrap();
    assert_eq!(content(&*file), b"abcdef");
    file.allocate(4, 6).unwrap();
    file.allocate(4, 6).unwrap();
    assert_eq!(content(&*file), b"abcdef\0\0\0\0");
    file.allocate(12, 1).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 13);
    file.allocate(0, 1 << 20).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 1 << 20);
    for (offset, length) in [(u64::MAX, 1), (u64::MAX, u64::MAX), (1, u64::MAX), (i64::MAX as u64, 1)] {
        file.allocate(offset, length).unwrap_err();
    }
    assert_eq!(file.length_bytes().unwrap(), 1 << 20);
    file.advise_random();
    for (offset, length) in [(0, 4096), (1 << 20, 1), (5, 0), (u64::MAX, 1), (1, u64::MAX)] {
        file.advise_written(offset, length);
    }
    assert_eq!(file.length_bytes().unwrap(), 1 << 20);
}

fn renaming_replaces_and_follows_open_files(place: &Place) {
    let (one, two) = (place.create("one", b"1"), place.create("two", b"22"));
    place.env.rename(&place.path("one"), &place.path("two")).unwrap();
    assert_eq!(place.names(&place.root), ["two"]);
    assert_eq!((content(&*one), content(&*two)), (b"1".to_vec(), b"22".to_vec()));
    one.write_at(b"!", 1).unwrap();
    assert_eq!(content(&*place.open("two", OpenMode::Read).unwrap()), b"1!");
    place.env.rename(&place.path("two"), &place.path("two")).unwrap();
    place.env.sync_directory(&place.root).unwrap();
    for (from, to) in [("none", "two"), ("two", "no/where")] {
        let error = place.env.rename(&place.path(from), &place.path(to)).unwrap_err();
        assert_eq!(cause(error), IoErrorKind::NotFound);
    }
    assert_eq!(place.names(&place.root), ["two"]);
}

fn removed_files_live_on_while_open(place: &Place) {
    let file = place.create("file", b"abc");
    place.env.remove_file(&place.path("file")).unwrap();
    assert!(!place.env.exists(&place.path("file")).unwrap());
    assert_eq!(content(&*file), b"abc");
    assert_eq!(cause(place.env.remove_file(&place.path("file")).unwrap_err()), IoErrorKind::NotFound);
    place.env.create_directory(&place.path("directory")).unwrap();
    place.env.remove_file(&place.path("directory")).unwrap_err();
    assert_eq!(content(&*place.create("file", b"new")), b"new");
    assert_eq!(content(&*file), b"abc");
}

fn directories_are_made_listed_and_synced(place: &Place) {
    let deep = place.path("a/b/c");
    place.env.create_directory(&deep).unwrap();
    place.env.create_directory(&deep).unwrap();
    place.create("a/file", b"12345");
    let mut entries = place.env.list_directory(&place.path("a")).unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let seen: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.length_bytes, e.is_directory)).collect();
    assert_eq!(seen, [("b", 0, true), ("file", 5, false)]);
    assert!(place.names(&deep).is_empty());
    for existing in [&deep, &place.path("a/file"), &place.root] {
        assert!(place.env.exists(existing).unwrap());
    }
    assert!(!place.env.exists(&place.path("a/none")).unwrap());
    place.env.sync_directory(&deep).unwrap();
    let none = place.path("none");
    assert_eq!(cause(place.env.list_directory(&none).unwrap_err()), IoErrorKind::NotFound);
    assert_eq!(cause(place.env.sync_directory(&none).unwrap_err()), IoErrorKind::NotFound);
    assert_eq!(cause(place.env.list_directory(&place.path("a/file")).unwrap_err()), IoErrorKind::NotADirectory);
    place.env.create_directory(&place.path("a/file")).unwrap_err();
    place.env.create_directory(&place.path("a/file/below")).unwrap_err();
}

fn directories_are_removed_only_when_they_are_empty(place: &Place) {
    let directory = place.path("a");
    place.env.create_directory(&place.path("a/b")).unwrap();
    assert!(!place.env.remove_directory(&directory).unwrap());
    assert!(place.env.remove_directory(&place.path("a/b")).unwrap());
    place.create("a/file", b"1");
    assert!(!place.env.remove_directory(&directory).unwrap());
    assert_eq!(place.names(&directory), ["file"]);
    place.env.remove_file(&place.path("a/file")).unwrap();
    assert!(place.env.remove_directory(&directory).unwrap());
    assert!(!place.env.exists(&directory).unwrap());
    assert_eq!(cause(place.env.remove_directory(&directory).unwrap_err()), IoErrorKind::NotFound);
    place.env.create_directory(&directory).unwrap();
    assert!(place.names(&directory).is_empty());
}

/// Whoever holds a lock may remove its file: there is never a second holder, of the file that was or of a new one.
fn a_lock_whose_file_is_removed_never_has_two_holders(place: &Place) {
    let path = place.path("LOCK");
    let (holders, held, began) = (AtomicUsize::new(0), AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // (A holder whose processor is taken away lets the others try in vain for as long.)
                for tries in 0.. {
                    if tries >= 2000 && held.load(Ordering::SeqCst) >= 100 {
                        break;
                    }
                    assert!(began.elapsed() < Duration::from_secs(60), "nobody gets it: {held:?}");
                    let Ok(lock) = place.env.lock(&path, LockMode::Exclusive) else { continue };
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    held.fetch_add(1, Ordering::SeqCst);
                    std::thread::yield_now();
                    assert_eq!(holders.fetch_sub(1, Ordering::SeqCst), 1);
                    place.env.remove_file(&path).unwrap();
                    drop(lock);
                }
            });
        }
    });
}

fn errors_carry_the_path(place: &Place) {
    let path = place.path("none");
    match place.open("none", OpenMode::Read).unwrap_err() {
        Error::Io { path: told, operation, .. } => assert_eq!((told, operation), (path, "open")),
        other => panic!("{other:?}"),
    }
}

fn locks_exclude_each_other_as_they_should(place: &Place) {
    let path = place.path("LOCK");
    let lock = |mode| place.env.lock(&path, mode);
    let is_refused = |mode| match lock(mode) {
        Err(Error::Locked { path: told, holder }) => {
            assert_eq!((told, holder), (path.clone(), Some(std::process::id())));
            true
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => false,
    };
    // A reader does not make the file, so without one there is nothing that would protect it.
    assert_eq!(cause(lock(LockMode::Shared).unwrap_err()), IoErrorKind::NotFound);
    assert!(place.names(&place.root).is_empty());

    let writer = lock(LockMode::Exclusive).unwrap();
    let pid = format!("{}\n", std::process::id());
    assert_eq!(content(&*place.open("LOCK", OpenMode::Read).unwrap()), pid.as_bytes());
    assert!(is_refused(LockMode::Exclusive) && is_refused(LockMode::Shared));
    assert_eq!(content(&*place.open("LOCK", OpenMode::Read).unwrap()), pid.as_bytes());
    drop(writer);

    let readers = (lock(LockMode::Shared).unwrap(), lock(LockMode::Shared).unwrap());
    assert_eq!(content(&*place.open("LOCK", OpenMode::Read).unwrap()), b"");
    let refused = |result: Result<_>| matches!(result, Err(Error::Locked { .. }));
    assert!(refused(lock(LockMode::Exclusive)));
    drop(readers.0);
    assert!(refused(lock(LockMode::Exclusive)));
    drop(readers.1);
    drop(lock(LockMode::Exclusive).unwrap());
    // Another file's lock is another lock.
    let _one = lock(LockMode::Exclusive).unwrap();
    place.env.lock(&place.path("OTHER"), LockMode::Exclusive).unwrap();
}

fn a_file_is_locked_alone_and_stays_as_it_is(place: &Place) {
    let (env, path) = (&place.env, place.path("pool"));
    assert_eq!(cause(env.lock(&path, LockMode::Alone).unwrap_err()), IoErrorKind::NotFound);
    let file = place.create("pool", b"its content");
    let held = env.lock(&path, LockMode::Alone).unwrap();
    for mode in [LockMode::Alone, LockMode::Shared] {
        assert!(matches!(env.lock(&path, mode), Err(Error::Locked { .. })), "{mode:?}");
    }
    drop(held);
    let shared = env.lock(&path, LockMode::Shared).unwrap();
    assert!(matches!(env.lock(&path, LockMode::Alone), Err(Error::Locked { .. })));
    drop(shared);
    drop(env.lock(&path, LockMode::Alone).unwrap());
    assert_eq!(content(&*file), b"its content");
}

fn threads_share_files(place: &Place) {
    let file = place.create("file", b"");
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..50 {
                    let (mine, offset) = ([thread + 1; 64], u64::from(thread) * 64 + round * 256);
                    file.write_at(&mine, offset).unwrap();
                    let mut back = [0; 64];
                    file.read_exact_at(&mut back, offset).unwrap();
                    assert_eq!(back, mine);
                }
            });
        }
    });
    let bytes = content(&*file);
    assert_eq!(bytes.len(), 50 * 256);
    assert!(bytes.iter().enumerate().all(|(at, &byte)| usize::from(byte) == at / 64 % 4 + 1));
}

fn clocks_identity_and_randomness(place: &Place) {
    let env = &place.env;
    let mut times: Vec<_> = (0..100).map(|_| env.monotonic_ns()).collect();
    assert!(times.is_sorted());
    times.dedup();
    assert!(times.len() > 1);
    const YEAR_2023_UNIX_NS: u64 = 1_672_531_200_000_000_000;
    assert!(env.unix_time_ns() > YEAR_2023_UNIX_NS);
    assert_eq!(env.boot_id(), env.boot_id());
    let (mut one, mut two) = ([0; 33], [0; 33]);
    env.random_bytes(&mut one);
    env.random_bytes(&mut two);
    assert!(one != two && one != [0; 33]);
    env.random_bytes(&mut []);
    assert!(env.available_bytes(&place.root).unwrap() > 0);
    assert!(env.absolute(Path::new("some/name")).unwrap().is_absolute());
    assert_eq!(env.absolute(&place.root).unwrap(), place.root);
}

fn os() -> Place {
    let directory = tempfile::tempdir().unwrap();
    Place { env: Arc::new(OsEnv::new()), root: directory.path().to_path_buf(), _cleanup: Some(directory) }
}

fn memory() -> Place {
    let (env, root) = (MemoryEnv::new(), PathBuf::from("/root"));
    env.create_directory(&root).unwrap();
    Place { env: Arc::new(env), root, _cleanup: None }
}

macro_rules! conformance {
    ($place:ident: $($test:ident),* $(,)?) => {
        mod $place {
            $(#[test] fn $test() { super::$test(&super::$place()) })*
        }
    };
    ($($place:ident),*) => {
        $(conformance! { $place:
            modes_of_opening,
            a_file_opened_for_reading_is_not_changed,
            reads_end_with_the_file,
            writes_grow_the_file_and_leave_zeros_between,
            lengths_are_set,
            a_reservation_changes_neither_length_nor_content,
            allocation_grows_and_keeps_what_is_there,
            renaming_replaces_and_follows_open_files,
            removed_files_live_on_while_open,
            directories_are_made_listed_and_synced,
            directories_are_removed_only_when_they_are_empty,
            a_lock_whose_file_is_removed_never_has_two_holders,
            errors_carry_the_path,
            locks_exclude_each_other_as_they_should,
            a_file_is_locked_alone_and_stays_as_it_is,
            threads_share_files,
            clocks_identity_and_randomness,
        })*
    };
}

conformance!(os, memory);
