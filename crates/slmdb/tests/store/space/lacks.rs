//! What a process may lack for a moment: descriptors, threads, addresses. On real files, and each in a child process of its own,
//! whose limits are lowered: this test program, started again.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slmdb::{Db, ErrorKind, Medium};

use crate::common::{Home, MEDIA, On, contents, no_compaction, once_the_lack_has_passed};

/// Names the medium to the child; there is none in a usual run.
const CHILD: &str = "SLMDB_LACKS_TEST";

/// The medium, in a child.
pub(super) fn on() -> Option<On> {
    let name = std::env::var(CHILD).ok()?;
    MEDIA.into_iter().find(|on| format!("{on:?}") == name)
}

/// Runs a test of this program in a process of its own, under what `sh` says first.
fn child(on: On, module: &str, test: &str, first: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let test = format!("space::{module}::{test}");
    let script = format!("{first}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(program).args([&test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, format!("{on:?}")).output().unwrap()
}

#[track_caller]
fn assert_passes(on: On, test: &str, first: &str) {
    assert_passes_in("lacks", on, test, first);
}

/// The same of a test of another module.
#[track_caller]
pub(super) fn assert_passes_in(module: &str, on: On, test: &str, first: &str) {
    let output = child(on, module, test, first);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "on {on:?}, after `{first}`:\n{out}\n{err}");
}

/// No file may be opened with a descriptor of this number, or a larger one.
fn limit_descriptors(limit: u64) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(limit), maximum }).unwrap();
}

/// Lets nobody open a file any more, unless somebody closes one: takes the descriptors between those in use.
fn take_all_descriptors() -> Vec<File> {
    let used = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().to_str()?.parse::<i32>().ok();
    let largest = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(used).max().unwrap();
    let mut taken = Vec::new();
    loop {
        let file = File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        taken.push(file);
        if number >= largest {
            limit_descriptors(number as u64 + 1);
            return taken;
        }
    }
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 1000]
}

/// A store of `files` table files, each with a key of its own.
fn store_of(home: &Home, files: u32) -> Db {
    let db = home.options().compaction(no_compaction()).open(home.store()).unwrap();
    for number in 0..files {
        db.put(format!("key{number:03}"), value(number)).unwrap();
        db.flush().unwrap();
    }
    db
}

fn assert_reads_all(db: &Db, files: u32) {
    for number in 0..files {
        assert_eq!(db.get(format!("key{number:03}")).unwrap().as_deref(), Some(&value(number)[..]), "key {number}");
    }
}

/// Reads failed, and the store took no more writes, although it could have closed table files.
#[test]
fn open_table_files_are_closed_when_there_are_too_many() {
    const FILES: u32 = 60;
    let Some(on) = on() else {
        crate::common::media_with_files().into_iter().for_each(|on| {
            assert_passes(on, "open_table_files_are_closed_when_there_are_too_many", ":");
        });
        return;
    };
    let home = Home::new(on);
    let db = store_of(&home, FILES);
    drop(db);
    let db = home.options().compaction(no_compaction()).memory_budget_bytes(0).open(home.store()).unwrap();
    // A third of the files, and whatever else is open.
    (0..FILES / 3).for_each(|number| drop(db.get(format!("key{number:03}")).unwrap()));
    let _taken = take_all_descriptors();
    assert!(File::open("/dev/null").is_err());
    assert_reads_all(&db, FILES);
    for number in 0..FILES {
        db.put(format!("key{number:03}"), value(number)).unwrap();
        if number % 10 == 0 {
            db.flush().unwrap();
        }
    }
    // Merging all of them would take more than there are.
    db.compact_range("key000".."key005").unwrap();
    assert_reads_all(&db, FILES);
    db.checkpoint(home.store().with_file_name("copy")).unwrap();
    db.close().unwrap();
}

