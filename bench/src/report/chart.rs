//! Draws charts as SVG: medians joined by lines or as bars, with a whisker from the lowest to the highest value.
//!
//! Colours come from the page's style sheet (`.s0`, `.s1` for the series), so that light and dark pages can differ.

use crate::figure::Spread;
use std::fmt::Write;

/// A chart. Points stand at equal distances, whatever their labels.
#[derive(Clone, Debug)]
pub struct Chart<'a> {
    /// Above the chart.
    pub title: &'a str,
    /// Below the labels of the points; what they count.
    pub x_axis: &'a str,
    /// Labels of the points.
    pub labels: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series<'a>>,
    /// Bars instead of lines.
    pub bars: bool,
    /// For each label a value that should not be exceeded.
    pub limits: Vec<Option<f64>>,
}

/// Values of one program.
#[derive(Clone, Debug)]
pub struct Series<'a> {
    /// Its name.
    pub name: &'a str,
    /// One for each label; `None` where nothing was measured.
    pub points: Vec<Option<Spread>>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 48.0;
/// About so many lines across the chart.
const LINES: f64 = 5.0;

/// From values to places.
struct Scale {
    top: f64,
    step: f64,
    slot: f64,
}

impl Scale {
    fn of(chart: &Chart<'_>) -> Scale {
        let spreads = chart.series.iter().flat_map(|series| series.points.iter().flatten());
        let values = spreads.map(|spread| spread.max).chain(chart.limits.iter().flatten().copied());
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = step(highest / LINES);
        let top = (highest / step).ceil().max(1.0) * step;
        Scale { top, step, slot: (WIDTH - LEFT - RIGHT) / chart.labels.len().max(1) as f64 }
    }

    fn x(&self, index: usize) -> f64 {
        LEFT + self.slot * (index as f64 + 0.5)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - value.clamp(0.0, self.top) / self.top * (HEIGHT - TOP - BOTTOM)
    }
}

/// 1, 2 or 5 times a power of ten, not below `least`; 1 if that is nothing.
fn step(least: f64) -> f64 {
    if !least.is_finite() || least <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|s| *s >= least).unwrap_or(10.0 * power)
}

