//! The page with plots, made of the lines of JSON. It needs nothing but itself: no script, no font, no network.

mod chart;
mod values;

use crate::figure::Spread;
use chart::{Chart, Series, escape};
use clap::Args;
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Figures, a line of JSON each
    #[arg(value_name = "FILE.jsonl")]
    lines: PathBuf,

    /// The page; beside FILE.jsonl, as report.html, if not given
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

/// Draws the page.
pub fn draw(args: &ReportArgs) -> Result<(), String> {
    let page = args.output.clone().unwrap_or_else(|| args.lines.with_file_name("report.html"));
    write(&args.lines, &page)?;
    println!("{}", page.display());
    Ok(())
}

/// Makes a page of a file of lines.
pub fn write(lines: &Path, page: &Path) -> Result<(), String> {
    let text = fs::read_to_string(lines).map_err(|e| format!("{}: {e}", lines.display()))?;
    let rows = parse(&text).map_err(|e| format!("{}: {e}", lines.display()))?;
    fs::write(page, html(&rows)).map_err(|e| format!("{}: {e}", page.display()))
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(n, line)| serde_json::from_str(line).map_err(|e| format!("line {n}: {e}"))).collect()
}

const STYLE: &str = include_str!("style.css");

/// A sweep: its group, its heading, what its axis counts.
const SWEEPS: [(&str, &str, &str); 6] = [
    ("size", "Packet size", "bytes of a frame, without check sequence"),
    ("table", "Size of the routing table", "routes"),
    ("destinations", "Destinations", "destinations, one packet each"),
    ("burst", "Batch size", "packets that move together at most"),
    ("elements", "Elements on the way", "elements more than receive and send"),
    ("workers", "Workers", "cores that forward, a queue each"),
];

fn html(rows: &[Value]) -> String {
    let with = |schema: &str| -> Vec<&Value> { rows.iter().filter(|row| row["schema"] == schema).collect() };
    let figures = with("routebricks.bench/2");
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>RouteBricks: figures</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>RouteBricks: figures</h1>\n\
         <p>Router and dpdk-testpmd (io) ran in turn on the same ports, cores and pool. Points are medians, whiskers \
         reach from the lowest to the highest run. Cycles are ticks of the time-stamp counter during CPU time of the \
         threads that forward; rates are what the cores forward when nothing else has them.</p>\n"
    );
    arrangement(&figures, &mut out);
    targets(&figures, &mut out);
    for (group, heading, axis) in SWEEPS {
        let points: Vec<&Value> = figures.iter().copied().filter(|row| row["group"] == group).collect();
        if !points.is_empty() {
            sweep(&points, heading, axis, &mut out);
        }
    }
    values::write(&with("routebricks.bench-value/1"), &mut out);
    others(&with("routebricks.bench-other/1"), &mut out);
    throughput(&with("routebricks.ndr/1"), &mut out);
    out.push_str("</body>\n</html>\n");
    out
}

