//! Filling an empty tree at once, in parts that several threads make side by side.
//!
//! Each part has memory of its own, which the tree takes over at the end. So parts share nothing until then.

use slmdb_env::{Error, Result};
use slmdb_order::common_prefix_bytes;

use super::garbage::Garbage;
use super::keys::{Keys, separator};
use super::node::Reference;
use super::pending::Pending;
use super::place::Found;
use super::tree::{MAXIMUM_KEY_BYTES, MemoryTree, Settings, Writer};
use super::update::Child;

/// A part of a bulk load: keys that lie between those of other parts.
#[derive(Debug)]
pub struct BulkPart {
    writer: Writer,
    settings: Settings,
    /// The keys of the next leaf, about how many bytes they take, and how many of them all have in common.
    keys: Keys,
    bytes: usize,
    prefix_bytes: usize,
    leaves: Vec<Child>,
    first: Option<Vec<u8>>,
    last: Vec<u8>,
    longest_key_bytes: usize,
}

impl MemoryTree {
    /// A part of a bulk load. Dropped, it is as if it had not been.
    pub fn bulk_part(&self) -> BulkPart {
        let slab = self.writer.lock().slab.another();
        BulkPart {
            writer: Writer { slab, garbage: Garbage::default(), pending: Pending::default(), scratch: Keys::default() },
            settings: self.settings,
            keys: Keys::default(),
            bytes: 0,
            prefix_bytes: 0,
            leaves: Vec::new(),
            first: None,
            last: Vec::new(),
            longest_key_bytes: 0,
        }
    }

    /// Puts the keys of all parts, in this order, into the tree. [`Error::Invalid`] if the tree has keys, the parts' keys don't
    /// ascend, or a part is another tree's; nothing has happened then, nor if memory lacks.
    pub fn finish_bulk_load(&self, parts: Vec<BulkPart>) -> Result<()> {
        let mut writer = self.writer.lock();
        let old = self.writers_root();
        if old.1.level() > 0 || old.1.keys() > 0 {
            return Err(Error::invalid("a bulk load into an index that has keys"));
        }
        let (mut leaves, mut slabs) = (Vec::new(), Vec::new());
        let mut last: Option<Vec<u8>> = None;
        for mut part in parts {
            part.finish_leaf()?;
            let Some(first) = part.first.take() else { continue };
            if !part.writer.slab.has_source_of(&writer.slab) {
                return Err(Error::invalid("a part of a bulk load of another index"));
            }
            if let Some(last) = last.replace(part.last) {
                if last >= first {
                    return Err(Error::invalid("the parts of a bulk load don't ascend"));
                }
                part.leaves[0].separator = separator(&last, &first);
            }
            leaves.append(&mut part.leaves);
            slabs.push(part.writer.slab);
        }
        if leaves.is_empty() {
            return Ok(());
        }
        let mark = writer.pending.mark();
        let raised = writer.raise(&self.settings, leaves);
        let Writer { slab, pending, .. } = &mut *writer;
        let root = raised.inspect_err(|_| pending.give_up(slab))?;
        slabs.into_iter().for_each(|part| slab.absorb(part));
        pending.unlink(old.0);
        self.store_root(root);
        writer.publish_quietly(mark);
        writer.end_turn(&self.settings);
        self.note_memory(&writer);
        Ok(())
    }
}

impl BulkPart {
    /// Adds a key. [`Error::Invalid`] if it is not above the last one, or too long; an error that [may be tried
    /// again](Error::may_be_tried_again) if memory lacks. The key was not added then.
    pub fn add(&mut self, key: &[u8], found: Found) -> Result<()> {
        if key.len() > MAXIMUM_KEY_BYTES {
            return Err(Error::invalid(format!("a key of more than {MAXIMUM_KEY_BYTES} bytes")));
        }
        let shared_bytes = common_prefix_bytes(&self.last, key);
        if self.first.is_some() && key.get(shared_bytes) <= self.last.get(shared_bytes) {
            return Err(Error::invalid("the keys of a bulk load don't ascend"));
        }
        let cost_bytes = key.len() + 14;
        let saved_bytes = self.prefix_bytes * self.keys.len().saturating_sub(1);
        if self.keys.len() >= self.settings.leaf_keys
            || (self.keys.len() > 0 && (self.bytes + cost_bytes).saturating_sub(saved_bytes) > self.settings.leaf_bytes)
        {
            self.finish_leaf()?;
        }
        let word = found.place.word(&mut self.writer.slab)?;
        self.prefix_bytes = if self.keys.len() == 0 { key.len() } else { self.prefix_bytes.min(shared_bytes) };
        self.keys.push(key, word, found.sequence);
        self.bytes += cost_bytes;
        self.first.get_or_insert_with(|| key.to_vec());
        self.last.truncate(shared_bytes);
        self.last.extend_from_slice(&key[shared_bytes..]);
        self.longest_key_bytes = self.longest_key_bytes.max(key.len());
        Ok(())
    }

    /// The length of the longest key that was added, in bytes.
    pub fn longest_key_bytes(&self) -> usize {
        self.longest_key_bytes
    }

    fn finish_leaf(&mut self) -> Result<()> {
        if self.keys.len() == 0 {
            return Ok(());
        }
        let keys = &self.keys;
        // SAFETY: a leaf of this part, which nobody else has.
        let last = self.leaves.last().map(|leaf| unsafe { Reference::node(leaf.node) });
        let separator = last.map_or_else(Vec::new, |leaf| separator(&leaf.key(leaf.keys() - 1), keys.key(0)));
        let leaf = self.writer.child(&self.settings, separator, 0, keys, 0..keys.len(), &keys.values)?;
        self.leaves.push(leaf);
        self.keys.clear();
        self.bytes = 0;
        Ok(())
    }
}
