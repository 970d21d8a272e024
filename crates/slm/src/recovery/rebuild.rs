//! Rebuilding the index from files alone: on `Dram` at every opening, on other media when the pool is lost
//! ([`repair`](super::repair)).
//!
//! The key sections of all table files are merged in key order ([`slmdb_engine::read::merge`]), and the newest version
//! of each key counts ([`newest`]). File numbers say nothing about which version is newer. An index checkpoint takes
//! the place of the files that were there when it was begun. What counts goes into the index, in key order
//! ([`KeyIndex::load`]). The key space is cut into as many parts as there are processors, at sampled keys.
//!
//! The MANIFEST says of each file how many of its entries the index points to. That holds after any crash, because the
//! record that commits a job carries the changes. So it must agree with what is found. If not, something is damaged,
//! and the store is not opened.

mod newest;
mod sources;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use newest::{Newest, Verdict};
use slmdb_engine::Options;
use slmdb_engine::files::file_names as names;
use slmdb_engine::files::table_cache::Tables;
use slmdb_engine::read::merge::{Merge, Source, TableKeys, common_prefix};
use slmdb_engine::read::ordered_key::positions_in_order;
use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord, StoreState};
use slmdb_order::KeyOrder;
use slmdb_sync::scheduled::{Mutex, processors};
use slmdb_table::{CheckpointReader, CheckpointStream};
use sources::Keys;

use crate::index::key_index::{KeyIndex, LoadEntry};
use crate::index::{OpenIndex, in_plain_memory};
use crate::manifest_section::{CheckpointRecord, Section};

/// Minimum entries per part; fewer are not worth another thread.
const ENTRIES_A_PART_MIN: u64 = 32 * 1024;
/// Maximum number of parts; more don't make it faster.
const PARTS_MAX: u64 = 16;
/// About this many keys are sampled to cut the key space.
const SAMPLES: usize = 64;

/// The index of a `Dram` store. A damaged checkpoint is left out, and removed from `state`, if the files without it
/// agree with the MANIFEST.
pub(crate) fn in_memory(options: &Options, directory: &Path, state: &mut StoreState) -> Result<OpenIndex> {
    let make = || in_plain_memory(options, state);
    let rebuilt = with_best_checkpoint(options, directory, state, make, OnDamage::Fail)?;
    check_live(directory, &state.files, &rebuilt.live)?;
    Section { checkpoints: rebuilt.checkpoints, ..Section::of(state)? }.write_to(state);
    Ok(rebuilt.fast)
}

/// Keys that are lost, each with its sequence number.
type Lost = Vec<(Vec<u8>, u64)>;
/// For each file that a checkpoint names: its position among the store's files, if it still exists.
type KnownFiles = Arc<[Option<usize>]>;

/// A rebuilt index.
pub(crate) struct Rebuilt {
    pub(crate) fast: OpenIndex,
    /// The checkpoints that were not found damaged.
    pub(crate) checkpoints: Vec<CheckpointRecord>,
    /// Number of live entries of each file, in the order of the files' numbers.
    pub(crate) live: Vec<u64>,
    /// Keys that are lost by what a checkpoint says, with their sequence numbers.
    pub(crate) lost: Lost,
    /// The S of the checkpoint that the rebuild began from; 0 without one.
    pub(crate) through: u64,
    /// Deletes may have been dropped that no whole checkpoint covers.
    pub(crate) may_have_come_back: bool,
}

/// What a rebuild does when something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDamage {
    Fail,
    /// Reports what is missing. All files are read, and believed before a checkpoint ([`newest`]). Deletes up to this
    /// sequence number may be in no file any more.
    Report {
        deletes_gone_through: u64,
    },
}

impl OnDamage {
    #[inline]
    fn decide(self, newest: &mut Newest) -> Verdict {
        match self {
            OnDamage::Fail => newest.decide(),
            OnDamage::Report { deletes_gone_through } => newest.decide_in_repair(deletes_gone_through),
        }
    }
}

/// The index of a store that is repaired. What is missing is reported instead of being an error, and everything that
/// the index points to exists. Deletes up to `deletes_gone_through` may be in no file any more.
pub(crate) fn as_far_as_possible(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    deletes_gone_through: u64,
    make: impl Fn() -> Result<OpenIndex>,
) -> Result<Rebuilt> {
    with_best_checkpoint(options, directory, state, make, OnDamage::Report { deletes_gone_through })
}

