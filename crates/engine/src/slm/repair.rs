//! Repair: a store whose pool is lost, or some of whose files are damaged, is made whole from what can be read.
//!
//! 1. Every table file is read from end to end. Of a damaged one, what can be read goes into a new one: entries whose blocks
//!    are sound, and deletes. An entry whose block is not becomes a delete with the same number, so that no older value
//!    comes back, and is told.
//! 2. MemTables that were not flushed are read from the old pool, as far as their records are whole and without a gap, and
//!    become table files. (On `Dram` only if their arenas are damaged; else the next opening takes them as always.)
//! 3. The MANIFEST is written anew, with another pool.
//! 4. The index is rebuilt in that pool. A checkpoint of it takes the place of all there were (what is lost must not come back
//!    from them), and its live counts go into the MANIFEST.
//! 5. What is damaged gets another name. Nothing is deleted that anything could still be got from, but for a pool on a
//!    device: it makes room for the new one once its MemTables are in table files.
//!
//! A repair that is cut short is begun again: until 3 the store is as it was, and from then on there is no pool with the
//! right UUID, which opening refuses, until the repair is through. Damaged table files, and MemTables that
//! could not be read, stay in the MANIFEST until then, so that the next repair finds and tells what this one did.

mod log;
mod losses;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Env, Error, LockMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord, Manifest, MediumKind, StoreState};
use slmdb_pmem::pool::{check_new_device, has_uuid, remove_pool};
use slmdb_pmem::{Medium, Persistent};
use slmdb_table::{Block, EntryKind, TableBuilder, TableReader};

use super::checkpoint::NewCheckpoint;
use super::flush::{file_record, table_options};
use super::rebuild::{self, Rebuilt};
use super::tables::missing;
use super::{fast_tier, names, open};
use crate::{Loss, Options, RepairProgress, RepairReport};

/// What a damaged file's name gets at its end.
const ASIDE: &str = "damaged";

/// See [`crate::repair`].
pub(super) fn repair(
    options: &Options,
    directory: &Path,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
    options.check()?;
    open::check_directory(&*options.env, directory)?;
    let directory = options.env.absolute(directory)?;
    if !options.env.exists(&directory.join(MANIFEST_NAME))? {
        let what = format!("there is no MANIFEST in {}, and no repair without one", directory.display());
        return Err(Error::invalid(what));
    }
    let _lock = options.env.lock(&directory.join(names::LOCK), LockMode::Exclusive)?;
    let mut state = Manifest::read(&*options.env, &directory)?.state;
    open::check_names(options, &state, &directory)?;
    fast_tier::bind(options, &mut state)?;
    let (report, damaged, replacements, aside) = Default::default();
    let mut repair = Repair { options, directory, state, report, damaged, replacements, aside };
    repair.check_tables(progress)?;
    match repair.state.medium.kind {
        MediumKind::Dram => repair.on_dram()?,
        kind => {
            let dax = kind == MediumKind::Dax;
            let medium = if dax { Persistent::dax(options.caches_are_persistent)? } else { Persistent::new() };
            repair.in_new_pool(medium.with_unit(options.media_unit_bytes)?)?;
        }
    }
    Ok(repair.report)
}

/// What is on the device where a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDevice {
    /// It is a file.
    No,
    Nothing,
    /// The store's pool, with this identity.
    Pool([u8; 16]),
}

struct Repair<'o> {
    options: &'o Options,
    directory: PathBuf,
    state: StoreState,
    report: RepairReport,
    /// Table files that the store gives up, and the numbers of those that have what could be read of them.
    damaged: Vec<(u32, FileRecord)>,
    replacements: Vec<u32>,
    /// Damaged files: their names, and those that they get.
    aside: Vec<(PathBuf, PathBuf)>,
}

