//! [`Segments`]: who names which segment, and what of it is needed.
//!
//! Lists share segments, so a segment goes with the last list that names it. A list goes when the MANIFEST no longer has it, and
//! the last reader has let go of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_pmem::medium::CACHE_LINE_BYTES;
use slmdb_pmem::{AnyMedium, Pool, UNIT_BYTES};
use slmdb_structures::list::{List, ListRecord, OpenSegment};
use slmdb_sync::scheduled::Mutex;

/// What lies in the pool of lists and segments, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PoolBytes {
    /// The lists' extents.
    pub(crate) lists_bytes: u64,
    /// The segments' extents.
    pub(crate) segments_bytes: u64,
    /// What entries of lists in the levels take in segments.
    pub(crate) live_bytes: u64,
    /// How many segments there are.
    pub(crate) segments: u64,
}

impl PoolBytes {
    /// What all of it takes.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.lists_bytes + self.segments_bytes
    }
}

/// What is known of a segment.
#[derive(Debug, Default)]
struct Segment {
    /// The length of its extent, in bytes.
    extent_bytes: u64,
    /// How many lists name it, those that only readers still have included. It counts as one more while it is open.
    lists: u32,
    /// What entries of lists in the levels take in it, in bytes. An entry that several lists have counts for each.
    live_bytes: u64,
}

impl Segment {
    /// Whether less than this part of it is needed. One that is open is not full yet.
    fn is_sparse(&self, offset: u64, open: Option<OpenSegment>, live_part: f64) -> bool {
        let is_open = open.is_some_and(|open| open.extent.offset == offset);
        !is_open && (self.live_bytes as f64) < self.extent_bytes as f64 * live_part
    }
}

/// What there is.
#[derive(Debug, Default)]
struct Named {
    by_offset: HashMap<u64, Segment>,
    /// What takes the entries of segments that are emptied.
    open: Option<OpenSegment>,
    /// The numbers of lists, those that only readers still have included.
    lists: HashSet<u32>,
    lists_bytes: u64,
    /// What the lists take of plain memory.
    memory_bytes: u64,
}

/// Which list names which segment. Its lock has no rank: under it nothing but the pool's is taken.
pub(crate) struct Segments {
    pool: Arc<Pool<AnyMedium>>,
    named: Mutex<Named>,
    /// How often a list went that the MANIFEST had given up.
    returned: AtomicU64,
    /// How many lists that the MANIFEST has given up are still read.
    leaving: AtomicU64,
    /// How often lists came, left the levels, or went.
    changes: AtomicU64,
}

impl Segments {
    /// No list names any.
    pub(crate) fn new(pool: Arc<Pool<AnyMedium>>) -> Segments {
        let [returned, leaving, changes] = [(); 3].map(|()| AtomicU64::new(0));
        Segments { pool, named: Mutex::new(Named::default()), returned, leaving, changes }
    }

