//! [`Temperature`]: whether what a cursor reads comes from the disk.
//!
//! Asking the system for blocks ahead costs a system call each. It pays only while data is *cold*, which means on the
//! disk and not in memory. A cursor finds out in two ways:
//!
//! - While it takes data for hot, it times one read in four. A slow read means that data is cold.
//! - While it takes data for cold, reads tell nothing, because their blocks were asked for. So it times the asking.
//!   That returns at once where nothing has to be fetched, and then data is hot again.
//!
//! The next cursor begins with what the last one has found.

use slmdb_table::Place;

/// A read that takes longer than this came from the disk. The time grows with the block's pages. A read from memory
/// takes 2 microseconds, and one from the quickest disks 50.
const SLOW_READ_NS: u64 = 15_000;
const SLOW_PAGE_NS: u64 = 500;
/// While data is hot, one read in this many is timed, so that reading the clock costs next to nothing.
const READS_PER_LOOK: u32 = 4;
/// Asking for what is in memory takes less than this for each call and each page. Measured: 250 and 40 ns. A call that
/// begins a read takes 4,400 ns.
const QUICK_CALL_NS: u64 = 1_000;
const QUICK_PAGE_NS: u64 = 100;
const PAGE_BYTES: u64 = 4096;
/// Data is hot after this many entries in a row that were in memory.
const QUICK_ENTRIES_HOT: usize = 32;

/// Whether what a cursor reads comes from the disk.
#[derive(Debug, Default)]
pub struct Temperature {
    is_cold: bool,
    /// Reads that could have been timed.
    reads: u32,
    /// How many entries in a row were in memory when they were asked for.
    quick_entries: usize,
    /// What was asked for last, and before that.
    asked: [Vec<FileSpan>; 2],
}

/// Part of a file, in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSpan {
    /// The file's number.
    pub file: u32,
    /// Its first byte.
    pub from: u64,
    /// The first byte behind it.
    pub to: u64,
}

impl Temperature {
    /// As the last cursor has found it.
    pub fn new(is_cold: bool) -> Temperature {
        Temperature { is_cold, ..Temperature::default() }
    }

    /// Whether data is cold.
    #[inline]
    pub fn is_cold(&self) -> bool {
        self.is_cold
    }

    /// How many of the next `ahead_bytes` of this file may be read at once. While data is cold, that is what was asked
    /// for: the disk would have to be waited for with the rest.
    pub fn limit_bytes(&self, file: u32, place: Place, ahead_bytes: usize) -> usize {
        if !self.is_cold {
            return ahead_bytes;
        }
        let offset = u64::from(place.offset);
        let has_it = |span: &&FileSpan| span.file == file && (span.from..span.to).contains(&offset);
        let to = self.asked.iter().flatten().find(has_it).map_or(0, |span| span.to);
        ahead_bytes.min(to.saturating_sub(offset) as usize)
    }

    /// Whether the next read should be timed.
    pub fn is_read_to_be_timed(&self) -> bool {
        !self.is_cold && self.reads.is_multiple_of(READS_PER_LOOK)
    }

    /// Records that the block at `place` was read, and how long that took if it was timed.
    pub fn record_read(&mut self, place: Place, took_ns: Option<u64>) {
        self.reads = self.reads.wrapping_add(1);
        let slow_ns = SLOW_READ_NS + u64::from(place.length) / PAGE_BYTES * SLOW_PAGE_NS;
        if took_ns.is_some_and(|ns| ns > slow_ns) {
            (self.is_cold, self.quick_entries) = (true, 0);
        }
    }

    /// An empty list for the spans that are asked for now. The list before the last is forgotten.
    pub fn begin_asking(&mut self) -> &mut Vec<FileSpan> {
        self.asked.swap(0, 1);
        self.asked[0].clear();
        &mut self.asked[0]
    }

    /// Records how long it took to ask for the spans of the last list, and for how many entries they were.
    pub fn record_asking(&mut self, entries: usize, took_ns: u64) {
        let spans = &self.asked[0];
        let pages: u64 = spans.iter().map(|span| (span.to - span.from) / PAGE_BYTES).sum();
        let quick_ns = spans.len() as u64 * QUICK_CALL_NS + pages * QUICK_PAGE_NS;
        let is_quick = spans.is_empty() || took_ns <= quick_ns;
        self.quick_entries = if is_quick { self.quick_entries + entries } else { 0 };
        if self.quick_entries >= QUICK_ENTRIES_HOT {
            (self.is_cold, self.quick_entries) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_block_takes_its_time_from_memory_too() {
        let place = |length| Place { offset: 0, length };
        let is_cold_after = |length, took_ns| {
            let mut temperature = Temperature::new(false);
            temperature.record_read(place(length), Some(took_ns));
            temperature.is_cold()
        };
        assert!(!is_cold_after(4000, 14_000) && is_cold_after(4000, 50_000));
        assert!(!is_cold_after(1 << 20, 140_000) && is_cold_after(1 << 20, 500_000));
    }
}
