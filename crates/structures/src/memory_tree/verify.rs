//! Checking the whole tree against its own rules.

use std::path::Path;

use slmdb_env::Error;
use slmdb_sync::epoch::Guard;

use super::keys::common_bytes;
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
            let common = common_bytes(first, last);
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
