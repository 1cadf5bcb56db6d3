//! What the tests of the language share.
#![allow(dead_code)]

use lang::{Diagnostic, Flat, SourceMap, Target, expand, parse, to_click_format};

pub const CLASSES: [&str; 12] = [
    "Idle",
    "Discard",
    "Counter",
    "Queue",
    "Unqueue",
    "Tee",
    "Paint",
    "Print",
    "Script",
    "Null",
    "CheckIPHeader",
    "RoundRobinSched",
];

/// Parses and expands; all diagnostics in one list.
pub fn run_with(text: &[u8], overrides: &[(&str, &str)]) -> (SourceMap, Option<Flat>, Vec<Diagnostic>) {
    let mut map = SourceMap::new();
    let id = map.add("f", text);
    let (ast, mut all) = parse(&mut map, id);
    let overrides: Vec<(String, String)> =
        overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let flat = match expand(&ast, &CLASSES, &overrides) {
        Ok(flat) => {
            all.extend(flat.warnings.clone());
            Some(flat)
        }
        Err(more) => {
            all.extend(more);
            None
        }
    };
    (map, flat, all)
}

/// Messages as Click prints them, without `f:`.
pub fn messages(text: &str) -> Vec<String> {
    let (map, _, all) = run_with(text.as_bytes(), &[]);
    to_click_format(&all, &map).lines().map(|l| l.strip_prefix("f:").unwrap_or(l).to_string()).collect()
}

/// Places as `line:column` and messages as people read them.
pub fn carets(text: &str) -> Vec<String> {
    let (map, _, all) = run_with(text.as_bytes(), &[]);
    all.iter()
        .map(|d| {
            let at = map.position(d.span());
            format!("{}:{}: {}", at.line, at.column, d.message)
        })
        .collect()
}

pub fn flat_with(text: &str, overrides: &[(&str, &str)]) -> Flat {
    let (map, flat, all) = run_with(text.as_bytes(), overrides);
    assert!(all.is_empty(), "unexpected: {}", lang::render(&all, &map, false));
    flat.unwrap_or_default()
}

pub fn flat(text: &str) -> Flat {
    flat_with(text, &[])
}

/// `name :: Class(config)` of every element, in order.
pub fn elements(flat: &Flat) -> Vec<String> {
    flat.elements
        .iter()
        .map(|e| {
            let config =
                if e.config.text.is_empty() { String::new() } else { format!("({})", e.config.text) };
            format!("{} :: {}{config}", e.name, e.class)
        })
        .collect()
}

/// `a [1] -> [2] b` of every connection, in order.
pub fn connections(flat: &Flat) -> Vec<String> {
    let name = |i: usize| &flat.elements[i].name;
    flat.connections
        .iter()
        .map(|c| format!("{} [{}] -> [{}] {}", name(c.from.0), c.from.1, c.to.1, name(c.to.0)))
        .collect()
}

pub fn target_name(flat: &Flat, target: Option<Target>) -> Option<&str> {
    Some(match target? {
        Target::Element(i) => &flat.elements[i].name,
        Target::Compound(i) => &flat.scopes[i].name,
    })
}
