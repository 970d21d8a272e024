//! What only [`MemoryEnv`] has: numbered operations, failures, what is durable, and a deterministic machine.

use slmdb_env::ErrorKind;

use super::*;

const FILE: &str = "/db/file";

/// A machine with a durable, empty directory `/db`.
fn machine() -> MemoryEnv {
    let env = MemoryEnv::new();
    env.create_directory(Path::new("/db")).unwrap();
    env.sync_directory(Path::new("/")).unwrap();
    env
}

fn create(env: &MemoryEnv, path: &str) -> Arc<dyn File> {
    env.open_file(Path::new(path), OpenMode::CreateNew).unwrap()
}

#[test]
fn operations_are_numbered_and_logged_in_order() {
    let env = MemoryEnv::new();
    env.create_directory(Path::new("db")).unwrap();
    let file = create(&env, "db/file");
    file.write_at(b"abc", 7).unwrap();
    file.sync_data().unwrap();
    env.sync_directory(Path::new("db")).unwrap();
    env.fail_at(6, Failure::Io, Repeat::Once);
    file.read_at(&mut [0; 2], 1).unwrap();
    file.length_bytes().unwrap_err();
    let expected = [
        "create directory db",
        "create db/file",
        "write db/file 7+3",
        "sync db/file",
        "sync directory db",
        "read db/file 1+2",
        "look up length db/file -> made to fail: Io",
    ];
    assert_eq!(env.operations(), expected);
    assert_eq!((env.operation_count(), env.failures_struck()), (7, 1));
}

#[test]
fn a_failure_strikes_the_first_operation_it_can() {
    let env = machine();
    let file = create(&env, FILE);
    env.fail_at(0, Failure::FailedSync, Repeat::Once);
    env.fail_at(env.operation_count() + 1, Failure::Full, Repeat::ForGood);
    file.write_at(b"one", 0).unwrap();
    assert_eq!(file.write_at(b"two", 0).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(file.allocate(0, 100).unwrap_err().kind(), ErrorKind::Full);
    file.read_at(&mut [0; 3], 0).unwrap();
    assert_eq!(file.sync_data().unwrap_err().kind(), ErrorKind::Io);
    file.sync_data().unwrap();
    assert_eq!(file.write_at(b"two", 0).unwrap_err().kind(), ErrorKind::Full);
    env.clear_failures();
    file.write_at(b"two", 0).unwrap();
    assert_eq!(env.content(FILE).unwrap(), b"two");
    assert_eq!(env.failures_struck(), 4);
}

#[test]
fn a_failure_lets_pass_as_many_as_it_is_told() {
    let env = machine();
    let file = create(&env, FILE);
    env.fail_after(2, "write /db", Failure::Io, Repeat::ForGood);
    for _ in 0..2 {
        file.write_at(b"one", 0).unwrap();
        file.sync_data().unwrap();
    }
    file.write_at(b"two", 0).unwrap_err();
    file.sync_data().unwrap();
    file.write_at(b"two", 0).unwrap_err();
    assert_eq!(env.failures_struck(), 2);
}

#[test]
fn a_short_write_leaves_its_first_half() {
    let env = machine();
    let file = create(&env, FILE);
    env.fail_at(0, Failure::ShortWrite, Repeat::Once);
    assert_eq!(file.write_at(b"abcdefg", 2).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(env.content(FILE).unwrap(), b"\0\0abc");
}

#[test]
fn what_arrived_although_it_failed_is_there() {
    let env = machine();
    let file = create(&env, FILE);
    env.fail_at(0, Failure::ArrivedYetFailed, Repeat::ForGood);
    // Nothing is changed by looking.
    assert_eq!(file.length_bytes().unwrap(), 0);
    assert!(env.exists(Path::new(FILE)).unwrap());
    let failed = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Io);
    failed(file.write_at(b"written", 0));
    failed(file.sync_data());
    failed(env.sync_directory(Path::new("/db")));
    assert_eq!(env.crash().content(FILE).unwrap(), b"written");
    failed(file.set_length(5));
    failed(file.allocate(0, 6));
    assert_eq!(env.content(FILE).unwrap(), b"writt\0");
    failed(env.link_file(Path::new(FILE), Path::new("/db/linked")).map(drop));
    failed(env.rename(Path::new(FILE), Path::new("/db/renamed")));
    failed(env.open_file(Path::new("/db/new"), OpenMode::CreateNew).map(drop));
    failed(env.create_directory(Path::new("/db/inside")));
    assert_eq!((env.content(FILE), env.content("/db/new")), (None, Some(Vec::new())));
    assert_eq!(env.content("/db/linked"), env.content("/db/renamed"));
    failed(env.remove_file(Path::new("/db/new")));
    failed(env.remove_directory(Path::new("/db/inside")).map(drop));
    failed(env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).map(drop));
    env.clear_failures();
    let listed = env.list_directory(Path::new("/db")).unwrap();
    let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["LOCK", "linked", "renamed"]);
    env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap();
}

