//! What must be there after a crash, and whether it is.
//!
//! Of each client: all that was acknowledged (where a power cut may take what was not synced: all up to the last sync), of the
//! rest a beginning, each write wholly or not at all, and of all clients together without a hole; and nothing else. The store verifies clean, nothing is leaked, and it goes
//! on: more writes, and another opening.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use slmdb::engines::of_name;
use slmdb_engine::{Engine, Options, WriteBatch};
use slmdb_manifest::Manifest;
use slmdb_pmem::{Dram, Pool};
use slmdb_testkit::MemoryEnv;

use crate::Random;
use crate::engines;
use crate::machine::{Image, POOL, STORE, Setup};
use crate::workload::{Done, Model, Write, apply, part_of};

/// How a machine went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process was killed: everything that it stored and wrote is there.
    Kill,
    /// The power went.
    PowerCut,
}

/// What may be found after a crash: each client's part is one of several.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    clients: Vec<ClientExpected>,
}

#[derive(Debug, Clone, Default)]
struct ClientExpected {
    /// What is certain.
    certain: Model,
    /// What may have happened after it: any beginning of this.
    possible: Vec<Write>,
}

impl Expected {
    /// What may be found after a crash at this moment.
    pub fn at(done: &Done, moment: u64, ending: Ending, setup: Setup) -> Expected {
        let clients = done.clients.iter().map(|writes| {
            let acknowledged = writes.partition_point(|write| write.ended <= moment);
            let begun = writes.partition_point(|write| write.began < moment).max(acknowledged);
            let certain = if setup.has_pool || ending == Ending::Kill {
                acknowledged
            } else {
                synced(done, writes, acknowledged, moment)
            };
            let mut model = Model::new();
            writes[..certain].iter().for_each(|write| apply(&mut model, &write.changes));
            let possible = writes[certain..begun].to_vec();
            ClientExpected { certain: model, possible }
        });
        Expected { clients: clients.collect() }
    }

    /// How much is certain and how much possible, as a number: an image need not be checked twice against the same.
    pub fn fingerprint(&self) -> u64 {
        let writes = |client: &ClientExpected| {
            let last = client.certain.values().map(|value| u64::from(crc32c::crc32c(value))).sum::<u64>();
            last << 8 ^ client.possible.len() as u64
        };
        self.clients.iter().fold(0, |sum, client| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ writes(client))
    }

    /// Checks what was found; what is wrong.
    pub fn check(&self, found: &Model) -> Result<(), String> {
        let parts: Vec<Model> = (0..self.clients.len()).map(|client| part_of(found, client)).collect();
        let count: usize = parts.iter().map(Model::len).sum();
        if count != found.len() {
            return Err("keys that nobody wrote".into());
        }
        let mut counts = Vec::new();
        for (client, (expected, part)) in self.clients.iter().zip(&parts).enumerate() {
            counts.push(expected.counts_found(part).map_err(|what| format!("client {client}: {what}"))?);
        }
        self.check_order(&counts)
    }

    /// Nothing is missing that had returned before something began that is there, whoever wrote them. `counts`: how many of its
    /// possible writes each client may have there, to hold what was found.
    fn check_order(&self, counts: &[Vec<usize>]) -> Result<(), String> {
        // With fewer, less is asked of the others. So from the fewest on: as many more as are needed.
        let mut kept: Vec<usize> = counts.iter().map(|counts| counts.first().copied().unwrap_or(0)).collect();
        loop {
            let last = |(client, &count): (usize, &usize)| {
                Some((self.clients[client].possible[..count].last()?.began, client))
            };
            let Some((began, witness)) = kept.iter().enumerate().filter_map(last).max() else { return Ok(()) };
            let mut is_enough = true;
            for (client, expected) in self.clients.iter().enumerate() {
                let needed = expected.possible.partition_point(|write| write.ended < began);
                if needed > kept[client] {
                    let more = counts[client].iter().find(|&&count| count >= needed);
                    kept[client] = *more.ok_or_else(|| {
                        let (kept, all) = (counts[client].last().unwrap_or(&0), expected.possible.len());
                        format!(
                            "a hole: client {client} has {kept} of {all} writes that may be there, and client {witness} one \
                             that began when {needed} of them had returned"
                        )
                    })?;
                    is_enough = false;
                }
            }
            if is_enough {
                return Ok(());
            }
        }
    }
}

