//! From what the user typed to a checked graph, with every mistake reported.
//!
//! ```text
//!   ConfigArgs ─► Text ─► Configuration (flat) ─► Plan, arguments
//! ```

mod check;
mod source;

pub use source::{ConfigArgs, Text, reason};

use elements::classes;
use elements::harness::Names;
use graph::{Diagnostic, Plan};
use lang::{Flat, SourceMap, compile, has_errors};
use std::io::IsTerminal;

/// What is wrong was printed; nothing more is to be said.
#[derive(Debug)]
pub struct Reported;

/// A configuration without compounds and variables.
pub struct Configuration {
    /// Elements and connections.
    pub flat: Flat,
    /// Which port is connected to which, who pushes and who pulls.
    pub plan: Plan,
    /// The texts, for diagnostics.
    pub sources: SourceMap,
}

impl Configuration {
    /// Reads what the user named, expands it and checks its ports. Warnings are printed.
    ///
    /// # Errors
    /// If it cannot be read or is not valid; then mistakes in arguments are looked for too, and all are printed.
    pub fn load(args: &ConfigArgs) -> Result<Configuration, Reported> {
        Configuration::new(&args.read()?, &args.variables())
    }

    /// The same of a text that this program has made.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of_text(name: &str, text: String) -> Result<Configuration, Reported> {
        let text = Text { name: name.to_owned(), bytes: text.into_bytes(), file: None };
        Configuration::new(&text, &[])
    }

    fn new(text: &Text, variables: &[(String, String)]) -> Result<Configuration, Reported> {
        let mut sources = SourceMap::new();
        let main = sources.add(text.name.as_str(), &text.bytes);
        let compiled = compile(&mut sources, main, &source::load_library, &Names, variables);
        let planned = compiled.and_then(|flat| match Plan::new(&flat, &classes()) {
            Ok(plan) => Ok((flat, plan)),
            Err(mut errors) => {
                errors.extend(flat.warnings.iter().cloned());
                Err(errors)
            }
        });
        match planned {
            Ok((flat, plan)) => {
                report(&flat.warnings, &sources);
                Ok(Configuration { flat, plan, sources })
            }
            Err(mut found) => {
                found.extend(check::despite_unknown_classes(&mut sources, main, variables));
                in_text_order(&mut found);
                report(&found, &sources);
                Err(Reported)
            }
        }
    }

    /// Lets all elements read their arguments and look at each other as for a run with this many workers, without
    /// opening anything. Warnings are printed.
    ///
    /// # Errors
    /// If there are mistakes, which were printed.
    pub fn check_elements(&self, workers: usize) -> Result<(), Reported> {
        let found = check::elements(&self.plan, &self.flat, workers);
        report(&found, &self.sources);
        if has_errors(&found) { Err(Reported) } else { Ok(()) }
    }
}

fn in_text_order(found: &mut Vec<Diagnostic>) {
    found.sort_by(|a, b| {
        let place = |d: &Diagnostic| (d.span().source, d.span().start);
        place(a).cmp(&place(b)).then_with(|| a.message.cmp(&b.message))
    });
    found.dedup_by(|a, b| a.span() == b.span() && a.message == b.message);
}

/// Prints diagnostics to standard error, in colour on a terminal, and the number of errors if there are several.
pub fn report(diagnostics: &[Diagnostic], sources: &SourceMap) {
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let mut text = lang::render(diagnostics, sources, color);
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    if errors > 1 {
        text.push_str(&format!("{errors} errors\n"));
    }
    ::io::tell(format_args!("{text}"));
}
