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

#[test]
fn anonymous_numbering() {
    check(
        "Idle -> { input -> output } -> Discard",
        &["Idle@1 :: Idle", "Discard@3 :: Discard"],
        &["Idle@1 [0] -> [0] Discard@3"],
    );
    check(
        "a :: Idle; Idle; b :: Idle; Idle",
        &["a :: Idle", "Idle@2 :: Idle", "b :: Idle", "Idle@4 :: Idle"],
        &[],
    );
    // A taken number is skipped.
    check("Idle@2 :: Idle; Idle; Idle", &["Idle@2 :: Idle", "Idle@3 :: Idle", "Idle@4 :: Idle"], &[]);
    // The pseudo elements of a compound do not count; each compound counts for itself.
    check(
        "c :: { Idle; Idle -> Discard }",
        &["c/Idle@1 :: Idle", "c/Idle@2 :: Idle", "c/Discard@3 :: Discard"],
        &["c/Idle@2 [0] -> [0] c/Discard@3"],
    );
}

#[test]
fn outer_level_comes_first() {
    check(
        "Idle -> { a :: Null; input -> a -> { b :: Null; input -> b -> output } -> c :: Null -> output } -> Discard;
         d :: { e :: Idle }",
        &[
            "Idle@1 :: Idle",
            "Discard@3 :: Discard",
            "@2/a :: Null",
            "@2/c :: Null",
            "@2/@2/b :: Null",
            "d/e :: Idle",
        ],
        &[
            "Idle@1 [0] -> [0] @2/a",
            "@2/a [0] -> [0] @2/@2/b",
            "@2/c [0] -> [0] Discard@3",
            "@2/@2/b [0] -> [0] @2/c",
        ],
    );
}

#[test]
fn connections_and_ports() {
    let abc = "a :: Tee; b :: Tee; c :: Tee;";
    let one = |text: &str, want: &[&str]| {
        let f = flat(&format!("{abc}{text}"));
        assert_eq!(connections(&f), want, "{text}");
    };
    one("a [1] -> [2] b -> c", &["a [1] -> [2] b", "b [0] -> [0] c"]);
    one("a, b [1] -> [3] c", &["a [0] -> [3] c", "b [1] -> [3] c"]);
    one("c -> a, b", &["c [0] -> [0] a", "c [0] -> [0] b"]);
    one("a [0,2-3] => a, b, c", &["a [0] -> [0] a", "a [2] -> [0] b", "a [3] -> [0] c"]);
    one("a => b, c", &["a [0] -> [0] b", "a [1] -> [0] c"]);
    one("b, c => a", &["b [0] -> [0] a", "c [0] -> [1] a"]);
    one("a => b", &["a [0] -> [0] b"]);
    one("a [] => b, c", &["a [0] -> [0] b", "a [1] -> [0] c"]);
    one("a [2-] => b, c", &["a [2] -> [0] b", "a [3] -> [0] c"]);
    one("a [0-1] -> b", &["a [0] -> [0] b", "a [1] -> [0] b"]);
    one("a -> [0-1] b", &["a [0] -> [0] b", "a [0] -> [1] b"]);
    // Repeating a connection has no effect.
    one("a -> b; a -> b; a -> [1] b", &["a [0] -> [0] b", "a [0] -> [1] b"]);
    // Declarations wherever an element is expected.
    let f = flat("i :: Idle -> Queue(7) -> u :: Unqueue -> Discard");
    assert_eq!(elements(&f), ["i :: Idle", "Queue@2 :: Queue(7)", "u :: Unqueue", "Discard@4 :: Discard"]);
}

