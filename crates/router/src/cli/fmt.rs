//! `fmt`: the canonical form of a configuration.

use super::{Done, Output, failed};
use crate::config::{ConfigArgs, Reported, reason, report};
use clap::Args;
use lang::{SourceMap, has_errors, parse, print};
use std::io::Write;
use std::path::Path;

/// Arguments of `fmt`.
#[derive(Debug, Args)]
pub struct FmtArgs {
    #[command(flatten)]
    config: ConfigArgs,

    /// Change the file instead of printing
    #[arg(long)]
    write: bool,

    /// Print nothing, and exit 1 if the text is not in canonical form
    #[arg(long, conflicts_with = "write")]
    check: bool,
}

/// Prints, writes or compares the canonical form.
pub fn fmt(args: &FmtArgs) -> Done {
    let text = args.config.read()?;
    let mut sources = SourceMap::new();
    let main = sources.add(text.name.as_str(), &text.bytes);
    let (ast, found) = parse(&mut sources, main);
    report(&found, &sources);
    if has_errors(&found) {
        return Err(Reported);
    }
    let formatted = print::format(&ast);
    if args.check {
        let same = formatted.as_bytes() == text.bytes;
        return if same {
            Ok(())
        } else {
            Err(failed(format_args!("{} is not in canonical form", text.name)))
        };
    }
    match (&text.file, args.write) {
        (_, false) => {
            let mut out = Output::stdout();
            out.text(&formatted);
            out.done()
        }
        (None, true) => Err(failed("--write needs a file")),
        (Some(_), true) if formatted.as_bytes() == text.bytes => Ok(()),
        (Some(file), true) => replace(file, &formatted),
    }
}

/// Replaces a file at once, so that nobody sees half of it, not even after a full disk.
fn replace(file: &Path, text: &str) -> Done {
    // Through links, so that the link stays one.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let new = file.with_file_name(name);
    let written = std::fs::File::create_new(&new).and_then(|mut f| {
        if let Ok(old) = file.metadata() {
            f.set_permissions(old.permissions())?;
        }
        f.write_all(text.as_bytes())?;
        std::fs::rename(&new, &file)
    });
    written.map_err(|e| {
        let _ = std::fs::remove_file(&new);
        failed(format_args!("cannot write {}: {}", file.display(), reason(&e)))
    })
}
