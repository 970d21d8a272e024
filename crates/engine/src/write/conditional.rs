//! Conditional writes: `insert_if_absent` and `update_if_present` (paper, section 4).
//!
//! A conditional write takes a place in the log like any other, and decides when its turn has come (INV-2). While its
//! place is not filled, nothing behind it can be published. Once everything before it is published, readers see exactly
//! the state that its sequence number follows. It decides from that state, so no other write can come in between. If
//! the condition holds, the place is filled with the write. If not, it is filled as void: that takes the sequence
//! numbers, so that the log has no gap, and changes nothing.
//!
//! MemTables and index tell whether a key has a value without reading a table file, so writes behind it wait for no
//! disk. Nor is there a circle: a place waits only for earlier places, which never wait for it.
//!
//! A void place takes the room of the whole write. So the condition is checked beforehand, without a place. Any moment
//! within the call may answer it: if the condition does not hold then, no place is needed.

use slmdb_env::Result;
use slmdb_pmem::Medium;

use super::write_path::{Place, WritePath};
use crate::{Condition, WriteBatch};

impl<M: Medium + Clone> WritePath<M> {
    /// See [`crate::Engine::write_if`]. `contains` tells whether a key has a value in what is published, and reads no
    /// table file.
    pub fn write_if(
        &self,
        condition: Condition<'_>,
        batch: &WriteBatch,
        sync: bool,
        contains: impl Fn(&[u8]) -> Result<bool>,
    ) -> Result<bool> {
        let holds = || match condition {
            Condition::Absent(key) => contains(key).map(|contains| !contains),
            Condition::Present(key) => contains(key),
        };
        self.context.check_writable()?;
        let held = holds()?;
        if !held || batch.is_empty() {
            // The first look says yes: take a place, and decide when everything before it is published.
            return self.answer(held, self.publication.published(), sync);
        }
        self.pace(batch.user_bytes());
        let payload = batch.payload();
        let Place { memtable, reservation, ticket, first_sequence, last_sequence } = self.place(batch)?;
        self.publication.wait_for(first_sequence - 1);
        // An error waits until the place is filled.
        let holds = holds();
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

    /// Makes what the answer rests on survive a power cut if `sync`, even if it is another's write.
    fn answer(&self, applied: bool, rests_on_sequence: u64, sync: bool) -> Result<bool> {
        if sync {
            self.sync_through(rests_on_sequence)?;
        }
        Ok(applied)
    }
}
