//! A tree without places and comments, to compare what two texts mean.

use lang::ast::*;
use lang::{Span, Text};

pub fn strip(ast: &Ast) -> Ast {
    Ast { block: block(&ast.block) }
}

fn block(b: &Block) -> Block {
    Block { items: b.items.iter().map(item).collect(), tail: Vec::new(), lost: b.lost.clone() }
}

fn item(i: &Item) -> Item {
    Item {
        statement: statement(&i.statement),
        span: Span::default(),
        before: Vec::new(),
        after: Vec::new(),
        blank_before: false,
        blank_after_comments: false,
    }
}

fn statement(s: &Statement) -> Statement {
    match s {
        Statement::Chain(c) => Statement::Chain(Chain {
            first: nodes(&c.first),
            links: c
                .links
                .iter()
                .map(|l| Link { parallel: l.parallel, span: Span::default(), nodes: nodes(&l.nodes) })
                .collect(),
        }),
        Statement::Class(c) => {
            Statement::Class(ClassDefinition { name: ident(&c.name), class: class(&c.class) })
        }
        Statement::Define(a) => Statement::Define(Arguments {
            text: Text::default(),
            items: a
                .items
                .iter()
                .map(|d| Definition { name: ident(&d.name), value: plain(&d.value.text) })
                .collect(),
        }),
        Statement::Require(a) => Statement::Require(Arguments {
            text: Text::default(),
            items: a.items.iter().map(|r| Requirement { span: Span::default(), ..r.clone() }).collect(),
        }),
    }
}

fn nodes(all: &[Node]) -> Vec<Node> {
    let ports = |p: &Option<Ports>| p.clone().map(|p| Ports { span: Span::default(), ..p });
    all.iter()
        .map(|n| Node {
            inputs: ports(&n.inputs),
            element: element(&n.element),
            outputs: ports(&n.outputs),
            span: Span::default(),
            comments: Vec::new(),
        })
        .collect()
}

fn element(e: &Element) -> Element {
    match e {
        Element::Name(n) => Element::Name(ident(n)),
        Element::Anonymous { class: c, config: t } => {
            Element::Anonymous { class: class(c), config: t.as_ref().map(config) }
        }
        Element::Declaration { names, class: c, config: t } => Element::Declaration {
            names: names.iter().map(ident).collect(),
            class: class(c),
            config: t.as_ref().map(config),
        },
        Element::Group(b) => Element::Group(block(b)),
        Element::Outside => Element::Outside,
    }
}

fn class(c: &Class) -> Class {
    match c {
        Class::Name(n) => Class::Name(ident(n)),
        Class::Compound(c) => Class::Compound(Compound {
            alternatives: c
                .alternatives
                .iter()
                .map(|a| Alternative {
                    formals: a
                        .formals
                        .iter()
                        .map(|f| Formal { keyword: f.keyword.as_ref().map(ident), name: ident(&f.name) })
                        .collect(),
                    block: block(&a.block),
                    span: Span::default(),
                })
                .collect(),
            extends: c.extends.map(|_| Span::default()),
            span: Span::default(),
        }),
    }
}

fn ident(i: &Ident) -> Ident {
    Ident { name: i.name.clone(), span: Span::default() }
}

fn plain(text: &str) -> Text {
    Text::verbatim(text, Span::new(0, 0..text.len()))
}

/// Arguments count, not the spaces and comments around them.
fn config(t: &Text) -> Text {
    let arguments: Vec<String> = lang::args::split(t).into_iter().map(|a| format!("<{}>", a.text)).collect();
    plain(&arguments.join(","))
}
