//! What a store holds and has done.
//!
//! One list of fields makes both forms, so that a number has the same name in the text, in the JSON and in the library.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use slmdb::{Chosen, CompactionChoices, Counters, LevelStats, Stats, TableFile, WriteAmplification};

use crate::units;

/// A number and what it counts.
enum Amount<'s> {
    Word(&'s str),
    Count(u64),
    Bytes(u64),
    BytesPerKey(f64),
    Ratio(f64),
    Microseconds(u64),
}

impl Amount<'_> {
    /// The exact number.
    fn number(&self) -> String {
        match *self {
            Amount::Word(word) => word.to_string(),
            Amount::Count(number) | Amount::Bytes(number) | Amount::Microseconds(number) => units::count(number),
            Amount::BytesPerKey(bytes) => format!("{bytes:.1}"),
            Amount::Ratio(ratio) => format!("{ratio:.2}"),
        }
    }

    /// The same in a unit that is easier to grasp; nothing where the number is small.
    fn rounded(&self) -> String {
        match *self {
            Amount::Bytes(bytes) if bytes >= 1024 => format!("({})", units::bytes(bytes)),
            Amount::Microseconds(us) if us >= 1_000_000 => format!("({:.1} s)", us as f64 / 1e6),
            _ => String::new(),
        }
    }

    fn json(&self) -> Value {
        match *self {
            Amount::Word(word) => Value::from(word),
            Amount::Count(number) | Amount::Bytes(number) | Amount::Microseconds(number) => Value::from(number),
            Amount::BytesPerKey(number) | Amount::Ratio(number) => Value::from(number),
        }
    }
}

type Field<'s> = (&'static str, Amount<'s>);

/// What the store holds, in groups. The groups are the text's; the JSON has the fields side by side.
fn groups(stats: &Stats) -> [(&'static str, Vec<Field<'_>>); 6] {
    let waits = &stats.stalls;
    use Amount::{Bytes, BytesPerKey, Count, Microseconds, Ratio, Word};
    [
        (
            "store",
            vec![
                ("format_version", Count(u64::from(stats.format_version))),
                ("engine", Word(stats.engine)),
                ("medium", Word(stats.medium)),
                ("last_sequence_number", Count(stats.last_sequence_number)),
                ("open_cursors", Count(stats.open_cursors)),
                ("open_snapshots", Count(stats.open_snapshots)),
                ("replaced_records_kept", Count(stats.replaced_records_kept)),
                ("replaced_records_bytes", Bytes(stats.replaced_records_bytes)),
            ],
        ),
        ("memory", memory(stats)),
        (
            "MemTables",
            vec![
                ("memtable_entries", Count(stats.memtable_entries)),
                ("memtable_bytes", Bytes(stats.memtable_bytes)),
                ("immutable_memtables", Count(stats.immutable_memtables)),
            ],
        ),
        (
            "table files",
            vec![
                ("table_files", Count(stats.table_files)),
                ("table_bytes", Bytes(stats.table_bytes)),
                ("live_bytes", Bytes(stats.live_bytes)),
                ("mapped_table_files", Count(stats.mapped_table_files)),
                ("mapped_table_bytes", Bytes(stats.mapped_table_bytes)),
                ("space_amplification", Ratio(stats.space_amplification())),
            ],
        ),
        (
            "index, in the fast tier",
            vec![
                ("index_keys", Count(stats.index_keys)),
                ("index_height", Count(u64::from(stats.index_height))),
                ("fast_tier_bytes", Bytes(stats.fast_tier_bytes)),
                ("fast_tier_node_bytes", Bytes(stats.fast_tier_node_bytes)),
                ("fast_tier_key_segment_bytes", Bytes(stats.fast_tier_key_segment_bytes)),
                ("fast_tier_index_bytes_per_key", BytesPerKey(stats.fast_tier_index_bytes_per_key)),
                ("fast_tier_reads", Count(stats.fast_tier_reads)),
                ("demotions", Count(stats.demotions)),
            ],
        ),
        (
            "writers have waited since the opening",
            vec![
                ("wait_for_pace_us", Microseconds(waits.pace_us)),
                ("wait_for_compaction_us", Microseconds(waits.compaction_us)),
                ("compaction_idle_while_paced_us", Microseconds(waits.compaction_idle_while_paced_us)),
                ("wait_for_flush_us", Microseconds(waits.flush_us)),
                ("wait_for_memtable_us", Microseconds(waits.memtable_us)),
                ("wait_for_space_us", Microseconds(waits.space_us)),
                ("longest_wait_us", Microseconds(waits.longest_us)),
                ("flush_waits_for", Word(stats.flush_waits_for.as_deref().unwrap_or("nothing"))),
            ],
        ),
    ]
}

/// What the store keeps in memory, as a whole and in parts.
fn memory(stats: &Stats) -> Vec<Field<'static>> {
    let whole = [("memory_budget_bytes", stats.memory_budget_bytes), ("memory_bytes", stats.memory_bytes)];
    whole.into_iter().chain(stats.memory.parts()).map(|(name, bytes)| (name, Amount::Bytes(bytes))).collect()
}

