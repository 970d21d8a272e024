//! [`StoreCursor`]: the whole store in key order, forwards and backwards, as it was at one moment.
//!
//! A cursor merges the MemTables of its moment with the [cursor](TierCursor) of the tier below them. It keeps the
//! MemTables alive; the tier moves on, and its cursor knows how to see the moment all the same. Every source gives at
//! most one version of a key, the newest that the moment covers. Among sources the highest sequence number wins, and a
//! delete hides the key. A value is read only when it is asked for.
//!
//! The store takes a cursor's moment in two steps ([`super::shared`]): it registers what is published, and takes the
//! list of MemTables. If the list has changed meanwhile, it starts over (INV-11). So everything up to its moment is in
//! its list, or was in the tier before it registered. A cursor of a snapshot takes over the snapshot's moment, and the
//! present list. That is enough, because flushes keep what a snapshot sees.
//!
//! A cursor keeps alive the MemTables of its list and no later ones. So it costs what was in memory when it was made,
//! and flushes write nothing for it.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::{CycleDetector, Direction, EntryKind};

use super::parts::Parts;
use crate::read::empty_ranges::PassedDeletes;
use crate::read::memtable_iterator::MemTableSource;
use crate::read::snapshot_registry::SnapshotKind;
use crate::write::memtables::MemTableView;
use crate::{EngineCursor, Slice};

/// A place that a cursor moves to, and the direction in which it goes on from there.
#[derive(Debug, Clone, Copy)]
pub enum SeekTo<'k> {
    /// The smallest key, forwards.
    First,
    /// The largest key, backwards.
    Last,
    /// The first key at or after this one, forwards.
    At(&'k [u8]),
    /// The last key before this one, backwards.
    Before(&'k [u8]),
}

impl SeekTo<'_> {
    /// The direction in which a cursor goes on.
    pub fn direction(&self) -> Direction {
        match self {
            SeekTo::First | SeekTo::At(_) => Direction::Forward,
            SeekTo::Last | SeekTo::Before(_) => Direction::Backward,
        }
    }
}

/// The newest versions that a moment sees in a tier, in key order, deletes included. Its moment is registered until
/// [`TierCursor::let_go`] has been called.
pub trait TierCursor: Send {
    /// A range begins: a caller moves to a place or turns round. The last one has ended.
    fn begin_range(&mut self);
    /// Moves to a place. After an error it is on no key.
    fn seek(&mut self, to: SeekTo<'_>) -> Result<()>;
    /// Moves to the next key in the direction of the last [`TierCursor::seek`]. REQUIRES: it is on a key.
    fn advance(&mut self) -> Result<()>;
    /// The same, if the next version is known and is no delete; else `false`, and nothing has changed. REQUIRES: it is on a key.
    #[inline]
    fn advance_to_known(&mut self) -> bool {
        false
    }

    /// The key that it is on.
    fn key(&self) -> Option<&[u8]>;
    /// The sequence number and the kind of its version. REQUIRES: it is on a key.
    fn version(&self) -> (u64, EntryKind);
    /// The value of that version. REQUIRES: it is on a put.
    fn value(&mut self) -> Result<Slice>;
    /// The same, lent until the cursor moves.
    fn value_ref(&mut self) -> Result<&[u8]>;

    /// A value with this sequence number was read from a MemTable.
    #[inline]
    fn note_memtable_value(&mut self, _sequence: u64) {}
    /// The error to report when it is on a key that does not come after the one before.
    fn out_of_order(&self) -> Error;
    /// Frees what it keeps, before the registration of its moment ends. Returns how many bytes that was, if the allocator should
    /// give them back.
    fn let_go(&mut self) -> u64;
}

/// Which source has the current entry.
#[derive(Debug, Clone, Copy)]
enum At {
    MemTable(usize),
    Tier,
}

/// The next key among all sources.
#[derive(Debug, Clone, Copy)]
struct Nearest {
    /// The source that has its newest version.
    at: At,
    kind: EntryKind,
    sequence: u64,
    /// The tier has the key, too.
    is_in_tier: bool,
}

const ON_NO_ENTRY: &str = "the cursor is on no entry";

/// See [`EngineCursor`].
pub struct StoreCursor<C: TierCursor> {
    store: Arc<Parts>,
    moment: u64,
    memtables: Vec<MemTableSource>,
    /// So many MemTables delete ranges, from the newest one on.
    deleting: usize,
    tier: C,
    direction: Direction,
    /// Where the current value is. `None`: the cursor is on no entry.
    at: Option<At>,
    /// The current key, or the last one. Out of date while the tier alone has entries left: see [`StoreCursor::keep_key`].
    key: Vec<u8>,
    /// Memory for the next one.
    next_key: Vec<u8>,
    /// The tier stands on that key.
    is_tier_on_key: bool,
    /// No MemTable has an entry left in this direction, and none deletes ranges. Never with a comparator, whose keys are watched one
    /// by one.
    is_tier_alone: bool,
    /// The sources have not been moved to a place since `key` was found.
    is_walking: bool,
    /// Finds out if the comparator leads the cursor round in a circle (INV-25).
    cycle_detector: CycleDetector,
}

impl<C: TierCursor> StoreCursor<C> {
    /// A cursor on no entry, at a moment that is registered for it.
    pub fn new(store: Arc<Parts>, tier: C, moment: u64, view: &MemTableView) -> StoreCursor<C> {
        let memtables: Vec<_> = view.memtables.iter().map(|memtable| MemTableSource::new(memtable, moment)).collect();
        StoreCursor {
            moment,
            deleting: memtables.iter().rposition(MemTableSource::has_deleted_ranges).map_or(0, |last| last + 1),
            memtables,
            tier,
            direction: Direction::Forward,
            at: None,
            key: Vec::new(),
            next_key: Vec::new(),
            is_tier_on_key: false,
            is_tier_alone: false,
            is_walking: false,
            cycle_detector: CycleDetector::default(),
            store,
        }
    }

