//! `check`: everything that can be said about a configuration without opening devices or files.

use super::{Done, Output, Workers};
use crate::config::{ConfigArgs, Configuration};
use crate::words::counted;
use clap::Args;

/// Arguments of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    workers: Workers,
}

/// Prints every mistake, or how large the graph is.
pub fn check(args: &CheckArgs) -> Done {
    let configuration = Configuration::load(&args.config)?;
    configuration.check_elements(args.workers.count())?;
    let (elements, connections) = (configuration.flat.elements.len(), configuration.flat.connections.len());
    let mut out = Output::stdout();
    out.line(format_args!("ok: {}, {}", counted(elements, "element"), counted(connections, "connection")));
    out.done()
}
