//! What crashes of threads that are threads leave, and what the simulator itself does.

use std::path::Path;
use std::time::{Duration, Instant};

use slmdb::engines;
use slmdb_engine::EngineName;
use slmdb_env::{Env, OpenMode};
use slmdb_simulator::call_paths::CallPaths;
use slmdb_simulator::explore::{Counts, Effort, Explorer, Looks};
use slmdb_simulator::files::{ChangeOf, Fate, Files};
use slmdb_simulator::layers;
use slmdb_simulator::machine::{Image, Setup};
use slmdb_simulator::oracle::{Ending, Expected, check};
use slmdb_simulator::upkeep;
use slmdb_simulator::workload::{Done, Plan, Write};
use slmdb_testkit::{MemoryEnv, Recording};

use crate::budget;

/// Crashes workloads of these seeds; how much was looked at, and on how many call paths.
fn crash(engine: EngineName, seeds: std::ops::Range<u64>, has_pool: bool) -> (Counts, (usize, usize)) {
    let explorer = Explorer::new(CallPaths::new(), Effort::default());
    for seed in seeds {
        let failures = explorer.explore(&Plan::of_seed(engine, seed, has_pool), None);
        assert!(failures.is_empty(), "{}", failures.iter().map(|failure| format!("{failure}\n")).collect::<String>());
    }
    println!("{engine}: {:?} {:?}", explorer.counts(), explorer.paths_crashed());
    (explorer.counts(), explorer.paths_crashed())
}

#[test]
fn a_store_with_a_pool_survives_a_crash_on_every_call_path() {
    for engine in engines::names() {
        let (counts, (paths, opening_paths)) = crash(engine, 1000..1000 + budget(), true);
        assert!(paths > 40 && opening_paths > 20, "{engine}: {paths} and {opening_paths} paths are few");
        assert!(counts.joint_images > 200 && counts.second_crashes > 200 && counts.third_crashes > 40, "{counts:?}");
    }
}

#[test]
fn a_store_without_a_pool_survives_a_crash_on_every_call_path() {
    for engine in engines::names() {
        let (counts, (paths, opening_paths)) = crash(engine, 2000..2000 + 20 * budget(), false);
        assert!(paths > 30 && opening_paths > 15, "{engine}: {paths} and {opening_paths} paths are few");
        assert!(counts.images > 300 && counts.second_crashes > 15, "{counts:?}");
    }
}

/// The layers under a store keep what they promise by themselves.
#[test]
fn the_layers_under_a_store_keep_their_own_promises() {
    for seed in 0..budget() {
        let paths = CallPaths::new();
        assert_eq!(layers::explore(&paths, seed, Looks::Everywhere, Instant::now() + Duration::from_secs(3600)), None);
        assert!(paths.len() > 50, "{} call paths are few", paths.len());
    }
}

/// A crash leaves a copy whole or none, a repair to be done again, and a removal to be finished. (Where an engine has pools of both
/// kinds, each has half of the works, unless there is time.)
#[test]
fn a_crash_during_a_copy_a_repair_or_a_removal_leaves_a_way_on() {
    let mut second_crashes = 0;
    for (engine, seed) in engines::names().flat_map(|engine| (0..budget()).map(move |seed| (engine, seed))) {
        let pools = upkeep::setups(engine, seed).filter(|setup| setup.has_pool).count();
        for setup in upkeep::setups(engine, seed) {
            for (number, work) in upkeep::works(setup).enumerate() {
                if budget() == 1 && pools > 1 && setup.has_pool && number.is_multiple_of(2) == setup.in_file {
                    continue;
                }
                let counts = upkeep::explore(work, setup, seed, &CallPaths::new(), None, Looks::Everywhere).unwrap();
                println!("{engine}, {work:?}, pool {}, in a file {}: {counts:?}", setup.has_pool, setup.in_file);
                // (A removal has the fewest, and LAB-DB's repair, which finds less to do.)
                assert!(counts.images > 20 && counts.kills > 5, "{work:?}, {setup:?}: {counts:?}");
                second_crashes += counts.second_crashes;
            }
        }
    }
    assert!(second_crashes > 100 * budget(), "{second_crashes}");
}

/// A machine that records, with a durable directory, and the recording.
fn recorded() -> MemoryEnv {
    let env = MemoryEnv::new();
    env.create_directory(Path::new("/d")).unwrap();
    env.sync_directory(Path::new("/")).unwrap();
    env.record(Recording::new().into());
    env
}

fn at_the_end(env: &MemoryEnv) -> Files {
    let mut files = Files::new(env.records());
    files.to_moment(u64::MAX);
    files
}

