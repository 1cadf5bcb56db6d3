//! From a file with the libraries it requires to a flat configuration.

use crate::ast::{Ast, Block, Requirement, Statement};
use crate::diagnostic::{Diagnostic, has_errors};
use crate::expand::{ClassTable, expand};
use crate::flat::Flat;
use crate::parse::parse;
use crate::source::SourceMap;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// How many files one configuration may consist of.
const MAX_LIBRARIES: usize = 256;

/// Finds a library: given its name and the name of the source that requires it, its path and bytes, or why not.
pub type Load<'a> = dyn Fn(&str, &str) -> Result<(String, Vec<u8>), String> + 'a;

/// Reads the libraries that the outermost blocks require, and those which they require, into the tree. Each is
/// put in where it is first required.
pub fn load_libraries(ast: &mut Ast, sources: &mut SourceMap, load: &Load<'_>) -> Vec<Diagnostic> {
    let mut seen = HashSet::new();
    let mut diagnostics = Vec::new();
    fill(&mut ast.block, sources, load, &mut seen, 0, &mut diagnostics);
    diagnostics
}

fn fill(
    block: &mut Block,
    sources: &mut SourceMap,
    load: &Load<'_>,
    seen: &mut HashSet<String>,
    depth: usize,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for item in &mut block.items {
        let Statement::Require(requirements) = &mut item.statement else { continue };
        for r in requirements.items.iter_mut().filter(|r| r.kind == "library" && r.library.is_none()) {
            match read(r, sources, load, seen, diagnostics) {
                Ok(mut inner) => {
                    if depth < crate::MAX_NESTING {
                        fill(&mut inner, sources, load, seen, depth + 1, diagnostics);
                    }
                    r.library = Some(inner);
                }
                Err(reason) => {
                    // An empty text, so that expansion does not report it once more.
                    r.library = Some(Block::default());
                    let message = format!("can't find required library '{}': {reason}", r.value);
                    diagnostics.push(Diagnostic::error(r.span, message).code("library"));
                }
            }
        }
    }
}

fn read(
    r: &Requirement,
    sources: &mut SourceMap,
    load: &Load<'_>,
    seen: &mut HashSet<String>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Block, String> {
    let from = sources.get(r.span.source).map_or("", |s| s.name.as_str());
    let (path, bytes) = load(&r.value, from)?;
    if !seen.insert(path.clone()) {
        return Ok(Block::default());
    }
    if seen.len() > MAX_LIBRARIES {
        return Err(format!("more than {MAX_LIBRARIES} libraries"));
    }
    let id = sources.add(path, bytes);
    let (inner, more) = parse(sources, id);
    diagnostics.extend(more);
    Ok(inner.block)
}

/// Parses a source and the libraries it requires, and expands it: all errors in one list, in text order.
///
/// # Errors
/// All errors that were found, and the warnings.
pub fn compile(
    sources: &mut SourceMap,
    source: u32,
    load: &Load<'_>,
    classes: &dyn ClassTable,
    overrides: &[(String, String)],
) -> Result<Flat, Vec<Diagnostic>> {
    let (mut ast, mut all) = parse(sources, source);
    all.extend(load_libraries(&mut ast, sources, load));
    let expanded = expand(&ast, classes, overrides);
    let (flat, more) = match expanded {
        Ok(mut flat) => {
            let warnings = std::mem::take(&mut flat.warnings);
            (Some(flat), warnings)
        }
        Err(errors) => (None, errors),
    };
    all.extend(more);
    all.sort_by_key(|d| (d.span().source, d.span().start));
    match flat {
        Some(flat) if !has_errors(&all) => Ok(Flat { warnings: all, ..flat }),
        _ => Err(all),
    }
}

/// Where a library may be, in the order to try: beside the requiring file, then in each directory of the path
/// and in its `conf`.
pub fn library_candidates(name: &str, from: &str, clickpath: &[PathBuf]) -> Vec<PathBuf> {
    let beside = Path::new(from).parent().unwrap_or(Path::new("")).join(name);
    let mut all = vec![beside];
    for directory in clickpath {
        all.push(directory.join(name));
        all.push(directory.join("conf").join(name));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_put_in_once() {
        let files = |name: &str, from: &str| match name {
            "a" => Ok(("lib/a".to_string(), b"require(library b); A :: Idle;".to_vec())),
            "b" => Ok(("lib/b".to_string(), format!("require(library a); B :: Null({from});").into_bytes())),
            _ => Err("no such file".to_string()),
        };
        let mut map = SourceMap::new();
        let id = map.add("main", "require(library a, library c); C :: Idle; require(library b);");
        let (mut ast, _) = parse(&mut map, id);
        let errors = load_libraries(&mut ast, &mut map, &files);
        let texts: Vec<_> = errors.iter().map(|d| d.message.as_str()).collect();
        assert_eq!(texts, ["can't find required library 'c': no such file"]);
        let flat = expand(&ast, &["Idle", "Null"], &[]).unwrap();
        let names: Vec<_> = flat.elements.iter().map(|e| (e.name.as_str(), e.config.text.as_str())).collect();
        assert_eq!(names, [("B", "lib/a"), ("A", ""), ("C", "")]);
        assert_eq!(map.position(flat.elements[0].span).file, "lib/b");
    }

    #[test]
    fn candidates() {
        let all = library_candidates("x.click", "conf/main.click", &["/usr/share/click".into()]);
        let want = ["conf/x.click", "/usr/share/click/x.click", "/usr/share/click/conf/x.click"];
        assert_eq!(all, want.map(PathBuf::from));
    }
}
