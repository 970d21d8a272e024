//! Extents: reading the map, and growing.
//!
//! An extent exists when the word of its first unit's map entry says so (POOL-1): after a crash it is there whole or not at all,
//! and the words of units within an extent are 0. Everything else (what is free, what a unit belongs to) is in DRAM and
//! follows from the map. Extents are given out by [`allocate`](super::allocate).
//!
//! Growing takes real space from the file system first, then maps it at its place, then writes the maps of regions that
//! begin in it, and last stores the length word (POOL-4, POOL-5). A crash before that leaves a file that is longer than the pool, which
//! harms nothing: the next growth takes the same bytes.

use std::ops::Range;
use std::slice;
use std::sync::atomic::Ordering;

use slmdb_env::{Error, Result};
use slmdb_sync::mapped::AtomicU64;
use slmdb_sync::scheduled::MutexGuard;

use super::growth_guard::GrowthGuard;
use super::open_pool::{Backing, Pool};
use super::space::Space;
use crate::extent::{Extent, ExtentKind};
use crate::layout::{ENTRY_BYTES, Entry, LENGTH_OFFSET, UNIT_BYTES, checked_word};
use crate::mapping::sharing;
use crate::medium::Medium;

/// A damaged map may hold very many faults; the first few tell the story.
const FAULTS_MAX: usize = 64;

/// What [`Pool::walk`] found in the maps.
pub(super) struct Walk {
    /// Every extent that makes sense, in order of offset.
    pub extents: Vec<Extent>,
    /// What does not.
    pub faults: Vec<Error>,
}

impl<M: Medium> Pool<M> {
    /// All extents in order of offset, the pool's own included.
    pub fn extents(&self) -> Vec<Extent> {
        let _space = self.space();
        self.walk().extents
    }

    /// The extent that covers an offset, whatever the offset is. Takes no lock.
    #[inline]
    pub fn extent_at(&self, offset: u64) -> Option<Extent> {
        let start = self.units.start(offset / UNIT_BYTES, self.geometry)?;
        let entry = Entry::parse(self.entry(start).load(Ordering::Acquire))?;
        let extent = Extent {
            offset: start * UNIT_BYTES,
            length_bytes: entry.units * UNIT_BYTES,
            kind: entry.kind,
            owner: entry.owner,
        };
        // A word that was damaged after the opening may claim anything.
        (offset < extent.end() && extent.end() <= self.length_bytes()).then_some(extent)
    }

    /// The kind of the extent that covers an offset, whatever the offset is: the check for every followed word. Takes no
    /// lock and reads one byte.
    #[inline]
    pub fn kind_at(&self, offset: u64) -> Option<ExtentKind> {
        self.units.kind(offset / UNIT_BYTES)
    }

    /// Checks the map: every entry makes sense, no extents overlap, and what DRAM knows is the same. Empty if all is well.
    pub fn verify(&self) -> Vec<Error> {
        let space = self.space();
        let Walk { extents, mut faults } = self.walk();
        let mut used = 0;
        for extent in &extents {
            used += extent.length_bytes;
            let units = extent.offset / UNIT_BYTES..extent.end() / UNIT_BYTES;
            if !units.clone().all(|unit| self.units.start(unit, self.geometry) == Some(units.start)) {
                faults.push(self.corruption(extent.offset, "an extent of the map that was not there when it was read"));
            }
        }
        for (start, units) in space.runs() {
            if self.first_entry(start..start + units).is_some() {
                faults.push(self.corruption(start * UNIT_BYTES, "an extent of the map where space is free"));
            }
        }
        let length = self.length_bytes() / UNIT_BYTES;
        let free = (self.geometry.usable(length) + self.geometry.own(length)).saturating_sub(used / UNIT_BYTES);
        if faults.is_empty() && (free != space.free_units() || free != space.runs().map(|(_, units)| units).sum()) {
            let what = format!("{free} units are free, {} were counted", space.free_units());
            faults.push(self.corruption(0, what));
        }
        if faults.is_empty() && used != self.used_bytes() {
            faults.push(self.corruption(0, format!("{used} bytes are in extents, {} were counted", self.used_bytes())));
        }
        faults.truncate(FAULTS_MAX);
        faults
    }