#[test]
fn port_errors() {
    let abc = "a :: Tee; b :: Tee;";
    let one = |text: &str, want: &str| assert_eq!(messages(&format!("{abc}{text}")), [want], "{text}");
    one("a, b -> a, b", "1: syntax error: many-to-many connections require '=>'");
    one("a [0,1] => [0-2] b", "1: connection mismatch: 2 outputs connected to 3 inputs");
    one("a [0] => [0-2] b", "1: connection mismatch: 1 output connected to 3 inputs");
    one("a [] => [] b", "1: at most one expandable port allowed per connection");
    one("a -> b [1]", "1: warning: output ports ignored at end of chain");
    one("[1] a -> b", "1: warning: input ports ignored at start of chain");
    one("[1];", "1: warning: stranded port ignored");
    one("a -> ( -> b [3] -> [1] -> )", "1: implicit ports used in the middle of a chain");
    one("a [x] -> b", "1: syntax error near 'x'");
    one("a [3-1] -> b", "1: port range 3-1 runs backwards");
    one("a [65536] -> b", "1: port number out of range, bound 65535");
    one("a [1 -> b", "1: syntax error near '->'");
}

#[test]
fn declaration_before_use() {
    assert_eq!(messages("a -> Discard;\na :: Idle;"), ["1: undeclared element 'a'"]);
    assert_eq!(messages("Idle -> Foo;"), ["1: undeclared element 'Foo'"]);
    assert_eq!(messages("a :: Foo;"), ["1: unknown element class 'Foo'"]);
    assert_eq!(messages("Foo(1);"), ["1: unknown element class 'Foo'"]);
    assert_eq!(
        messages("a :: Idle;\n\na :: Null;"),
        ["3: redeclaration of element 'a'", "1: element 'a' previously declared here"]
    );
    assert_eq!(
        messages("Queue :: Idle;\nx :: Queue;"),
        ["2: class 'Queue' used as element name", "1: declared here"]
    );
    assert_eq!(
        messages("x :: Queue;\nQueue :: Idle;"),
        ["2: class 'Queue' used as element name", "1: used as class here"]
    );
    // A name used only as an element may be the same as that of a class.
    check(
        "Queue :: Idle -> Discard",
        &["Queue :: Idle", "Discard@2 :: Discard"],
        &["Queue [0] -> [0] Discard@2"],
    );
}

#[test]
fn suggestions() {
    assert_eq!(
        carets("Idle -> CheckIPHeadr -> Discard"),
        ["1:9: no element class `CheckIPHeadr`; did you mean `CheckIPHeader`?"]
    );
    assert_eq!(carets("x :: Quueue(3)"), ["1:6: no element class `Quueue`; did you mean `Queue`?"]);
    assert_eq!(
        carets("source :: Idle; sorce -> Discard"),
        ["1:17: no element `sorce`; did you mean `source`?"]
    );
    assert_eq!(
        carets("elementclass Firewall { Idle } Firewal"),
        ["1:32: no element class `Firewal`; did you mean `Firewall`?"]
    );
    assert_eq!(carets("Zzz(1)"), ["1:1: no element class `Zzz`"]);
}

#[test]
fn element_names() {
    assert_eq!(messages("x/1 :: Idle"), ["1: element name 'x/1' has all-digit component"]);
    assert_eq!(messages("1 :: Idle"), ["1: element name '1' has all-digit component"]);
    assert_eq!(messages("c :: { input :: Idle }"), ["1: 'input' is the outside here and cannot be declared"]);
    check(
        "input :: Idle -> Discard",
        &["input :: Idle", "Discard@2 :: Discard"],
        &["input [0] -> [0] Discard@2"],
    );
    assert_eq!(
        messages("elementclass C { b :: Idle } a/b :: Idle; a :: C")[0],
        "1: redeclaration of element 'a/b'"
    );
}

#[test]
fn all_errors_at_once() {
    let text = "a :: Idle -> ;\nb :: Quue;\nc -> d;\n} x y :: Queue(;\nFoo(1) -> Bar(2);\nz : Idle;";
    assert_eq!(
        carets(text),
        [
            "1:14: expected an element, found `;`",
            "4:1: unexpected `}`",
            "4:15: missing `)`: the configuration string is not closed",
            "6:3: expected `;`, found `:`",
            "2:6: no element class `Quue`; did you mean `Queue`?",
            "3:1: no element `c`",
            "3:6: no element `d`",
            "4:3: no element `x`",
            "5:1: no element class `Foo`",
            "5:11: no element class `Bar`",
            "6:1: no element `z`",
        ]
    );
}

