//! A store's numbers as a dictionary, under the names of `slmdb stats --json`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use slmdb::{Chosen, CompactionChoices, Counters, LevelStats, Stats, TableFile, WriteAmplification};

/// What a store holds and has done.
pub fn dictionary<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, word) in [
        ("engine", stats.engine),
        ("medium", stats.medium),
        ("flush_waits_for", stats.flush_waits_for.as_deref().unwrap_or("nothing")),
    ] {
        dictionary.set_item(name, word)?;
    }
    for (name, ratio) in [
        ("space_amplification", stats.space_amplification()),
        ("fast_tier_index_bytes_per_key", stats.fast_tier_index_bytes_per_key),
    ] {
        dictionary.set_item(name, ratio)?;
    }
    for (name, number) in numbers(stats).into_iter().chain(stats.memory.parts()) {
        dictionary.set_item(name, number)?;
    }
    dictionary.set_item("levels", levels(py, stats)?)?;
    dictionary.set_item("compaction_choices", choices(py, &stats.choices)?)?;
    dictionary.set_item("since_open", counters(py, &stats.since_open)?)?;
    dictionary.set_item("lifetime", counters(py, &stats.lifetime)?)?;
    Ok(dictionary)
}

fn numbers(stats: &Stats) -> [(&'static str, u64); 30] {
    let waits = &stats.stalls;
    [
        ("format_version", u64::from(stats.format_version)),
        ("last_sequence_number", stats.last_sequence_number),
        ("open_cursors", stats.open_cursors),
        ("open_snapshots", stats.open_snapshots),
        ("replaced_records_kept", stats.replaced_records_kept),
        ("memory_budget_bytes", stats.memory_budget_bytes),
        ("memory_bytes", stats.memory_bytes),
        ("memtable_entries", stats.memtable_entries),
        ("memtable_bytes", stats.memtable_bytes),
        ("immutable_memtables", stats.immutable_memtables),
        ("table_files", stats.table_files),
        ("table_bytes", stats.table_bytes),
        ("live_bytes", stats.live_bytes),
        ("mapped_table_files", stats.mapped_table_files),
        ("mapped_table_bytes", stats.mapped_table_bytes),
        ("index_keys", stats.index_keys),
        ("index_height", u64::from(stats.index_height)),
        ("fast_tier_bytes", stats.fast_tier_bytes),
        ("fast_tier_node_bytes", stats.fast_tier_node_bytes),
        ("fast_tier_key_segment_bytes", stats.fast_tier_key_segment_bytes),
        ("fast_tier_reads", stats.fast_tier_reads),
        ("demotions", stats.demotions),
        ("wait_for_pace_us", waits.pace_us),
        ("wait_for_compaction_us", waits.compaction_us),
        ("compaction_idle_while_paced_us", waits.compaction_idle_while_paced_us),
        ("wait_for_flush_us", waits.flush_us),
        ("wait_for_memtable_us", waits.memtable_us),
        ("wait_for_space_us", waits.space_us),
        ("longest_wait_us", waits.longest_us),
        ("replaced_records_bytes", stats.replaced_records_bytes),
    ]
}

/// The levels that have something, a dictionary each.
fn levels<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let of_level = |(number, level): (usize, &LevelStats)| {
        let dictionary = PyDict::new(py);
        dictionary.set_item("level", number)?;
        for (name, number) in level.named() {
            dictionary.set_item(name, number)?;
        }
        Ok(dictionary)
    };
    stats.levels_with_runs().map(of_level).collect()
}

fn counters<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, number) in counters.named() {
        dictionary.set_item(name, number)?;
    }
    let amplification = WriteAmplification::of(counters);
    for (name, ratio) in [
        ("write_amplification_of_files", amplification.files),
        ("write_amplification_of_fast_tier", amplification.fast_tier),
        ("write_amplification_of_compactions", amplification.compactions),
    ] {
        dictionary.set_item(name, ratio)?;
    }
    Ok(dictionary)
}

fn choices<'py>(py: Python<'py>, choices: &CompactionChoices) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    dictionary.set_item("candidates", choices.candidates)?;
    dictionary.set_item("leaf_node_scans_made", choices.leaf_node_scans)?;
    dictionary.set_item("leaf_node_scan_keys", choices.leaf_node_scan_keys)?;
    for (name, chosen) in choices.parts() {
        dictionary.set_item(name, numbers_of(py, &chosen)?)?;
    }
    Ok(dictionary)
}

fn numbers_of<'py>(py: Python<'py>, chosen: &Chosen) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, number) in chosen.named() {
        dictionary.set_item(name, number)?;
    }
    Ok(dictionary)
}

/// What is known of a table file, under the names of `slmdb stats --files --json`. Keys are bytes.
pub fn of_table_file<'py>(py: Python<'py>, file: &TableFile) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, number) in [
        ("number", u64::from(file.number)),
        ("level", u64::from(file.level)),
        ("bytes", file.bytes),
        ("entries", file.entries),
        ("live", file.live_keys),
        ("deletes", file.deletes),
        ("lowest_sequence_number", file.lowest_sequence),
        ("highest_sequence_number", file.highest_sequence),
        ("created_unix_ns", file.created_unix_ns),
    ] {
        dictionary.set_item(name, number)?;
    }
    dictionary.set_item("in_pool", file.is_in_pool)?;
    dictionary.set_item("smallest_key", PyBytes::new(py, &file.smallest_key))?;
    dictionary.set_item("largest_key", PyBytes::new(py, &file.largest_key))?;
    Ok(dictionary)
}