#[test]
fn a_flipped_bit_is_read_and_not_written() {
    let env = machine();
    env.set_content(FILE, &[0; 1000]);
    let file = env.open_file(Path::new(FILE), OpenMode::Read).unwrap();
    let ones = |offset_bytes: u64| {
        let mut read = [0; 100];
        file.read_at(&mut read, offset_bytes).unwrap();
        read.iter().map(|byte| byte.count_ones()).sum::<u32>()
    };
    for seed in 0..20 {
        env.fail_at(0, Failure::FlippedBit { seed }, Repeat::Once);
        assert_eq!([ones(300), ones(300)], [1, 0]);
    }
    env.fail_at(0, Failure::FlippedBit { seed: 3 }, Repeat::ForGood);
    assert_eq!([ones(300), ones(950), ones(1000)], [1, 1, 0], "at the end of the file nothing is read");
    assert_eq!(env.content(FILE).unwrap(), [0; 1000]);
}

#[test]
fn a_power_cut_leaves_what_was_synced() {
    let env = machine();
    let file = create(&env, FILE);
    file.write_at(b"durable", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(env.crash().content(FILE), None, "the name was not synced");
    env.sync_directory(Path::new("/db")).unwrap();
    file.write_at(b"D", 0).unwrap();
    file.write_at(b"more", 7).unwrap();
    let later = create(&env, "/db/later");
    later.write_at(b"x", 0).unwrap();
    env.sync_directory(Path::new("/db")).unwrap();

    let crashed = env.crash();
    assert_eq!(crashed.content(FILE).unwrap(), b"durable");
    assert_eq!(crashed.content("/db/later").unwrap(), b"", "the name is durable, the content is not");
    assert_eq!(env.kill().content(FILE).unwrap(), b"Durablemore");
    assert_eq!(env.content(FILE).unwrap(), b"Durablemore");

    file.set_length(3).unwrap();
    assert_eq!(env.crash().content(FILE).unwrap(), b"durable");
    file.sync_data().unwrap();
    assert_eq!(env.crash().content(FILE).unwrap(), b"Dur");
    file.allocate(0, 5).unwrap();
    file.sync_data().unwrap();
    assert_eq!(env.crash().content(FILE).unwrap(), b"Dur\0\0");
}

/// A killed process leaves unsynced content that a power cut still takes.
#[test]
fn a_power_cut_still_takes_what_a_kill_left_unsynced() {
    let env = machine();
    create(&env, FILE).write_at(b"abc", 0).unwrap();
    env.sync_directory(Path::new("/db")).unwrap();
    let killed = env.kill();
    assert_eq!(killed.crash().content(FILE).unwrap(), b"");
    killed.open_file(Path::new(FILE), OpenMode::Read).unwrap().sync_data().unwrap();
    assert_eq!(killed.crash().content(FILE).unwrap(), b"abc");
    assert_eq!(env.crash().content(FILE).unwrap(), b"", "the killed machine is another one");
}

#[test]
fn names_are_durable_when_their_directory_is_synced() {
    let env = machine();
    let old = create(&env, "/db/old");
    old.write_at(b"old", 0).unwrap();
    old.sync_data().unwrap();
    create(&env, "/db/gone").sync_data().unwrap();
    env.sync_directory(Path::new("/db")).unwrap();
    env.rename(Path::new("/db/old"), Path::new("/db/new")).unwrap();
    env.remove_file(Path::new("/db/gone")).unwrap();

    let crashed = env.crash();
    assert_eq!(crashed.content("/db/old").unwrap(), b"old");
    assert!(crashed.content("/db/new").is_none() && crashed.content("/db/gone").is_some());
    // The content goes on being one, whatever names it.
    old.write_at(b"OLD", 0).unwrap();
    old.sync_data().unwrap();
    assert_eq!(env.crash().content("/db/old").unwrap(), b"OLD");
    env.sync_directory(Path::new("/db")).unwrap();
    let crashed = env.crash();
    assert_eq!(crashed.content("/db/new").unwrap(), b"OLD");
    assert!(crashed.content("/db/old").is_none() && crashed.content("/db/gone").is_none());
}

#[test]
fn a_directory_needs_its_own_name_synced_too() {
    let env = MemoryEnv::new();
    env.create_directory(Path::new("/a/b")).unwrap();
    create(&env, "/a/b/file").sync_data().unwrap();
    env.sync_directory(Path::new("/a/b")).unwrap();
    env.sync_directory(Path::new("/a")).unwrap();
    assert!(!env.crash().exists(Path::new("/a")).unwrap());
    assert_eq!(env.crash().content("/a/b/file"), None);
    env.sync_directory(Path::new("/")).unwrap();
    assert_eq!(env.crash().content("/a/b/file").unwrap(), b"");
}

#[test]
fn what_a_failed_sync_lost_a_second_sync_does_not_bring_back() {
    for failure in [Failure::FailedSync, Failure::Io] {
        let env = machine();
        let file = create(&env, FILE);
        env.sync_directory(Path::new("/db")).unwrap();
        file.write_at(b"first ", 0).unwrap();
        env.fail_at(env.operation_count(), failure, Repeat::Once);
        file.sync_data().unwrap_err();
        file.write_at(b"second", 6).unwrap();
        file.sync_data().unwrap();
        assert_eq!(env.content(FILE).unwrap(), b"first second");
        assert_eq!(env.crash().content(FILE).unwrap(), b"\0\0\0\0\0\0second");
    }
}

#[test]
fn what_is_set_from_outside_is_durable_and_not_an_operation() {
    let env = MemoryEnv::new();
    env.set_content("/some/where/file", b"12345");
    env.set_content("/some/where/file", b"abc");
    assert_eq!(env.operation_count(), 0);
    assert_eq!(env.crash().content("/some/where/file").unwrap(), b"abc");
    assert_eq!(env.content("/some/where"), None);
}

#[test]
fn a_small_disk_fills_up_and_is_freed() {
    let env = machine();
    env.set_capacity(10);
    let file = create(&env, FILE);
    file.write_at(b"12345678", 0).unwrap();
    assert_eq!(env.available_bytes(Path::new("/db")).unwrap(), 2);
    for error in
        [file.write_at(b"901", 8).unwrap_err(), file.allocate(0, 11).unwrap_err(), file.set_length(11).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::Full);
    }
    file.reserve(10).unwrap();
    assert_eq!(env.available_bytes(Path::new("/db")).unwrap(), 0, "what is reserved is nobody else's");
    file.reserve(11).unwrap_err();
    create(&env, "/db/third").write_at(b"x", 0).unwrap_err();
    file.set_length(8).unwrap();
    assert_eq!(env.available_bytes(Path::new("/db")).unwrap(), 2, "cutting gives it back");
    file.reserve(10).unwrap();
    file.write_at(b"78901"[..4].as_ref(), 6).unwrap();
    assert_eq!(env.content(FILE).unwrap(), b"1234567890");
    create(&env, "/db/other").write_at(b"x", 0).unwrap_err();
    env.remove_file(Path::new(FILE)).unwrap();
    assert_eq!(env.available_bytes(Path::new("/")).unwrap(), 10);
}

