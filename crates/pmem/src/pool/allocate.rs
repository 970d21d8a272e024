//! Allocating and freeing extents, and the reserve.
//!
//! Storing the word of an extent's map entry is the one step of allocating, storing 0 the one step of freeing (POOL-1).
//!
//! What has been accepted into a MemTable must find room in the pool when it is flushed: a key segment, and blocks for
//! nodes. So before it is accepted, that room is put in *reserve*: [`Pool::set_reserve`] makes sure that so much is free,
//! and from then on arenas never leave less. Only key segments and blocks, which flushes need, may use all there is. The
//! reserve is a number of units and not a place, and flushes make do with whatever units are free, one by one if need be.
//! So it doesn't matter how space is fragmented (INV-33, POOL-9). There is one exception: keys so long that they, or the fences they
//! make, don't fit into one unit. A store that has such keys counts its reserve in pieces of two or three units in a row.
//!
//! The reserve is in DRAM only. After a crash it is free space like any other, and the opening of the store sets it anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};

use super::growth_guard::GrowthGuard;
use super::open_pool::Pool;
use super::space::Space;
use crate::extent::{Extent, ExtentKind};
use crate::layout::{Entry, UNIT_BYTES};
use crate::medium::Medium;

/// How often the pool is grown for one request: once for a long run, once for the reserve, and once more where a new
/// region's map has come between two pieces.
const GROWTHS_MAX: usize = 3;

/// Whether an extent may take what is held in reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Leaves the reserve alone.
    Ordinary,
    /// May use so many bytes of it, and leaves the rest alone.
    Part(u64),
    /// May use it.
    Privileged,
}

impl Claim {
    fn of(kind: ExtentKind) -> Claim {
        if kind == ExtentKind::Arena { Claim::Ordinary } else { Claim::Privileged }
    }

    /// How many units the reserve may lack once it has taken what it wants.
    fn missing_units_max(self) -> u64 {
        match self {
            Claim::Ordinary => 0,
            Claim::Part(bytes) => bytes / UNIT_BYTES,
            Claim::Privileged => u64::MAX,
        }
    }
}

impl<M: Medium> Pool<M> {
    /// From now on the pool grows only if the guard agrees, except for what may use the reserve: that was promised. Only the
    /// first guard counts.
    pub fn guard_growth(&self, guard: Arc<dyn GrowthGuard>) {
        let _ = self.growth_guard.set(guard);
    }

    /// The guard that is asked before the pool grows for this claim.
    fn guard_of(&self, claim: Claim) -> Option<&dyn GrowthGuard> {
        self.growth_guard.get().map(|guard| &**guard).filter(|_| claim != Claim::Privileged)
    }

    /// Takes an extent of at least `length_bytes`, rounded up to whole units. Durable on return; what it contains is not
    /// defined. The pool grows if need be; [`Error::Full`] if it can't. An arena never takes what is held in reserve
    /// ([`Pool::set_reserve`]), an extent of another kind may.
    pub fn allocate_extent(&self, kind: ExtentKind, length_bytes: u64, owner: u32) -> Result<Extent> {
        self.allocate_extent_zeroed(kind, length_bytes, owner, 0)
    }

    /// As [`Pool::allocate_extent`], but the first `zeroed_bytes` are zero, and durably so before the extent exists: for
    /// extents that begin with a bitmap or the like.
    pub fn allocate_extent_zeroed(
        &self,
        kind: ExtentKind,
        length_bytes: u64,
        owner: u32,
        zeroed_bytes: u64,
    ) -> Result<Extent> {
        self.allocate_claimed(kind, length_bytes, owner, zeroed_bytes, Claim::of(kind))
    }

    /// As [`Pool::allocate_extent_zeroed`], with this claim.
    pub(crate) fn allocate_claimed(
        &self,
        kind: ExtentKind,
        length_bytes: u64,
        owner: u32,
        zeroed_bytes: u64,
        claim: Claim,
    ) -> Result<Extent> {
        check(kind, length_bytes, zeroed_bytes)?;
        let units = length_bytes.div_ceil(UNIT_BYTES);
        let mut space = self.changeable_space()?;
        let start = self.find(&mut space, units, claim)?;
        Ok(self.enter(start, Entry { kind, units, owner }, zeroed_bytes))
    }