    /// Reads all maps. Every loop is bounded by the pool's length, whatever the maps say.
    pub(super) fn walk(&self) -> Walk {
        let geometry = self.geometry;
        let length = self.length_bytes() / UNIT_BYTES;
        let mut walk = Walk { extents: Vec::new(), faults: Vec::new() };
        for region in 0..geometry.regions(length) {
            let end = geometry.region_end(region, length);
            let mut unit = region * geometry.region;
            while unit < end && walk.faults.len() < FAULTS_MAX {
                let word = self.entry(unit).load(Ordering::Acquire);
                let own = self.own_extent(unit);
                if word == 0 && own.is_none() {
                    unit += 1;
                    continue;
                }
                match self.read_entry(unit, word, own, end) {
                    Ok(extent) => {
                        unit = extent.end() / UNIT_BYTES;
                        walk.extents.push(extent);
                    }
                    Err(error) => {
                        walk.faults.push(error);
                        unit += 1;
                    }
                }
            }
            if let Some(unit) = self.first_entry(end..(region + 1) * geometry.region) {
                let what = format!("the map knows an extent at unit {unit}, behind the pool's end at {length}");
                walk.faults.push(self.corruption(geometry.entry_offset(unit), what));
            }
        }
        walk
    }

    /// The entry that must be at a unit: of the header, or of a region's map.
    pub(super) fn own_extent(&self, unit: u64) -> Option<Entry> {
        if unit == 0 {
            Some(Entry { kind: ExtentKind::Header, units: 1, owner: 0 })
        } else if unit == self.geometry.map_start(self.geometry.region_of(unit)) {
            Some(Entry { kind: ExtentKind::Map, units: self.geometry.map(), owner: 0 })
        } else {
            None
        }
    }

    fn read_entry(&self, unit: u64, word: u64, own: Option<Entry>, region_end: u64) -> Result<Extent> {
        let fault = |what: &str| {
            let what = format!("the map's entry of unit {unit}, {word:#018x}, {what}");
            self.corruption(self.geometry.entry_offset(unit), what)
        };
        let Some(entry) = Entry::parse(word) else {
            return Err(fault("is no extent that this build knows"));
        };
        if own.is_some_and(|own| own != entry) {
            return Err(fault("should be that of the pool's own header or map"));
        }
        if own.is_none() && entry.kind.is_internal() {
            return Err(fault("has a header or map where none belongs"));
        }
        let end = unit + entry.units;
        if end > region_end {
            return Err(fault("runs over the end of its region or of the pool"));
        }
        if self.first_entry(unit + 1..end).is_some() {
            return Err(fault("overlaps the next extent"));
        }
        Ok(Extent {
            offset: unit * UNIT_BYTES,
            length_bytes: entry.units * UNIT_BYTES,
            kind: entry.kind,
            owner: entry.owner,
        })
    }

    /// Fills DRAM's knowledge from the maps. The first fault is an error.
    pub(super) fn load_map(&mut self) -> Result<Vec<Extent>> {
        let Walk { extents, faults } = self.walk();
        if let Some(fault) = faults.into_iter().next() {
            return Err(fault);
        }
        let geometry = self.geometry;
        let length = self.length_bytes() / UNIT_BYTES;
        let mut space = self.space();
        let mut used = 0;
        let mut rest = &extents[..];
        for region in 0..geometry.regions(length) {
            let end = geometry.region_end(region, length);
            let mut free_from = region * geometry.region;
            let here = rest.partition_point(|extent| extent.offset < end * UNIT_BYTES);
            for extent in &rest[..here] {
                let (start, units) = (extent.offset / UNIT_BYTES, extent.length_bytes / UNIT_BYTES);
                space.give(free_from, start - free_from);
                self.units.set(start, units, extent.kind, geometry);
                used += extent.length_bytes;
                free_from = start + units;
            }
            space.give(free_from, end - free_from);
            rest = &rest[here..];
        }
        drop(space);
        self.used_bytes.store(used, Ordering::Relaxed);
        Ok(extents)
    }

