//! Updates of one key.
//!
//! An update finds the leaf, locks it, shows the caller what the tree has for the key and does what the caller then says.
//! That one operation is all writes there are: upserts, compare-and-swap, removals. A caller decides exactly once for each
//! key, because deciding has side effects: it notes the replaced file in the key record and moves live counts. So whatever
//! could fail or need another lock comes first: a leaf that might overflow is changed under the lock of the tree's
//! structure, with the blocks for its successors already taken.
//!
//! Changes are made in place (`change`), or by replacing the leaf if they don't fit (`replace`).

use slmdb_env::{Error, Result};
use slmdb_pmem::Medium;
use slmdb_sync::epoch::{self, Guard};

use super::build::{Fill, cuts};
use super::change::{Locked, Place};
use super::fences::{Fences, Side, Target};
use super::key_record::{KeyRecord, MAXIMUM_KEY_BYTES};
use super::node::Entry;
use super::replace::Replacement;
use super::reserve::Reserve;
use super::tree::{OUT_OF_ORDER, Structure, Tree};

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// The tree points to this key record, which is that of a put of this very key.
    Put(u64),
    /// The tree does not have the key any more.
    Remove,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: it was kept, or there was nothing to remove.
    Nothing,
    /// The key is new in the tree.
    Inserted,
    /// The key's record was replaced.
    Replaced {
        /// The offset of the record that was there before.
        old: u64,
    },
    /// The key was removed.
    Removed {
        /// The offset of the record that was there before.
        old: u64,
    },
}

/// One change of a leaf. Slots are those before any change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change {
    Swap { at: usize, pointer: u64 },
    Insert { at: usize, entry: Entry },
    Remove { at: usize },
}

