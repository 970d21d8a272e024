//! [`PagesAhead`]: the pages of a new arena come into memory before writers store there.
//!
//! See [`slmdb_pmem::Arena::bring_in`] for what a writer waits for without that. What is not used yet should not take memory, so only
//! a little more comes than is used, and the [MemTable preparer](super::memtable_preparer) does it in pieces.

use std::ops::Range;

/// At once. The preparer does nothing else meanwhile.
const PIECE_BYTES: u64 = 2 << 20;
/// How far ahead of what is used pages come at most: as much again as is used, within these bounds.
const LEAD_BYTES_MIN: u64 = 2 << 20;
const LEAD_BYTES_MAX: u64 = 16 << 20;

/// How much of an arena is in memory, or on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PagesAhead {
    length_bytes: u64,
    come_bytes: u64,
    /// Writers have asked for more, up to here.
    wanted_bytes: u64,
}

impl PagesAhead {
    /// Of an arena of this length, of which nothing is in memory if it is cold, and else everything.
    pub fn new(length_bytes: u64, is_cold: bool) -> PagesAhead {
        PagesAhead { length_bytes, come_bytes: if is_cold { 0 } else { length_bytes }, wanted_bytes: 0 }
    }

    /// Asks for what comes next, once so much is used. Returns whether there is something new to do.
    #[inline]
    pub fn ask(&mut self, used_bytes: u64) -> bool {
        if self.come_bytes >= self.length_bytes {
            return false;
        }
        let wanted_bytes = used_bytes + used_bytes.clamp(LEAD_BYTES_MIN, LEAD_BYTES_MAX);
        let is_new = wanted_bytes > self.come_bytes && self.wanted_bytes <= self.come_bytes;
        self.wanted_bytes = self.wanted_bytes.max(wanted_bytes);
        is_new
    }

    /// Asks for all of it.
    pub fn ask_for_all(&mut self) {
        self.wanted_bytes = self.length_bytes;
    }

    /// The next piece to bring in, which counts as there from now on. What is used already has come with its stores.
    pub fn next_piece(&mut self, used_bytes: u64) -> Option<Range<u64>> {
        let from = self.come_bytes.max(used_bytes).min(self.length_bytes);
        if from >= self.wanted_bytes.min(self.length_bytes) {
            self.come_bytes = from;
            return None;
        }
        self.come_bytes = (from + PIECE_BYTES).min(self.length_bytes);
        Some(from..self.come_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Brings in all that was asked for. Returns its end.
    fn bring_in(pages: &mut PagesAhead, used_bytes: u64) -> u64 {
        let mut end = None;
        while let Some(piece) = pages.next_piece(used_bytes) {
            assert!(end.is_none_or(|end| piece.start == end) && piece.start >= used_bytes);
            assert!(piece.end - piece.start <= PIECE_BYTES && piece.end > piece.start);
            end = Some(piece.end);
        }
        end.unwrap_or_default()
    }

    #[test]
    fn pages_come_before_they_are_used() {
        let mut pages = PagesAhead::new(64 * MIB, true);
        let (mut used, mut asked, mut come) = (0, 0, 0);
        while used < 64 * MIB {
            if pages.ask(used) {
                asked += 1;
                come = bring_in(&mut pages, used);
            }
            assert!(come >= (used + LEAD_BYTES_MIN).min(64 * MIB), "{used} used, {come} there");
            assert!(come <= (used + LEAD_BYTES_MAX + PIECE_BYTES).min(64 * MIB), "{used} used, {come} there");
            used += 1000;
        }
        assert!((10..=40).contains(&asked), "{asked}");
        assert!(!pages.ask(64 * MIB) && pages.next_piece(64 * MIB).is_none());
    }

    #[test]
    fn a_writer_asks_once() {
        let mut pages = PagesAhead::new(64 * MIB, true);
        assert!(pages.ask(0) && !pages.ask(1) && !pages.ask(5 * MIB));
        // It has gone on by itself meanwhile.
        assert_eq!(pages.next_piece(6 * MIB), Some(6 * MIB..8 * MIB));
        assert_eq!(bring_in(&mut pages, 9 * MIB), 11 * MIB);
        assert!(pages.ask(9 * MIB));
    }

    #[test]
    fn of_a_small_or_warm_arena_no_more_comes_than_it_has() {
        let mut pages = PagesAhead::new(100_000, true);
        assert!(pages.ask(0));
        assert_eq!((pages.next_piece(0), pages.next_piece(0)), (Some(0..100_000), None));
        let mut pages = PagesAhead::new(64 * MIB, false);
        pages.ask_for_all();
        assert!(!pages.ask(0) && pages.next_piece(0).is_none());
        let mut pages = PagesAhead::new(5 * MIB, true);
        pages.ask_for_all();
        assert_eq!(bring_in(&mut pages, 0), 5 * MIB);
    }
}
