//! Moving entries: places alone change, so no node is made.

use slmdb_env::Result;
use slmdb_sync::epoch;

use super::place::Place;
use super::tree::{MemoryTree, Writer};

/// So many leaves are asked for at once.
const SIDE_BY_SIDE: usize = 16;
/// So many keys are looked for under one guard.
const KEYS_OF_TURN: usize = 2048;

impl MemoryTree {
    /// Points keys elsewhere if the index still has what is expected of them: `places` tells the place that is expected of a key, by its
    /// number, and the new one; `moved` is told of each that has moved. Sequence numbers stay. Ascending keys are fast.
    ///
    /// If memory lacks ([may be tried again](slmdb_env::Error::may_be_tried_again)), those that `moved` was told of have moved.
    ///
    /// REQUIRES: this thread has no guard, since the writer may wait for readers; the closures don't change the tree.
    pub fn repoint<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut places: impl FnMut(usize) -> (Place, Place),
        mut moved: impl FnMut(usize),
    ) -> Result<()> {
        let mut writer = self.writer.lock();
        for (turn, keys) in keys.chunks(KEYS_OF_TURN).enumerate() {
            let done = self.repoint_turn(
                &mut writer,
                keys,
                |index| places(turn * KEYS_OF_TURN + index),
                |index| {
                    moved(turn * KEYS_OF_TURN + index);
                },
            );
            let Writer { slab, pending, .. } = &mut *writer;
            pending.give_up(slab);
            writer.end_turn(&self.settings);
            self.note_memory(&writer);
            done?;
        }
        Ok(())
    }

    fn repoint_turn<K: AsRef<[u8]>>(
        &self,
        writer: &mut Writer,
        keys: &[K],
        mut places: impl FnMut(usize) -> (Place, Place),
        mut moved: impl FnMut(usize),
    ) -> Result<()> {
        let guard = epoch::pin();
        let mut leaves = [self.root(&guard); SIDE_BY_SIDE];
        for (part, keys) in keys.chunks(SIDE_BY_SIDE).enumerate() {
            for (key, leaf) in keys.iter().zip(&mut leaves) {
                *leaf = self.leaf_ahead(key.as_ref(), &guard);
            }
            for (index, (key, leaf)) in keys.iter().zip(&leaves).enumerate() {
                let Ok(at) = leaf.find(key.as_ref()) else { continue };
                let index = part * SIDE_BY_SIDE + index;
                let (expected, new) = places(index);
                if leaf.found(at).place != expected {
                    continue;
                }
                let mark = writer.pending.mark();
                let word = new.word(&mut writer.slab)?;
                writer.pending.make_word(word);
                writer.pending.unlink_word(leaf.value(at));
                leaf.store(at, word);
                writer.publish_quietly(mark);
                moved(index);
            }
        }
        Ok(())
    }
}
