//! Bytes of every file of a closed store flipped, cut, zeroed and grown: an error that names file and offset, or right
//! answers; never a panic, a hang, a wrong value or a short answer.

use std::path::{Path, PathBuf};

use crate::common::{Home, MEDIA, Model, Random, rounds};
use slmdb::{Db, Error};

/// A closed store with several table files, deletes, and a MemTable that was not flushed.
fn closed_store(home: &Home) -> Model {
    let mut model = Model::new();
    let mut random = Random(11);
    for round in 0..4 {
        let db = home.options().pool_initial_bytes(2 << 20).open(home.store()).unwrap();
        for _ in 0..60 {
            let key = format!("key{:02}", random.below(60)).into_bytes();
            if random.one_in(4) {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                let length = random.below(120) as usize;
                let value = random.bytes(length);
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
        }
        if round < 3 {
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    model
}

/// Everything a reader can ask, compared with the model; `Err` is what the store answered instead.
fn ask(db: &Db, model: &Model) -> slmdb::Result<()> {
    let mut expected = model.iter();
    for entry in db.iter()? {
        let (key, value) = entry?;
        assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())), "a wrong entry");
    }
    assert_eq!(expected.next(), None, "a short answer");
    let mut expected = model.iter().rev();
    for entry in db.iter()?.rev() {
        let (key, value) = entry?;
        assert_eq!(expected.next(), Some((&key.to_vec(), &value.to_vec())), "a wrong entry backwards");
    }
    assert_eq!(expected.next(), None, "a short answer backwards");
    for number in 0..60 {
        let key = format!("key{number:02}").into_bytes();
        assert_eq!(db.get(&key)?.as_deref(), model.get(&key).map(Vec::as_slice), "a wrong value");
    }
    Ok(())
}

#[derive(Debug, Default)]
struct Tally {
    errors: u64,
    right: u64,
}

/// Opens the damaged copy both ways and asks everything.
fn judge(damaged: &Home, model: &Model, what: &str, tally: &mut Tally) {
    for read_only in [true, false] {
        let outcome = damaged.options().read_only(read_only).open(damaged.store()).and_then(|db| {
            ask(&db, model)?;
            if !read_only {
                db.put("new", "value")?;
                db.delete("new")?;
            }
            db.close()
        });
        match outcome {
            Ok(()) => tally.right += 1,
            Err(Error::Corruption { file, .. }) => {
                assert!(!file.as_os_str().is_empty(), "{what}: no file named");
                tally.errors += 1;
            }
            Err(Error::Unsupported { .. }) => tally.errors += 1,
            // A pool that can't be recognised any more is a foreign one.
            Err(error) if error.to_string().contains("slmdb repair") => tally.errors += 1,
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

fn files(home: &Home) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(home.store()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap() != "LOCK");
    files.extend(home.pool());
    files.sort();
    files
}

/// The file of the copy that corresponds to one of the original's.
fn counterpart(original: &Home, copy: &Home, file: &Path) -> PathBuf {
    if Some(file) == original.pool().as_deref() {
        copy.pool().unwrap()
    } else {
        copy.store().join(file.file_name().unwrap())
    }
}

/// Where to strike a file: everywhere in a small one; at its structures' likely places and at random in a large one.
fn positions(length: usize, random: &mut Random, count: u64) -> Vec<usize> {
    if length as u64 <= count {
        return (0..length).collect();
    }
    let mut positions: Vec<usize> = (0..count / 2).map(|_| random.below(length as u64) as usize).collect();
    positions.extend((0..count / 2).map(|index| (index as usize * 8 + random.below(8) as usize) % length));
    positions
}

#[test]
fn damaged_files_give_errors_or_right_answers() {
    for on in MEDIA {
        let home = Home::new(on);
        let model = closed_store(&home);
        let mut random = Random(3);
        for file in files(&home) {
            let bytes = std::fs::read(&file).unwrap();
            let name = file.file_name().unwrap().to_str().unwrap().to_string();
            let mut tally = Tally::default();
            let mut strike = |what: String, damaged_bytes: &[u8]| {
                let copy = home.copy();
                std::fs::write(counterpart(&home, &copy, &file), damaged_bytes).unwrap();
                judge(&copy, &model, &format!("{on:?} {name}: {what}"), &mut tally);
            };
            for position in positions(bytes.len(), &mut random, rounds(40)) {
                let mut damaged = bytes.clone();
                damaged[position] ^= 1 << random.below(8);
                strike(format!("flipped at {position}"), &damaged);
            }
            for position in positions(bytes.len(), &mut random, rounds(12)) {
                strike(format!("cut at {position}"), &bytes[..position]);
                let length = 1 + random.below(4096) as usize;
                let mut damaged = bytes.clone();
                let end = bytes.len().min(position + length);
                damaged[position..end].fill(0);
                if damaged != bytes {
                    strike(format!("zeroed at {position}..{end}"), &damaged);
                }
            }
            for grown in [1, 8, 4096] {
                strike(format!("grown by {grown} zeros"), &[&bytes[..], &vec![0; grown]].concat());
                strike(format!("grown by {grown} others"), &[&bytes[..], &random.bytes(grown)].concat());
            }
            strike("emptied".into(), &[]);
            println!("{on:?} {name}: {} bytes, {tally:?}", bytes.len());
            assert!(tally.errors > 0, "{name}: no damage was ever noticed");
        }
    }
}

#[test]
fn a_missing_file_is_noticed() {
    for on in crate::common::media_with_files() {
        let home = Home::new(on);
        let model = closed_store(&home);
        for file in files(&home) {
            let copy = home.copy();
            std::fs::remove_file(counterpart(&home, &copy, &file)).unwrap();
            let mut tally = Tally::default();
            judge(&copy, &model, &format!("{on:?} without {}", file.display()), &mut tally);
            assert_eq!(tally.right, 0, "{on:?} without {}", file.display());
        }
    }
}