#[test]
fn what_a_broken_statement_declares_is_not_missed() {
    assert_eq!(
        carets("a :: Queue(1) -> -> b; a -> Discard; c -> a"),
        ["1:18: expected an element, found `->`", "1:38: no element `c`",]
    );
    assert_eq!(carets("elementclass F { $a $b | Idle } F(1); G(1)")[1..], ["1:39: no element class `G`"]);
}

#[test]
fn compiled_in_one_go_errors_come_in_text_order() {
    let mut map = lang::SourceMap::new();
    let id = map.add("f", "a -> Foo(1);\nb :: ;\nrequire(library l);\nc -> Discard;");
    let load = |_: &str, _: &str| Err("none".to_string());
    let errors = lang::compile(&mut map, id, &load, &CLASSES, &[]).unwrap_err();
    assert_eq!(
        lang::to_click_format(&errors, &map),
        "f:1: undeclared element 'a'\nf:1: unknown element class 'Foo'\nf:2: syntax error near ';'\n\
         f:3: can't find required library 'l': none\nf:4: undeclared element 'c'\n"
    );
    let id = map.add("g", "[2] a :: Idle; a -> Discard");
    let flat = lang::compile(&mut map, id, &load, &CLASSES, &[]).unwrap();
    assert_eq!((flat.elements.len(), flat.warnings.len()), (2, 1));
}

// ---- lexical rules ------------------------------------------------------------------------------

#[test]
fn comments_and_line_ends() {
    check(
        "// one\ra :: /* two */ Idle // three\r\n-> b :: Null(1 /* four */, // five\n2) /**/ ;",
        &["a :: Idle", "b :: Null(1 /* four */, // five\n2)"],
        &["a [0] -> [0] b"],
    );
    assert_eq!(messages("\n/* x"), ["2: comment is not closed"]);
}

#[test]
fn line_directives() {
    assert_eq!(
        carets("# 12 \"g\"\nFoo(1);\n#line 40\n\nFoo(2)\n# 1 \"h\" 2 3\nFoo(3);")
            .iter()
            .map(|s| s.split(':').next().unwrap().to_string())
            .collect::<Vec<_>>(),
        ["12", "41", "1"]
    );
    let (map, _, all) = run_with(b"# 12 \"g\"\nFoo(1);\n#line 40\nFoo(2)", &[]);
    assert_eq!(
        lang::to_click_format(&all, &map),
        "g:12: unknown element class 'Foo'\ng:40: unknown element class 'Foo'\n"
    );
    assert_eq!(messages("#pragma once\nIdle"), ["1: unknown preprocessor directive"]);
    // Within a configuration string, as cpp leaves them after an #include.
    check("x :: Null(a,\n# 1 \"inc\"\nb)", &["x :: Null(a,\n# 1 \"inc\"\nb)"], &[]);
    assert_eq!(messages("x :: Null(a,\n# 7 \"inc\"\nb);\nFoo(1)"), ["inc:8: unknown element class 'Foo'"]);
}

#[test]
fn unterminated_configuration_string() {
    assert_eq!(
        messages("a :: Idle;\nb :: Null(\n\n\n"),
        ["2: missing `)`: the configuration string is not closed"]
    );
    assert_eq!(
        messages("b :: Null(\"x);\nFoo(1)"),
        [
            "1: missing `)`: the configuration string is not closed",
            "1: this is not closed either",
            "2: unknown element class 'Foo'"
        ]
    );
}

#[test]
fn reserved_and_unknown() {
    assert_eq!(messages("provide x;"), ["1: syntax error near 'provide'"]);
    assert_eq!(messages("a :: Idle; % b"), ["1: syntax error near '%'"]);
    assert_eq!(messages("a :: $x"), ["1: syntax error near '$x'"]);
    assert_eq!(carets("Idle -> $x"), ["1:9: expected an element, found `$x`"]);
}

#[test]
fn bytes_that_are_not_utf8() {
    let (_, flat, all) = run_with(b"a :: Idle; // caf\xe9", &[]);
    assert!(all.is_empty());
    assert_eq!(elements(&flat.unwrap()), ["a :: Idle"]);
    let (_, _, all) = run_with(b"a :: Print(caf\xe9)", &[]);
    assert_eq!(all.iter().map(|d| d.message.as_str()).collect::<Vec<_>>(), ["not valid UTF-8"]);
    assert_eq!(all[0].span().start, 14);
    let (_, _, all) = run_with(b"a :: Print(/* caf\xe9 */)", &[]);
    assert!(all.is_empty());
}

