//! Repair: makes a store whole whose pool is lost, or some of whose files are damaged, from what can be read. Here is
//! what any engine needs for that. Its own index is the engine's business.
//!
//! 1. Every table file is read from end to end ([`Repair::check_tables`]). What can be read of a damaged one goes into a
//!    new one: entries whose blocks are sound, and deletes. An entry whose block is damaged becomes a delete with the same
//!    number, so that no older value comes back, and is reported ([`Repair::save_run_files`]). Files that are searched by
//!    key have no list of their keys. They are left to the engine, which knows their levels.
//! 2. Lists that lie in the old pool become table files, as far as they can be read. MemTables that were not flushed are read from it,
//!    as far as their records are whole and without a gap, and become table files, too ([`Repair::save_log`]). On `Dram` only if their arenas are damaged; otherwise the next
//!    opening takes them as always.
//! 3. The MANIFEST says that the store has no pool, and which one is being made. The old pool is renamed
//!    ([`Repair::give_up_pool`]). On a device it makes room for the new one, since its MemTables are in table files.
//! 4. The engine makes its index in the new pool.
//! 5. One MANIFEST then has the new pool, and the files that are whole ([`Repair::end`]). Damaged files lose the names of
//!    a store's files. They are linked to other names before, so nothing is deleted that data could still be got from.
//!
//! A repair that is cut short is begun again. Until step 3 the store is as it was. From then on the MANIFEST has no
//! pool, which an opening refuses whatever the pool itself says, until the MANIFEST of step 5 is there. Damaged table
//! files, and MemTables that could not be read, stay in the MANIFEST until then, so that the next repair finds and
//! reports what this one did. On `Dram` there is no step 3.

mod log;
mod losses;
mod pool;
mod tables;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Env, Error, Lock, LockMode, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, FileRecord, Manifest, StoreState};
use slmdb_pmem::{AnyMedium, Pool};
use slmdb_table::TableForm;

pub use losses::LostKeys;
pub use tables::DamagedTable;

use crate::directory::{EngineKind, home, open, pool_binding};
use crate::files::file_names as names;
use crate::{Options, RepairProgress, RepairReport};

/// Suffix of a damaged file's new name.
const ASIDE: &str = "damaged";

/// What an engine adds to a repair.
pub trait RepairSteps {
    /// Step 1: checks all files, and makes what can be read of damaged ones the store's.
    fn begin(options: &Options, directory: &Path, progress: &mut dyn FnMut(RepairProgress)) -> Result<Repair>;

    /// The other steps on `Dram`.
    fn on_dram(repair: &mut Repair) -> Result<()>;

    /// Part of step 2: makes table files of the lists that can be read of the old pool. `None`: it can't be read, or an earlier
    /// repair has read it. Those that are lost stay in [`Repair::state`].
    fn save_lists(_: &mut Repair, _old_pool: Option<&Arc<Pool<AnyMedium>>>) -> Result<()> {
        Ok(())
    }

    /// The other steps on media with a pool.
    fn in_new_pool(repair: &mut Repair, medium: &AnyMedium) -> Result<()>;
}

/// Repairs a store, on the medium that its MANIFEST names. `medium`: one that the caller brings in its place, for a store that has
/// a pool.
pub fn repair<S: RepairSteps>(
    options: &Options,
    directory: &Path,
    medium: Option<AnyMedium>,
    progress: &mut dyn FnMut(RepairProgress),
) -> Result<RepairReport> {
    let mut repair = S::begin(options, directory, progress)?;
    match medium.map_or_else(|| repair.medium(), |medium| Ok(Some(medium)))? {
        None => S::on_dram(&mut repair)?,
        Some(medium) => S::in_new_pool(&mut repair, &medium)?,
    }
    Ok(repair.report)
}

