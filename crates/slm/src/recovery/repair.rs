//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read.
//!
//! 1. Every table file is read from end to end. What can be read of a damaged one goes into a new one: entries whose
//!    blocks are sound, and deletes. An entry whose block is damaged becomes a delete with the same number, so that no
//!    older value comes back, and is reported.
//! 2. MemTables that were not flushed are read from the old pool, as far as their records are whole and without a gap,
//!    and become table files. On `Dram` only if their arenas are damaged; otherwise the next opening takes them as
//!    always.
//! 3. The MANIFEST says that the store has no pool, and which one is being made. The old pool is renamed. On a device
//!    it makes room for the new one, since its MemTables are in table files.
//! 4. The index is rebuilt in the new pool. A checkpoint of it replaces all earlier ones, from which losses must not
//!    come back. One MANIFEST then has the new pool, the checkpoint, the live counts, and the files that are whole.
//! 5. Damaged files lose the names of a store's files. They are linked to other names before, so nothing is deleted
//!    that data could still be got from.
//!
//! A repair that is cut short is begun again. Until step 3 the store is as it was. From then on the MANIFEST has no
//! pool, which an opening refuses whatever the pool itself says, until the MANIFEST of step 4 is there. Damaged table
//! files, and MemTables that could not be read, stay in the MANIFEST until then, so that the next repair finds and
//! reports what this one did. On `Dram` there is no step 3.

mod log;
mod losses;
mod pool;
mod tables;

use std::path::{Path, PathBuf};

use slmdb_engine::directory::{open, pool_binding};
use slmdb_engine::files::file_names as names;
use slmdb_engine::{Loss, Options, RepairProgress, RepairReport};
use slmdb_env::{Env, Error, Lock, LockMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord, Manifest, MediumKind, StoreState};
use slmdb_pmem::{Medium, Persistent};

use crate::KIND;
use crate::recovery::index_checkpoint::NewCheckpoint;
use crate::recovery::rebuild::Rebuilt;
use crate::recovery::{index_in_pool, rebuild};

/// Suffix of a damaged file's new name.
const ASIDE: &str = "damaged";

/// See [`crate::repair`].
pub(crate) fn repair(
    options: &Options,
    directory: &Path,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
    let (mut repair, _lock) = Repair::begin(options, directory)?;
    repair.check_tables(progress)?;
    match repair.state.medium.kind {
        MediumKind::Dram => repair.on_dram()?,
        kind => {
            let dax = kind == MediumKind::Dax;
            let medium = if dax { Persistent::dax(options.caches_are_persistent)? } else { Persistent::new() };
            repair.in_new_pool(&medium.with_unit(options.media_unit_bytes)?)?;
        }
    }
    Ok(repair.report)
}

/// See [`crate::repair_on`].
pub(crate) fn repair_on<M: Medium + Clone>(options: &Options, directory: &Path, medium: &M) -> Result<RepairReport> {
    let (mut repair, _lock) = Repair::begin(options, directory)?;
    repair.check_tables(&mut |_| ())?;
    repair.in_new_pool(medium)?;
    Ok(repair.report)
}

struct Repair<'o> {
    options: &'o Options,
    directory: PathBuf,
    state: StoreState,
    report: RepairReport,
    /// Table files that the store gives up, and the numbers of the files that have what could be read of them.
    damaged: Vec<(u32, FileRecord)>,
    replacements: Vec<u32>,
    /// The names of damaged files, old and new.
    aside: Vec<(PathBuf, PathBuf)>,
}

impl Repair<'_> {
    /// Locks the store and reads its MANIFEST.
    fn begin<'o>(options: &'o Options, directory: &Path) -> Result<(Repair<'o>, Box<dyn Lock>)> {
        options.check()?;
        open::check_directory(&*options.env, directory)?;
        let directory = options.env.absolute(directory)?;
        if !options.env.exists(&directory.join(MANIFEST_NAME))? {
            let what = format!("there is no MANIFEST in {}, and no repair without one", directory.display());
            return Err(Error::invalid(what));
        }
        let lock = options.env.lock(&directory.join(names::LOCK), LockMode::Exclusive)?;
        let mut state = Manifest::read(&*options.env, &directory)?.state;
        open::check_names(&KIND, options, &state, &directory)?;
        pool_binding::bind(&KIND, options, &mut state)?;
        let (report, damaged, replacements, aside) = Default::default();
        Ok((Repair { options, directory, state, report, damaged, replacements, aside }, lock))
    }

    fn env(&self) -> &dyn Env {
        &*self.options.env
    }

    /// Gives a damaged file another name at the end of the repair, if it exists.
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

    /// Steps 2 to 5 on `Dram`.
    fn on_dram(&mut self) -> Result<()> {
        let fast = index_in_pool::in_memory(self.options, &self.state)?;
        if !self.log_is_whole(&fast.pool) {
            self.save_log(&fast.pool)?;
        }
        drop(fast);
        let (options, state) = (self.options, self.state.clone());
        let rebuilt = rebuild::as_far_as_possible(options, &self.directory, &state, || {
            index_in_pool::in_memory(options, &state)
        })?;
        self.finish(rebuilt)
    }

    /// Steps 4 and 5.
    fn finish<M: Medium>(&mut self, rebuilt: Rebuilt<M>) -> Result<()> {
        let Rebuilt { fast, checkpoints, live, lost, through, may_have_come_back } = rebuilt;
        self.report.index_keys = live.iter().sum();
        for (file, live) in self.state.files.values_mut().zip(live) {
            file.live_keys = live;
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
            // Older versions of lost keys may lie in files. From now on no rebuild may take them for the newest.
            self.state.deletes_dropped_through = self.state.flushed_through;
        }
        // What is lost must stay lost in every later rebuild, and no other checkpoint says so.
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
        let linked = self.link_aside()?;
        Manifest::rewrite(self.env(), &self.directory, &self.state)?;
        self.leave_names(&linked)
    }

    /// Links damaged files to their new names, beside the old ones: once the MANIFEST does not name them any more, an
    /// opening would remove them. Returns which now have both names.
    fn link_aside(&self) -> Result<Vec<bool>> {
        let link = |(from, to): &(PathBuf, PathBuf)| {
            let is_linked = self.env().link_file(from, to)?;
            self.sync_above(to)?;
            Ok(is_linked)
        };
        self.aside.iter().map(link).collect()
    }

    /// Removes the old names of damaged files.
    fn leave_names(&mut self, linked: &[bool]) -> Result<()> {
        for ((from, to), is_linked) in std::mem::take(&mut self.aside).into_iter().zip(linked) {
            if *is_linked {
                self.env().remove_file(&from)?;
            } else {
                self.env().rename(&from, &to)?;
            }
            self.sync_above(&to)?;
            self.report.set_aside.push(to);
        }
        Ok(())
    }

    /// Makes a name durable.
    fn sync_above(&self, path: &Path) -> Result<()> {
        path.parent().map_or(Ok(()), |directory| self.env().sync_directory(directory))
    }
}