/// What was synced is there and every other change is picked by itself.
#[test]
fn what_was_synced_is_there_and_other_changes_one_by_one() {
    let env = recorded();
    let (old, new) = (Path::new("/d/old"), Path::new("/d/new"));
    let file = env.open_file(old, OpenMode::CreateNew).unwrap();
    file.write_at(b"durable", 0).unwrap();
    file.sync_data().unwrap();
    env.sync_directory(Path::new("/d")).unwrap();
    file.write_at(b"X", 2).unwrap();
    file.write_at(b"longer", 7).unwrap();
    env.rename(old, new).unwrap();
    let files = at_the_end(&env);
    let pending = files.pending();
    let kinds: Vec<ChangeOf> = pending.iter().map(|change| change.of).collect();
    assert_eq!(kinds, [ChangeOf::Content, ChangeOf::Content, ChangeOf::Length, ChangeOf::Name]);
    let nothing = files.image(|_| Fate::Dropped);
    assert_eq!(nothing.files.into_iter().collect::<Vec<_>>(), [(old.to_path_buf(), b"durable".to_vec())]);
    let all = files.image(|_| Fate::Kept);
    assert_eq!(all.files, files.everything().files);
    assert_eq!(files.everything().synced.into_values().collect::<Vec<_>>(), [b"durable"]);
    assert_eq!(all.files[new], b"duXablelonger");
    let of = |index: usize, fate: Fate| {
        let chosen = pending[index];
        let image = files.image(|change| if change == chosen { fate } else { Fate::Dropped });
        image.files.into_iter().next().unwrap()
    };
    assert_eq!(of(0, Fate::Kept), (old.to_path_buf(), b"duXable".to_vec()));
    assert_eq!(of(0, Fate::Zeroed), (old.to_path_buf(), b"du\0able".to_vec()));
    assert_eq!(of(1, Fate::Kept), (old.to_path_buf(), b"durable".to_vec()), "content without its length");
    assert_eq!(of(2, Fate::Kept), (old.to_path_buf(), b"durable\0\0\0\0\0\0".to_vec()), "a length without its content");
    assert_eq!(of(3, Fate::Kept), (new.to_path_buf(), b"durable".to_vec()));
}

#[test]
fn torn_writes_keep_whole_sectors() {
    let env = recorded();
    let path = Path::new("/d/file");
    let file = env.open_file(path, OpenMode::CreateNew).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    file.sync_data().unwrap();
    env.sync_directory(Path::new("/d")).unwrap();
    file.write_at(&[2; 3000], 100).unwrap();
    let files = at_the_end(&env);
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let content = files.image(|_| Fate::Torn(seed)).files.remove(path).unwrap();
        let sectors: Vec<bool> = (0..8).map(|sector| content[(sector * 512).max(100)] == 2).collect();
        for (at, byte) in content.iter().enumerate() {
            let written = (100..3100).contains(&at) && sectors[at / 512];
            assert_eq!(*byte, if written { 2 } else { 1 }, "at {at}, seed {seed}");
        }
        kept.insert(sectors);
    }
    assert!(kept.len() > 20, "{}", kept.len());
}

/// The oracle is no rubber stamp: an empty machine holds nothing of what was acknowledged.
#[test]
fn what_was_acknowledged_and_is_missing_is_noticed() {
    let write = Write { began: 1, ended: 5, synced: false, changes: vec![(b"a".to_vec(), Some(b"v".to_vec()))] };
    let done = Done { clients: vec![vec![write]], syncs: Vec::new() };
    let setup = Setup { has_pool: false, ..Setup::of_seed(EngineName::default(), 1, false) };
    let found = |moment, ending| {
        let expected = Expected::at(&done, moment, ending, setup);
        check(&Image::default(), &expected, setup, true)
    };
    found(1, Ending::Kill).unwrap();
    found(4, Ending::Kill).unwrap();
    found(5, Ending::PowerCut).unwrap();
    let what = found(5, Ending::Kill).unwrap_err();
    assert!(what.contains("client 0"), "{what}");
}

/// Each client's part may be a beginning, and all of them together have a hole.
#[test]
fn a_hole_in_the_order_of_writes_is_noticed() {
    let write = |began, ended, key: &[u8]| {
        let changes = vec![(key.to_vec(), Some(b"v".to_vec()))];
        Write { began, ended, synced: false, changes }
    };
    let clients = vec![vec![write(0, 1, b"a1"), write(4, 6, b"a2")], vec![write(2, 3, b"b1"), write(5, 7, b"b2")]];
    let setup = Setup { has_pool: false, ..Setup::of_seed(EngineName::default(), 1, false) };
    let expected = Expected::at(&Done { clients, syncs: Vec::new() }, 10, Ending::PowerCut, setup);
    let check = |keys: &[&[u8]]| expected.check(&keys.iter().map(|key| (key.to_vec(), b"v".to_vec())).collect());
    let sound: [&[&[u8]]; 6] =
        [&[], &[b"a1"], &[b"a1", b"b1"], &[b"a1", b"a2", b"b1"], &[b"a1", b"b1", b"b2"], &[b"a1", b"a2", b"b1", b"b2"]];
    sound.into_iter().for_each(|keys| check(keys).unwrap());
    let holes: [&[&[u8]]; 3] = [&[b"b1"], &[b"a1", b"a2"], &[b"b1", b"b2"]];
    for keys in holes {
        assert!(check(keys).unwrap_err().contains("a hole"), "{keys:?}");
    }
}
