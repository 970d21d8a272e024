//! [`Pending`]: what a change has made so far that no reader sees yet.
//!
//! A change goes down the tree and publishes on its way back: at a leaf's word in its parent if the leaf became one leaf, else at a
//! node above. So three lists grow on the way, and what one store publishes is always their end: from where they were when the
//! change came to that node. If a change is given up, all that they have is undone.

use super::garbage::{Garbage, Piece};
use super::node::{Node, Reference};
use super::place::{Found, WIDE_BYTES, wide};
use super::slab::Slab;

/// Lists that belong to a change of which nothing is to be seen yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Which keys are to change, by their numbers, and what they had.
    changed: Vec<(usize, Option<Found>)>,
    made: Vec<Piece>,
    /// What nothing leads to once it is published.
    unlinked: Vec<Unlinked>,
}

#[derive(Debug, Clone, Copy)]
enum Unlinked {
    Node(Reference),
    Wide(Piece),
}

/// How long the lists were.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark([usize; 3]);

impl Pending {
    pub fn mark(&self) -> Mark {
        Mark([self.changed.len(), self.made.len(), self.unlinked.len()])
    }

    /// A key that is to change, and what it had.
    pub fn change(&mut self, key: usize, before: Option<Found>) {
        self.changed.push((key, before));
    }

    /// A node that nothing leads to yet.
    pub fn make(&mut self, node: Node<'_>) -> Reference {
        self.made.push(Piece::new(node.base(), node.bytes()));
        Reference::to(node)
    }

    /// The word of a place that nothing leads to yet.
    pub fn make_word(&mut self, word: u64) -> u64 {
        self.made.extend(wide(word).map(|wide| Piece::new(wide, WIDE_BYTES)));
        word
    }

    /// A node that is being replaced.
    pub fn unlink(&mut self, node: Reference) {
        self.unlinked.push(Unlinked::Node(node));
    }

    /// A place that is being replaced.
    pub fn unlink_word(&mut self, word: u64) {
        self.unlinked.extend(wide(word).map(|wide| Unlinked::Wide(Piece::new(wide, WIDE_BYTES))));
    }

    /// All since the mark can be seen now.
    pub fn publish(
        &mut self,
        Mark([changed, made, unlinked]): Mark,
        garbage: &mut Garbage,
        changes: &mut impl FnMut(usize, Option<Found>),
    ) {
        self.made.truncate(made);
        for unlinked in self.unlinked.drain(unlinked..) {
            garbage.push(match unlinked {
                Unlinked::Node(reference) => {
                    // SAFETY: nothing leads to the node since right now, and it is not freed before the writer says so.
                    let node = unsafe { reference.node() };
                    node.mark_replaced();
                    Piece::new(node.base(), node.bytes())
                }
                Unlinked::Wide(piece) => piece,
            });
        }
        self.changed.drain(changed..).for_each(|(key, before)| changes(key, before));
    }

    /// Gives up all that can't be seen.
    pub fn give_up(&mut self, slab: &mut Slab) {
        self.changed.clear();
        self.unlinked.clear();
        for piece in self.made.drain(..) {
            // SAFETY: this thread took it for something that nothing leads to.
            unsafe { piece.give_back(slab) };
        }
    }
}
