//! Checking the whole tree against its own rules.

use std::path::Path;

use slmdb_env::Error;
use slmdb_order::common_prefix_bytes;
use slmdb_sync::epoch::Guard;

use super::node::{Node, head_of};
use super::place::Place;
use super::tree::{LEVELS_MAX, MemoryTree};

/// So many findings are enough.
const FINDINGS_MAX: usize = 16;

impl MemoryTree {
    /// Checks order, prefixes, heads, separators, levels, and that each place leads to a file. Returns what is wrong, the first
    /// few. Readers and the writer go on meanwhile.
    pub fn verify(&self, guard: &Guard) -> Vec<Error> {
        let mut check = Check { tree: self, findings: Vec::new() };
        let root = self.root(guard);
        if usize::from(root.level()) >= LEVELS_MAX {
            check.find("the root's level is too high");
        } else {
            check.node(root, &[], None);
        }
        check.findings
    }
}

struct Check<'t> {
    tree: &'t MemoryTree,
    findings: Vec<Error>,
}

impl Check<'_> {
    fn find(&mut self, what: &str) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Error::corruption(Path::new("index"), 0, what));
        }
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds {
            self.find(what);
        }
    }

    /// A node whose keys are from `low` on, below `high`.
    fn node(&mut self, node: Node<'_>, low: &[u8], high: Option<&[u8]>) {
        let (keys, values) = (node.keys(), node.values());
        let is_inner = node.level() > 0;
        self.expect(values == keys + usize::from(is_inner), "a node has more or fewer values than it has keys");
        let limits = self.tree.settings.limits(node.level());
        self.expect(values <= limits.count_max, "a node has more keys than it may have");
        let all: Vec<Vec<u8>> = (0..keys).map(|index| node.key(index)).collect();
        self.keys(node, &all);
        let is_within = all.iter().all(|key| &key[..] >= low && high.is_none_or(|high| &key[..] < high));
        self.expect(is_within, "a key is not between its node's separators");
        for index in 0..values {
            if is_inner {
                let child = node.child(index);
                if child.level() + 1 == node.level() {
                    let low = index.checked_sub(1).map_or(low, |before| &all[before][..]);
                    self.node(child, low, all.get(index).map(Vec::as_slice).or(high));
                } else {
                    self.find("a child is not of the level below");
                }
            } else {
                let Place { slot, .. } = node.found(index).place;
                self.expect(self.tree.files.file(slot) != 0, "a place leads to no file");
            }
        }
    }

    fn keys(&mut self, node: Node<'_>, all: &[Vec<u8>]) {
        self.expect(all.is_sorted_by(|one, next| one < next), "the keys of a node don't ascend");
        let prefix = node.prefix().len();
        if let [first, .., last] = all {
            let common = common_prefix_bytes(first, last);
            self.expect(prefix == common, "the prefix of a node is not what its keys have in common");
        }
        for (index, key) in all.iter().enumerate() {
            self.expect(node.find(key) == Ok(index), "a key is not found in its node");
            let head = key.get(prefix..).map(head_of);
            self.expect(head == Some(node.heads()[index]), "a head does not fit its key");
        }
        let mut padding = node.heads()[all.len()..].iter();
        self.expect(padding.all(|head| *head == i32::MAX), "heads are not filled up");
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::Arc;

    use slmdb_sync::epoch;

    use super::super::{Decision, Found, Settings, SystemMemory};
    use super::*;

    /// An index of several levels, one word of which is then changed.
    fn findings(change: impl FnOnce(Node<'_>)) -> Vec<Error> {
        let settings = Settings { leaf_keys: 4, inner_children: 4, ..Settings::default() };
        let tree = MemoryTree::new(Arc::new(SystemMemory), settings).unwrap();
        let slot = tree.files().slot(1).unwrap();
        let keys: Vec<[u8; 2]> = (0..100_u16).map(u16::to_be_bytes).collect();
        let found = Found { place: Place { slot, offset: 1, length_bytes: 1 }, sequence: 1 };
        tree.update_sorted(&keys, |_, _| Ok(Decision::Put(found)), |_, _| {}).unwrap();
        change(tree.root(&epoch::pin()));
        tree.verify(&epoch::pin())
    }

    #[test]
    fn what_is_wrong_is_found() {
        assert_eq!(findings(|_| {}).len(), 0);
        let swapped = findings(|root| {
            let first = root.reference(0);
            root.store(0, root.reference(1).0);
            root.store(1, first.0);
        });
        assert!(swapped.iter().any(|error| error.to_string().contains("separators")), "{swapped:?}");
        let of_another_level = findings(|root| root.store(0, root.child(0).reference(0).0));
        assert!(of_another_level.iter().any(|error| error.to_string().contains("level")), "{of_another_level:?}");
        let of_no_file = findings(|root| {
            let mut leaf = root;
            while leaf.level() > 0 {
                leaf = leaf.child(0);
            }
            leaf.store(0, 1 << 62);
        });
        assert!(of_no_file.iter().any(|error| error.to_string().contains("no file")), "{of_no_file:?}");
    }
}
