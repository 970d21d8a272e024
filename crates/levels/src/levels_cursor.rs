//! [`LevelsCursor`]: all levels as they are seen at a moment.

use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_table::{EntryKind, Slice};

use crate::depth::LEVELS_MAX;
use crate::level_cursor::LevelCursor;
use crate::run::{Run, RunCursor};
use crate::version::Version;

/// Where the sources are that do not have the current entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heading {
    /// Behind the current key, or on it.
    Forward,
    /// Before the current key, or on it.
    Backward,
}

/// Which of the other sources comes next in the direction of the last move.
#[derive(Clone, Copy)]
enum Next {
    /// None of them is on an entry.
    None,
    /// This one, and all of them are beyond the current key.
    Source(usize),
    /// One of them may be on the current key.
    Unknown,
}

/// A position in the levels of a version. Of each key it sees the newest version at or below its moment.
///
/// A delete is an entry here: who merges the levels with what is above them has to know of it. What is above has newer
/// versions, and is to be preferred.
///
/// It has its version until it [turns](LevelsCursor::turn_to) to another. After an error it is on no entry.
pub struct LevelsCursor<R: Run> {
    version: Arc<Version<R>>,
    moment: u64,
    /// The runs of level 0, newest first; then the other levels.
    sources: Vec<LevelCursor<R>>,
    heading: Heading,
    /// Which source has the current entry.
    current: Option<usize>,
    next: Next,
    /// The key that is left behind.
    passed: Vec<u8>,
}

impl<R: Run> LevelsCursor<R> {
    /// On no entry. It opens no run yet.
    pub fn new(version: Arc<Version<R>>, moment: u64) -> LevelsCursor<R> {
        let sources = sources_of(&version, moment);
        let (heading, passed) = (Heading::Forward, Vec::new());
        LevelsCursor { version, moment, sources, heading, current: None, next: Next::Unknown, passed }
    }

    /// Lets go of what it has read, and is on no entry. Returns how many blocks that may be.
    pub fn let_go(&mut self) -> usize {
        self.current = None;
        std::mem::take(&mut self.sources).len()
    }

    /// The version that it reads.
    pub fn version(&self) -> &Arc<Version<R>> {
        &self.version
    }

    /// The moment that it sees.
    pub fn moment(&self) -> u64 {
        self.moment
    }

    /// Goes on in another version, at the same key. If that is not there any more, it moves on to the next in the
    /// direction in which it moved last. (A delete may go meanwhile, if nothing is below it.)
    pub fn turn_to(&mut self, version: Arc<Version<R>>) -> Result<()> {
        let was_valid = self.remember_key();
        self.sources = sources_of(&version, self.moment);
        (self.version, self.current) = (version, None);
        if !was_valid {
            return Ok(());
        }
        let (key, heading) = (std::mem::take(&mut self.passed), self.heading);
        let moved = self.seek(&key).and_then(|()| match heading {
            Heading::Backward if !self.valid() || self.key() != key => self.seek_before(&key),
            _ => Ok(()),
        });
        self.passed = key;
        moved
    }