impl<M: Medium> Tree<M> {
    /// The one write. `decide` sees the key's current record under the leaf's lock, and says what becomes of it. It is
    /// called once at most: not at all if the key is too long, the pool is damaged, or there is no room for what it might
    /// say ([`Error::Full`]). Its own error is passed on, and nothing is changed then. It must not use the tree.
    ///
    /// The change is durable on return, and everything that `decide` flushed is durable before.
    pub fn update(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<Applied> {
        self.update_one(key, true, decide)
    }

    /// `may_insert`: whether `decide` may answer with a put if the key is absent. If not, no room is needed.
    fn update_one(
        &self,
        key: &[u8],
        may_insert: bool,
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
    ) -> Result<Applied> {
        check_key(key)?;
        let guard = &epoch::pin();
        let (leaf, head) = self.lock_covering(Target::At(key), 0)?;
        let place = self.find(&leaf, head, key, guard)?;
        if may_insert && place.at.is_err() && place.used == self.slots() {
            drop(leaf);
            return self.update_with_room(key, decide, guard);
        }
        let change = self.decide(&leaf, place, head, key, decide, guard)?;
        let applied = applied(&leaf, change);
        apply_in_place(&leaf, place.used, change.as_slice());
        let sparse = matches!(change, Some(Change::Remove { .. })) && self.is_sparse(place.used - 1);
        drop(leaf);
        if sparse && let Some(mut structure) = self.try_settled_structure(guard) {
            self.merge_around(&mut structure, key, guard);
        }
        Ok(applied)
    }

    /// The same for a key whose leaf may overflow.
    fn update_with_room(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<Applied> {
        let mut structure = self.structure();
        let settled = self.settle(&mut structure, guard);
        let (leaf, head) = self.lock_covering(Target::At(key), 0)?;
        let place = self.find(&leaf, head, key, guard)?;
        // It may have been split by another thread meanwhile.
        let mut reserve = None;
        if place.at.is_err() && place.used == self.slots() {
            settled?;
            let (fences, entries) = (leaf.node.fences(&self.pool)?, leaf.entries().collect::<Vec<_>>());
            reserve = Some(self.reserve(&fences, &entries, &[(key, head)], 1, guard)?);
        }
        let change = self.decide(&leaf, place, head, key, decide, guard)?;
        let applied = applied(&leaf, change);
        match (change, reserve) {
            (Some(Change::Insert { .. }), Some(reserve)) => {
                self.replace_leaf(&mut structure, leaf, change.as_slice(), reserve, guard)?
            }
            _ => apply_in_place(&leaf, place.used, change.as_slice()),
        };
        Ok(applied)
    }

    /// Makes the tree point to a record of a put, whatever it has for the key now.
    pub fn insert_or_replace(&self, key: &[u8], record: u64) -> Result<Applied> {
        self.update(key, |_| Ok(Decision::Put(record)))
    }

    /// Removes a key, if it is there. Needs no room.
    pub fn remove(&self, key: &[u8]) -> Result<Applied> {
        self.update_one(key, false, |_| Ok(Decision::Remove))
    }

    /// Makes the tree point to the record `new` if it points to the record `expected` now. Says whether it did. Needs no
    /// room.
    pub fn compare_and_swap(&self, key: &[u8], expected: u64, new: u64) -> Result<bool> {
        let applied = self.update_one(key, false, |current| match current {
            Some(record) if record.offset() == expected => Ok(Decision::Put(new)),
            _ => Ok(Decision::Keep),
        })?;
        Ok(applied != Applied::Nothing)
    }

    pub(super) fn find(&self, leaf: &Locked<'_, M>, head: u64, key: &[u8], guard: &Guard) -> Result<Place> {
        leaf.find(head, |pointer| Ok(self.order.compare(self.record(pointer, guard)?.key(), key)))
    }

    /// The head of a key in a leaf that covers it.
    pub(super) fn head_in(&self, leaf: &Locked<'_, M>, fences: &Fences<'_>, key: &[u8]) -> Result<u64> {
        match fences.side(&Target::At(key), &self.order) {
            Side::Inside(head) => Ok(head),
            // The keys of a group are within the fences of its leaf.
            Side::Left | Side::Right => Err(self.damaged(leaf.node.offset, OUT_OF_ORDER)),
        }
    }

    /// Asks for a decision about one key and checks it.
    pub(super) fn decide(
        &self,
        leaf: &Locked<'_, M>,
        place: Place,
        head: u64,
        key: &[u8],
        decide: impl FnOnce(Option<KeyRecord<'_>>) -> Result<Decision>,
        guard: &Guard,
    ) -> Result<Option<Change>> {
        let current = place.at.ok().map(|at| self.record_at_hand(leaf.entry(at).pointer, guard)).transpose()?;
        match (decide(current)?, place.at) {
            (Decision::Keep, _) | (Decision::Remove, Err(_)) => Ok(None),
            (Decision::Remove, Ok(at)) => Ok(Some(Change::Remove { at })),
            (Decision::Put(record), at) => {
                if self.record_at_hand(record, guard)?.key() != key {
                    return Err(Error::invalid("the tree was told to point to the record of another key"));
                }
                Ok(Some(match at {
                    Ok(at) => Change::Swap { at, pointer: record },
                    Err(at) => Change::Insert { at, entry: Entry { head, pointer: record } },
                }))
            }
        }
    }

    /// Replaces a leaf by what it is after the changes. Gives the number of entries.
    pub(super) fn replace_leaf(
        &self,
        structure: &mut Structure,
        leaf: Locked<'_, M>,
        changes: &[Change],
        reserve: Reserve<'_, M>,
        guard: &Guard,
    ) -> Result<usize> {
        let fences = leaf.node.fences(&self.pool)?;
        let old: Vec<Entry> = leaf.entries().collect();
        let mut entries = Vec::with_capacity(old.len() + changes.len());
        let mut from = 0;
        for change in changes {
            let (&Change::Swap { at, .. } | &Change::Insert { at, .. } | &Change::Remove { at }) = change;
            entries.extend_from_slice(&old[from..at]);
            from = at;
            match *change {
                Change::Insert { entry, .. } => entries.push(entry),
                Change::Swap { at, pointer } => {
                    entries.push(Entry { head: old[at].head, pointer });
                    from += 1;
                }
                Change::Remove { .. } => from += 1,
            }
        }
        entries.extend_from_slice(&old[from..]);
        let (low, high) = (fences.low(), fences.high());
        // Keys in ascending order: full leaves stay behind.
        let mut inserts = changes.iter().filter(|change| !matches!(change, Change::Swap { .. }));
        let appended = inserts.all(|change| matches!(change, Change::Insert { at, .. } if *at == old.len()));
        let fill = if high.is_none() && appended { Fill::Brim } else { Fill::Even };
        let (count, cuts) = (entries.len(), cuts(entries.len(), self.slots(), fill));
        let (sibling, heads_behind) = (leaf.node.sibling(), Some(fences.shape.prefix.into()));
        let plan = Replacement { level: 0, low, high: high.as_deref(), sibling, entries, heads_behind, cuts };
        self.replace(structure, vec![leaf], plan, reserve, guard)?;
        Ok(count)
    }

    /// Whether a node with so many entries should be merged with a neighbour.
    pub(super) fn is_sparse(&self, used: usize) -> bool {
        used * 4 < self.slots()
    }
}

#[inline]
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAXIMUM_KEY_BYTES {
        return Err(Error::invalid(format!(
            "a key of {} bytes is too long, {MAXIMUM_KEY_BYTES} are allowed",
            key.len()
        )));
    }
    Ok(())
}

fn applied<M: Medium>(leaf: &Locked<'_, M>, change: Option<Change>) -> Applied {
    match change {
        None => Applied::Nothing,
        Some(Change::Insert { .. }) => Applied::Inserted,
        Some(Change::Swap { at, .. }) => Applied::Replaced { old: leaf.entry(at).pointer },
        Some(Change::Remove { at }) => Applied::Removed { old: leaf.entry(at).pointer },
    }
}

/// Makes changes, given in key order, one after the other. Gives the number of entries that are left.
pub(super) fn apply_in_place<M: Medium>(leaf: &Locked<'_, M>, mut used: usize, changes: &[Change]) -> usize {
    let swaps = changes.iter().filter_map(|change| match *change {
        Change::Swap { at, pointer } => Some((at, pointer)),
        _ => None,
    });
    if swaps.clone().next().is_some() {
        leaf.swap(swaps);
    }
    // From the right end, so that the slots of those to come stay what they are.
    for change in changes.iter().rev() {
        match *change {
            Change::Swap { .. } => {}
            Change::Insert { at, entry } => {
                leaf.insert(used, at, entry);
                used += 1;
            }
            Change::Remove { at } => {
                leaf.remove(used, at);
                used -= 1;
            }
        }
    }
    used
}