    /// Makes room for one more extent of so many units behind what is there.
    pub(super) fn grow_for_run(&self, space: &mut Space, units: u64, guard: Option<&dyn GrowthGuard>) -> Result<()> {
        let geometry = self.geometry;
        let old = self.length_bytes() / UNIT_BYTES;
        let region = geometry.regions(old) - 1;
        let in_this_region = space.run_ending_at(old) + units;
        let least = if in_this_region <= (region + 1) * geometry.region {
            in_this_region
        } else {
            let least = geometry.map_end(region + 1) + units;
            if least > (region + 2) * geometry.region {
                return Err(self.full(units));
            }
            least
        };
        self.grow_to(space, least, units, guard)
    }

    /// Makes so many units more free, wherever they come to lie.
    pub(super) fn grow_by(&self, space: &mut Space, units: u64, guard: Option<&dyn GrowthGuard>) -> Result<()> {
        let old = self.length_bytes() / UNIT_BYTES;
        if units > self.maximum_bytes / UNIT_BYTES {
            return Err(self.full(units));
        }
        let wanted = self.geometry.usable(old) + units;
        let mut least = old + units;
        while self.geometry.usable(least) < wanted {
            least += wanted - self.geometry.usable(least);
        }
        self.grow_to(space, least, units, guard)
    }

    /// Grows to a length of at least `least` units, because `units` are needed.
    fn grow_to(&self, space: &mut Space, least: u64, units: u64, guard: Option<&dyn GrowthGuard>) -> Result<()> {
        let geometry = self.geometry;
        let old = self.length_bytes() / UNIT_BYTES;
        let region = geometry.regions(old) - 1;
        let maximum = self.maximum_bytes / UNIT_BYTES;
        if least > maximum {
            return Err(self.full(units));
        }
        let wanted = least.max((old + self.growth_bytes / UNIT_BYTES).min(maximum));
        // Memory that can't be had is space that can't, and so are descriptors: they may come, and until then there is none.
        let full_if_lacking = |to: u64, error: Error| match error {
            lack if lack.is_passing_lack() => {
                let what = format!("a pool of {} bytes: {lack}", to * UNIT_BYTES);
                Error::Full { path: self.path.clone(), what }
            }
            error => error,
        };
        let extend = |to| self.extend(old, to).map(|()| to).map_err(|error| full_if_lacking(to, error));
        let mut new = old;
        let mut grow = || {
            // A file system with little left may have enough for this one.
            new = match extend(wanted) {
                Err(Error::Full { .. }) if wanted > least => extend(least)?,
                new => new?,
            };
            Ok(())
        };
        match guard {
            Some(guard) => guard.grow(&mut grow).map_err(|error| full_if_lacking(wanted, error))?,
            None => grow()?,
        }
        self.length_bytes.store(new * UNIT_BYTES, Ordering::Release);
        // SAFETY: mapped above, and nobody but us has an offset in the new part yet; what lies before it, `attach` only
        // notes.
        unsafe { self.medium.attach(self.mapping.base(), (new * UNIT_BYTES) as usize) };
        for begun in region + 1..geometry.regions(new) {
            self.format_map(begun);
        }
        if geometry.regions(new) > region + 1 {
            // The maps are durable before the length that makes them count.
            self.fence();
        }
        self.store_length(new);
        for region in region..geometry.regions(new) {
            let start = geometry.map_end(region).max(old);
            space.give(start, geometry.region_end(region, new).saturating_sub(start));
        }
        Ok(())
    }

    /// Takes units `[old, new)` from the file system and maps them.
    pub(super) fn extend(&self, old: u64, new: u64) -> Result<()> {
        let (from, to) = (old * UNIT_BYTES, new * UNIT_BYTES);
        match &self.backing {
            Backing::File(file) => {
                file.allocate(from, to - from)?;
                if self.medium.survives_power_cut() {
                    // So that the file is never shorter than its length word says.
                    file.sync_data()?;
                }
                let descriptor = file.descriptor().ok_or_else(|| self.no_descriptor())?;
                self.mapping.file(descriptor, from, to, sharing(&self.medium), &self.path)
            }
            Backing::Copy(file) => {
                file.allocate(from, to - from)?;
                self.mapping.memory(from, to, &self.path)
            }
            // Mapped from the beginning, up to where a pool may grow.
            Backing::Device(..) => Ok(()),
            Backing::ReadOnly => self.mapping.memory(from, to, &self.path),
            Backing::Memory => {
                self.mapping.memory(from, to, &self.path)?;
                self.mapping.prefer_large_pages(from, to);
                Ok(())
            }
        }
    }

