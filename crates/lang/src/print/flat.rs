//! A flat configuration as text (`flatconfig`).

use super::{has_comment, join_arguments};
use crate::flat::{Flat, FlatConnection};
use std::collections::HashMap;
use std::fmt::Write;

/// Lines of connections are broken behind this column.
const WIDTH: usize = 78;

/// Requirements, then `name :: Class(config);` for each element, an empty line, and the connections as chains.
/// Reading the text again gives the same elements and connections.
pub fn flat_text(flat: &Flat) -> String {
    let mut out = String::new();
    let packages = flat.requirements.iter().map(|r| match r.kind.as_str() {
        "" => r.value.clone(),
        kind => format!("{kind} {}", r.value),
    });
    for requirement in packages {
        let _ = writeln!(out, "require({requirement});");
    }
    for e in &flat.elements {
        let config =
            if has_comment(&e.config.text) { join_arguments(&e.config) } else { e.config.text.clone() };
        let config = if config.trim_ascii().is_empty() { config } else { format!("({config})") };
        let _ = writeln!(out, "{} :: {}{};", e.name, e.class, config.trim_ascii_end());
    }
    if !flat.connections.is_empty() {
        out.push('\n');
    }
    for chain in chains(flat) {
        out.push_str(&chain_text(flat, &chain));
        out.push_str(";\n");
    }
    out
}

/// Every connection once, in chains that are as long as possible; first those that begin at an element without
/// inputs.
fn chains(flat: &Flat) -> Vec<Vec<FlatConnection>> {
    let mut leaving: HashMap<usize, std::collections::VecDeque<FlatConnection>> = HashMap::new();
    let mut has_input = vec![false; flat.elements.len()];
    for c in &flat.connections {
        leaving.entry(c.from.0).or_default().push_back(*c);
        if let Some(flag) = has_input.get_mut(c.to.0) {
            *flag = true;
        }
    }
    let heads = (0..flat.elements.len()).filter(|&i| !has_input[i]);
    let order: Vec<usize> = heads.chain(0..flat.elements.len()).collect();
    let mut all = Vec::new();
    for start in order {
        while let Some(first) = leaving.get_mut(&start).and_then(|l| l.pop_front()) {
            let mut chain = vec![first];
            let mut at = first.to.0;
            while let Some(next) = leaving.get_mut(&at).and_then(|l| l.pop_front()) {
                chain.push(next);
                at = next.to.0;
            }
            all.push(chain);
        }
    }
    all
}

fn chain_text(flat: &Flat, chain: &[FlatConnection]) -> String {
    let name = |i: usize| flat.elements.get(i).map_or("", |e| e.name.as_str());
    let mut out = chain.first().map_or(String::new(), |c| name(c.from.0).to_string());
    let mut column = out.chars().count();
    for c in chain {
        if c.from.1 > 0 {
            let _ = write!(out, " [{}]", c.from.1);
        }
        let port = if c.to.1 > 0 { format!("[{}] ", c.to.1) } else { String::new() };
        let part = format!("-> {port}{}", name(c.to.0));
        let width = part.chars().count();
        if column + 1 + width > WIDTH {
            out.push_str("\n    ");
            column = 4 + width;
        } else {
            out.push(' ');
            column += 1 + width;
        }
        out.push_str(&part);
    }
    out
}