    /// Moves to the first entry with a key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(Heading::Forward, |source| source.seek(key))
    }

    /// Moves to the last entry with a key before `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(Heading::Backward, |source| source.seek_before(key))
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        self.go(Heading::Forward, LevelCursor::seek_first)
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        self.go(Heading::Backward, LevelCursor::seek_last)
    }

    /// Moves to the next entry in key order. REQUIRES: valid; otherwise nothing happens.
    #[allow(clippy::should_implement_trait)] // a cursor's step, not an iterator's
    pub fn next(&mut self) -> Result<()> {
        if self.heading == Heading::Forward && self.moves_alone() {
            return self.move_alone(LevelCursor::next);
        }
        if !self.remember_key() {
            return Ok(());
        }
        let (passed, heading) = (std::mem::take(&mut self.passed), self.heading);
        let moved = self.go(Heading::Forward, |source| {
            if heading == Heading::Backward {
                source.seek(&passed)?;
            }
            if source.entry().is_some_and(|entry| entry.key() == passed) { source.next() } else { Ok(()) }
        });
        self.passed = passed;
        moved
    }

    /// Moves to the previous entry in key order. REQUIRES: valid; otherwise nothing happens.
    pub fn prev(&mut self) -> Result<()> {
        if self.heading == Heading::Backward && self.moves_alone() {
            return self.move_alone(LevelCursor::prev);
        }
        if !self.remember_key() {
            return Ok(());
        }
        let (passed, heading) = (std::mem::take(&mut self.passed), self.heading);
        let moved = self.go(Heading::Backward, |source| {
            if heading == Heading::Forward {
                return source.seek_before(&passed);
            }
            if source.entry().is_some_and(|entry| entry.key() == passed) { source.prev() } else { Ok(()) }
        });
        self.passed = passed;
        moved
    }

    /// Whether it is on an entry.
    pub fn valid(&self) -> bool {
        self.current.is_some()
    }

    /// The current key. Empty without an entry.
    pub fn key(&self) -> &[u8] {
        self.entry().map_or(&[], R::Cursor::key)
    }

    /// The current entry's sequence number. 0 without an entry.
    pub fn sequence(&self) -> u64 {
        self.entry().map_or(0, R::Cursor::sequence)
    }

    /// Whether the current entry is a put or a delete. `None` without an entry.
    pub fn kind(&self) -> Option<EntryKind> {
        self.entry().map(R::Cursor::kind)
    }

    /// The run that has the current entry.
    pub fn run(&self) -> Option<&Arc<R>> {
        self.sources.get(self.current?)?.run()
    }

    /// The current value, lent until the cursor moves; empty for a delete. [`Error::Invalid`] without an entry.
    pub fn value_ref(&mut self) -> Result<&[u8]> {
        self.entry_mut()?.value_ref()
    }

    /// The same, shared.
    pub fn value(&mut self) -> Result<Slice> {
        self.entry_mut()?.value()
    }

    fn entry(&self) -> Option<&R::Cursor> {
        self.sources.get(self.current?)?.entry()
    }

    fn entry_mut(&mut self) -> Result<&mut R::Cursor> {
        let source = self.current.and_then(|current| self.sources.get_mut(current));
        let entry = source.and_then(LevelCursor::entry_mut);
        entry.ok_or_else(|| Error::Invalid { what: "the cursor is on no entry".to_string() })
    }

    /// Copies the current key, if there is one.
    fn remember_key(&mut self) -> bool {
        let mut passed = std::mem::take(&mut self.passed);
        passed.clear();
        passed.extend_from_slice(self.key());
        self.passed = passed;
        self.valid()
    }

    /// Moves all sources, and finds the one that has the entry.
    fn go(&mut self, heading: Heading, mut how: impl FnMut(&mut LevelCursor<R>) -> Result<()>) -> Result<()> {
        (self.heading, self.current) = (heading, None);
        self.sources.iter_mut().try_for_each(&mut how)?;
        self.choose();
        Ok(())
    }

    /// Whether no other source is on the current key.
    #[inline]
    fn moves_alone(&self) -> bool {
        self.current.is_some() && !matches!(self.next, Next::Unknown)
    }

    /// Moves the source that has the current entry. As long as it is before all others, nobody looks at those.
    #[inline]
    fn move_alone(&mut self, how: impl FnOnce(&mut LevelCursor<R>) -> Result<()>) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        how(&mut self.sources[current])?;
        let stays = match (self.sources[current].entry(), self.next) {
            (None, _) | (_, Next::Unknown) => false,
            (Some(_), Next::None) => true,
            (Some(entry), Next::Source(next)) => {
                self.sources[next].entry().is_some_and(|next| self.is_before(entry.key(), next.key()))
            }
        };
        if stays {
            self.current = Some(current);
        } else {
            self.choose();
        }
        Ok(())
    }

    /// Whether a key comes before another in the direction.
    #[inline]
    fn is_before(&self, key: &[u8], other: &[u8]) -> bool {
        let order = self.version.order().compare(key, other);
        if self.heading == Heading::Forward { order.is_lt() } else { order.is_gt() }
    }

    /// Finds the source with the first key in the direction, of several the one with the newest version; and the one that
    /// comes next.
    fn choose(&mut self) {
        let mut nearest: Option<(usize, &R::Cursor)> = None;
        let mut next: Option<(usize, &R::Cursor)> = None;
        for (position, source) in self.sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let is_nearer = |than: &Option<(usize, &R::Cursor)>| {
                than.is_none_or(|(_, best)| {
                    let is_newer = entry.key() == best.key() && entry.sequence() > best.sequence();
                    is_newer || self.is_before(entry.key(), best.key())
                })
            };
            if is_nearer(&nearest) {
                (next, nearest) = (nearest, Some((position, entry)));
            } else if is_nearer(&next) {
                next = Some((position, entry));
            }
        }
        let next = match (nearest, next) {
            (_, None) => Next::None,
            (Some((_, nearest)), Some((position, next))) if self.is_before(nearest.key(), next.key()) => {
                Next::Source(position)
            }
            (_, Some(_)) => Next::Unknown,
        };
        (self.current, self.next) = (nearest.map(|(position, _)| position), next);
    }
}

/// The sources of a version, newer ones first.
fn sources_of<R: Run>(version: &Arc<Version<R>>, moment: u64) -> Vec<LevelCursor<R>> {
    let of_level_0 = (0..version.level(0).len()).map(|run| (0, run..run + 1));
    let levels = (1..LEVELS_MAX as u8).map(|level| (level, 0..version.level(level).len()));
    let sources = of_level_0.chain(levels).filter(|(_, runs)| !runs.is_empty());
    sources.map(|(level, runs)| LevelCursor::new(version.clone(), level, runs, moment)).collect()
}
