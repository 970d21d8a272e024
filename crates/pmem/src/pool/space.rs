//! What DRAM knows of the pool's space: which units are free, and what each unit belongs to. Rebuilt from the map at
//! every opening.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};

use slmdb_env::Result;

use crate::layout::Geometry;
use crate::mapping::Mapping;
use crate::pool::ExtentKind;

/// The free units, as runs: start → length. Neighbouring runs are merged. No run crosses into another region, because
/// every region begins with its map.
#[derive(Debug, Default)]
pub(super) struct Space {
    runs: BTreeMap<u64, u64>,
    /// Set once the pool was sealed: nothing may change any more.
    pub sealed: bool,
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
                self.runs.remove(&before);
                start = before;
            }
        }
        if let Some((&after, &length)) = self.runs.range(start..).next() {
            assert!(end <= after, "units ..{end} are free already");
            if after == end {
                self.runs.remove(&after);
                end = after + length;
            }
        }
        self.runs.insert(start, end - start);
    }

    /// Takes a run of so many units from the shortest run that is long enough, so that the gaps that arenas leave are not
    /// nibbled at and the next arena finds them whole.
    pub fn take(&mut self, units: u64) -> Option<u64> {
        let long_enough = self.runs().filter(|&(_, length)| length >= units);
        let (start, length) = long_enough.min_by_key(|&(start, length)| (length, start))?;
        self.runs.remove(&start);
        if length > units {
            self.runs.insert(start + units, length - units);
        }
        Some(start)
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
/// The reads and writes are relaxed. Whoever follows an offset got it from a word that was published (Release) after the
/// extent was allocated and read it with Acquire, so it sees the entry; and an extent is freed only when nobody is left
/// who could follow an offset into it. A stray offset from a damaged pool gets some answer, which is all it can ask for.
#[derive(Debug)]
pub(super) struct UnitTable {
    memory: Mapping,
    units: usize,
}

impl UnitTable {
    /// A table for so many units, all free. Takes memory only as it is used.
    pub fn new(units: u64, path: &Path) -> Result<UnitTable> {
        let memory = Mapping::zeroed(units.saturating_mul(3), path)?;
        Ok(UnitTable { memory, units: units as usize })
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
        for unit in start as usize..(start + units) as usize {
            self.starts()[unit].store(in_region, Ordering::Relaxed);
            self.kinds()[unit].store(kind as u8, Ordering::Relaxed);
        }
    }

    /// Forgets an extent.
    pub fn clear(&self, start: u64, units: u64) {
        for unit in start as usize..(start + units) as usize {
            self.kinds()[unit].store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_split_and_merged() {
        let mut space = Space::default();
        space.give(10, 10);
        assert_eq!(space.take(4), Some(10));
        assert_eq!(space.take(4), Some(14));
        assert_eq!(space.take(4), None);
        space.give(10, 4);
        assert_eq!(space.runs().collect::<Vec<_>>(), [(10, 4), (18, 2)]);
        space.give(14, 4);
        assert_eq!(space.runs().collect::<Vec<_>>(), [(10, 10)]);
        assert_eq!((space.run_ending_at(20), space.run_ending_at(30)), (10, 30));
        space.give(100, 3);
        assert_eq!(space.take(2), Some(100), "the shortest that will do");
        assert_eq!(space.take(2), Some(10));
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
    }
}
