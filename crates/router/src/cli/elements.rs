//! `elements`: the reference of the vocabulary.

use super::{Done, Output, failed, json_rows};
use crate::markdown;
use clap::Args;
use elements::{ElementDoc, classes, element_docs};
use serde_json::{Value, json};
use std::fmt::Write;

/// Arguments of `elements`.
#[derive(Debug, Args)]
pub struct ElementsArgs {
    /// Print the reference of this class
    class: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Print Markdown: the chapter of the manual
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

/// Lists the classes by layer, or prints one's reference.
pub fn elements(args: &ElementsArgs) -> Done {
    let docs = match &args.class {
        Some(class) => vec![find(class)?],
        None => element_docs().iter().collect(),
    };
    let mut out = Output::stdout();
    if args.json {
        let whole = args.class.is_some();
        out.text(&json_rows("elements", &docs.iter().map(|d| row(d, whole)).collect::<Vec<_>>()));
    } else if args.markdown {
        out.text(&match args.class {
            Some(_) => docs.iter().map(|d| section(d)).collect(),
            None => chapter(&docs),
        });
    } else if let (Some(_), [doc]) = (&args.class, docs.as_slice()) {
        out.text(&markdown::render(doc.text, Output::is_colorful()));
    } else {
        out.text(&list(&docs));
    }
    out.done()
}

fn find(class: &str) -> Result<&'static ElementDoc, super::Reported> {
    let name = classes().find(class).map_or(class, |c| c.spec().name);
    element_docs().iter().find(|d| d.class == name).ok_or_else(|| {
        let suggestion = lang::nearest(class, classes().names());
        let suggestion = suggestion.map_or(String::new(), |s| format!("; did you mean `{s}`?"));
        failed(format_args!("no element class `{class}`{suggestion}"))
    })
}

fn list(docs: &[&ElementDoc]) -> String {
    let width = docs.iter().map(|d| d.class.len()).max().unwrap_or(0);
    let mut out = String::new();
    let mut layer = "";
    for doc in docs {
        if doc.layer != layer {
            let _ = writeln!(out, "{}{}", if layer.is_empty() { "" } else { "\n" }, doc.layer);
            layer = doc.layer;
        }
        let _ = writeln!(out, "  {:width$}  {}", doc.class, doc.summary.replace('`', ""));
    }
    out
}

/// All references as one page: an index by layer, then a section for each class.
fn chapter(docs: &[&ElementDoc]) -> String {
    let mut out = String::from(
        "# Elements\n\n\
         <!-- Made by `routebricks elements --markdown` of the texts at the top of the elements' files. -->\n\n\
         What each class does, by layer. `routebricks elements CLASS` prints the same; every example is run as a test.\n\n\
         | Layer | Classes |\n|---|---|\n",
    );
    let layers = || docs.chunk_by(|a, b| a.layer == b.layer).map(|layer| (layer[0].layer, layer));
    for (name, layer) in layers() {
        let link = |d: &&ElementDoc| format!("[{}](#{})", d.class, d.class.to_lowercase());
        let links: Vec<String> = layer.iter().map(link).collect();
        let _ = writeln!(out, "| {name} | {} |", links.join(", "));
    }
    for (name, layer) in layers() {
        // No heading of a layer may have the anchor of a class, as "queue" would.
        let _ = writeln!(out, "\n## Layer {name}");
        out.extend(layer.iter().map(|d| format!("\n{}", section(d))));
    }
    out
}

/// A reference two levels further down, with its class as heading.
fn section(doc: &ElementDoc) -> String {
    let mut out = format!("### {}\n\n", doc.class);
    let mut is_code = false;
    for (i, line) in doc.text.lines().enumerate() {
        is_code ^= line.starts_with("```");
        let _ = match line {
            _ if i == 0 => writeln!(out, "{}", sentence(doc.summary)),
            _ if line.starts_with("# ") && !is_code => writeln!(out, "###{line}\n"),
            _ => writeln!(out, "{line}"),
        };
    }
    out
}

/// With its first letter in upper case.
fn sentence(summary: &str) -> String {
    let mut letters = summary.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn row(doc: &ElementDoc, whole: bool) -> Value {
    let spec = classes().find(doc.class).map(|c| c.spec());
    let mut row = json!({
        "class": doc.class,
        "layer": doc.layer,
        "summary": doc.summary,
        "ports": spec.map(|s| s.ports),
        "processing": spec.map(|s| s.processing),
        "flow": spec.map(|s| s.flow),
        "losses": spec.map(|s| s.losses),
    });
    if whole {
        row["text"] = doc.text.into();
    }
    row
}
