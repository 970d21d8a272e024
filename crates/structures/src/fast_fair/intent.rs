//! Intent slots: what is being done to the tree's shape, durably named before it is begun.
//!
//! A replacement of a node first writes down here which blocks it takes and which it will give back (INV-23). So after a
//! crash nothing is lost and nothing has to be searched: the next opening reads these slots and completes or undoes what
//! they say. There is one for each level, because replacing a node may make its parent overflow, which is replaced in turn.
//!
//! ```text
//!   0  u64  state: 0 empty; otherwise "INTN" << 32 | crc32c of the 160 bytes that follow
//!   8  u64  kind u8, level u8, number of old nodes u8, of new nodes u8
//!  16  u64  number: counts up, so that no two intents are the same
//!  24  u64  old nodes [2]
//!  40  u64  new nodes [8]
//! 104  u64  fence blocks of the new nodes [8], 0 for none
//! ```
//!
//! All of it becomes durable under one fence. An intent that a crash has torn has a wrong checksum and was never begun.

use slmdb_env::Result;
use slmdb_pmem::{Medium, Pool};

use super::key_record::damaged;
use super::node::LEVEL_MAX;

/// Nodes that one replacement may make.
pub(super) const NEW_NODES_MAX: usize = 8;
/// Bytes of all intent slots.
pub(super) const INTENTS_BYTES: u32 = (LEVEL_MAX as u32 + 1) * SLOT_BYTES as u32;

const SLOT_BYTES: u64 = 256;
const WORDS: usize = 21;
const MARK: u64 = 0x494e_544e;
const _: () = assert!(WORDS * 8 <= SLOT_BYTES as usize && WORDS == 3 + 2 + 2 * NEW_NODES_MAX);

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum IntentKind {
    /// The old nodes, one or two neighbours, are replaced by the new ones. Committed when the first old node forwards to
    /// the first new one.
    Replace = 1,
    /// The new node becomes the root above the old one. Committed by the root word.
    GrowRoot = 2,
    /// The old node, the root, is dropped; its only child, named as the new node, becomes the root. Committed by the root
    /// word.
    DropRoot = 3,
}

/// A new node and the block of its fences, 0 if they are in the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewBlocks {
    pub node: u64,
    pub fences: u64,
}

/// What stands in a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Intent {
    pub kind: IntentKind,
    pub level: u8,
    pub number: u64,
    pub olds: Vec<u64>,
    pub news: Vec<NewBlocks>,
}

fn slot_offset(area: u64, level: u8) -> u64 {
    area + u64::from(level) * SLOT_BYTES
}

impl Intent {
    /// Writes it to its slot, durably.
    pub fn write<M: Medium>(&self, pool: &Pool<M>, area: u64) -> Result<()> {
        let mut words = [0; WORDS];
        let counts = (self.olds.len() as u64) << 16 | (self.news.len() as u64) << 24;
        words[1] = self.kind as u64 | u64::from(self.level) << 8 | counts;
        words[2] = self.number;
        words[3..][..self.olds.len()].copy_from_slice(&self.olds);
        for (index, new) in self.news.iter().enumerate() {
            words[5 + index] = new.node;
            words[5 + NEW_NODES_MAX + index] = new.fences;
        }
        words[0] = state_of(&words);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let offset = slot_offset(area, self.level);
        // SAFETY: the intent area belongs to the tree, is allocated as long as the tree exists, and is read and written
        // only under the lock of the tree's structure.
        unsafe { pool.write(offset, &bytes)? };
        pool.persist(offset, bytes.len() as u64);
        Ok(())
    }

    /// What a level's slot holds. `None`: nothing that was ever begun.
    pub fn read<M: Medium>(pool: &Pool<M>, area: u64, level: u8) -> Result<Option<Intent>> {
        let offset = slot_offset(area, level);
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            *word = pool.load(offset + 8 * index as u64)?;
        }
        if words[0] != state_of(&words) {
            return Ok(None);
        }
        let [kind, at_level, olds, news, ..] = words[1].to_le_bytes();
        let kind = match (kind, olds, news) {
            (1, 1, 1..=8) | (1, 2, 1) => IntentKind::Replace,
            (2, 0, 1) => IntentKind::GrowRoot,
            (3, 1, 1) => IntentKind::DropRoot,
            _ => return Err(damaged(pool, offset, "an intent of the tree makes no sense")),
        };
        if at_level != level {
            return Err(damaged(pool, offset, "an intent of the tree is in another level's place"));
        }
        let olds = words[3..][..usize::from(olds)].to_vec();
        let new = |index| NewBlocks { node: words[5 + index], fences: words[5 + NEW_NODES_MAX + index] };
        let news = (0..usize::from(news)).map(new).collect();
        Ok(Some(Intent { kind, level, number: words[2], olds, news }))
    }

    /// Empties its slot, durably. Everything flushed before is durable before.
    pub fn clear<M: Medium>(&self, pool: &Pool<M>, area: u64) -> Result<()> {
        let offset = slot_offset(area, self.level);
        pool.fence();
        pool.store(offset, 0)?;
        pool.persist(offset, 8);
        Ok(())
    }
}

fn state_of(words: &[u64; WORDS]) -> u64 {
    let crc = words[1..].iter().fold(0, |crc, word| slmdb_checksum::crc32c_append(crc, &word.to_le_bytes()));
    MARK << 32 | u64::from(crc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slmdb_pmem::{Dram, PoolOptions, ROOT_BYTES};

    #[test]
    fn an_intent_comes_back_or_was_never_there() {
        let options = PoolOptions { initial_bytes: 0, growth_bytes: 0, maximum_bytes: 1 << 24, uuid: [0; 16] };
        let pool = Pool::anonymous(Dram, &options).unwrap();
        let area = pool.root_offset();
        const { assert!(ROOT_BYTES >= 3 * SLOT_BYTES) };
        let news = vec![NewBlocks { node: 640, fences: 0 }, NewBlocks { node: 704, fences: 8 }];
        let intent = Intent { kind: IntentKind::Replace, level: 2, number: 9, olds: vec![512], news };
        assert_eq!(Intent::read(&pool, area, 2).unwrap(), None);
        intent.write(&pool, area).unwrap();
        assert_eq!(Intent::read(&pool, area, 2).unwrap().as_ref(), Some(&intent));
        for word in 0..WORDS as u64 {
            let offset = slot_offset(area, 2) + 8 * word;
            let whole = pool.load(offset).unwrap();
            pool.store(offset, whole ^ 1 << (word + 3)).unwrap();
            assert_eq!(Intent::read(&pool, area, 2).unwrap(), None, "torn at word {word}");
            pool.store(offset, whole).unwrap();
        }
        intent.clear(&pool, area).unwrap();
        assert_eq!(Intent::read(&pool, area, 2).unwrap(), None);
    }
}
