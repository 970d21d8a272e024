//! Opening: the chain of leaves is walked, every record is looked at, and the directory is made.

use std::cmp::Ordering;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{ExtentKind, Medium, Pool, Slots};
use slmdb_sync::epoch::{self, Guard};

use super::damage::damaged;
use super::directory::{Directory, separator};
use super::layout::{
    CHECK_OFFSET, EPOCH_OFFSET, FIRST_OFFSET, LEAF_BYTES, MAGIC, MAGIC_OFFSET, SETTINGS_OFFSET, TREES, VALID_BITS,
    VERSION, epoch_word, fingerprint, link, parse_link,
};
use super::leaf::{Leaf, slots_of};
use super::record::{Entry, Record};
use super::tree::{Counts, HybridTree, State, check, root_of, settings};

impl<M: Medium> HybridTree<M> {
    /// Opens a tree of a pool, and marks its slots as used. Entries that `keep` does not want are taken out, durably: those of files
    /// that are gone, or that a chunk had moved on.
    ///
    /// REQUIRES: `slots` was opened with this pool, and no slot of the tree was taken since. Once both trees are open,
    /// [`Slots::return_empty`] gives back what neither has.
    ///
    /// [`Error::Corruption`] if anything is not as it must be; [`Error::Unsupported`] if the tree was made under another order.
    pub fn open(
        slots: Arc<Slots<M>>,
        number: u32,
        order: KeyOrder,
        keep: impl Fn(&Entry<'_>) -> bool,
    ) -> Result<HybridTree<M>> {
        let epoch = read_root(slots.pool(), number, &order)?;
        let state = State { directory: Directory::default(), epoch };
        let tree = HybridTree::of(slots, number, order, state, Counts::default());
        let guard = epoch::pin();
        let chain = tree.chain(epoch)?;
        let mut counts = Counts::default();
        let directory = tree.read_leaves(&chain, &keep, &mut counts, &guard)?;
        counts.set_leaves(directory.leaves());
        tree.published.store(Arc::new(State { directory, epoch }));
        tree.size.note(&counts);
        *tree.writer() = counts;
        Ok(tree)
    }

    /// The leaves in the order of the chain. No more steps than there is room for leaves.
    pub(super) fn chain(&self, epoch: u32) -> Result<Vec<Leaf<'_>>> {
        let usage = self.slots.usage(ExtentKind::Leaves);
        let leaves_max = usage.extent_bytes / LEAF_BYTES;
        let mut chain = Vec::new();
        let place = self.root() + FIRST_OFFSET;
        let mut next = parse_link(place, self.pool.load(place)?)
            .ok_or_else(|| self.damaged(place, "the link to the first leaf is damaged"))?;
        while next != 0 {
            if chain.len() as u64 >= leaves_max {
                return Err(self.damaged(next, "the chain of leaves goes round in a circle"));
            }
            let leaf = self.leaf(next, epoch)?;
            next = leaf.next(&self.pool)?;
            chain.push(leaf);
        }
        Ok(chain)
    }

