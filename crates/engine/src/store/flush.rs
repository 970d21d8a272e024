//! What is the same in each flush: how it begins, and how its MemTable goes.

use std::sync::atomic::Ordering;

use slmdb_env::Result;

use super::cursor::TierCursor;
use super::parts::Parts;
use crate::Event;
use crate::background::crew::Next;
use crate::write::memtables::Immutable;

/// The table file that a flush has made.
#[derive(Debug, Clone, Copy)]
pub struct FlushedFile {
    /// Its number.
    pub number: u32,
    /// Entries in it.
    pub entries: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Parts {
    /// A step of the flushes: takes the oldest Immutable MemTable (INV-6), if there is one. Flushes end when the store closes or has
    /// failed, or `flush` says false. Everything that they do not come to stays in the arenas for the next opening. `cursor`: one of the tier at a
    /// moment, for [what deleted ranges come to](crate::flush::range_deletes).
    /// LOCKS: memtables; those of `next_part`; those of `flush`
    pub fn flush_next<C: TierCursor>(
        &self,
        cursor: impl Fn(u64) -> C,
        flush: impl Fn(Immutable) -> Result<bool>,
    ) -> Next {
        let immutable = match self.writes.next_immutable() {
            Ok(immutable) => immutable,
            Err(next) => return next,
        };
        let flushed = match self.next_part(immutable, cursor) {
            Ok(Some(next)) => flush(next),
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match flushed {
            Ok(true) => return Next::Go,
            Ok(false) => {}
            Err(error) if error.may_be_tried_again() && self.writes.gives_up() => {}
            Err(error) => self.context.fail(error),
        }
        Next::End
    }

    /// Takes note that the flush of a MemTable begins. Returns when that was, on the environment's clock.
    /// LOCKS: those of [`Parts::memory`]
    pub fn flush_begins(&self, immutable: &Immutable) -> u64 {
        self.share_memory();
        self.context.notify(|| Event::FlushBegan {
            generation: immutable.memtable.generation(),
            entries: immutable.entries(),
            memtable_bytes: immutable.memtable.used_bytes(),
        });
        self.context.env.monotonic_ns()
    }

    /// Has the table file of a MemTable written, with a number of its own, as soon as there is space. `None` if the MemTable is
    /// empty.
    /// LOCKS: those of `write`; file numbers
    pub fn write_when_there_is_space<T>(
        &self,
        immutable: &Immutable,
        write: impl Fn(u32) -> Result<T>,
    ) -> Result<Option<T>> {
        if immutable.is_empty() {
            return Ok(None);
        }
        let number = self.catalog.numbers.begin()?;
        let written = self.space.until_there_is_space(|| write(number));
        if written.is_err() {
            self.catalog.numbers.end(number);
        }
        written.map(Some)
    }

    /// Takes a flushed MemTable from the readers' list (INV-9), and frees what was set aside for it. After a part of one, the MemTable
    /// stays. REQUIRES: its flush has committed.
    /// LOCKS: catalog; memtables; those of [`Parts::memory`]; pool grant, memtables
    pub fn flush_ends(&self, flushed: Immutable, began_ns: u64, file: Option<FlushedFile>) -> Result<()> {
        let (is_part, was_in_parts) = (flushed.is_part(), flushed.flushed_through > 0);
        let Immutable { memtable, last_sequence, totals, space, .. } = flushed;
        debug_assert!(
            self.catalog.lock().state().flushed_through >= last_sequence,
            "INV-9: the flush through {last_sequence} has not committed"
        );
        space.map_or(Ok(()), |space| space.discard(&*self.context.env))?;
        self.state.count_files(&self.context.options, self.catalog.lock().state(), &self.catalog.reserve);
        match self.catalog.fill_reserve() {
            Err(error) if !error.may_be_tried_again() => return Err(error),
            _ => {}
        }
        let (generation, bytes, list_bytes) = (memtable.generation(), memtable.used_bytes(), memtable.memory_bytes());
        // Before whoever waits for the flush goes on.
        self.context.counted.flushes.fetch_add(1, Ordering::Relaxed);
        if is_part {
            self.space.change_grant(0, None)?;
            self.writes.part_ended(last_sequence);
        } else {
            self.writes.take_from_view(&memtable);
            // Before `release` counts the space as returned: writers that wait for it look again then.
            self.writes.arenas.retire(memtable)?;
            self.flush_freed(&totals, list_bytes);
            self.space.release(generation, &totals)?;
            self.writes.flush_ended(last_sequence, (!was_in_parts).then_some(bytes), began_ns);
        }
        let duration = self.context.since(began_ns);
        let (entries, bytes) = file.map_or((0, 0), |file| (file.entries, file.bytes));
        let file = file.map(|file| file.number);
        tracing::info!(generation, file, entries, bytes, ms = duration.as_secs_f64() * 1e3, "flushed");
        self.context.notify(|| Event::FlushEnded { generation, file, entries, bytes, duration });
        Ok(())
    }
}
