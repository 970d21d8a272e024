//! [`Index`]: where the newest entry of each key lies (paper, section 2.1).
//!
//! The index is cut by hash into shards. A shard has a table of the last level, and in DRAM the *Auxiliary Bypass Index* (section
//! 2.2) of all that came since. A bypass that is full is frozen, a new one takes over, and a compaction makes a new last table of
//! both. Readers look without a lock. Whoever changes slots holds [`Index::writers`], from the commit that makes entries the
//! store's until all their slots are there.

pub(crate) mod section;
pub(crate) mod tables;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use slmdb_engine::lock_order;
use slmdb_env::{Error, Result};
use slmdb_order::EntryKind;
use slmdb_structures::hash::{Deletes, DramTable, DramWriter, Identity, KeyHasher, Merge, Slot, SlotPlace};
use slmdb_sync::scheduled::atomic::AtomicU64;
use slmdb_sync::scheduled::{ArcSwap, Mutex};
use slmdb_table::{KeyEntry, Place};

use self::section::{Level, Row, tables_part};
use self::tables::ShardTable;

/// Bytes of a slot.
const SLOT_BYTES: u64 = 24;
/// The bypass of a shard has at least so many homes.
const HOMES_MIN: u64 = 64;

/// Where the newest entry of each key lies.
pub(crate) struct Index {
    hasher: KeyHasher,
    views: Vec<ArcSwap<View>>,
    /// A bypass is full with so many slots, by the numbers of the shards.
    full_entries: Vec<u64>,
    /// Deletes up to this sequence number may have vanished from the index.
    deletes_vanished_through: AtomicU64,
    pub(crate) writers: Mutex<Writers>,
}

/// The tables of a shard, as readers see them: the newest first.
pub(crate) struct View {
    bypass: Arc<DramTable>,
    /// The bypass that is being merged. Nothing changes in it.
    pub(crate) frozen: Option<Arc<DramTable>>,
    /// Tables of bypasses that were dumped (section 2.4 of the paper), the newest first, and then that of the last level.
    pub(crate) tables: Vec<Arc<ShardTable>>,
}

impl View {
    #[inline]
    fn find(&self, identity: &Identity) -> Result<Option<Slot>> {
        if let Some(slot) = self.bypass.get(identity) {
            return Ok(Some(slot));
        }
        if let Some(slot) = self.frozen.as_ref().and_then(|frozen| frozen.get(identity)) {
            return Ok(Some(slot));
        }
        for table in &self.tables {
            let found = table.get(identity)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    pub(crate) fn entries(&self, shard: u16) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.entries());
        self.bypass.entries() + frozen + self.entries_of_tables(shard)
    }

    /// How many slots its tables have that are not in DRAM.
    pub(crate) fn entries_of_tables(&self, shard: u16) -> u64 {
        self.tables.iter().filter_map(|table| table.entries_of(shard)).map(u64::from).sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.bypass.memory_bytes() + self.frozen.as_ref().map_or(0, |frozen| frozen.memory_bytes())
    }
}

/// What an opening has found of a shard.
pub(crate) struct FoundShard {
    /// What came since the newest table.
    pub(crate) bypass: DramWriter,
    /// See [`View::tables`].
    pub(crate) tables: Vec<Arc<ShardTable>>,
    /// Up to this epoch they have everything.
    pub(crate) covered_through: u32,
}

impl FoundShard {
    /// All shards of a store, without slots.
    pub(crate) fn all(hasher: &KeyHasher) -> Vec<FoundShard> {
        let new = |shard| FoundShard {
            bypass: DramWriter::new(hasher.load_percent(shard as u16), 0),
            tables: Vec::new(),
            covered_through: 0,
        };
        (0..hasher.shards()).map(new).collect()
    }

    /// Puts a slot into the bypass.
    pub(crate) fn insert(&mut self, slot: Slot, leads_to: &mut HashMap<u32, Leads>) {
        Leads::add(leads_to, &slot);
        if let Some(replaced) = self.bypass.insert(slot) {
            Leads::subtract(leads_to, &replaced);
        }
    }
}

