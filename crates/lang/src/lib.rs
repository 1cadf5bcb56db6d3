//! The Click language: lex, parse, expand, print, diagnostics.
//!
//! ```
//! use lang::{SourceMap, compile, render};
//!
//! let mut sources = SourceMap::new();
//! let main = sources.add("config", "Idle -> Qeue(10) -> Discard;");
//! let no_libraries = |_: &str, _: &str| Err("there are no libraries".to_string());
//! let classes = ["Idle", "Queue", "Discard"];
//! let errors = compile(&mut sources, main, &no_libraries, &classes, &[]).unwrap_err();
//! assert_eq!(
//!     render(&errors, &sources, false).lines().next(),
//!     Some("config:1:9: error: no element class `Qeue`; did you mean `Queue`?")
//! );
//! ```

#![forbid(unsafe_code)]

pub mod args;
pub mod ast;
mod diagnostic;
pub mod draw;
mod expand;
mod flat;
mod lex;
mod library;
mod parse;
pub mod print;
mod source;
mod suggest;
mod text;

pub use ast::Ast;
pub use diagnostic::{Diagnostic, Label, Severity, has_errors, render, to_click_format};
pub use expand::{ClassTable, Limits, expand, expand_within};
pub use flat::{Flat, FlatConnection, FlatElement, Scope, Target};
pub use lex::Comment;
pub use library::{Load, compile, library_candidates, load_libraries};
pub use parse::{MAX_NESTING, parse};
pub use source::{MAX_SOURCE_BYTES, Position, Source, SourceMap, Span};
pub use suggest::nearest;
pub use text::Text;