#[test]
fn wild_lengths_are_refused_without_taking_memory() {
    let env = machine();
    let file = create(&env, FILE);
    for end in [1 << 40, u64::MAX] {
        file.write_at(b"x", end - 1).unwrap_err();
        file.set_length(end).unwrap_err();
        file.allocate(end - 1, 1).unwrap_err();
    }
    assert_eq!(file.length_bytes().unwrap(), 0);
}

#[test]
fn a_killed_or_crashed_machine_holds_no_locks() {
    let env = machine();
    let lock = env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap();
    env.sync_directory(Path::new("/db")).unwrap();
    for other in [env.kill(), env.crash()] {
        other.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap();
    }
    env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap_err();
    drop(lock);
    env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).unwrap();
}

#[test]
fn the_boot_id_changes_with_a_power_cut_only() {
    let env = machine();
    assert_eq!(env.kill().boot_id(), env.boot_id());
    assert_ne!(env.crash().boot_id(), env.boot_id());
    assert_ne!(env.crash().crash().boot_id(), env.crash().boot_id());
}

#[test]
fn clock_and_randomness_repeat_themselves() {
    let draw = |env: &MemoryEnv| {
        let mut bytes = [0; 21];
        env.random_bytes(&mut bytes);
        (bytes, env.unix_time_ns(), env.monotonic_ns())
    };
    let (one, same, other) = (MemoryEnv::with_seed(7), MemoryEnv::with_seed(7), MemoryEnv::with_seed(8));
    assert_eq!(draw(&one), draw(&same));
    assert_ne!(draw(&one).0, draw(&other).0);
    let (before, expected_step) = (one.monotonic_ns(), 5_000_000 + CLOCK_STEP_NS);
    one.advance_clock(5_000_000);
    assert_eq!(one.monotonic_ns(), before + expected_step);
}

