use std::path::{Path, PathBuf};

use slmdb_env::Env;
use slmdb_order::KeyOrder;
use slmdb_table::{TableBuilder, TableOptions};
use slmdb_testkit::MemoryEnv;

use super::*;
use crate::Options;
use crate::files::file_names as names;

/// A store with so many table files.
fn tables(files: u32) -> Tables {
    let (env, directory) = (MemoryEnv::new(), PathBuf::from("/db"));
    env.create_directory(&directory).unwrap();
    for number in 1..=files {
        let (path, options) = (names::table(Path::new("/db"), number), TableOptions::default());
        let mut builder =
            TableBuilder::new_in_order(&env, &path, number, [7; 16], options, KeyOrder::Bytewise).unwrap();
        builder.add(b"key", 1, EntryKind::Put, b"value").unwrap();
        builder.finish().unwrap();
    }
    Tables::new(&Options { env: Arc::new(env), ..Options::default() }, directory, [7; 16])
}

/// Each file is asked for once from the cache of open files, as long as there are slots for all.
#[test]
fn a_cursor_knows_as_many_files_as_it_meets() {
    let tables = tables(100);
    let mut files = Files::default();
    for number in 1..=100 {
        assert_eq!(files.open(&tables, number).unwrap().properties().number, number);
    }
    files.close();
    assert!(files.slots.len() == 128 && files.held == [0; FILE_SLOTS_MAX / 64]);
    assert!(files.slots.iter().all(|slot| slot.held.is_none()));
    for number in 1..=100 {
        let known = files.hold(number, || Err("asked for again")).unwrap();
        assert_eq!(known.properties().number, number);
    }
}

#[test]
fn slots_are_bounded_and_files_displace_each_other() {
    let tables = tables(2);
    let mut files = Files::default();
    // In one slot, however many there are.
    let numbers = [1, 1 + FILE_SLOTS_MAX as u32];
    for (number, file) in numbers.into_iter().zip([1, 2]).cycle().take(40) {
        let table = tables.reader(file).unwrap();
        assert_eq!(files.hold::<()>(number, || Ok(table)).unwrap().properties().number, file);
    }
    assert_eq!(files.slots.len(), FILE_SLOTS_MAX);
    assert!(files.hold(numbers[0], || Err(())).is_err(), "displaced");
    assert!(files.hold(numbers[1], || Err(())).is_ok());
}

#[test]
fn a_file_that_is_gone_gives_its_slot_up() {
    let tables = tables(2);
    let mut files = Files::default();
    files.open(&tables, 1).unwrap();
    files.close();
    tables.forget(1);
    let other = tables.reader(2).unwrap();
    files.hold::<()>(1 + FILE_SLOTS_MIN as u32, || Ok(other)).unwrap();
    assert_eq!(files.slots.len(), FILE_SLOTS_MIN);
}

/// What is asked for ahead must not open files: nobody would hear the error.
#[test]
fn only_open_files_are_fetched_from() {
    let tables = tables(2);
    tables.reader(2).unwrap();
    let mut files = Files::default();
    let place = slmdb_table::Place { offset: 0, length: 10 };
    for file in [1, 2] {
        files.prefetch(&tables, Location { file, place, sequence: 1 });
    }
    files.close();
    assert!(files.hold(1, || Err(())).is_err() && files.hold(2, || Err(())).is_ok());
    assert!(tables.open_reader(1).is_none());
}
