//! [`Retention`]: which versions a merge keeps.
//!
//! Of each key a merge keeps the newest version. It keeps an older one if a registered moment sees it: the moment is at
//! or above the version's number, and below the number of the next newer version.
//!
//! A delete hides what older runs have of its key. It may be dropped if nothing is left to be hidden:
//!
//! - no deeper level can have the key ([`Version::is_base`]). On level 0 older runs may have it, so none is dropped
//!   there;
//! - this merge keeps no older version of it. One pass can't know that before it has seen them. So no registered moment
//!   may be below the delete's number;
//! - its number is below a bound of the caller's. An engine that has data outside of the levels that a recovery reads
//!   again (LAB-DB's run files) gives the lowest number in it.
//!
//! A compaction that gives space back ([`crate::jobs::for_space`]) also looks keys up on other levels. It leaves out what a newer
//! version on an upper level hides, and deletes of keys that deeper levels could have and do not have.

use std::sync::Arc;

use slmdb_table::EntryKind;

use crate::around::Around;
use crate::run::Run;
use crate::version::Version;

/// What becomes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is kept.
    Kept,
    /// A newer version hides it from all.
    Superseded,
    /// It is a delete that hides nothing.
    DeleteDropped,
}

/// Which versions a merge keeps. It is told all versions in their order: by key, versions of one key newest first.
pub struct Retention<R: Run> {
    /// The registered moments, in rising order.
    moments: Vec<u64>,
    /// Only deletes with lower numbers may be dropped.
    deletes_below: u64,
    around: Around<R>,
    /// The run whose keys are looked up around it.
    looked_up: Option<u32>,
    /// The key of the last version.
    key: Vec<u8>,
    /// The number of the last version, if there was one.
    sequence: Option<u64>,
    /// Whether the last version was the first of its key.
    is_new_key: bool,
}

impl<R: Run> Retention<R> {
    /// For a merge whose outputs go to level `to`. `version` is that of the [plan](crate::Plan::version), `moments` the
    /// registered ones, in any order, as they are once all inputs are settled: a moment that is registered later must
    /// see only the newest versions (INV-13). Only deletes with numbers below `deletes_below` are dropped.
    pub fn new(version: Arc<Version<R>>, to: u8, mut moments: Vec<u64>, deletes_below: u64) -> Retention<R> {
        moments.sort_unstable();
        let around = Around::new(version, to);
        Retention {
            moments,
            deletes_below,
            around,
            looked_up: None,
            key: Vec::new(),
            sequence: None,
            is_new_key: false,
        }
    }

    /// The same for one run alone, whose keys are looked up in those around it.
    pub(crate) fn looking_up(self, run: u32) -> Retention<R> {
        Retention { looked_up: Some(run), ..self }
    }

    /// Whether the last version was the first of its key.
    #[inline]
    pub(crate) fn is_new_key(&self) -> bool {
        self.is_new_key
    }

    /// What becomes of the next version.
    #[inline]
    pub fn fate(&mut self, key: &[u8], sequence: u64, kind: EntryKind) -> Fate {
        let last = self.sequence.replace(sequence).filter(|_| self.key == key);
        self.is_new_key = last.is_none();
        if self.is_new_key {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        let newer = last.or_else(|| self.newer());
        if newer.is_some_and(|newer| !self.is_seen(sequence, newer)) {
            return Fate::Superseded;
        }
        if kind == EntryKind::Delete && self.is_droppable(sequence) {
            return Fate::DeleteDropped;
        }
        Fate::Kept
    }

    /// Whether a moment sees a version that is visible from `sequence` until `newer`.
    fn is_seen(&self, sequence: u64, newer: u64) -> bool {
        let first = self.moments.partition_point(|&moment| moment < sequence);
        self.moments.get(first).is_some_and(|&moment| moment < newer)
    }

    /// Whether a delete of the current key hides nothing.
    fn is_droppable(&mut self, sequence: u64) -> bool {
        let sees_older = self.moments.first().is_some_and(|&oldest| oldest < sequence);
        sequence < self.deletes_below && !sees_older && (self.around.is_base(&self.key) || self.hides_nothing())
    }

    /// The number of the newest version of the current key on upper levels, if it is looked up. One that can't be read hides nothing.
    fn newer(&mut self) -> Option<u64> {
        self.around.newer(self.looked_up?, &self.key).unwrap_or(None)
    }

    /// Whether the current key was looked up on deeper levels, and is not there.
    fn hides_nothing(&mut self) -> bool {
        self.looked_up.is_some_and(|run| matches!(self.around.has_older(run, &self.key), Ok(false)))
    }
}
