//! Conditional writes: `insert_if_absent` and `update_if_present` (paper, section 4; design.md section 5).
//!
//! A conditional write takes a place in the log like any other, and decides when its turn has come. As long as its place is
//! not filled nothing behind it can be published, and once everything before it is, what readers see is the very state
//! that its sequence number follows: that is what it decides from, and nobody can slip in between. If the condition holds
//! the place is filled with the write, else as void: that takes the sequence numbers, so that the log has no gap, and
//! says nothing.
//!
//! MemTables and index tell whether a key has a value without a table file being read, so those behind wait for no disk.
//! And nobody waits in a circle: a place waits for earlier places alone, which never wait for it.
//!
//! A void place takes the room that the write would have taken. So there is a look beforehand: any moment of the call may
//! answer it, and if the condition does not hold at the one of the look, no place is needed.

use slmdb_env::Result;
use slmdb_pmem::Medium;

use crate::store::Store;
use crate::write::write_path::Place;
use slmdb_engine::{Condition, WriteBatch};

impl<M: Medium + Clone> Store<M> {
    /// See [`slmdb_engine::Engine::write_if`].
    pub(crate) fn write_if(&self, condition: Condition<'_>, batch: &WriteBatch, sync: bool) -> Result<bool> {
        self.check_writable()?;
        let held = self.holds(condition)?;
        if !held || batch.is_empty() {
            return self.answer(held, self.publication.published(), sync);
        }
        self.pace(batch.user_bytes());
        let payload = batch.payload();
        let Place { memtable, reservation, ticket, first_sequence, last_sequence } = self.place(batch)?;
        self.publication.wait_for(first_sequence - 1);
        // An error has to wait until the place is filled.
        let holds = self.holds(condition);
        let known_safe_sequence = self.known_safe_sequence();
        if let Ok(true) = holds {
            memtable.fill(reservation, payload, first_sequence, known_safe_sequence);
        } else {
            memtable.fill(reservation, &payload.clone().void(), first_sequence, known_safe_sequence);
        }
        self.publish(ticket, last_sequence);
        self.count_filled(payload);
        if holds? {
            self.count_put(batch);
            self.answer(true, last_sequence, sync)
        } else {
            self.answer(false, first_sequence - 1, sync)
        }
    }

    /// Whether the condition holds for what is published now.
    fn holds(&self, condition: Condition<'_>) -> Result<bool> {
        Ok(match condition {
            Condition::Absent(key) => !self.contains_key(key)?,
            Condition::Present(key) => self.contains_key(key)?,
        })
    }

    /// With `sync`, what the answer rests on outlives a power cut, though it be another's write.
    fn answer(&self, applied: bool, rests_on_sequence: u64, sync: bool) -> Result<bool> {
        if sync {
            self.sync_through(rests_on_sequence)?;
        }
        Ok(applied)
    }
}