/// Makes an index from the newest checkpoint that is whole.
fn with_best_checkpoint(
    options: &Options,
    directory: &Path,
    state: &StoreState,
    make: impl Fn() -> Result<OpenIndex>,
    on_damage: OnDamage,
) -> Result<Rebuilt> {
    let tables = Tables::new(options, directory.into(), state.files_uuid);
    let Section { mut checkpoints, deletes_dropped_through, .. } = Section::of(state)?;
    let newest = checkpoints.last().copied();
    let mut damage = None;
    loop {
        let checkpoint = checkpoints.last().copied();
        let through = checkpoint.map_or(0, |checkpoint| checkpoint.through);
        let may_have_come_back = through < deletes_dropped_through;
        if may_have_come_back && on_damage == OnDamage::Fail {
            let path = checkpoint_path(directory, newest.as_ref());
            let what = "no index checkpoint is whole that tells of all deletes that were dropped since: without one, deleted \
                        keys would come back";
            return Err(damage.unwrap_or_else(|| Error::corruption(path, 0, what)));
        }
        let fast = make()?;
        let rebuilt = checkpoint
            .map(|checkpoint| open_checkpoint(options, directory, state.files_uuid, &checkpoint))
            .transpose()
            .and_then(|reader| rebuild(&*fast.keys, &tables, state, reader, on_damage));
        let path = checkpoint_path(directory, checkpoint.as_ref());
        match rebuilt {
            Ok((live, lost)) => return Ok(Rebuilt { fast, checkpoints, live, lost, through, may_have_come_back }),
            Err(Error::Corruption { file, offset, what }) if checkpoint.is_some() && file == path => {
                let error = Error::Corruption { file, offset, what };
                tracing::warn!(%error, "an index checkpoint is damaged; the index is made without it");
                damage.get_or_insert(error);
                checkpoints.pop();
            }
            Err(error) => return Err(error),
        }
    }
}

fn checkpoint_path(directory: &Path, checkpoint: Option<&CheckpointRecord>) -> PathBuf {
    names::checkpoint(directory, checkpoint.map_or(0, |checkpoint| checkpoint.number))
}

/// Opens a checkpoint of the MANIFEST. [`Error::Corruption`] if it is missing or not the one that was recorded.
pub(crate) fn open_checkpoint(
    options: &Options,
    directory: &Path,
    uuid: [u8; 16],
    record: &CheckpointRecord,
) -> Result<Arc<CheckpointReader>> {
    let path = names::checkpoint(directory, record.number);
    if !options.env.exists(&path)? {
        return Err(Error::corruption(path, 0, "an index checkpoint of the store is missing"));
    }
    let order = options.comparator.clone();
    let reader = CheckpointReader::open(&*options.env, &path, record.number, uuid, order)?;
    let is = (reader.length_bytes(), reader.through(), reader.entries());
    if is != (record.length_bytes, record.through, record.entries) {
        return Err(Error::corruption(path, 0, "an index checkpoint is not the one that the MANIFEST tells of"));
    }
    Ok(Arc::new(reader))
}

/// Fills an empty index. Returns the live entries of each file, in the order of their numbers, and what is lost.
fn rebuild(
    index: &dyn KeyIndex,
    tables: &Tables,
    state: &StoreState,
    checkpoint: Option<Arc<CheckpointReader>>,
    on_damage: OnDamage,
) -> Result<(Vec<u64>, Lost)> {
    let plan = Plan::new(tables, state, index.order(), checkpoint, on_damage)?;
    let bounds = plan.bounds()?;
    let found = Mutex::new(BTreeMap::new());
    index.load(&bounds, &plan.files, &|part, load| {
        let low = part.checked_sub(1).map(|before| &bounds[before][..]);
        let high = bounds.get(part).map(|bound| &bound[..]);
        let of_part = plan.merge((low, high), on_damage, load)?;
        found.lock().insert(part, of_part);
        Ok(())
    })?;
    let (mut live, mut lost) = (vec![0; plan.files.len()], Vec::new());
    for (live_of_part, mut lost_of_part) in found.into_inner().into_values() {
        live.iter_mut().zip(live_of_part).for_each(|(sum, count)| *sum += count);
        lost.append(&mut lost_of_part);
    }
    Ok((live, lost))
}