/// The repair of a store.
pub struct Repair {
    /// The options that it was begun with. Their environment holds the directory, and that of the pool.
    pub options: Arc<Options>,
    /// The store's directory, as an absolute path.
    pub directory: PathBuf,
    /// The store as it will be.
    pub state: StoreState,
    /// What is told of it.
    pub report: RepairReport,
    /// Damaged table files of which something can be read. They are in `state` until they are [saved](Repair::replace)
    /// or [lost](Repair::lose).
    pub damaged_tables: Vec<DamagedTable>,
    /// How many of a file's entries counted, for what is told of one that is lost.
    entries_that_counted: fn(&FileRecord) -> u64,
    /// The form of the table files that MemTables become.
    form: TableForm,
    /// Table files that the store gives up, and the numbers of the files that have what could be read of them.
    given_up: Vec<(u32, FileRecord)>,
    replacements: Vec<u32>,
    /// Flushes had come in between the parts of the oldest MemTable.
    is_between_parts: bool,
    /// The names of damaged files, old and new.
    aside: Vec<(PathBuf, PathBuf)>,
    /// The pool that the MANIFEST names, if it belongs to the store that this one is a copy of. It is read, and nothing else.
    others_pool: Option<PathBuf>,
    /// Released at the end.
    _locks: Vec<Box<dyn Lock>>,
}

impl Repair {
    /// Locks the store and reads its MANIFEST.
    pub fn begin(
        engine: &EngineKind,
        options: &Options,
        directory: &Path,
        entries_that_counted: fn(&FileRecord) -> u64,
    ) -> Result<Repair> {
        options.check()?;
        open::check_directory(&*options.env, directory)?;
        let directory = options.env.absolute(directory)?;
        if options.env.is_directory(&directory)?.is_none() {
            return Err(Error::invalid(format!("there is no store in {}", directory.display())));
        }
        let mut options = options.holding(&directory)?;
        if !options.env.exists(&directory.join(MANIFEST_NAME))? {
            let what = format!("there is no MANIFEST in {}, and no repair without one", directory.display());
            return Err(Error::invalid(what));
        }
        let lock = options.env.lock(&directory.join(names::LOCK), LockMode::Exclusive)?;
        let reading = Manifest::read(&*options.env, &directory)?;
        let mut state = reading.state.clone();
        open::check_names(engine, &options, &state, &directory)?;
        let others_pool = home::others_pool(&options, &directory, &state)?;
        let mut locks = vec![lock];
        if let Some(pool) = &others_pool {
            pool_binding::hold_pool(&mut options, Some(pool))?;
            locks.extend(home::lock_pool(&Options { read_only: true, ..options.clone() }, &state)?);
        }
        pool_binding::bind(engine, &mut options, &mut state)?;
        match &others_pool {
            Some(others) => home::choose_place(&mut options, others, &mut state)?,
            None => {
                // The lock makes the file of a pool that is not there yet: not for a MANIFEST that a power cut may take.
                if pool_binding::is_virgin(&state) {
                    Manifest::make_durable(&*options.env, &directory, &reading)?;
                }
                locks.extend(home::lock_pool(&options, &state)?);
            }
        }
        home::set_home(&*options.env, &directory, &mut state, 0)?;
        Ok(Repair {
            options: Arc::new(options),
            directory,
            state,
            report: RepairReport::default(),
            damaged_tables: Vec::new(),
            entries_that_counted,
            form: engine.table_form,
            given_up: Vec::new(),
            replacements: Vec::new(),
            is_between_parts: false,
            aside: Vec::new(),
            others_pool,
            _locks: locks,
        })
    }

    /// The store's files.
    pub fn env(&self) -> &dyn Env {
        &*self.options.env
    }

    /// Whether the store gives up any table files, so that deletes may be lost with them.
    pub fn has_given_up_tables(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// All versions with numbers up to this one are in table files; see [`complete_through`](crate::write::write_path::WritePath::complete_through).
    pub fn complete_through(&self) -> u64 {
        self.state.flushed_through - u64::from(self.is_between_parts)
    }

    /// Step 5: the store becomes what [`Repair::state`] says.
    pub fn end(&mut self) -> Result<()> {
        self.state.lists.clear();
        let linked = self.link_aside()?;
        Manifest::rewrite(self.env(), &self.directory, &self.state)?;
        self.leave_names(&linked)
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