impl ClientExpected {
    /// With how many of the possible writes the model is what was found, in order; none: an error.
    fn counts_found(&self, found: &Model) -> Result<Vec<usize>, String> {
        let mut model = self.certain.clone();
        let mut counts: Vec<usize> = (*found == model).then_some(0).into_iter().collect();
        for (index, write) in self.possible.iter().enumerate() {
            apply(&mut model, &write.changes);
            counts.extend((*found == model).then_some(index + 1));
        }
        if !counts.is_empty() {
            return Ok(counts);
        }
        Err(format!(
            "of {} keys that are certain, with {} more writes that may have happened, these are not as after any of them: {}",
            self.certain.len(),
            self.possible.len(),
            differences(&self.certain, found)
        ))
    }
}

/// How many of a client's writes no power cut may take: up to the last that was synced, by itself or by any other sync that
/// began after it was acknowledged.
fn synced(done: &Done, writes: &[Write], acknowledged: usize, moment: u64) -> usize {
    let own = writes[..acknowledged]
        .iter()
        .rposition(|write| write.synced && !write.changes.is_empty())
        .map_or(0, |index| index + 1);
    let by_others = (done.clients.iter().flatten())
        .filter(|write| write.synced && !write.changes.is_empty())
        .map(|write| (write.began, write.ended))
        .chain(done.syncs.iter().copied())
        .filter(|(_, ended)| *ended <= moment)
        .map(|(began, _)| writes[..acknowledged].partition_point(|write| write.ended <= began))
        .max();
    own.max(by_others.unwrap_or(0))
}