    /// Writes an empty map where a region begins, and begins to write it back: durable after the next fence. Plain memory is zero,
    /// and takes nothing as long as nobody has written to it: a map is a MiB. A file may have had a longer life before.
    pub(super) fn format_map(&self, region: u64) {
        let geometry = self.geometry;
        let start = geometry.map_start(region);
        let (offset, length_bytes) = (start * UNIT_BYTES, geometry.map() * UNIT_BYTES);
        if !matches!(self.backing, Backing::Memory) {
            // SAFETY: the region has only just come into being: nobody has an offset in it.
            unsafe { self.medium.zero(self.address(offset), length_bytes as usize) };
        }
        let own = (region * geometry.region..=start).filter_map(|unit| Some((unit, self.own_extent(unit)?)));
        for (unit, entry) in own {
            self.medium.store(self.entry(unit), entry.word());
            self.units.set(unit, entry.units, entry.kind, geometry);
            self.used_bytes.fetch_add(entry.units * UNIT_BYTES, Ordering::Relaxed);
        }
        self.flush(offset, length_bytes);
    }

    /// Makes the pool this long, durably.
    pub(super) fn store_length(&self, units: u64) {
        self.store_header(LENGTH_OFFSET, checked_word(LENGTH_OFFSET, units));
        self.flush_header();
        self.fence();
    }

    pub(super) fn store_entry(&self, unit: u64, word: u64) {
        self.medium.store(self.entry(unit), word);
        self.persist(self.geometry.entry_offset(unit), 8);
    }

    /// The word of a unit's map entry. The unit belongs to a region of the pool.
    pub(super) fn entry(&self, unit: u64) -> &AtomicU64 {
        let offset = self.geometry.entry_offset(unit);
        debug_assert!(offset + 8 <= self.length_bytes());
        // SAFETY: the map of every region that the pool has is mapped, and entries are aligned.
        unsafe { &*self.address(offset).cast::<AtomicU64>() }
    }

    /// The first of these units, all of one region, that has a map entry.
    fn first_entry(&self, units: Range<u64>) -> Option<u64> {
        let count = units.end.checked_sub(units.start).filter(|&count| count > 0)?;
        let first = self.geometry.entry_offset(units.start);
        debug_assert!(self.geometry.entry_offset(units.end - 1) == first + (count - 1) * ENTRY_BYTES);
        const WORDS: usize = (ENTRY_BYTES / 8) as usize;
        // SAFETY: as in `entry`; a region's entries lie one behind another in its map.
        let words =
            unsafe { slice::from_raw_parts(self.address(first).cast::<AtomicU64>(), (count as usize - 1) * WORDS + 1) };
        let index = words.iter().step_by(WORDS).position(|word| word.load(Ordering::Acquire) != 0)?;
        Some(units.start + index as u64)
    }

    pub(super) fn address(&self, offset: u64) -> *mut u8 {
        self.mapping.base().wrapping_add(offset as usize)
    }

    pub(super) fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock()
    }

    pub(super) fn changeable_space(&self) -> Result<MutexGuard<'_, Space>> {
        let space = self.space();
        if space.ended {
            return Err(Error::ReadOnly { cause: "the use of the pool has ended".into() });
        }
        Ok(space)
    }

    #[cold]
    pub(super) fn full(&self, units: u64) -> Error {
        let (wanted, used, maximum) = (units.saturating_mul(UNIT_BYTES), self.used_bytes(), self.maximum_bytes);
        let why = match (&self.backing, self.ends_early) {
            (Backing::Device(..), _) | (_, false) => "",
            _ => {
                " (pool_maximum_bytes allows more; when the pool was opened no more addresses could be reserved: open it \
                 again while fewer stores are open)"
            }
        };
        let what = format!("an extent of {wanted} bytes; {used} of at most {maximum} are used{why}");
        Error::Full { path: self.path.clone(), what }
    }

    #[cold]
    pub(super) fn no_descriptor(&self) -> Error {
        Error::Unsupported { what: "a file that can't be mapped".into(), file: Some(self.path.clone()) }
    }
}
