//! What a store says of itself as text, by name: the field's tradition, built on [`Stats`] and [`TableFile`].

use slmdb_engine::{Counters, Stats, TableFile, WriteAmplification};

use crate::Db;

/// What all names begin with.
const PREFIX: &str = "slmdb.";

/// See [`Db::property`].
pub(crate) fn property(db: &Db, name: &str) -> Option<String> {
    match name.strip_prefix(PREFIX)? {
        "table-files" => Some(table(&db.table_files())),
        "stats" => {
            let lines = numbers(&db.stats()).into_iter().map(|(name, number)| format!("{name}: {number}\n"));
            Some(lines.collect())
        }
        name => numbers(&db.stats()).into_iter().find(|(other, _)| other == name).map(|(_, number)| number),
    }
}

/// See [`Db::property_names`].
pub(crate) fn names(db: &Db) -> Vec<String> {
    let numbers = numbers(&db.stats()).into_iter().map(|(name, _)| name);
    ["stats".into(), "table-files".into()]
        .into_iter()
        .chain(numbers)
        .map(|name: String| PREFIX.to_owned() + &name)
        .collect()
}

/// The numbers by the names of their fields, with hyphens.
fn numbers(stats: &Stats) -> Vec<(String, String)> {
    macro_rules! fields {
        ($of:expr; $($field:ident)*) => { vec![$((stringify!($field).replace('_', "-"), $of.$field.to_string())),*] };
    }
    let mut numbers = fields![stats;
        format_version medium last_sequence_number index_keys index_height memtable_entries memtable_bytes
        immutable_memtables table_files table_bytes live_bytes fast_tier_bytes fast_tier_node_bytes
        fast_tier_key_segment_bytes fast_tier_index_bytes_per_key memory_bytes open_cursors replaced_records_kept];
    numbers.retain(|(name, _)| name != "table-files"); // that is the table of them
    let parts = stats.memory.parts().into_iter();
    numbers.extend(parts.map(|(name, bytes)| (format!("memory.{}", name.replace('_', "-")), bytes.to_string())));
    numbers.push(("table-files-count".into(), stats.table_files.to_string()));
    numbers.push(("space-amplification".into(), format!("{:.3}", stats.space_amplification())));
    let waits = fields![stats.waits; pace_us compaction_us flush_us memtable_us space_us longest_us];
    numbers.extend(waits.into_iter().map(|(name, number)| (format!("waits.{name}"), number)));
    let choices = fields![stats.choices; candidates leaf_node_scans leaf_node_scan_keys];
    numbers.extend(choices.into_iter().map(|(name, number)| (format!("compaction-choices.{name}"), number)));
    for (scheme, chosen) in stats.choices.parts() {
        let name = |field: &str| format!("compaction-choices.by-{scheme}.{field}").replace('_', "-");
        numbers.extend(chosen.named().map(|(field, number)| (name(field), number.to_string())));
    }
    let waits_for = stats.flush_waits_for.clone().unwrap_or_else(|| "nothing".into());
    numbers.push(("flush-waits-for".into(), waits_for));
    numbers.extend(counted("since-open", &stats.since_open));
    numbers.extend(counted("lifetime", &stats.lifetime));
    numbers
}

fn counted(since: &str, counters: &Counters) -> Vec<(String, String)> {
    let WriteAmplification { files, fast_tier, compactions, .. } = WriteAmplification::of(counters);
    let amplification = [("files", files), ("fast-tier", fast_tier), ("compactions", compactions)];
    let counters = counters.named().map(|(name, number)| (name.replace('_', "-"), number.to_string()));
    let amplification = amplification.map(|(of, ratio)| (format!("write-amplification.{of}"), format!("{ratio:.3}")));
    let all = counters.into_iter().chain(amplification);
    all.map(|(name, number)| (format!("{since}.{name}"), number)).collect()
}

/// Table files, a line each, under a line of names; in columns.
fn table(files: &[TableFile]) -> String {
    let heads = ["number", "bytes", "entries", "live", "deletes", "sequence numbers", "keys"];
    let mut rows = vec![heads.map(String::from)];
    rows.extend(files.iter().map(|file| {
        [
            file.number.to_string(),
            file.bytes.to_string(),
            file.entries.to_string(),
            file.live.to_string(),
            file.deletes.to_string(),
            format!("{} to {}", file.lowest_sequence, file.highest_sequence),
            format!("{} to {}", file.smallest_key.escape_ascii(), file.largest_key.escape_ascii()),
        ]
    }));
    let last = heads.len() - 1;
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..last).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:>width$}  "));
        }
        text.push_str(&row[last]);
        text.push('\n');
    }
    text
}
