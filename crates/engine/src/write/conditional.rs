//! Conditional writes: `insert_if_absent` and `update_if_present` (paper, section 4).
//!
//! A conditional write takes a place in the log like any other, and decides when its turn has come (INV-2). While its
//! place is not filled, nothing behind it can be published. Once everything before it is published, readers see exactly
//! the state that its sequence number follows. It decides from that state, so no other write can come in between. If
//! the condition holds, the place is filled with the write. If not, it is filled as void: that takes the sequence
//! numbers, so that the log has no gap, and changes nothing.
//!
//! A void place takes the room of the whole write. So the condition is checked beforehand, without a place. Any moment
//! within the call may answer it: if the condition does not hold then, no place is needed. That look may read table
//! files, by [what the engine can](crate::Capabilities).
//!
//! With a place it is enough to know what has come since that look, and MemTables tell that. So writes behind it wait for
//! no disk, unless what came was flushed meanwhile: then it looks everywhere once more. Nor is there a circle: a place
//! waits only for earlier places, which never wait for it.

use slmdb_env::Result;
use slmdb_structures::EntryKind;

use super::write_path::{Place, WritePath};
use crate::{Condition, WriteBatch};

/// What MemTables say of a key since a moment.
enum Since {
    /// Nothing has changed.
    Unchanged,
    /// It was put or deleted. Whether it has a value now.
    Changed(bool),
    /// Some of what has come since was flushed.
    Unknown,
}

impl WritePath {
    /// See [`crate::Engine::write_if`]. `contains` tells whether a key has a value in what is published.
    pub fn write_if(
        &self,
        condition: Condition<'_>,
        batch: &WriteBatch,
        sync: bool,
        contains: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<bool> {
        let (key, is_wanted) = match condition {
            Condition::Absent(key) => (key, false),
            Condition::Present(key) => (key, true),
        };
        self.context.check_writable()?;
        let seen_through = self.publication.published();
        let held = contains(key)? == is_wanted;
        if !held || batch.is_empty() {
            // The first look says yes: take a place, and decide when everything before it is published.
            return self.answer(held, self.publication.published(), sync);
        }
        self.pace(batch.user_bytes());
        let payload = batch.payload();
        let Place { memtable, reservation, ticket, first_sequence, last_sequence } = self.place(batch)?;
        self.publication.wait_for(first_sequence - 1);
        // An error waits until the place is filled.
        let holds = match self.since(key, seen_through, first_sequence - 1) {
            Since::Unchanged => Ok(held),
            Since::Changed(has_value) => Ok(has_value == is_wanted),
            Since::Unknown => contains(key).map(|has_value| has_value == is_wanted),
        };
        let known_safe_sequence = self.known_safe_sequence();
        if let Ok(true) = holds {
            memtable.fill(reservation, payload, first_sequence, known_safe_sequence);
        } else {
            memtable.fill(reservation, &payload.clone().void(), first_sequence, known_safe_sequence);
        }
        self.empty_ranges.note_puts(batch);
        self.publish(ticket, last_sequence);
        self.count_filled(&memtable, payload);
        if holds? {
            self.count_put(batch);
            self.answer(true, last_sequence, sync)
        } else {
            self.answer(false, first_sequence - 1, sync)
        }
    }

    /// What has become of a key since the write `seen`, up to the write `through`, which is published.
    fn since(&self, key: &[u8], seen: u64, through: u64) -> Since {
        if seen >= through {
            return Since::Unchanged;
        }
        for memtable in &self.view.load().memtables {
            match memtable.get(key, through) {
                Some(found) if found.sequence > seen => return Since::Changed(found.kind == EntryKind::Put),
                Some(_) => return Since::Unchanged,
                None => {}
            }
            // Older MemTables have nothing that came since.
            if memtable.first_sequence().is_some_and(|first| first <= seen + 1) {
                return Since::Unchanged;
            }
        }
        Since::Unknown
    }

    /// Makes what the answer rests on survive a power cut if `sync`, even if it is another's write.
    fn answer(&self, applied: bool, rests_on_sequence: u64, sync: bool) -> Result<bool> {
        if sync {
            self.sync_through(rests_on_sequence)?;
        }
        Ok(applied)
    }
}