    /// Moves to a place, and finds the entry there. After an error the cursor is on no entry.
    fn go(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.begin_range(to)?;
        self.settle()
    }

    /// Leaves the current entry, and moves all sources to a place.
    fn begin_range(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.at = None;
        self.direction = to.direction();
        self.cycle_detector.begin();
        self.tier.begin_range();
        self.move_sources(to)
    }

    fn move_sources(&mut self, to: SeekTo<'_>) -> Result<()> {
        self.is_walking = false;
        for memtable in &mut self.memtables {
            match to {
                SeekTo::First => memtable.seek_first(),
                SeekTo::Last => memtable.seek_last(),
                SeekTo::At(key) => memtable.seek(key),
                SeekTo::Before(key) => memtable.seek_before(key),
            }
        }
        self.tier.seek(to)
    }

    /// Stops at the next key that is not deleted, from where the sources stand.
    fn settle(&mut self) -> Result<()> {
        let is_forward = self.direction == Direction::Forward;
        let mut deletes = PassedDeletes::new(self.moment, is_forward);
        while let Some(nearest) = self.nearest() {
            self.take_key(nearest)?;
            if nearest.kind == EntryKind::Put && !self.is_in_deleted_range(nearest.at) {
                self.at = Some(nearest.at);
                break;
            }
            match deletes.pass(&self.key, &self.store.writes.empty_ranges) {
                None => self.pass_key()?,
                Some(key) if is_forward => self.move_sources(SeekTo::At(&key))?,
                Some(key) => self.move_sources(SeekTo::Before(&key))?,
            }
        }
        let writes = &self.store.writes;
        deletes.end(&writes.empty_ranges, || writes.publication.begun());
        Ok(())
    }

    /// Whether a MemTable that is newer than this source deletes a range with the current key.
    #[inline]
    fn is_in_deleted_range(&self, at: At) -> bool {
        let newer = match at {
            At::MemTable(number) => number.min(self.deleting),
            At::Tier => self.deleting,
        };
        self.memtables[..newer].iter().any(|memtable| memtable.hides(&self.key))
    }

    /// The next key among all sources, and which has its newest version.
    #[inline]
    fn nearest(&mut self) -> Option<Nearest> {
        let mut nearest = self.tier.key().map(|key| {
            let (sequence, kind) = self.tier.version();
            (key, Nearest { at: At::Tier, kind, sequence, is_in_tier: true })
        });
        let order = &self.store.context.options.comparator;
        self.is_tier_alone = order.is_bytewise() && self.deleting == 0;
        for (number, memtable) in self.memtables.iter().enumerate().filter(|(_, memtable)| memtable.valid()) {
            self.is_tier_alone = false;
            let (at, kind, sequence) = (At::MemTable(number), memtable.kind(), memtable.sequence());
            let key = memtable.key();
            let compared = nearest.map_or(Ordering::Less, |(best, _)| match self.direction {
                Direction::Forward => order.compare(key, best),
                Direction::Backward => order.compare(best, key),
            });
            // An entry that was flushed meanwhile is in the tier, too. Its value needs no file here.
            nearest = match nearest {
                Some((_, best)) if compared.is_gt() || (compared.is_eq() && best.sequence > sequence) => nearest,
                Some((_, best)) if compared.is_eq() => Some((key, Nearest { at, kind, sequence, ..best })),
                _ => Some((key, Nearest { at, kind, sequence, is_in_tier: false })),
            };
        }
        nearest.map(|(_, nearest)| nearest)
    }

