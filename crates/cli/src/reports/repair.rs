//! What a repair has made, and what it could not save.

use serde_json::{Map, Value};
use slmdb::{Loss, RepairReport};

/// The report as one JSON object.
pub fn json(report: &RepairReport) -> Value {
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::String).collect());
    let paths = |paths: &[std::path::PathBuf]| texts(paths.iter().map(|path| path.display().to_string()).collect());
    let losses = report.losses.iter().map(loss_as_json).collect();
    let fields = [
        ("table_files_checked", Value::from(report.table_files_checked)),
        ("index_keys", Value::from(report.index_keys)),
        ("memtable_entries_saved", Value::from(report.memtable_entries_saved)),
        ("damage", texts(report.damage.iter().map(ToString::to_string).collect())),
        ("losses", Value::Array(losses)),
        ("set_aside", paths(&report.set_aside)),
        ("left_pool", report.left_pool.as_ref().map_or(Value::Null, |pool| Value::from(pool.display().to_string()))),
        ("pool", report.pool.as_ref().map_or(Value::Null, |pool| Value::from(pool.display().to_string()))),
    ];
    Value::Object(fields.map(|(name, value)| (name.to_string(), value)).into_iter().collect::<Map<_, _>>())
}

/// Keys are escaped as in the text.
fn loss_as_json(loss: &Loss) -> Value {
    let key = |key: &[u8]| Value::from(key.escape_ascii().to_string());
    let fields: Vec<(&str, Value)> = match loss {
        Loss::Key { key: lost, sequence } => vec![("key", key(lost)), ("sequence_number", Value::from(*sequence))],
        Loss::TableFile { number, entries, smallest_key, largest_key, lowest_sequence, highest_sequence }
        | Loss::List { number, entries, smallest_key, largest_key, lowest_sequence, highest_sequence } => vec![
            (if matches!(loss, Loss::List { .. }) { "list" } else { "table_file" }, Value::from(*number)),
            ("entries", Value::from(*entries)),
            ("smallest_key", key(smallest_key)),
            ("largest_key", key(largest_key)),
            ("lowest_sequence_number", Value::from(*lowest_sequence)),
            ("highest_sequence_number", Value::from(*highest_sequence)),
        ],
        Loss::Entries { number, entries, smallest_key, largest_key, older_may_be_back } => vec![
            ("table_file", Value::from(*number)),
            ("entries", Value::from(*entries)),
            ("smallest_key", key(smallest_key)),
            ("largest_key", key(largest_key)),
            ("older_may_be_back", Value::from(*older_may_be_back)),
        ],
        Loss::Writes { from_sequence } => vec![("writes_from_sequence_number", Value::from(*from_sequence))],
        Loss::Deletes { through_sequence } => vec![("deletes_through_sequence_number", Value::from(*through_sequence))],
        other => vec![("other", Value::from(other.to_string()))],
    };
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect::<Map<_, _>>())
}