impl Chart<'_> {
    /// The chart as an `svg` element.
    pub fn svg(&self) -> String {
        let scale = Scale::of(self);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">{}</text>\n",
            escape(self.title),
            escape(self.title)
        );
        self.legend(&mut out);
        self.axes(&scale, &mut out);
        for (number, series) in self.series.iter().enumerate() {
            if self.bars {
                self.draw_bars(number, series, &scale, &mut out);
            } else {
                draw_line(number, series, &scale, &mut out);
            }
        }
        for (index, limit) in self.limits.iter().enumerate() {
            let Some(limit) = limit else { continue };
            let (x, y, half) = (scale.x(index), scale.y(*limit), scale.slot * 0.4);
            let _ = writeln!(
                out,
                "<line class=\"limit\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"><title>target: at \
                 most {limit}</title></line>",
                x - half,
                x + half
            );
        }
        out.push_str("</svg>\n");
        out
    }

    fn legend(&self, out: &mut String) {
        let mut x = LEFT;
        for (number, series) in self.series.iter().enumerate() {
            let _ = writeln!(
                out,
                "<rect class=\"s{number} fill\" x=\"{x:.1}\" y=\"28\" width=\"10\" height=\"10\"/>\
                 <text x=\"{:.1}\" y=\"37\">{}</text>",
                x + 14.0,
                escape(series.name)
            );
            x += 34.0 + 6.5 * series.name.chars().count() as f64;
        }
    }

    fn axes(&self, scale: &Scale, out: &mut String) {
        let right = WIDTH - RIGHT;
        let digits = if scale.step < 1.0 { (-scale.step.log10()).ceil() as usize } else { 0 };
        let lines = (scale.top / scale.step).round() as u32;
        for line in 0..=lines {
            let value = f64::from(line) * scale.step;
            let y = scale.y(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{value:.digits$}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        for (index, label) in self.labels.iter().enumerate() {
            let (x, y) = (scale.x(index), HEIGHT - BOTTOM + 16.0);
            let _ = writeln!(out, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(label));
        }
        let (x, y) = (f64::midpoint(LEFT, right), HEIGHT - 10.0);
        let _ = writeln!(out, "<text class=\"mid\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(self.x_axis));
    }

    fn draw_bars(&self, number: usize, series: &Series<'_>, scale: &Scale, out: &mut String) {
        let width = scale.slot * 0.6 / self.series.len() as f64;
        for (index, spread) in series.points.iter().enumerate() {
            let Some(spread) = spread else { continue };
            let x = scale.x(index) - scale.slot * 0.3 + width * number as f64;
            let (y, floor) = (scale.y(spread.median), scale.y(0.0));
            let _ = writeln!(
                out,
                "<rect class=\"s{number} fill\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{:.1}\">{}</rect>",
                floor - y,
                tip(series.name, spread)
            );
            whisker(number, x + width / 2.0, spread, scale, out);
        }
    }
}

fn draw_line(number: usize, series: &Series<'_>, scale: &Scale, out: &mut String) {
    let mut path = String::new();
    let mut joined = false;
    for (index, spread) in series.points.iter().enumerate() {
        if let Some(spread) = spread {
            let command = if joined { 'L' } else { 'M' };
            let _ = write!(path, "{command}{:.1} {:.1} ", scale.x(index), scale.y(spread.median));
        }
        joined = spread.is_some();
    }
    if !path.is_empty() {
        let _ = writeln!(out, "<path class=\"s{number}\" d=\"{}\"/>", path.trim_end());
    }
    for (index, spread) in series.points.iter().enumerate() {
        let Some(spread) = spread else { continue };
        let x = scale.x(index);
        whisker(number, x, spread, scale, out);
        let _ = writeln!(
            out,
            "<circle class=\"s{number} fill\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.5\">{}</circle>",
            scale.y(spread.median),
            tip(series.name, spread)
        );
    }
}

fn whisker(number: usize, x: f64, spread: &Spread, scale: &Scale, out: &mut String) {
    let (top, bottom) = (scale.y(spread.max), scale.y(spread.min));
    let _ = writeln!(
        out,
        "<line class=\"s{number} whisker\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>"
    );
}

fn tip(name: &str, spread: &Spread) -> String {
    let Spread { min, median, max } = spread;
    format!("<title>{}: {median:.2} ({min:.2}–{max:.2})</title>", escape(name))
}

/// Text that may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(min: f64, median: f64, max: f64) -> Option<Spread> {
        Some(Spread { min, median, max })
    }

    fn chart(points: Vec<Option<Spread>>) -> Chart<'static> {
        Chart {
            title: "a < b",
            x_axis: "bytes",
            labels: points.iter().enumerate().map(|(n, _)| n.to_string()).collect(),
            series: vec![Series { name: "router", points }],
            bars: false,
            limits: Vec::new(),
        }
    }

    #[test]
    fn steps_are_round() {
        for (least, want) in [(0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (7.0, 10.0), (0.03, 0.05)] {
            assert!((step(least) - want).abs() < 1e-12, "{least}");
        }
        assert_eq!([step(0.0), step(f64::NAN), step(f64::INFINITY)], [1.0; 3]);
    }

    #[test]
    fn values_are_where_they_belong() {
        let svg = chart(vec![spread(10.0, 20.0, 40.0), spread(50.0, 50.0, 50.0)]).svg();
        // From 0 at the bottom (252) to 50 at the top (52): four points for each unit. Two slots of 248.
        assert!(svg.contains("<path class=\"s0\" d=\"M176.0 172.0 L424.0 52.0\"/>"), "{svg}");
        assert!(svg.contains("<circle class=\"s0 fill\" cx=\"176.0\" cy=\"172.0\" r=\"3.5\">"), "{svg}");
        let whisker = "<line class=\"s0 whisker\" x1=\"176.0\" x2=\"176.0\" y1=\"92.0\" y2=\"212.0\"/>";
        assert!(svg.contains(whisker), "{svg}");
        assert_eq!(svg.matches("class=\"grid\"").count(), 6);
        assert!(svg.contains("a &lt; b") && !svg.contains("a < b"));
    }

    #[test]
    fn a_gap_is_not_bridged() {
        let svg = chart(vec![spread(1.0, 1.0, 1.0), None, spread(1.0, 1.0, 1.0)]).svg();
        assert_eq!(svg.matches('M').count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        let nothing = chart(vec![None]).svg();
        assert!(!nothing.contains("<path") && !nothing.contains("NaN"), "{nothing}");
    }

    #[test]
    fn bars_stand_on_the_floor_and_limits_are_drawn() {
        let mut chart = chart(vec![spread(1.0, 1.0, 1.0)]);
        (chart.bars, chart.limits) = (true, vec![Some(2.0)]);
        let svg = chart.svg();
        assert!(svg.contains("y=\"152.0\" width=\"297.6\" height=\"100.0\""), "{svg}");
        assert!(svg.contains("class=\"limit\" x1=\"101.6\" x2=\"498.4\" y1=\"52.0\""), "{svg}");
    }

    #[test]
    fn no_text_gets_out() {
        assert_eq!(escape("<a href=\"x\">&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39; ");
    }
}
