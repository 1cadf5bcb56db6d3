//! Configuration text that remembers where in the source each of its bytes came from, and its lexical units.

use crate::args::Names;
use crate::source::Span;
use std::ops::Range;
use std::sync::Arc;

/// A run of bytes of a [`Text`] and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// Where the run begins in the text.
    at: usize,
    /// Its length in bytes.
    len: usize,
    /// If as long as the run: byte for byte the same. Otherwise all of the run stands for this place.
    origin: Span,
}

/// Configuration text, after variables or comments may have been replaced, with the origin of every byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The text itself.
    pub text: String,
    /// Where it stands in the source. For a missing configuration string: the class name.
    pub span: Span,
    pieces: Vec<Piece>,
    /// Names that may stand for addresses in it.
    names: Option<Arc<Names>>,
}

impl Text {
    /// A text copied as it is from `span`.
    pub fn verbatim(text: impl Into<String>, span: Span) -> Text {
        let mut t = Text { span, ..Text::default() };
        t.push(&text.into(), span);
        t
    }

    /// An empty text that stands at `span`.
    pub fn empty(span: Span) -> Text {
        Text { span, ..Text::default() }
    }

    /// The same text where these names may stand for addresses.
    #[must_use]
    pub fn with_names(self, names: Arc<Names>) -> Text {
        Text { names: Some(names), ..self }
    }

    /// The names that may stand for addresses in it, if there are any.
    pub fn names(&self) -> Option<&Names> {
        self.names.as_deref()
    }

    /// Appends `text`, which comes from `origin`.
    pub fn push(&mut self, text: &str, origin: Span) {
        if !text.is_empty() {
            self.pieces.push(Piece { at: self.text.len(), len: text.len(), origin });
            self.text.push_str(text);
        }
    }

    /// Appends bytes `range` of `other` with their origins and names.
    pub fn push_slice(&mut self, other: &Text, range: Range<usize>) {
        if self.names.is_none() {
            self.names.clone_from(&other.names);
        }
        let first = other.pieces.partition_point(|p| p.at + p.len <= range.start);
        for p in other.pieces[first..].iter().take_while(|p| p.at < range.end) {
            let cut = range.start.max(p.at)..range.end.min(p.at + p.len);
            if let Some(text) = other.text.get(cut.clone()) {
                self.push(text, p.sub(cut));
            }
        }
    }

    /// Bytes `range` as a text of its own.
    pub fn slice(&self, range: Range<usize>) -> Text {
        let mut t = Text::empty(self.span_of(range.clone()));
        t.push_slice(self, range);
        t
    }

    /// The place in the source of bytes `range`.
    pub fn span_of(&self, range: Range<usize>) -> Span {
        let first = self.pieces.partition_point(|p| p.at + p.len <= range.start);
        let mut found: Option<Span> = None;
        for p in self.pieces[first..].iter().take_while(|p| p.at < range.end.max(range.start + 1)) {
            let span = p.sub(range.start.max(p.at)..range.end.min(p.at + p.len));
            found = Some(found.map_or(span, |f| f.to(span)));
        }
        // At the very end, or in an empty text, there is no byte to point at.
        found.unwrap_or_else(|| match self.pieces.last() {
            Some(p) => p.origin.at_end(),
            None => self.span,
        })
    }
}

impl Piece {
    fn sub(&self, range: Range<usize>) -> Span {
        let o = self.origin;
        if (o.end - o.start) as usize != self.len {
            return o;
        }
        let base = o.start as usize;
        Span::new(o.source, base + range.start - self.at..base + range.end.max(range.start) - self.at)
    }
}

/// The kinds of lexical unit in configuration text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One character that means itself.
    Plain,
    /// `'...'`
    Single,
    /// `"..."`
    Double,
    /// `\<...>`
    Hex,
    /// `// ...`, `/* ... */`, or a line directive; counts as a space.
    Comment,
}

/// The unit which begins at `pos`, where it ends, and whether its closing mark is there.
pub(crate) fn unit_at(bytes: &[u8], pos: usize) -> (Unit, usize, bool) {
    let rest = &bytes[pos..];
    match rest {
        [b'\'', ..] => close(bytes, Unit::Single, find(bytes, pos + 1, b"'"), 1),
        [b'"', ..] => double(bytes, pos + 1),
        [b'\\', b'<', ..] => hex(bytes, pos + 2),
        [b'/', b'/', ..] => (Unit::Comment, line_end(bytes, pos), true),
        [b'/', b'*', ..] => close(bytes, Unit::Comment, find(bytes, pos + 2, b"*/"), 2),
        // The first byte of configuration text follows a `(`, so it is not at the start of a line.
        [b'#', ..] if pos > 0 && at_line_start(bytes, pos) && line_directive(bytes, pos).is_some() => {
            (Unit::Comment, line_end(bytes, pos), true)
        }
        [first, ..] => (Unit::Plain, pos + char_len(*first), true),
        [] => (Unit::Plain, pos, true),
    }
}