impl Index {
    /// Of shards as they were found. A bypass may take so many bytes for all of them together.
    pub(crate) fn new(
        hasher: KeyHasher,
        found: Vec<FoundShard>,
        rows: Vec<Row>,
        leads_to: HashMap<u32, Leads>,
        bypass_bytes: u64,
    ) -> Index {
        let homes = (bypass_bytes / u64::from(hasher.shards()) / SLOT_BYTES).max(HOMES_MIN);
        let homes: u64 = 1 << homes.ilog2();
        let full = |shard| (u128::from(homes) * u128::from(hasher.load_percent(shard as u16)) / 100) as u64;
        let full_entries = (0..found.len()).map(full).collect();
        let view = |shard: &FoundShard| {
            ArcSwap::from_pointee(View {
                bypass: shard.bypass.table().clone(),
                frozen: None,
                tables: shard.tables.clone(),
            })
        };
        let views = found.iter().map(view).collect();
        let epoch = rows.iter().map(|row| row.epoch).chain(found.iter().map(|shard| shard.covered_through)).max();
        let shard = |found: FoundShard| ShardWriter {
            bypass: found.bypass,
            frozen_at: None,
            covered_through: found.covered_through,
        };
        let writers = Writers {
            shards: found.into_iter().map(shard).collect(),
            rows,
            epoch: epoch.unwrap_or(0),
            collections: 0,
            leads_to,
        };
        let deletes_vanished_through = AtomicU64::new(0);
        Index {
            hasher,
            views,
            full_entries,
            deletes_vanished_through,
            writers: Mutex::ranked(lock_order::INDEXING, writers),
        }
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The numbers of all shards.
    pub(crate) fn shards(&self) -> impl Iterator<Item = u16> + Clone + use<> {
        (0..self.views.len()).map(|shard| shard as u16)
    }

    /// What stands for a key.
    #[inline]
    pub(crate) fn identity(&self, key: &[u8]) -> Identity {
        self.hasher.identity(key)
    }

    /// The slot of a key. Waits for nobody.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Slot>> {
        self.find_identity(&self.identity(key))
    }

    #[inline]
    pub(crate) fn find_identity(&self, identity: &Identity) -> Result<Option<Slot>> {
        self.views[usize::from(identity.shard())].load().find(identity)
    }

    /// Whether a key that is not in the index may have been deleted after this moment.
    pub(crate) fn forgets_deletes_after(&self, moment: u64) -> bool {
        moment < self.deletes_vanished_through.load(Ordering::Acquire)
    }

    /// Takes note that deletes up to this sequence number vanish, before they do.
    pub(crate) fn note_vanishing(&self, through: u64) {
        self.deletes_vanished_through.fetch_max(through, Ordering::AcqRel);
    }

    /// The tables of a shard.
    pub(crate) fn view(&self, shard: u16) -> Arc<View> {
        self.views[usize::from(shard)].load_full()
    }

    /// How many slots its tables have, those of deletes and those that a newer one hides too.
    pub(crate) fn keys(&self) -> u64 {
        self.shards().map(|shard| self.view(shard).entries(shard)).sum()
    }

    /// What it takes in memory, in bytes. (What other tables have is in files or in the pool.)
    pub(crate) fn memory_bytes(&self) -> u64 {
        let views = || self.views.iter().map(|view| view.load_full());
        let tables = views().flat_map(|view| view.tables.clone());
        let tables: HashMap<u32, u64> = tables.map(|table| (table.record().number, table.memory_bytes())).collect();
        views().map(|view| view.memory_bytes()).sum::<u64>() + tables.values().sum::<u64>()
    }

    /// Whether a shard's bypass is full, or one is frozen.
    pub(crate) fn is_due(&self, shard: u16) -> bool {
        let view = self.views[usize::from(shard)].load();
        view.frozen.is_some() || view.bypass.entries() >= self.full_entries[usize::from(shard)]
    }

    /// A shard's bypass is full with so many slots.
    pub(crate) fn full_entries_of(&self, shard: u16) -> u64 {
        self.full_entries[usize::from(shard)]
    }

    /// How many slots bypasses have, frozen ones too, as a part of what all have when they are full. Some shards do not count.
    pub(crate) fn fullness(&self, without: &BTreeSet<u16>) -> f64 {
        let in_dram = |shard| {
            let view = self.views[usize::from(shard)].load();
            view.bypass.entries() + view.frozen.as_ref().map_or(0, |frozen| frozen.entries())
        };
        self.shards().filter(|shard| !without.contains(shard)).map(in_dram).sum::<u64>() as f64
            / self.full_entries() as f64
    }

    /// All bypasses are full with so many slots.
    pub(crate) fn full_entries(&self) -> u64 {
        self.full_entries.iter().sum()
    }

    /// The section of the MANIFEST with these rows.
    pub(crate) fn part(&self, rows: &[Row]) -> (u8, Vec<u8>) {
        tables_part(self.hasher.shards(), rows)
    }

