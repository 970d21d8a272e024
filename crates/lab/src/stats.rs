//! What a store reports of itself: [`Stats`], [`TableFile`]s, estimates of ranges.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use slmdb_engine::context::StoreContext;
use slmdb_engine::{Approximate, CompactionChoices, FORMAT_VERSION, Stats, TableFile};
use slmdb_env::Result;
use slmdb_manifest::{Counters, MediumKind};
use slmdb_pmem::{ExtentKind, FlushCounters, Medium};

use crate::KIND;
use crate::engine::Lab;
use crate::level_zero::LevelZero;

/// Counters since a store was opened.
pub(crate) fn since_open<M: Medium>(context: &StoreContext, level_zero: &LevelZero<M>) -> Counters {
    let FlushCounters { persists, lines_flushed, media_bytes, bytes_asked } = level_zero.pool.medium().counters();
    let counted = &context.counted;
    Counters {
        user_bytes_put: counted.user_bytes_put.load(Ordering::Relaxed),
        file_bytes_written: counted.file_bytes_written.load(Ordering::Relaxed),
        persists,
        lines_flushed,
        media_bytes,
        fast_tier_bytes_asked: bytes_asked,
        flushes: counted.flushes.load(Ordering::Relaxed),
        compactions: counted.compactions.load(Ordering::Relaxed),
        compaction_bytes_read: counted.compaction_bytes_read.load(Ordering::Relaxed),
        compaction_bytes_written: counted.compaction_bytes_written.load(Ordering::Relaxed),
        stall_us: counted.stalls.total_ns() / 1000,
    }
}

impl<M: Medium + Clone> Lab<M> {
    /// See [`slmdb_engine::Engine::table_files`]. How many of a file's keys live is not known.
    pub(crate) fn list_table_files(&self) -> Vec<TableFile> {
        let catalog = self.catalog.lock();
        let files = catalog.state().files.iter().map(|(&number, file)| TableFile {
            number,
            bytes: file.length_bytes,
            entries: file.entries,
            live_keys: file.live_keys,
            deletes: file.deletes,
            smallest_key: file.smallest_key.clone(),
            largest_key: file.largest_key.clone(),
            lowest_sequence: file.lowest_sequence,
            highest_sequence: file.highest_sequence,
            created_unix_ns: file.created_unix_ns,
        });
        files.collect()
    }

    /// See [`slmdb_engine::Engine::stats`]. `index_keys` are those of level 0. `live_bytes` is what the deepest level has, about.
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
        let version = self.levels.current();
        let live_bytes = (1..=slmdb_levels::LEVEL_LAST).map(|level| version.level_bytes(level)).max().unwrap_or(0);
        let extents = self.level_zero.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum::<u64>();
        let (node_bytes, record_bytes) = (taken_by(ExtentKind::Leaves), taken_by(ExtentKind::Records));
        let (index_keys, memory) = (self.level_zero.keys(), self.memory.memory());
        let kept = self.level_zero.snapshots.kept();
        let since_open = since_open(&self.context, &self.level_zero);
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
            lifetime: self.lifetime_before.plus(&since_open),
        }
    }

    /// See [`slmdb_engine::Engine::approximate`]: what the levels have in the range. Level 0 and the MemTables count as
    /// a whole.
    pub(crate) fn estimate(&self, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Approximate> {
        let of_levels = self.levels.current().approximate(range)?;
        let memtables = self.writes.view.load_full();
        Ok(Approximate {
            keys: of_levels.entries + self.level_zero.keys(),
            table_bytes: of_levels.bytes,
            memtable_bytes: memtables.memtables.iter().map(|memtable| memtable.used_bytes()).sum(),
        })
    }
}
