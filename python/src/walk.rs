//! [`Walk`]: a place between two entries of a range, which moves both ways.
//!
//! It reads ahead, the more the longer it goes one way, so that few of its steps have to give up the interpreter's lock.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use slmdb::{Cursor, Result, Slice};

use crate::comparator::PythonComparator;

/// The most entries that are read ahead.
const MOST_AHEAD: usize = 256;

/// No more is read ahead once keys and values take this much.
const MOST_AHEAD_BYTES: usize = 64 << 10;

/// Lower and upper bound of a range of keys.
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A way to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To larger keys.
    Forward,
    /// To smaller keys.
    Backward,
}

impl Way {
    /// The other way.
    pub fn back(self) -> Way {
        match self {
            Way::Forward => Way::Backward,
            Way::Backward => Way::Forward,
        }
    }
}

/// A place between entries.
#[derive(Clone)]
enum Place {
    First,
    Before(Slice),
    After(Slice),
    Last,
}

/// A place between two entries of a range.
pub struct Walk {
    cursor: Cursor,
    comparator: Option<Arc<PythonComparator>>,
    bounds: Bounds,
    reads_values: bool,
    place: Place,
    /// What comes next in [`Walk::way`], read ahead.
    ahead: VecDeque<(Slice, Slice)>,
    way: Way,
    /// Whether the cursor is on the entry that was read last.
    goes_on: bool,
    /// How many entries are read ahead next time.
    wanted: usize,
}

impl Walk {
    /// The place before the first entry of a range, for a way forward, or behind its last.
    pub fn new(
        cursor: Cursor,
        comparator: Option<Arc<PythonComparator>>,
        bounds: Bounds,
        reads_values: bool,
        way: Way,
    ) -> Walk {
        let place = match way {
            Way::Forward => start(&bounds),
            Way::Backward => stop(&bounds),
        };
        let ahead = VecDeque::new();
        Walk { cursor, comparator, bounds, reads_values, place, ahead, way, goes_on: false, wanted: 1 }
    }

    /// Goes to the lower bound.
    pub fn seek_start(&mut self) {
        self.place_at(start(&self.bounds));
    }

    /// Goes to the upper bound.
    pub fn seek_stop(&mut self) {
        self.place_at(stop(&self.bounds));
    }

    /// Goes to the place before the first entry whose key is at or after `key`, within the bounds.
    pub fn seek(&mut self, key: &[u8]) {
        let place = match &self.bounds {
            (Bound::Included(from), _) if self.order(key, from).is_lt() => start(&self.bounds),
            (Bound::Excluded(from), _) if self.order(key, from).is_le() => start(&self.bounds),
            (_, Bound::Included(to)) if self.order(key, to).is_gt() => stop(&self.bounds),
            (_, Bound::Excluded(to)) if self.order(key, to).is_ge() => stop(&self.bounds),
            _ => Place::Before(Slice::from(key)),
        };
        self.place_at(place);
    }

    /// One step: the entry that it passes. `None`, and no step, at the end of the range.
    pub fn step(&mut self, way: Way) -> Result<Option<(Slice, Slice)>> {
        if let Some(entry) = self.step_ahead(way) {
            return Ok(Some(entry));
        }
        self.read_ahead(way)?;
        Ok(self.step_ahead(way))
    }

    /// One step to what was read ahead already.
    pub fn step_ahead(&mut self, way: Way) -> Option<(Slice, Slice)> {
        if way != self.way {
            return None;
        }
        let entry = self.ahead.pop_front()?;
        self.place = match way {
            Way::Forward => Place::After(entry.0.clone()),
            Way::Backward => Place::Before(entry.0.clone()),
        };
        Some(entry)
    }

