//! What is done to whole stores (a copy, a repair, a removal), killed or with the power cut in the middle of it, wherever the fast tier
//! is; and what goes on after such a crash, crashed again.
//!
//! A copy that is not said to be unfinished is whole. A store that is being repaired is as it was, or whole, or it is refused by an
//! error that names `slmdb repair`; and a repair that goes on makes of it what one would have made that nothing cut short. A store
//! that is being removed is whole, or can be removed to the end.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::Path;
use std::time::Instant;

use slmdb_engine::{EngineName, Error, Options, Result, WriteBatch};
use slmdb_env::Env;

use crate::Random;
use crate::call_paths::CallPaths;
use crate::engines;
use crate::explore::Looks;
use crate::machine::{Image, POOL, Record, Recorded, STORE, Setup};
use crate::oracle::contents;
use crate::picks::Pick;
use crate::workload::Model;

/// Where copies are made.
const COPY: &str = "/copy";
/// So many states are looked at at a place, at most.
const IMAGES: usize = 10;
/// So many times are looked at, of those that the program comes to a place on one call path. Of others one in so many.
const HITS: u32 = 2;
const ONE_IN: u64 = 40;
/// One image in so many goes on, and that is crashed again.
const AGAIN_ONE_IN: u64 = 150;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A copy of a store in use.
    Copy,
    /// The repair of a store.
    Repair(Damage),
    /// The removal of a store.
    Destroy,
}

/// What was damaged before a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// A block of a table file.
    Table,
    /// The pool is gone.
    PoolIsGone,
    /// Something within the pool.
    Pool,
}

/// All that is done, and where that can be.
pub fn works(setup: Setup) -> impl Iterator<Item = Work> {
    let damages = [Damage::None, Damage::Table, Damage::PoolIsGone, Damage::Pool];
    // (All of TLSM is in its pool.)
    let can_be = move |damage: &Damage| match damage {
        Damage::None => true,
        Damage::Table => setup.engine != EngineName::Tlsm || !setup.has_pool,
        Damage::PoolIsGone | Damage::Pool => setup.has_pool,
    };
    let damages = damages.into_iter().filter(can_be);
    [Work::Copy, Work::Destroy].into_iter().chain(damages.map(Work::Repair))
}

/// A setup by chance on each kind of fast tier: memory, a device, a file. (The device has too little for TLSM's lists.)
pub fn setups(engine: EngineName, seed: u64) -> impl Iterator<Item = Setup> {
    let with_pool = |in_file| Setup { in_file, ..Setup::of_seed(engine, seed, true) };
    let setups = [Setup::of_seed(engine, seed, false), with_pool(false), with_pool(true)];
    setups.into_iter().filter(move |setup| engine != EngineName::Tlsm || setup.in_file == setup.has_pool)
}

/// How many images were checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub images: u64,
    /// Of these, those after a kill.
    pub kills: u64,
    /// Those after a second crash, of what went on after the first.
    pub second_crashes: u64,
}

/// Does it with a store of this seed and crashes it at each place, until the time is up; how many images were checked, or what was
/// wrong. Unless it looks `Everywhere` it also knows what was left out.
pub fn explore(
    work: Work,
    setup: Setup,
    seed: u64,
    paths: &CallPaths,
    until: Option<Instant>,
    looks: Looks,
) -> Result<Counts, String> {
    let store = Store::new(setup, seed, paths).map_err(|error| format!("no store: {error:?}"))?;
    let (image, expected) = match work {
        Work::Repair(damage) => {
            let image = damaged(&store.image, setup, damage, seed)?;
            let expected = repaired(&image, setup)?;
            (image, expected)
        }
        _ => (store.image, store.model),
    };
    let before = image.files.files.get(&Path::new(STORE).join("MANIFEST")).cloned().unwrap_or_default();
    let knows_owed = looks != Looks::Everywhere;
    let explorer = Explorer { work, setup, expected, before, paths, until, knows_owed };
    let mut counts = Counts::default();
    let context = |what| format!("{work:?}, {setup:?}, seed {seed}, {what}");
    explorer.crash(&image, 0, &mut Random(seed), &mut counts).map_err(context)?;
    Ok(counts)
}

struct Explorer<'p> {
    work: Work,
    setup: Setup,
    /// What the store holds, or is to hold once it is repaired.
    expected: Model,
    /// The MANIFEST before a repair.
    before: Vec<u8>,
    paths: &'p CallPaths,
    until: Option<Instant>,
    /// Crashes are made where something is owed, with just that missing.
    knows_owed: bool,
}

