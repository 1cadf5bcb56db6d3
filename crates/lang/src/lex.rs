//! Tokens. The parser asks for one at a time, because what follows a `(` depends on where it stands:
//! a configuration string or a group of statements.

use crate::diagnostic::Diagnostic;
use crate::source::{LineMark, Span};
use crate::text::{Unit, at_line_start, line_directive, line_end, unit_at};

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Variable,
    Arrow,
    FatArrow,
    ColonColon,
    BarBar,
    Ellipsis,
    Semicolon,
    Comma,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Bar,
    Minus,
    Elementclass,
    Require,
    Define,
    Provide,
    Unknown,
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub span: Span,
}

/// A comment and its place; the text includes its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The text with its `//` or `/* */`.
    pub text: String,
    /// The place.
    pub span: Span,
    /// Whether it stands alone at the beginning of a line.
    pub own_line: bool,
    /// Whether an empty line stands before it.
    pub blank_before: bool,
}

pub(crate) struct Lexer<'a> {
    text: &'a str,
    source: u32,
    pub pos: usize,
    pub diagnostics: Vec<Diagnostic>,
    pub marks: Vec<LineMark>,
    /// Comments between tokens which nobody has taken yet.
    pub pending: Vec<Comment>,
    /// Configuration strings without an end; looking for each takes a walk to the end of the text.
    pub unclosed: usize,
    /// Where comments are, those within configuration strings too.
    pub comment_spans: Vec<Span>,
}

