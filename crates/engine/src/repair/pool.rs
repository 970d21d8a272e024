//! Steps 2 and 3 where there is a pool. It is made anew, and until that is done the store has none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_manifest::{FILE_NAME as MANIFEST_NAME, Manifest, MediumKind, UnfinishedRepair};
use slmdb_pmem::pool::{check_new_device, creation_finished, has_uuid, remove_pool_on};
use slmdb_pmem::{AnyMedium, Persistent};

use super::{Repair, RepairSteps};
use crate::Loss;
use crate::directory::pool_binding;

/// What is on the device of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnDevice {
    /// The pool is not on a device, but in a file.
    No,
    Nothing,
    /// The store's pool, with this UUID.
    Pool([u8; 16]),
}

impl Repair {
    /// The machine's own medium for the store's pool. `None`: the store is on `Dram`, and has no pool.
    pub fn medium(&self) -> Result<Option<AnyMedium>> {
        let medium = match self.state.medium.kind {
            MediumKind::Dram => return Ok(None),
            MediumKind::Emulated => Persistent::new(),
            MediumKind::Dax => Persistent::dax(self.options.caches_are_persistent)?,
        };
        medium.with_unit(self.options.media_unit_bytes).map(|medium| Some(medium.into()))
    }

    /// Steps 2 and 3 on media with a pool. On return [`Repair::state`] names the pool that is to be
    /// [made](pool_binding::new_pool).
    pub fn give_up_pool<S: RepairSteps>(&mut self, medium: &AnyMedium) -> Result<()> {
        let path = self.pool_path()?;
        let earlier = self.state.unfinished_repair.take();
        if let Some(UnfinishedRepair { new_pool, .. }) = earlier {
            self.discard_begun(&path, new_pool, medium)?;
        }
        let old_pool = earlier.map_or(self.state.medium.pool_uuid, |earlier| earlier.old_pool);
        let on_device = self.device_to_clear(&path, old_pool)?;
        // If this repair is cut short, the next one must miss the same MemTables.
        let log = (self.state.arenas.clone(), self.state.closed_at_sequence);
        // What an earlier repair could read of the old pool is in table files.
        let old_path = self.others_pool.clone().unwrap_or_else(|| path.clone());
        self.save_old_pool::<S>(if earlier.is_none() { Some(&old_path) } else { None }, medium)?;
        // (They stay in the MANIFEST until the end, so that the next repair reports them, too.)
        self.tell_lost_lists();
        self.check_next_generation()?;

        let mut new_pool = [0; 16];
        self.env().random_bytes(&mut new_pool);
        self.state.medium.boot_id = self.env().boot_id();
        self.state.medium.pool_uuid = None;
        let mut state = self.state.clone();
        state.unfinished_repair = Some(UnfinishedRepair { old_pool, new_pool });
        if self.report.losses.iter().any(|loss| matches!(loss, Loss::Writes { .. })) {
            (state.arenas, state.closed_at_sequence) = log;
        }
        // The next repair must find the damaged files in their places, too, and report them.
        state.files.retain(|number, _| !self.replacements.contains(number));
        state.files.extend(self.given_up.iter().map(|(number, record)| (*number, record.clone())));
        Manifest::rewrite(self.env(), &self.directory, &state)?;

        match on_device {
            OnDevice::No if self.others_pool.is_some() => {}
            OnDevice::No => self.set_pool_aside(path.clone())?,
            OnDevice::Nothing => {}
            OnDevice::Pool(uuid) => remove_pool_on(self.env(), &path, uuid, medium)?,
        }
        self.state.medium.pool_uuid = Some(new_pool);
        self.report.pool = Some(path);
        self.report.left_pool = self.others_pool.clone();
        Ok(())
    }

    fn pool_path(&self) -> Result<PathBuf> {
        self.state.medium.pool_path.clone().ok_or_else(|| {
            let manifest = self.directory.join(MANIFEST_NAME);
            Error::corruption(manifest, 0, "the MANIFEST names no pool for a store that needs one")
        })
    }

    /// Checks that the new pool can have an arena. If not, no opening could make one.
    fn check_next_generation(&self) -> Result<()> {
        let generation = self.state.next_generation;
        if u32::try_from(generation).is_ok() {
            return Ok(());
        }
        let what = format!("the next arena has generation {generation}, and a pool has numbers for 4 billion");
        Err(Error::Unsupported { what, file: Some(self.directory.join(MANIFEST_NAME)) })
    }

    /// Removes the pool of an earlier repair that was cut short, so that it is not taken for a damaged one.
    fn discard_begun(&self, path: &Path, new_pool: [u8; 16], medium: &AnyMedium) -> Result<()> {
        let env = self.env();
        if !env.exists(path)? || creation_finished(env, path)? && !has_uuid(env, path, new_pool)? {
            return Ok(());
        }
        match remove_pool_on(env, path, new_pool, medium) {
            // Something else, without a pool's header.
            Err(Error::Invalid { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Step 2: saves lists, and MemTables that were not flushed. Without a readable pool they are lost.
    fn save_old_pool<S: RepairSteps>(&mut self, path: Option<&Path>, medium: &AnyMedium) -> Result<()> {
        let flushed_through = self.state.flushed_through;
        if let Some(path) = path.filter(|path| self.env().exists(path).unwrap_or(true)) {
            match pool_binding::old_pool(medium.clone(), &self.options, &self.state, path) {
                Ok(pool) => {
                    let pool = Arc::new(pool);
                    S::save_lists(self, Some(&pool))?;
                    return self.save_log(&pool);
                }
                Err(error) => {
                    tracing::warn!(%error, pool = %path.display(), "the pool can't be read");
                    self.report.damage.push(error);
                }
            }
        }
        S::save_lists(self, None)?;
        if !self.state.arenas.is_empty() && self.state.closed_at_sequence != Some(flushed_through) {
            self.report.losses.push(Loss::Writes { from_sequence: flushed_through + 1 });
        }
        self.state.arenas.clear();
        self.state.closed_at_sequence = None;
        Ok(())
    }

    /// Tells of the lists that are left, which could not be read.
    fn tell_lost_lists(&mut self) {
        let lost = self.state.lists.iter().map(|(&number, list)| Loss::List {
            number,
            entries: list.entries,
            smallest_key: list.smallest_key.clone(),
            largest_key: list.largest_key.clone(),
            lowest_sequence: list.lowest_sequence,
            highest_sequence: list.highest_sequence,
        });
        self.report.losses.extend(lost);
    }

    /// What is on the pool's device, if it is on one; a device can't be renamed. It must be this store's pool, or
    /// nothing. Anything else is refused before the MANIFEST says that there is another pool.
    fn device_to_clear(&self, path: &Path, old_pool: Option<[u8; 16]>) -> Result<OnDevice> {
        if self.env().dax_device(path)?.is_none() {
            return Ok(OnDevice::No);
        }
        if let Some(uuid) = old_pool
            && has_uuid(self.env(), path, uuid)?
        {
            return Ok(OnDevice::Pool(uuid));
        }
        check_new_device(self.env(), path)?;
        Ok(OnDevice::Nothing)
    }

    /// Renames what is in the pool's place.
    fn set_pool_aside(&mut self, path: PathBuf) -> Result<()> {
        let tables = std::mem::take(&mut self.aside);
        self.set_aside(path)?;
        let pool = std::mem::replace(&mut self.aside, tables);
        for (from, to) in pool {
            self.env().rename(&from, &to)?;
            self.sync_above(&to)?;
            self.report.set_aside.push(to);
        }
        Ok(())
    }
}