impl Explorer<'_> {
    /// Does the work with what an image holds, and crashes that.
    fn crash(&self, image: &Image, depth: u64, random: &mut Random, counts: &mut Counts) -> Result<(), String> {
        let machine = Recorded::starting_with(image, self.setup, self.paths);
        let begun = machine.moment();
        self.work_on(&machine, depth)?;
        let mut record = machine.record();
        for (moment, is_wanted) in self.moments(&record, begun, random) {
            record.to_moment(moment);
            let is_owed = self.knows_owed && record.owes();
            if !is_wanted && !is_owed {
                continue;
            }
            // (There may be no second copy: the first may be whole.)
            let is_done = moment == record.end && (depth == 0 || self.work != Work::Copy);
            let mut picks = vec![Pick::KILL];
            if self.knows_owed {
                picks.extend(Pick::without_owed(&record, IMAGES, random.number()));
            }
            picks.extend(Pick::all_at(&record, IMAGES, random.number()));
            for pick in picks {
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(());
                }
                let left = pick.image(&record);
                let told = |what| format!("{moment}@{pick}: {what}");
                self.check(&left, is_done).map_err(told)?;
                counts.images += 1;
                counts.kills += u64::from(pick == Pick::KILL);
                counts.second_crashes += depth.min(1);
                if depth == 0 && !is_done && random.one_in(AGAIN_ONE_IN) {
                    self.crash(&left, 1, random, counts).map_err(told)?;
                }
            }
        }
        Ok(())
    }

    /// Does it. What a crash has left goes on as its user would go on.
    fn work_on(&self, machine: &Recorded, depth: u64) -> Result<(), String> {
        let done = match self.work {
            Work::Copy => machine.open().and_then(|engine| {
                match engine.checkpoint(Path::new(COPY)) {
                    // There is one, or a part of one.
                    Err(Error::Invalid { .. }) if depth > 0 => {}
                    copied => copied?,
                }
                engine.close()
            }),
            Work::Repair(_) => machine.repair().map(drop),
            Work::Destroy => match machine.destroy() {
                // It had come to its end.
                Err(Error::Invalid { .. }) if depth > 0 => Ok(()),
                destroyed => destroyed.map(drop),
            },
        };
        done.map_err(|error| format!("{:?} fails: {error:?}", self.work))
    }

    /// Where it is crashed: the first times that the program comes to a stop on a call path, others by chance, and at the end. `false`: only if
    /// something is owed there.
    fn moments(&self, record: &Record, begun: u64, random: &mut Random) -> Vec<(u64, bool)> {
        let mut hits: HashMap<u32, u32> = HashMap::new();
        let mut moments = Vec::new();
        for stop in record.stops.iter().filter(|stop| stop.moment >= begun) {
            let hits = hits.entry(stop.call_path).or_default();
            *hits += 1;
            moments.push((stop.moment, stop.done && (*hits <= HITS || random.one_in(ONE_IN))));
        }
        // Between two events a kill may come anywhere.
        moments.extend((0..HITS).map(|_| (begun + random.below((record.end - begun).max(1)), true)));
        moments.push((record.end, true));
        moments.sort_unstable();
        moments
    }

    fn check(&self, left: &Image, is_done: bool) -> Result<(), String> {
        match self.work {
            Work::Copy => check_copy(left, self.setup, &self.expected, is_done),
            Work::Repair(_) => self.check_repaired(left, is_done),
            Work::Destroy => check_destroyed(left, self.setup, &self.expected, is_done),
        }
    }

    /// It is as it was, or whole, or refused; and it can be repaired. Once that was done, it needs no other repair.
    fn check_repaired(&self, left: &Image, is_done: bool) -> Result<(), String> {
        let machine = left.machine(self.setup);
        let is_before = machine.content(format!("{STORE}/MANIFEST")).is_some_and(|manifest| manifest == self.before);
        match open(&self.setup.options(&machine), STORE) {
            Ok((found, is_clean)) if !is_before => {
                same(&found, &self.expected)?;
                if !is_clean {
                    return Err("opens, and verify finds something".into());
                }
            }
            Ok((found, _)) if found.is_empty() => return Err("opens empty".into()),
            Err(what) if is_done => return Err(format!("was repaired, and does not open: {what}")),
            Err(what) if !is_before && !what.contains("slmdb repair") => {
                return Err(format!("is refused by an error that does not name `slmdb repair`: {what}"));
            }
            _ => {}
        }
        if !is_done {
            same(&repaired(left, self.setup)?, &self.expected)?;
        }
        Ok(())
    }
}

/// A store, and what is in it.
struct Store {
    image: Image,
    model: Model,
}

