//! What DRAM knows of the pool's space: which units are free, and what each unit belongs to. Rebuilt from the map at
//! every opening.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering};

use slmdb_env::Result;

use crate::extent::ExtentKind;
use crate::layout::Geometry;
use crate::mapping::Mapping;

/// The free units, as runs: start → length. Neighbouring runs are merged. No run crosses into another region, because
/// every region begins with its map.
///
/// Part of what is free is held in reserve (see [`Pool::set_reserve`](super::Pool::set_reserve)). The reserve is counted
/// in *pieces*, runs of so many units: a run of seven units counts as six if a piece has two.
#[derive(Debug)]
pub(super) struct Space {
    runs: BTreeMap<u64, u64>,
    /// All of them together.
    free_units: u64,
    /// The part of them that makes up whole pieces.
    counted_units: u64,
    piece_units: u64,
    reserve_units: u64,
    /// Set once the pool was sealed, or its use has ended: nothing may change any more.
    pub ended: bool,
}

impl Default for Space {
    fn default() -> Space {
        let runs = BTreeMap::new();
        Space { runs, free_units: 0, counted_units: 0, piece_units: 1, reserve_units: 0, ended: false }
    }
}

impl Space {
    /// Adds free units, which must not be free already.
    pub fn give(&mut self, start: u64, units: u64) {
        if units == 0 {
            return;
        }
        let (mut start, mut end) = (start, start + units);
        if let Some((&before, &length)) = self.runs.range(..start).next_back() {
            assert!(before + length <= start, "units {start}.. are free already");
            if before + length == start {
                self.remove(before);
                start = before;
            }
        }
        if let Some((&after, &length)) = self.runs.range(start..).next() {
            assert!(end <= after, "units ..{end} are free already");
            if after == end {
                self.remove(after);
                end = after + length;
            }
        }
        self.insert(start, end - start);
    }

    /// The shortest run that is long enough, as start and length: so the gaps that arenas leave are not nibbled at, and
    /// the next arena finds them whole.
    pub fn shortest(&self, units: u64) -> Option<(u64, u64)> {
        self.runs().filter(|&(_, length)| length >= units).min_by_key(|&(start, length)| (length, start))
    }

    /// The longest run, as start and length.
    pub fn longest(&self) -> Option<(u64, u64)> {
        self.runs().max_by_key(|&(start, length)| (length, std::cmp::Reverse(start)))
    }

    /// Takes units from the front of a run. Gives their start.
    pub fn cut(&mut self, run: (u64, u64), units: u64) -> u64 {
        let (start, length) = run;
        self.remove(start);
        if length > units {
            self.insert(start + units, length - units);
        }
        start
    }

    fn insert(&mut self, start: u64, length: u64) {
        self.runs.insert(start, length);
        self.free_units += length;
        self.counted_units += self.in_pieces(length);
    }

    fn remove(&mut self, start: u64) {
        if let Some(length) = self.runs.remove(&start) {
            self.free_units -= length;
            self.counted_units -= self.in_pieces(length);
        }
    }

    /// How many of so many units in a row make up whole pieces.
    fn in_pieces(&self, units: u64) -> u64 {
        units - units % self.piece_units
    }

    /// How many units are free.
    pub fn free_units(&self) -> u64 {
        self.free_units
    }

    /// The reserve and its pieces, in units.
    pub fn reserve(&self) -> (u64, u64) {
        (self.reserve_units, self.piece_units)
    }

    /// Changes the reserve and its pieces.
    pub fn set_reserve(&mut self, (reserve_units, piece_units): (u64, u64)) {
        (self.reserve_units, self.piece_units) = (reserve_units, piece_units);
        self.counted_units = self.runs.values().map(|&length| self.in_pieces(length)).sum();
    }

    /// How many units the reserve lacks.
    pub fn missing_units(&self) -> u64 {
        self.reserve_units.saturating_sub(self.counted_units)
    }

    /// How many it would lack if so many were taken from this run.
    pub fn missing_units_without(&self, run: (u64, u64), units: u64) -> u64 {
        let loss = self.in_pieces(run.1) - self.in_pieces(run.1 - units);
        (self.reserve_units + loss).saturating_sub(self.counted_units)
    }

    /// The first unit of the run that ends at `end`; `end` itself if there is none.
    pub fn run_ending_at(&self, end: u64) -> u64 {
        match self.runs.range(..end).next_back() {
            Some((&start, &length)) if start + length == end => start,
            _ => end,
        }
    }

    /// The free runs in order: start, length.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        self.runs.iter().map(|(&start, &length)| (start, length))
    }
}

/// For every unit that the pool may ever have: the kind of the extent it belongs to, and where that begins. Read without
/// a lock.
///
/// The reads and writes are relaxed. An offset that is followed comes from a word that was published (Release) after the
/// extent was allocated and read it with Acquire, so it sees the entry; and an extent is freed only when nobody is left
/// who could follow an offset into it. A stray offset from a damaged pool gets some answer, and callers check it (INV-24).
#[derive(Debug)]
pub(super) struct UnitTable {
    memory: Mapping,
    units: usize,
    /// How many units have been in an extent since [`UnitTable::count_from_here`], be they free again.
    used_once: AtomicU64,
}

/// In place of a kind: the unit is free, and was in an extent before.
const FREED: u8 = u8::MAX;

/// What the table takes for a unit, in bytes.
pub(super) const UNIT_TABLE_BYTES: u64 = 3;

impl UnitTable {
    /// A table for so many units, all free. Takes memory only as it is used.
    pub fn new(units: u64, path: &Path) -> Result<UnitTable> {
        let memory = Mapping::zeroed(units.saturating_mul(UNIT_TABLE_BYTES), path)?;
        Ok(UnitTable { memory, units: units as usize, used_once: AtomicU64::new(0) })
    }

