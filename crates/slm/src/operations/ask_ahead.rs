//! Asking ahead: where data is cold, a cursor asks the disk for several of its next blocks at once.
//!
//! Neighbouring keys of a store that was filled at random lie in different files. Read one after the other from the disk, each
//! block costs a whole round to the device, which could serve many at once in the same time. So a cursor that has met cold data
//! sends a scout ahead through the index: it gathers where the next entries lie, sorts that by file and offset, joins
//! neighbours, and tells the system that all of them [will be read](slmdb_env::File::advise_will_read). The reads that follow
//! find them in memory, or on their way, and go no further than what was asked for. (Where a file is gone through without others in
//! between, it is [read ahead](crate::operations::read_ahead) as ever: long pieces are best there, cold or not.) How far
//! the scout goes grows with what is used: 4 entries, then 16, then 64.
//!
//! Asking for what is in memory gains nothing and takes a system call for each block. So it is done while data is [cold](Temperature)
//! and not else. A cursor notices cold data by a read that took long. It notices that data is hot again by the asking itself,
//! which is over at once where nothing has to be fetched; the reads would not tell, since they were asked for. What the last cursor
//! has found out the next one begins with.

use slmdb_engine::files::location::Location;
use slmdb_pmem::Medium;
use slmdb_table::Place;

use crate::index::index_iterator::IndexSource;
use crate::operations::get::Reader;
use crate::operations::heading::Heading;

/// Entries that are asked for at once: at first, how much more each time, and at most. The next are asked for when half of
/// the last are used.
const WINDOW_FIRST: usize = 4;
const WINDOW_GROWTH: usize = 4;
const WINDOW_MAX: usize = 64;
/// Blocks of so many bytes are asked for at once, at most. With half a window left and what lies between blocks, about 1 MiB
/// waits unread.
const ASKED_BYTES_MAX: u64 = 512 << 10;
/// Blocks with no more than this between them are asked for as one.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// What a scout takes in memory, in bytes: the keys and places of an index leaf; where the entries of a window lie, and, of two, the
/// stretches that were asked for.
pub(crate) const SCOUT_BYTES: u64 =
    (3 << 10) + (WINDOW_MAX * (size_of::<Location>() + 2 * size_of::<Stretch>())) as u64;

/// A read that takes longer came from the disk, in nanoseconds, and so much more for each page. (From memory it takes 2
/// microseconds, from the quickest disks 50.)
const SLOW_READ_NS: u64 = 15_000;
const SLOW_PAGE_NS: u64 = 500;
/// While data is hot, one read in so many is looked at, so that looking at the clock costs next to nothing.
const READS_PER_LOOK: u32 = 4;
/// Asking for what is in memory takes less than this for each call and each page, in nanoseconds. (Measured: 250 and 40. A
/// call that begins a read takes 4,400.)
const QUICK_CALL_NS: u64 = 1_000;
const QUICK_PAGE_NS: u64 = 100;
const PAGE_BYTES: u64 = 4096;
/// After so many entries in a row that were in memory data is hot.
const QUICK_ENTRIES_HOT: usize = 32;

/// Whether what a cursor reads comes from the disk. See the module.
#[derive(Debug, Default)]
pub(crate) struct Temperature {
    is_cold: bool,
    /// Reads that could have been timed, since the cursor was made.
    reads: u32,
    /// How many entries in a row were in memory when they were asked for.
    quick_entries: usize,
    /// What was asked for last, and before that.
    asked: [Vec<Stretch>; 2],
}

/// Part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stretch {
    file: u32,
    from: u64,
    to: u64,
}

impl Temperature {
    /// As the last cursor has found it.
    pub(crate) fn new(is_cold: bool) -> Temperature {
        Temperature { is_cold, ..Temperature::default() }
    }

    pub(crate) fn is_cold(&self) -> bool {
        self.is_cold
    }

    /// How much of this file may be read at once from here on, in bytes, where it could be so much: what was asked for is
    /// there, or will be soon; for the rest the disk would have to be waited for.
    pub(crate) fn limit(&self, file: u32, place: Place, ahead_bytes: usize) -> usize {
        if !self.is_cold {
            return ahead_bytes;
        }
        let offset = u64::from(place.offset);
        let has_it = |stretch: &&Stretch| stretch.file == file && (stretch.from..stretch.to).contains(&offset);
        let to = self.asked.iter().flatten().find(has_it).map_or(0, |stretch| stretch.to);
        ahead_bytes.min(to.saturating_sub(offset) as usize)
    }

    /// Whether the next read is to be timed.
    pub(crate) fn wants_to_know(&self) -> bool {
        !self.is_cold && self.reads % READS_PER_LOOK == 0
    }

    /// The block at `place` was read, and took so long, if that was looked at.
    pub(crate) fn read(&mut self, place: Place, took_ns: Option<u64>) {
        self.reads = self.reads.wrapping_add(1);
        let slow_ns = SLOW_READ_NS + u64::from(place.length) / PAGE_BYTES * SLOW_PAGE_NS;
        if took_ns.is_some_and(|ns| ns > slow_ns) {
            (self.is_cold, self.quick_entries) = (true, 0);
        }
    }

