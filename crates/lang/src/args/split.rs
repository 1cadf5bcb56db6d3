//! From a configuration string to its arguments.

use crate::text::{Text, Unit, unit_at};

/// Splits a configuration string at its top-level commas. Each argument is trimmed, comments in it become one
/// space, one trailing empty argument is dropped; an empty string has no arguments.
///
/// Commas within `'...'`, `"..."`, `\<...>` and comments do not separate; parentheses do not nest.
pub fn split(config: &Text) -> Vec<Text> {
    let bytes = config.text.as_bytes();
    let mut arguments = Vec::new();
    let mut current = Builder::default();
    let mut pos = 0;
    while pos < bytes.len() {
        let (unit, end, _) = unit_at(bytes, pos);
        match unit {
            Unit::Plain if bytes[pos] == b',' => {
                arguments.push(std::mem::take(&mut current).finish(config, pos));
                // An empty argument is located just behind its comma.
            }
            Unit::Plain if bytes[pos].is_ascii_whitespace() => current.space(pos..end),
            Unit::Comment => current.comment(pos..end),
            _ => current.keep(pos..end),
        }
        pos = end;
    }
    let last = current.finish(config, bytes.len());
    if !last.text.is_empty() {
        arguments.push(last);
    }
    arguments
}

/// The runs of the configuration string that one argument is made of.
#[derive(Default)]
struct Builder {
    runs: Vec<(std::ops::Range<usize>, bool)>,
}

impl Builder {
    fn keep(&mut self, range: std::ops::Range<usize>) {
        match self.runs.last_mut() {
            Some((last, false)) if last.end == range.start => last.end = range.end,
            _ => self.runs.push((range, false)),
        }
    }

    fn space(&mut self, range: std::ops::Range<usize>) {
        if !self.runs.is_empty() {
            self.keep(range);
        }
    }

    fn comment(&mut self, range: std::ops::Range<usize>) {
        if !self.runs.is_empty() {
            self.runs.push((range, true));
        }
    }

    fn finish(self, config: &Text, end: usize) -> Text {
        let start = self.runs.first().map_or(end, |(r, _)| r.start);
        let mut text = Text::empty(config.span_of(start..start));
        for (range, comment) in self.runs {
            if comment {
                text.push(" ", config.span_of(range));
            } else {
                text.push_slice(config, range);
            }
        }
        let kept = text.text.trim_ascii_end().len();
        if kept == 0 { Text::empty(text.span) } else { text.slice(0..kept) }
    }
}

/// Splits a keyword argument such as `CAPACITY 100` into keyword and value. The keyword is a word of upper-case
/// letters, digits and `_` that begins with a letter or `_`; a space must follow it.
pub fn keyword(argument: &str) -> Option<(&str, &str)> {
    let end = argument.find(|c: char| c.is_ascii_whitespace())?;
    let word = &argument[..end];
    let first = word.bytes().next()?;
    let shape = word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    (shape && !first.is_ascii_digit()).then(|| (word, argument[end..].trim_ascii_start()))
}

/// Removes quoting: `"..."` with C escapes, `'...'` literal, `\<hex>` bytes; adjacent pieces join.
/// The result is bytes, since `\<ff>` need not be UTF-8. An unclosed quote ends with the text.
pub fn unquote(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut pos = 0;
    while pos < bytes.len() {
        let (unit, end, closed) = unit_at(bytes, pos);
        let close = usize::from(closed);
        match unit {
            Unit::Single => out.extend_from_slice(&bytes[pos + 1..end - close]),
            Unit::Double => unescape(&bytes[pos + 1..end - close], &mut out),
            Unit::Hex => hex_bytes(&bytes[pos + 2..end - close], &mut out),
            Unit::Plain | Unit::Comment => out.extend_from_slice(&bytes[pos..end]),
        }
        pos = end;
    }
    out
}

/// C escapes within double quotes.
fn unescape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut pos = 0;
    while pos < bytes.len() {
        if bytes[pos] != b'\\' {
            out.push(bytes[pos]);
            pos += 1;
            continue;
        }
        let Some(&escape) = bytes.get(pos + 1) else {
            out.push(b'\\');
            return;
        };
        pos += 2;
        match escape {
            b'<' => {
                let (_, end, closed) = unit_at(bytes, pos - 2);
                hex_bytes(&bytes[pos..end - usize::from(closed)], out);
                pos = end;
            }
            b'0'..=b'7' => pos = octal(bytes, pos - 1, out),
            b'x' => pos = hexadecimal(bytes, pos, out),
            b'\r' if bytes.get(pos) == Some(&b'\n') => pos += 1,
            b'\n' | b'\r' => {}
            _ => out.push(simple_escape(escape)),
        }
    }
}

