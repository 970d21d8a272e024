//! Moving recovered logs into a new arena, so that many short openings don't leave many small table files.

use slmdb_env::Result;
use slmdb_pmem::{Arena, Medium};

use super::log::Log;
use super::record::RecordHeader;
use super::record_form::RecordForm;
use super::replay::{ExpectedSequence, LoggedEntry, read};

impl<M: Medium> Log<M> {
    /// A new log in this arena, as [`create`](Log::create) makes it, that holds all records of recovered ones, void entries
    /// included, under the sequence numbers that they have. The recovered ones come oldest first, and their numbers go on
    /// from one to the next. It takes more. `take` is shown every entry, as by [`read`].
    ///
    /// Each record says that those before it are safe, so nothing of the copy may count before all of it is durable: that
    /// is so on return where a fence is enough, else after a [`sync`](Log::sync).
    ///
    /// Panics when the arena is too small: [`copied_bytes`](Log::copied_bytes) says what each takes.
    pub fn copied_from(
        arena: Arena<M>,
        generation: u64,
        store_uuid: [u8; 16],
        form: RecordForm,
        recovered: &[&Log<M>],
        take: impl FnMut(LoggedEntry<'_>),
    ) -> Result<Log<M>> {
        let copy = Log::create(arena, generation, store_uuid, form);
        for original in recovered {
            for (header, payload) in original.records() {
                let place = copy.try_reserve(payload.len() as u64, header.entry_count);
                let offset = place.expect("room for what is copied").offset();
                let header = RecordHeader { known_safe_sequence: header.first_sequence - 1, ..header };
                copy.write_record(offset, &header, payload);
            }
        }
        let (Some(first_sequence), last_sequence) = (copy.first_sequence(), copy.last_sequence()) else {
            return Ok(copy);
        };
        let front_bytes = form.first_record_offset();
        copy.arena().flush(front_bytes, copy.used_bytes() - front_bytes);
        copy.arena().fence();

        // Read back as after a crash, CRCs and all: bytes that changed since they were read are not sealed anew.
        let expected = ExpectedSequence::Exactly(first_sequence);
        let (mut copy, _) = read(copy.arena, generation, store_uuid, expected, last_sequence, take)?;
        copy.appendable = true;
        Ok(copy)
    }

    /// Bytes that the records of a recovered log take in this form.
    pub fn copied_bytes(&self, form: RecordForm) -> u64 {
        self.records().map(|(header, _)| header.record_bytes(form)).sum()
    }
}
