//! `graph`: a configuration as a picture, for Graphviz, or as JSON.

use super::{Done, Output};
use crate::config::{ConfigArgs, Configuration};
use clap::{Args, ValueEnum};
use graph::Kind;
use lang::draw::{self, PortKind};
use std::path::PathBuf;

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// What to make
    #[arg(long, value_enum, default_value_t = Format::Svg)]
    format: Format,

    /// Where to put it, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A picture
    Svg,
    /// Input for Graphviz
    Dot,
    /// One row for each element
    Json,
}

/// Draws the graph: push ports black, pull ports white.
pub fn graph(args: &GraphArgs) -> Done {
    let Configuration { flat, plan, .. } = Configuration::load(&args.config)?;
    let kind = |element: usize, output: bool, port: u32| {
        let Some(node) = plan.nodes.get(element) else { return PortKind::Agnostic };
        let kinds = if output { &node.outputs } else { &node.inputs };
        match kinds.get(port as usize) {
            Some(Kind::Push) => PortKind::Push,
            Some(Kind::Pull) => PortKind::Pull,
            None => PortKind::Agnostic,
        }
    };
    let text = match args.format {
        Format::Svg => draw::svg(&flat, &kind),
        Format::Dot => draw::dot(&flat),
        Format::Json => draw::json(&flat),
    };
    let mut out = Output::to(args.output.as_deref())?;
    out.text(&text);
    out.done()
}
