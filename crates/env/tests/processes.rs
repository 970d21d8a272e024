//! What only several processes show: locks between them, closed standard streams, forks. This binary starts itself as the other one.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use slmdb_env::{Env, Error, LockMode, OpenMode, OsEnv, process_number};

const LOCK_VARIABLE: &str = "SLMDB_TEST_LOCK_TO_HOLD";
const MODE_VARIABLE: &str = "SLMDB_TEST_LOCK_MODE";

/// Not a test by itself: what the child process does. Holds a lock until its standard input ends.
#[test]
fn other_process() {
    let Some(path) = std::env::var_os(LOCK_VARIABLE) else { return };
    let mode = if std::env::var_os(MODE_VARIABLE).is_some() { LockMode::Shared } else { LockMode::Exclusive };
    let _held = OsEnv::new().lock(Path::new(&path), mode).unwrap();
    println!("held");
    std::io::stdin().lines().for_each(drop);
}

struct OtherProcess(Child);

impl OtherProcess {
    fn holding(path: &Path, mode: LockMode) -> OtherProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "other_process", "--nocapture"]).env(LOCK_VARIABLE, path);
        if mode == LockMode::Shared {
            command.env(MODE_VARIABLE, "1");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("held")));
        OtherProcess(child)
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_lock_names_the_other_process_and_dies_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = (OsEnv::new(), directory.path().join("LOCK"));
    let other = OtherProcess::holding(&path, LockMode::Exclusive);
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        match env.lock(&path, mode) {
            Err(Error::Locked { holder, .. }) => assert_eq!(holder, Some(other.0.id())),
            unexpected => panic!("{unexpected:?}"),
        }
    }
    drop(other);
    // Its process id is still in the file and keeps nobody out.
    env.lock(&path, LockMode::Shared).unwrap();
    env.lock(&path, LockMode::Exclusive).unwrap();
}

#[test]
fn readers_in_several_processes_share() {
    let directory = tempfile::tempdir().unwrap();
    let (env, path) = (OsEnv::new(), directory.path().join("LOCK"));
    drop(env.lock(&path, LockMode::Exclusive).unwrap());
    let other = OtherProcess::holding(&path, LockMode::Shared);
    let mine = env.lock(&path, LockMode::Shared).unwrap();
    assert!(matches!(env.lock(&path, LockMode::Exclusive), Err(Error::Locked { .. })));
    drop(mine);
    match env.lock(&path, LockMode::Exclusive) {
        // Not every system lists its locks, and a reader leaves no other trace.
        Err(Error::Locked { holder, .. }) => assert!(holder.is_none_or(|holder| holder == other.0.id()), "{holder:?}"),
        unexpected => panic!("{unexpected:?}"),
    }
    drop(other);
    env.lock(&path, LockMode::Exclusive).unwrap();
}

const STREAMS_VARIABLE: &str = "SLMDB_TEST_CLOSE_STREAMS";

/// Not a test by itself: a process that closes its standard streams, opens files, and writes to these streams all the same.
#[test]
fn process_without_streams() {
    let Some(directory) = std::env::var_os(STREAMS_VARIABLE) else { return };
    let directory = Path::new(&directory);
    for stream in 0..3 {
        // SAFETY: nobody here uses the streams after this.
        assert_eq!(unsafe { libc::close(stream) }, 0);
    }
    let env = OsEnv::new().hold_directory(directory).unwrap();
    let lock = env.lock(&directory.join("LOCK"), LockMode::Exclusive).unwrap();
    let file = env.open_file(&directory.join("file"), OpenMode::CreateNew).unwrap();
    file.write_at(b"mine", 0).unwrap();
    let text = b"warning: some library is in doubt";
    for stream in 0..3 {
        // SAFETY: the bytes are there.
        assert_eq!(unsafe { libc::write(stream, text.as_ptr().cast(), text.len()) }, -1);
    }
    assert_eq!((file.length_bytes().unwrap(), file.descriptor().is_some()), (4, true));
    drop(lock);
}

#[test]
fn files_never_take_the_place_of_standard_streams() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "process_without_streams", "--nocapture"]).env(STREAMS_VARIABLE, directory.path());
    assert!(command.status().unwrap().success());
    assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), b"mine");
    assert_eq!(std::fs::read(directory.path().join("LOCK")).unwrap(), b"");
}

#[test]
fn a_forked_child_has_another_number() {
    let number = process_number();
    // SAFETY: the child makes one comparison and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_another = process_number() != number;
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_another)) };
    }
    let mut status = -1;
    // SAFETY: `status` lives.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!((status, process_number()), (0, number));
}
