//! [`Segments`]: who names which segment, and what of it is needed.
//!
//! Lists share segments, so a segment goes with the last list that names it. A list goes when the MANIFEST no longer has it, and
//! the last reader has let go of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slmdb_pmem::{AnyMedium, Pool, UNIT_BYTES};
use slmdb_structures::list::{List, ListRecord};
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

/// What comes back if a list is written anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CleaningGain {
    /// What segments take that no other list names, but for what the entries take elsewhere, in bytes.
    pub(crate) at_once_bytes: u64,
    /// The list's part of what comes back when all lists that share its segments are written anew, in bytes.
    pub(crate) in_the_end_bytes: u64,
}

/// What is known of a segment.
#[derive(Debug, Default)]
struct Segment {
    /// The length of its extent, in bytes.
    extent_bytes: u64,
    /// How many lists name it, those that only readers still have included.
    lists: u32,
    /// What entries of lists in the levels take in it, in bytes. An entry that several lists have counts for each.
    live_bytes: u64,
}

/// What there is.
#[derive(Debug, Default)]
struct Named {
    by_offset: HashMap<u64, Segment>,
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
        // Under the lock: a verification takes what is there and not named for a stray. Whoever lets go of a list has nobody to tell
        // of an error: what stays, the next opening frees.
        for offset in unnamed {
            if let Err(error) = self.pool.free_extent(offset) {
                tracing::debug!(%error, "an extent stays until the next opening");
            }
        }
        drop(named);
        self.leaving.fetch_sub(1, Ordering::Relaxed);
        self.returned.fetch_add(1, Ordering::Relaxed);
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// The part of a segment that lists in the levels have.
    pub(crate) fn live_part(&self, offset: u64) -> f64 {
        match self.named.lock().by_offset.get(&offset) {
            Some(segment) if segment.extent_bytes > 0 => segment.live_bytes as f64 / segment.extent_bytes as f64,
            _ => 1.0,
        }
    }

    /// What comes back if a list is written anew whose entries leave the segments of which less than this part is needed.
    pub(crate) fn gain_of_cleaning(&self, list: &ListRecord, live_part: f64) -> CleaningGain {
        let named = self.named.lock();
        let (mut freed_bytes, mut freed_later_bytes, mut copied_bytes) = (0, 0, 0);
        for share in list.segments.iter() {
            let Some(segment) = named.by_offset.get(&share.segment) else { continue };
            if (segment.live_bytes as f64) < segment.extent_bytes as f64 * live_part {
                copied_bytes += share.live_bytes;
                freed_bytes += if segment.lists == 1 { segment.extent_bytes } else { 0 };
                let part = share.live_bytes as f64 / segment.live_bytes.max(1) as f64;
                freed_later_bytes += (segment.extent_bytes as f64 * part) as u64;
            }
        }
        // In segments of their own, or a list whose entries fill no unit would be written anew for ever.
        let copied_bytes = copied_bytes.next_multiple_of(UNIT_BYTES);
        CleaningGain {
            at_once_bytes: u64::saturating_sub(freed_bytes, copied_bytes),
            in_the_end_bytes: u64::saturating_sub(freed_later_bytes, copied_bytes),
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
