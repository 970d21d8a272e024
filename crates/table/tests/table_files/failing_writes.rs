//! Every operation that building takes is made to fail, one after the other and in every way: the builder tells it, goes
//! on telling it, and what it left is no table.

use crate::support::{Entry, PATH, build, builder, open, read_all};
use slmdb_env::{Env, Error};
use slmdb_table::{Compression, EntryKind, TableOptions};
use slmdb_testkit::{Failure, MemoryEnv, Repeat};

/// More than is written at a time, so that building writes several times.
fn entries() -> Vec<Entry> {
    let mut value = vec![0; 3000];
    MemoryEnv::with_seed(5).random_bytes(&mut value);
    (0..300u32).map(|number| Entry::put(number.to_be_bytes(), number.into(), value.clone())).collect()
}

fn options() -> TableOptions {
    TableOptions { compression: Compression::None, ..TableOptions::default() }
}

#[test]
fn every_failing_operation_is_told() {
    for failure in [Failure::Io, Failure::Full, Failure::ShortWrite, Failure::FailedSync] {
        for repeat in [Repeat::Once, Repeat::ForGood] {
            let mut struck = 0;
            for operation in 0.. {
                let env = MemoryEnv::new();
                env.fail_at(operation, failure, repeat);
                let result = build(&env, &entries(), options());
                if env.failures_struck() == 0 {
                    assert!(result.is_ok());
                    break;
                }
                struck += 1;
                match (failure, result.expect_err("a failure was passed over")) {
                    (Failure::Full, Error::Full { .. }) => {}
                    (Failure::Io | Failure::ShortWrite | Failure::FailedSync, Error::Io { .. }) => {}
                    (_, other) => panic!("{failure:?} became {other}"),
                }
                env.clear_failures();
                let cut = env.crash();
                assert!(open(&cut).is_err(), "{failure:?} at {operation}: a table after a failure and a power cut");
            }
            assert!(struck > 0, "{failure:?} never struck");
        }
    }
}

#[test]
fn after_a_failed_write_nothing_works() {
    let env = MemoryEnv::new();
    let mut builder = builder(&env, options()).unwrap();
    env.fail_at(0, Failure::ShortWrite, Repeat::Once);
    let error = (0u32..).find_map(|number| builder.add(&number.to_be_bytes(), 1, EntryKind::Put, &[0; 4000]).err());
    assert!(matches!(error, Some(Error::Io { operation: "write", .. })), "{error:?}");
    let again = builder.add(&[0xff; 8], 1, EntryKind::Put, b"");
    assert!(matches!(again, Err(Error::Io { operation: "write", .. })), "{again:?}");
    let written = env.content(PATH).unwrap();
    let finished = builder.finish();
    assert!(matches!(finished, Err(Error::Io { operation: "write", .. })), "{finished:?}");
    assert_eq!(env.content(PATH).unwrap(), written, "something was written after the failure");
    assert!(open(&env).is_err());
}

#[test]
fn a_full_disk_is_told_as_such() {
    let env = MemoryEnv::new();
    env.set_capacity(400_000);
    assert!(matches!(build(&env, &entries(), options()), Err(Error::Full { .. })));
    env.remove_file(PATH.as_ref()).unwrap();
    env.set_capacity(u64::MAX);
    build(&env, &entries(), options()).unwrap();
    assert_eq!(read_all(&env).unwrap(), entries());
}

/// A finished table survives a power cut once its directory is synced.
#[test]
fn a_finished_table_survives_once_its_directory_is_synced() {
    let env = MemoryEnv::new();
    let finished = build(&env, &entries(), options()).unwrap();
    assert!(matches!(open(&env.crash()), Err(Error::Io { .. })), "the name is not durable yet");
    env.sync_directory("/".as_ref()).unwrap();
    let cut = env.crash();
    assert_eq!(cut.content(PATH).unwrap().len() as u64, finished.length_bytes);
    assert!(open(&cut).unwrap().verify(&mut |_| {}).is_empty());
    assert_eq!(read_all(&cut).unwrap(), entries());
}

#[test]
fn an_abandoned_table_is_none() {
    let env = MemoryEnv::new();
    let mut builder = builder(&env, options()).unwrap();
    for entry in entries() {
        builder.add(&entry.key, entry.sequence, entry.kind, &entry.value).unwrap();
    }
    builder.abandon();
    assert!(matches!(open(&env), Err(Error::Corruption { .. })));
    // The file is the caller's to remove; then its name is free again.
    env.remove_file(PATH.as_ref()).unwrap();
    build(&env, &entries(), options()).unwrap();
}

/// A read that fails is told as such and is no corruption; the reader works again when the device does.
#[test]
fn failing_reads_are_no_corruption() {
    let env = MemoryEnv::new();
    build(&env, &entries(), options()).unwrap();
    let operations = env.operation_count();
    read_all(&env).unwrap();
    let reads = env.operation_count() - operations;
    for operation in 0..reads {
        let env = env.kill();
        env.fail_at(operation, Failure::Io, Repeat::Once);
        assert!(matches!(read_all(&env), Err(Error::Io { .. })), "operation {operation}");
        assert_eq!(read_all(&env).unwrap().len(), 300);
    }
    let table = open(&env).unwrap();
    env.fail_at(0, Failure::Io, Repeat::ForGood);
    let findings = table.verify(&mut |_| {});
    assert!(!findings.is_empty() && findings.iter().all(|finding| matches!(finding, Error::Io { .. })), "{findings:?}");
    env.clear_failures();
    assert!(table.verify(&mut |_| {}).is_empty());
}