    /// These stretches are being asked for.
    fn asking(&mut self) -> &mut Vec<Stretch> {
        self.asked.swap(0, 1);
        self.asked[0].clear();
        &mut self.asked[0]
    }

    /// That took so long; it was for so many entries.
    fn asked(&mut self, entries: usize, took_ns: u64) {
        let stretches = &self.asked[0];
        let pages: u64 = stretches.iter().map(|stretch| (stretch.to - stretch.from) / PAGE_BYTES).sum();
        let quick_ns = stretches.len() as u64 * QUICK_CALL_NS + pages * QUICK_PAGE_NS;
        let is_quick = stretches.is_empty() || took_ns <= quick_ns;
        self.quick_entries = if is_quick { self.quick_entries + entries } else { 0 };
        if self.quick_entries >= QUICK_ENTRIES_HOT {
            (self.is_cold, self.quick_entries) = (false, 0);
        }
    }
}

/// Goes ahead of a cursor through the index. See the module.
pub(crate) struct Scout {
    source: IndexSource,
    /// Which way it goes, while it is on its way.
    heading: Option<Heading>,
    /// How many entries it is ahead: these were asked for, the cursor's own included.
    lead: usize,
    window: usize,
    /// Where the entries lie that are being asked for.
    locations: Vec<Location>,
}

impl Scout {
    /// One that sees the index as it was at this moment.
    pub(crate) fn new(moment: u64) -> Scout {
        Scout { source: IndexSource::new(moment), heading: None, lead: 0, window: 0, locations: Vec::new() }
    }

    /// The cursor has gone on by an entry of the index. Where it has overtaken its scout without reading what was asked for,
    /// the scout sets out anew with a short window.
    pub(crate) fn passed(&mut self) {
        self.lead = self.lead.saturating_sub(1);
    }

    /// The cursor goes elsewhere.
    pub(crate) fn turn_back(&mut self) {
        self.lead = 0;
    }

    /// The cursor is about to read the value of `key`: asks for it and what follows, if that is due. What the index
    /// can't tell the scout, it will tell the cursor.
    pub(crate) fn ask<M: Medium + Clone>(
        &mut self,
        reader: &Reader<M>,
        key: &[u8],
        heading: Heading,
        temperature: &mut Temperature,
    ) {
        if self.lead == 0 || self.heading != Some(heading) {
            let set_out = match heading {
                Heading::Forward => self.source.seek(&reader.index, key),
                Heading::Backward => self.source.seek_back(&reader.index, key),
            };
            (self.heading, self.lead, self.window) = (set_out.is_ok().then_some(heading), 0, WINDOW_FIRST);
        } else if self.lead > self.window / 2 {
            return;
        } else {
            self.window = (self.window * WINDOW_GROWTH).min(WINDOW_MAX);
        }
        self.gather(reader, heading);
        let entries = self.locations.len();
        if entries == 0 {
            return;
        }
        (self.lead, self.window) = (self.lead + entries, entries);
        self.locations.retain(|location| !reader.tables.is_cached(location.file, location.place));
        self.locations.sort_unstable_by_key(|location| (location.file, location.place.offset));
        let stretches = temperature.asking();
        join(&self.locations, stretches);
        let start_ns = reader.context.env.monotonic_ns();
        for Stretch { file, from, to } in stretches {
            if let Ok(table) = reader.tables.reader(*file) {
                table.will_read(*from, *to - *from);
            }
        }
        temperature.asked(entries, reader.context.env.monotonic_ns() - start_ns);
    }

    /// Where the entries of the next window lie.
    fn gather<M: Medium + Clone>(&mut self, reader: &Reader<M>, heading: Heading) {
        self.locations.clear();
        let mut bytes = 0;
        while let Some(location) = self.source.location().filter(|_| self.locations.len() < self.window) {
            bytes += u64::from(location.place.length);
            if bytes > ASKED_BYTES_MAX && !self.locations.is_empty() {
                return;
            }
            self.locations.push(location);
            let stepped = match heading {
                Heading::Forward => self.source.next(&reader.index),
                Heading::Backward => self.source.prev(&reader.index),
            };
            if stepped.is_err() {
                self.heading = None;
                return;
            }
        }
    }
}

/// The stretches in which these lie. Blocks with little between them are in one.
fn join(sorted: &[Location], stretches: &mut Vec<Stretch>) {
    for location in sorted {
        let (file, from, to) = (location.file, u64::from(location.place.offset), end(location.place));
        match stretches.last_mut() {
            Some(last) if last.file == file && from <= last.to + GAP_BYTES_MAX => last.to = last.to.max(to),
            _ => stretches.push(Stretch { file, from, to }),
        }
    }
}

/// Where what is asked for of a block ends. Of one that is longer than all that may be asked for, the beginning is.
fn end(place: Place) -> u64 {
    place.end().min(u64::from(place.offset) + 2 * ASKED_BYTES_MAX)
}

#[cfg(test)]
mod tests;
