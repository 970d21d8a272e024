//! What a store gives back that nobody has written to for long. While writes come, arenas and disk space are made ahead
//! of them, for whole MemTables. A store at rest needs none of that:
//!
//! - The spare MemTable, and arenas that are kept to be recycled. (Arenas in a pool would free nothing that others can take.)
//! - What the active MemTable may take beyond what is in it, but for an eighth of a usual one.
//! - The part of the reserve that was for the file that this MemTable could have become.
//! - Of a store that [shares](crate::Shared) with others, of which there may be thousands: the active MemTable itself. What is in
//!   it is flushed first.
//!
//! Nothing goes where the disk does not have plenty, because it may then not be had again. What was admitted keeps its
//! space in any case (INV-30), and so does the way out of a full disk (INV-32). The first writes after a rest have all of
//! it made again.

use std::time::Duration;

use slmdb_env::Result;
use slmdb_manifest::Edit;

use super::allowance::{expected, table_bytes};
use super::controller::SpaceController;

/// A store that was not written to for so long gives back what was made ahead. Many writes at once are then slower at
/// first: the pages of a new arena have to be had from the system, which a recycled one has.
pub const LONG_REST: Duration = Duration::from_secs(20);

/// The active MemTable may then take this part of a usual one more.
const PART_LEFT: u64 = 8;

impl SpaceController {
    /// Gives back what a store at rest does not need. Returns whether it did: not while a flush is to come, or while a
    /// writer waits for space, or where the disk has no plenty of it. REQUIRES: the caller is the thread that makes MemTables.
    /// LOCKS: memtables; catalog; pool grant; reserve, reserved file; arenas
    pub fn give_back_at_rest(&self) -> Result<bool> {
        let (reserve, options) = (&self.catalog.reserve, &self.context.options);
        if !reserve.has_plenty_besides(options.memtable_bytes) {
            return Ok(false);
        }
        let lowered = {
            let mut memtables = self.writes.memtables.lock();
            if memtables.immutables > 0 || memtables.wanted.is_some() || memtables.closing {
                return Ok(false);
            }
            let left = expected(self.writes.arenas.usual_bytes(), &memtables.last_taken()).divided_by(PART_LEFT);
            memtables.active.as_mut().map(|active| {
                if active.allowance.covers(&active.totals.plus(&left)) {
                    active.allow(&left);
                }
                (active.memtable.generation(), active.allowance, active.space.clone())
            })
        };
        let mut coming_bytes = 0;
        if let Some((generation, allowance, space)) = lowered {
            coming_bytes = table_bytes(options, &allowance);
            if let Some(space) = space {
                space.lower_by(space.length_bytes().saturating_sub(coming_bytes))?;
            }
            self.change_grant(generation, Some(allowance))?;
        }
        self.give_back_spare()?;
        if options.shared.is_some() {
            if !self.make_active_spare() {
                return Ok(false);
            }
            self.give_back_spare()?;
            coming_bytes = 0;
        }
        if !self.writes.arenas.are_in_pool() {
            self.writes.arenas.give_back_unused()?;
        }
        reserve.expect_only(coming_bytes);
        match reserve.fill() {
            Err(error) if !error.may_be_tried_again() => Err(error),
            _ => Ok(true),
        }
    }

    /// Makes the active MemTable the spare, if nothing was written to it; else it is to be flushed. Returns whether there is no active one
    /// now. REQUIRES: there is no spare.
    /// LOCKS: memtables
    fn make_active_spare(&self) -> bool {
        let mut memtables = self.writes.memtables.lock();
        if memtables.immutables > 0 || memtables.wanted.is_some() || memtables.closing {
            return false;
        }
        if memtables.active.is_some() && memtables.active_from < memtables.next_sequence {
            self.writes.make_immutable(&mut memtables, None);
            return false;
        }
        if let Some(active) = memtables.active.take() {
            // Nobody has a place in it, and whoever reads it finds nothing.
            self.writes.remove_from_view(&active.memtable);
            memtables.spare = Some(active);
        }
        true
    }

    /// Gives back the spare MemTable, its arena and its space, if there is one. After an error that may be tried again it is
    /// the spare as before. REQUIRES: the caller is the thread that makes MemTables.
    /// LOCKS: memtables; catalog; pool grant; reserved file; arenas
    pub fn give_back_spare(&self) -> Result<()> {
        let Some(spare) = self.writes.memtables.lock().spare.take() else { return Ok(()) };
        let generation = spare.memtable.generation();
        match self.catalog.commit(|_| Edit { arenas_removed: vec![generation], ..Edit::default() }) {
            Ok(()) => {
                self.change_grant(generation, None)?;
                self.writes.arenas.retire(spare.memtable)?;
                spare.space.map_or(Ok(()), |space| space.discard(&*self.context.env))
            }
            Err(error) => {
                if error.may_be_tried_again() {
                    self.writes.memtables.lock().spare = Some(spare);
                }
                Err(error)
            }
        }
    }
}