fn simple_escape(escape: u8) -> u8 {
    match escape {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        other => other,
    }
}

fn octal(bytes: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
    let mut value = 0u32;
    let mut pos = start;
    while pos < start + 3 && matches!(bytes.get(pos), Some(b'0'..=b'7')) {
        value = value * 8 + u32::from(bytes[pos] - b'0');
        pos += 1;
    }
    out.push((value & 0xff) as u8);
    pos
}

/// As in C, `\x` takes as many hexadecimal digits as follow; the last two count.
fn hexadecimal(bytes: &[u8], start: usize, out: &mut Vec<u8>) -> usize {
    let mut value = None;
    let mut pos = start;
    while let Some(digit) = bytes.get(pos).and_then(|&b| (b as char).to_digit(16)) {
        value = Some((value.unwrap_or(0u32) << 4 | digit) & 0xff);
        pos += 1;
    }
    out.push(value.map_or(b'x', |v| v as u8));
    pos
}

/// The bytes of a `\<...>` block; spaces and comments are allowed between digits, anything else is skipped.
fn hex_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut high = None;
    let mut pos = 0;
    while pos < bytes.len() {
        if let (Unit::Comment, end, _) = unit_at(bytes, pos) {
            pos = end;
            continue;
        }
        if let Some(digit) = (bytes[pos] as char).to_digit(16) {
            match high.take() {
                None => high = Some(digit),
                Some(h) => out.push((h << 4 | digit) as u8),
            }
        }
        pos += 1;
    }
    if let Some(h) = high {
        out.push(h as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    fn texts(s: &str) -> Vec<String> {
        split(&Text::verbatim(s, Span::new(0, 0..s.len()))).into_iter().map(|a| a.text).collect()
    }

    #[test]
    fn splits_at_top_level_commas() {
        assert_eq!(texts("a, b c ,d"), ["a", "b c", "d"]);
        assert_eq!(texts(r#""a,b", 'c,d', \<01,02>, /*,*/ e // ,"#), ["\"a,b\"", "'c,d'", r"\<01,02>", "e"]);
        assert_eq!(texts(""), Vec::<String>::new());
        assert_eq!(texts(" /* nothing */ "), Vec::<String>::new());
        assert_eq!(texts("a,"), ["a"]);
        assert_eq!(texts("a,,"), ["a", ""]);
        assert_eq!(texts(",a"), ["", "a"]);
        assert_eq!(texts("a/*x*/b"), ["a b"]);
        assert_eq!(texts("a\n# 3 \"f\"\nb"), ["a\n \nb"]);
    }

    #[test]
    fn arguments_know_their_place() {
        let text = Text::verbatim("ab, /*c*/ def", Span::new(0, 100..113));
        let arguments = split(&text);
        assert_eq!(arguments[0].span, Span::new(0, 100..102));
        assert_eq!(arguments[1].span, Span::new(0, 110..113));
        assert_eq!(arguments[1].span_of(1..2), Span::new(0, 111..112));
    }

    #[test]
    fn keywords_are_upper_case_words_before_a_space() {
        assert_eq!(keyword("CAPACITY 100"), Some(("CAPACITY", "100")));
        assert_eq!(keyword("N2_X\t y z"), Some(("N2_X", "y z")));
        assert_eq!(keyword("CAPACITY"), None);
        assert_eq!(keyword("Capacity 1"), None);
        assert_eq!(keyword("10 20"), None);
        assert_eq!(keyword(" X"), None);
    }

    #[test]
    fn unquoting() {
        assert_eq!(unquote(r#"a"b c"'d\n'"#), br"ab cd\n");
        assert_eq!(unquote(r#""\n\t\101\x41\"\\""#), b"\n\tAA\"\\");
        assert_eq!(unquote("\"a\\\nb\\\r\nc\""), b"abc");
        assert_eq!(unquote(r"\<48 65 /* l */ 6c>"), b"Hel");
        assert_eq!(unquote(r#""x\<ff0>y""#), b"x\xff\x00y");
        assert_eq!(unquote(r#""open"#), b"open");
        assert_eq!(unquote(r"a\b"), br"a\b");
        assert_eq!(unquote("\"\\"), b"\\");
        assert_eq!(unquote("\"\""), b"");
    }
}
