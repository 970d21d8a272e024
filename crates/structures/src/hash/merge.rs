//! Merging tables of a shard: what compactions do (section 2.1 of the paper), and a last-level compaction with a table of DRAM
//! among its sources (Figure 8).

use slmdb_env::Result;

use super::slot::Slot;

/// What becomes of deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletes {
    /// They go on hiding what older tables have.
    Kept,
    /// They vanish: there is no older table.
    Dropped,
}

/// A slot that the merged table does not have. Nobody finds its entry by this shard's tables any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// A newer table has the key.
    Replaced(Slot),
    /// It was a delete, and nothing is left that it hides.
    Vanished(Slot),
}

impl Lost {
    /// The slot.
    pub fn slot(&self) -> Slot {
        match self {
            Lost::Replaced(slot) | Lost::Vanished(slot) => *slot,
        }
    }
}

/// A source of slots, in the order of their hashes.
type Slots<'s> = Box<dyn Iterator<Item = Result<Slot>> + 's>;

struct Source<'s> {
    next: Option<Slot>,
    rest: Slots<'s>,
}

impl Source<'_> {
    /// Gives the next slot, and goes on.
    fn take(&mut self) -> Result<Option<Slot>> {
        let next = self.rest.next().transpose()?;
        Ok(std::mem::replace(&mut self.next, next))
    }
}

/// The slots of several tables of one shard, merged: in the order of their hashes, of each identity the newest.
pub struct Merge<'s> {
    newest_first: Vec<Source<'s>>,
    deletes: Deletes,
}

impl<'s> Merge<'s> {
    /// Of these tables, the newest first. Slots of each ascend: [`HashTable::slots`](super::HashTable::slots),
    /// [`DramWriter::slots`](super::DramWriter::slots).
    pub fn new(newest_first: impl IntoIterator<Item = Slots<'s>>, deletes: Deletes) -> Result<Merge<'s>> {
        let sources = newest_first.into_iter().map(|mut rest| Ok(Source { next: rest.next().transpose()?, rest }));
        Ok(Merge { newest_first: sources.collect::<Result<_>>()?, deletes })
    }

    /// The next slot. Tells each that loses on the way, but not one whose entry the winner leads to, too.
    ///
    /// After an error of a source what was given so far counts for nothing.
    pub fn next(&mut self, mut lost: impl FnMut(Lost)) -> Result<Option<Slot>> {
        loop {
            let heads = self.newest_first.iter().enumerate();
            let orders = heads.filter_map(|(index, source)| Some((source.next?.order(), index)));
            let Some((order, winner)) = orders.min() else { return Ok(None) };
            let Some(slot) = self.newest_first[winner].take()? else { return Ok(None) };
            for source in &mut self.newest_first[winner + 1..] {
                if source.next.is_some_and(|next| next.order() == order)
                    && let Some(older) = source.take()?
                    && older.place() != slot.place()
                {
                    lost(Lost::Replaced(older));
                }
            }
            if !slot.is_delete() || self.deletes == Deletes::Kept {
                return Ok(Some(slot));
            }
            lost(Lost::Vanished(slot));
        }
    }
}

impl std::fmt::Debug for Merge<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.newest_first.len();
        formatter.debug_struct("Merge").field("sources", &sources).field("deletes", &self.deletes).finish()
    }
}
