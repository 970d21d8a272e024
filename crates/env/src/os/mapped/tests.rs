//! Mappings of real files: what is read, what is refused, and what faults do. A fault that is not caught ends the test program.

use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

const MIB: usize = 1 << 20;

/// A file of a few chunks, each byte of which tells its place; all of it in memory.
fn file(directory: &tempfile::TempDir, length: usize) -> (StdFile, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at as u32).wrapping_mul(0x9e37_79b9).to_be_bytes()[0]).collect();
    let path = directory.path().join("file");
    fs::write(&path, &bytes).unwrap();
    (fs::OpenOptions::new().read(true).write(true).open(path).unwrap(), bytes)
}

fn mapped(file: &StdFile) -> OsMapped {
    OsMapped::new(file, file.metadata().unwrap().len()).unwrap()
}

#[test]
fn any_range_within_is_read_and_none_beyond() {
    let directory = tempfile::tempdir().unwrap();
    let (file, bytes) = file(&directory, MIB + 4321);
    let mapped = mapped(&file);
    drop(file);
    assert_eq!(mapped.length_bytes(), bytes.len() as u64);
    for (offset, length) in [(0, 1), (5, 4000), (CHUNK_BYTES - 1, 2), (100, MIB), (MIB + 4320, 1), (0, bytes.len())] {
        let mut into = vec![0; length];
        assert!(mapped.read_at(&mut into, offset as u64).unwrap(), "{offset}+{length}");
        assert_eq!(into, bytes[offset..offset + length]);
        assert_eq!(*mapped.read_shared(length, offset as u64).unwrap().unwrap(), into);
    }
    let end = bytes.len() as u64;
    for (offset, length) in [(end, 1), (end - 1, 2), (0, bytes.len() + 1), (u64::MAX, 1), (u64::MAX - 3, 4), (3, 0)] {
        assert!(!mapped.read_at(&mut vec![0; length], offset).unwrap(), "{offset}+{length}");
        assert!(mapped.read_shared(length, offset).unwrap().is_none());
    }
}

#[test]
fn a_file_cut_short_under_a_mapping_is_no_signal() {
    let directory = tempfile::tempdir().unwrap();
    let (file, bytes) = file(&directory, MIB);
    let mapped = mapped(&file);
    let mut into = vec![0; MIB];
    assert!(mapped.read_at(&mut into, 0).unwrap());
    file.set_len(MIB as u64 / 2).unwrap();
    // Begins in a page that is there.
    assert!(!mapped.read_at(&mut into[..20_000], MIB as u64 / 2 - 100).unwrap());
    assert!(mapped.read_shared(4000, MIB as u64 - 4000).unwrap().is_none());
    assert!(!mapped.read_at(&mut into[..1], 0).unwrap(), "what is broken is given up");
    // Another mapping of the file knows nothing of it.
    let other = OsMapped::new(&file, MIB as u64).unwrap();
    assert!(other.read_at(&mut into[..MIB / 2], 0).unwrap());
    assert_eq!(into[..MIB / 2], bytes[..MIB / 2]);
    assert!(!other.read_at(&mut into, 0).unwrap());
}

