//! What a store reports of itself, as far as it is the same for each engine.

use slmdb_manifest::MediumKind;

use super::parts::Parts;
use crate::stats::Stats;
use crate::{CompactionChoices, FORMAT_VERSION};

impl Parts {
    /// The statistics that know no engine.
    /// LOCKS: those of [`Parts::memory`]
    pub(super) fn stats(&self, engine: &'static str) -> Stats {
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
        let (memory, kept) = (self.memory(), self.state.moments().kept());
        let since_open = self.lifetime.since_open();
        let (mapped_table_files, mapped_table_bytes) = self.tables.mapped();
        let (immutable_memtables, flush_waits_for) = {
            let memtables = self.writes.memtables.lock();
            (memtables.immutables as u64, memtables.blocked_flush.as_ref().map(ToString::to_string))
        };
        Stats {
            format_version: FORMAT_VERSION,
            engine,
            medium,
            index_keys: 0,
            memtable_entries: view.memtables.iter().map(|memtable| memtable.entries()).sum(),
            memtable_bytes: view.memtables.iter().map(|memtable| memtable.used_bytes()).sum(),
            immutable_memtables,
            table_files,
            table_bytes,
            live_bytes: 0,
            mapped_table_files,
            mapped_table_bytes,
            fast_tier_bytes: self.state.pool().used_bytes(),
            fast_tier_node_bytes: 0,
            fast_tier_key_segment_bytes: 0,
            fast_tier_index_bytes_per_key: 0.0,
            index_height: 0,
            levels: Vec::new(),
            demotions: 0,
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
            fast_tier_reads: self.lifetime.fast_tier_reads(),
            since_open,
            lifetime: self.lifetime.of_store(),
        }
    }
}

impl Stats {
    /// Sets what the index takes of the fast tier, beside the number of its keys.
    pub fn count_index(&mut self, keys: u64, node_bytes: u64, record_bytes: u64) {
        self.index_keys = keys;
        self.fast_tier_node_bytes = node_bytes;
        self.fast_tier_key_segment_bytes = record_bytes;
        self.fast_tier_index_bytes_per_key = match keys {
            0 => 0.0,
            keys => (node_bytes + record_bytes) as f64 / keys as f64,
        };
    }
}