    /// All slots of a shard, of each identity the newest. REQUIRES: the caller has the writers.
    pub(crate) fn slots(&self, shard: u16, mut take: impl FnMut(Slot)) -> Result<()> {
        let view = self.view(shard);
        let bypass: Slots<'_> = Box::new(view.bypass.slots().map(Ok));
        let mut merge = Merge::new([bypass].into_iter().chain(below(&view, shard)), Deletes::Kept)?;
        while let Some(slot) = merge.next(|_| ())? {
            take(slot);
        }
        Ok(())
    }

    /// Lets new bypasses take over. What the old ones have comes up to [`Writers::epoch`].
    pub(crate) fn freeze(&self, writers: &mut Writers, shards: &[u16]) {
        for &shard in shards {
            let writer = &mut writers.shards[usize::from(shard)];
            let new = DramWriter::new(self.hasher.load_percent(shard), 0);
            let old = self.view(shard);
            let view =
                View { bypass: new.table().clone(), frozen: Some(old.bypass.clone()), tables: old.tables.clone() };
            (writer.bypass, writer.frozen_at) = (new, Some(writers.epoch));
            self.views[usize::from(shard)].store(Arc::new(view));
        }
    }

    /// Lets a new table take over from frozen bypasses, and from all old tables unless it `is_dumped`. REQUIRES: it is the store's.
    pub(crate) fn take_table(&self, writers: &mut Writers, shards: &[u16], table: &Arc<ShardTable>, is_dumped: bool) {
        for &shard in shards {
            let writer = &mut writers.shards[usize::from(shard)];
            writer.covered_through = writer.frozen_at.take().unwrap_or(writer.covered_through);
            let bypass = writer.bypass.table().clone();
            let mut tables = vec![table.clone()];
            if is_dumped {
                tables.extend(self.view(shard).tables.iter().cloned());
            }
            let view = View { bypass, frozen: None, tables };
            self.views[usize::from(shard)].store(Arc::new(view));
        }
    }
}

/// The slots of a table, in the order of their hashes.
pub(crate) type Slots<'s> = Box<dyn Iterator<Item = Result<Slot>> + 's>;

