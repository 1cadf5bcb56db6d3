//! The canonical form, and flat configurations as text.

mod common;
#[path = "common/places.rs"]
mod places;

use common::{connections, elements, flat};
use lang::print::{flat_text, format};
use lang::{SourceMap, parse};
use proptest::prelude::*;

fn formatted(text: &str) -> String {
    let mut map = SourceMap::new();
    let id = map.add("f", text);
    let (ast, errors) = parse(&mut map, id);
    assert!(errors.is_empty(), "{}", lang::render(&errors, &map, false));
    format(&ast)
}

fn check(text: &str, want: &str) {
    let once = formatted(text);
    assert_eq!(once, want);
    assert_eq!(formatted(&once), want, "formatting twice");
}

#[test]
fn statements() {
    check(
        "a::Idle;b,c::Queue( 5,6 );a->b [1]->[2,4-5]c",
        "a :: Idle;\nb, c :: Queue(5, 6);\na -> b [1] -> [2, 4-5] c;\n",
    );
    check("a=>[]b,[2-]c", "a => [] b, [2-] c;\n");
    check("define( $A 1,$B x )require(package X)", "define($A 1, $B x);\nrequire(package X);\n");
    check("elementclass Q Queue;", "elementclass Q Queue;\n");
    check("", "");
}

#[test]
fn compounds_and_groups() {
    check(
        "elementclass C{$a,K $b|input->Null($a)->output}",
        "elementclass C { $a, K $b | input -> Null($a) -> output };\n",
    );
    check("x->(->)->{}->({})", "x -> ( -> ) -> { } -> ( { } );\n");
    check(
        "elementclass C{a::Idle;b::Idle||$x| ||...}",
        "elementclass C {\n    a :: Idle;\n    b :: Idle;\n|| $x |\n|| ...\n};\n",
    );
    check("x->{a;b}(3)->y", "x -> {\n    a;\n    b;\n}(3) -> y;\n");
    check("elementclass C{...}", "elementclass C {\n...\n};\n");
}

#[test]
fn long_chains_are_broken() {
    let name = "n".repeat(30);
    check(
        &format!("{name}->{name}->{name}->{name}"),
        &format!("{name}\n    -> {name}\n    -> {name}\n    -> {name};\n"),
    );
}

#[test]
fn comments_are_kept() {
    check(
        "// head\n\n\na :: Idle; // one\n\n/* two */ b :: Idle // three\n-> c // four\n// five\n-> d; // six\n// tail",
        "// head\n\na :: Idle; // one\n\n/* two */\nb :: Idle // three\n    -> c // four\n    // five\n    -> d; // six\n// tail\n",
    );
    check("x :: { // in\n a // last\n}", "x :: {\n    // in\n    a; // last\n};\n");
    check("a(1, // one\n  2)", "a(1, // one\n  2);\n");
    check("a, // x\nb -> c", "a, b // x\n    -> c;\n");
}

#[test]
fn flat_configurations() {
    let text = "require(package X); elementclass C { $n | input -> Queue($n) -> Unqueue -> output }
        i :: Idle -> C(5) -> d :: Discard; t :: Tee; i -> t => d, [1] d; t [2] -> t";
    let f = flat(text);
    assert_eq!(
        flat_text(&f),
        "require(package X);\ni :: Idle;\nd :: Discard;\nt :: Tee;\nC@2/Queue@1 :: Queue(5);\n\
         C@2/Unqueue@2 :: Unqueue;\n\ni -> t -> d;\ni -> C@2/Queue@1 -> C@2/Unqueue@2 -> d;\nt [1] -> [1] d;\nt [2] -> t;\n"
    );
    let again = flat(&flat_text(&f));
    assert_eq!(elements(&again), elements(&f));
    assert_eq!(connections(&again), connections(&f));
}

#[test]
fn deep_nesting_is_printed_in_reasonable_time() {
    let text = format!("{}a, b, c{}", "{ x -> y; ".repeat(60), "}".repeat(60));
    let once = formatted(&text);
    assert_eq!(formatted(&once), once);
    let text = format!("{}a{}", "( { ".repeat(30), " } )".repeat(30));
    assert_eq!(formatted(&formatted(&text)), formatted(&text));
}

fn texts() -> impl Strategy<Value = String> {
    let space = prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\n\n",
        " // c\n",
        "/* d */",
        "\n// e\n\n// f\n",
        "/* g\nh */ ",
    ]);
    let config = prop::sample::select(vec![
        "",
        "",
        "()",
        "(1)",
        "( 1,2 )",
        "(a,\n b)",
        "(1 // x\n)",
        "(/* y */ 1)",
        "(,)",
        "(\"a, b\" 'c')",
        "( ,, )",
        "(\\<00>)",
    ]);
    let class = prop_oneof![Just("Idle".to_string()), Just("Queue".to_string()),];
    let ports = prop::sample::select(vec!["", "", "[0]", "[1,3-4]", "[]", "[2-]"]);
    let leaf = (class, config.clone()).prop_map(|(a, b)| format!("{a}{b}"));
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let node = (ports.clone(), inner, ports.clone()).prop_map(|(a, b, c)| format!("{a} {b} {c}"));
        let chain = prop::collection::vec(
            (node, prop::sample::select(vec![" -> ", "=>", ", "]), space.clone()),
            1..4,
        )
        .prop_map(|v| v.into_iter().map(|(a, b, c)| format!("{a}{c}{b}{c}")).collect::<String>() + "z");
        let end = prop::sample::select(vec![";", "; ", " ;\n", ";;", ";\n\n", "; // t\n", ";\n/* u */\n"]);
        let block = prop::collection::vec((space.clone(), chain, space.clone(), end), 0..4)
            .prop_map(|v| v.into_iter().map(|(a, b, c, d)| format!("{a}{b}{c}{d}")).collect::<String>());
        prop_oneof![
            block.clone().prop_map(|b| format!("({b})")),
            (block.clone(), config.clone()).prop_map(|(b, c)| format!("{{{b}}}{c}")),
            (block.clone(), block.clone())
                .prop_map(|(a, b)| format!("n :: {{ $a, K $b | {a} || {b} || ... }}")),
            block.prop_map(|b| format!("{{ $x | {b} }}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn formatting_keeps_the_meaning_and_is_idempotent(text in texts(), head in "(// a\n|/\\* b \\*/|\n| )?", tail in "(// a\n|/\\* b \\*/|\n| )?") {
        let text = format!("{head}{text}{tail}");
        let mut map = SourceMap::new();
        let id = map.add("f", &text);
        let (ast, errors) = parse(&mut map, id);
        prop_assume!(!lang::has_errors(&errors));
        let once = format(&ast);
        let id = map.add("g", &once);
        let (again, errors) = parse(&mut map, id);
        prop_assert!(!lang::has_errors(&errors), "{}\n{}", once, lang::render(&errors, &map, false));
        prop_assert_eq!(places::strip(&again), places::strip(&ast), "{}", once);
        prop_assert_eq!(&format(&again), &once);
        // No comment is lost: every mark of one is still there.
        for mark in ["// c", "/* d */", "// e", "// f", "// t", "/* u */", "// a", "/* b */", "// x", "/* y */"] {
            prop_assert_eq!(once.matches(mark).count(), text.matches(mark).count(), "{}", mark);
        }
    }
}
