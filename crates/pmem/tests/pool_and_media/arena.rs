//! Arenas: in the pool, in mapped files, in files that can't be mapped, over bytes.
#![allow(clippy::unwrap_used, reason = "a test stops where something fails")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::small;
use slmdb_env::{Env, ErrorKind, OsEnv};
use slmdb_pmem::{Arena, ArenaKind, Dram, Emulated, ExtentKind, Medium, Pool};
use slmdb_testkit::MemoryEnv;

/// Writes records front to back and reads them again.
fn works<M: Medium>(arena: &Arena<M>) {
    let length = arena.length_bytes();
    for offset in (0..length).step_by(1000) {
        let record = vec![offset as u8; (length - offset).min(1000) as usize];
        // SAFETY: nobody else has the arena.
        unsafe { arena.write(offset, &record) };
        arena.flush(offset, record.len() as u64);
        arena.fence();
        // SAFETY: written above, and not again.
        assert_eq!(unsafe { arena.bytes(offset, record.len() as u64) }, Some(&record[..]));
    }
    for (offset, bytes) in [(length, 1), (0, length + 1), (u64::MAX, 1), (1, u64::MAX)] {
        // SAFETY: nothing is there.
        assert_eq!(unsafe { arena.bytes(offset, bytes) }, None);
        arena.flush(offset, bytes);
    }
    arena.sync(0).unwrap();
}

/// SAFETY of the callers: the arena is quiet.
fn read<M: Medium>(arena: &Arena<M>, offset: u64, length: u64) -> Vec<u8> {
    // SAFETY: no test here writes and reads at once.
    unsafe { arena.bytes(offset, length) }.unwrap().to_vec()
}

#[test]
fn an_arena_in_the_pool() {
    let pool = Arc::new(Pool::anonymous(Emulated::new(), &small()).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 300_000, 1).unwrap();
    let arena = Arena::in_pool(pool.clone(), extent);
    assert_eq!(arena.length_bytes(), extent.length_bytes);
    assert_eq!(arena.place(10), (PathBuf::from("(memory)"), extent.offset + 10));
    let before = pool.medium().counters();
    works(&arena);
    assert!(arena.medium().counters().lines_flushed > before.lines_flushed + extent.length_bytes / 64);
}

#[test]
#[should_panic(expected = "not in the pool")]
fn an_arena_in_an_extent_that_is_gone_is_a_mistake() {
    let pool = Arc::new(Pool::anonymous(Dram, &small()).unwrap());
    let extent = pool.allocate_extent(ExtentKind::Arena, 1, 1).unwrap();
    pool.free_extent(extent.offset).unwrap();
    Arena::in_pool(pool, extent);
}

#[test]
#[should_panic(expected = "outside the arena")]
fn a_write_outside_an_arena_is_a_mistake() {
    let arena = Arena::from_bytes(Dram, Path::new("arena"), vec![0; 100]);
    // SAFETY: nobody else has the arena.
    unsafe { arena.write(99, b"ab") };
}

#[test]
fn a_mapped_file_has_every_store_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arena");
    let env = OsEnv::new();
    let arena = Arena::create_file(&env, &path, Dram, 200_000).unwrap();
    assert_eq!((arena.length_bytes(), arena.place(5)), (200_000, (path.clone(), 5)));
    assert!(read(&arena, 0, 200_000).iter().all(|&byte| byte == 0));
    works(&arena);
    // SAFETY: nobody else has the arena.
    unsafe { arena.write(0, b"not synced") };
    assert!(std::fs::read(&path).unwrap().starts_with(b"not synced"));
    drop(arena);

    let arena = Arena::reuse_file(&env, &path, Dram, 100_000).unwrap();
    assert_eq!(arena.length_bytes(), 100_000);
    assert!(read(&arena, 0, 11).starts_with(b"not synced"), "a recycled file keeps its past");
    drop(arena);
    let arena = Arena::reuse_file(&env, &path, Dram, 500_000).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 500_000);
    assert!(read(&arena, 0, 11).starts_with(b"not synced"));
    works(&arena);
    drop(arena);
    let arena = Arena::create_file(&env, &path, Dram, 1000).unwrap();
    assert!(read(&arena, 0, 1000).iter().all(|&byte| byte == 0), "a new file has none");
    assert_eq!(Arena::reuse_file(&env, &directory.path().join("none"), Dram, 1).unwrap_err().kind(), ErrorKind::Io);
}

/// Whether the system takes the file's pages in one by one.
#[cfg(target_os = "linux")]
fn is_mapped_for_random_use(path: &Path) -> bool {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, of_file) = mappings.split_once(path.to_str().unwrap()).expect("it is mapped");
    let flags = of_file.lines().find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
    flags.split_whitespace().any(|flag| flag == "rr")
}

#[test]
#[cfg(target_os = "linux")]
fn an_arena_for_synced_writes_is_mapped_for_random_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arena");
    let env = OsEnv::new();
    let mut was = None;
    for kind in [ArenaKind::Unsynced, ArenaKind::Synced, ArenaKind::Synced, ArenaKind::Unsynced, ArenaKind::Synced] {
        let arena = match was {
            None => Arena::create_file(&env, &path, Dram, 200_000).unwrap().of_kind(kind, None),
            Some(was) => Arena::reuse_file(&env, &path, Dram, 200_000).unwrap().of_kind(kind, Some(was)),
        };
        assert_eq!((arena.kind(), is_mapped_for_random_use(&path)), (kind, kind == ArenaKind::Synced));
        works(&arena);
        was = Some(arena.past());
    }
}