// ---- groups -------------------------------------------------------------------------------------

#[test]
fn groups() {
    check(
        "x :: Idle; y :: Discard; x -> ( [0] -> p :: Paint(1) -> [0] ) -> y; p -> [1] y",
        &["x :: Idle", "y :: Discard", "p :: Paint(1)"],
        &["x [0] -> [0] p", "p [0] -> [0] y", "p [0] -> [1] y"],
    );
    check("x :: Idle; y :: Discard; x -> (->) -> y", &["x :: Idle", "y :: Discard"], &["x [0] -> [0] y"]);
    check(
        "x :: Tee; y :: Discard; x => ( input [0] -> a :: Null; input [1] -> b :: Null; a => output; b -> [1] output ) => y, y",
        &["x :: Tee", "y :: Discard", "a :: Null", "b :: Null"],
        &["x [0] -> [0] a", "x [1] -> [0] b", "a [0] -> [0] y", "b [0] -> [0] y"],
    );
    // Explicit lists override the implied ones.
    check(
        "x :: Tee; y :: Discard; x [5,6] => [1,0] ( input => output; input [1] -> [1] output ) [0,1] => [2,3] y",
        &["x :: Tee", "y :: Discard"],
        &["x [5] -> [3] y", "x [6] -> [2] y"],
    );
}

#[test]
fn groups_like_connections_written_out() {
    let grouped =
        flat("t :: Tee; d :: Discard; t [0-1] => ( -> Paint(1) -> ; [1] -> Paint(2) -> [1] ) => [0-1] d");
    let plain = flat("t :: Tee; d :: Discard; t [0] -> Paint(1) -> d; t [1] -> Paint(2) -> [1] d");
    assert_eq!(elements(&grouped), elements(&plain));
    assert_eq!(connections(&grouped), connections(&plain));
}

#[test]
fn group_errors() {
    let one = |text: &str, want: &[&str]| assert_eq!(messages(text), want, "{text}");
    one(
        "Idle -> ( [0] -> Discard; [2] -> Discard )",
        &["1: '<anonymous group>' input 1 missing", "1: input 1 is not used, but this one is"],
    );
    one("g :: ( -> )", &["1: syntax error near '('"]);
    one("Idle -> ( Idle -> input )", &["1: input's inputs may not be used"]);
    one("( output -> Discard )", &["1: output's outputs may not be used"]);
    one("x :: Idle; x -> [0] ( -> Discard; [1] -> Discard )", &["1: '<anonymous group>' input 1 unused"]);
    one(
        "x :: Idle; x -> [1] ( -> Discard )",
        &["1: '<anonymous group>' has no input 1", "1: '<anonymous group>' input 0 unused"],
    );
    one("Idle -> ( -> Discard", &["1: syntax error near 'end of file'", "1: to close this `(`"]);
}

// ---- compounds ----------------------------------------------------------------------------------

#[test]
fn compounds() {
    check(
        "elementclass C { $n | input -> q :: Queue($n) -> Unqueue -> output } Idle -> C(3) -> c :: C(4) -> Discard",
        &[
            "Idle@1 :: Idle",
            "Discard@4 :: Discard",
            "C@2/q :: Queue(3)",
            "C@2/Unqueue@2 :: Unqueue",
            "c/q :: Queue(4)",
            "c/Unqueue@2 :: Unqueue",
        ],
        &[
            "Idle@1 [0] -> [0] C@2/q",
            "C@2/q [0] -> [0] C@2/Unqueue@2",
            "C@2/Unqueue@2 [0] -> [0] c/q",
            "c/q [0] -> [0] c/Unqueue@2",
            "c/Unqueue@2 [0] -> [0] Discard@4",
        ],
    );
    check("elementclass Q Queue; q :: Q(2); Q", &["q :: Queue(2)", "Q@2 :: Queue"], &[]);
    check("c :: { $a | Null($a) }(7)", &["c/Null@1 :: Null(7)"], &[]);
    check("{ $a | Null($a) }(7)", &["@1/Null@1 :: Null(7)"], &[]);
}

