//! Gathers the `//!` text of every element file: first line "`Class`: what it does.".

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=src");
    let mut entries = Vec::new();
    for folder in sorted(Path::new("src"))?.into_iter().filter(|p| p.is_dir()) {
        for file in sorted(&folder)?.into_iter().filter(|p| p.is_file()) {
            if let Some(entry) = entry(&folder, &fs::read_to_string(&file)?) {
                entries.push(entry);
            }
        }
    }
    let out = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    let list = entries.join("");
    fs::write(out.join("element_docs.rs"), format!("static ELEMENT_DOCS: &[ElementDoc] = &[\n{list}];\n"))
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// One file's entry; `None` if it is not an element's file.
fn entry(folder: &Path, source: &str) -> Option<String> {
    let lines = source.lines().take_while(|l| l.starts_with("//!"));
    let text: Vec<&str> = lines.map(|l| l.strip_prefix("//! ").unwrap_or("")).collect();
    let (class, summary) = text.first()?.strip_prefix('`')?.split_once("`: ")?;
    let layer = folder.file_name()?.to_str()?;
    let mut entry = String::new();
    let text = text.join("\n");
    writeln!(
        entry,
        "ElementDoc {{ class: {class:?}, layer: {layer:?}, summary: {summary:?}, text: {text:?} }},"
    )
    .ok()?;
    Some(entry)
}
