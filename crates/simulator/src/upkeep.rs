//! What is done to whole stores (a copy, a repair, a removal), with the power cut in the middle of it: any of the changes of files and
//! names that no sync has covered may be there without the others.

use std::path::Path;

use slmdb_engine::{Error, Options, Result, WriteBatch, destroy, slm};
use slmdb_env::Env;

use crate::Random;
use crate::call_paths::CallPaths;
use crate::machine::{Image, Recorded, STORE, Setup};
use crate::oracle::contents;
use crate::picks::Pick;
use crate::workload::Model;

/// Where copies are made.
const COPY: &str = "/copy";
/// So many states are looked at before each sync, at most.
const IMAGES: usize = 40;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A copy of a store in use.
    Copy,
    /// The repair of a closed store with a damaged table file.
    Repair,
    /// The removal of a closed store.
    Destroy,
}

/// Does it with a store of this seed and cuts the power before each sync, and behind the last; how many images were checked, or what
/// was wrong. Stores that are repaired or removed have no pool: these recordings know nothing of a pool that is removed.
pub fn explore(work: Work, seed: u64, paths: &CallPaths) -> Result<u64, String> {
    let setup = Setup::of_seed(seed, work == Work::Copy && seed % 2 == 0);
    let store = Store::new(setup, seed, paths).map_err(|error| format!("no store: {error:?}"))?;
    let image = match work {
        Work::Repair => damaged(&store.image, seed)?,
        _ => store.image.clone(),
    };
    let expected = if work == Work::Repair { repaired(&image, setup)? } else { store.model };
    let machine = Recorded::starting_with(&image, setup, paths);
    let begun = machine.moment();
    let options = machine.options();
    let done = match work {
        Work::Copy => {
            machine.open().and_then(|engine| engine.checkpoint(Path::new(COPY)).and_then(|()| engine.close()))
        }
        Work::Repair => slm::repair(&options, Path::new(STORE), &mut |_| ()).map(drop),
        Work::Destroy => destroy(&options, Path::new(STORE)).map(drop),
    };
    done.map_err(|error| format!("{work:?} fails: {error:?}"))?;
    let (mut record, mut random, mut images) = (machine.record(), Random(seed), 0);
    let mut moments: Vec<u64> = record.stops.iter().map(|stop| stop.moment).filter(|&moment| moment >= begun).collect();
    moments.push(record.end);
    for moment in moments {
        record.to_moment(moment);
        for pick in Pick::all_at(&record, IMAGES, random.number()) {
            let is_done = moment == record.end;
            let checked = match work {
                Work::Copy => check_copy(&pick.image(&record), &expected, is_done),
                Work::Repair => check_repaired(&pick.image(&record), setup, &expected, is_done),
                Work::Destroy => check_destroyed(&pick.image(&record), setup, &expected, is_done),
            };
            checked.map_err(|what| format!("{work:?}, seed {seed}, {moment}@{pick}: {what}"))?;
            images += 1;
        }
    }
    Ok(images)
}

/// A store that was closed, and what is in it.
struct Store {
    image: Image,
    model: Model,
}

impl Store {
    fn new(setup: Setup, seed: u64, paths: &CallPaths) -> Result<Store> {
        let machine = Recorded::starting_with(&Image::new(setup), setup, paths);
        let engine = machine.open()?;
        let (mut model, mut random) = (Model::new(), Random(seed));
        for number in 0..120_u64 {
            let (key, value) = (format!("key{:02}", random.below(40)).into_bytes(), vec![number as u8; 200]);
            let mut batch = WriteBatch::new();
            batch.put(&key, &value)?;
            engine.write(&batch, false)?;
            model.insert(key, value);
        }
        engine.close()?;
        let mut record = machine.record();
        record.to_moment(record.end);
        Ok(Store { image: Pick::EVERYTHING.image(&record), model })
    }
}

/// The same with a byte of a table file changed.
fn damaged(image: &Image, seed: u64) -> Result<Image, String> {
    let mut image = image.clone();
    let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
    let tables = image.files.files.iter_mut().filter(|(path, _)| is_table(path)).map(|(_, content)| content);
    let mut tables: Vec<&mut Vec<u8>> = tables.collect();
    let mut random = Random(seed);
    let chosen = random.below(tables.len().max(1) as u64) as usize;
    let byte = tables.get_mut(chosen).and_then(|content| content.get_mut(100));
    *byte.ok_or("the store has no table file to be damaged")? ^= 0x55;
    Ok(image)
}

/// What a repair that nothing cuts short makes of it.
fn repaired(image: &Image, setup: Setup) -> Result<Model, String> {
    let options = setup.options(&image.machine(setup));
    let report = slm::repair(&options, Path::new(STORE), &mut |_| ());
    if report.map_err(|error| format!("is not repaired: {error:?}"))?.set_aside.is_empty() {
        return Err("the repair found nothing damaged".into());
    }
    held(&options, STORE)
}

/// Opens a store, reads all that is in it, and closes it.
fn held(options: &Options, directory: &str) -> Result<Model, String> {
    let engine = slm::open(options, Path::new(directory)).map_err(|error| format!("does not open: {error:?}"))?;
    let found = contents(&*engine)?;
    engine.close().map_err(|error| format!("does not close: {error:?}"))?;
    Ok(found)
}

fn same(found: &Model, expected: &Model) -> Result<(), String> {
    let keys = |model: &Model| model.keys().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
    if found == expected {
        return Ok(());
    }
    Err(format!("holds something else: {} where there should be {}", keys(found), keys(expected)))
}

/// A copy with a MANIFEST is whole; once it was said to be made, it is there.
fn check_copy(image: &Image, expected: &Model, is_done: bool) -> Result<(), String> {
    let setup = Setup { has_pool: false, ..Setup::of_seed(0, false) };
    let env = Image { pool: Vec::new(), ..image.clone() }.machine(setup);
    match env.content(format!("{COPY}/MANIFEST")) {
        Some(_) => same(&held(&setup.options(&env), COPY)?, expected),
        None if is_done => Err("the copy was made, and is not there".into()),
        None => Ok(()),
    }
}

/// It can be repaired; once that was done, it needs no other repair.
fn check_repaired(image: &Image, setup: Setup, expected: &Model, is_done: bool) -> Result<(), String> {
    let options = setup.options(&image.machine(setup));
    if !is_done {
        slm::repair(&options, Path::new(STORE), &mut |_| ()).map_err(|error| format!("no repair again: {error:?}"))?;
    }
    same(&held(&options, STORE)?, expected)
}

/// It is whole, or can be removed again; once it was removed, it is gone.
fn check_destroyed(image: &Image, setup: Setup, expected: &Model, is_done: bool) -> Result<(), String> {
    let env = image.machine(setup);
    let options = setup.options(&env);
    let left = || env.list_directory(Path::new(STORE)).unwrap_or_default();
    if is_done && !left().is_empty() {
        return Err(format!("is removed, and there is {:?}", left()));
    }
    if env.content(format!("{STORE}/MANIFEST")).is_some() {
        same(&held(&options, STORE)?, expected)?;
    }
    match destroy(&options, Path::new(STORE)) {
        Ok(_) | Err(Error::Invalid { .. }) if left().is_empty() => Ok(()),
        removed => Err(format!("removed again, it says {removed:?}, and there is {:?}", left())),
    }
}