    /// A list is there that is durable.
    pub(super) fn add(&self, list: &List<AnyMedium>) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut named = self.named.lock();
        named.memory_bytes += list.memory_bytes();
        let list = list.record();
        named.lists.insert(list.number);
        named.lists_bytes += list.extent.length_bytes;
        for share in list.segments.iter() {
            let segment = named.by_offset.entry(share.segment).or_default();
            if segment.lists == 0 {
                segment.extent_bytes = self.pool.extent_at(share.segment).map_or(0, |extent| extent.length_bytes);
            }
            segment.lists += 1;
            segment.live_bytes += share.live_bytes;
        }
    }

    /// A list is in the levels no more.
    pub(super) fn leave(&self, list: &ListRecord) {
        self.leaving.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
        let mut named = self.named.lock();
        for share in list.segments.iter() {
            if let Some(segment) = named.by_offset.get_mut(&share.segment) {
                segment.live_bytes = segment.live_bytes.saturating_sub(share.live_bytes);
            }
        }
    }

    /// Frees a list that has left and that nobody reads any more, with the segments that no other names.
    pub(super) fn free(&self, list: &List<AnyMedium>) {
        let memory_bytes = list.memory_bytes();
        let list = list.record();
        let mut named = self.named.lock();
        let mut unnamed = vec![list.extent.offset];
        for share in list.segments.iter() {
            let Some(segment) = named.by_offset.get_mut(&share.segment) else { continue };
            segment.lists -= 1;
            if segment.lists == 0 {
                named.by_offset.remove(&share.segment);
                unnamed.push(share.segment);
            }
        }
        named.lists.remove(&list.number);
        named.lists_bytes -= list.extent.length_bytes;
        named.memory_bytes -= memory_bytes;
        self.free_extents(&unnamed);
        drop(named);
        self.leaving.fetch_sub(1, Ordering::Relaxed);
        self.returned.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether less than this part of a segment is needed.
    pub(crate) fn is_sparse(&self, offset: u64, live_part: f64) -> bool {
        let named = self.named.lock();
        named.by_offset.get(&offset).is_some_and(|segment| segment.is_sparse(offset, named.open, live_part))
    }

    /// What comes back if a list is written anew whose entries leave the sparse segments: its part of what all lists give that share
    /// them, in bytes.
    pub(crate) fn gain_of_cleaning(&self, list: &ListRecord, live_part: f64) -> u64 {
        let named = self.named.lock();
        let (mut freed_bytes, mut copied_bytes) = (0, 0_u64);
        for share in list.segments.iter() {
            let Some(segment) = named.by_offset.get(&share.segment) else { continue };
            if segment.is_sparse(share.segment, named.open, live_part) {
                copied_bytes += share.live_bytes;
                let part = share.live_bytes as f64 / segment.live_bytes.max(1) as f64;
                freed_bytes += (segment.extent_bytes as f64 * part) as u64;
            }
        }
        // In segments of their own, or a list whose entries fill no unit would be written anew for ever.
        u64::saturating_sub(freed_bytes, copied_bytes.next_multiple_of(UNIT_BYTES))
    }

    /// The segments of which less than this part is needed, those by which most comes back first. Those that only readers have are on
    /// their way.
    pub(crate) fn sparse(&self, live_part: f64) -> Vec<u64> {
        let named = self.named.lock();
        let sparse = named.by_offset.iter().filter(|(offset, segment)| {
            // Elsewhere what each list has takes up to a line more.
            let moved_bytes = segment.live_bytes + u64::from(segment.lists) * CACHE_LINE_BYTES;
            let is_worth_it = (moved_bytes as f64) < segment.extent_bytes as f64 * live_part;
            segment.live_bytes > 0 && is_worth_it && segment.is_sparse(**offset, named.open, live_part)
        });
        let mut sparse: Vec<(u64, u64)> =
            sparse.map(|(offset, segment)| (segment.extent_bytes - segment.live_bytes, *offset)).collect();
        sparse.sort_unstable_by(|left, right| right.cmp(left));
        sparse.into_iter().map(|(_, offset)| offset).collect()
    }

    /// The segment that takes the entries of those that are emptied. It stays until it is full.
    pub(crate) fn open_segment(&self) -> Option<OpenSegment> {
        self.named.lock().open
    }

    /// Goes on with another open segment, or with the same when it has more. A list names it.
    pub(crate) fn keep_open(&self, open: Option<OpenSegment>) {
        let mut named = self.named.lock();
        let before = std::mem::replace(&mut named.open, open);
        for (segment, is_new) in [(open, true), (before, false)] {
            let Some(OpenSegment { extent, .. }) = segment else { continue };
            let Some(segment) = named.by_offset.get_mut(&extent.offset) else { continue };
            segment.lists = if is_new { segment.lists + 1 } else { segment.lists - 1 };
            if segment.lists == 0 {
                named.by_offset.remove(&extent.offset);
                self.free_extents(&[extent.offset]);
            }
        }
    }

    /// REQUIRES: the lock is held: a verification takes what is there and not named for a stray.
    fn free_extents(&self, offsets: &[u64]) {
        for &offset in offsets {
            // Whoever lets go of it has nobody to tell of an error: what stays, the next opening frees.
            if let Err(error) = self.pool.free_extent(offset) {
                tracing::debug!(%error, "an extent stays until the next opening");
            }
        }
    }

    /// Whether a list names this segment.
    pub(crate) fn has(&self, offset: u64) -> bool {
        self.named.lock().by_offset.contains_key(&offset)
    }

    /// Whether there is a list of this number, in the levels or for readers.
    pub(crate) fn has_list(&self, number: u32) -> bool {
        self.named.lock().lists.contains(&number)
    }

    /// What lists and segments take.
    pub(crate) fn bytes(&self) -> PoolBytes {
        let named = self.named.lock();
        let by_offset = &named.by_offset;
        PoolBytes {
            lists_bytes: named.lists_bytes,
            segments_bytes: by_offset.values().map(|segment| segment.extent_bytes).sum(),
            live_bytes: by_offset.values().map(|segment| segment.live_bytes).sum(),
            segments: by_offset.len() as u64,
        }
    }

    /// What this takes of plain memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        // A table is full to seven eighths at most, and has a byte beside each place.
        let named = self.named.lock();
        let (segments, lists) = (named.by_offset.capacity(), named.lists.capacity());
        let tables_bytes = (segments * (size_of::<(u64, Segment)>() + 1) + lists * (size_of::<u32>() + 1)) as u64;
        tables_bytes * 8 / 7 + named.memory_bytes
    }

    /// Another number whenever lists or their shares have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// How often space was given back.
    pub(crate) fn returned(&self) -> u64 {
        self.returned.load(Ordering::Relaxed)
    }

    /// Whether readers hold lists that have left.
    pub(crate) fn readers_hold(&self) -> bool {
        self.leaving.load(Ordering::Relaxed) > 0
    }
}
