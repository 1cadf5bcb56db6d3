//! Pictures: dot, JSON and SVG.

mod common;

use common::flat;
use lang::draw::{PortKind, dot, json, svg};

const TEXT: &str =
    r#"i :: Idle -> c :: { input -> q :: Queue("a<b") -> output } -> d :: Discard; i -> [2] d"#;

#[test]
fn graphviz() {
    let want = "digraph config {\n  rankdir=TB;\n  node [shape=box, fontname=\"Helvetica\", fontsize=11];\n  edge [fontname=\"Helvetica\", fontsize=9];\n  n0 [label=\"i\\nIdle\"];\n  n1 [label=\"d\\nDiscard\"];\n  subgraph cluster_1 {\n    label=\"c\";\n    color=gray;\n    n2 [label=\"c/q\\nQueue\"];\n  }\n  n0 -> n1 [headlabel=\"2\"];\n  n0 -> n2;\n  n2 -> n1;\n}\n";
    assert_eq!(dot(&flat(TEXT)), want);
}

#[test]
fn json_rows() {
    let want = "{\"schema\":\"routebricks.graph/1\",\"rows\":[\n\
        {\"name\":\"i\",\"class\":\"Idle\",\"config\":\"\",\"outputs\":[{\"port\":0,\"to\":\"d\",\"to_port\":2},{\"port\":0,\"to\":\"c/q\",\"to_port\":0}]},\n\
        {\"name\":\"d\",\"class\":\"Discard\",\"config\":\"\",\"outputs\":[]},\n\
        {\"name\":\"c/q\",\"class\":\"Queue\",\"config\":\"\\\"a<b\\\"\",\"outputs\":[{\"port\":0,\"to\":\"d\",\"to_port\":0}]}\n]}\n";
    assert_eq!(json(&flat(TEXT)), want);
    assert_eq!(json(&flat("")), "{\"schema\":\"routebricks.graph/1\",\"rows\":[]}\n");
}

#[test]
fn svg_has_each_box_arrow_and_port() {
    let f = flat(TEXT);
    let kinds = |e: usize, output: bool, _: u32| match (e, output) {
        (2, true) | (1, _) => PortKind::Pull,
        _ => PortKind::Push,
    };
    let picture = svg(&f, &kinds);
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"));
    assert_eq!(picture.matches("<g><title>").count(), 3);
    assert_eq!(picture.matches("marker-end").count(), 3);
    assert!(picture.contains("<title>c/q :: Queue(&quot;a&lt;b&quot;)</title>"));
    // i and c/q have one output each, c/q one input, d three.
    assert_eq!(picture.matches("h8l-4 6z\" fill=\"#fff\"").count(), 3);
    assert_eq!(picture.matches("h8l-4 6z\" fill=\"#111\"").count(), 1);
    assert_eq!(picture.matches("height=\"5\" fill=\"#111\"").count(), 1);
    assert_eq!(picture.matches("height=\"5\" fill=\"#fff\"").count(), 1);
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
}

#[test]
fn an_empty_and_a_cyclic_configuration_can_be_drawn() {
    let grey = |_: usize, _: bool, _: u32| PortKind::Agnostic;
    assert!(svg(&flat(""), &grey).ends_with("</svg>\n"));
    let f = flat("a :: Null -> b :: Null -> a; b -> b; Idle -> Idle; t :: Tee [9] -> t");
    let picture = svg(&f, &grey);
    assert_eq!(picture.matches("marker-end").count(), 5);
    assert!(!picture.contains("NaN"));
}