/// What was found in a part of the key space, and where it goes.
struct Found<'l> {
    load: LoadEntry<'l>,
    live: Vec<u64>,
    lost: Lost,
}

/// What is read, and where it goes.
struct Plan<'t> {
    tables: &'t Tables,
    order: &'t KeyOrder,
    /// The store's files in the order of their numbers, each with the approximate size of its key records.
    files: Vec<(u32, u64)>,
    /// The files whose key sections are read, by their positions in `files`.
    read: Vec<usize>,
    checkpoint: Option<(Arc<CheckpointReader>, KnownFiles)>,
    /// The S of the checkpoint.
    through: u64,
    /// The common prefix of all keys.
    prefix: Vec<u8>,
    entries: u64,
}

impl<'t> Plan<'t> {
    fn new(
        tables: &'t Tables,
        state: &StoreState,
        order: &'t KeyOrder,
        checkpoint: Option<Arc<CheckpointReader>>,
        on_damage: OnDamage,
    ) -> Result<Plan<'t>> {
        let believed = checkpoint.as_ref().filter(|_| on_damage == OnDamage::Fail);
        let listed: HashSet<u32> = believed.iter().flat_map(|reader| reader.listed_files()).collect();
        let places: HashMap<u32, usize> = match believed {
            Some(_) => state.files.keys().enumerate().map(|(at, &number)| (number, at)).collect(),
            None => HashMap::new(),
        };
        let read: Vec<usize> =
            state.files.keys().enumerate().filter(|(_, number)| !listed.contains(number)).map(|(at, _)| at).collect();
        let mut key_bytes = HashMap::new();
        for file in checkpoint.iter().flat_map(|reader| reader.files()) {
            key_bytes.insert(file.number, file.key_bytes / file.entries.max(1));
        }
        let mut files = Vec::with_capacity(state.files.len());
        for (at, (&number, record)) in state.files.iter().enumerate() {
            let mean_bytes = match key_bytes.get(&number) {
                // Whatever a checkpoint says, no key is longer.
                Some(&mean_bytes) => mean_bytes.min(u64::from(u16::MAX)),
                None if read.binary_search(&at).is_ok() => {
                    let properties = tables.reader(number)?;
                    let properties = properties.properties();
                    properties.key_bytes / properties.entries.max(1)
                }
                None => 0,
            };
            files.push((number, record.live_keys.saturating_mul((20 + mean_bytes).next_multiple_of(8))));
        }
        let entries = read.iter().map(|&at| state.files[&files[at].0].entries).sum::<u64>()
            + checkpoint.as_ref().map_or(0, |reader| reader.entries());
        let through = checkpoint.as_ref().map_or(0, |reader| reader.through());
        let checkpoint = checkpoint.map(|reader| {
            let known = reader.files().map(|file| places.get(&file.number).copied()).collect();
            (reader, known)
        });
        let bounds = state.files.values().flat_map(|file| [&file.smallest_key, &file.largest_key]);
        let prefix = common_prefix(bounds.map(Vec::as_slice));
        Ok(Plan { tables, order, files, read, checkpoint, through, prefix, entries })
    }

    /// The sources, each before its first entry.
    fn sources(&self) -> Result<Vec<Keys<'t>>> {
        let mut sources = Vec::with_capacity(self.read.len() + 1);
        for &file in &self.read {
            let number = self.files[file].0;
            let keys = TableKeys::new(number, &*self.tables.reader(number)?, self.tables);
            sources.push(Keys::Table { file, keys });
        }
        if let Some((reader, files)) = &self.checkpoint {
            sources.push(Keys::Checkpoint { files: files.clone(), stream: CheckpointStream::new(reader.clone()) });
        }
        Ok(sources)
    }

    /// Where to cut the key space into parts of about the same size.
    fn bounds(&self) -> Result<Vec<Vec<u8>>> {
        let parts = (processors() as u64).min(PARTS_MAX).min(self.entries / ENTRIES_A_PART_MIN).max(1) as usize;
        if parts == 1 {
            return Ok(Vec::new());
        }
        // A sample is the first key of a chunk, and weighs as many chunks as its source has per sample.
        let sources = self.sources()?;
        let mut samples: Vec<(Vec<u8>, usize)> = Vec::new();
        let wanted_each = SAMPLES.div_ceil(sources.len().max(1));
        for source in sources.iter().step_by(sources.len().div_ceil(SAMPLES).max(1)) {
            let chunks = source.chunks();
            let wanted = wanted_each.min(chunks);
            for sample in 0..wanted {
                samples.push((source.first_key((2 * sample + 1) * chunks / (2 * wanted))?, chunks / wanted));
            }
        }
        let whole: usize = samples.iter().map(|(_, weight)| weight).sum();
        let (mut bounds, mut passed): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        for position in positions_in_order(samples.iter().map(|(key, _)| &key[..]), self.order) {
            let (key, weight) = &samples[position];
            let is_larger = bounds.last().is_none_or(|last| self.order.compare(last, key).is_lt());
            if bounds.len() + 1 < parts && is_larger && passed * parts >= whole * (bounds.len() + 1) {
                bounds.push(key.clone());
            }
            passed += weight;
        }
        Ok(bounds)
    }

    /// Merges a part of the key space, from `low`, up to but without `high`, into the index. Returns the live entries of each file, and
    /// what is lost.
    fn merge(
        &self,
        (low, high): (Option<&[u8]>, Option<&[u8]>),
        on_damage: OnDamage,
        load: LoadEntry<'_>,
    ) -> Result<(Vec<u64>, Lost)> {
        let mut found = Found { load, live: vec![0; self.files.len()], lost: Vec::new() };
        let mut sources = self.sources()?;
        if let Some(low) = low {
            sources.iter_mut().try_for_each(|keys| keys.seek(low))?;
        }
        let of_any = |(_, error): (usize, Error)| error;
        let mut merge = Merge::new(sources, self.order.clone(), self.prefix.clone(), (low, high)).map_err(of_any)?;
        let mut newest = Newest::default();
        // From a checkpoint alone, keys are copied as they come: it has each once.
        while let Some((_, keys)) = merge.first().filter(|_| self.read.is_empty()) {
            let Some(version) = keys.version() else { break };
            newest.consider(version, self.through);
            self.take(&mut found, keys.key(), on_damage.decide(&mut newest), on_damage)?;
            merge.advance().map_err(of_any)?;
        }
        let mut key = Vec::new();
        while let Some((_, first)) = merge.first() {
            key.clear();
            key.extend_from_slice(first.key());
            let head = merge.first_head();
            let mut version = first.version();
            while let Some(of_key) = version {
                newest.consider(of_key, self.through);
                merge.advance().map_err(of_any)?;
                version = merge.first_of(&key, head).and_then(Keys::version);
            }
            self.take(&mut found, &key, on_damage.decide(&mut newest), on_damage)?;
        }
        Ok((found.live, found.lost))
    }

    /// Takes a key by its verdict.
    #[inline]
    fn take(&self, found: &mut Found<'_>, key: &[u8], verdict: Verdict, on_damage: OnDamage) -> Result<()> {
        match verdict {
            Verdict::Live(version, file) => {
                (found.load)(key, version.sequence, version.place, file)?;
                found.live[file] += 1;
            }
            Verdict::Absent => {}
            Verdict::Lost(sequence) if on_damage == OnDamage::Fail => return Err(self.lost(key, sequence)),
            Verdict::Lost(sequence) => found.lost.push((key.to_vec(), sequence)),
        }
        Ok(())
    }

    #[cold]
    fn lost(&self, key: &[u8], sequence: u64) -> Error {
        let path = self.checkpoint.as_ref().map_or(Path::new(""), |(reader, _)| reader.path());
        let what = format!(
            "it has key {} at sequence number {sequence} in a table file that is gone, and nothing has come in its place",
            key.escape_ascii()
        );
        Error::corruption(path, 0, what)
    }
}

/// Compares the MANIFEST's live counts with those found.
fn check_live(directory: &Path, files: &BTreeMap<u32, FileRecord>, found: &[u64]) -> Result<()> {
    match files.iter().zip(found).find(|((_, file), found)| file.live_keys != **found) {
        None => Ok(()),
        Some(((number, file), found)) => {
            let what = format!(
                "it says that {} entries of table file {number} are live, but the files tell of {found}; `slmdb repair` counts anew",
                file.live_keys
            );
            Err(Error::corruption(directory.join(MANIFEST_NAME), 0, what))
        }
    }
}
