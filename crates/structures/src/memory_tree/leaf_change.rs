//! What a change does to a leaf.

use slmdb_env::Result;

use super::build::{Edit, with_edits};
use super::keys::{Keys, cuts, separator};
use super::node::Node;
use super::place::Found;
use super::update::{Child, Decision, Update, is_sparse};

/// What keys of a change do to a leaf, in order.
#[derive(Default)]
struct Changes<'k> {
    /// Entries that are put in or changed.
    edits: Vec<Edit<'k>>,
    /// Slots of keys that go.
    removed: Vec<usize>,
    inserted: usize,
    inserted_bytes: usize,
    /// Whether each edit changes a place and nothing else.
    only_places: bool,
}

impl<'a, K, D, C> Update<'a, K, D, C>
where
    K: AsRef<[u8]>,
    D: FnMut(usize, Option<Found>) -> Result<Decision>,
    C: FnMut(usize, Option<Found>),
{
    /// As [`Update::change`].
    pub(super) fn change_leaf(
        &mut self,
        leaf: Node<'_>,
        from: usize,
        to: usize,
        is_last: bool,
    ) -> Result<Option<Vec<Child>>> {
        let mark = self.writer.pending.mark();
        let changes = self.decide_all(leaf, from, to)?;
        if changes.edits.is_empty() && changes.removed.is_empty() {
            return Ok(None);
        }
        if changes.only_places && changes.removed.is_empty() {
            changes.edits.iter().for_each(|edit| leaf.store(edit.at, edit.value));
            self.publish(mark);
            return Ok(None);
        }
        let count = leaf.keys() + changes.inserted - changes.removed.len();
        if changes.removed.is_empty()
            && count <= self.settings.leaf_keys
            && (changes.inserted == 0 || leaf.bytes() + changes.inserted_bytes <= self.settings.leaf_bytes)
            && let Some(node) = with_edits(&mut self.writer.slab, leaf, &changes.edits)?
        {
            let is_sparse = is_sparse(self.settings, node);
            return Ok(Some(vec![Child { separator: Vec::new(), node: self.writer.pending.make(node), is_sparse }]));
        }
        let mut keys = std::mem::take(&mut self.writer.scratch);
        changes.entries(leaf, &mut keys);
        let is_appended = is_last && changes.edits.first().is_some_and(|edit| edit.at == leaf.keys());
        let new = self.leaves(&keys, is_appended);
        self.writer.scratch = keys;
        new.map(Some)
    }

    fn decide_all(&mut self, leaf: Node<'_>, from: usize, to: usize) -> Result<Changes<'a>> {
        let mut changes = Changes { only_places: true, ..Changes::default() };
        let keys = self.keys;
        for (index, key) in (from..).zip(&keys[from..to]) {
            let key = key.as_ref();
            let found = leaf.find(key);
            let before = found.ok().map(|at| leaf.found(at));
            match ((self.decide)(index, before)?, found) {
                (Decision::Keep, _) | (Decision::Remove, Err(_)) => continue,
                (Decision::Put(new), _) => {
                    let value = new.place.word(&mut self.writer.slab)?;
                    self.writer.pending.make_word(value);
                    let (at, is_new) = found.map_or_else(|at| (at, true), |at| (at, false));
                    changes.only_places &= !is_new && leaf.number(at) == new.sequence;
                    changes.edits.push(Edit { at, key: is_new.then_some(key), value, number: new.sequence });
                    if is_new {
                        changes.inserted += 1;
                        changes.inserted_bytes += key.len() - usize::from(leaf.header().prefix).min(key.len()) + 14;
                    } else {
                        self.writer.pending.unlink_word(leaf.value(at));
                    }
                }
                (Decision::Remove, Ok(at)) => {
                    changes.removed.push(at);
                    self.writer.pending.unlink_word(leaf.value(at));
                }
            }
            self.writer.pending.change(index, before);
        }
        Ok(changes)
    }

    /// Leaves of these entries.
    pub(super) fn leaves(&mut self, keys: &Keys, is_full: bool) -> Result<Vec<Child>> {
        if keys.len() == 0 {
            return Ok(Vec::new());
        }
        let prefix_bytes = keys.prefix_bytes(0..keys.len());
        let ends = cuts(keys.len(), self.settings.limits(0), is_full, |index| keys.cost_bytes(index, prefix_bytes));
        let (mut new, mut begin) = (Vec::with_capacity(ends.len()), 0);
        for end in ends {
            let separator = if begin > 0 { separator(keys.key(begin - 1), keys.key(begin)) } else { Vec::new() };
            let values = &keys.values[begin..end];
            new.push(self.writer.child(self.settings, separator, 0, keys, begin..end, values)?);
            begin = end;
        }
        Ok(new)
    }
}

impl Changes<'_> {
    /// All entries of the leaf as it will be.
    fn entries(&self, leaf: Node<'_>, into: &mut Keys) {
        into.clear();
        let (mut edits, mut removed) = (self.edits.iter().peekable(), self.removed.iter().peekable());
        for at in 0..=leaf.keys() {
            while let Some((edit, key)) =
                edits.next_if(|edit| edit.at == at && edit.key.is_some()).and_then(|edit| Some((edit, edit.key?)))
            {
                into.push(key, edit.value, edit.number);
            }
            if at == leaf.keys() {
                break;
            }
            if let Some(edit) = edits.next_if(|edit| edit.at == at) {
                into.push_key_of(leaf, at);
                into.values.push(edit.value);
                into.numbers.push(edit.number);
            } else if removed.next_if(|&&gone| gone == at).is_none() {
                into.push_of(leaf, at);
            }
        }
    }
}