fn differences(expected: &Model, found: &Model) -> String {
    let show = |value: Option<&Vec<u8>>| {
        value.map_or("nothing".into(), |value| {
            let head = value[..value.len().min(6)].escape_ascii();
            format!("{} bytes ({head}..)", value.len())
        })
    };
    let mut keys: Vec<_> = expected.keys().chain(found.keys()).collect();
    keys.sort();
    keys.dedup();
    let differing = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
    let lines = differing.take(5).map(|key| {
        format!("{}: {} expected at least, {} found", key.escape_ascii(), show(expected.get(key)), show(found.get(key)))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Opens what a crash left and checks it; what is wrong. `thorough`: it also goes on, and is opened again.
pub fn check(image: &Image, expected: &Expected, setup: Setup, thorough: bool) -> Result<(), String> {
    let checked = catch_unwind(AssertUnwindSafe(|| check_whole(image, expected, setup, thorough)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

fn check_whole(image: &Image, expected: &Expected, setup: Setup, thorough: bool) -> Result<(), String> {
    let env = image.machine(setup);
    let open = |when: &str| {
        let opened = engines::open(&setup.options(&env), Path::new(STORE), None);
        opened.map_err(|error| format!("does not open {when}: {error:?}"))
    };
    check_own_files(&env, setup)?;
    let read = thorough.then(|| read_only(&env, expected, setup));
    let engine = open("after the crash")?;
    let mut found = contents(&*engine)?;
    expected.check(&found)?;
    // After what was lost, which says more.
    if read.transpose()?.flatten().is_some_and(|read| read != found) {
        return Err("an opening for reading alone found something else".into());
    }
    verify(&*engine, "after the crash")?;
    if thorough {
        let mut random = Random(image.fingerprint());
        for number in 0..50_u64 {
            let key = format!("{}{:02}", ["a", "b", "zz"][random.below(3) as usize], random.below(24)).into_bytes();
            let value = (!random.one_in(4)).then(|| vec![number as u8; 20 + 40 * random.below(5) as usize]);
            let mut batch = WriteBatch::new();
            let added = match &value {
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
            added.and_then(|()| engine.write(&batch, false)).map_err(|error| format!("does not go on: {error:?}"))?;
            apply(&mut found, &[(key, value)]);
        }
        if random.one_in(4) {
            engine.flush().map_err(|error| format!("does not flush: {error:?}"))?;
        }
    }
    engine.close().map_err(|error| format!("does not close: {error:?}"))?;
    drop(engine);
    if thorough {
        let engine = open("again")?;
        let again = contents(&*engine)?;
        if again != found {
            return Err(format!("another opening changed what is there: {}", differences(&found, &again)));
        }
        verify(&*engine, "opened again")?;
        engine.close().map_err(|error| format!("does not close again: {error:?}"))?;
    }
    Ok(())
}

/// What a store holds that is opened for reading alone; what is wrong. `None`: the crash came while the store was made, and
/// such an opening makes nothing.
fn read_only(env: &MemoryEnv, expected: &Expected, setup: Setup) -> Result<Option<Model>, String> {
    let options = Options { read_only: true, ..setup.options(env) };
    let engine = match engines::open(&options, Path::new(STORE), None) {
        Ok(engine) => engine,
        Err(_) if expected.check(&Model::new()).is_ok() => return Ok(None),
        Err(error) => return Err(format!("does not open for reading alone: {error:?}")),
    };
    let found = contents(&*engine)?;
    verify(&*engine, "opened for reading alone")?;
    engine.close().map_err(|error| format!("does not close, opened for reading alone: {error:?}"))?;
    Ok(Some(found))
}

/// Checks that every file is there that the engine's section of the MANIFEST tells of; what is wrong. (An opening may do without.)
fn check_own_files(env: &MemoryEnv, setup: Setup) -> Result<(), String> {
    // Where the creation was cut short there is none; what else is wrong the opening tells.
    let Ok(manifest) = Manifest::read(env, Path::new(STORE)) else { return Ok(()) };
    let own_files = of_name(setup.engine).and_then(|kind| (kind.own_files)(&manifest.state));
    for (name, length_bytes) in own_files.map_err(|error| format!("the MANIFEST: {error:?}"))? {
        let path = format!("{STORE}/{name}");
        if env.content(&path).map(|content| content.len() as u64) != Some(length_bytes) {
            return Err(format!("{path}, which the MANIFEST tells of, is not there or not whole"));
        }
    }
    Ok(())
}

/// Checks that a store was closed clean, and its pool sealed; what is wrong.
pub fn check_closed(image: &Image) -> Result<(), String> {
    let pool = image.files.files.get(Path::new(POOL)).unwrap_or(&image.pool);
    if pool.is_empty() {
        return Ok(());
    }
    match Pool::from_image(Dram, pool.clone()) {
        Ok(pool) if pool.was_clean() => Ok(()),
        Ok(_) => Err("the pool was sealed, and is not".into()),
        Err(error) => Err(format!("the pool was sealed, and does not open: {error:?}")),
    }
}

fn verify(engine: &dyn Engine, when: &str) -> Result<(), String> {
    let report = engine.verify(&mut |_| ()).map_err(|error| format!("{when}: verify fails: {error:?}"))?;
    if report.is_clean() { Ok(()) } else { Err(format!("{when}: verify finds {:?}", report.findings)) }
}

/// Everything that a store holds, read both ways and each key by itself.
pub(crate) fn contents(engine: &dyn Engine) -> Result<Model, String> {
    let failed = |error| format!("reading fails: {error:?}");
    let mut cursor = engine.cursor().map_err(failed)?;
    let mut found = Model::new();
    cursor.seek_first().map_err(failed)?;
    while cursor.valid() {
        let (key, value) = (cursor.key().to_vec(), cursor.value().map_err(failed)?.to_vec());
        if found.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err("a scan runs backwards".into());
        }
        found.insert(key, value);
        cursor.next().map_err(failed)?;
    }
    cursor.seek_last().map_err(failed)?;
    let mut backwards = found.iter().rev();
    while cursor.valid() {
        if backwards.next().map(|(key, _)| &**key) != Some(cursor.key()) {
            return Err("scans differ by direction".into());
        }
        cursor.prev().map_err(failed)?;
    }
    if backwards.next().is_some() {
        return Err("a scan backwards ends early".into());
    }
    for (key, value) in &found {
        if engine.get(key).map_err(failed)?.as_deref() != Some(&**value) {
            return Err(format!("get gives another value of {} than a scan", key.escape_ascii()));
        }
    }
    Ok(found)
}