    fn starts(&self) -> &[AtomicU16] {
        // SAFETY: the mapping has 3 bytes for each unit, zeroed and aligned to a page; the first 2 x units of them are
        // only ever touched through this slice.
        unsafe { std::slice::from_raw_parts(self.memory.base().cast(), self.units) }
    }

    fn kinds(&self) -> &[AtomicU8] {
        // SAFETY: as above, for the last 1 x units bytes.
        unsafe { std::slice::from_raw_parts(self.memory.base().add(2 * self.units).cast(), self.units) }
    }

    /// The kind of the extent that a unit belongs to.
    #[inline]
    pub fn kind(&self, unit: u64) -> Option<ExtentKind> {
        let kind = self.kinds().get(usize::try_from(unit).ok()?)?;
        ExtentKind::from_byte(kind.load(Ordering::Relaxed))
    }

    /// The first unit of the extent that a unit belongs to.
    #[inline]
    pub fn start(&self, unit: u64, geometry: Geometry) -> Option<u64> {
        self.kind(unit)?;
        let start = self.starts()[unit as usize].load(Ordering::Relaxed);
        Some(unit - geometry.in_region(unit) + u64::from(start))
    }

    /// Enters an extent.
    pub fn set(&self, start: u64, units: u64, kind: ExtentKind, geometry: Geometry) {
        let in_region = geometry.in_region(start) as u16;
        let mut first_uses = 0;
        for unit in start as usize..(start + units) as usize {
            first_uses += u64::from(self.kinds()[unit].load(Ordering::Relaxed) == 0);
            self.starts()[unit].store(in_region, Ordering::Relaxed);
            self.kinds()[unit].store(kind as u8, Ordering::Relaxed);
        }
        self.used_once.fetch_add(first_uses, Ordering::Relaxed);
    }

    /// How many units have been in an extent since [`UnitTable::count_from_here`], be they free again.
    pub fn used_once(&self) -> u64 {
        self.used_once.load(Ordering::Relaxed)
    }

    /// Begins to count anew: units that are or were in an extent count no more.
    pub fn count_from_here(&self) {
        self.used_once.store(0, Ordering::Relaxed);
    }

    /// Forgets an extent.
    pub fn clear(&self, start: u64, units: u64) {
        for unit in start as usize..(start + units) as usize {
            self.kinds()[unit].store(FREED, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes units from the shortest run that is long enough.
    fn take(space: &mut Space, units: u64) -> Option<u64> {
        let run = space.shortest(units)?;
        Some(space.cut(run, units))
    }

    #[test]
    fn runs_are_split_and_merged() {
        let mut space = Space::default();
        space.give(10, 10);
        assert_eq!(take(&mut space, 4), Some(10));
        assert_eq!(take(&mut space, 4), Some(14));
        assert_eq!(take(&mut space, 4), None);
        space.give(10, 4);
        assert_eq!(space.runs().collect::<Vec<_>>(), [(10, 4), (18, 2)]);
        assert_eq!(space.longest(), Some((10, 4)));
        space.give(14, 4);
        assert_eq!(space.runs().collect::<Vec<_>>(), [(10, 10)]);
        assert_eq!((space.run_ending_at(20), space.run_ending_at(30)), (10, 30));
        space.give(100, 3);
        assert_eq!(take(&mut space, 2), Some(100), "the shortest that will do");
        assert_eq!(take(&mut space, 2), Some(10));
        assert_eq!(space.free_units(), 9);
    }

    #[test]
    fn the_reserve_counts_whole_pieces() {
        let mut space = Space::default();
        space.give(10, 7);
        space.give(20, 1);
        space.give(30, 2);
        assert_eq!((space.free_units(), space.missing_units()), (10, 0));
        space.set_reserve((9, 1));
        assert_eq!(space.missing_units_without((20, 1), 1), 0);
        assert_eq!(space.missing_units_without((30, 2), 2), 1);
        space.set_reserve((9, 2));
        assert_eq!(space.missing_units(), 1, "6 of 7, none of 1, 2 of 2");
        space.set_reserve((8, 2));
        assert_eq!(space.missing_units_without((10, 7), 1), 0);
        assert_eq!(space.missing_units_without((10, 7), 2), 2);
        space.give(21, 1);
        assert_eq!(space.missing_units_without((10, 7), 2), 0);
        space.cut((10, 7), 5);
        space.set_reserve((6, 3));
        assert_eq!(space.missing_units(), 6, "no three in a row are left");
    }

    #[test]
    #[should_panic(expected = "free already")]
    fn nothing_is_freed_twice() {
        let mut space = Space::default();
        space.give(10, 10);
        space.give(15, 1);
    }

    #[test]
    fn the_table_knows_units_and_nothing_beyond() {
        let geometry = Geometry::for_maximum(0);
        let table = UnitTable::new(5000, Path::new("(test)")).unwrap();
        table.set(4096 + 17, 3, ExtentKind::Arena, geometry);
        assert_eq!(table.kind(4096 + 19), Some(ExtentKind::Arena));
        assert_eq!(table.start(4096 + 19, geometry), Some(4096 + 17));
        assert_eq!(table.kind(4096 + 20), None);
        assert_eq!(table.kind(5000), None);
        assert_eq!(table.kind(u64::MAX), None);
        table.clear(4096 + 17, 3);
        assert_eq!(table.start(4096 + 17, geometry), None);
        assert_eq!(table.used_once(), 3);
        table.set(4096 + 19, 2, ExtentKind::Blocks, geometry);
        assert_eq!(table.used_once(), 4, "one of the two had been used before");
    }
}
