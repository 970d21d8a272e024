//! [`MomentCursor`]: a run as it is seen at a moment, at most one version of each key.
//!
//! All its walks go through a run's entries one by one. So they end, also under a comparator that is no total order.

use slmdb_env::Result;

use crate::run::RunCursor;

/// A position in a run, on the newest version of a key that a moment covers. Deletes are versions, too.
pub(crate) struct MomentCursor<C> {
    cursor: C,
    moment: u64,
    /// The key that is left behind.
    passed: Vec<u8>,
}

impl<C: RunCursor> MomentCursor<C> {
    /// On no entry.
    pub(crate) fn new(cursor: C, moment: u64) -> MomentCursor<C> {
        MomentCursor { cursor, moment, passed: Vec::new() }
    }

    pub(crate) fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The run's own, for its entry.
    pub(crate) fn entry(&self) -> &C {
        &self.cursor
    }

    /// The same, to read its value.
    pub(crate) fn entry_mut(&mut self) -> &mut C {
        &mut self.cursor
    }

    /// Moves to the first visible key at or after `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        self.settle_forward()
    }

    /// Moves to the last visible key before `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek_before(key)?;
        self.settle_backward()
    }

    /// Moves to the first visible key.
    pub(crate) fn seek_first(&mut self) -> Result<()> {
        self.cursor.seek_first()?;
        self.settle_forward()
    }

    /// Moves to the last visible key.
    pub(crate) fn seek_last(&mut self) -> Result<()> {
        self.cursor.seek_last()?;
        self.settle_backward()
    }

    /// Moves to the next visible key. REQUIRES: valid.
    pub(crate) fn next(&mut self) -> Result<()> {
        self.remember_key();
        while self.is_on_passed() {
            self.cursor.next()?;
        }
        self.settle_forward()
    }

    /// Moves to the previous visible key. REQUIRES: valid.
    pub(crate) fn prev(&mut self) -> Result<()> {
        self.remember_key();
        self.leave_passed_backward()?;
        self.settle_backward()
    }

    fn remember_key(&mut self) {
        self.passed.clear();
        self.passed.extend_from_slice(self.cursor.key());
    }

    fn is_on_passed(&self) -> bool {
        self.cursor.valid() && self.cursor.key() == self.passed
    }

    fn leave_passed_backward(&mut self) -> Result<()> {
        while self.is_on_passed() {
            self.cursor.prev()?;
        }
        Ok(())
    }

    /// Moves on to the first visible version. Versions of a key come newest first, so that is its newest one.
    fn settle_forward(&mut self) -> Result<()> {
        while self.cursor.valid() && self.cursor.sequence() > self.moment {
            self.cursor.next()?;
        }
        Ok(())
    }

    /// Moves from the oldest version of a key to its newest visible one, or to that of an earlier key.
    fn settle_backward(&mut self) -> Result<()> {
        while self.cursor.valid() {
            self.remember_key();
            if self.cursor.sequence() <= self.moment {
                return self.rise_to_newest();
            }
            self.leave_passed_backward()?;
        }
        Ok(())
    }

    /// Moves from a visible version to the newest visible one of its key. Only the version before it shows which that
    /// is.
    fn rise_to_newest(&mut self) -> Result<()> {
        while self.is_on_passed() && self.cursor.sequence() <= self.moment {
            self.cursor.prev()?;
        }
        if self.cursor.valid() { self.cursor.next() } else { self.cursor.seek_first() }
    }
}