#[test]
fn paths_are_brought_into_one_form() {
    let env = machine();
    env.set_content("db/./x/../file", b"1");
    assert_eq!(env.content("/db/file").unwrap(), b"1");
    assert_eq!(env.absolute(Path::new("db/../../y")).unwrap(), Path::new("/y"));
}

#[test]
fn the_next_operation_that_begins_so_fails() {
    let env = MemoryEnv::new();
    env.fail_next("write /b", Failure::Full, Repeat::Once);
    let [a, b] = ["/a", "/b"].map(|path| env.open_file(path.as_ref(), OpenMode::CreateNew).unwrap());
    a.write_at(b"1", 0).unwrap();
    assert_eq!(b.write_at(b"1", 0).unwrap_err().kind(), ErrorKind::Full);
    b.write_at(b"1", 0).unwrap();
    assert_eq!(env.failures_struck(), 1);
}

#[test]
fn a_device_dax_can_be_mapped_and_nothing_else() {
    use std::os::unix::fs::FileExt;
    let env = MemoryEnv::new();
    let path = Path::new("/dev/dax0.0");
    let shape = DaxDevice { size_bytes: 4 << 20, alignment_bytes: 2 << 20, is_persistent: true };
    let memory = env.add_dax_device(path, shape);
    assert_eq!(env.dax_device(path).unwrap(), Some(shape));
    assert_eq!(env.dax_device(Path::new("/dev/dax1.0")).unwrap(), None);
    assert!(env.exists(path).unwrap());
    let file = env.open_file(path, OpenMode::ReadWrite).unwrap();
    assert_eq!(file.length_bytes().unwrap(), 0);
    assert!(file.descriptor().is_some());
    file.read_at(&mut [0; 1], 0).unwrap_err();
    file.write_at(b"x", 0).unwrap_err();
    file.allocate(0, 1).unwrap_err();
    file.set_length(1).unwrap_err();
    file.sync_data().unwrap_err();
    env.open_file(path, OpenMode::CreateNew).unwrap_err();
    env.sync_directory(Path::new("/dev")).unwrap();

    memory.write_all_at(b"stored", 3 << 20).unwrap();
    let (killed, crashed) = (env.kill(), env.crash());
    memory.write_all_at(b"later!", 3 << 20).unwrap();
    for machine in [killed, crashed] {
        let mut found = [0; 6];
        machine.dax_device_memory(path).unwrap().read_exact_at(&mut found, 3 << 20).unwrap();
        assert_eq!(&found, b"stored");
    }
}

/// The memory of a device goes to another machine once nobody has it.
#[test]
fn the_memory_of_a_device_goes_on_once_nobody_has_it() {
    use std::os::unix::fs::FileExt;
    let path = Path::new("/dev/dax0.0");
    let shape = DaxDevice { size_bytes: 4 << 20, alignment_bytes: 2 << 20, is_persistent: true };
    let memory = DeviceMemory::zeroed(shape.size_bytes);
    let machine = MemoryEnv::new();
    machine.add_dax_device_in(path, shape, &memory);
    let file = machine.open_file(path, OpenMode::ReadWrite).unwrap();
    machine.dax_device_memory(path).unwrap().write_all_at(b"stored", 3 << 20).unwrap();
    drop(machine);
    assert!(memory.is_in_use(), "the device is open");
    drop(file);
    assert!(!memory.is_in_use());
    memory.write(b"S", 3 << 20);
    let other = MemoryEnv::new();
    other.add_dax_device_in(path, shape, &memory);
    let mut found = [0; 6];
    other.dax_device_memory(path).unwrap().read_exact_at(&mut found, 3 << 20).unwrap();
    assert_eq!(&found, b"Stored");
}

