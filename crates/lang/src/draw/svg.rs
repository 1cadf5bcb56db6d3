//! The picture.

use super::layout::{BOX_HEIGHT, Drawing, Layout, Point, layout, port_point};
use super::{Kinds, PortKind};
use crate::flat::Flat;
use std::fmt::Write;

/// Mean width of a character at the font sizes used.
const NAME_CHAR: f64 = 6.9;
const CLASS_CHAR: f64 = 6.1;
const MIN_WIDTH: f64 = 56.0;
/// Room that a port mark needs.
const PORT_WIDTH: f64 = 14.0;

/// A drawing as Click's papers have it: boxes with name and class, inputs as triangles on top, outputs as
/// rectangles at the bottom, push ports black and pull ports white. Numbers stand at ports other than 0.
pub fn svg(flat: &Flat, kinds: &Kinds<'_>) -> String {
    let drawing = drawing(flat);
    let layout = layout(&drawing);
    let (width, height) = (layout.width.max(40.0), layout.height.max(40.0));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#444\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (points, upward) in &layout.arrows {
        arrow(&mut out, points, *upward);
    }
    for (i, e) in flat.elements.iter().enumerate() {
        element_box(&mut out, &layout, &drawing, i, &e.name, &e.class, &e.config.text);
        let (inputs, outputs) = drawing.ports[i];
        for port in 0..inputs {
            let at = port_point(&drawing, &layout.boxes, (i, port), false);
            input_mark(&mut out, at, kinds(i, false, port), port);
        }
        for port in 0..outputs {
            let at = port_point(&drawing, &layout.boxes, (i, port), true);
            output_mark(&mut out, at, kinds(i, true, port), port);
        }
    }
    out.push_str("</svg>\n");
    out
}

/// At most this many ports of an element get marks of their own.
const MAX_MARKS: u32 = 256;

fn drawing(flat: &Flat) -> Drawing {
    let mut ports = vec![(0u32, 0u32); flat.elements.len()];
    for c in &flat.connections {
        ports[c.from.0].1 = ports[c.from.0].1.max(c.from.1.min(MAX_MARKS) + 1);
        ports[c.to.0].0 = ports[c.to.0].0.max(c.to.1.min(MAX_MARKS) + 1);
    }
    let width = |(name, class): (&str, &str), ports: (u32, u32)| {
        let name = name.chars().count() as f64 * NAME_CHAR;
        let class = class.chars().count() as f64 * CLASS_CHAR;
        let marks = f64::from(ports.0.max(ports.1)) * PORT_WIDTH;
        (name.max(class) + 18.0).max(marks).max(MIN_WIDTH)
    };
    let widths = flat.elements.iter().zip(&ports).map(|(e, &p)| width((&e.name, &e.class), p)).collect();
    let arrows = flat
        .connections
        .iter()
        .map(|c| ((c.from.0, c.from.1.min(MAX_MARKS)), (c.to.0, c.to.1.min(MAX_MARKS))))
        .collect();
    Drawing { widths, ports, arrows }
}

/// A smooth line through the points, which leaves downward and arrives from above.
fn arrow(out: &mut String, points: &[Point], upward: bool) {
    let [first, between @ .., last] = points else { return };
    let start = Point { x: first.x, y: first.y + 6.0 };
    let end = Point { x: last.x, y: last.y - 1.0 };
    let _ = write!(out, "<path d=\"M{:.1} {:.1}", start.x, start.y);
    // Which way the line runs at the bends.
    let way = if upward && !between.is_empty() { -1.0 } else { 1.0 };
    let mut at = (start, 1.0);
    for (i, &to) in between.iter().chain([&end]).enumerate() {
        let arrives = if i == between.len() { 1.0 } else { way };
        let reach = ((to.y - at.0.y).abs() / 2.0).max(18.0);
        let (leave_y, arrive_y) = (at.0.y + at.1 * reach, to.y - arrives * reach);
        let _ = write!(out, "C{:.1} {leave_y:.1} {:.1} {arrive_y:.1} {:.1} {:.1}", at.0.x, to.x, to.x, to.y);
        at = (to, way);
    }
    out.push_str("\" fill=\"none\" stroke=\"#444\" marker-end=\"url(#tip)\"/>\n");
}

fn element_box(
    out: &mut String,
    layout: &Layout,
    drawing: &Drawing,
    index: usize,
    name: &str,
    class: &str,
    config: &str,
) {
    let (at, width) = (layout.boxes[index], drawing.widths[index]);
    let middle = at.x + width / 2.0;
    let _ = writeln!(
        out,
        "<g><title>{0} :: {1}({2})</title><rect x=\"{3:.1}\" y=\"{4:.1}\" width=\"{width:.1}\" \
         height=\"{BOX_HEIGHT:.1}\" fill=\"#fbfbf6\" stroke=\"#222\"/>\
         <text x=\"{middle:.1}\" y=\"{5:.1}\" text-anchor=\"middle\" font-size=\"12\">{0}</text>\
         <text x=\"{middle:.1}\" y=\"{6:.1}\" text-anchor=\"middle\" font-size=\"11\" fill=\"#666\">{1}</text></g>",
        escaped(name),
        escaped(class),
        escaped(config),
        at.x,
        at.y,
        at.y + 18.0,
        at.y + 31.0
    );
}

fn fill(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Push => "#111",
        PortKind::Pull => "#fff",
        PortKind::Agnostic => "#bbb",
    }
}

fn input_mark(out: &mut String, at: Point, kind: PortKind, port: u32) {
    let (x, y) = (at.x, at.y);
    let _ =
        writeln!(out, "<path d=\"M{:.1} {y:.1}h8l-4 6z\" fill=\"{}\" stroke=\"#111\"/>", x - 4.0, fill(kind));
    if port > 0 {
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{port}</text>", x + 5.0, y - 2.0);
    }
}

fn output_mark(out: &mut String, at: Point, kind: PortKind, port: u32) {
    let (x, y) = (at.x, at.y);
    let _ = writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"8\" height=\"5\" fill=\"{}\" stroke=\"#111\"/>",
        x - 4.0,
        fill(kind)
    );
    if port > 0 {
        let _ =
            writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"9\">{port}</text>", x + 6.0, y + 9.0);
    }
}

/// Text for XML; control characters, which XML does not allow, become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            c => out.push(c),
        }
    }
    out
}
