//! Variables: where they are defined and how they are put into configuration strings.

use crate::args::unquote;
use crate::text::{Text, Unit, unit_at};
use std::collections::HashMap;

/// How often a variable's value may mention another.
const MAX_RECURSION: usize = 10;

/// The variables of one compound, of the file, or of the command line.
#[derive(Default)]
pub(super) struct Env {
    pub values: HashMap<String, String>,
    /// Where to look next, index in [`Variables::envs`].
    pub parent: Option<usize>,
    /// The body whose variables these are.
    pub body: usize,
    /// Values are not yet replaced themselves (command line).
    pub raw: bool,
}

/// All variables, and how many bytes they may still grow to.
pub(super) struct Variables {
    pub envs: Vec<Env>,
    pub budget: usize,
}

/// The replaced text would be larger than the limit.
pub(super) struct TooLong;

/// A variable as written.
struct Reference<'a> {
    name: &'a str,
    default: Option<&'a str>,
    word: Option<usize>,
    end: usize,
}

impl Variables {
    /// The text with the variables known in `env` replaced. Unknown ones stay as they are. Within `'...'`,
    /// `\<...>` and comments nothing is replaced; within `"..."` a value is escaped, so it stays one string.
    pub fn substitute(&mut self, text: &Text, env: usize) -> Result<Text, TooLong> {
        let mut out = Text::empty(text.span);
        if text.text.contains('$') {
            self.replace(text, env, 0, &mut out)?;
        } else {
            out = text.clone();
        }
        self.spend(out.text.len())?;
        Ok(out)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), TooLong> {
        self.budget = self.budget.checked_sub(bytes).ok_or(TooLong)?;
        Ok(())
    }

    fn replace(&self, text: &Text, env: usize, depth: usize, out: &mut Text) -> Result<(), TooLong> {
        let bytes = text.text.as_bytes();
        let (mut pos, mut kept) = (0, 0);
        while pos < bytes.len() {
            let (unit, end, _) = unit_at(bytes, pos);
            let quoted = unit == Unit::Double;
            let variable = unit == Unit::Plain && bytes[pos] == b'$';
            if !quoted && !variable {
                pos = end;
                continue;
            }
            let mut at = pos;
            while at < end {
                let reference = if bytes[at] == b'$' { reference(&text.text, at) } else { None };
                let value = match &reference {
                    Some(r) => self.value(r, env, depth)?.map(|v| (r.end, v)),
                    None => None,
                };
                let Some((after, value)) = value else {
                    let escape = quoted && bytes[at] == b'\\' && at + 1 < end;
                    at += if escape { 2 } else { 1 };
                    continue;
                };
                out.push_slice(text, kept..at);
                let origin = text.span_of(at..after);
                out.push(&if quoted { escaped(&value) } else { value }, origin);
                if out.text.len() > self.budget {
                    return Err(TooLong);
                }
                at = after;
                kept = after;
            }
            pos = at;
        }
        out.push_slice(text, kept..bytes.len());
        Ok(())
    }

    /// What a reference stands for; `None` leaves it as it is.
    fn value(&self, r: &Reference<'_>, env: usize, depth: usize) -> Result<Option<String>, TooLong> {
        let Some((value, at)) = self.lookup(r.name, env) else {
            return match r.default {
                Some(default) => self.again(default, env, depth).map(Some),
                None => Ok(None),
            };
        };
        let value = if self.envs[at].raw { self.again(value, at, depth)? } else { value.to_string() };
        Ok(Some(match r.word {
            Some(n) => value.split_ascii_whitespace().nth(n).unwrap_or("").to_string(),
            None => value,
        }))
    }

    fn again(&self, value: &str, env: usize, depth: usize) -> Result<String, TooLong> {
        if depth >= MAX_RECURSION || !value.contains('$') {
            return Ok(value.to_string());
        }
        let mut out = Text::default();
        self.replace(&Text::verbatim(value, Default::default()), env, depth + 1, &mut out)?;
        Ok(out.text)
    }

    fn lookup(&self, name: &str, env: usize) -> Option<(&str, usize)> {
        let mut at = Some(env);
        while let Some(i) = at {
            let e = self.envs.get(i)?;
            if let Some(value) = e.values.get(name) {
                return Some((value, i));
            }
            at = e.parent;
        }
        None
    }

