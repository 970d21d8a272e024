//! A picture of what `overwrite_speed` has written to its `rows=` files: puts per second, space and bytes written, over the course
//! of the run.
//!
//! `cargo run --release -p slmdb --example overwrite_plot -- PICTURE.svg ROWS.tsv…`
//!
//! Each file is a line, and has its name in the legend.

use std::path::Path;

use plotters::prelude::*;

type Failure = Box<dyn std::error::Error>;

/// Rows of `overwrite_speed` that are averaged, so that the line can be read.
const ROWS_TOGETHER: usize = 4;
const COLORS: [RGBColor; 4] =
    [RGBColor(31, 119, 180), RGBColor(214, 39, 40), RGBColor(44, 160, 44), RGBColor(148, 103, 189)];

/// What a column shows, and what to call it.
const PANELS: [(usize, f64, &str); 3] = [
    (2, 1e-3, "thousand puts per second"),
    (3, 1.0, "space on disk ÷ live data"),
    (4, 1.0, "bytes written to files per byte put, since the start"),
];

/// One run: its name, and for each moment the puts so far and the columns of the file.
struct Run {
    name: String,
    rows: Vec<Vec<f64>>,
}

fn read(path: &Path) -> Result<Run, Failure> {
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().skip(1).map(|line| line.split('\t').map(str::parse).collect());
    let mut rows: Vec<Vec<f64>> = rows.collect::<Result<_, _>>()?;
    // Those from after the end.
    rows.retain(|row| row[2] > 0.0);
    let together = |rows: &[Vec<f64>]| {
        (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64).collect()
    };
    let rows = rows.chunks_exact(ROWS_TOGETHER).map(together).collect();
    let name = path.file_stem().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Run { name, rows })
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [picture, files @ ..] = &arguments[..] else { return Err("name a picture, and files of rows".into()) };
    let runs: Vec<Run> = files.iter().map(|file| read(Path::new(file))).collect::<Result<_, _>>()?;
    let puts_max = runs.iter().filter_map(|run| run.rows.last()).map(|row| row[1]).fold(1.0, f64::max) / 1e6;

    let area = SVGBackend::new(picture, (900, 840)).into_drawing_area();
    area.fill(&WHITE)?;
    for ((column, factor, what), panel) in PANELS.into_iter().zip(area.split_evenly((PANELS.len(), 1))) {
        let value = |row: &Vec<f64>| row[column] * factor;
        let most = runs.iter().flat_map(|run| run.rows.iter().map(value)).fold(0.0, f64::max);
        let mut chart = ChartBuilder::on(&panel)
            .caption(what, ("sans-serif", 16))
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(48)
            .build_cartesian_2d(0.0..puts_max, 0.0..most * 1.08)?;
        chart.configure_mesh().x_desc("million puts since the start").light_line_style(WHITE).draw()?;
        for (run, color) in runs.iter().zip(COLORS.iter().cycle()) {
            let line = LineSeries::new(run.rows.iter().map(|row| (row[1] / 1e6, value(row))), color.stroke_width(2));
            chart
                .draw_series(line)?
                .label(run.name.as_str())
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2)));
        }
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw()?;
    }
    area.present()?;
    println!("{picture}: {} runs", runs.len());
    Ok(())
}