    fn read_ahead(&mut self, way: Way) -> Result<()> {
        if way != self.way {
            self.place_at(self.place.clone());
            self.way = way;
        }
        let mut bytes = 0;
        while self.ahead.len() < self.wanted && bytes < MOST_AHEAD_BYTES {
            match self.read_entry() {
                Ok(Some((key, value))) => {
                    bytes += key.len() + value.len();
                    self.ahead.push_back((key, value));
                }
                Ok(None) => break,
                // What was read is right. The error comes again when that has been taken.
                Err(_) if !self.ahead.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        self.wanted = (self.wanted * 2).min(MOST_AHEAD);
        Ok(())
    }

    /// The next entry of the way, on which the cursor is then. `None`: there is none in the range.
    fn read_entry(&mut self) -> Result<Option<(Slice, Slice)>> {
        let moved = self.move_cursor();
        self.goes_on = false;
        moved?;
        if !self.is_inside() {
            return Ok(None);
        }
        let value = if self.reads_values { self.cursor.value()? } else { Slice::new() };
        self.goes_on = true;
        Ok(Some((Slice::from(self.cursor.key()), value)))
    }

    /// Brings the cursor to the next entry of the way, inside the range or not.
    fn move_cursor(&mut self) -> Result<()> {
        match (self.way, self.place.clone()) {
            (Way::Forward, _) if self.goes_on => self.cursor.next(),
            (Way::Backward, _) if self.goes_on => self.cursor.prev(),
            (Way::Forward, Place::First) => self.cursor.seek_first(),
            (Way::Forward, Place::Before(key)) => self.cursor.seek(&key),
            (Way::Forward, Place::After(key)) => {
                self.cursor.seek(&key)?;
                if self.cursor.valid() && self.cursor.key() == &*key { self.cursor.next() } else { Ok(()) }
            }
            (Way::Backward, Place::Last) => self.cursor.seek_last(),
            (Way::Backward, Place::Before(key)) => self.cursor.seek_before(&key),
            (Way::Backward, Place::After(key)) => {
                self.cursor.seek(&key)?;
                if self.cursor.valid() && self.cursor.key() == &*key { Ok(()) } else { self.cursor.seek_before(&key) }
            }
            // Beyond the last entry is none, and so it is before the first.
            (Way::Forward, Place::Last) => self.cursor.seek_last().and_then(|()| self.cursor.next()),
            (Way::Backward, Place::First) => self.cursor.seek_first().and_then(|()| self.cursor.prev()),
        }
    }

    /// Whether the cursor is on an entry of the range.
    fn is_inside(&self) -> bool {
        if !self.cursor.valid() {
            return false;
        }
        let key = self.cursor.key();
        match (self.way, &self.bounds) {
            (Way::Forward, (_, Bound::Included(to))) => self.order(key, to).is_le(),
            (Way::Forward, (_, Bound::Excluded(to))) => self.order(key, to).is_lt(),
            (Way::Backward, (Bound::Included(from), _)) => self.order(key, from).is_ge(),
            (Way::Backward, (Bound::Excluded(from), _)) => self.order(key, from).is_gt(),
            (Way::Forward, (_, Bound::Unbounded)) | (Way::Backward, (Bound::Unbounded, _)) => true,
        }
    }

    fn order(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.comparator.as_ref().map_or_else(|| left.cmp(right), |comparator| comparator.order(left, right))
    }

    /// Goes somewhere, and forgets what was read ahead.
    fn place_at(&mut self, place: Place) {
        self.place = place;
        self.ahead.clear();
        self.goes_on = false;
        self.wanted = 1;
    }
}

/// The place of the lower bound.
fn start(bounds: &Bounds) -> Place {
    match &bounds.0 {
        Bound::Unbounded => Place::First,
        Bound::Included(key) => Place::Before(Slice::from(key.as_slice())),
        Bound::Excluded(key) => Place::After(Slice::from(key.as_slice())),
    }
}

/// The place of the upper bound.
fn stop(bounds: &Bounds) -> Place {
    match &bounds.1 {
        Bound::Unbounded => Place::Last,
        Bound::Included(key) => Place::After(Slice::from(key.as_slice())),
        Bound::Excluded(key) => Place::Before(Slice::from(key.as_slice())),
    }
}

/// From the one key on, and before the other.
pub fn edges<'k>(start: Option<&'k [u8]>, stop: Option<&'k [u8]>) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (start.map_or(Bound::Unbounded, Bound::Included), stop.map_or(Bound::Unbounded, Bound::Excluded))
}

/// The range of all keys with this prefix.
pub fn range_of_prefix(prefix: &[u8]) -> Bounds {
    match prefix {
        [] => (Bound::Unbounded, Bound::Unbounded),
        _ => (Bound::Included(prefix.to_vec()), end_of_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded)),
    }
}

/// A range of keys that lack this prefix, as a range of those that have it.
pub fn range_with_prefix(prefix: &[u8], (start, stop): (Bound<&[u8]>, Bound<&[u8]>)) -> Bounds {
    let (lower, upper) = range_of_prefix(prefix);
    let with_prefix = |bound: Bound<&[u8]>, unbounded| match bound.map(|key| [prefix, key].concat()) {
        Bound::Unbounded => unbounded,
        bound => bound,
    };
    (with_prefix(start, lower), with_prefix(stop, upper))
}

/// The shortest key that is larger than all keys with this prefix; `None` if there is none.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=kept].to_vec();
    end[kept] += 1;
    Some(end)
}
