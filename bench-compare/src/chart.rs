//! Groups of bars as SVG, and the page around them: no script, no file beside it.

/// Colours of the series, told apart by people who see few colours, too (Okabe and Ito's). The first two are blue: the
/// engines of slmdb, in README.
const COLOURS: [&str; 7] = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#999999"];

/// A picture that has the whole width to itself.
pub const WIDTH: f64 = 860.0;
/// Every chart's.
pub const HEIGHT: f64 = 260.0;
/// Room for the numbers of the axis.
pub const LEFT: f64 = 48.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 28.0;
/// So that the last second's number has room.
const RIGHT: f64 = 16.0;

/// Bars: one for each series in each group.
pub struct Chart<'c> {
    /// What it shows.
    pub title: &'c str,
    /// From side to side.
    pub width: f64,
    /// The series' names.
    pub names: &'c [String],
    /// The groups' names, from left to right.
    pub groups: &'c [String],
    /// What stands above each group.
    pub notes: &'c [String],
    /// Each series' bars, one a group; none where there is nothing to show.
    pub series: &'c [Vec<Option<f64>>],
    /// Bars are multiples of something, so 1 is marked.
    pub has_line_at_one: bool,
    /// What stands above each series' bars, one a group; nothing if there are none.
    pub labels: &'c [Vec<String>],
}

impl Chart<'_> {
    /// As SVG. The axis begins at 0.
    pub fn svg(&self) -> String {
        let tallest = self.series.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let tallest = if self.has_line_at_one { tallest.max(1.0) } else { tallest.max(f64::MIN_POSITIVE) };
        let step = step_for(tallest);
        let top = (tallest / step).ceil() * step;
        let plot_height = HEIGHT - TOP - BOTTOM;
        let y = |number: f64| TOP + plot_height * (1.0 - number / top);
        let mut svg = opening(self.title, self.width) + &marks(top, step, self.width, &y);
        let group_width = (self.width - LEFT) / self.groups.len().max(1) as f64;
        let margin = (group_width * 0.1).min(8.0);
        let bar_width = (group_width - 2.0 * margin) / self.series.len().max(1) as f64;
        for (at, group) in self.groups.iter().enumerate() {
            let from = LEFT + group_width * at as f64 + margin;
            let middle = LEFT + group_width * (at as f64 + 0.5);
            for (index, series) in self.series.iter().enumerate() {
                let Some(number) = series.get(at).copied().flatten() else { continue };
                svg += &format!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"><title>{}: {number:.2}</title></rect>\n",
                    from + bar_width * index as f64,
                    y(number),
                    bar_width * 0.92,
                    y(0.0) - y(number),
                    COLOURS[index % COLOURS.len()],
                    self.names.get(index).map_or_else(String::new, |name| escaped(name)),
                );
                if let Some(label) = self.labels.get(index).and_then(|labels| labels.get(at)) {
                    svg += &format!(
                        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"number\">{}</text>\n",
                        from + bar_width * (index as f64 + 0.46),
                        y(number) - 3.0,
                        escaped(label),
                    );
                }
            }
            let note = self.notes.get(at).map_or("", String::as_str);
            svg += &format!(
                "<text x=\"{middle:.1}\" y=\"{}\" class=\"group\">{}</text><text x=\"{middle:.1}\" y=\"{}\" class=\"note\">{}</text>\n",
                HEIGHT - 10.0,
                escaped(group),
                TOP - 6.0,
                escaped(note),
            );
        }
        if self.has_line_at_one {
            let at = y(1.0);
            svg +=
                &format!("<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" class=\"one\"/>\n", self.width);
        }
        svg + "</svg>\n"
    }
}

/// Curves over seconds.
pub struct Curves<'c> {
    /// What they show.
    pub title: &'c str,
    /// Each series' points: seconds, and a number.
    pub curves: &'c [Vec<(f64, f64)>],
}

impl Curves<'_> {
    /// As SVG. Both axes begin at 0.
    pub fn svg(&self) -> String {
        let largest = |number: fn(&(f64, f64)) -> f64| {
            self.curves.iter().flatten().map(number).fold(0.0, f64::max).max(f64::MIN_POSITIVE)
        };
        let (longest, tallest) = (largest(|point| point.0), largest(|point| point.1));
        let (step_x, step_y) = (step_for(longest), step_for(tallest));
        let top = (tallest / step_y).ceil() * step_y;
        let x = |seconds: f64| LEFT + (WIDTH - LEFT - RIGHT) * seconds / longest;
        let y = |number: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - number / top);
        let mut svg = opening(self.title, WIDTH) + &marks(top, step_y, WIDTH, &y);
        let mut mark = 0.0;
        while mark <= longest {
            svg += &format!(
                "<text x=\"{:.1}\" y=\"{}\" class=\"group\">{} s</text>\n",
                x(mark),
                HEIGHT - 10.0,
                (mark * 1000.0).round() / 1000.0
            );
            mark += step_x;
        }
        for (index, curve) in self.curves.iter().enumerate() {
            let points: Vec<String> =
                curve.iter().map(|(seconds, number)| format!("{:.1},{:.1}", x(*seconds), y(*number))).collect();
            svg += &format!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n",
                points.join(" "),
                COLOURS[index % COLOURS.len()]
            );
        }
        svg + "</svg>\n"
    }
}

/// A picture's beginning, with its title.
fn opening(title: &str, width: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{0}\">\n\
         <text x=\"{LEFT}\" y=\"14\" class=\"title\">{0}</text>\n",
        escaped(title)
    )
}