/// What the store has done.
fn counters(counters: &Counters) -> Vec<Field<'static>> {
    use Amount::{Bytes, Count, Microseconds, Ratio};
    let amplification = WriteAmplification::of(counters);
    vec![
        ("user_bytes_put", Bytes(counters.user_bytes_put)),
        ("file_bytes_written", Bytes(counters.file_bytes_written)),
        ("persists", Count(counters.persists)),
        ("lines_flushed", Count(counters.lines_flushed)),
        ("media_bytes", Bytes(counters.media_bytes)),
        ("fast_tier_bytes_asked", Bytes(counters.fast_tier_bytes_asked)),
        ("flushes", Count(counters.flushes)),
        ("compactions", Count(counters.compactions)),
        ("compaction_bytes_read", Bytes(counters.compaction_bytes_read)),
        ("compaction_bytes_written", Bytes(counters.compaction_bytes_written)),
        ("stall_us", Microseconds(counters.stall_us)),
        ("write_amplification_of_files", Ratio(amplification.files)),
        ("write_amplification_of_fast_tier", Ratio(amplification.fast_tier)),
        ("write_amplification_of_compactions", Ratio(amplification.compactions)),
    ]
}

/// What the levels have, a line each. Nothing where there is no level.
fn levels(stats: &Stats) -> Vec<String> {
    let with_runs = stats.levels_with_runs();
    let mut lines: Vec<String> = with_runs
        .map(|(number, level)| {
            let numbers = level.named().map(|(_, number)| units::count(number));
            line(&format!("level {number}"), &numbers.each_ref().map(String::as_str), "")
        })
        .collect();
    if !lines.is_empty() {
        let heads = LevelStats::default().named().map(|(name, _)| name.replace('_', " "));
        let head = line("", &heads.each_ref().map(String::as_str), "").replacen("        ", "levels  ", 1);
        lines.insert(0, head);
        lines.push(String::new());
    }
    lines
}

fn json_of_levels(stats: &Stats) -> Value {
    let object = |(number, level): (usize, &LevelStats)| {
        let numbers = level.named().into_iter().map(|(name, number)| (name.to_string(), Value::from(number)));
        let number = ("level".to_string(), Value::from(number));
        Value::Object(std::iter::once(number).chain(numbers).collect())
    };
    Value::Array(stats.levels_with_runs().map(object).collect())
}

/// What was chosen for compaction, a line a scheme: candidates, files, bytes.
fn choices(choices: &CompactionChoices) -> Vec<String> {
    let mut lines = vec!["chosen for compaction since the opening".to_string()];
    for (name, count) in [
        ("on_the_candidate_list", choices.candidates),
        ("leaf_node_scans", choices.leaf_node_scans),
        ("leaf_node_scan_keys", choices.leaf_node_scan_keys),
    ] {
        lines.push(line(name, &[&units::count(count)], ""));
    }
    let heads = Chosen::default().named().map(|(name, _)| name.replace('_', " "));
    lines.push(line("", &heads.each_ref().map(String::as_str), ""));
    for (name, chosen) in choices.parts() {
        let numbers = chosen.named().map(|(_, number)| units::count(number));
        lines.push(line(&format!("by_{name}"), &numbers.each_ref().map(String::as_str), ""));
    }
    lines.push(String::new());
    lines
}

fn json_of_choices(choices: &CompactionChoices) -> Value {
    let mut object = json!({
        "candidates": choices.candidates,
        "leaf_node_scans_made": choices.leaf_node_scans,
        "leaf_node_scan_keys": choices.leaf_node_scan_keys,
    });
    for (name, chosen) in choices.parts() {
        let numbers = chosen.named().into_iter().map(|(name, number)| (name.to_string(), Value::from(number)));
        object[name] = Value::Object(numbers.collect());
    }
    object
}

/// A table file as one JSON object. A key that is not UTF-8 is in Base64, in a field whose name ends in `_b64`.
pub fn json_of_file(file: &TableFile) -> Value {
    let mut object = json!({
        "number": file.number,
        "level": file.level,
        "in_pool": file.is_in_pool,
        "bytes": file.bytes,
        "entries": file.entries,
        "live": file.live_keys,
        "deletes": file.deletes,
        "lowest_sequence_number": file.lowest_sequence,
        "highest_sequence_number": file.highest_sequence,
        "created_unix_ns": file.created_unix_ns,
    });
    for (name, key) in [("smallest_key", &file.smallest_key), ("largest_key", &file.largest_key)] {
        match std::str::from_utf8(key) {
            Ok(text) => object[name] = Value::from(text),
            Err(_) => object[format!("{name}_b64")] = Value::from(STANDARD.encode(key)),
        }
    }
    object
}