/// How much of a mapped file is in memory.
#[cfg(target_os = "linux")]
fn mapped_bytes_in_memory(path: &Path) -> u64 {
    let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (_, of_file) = mappings.split_once(path.to_str().unwrap()).expect("it is mapped");
    let resident = of_file.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    resident.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[test]
#[cfg(target_os = "linux")]
fn syncs_that_come_often_write_ahead() {
    const AHEAD_BYTES: u64 = 256 << 10;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("arena");
    let env = OsEnv::new();
    let new = |kind| Arena::create_file(&env, &path, Dram, 1 << 20).unwrap().of_kind(kind, None);
    let written_bytes = |arena: &Arena<Dram>, used_bytes| {
        arena.sync(used_bytes).unwrap();
        arena.past().written_bytes
    };

    let arena = new(ArenaKind::Unsynced);
    assert_eq!(written_bytes(&arena, 100), 0);
    drop(arena);

    let arena = new(ArenaKind::Synced);
    // SAFETY: nobody else has the arena.
    unsafe { arena.write(0, b"a record") };
    assert_eq!(mapped_bytes_in_memory(&path), 4096);
    let first_end = 4096 + AHEAD_BYTES;
    assert_eq!(written_bytes(&arena, 100), first_end);
    assert_eq!(mapped_bytes_in_memory(&path), first_end);
    assert_eq!(written_bytes(&arena, 200_000), first_end, "there is something left");
    assert_eq!(written_bytes(&arena, first_end), first_end);
    let second_end = first_end + 4096 + AHEAD_BYTES;
    assert_eq!(written_bytes(&arena, first_end + 1), second_end);
    assert_eq!(written_bytes(&arena, second_end + 20_000), second_end + 20_480, "much came since the last sync");
    assert_eq!(written_bytes(&arena, (1 << 20) - 10), 1 << 20);
    assert!(read(&arena, 0, 1 << 20).starts_with(b"a record"));
    let mut past = arena.past();
    drop(arena);

    for (kind, expected_bytes) in
        [(ArenaKind::Synced, 1 << 20), (ArenaKind::Unsynced, 0), (ArenaKind::Synced, first_end)]
    {
        let arena = Arena::reuse_file(&env, &path, Dram, 1 << 20).unwrap().of_kind(kind, Some(past));
        past = arena.past();
        assert_eq!(written_bytes(&arena, 100), expected_bytes, "{kind:?}");
    }
}

#[test]
fn a_file_that_can_not_be_mapped_is_told_of_every_store() {
    let env = MemoryEnv::new();
    let path = Path::new("/arena");
    let arena = Arena::create_file(&env, path, Dram, 200_000).unwrap();
    works(&arena);
    // SAFETY: nobody else has the arena.
    unsafe { arena.write(100, b"first") };
    assert_eq!(env.content(path).unwrap()[100..105], b"first"[..]);
    assert_eq!(env.kill().content(path).unwrap()[100..105], b"first"[..]);
    arena.sync(0).unwrap();
    // SAFETY: as above.
    unsafe { arena.write(150_000, b"second") };
    arena.store_word(8, u64::from_le_bytes(*b"a word  "));
    drop(arena);
    let content = env.content(path).unwrap();
    assert_eq!((&content[100..105], &content[150_000..150_006]), (&b"first"[..], &b"second"[..]));
    assert_eq!(content[8..14], b"a word"[..]);
    let crashed = env.crash();
    assert!(crashed.content(path).is_none(), "its name was not synced");
    env.sync_directory(Path::new("/")).unwrap();
    let content = env.crash().content(path).unwrap();
    assert_eq!(content[100..105], b"first"[..]);
    assert_ne!(content[150_000..150_006], b"second"[..], "it was not synced");
    let arena = Arena::reuse_file(&env, path, Dram, 300_000).unwrap();
    assert_eq!(read(&arena, 150_000, 6), b"second");
    assert_eq!(read(&arena, 299_999, 1), [0]);
}

#[test]
fn a_full_file_system_is_told_before_anything_is_written() {
    let env = MemoryEnv::new();
    env.set_capacity(100_000);
    assert_eq!(Arena::create_file(&env, Path::new("/arena"), Dram, 200_000).unwrap_err().kind(), ErrorKind::Full);
    assert!(Arena::create_file(&env, Path::new("/arena"), Dram, 90_000).is_ok());
}

#[test]
fn an_arena_over_bytes() {
    let arena = Arena::from_bytes(Dram, Path::new("some/file"), b"recovered".to_vec());
    assert_eq!(read(&arena, 2, 3), b"cov");
    assert_eq!(arena.place(2), (PathBuf::from("some/file"), 2));
    works(&Arena::from_bytes(Dram, Path::new("x"), vec![0; 5000]));
    works(&Arena::from_bytes(Dram, Path::new("empty"), Vec::new()));
}
