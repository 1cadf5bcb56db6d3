//! The graph as JSON.

use crate::flat::Flat;
use std::fmt::Write;

/// One row for each element, with what its outputs are connected to:
/// `{"schema":"routebricks.graph/1","rows":[{"name":…,"class":…,"config":…,"outputs":[{"port":0,"to":…,"to_port":0}]}]}`.
pub fn json(flat: &Flat) -> String {
    let mut outputs = vec![Vec::new(); flat.elements.len()];
    for c in &flat.connections {
        if let (Some(list), Some(to)) = (outputs.get_mut(c.from.0), flat.elements.get(c.to.0)) {
            list.push(format!(r#"{{"port":{},"to":{},"to_port":{}}}"#, c.from.1, quoted(&to.name), c.to.1));
        }
    }
    let mut out = String::from("{\"schema\":\"routebricks.graph/1\",\"rows\":[");
    for (i, (e, outputs)) in flat.elements.iter().zip(&outputs).enumerate() {
        out.push_str(if i > 0 { ",\n" } else { "\n" });
        let _ = write!(
            out,
            r#"{{"name":{},"class":{},"config":{},"outputs":[{}]}}"#,
            quoted(&e.name),
            quoted(&e.class),
            quoted(&e.config.text),
            outputs.join(",")
        );
    }
    out.push_str(if flat.elements.is_empty() { "]}\n" } else { "\n]}\n" });
    out
}

/// A JSON string (RFC 8259 §7).
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
    }
}
