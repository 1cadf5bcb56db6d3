//! Source texts, places in them, and the way from a place to `file:line:column`.
//!
//! Input is bytes. A text that is not UTF-8 is kept with every bad sequence replaced by U+FFFD; the parser
//! accepts that inside comments and reports an error with its place anywhere else. A byte order mark before the text is
//! left out.

use std::ops::Range;

/// The longest text that is read, in bytes; a longer one gives one error instead of a parse.
pub const MAX_SOURCE_BYTES: usize = 256 << 20;

/// What some editors put before a text in UTF-8, and is no part of it.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A range of bytes in one source of a [`SourceMap`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// Index of the source in its [`SourceMap`].
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte; equal to `start` for an empty span.
    pub end: u32,
}

impl Span {
    /// The span of bytes `range` of source `source`; offsets beyond `u32` are clamped.
    pub fn new(source: u32, range: Range<usize>) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { source, start: clamp(range.start), end: clamp(range.end) }
    }

    /// The smallest span that covers both; `self` if they lie in different sources.
    pub fn to(self, other: Span) -> Span {
        if self.source != other.source {
            return self;
        }
        Span { source: self.source, start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The byte range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The empty span at this span's end.
    pub fn at_end(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// From `offset` on, lines are numbered from `line` in file `file` (a C-preprocessor marker).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineMark {
    pub offset: u32,
    pub file: Option<String>,
    pub line: u32,
}

/// One text with its name.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name as messages print it: the path as given, `config` for `-e`, `<stdin>` for `-`.
    pub name: String,
    /// The text; bytes that are not UTF-8 appear as U+FFFD.
    pub text: String,
    pub(crate) invalid: Vec<u32>,
    pub(crate) oversize: bool,
    line_starts: Vec<u32>,
    marks: Vec<LineMark>,
}

impl Source {
    fn new(name: String, bytes: &[u8]) -> Source {
        let oversize = bytes.len() > MAX_SOURCE_BYTES;
        let bytes = if oversize { &[][..] } else { bytes };
        let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        let mut text = String::with_capacity(bytes.len());
        let mut invalid = Vec::new();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                invalid.push(text.len() as u32);
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        let line_starts = line_starts(text.as_bytes());
        Source { name, text, invalid, oversize, line_starts, marks: Vec::new() }
    }

    /// Index of the physical line that holds byte `offset`, counted from 0.
    fn line_index(&self, offset: u32) -> usize {
        self.line_starts.partition_point(|&s| s <= offset).saturating_sub(1)
    }

    /// The text of the physical line that holds byte `offset`, without its line end, and where it starts.
    pub fn line_text(&self, offset: u32) -> (&str, u32) {
        let index = self.line_index(offset);
        let start = self.line_starts.get(index).copied().unwrap_or(0);
        let end = self.line_starts.get(index + 1).map_or(self.text.len(), |&e| e as usize);
        let line = self.text.get(start as usize..end).unwrap_or("");
        (line.trim_end_matches(['\n', '\r']), start)
    }
}

/// Where lines begin; LF, CR and CRLF end a line.
fn line_starts(bytes: &[u8]) -> Vec<u32> {
    let mut starts = vec![0];
    for (i, &b) in bytes.iter().enumerate() {
        let ends = b == b'\n' || (b == b'\r' && bytes.get(i + 1) != Some(&b'\n'));
        if ends {
            starts.push(i as u32 + 1);
        }
    }
    starts
}

/// A place as users read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// File name, with line directives taken into account.
    pub file: &'a str,
    /// Line, counted from 1, with line directives taken into account.
    pub line: u32,
    /// Column in characters, counted from 1; a tab is one column.
    pub column: u32,
}

/// All texts of one configuration: the main file and the libraries it requires.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// A map without sources.
    pub fn new() -> SourceMap {
        SourceMap::default()
    }

    /// Adds a text and returns its index, to be given to [`crate::parse`].
    pub fn add(&mut self, name: impl Into<String>, text: impl AsRef<[u8]>) -> u32 {
        let id = self.sources.len() as u32;
        self.sources.push(Source::new(name.into(), text.as_ref()));
        id
    }

    /// The source with this index.
    pub fn get(&self, source: u32) -> Option<&Source> {
        self.sources.get(source as usize)
    }

    /// The text under a span; empty if there is none.
    pub fn text(&self, span: Span) -> &str {
        self.get(span.source).and_then(|s| s.text.get(span.range())).unwrap_or("")
    }

    /// File, line and column of the start of a span.
    pub fn position(&self, span: Span) -> Position<'_> {
        let Some(source) = self.get(span.source) else {
            return Position { file: "<unknown>", line: 1, column: 1 };
        };
        let index = source.line_index(span.start);
        let (text, start) = source.line_text(span.start);
        let before = (span.start.saturating_sub(start)) as usize;
        let column = text.char_indices().take_while(|(i, _)| *i < before).count() as u32 + 1;
        let mark = source.marks.partition_point(|m| m.offset <= span.start).checked_sub(1);
        let (mut file, mut line) = (source.name.as_str(), index as u32 + 1);
        if let Some(last) = mark {
            let m = &source.marks[last];
            let since = index.saturating_sub(source.line_index(m.offset)) as u32;
            line = m.line.saturating_add(since);
            // A marker without a file name keeps the one before it.
            if let Some(name) = source.marks[..=last].iter().rev().find_map(|m| m.file.as_deref()) {
                file = name;
            }
        }
        Position { file, line, column }
    }

    pub(crate) fn set_marks(&mut self, source: u32, marks: Vec<LineMark>) {
        if let Some(s) = self.sources.get_mut(source as usize) {
            s.marks = marks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_lf_cr_or_crlf() {
        let mut map = SourceMap::new();
        let id = map.add("f", "a\nb\rc\r\nd");
        let at = |n: usize| {
            let p = map.position(Span::new(id, n..n));
            (p.line, p.column)
        };
        assert_eq!([at(0), at(2), at(4), at(7)], [(1, 1), (2, 1), (3, 1), (4, 1)]);
        assert_eq!(map.get(id).unwrap().line_text(4), ("c", 4));
    }

    #[test]
    fn columns_count_characters() {
        let mut map = SourceMap::new();
        let id = map.add("f", "é\tx");
        assert_eq!(map.position(Span::new(id, 3..4)), Position { file: "f", line: 1, column: 3 });
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_and_remembered() {
        let mut map = SourceMap::new();
        let id = map.add("f", b"a\xffb");
        assert_eq!(map.get(id).unwrap().text, "a\u{fffd}b");
        assert_eq!(map.get(id).unwrap().invalid, [1]);
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_text() {
        let mut map = SourceMap::new();
        let id = map.add("f", "\u{feff}a\u{feff}");
        assert_eq!(map.get(id).unwrap().text, "a\u{feff}");
        assert_eq!(map.position(Span::new(id, 0..1)).column, 1);
    }

    #[test]
    fn a_place_outside_gives_no_panic() {
        let map = SourceMap::new();
        assert_eq!(map.position(Span::new(7, 3..9)).line, 1);
        assert_eq!(map.text(Span::new(7, 3..9)), "");
    }
}
