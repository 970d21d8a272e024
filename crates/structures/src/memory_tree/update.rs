//! The one write: keys in ascending order, each of which the caller is asked about.
//!
//! A change goes down to the leaves, and comes back with what becomes of each node: nothing, or new nodes in its place. One new
//! node is published by one store into its parent's word. If there are several, or none, the parent is made anew likewise, up to the root
//! word. So readers find each leaf as it was or as it will be, and whatever they find is whole.

use slmdb_env::{Error, Result};

use super::build::build;
use super::keys::{Keys, cuts};
use super::node::{Node, Reference};
use super::place::Found;
use super::tree::{LEVELS_MAX, MAXIMUM_KEY_BYTES, MemoryTree, Settings, Writer};

/// So many keys are changed before what was replaced may come back.
const KEYS_OF_TURN: usize = 2048;
/// So many leaves are asked for ahead.
const LEAVES_AHEAD: usize = 3;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Keep,
    /// The index has this of the key.
    Put(Found),
    /// The index does not have the key any more.
    Remove,
}

/// A node in the place of another, or of a part of it.
#[derive(Debug, Clone)]
pub(super) struct Child {
    /// Where it begins; the first one of several begins where the old one did, and has none.
    pub separator: Vec<u8>,
    pub node: Reference,
    /// Whether it has just been made, and has so little that it should be merged.
    pub is_sparse: bool,
}

impl MemoryTree {
    /// The one write. `decide` is asked for each key, in order, with what the index has of it, and says what becomes of it. Once that can be
    /// seen, `changed` is told, with what the key had before (in order within what is published at once).
    ///
    /// If `decide` fails, or memory lacks ([may be tried again](Error::may_be_tried_again)), each key has changed and `changed` was told,
    /// or nothing has happened to it, whatever `decide` said. The same keys can then be given again: `decide` finds those that have
    /// changed as they are now. [`Error::Invalid`] if the keys don't ascend, or one is longer than [`MAXIMUM_KEY_BYTES`].
    ///
    /// REQUIRES: this thread has no guard, since the writer may wait for readers; the closures don't change the tree.
    pub fn update_sorted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut decide: impl FnMut(usize, Option<Found>) -> Result<Decision>,
        mut changed: impl FnMut(usize, Option<Found>),
    ) -> Result<()> {
        if keys.iter().any(|key| key.as_ref().len() > MAXIMUM_KEY_BYTES) {
            return Err(Error::invalid(format!("a key of more than {MAXIMUM_KEY_BYTES} bytes")));
        }
        if !keys.is_sorted_by(|one, next| one.as_ref() < next.as_ref()) {
            return Err(Error::invalid("the keys of a change don't ascend"));
        }
        let mut writer = self.writer.lock();
        for from in (0..keys.len()).step_by(KEYS_OF_TURN) {
            let to = keys.len().min(from + KEYS_OF_TURN);
            let mut update = Update {
                settings: &self.settings,
                keys,
                writer: &mut writer,
                decide: &mut decide,
                changed: &mut changed,
            };
            let done = update.change_root(self, from, to);
            let Writer { slab, pending, .. } = &mut *writer;
            pending.give_up(slab);
            writer.end_turn(&self.settings);
            self.note_memory(&writer);
            done?;
        }
        // If memory lacks for that, nothing of the change is missing.
        let tidied = self.tidy(&mut writer);
        let Writer { slab, pending, .. } = &mut *writer;
        pending.give_up(slab);
        self.note_memory(&writer);
        match tidied {
            Err(error) if !error.is_passing_lack() => Err(error),
            _ => Ok(()),
        }
    }
}

/// A change under way.
pub(super) struct Update<'a, K, D, C> {
    pub settings: &'a Settings,
    pub keys: &'a [K],
    pub writer: &'a mut Writer,
    pub decide: &'a mut D,
    pub changed: &'a mut C,
}