    /// Makes the nearest key the current one.
    fn take_key(&mut self, nearest: Nearest) -> Result<()> {
        let key = match nearest.at {
            At::MemTable(number) => self.memtables[number].key(),
            At::Tier => self.tier.key().unwrap_or_default(),
        };
        self.next_key.clear();
        self.next_key.extend_from_slice(key);
        std::mem::swap(&mut self.key, &mut self.next_key);
        self.is_tier_on_key = nearest.is_in_tier;
        let order = &self.store.context.options.comparator;
        if !order.is_bytewise() && !self.cycle_detector.visit(&self.key) {
            let what = format!("the comparator {:?} is no total order: a cursor came back to a key", order.name());
            return Err(Error::invalid(what));
        }
        let is_beyond = || match self.direction {
            Direction::Forward => order.compare(&self.key, &self.next_key).is_gt(),
            Direction::Backward => order.compare(&self.key, &self.next_key).is_lt(),
        };
        if self.is_walking && !is_beyond() {
            return Err(match nearest.at {
                At::Tier => self.tier.out_of_order(),
                At::MemTable(_) => Error::invalid("the comparator is no total order: keys of a MemTable do not ascend"),
            });
        }
        self.is_walking = true;
        Ok(())
    }

    /// Moves every source that stands on the current key past it.
    #[inline]
    fn pass_key(&mut self) -> Result<()> {
        let key = &self.key;
        for memtable in self.memtables.iter_mut().filter(|memtable| memtable.valid() && memtable.key() == key) {
            match self.direction {
                Direction::Forward => memtable.next(),
                Direction::Backward => memtable.prev(),
            }
        }
        if self.is_tier_on_key { self.tier.advance() } else { Ok(()) }
    }

    /// Copies the current key, if the tier alone has it.
    #[inline]
    fn keep_key(&mut self) {
        if self.is_tier_alone {
            self.key.clear();
            self.key.extend_from_slice(self.tier.key().unwrap_or_default());
        }
    }

    /// Moves one entry on in a direction. It first leaves the entry, so that after an error the cursor is on none.
    #[inline]
    fn step(&mut self, direction: Direction) -> Result<()> {
        let Some(at) = self.at.take() else { return Ok(()) };
        if self.direction != direction {
            return self.turn();
        }
        if self.is_tier_alone && self.tier.advance_to_known() {
            self.at = Some(at);
            return Ok(());
        }
        self.keep_key();
        self.pass_key()?;
        self.settle()
    }

    /// Turns round at the current key, and moves one entry on.
    fn turn(&mut self) -> Result<()> {
        self.keep_key();
        let key = std::mem::take(&mut self.key);
        if self.direction == Direction::Forward {
            return self.go(SeekTo::Before(&key));
        }
        self.begin_range(SeekTo::At(&key))?;
        self.is_tier_on_key = self.tier.key() == Some(&key);
        self.key = key;
        self.pass_key()?;
        self.settle()
    }
}

impl<C: TierCursor> EngineCursor for StoreCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(SeekTo::At(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(SeekTo::Before(key))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.go(SeekTo::First)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.go(SeekTo::Last)
    }

    fn next(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        match self.at {
            None => &[],
            Some(At::MemTable(_)) => &self.key,
            Some(At::Tier) => self.tier.key().unwrap_or_default(),
        }
    }

    fn value(&mut self) -> Result<Slice> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::Tier) => self.tier.value(),
            Some(At::MemTable(number)) => {
                let memtable = &self.memtables[number];
                self.tier.note_memtable_value(memtable.sequence());
                Ok(Slice::from(memtable.value()))
            }
        }
    }

    fn value_ref(&mut self) -> Result<&[u8]> {
        match self.at {
            None => Err(Error::invalid(ON_NO_ENTRY)),
            Some(At::Tier) => self.tier.value_ref(),
            Some(At::MemTable(number)) => {
                let memtable = &self.memtables[number];
                self.tier.note_memtable_value(memtable.sequence());
                Ok(memtable.value())
            }
        }
    }
}

impl<C: TierCursor> Drop for StoreCursor<C> {
    /// The MemTables go before the registration: then their arenas can go.
    fn drop(&mut self) {
        let freed_bytes = self.tier.let_go();
        self.memtables.clear();
        self.store.release(self.moment, SnapshotKind::Cursor, freed_bytes);
    }
}
