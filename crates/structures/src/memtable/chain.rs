//! The persisted chain: the lowest level's links in the arena, as in the paper's Algorithm 1.
//!
//! The algorithm persists a new node, its own link set, and then the predecessor's link that is swung to it: two waits for
//! the medium. For a record of several entries this does the same with all of them at once: neighbours in the order are
//! linked to each other beforehand, so that one link swung brings in a whole **group**, and the two waits are shared.
//!
//! Several writers swing links with compare-and-swap. Between the swing and its second wait a link is visible to the others
//! and not durable yet. A writer that then puts an entry *behind* that link, and is acknowledged first, would lose it
//! in a crash that takes the link back. So a swung link carries [`NOT_PERSISTED`] until its writer's wait is over, and
//! a writer that walks over such a link writes it back, too, and waits, before building on it. (What is put *into* such a link
//! needs no more than that: the new link leads to what the old one led to, which was durable before it was linked.)
//!
//! The skiplist gets an entry only after its chain link is durable. So what a search there finds is reachable in the chain
//! whatever a crash does, and a walk along the chain need only look at the links from there on.

use std::ops::Range;

use slmdb_pmem::{Arena, Medium};

use super::links::NOT_PERSISTED;
use super::skiplist::SkipList;
use super::sort::merge_sort;
use crate::log::{ENTRY_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, SLOT_BYTES, Slot, entry_lengths, slot_of};

/// An entry to be linked, whose record lies in the arena.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewLink<'a> {
    pub key: &'a [u8],
    pub sequence: u64,
    /// Of this entry, in the arena.
    pub slot: u64,
}

/// The chain of an arena, and the skiplist that finds places in it.
#[derive(Clone, Copy)]
pub(super) struct Chain<'a, M: Medium> {
    pub arena: &'a Arena<M>,
    pub list: &'a SkipList,
}

/// Entries that one link brings in.
struct Group {
    /// Which of the entries to be linked.
    entries: Range<usize>,
    /// The slot whose link is to be swung.
    before: u64,
    /// The link that was found there.
    found: u64,
}

impl<M: Medium> Chain<'_, M> {
    /// Links the entries of a record that lies at `record_offset`, so many bytes long, written and not yet written back.
    /// When it returns, the record is durable, and so is a chain of links to each of its entries.
    pub fn link(&self, record_offset: u64, record_bytes: u64, mut entries: Vec<NewLink<'_>>) {
        let order = self.list.heads().order();
        merge_sort(&mut entries, |one, other| {
            order.compare(one.key, other.key).then(other.sequence.cmp(&one.sequence)).is_lt()
        });
        let mut waiting: Vec<Range<usize>> = std::iter::once(0..entries.len()).collect();
        let mut swung = Vec::new();
        let mut is_first = true;
        while !waiting.is_empty() {
            let groups: Vec<Group> = waiting.drain(..).flat_map(|range| self.group(&entries, range)).collect();
            match is_first {
                true => self.arena.flush(record_offset, record_bytes),
                false => groups.iter().flat_map(|group| &entries[group.entries.clone()]).for_each(|entry| {
                    self.arena.flush(entry.slot, size_of::<u64>() as u64);
                }),
            }
            is_first = false;
            // Everything that the new links lead to, and that leads to where they are to be, is durable from here on.
            self.arena.fence();
            for group in groups {
                let link = entries[group.entries.start].slot | NOT_PERSISTED;
                match self.arena.compare_exchange_word(group.before, group.found, link) {
                    Ok(_) => {
                        self.arena.flush(group.before, size_of::<u64>() as u64);
                        swung.push((group.before, link));
                    }
                    // Somebody else was quicker: these begin again, from what is there now.
                    Err(_) => waiting.push(group.entries),
                }
            }
        }
        self.arena.fence();
        for (before, link) in swung {
            // Another writer's link by now, or ours, durable: no need to write it back for the bit.
            let _ = self.arena.compare_exchange_word(before, link, link & !NOT_PERSISTED);
        }
    }

    /// Finds the places of sorted entries, links those that belong into one place to each other, and the last of them to what
    /// follows. Their slots are not written back.
    fn group(&self, entries: &[NewLink<'_>], range: Range<usize>) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut start = range.start;
        while let Some(first) = entries[..range.end].get(start) {
            let (before, found) = self.place_of(first);
            let after = found & !NOT_PERSISTED;
            let mut end = start + 1;
            while end < range.end && (after == 0 || !self.is_before(after, &entries[end])) {
                end += 1;
            }
            for at in start..end {
                let next = if at + 1 < end { entries[at + 1].slot } else { after };
                self.arena.store_word(entries[at].slot, next);
            }
            groups.push(Group { entries: start..end, before, found });
            start = end;
        }
        groups
    }

    /// The slot of the last entry before the new one, and its link. Writes back the links on the way that may not be durable.
    fn place_of(&self, new: &NewLink<'_>) -> (u64, u64) {
        let mut before = self.list.slot_before(new.key, new.sequence);
        loop {
            let link = self.arena.load_word(before);
            let after = link & !NOT_PERSISTED;
            if after == 0 || !self.is_before(after, new) {
                return (before, link);
            }
            if link & NOT_PERSISTED != 0 {
                self.arena.flush(before, size_of::<u64>() as u64);
            }
            before = after;
        }
    }

    /// Whether the entry of a slot in the chain comes before the new one.
    fn is_before(&self, slot: u64, new: &NewLink<'_>) -> bool {
        let (key, sequence) = self.entry_of(slot);
        let order = self.list.heads().order();
        order.compare(key, new.key).then(new.sequence.cmp(&sequence)).is_lt()
    }

    /// Key and sequence number of the entry of a slot in the chain.
    fn entry_of(&self, slot: u64) -> (&[u8], u64) {
        const WRITTEN: &str = "what the chain leads to was written by this process";
        self.arena.note_read();
        // SAFETY: what is in the chain was written before it was linked there, and only its link, the first word of a slot, is
        // ever written again.
        let bytes = |offset, length| unsafe { self.arena.bytes(offset, length) }.expect(WRITTEN);
        let mut place = [0; SLOT_BYTES as usize];
        place[8..].copy_from_slice(bytes(slot + 8, SLOT_BYTES - 8));
        let place = Slot::read(&place);
        let record = slot - slot_of(0, u64::from(place.entry_index));
        let header = RecordHeader::read(bytes(record, RECORD_HEADER_BYTES).first_chunk().expect(WRITTEN));
        let entry = u64::from(place.entry_offset);
        let (key_length, _) = entry_lengths(bytes(entry, ENTRY_HEADER_BYTES as u64), 0);
        let key = bytes(entry + ENTRY_HEADER_BYTES as u64, key_length as u64);
        (key, header.first_sequence + u64::from(place.entry_index))
    }
}