/// What all figures have in common, as the first one has it.
fn arrangement(figures: &[&Value], out: &mut String) {
    let Some(first) = figures.first() else { return };
    let table = figures.iter().find_map(|row| row["table"].as_str());
    out.push_str("<dl>\n");
    let ghz = first["tsc_ghz"].as_f64().unwrap_or_default();
    for (name, value) in [
        ("DPDK", text(&first["dpdk"])),
        ("Memory", text(&first["memory"])),
        ("Time-stamp counter", format!("{ghz:.3} GHz")),
        ("Table", table.unwrap_or("–").to_owned()),
    ] {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    out.push_str("</dl>\n");
}

/// Figures that stand alone.
fn targets(figures: &[&Value], out: &mut String) {
    let alone: Vec<&Value> = figures.iter().copied().filter(|row| row["at"].is_null()).collect();
    if alone.is_empty() {
        return;
    }
    let chart = Chart {
        title: "Cost, as a multiple of testpmd io",
        x_axis: "dashed: target",
        labels: alone.iter().map(|row| text(&row["name"])).collect(),
        series: vec![Series { name: "router / testpmd", points: spreads(&alone, "ratio") }],
        bars: true,
        limits: alone.iter().map(|row| row["target_ratio"].as_f64()).collect(),
    };
    let _ = writeln!(out, "<h2>Against the targets</h2>\n<div class=\"charts\">\n{}</div>", chart.svg());
    table(&alone, "figure", "name", out);
}

/// Figures against one quantity.
fn sweep(points: &[&Value], heading: &str, axis: &str, out: &mut String) {
    let charts = [
        ("TSC cycles per packet", "router_tsc_cycles_per_packet", "testpmd_tsc_cycles_per_packet"),
        ("Million packets per second", "router_mpps", "testpmd_mpps"),
    ];
    let _ = writeln!(out, "<h2>{}</h2>\n<div class=\"charts\">", escape(heading));
    for (title, router, testpmd) in charts {
        let chart = Chart {
            title,
            x_axis: axis,
            labels: points.iter().map(|row| text(&row["at"])).collect(),
            series: vec![
                Series { name: "router", points: spreads(points, router) },
                Series { name: "testpmd io", points: spreads(points, testpmd) },
            ],
            bars: false,
            limits: Vec::new(),
        };
        out.push_str(&chart.svg());
    }
    out.push_str("</div>\n");
    table(points, axis, "at", out);
}

fn table(rows: &[&Value], first: &str, key: &str, out: &mut String) {
    let _ = writeln!(
        out,
        "<div class=\"wide\"><table>\n<tr><th>{}</th><th>router, cycles/packet</th><th>testpmd</th>\
         <th>ratio</th><th>target</th><th>router, Mpps</th><th>testpmd</th><th>configuration</th>\
         <th>arrangement</th><th>frames</th><th>destinations</th><th>routes</th><th>buffers</th><th>pairs</th></tr>",
        escape(first)
    );
    for row in rows {
        let target = row["target_ratio"].as_f64().map_or("–".to_owned(), |t| format!("{t:.2}"));
        let class = match row["met"].as_bool() {
            Some(true) => " class=\"met\"",
            Some(false) => " class=\"missed\"",
            None => "",
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td{class}>{}</td><td>{target}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&text(&row[key])),
            cell(&row["router_tsc_cycles_per_packet"], 1),
            cell(&row["testpmd_tsc_cycles_per_packet"], 1),
            cell(&row["ratio"], 3),
            cell(&row["router_mpps"], 1),
            cell(&row["testpmd_mpps"], 1),
            escape(&text(&row["config"])),
            escape(&text(&row["arrangement"])),
            escape(&text(&row["frames"])),
            text(&row["destinations"]),
            text(&row["routes"]),
            text(&row["pool_buffers"]),
            text(&row["pairs"]),
        );
    }
    out.push_str("</table></div>\n");
}

/// Other programs.
fn others(rows: &[&Value], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Other programs</h2>\n<div class=\"wide\"><table>\n\
         <tr><th>program</th><th>cycles/packet</th><th>arrangement</th></tr>\n",
    );
    for row in rows {
        let cost = match row["tsc_cycles_per_packet"].is_object() {
            true => cell(&row["tsc_cycles_per_packet"], 1),
            false => escape(&text(&row["status"])),
        };
        let (program, arrangement) = (escape(&text(&row["program"])), escape(&text(&row["arrangement"])));
        let _ =
            writeln!(out, "<tr><td>{program}</td><td>{cost}</td><td class=\"text\">{arrangement}</td></tr>");
    }
    out.push_str("</table></div>\n");
}