#[test]
fn formals() {
    let class = "elementclass C { $a, COUNT $c, __REST__ $r | Null($a; $c; $r) }";
    let one = |call: &str, want: &str| {
        assert_eq!(
            elements(&flat(&format!("{class} c :: C({call})"))),
            [format!("c/Null@1 :: Null({want})")]
        );
    };
    one("1, COUNT 2", "1; 2; ");
    one("COUNT 2, 1, x, y z", "1; 2; x, y z");
    one("1, COUNT 2, COUNT 3", "1; 3; ");
    one("1, OTHER 5, COUNT 2", "1; 2; OTHER 5");
    assert_eq!(
        messages(&format!("{class} c :: C(1)")),
        [
            "1: no match for 'C[1 argument, 0 inputs, 0 outputs]'",
            "1: candidates are:",
            "1: C[1 argument, COUNT, __REST__, 0 inputs, 0 outputs]"
        ]
    );
    assert_eq!(
        messages("c :: { COUNT $c, $a | }")[0],
        "1: positional formal parameters come before those with keywords"
    );
    assert_eq!(
        messages("c :: { __REST__ $c, A $a | }")[0],
        "1: `__REST__` must be the last formal parameter"
    );
    assert_eq!(
        messages("c :: { $a, $a | }(1, 2)"),
        ["1: parameter '$a' multiply defined", "1: first defined here"]
    );
    assert_eq!(messages("c :: { $a, b | }")[0], "1: syntax error near 'b'");
    assert_eq!(messages("c :: { $a -> Discard }")[0], "1: syntax error near '->'");
}

#[test]
fn overloading() {
    let class = "elementclass F { $a | one :: Null($a) || $a, $b | two :: Null($a, $b)
                 || input -> in :: Discard || KEY $k | key :: Null($k) }";
    let one = |text: &str, want: &str| {
        assert_eq!(elements(&flat(&format!("{class} {text}"))).last().unwrap(), want, "{text}");
    };
    one("f :: F(1)", "f/one :: Null(1)");
    one("f :: F(1, 2)", "f/two :: Null(1, 2)");
    one("f :: F(KEY 2)", "f/one :: Null(KEY 2)");
    one("Idle -> f :: F", "f/in :: Discard");
    assert_eq!(
        messages(&format!("{class}\nIdle -> f :: F(1)")),
        [
            "3: no match for 'F[1 argument, 1 input, 0 outputs]'",
            "3: candidates are:",
            "1: F[1 argument, 0 inputs, 0 outputs]",
            "1: F[2 arguments, 0 inputs, 0 outputs]",
            "2: F[0 arguments, 1 input, 0 outputs]",
            "2: F[0 arguments, KEY, 0 inputs, 0 outputs]",
        ]
    );
}

#[test]
fn overloading_extends_what_was_before() {
    check(
        "elementclass Null { $a, $b | Counter($a/$b) || ... } x :: Null(1, 2); y :: Null(1)",
        &["y :: Null(1)", "x/Counter@1 :: Counter(1/2)"],
        &[],
    );
    check(
        "elementclass F { Idle } elementclass F { $a | Null($a) || ... } x :: F; y :: F(1)",
        &["x/Idle@1 :: Idle", "y/Null@1 :: Null(1)"],
        &[],
    );
    assert_eq!(
        messages("elementclass Foo { Idle || ... }"),
        ["1: `...` stands for what `Foo` meant before, but there is no such class"]
    );
}

#[test]
fn a_single_alternative_gives_plain_port_errors() {
    let class = "elementclass F { input -> Null -> output }\n";
    let one = |text: &str, want: &[&str]| assert_eq!(messages(&format!("{class}{text}")), want, "{text}");
    one("Idle -> f :: F -> Discard; Idle -> [1] f", &["2: 'f' has no input 1"]);
    one("f :: F -> Discard", &["2: 'f' input 0 unused"]);
    one("Idle -> f :: F", &["2: 'f' output 0 unused"]);
    one(
        "Idle -> [1] f :: F [2] -> Discard",
        &[
            "2: 'f' has no input 1",
            "2: 'f' input 0 unused",
            "2: 'f' output 0 unused",
            "2: 'f' has no output 2",
        ],
    );
    assert_eq!(messages("Idle -> [0-1] c :: { input [1] -> Discard }")[0], "1: '<compound>' input 0 missing");
}

