//! From text to syntax tree. All errors are collected; after one, reading goes on behind the next `;`.

mod chain;
mod compound;
mod statement;

use crate::ast::{Ast, Ident};
use crate::diagnostic::Diagnostic;
use crate::lex::{Comment, Kind, Lexer, Token};
use crate::source::{MAX_SOURCE_BYTES, SourceMap, Span};
use crate::text::Text;

/// How deep braces and parentheses may nest.
pub const MAX_NESTING: usize = 64;

/// After this many errors a text is not read further.
pub(crate) const MAX_ERRORS: usize = 500;

/// Parses one source of the map, whatever bytes it was made of. Line directives found in it take effect in the map.
///
/// The tree holds whatever could be understood, so it can be expanded even after errors to find more of them.
pub fn parse(sources: &mut SourceMap, source: u32) -> (Ast, Vec<Diagnostic>) {
    let Some(file) = sources.get(source) else { return Default::default() };
    if file.oversize {
        let message = format!("file is larger than {} MiB", MAX_SOURCE_BYTES >> 20);
        return (Ast::default(), vec![Diagnostic::error(Span::new(source, 0..0), message)]);
    }
    let mut parser = Parser::new(&file.text, source);
    let block = parser.file();
    let Parser { mut diagnostics, lexer, .. } = parser;
    diagnostics.extend(lexer.diagnostics);
    for &at in &file.invalid {
        // Comments are in text order.
        let next = lexer.comment_spans.partition_point(|c| c.end <= at);
        if lexer.comment_spans.get(next).is_none_or(|c| c.start > at) {
            let at = at as usize;
            let span = Span::new(source, at..at + char::REPLACEMENT_CHARACTER.len_utf8());
            diagnostics.push(
                Diagnostic::error(span, "not valid UTF-8")
                    .code("encoding")
                    .help(r"write such bytes in hexadecimal: \<ff>"),
            );
            break;
        }
    }
    diagnostics.sort_by_key(|d| d.span().start);
    let marks = lexer.marks;
    sources.set_marks(source, marks);
    (Ast { block }, diagnostics)
}

/// After this many configuration strings without an end a text is not read further.
const MAX_UNCLOSED: usize = 20;

/// An error has been recorded; the caller gives up the statement.
struct Failed;

type Parsed<T> = Result<T, Failed>;

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    token: Token,
    /// End of the last token taken.
    last: Span,
    diagnostics: Vec<Diagnostic>,
    /// How many braces and parentheses are open.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, source: u32) -> Parser<'a> {
        let mut lexer = Lexer::new(text, source);
        let token = lexer.next();
        Parser { text, lexer, token, last: Span::new(source, 0..0), diagnostics: Vec::new(), depth: 0 }
    }

    fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    fn advance(&mut self) -> Token {
        let taken = self.token;
        self.last = taken.span;
        self.token = self.lexer.next();
        taken
    }

    /// Takes the token if it is of this kind.
    fn eat(&mut self, kind: Kind) -> bool {
        let there = self.at(kind);
        if there {
            self.advance();
        }
        there
    }

    /// The token behind the present one.
    fn peek(&self) -> Kind {
        self.lexer.ahead().next().kind
    }

    fn word(&self, token: Token) -> &'a str {
        self.text.get(token.span.range()).unwrap_or("")
    }

    fn ident(&mut self) -> Ident {
        let token = self.advance();
        Ident { name: self.word(token).to_string(), span: token.span }
    }

    /// The variable at hand, without its `$`.
    fn variable(&mut self) -> Ident {
        let token = self.advance();
        Ident { name: self.word(token).trim_start_matches('$').to_string(), span: token.span }
    }

    fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.diagnostics.push(Diagnostic::error(span, message).code("syntax"));
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Records that something else was expected here.
    fn expected(&mut self, what: &str) -> Failed {
        let token = self.token;
        let found = match token.kind {
            Kind::End => "the end of the file".to_string(),
            _ => format!("`{}`", self.word(token)),
        };
        let near = if token.kind == Kind::End { "end of file" } else { self.word(token) }.to_string();
        let d = self.error(token.span, format!("expected {what}, found {found}"));
        d.click = Some(format!("syntax error near '{near}'"));
        Failed
    }

    /// The configuration string whose `(` is the present token.
    fn config(&mut self) -> Parsed<Text> {
        let open = self.token.span;
        let Some(span) = self.lexer.config(open) else {
            // What follows may be anything; the next statement is looked for behind the next `;`.
            self.token = self.lexer.next();
            while !matches!(self.token.kind, Kind::Semicolon | Kind::End) {
                self.advance();
            }
            return Err(Failed);
        };
        self.last = Span { start: span.end, end: span.end + 1, ..span };
        self.token = self.lexer.next();
        Ok(Text::verbatim(self.text.get(span.range()).unwrap_or(""), span))
    }

    /// The comments read since the last call that stand before the present token.
    fn comments(&mut self) -> Vec<Comment> {
        std::mem::take(&mut self.lexer.pending)
    }

    fn too_many_errors(&self) -> bool {
        self.lexer.unclosed >= MAX_UNCLOSED
            || self.diagnostics.len() + self.lexer.diagnostics.len() >= MAX_ERRORS
    }
}
