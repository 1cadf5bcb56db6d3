//! Whatever the text, there is an answer: no panic, no endless growth, and places that exist.

mod common;

use lang::{Limits, SourceMap, expand_within, parse, render, to_click_format};
use proptest::prelude::*;

const SMALL: Limits = Limits { elements: 500, connections: 2_000, depth: 20, config_bytes: 20_000 };

fn run(text: &[u8]) {
    let mut map = SourceMap::new();
    let id = map.add("f", text);
    let (ast, mut all) = parse(&mut map, id);
    let formatted = lang::print::format(&ast);
    if !lang::has_errors(&all) {
        let again = map.add("g", &formatted);
        let (again, errors) = parse(&mut map, again);
        assert!(!lang::has_errors(&errors), "{formatted}");
        assert_eq!(lang::print::format(&again), formatted);
    }
    match expand_within(
        &ast,
        &common::CLASSES,
        &[("A".into(), "$B\"".into()), ("B".into(), "'$A".into())],
        SMALL,
    ) {
        Ok(flat) => {
            draw(&flat);
            all.extend(flat.warnings);
        }
        Err(more) => all.extend(more),
    }
    render(&all, &map, true);
    to_click_format(&all, &map);
    let length = map.get(id).map_or(0, |s| s.text.len());
    for d in &all {
        assert!(!d.labels.is_empty());
        for l in d.labels.iter().chain(&d.uses) {
            assert!(l.span.start <= l.span.end && l.span.end as usize <= length, "{l:?}");
            assert!(map.get(id).is_some_and(|s| s.text.is_char_boundary(l.span.start as usize)));
            assert!(map.get(id).is_some_and(|s| s.text.is_char_boundary(l.span.end as usize)));
        }
    }
}

fn draw(flat: &lang::Flat) {
    let picture = lang::draw::svg(flat, &|_, _, _| lang::draw::PortKind::Agnostic);
    assert_eq!(picture.matches("marker-end").count(), flat.connections.len());
    assert!(!picture.contains("NaN"));
    assert_eq!(lang::draw::dot(flat).matches(" -> ").count(), flat.connections.len());
    lang::draw::json(flat);
}

/// A flat configuration written out and read again is the same.
fn round_trip(text: &str) {
    let (_, Some(flat), all) = common::run_with(text.as_bytes(), &[]) else { return };
    if lang::has_errors(&all) {
        return;
    }
    let balanced = |t: &str| {
        let mut open = 0i32;
        t.chars().all(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            open >= 0
        }) && open == 0
    };
    // `define($a (, $b ))` gives $a and $b values that cannot be written out.
    if !flat.elements.iter().all(|e| balanced(&e.config.text)) {
        return;
    }
    let again = common::flat(&lang::print::flat_text(&flat));
    assert_eq!(common::connections(&again), common::connections(&flat));
    for (a, b) in again.elements.iter().zip(&flat.elements) {
        let arguments = |c| lang::args::split(c).into_iter().map(|a| a.text).collect::<Vec<_>>();
        assert_eq!((&a.name, &a.class, arguments(&a.config)), (&b.name, &b.class, arguments(&b.config)));
    }
}

/// Texts made of pieces of the language, so that deeper rules are reached than by random bytes.
#[rustfmt::skip]
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", "c", "input", "output", "Idle", "Queue", "Tee", "C", " :: ", " -> ", " => ", ";", ",", "(", ")", "[", "]", "{", "}", "|",
        "||", "...", "$a", "$b", "${a[1]}", "${b-$a}", "KEY ", "__REST__ ", "0", "1", "-", 
        "elementclass C ", "elementclass D C;", "define($a 1)", "define($b $a$A)", "require(package X)", "require(library L)", 
        "\"", "'", "\\<", ">", "\\", "//", "/*", "*/", "\n", "\n# 3 \"g\"\n", "é", "@", "/", "a :: Idle; ", "{ input -> output }", "( -> )", "[0-3]", "[]", "a -> b", "Queue($a, \"$A\")",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|v| v.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn bytes(text in prop::collection::vec(any::<u8>(), 0..300)) {
        run(&text);
    }

    #[test]
    fn printable(text in "[ -~\n]{0,200}") {
        run(text.as_bytes());
    }

    #[test]
    fn language(text in pieces()) {
        run(text.as_bytes());
        round_trip(&text);
    }
}
