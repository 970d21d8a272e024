//! Rebuilding MemTables from their logs.
//!
//! That has two steps. [`read`] goes over the records of an arena and settles what counts; it is quick, and each arena's
//! waits for that of the one before. [`ReadArena::build`] makes the list ([`rebuild`](super::rebuild)); arenas may be built
//! side by side.

use slmdb_env::Result;
use slmdb_order::KeyOrder;
use slmdb_pmem::{Arena, Medium};

use super::gathered::Gathered;
use super::memtable::MemTable;
use crate::log::{self, ExpectedSequence, Log, Reading};

/// A MemTable as it was, up to where its arena could be read.
#[derive(Debug)]
pub struct Replayed<M: Medium> {
    /// The entries taken. It takes no more.
    pub memtable: MemTable<M>,
    /// The outcome of the reading.
    pub reading: Reading,
    /// With [`LinkPolicy::Persisted`](super::LinkPolicy::Persisted): the lowest sequence number of an entry that was taken
    /// though no link led to it, because the crash came first. Nothing from there on was ever acknowledged.
    pub unlinked_from: Option<u64>,
}

/// An arena whose records were read: what counts is settled, and there is no list yet.
#[derive(Debug)]
pub struct ReadArena<M: Medium> {
    /// The outcome of the reading.
    pub reading: Reading,
    log: Log<M>,
    order: KeyOrder,
    gathered: Gathered,
}

impl<M: Medium> ReadArena<M> {
    /// Makes the MemTable. [`Error::Corruption`](slmdb_env::Error::Corruption) when its persisted links are not those of
    /// its records.
    pub fn build(self) -> Result<Replayed<M>> {
        let ReadArena { reading, log, order, mut gathered } = self;
        let mut memtable = MemTable::over(log, &order, gathered.shared_prefix());
        memtable.delete_ranges(std::mem::take(&mut gathered.deleted));
        let unlinked_from = memtable.rebuild(&gathered, reading.known_safe_sequence)?;
        Ok(Replayed { memtable, reading, unlinked_from })
    }
}

/// Rebuilds the MemTable of an arena: [`read`] and [`ReadArena::build`] in one.
pub fn replay<M: Medium>(
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    order: &KeyOrder,
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
) -> Result<Replayed<M>> {
    read(arena, generation, store_uuid, order, expected, sealed_last_sequence)?.build()
}

/// Reads the log of an arena for a MemTable in this order; see [`log::read`].
pub fn read<M: Medium>(
    arena: Arena<M>,
    generation: u64,
    store_uuid: [u8; 16],
    order: &KeyOrder,
    expected: ExpectedSequence,
    sealed_last_sequence: Option<u64>,
) -> Result<ReadArena<M>> {
    let mut gathered = Gathered::default();
    let (log, reading) =
        log::read(arena, generation, store_uuid, expected, sealed_last_sequence, |entry| gathered.add(&entry))?;
    Ok(ReadArena { reading, log, order: order.clone(), gathered })
}
