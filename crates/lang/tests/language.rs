//! Every rule of the language, with exact results and error texts.

mod common;
use common::*;

fn check(text: &str, want_elements: &[&str], want_connections: &[&str]) {
    let f = flat(text);
    assert_eq!(elements(&f), want_elements, "elements of {text}");
    assert_eq!(connections(&f), want_connections, "connections of {text}");
}

// ---- statements ---------------------------------------------------------------------------------

#[test]
fn declarations() {
    check("a :: Idle;", &["a :: Idle"], &[]);
    check("a, b :: Queue(5)", &["a :: Queue(5)", "b :: Queue(5)"], &[]);
    check("a :: Idle b :: Idle", &["a :: Idle", "b :: Idle"], &[]);
    check("a/b :: Idle", &["a/b :: Idle"], &[]);
    check("a :: Idle; b, c :: Null -> Discard; a -> b", &[], &[]);
}

#[test]
fn only_the_last_is_declared_when_connected() {
    assert_eq!(messages("n1, n2 :: Idle -> Discard"), ["1: undeclared element 'n1'"]);
    check(
        "n1 :: Idle; n1, n2 :: Idle -> Discard",
        &["n1 :: Idle", "n2 :: Idle", "Discard@3 :: Discard"],
        &["n1 [0] -> [0] Discard@3", "n2 [0] -> [0] Discard@3"],
    );
}
