//! Packed hash tables: against a model, through crashes, with damaged bytes, and byte for byte.

mod crash;
mod format;
mod hostile;
mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use slmdb_env::Result;
use slmdb_pmem::{Claim, Extent, ExtentKind, Medium, Pool, PoolOptions};
use slmdb_structures::hash::{
    FinishedTable, HashTable, Identity, PoolBytes, Slot, SlotPlace, TableBuilder, TableBytes, TableOptions,
};

pub const UUID: [u8; 16] = [7; 16];

/// What a table is to have: slots of the shards that have a part.
pub type Parts = BTreeMap<u16, BTreeMap<Identity, Slot>>;

/// A table in plain memory, as one in a file is read.
#[derive(Debug)]
pub struct Memory(pub Vec<u8>);

impl TableBytes for Memory {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn length_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn copy(&self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
        Ok(())
    }
}

pub fn pool<M: Medium>(medium: M) -> Arc<Pool<M>> {
    let options = PoolOptions { initial_bytes: 0, growth_bytes: 64 << 10, maximum_bytes: 256 << 20, uuid: UUID };
    Arc::new(Pool::anonymous(medium, &options).unwrap())
}

/// A slot that follows from a number.
pub fn slot(identity: &Identity, number: u32) -> Slot {
    let place = SlotPlace { file: 1 + number % 7, offset: number, length_bytes: 1 + number % 1000 };
    Slot::new(identity, place, number % 5 == 4).unwrap()
}

/// Parts of random identities: so many of each of these shards.
pub fn parts(shards: impl IntoIterator<Item = (u16, u64)>, seed: u64) -> Parts {
    let mut random = crate::fast_fair::support::Random::new(seed);
    let mut part = |shard, count| {
        let identities = (0..count).map(|_| Identity::new(shard, random.next(), random.next()));
        identities.map(|identity| (identity, slot(&identity, (identity.shard() as u32 + seed as u32) * 31))).collect()
    };
    shards.into_iter().map(|(shard, count)| (shard, part(shard, count))).collect()
}

pub fn options(number: u32) -> TableOptions {
    TableOptions { number, uuid: UUID, level: 255, epoch: 9, shards: 8, range: 2..7 }
}

/// Builds a table of a store of eight shards, which may have five.
pub fn built(number: u32, parts: &Parts, load_percent: u32) -> FinishedTable {
    let mut builder = TableBuilder::new(options(number)).unwrap();
    for (shard, slots) in parts {
        builder.begin_part(*shard, load_percent).unwrap();
        slots.values().for_each(|slot| builder.add(*slot).unwrap());
    }
    let entries = builder.entries();
    let finished = builder.finish().unwrap();
    assert_eq!((entries, finished.bytes().len() as u64), (finished.record().entries, finished.record().length_bytes));
    finished
}

pub fn open<M: Medium>(pool: &Arc<Pool<M>>, extent: Extent, number: u32) -> Result<HashTable<PoolBytes<M>>> {
    HashTable::open(PoolBytes::new(Arc::clone(pool), extent, number)?, number, UUID)
}

pub fn written<M: Medium>(pool: &Arc<Pool<M>>, number: u32, parts: &Parts) -> Extent {
    built(number, parts, 75).write_to_pool(pool, Claim::Privileged).unwrap()
}

pub fn extents<M: Medium>(pool: &Pool<M>) -> Vec<Extent> {
    pool.extents().into_iter().filter(|extent| extent.kind == ExtentKind::HashTable).collect()
}

/// That a table is whole and has this.
pub fn check<B: TableBytes>(table: &HashTable<B>, parts: &Parts) {
    let faults = table.verify();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(table.record().entries, parts.values().map(|slots| slots.len() as u64).sum::<u64>());
    for shard in 0..9 {
        let part = parts.get(&shard);
        assert_eq!(table.entries_of(shard), part.map(|slots| slots.len() as u32));
        let found: Vec<Slot> = table.slots(shard).collect::<Result<_>>().unwrap();
        assert!(found.iter().eq(part.into_iter().flatten().map(|(_, slot)| slot)), "shard {shard}");
    }
    let all = parts.values().flatten();
    for (identity, slot) in all {
        assert_eq!(table.get(identity).unwrap(), Some(*slot));
        let others = [0, 3, 6].map(|shard| slot.identity(shard));
        for other in others.into_iter().filter(|other| other != identity) {
            let expected = parts.get(&other.shard()).and_then(|part| part.get(&other)).copied();
            assert_eq!(table.get(&other).unwrap(), expected);
        }
    }
}
