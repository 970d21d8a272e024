//! Writing a list.
//!
//! Nodes are gathered in memory and written at once. Their heads begin behind the prefix that all keys share, which is
//! known with the last key. A head that was taken behind a longer prefix is made again from the first key: all keys before
//! the prefix became shorter had the longer one.

use std::collections::BTreeMap;
use std::sync::Arc;

use slmdb_env::{Error, Result};
use slmdb_order::KeyOrder;
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool};

use super::entry::{MAXIMUM_SEQUENCE, Place};
use super::layout::{FANOUT, HEAD_BYTES, NODE_BYTES, Node, Shape, head_behind, mark, order_word};
use super::record::{FinishedList, Header, ListRecord, SegmentShare};
use crate::EntryKind;
use crate::log::MAXIMUM_KEY_BYTES;
use crate::memtable::head_of;

/// How often a list is made durable while it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persists {
    /// Once, as a whole.
    #[default]
    Once,
    /// Four times for each node: what the paper's algorithms 1 and 2 take. For comparison; it makes nothing safer.
    FourEach,
}

/// How a list is made.
#[derive(Debug, Clone)]
pub struct ListOptions {
    /// The order of its keys.
    pub order: KeyOrder,
    /// Bits of filter for each key, at most 64; 0: no filter.
    pub filter_bits_per_key: u32,
    /// Whether it may take what the pool holds in reserve.
    pub claim: Claim,
    /// How often it is made durable.
    pub persists: Persists,
}

/// More bits would only make the filter larger.
const FILTER_BITS_MAX: u32 = 64;

/// From this entry on, heads were taken behind a prefix of so many bytes.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: usize,
    prefix_bytes: usize,
}

/// Gathers the nodes of a list in memory, about 30 bytes an entry.
pub struct ListWriter<M: Medium> {
    pool: Arc<Pool<M>>,
    number: u32,
    options: ListOptions,
    nodes: Vec<Node>,
    /// What the filter keeps of each key.
    hashes: Vec<u32>,
    stretches: Vec<Stretch>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_sequence: u64,
    deletes: u64,
    lowest_sequence: u64,
    highest_sequence: u64,
    data_bytes: u64,
    /// What each segment has of the list, in bytes and entries, by its place,
    segments: BTreeMap<u64, (u64, u32)>,
}

impl<M: Medium> ListWriter<M> {
    /// A list of this number, which no other has, with no entry yet.
    pub fn new(pool: Arc<Pool<M>>, number: u32, mut options: ListOptions) -> ListWriter<M> {
        options.filter_bits_per_key = options.filter_bits_per_key.min(FILTER_BITS_MAX);
        ListWriter {
            pool,
            number,
            options,
            nodes: Vec::new(),
            hashes: Vec::new(),
            stretches: Vec::new(),
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_sequence: 0,
            deletes: 0,
            lowest_sequence: u64::MAX,
            highest_sequence: 0,
            data_bytes: 0,
            segments: BTreeMap::new(),
        }
    }

    /// Adds an entry: keys ascend, versions of one key come newest first. Else it is
    /// [`Error::Invalid`], and so is an entry for which no list has room.
    pub fn add(&mut self, key: &[u8], sequence: u64, kind: EntryKind, place: Place) -> Result<()> {
        let is_new_key = self.check(key, sequence)?;
        if is_new_key {
            self.note_key(key);
        }
        let prefix_bytes = self.stretches.last().map_or(0, |stretch| stretch.prefix_bytes);
        let head = head_behind(&self.options.order, prefix_bytes, key);
        self.nodes.push(Node::new(head, place.offset, place.check));
        self.last_sequence = sequence;
        self.lowest_sequence = self.lowest_sequence.min(sequence);
        self.highest_sequence = self.highest_sequence.max(sequence);
        self.deletes += u64::from(kind == EntryKind::Delete);
        self.data_bytes += place.bytes();
        let share = self.segments.entry(place.segment).or_insert((0, 0));
        *share = (share.0 + place.bytes(), share.1 + 1);
        Ok(())
    }

    /// Whether the key is another than the last.
    fn check(&self, key: &[u8], sequence: u64) -> Result<bool> {
        if key.len() > MAXIMUM_KEY_BYTES || sequence > MAXIMUM_SEQUENCE || self.nodes.len() >= u32::MAX as usize {
            return Err(Error::invalid("a list has no room for a key so long, a number so large, or one more entry"));
        }
        if self.nodes.is_empty() {
            return Ok(true);
        }
        let order = self.options.order.compare(&self.last_key, key);
        if order.then(sequence.cmp(&self.last_sequence)).is_ge() {
            return Err(Error::invalid("the entries of a list are out of order"));
        }
        Ok(order.is_ne())
    }

