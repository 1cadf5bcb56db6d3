//! The graph for Graphviz.

use crate::flat::Flat;
use std::fmt::Write;

/// A `digraph` with a box for each element and a frame around the parts of each compound. Port numbers stand
/// at the ends of arrows, except 0.
pub fn dot(flat: &Flat) -> String {
    let mut out = String::from(
        "digraph config {\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\", fontsize=11];\n  \
         edge [fontname=\"Helvetica\", fontsize=9];\n",
    );
    let mut parts = vec![Vec::new(); flat.scopes.len()];
    let mut inner = vec![Vec::new(); flat.scopes.len()];
    for (i, e) in flat.elements.iter().enumerate() {
        if let Some(list) = parts.get_mut(e.scope) {
            list.push(i);
        }
    }
    for (i, s) in flat.scopes.iter().enumerate() {
        if let Some(list) = s.parent.and_then(|p| inner.get_mut(p)) {
            list.push(i);
        }
    }
    if !flat.scopes.is_empty() {
        frame(flat, &parts, &inner, 0, 1, &mut out);
    }
    for c in &flat.connections {
        let _ = write!(out, "  n{} -> n{}", c.from.0, c.to.0);
        let mut labels = Vec::new();
        if c.from.1 > 0 {
            labels.push(format!("taillabel=\"{}\"", c.from.1));
        }
        if c.to.1 > 0 {
            labels.push(format!("headlabel=\"{}\"", c.to.1));
        }
        let _ =
            if labels.is_empty() { writeln!(out, ";") } else { writeln!(out, " [{}];", labels.join(", ")) };
    }
    out.push_str("}\n");
    out
}

/// The parts of a compound. Expansion bounds how deep compounds nest.
fn frame(
    flat: &Flat,
    parts: &[Vec<usize>],
    inner: &[Vec<usize>],
    scope: usize,
    depth: usize,
    out: &mut String,
) {
    let pad = "  ".repeat(depth);
    for &i in &parts[scope] {
        let e = &flat.elements[i];
        let _ = writeln!(out, "{pad}n{i} [label=\"{}\\n{}\"];", escaped(&e.name), escaped(&e.class));
    }
    for &s in &inner[scope] {
        let name = escaped(&flat.scopes[s].name);
        let _ = writeln!(out, "{pad}subgraph cluster_{s} {{\n{pad}  label=\"{name}\";\n{pad}  color=gray;");
        frame(flat, parts, inner, s, depth + 1, out);
        let _ = writeln!(out, "{pad}}}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " ")
}
