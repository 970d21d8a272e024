//! Moving what was recovered into a new arena, so that many short openings don't leave many small table files.

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Medium};

use super::gathered::Gathered;
use super::links::{FRONT_SLOT, LinkPolicy};
use super::memtable::{MemTable, MemTableOptions};
use super::record::{PayloadEntry, RecordHeader, entries};
use super::replay::{ExpectedSequence, read};
use super::sort::{Sortable, Sorter};

impl<M: Medium> MemTable<M> {
    /// A new MemTable in this arena, as [`create`](MemTable::create) makes it, that holds all records of recovered ones, void
    /// entries included, under the sequence numbers that they have. The recovered ones come oldest first, and their numbers
    /// go on from one to the next. It takes more.
    ///
    /// Each record says that those before it are safe, so nothing of the copy may count before all of it is durable: that
    /// is so on return where a fence is enough, else after a [`sync`](MemTable::sync).
    ///
    /// Panics when the arena is too small: [`copied_bytes`](MemTable::copied_bytes) says what each takes.
    pub fn copied_from(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        options: &MemTableOptions,
        recovered: &[&MemTable<M>],
    ) -> Result<MemTable<M>> {
        let copy = MemTable::create(arena, generation, store_uuid, options);
        let mut last_sequence = None;
        let mut end_offset = copy.used_bytes();
        for original in recovered {
            for (header, payload) in original.records() {
                let place = copy.try_reserve(payload.len() as u64, header.entry_count);
                let place = place.expect("room for what is copied");
                let first = header.first_sequence;
                copy.write_record(place.offset(), &RecordHeader { known_safe_sequence: first - 1, ..header }, payload);
                (last_sequence, end_offset) = (Some(header.last_sequence()), copy.used_bytes());
            }
        }
        let Some(last_sequence) = last_sequence else { return Ok(copy) };
        let first_record = copy.links().first_record_offset();
        copy.arena().flush(first_record, end_offset - first_record);
        copy.arena().fence();

        // Read back as after a crash, CRCs and all: bytes that changed since they were read are not sealed anew.
        let first_sequence = recovered.iter().find_map(|original| original.first_sequence()).unwrap_or(1);
        let expected = ExpectedSequence::Exactly(first_sequence);
        let (arena, order) = (copy.into_arena(), KeyOrder::clone(&options.order));
        let read = read(arena, generation, store_uuid, &order, expected, Some(last_sequence))?;
        let (mut copy, gathered) = read.into_parts();
        copy.list_mut().expect_prefix(&options.expected_prefix);
        let entries = gathered.sorted(&Sorter { bytes: copy.log().bytes, heads: copy.list().heads() });
        copy.build(&entries, &gathered);
        if copy.links() == LinkPolicy::Persisted {
            copy.persist_links(&entries, &gathered);
        }
        copy.go_on();
        Ok(copy)
    }

    /// Bytes that the records of a recovered MemTable take in an arena with such links.
    pub fn copied_bytes(&self, links: LinkPolicy) -> u64 {
        self.records().map(|(header, _)| header.record_bytes(links)).sum()
    }

    /// Everything that is in the log of a recovered MemTable and counts, in the order in which it was written, superseded
    /// entries included.
    pub fn logged_entries(&self) -> impl Iterator<Item = PayloadEntry<'_>> {
        self.records().flat_map(|(_, payload)| entries(payload))
    }

    /// The records of a recovered MemTable that count, with their payloads.
    fn records(&self) -> impl Iterator<Item = (RecordHeader, &[u8])> {
        let log = self.log();
        let (mut offset, end_offset) = (self.first_record(), self.used_bytes());
        std::iter::from_fn(move || {
            if offset >= end_offset {
                return None;
            }
            let (header, payload) = log.signed_header_at(offset as usize)?;
            offset += header.record_bytes(log.links);
            Some((header, payload))
        })
    }

    /// Chains entries that are in the list's order. Nothing of it counts yet, so one fence is enough.
    fn persist_links(&self, entries: &[Sortable], gathered: &Gathered) {
        let slots = entries.iter().map(|entry| u64::from(gathered.slot(entry.index())));
        let mut before = FRONT_SLOT;
        for slot in slots {
            self.arena().store_word(before, slot);
            before = slot;
        }
        self.arena().flush(FRONT_SLOT, self.used_bytes() - FRONT_SLOT);
        self.arena().fence();
    }
}