    fn note_key(&mut self, key: &[u8]) {
        let from = self.nodes.len();
        match self.stretches.last() {
            _ if !self.options.order.is_bytewise() => {}
            None => self.stretches.push(Stretch { from, prefix_bytes: key.len() }),
            Some(stretch) => {
                let prefix = &self.first_key[..stretch.prefix_bytes];
                if !key.starts_with(prefix) {
                    let prefix_bytes = prefix.iter().zip(key).take_while(|(left, right)| left == right).count();
                    self.stretches.push(Stretch { from, prefix_bytes });
                }
            }
        }
        if from == 0 {
            self.first_key.extend_from_slice(key);
        }
        if self.options.filter_bits_per_key > 0 {
            self.hashes.push(slmdb_filter::hash_of(key));
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    /// How many entries were added.
    pub fn entries(&self) -> u64 {
        self.nodes.len() as u64
    }

    /// What the list will take, in bytes, without its entries; not rounded up to units.
    pub fn bytes(&self) -> u64 {
        self.shape().end
    }

    /// What its entries take in their segments, in bytes.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    fn filter_lines(&self) -> u64 {
        slmdb_filter::lines_of(self.hashes.len() as u64, self.options.filter_bits_per_key)
    }

    fn shape(&self) -> Shape {
        let key_bytes = (self.first_key.len() + self.last_key.len()) as u64;
        Shape::new(self.nodes.len() as u64, self.filter_lines(), key_bytes, self.segments.len() as u64)
    }

    /// Writes the list into an extent whose owner is its number. It is complete after
    /// [`SegmentWriter::complete`](super::SegmentWriter::complete) only. After an error nothing is left behind.
    ///
    /// [`Error::Invalid`] if it has no entry, [`Error::Full`] if the pool has no room.
    pub fn finish(mut self, created_unix_ns: u64) -> Result<FinishedList> {
        if self.nodes.is_empty() {
            return Err(Error::invalid("a list without an entry"));
        }
        self.settle_heads();
        let shape = self.shape();
        let extent =
            self.pool.allocate_part(ExtentKind::List, shape.end, shape.end, self.number, self.options.claim)?;
        let record = self.record(extent, created_unix_ns);
        let written = self.write(&record, &shape);
        // The first error tells more than one of giving the extent back.
        let last_word = written.inspect_err(|_| drop(self.pool.free_extent(extent.offset)))?;
        Ok(FinishedList { record, last_word })
    }

    /// Makes all heads begin behind the prefix that is left.
    fn settle_heads(&mut self) {
        let prefix_bytes = self.prefix_bytes();
        for (position, stretch) in self.stretches.iter().enumerate() {
            let to = self.stretches.get(position + 1).map_or(self.nodes.len(), |next| next.from);
            // All keys of the stretch have these bytes between the two prefixes.
            let between = &self.first_key[prefix_bytes..stretch.prefix_bytes];
            let shift = 8 * between.len().min(8) as u32;
            if shift > 0 {
                let front = head_of(between);
                self.nodes[stretch.from..to]
                    .iter_mut()
                    .for_each(|node| node.head = front | node.head.checked_shr(shift).unwrap_or(0));
            }
        }
    }

    fn prefix_bytes(&self) -> usize {
        self.stretches.last().map_or(0, |stretch| stretch.prefix_bytes)
    }

    fn record(&self, extent: Extent, created_unix_ns: u64) -> ListRecord {
        let segments = self.segments.iter();
        ListRecord {
            number: self.number,
            extent,
            entries: self.nodes.len() as u64,
            deletes: self.deletes,
            lowest_sequence: self.lowest_sequence,
            highest_sequence: self.highest_sequence,
            data_bytes: self.data_bytes,
            created_unix_ns,
            smallest_key: self.first_key.as_slice().into(),
            largest_key: self.last_key.as_slice().into(),
            segments: segments
                .map(|(&segment, &(live_bytes, entries))| SegmentShare { segment, live_bytes, entries })
                .collect(),
        }
    }

    /// Gives the word that completes the list.
    fn write(&self, record: &ListRecord, shape: &Shape) -> Result<u64> {
        let mut bytes = vec![0; shape.end as usize];
        let probes = slmdb_filter::probes_of(self.options.filter_bits_per_key);
        let filter = &mut bytes[shape.filter as usize..shape.filter_end as usize];
        self.hashes.iter().for_each(|&hash| slmdb_filter::insert(filter, probes, hash));
        for (level, &(at, _)) in shape.levels().iter().enumerate() {
            let step = FANOUT.pow(level as u32 + 1);
            let heads = bytes[at as usize..].chunks_exact_mut(HEAD_BYTES);
            self.nodes
                .iter()
                .step_by(step)
                .zip(heads)
                .for_each(|(node, to)| to.copy_from_slice(&node.head.to_le_bytes()));
        }
        let nodes = bytes[shape.nodes as usize..].chunks_exact_mut(NODE_BYTES);
        for ((index, node), to) in self.nodes.iter().enumerate().zip(nodes) {
            to[..HEAD_BYTES].copy_from_slice(&node.head.to_le_bytes());
            to[HEAD_BYTES..].copy_from_slice(&node.word(self.number, index as u32).to_le_bytes());
        }
        let header = Header {
            prefix_bytes: self.prefix_bytes(),
            filter_lines: self.filter_lines() as u32,
            probes: if self.hashes.is_empty() { 0 } else { probes },
            order: order_word(&self.options.order),
            index_crc: slmdb_checksum::crc32c(&bytes[shape.filter as usize..shape.nodes as usize]),
            nodes_crc: slmdb_checksum::crc32c(&bytes[shape.nodes as usize..]),
        };
        let offset = record.extent.offset;
        let uuid_crc = slmdb_checksum::crc32c(&self.pool.uuid());
        let last_word = header.encode(record, mark(uuid_crc, offset), &mut bytes[..shape.filter as usize]);
        // SAFETY: the extent is new, and nobody knows of it.
        unsafe { self.pool.write_durably(offset, &bytes)? };
        if self.options.persists == Persists::FourEach {
            let places = (offset + shape.nodes..offset + shape.end).step_by(NODE_BYTES);
            places.for_each(|place| (0..4).for_each(|_| self.pool.persist(place, NODE_BYTES as u64)));
        }
        Ok(last_word)
    }
}

impl<M: Medium> std::fmt::Debug for ListWriter<M> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ListWriter")
            .field("number", &self.number)
            .field("entries", &self.nodes.len())
            .finish_non_exhaustive()
    }
}