fn char_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn close(bytes: &[u8], unit: Unit, found: Option<usize>, len: usize) -> (Unit, usize, bool) {
    found.map_or((unit, bytes.len(), false), |at| (unit, at + len, true))
}

fn double(bytes: &[u8], mut pos: usize) -> (Unit, usize, bool) {
    while let Some(&b) = bytes.get(pos) {
        match b {
            b'"' => return (Unit::Double, pos + 1, true),
            b'\\' if bytes.get(pos + 1) == Some(&b'<') => pos = hex(bytes, pos + 2).1,
            b'\\' => pos += 2,
            _ => pos += 1,
        }
    }
    (Unit::Double, bytes.len(), false)
}

fn hex(bytes: &[u8], mut pos: usize) -> (Unit, usize, bool) {
    while let Some(&b) = bytes.get(pos) {
        match b {
            b'>' => return (Unit::Hex, pos + 1, true),
            b'/' => match unit_at(bytes, pos) {
                (Unit::Comment, end, true) => pos = end,
                (Unit::Comment, end, false) => return (Unit::Hex, end, false),
                _ => pos += 1,
            },
            _ => pos += 1,
        }
    }
    (Unit::Hex, bytes.len(), false)
}

pub(crate) fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len()).position(|w| w == what).map(|i| from + i)
}

pub(crate) fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or(&[]);
    from + rest.iter().position(|&b| b == b'\n' || b == b'\r').unwrap_or(rest.len())
}

pub(crate) fn at_line_start(bytes: &[u8], pos: usize) -> bool {
    pos == 0 || matches!(bytes.get(pos - 1), Some(b'\n' | b'\r'))
}

/// Reads the preprocessor marker `# 12 "file"` or `#line 12 "file"` at `pos`: the line number, the file name.
pub(crate) fn line_directive(bytes: &[u8], pos: usize) -> Option<(u32, Option<String>)> {
    let line = std::str::from_utf8(bytes.get(pos..line_end(bytes, pos))?).ok()?;
    let rest = line.strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..digits].parse().ok()?;
    let rest = rest[digits..].trim_start();
    if rest.is_empty() {
        return Some((number, None));
    }
    let name = rest.strip_prefix('"')?;
    let end = name.find('"')?;
    Some((number, Some(name[..end].to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        fn all(s: &str) -> Vec<(Unit, &str, bool)> {
            let (mut pos, mut units) = (0, Vec::new());
            while pos < s.len() {
                let (unit, end, closed) = unit_at(s.as_bytes(), pos);
                units.push((unit, &s[pos..end], closed));
                pos = end;
            }
            units
        }
        assert_eq!(
            all(r#"é'a"'"b\"'"\<0 /*>*/ 1>"#),
            [
                (Unit::Plain, "é", true),
                (Unit::Single, "'a\"'", true),
                (Unit::Double, r#""b\"'""#, true),
                (Unit::Hex, r"\<0 /*>*/ 1>", true),
            ]
        );
        assert_eq!(all("//x"), [(Unit::Comment, "//x", true)]);
        assert_eq!(all("/*x"), [(Unit::Comment, "/*x", false)]);
        assert_eq!(all("\"\\"), [(Unit::Double, "\"\\", false)]);
        assert_eq!(all("\n# 1 \"f\"")[1], (Unit::Comment, "# 1 \"f\"", true));
        assert_eq!(all("# 1")[0], (Unit::Plain, "#", true));
    }

    #[test]
    fn origins_survive_slicing() {
        let span = |a, b| Span { source: 0, start: a, end: b };
        let mut t = Text::empty(span(10, 30));
        t.push("abc", span(10, 13));
        t.push("value", span(13, 15));
        t.push("def", span(15, 18));
        assert_eq!(t.span_of(1..2), span(11, 12));
        assert_eq!(t.span_of(4..5), span(13, 15));
        assert_eq!(t.span_of(9..10), span(16, 17));
        let s = t.slice(2..10);
        assert_eq!(s.text, "cvaluede");
        assert_eq!(s.span, span(12, 17));
        assert_eq!(s.span_of(7..8), span(16, 17));
        assert_eq!(t.span_of(11..11), span(18, 18));
        assert_eq!(Text::empty(span(3, 9)).span_of(0..0), span(3, 9));
    }
}