/// Lines across the picture, each with its number.
fn marks(top: f64, step: f64, width: f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut svg = String::new();
    let mut mark = 0.0;
    while mark <= top + step / 2.0 {
        let number = match mark {
            mark if mark >= 10_000.0 => format!("{} k", (mark / 1000.0).round()),
            mark => ((mark * 100.0).round() / 100.0).to_string(),
        };
        svg += &format!(
            "<line x1=\"{LEFT}\" x2=\"{width}\" y1=\"{0:.1}\" y2=\"{0:.1}\" class=\"grid\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" class=\"mark\">{number}</text>\n",
            y(mark),
            LEFT - 6.0,
            y(mark) + 4.0,
        );
        mark += step;
    }
    svg
}

/// The distance of marks on an axis up to this number: about five of them.
fn step_for(tallest: f64) -> f64 {
    let power = 10_f64.powf((tallest / 5.0).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    factors.into_iter().map(|factor| factor * power).find(|step| tallest / step <= 6.0).unwrap_or(10.0 * power)
}

/// Which colour is which series, as SVG in columns.
pub fn legend_svg(names: &[String], columns: usize, column_width: f64) -> String {
    let entry = |(at, (name, colour)): (usize, (&String, &&str))| {
        let (x, y) = (LEFT + column_width * (at % columns) as f64, 18.0 * (at / columns) as f64);
        format!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"11\" height=\"11\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{}</text>\n",
            x + 16.0,
            y + 10.0,
            escaped(name)
        )
    };
    names.iter().zip(COLOURS.iter().cycle()).enumerate().map(entry).collect()
}

/// Which colour is which series, as HTML.
pub fn legend(names: &[String]) -> String {
    let entries = names.iter().zip(COLOURS.iter().cycle());
    let entries: String = entries
        .map(|(name, colour)| format!("<span><i style=\"background:{colour}\"></i>{}</span>\n", escaped(name)))
        .collect();
    format!("<p class=\"legend\">{entries}</p>\n")
}

/// A table: a line of titles, and lines.
pub fn table(lines: &[Vec<String>]) -> String {
    let row = |cells: &Vec<String>, tag: &str| {
        // Names of stores are long, and may be broken at their commas.
        let text = |cell: &String| escaped(cell).replace(',', ",<wbr>");
        let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", text(cell))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String =
        lines.iter().enumerate().map(|(at, line)| row(line, if at == 0 { "th" } else { "td" })).collect();
    format!("<table>\n{rows}</table>\n")
}

/// A whole page.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{0}</title>\n<style>\n{STYLE}{SVG_STYLE}</style>\n\
         <h1>{0}</h1>\n{body}</html>\n",
        escaped(title)
    )
}

const STYLE: &str = "\
body { font: 15px/1.45 system-ui, sans-serif; max-width: 900px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
svg { display: block; margin: 1em 0; max-width: 100%; height: auto }
.legend span { margin-right: 1.2em; white-space: nowrap }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .4em }
table { border-collapse: collapse } th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left } code { background: #f3f3f3; overflow-wrap: anywhere }
";

/// How charts look, on a light ground.
pub const SVG_STYLE: &str = "\
svg text { font-size: 12px; fill: #222 } svg .title { font-weight: 600; font-size: 13px }
svg .group, svg .note, svg .number { text-anchor: middle } svg .note { fill: #666; font-size: 11px } svg .mark { text-anchor: end }
svg .number { font-size: 10px } svg .grid { stroke: #ddd } svg .one { stroke: #222; stroke-dasharray: 4 3 }
";

/// Text as HTML and XML have it.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_numbers() {
        let (groups, notes) = (["1 KiB".to_string(), "4 <KiB>".to_string()], ["88 k/s".to_string()]);
        let series = [vec![Some(1.0), Some(1.0)], vec![Some(2.0), None]];
        let svg = Chart {
            title: "fill & read",
            width: WIDTH,
            names: &["<slmdb>".to_string()],
            groups: &groups,
            notes: &notes,
            series: &series,
            has_line_at_one: true,
            labels: &[vec!["88 <k>".to_string()]],
        }
        .svg();
        assert_eq!(svg.matches("<rect").count(), 3);
        assert!(svg.contains("fill &amp; read") && svg.contains("4 &lt;KiB&gt;") && svg.contains("88 k/s"));
        assert!(svg.contains("<title>&lt;slmdb&gt;: 1.00</title>") && svg.contains(">88 &lt;k&gt;<"));
        assert_eq!(svg.matches("class=\"number\"").count(), 1);
        let heights: Vec<f64> = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<rect")?.split("height=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert!((heights[1] / heights[0] - 2.0).abs() < 0.01, "{heights:?}");
        assert_eq!(heights[0], heights[2]);
    }

    #[test]
    fn curves_end_where_their_last_points_are() {
        let curves = [vec![(1.0, 50_000.0), (2.0, 100_000.0)], Vec::new()];
        let svg = Curves { title: "over <time>", curves: &curves }.svg();
        assert!(svg.contains("over &lt;time&gt;") && svg.contains(">100 k<") && svg.contains(">2 s<"), "{svg}");
        let end = format!("{:.1},{TOP:.1}\"", WIDTH - RIGHT);
        assert!(svg.contains(&end), "{end}: {svg}");
        assert_eq!(svg.matches("<polyline").count(), 2);
    }

    #[test]
    fn marks_are_round_and_few() {
        for (tallest, step) in [(1.0, 0.2), (2.3, 0.5), (7.0, 2.0), (12.0, 2.0), (40.0, 10.0), (0.6, 0.1)] {
            assert!((step_for(tallest) - step).abs() < 1e-9, "{tallest}: {}", step_for(tallest));
        }
    }
}