#[test]
fn who_asks_for_it_is_called_before_each_such_link_and_sync() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let env = machine();
    let file = create(&env, FILE);
    let calls = Arc::new(AtomicU64::new(0));
    for what in ["link /db/", "sync /db/"] {
        let (env_seen, calls) = (env.clone(), calls.clone());
        env.call_before(what, move || {
            // The machine can be used meanwhile, and nothing has been done.
            assert!(env_seen.content("/db/second").is_none() && env_seen.crash().content(FILE).is_none());
            calls.fetch_add(1, Ordering::Relaxed);
        });
    }
    file.write_at(b"written", 0).unwrap();
    assert!(env.link_file(Path::new(FILE), Path::new("/db/second")).unwrap());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    env.remove_file(Path::new("/db/second")).unwrap();
    file.sync_data().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    env.clear_calls();
    file.sync_data().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
}

#[test]
fn where_names_are_not_shared_a_file_gets_no_second_one() {
    let env = machine();
    create(&env, FILE);
    env.set_shares_names(false);
    for env in [env.clone(), env.kill()] {
        assert!(!env.link_file(Path::new(FILE), Path::new("/db/second")).unwrap());
        assert!(!env.exists(Path::new("/db/second")).unwrap());
    }
    env.set_shares_names(true);
    assert!(env.link_file(Path::new(FILE), Path::new("/db/second")).unwrap());
}

/// What opens something may lack a descriptor and nothing is done.
#[test]
fn what_opens_something_may_lack_a_descriptor() {
    let env = machine();
    let file = create(&env, "/db/f");
    env.sync_directory(Path::new("/db")).unwrap();
    env.fail_at(0, Failure::NoDescriptor, Repeat::ForGood);
    let failed = [
        env.open_file(Path::new("/db/f"), OpenMode::Read).map(drop),
        env.open_file(Path::new("/db/new"), OpenMode::CreateNew).map(drop),
        env.list_directory(Path::new("/db")).map(drop),
        env.sync_directory(Path::new("/db")),
        env.lock(Path::new("/db/LOCK"), LockMode::Exclusive).map(drop),
    ];
    assert!(failed.iter().all(|done| done.as_ref().is_err_and(Error::is_passing_lack)), "{failed:?}");
    // What is open already is as it was.
    file.write_at(b"content", 0).unwrap();
    file.sync_data().unwrap();
    env.rename(Path::new("/db/f"), Path::new("/db/g")).unwrap();
    assert!(!env.exists(Path::new("/db/new")).unwrap() && !env.exists(Path::new("/db/LOCK")).unwrap());
    assert_eq!(env.crash().content("/db/f").as_deref(), Some(&b"content"[..]), "the directory was not synced");
}

#[test]
fn a_mapped_read_is_struck_as_any_other_is() {
    let env = machine();
    env.set_content(FILE, b"0123456789");
    let file = env.open_file(Path::new(FILE), OpenMode::Read).unwrap();
    let mapped = file.map(10).unwrap();
    assert_eq!(mapped.length_bytes(), 10);
    assert_eq!(mapped.read_shared(3, 2).unwrap().unwrap()[..], b"234"[..]);
    assert!(mapped.read_shared(3, 8).unwrap().is_none() && mapped.read_shared(3, u64::MAX).unwrap().is_none());
    env.fail_next("read /db/file 2+3", Failure::Io, Repeat::Once);
    assert_eq!(mapped.read_shared(3, 2).unwrap_err().kind(), ErrorKind::Io);
    env.fail_next("read ", Failure::FlippedBit { seed: 3 }, Repeat::Once);
    assert_ne!(mapped.read_shared(3, 2).unwrap().unwrap()[..], b"234"[..]);
    env.set_read_times(50_000, 0);
    assert!(mapped.read_shared(3, 2).unwrap().is_none(), "a slow disk has nothing in memory");
    env.set_read_times(0, 0);
    env.remove_file(Path::new(FILE)).unwrap();
    assert!(mapped.read_shared(3, 2).unwrap().is_some());
    env.set_memory_to_give(None);
    assert_eq!(env.kill().memory_to_give_bytes(), None);
}
