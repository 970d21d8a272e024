//! What a store gives back that nobody has written to for long. While writes come, arenas and disk space are made ahead
//! of them, for whole MemTables. A store at rest needs none of that:
//!
//! - Disk space for the active MemTable's table file, beyond what is admitted to it and a step more.
//! - The part of the reserve that was for the file that this MemTable could have become.
//! - All disk space of the spare MemTable. On `Dram` also the spare itself, and arenas that are kept to be recycled. (In a
//!   pool they would free nothing that others can take.)
//!
//! Nothing goes where the disk does not have plenty, because it may then not be had again. What was admitted keeps its
//! space in any case (INV-30), and so does the way out of a full disk (INV-32). The first writes after a rest have all of
//! it made again.

use std::time::Duration;

use slmdb_env::Result;
use slmdb_manifest::Edit;
use slmdb_pmem::Medium;

use super::admission::table_bytes;
use super::controller::SpaceController;

/// A store that was not written to for so long gives back what was made ahead. Many writes at once are then slower at
/// first: the pages of a new arena have to be had from the system, which a recycled one has.
pub const LONG_REST: Duration = Duration::from_secs(20);

impl<M: Medium + Clone> SpaceController<M> {
    /// Gives back what a store at rest does not need. Returns whether it did: not while a flush is to come, or while a
    /// writer waits for space, or where the disk has no plenty of it. REQUIRES: the caller is the thread that sets space
    /// aside.
    /// LOCKS: memtables; catalog; reserve, reserved file; arenas
    pub fn give_back_at_rest(&self) -> Result<bool> {
        let (reserve, options) = (&self.catalog.reserve, &self.context.options);
        if !reserve.has_plenty_besides(options.memtable_bytes) {
            return Ok(false);
        }
        // 1. Disk space.
        let (mut shortened, mut coming_bytes) = (None, 0);
        let of_spare = {
            let mut memtables = self.writes.memtables.lock();
            let is_busy = memtables.immutables > 0 || memtables.spare_wanted_bytes > 0;
            if is_busy || memtables.space_wanted.is_some() || memtables.closing {
                return Ok(false);
            }
            let margins = memtables.margins;
            if let Some(active) = &mut memtables.active {
                shortened = active.promise_no_more(options, &margins);
                coming_bytes = active.space_bytes().max(table_bytes(options, &active.totals));
            }
            memtables.spare.as_mut().and_then(|spare| spare.space.take())
        };
        shortened.map_or(Ok(()), |space| space.cut())?;
        of_spare.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
        reserve.expect_only(coming_bytes);
        reserve.trim()?;
        // 2. Arenas.
        if !self.writes.arenas.are_in_pool() {
            self.give_back_spare()?;
            self.writes.arenas.give_back_unused()?;
        }
        Ok(true)
    }

    /// Gives back the spare MemTable and its arena, if there is one. After an error that may be tried again it is the spare
    /// as before.
    fn give_back_spare(&self) -> Result<()> {
        let Some(spare) = self.writes.memtables.lock().spare.take() else { return Ok(()) };
        let generation = spare.memtable.generation();
        match self.catalog.commit(|_| Edit { arenas_removed: vec![generation], ..Edit::default() }) {
            Ok(()) => self.writes.arenas.retire(spare.memtable),
            Err(error) => {
                if error.may_be_tried_again() {
                    self.writes.memtables.lock().spare = Some(spare);
                }
                Err(error)
            }
        }
    }
}