impl Store {
    /// One that was closed, or killed, as the seed says.
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
        if seed.is_multiple_of(2) {
            engine.compact_range(Bound::Unbounded, Bound::Unbounded)?;
        }
        engine.sync()?;
        let killed = machine.moment();
        engine.close()?;
        let mut record = machine.record();
        record.to_moment(if seed.is_multiple_of(3) { killed } else { record.end });
        Ok(Store { image: Pick::EVERYTHING.image(&record), model })
    }
}

/// The same with something damaged.
fn damaged(image: &Image, setup: Setup, damage: Damage, seed: u64) -> Result<Image, String> {
    let (mut image, mut random) = (image.clone(), Random(seed));
    match damage {
        Damage::None => {}
        Damage::Table => {
            let is_table = |path: &Path| path.extension().is_some_and(|extension| extension == "sst");
            let tables = image.files.files.iter_mut().filter(|(path, _)| is_table(path)).map(|(_, content)| content);
            let mut tables: Vec<&mut Vec<u8>> = tables.collect();
            let chosen = random.below(tables.len().max(1) as u64) as usize;
            let byte = tables.get_mut(chosen).and_then(|content| content.get_mut(100));
            *byte.ok_or("the store has no table file to be damaged")? ^= 0x55;
        }
        Damage::PoolIsGone if setup.in_file => drop(image.files.files.remove(Path::new(POOL))),
        Damage::PoolIsGone => image.pool.fill(0),
        Damage::Pool => {
            let file = image.files.files.get_mut(Path::new(POOL));
            let pool = if setup.in_file { file.ok_or("the store has no pool")? } else { &mut image.pool };
            // Behind the header, which says whose it is.
            let at = (64 << 10) + random.below(pool.len() as u64 / 2) as usize;
            pool.iter_mut().skip(at).take(4096).for_each(|byte| *byte ^= 0x55);
        }
    }
    Ok(image)
}

/// What a repair that nothing cuts short makes of it.
fn repaired(image: &Image, setup: Setup) -> Result<Model, String> {
    let options = setup.options(&image.machine(setup));
    let report = engines::repair(&options, Path::new(STORE), None);
    report.map_err(|error| format!("is not repaired: {error:?}"))?;
    held(&options, STORE)
}

/// Opens a store, reads all that is in it, and closes it; also whether it verifies clean.
fn open(options: &Options, directory: &str) -> Result<(Model, bool), String> {
    let engine =
        engines::open(options, Path::new(directory), None).map_err(|error| format!("does not open: {error}"))?;
    let found = contents(&*engine);
    let verified = engine.verify(&mut |_| ()).map_err(|error| format!("is not verified: {error:?}"))?;
    let closed = engine.close();
    // (What is damaged may be met.)
    let found = found.unwrap_or_else(|what| Model::from([(what.into_bytes(), Vec::new())]));
    closed.map_err(|error| format!("does not close: {error:?}"))?;
    Ok((found, verified.is_clean()))
}

/// What a whole store holds.
fn held(options: &Options, directory: &str) -> Result<Model, String> {
    match open(options, directory)? {
        (found, true) => Ok(found),
        (_, false) => Err("verify finds something".into()),
    }
}

fn same(found: &Model, expected: &Model) -> Result<(), String> {
    let keys = |model: &Model| model.keys().map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
    if found == expected {
        return Ok(());
    }
    Err(format!("holds something else: {} where there should be {}", keys(found), keys(expected)))
}

/// The store is whole, and so is a copy that has a MANIFEST and is not said to be unfinished; once it was said to be made, it is there.
fn check_copy(image: &Image, setup: Setup, expected: &Model, is_done: bool) -> Result<(), String> {
    let env = image.machine(setup);
    let on_dram = Setup { has_pool: false, in_file: false, ..setup };
    let is_unfinished = env.content(format!("{COPY}/COPYING")).is_some();
    match env.content(format!("{COPY}/MANIFEST")).filter(|_| !is_unfinished) {
        Some(_) => same(&held(&on_dram.options(&env), COPY)?, expected)?,
        None if is_done => return Err("the copy was made, and is not there".into()),
        None => {}
    }
    same(&held(&setup.options(&env), STORE)?, expected)
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
    match slmdb_engine::directory::destroy::destroy(&options, Path::new(STORE)) {
        Ok(_) | Err(Error::Invalid { .. }) if left().is_empty() => {}
        removed => return Err(format!("removed again, it says {removed:?}, and there is {:?}", left())),
    }
    // Also of the pool nothing is left that another store would stumble over.
    match held(&options, STORE) {
        Ok(found) if found.is_empty() => Ok(()),
        made => Err(format!("in its place no store can be made: {made:?}")),
    }
}