/// All numbers as one JSON object.
pub fn json(stats: &Stats) -> Value {
    let object = |fields: Vec<Field<'_>>| -> Map<String, Value> {
        fields.into_iter().map(|(name, amount)| (name.to_string(), amount.json())).collect()
    };
    let mut all: Map<String, Value> = groups(stats).into_iter().flat_map(|(_, fields)| object(fields)).collect();
    all.insert("levels".to_string(), json_of_levels(stats));
    all.insert("compaction_choices".to_string(), json_of_choices(&stats.choices));
    all.insert("since_open".to_string(), Value::Object(object(counters(&stats.since_open))));
    all.insert("lifetime".to_string(), Value::Object(object(counters(&stats.lifetime))));
    Value::Object(all)
}

/// The same as lines: a group's name, then its fields, numbers to the right.
pub fn text(stats: &Stats) -> Vec<String> {
    let mut lines = Vec::new();
    for (group, fields) in groups(stats) {
        lines.push(group.to_string());
        for (name, amount) in fields {
            lines.push(line(name, &[&amount.number()], &amount.rounded()));
        }
        lines.push(String::new());
    }
    lines.extend(levels(stats));
    lines.extend(choices(&stats.choices));
    lines.push(line("", &["since open", "lifetime"], "").replacen("  ", "done", 1).trim_end().to_string());
    for ((name, since_open), (_, lifetime)) in counters(&stats.since_open).into_iter().zip(counters(&stats.lifetime)) {
        lines.push(line(name, &[&since_open.number(), &lifetime.number()], &lifetime.rounded()));
    }
    lines
}

fn line(name: &str, numbers: &[&str], rounded: &str) -> String {
    let mut line = format!("  {:<30}", name.replace('_', " "));
    for number in numbers {
        line.push_str(&format!(" {number:>18}"));
    }
    line.push_str("  ");
    line.push_str(rounded);
    line.trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_fields_are_there() {
        let json = json(&Stats::default());
        for field in [
            "format_version",
            "engine",
            "medium",
            "index_keys",
            "memtable_entries",
            "memtable_bytes",
            "table_files",
            "table_bytes",
            "live_bytes",
            "fast_tier_bytes",
            "fast_tier_index_bytes_per_key",
            "fast_tier_reads",
            "demotions",
            "memory_budget_bytes",
            "memory_bytes",
            "block_cache_bytes",
            "last_sequence_number",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert_eq!(json["levels"], json!([]));
        let choices = &json["compaction_choices"];
        assert!(choices["candidates"].is_u64());
        for scheme in ["live_key_ratio", "leaf_node_scans", "range_queries", "seeks", "manifest", "all"] {
            for field in ["candidates", "files", "rewritten_bytes", "gained_bytes"] {
                assert!(choices[scheme][field].is_u64(), "{scheme}.{field}");
            }
        }
        for object in ["since_open", "lifetime"] {
            for field in [
                "user_bytes_put",
                "file_bytes_written",
                "persists",
                "lines_flushed",
                "media_bytes",
                "fast_tier_bytes_asked",
                "flushes",
                "compactions",
                "compaction_bytes_read",
                "compaction_bytes_written",
                "stall_us",
            ] {
                assert!(json[object][field].is_u64(), "{object}.{field}");
            }
        }
    }

    #[test]
    fn levels_that_have_something_are_a_table() {
        let level = |runs, bytes, bytes_in_pool| LevelStats { runs, bytes, bytes_in_pool };
        let stats = Stats { levels: vec![level(2, 3000, 3000), level(0, 0, 0), level(1, 5, 0)], ..Stats::default() };
        let lines = levels(&stats);
        let cells: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
        let wanted: [&[&str]; 4] = [
            &["levels", "runs", "bytes", "bytes", "in", "pool"],
            &["level", "0", "2", "3,000", "3,000"],
            &["level", "2", "1", "5", "0"],
            &[],
        ];
        assert_eq!(cells, wanted);
        assert!(lines[..3].iter().all(|line| line.len() == lines[0].len()), "{lines:#?}");
        assert!(text(&stats).contains(&lines[1]) && levels(&Stats::default()).is_empty());
        let objects = json!([
            { "level": 0, "runs": 2, "bytes": 3000, "bytes_in_pool": 3000 },
            { "level": 2, "runs": 1, "bytes": 5, "bytes_in_pool": 0 },
        ]);
        assert_eq!(json(&stats)["levels"], objects);
    }

    #[test]
    fn what_was_chosen_is_a_table() {
        let lines = choices(&CompactionChoices::default());
        let head = lines.iter().position(|line| line.contains("rewritten bytes")).unwrap_or_default();
        let row = lines.iter().find(|line| line.contains("by live key ratio")).map(String::as_str);
        assert_eq!(row.map(str::len), Some(lines[head].len()), "{lines:#?}");
    }

    #[test]
    fn a_number_shows_its_unit_beside_it() {
        let shown = |amount: Amount<'_>| (amount.number(), amount.rounded());
        assert_eq!(shown(Amount::Bytes(512)), ("512".to_string(), String::new()));
        assert_eq!(shown(Amount::Bytes(1_572_864)), ("1,572,864".to_string(), "(1.5 MiB)".to_string()));
        assert_eq!(shown(Amount::Microseconds(2_500_000)), ("2,500,000".to_string(), "(2.5 s)".to_string()));
    }
}