#[test]
fn classes_are_lexically_scoped_and_not_recursive() {
    check(
        "elementclass Queue { input -> Queue(5) -> output } Idle -> q :: Queue -> Discard",
        &["Idle@1 :: Idle", "Discard@3 :: Discard", "q/Queue@1 :: Queue(5)"],
        &["Idle@1 [0] -> [0] q/Queue@1", "q/Queue@1 [0] -> [0] Discard@3"],
    );
    assert_eq!(messages("c :: { elementclass X { Idle } x :: X }; y :: X"), ["1: unknown element class 'X'"]);
    // What a class name means is fixed where it is used.
    check(
        "elementclass A Idle; elementclass B { A } elementclass A Null; b :: B; a :: A",
        &["a :: Null", "b/A@1 :: Idle"],
        &[],
    );
}

#[test]
fn errors_inside_compounds_are_reported_once_even_if_never_or_often_used() {
    assert_eq!(messages("elementclass C { x -> Discard }"), ["1: undeclared element 'x'"]);
    assert_eq!(messages("elementclass C { x -> Discard } C; C; C"), ["1: undeclared element 'x'"]);
}

#[test]
fn the_use_chain_is_shown() {
    let text = "elementclass F { $a | Idle }\nelementclass G { f :: F }\nelementclass H {\n g :: G }\nh :: H";
    let (map, _, all) = run_with(text.as_bytes(), &[]);
    assert_eq!(
        lang::render(&all, &map, false),
        "f:2:18: error: no match for 'F[0 arguments, 0 inputs, 0 outputs]'; candidates are:\n \
         2 | elementclass G { f :: F }\n   |                  ^\n\
         f:1:18: note: F[1 argument, 0 inputs, 0 outputs]\n \
         1 | elementclass F { $a | Idle }\n   |                  ^^\n\
         f:4:2: note: in compound element 'h/g :: G', used here\n \
         4 |  g :: G }\n   |  ^\n\
         f:5:1: note: in compound element 'h :: H', used here\n \
         5 | h :: H\n   | ^\n"
    );
}

#[test]
fn names_in_arguments_are_looked_up_outward() {
    let f = flat("q :: Idle; r :: Idle; c :: { q :: Idle; d :: { s :: Idle } }");
    let s = f.find("c/d/s").unwrap();
    let name = |n: &str| f.resolve(s, n).map(|i| f.elements[i].name.as_str());
    assert_eq!(name("s"), Some("c/d/s"));
    assert_eq!(name("q"), Some("c/q"));
    assert_eq!(name("r"), Some("r"));
    assert_eq!(name("c/q"), Some("c/q"));
    assert_eq!(name("d"), None);
    assert_eq!(name("nope"), None);
    assert_eq!(target_name(&f, f.resolve_target(s, "d")), Some("c/d"));
    let Some(lang::Target::Compound(c)) = f.resolve_target(s, "c") else { panic!("c is a compound") };
    assert_eq!(f.members(c).map(|i| f.elements[i].name.as_str()).collect::<Vec<_>>(), ["c/q", "c/d/s"]);
}

#[test]
fn a_ring_of_wires_ends() {
    check("f :: { input -> output }; f -> f", &[], &[]);
    check(
        "f :: { input -> output }; f -> f; Idle -> f -> Discard",
        &["Idle@2 :: Idle", "Discard@3 :: Discard"],
        &["Idle@2 [0] -> [0] Discard@3"],
    );
}

// ---- variables ----------------------------------------------------------------------------------

