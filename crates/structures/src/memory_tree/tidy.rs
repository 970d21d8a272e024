//! Tidying: nodes in sparse runs of memory are moved together, so that chunks become empty and go back to the system.
//!
//! Freed pieces lie between others that stay. Where many keys have gone, few nodes may hold many runs, and no change comes by to copy
//! those. So when memory is much larger than what is in it, the writer goes through the tree and copies the nodes of the runs that
//! are to be left. That costs one copy of a part of the index, and is worth it again only when much has been freed again.

use slmdb_env::Result;

use super::build::copy_of;
use super::node::{Node, Reference};
use super::tree::{MemoryTree, Settings, Writer};

/// So many bytes are moved before what was replaced may come back.
const TURN_BYTES: usize = 1 << 20;
/// Memory is untidy if more than one part of these in it is free.
const FREE_PART: usize = 6;

impl MemoryTree {
    /// Moves nodes together if that sets much memory free. REQUIRES: nothing is pending.
    pub(super) fn tidy(&self, writer: &mut Writer) -> Result<()> {
        writer.end_turn(&self.settings);
        if !writer.slab.is_untidy(FREE_PART) {
            return Ok(());
        }
        // First within classes. What that sets free has room for what lies in chunks that are nearly empty.
        for _ in 0..2 {
            let is_worth_it = writer.slab.choose_runs_to_leave(FREE_PART);
            let moved = if is_worth_it { self.move_all(writer) } else { Ok(()) };
            // What was moved holds its runs until readers have gone.
            writer.garbage.wait(&mut writer.slab, 0, self.settings.readers_patience);
            writer.slab.leave_no_more();
            moved?;
        }
        Ok(())
    }

    fn move_all(&self, writer: &mut Writer) -> Result<()> {
        let (root, node) = self.writers_root();
        let mut moved_bytes = 0;
        writer.move_below(&self.settings, node, &mut moved_bytes)?;
        let mark = writer.pending.mark();
        if let Some(copy) = writer.copy_if_left(root)? {
            self.store_root(copy);
            writer.publish_quietly(mark);
        }
        Ok(())
    }
}

impl Writer {
    /// Moves all that lies below a node.
    fn move_below(&mut self, settings: &Settings, node: Node<'_>, moved_bytes: &mut usize) -> Result<()> {
        let children = if node.level() == 0 { 0 } else { node.values() };
        for index in 0..children {
            if node.level() > 1 {
                self.move_below(settings, node.child(index), moved_bytes)?;
            }
            let mark = self.pending.mark();
            if let Some(copy) = self.copy_if_left(node.reference(index))? {
                node.store(index, copy.0);
                self.publish_quietly(mark);
                *moved_bytes += node.child(index).bytes();
                if *moved_bytes >= TURN_BYTES {
                    *moved_bytes = 0;
                    self.end_turn(settings);
                }
            }
        }
        Ok(())
    }

    /// A copy of a linked node, if it is to be moved.
    fn copy_if_left(&mut self, old: Reference) -> Result<Option<Reference>> {
        // SAFETY: the node is linked, so it is not freed before it is unlinked.
        let node = unsafe { old.node() };
        // SAFETY: a linked node was taken from this slab for so many bytes.
        if !unsafe { self.slab.is_left(node.base(), node.bytes()) } {
            return Ok(None);
        }
        let copy = copy_of(&mut self.slab, node)?;
        let copy = self.pending.make(copy);
        self.pending.unlink(old);
        Ok(Some(copy))
    }

    /// Publishes what changes no key.
    pub(super) fn publish_quietly(&mut self, mark: super::pending::Mark) {
        let Writer { pending, garbage, .. } = self;
        pending.publish(mark, garbage, &mut |_, _| {});
    }
}
