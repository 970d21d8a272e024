//! Checking a list from end to end.

use std::collections::BTreeMap;

use slmdb_env::Error;
use slmdb_pmem::Medium;

use super::entry::Entry;
use super::layout::{FANOUT, head_behind};
use super::open::List;
use super::record::SegmentShare;
use crate::EntryKind;

/// A damaged list may hold very many faults; the first few tell the story.
const FAULTS_MAX: usize = 64;

/// What the entries add up to.
struct Sums {
    deletes: u64,
    lowest_sequence: u64,
    highest_sequence: u64,
    segments: BTreeMap<u64, (u64, u32)>,
}

impl<M: Medium> List<M> {
    /// Reads all of it and all its entries: their order, heads and checks, each entry's checksums, that the filter has each key, the
    /// counts, bounds, and what it has of each segment. Empty if all is well; else the first faults.
    pub fn verify(&self) -> Vec<Error> {
        let mut faults = Vec::new();
        if let Err(error) = self.verify_into(&mut faults) {
            faults.push(error);
        }
        faults
    }

    fn verify_into(&self, faults: &mut Vec<Error>) -> Result<(), Error> {
        let bytes = self.bytes()?;
        let index = &bytes[self.shape.filter as usize..self.shape.nodes as usize];
        if slmdb_checksum::crc32c(index) != self.header.index_crc {
            faults.push(self.damaged(self.shape.filter, "the checksum of a list's filter and levels does not match"));
        }
        if slmdb_checksum::crc32c(&bytes[self.shape.nodes as usize..]) != self.header.nodes_crc {
            faults.push(self.damaged(self.shape.nodes, "the checksum of a list's nodes does not match"));
        }
        let mut sums = Sums { deletes: 0, lowest_sequence: u64::MAX, highest_sequence: 0, segments: BTreeMap::new() };
        let mut last: Option<Entry<'_>> = None;
        for index in 0..self.record.entries {
            match self.verify_entry(bytes, index, last.as_ref(), &mut sums) {
                Ok(entry) => last = Some(entry),
                Err(error) => faults.push(error),
            }
            if faults.len() >= FAULTS_MAX {
                return Ok(());
            }
        }
        if faults.is_empty() {
            self.verify_sums(&sums, last.as_ref(), faults);
        }
        Ok(())
    }

    /// Checks an entry, and how it stands behind the one before.
    fn verify_entry(
        &self,
        bytes: &[u8],
        index: u64,
        last: Option<&Entry<'_>>,
        sums: &mut Sums,
    ) -> Result<Entry<'_>, Error> {
        let wrong = |what: &str| self.damaged_node(index, what);
        let node = self.node(bytes, index)?;
        let entry = self.checked_entry(&node)?;
        let front = entry.front;
        front.value(&self.pool)?;
        if !entry.key.starts_with(self.prefix())
            || node.head != head_behind(&self.order, self.header.prefix_bytes, entry.key)
        {
            return Err(wrong("a head is not its key's"));
        }
        for (level, &place) in self.shape.levels().iter().enumerate() {
            let step = (FANOUT as u64).pow(level as u32 + 1);
            let head = self.heads(bytes, place, index / step, index / step + 1).first();
            if index.is_multiple_of(step) && head != Some(&node.head.to_le_bytes()) {
                return Err(wrong("a node is not what the level above has of it"));
            }
        }
        if let Some(last) = last {
            let order = self.order.compare(last.key, entry.key);
            if order.then(front.sequence.cmp(&last.front.sequence)).is_ge() {
                return Err(wrong("the entries of a list are out of order"));
            }
        }
        if !self.may_have(entry.key)? {
            return Err(wrong("the filter lacks a key"));
        }
        sums.deletes += u64::from(front.kind == EntryKind::Delete);
        sums.lowest_sequence = sums.lowest_sequence.min(front.sequence);
        sums.highest_sequence = sums.highest_sequence.max(front.sequence);
        let share = sums.segments.entry(front.place.segment).or_insert((0, 0));
        *share = (share.0 + front.place.bytes(), share.1 + 1);
        if index == 0 && entry.key != &*self.record.smallest_key {
            return Err(wrong("a list says that it has another smallest key"));
        }
        Ok(entry)
    }

    fn verify_sums(&self, sums: &Sums, last: Option<&Entry<'_>>, faults: &mut Vec<Error>) {
        let record = &self.record;
        let mut expect = |is_so: bool, what: &str| {
            if !is_so {
                faults.push(self.damaged(0, what));
            }
        };
        expect(
            last.is_some_and(|last| last.key == &*record.largest_key),
            "a list says that it has another largest key",
        );
        expect(sums.deletes == record.deletes, "a list says that it has another number of deletes");
        let numbers = (sums.lowest_sequence, sums.highest_sequence);
        expect(numbers == (record.lowest_sequence, record.highest_sequence), "a list says that it has other numbers");
        let shares = sums.segments.iter();
        let found = shares.map(|(&segment, &(live_bytes, entries))| SegmentShare { segment, live_bytes, entries });
        expect(found.eq(record.segments.iter().copied()), "a list's segments have other entries than it says");
    }
}