/// What a shard has below its bypass, the newest first.
pub(crate) fn below(view: &View, shard: u16) -> impl Iterator<Item = Slots<'_>> {
    let frozen = view.frozen.iter().map(|frozen| Box::new(frozen.slots().map(Ok)) as Slots<'_>);
    frozen.chain(view.tables.iter().map(move |table| Box::new(table.slots(shard)) as Slots<'_>))
}

/// What changes the tables of a shard.
struct ShardWriter {
    bypass: DramWriter,
    /// What is frozen comes up to this epoch.
    frozen_at: Option<u32>,
    /// Up to this epoch the tables have everything.
    covered_through: u32,
}

/// Those who change the tables of the shards.
pub(crate) struct Writers {
    shards: Vec<ShardWriter>,
    /// The tables that are the store's, and the table files whose slots are in none.
    rows: Vec<Row>,
    /// The last epoch that was given out.
    epoch: u32,
    /// How many collections are under way: each commits with the epoch in which it has begun, so no bypass is frozen meanwhile.
    collections: usize,
    /// How many slots lead to each table file, and for how many of them that is a delete. A slot that a newer table hides counts
    /// until it is merged away.
    leads_to: HashMap<u32, Leads>,
}

/// How many slots lead to a table file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Leads {
    /// To puts.
    pub(crate) puts: u64,
    /// To deletes. One whose slot was merged away, as nothing of the index was left that it hid, still counts.
    pub(crate) deletes: u64,
}

impl Leads {
    /// To entries.
    pub(crate) fn entries(&self) -> u64 {
        self.puts + self.deletes
    }

    fn count(&mut self, slot: &Slot) -> &mut u64 {
        if slot.is_delete() { &mut self.deletes } else { &mut self.puts }
    }

    /// Counts a slot.
    pub(crate) fn add(leads_to: &mut HashMap<u32, Leads>, slot: &Slot) {
        *leads_to.entry(slot.place().file).or_default().count(slot) += 1;
    }

    /// Counts a slot no more.
    pub(crate) fn subtract(leads_to: &mut HashMap<u32, Leads>, slot: &Slot) {
        if let Some(leads) = leads_to.get_mut(&slot.place().file) {
            let count = leads.count(slot);
            *count = count.saturating_sub(1);
        }
    }
}

impl Writers {
    /// Puts a slot in.
    pub(crate) fn insert(&mut self, identity: &Identity, slot: Slot) {
        let replaced = self.shards[usize::from(identity.shard())].bypass.insert(slot);
        Leads::add(&mut self.leads_to, &slot);
        if let Some(before) = replaced {
            self.count_lost(&before);
        }
    }

    /// Takes note that a slot is in no table any more.
    pub(crate) fn count_lost(&mut self, slot: &Slot) {
        Leads::subtract(&mut self.leads_to, slot);
    }

    /// Takes note that a table file has so many deletes that no slot leads to, but which hide something in other files.
    pub(crate) fn count_hiding_deletes(&mut self, file: u32, deletes: u64) {
        self.leads_to.entry(file).or_default().deletes += deletes;
    }

    /// Forgets table files that are the store's no more.
    pub(crate) fn forget(&mut self, files: &[u32]) {
        self.leads_to.retain(|file, _| !files.contains(file));
    }

    /// How many slots lead to each table file.
    pub(crate) fn leads_to(&self) -> &HashMap<u32, Leads> {
        &self.leads_to
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// These rows are in the MANIFEST.
    pub(crate) fn take_rows(&mut self, rows: Vec<Row>) {
        self.rows = rows;
    }

    /// The last epoch that was given out.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Gives a new epoch out.
    pub(crate) fn next_epoch(&mut self) -> Result<u32> {
        self.epoch = self.epoch.checked_add(1).ok_or_else(|| Error::invalid("the index has no epochs left"))?;
        Ok(self.epoch)
    }

    /// Begins a collection. Returns its epoch.
    pub(crate) fn begin_collection(&mut self) -> Result<u32> {
        let epoch = self.next_epoch()?;
        self.collections += 1;
        Ok(epoch)
    }

    pub(crate) fn end_collection(&mut self) {
        self.collections -= 1;
    }

    /// Whether a collection is under way.
    pub(crate) fn is_collecting(&self) -> bool {
        self.collections > 0
    }

    /// The epoch of a shard's frozen bypass, if it has one.
    pub(crate) fn frozen_at(&self, shard: u16) -> Option<u32> {
        self.shards[usize::from(shard)].frozen_at
    }

    /// How many slots a shard's bypass has.
    pub(crate) fn bypass_entries(&self, shard: u16) -> u64 {
        self.shards[usize::from(shard)].bypass.table().entries()
    }

    /// The slots of a shard's bypass.
    pub(crate) fn bypass(&self, shard: u16) -> impl Iterator<Item = Slot> + '_ {
        self.shards[usize::from(shard)].bypass.slots()
    }

    /// Which rows are left once a new table takes over in some shards: `through` is the epoch of their frozen bypasses, `in_use` are the
    /// tables that shards have then. Upper tables go when each shard has all of their slots in another one, or has none of them.
    pub(crate) fn rows_after_merge(&self, merged: &BTreeSet<u16>, through: u32, in_use: &BTreeSet<u32>) -> Vec<Row> {
        let covered = |(shard, writer): (usize, &ShardWriter)| match merged.contains(&(shard as u16)) {
            true => through,
            false if writer.frozen_at.is_none() && writer.bypass.table().entries() == 0 => u32::MAX,
            false => writer.covered_through,
        };
        let covered = self.shards.iter().enumerate().map(covered).min().unwrap_or(0);
        let is_left = |row: &&Row| match row.level {
            Level::Last | Level::Dumped => in_use.contains(&row.number),
            Level::Upper | Level::KeySection => row.epoch > covered,
        };
        self.rows.iter().filter(is_left).copied().collect()
    }
}

/// The slot of an entry of a table file.
pub(crate) fn slot_of(identity: &Identity, file: u32, entry: &KeyEntry<'_>) -> Result<Slot> {
    let Place { offset, length } = entry.place;
    Slot::new(identity, SlotPlace { file, offset, length_bytes: length }, entry.kind == EntryKind::Delete)
}

/// Whether a slot leads to this place.
pub(crate) fn is_at(slot: &Slot, file: u32, place: Place) -> bool {
    slot.place() == SlotPlace { file, offset: place.offset, length_bytes: place.length }
}

/// The place that a slot leads to, in its table file.
pub(crate) fn place_of(slot: &Slot) -> Place {
    let SlotPlace { offset, length_bytes, .. } = slot.place();
    Place { offset, length: length_bytes }
}