    /// Takes an extent for a part of something that may lie in several places: of `wanted_bytes` where that many are free
    /// in a row; else the longest free run, if it has `least_bytes`; else the pool grows. For key segments: those of flushes
    /// claim the reserve, others a part of it, or none.
    pub fn allocate_part(
        &self,
        kind: ExtentKind,
        wanted_bytes: u64,
        least_bytes: u64,
        owner: u32,
        claim: Claim,
    ) -> Result<Extent> {
        check(kind, least_bytes.min(wanted_bytes), 0)?;
        let wanted = wanted_bytes.div_ceil(UNIT_BYTES);
        let least = least_bytes.div_ceil(UNIT_BYTES);
        let mut space = self.changeable_space()?;
        let may_take = |run: &(u64, u64)| space.missing_units_without(*run, run.1) <= claim.missing_units_max();
        let longest = space.longest().filter(|run| (least..wanted).contains(&run.1) && may_take(run));
        let (start, units) = match longest {
            Some(run) => (space.cut(run, run.1), run.1),
            None => match self.find(&mut space, wanted, claim) {
                Err(Error::Full { .. }) if least < wanted => (self.find(&mut space, least, claim)?, least),
                start => (start?, wanted),
            },
        };
        Ok(self.enter(start, Entry { kind, units, owner }, 0))
    }

    /// Gives an extent to another owner, in one 8-byte store. Durable on return. [`Error::Corruption`] if no extent begins at
    /// `offset` that could be given away.
    pub fn set_extent_owner(&self, offset: u64, owner: u32) -> Result<Extent> {
        let _space = self.changeable_space()?;
        let extent = self.given_out_at(offset)?;
        let units = extent.length_bytes / UNIT_BYTES;
        self.store_entry(offset / UNIT_BYTES, Entry { kind: extent.kind, units, owner }.word());
        Ok(Extent { owner, ..extent })
    }

    /// The extent that begins at an offset and is not the pool's own.
    fn given_out_at(&self, offset: u64) -> Result<Extent> {
        match self.extent_at(offset) {
            Some(extent) if extent.offset == offset && !extent.kind.is_internal() => Ok(extent),
            _ => Err(self.corruption(offset, "an extent is to be changed where none begins")),
        }
    }

