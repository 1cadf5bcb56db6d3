//! From the syntax tree to a flat configuration, in two steps. `scope` looks up the names of each block once,
//! in text order, and turns chains into connections. `instance` then makes the elements: it chooses among
//! overloaded compounds, replaces variables and goes inside; `stitch` joins connections through compounds and
//! groups, of which nothing remains.

mod body;
mod chain;
mod formals;
mod instance;
mod ports;
mod scope;
mod stitch;
mod variables;

use crate::ast::Ast;
use crate::diagnostic::{Diagnostic, has_errors};
use crate::flat::Flat;

/// Bounds that keep a small text from growing without end. Exceeding one is an error.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Elements and compounds after expansion.
    pub elements: usize,
    /// Connections, before and after expansion.
    pub connections: usize,
    /// Compounds inside compounds.
    pub depth: usize,
    /// Bytes of all configuration strings after variables have been replaced.
    pub config_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { elements: 200_000, connections: 1_000_000, depth: 100, config_bytes: 64 << 20 }
    }
}

/// The primitive element classes there are.
pub trait ClassTable {
    /// Whether there is a primitive class of this name.
    fn has(&self, name: &str) -> bool;
    /// All names, for suggestions.
    fn names(&self) -> Vec<&str>;
}

impl ClassTable for [&str] {
    fn has(&self, name: &str) -> bool {
        self.contains(&name)
    }
    fn names(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl<const N: usize> ClassTable for [&str; N] {
    fn has(&self, name: &str) -> bool {
        self.contains(&name)
    }
    fn names(&self) -> Vec<&str> {
        self.to_vec()
    }
}

/// Expands a configuration. `overrides` are variables of the command line, `(NAME, value)` without `$`; they
/// replace top-level definitions.
///
/// # Errors
/// All errors that were found, and the warnings.
pub fn expand(
    ast: &Ast,
    classes: &dyn ClassTable,
    overrides: &[(String, String)],
) -> Result<Flat, Vec<Diagnostic>> {
    expand_within(ast, classes, overrides, Limits::default())
}

/// As [`expand`], with other bounds.
///
/// # Errors
/// All errors that were found, and the warnings.
pub fn expand_within(
    ast: &Ast,
    classes: &dyn ClassTable,
    overrides: &[(String, String)],
    limits: Limits,
) -> Result<Flat, Vec<Diagnostic>> {
    let mut resolver = scope::Resolver::new(classes, limits);
    let top = resolver.file(&ast.block);
    let scope::Resolver { program, mut diagnostics, .. } = resolver;
    let mut expansion = instance::Expansion::new(&program, limits);
    expansion.run(top, overrides);
    diagnostics.append(&mut expansion.diagnostics);
    // Errors come in the order of the text, whichever step found them.
    diagnostics.sort_by_key(|d| (d.span().source, d.span().start));
    diagnostics.dedup_by(|a, b| a.span() == b.span() && a.message == b.message);
    if has_errors(&diagnostics) {
        return Err(diagnostics);
    }
    let mut flat = expansion.finish();
    flat.requirements = program.requirements;
    flat.warnings = diagnostics;
    Ok(flat)
}
