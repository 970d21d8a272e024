//! Opening a list, and reading its parts.

use std::sync::Arc;

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Extent, Medium, Pool};

use super::damaged;
use super::entry::Entry;
use super::layout::{HEAD_BYTES, NODE_BYTES, Node, Shape};
use super::record::{Header, ListRecord, SegmentShare, read};

/// A complete list, open. Any number of threads read it at a time.
///
/// REQUIRES: neither its extent nor a segment of its is freed while it is there, or anything lent from it.
pub struct List<M: Medium> {
    pub(super) pool: Arc<Pool<M>>,
    pub(super) order: KeyOrder,
    pub(super) record: ListRecord,
    pub(super) header: Header,
    pub(super) shape: Shape,
    pub(super) uuid_crc: u32,
}

impl<M: Medium> List<M> {
    /// Opens the list of this number that lies in this extent. Reads header, filter and the upper levels, and checks them.
    /// Its nodes and entries are checked when they are reached.
    ///
    /// [`Error::Corruption`](slmdb_env::Error::Corruption) if there is no complete list of this number, or it is damaged, or a
    /// segment is missing. [`Error::Unsupported`](slmdb_env::Error::Unsupported) if it is of another version, or of another
    /// order of keys.
    pub fn open(pool: Arc<Pool<M>>, extent: Extent, number: u32, order: KeyOrder) -> Result<List<M>> {
        let (record, header, shape) = read(&pool, extent, number, &order)?;
        let uuid_crc = slmdb_checksum::crc32c(&pool.uuid());
        let list = List { pool, order, record, header, shape, uuid_crc };
        if slmdb_checksum::crc32c(&list.bytes()?[shape.filter as usize..shape.nodes as usize]) != header.index_crc {
            return Err(list.damaged(shape.filter, "the checksum of a list's filter and levels does not match"));
        }
        Ok(list)
    }

    /// What is known of it.
    pub fn record(&self) -> &ListRecord {
        &self.record
    }

    /// The order of its keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// The pool that it lies in.
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// What it takes of plain memory, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let ListRecord { smallest_key, largest_key, segments, .. } = &self.record;
        let rows = segments.len() * size_of::<SegmentShare>();
        (size_of::<List<M>>() + smallest_key.len() + largest_key.len() + rows) as u64
    }

    /// All its bytes. What [`Shape`] says lies within.
    #[inline]
    pub(super) fn bytes(&self) -> Result<&[u8]> {
        // SAFETY: the list is complete: nobody changes it. It is not freed before this.
        unsafe { self.pool.bytes(self.record.extent.offset, self.shape.end) }
    }

    /// The beginning of what all keys share.
    #[inline]
    pub(super) fn prefix(&self) -> &[u8] {
        &self.record.smallest_key[..self.header.prefix_bytes]
    }

    /// Heads of a level above the nodes. A search reads one such block of each level, and one of the nodes.
    #[inline]
    pub(super) fn heads<'b>(&self, bytes: &'b [u8], level: (u64, u64), from: u64, to: u64) -> &'b [[u8; HEAD_BYTES]] {
        self.pool.note_read();
        let [from, to] = [from, to.min(level.1)].map(|head| (level.0 + head * HEAD_BYTES as u64) as usize);
        bytes.get(from..to).unwrap_or_default().as_chunks().0
    }

    /// Nodes, with nothing checked.
    #[inline]
    pub(super) fn nodes<'b>(&self, bytes: &'b [u8], from: u64, to: u64) -> &'b [[u8; NODE_BYTES]] {
        let to = to.min(self.record.entries);
        let [from, to] = [from, to].map(|node| (self.shape.nodes + node * NODE_BYTES as u64) as usize);
        bytes.get(from..to).unwrap_or_default().as_chunks().0
    }

    /// A node, checked. REQUIRES: the list has so many.
    #[inline]
    pub(super) fn node(&self, bytes: &[u8], index: u64) -> Result<Node> {
        let found = self.nodes(bytes, index, index + 1).first();
        let parsed = found.and_then(|[h0, h1, h2, h3, h4, h5, h6, h7, word @ ..]| {
            let head = u64::from_le_bytes([*h0, *h1, *h2, *h3, *h4, *h5, *h6, *h7]);
            Node::parse(head, u64::from_le_bytes(*word), self.record.number, index as u32)
        });
        parsed.ok_or_else(|| self.damaged_node(index, "a node's check does not match"))
    }

    /// The entry of a node that was checked, with nothing of it checked.
    #[inline]
    pub(super) fn entry(&self, node: &Node) -> Result<Entry<'_>> {
        self.pool.note_read();
        Entry::at(&self.pool, node.place())
    }

    /// The entry of a node, its front checked.
    #[inline]
    pub(super) fn checked_entry(&self, node: &Node) -> Result<Entry<'_>> {
        let entry = self.entry(node)?;
        if !node.is_of(entry.front.place.check) || !entry.is_intact(self.uuid_crc) {
            return Err(damaged(&self.pool, node.place(), "the checksum of an entry does not match"));
        }
        Ok(entry)
    }

    #[cold]
    pub(super) fn damaged_node(&self, index: u64, what: &str) -> slmdb_env::Error {
        self.damaged(self.shape.nodes + index * NODE_BYTES as u64, what)
    }

    /// Damage at so many bytes from the beginning of the list.
    #[cold]
    pub(super) fn damaged(&self, at: u64, what: &str) -> slmdb_env::Error {
        damaged(&self.pool, self.record.extent.offset + at, what)
    }
}

impl<M: Medium> std::fmt::Debug for List<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("List").field("record", &self.record).finish_non_exhaustive()
    }
}
