//! From what the user typed to a checked graph, with every mistake reported.
//!
//! ```text
//!   ConfigArgs ─► Text ─► parse ─► Tree ─► expand ─► Configuration ─► check ─► Plan
//! ```

mod check;
mod source;

pub use check::{AnyDevice, check};
pub use source::{ConfigArgs, Text};

use elements::harness::Names;
use graph::{Diagnostic, Options, Router};
use lang::{Ast, Flat, SourceMap, has_errors};
use std::io::{IsTerminal, Write};

/// The diagnostics were printed; nothing more is to be said.
#[derive(Debug)]
pub struct Reported;

/// A parsed text, with the libraries that it requires.
pub struct Tree {
    /// The tree.
    pub ast: Ast,
    /// The main text and its libraries.
    pub sources: SourceMap,
    /// What was found so far; not printed yet.
    diagnostics: Vec<Diagnostic>,
}

/// A configuration without compounds and variables.
pub struct Configuration {
    /// Elements and connections.
    pub flat: Flat,
    /// The texts, for diagnostics.
    pub sources: SourceMap,
}

impl Tree {
    /// Parses a text; whatever is wrong with it is kept for later.
    pub fn parse(text: &Text) -> Tree {
        let mut sources = SourceMap::new();
        let main = sources.add(text.name.as_str(), &text.bytes);
        let (ast, diagnostics) = lang::parse(&mut sources, main);
        Tree { ast, sources, diagnostics }
    }

    /// Prints what was found in the text itself.
    ///
    /// # Errors
    /// If there was an error among it.
    pub fn report(&self) -> Result<(), Reported> {
        report(&self.diagnostics, &self.sources);
        if has_errors(&self.diagnostics) { Err(Reported) } else { Ok(()) }
    }

    /// Reads libraries and expands compounds and variables. Warnings are printed.
    ///
    /// # Errors
    /// All mistakes that can be told, printed: if the graph cannot be made, those in arguments are looked for, too.
    pub fn expand(mut self, variables: &[(String, String)]) -> Result<Configuration, Reported> {
        self.diagnostics.extend(lang::load_libraries(
            &mut self.ast,
            &mut self.sources,
            &source::load_library,
        ));
        let well_formed = !has_errors(&self.diagnostics);
        match lang::expand(&self.ast, &Names, variables) {
            Ok(mut flat) if well_formed => {
                self.diagnostics.append(&mut flat.warnings);
                report(&self.diagnostics, &self.sources);
                return Ok(Configuration { flat, sources: self.sources });
            }
            // What follows from a statement that could not be read would only confuse.
            Ok(_) => {}
            Err(more) => {
                let certain = |d: &Diagnostic| well_formed || d.code == Some("unknown-class");
                self.diagnostics.extend(more.into_iter().filter(certain));
                if well_formed {
                    self.diagnostics.extend(check::arguments_despite_unknown_classes(&self.ast, variables));
                }
            }
        }
        in_text_order(&mut self.diagnostics);
        report(&self.diagnostics, &self.sources);
        Err(Reported)
    }
}

impl Configuration {
    /// Reads and expands what the user named.
    ///
    /// # Errors
    /// If it cannot be read or is not valid; the diagnostics were printed.
    pub fn load(args: &ConfigArgs) -> Result<Configuration, Reported> {
        let text = args.read()?;
        Tree::parse(&text).expand(&args.variables())
    }

    /// Makes the graph, and prints the warnings.
    ///
    /// # Errors
    /// If it is not valid or a device or file cannot be opened; the diagnostics were printed.
    pub fn into_router(self, options: &Options) -> Result<(Router, SourceMap), Reported> {
        let Configuration { flat, sources } = self;
        let again = flat.clone();
        match Router::new(flat, &elements::classes(), options) {
            Ok(router) => {
                report(router.warnings(), &sources);
                Ok((router, sources))
            }
            Err(mut diagnostics) => {
                // The graph stops at the first stage that fails; users want to know of the others at once.
                if diagnostics.iter().all(|d| d.context.is_none()) {
                    diagnostics.extend(check::arguments(&again, options.workers));
                    in_text_order(&mut diagnostics);
                }
                report(&diagnostics, &sources);
                Err(Reported)
            }
        }
    }
}

fn in_text_order(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| (d.span().source, d.span().start));
    diagnostics.dedup_by(|a, b| a.span() == b.span() && a.message == b.message);
}

/// Prints diagnostics to standard error, in colour on a terminal, and a closing line if there is more than one error.
pub fn report(diagnostics: &[Diagnostic], sources: &SourceMap) {
    let mut err = std::io::stderr().lock();
    let color = err.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut text = lang::render(diagnostics, sources, color);
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    if errors > 1 {
        text.push_str(&format!("{errors} errors\n"));
    }
    // If standard error is gone there is nobody to tell.
    let _ = err.write_all(text.as_bytes());
}
