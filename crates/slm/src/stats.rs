//! What a store reports of itself: [`Stats`], [`TableFile`]s.

use slmdb_engine::files::file_records::table_file;
use slmdb_engine::{FORMAT_VERSION, Stats, TableFile};
use slmdb_manifest::{FileRecord, MediumKind};
use slmdb_pmem::{ExtentKind, Medium};

use crate::KIND;
use crate::engine::Slm;

impl<M: Medium + Clone> Slm<M> {
    /// See [`slmdb_engine::Engine::table_files`].
    pub(crate) fn list_table_files(&self) -> Vec<TableFile> {
        let catalog = self.catalog.lock();
        let files = catalog.state().files.iter();
        files.map(|(&number, file)| table_file(number, file, file.live_keys)).collect()
    }

    /// See [`slmdb_engine::Engine::stats`].
    pub(crate) fn make_stats(&self) -> Stats {
        let view = self.writes.view.load_full();
        let (medium, index_keys, table_bytes, live_bytes, table_files) = {
            let catalog = self.catalog.lock();
            let medium = match catalog.state().medium.kind {
                MediumKind::Dram => "dram",
                MediumKind::Emulated => "emulated",
                MediumKind::Dax => "dax",
            };
            let files = &catalog.state().files;
            let live: u64 = files.values().map(|file| file.live_keys).sum();
            let bytes: u64 = files.values().map(|file| file.length_bytes).sum();
            let share = |file: &FileRecord| {
                (u128::from(file.length_bytes) * u128::from(file.live_keys) / u128::from(file.entries.max(1))) as u64
            };
            (medium, live, bytes, files.values().map(share).sum::<u64>(), files.len() as u64)
        };
        let extents = self.index.pool.extents();
        let taken_by =
            |kind| extents.iter().filter(|extent| extent.kind == kind).map(|extent| extent.length_bytes).sum::<u64>();
        let (node_bytes, key_segment_bytes) = (taken_by(ExtentKind::Blocks), taken_by(ExtentKind::KeySegment));
        let memtable_bytes = view.memtables.iter().map(|m| m.used_bytes()).sum();
        let memory = self.memory.memory();
        let kept = self.index.snapshots.kept();
        let since_open = self.lifetime.since_open();
        let (mapped_table_files, mapped_table_bytes) = self.reader.tables.mapped();
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
            memtable_bytes,
            immutable_memtables,
            table_files,
            table_bytes,
            live_bytes,
            mapped_table_files,
            mapped_table_bytes,
            fast_tier_bytes: self.index.pool.used_bytes(),
            fast_tier_node_bytes: node_bytes,
            fast_tier_key_segment_bytes: key_segment_bytes,
            fast_tier_index_bytes_per_key: match index_keys {
                0 => 0.0,
                keys => (node_bytes + key_segment_bytes) as f64 / keys as f64,
            },
            // If the root can't be read, `verify` reports it.
            index_height: self.index.tree.height().unwrap_or(0),
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
            choices: self.candidates.choices(),
            since_open,
            lifetime: self.lifetime.of_store(),
        }
    }
}
