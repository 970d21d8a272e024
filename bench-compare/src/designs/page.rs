//! The page: for each section its pictures, one for each medium.

use serde_json::{Map, Value};

use super::Measured;
use super::columns::{Column, Picture, SECTIONS};
use super::tables::{MULTIPLES, how};
use super::works::MEDIA;
use crate::about::in_words;
use crate::arguments::Designs;
use crate::chart::{escaped, legend, page as page_of};
use crate::plot::{Shown, bars};

pub(super) fn page(designs: &Designs, about: &Map<String, Value>, measured: &[Measured]) -> String {
    let (command, machine) = in_words(about);
    let mut body = format!("<p><code>{}</code><br>{}</p>\n", escaped(&command), escaped(&machine));
    body += &format!("<p>{}</p>\n<p>{MULTIPLES} The number itself stands above each bar.</p>\n", how(designs));
    body += &setups(measured);
    for section in &SECTIONS {
        body += &format!("<h2>{}</h2>\n", escaped(section.title));
        for picture in section.pictures {
            let drawn: String =
                (0..MEDIA.len()).map(|medium| drawn(picture, section.columns, measured, medium)).collect();
            if !drawn.is_empty() {
                body += &format!("<p>{}</p>\n{drawn}", escaped(picture.see));
            }
        }
    }
    page_of("slmdb: its designs side by side", &body)
}

/// How each store was set up in each work, what has failed, and what was left out.
fn setups(measured: &[Measured]) -> String {
    let (mut outside, mut lines) = (String::new(), String::new());
    for work in measured {
        lines += &format!("<h3>{}: {}</h3>\n", work.work.name, escaped(work.work.about));
        if let Some(why) = &work.skipped {
            outside += &format!("<p><b>{} is left out</b>: {}</p>\n", work.work.name, escaped(why));
        }
        for (store, why) in work.failures() {
            let (label, medium) = (escaped(store.label), MEDIA[store.medium].name);
            outside +=
                &format!("<p><b>{label} on {medium} has failed in {}</b>: {}</p>\n", work.work.name, escaped(why));
        }
        for summary in &work.point.summaries {
            for (name, setup) in summary.stores.iter().zip(&summary.setups) {
                lines += &format!("<p><b>{}</b>: {}</p>\n", escaped(name), escaped(setup));
            }
        }
    }
    format!("{outside}<details><summary>How the stores were set up</summary>\n{lines}</details>\n")
}

/// A picture of a medium, with its legend; nothing if it has no number.
fn drawn(picture: &Picture, columns: &[Column], measured: &[Measured], medium: usize) -> String {
    let groups: Vec<(&Measured, &Column)> = measured
        .iter()
        .filter(|work| !work.on(medium).is_empty())
        .flat_map(|work| columns.iter().filter(|column| column.is_in(picture, work)).map(move |column| (work, column)))
        .collect();
    let Some((first, _)) = groups.first() else { return String::new() };
    let names: Vec<String> = first.on(medium).iter().map(|store| first.stores[*store].label.to_string()).collect();
    // The stores of a medium stand in the same order in every work.
    let numbers: Vec<Vec<Option<f64>>> = (0..names.len())
        .map(|at| groups.iter().map(|(work, column)| column.number(work, work.on(medium)[at])).collect())
        .collect();
    if numbers.iter().flatten().flatten().next().is_none() {
        return String::new();
    }
    let is_of_one_work = picture.of == first.work.name;
    let titles: Vec<String> = groups
        .iter()
        .map(|(work, column)| {
            let own = groups.iter().filter(|(other, _)| other.work.name == work.work.name).count();
            match (is_of_one_work, own) {
                (true, _) => column.title().to_string(),
                (false, 1) => work.work.name.to_string(),
                _ => column.title().rsplit(", ").next().unwrap_or_default().to_string(),
            }
        })
        .collect();
    let about = if is_of_one_work { first.work.about } else { picture.of };
    let title = format!("{about}, on {}", MEDIA[medium].name);
    legend(&names) + &bars(&title, &names, &titles, &numbers, Shown::MultiplesWithNumbers)
}
