//! Blocks and the statements that begin with a keyword.

use super::{Failed, MAX_NESTING, Parsed, Parser};
use crate::args;
use crate::ast::{Arguments, Block, Class, ClassDefinition, Definition, Ident, Item, Requirement, Statement};
use crate::lex::{Comment, Kind};
use crate::source::Span;
use crate::text::Text;

impl Parser<'_> {
    /// A whole file.
    pub(super) fn file(&mut self) -> Block {
        let mut block = Block::default();
        loop {
            let part = self.block();
            block.items.extend(part.items);
            block.tail.extend(part.tail);
            block.lost.extend(part.lost);
            if self.at(Kind::End) || self.too_many_errors() {
                return block;
            }
            // A closing mark that nothing opened.
            let token = self.token;
            let word = self.word(token).to_string();
            let d = self.error(token.span, format!("unexpected `{word}`"));
            d.click = Some(format!("syntax error near '{word}'"));
            self.advance();
        }
    }

    /// Statements up to a token that closes the block; that one is left to the caller.
    pub(super) fn block(&mut self) -> Block {
        let mut block = Block::default();
        let mut stray: Vec<Comment> = Vec::new();
        loop {
            let mut before = std::mem::take(&mut stray);
            before.extend(self.comments());
            if self.closes_block() || self.too_many_errors() {
                block.tail = before;
                return block;
            }
            if self.at(Kind::Semicolon) {
                self.advance();
                stray = before;
                continue;
            }
            let start = self.token.span;
            let blank_before = self.blank_line_before(before.first().map_or(start, |c| c.span));
            let blank_after_comments = !before.is_empty() && self.blank_line_before(start);
            let outcome = self.statement();
            let span = start.to(self.last);
            match outcome {
                Ok(statement) => {
                    self.end_of_statement();
                    let after = self.trailing_comments(&mut stray);
                    block.items.push(Item {
                        statement,
                        span,
                        before,
                        after,
                        blank_before,
                        blank_after_comments,
                    });
                }
                Err(Failed) => {
                    self.recover();
                    self.note_lost(start, &mut block.lost);
                    stray = before;
                }
            }
        }
    }

    /// Notes the identifiers from `start` to where reading goes on.
    fn note_lost(&self, start: Span, lost: &mut Vec<String>) {
        let mut again = self.lexer.ahead_at(start.start as usize);
        loop {
            let token = again.next();
            if token.kind == Kind::End || token.span.start >= self.token.span.start {
                return;
            }
            if token.kind == Kind::Ident {
                lost.push(self.word(token).to_string());
            }
        }
    }

    fn closes_block(&self) -> bool {
        matches!(self.token.kind, Kind::End | Kind::CloseBrace | Kind::CloseParen | Kind::BarBar)
    }

    fn blank_line_before(&self, at: Span) -> bool {
        let before = self.text.get(..at.start as usize).unwrap_or("");
        let gap = &before[before.trim_ascii_end().len()..];
        gap.bytes().filter(|&b| b == b'\n').count() > 1
    }

    /// Takes the `;`, which may be missing where the next token begins another statement.
    fn end_of_statement(&mut self) {
        if self.at(Kind::Semicolon) {
            self.advance();
            return;
        }
        let starts = matches!(
            self.token.kind,
            Kind::Ident
                | Kind::Elementclass
                | Kind::Define
                | Kind::Require
                | Kind::OpenBrace
                | Kind::OpenParen
        );
        if !starts && !self.closes_block() {
            self.expected("`;`");
            self.recover();
        }
    }

    /// The comments on the line where the statement ended; the others go to `stray`.
    fn trailing_comments(&mut self, stray: &mut Vec<Comment>) -> Vec<Comment> {
        let mut after = Vec::new();
        for comment in self.comments() {
            if comment.own_line || !stray.is_empty() {
                stray.push(comment);
            } else {
                after.push(comment);
            }
        }
        after
    }

    /// Skips to behind the next `;` of this block, or to the token that closes it.
    fn recover(&mut self) {
        let mut open = 0usize;
        loop {
            match self.token.kind {
                Kind::End => return,
                Kind::Semicolon if open == 0 => {
                    self.advance();
                    return;
                }
                Kind::CloseBrace | Kind::CloseParen | Kind::BarBar if open == 0 => return,
                Kind::OpenBrace | Kind::OpenParen => open += 1,
                Kind::CloseBrace | Kind::CloseParen => open -= 1,
                _ => {}
            }
            self.advance();
        }
    }

    /// Runs `parse` one nesting level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_NESTING {
            let span = self.token.span;
            self.error(span, format!("more than {MAX_NESTING} levels of braces and parentheses"));
            return Err(Failed);
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn statement(&mut self) -> Parsed<Statement> {
        match self.token.kind {
            Kind::Elementclass => self.class_definition(),
            Kind::Define => {
                self.advance();
                let text = self.keyword_arguments("define")?;
                Ok(self.definitions(text))
            }
            Kind::Require => {
                self.advance();
                let text = self.keyword_arguments("require")?;
                let items = args::split(&text).iter().map(requirement).collect();
                Ok(Statement::Require(Arguments { text, items }))
            }
            Kind::Provide => {
                let span = self.token.span;
                let d = self.error(span, "`provide` is reserved and means nothing yet");
                d.click = Some("syntax error near 'provide'".to_string());
                Err(Failed)
            }
            _ => self.chain().map(Statement::Chain),
        }
    }

    fn keyword_arguments(&mut self, word: &str) -> Parsed<Text> {
        if !self.at(Kind::OpenParen) {
            return Err(self.expected(&format!("`(` behind `{word}`")));
        }
        self.config()
    }

    fn class_definition(&mut self) -> Parsed<Statement> {
        self.advance();
        if !self.at(Kind::Ident) {
            return Err(self.expected("a class name behind `elementclass`"));
        }
        let name = self.ident();
        let class = match self.token.kind {
            Kind::Ident => Class::Name(self.ident()),
            Kind::OpenBrace => Class::Compound(self.compound()?),
            _ => return Err(self.expected("`{` or a class name")),
        };
        Ok(Statement::Class(ClassDefinition { name, class }))
    }

    fn definitions(&mut self, text: Text) -> Statement {
        let mut items = Vec::new();
        for argument in args::split(&text) {
            match definition(&argument) {
                Some(d) => items.push(d),
                None => {
                    let d = self.error(argument.span, "expected `$NAME VALUE` in `define`");
                    d.click = Some("syntax error in 'define'".to_string());
                }
            }
        }
        Statement::Define(Arguments { text, items })
    }
}

fn definition(argument: &Text) -> Option<Definition> {
    let text = argument.text.strip_prefix('$')?;
    let len = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let rest = &text[len..];
    if len == 0 || !(rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace())) {
        return None;
    }
    let name = Ident { name: text[..len].to_string(), span: argument.span_of(0..len + 1) };
    let value = argument.text.len() - rest.trim_ascii_start().len();
    Some(Definition { name, value: argument.slice(value..argument.text.len()) })
}

fn requirement(argument: &Text) -> Requirement {
    let (kind, value) = match argument.text.split_once(|c: char| c.is_ascii_whitespace()) {
        Some((kind, value)) => (kind.to_string(), value.trim_ascii().to_string()),
        None => (String::new(), argument.text.clone()),
    };
    let value = String::from_utf8_lossy(&args::unquote(&value)).into_owned();
    Requirement { kind, value, span: argument.span, library: None }
}
