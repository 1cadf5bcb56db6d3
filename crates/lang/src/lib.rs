//! The Click language: lex, parse, expand, print, diagnostics.

pub mod args;
pub mod ast;
mod diagnostic;
mod expand;
mod flat;
mod lex;
mod parse;
mod source;
mod suggest;
mod text;

pub use ast::Ast;
pub use diagnostic::{Diagnostic, Label, Severity, has_errors, render, to_click_format};
pub use expand::{ClassTable, Limits, expand, expand_within};
pub use flat::{Flat, FlatConnection, FlatElement, Scope, Target};
pub use lex::Comment;
pub use parse::{MAX_NESTING, parse};
pub use source::{MAX_SOURCE_BYTES, Position, Source, SourceMap, Span};
pub use suggest::nearest;
pub use text::Text;
