//! Ports, push and pull: every rule, with its message.

mod common;

use common::build;

fn errors(text: &str) -> Vec<String> {
    build(text, 1, 32).err().unwrap_or_default()
}

#[test]
fn sound_graphs_are_accepted() {
    for text in [
        "Source(1) -> Sink;",
        "Source(1) -> Pass -> Pass -> Store(5) -> Pass -> Sink;",
        "Source(1) -> Store(1) -> Mover -> Pass -> Sink;",
        "Source(1) -> f :: Fork; f[0] -> Sink; f[1] -> Sink;",
        "m :: Merge -> Sink; Source(1) -> Store(1) -> [0]m; Source(1) -> Store(1) -> [1]m;",
        "s :: Sink; Source(1) -> s; Source(1) -> s;",
    ] {
        assert_eq!(errors(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn port_numbers_are_checked() {
    // That input 0 is not used is the same mistake.
    assert_eq!(errors("Source(1) -> [1] s :: Sink;"), ["'s :: Sink' has no input 1"]);
    assert_eq!(errors("s :: Source(1);"), ["'s :: Source' output 0 unused"]);
    assert_eq!(errors("Source(1) -> f :: Fork; f[1] -> Sink;"), ["'f :: Fork' output 0 unused"]);
}

#[test]
fn push_meets_pull() {
    assert_eq!(
        errors("s :: Source(1) -> m :: Mover -> Sink;"),
        ["'s' push output 0 connected to 'm' pull input 0"]
    );
    assert_eq!(
        errors("Source(1) -> Store(1) -> f :: Fork -> Sink;"),
        ["'Store@2' pull output 0 connected to 'f' push input 0"]
    );
    assert_eq!(
        errors("Source(1) -> n :: Pass -> Mover -> Sink;"),
        ["agnostic 'n' in mixed context: push input 0, pull output 0"]
    );
}

#[test]
fn mistakes_of_all_kinds_are_reported_together() {
    let text =
        "Source(1) -> [1] s :: Sink; t :: Source(1) -> m :: Mover -> Sink; t -> Sink; Source(1) -> Fork;";
    assert_eq!(
        errors(text),
        [
            "'s :: Sink' has no input 1",
            "'Fork@8 :: Fork' output 0 unused",
            "'t' push output 0 connected to 'm' pull input 0",
            "illegal reuse of 't :: Source' push output 0",
        ]
    );
}

#[test]
fn push_outputs_and_pull_inputs_have_one_connection() {
    assert_eq!(
        errors("s :: Source(1); s -> Sink; s -> Sink;"),
        ["illegal reuse of 's :: Source' push output 0"]
    );
    assert_eq!(
        errors("Source(1) -> Store(1) -> m :: Mover -> Sink; Source(1) -> Store(1) -> m;"),
        ["illegal reuse of 'm :: Mover' pull input 0"]
    );
}

#[test]
fn all_configuration_mistakes_are_told_at_once() {
    assert_eq!(
        errors("Source(x) -> Store(-1) -> Sink(3); Ticker(1) -> Sink;"),
        [
            "N: invalid number",
            "N: out of range, bound 0",
            "too many arguments",
            "N: required argument missing"
        ]
    );
}
