//! The tables, in Markdown: for each work and section one with a line for each store, and at the end one in words.

use serde_json::{Map, Value};

use super::columns::{Aspect, Column, IN_WORDS, SECTIONS};
use super::works::MEDIA;
use super::{FLAGS, MEMORY_BUDGET_BYTES, Measured};
use crate::about::in_words;
use crate::arguments::Designs;
use crate::footing::mebibytes;

/// What bars and the last table show.
pub(super) const MULTIPLES: &str = "Multiples are of slm on the same medium.";

/// What can't be had.
const NOTHING: &str = "–";

/// How all of it was done, in a sentence or two.
pub(super) fn how(designs: &Designs) -> String {
    let part = match designs.scale {
        1.0 => String::new(),
        scale => format!(" Each work has {scale} of its keys."),
    };
    format!(
        "Each store did each work in a new directory and pool, in a process of its own, in turns ({} of them), with a memory \
         budget of {} and {}. Numbers are medians; of the longest puts the longest.{part}",
        designs.repeat,
        mebibytes(MEMORY_BUDGET_BYTES),
        FLAGS.join(" "),
    )
}

pub(super) fn text(designs: &Designs, about: &Map<String, Value>, measured: &[Measured]) -> String {
    let (command, machine) = in_words(about);
    let mut text = format!("# Designs side by side\n\n`{command}`: {machine}. {}\n", how(designs));
    for work in measured {
        text += &format!("\n## {}: {}\n", work.work.name, work.work.about);
        if let Some(why) = &work.skipped {
            text += &format!("\nLeft out: {why}\n");
            continue;
        }
        for section in &SECTIONS {
            let columns: Vec<&Column> = section.columns.iter().filter(|column| column.is_of(work)).collect();
            if !columns.is_empty() {
                text += &format!("\n{}:\n\n{}", section.title, numbers(work, &columns));
            }
        }
        for (store, why) in work.failures() {
            text += &format!("\n{} has failed: {}\n", title(work, store.label, store.medium), why.replace('\n', " "));
        }
    }
    text + &format!("\n## In words\n\n{MULTIPLES}\n\n{}", words(measured))
}

/// A store, and what it is on.
fn title(work: &Measured, label: &str, medium: usize) -> String {
    let has_failed = work.failures().any(|(store, _)| store.label == label && store.medium == medium);
    let failed = if has_failed { " (failed)" } else { "" };
    format!("{label}{failed}, {}", MEDIA[medium].name)
}

/// A line for each store.
fn numbers(work: &Measured, columns: &[&Column]) -> String {
    let titles = std::iter::once("store").chain(columns.iter().map(|column| column.title()));
    let mut text = line(titles.map(str::to_string))
        + &line(std::iter::once("---".to_string()).chain(columns.iter().map(|_| "--:".to_string())));
    for (at, store) in work.stores.iter().enumerate() {
        let cells = columns.iter().map(|column| column.number(work, at).map_or_else(|| NOTHING.to_string(), cell));
        text += &line(std::iter::once(title(work, store.label, store.medium)).chain(cells));
    }
    text
}

fn line(cells: impl Iterator<Item = String>) -> String {
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

/// A number with three digits that mean something.
fn cell(number: f64) -> String {
    match number {
        number if number >= 1000.0 => slmdb_cli::units::count(number.round() as u64),
        number if number >= 100.0 => format!("{number:.0}"),
        number if number >= 10.0 => format!("{number:.1}"),
        number => format!("{number:.2}"),
    }
}

/// A line for each design and medium: how it compares.
fn words(measured: &[Measured]) -> String {
    let titles = std::iter::once("design").chain(IN_WORDS.iter().map(|aspect| aspect.title));
    let mut text = line(titles.map(str::to_string)) + &line((0..=IN_WORDS.len()).map(|_| "---".to_string()));
    for (medium, on) in MEDIA.iter().enumerate() {
        let mut labels: Vec<&str> = Vec::new();
        for store in measured.iter().flat_map(|work| &work.stores).filter(|store| store.medium == medium) {
            if !labels.contains(&store.label) {
                labels.push(store.label);
            }
        }
        for label in labels {
            let cells = IN_WORDS.iter().map(|aspect| word(aspect, measured, label, medium));
            text += &line(std::iter::once(format!("{label}, {}", on.name)).chain(cells));
        }
    }
    text
}

/// The geometric mean of a store's multiples, in words.
fn word(aspect: &Aspect, measured: &[Measured], label: &str, medium: usize) -> String {
    let mut logarithms = Vec::new();
    for work in measured {
        let stores = work.on(medium);
        let own = stores.iter().find(|store| work.stores[**store].label == label);
        let (Some(first), Some(own)) = (stores.first(), own) else { continue };
        if own == first {
            return "1".to_string();
        }
        let multiple = |column: &Column| Some(column.number(work, *own)? / column.number(work, *first)?);
        let multiples = aspect.columns().filter(|column| column.is_of(work)).filter_map(multiple);
        logarithms.extend(multiples.filter(|multiple| *multiple > 0.0 && multiple.is_finite()).map(f64::ln));
    }
    if logarithms.is_empty() {
        return NOTHING.to_string();
    }
    in_words_of((logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp(), aspect.is_more_better())
}

/// A multiple in words.
fn in_words_of(multiple: f64, is_more_better: bool) -> String {
    let better = if is_more_better { multiple } else { 1.0 / multiple };
    let word = match better {
        better if better >= 2.0 => "far better",
        better if better >= 1.1 => "better",
        better if better > 1.0 / 1.1 => "as slm",
        better if better > 0.5 => "worse",
        _ => "far worse",
    };
    format!("{word} ({multiple:.2} ×)")
}
