//! The pattern language of `IPClassifier` and `IPFilter`: from text to a program over packets.
//!
//! text ─`lex`─► tokens ─`parse`─► `Expr` (tests joined by and, or, not) ─`program`─► a graph of tests.

mod expr;
mod lex;
mod names;
mod parse;
mod program;
mod relate;
mod view;

pub use expr::{Base, Expr, Field, Op, Test};
pub use parse::parse;
pub use program::{Program, Rule};
pub use view::View;