impl<K, D, C> Update<'_, K, D, C>
where
    K: AsRef<[u8]>,
    D: FnMut(usize, Option<Found>) -> Result<Decision>,
    C: FnMut(usize, Option<Found>),
{
    fn change_root(&mut self, tree: &MemoryTree, from: usize, to: usize) -> Result<()> {
        let mark = self.writer.pending.mark();
        let root = tree.writers_root();
        let Some(mut new) = self.change(root.1, from, to, true)? else { return Ok(()) };
        self.writer.pending.unlink(root.0);
        if new.is_empty() {
            new.push(self.child(Vec::new(), 0, &Keys::default(), &[])?);
        }
        let root = self.writer.raise(self.settings, new)?;
        tree.store_root(root);
        self.publish(mark);
        Ok(())
    }

    pub(super) fn publish(&mut self, mark: super::pending::Mark) {
        let Writer { pending, garbage, .. } = &mut *self.writer;
        pending.publish(mark, garbage, self.changed);
    }

    fn child(&mut self, separator: Vec<u8>, level: u8, keys: &Keys, values: &[u64]) -> Result<Child> {
        self.writer.child(self.settings, separator, level, keys, 0..keys.len(), values)
    }

    /// Applies keys `from..to` to a node. `None`: it stays. `is_last`: nothing is to the right of it.
    fn change(&mut self, node: Node<'_>, from: usize, to: usize, is_last: bool) -> Result<Option<Vec<Child>>> {
        match node.level() {
            0 => self.change_leaf(node, from, to, is_last),
            _ => self.change_inner(node, from, to, is_last),
        }
    }

    fn change_inner(&mut self, node: Node<'_>, from: usize, to: usize, is_last: bool) -> Result<Option<Vec<Child>>> {
        // Which children have keys, and the first key of each.
        let mut groups: Vec<(usize, usize)> = Vec::with_capacity((to - from).min(node.values()));
        for index in from..to {
            let child = node.child_of(self.keys[index].as_ref());
            if groups.last().is_none_or(|&(last, _)| last != child) {
                groups.push((child, index));
            }
        }
        let ahead = |group: usize| {
            if let Some(&(child, _)) = groups.get(group).filter(|_| node.level() == 1) {
                node.reference(child).prefetch();
            }
        };
        (0..LEAVES_AHEAD).for_each(ahead);
        let mut changed: Vec<(usize, Vec<Child>)> = Vec::new();
        for (group, &(child, begin)) in groups.iter().enumerate() {
            ahead(group + LEAVES_AHEAD);
            let end = groups.get(group + 1).map_or(to, |&(_, next)| next);
            let mark = self.writer.pending.mark();
            let is_last_child = is_last && child + 1 == node.values();
            let old = node.reference(child);
            let Some(new) = self.change(node.child(child), begin, end, is_last_child)? else { continue };
            self.writer.pending.unlink(old);
            match &new[..] {
                [only] if !only.is_sparse || !self.can_merge(node, child, only.node) => {
                    node.store(child, only.node.0);
                    self.publish(mark);
                }
                _ => changed.push((child, new)),
            }
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let children = self.merge_sparse(node.level() - 1, children_with(node, changed))?;
        let is_full = is_last && children.last().is_some_and(|last| self.keys[from].as_ref() >= &last.separator[..]);
        Ok(Some(self.writer.inner(self.settings, node.level(), children, is_full)?))
    }
}

/// The children of a node, some of which are replaced.
fn children_with(node: Node<'_>, changed: Vec<(usize, Vec<Child>)>) -> Vec<Child> {
    let mut children = Vec::with_capacity(node.values() + 2 * changed.len());
    let mut changed = changed.into_iter().peekable();
    for index in 0..node.values() {
        let separator = if index > 0 { node.key(index - 1) } else { Vec::new() };
        match changed.next_if(|(child, _)| *child == index) {
            None => children.push(Child { separator, node: node.reference(index), is_sparse: false }),
            Some((_, mut new)) => {
                if let Some(first) = new.first_mut() {
                    first.separator = separator;
                }
                children.append(&mut new);
            }
        }
    }
    children
}

impl MemoryTree {
    /// The root, for the writer's turn.
    pub(super) fn writers_root<'w>(&self) -> (Reference, Node<'w>) {
        let root = Reference(self.root.load(std::sync::atomic::Ordering::Relaxed));
        // SAFETY: only a writer frees nodes, after all that he does with them in a turn; this thread, or one before it under the writer's
        // lock, has made it.
        (root, unsafe { root.node() })
    }
}

impl Writer {
    /// Builds a node that nothing leads to yet.
    pub fn child(
        &mut self,
        settings: &Settings,
        separator: Vec<u8>,
        level: u8,
        keys: &Keys,
        range: std::ops::Range<usize>,
        values: &[u64],
    ) -> Result<Child> {
        let node = build(&mut self.slab, level, keys, range, values)?;
        Ok(Child { separator, is_sparse: is_sparse(settings, node), node: self.pending.make(node) })
    }

    /// Inner nodes over these children. `is_full`: as full as may be, since what comes next comes behind.
    pub fn inner(&mut self, settings: &Settings, level: u8, children: Vec<Child>, is_full: bool) -> Result<Vec<Child>> {
        if children.is_empty() {
            return Ok(children);
        }
        let ends = cuts(children.len(), settings.limits(level), is_full, |child| children[child].separator.len() + 14);
        let (mut new, mut begin) = (Vec::with_capacity(ends.len()), 0);
        let (mut keys, mut values) = (Keys::default(), Vec::new());
        for end in ends {
            keys.clear();
            children[begin + 1..end].iter().for_each(|child| keys.push_key(&child.separator));
            values.clear();
            values.extend(children[begin..end].iter().map(|child| child.node.0));
            let separator = children[begin].separator.clone();
            new.push(self.child(settings, separator, level, &keys, 0..keys.len(), &values)?);
            begin = end;
        }
        Ok(new)
    }

    /// Builds levels over some nodes until there is one, the root; or takes away levels that are one node wide.
    pub fn raise(&mut self, settings: &Settings, mut nodes: Vec<Child>) -> Result<Reference> {
        // SAFETY: these nodes were made in this turn, or are linked.
        let node_of = |nodes: &[Child]| unsafe { nodes[0].node.node() };
        while nodes.len() > 1 {
            let level = node_of(&nodes).level() + 1;
            if usize::from(level) >= LEVELS_MAX {
                return Err(Error::invalid("the index is too high"));
            }
            nodes = self.inner(settings, level, nodes, true)?;
        }
        let mut root = nodes[0].node;
        let mut node: Node<'_> = node_of(&nodes);
        while node.level() > 0 && node.values() == 1 {
            self.pending.unlink(root);
            (root, node) = (node.reference(0), node.child(0));
        }
        Ok(root)
    }
}

/// Whether a node has less than a quarter of what it could have.
pub(super) fn is_sparse(settings: &Settings, node: Node<'_>) -> bool {
    let limits = settings.limits(node.level());
    node.values() * 4 < limits.count_max && node.bytes() * 4 < limits.bytes_max
}
