//! The syntax tree: what the text says, before names are looked up.

use crate::lex::Comment;
use crate::source::Span;
use crate::text::Text;

/// A name and its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ident {
    /// The name.
    pub name: String,
    /// The place.
    pub span: Span,
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ast {
    /// Its statements.
    pub block: Block,
}

/// Statements between braces or parentheses, or of a whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The statements in text order.
    pub items: Vec<Item>,
    /// Comments behind the last statement.
    pub tail: Vec<Comment>,
    /// Identifiers in statements that could not be understood: what they declare is not known, so that they
    /// are missing later is no news.
    pub lost: Vec<String>,
}

/// A statement with the comments that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it says.
    pub statement: Statement,
    /// The place, without the `;`.
    pub span: Span,
    /// Comments before it.
    pub before: Vec<Comment>,
    /// Comments behind it on the same line.
    pub after: Vec<Comment>,
    /// Whether an empty line stands before it and its comments.
    pub blank_before: bool,
    /// Whether an empty line stands between its comments and itself.
    pub blank_after_comments: bool,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// Declarations and connections.
    Chain(Chain),
    /// `elementclass N { ... }` or `elementclass N M`.
    Class(ClassDefinition),
    /// `define($A 1, $B 2)`.
    Define(Arguments<Definition>),
    /// `require(package X, library F)`.
    Require(Arguments<Requirement>),
}

/// What stands in the parentheses of `define` or `require`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments<T> {
    /// As written.
    pub text: Text,
    /// As understood.
    pub items: Vec<T>,
}

/// `elementclass N ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassDefinition {
    /// The new class.
    pub name: Ident,
    /// What it means.
    pub class: Class,
}

/// One `$NAME value` of a `define`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// The name without `$`.
    pub name: Ident,
    /// The value.
    pub value: Text,
}

/// One item of a `require`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// `package`, `library`, ...; empty for the old form `require(P)`.
    pub kind: String,
    /// What is required.
    pub value: String,
    /// The place.
    pub span: Span,
    /// For a library: its text, once [`crate::load_libraries`] has put it there. `None` if that was not done,
    /// an empty block if the same library was loaded before.
    pub library: Option<Block>,
}

/// Elements joined by arrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first list of elements.
    pub first: Vec<Node>,
    /// Each arrow with the list of elements behind it.
    pub links: Vec<Link>,
}

/// An arrow and the elements behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `=>` instead of `->`.
    pub parallel: bool,
    /// The place of the arrow.
    pub span: Span,
    /// The elements behind it.
    pub nodes: Vec<Node>,
}

/// One element in a chain, with the ports that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The ports before it.
    pub inputs: Option<Ports>,
    /// The element.
    pub element: Element,
    /// The ports behind it.
    pub outputs: Option<Ports>,
    /// The place, with its ports.
    pub span: Span,
    /// Comments behind it.
    pub comments: Vec<Comment>,
}

/// An element as a chain mentions it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A name alone: an element or, if there is none of that name, a class.
    Name(Ident),
    /// `Class(config)`, `{ ... }` or `{ ... }(config)`.
    Anonymous {
        /// The class.
        class: Class,
        /// What stands in parentheses.
        config: Option<Text>,
    },
    /// `a :: Class(config)`; several names only in a statement of its own.
    Declaration {
        /// The names.
        names: Vec<Ident>,
        /// The class.
        class: Class,
        /// What stands in parentheses.
        config: Option<Text>,
    },
    /// `( ... )`.
    Group(Block),
    /// Nothing: the outside of the group or compound, at the start or end of a chain.
    Outside,
}

/// A class as a declaration mentions it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// By name.
    Name(Ident),
    /// `{ ... }`.
    Compound(Compound),
}

/// `{ ... || ... || ... }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compound {
    /// The alternatives.
    pub alternatives: Vec<Alternative>,
    /// The place of a last alternative `...`.
    pub extends: Option<Span>,
    /// The place, with its braces.
    pub span: Span,
}

/// One alternative of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The formals before `|`.
    pub formals: Vec<Formal>,
    /// The statements.
    pub block: Block,
    /// The place where it begins.
    pub span: Span,
}

/// A formal parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formal {
    /// The keyword before it, or `__REST__`.
    pub keyword: Option<Ident>,
    /// The variable without `$`.
    pub name: Ident,
}

/// A port list `[0, 2-3]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// First and last port of each range; the list `[]` has none.
    pub ranges: Vec<(u32, u32)>,
    /// Where the last, open range begins: `[2-]`, or 0 for `[]`.
    pub open: Option<u32>,
    /// The place, with its brackets.
    pub span: Span,
}
