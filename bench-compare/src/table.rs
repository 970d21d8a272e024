//! A summary as plain tables, one a benchmark.

use slmdb_cli::units::count;

use crate::summary::{Row, Summary};

/// The columns beside the rate: title, the number's name, what it is divided by, digits after the point. A table has those of which
/// some store has a number.
const COLUMNS: [Column; 16] = [
    ("p50 us", "p50_ns", 1e3, 1),
    ("p99 us", "p99_ns", 1e3, 1),
    ("p99.9 us", "p99_9_ns", 1e3, 1),
    ("p99.99 us", "p99_99_ns", 1e3, 1),
    ("longest ms", "max_ns", 1e6, 1),
    ("device/put", "device_written_bytes_per_byte_put", 1.0, 2),
    ("read MB", "device_read_bytes", 1_048_576.0, 0),
    ("space MB", "space_bytes", 1_048_576.0, 0),
    ("resident MB", "resident_bytes", 1_048_576.0, 0),
    ("anonymous MB", "resident_anonymous_bytes", 1_048_576.0, 0),
    ("fast tier: asked MB", "fast_tier_bytes_asked", 1_048_576.0, 0),
    ("flushed MB", "fast_tier_bytes_flushed", 1_048_576.0, 0),
    ("media MB", "fast_tier_media_bytes", 1_048_576.0, 0),
    ("taken MB", "fast_tier_bytes", 1_048_576.0, 0),
    ("index bytes a key", "fast_tier_index_bytes_per_key", 1.0, 1),
    ("cpu s", "cpu_seconds", 1.0, 2),
];

type Column = (&'static str, &'static str, f64, usize);

/// All of it.
pub fn text(summary: &Summary) -> String {
    let mut text = String::new();
    for ((store, setup), failure) in summary.stores.iter().zip(&summary.setups).zip(&summary.failures) {
        text += &format!("{store}: {setup}\n");
        if let Some(failure) = failure {
            text += &format!("  FAILED: {failure}\n");
        }
    }
    for phase in &summary.phases {
        let has_some = |column: &Column| phase.rows.iter().flatten().any(|row| row.beside(column.1).is_some());
        let columns: Vec<Column> = COLUMNS.into_iter().filter(has_some).collect();
        text += "\n";
        if phase.texts.iter().any(Option::is_some) {
            for (store, told) in summary.stores.iter().zip(&phase.texts) {
                text += &format!("{}, {store}:\n{}\n", phase.benchmark, told.as_deref().unwrap_or("-").trim_end());
            }
            continue;
        }
        let mut lines = vec![title(&phase.benchmark, &columns)];
        let rows = summary.stores.iter().zip(&phase.rows);
        lines.extend(rows.map(|(store, row)| match row {
            Some(row) => line(store, row, &columns),
            None => vec![store.clone(), "-".to_string()],
        }));
        text += &aligned(&lines);
    }
    text
}

fn title(benchmark: &str, columns: &[Column]) -> Vec<String> {
    let fixed = [benchmark, "ops/s", "min..max", "ratio"];
    fixed.into_iter().chain(columns.iter().map(|(title, ..)| *title)).map(str::to_string).collect()
}

fn line(store: &str, row: &Row, columns: &[Column]) -> Vec<String> {
    let whole = |rate: f64| count(rate.round() as u64);
    let mut cells = vec![
        store.to_string(),
        whole(row.rate.median),
        format!("{}..{}", whole(row.rate.minimum), whole(row.rate.maximum)),
        row.ratio.map_or_else(|| "-".to_string(), |ratio| format!("{ratio:.2}")),
    ];
    cells.extend(columns.iter().map(|&(_, name, divisor, digits)| {
        row.beside(name).map_or_else(|| "-".to_string(), |number| format!("{:.digits$}", number / divisor))
    }));
    cells
}

/// Lines of cells, the first column to the left, all others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(
                |(column, (cell, width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Turn;
    use serde_json::json;

    #[test]
    fn what_stores_say_of_themselves_is_told_as_it_is() {
        let said = |text: &str| json!({ "benchmark": "stats", "store": "a", "text": text });
        let turn = |store, result| Turn { store, setup: String::new(), results: vec![result], failure: None };
        let turns =
            [turn(0, said("first")), turn(1, json!({ "benchmark": "stats" })), turn(0, said("level files\n0 7\n"))];
        let summary = Summary::of(vec!["a".to_string(), "b".to_string()], &turns);
        assert_eq!(text(&summary), "a: \nb: \n\nstats, a:\nlevel files\n0 7\nstats, b:\n-\n");
        assert_eq!(
            summary.json(serde_json::Map::new())["benchmarks"][0]["texts"],
            json!({ "a": "level files\n0 7\n" })
        );
    }

    #[test]
    fn a_table_has_a_line_a_store() {
        let result = json!({ "benchmark": "readrandom", "ops_per_second": 1_234_567.4, "space_bytes": 3 << 20,
                             "latency": { "p50_ns": 1500, "max_ns": 2_500_000 } });
        let turns = [
            Turn { store: 0, setup: "as usual".to_string(), results: vec![result], failure: None },
            Turn { store: 1, setup: String::new(), results: vec![], failure: Some("gone".to_string()) },
        ];
        let summary = Summary::of(vec!["slmdb".to_string(), "other".to_string()], &turns);
        let text = text(&summary);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..4], ["slmdb: as usual", "other: ", "  FAILED: gone", ""]);
        assert!(lines[4].starts_with("readrandom      ops/s              min..max  ratio  p50 us"), "{text}");
        let cells: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(cells, ["slmdb", "1,234,567", "1,234,567..1,234,567", "1.00", "1.5", "2.5", "3"]);
        assert_eq!(lines[6].split_whitespace().collect::<Vec<_>>(), ["other", "-"]);
    }
}