const SYMBOLS: &[(&str, Kind)] = &[
    ("...", Kind::Ellipsis),
    ("->", Kind::Arrow),
    ("=>", Kind::FatArrow),
    ("::", Kind::ColonColon),
    ("||", Kind::BarBar),
    (";", Kind::Semicolon),
    (",", Kind::Comma),
    ("(", Kind::OpenParen),
    (")", Kind::CloseParen),
    ("[", Kind::OpenBracket),
    ("]", Kind::CloseBracket),
    ("{", Kind::OpenBrace),
    ("}", Kind::CloseBrace),
    ("|", Kind::Bar),
    ("-", Kind::Minus),
];

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b == b'@'
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str, source: u32) -> Lexer<'a> {
        Lexer {
            text,
            source,
            pos: 0,
            diagnostics: Vec::new(),
            marks: Vec::new(),
            pending: Vec::new(),
            comment_spans: Vec::new(),
            unclosed: 0,
        }
    }

    /// A second reader that begins where this one is.
    pub fn ahead(&self) -> Lexer<'a> {
        self.ahead_at(self.pos)
    }

    /// A second reader that begins at `pos`.
    pub fn ahead_at(&self, pos: usize) -> Lexer<'a> {
        Lexer { pos, ..Lexer::new(self.text, self.source) }
    }

    pub fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.source, start..end)
    }

    /// The next token; white space, comments and line directives before it are skipped.
    pub fn next(&mut self) -> Token {
        self.skip_space();
        let start = self.pos;
        let kind = self.scan();
        Token { kind, span: self.span(start, self.pos) }
    }

    fn scan(&mut self) -> Kind {
        let rest = &self.text[self.pos..];
        let Some(first) = rest.chars().next() else { return Kind::End };
        if first.is_ascii() && is_word(first as u8) {
            return self.word();
        }
        if first == '$' {
            let bytes = rest.as_bytes();
            let len = bytes[1..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            self.pos += 1 + len;
            return if len > 0 { Kind::Variable } else { Kind::Unknown };
        }
        if let Some((symbol, kind)) = SYMBOLS.iter().find(|(s, _)| rest.starts_with(s)) {
            self.pos += symbol.len();
            return *kind;
        }
        self.pos += first.len_utf8();
        Kind::Unknown
    }

    /// An identifier: words joined by single slashes.
    fn word(&mut self) -> Kind {
        let bytes = self.text.as_bytes();
        let start = self.pos;
        loop {
            while bytes.get(self.pos).is_some_and(|&b| is_word(b)) {
                self.pos += 1;
            }
            let joined = bytes.get(self.pos) == Some(&b'/');
            if !joined || !bytes.get(self.pos + 1).is_some_and(|&b| is_word(b)) {
                break;
            }
            self.pos += 1;
        }
        match &self.text[start..self.pos] {
            "elementclass" => Kind::Elementclass,
            "require" => Kind::Require,
            "define" => Kind::Define,
            "provide" => Kind::Provide,
            _ => Kind::Ident,
        }
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        let mut newlines = if self.pos == 0 { 1 } else { 0 };
        while let Some(&b) = bytes.get(self.pos) {
            if b == b'\n' || (b == b'\r' && bytes.get(self.pos + 1) != Some(&b'\n')) {
                newlines += 1;
                self.pos += 1;
            } else if b.is_ascii_whitespace() {
                self.pos += 1;
            } else if b == b'#' && at_line_start(bytes, self.pos) {
                self.directive();
            } else if let (Unit::Comment, end, closed) = unit_at(bytes, self.pos) {
                self.comment(end, closed, newlines);
                newlines = 0;
            } else {
                break;
            }
        }
    }

    fn comment(&mut self, end: usize, closed: bool, newlines: usize) {
        let span = self.span(self.pos, end);
        if !closed {
            self.diagnostics.push(
                Diagnostic::error(self.span(self.pos, self.pos + 2), "comment is not closed")
                    .code("open-comment")
                    .help("close it with `*/`"),
            );
        }
        let text = self.text[self.pos..end].to_string();
        let own_line = newlines > 0;
        self.comment_spans.push(span);
        self.pending.push(Comment { text, span, own_line, blank_before: newlines > 1 });
        self.pos = end;
    }

    fn directive(&mut self) {
        let bytes = self.text.as_bytes();
        let end = line_end(bytes, self.pos);
        let span = self.span(self.pos, end);
        self.mark(self.pos, end, span);
        self.pos = end;
    }

    fn mark(&mut self, start: usize, end: usize, span: Span) {
        let bytes = self.text.as_bytes();
        let Some((line, file)) = line_directive(bytes, start) else {
            let d = Diagnostic::error(span, "unknown preprocessor directive").code("directive");
            self.diagnostics.push(d.help("write `# LINE \"FILE\"`, or `//` for a comment"));
            return;
        };
        let next = match &bytes[end..] {
            [b'\r', b'\n', ..] => end + 2,
            [_, ..] => end + 1,
            [] => end,
        };
        let offset = u32::try_from(next).unwrap_or(u32::MAX);
        self.marks.push(LineMark { offset, file, line });
    }

    /// The text between the `(` just read, whose place is `open`, and its balancing `)`.
    /// Without a `)`: an error, and the position is left just behind the `(`.
    pub fn config(&mut self, open: Span) -> Option<Span> {
        let bytes = self.text.as_bytes();
        let start = self.pos;
        let (mut pos, mut depth) = (start, 0usize);
        let (comments, marks) = (self.comment_spans.len(), self.marks.len());
        let mut unclosed: Option<Span> = None;
        while pos < bytes.len() {
            let (unit, end, closed) = unit_at(bytes, pos);
            if !closed {
                unclosed = Some(self.span(pos, pos + 1));
            }
            match unit {
                Unit::Plain if bytes[pos] == b'(' => depth += 1,
                Unit::Plain if bytes[pos] == b')' && depth == 0 => {
                    self.pos = end;
                    return Some(self.span(start, pos));
                }
                Unit::Plain if bytes[pos] == b')' => depth -= 1,
                Unit::Comment => {
                    let span = self.span(pos, end);
                    self.comment_spans.push(span);
                    if bytes[pos] == b'#' {
                        self.mark(pos, end, span);
                    }
                }
                _ => {}
            }
            pos = end;
        }
        self.unclosed += 1;
        // The text is going to be read again as statements.
        self.comment_spans.truncate(comments);
        self.marks.truncate(marks);
        let mut d = Diagnostic::error(open, "missing `)`: the configuration string is not closed");
        if let Some(quote) = unclosed {
            d = d.note(quote, "this is not closed either");
        }
        self.diagnostics.push(d.code("open-config"));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(text, 0);
        let mut all = Vec::new();
        loop {
            let t = lexer.next();
            if t.kind == Kind::End {
                return all;
            }
            all.push((t.kind, &text[t.span.range()]));
        }
    }

    #[test]
    fn identifiers_are_words_joined_by_single_slashes() {
        assert_eq!(tokens("a/b//c"), [(Kind::Ident, "a/b")]);
        assert_eq!(tokens("a/ b"), [(Kind::Ident, "a"), (Kind::Unknown, "/"), (Kind::Ident, "b")]);
        assert_eq!(tokens("Counter@3"), [(Kind::Ident, "Counter@3")]);
    }

    #[test]
    fn symbols() {
        let kinds: Vec<Kind> = tokens("->=>::||...;,()[]{}|-$a_1$").into_iter().map(|t| t.0).collect();
        use Kind::*;
        assert_eq!(
            kinds,
            [
                Arrow,
                FatArrow,
                ColonColon,
                BarBar,
                Ellipsis,
                Semicolon,
                Comma,
                OpenParen,
                CloseParen,
                OpenBracket,
                CloseBracket,
                OpenBrace,
                CloseBrace,
                Bar,
                Minus,
                Variable,
                Unknown
            ]
        );
    }

    #[test]
    fn other_bytes_are_one_token_each() {
        assert_eq!(tokens("é%"), [(Kind::Unknown, "é"), (Kind::Unknown, "%")]);
    }

    #[test]
    fn config_balances_and_skips_quotes_comments_and_hex() {
        let text = r#"(a (b) ')' ")" \<29 /*>*/ > /*)*/ c) d"#;
        let mut lexer = Lexer::new(text, 0);
        let open = lexer.next();
        let span = lexer.config(open.span).unwrap();
        assert_eq!(&text[span.range()], &text[1..text.len() - 3]);
        assert_eq!(lexer.next().kind, Kind::Ident);
    }
}
