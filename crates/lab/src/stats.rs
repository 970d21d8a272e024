//! What a store reports of itself: [`Stats`], [`TableFile`]s, estimates of ranges.

use std::ops::Bound;

use slmdb_engine::files::file_records::table_file;
use slmdb_engine::{CompactionChoices, FORMAT_VERSION, Stats, TableFile};
use slmdb_levels::{Run, TableRun};
use slmdb_manifest::{FileRecord, MediumKind};
use slmdb_pmem::{ExtentKind, Medium};

use crate::KIND;
use crate::engine::Lab;

impl<M: Medium + Clone> Lab<M> {
    /// See [`slmdb_engine::Engine::table_files`]. A key of a run file lives if a tree leads there. In a file of a level all
    /// that are no deletes are taken to live.
    pub(crate) fn list_table_files(&self) -> Vec<TableFile> {
        let live = self.level_zero.live();
        let live_keys = |number: u32, file: &FileRecord| match file.level {
            // (How many of the records are deletes is not counted.)
            0 => live.get(&number).copied().unwrap_or(0).saturating_sub(file.deletes),
            _ => file.entries - file.deletes,
        };
        let catalog = self.catalog.lock();
        let files = catalog.state().files.iter();
        files.map(|(&number, file)| table_file(number, file, live_keys(number, file))).collect()
    }

    /// See [`slmdb_engine::Engine::stats`]. `index_keys` are those of level 0.
    pub(crate) fn make_stats(&self) -> Stats {
        let view = self.writes.view.load_full();
        let (medium, table_bytes, table_files) = {
            let catalog = self.catalog.lock();
            let medium = match catalog.state().medium.kind {
                MediumKind::Dram => "dram",
                MediumKind::Emulated => "emulated",
                MediumKind::Dax => "dax",
            };
            let files = &catalog.state().files;
            (medium, files.values().map(|file| file.length_bytes).sum::<u64>(), files.len() as u64)
        };
        let live_bytes = self.live_bytes();
        let extents = self.level_zero.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum::<u64>();
        let (node_bytes, record_bytes) = (taken_by(ExtentKind::Leaves), taken_by(ExtentKind::Records));
        let (index_keys, memory) = (self.level_zero.keys(), self.memory.memory());
        let kept = self.level_zero.snapshots.kept();
        let since_open = self.lifetime.since_open();
        let (mapped_table_files, mapped_table_bytes) = self.tables.mapped();
        let (immutable_memtables, flush_waits_for) = {
            let memtables = self.writes.memtables.lock();
            (memtables.immutables as u64, memtables.blocked_flush.as_ref().map(|blocked| blocked.cause.to_string()))
        };
        Stats {
            format_version: FORMAT_VERSION,
            engine: KIND.name,
            medium,
            index_keys,
            memtable_entries: view.memtables.iter().map(|m| m.entries()).sum(),
            memtable_bytes: view.memtables.iter().map(|m| m.used_bytes()).sum(),
            immutable_memtables,
            table_files,
            table_bytes,
            live_bytes,
            mapped_table_files,
            mapped_table_bytes,
            fast_tier_bytes: self.level_zero.pool.used_bytes(),
            fast_tier_node_bytes: node_bytes,
            fast_tier_key_segment_bytes: record_bytes,
            fast_tier_index_bytes_per_key: match index_keys {
                0 => 0.0,
                keys => (node_bytes + record_bytes) as f64 / keys as f64,
            },
            index_height: 1,
            memory_budget_bytes: self.context.options.memory_budget_bytes,
            memory_bytes: memory.total_bytes(),
            memory,
            last_sequence_number: self.writes.publication.published(),
            replaced_records_kept: kept.records,
            replaced_records_bytes: kept.bytes,
            open_cursors: kept.cursors,
            open_snapshots: kept.snapshots,
            stalls: self.context.counted.stalls.stats(),
            flush_waits_for,
            choices: CompactionChoices::default(),
            since_open,
            lifetime: self.lifetime.of_store(),
        }
    }

    /// What is not garbage, about: the deepest level, and what lies above it and overlaps nothing below. While level 0 has
    /// more than that, what level 0 leads to.
    /// LOCKS: catalog
    fn live_bytes(&self) -> u64 {
        let version = self.levels.current();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let deepest = version.deepest_level(everything).unwrap_or(0);
        let is_alone = |level: u8, run: &TableRun| {
            let record = run.record();
            let range = (Bound::Included(&record.smallest_key[..]), Bound::Included(&record.largest_key[..]));
            (level + 1..=deepest).all(|below| version.overlapping(below, range).is_empty())
        };
        let of_levels = version.runs().filter(|(level, run)| is_alone(*level, run)).map(|(_, run)| run.record().bytes);
        let (of_levels, means) = (of_levels.sum::<u64>(), self.reader.mean_entry_bytes());
        let live = self.level_zero.live();
        let of_level_zero: f64 =
            live.iter().map(|(file, &records)| means.get(file).copied().unwrap_or(0.0) * records as f64).sum();
        of_levels.max(of_level_zero as u64)
    }
}
