//! What a store says of itself as text: all its numbers, and its table files.

use slmdb::{Counters, Stats, TableFile, WriteAmplification};

/// All numbers of [`Stats`], a line each.
pub fn stats(stats: &Stats) -> String {
    numbers(stats).into_iter().map(|(name, number)| format!("{name}: {number}\n")).collect()
}

/// The numbers by the names of their fields, with hyphens.
fn numbers(stats: &Stats) -> Vec<(String, String)> {
    macro_rules! fields {
        ($of:expr; $($field:ident)*) => { vec![$((stringify!($field).replace('_', "-"), $of.$field.to_string())),*] };
    }
    let mut numbers = fields![stats;
        format_version engine medium last_sequence_number index_keys index_height memtable_entries memtable_bytes
        immutable_memtables table_files table_bytes live_bytes fast_tier_bytes fast_tier_node_bytes
        fast_tier_key_segment_bytes fast_tier_index_bytes_per_key demotions memory_bytes open_cursors replaced_records_kept];
    for (level, has) in stats.levels_with_runs() {
        let name = |field: &str| format!("level-{level}.{}", field.replace('_', "-"));
        numbers.extend(has.named().map(|(field, number)| (name(field), number.to_string())));
    }
    let parts = stats.memory.parts().into_iter();
    numbers.extend(parts.map(|(name, bytes)| (format!("memory.{}", name.replace('_', "-")), bytes.to_string())));
    numbers.push(("space-amplification".into(), format!("{:.3}", stats.space_amplification())));
    let waits = fields![stats.stalls; pace_us compaction_us compaction_idle_while_paced_us flush_us memtable_us space_us longest_us];
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

/// Table files and lists in the pool, a line each, under a line of names; in columns.
pub fn table_files(files: &[TableFile]) -> String {
    let heads = ["number", "level", "in", "bytes", "entries", "live", "deletes", "sequence numbers", "keys"];
    let mut rows = vec![heads.map(String::from)];
    rows.extend(files.iter().map(|file| {
        [
            file.number.to_string(),
            file.level.to_string(),
            if file.is_in_pool { "pool" } else { "file" }.to_string(),
            file.bytes.to_string(),
            file.entries.to_string(),
            file.live_keys.to_string(),
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

#[cfg(test)]
mod tests {
    use slmdb::LevelStats;

    use super::*;

    #[test]
    fn each_number_has_a_name_of_its_own() {
        let levels = vec![LevelStats::default(), LevelStats { runs: 2, bytes: 9, bytes_in_pool: 4 }];
        let text = stats(&Stats { table_bytes: 17, index_keys: 3, levels, ..Stats::default() });
        let names: Vec<&str> = text.lines().map(|line| line.split_once(": ").unwrap().0).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert!(names.len() > 40 && unique.len() == names.len(), "{text}");
        for line in [
            "table-bytes: 17",
            "index-keys: 3",
            "level-1.runs: 2",
            "level-1.bytes: 9",
            "level-1.bytes-in-pool: 4",
            "lifetime.flushes: 0",
            "since-open.flushes: 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        assert!(!text.contains("level-0."), "{text}");
    }

    #[test]
    fn table_files_stand_in_columns() {
        let file = TableFile {
            is_in_pool: false,
            number: 1,
            level: 2,
            bytes: 512,
            entries: 3,
            live_keys: 1,
            deletes: 1,
            smallest_key: b"a".to_vec(),
            largest_key: b"c\n".to_vec(),
            lowest_sequence: 1,
            highest_sequence: 3,
            created_unix_ns: 0,
        };
        let list = TableFile { is_in_pool: true, number: 2, ..file.clone() };
        let text = table_files(&[file, list]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["1", "2", "file", "512", "3", "1", "1", "1", "to", "3", "a", "to", "c\\n"], "{text}");
        assert_eq!(lines[2][..4], ["2", "2", "pool", "512"], "{text}");
    }
}