impl Repair<'_> {
    fn env(&self) -> &dyn Env {
        &*self.options.env
    }

    /// Step 1.
    fn check_tables(&mut self, progress: &mut dyn FnMut(RepairProgress)) -> Result<()> {
        let files = self.state.files.clone();
        let total_bytes = files.values().map(|file| file.length_bytes).sum();
        let mut before_bytes = 0;
        for (number, record) in files {
            let path = names::table(&self.directory, number);
            let (uuid, order) = (self.state.files_uuid, self.options.comparator.clone());
            let opened = if self.env().exists(&path)? {
                TableReader::open_in_order(self.env(), &path, number, uuid, order)
            } else {
                Err(missing(&path))
            };
            match opened {
                Ok(reader) => {
                    let tell = &mut |done_bytes| {
                        progress(RepairProgress { done_bytes: before_bytes + done_bytes, total_bytes });
                    };
                    let mut damage = reader.verify(tell);
                    if reader.length_bytes() != record.length_bytes {
                        damage.push(Error::corruption(&path, 0, "a table file is not as long as the MANIFEST says"));
                    }
                    if !damage.is_empty() {
                        self.report.damage.append(&mut damage);
                        self.save_entries(number, &record, &reader)?;
                    } else {
                        self.correct(number, &record, &reader);
                    }
                }
                Err(error @ Error::Corruption { .. }) => {
                    self.report.damage.push(error);
                    self.lose(number, &record)?;
                }
                Err(error) => return Err(error),
            }
            self.report.table_files_checked += 1;
            before_bytes += record.length_bytes;
            progress(RepairProgress { done_bytes: before_bytes, total_bytes });
        }
        Ok(())
    }

    /// What the MANIFEST says of a sound table file becomes what that says itself. (What of it is live is counted at the end.) And what is
    /// in a table file was flushed, with all that is older.
    fn correct(&mut self, number: u32, record: &FileRecord, reader: &TableReader) {
        let own = file_record(reader.properties(), reader.length_bytes());
        let own = FileRecord { live: record.live.min(own.entries), ..own };
        let is_flushed = own.highest_sequence <= self.state.flushed_through;
        if own != *record || !is_flushed {
            let what = format!("what the MANIFEST says of table file {number} is not so");
            self.report.damage.push(Error::corruption(self.directory.join(MANIFEST_NAME), 0, what));
            self.state.flushed_through = self.state.flushed_through.max(own.highest_sequence);
            self.state.closed_at_sequence.take_if(|closed| *closed < own.highest_sequence);
            self.state.files.insert(number, own);
        }
    }

    /// A file that nothing can be got from.
    fn lose(&mut self, number: u32, record: &FileRecord) -> Result<()> {
        self.report.losses.push(Loss::TableFile {
            number,
            entries: record.live,
            smallest_key: record.smallest_key.clone(),
            largest_key: record.largest_key.clone(),
            lowest_sequence: record.lowest_sequence,
            highest_sequence: record.highest_sequence,
        });
        self.give_up(number, record)
    }

    /// A damaged table file is none of the store any more.
    fn give_up(&mut self, number: u32, record: &FileRecord) -> Result<()> {
        self.state.files.remove(&number);
        self.state.candidates.retain(|&candidate| candidate != number);
        self.damaged.push((number, record.clone()));
        self.set_aside(names::table(&self.directory, number))
    }

    /// A damaged file will get another name, if it is there.
    fn set_aside(&mut self, path: PathBuf) -> Result<()> {
        if !self.env().exists(&path)? {
            return Ok(());
        }
        let mut to = path.clone();
        for attempt in 0.. {
            let mut name = path.clone().into_os_string();
            name.push(if attempt == 0 { format!(".{ASIDE}") } else { format!(".{ASIDE}-{attempt}") });
            to = name.into();
            if !self.env().exists(&to)? {
                break;
            }
        }
        self.aside.push((path, to));
        Ok(())
    }

    /// Of a damaged file, what can be read goes into a new one.
    fn save_entries(&mut self, number: u32, record: &FileRecord, reader: &TableReader) -> Result<()> {
        let keys = match reader.key_section() {
            Ok(keys) if keys.entries().all(|entry| entry.is_ok()) => keys,
            _ => return self.lose(number, record),
        };
        let (new, mut builder) = self.new_table()?;
        let mut block: Option<(slmdb_table::Place, Option<Block>)> = None;
        let mut last_key: Option<Vec<u8>> = None;
        for entry in keys.entries() {
            let entry = entry?;
            if last_key.as_deref() == Some(entry.key) {
                // An older version: nobody asks for it any more.
                continue;
            }
            last_key = Some(entry.key.to_vec());
            if block.as_ref().is_none_or(|(place, _)| *place != entry.place) {
                block = Some((entry.place, reader.read_block(entry.place).ok()));
            }
            let found = match &block {
                Some((_, Some(block))) => block.get(entry.key).ok().flatten(),
                _ => None,
            };
            match found.filter(|found| (found.sequence, found.kind) == (entry.sequence, entry.kind)) {
                Some(found) => builder.add(entry.key, entry.sequence, entry.kind, &found.value)?,
                None => {
                    if entry.kind == EntryKind::Put {
                        self.report.losses.push(Loss::Key { key: entry.key.to_vec(), sequence: entry.sequence });
                    }
                    builder.add(entry.key, entry.sequence, EntryKind::Delete, b"")?;
                }
            }
        }
        self.add_table(new, builder)?;
        self.replacements.push(new);
        self.give_up(number, record)
    }

    /// A table file with the next number that is free.
    fn new_table(&mut self) -> Result<(u32, TableBuilder)> {
        loop {
            let number = self.state.next_file_number;
            let path = names::table(&self.directory, number);
            self.state.next_file_number = number.checked_add(1).ok_or_else(|| Error::Unsupported {
                what: "a store has numbers for 4 billion table files".into(),
                file: Some(self.directory.join(MANIFEST_NAME)),
            })?;
            if self.env().exists(&path)? {
                // What a repair that was cut short, or a flush, has left.
                continue;
            }
            let (uuid, order) = (self.state.files_uuid, self.options.comparator.clone());
            let table = table_options(self.options);
            return Ok((number, TableBuilder::new_in_order(self.env(), &path, number, uuid, table, order)?));
        }
    }

    fn add_table(&mut self, number: u32, builder: TableBuilder) -> Result<()> {
        let finished = builder.finish()?;
        self.env().sync_directory(&self.directory)?;
        self.state.files.insert(number, file_record(&finished.properties, finished.length_bytes));
        Ok(())
    }

    /// Steps 2 to 5 on `Dram`.
    fn on_dram(&mut self) -> Result<()> {
        let fast = fast_tier::in_memory(self.options, &self.state)?;
        if !self.log_is_whole(&fast.pool) {
            self.save_log(&fast.pool)?;
        }
        drop(fast);
        let (options, state) = (self.options, self.state.clone());
        let rebuilt =
            rebuild::as_far_as_possible(options, &self.directory, &state, || fast_tier::in_memory(options, &state))?;
        self.finish(rebuilt)
    }

    /// Steps 2 to 5 on other media.
    fn in_new_pool<M: Medium + Clone>(&mut self, medium: M) -> Result<()> {
        let Some(path) = self.state.medium.pool_path.clone() else {
            let manifest = self.directory.join(MANIFEST_NAME);
            return Err(Error::corruption(manifest, 0, "the MANIFEST names no pool for a store that needs one"));
        };
        let on_device = self.device_to_clear(&path)?;
        let flushed_through = self.state.flushed_through;
        let log = (self.state.arenas.clone(), self.state.closed_at_sequence);
        let old = if self.env().exists(&path)? {
            Some(fast_tier::old_pool(medium.clone(), self.options, &self.state))
        } else {
            None
        };
        match old {
            Some(Ok(pool)) => self.save_log(&Arc::new(pool))?,
            other => {
                if let Some(Err(error)) = other {
                    self.report.damage.push(error);
                }
                self.state.arenas.clear();
                if !log.0.is_empty() && self.state.closed_at_sequence != Some(flushed_through) {
                    self.report.losses.push(Loss::Writes { from_sequence: flushed_through + 1 });
                }
                self.state.closed_at_sequence = None;
            }
        }
        let mut uuid = [0; 16];
        self.env().random_bytes(&mut uuid);
        self.state.medium.pool_uuid = Some(uuid);
        self.state.medium.boot_id = self.env().boot_id();
        // Should this repair be cut short, the next one finds the damaged files in their places again, and tells of them; and it misses
        // the MemTables that this one has missed.
        let mut state = self.state.clone();
        if self.report.losses.iter().any(|loss| matches!(loss, Loss::Writes { .. })) {
            (state.arenas, state.closed_at_sequence) = log;
        }
        state.files.retain(|number, _| !self.replacements.contains(number));
        state.files.extend(self.damaged.iter().map(|(number, record)| (*number, record.clone())));
        Manifest::rewrite(self.env(), &self.directory, &state)?;
        if on_device == OnDevice::No {
            let tables = std::mem::take(&mut self.aside);
            self.set_aside(path.clone())?;
            self.rename_aside()?;
            self.aside = tables;
        }
        if let OnDevice::Pool(old_uuid) = on_device {
            remove_pool(self.env(), &path, old_uuid)?;
        }
        let (options, state) = (self.options, self.state.clone());
        let rebuilt = rebuild::as_far_as_possible(options, &self.directory, &state, || {
            fast_tier::new_pool(medium.clone(), options, &state)
        })?;
        rebuilt.fast.pool.seal()?;
        self.report.pool = Some(path);
        self.finish(rebuilt)
    }

    /// Whether the pool is on a device, which can't get another name. What is there is this store's pool, or nothing:
    /// anything else is refused, before the MANIFEST says that there is another pool.
    fn device_to_clear(&self, path: &Path) -> Result<OnDevice> {
        if self.env().dax_device(path)?.is_none() {
            return Ok(OnDevice::No);
        }
        if let Some(uuid) = self.state.medium.pool_uuid {
            if has_uuid(self.env(), path, uuid)? {
                return Ok(OnDevice::Pool(uuid));
            }
        }
        check_new_device(self.env(), path)?;
        Ok(OnDevice::Nothing)
    }

    /// Steps 4 and 5.
    fn finish<M: Medium>(&mut self, rebuilt: Rebuilt<M>) -> Result<()> {
        let Rebuilt { fast, checkpoints, live, lost, through, may_have_come_back } = rebuilt;
        self.report.index_keys = live.iter().sum();
        for (file, live) in self.state.files.values_mut().zip(live) {
            file.live = live;
        }
        self.forget_what_was_dead(&fast.tree, through)?;
        for (key, sequence) in lost {
            let loss = Loss::Key { key, sequence };
            if !self.report.losses.contains(&loss) {
                self.report.losses.push(loss);
            }
        }
        if may_have_come_back {
            let through_sequence = self.state.deletes_dropped_through;
            self.report.losses.push(Loss::Deletes { through_sequence });
        }
        if !self.report.losses.is_empty() {
            // Older versions of what is lost lie in files, and from now on no rebuild may take them for the newest.
            self.state.deletes_dropped_through = self.state.flushed_through;
        }
        // What is lost must be lost for every rebuild to come, and no other checkpoint says so.
        let last = self.state.checkpoints.iter().chain(&checkpoints).map(|checkpoint| checkpoint.number).max();
        let new = NewCheckpoint {
            env: self.env(),
            directory: &self.directory,
            store_uuid: self.state.files_uuid,
            tree: &fast.tree,
            number: last.unwrap_or(0).saturating_add(1),
            through: self.state.flushed_through,
            files: self.state.files.keys().copied().collect(),
        };
        let checkpoint = new.write(&|| false)?;
        self.state.checkpoints = checkpoint.into_iter().collect();
        Manifest::rewrite(self.env(), &self.directory, &self.state)?;
        self.rename_aside()
    }

    fn rename_aside(&mut self) -> Result<()> {
        for (from, to) in std::mem::take(&mut self.aside) {
            self.env().rename(&from, &to)?;
            if let Some(directory) = to.parent() {
                self.env().sync_directory(directory)?;
            }
            self.report.set_aside.push(to);
        }
        Ok(())
    }
}