    /// Gives an extent back. Durable on return. The caller sees to it that nobody can still be reading there.
    /// [`Error::Corruption`] if no extent begins at `offset` that could be freed.
    pub fn free_extent(&self, offset: u64) -> Result<()> {
        let mut space = self.changeable_space()?;
        let extent = self.given_out_at(offset)?;
        let (start, units) = (offset / UNIT_BYTES, extent.length_bytes / UNIT_BYTES);
        self.units.clear(start, units);
        self.store_entry(start, 0);
        space.give(start, units);
        self.used_bytes.fetch_sub(extent.length_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives the end of an extent back: of it stays what `length_bytes` need, rounded up to whole units. Nothing happens if that
    /// is as much as it has. Durable on return, in one 8-byte store. The caller sees to it that nobody can still be reading
    /// there. [`Error::Corruption`] if no extent begins at `offset` that could be changed.
    pub fn shorten_extent(&self, offset: u64, length_bytes: u64) -> Result<Extent> {
        let mut space = self.changeable_space()?;
        let extent = self.given_out_at(offset)?;
        check(extent.kind, length_bytes, 0)?;
        let (start, units) = (offset / UNIT_BYTES, length_bytes.div_ceil(UNIT_BYTES));
        let given = (extent.length_bytes / UNIT_BYTES).saturating_sub(units);
        if given == 0 {
            return Ok(extent);
        }
        self.units.clear(start + units, given);
        self.store_entry(start, Entry { kind: extent.kind, units, owner: extent.owner }.word());
        space.give(start + units, given);
        self.used_bytes.fetch_sub(given * UNIT_BYTES, Ordering::Relaxed);
        Ok(Extent { length_bytes: units * UNIT_BYTES, ..extent })
    }

    /// Holds `bytes` in reserve from now on, instead of what was: arenas leave at least so much free, or are refused. Both
    /// sizes are rounded up to whole units.
    ///
    /// Raising it makes sure that so much *is* free now: the pool grows, with real space from the file system, and if it
    /// can't that is [`Error::Full`] and the old reserve stays. Lowering it always works, also while key segments and
    /// blocks have used some of it: the next arena has to wait until it is free again, or the pool grows for it.
    ///
    /// Only whole pieces of `piece_bytes` in a row count: [`UNIT_BYTES`] unless something has to fit
    /// that is longer.
    pub fn set_reserve(&self, bytes: u64, piece_bytes: u64) -> Result<()> {
        let mut space = self.changeable_space()?;
        let old = space.reserve();
        let new = (bytes.div_ceil(UNIT_BYTES), piece_bytes.div_ceil(UNIT_BYTES).max(1));
        space.set_reserve(new);
        if new.0 <= old.0 && new.1 <= old.1 {
            return Ok(());
        }
        self.fill_reserve(&mut space).inspect_err(|_| space.set_reserve(old))
    }

    fn fill_reserve(&self, space: &mut Space) -> Result<()> {
        for _ in 0..GROWTHS_MAX {
            match space.missing_units() {
                0 => return Ok(()),
                missing => {
                    let units = missing.next_multiple_of(space.reserve().1);
                    self.grow_by(space, units, self.guard_of(Claim::Ordinary))?;
                }
            }
        }
        if space.missing_units() == 0 { Ok(()) } else { Err(self.full(space.missing_units())) }
    }

    /// What is held in reserve, in bytes.
    pub fn reserve_bytes(&self) -> u64 {
        self.space().reserve().0 * UNIT_BYTES
    }

    /// The part of the reserve that is free now, in bytes: less than the reserve once flushes have used some of it.
    pub fn reserve_free_bytes(&self) -> u64 {
        let space = self.space();
        (space.reserve().0 - space.missing_units()) * UNIT_BYTES
    }

    /// What a piece of the reserve has at least, in bytes.
    pub(crate) fn reserve_piece_bytes(&self) -> u64 {
        self.space().reserve().1 * UNIT_BYTES
    }

    /// Bytes that are free without growing, the reserve included.
    pub fn free_bytes(&self) -> u64 {
        self.space().free_units() * UNIT_BYTES
    }

    /// Takes units in a row off the free ones.
    fn find(&self, space: &mut Space, units: u64, claim: Claim) -> Result<u64> {
        let guard = self.guard_of(claim);
        for growths in 0..=GROWTHS_MAX {
            let grown = match space.shortest(units) {
                None if growths < GROWTHS_MAX => self.grow_for_run(space, units, guard),
                None => break,
                Some(run) => match space.missing_units_without(run, units) {
                    missing if missing > claim.missing_units_max() => {
                        self.grow_by(space, missing - claim.missing_units_max(), guard)
                    }
                    _ => return Ok(space.cut(run, units)),
                },
            };
            grown?;
        }
        Err(self.full(units))
    }

    /// Makes an extent of units that were free.
    fn enter(&self, start: u64, entry: Entry, zeroed_bytes: u64) -> Extent {
        let Entry { kind, units, owner } = entry;
        let extent = Extent { offset: start * UNIT_BYTES, length_bytes: units * UNIT_BYTES, kind, owner };
        if zeroed_bytes > 0 {
            // SAFETY: the units were free until now and nobody knows of them yet.
            unsafe { self.medium.zero(self.address(extent.offset), zeroed_bytes as usize) };
            self.persist(extent.offset, zeroed_bytes);
        }
        self.units.set(start, units, kind, self.geometry);
        self.store_entry(start, entry.word());
        self.used_bytes.fetch_add(extent.length_bytes, Ordering::Relaxed);
        extent
    }
}

fn check(kind: ExtentKind, length_bytes: u64, zeroed_bytes: u64) -> Result<()> {
    if kind.is_internal() || length_bytes == 0 || zeroed_bytes > length_bytes {
        let what = format!("an extent of kind {kind:?} and {length_bytes} bytes can't be allocated");
        return Err(Error::invalid(what));
    }
    Ok(())
}