/// With no descriptor to be had at all a flush fails; when there are some again it does not. (The store was read-only from then on,
/// until it was opened again.)
#[test]
fn a_store_takes_writes_again_when_there_are_descriptors_again() {
    const FILES: u32 = 5;
    let Some(on) = on() else {
        crate::common::media_with_files().into_iter().for_each(|on| {
            assert_passes(on, "a_store_takes_writes_again_when_there_are_descriptors_again", ":");
        });
        return;
    };
    let home = Home::new(on);
    let db = store_of(&home, FILES);
    let limit = getrlimit(Resource::Nofile).current.unwrap();
    for round in 0..3 {
        limit_descriptors(3);
        for number in 0..FILES {
            db.put(format!("key{number:03}"), value(number)).unwrap();
        }
        // What is read of table files now may fail, and nothing else comes of it.
        let mut refused = 0;
        let mut tell = |done: slmdb::Result<()>| {
            if let Err(error) = done {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("Too many open files"), "{error}");
                refused += 1;
            }
        };
        tell(db.flush());
        tell(db.compact_range::<&[u8]>(..));
        tell(contents(&db).map(drop));
        tell(db.checkpoint(home.store().with_file_name(format!("copy{round}"))));
        assert!(refused >= 2, "only {refused} were refused");
        limit_descriptors(limit);
        once_the_lack_has_passed(|| db.put("again", "and again"));
        once_the_lack_has_passed(|| db.flush());
        once_the_lack_has_passed(|| db.compact_range::<&[u8]>(..));
        assert_reads_all(&db, FILES);
    }
    db.close().unwrap();
    assert_reads_all(&home.open(), FILES);
}

/// The store was opened, and read-only from its birth.
#[test]
fn an_opening_without_its_threads_fails_and_changes_nothing() {
    let test = "an_opening_without_its_threads_fails_and_changes_nothing";
    let Some(on) = on() else {
        // No address space has room for such a stack.
        MEDIA.into_iter().for_each(|on| assert_passes(on, test, "export RUST_MIN_STACK=140737488355328"));
        return;
    };
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads can be had");
    let home = Home::new(on);
    let error = home.options().open(home.store()).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("thread"), "{error}");
    assert!(!home.store().exists(), "something is left");
    assert!(home.pool().is_none_or(|pool| !pool.exists()));
}

/// As many programs are started. It did not open, even on `Dram`: a pool's largest size was reserved, and there were no such many addresses.
#[test]
fn a_store_opens_with_few_addresses() {
    let Some(on) = on() else {
        for on in MEDIA {
            for limit_kib in [1_572_864, 1_000_000] {
                assert_passes(on, "a_store_opens_with_few_addresses", &format!("ulimit -v {limit_kib}"));
            }
        }
        return;
    };
    let home = Home::new(on);
    for round in 0..3 {
        let db = home.on(crate::common::options()).open(home.store()).unwrap();
        for number in 0..1000_u32 {
            db.put(format!("key{number:06}"), value(number)).unwrap();
        }
        if round == 1 {
            db.flush().unwrap();
        }
        for number in 0..1000_u32 {
            assert_eq!(db.get(format!("key{number:06}")).unwrap().as_deref(), Some(&value(number)[..]), "key {number}");
        }
        db.close().unwrap();
    }
}

/// The option that says how much is reserved is named where not even the least can be.
#[test]
fn addresses_that_are_not_to_be_had_name_the_option() {
    let Some(on) = on() else {
        assert_passes(On::Emulated, "addresses_that_are_not_to_be_had_name_the_option", ":");
        return;
    };
    let home = Home::new(on);
    drop(home.options().pool_initial_bytes(600 << 20).open(home.store()).unwrap());
    let Rlimit { maximum, .. } = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(500 << 20), maximum }).unwrap();
    let pool = home.pool().unwrap().with_file_name("new");
    let options = home.options().medium(Medium::Emulated { path: pool }).pool_initial_bytes(600 << 20);
    let opened = [options.open(home.store().with_file_name("new")), home.options().open(home.store())];
    setrlimit(Resource::As, Rlimit { current: maximum, maximum }).unwrap();
    for opened in opened {
        let text = opened.map(drop).unwrap_err().to_string();
        assert!(text.contains("pool_initial_bytes") && text.contains("ulimit -v"), "{text}");
    }
}
