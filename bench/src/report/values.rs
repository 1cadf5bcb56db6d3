//! Figures of one quantity each: a chart for every quantity that was swept, and a table of all, group by group.

use super::chart::{Chart, Series, escape};
use super::{cell, spreads, text};
use serde_json::Value;
use std::fmt::Write;

/// A group: its heading, what the axis of its sweep counts.
const GROUPS: [(&str, &str, &str); 10] = [
    ("lookups", "Lookups alone: IPv4", ""),
    ("lookups6", "Lookups alone: IPv6", ""),
    ("batching", "Rate and added latency against batching", "k: packets received, and sent, at a time"),
    ("load", "Cycles against offered load", "offered load, per cent of the most that comes through"),
    ("workers", "Two workers against one", ""),
    ("accounting", "What the accounting of cycles costs", ""),
    ("cores", "Cores and queues", ""),
    ("rings", "Between two processes of one machine", "bytes of a frame"),
    ("latency", "Latency", ""),
    ("cluster", "Several servers as one router", "nodes"),
];

/// All groups that there are figures of.
pub fn write(rows: &[&Value], out: &mut String) {
    for (group, heading, axis) in GROUPS {
        let rows: Vec<&Value> = rows.iter().copied().filter(|row| row["group"] == group).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(out, "<h2>{}</h2>", escape(heading));
        charts(&rows, axis, out);
        table(&rows, out);
    }
}

/// Distinct values of a key, in order of appearance.
fn distinct(rows: &[&Value], key: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        let value = text(&row[key]);
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

fn charts(rows: &[&Value], axis: &str, out: &mut String) {
    let swept: Vec<&Value> = rows.iter().copied().filter(|row| !row["at"].is_null()).collect();
    if swept.is_empty() {
        return;
    }
    out.push_str("<div class=\"charts\">\n");
    let labels = distinct(&swept, "at");
    for what in distinct(&swept, "what") {
        let of_this: Vec<&Value> = swept.iter().copied().filter(|row| row["what"] == what.as_str()).collect();
        let unit = of_this.first().map_or(String::new(), |row| text(&row["unit"]));
        let names = distinct(&of_this, "of");
        let points = |name: &String| {
            let at = |label: &String| {
                let row =
                    of_this.iter().find(|row| text(&row["at"]) == *label && text(&row["of"]) == *name)?;
                spreads(&[*row], "value").first().copied().flatten()
            };
            labels.iter().map(at).collect()
        };
        let series = names.iter().map(|name| Series { name, points: points(name) }).collect();
        let title = format!("{what}, {unit}");
        let chart = Chart {
            title: &title,
            x_axis: axis,
            labels: labels.clone(),
            series,
            bars: false,
            limits: Vec::new(),
        };
        out.push_str(&chart.svg());
    }
    out.push_str("</div>\n");
}

fn table(rows: &[&Value], out: &mut String) {
    out.push_str(
        "<div class=\"wide\"><table>\n<tr><th>at</th><th>of</th><th>what</th><th>value</th><th>unit</th>\
         <th>target</th><th>measurements</th></tr>\n",
    );
    for row in rows {
        let class = match row["met"].as_bool() {
            Some(true) => " class=\"met\"",
            Some(false) => " class=\"missed\"",
            None => "",
        };
        let digits = if row["value"]["median"].as_f64().is_some_and(|v| v < 10.0) { 3 } else { 1 };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td><td{class}>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            escape(&text(&row["at"])),
            escape(&text(&row["of"])),
            escape(&text(&row["what"])),
            cell(&row["value"], digits),
            escape(&text(&row["unit"])),
            escape(&text(&row["target"])),
            text(&row["measurements"]),
        );
    }
    out.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_chart_for_each_swept_quantity_and_a_row_for_each_figure() {
        let row = |group: &str, at: Option<&str>, what: &str, of: &str| {
            json!({"group": group, "at": at, "what": what, "of": of, "unit": "µs", "target": "at most 3",
                "met": false, "measurements": 1, "value": {"min": 1.0, "median": 2.0, "max": 3.0}})
        };
        let rows = [
            row("batching", Some("1"), "latency", "router"),
            row("batching", Some("8"), "latency", "router"),
            row("batching", Some("8"), "latency", "<testpmd>"),
            row("batching", Some("8"), "rate", "router"),
            row("lookups", None, "memory", "Dir24_8"),
            row("unheard-of", None, "memory", "x"),
        ];
        let mut out = String::new();
        write(&rows.iter().collect::<Vec<_>>(), &mut out);
        assert_eq!((out.matches("<svg").count(), out.matches("<h2>").count()), (2, 2));
        assert_eq!(out.matches("<td class=\"missed\">2.000 (1.000–3.000)</td>").count(), 5);
        assert!(out.contains("&lt;testpmd&gt;") && !out.contains("<testpmd>"), "{out}");
    }
}
