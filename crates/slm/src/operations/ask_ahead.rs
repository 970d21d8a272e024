//! Asking ahead: where data is cold, a cursor asks the disk for several of its next blocks at once.
//!
//! Neighbouring keys of a store that was filled at random lie in different files. Read one after the other from the disk, each
//! block costs a whole round to the device, which could serve many at once in the same time. So a cursor that has met cold data
//! sends a scout ahead through the index: it gathers where the next entries lie, sorts that by file and offset, joins
//! neighbours, and tells the system that all of them [will be read](slmdb_env::File::advise_will_read). The reads that follow
//! find them in memory, or on their way, and go no further than what was asked for. (Where a file is gone through without others in
//! between, it is [read ahead](slmdb_engine::read::scan_buffers) as ever: long pieces are best there, cold or not.) How far
//! the scout goes grows with what is used: 4 entries, then 16, then 64.
//!
//! Asking for what is in memory gains nothing and takes a system call for each block. So it is done while data is [cold](Temperature)
//! and not else. A cursor notices cold data by a read that took long. It notices that data is hot again by the asking itself,
//! which is over at once where nothing has to be fetched; the reads would not tell, since they were asked for. What the last cursor
//! has found out the next one begins with.

use slmdb_engine::files::location::Location;
use slmdb_engine::read::temperature::{FileSpan, Temperature};
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
/// spans that were asked for.
pub(crate) const SCOUT_BYTES: u64 =
    (3 << 10) + (WINDOW_MAX * (size_of::<Location>() + 2 * size_of::<FileSpan>())) as u64;

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
        let spans = temperature.begin_asking();
        join(&self.locations, spans);
        let start_ns = reader.context.env.monotonic_ns();
        for FileSpan { file, from, to } in spans {
            if let Ok(table) = reader.tables.reader(*file) {
                table.will_read(*from, *to - *from);
            }
        }
        temperature.record_asking(entries, reader.context.env.monotonic_ns() - start_ns);
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

/// The spans in which these lie. Blocks with little between them are in one.
fn join(sorted: &[Location], spans: &mut Vec<FileSpan>) {
    for location in sorted {
        let (file, from, to) = (location.file, u64::from(location.place.offset), end(location.place));
        match spans.last_mut() {
            Some(last) if last.file == file && from <= last.to + GAP_BYTES_MAX => last.to = last.to.max(to),
            _ => spans.push(FileSpan { file, from, to }),
        }
    }
}

/// Where what is asked for of a block ends. Of one that is longer than all that may be asked for, the beginning is.
fn end(place: Place) -> u64 {
    place.end().min(u64::from(place.offset) + 2 * ASKED_BYTES_MAX)
}

#[cfg(test)]
mod tests;