/// Results of searches for the throughput.
fn throughput(rows: &[&Value], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Throughput and latency (RFC 2544, by the rules of MLRsearch)</h2>\n<div class=\"wide\"><table>\n\
         <tr><th>configuration</th><th>bytes</th><th>loss ratio</th><th>lower bound, packets/s</th><th>upper bound</th>\
         <th>conditional throughput</th><th>regular</th><th>latency µs, p50</th><th>p99</th><th>arrangement</th></tr>\n",
    );
    for row in rows {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td class=\"text\">{}</td></tr>",
            escape(&text(&row["config"])),
            text(&row["frame_bytes"]),
            text(&row["goal_loss_ratio"]),
            text(&row["lower_bound_packets_per_second"]),
            text(&row["upper_bound_packets_per_second"]),
            text(&row["conditional_throughput_packets_per_second"]),
            text(&row["regular"]),
            text(&row["latency"]["p50_us"]),
            text(&row["latency"]["p99_us"]),
            escape(&text(&row["arrangement"])),
        );
    }
    out.push_str("</table></div>\n");
}

fn spreads(rows: &[&Value], key: &str) -> Vec<Option<Spread>> {
    rows.iter().map(|row| Spread::from_json(&row[key])).collect()
}

/// Median, and lowest and highest.
fn cell(value: &Value, digits: usize) -> String {
    Spread::from_json(value).map_or("–".to_owned(), |s| {
        format!("{:.digits$} ({:.digits$}–{:.digits$})", s.median, s.min, s.max)
    })
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spread(median: f64) -> Value {
        json!({"min": median - 1.0, "median": median, "max": median + 1.0})
    }

    fn figure(group: &str, at: Option<&str>, cycles: f64) -> Value {
        json!({
            "schema": "routebricks.bench/2", "name": group, "group": group, "at": at,
            "config": "conf/bench/<io>.click", "frames": "64", "destinations": 4096, "pool_buffers": 40960,
            "dpdk": "DPDK 22.11", "memory": "huge pages of 2 MB", "tsc_ghz": 2.0, "table": "t", "pairs": 3,
            "router_tsc_cycles_per_packet": spread(cycles), "testpmd_tsc_cycles_per_packet": spread(30.0),
            "ratio": spread(cycles / 30.0), "router_mpps": spread(50.0), "testpmd_mpps": spread(60.0),
            "target_ratio": at.is_none().then_some(1.05), "met": at.is_none().then_some(false),
        })
    }

    #[test]
    fn a_page_has_what_was_measured_and_nothing_from_elsewhere() {
        let other = json!({"schema": "routebricks.bench-other/1", "program": "vpp", "status": "not found"});
        let rows = [
            figure("io", None, 33.0),
            figure("size", Some("64"), 44.0),
            figure("size", Some("IMIX"), 66.0),
            other,
        ];
        let text: String = rows.iter().map(|row| format!("{row}\n\n")).collect();
        let page = html(&parse(&text).unwrap());
        assert_eq!(page.matches("<svg").count(), 3, "one for the targets, two for the sweep");
        assert_eq!(page.matches("</svg>").count(), 3);
        assert!(page.contains("<td class=\"missed\">1.100 (0.100–2.100)</td>"), "{page}");
        assert!(page.contains("IMIX") && page.contains("<td>vpp</td><td>not found</td>"), "{page}");
        assert!(page.contains("conf/bench/&lt;io&gt;.click") && !page.contains("<io>"));
        for foreign in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        // Every element that is opened is closed, but for those that HTML does not close.
        for name in ["table", "tr", "td", "div", "h2", "text", "title", "circle", "body", "html", "dl"] {
            let open =
                page.matches(&format!("<{name}>")).count() + page.matches(&format!("<{name} ")).count();
            assert_eq!(open, page.matches(&format!("</{name}>")).count(), "{name}");
        }
    }

    #[test]
    fn lines_that_are_no_json_are_named() {
        assert_eq!(parse("").unwrap(), Vec::<Value>::new());
        assert!(parse("{}\nx\n").unwrap_err().starts_with("line 2: "));
        assert!(!html(&[]).contains("<svg"));
    }
}