    /// The variables of the nearest enclosing instance of `body`.
    pub fn enclosing(&self, env: usize, body: usize) -> usize {
        let mut at = env;
        while let Some(e) = self.envs.get(at) {
            if e.body == body && !e.raw {
                return at;
            }
            let Some(parent) = e.parent else { break };
            at = parent;
        }
        at
    }
}

/// Reads `$x`, `${x}`, `${x-default}` or `${x[n]}` at `pos`.
fn reference(text: &str, pos: usize) -> Option<Reference<'_>> {
    let word_len = |s: &str| s.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let rest = &text[pos + 1..];
    let Some(inner) = rest.strip_prefix('{') else {
        let len = word_len(rest);
        return (len > 0).then(|| Reference {
            name: &rest[..len],
            default: None,
            word: None,
            end: pos + 1 + len,
        });
    };
    let close = closing_brace(inner)?;
    let inner = &inner[..close];
    let end = pos + 2 + close + 1;
    let len = word_len(inner);
    if len == 0 {
        return None;
    }
    let (name, tail) = inner.split_at(len);
    if tail.is_empty() {
        return Some(Reference { name, default: None, word: None, end });
    }
    if let Some(default) = tail.strip_prefix('-') {
        return Some(Reference { name, default: Some(default), word: None, end });
    }
    let word = tail.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
    Some(Reference { name, default: None, word: Some(word), end })
}

fn closing_brace(text: &str) -> Option<usize> {
    let mut open = 0usize;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(i),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

/// A value as part of a `"..."`: its own quoting is removed, what is left is escaped.
fn escaped(value: &str) -> String {
    if !value.contains(['"', '\'', '\\']) {
        return value.to_string();
    }
    let mut out = String::new();
    for chunk in unquote(value).utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '"' || c == '\\' {
                out.push('\\');
            }
            out.push(c);
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\{byte:03o}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, values: &[(&str, &str)]) -> String {
        let values = values.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let env = Env { values, parent: None, body: 0, raw: true };
        let mut variables = Variables { envs: vec![env], budget: 1000 };
        let text = Text::verbatim(text, crate::Span::new(0, 0..text.len()));
        variables.substitute(&text, 0).map_or("too long".to_string(), |t| t.text)
    }

    #[test]
    fn all_forms() {
        let v = &[("x", "a b"), ("empty", "")];
        assert_eq!(run("<$x>", v), "<a b>");
        assert_eq!(run("${x}y", v), "a by");
        assert_eq!(run("$xy", v), "$xy");
        assert_eq!(run("${x[0]},${x[1]},${x[2]}", v), "a,b,");
        assert_eq!(run("${x-1} ${z-1} ${z-$x} ${z-${x}}", v), "a b 1 a b a b");
        assert_eq!(run("$z ${z} $1 $$ $(x y) ${", v), "$z ${z} $1 $$ $(x y) ${");
        assert_eq!(run("A $empty B", v), "A  B");
    }

    #[test]
    fn quotes() {
        let v = &[("x", "\"a b\" c\\d"), ("h", r"\<ff>"), ("y", "z")];
        assert_eq!(run("'$x'", v), "'$x'");
        assert_eq!(run("\"<$x>\"", v), r#""<a b c\\d>""#);
        assert_eq!(run(r#""$h""#, v), r#""\377""#);
        assert_eq!(run(r#""\$y$y""#, v), r#""\$yz""#);
        assert_eq!(run(r"\<$y> /*$y*/ $y", v), r"\<$y> /*$y*/ z");
    }

    #[test]
    fn recursion_ends() {
        assert_eq!(run("$a", &[("a", "$b"), ("b", "c")]), "c");
        assert_eq!(run("$a", &[("a", "x$a")]), format!("{}$a", "x".repeat(11)));
        assert_eq!(run("$a", &[("a", "$a$a$a$a$a$a$a$a")]), "too long");
    }

    #[test]
    fn places_point_at_the_variable() {
        let values = [("x".to_string(), "long value".to_string())].into();
        let mut variables = Variables { envs: vec![Env { values, ..Env::default() }], budget: 100 };
        let text = Text::verbatim("ab $x cd", crate::Span::new(0, 50..58));
        let Ok(out) = variables.substitute(&text, 0) else { panic!("too long") };
        assert_eq!(out.text, "ab long value cd");
        assert_eq!(out.span_of(5..6), crate::Span::new(0, 53..55));
        assert_eq!(out.span_of(14..16), crate::Span::new(0, 56..58));
    }
}
