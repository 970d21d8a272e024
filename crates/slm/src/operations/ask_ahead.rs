//! Asking ahead: where data is cold, a cursor asks the disk for several of its next blocks at once.
//!
//! Neighbouring keys of a store that was filled at random lie in different files. If their blocks are read one after
//! the other, each costs a whole round to the device, which could serve many in the same time. So a cursor that has
//! met [cold data](Temperature) sends a scout ahead through the index:
//!
//! 1. The scout gathers the locations of the next entries: first as many as [the last ranges](range_lengths) had, or 4.
//!    If the range goes on, it gathers the next ones, four times as many each time, up to 128.
//! 2. It sorts them by file and offset, and joins neighbours.
//! 3. It tells the system that all of them [will be read](slmdb_env::File::advise_will_read).
//!
//! The reads that follow find the blocks in memory, or on their way. They read no further than what was asked for.
//!
//! A file that is scanned in order, without others in between, is [read ahead](slmdb_engine::read::scan_buffers)
//! instead. Long pieces are best there, cold or not.

pub(crate) mod range_lengths;

use slmdb_engine::files::location::Location;
use slmdb_engine::read::temperature::{FileSpan, Temperature};
use slmdb_order::Direction;
use slmdb_table::Place;

use crate::index::index_iterator::IndexSource;
use crate::index::key_index::IndexRead;
use crate::operations::get::Reader;

/// Entries that are asked for at once: at first, if nothing is known of ranges; the growth each time; and at most. The
/// next are asked for when half of the last are used, or all of those that were expected.
const WINDOW_FIRST: usize = 4;
const WINDOW_GROWTH: usize = 4;
const WINDOW_MAX: usize = 128;
/// The most bytes of blocks that are asked for at once. With half a window left, and the gaps between blocks, about 1
/// MiB waits unread.
const ASKED_BYTES_MAX: u64 = 512 << 10;
/// Blocks with no longer gap than this between them are asked for as one.
const GAP_BYTES_MAX: u64 = 4 << 10;

/// Memory of a scout in bytes: the keys and places of an index leaf, the locations of one window, and the spans of two.
pub(crate) const SCOUT_BYTES: u64 =
    (3 << 10) + (WINDOW_MAX * (size_of::<Location>() + 2 * size_of::<FileSpan>())) as u64;

/// Goes ahead of a cursor through the index, and asks the disk for blocks.
pub(crate) struct Scout {
    source: IndexSource,
    /// The direction in which it goes.
    direction: Direction,
    /// How many entries it is ahead. These were asked for, the cursor's own included. `None`: it has not set out, or the
    /// cursor has overtaken it.
    lead: Option<usize>,
    /// It asks for more when it is no further ahead than this.
    lead_min: usize,
    window: usize,
    /// It has not asked for anything in this range.
    is_range_new: bool,
    /// The locations that are being asked for.
    locations: Vec<Location>,
}

impl Scout {
    /// A scout that sees the index as it was at this moment.
    pub(crate) fn new(moment: u64) -> Scout {
        Scout {
            source: IndexSource::new(moment, IndexRead::default()),
            direction: Direction::Forward,
            lead: None,
            lead_min: 0,
            window: 0,
            is_range_new: true,
            locations: Vec::new(),
        }
    }

    /// Follows the cursor by one entry of the index. When the cursor has overtaken it, the scout sets out anew with a
    /// short window.
    pub(crate) fn passed(&mut self) {
        self.lead = self.lead.and_then(|lead| lead.checked_sub(1));
    }

    /// The range has ended. The scout sets out anew at the next value.
    pub(crate) fn end_range(&mut self) {
        (self.lead, self.is_range_new) = (None, true);
    }

    /// Asks for the value of `key`, which the cursor is about to read, and for those behind it, if that is due.
    /// Passes over errors of the index: the cursor will meet them itself. Before it the cursor has read `values_read`
    /// values of this range. If it has turned round since, that was a range of its own, and none is of this one.
    pub(crate) fn ask(
        &mut self,
        reader: &Reader,
        key: &[u8],
        direction: Direction,
        values_read: &mut usize,
        temperature: &mut Temperature,
    ) {
        if self.lead.is_some() && self.direction != direction {
            reader.cold_ranges.record(std::mem::take(values_read));
        }
        let mut is_expected = false;
        match self.lead.filter(|_| self.direction == direction) {
            Some(lead) if lead > self.lead_min => return,
            Some(_) => self.window = (self.window * WINDOW_GROWTH).min(WINDOW_MAX),
            None => {
                let set_out = match direction {
                    Direction::Forward => self.source.seek(&reader.state.index, key),
                    Direction::Backward => self.source.seek_back(&reader.state.index, key),
                };
                if set_out.is_err() {
                    self.lead = None;
                    return;
                }
                let is_range_new = std::mem::take(&mut self.is_range_new);
                let expected = is_range_new.then(|| reader.cold_ranges.expected(WINDOW_FIRST));
                self.window = expected.unwrap_or(WINDOW_FIRST).min(WINDOW_MAX);
                is_expected = self.window > WINDOW_FIRST;
                (self.direction, self.lead) = (direction, Some(0));
            }
        }
        self.gather(reader, direction);
        let entries = self.locations.len();
        if entries == 0 {
            return;
        }
        self.lead = self.lead.map(|lead| lead + entries);
        (self.window, self.lead_min) = (entries, if is_expected { 0 } else { entries / 2 });
        self.locations.retain(|location| !reader.store.tables.is_cached(location.file, location.place));
        self.locations.sort_unstable_by_key(|location| (location.file, location.place.offset));
        let spans = temperature.begin_asking();
        join(&self.locations, spans);
        let start_ns = reader.store.context.env.monotonic_ns();
        for FileSpan { file, from, to } in spans {
            if let Ok(table) = reader.store.tables.reader(*file) {
                table.will_read(*from, *to - *from);
            }
        }
        temperature.record_asking(entries, reader.store.context.env.monotonic_ns() - start_ns);
    }

    /// Gathers the locations of the next window.
    fn gather(&mut self, reader: &Reader, direction: Direction) {
        self.locations.clear();
        let mut bytes = 0;
        while let Some(location) = self.source.location().filter(|_| self.locations.len() < self.window) {
            bytes += u64::from(location.place.length);
            if bytes > ASKED_BYTES_MAX && !self.locations.is_empty() {
                return;
            }
            self.locations.push(location);
            let stepped = match direction {
                Direction::Forward => self.source.next(&reader.state.index),
                Direction::Backward => self.source.prev(&reader.state.index),
            };
            if stepped.is_err() {
                self.lead = None;
                return;
            }
        }
    }
}

/// Joins these locations to spans. Blocks with little between them are in one.
fn join(sorted: &[Location], spans: &mut Vec<FileSpan>) {
    for location in sorted {
        let (file, from, to) = (location.file, u64::from(location.place.offset), end(location.place));
        match spans.last_mut() {
            Some(last) if last.file == file && from <= last.to + GAP_BYTES_MAX => last.to = last.to.max(to),
            _ => spans.push(FileSpan { file, from, to }),
        }
    }
}

/// Where the part of a block ends that is asked for. Of a very long block that is the beginning.
fn end(place: Place) -> u64 {
    place.end().min(u64::from(place.offset) + 2 * ASKED_BYTES_MAX)
}

#[cfg(test)]
mod tests;
