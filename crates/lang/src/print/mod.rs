//! Trees and flat configurations as text.

mod flat;
mod format;

pub use flat::flat_text;
pub use format::format;

use crate::args::split;
use crate::text::{Text, Unit, unit_at};

/// Arguments joined by `, `, so that splitting gives them back.
pub(crate) fn join_arguments(config: &Text) -> String {
    let arguments = split(config);
    let mut out = String::new();
    for (i, argument) in arguments.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        out.push_str(&argument.text);
    }
    if arguments.last().is_some_and(|a| a.text.is_empty()) {
        // One trailing empty argument is dropped in reading.
        out.push(',');
    }
    out
}

/// Whether a configuration string has comments.
pub(crate) fn has_comment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut pos = 0;
    while pos < bytes.len() {
        let (unit, end, _) = unit_at(bytes, pos);
        if unit == Unit::Comment {
            return true;
        }
        pos = end;
    }
    false
}