#[test]
fn define() {
    check(
        "define($A 1, $B x y); Null($A, $B, ${B[1]}, ${C-7}, $C)",
        &["Null@1 :: Null(1, x y, y, 7, $C)"],
        &[],
    );
    // Several arguments, or none.
    check("define($A 1, $B); Null(a $B $A)", &["Null@1 :: Null(a  1)"], &[]);
    assert_eq!(
        messages("define($A 1);\ndefine($A 2);"),
        ["2: parameter '$A' multiply defined", "1: first defined here"]
    );
    assert_eq!(messages("define($A 1, $A 2)").len(), 2);
    assert_eq!(messages("define(A 1)"), ["1: syntax error in 'define'"]);
    assert_eq!(messages("define A 1"), ["1: syntax error near 'A'"]);
    // One define takes effect as a whole; a later one sees it.
    check("define($A 1, $B <$A>); define($C <$A>); Null($B, $C)", &["Null@1 :: Null(<$A>, <1>)"], &[]);
}

#[test]
fn variables_are_lexically_scoped() {
    check(
        "define($a top); elementclass In { Null($a, $x) } elementclass Out { $a | In; Null($a); { Null($a) } } o :: Out(o)",
        &["o/Null@2 :: Null(o)", "o/In@1/Null@1 :: Null(top, $x)", "o/@3/Null@1 :: Null(o)"],
        &[],
    );
    check("c :: { define($a in); Null($a) } Null($a)", &["Null@2 :: Null($a)", "c/Null@1 :: Null(in)"], &[]);
    // A value is that of the caller.
    check("define($a top); c :: { $a | Null($a) }(<$a>)", &["c/Null@1 :: Null(<top>)"], &[]);
}

#[test]
fn the_command_line_overrides_top_level_definitions() {
    let f = flat_with(
        "define($A 1, $B $A); c :: { define($A in); Null($A) } Null($A, $B, $D)",
        &[("A", "9"), ("D", "d$A")],
    );
    assert_eq!(elements(&f), ["Null@2 :: Null(9, 9, d9)", "c/Null@1 :: Null(in)"]);
}

#[test]
fn substitution_respects_quotes() {
    check(r#"define($A "x y"); Null('$A', "<$A>", $A)"#, &[r#"Null@1 :: Null('$A', "<x y>", "x y")"#], &[]);
}

// ---- require ------------------------------------------------------------------------------------

#[test]
fn requirements() {
    let f = flat("require(package X, compact_config, Y); Idle; require(package Z)");
    let all: Vec<_> = f.requirements.iter().map(|r| format!("{} {}", r.kind, r.value)).collect();
    assert_eq!(all, ["package X", " compact_config", " Y", "package Z"]);
    assert_eq!(messages("c :: { require(library x) }"), ["1: 'require library' must be used at file scope"]);
    assert_eq!(messages("require(library x)"), ["1: library 'x' has not been loaded"]);
}

// ---- limits -------------------------------------------------------------------------------------

#[test]
fn limits_give_errors() {
    let deep = format!("{}Idle{}", "{".repeat(5000), "}".repeat(5000));
    assert_eq!(messages(&deep)[0], "1: more than 64 levels of braces and parentheses");
    let mut chain = "elementclass A0 { Idle }\n".to_string();
    for i in 1..200 {
        chain.push_str(&format!("elementclass A{i} {{ A{} }}\n", i - 1));
    }
    let last = messages(&format!("{chain} A199"));
    assert_eq!(last[0], "101: compound elements nest more than 100 deep");
    let mut bomb = "elementclass A0 { Idle }\n".to_string();
    for i in 1..30 {
        bomb.push_str(&format!("elementclass A{i} {{ A{0}; A{0} }}\n", i - 1));
    }
    assert_eq!(messages(&format!("{bomb} A29"))[0], "1: more than 200000 elements after expansion");
    let mut text = "define($a0 xxxxxxxxxx)\n".to_string();
    for i in 1..40 {
        text.push_str(&format!("define($a{i} $a{0}$a{0})\n", i - 1));
    }
    assert!(
        messages(&text)[0].contains("configuration strings grow to more than 64 MiB"),
        "{:?}",
        messages(&text)
    );
    let wide = format!("t :: Tee; {}", "t [0-60000] -> t;".repeat(20));
    assert_eq!(messages(&wide).last().unwrap(), "1: more than 1000000 connections");
}