    fn read_leaves(
        &self,
        chain: &[Leaf<'_>],
        keep: &impl Fn(&Entry<'_>) -> bool,
        counts: &mut Counts,
        guard: &Guard,
    ) -> Result<Directory> {
        let mut leaves: Vec<(Vec<u8>, u64)> = Vec::with_capacity(chain.len());
        let (mut records, mut last) = (Vec::new(), None::<Vec<u8>>);
        let mut place = self.root() + FIRST_OFFSET;
        let mut is_changed = false;
        for (index, leaf) in chain.iter().enumerate() {
            if let Some(ahead) = chain.get(index + 4) {
                Leaf::prefetch(&self.pool, ahead.offset, true);
            }
            if let Some(ahead) = chain.get(index + 2) {
                slots_of(ahead.commit() & VALID_BITS).for_each(|slot| self.prefetch_record(ahead.record(slot)));
            }
            let rest = self.wanted(leaf, keep, guard, &mut records)?;
            super::read::sort(&mut records, &self.order);
            self.check_order(leaf, &records, last.as_deref())?;
            if let (Some((first, _)), Some((highest, _))) = (records.first(), records.last()) {
                if rest != leaf.commit() & VALID_BITS {
                    let mut lines = 0;
                    leaf.set_valid(&self.pool, rest, &mut lines);
                    leaf.flush(&self.pool, lines);
                    is_changed = true;
                }
                let own = last.as_ref().map(|last| separator(last, first.key, &self.order));
                leaves.push((own.unwrap_or_default(), leaf.offset));
                is_changed |= self.lead(place, leaf.offset)?;
                place = leaf.next_place();
                match &mut last {
                    Some(last) => {
                        last.clear();
                        last.extend_from_slice(highest.key);
                    }
                    None => last = Some(highest.key.to_vec()),
                }
            } else {
                is_changed = true;
            }
            self.slots.mark_used(ExtentKind::Records, records.iter().map(|(record, at)| (*at, record.bytes())))?;
            records.iter().for_each(|(record, _)| counts.add(record.version.file, record.bytes()));
        }
        self.slots.mark_used(ExtentKind::Leaves, leaves.iter().map(|(_, leaf)| (*leaf, LEAF_BYTES as u32)))?;
        is_changed |= self.lead(place, 0)?;
        if is_changed {
            self.pool.fence();
        }
        Ok(Directory::new(leaves, &self.order))
    }

    /// Reads the records of a leaf that are wanted. Gives their slots.
    fn wanted<'g>(
        &'g self,
        leaf: &Leaf<'_>,
        keep: &impl Fn(&Entry<'_>) -> bool,
        guard: &'g Guard,
        records: &mut Vec<(Record<'g>, u64)>,
    ) -> Result<u64> {
        records.clear();
        let mut rest = leaf.commit() & VALID_BITS;
        for slot in slots_of(rest) {
            let offset = leaf.record(slot);
            let record = Record::intact_at(&*self.pool, offset, guard)?;
            if leaf.fingerprint(slot) != fingerprint(record.key) {
                return Err(self.damaged(leaf.offset, "a fingerprint is not its key's"));
            }
            if keep(&Entry { key: record.key, version: record.version }) {
                records.push((record, offset));
            } else {
                rest &= !(1 << slot);
            }
        }
        Ok(rest)
    }

    /// Makes a link lead to a leaf. Says whether it led elsewhere. Flushed, not fenced.
    fn lead(&self, place: u64, target: u64) -> Result<bool> {
        if self.pool.load(place)? == link(place, target) {
            return Ok(false);
        }
        self.pool.store(place, link(place, target))?;
        self.pool.flush(place, 8);
        Ok(true)
    }

    /// That the keys of a leaf ascend, and stand behind those of the leaf before.
    pub(super) fn check_order(
        &self,
        leaf: &Leaf<'_>,
        records: &[(Record<'_>, u64)],
        last: Option<&[u8]>,
    ) -> Result<()> {
        let mut before = last;
        for (record, _) in records {
            if before.is_some_and(|before| self.order.compare(before, record.key) != Ordering::Less) {
                return Err(self.damaged(leaf.offset, "the keys of the leaves are out of order, or one is there twice"));
            }
            before = Some(record.key);
        }
        Ok(())
    }
}

/// Checks a tree's root. Gives the epoch.
fn read_root<M: Medium>(pool: &Pool<M>, number: u32, order: &KeyOrder) -> Result<u32> {
    if number >= TREES {
        return Err(Error::invalid(format!("a pool has no tree {number}")));
    }
    let root = root_of(pool, number);
    let found = pool.load(root + SETTINGS_OFFSET)?;
    if pool.load(root + MAGIC_OFFSET)? != MAGIC || pool.load(root + CHECK_OFFSET)? != check(root, found) {
        return Err(damaged(pool, root, "there is no hybrid tree in the pool, or its root is damaged"));
    }
    let file = || Some(pool.path().to_path_buf());
    if found as u32 != VERSION {
        return Err(Error::Unsupported { what: format!("a hybrid tree of version {}", found as u32), file: file() });
    }
    if found != settings(order) {
        let what = format!("a tree whose keys are not in the order {:?}", order.name());
        return Err(Error::Unsupported { what, file: file() });
    }
    let place = root + EPOCH_OFFSET;
    let word = pool.load(place)?;
    if word != epoch_word(place, word as u32) {
        return Err(damaged(pool, place, "the epoch of a tree is damaged"));
    }
    Ok(word as u32)
}