#[test]
fn threads_that_read_what_is_cut_get_nothing_wrong() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let (file, bytes) = file(&directory, MIB);
        let mapped = mapped(&file);
        assert!(mapped.read_shared(MIB, 0).unwrap().is_some());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for reader in 0..3 {
                let (mapped, bytes, is_over) = (&mapped, &bytes, &is_over);
                scope.spawn(move || {
                    let mut at = reader * 7919;
                    while !is_over.load(Ordering::Relaxed) {
                        at = (at + 104_729) % (MIB - 10_000);
                        if let Some(read) = mapped.read_shared(10_000, at as u64).unwrap() {
                            // What is cut off within a page reads as zeros; the cuts are at pages' ends.
                            assert!(*read == bytes[at..at + 10_000], "round {round}: wrong bytes at {at}");
                        }
                    }
                });
            }
            for quarter in (0..4).rev() {
                file.set_len(quarter * MIB as u64 / 4).unwrap();
                thread::yield_now();
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn what_is_not_in_memory_is_left_to_reads_of_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (file, bytes) = file(&directory, 4 * CHUNK_BYTES);
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mapped = mapped(&file);
    let read = |offset: usize| mapped.read_shared(1000, offset as u64).unwrap();
    if read(CHUNK_BYTES).is_some() {
        // A file system that keeps its files in memory.
        return;
    }
    let mut all = vec![0; bytes.len()];
    file.read_exact_at(&mut all, 0).unwrap();
    // Looked at again after a while, and then at hand.
    let passed = (0..).find(|_| read(CHUNK_BYTES).is_some()).unwrap();
    assert_eq!(passed, READS_PER_LOOK);
    assert_eq!(*read(CHUNK_BYTES).unwrap(), bytes[CHUNK_BYTES..CHUNK_BYTES + 1000]);
    assert!(mapped.is_warm(1) && !mapped.is_warm(0));
    mapped.doubt();
    assert!(!mapped.is_warm(1));
    assert!(read(CHUNK_BYTES).is_some() && mapped.is_warm(1), "it is looked at anew");
}

#[test]
fn a_file_too_long_for_the_addresses_is_not_mapped() {
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = file(&directory, 100);
    for length in [0, 1 << 60, u64::MAX] {
        assert!(OsMapped::new(&file, length).is_none(), "{length}");
    }
}

/// Says to this program, started again, what it is to do.
const ROLE: &str = "SLMDB_TEST_MAPPED_ROLE";

/// How a child with this role ends.
fn child(role: &str) -> std::process::ExitStatus {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "os::mapped::tests::the_child", "--nocapture", "--test-threads=1"]).env(ROLE, role);
    command.output().unwrap().status
}

/// Touches a page of a mapping that the file does not have.
fn touch_what_is_not_there(file: &StdFile) {
    // SAFETY: a new mapping, of which one byte is read; that is what the test is about.
    unsafe {
        let start = rustix::mm::mmap(ptr::null_mut(), MIB, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap();
        std::hint::black_box(start.cast::<u8>().add(MIB - 1).read_volatile());
    }
}

/// As somebody else's handler: ends the process in a way that can be told.
extern "C" fn handle_otherwise(_: i32) {
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(7) };
}

#[test]
fn the_child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = file(&directory, CHUNK_BYTES);
    if role.starts_with("handled") {
        let handler: extern "C" fn(i32) = handle_otherwise;
        // SAFETY: the handler takes one argument.
        unsafe { libc::signal(libc::SIGBUS, handler as usize) };
    } else {
        // The default, in the place of what the standard library does. SAFETY: no handler.
        unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    }
    if role == "few addresses" {
        let limit = rustix::process::Rlimit { current: Some(1 << 32), maximum: None };
        rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
        file.set_len(1 << 33).unwrap();
        assert!(OsMapped::new(&file, 1 << 33).is_none());
        file.set_len(CHUNK_BYTES as u64).unwrap();
    }
    // Its own faults are caught whoever handles others.
    let mapped = mapped(&file);
    assert!(mapped.read_shared(CHUNK_BYTES, 0).unwrap().is_some());
    file.set_len(0).unwrap();
    assert!(mapped.read_shared(CHUNK_BYTES, 0).unwrap().is_none());
    if role.ends_with("fault") {
        touch_what_is_not_there(&file);
    } else if role.ends_with("signal") {
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}

#[test]
fn other_faults_are_whose_they_were_before() {
    use std::os::unix::process::ExitStatusExt;
    for role in ["few addresses", "nothing else"] {
        assert!(child(role).success(), "{role}");
    }
    for role in ["unhandled fault", "unhandled signal"] {
        assert_eq!(child(role).signal(), Some(libc::SIGBUS), "{role}");
    }
    for role in ["handled fault", "handled signal"] {
        assert_eq!(child(role).code(), Some(7), "{role}");
    }
}
