//! Declarations and connections.

use super::{Failed, Parsed, Parser};
use crate::ast::{Chain, Class, Element, Ident, Link, Node, Ports};
use crate::diagnostic::Diagnostic;
use crate::lex::Kind;
use crate::source::Span;
use crate::text::Text;

/// The highest port number.
pub const MAX_PORT: u32 = 65_535;

impl Parser<'_> {
    pub(super) fn chain(&mut self) -> Parsed<Chain> {
        let first = self.nodes()?;
        let mut chain = Chain { first, links: Vec::new() };
        while matches!(self.token.kind, Kind::Arrow | Kind::FatArrow) {
            let arrow = self.advance();
            let nodes = self.nodes()?;
            chain.links.push(Link { parallel: arrow.kind == Kind::FatArrow, span: arrow.span, nodes });
        }
        merge_declaration(&mut chain);
        self.check_ends(&chain)?;
        Ok(chain)
    }

    /// `a, b [1], c`.
    fn nodes(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = vec![self.node()?];
        while self.eat(Kind::Comma) {
            nodes.push(self.node()?);
        }
        // Comments within a list move behind it.
        let comments = nodes.iter_mut().flat_map(|n| std::mem::take(&mut n.comments)).collect();
        if let Some(last) = nodes.last_mut() {
            last.comments = comments;
        }
        Ok(nodes)
    }

    fn node(&mut self) -> Parsed<Node> {
        let start = self.token.span;
        let inputs = self.ports()?;
        let element = self.element(inputs.is_some())?;
        let outputs = self.ports()?;
        let span = if element == Element::Outside && inputs.is_none() {
            Span { end: start.start, ..start }
        } else {
            start.to(self.last)
        };
        let comments = self.comments();
        Ok(Node { inputs, element, outputs, span, comments })
    }

    fn element(&mut self, after_ports: bool) -> Parsed<Element> {
        match self.token.kind {
            Kind::Ident => self.named_element(),
            Kind::OpenBrace => {
                let class = Class::Compound(self.compound()?);
                let config = self.optional_config()?;
                Ok(Element::Anonymous { class, config })
            }
            Kind::OpenParen => self.group(),
            // The outside of a group or compound, written as nothing.
            _ if self.depth > 0 && self.may_follow_nothing() => Ok(Element::Outside),
            // A statement of ports alone is reported together with other misplaced ports.
            _ if after_ports && self.may_follow_nothing() => Ok(Element::Outside),
            Kind::Variable => {
                let failed = self.expected("an element");
                if let Some(d) = self.diagnostics.last_mut() {
                    d.help = Some("variables are replaced in configuration strings only".to_string());
                }
                Err(failed)
            }
            _ => Err(self.expected("an element")),
        }
    }

    fn may_follow_nothing(&self) -> bool {
        matches!(
            self.token.kind,
            Kind::Arrow
                | Kind::FatArrow
                | Kind::Semicolon
                | Kind::OpenBracket
                | Kind::CloseParen
                | Kind::CloseBrace
                | Kind::BarBar
                | Kind::End
        )
    }

    fn named_element(&mut self) -> Parsed<Element> {
        let name = self.ident();
        if self.at(Kind::OpenParen) {
            let config = self.optional_config()?;
            return Ok(Element::Anonymous { class: Class::Name(name), config });
        }
        if !self.eat(Kind::ColonColon) {
            return Ok(Element::Name(name));
        }
        self.check_name(&name);
        let class = match self.token.kind {
            Kind::Ident => Class::Name(self.ident()),
            Kind::OpenBrace => Class::Compound(self.compound()?),
            Kind::OpenParen => {
                let span = self.token.span;
                let d = self.error(span, "an element group cannot be named");
                d.click = Some("syntax error near '('".to_string());
                d.help = Some("use a compound element `{ ... }`, or leave the name out".to_string());
                return Err(Failed);
            }
            _ => return Err(self.expected("a class behind `::`")),
        };
        let config = self.optional_config()?;
        Ok(Element::Declaration { names: vec![name], class, config })
    }

    fn check_name(&mut self, name: &Ident) {
        if name.name.split('/').any(|part| part.bytes().all(|b| b.is_ascii_digit())) {
            let message = format!("element name '{}' has all-digit component", name.name);
            self.error(name.span, message).code = Some("element-name");
        }
    }

    fn optional_config(&mut self) -> Parsed<Option<Text>> {
        if self.at(Kind::OpenParen) { self.config().map(Some) } else { Ok(None) }
    }

    fn group(&mut self) -> Parsed<Element> {
        let open = self.token.span;
        self.nested(|p| {
            p.advance();
            let block = p.block();
            if p.eat(Kind::CloseParen) {
                return Ok(Element::Group(block));
            }
            let failed = p.expected("`)`");
            if let Some(d) = p.diagnostics.last_mut() {
                d.labels.push(crate::Label { span: open, text: "to close this `(`".to_string() });
            }
            Err(failed)
        })
    }

    /// `[0, 2-3]`, `[]`, `[2-]`.
    fn ports(&mut self) -> Parsed<Option<Ports>> {
        if !self.at(Kind::OpenBracket) {
            return Ok(None);
        }
        let start = self.advance().span;
        let mut ports = Ports { ranges: Vec::new(), open: None, span: start };
        if self.at(Kind::CloseBracket) {
            ports.open = Some(0);
        } else {
            loop {
                self.port_range(&mut ports)?;
                if !self.eat(Kind::Comma) {
                    break;
                }
                if ports.open.is_some() {
                    let span = self.token.span;
                    self.error(span, "an open port range must be the last one");
                    return Err(Failed);
                }
            }
        }
        if !self.eat(Kind::CloseBracket) {
            return Err(self.expected("`]` behind the port list"));
        }
        ports.span = start.to(self.last);
        let total: u64 = ports.ranges.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
        if total > u64::from(MAX_PORT) + 1 {
            self.error(ports.span, format!("port list names more than {} ports", MAX_PORT + 1));
            return Err(Failed);
        }
        Ok(Some(ports))
    }

    fn port_range(&mut self, ports: &mut Ports) -> Parsed<()> {
        let start = self.token.span;
        let low = self.port_number()?;
        if !self.eat(Kind::Minus) {
            ports.ranges.push((low, low));
            return Ok(());
        }
        if matches!(self.token.kind, Kind::CloseBracket | Kind::Comma) {
            ports.open = Some(low);
            return Ok(());
        }
        let high = self.port_number()?;
        if high < low {
            let span = start.to(self.last);
            self.error(span, format!("port range {low}-{high} runs backwards"));
            return Err(Failed);
        }
        ports.ranges.push((low, high));
        Ok(())
    }

    fn port_number(&mut self) -> Parsed<u32> {
        let word = self.word(self.token);
        let numeric = self.at(Kind::Ident) && word.bytes().all(|b| b.is_ascii_digit());
        if !numeric {
            return Err(self.expected("a port number"));
        }
        match word.parse() {
            Ok(n) if n <= MAX_PORT => {
                self.advance();
                Ok(n)
            }
            _ => {
                let span = self.token.span;
                self.error(span, format!("port number out of range, bound {MAX_PORT}"));
                Err(Failed)
            }
        }
    }

    /// Ports where nothing is connected, and places where the outside cannot be meant.
    fn check_ends(&mut self, chain: &Chain) -> Parsed<()> {
        let lists: Vec<&[Node]> = std::iter::once(&chain.first)
            .chain(chain.links.iter().map(|l| &l.nodes))
            .map(Vec::as_slice)
            .collect();
        let last = lists.len() - 1;
        let mut failed = false;
        for (i, nodes) in lists.iter().enumerate() {
            for node in *nodes {
                if node.element == Element::Outside {
                    failed |= self.check_outside(node, i == 0, i == last);
                    continue;
                }
                if let (Some(ports), true) = (&node.inputs, i == 0) {
                    self.diagnostics.push(
                        Diagnostic::warning(ports.span, "input ports ignored at start of chain")
                            .code("ports"),
                    );
                }
                if let (Some(ports), true) = (&node.outputs, i == last) {
                    self.diagnostics.push(
                        Diagnostic::warning(ports.span, "output ports ignored at end of chain").code("ports"),
                    );
                }
            }
        }
        if failed { Err(Failed) } else { Ok(()) }
    }

    fn check_outside(&mut self, node: &Node, first: bool, last: bool) -> bool {
        let ports = node.inputs.as_ref().map(|p| p.span);
        match (first, last) {
            (true, true) => {
                let Some(span) = ports else { return self.expected("an element").into() };
                self.diagnostics.push(Diagnostic::warning(span, "stranded port ignored").code("ports"));
                false
            }
            (false, false) => {
                let message = if ports.is_some() {
                    "implicit ports used in the middle of a chain"
                } else {
                    "an element is missing in the middle of a chain"
                };
                self.error(node.span, message);
                true
            }
            _ if self.depth == 0 => {
                let d = self.error(node.span, "ports without an element outside a group or compound");
                d.click = Some("stranded port ignored".to_string());
                true
            }
            _ => match &node.outputs {
                Some(extra) => {
                    let span = extra.span;
                    self.error(span, "a second port list without an element");
                    true
                }
                None => false,
            },
        }
    }
}

impl From<Failed> for bool {
    fn from(_: Failed) -> bool {
        true
    }
}

/// `a, b, c :: Class` as a statement of its own declares all three.
fn merge_declaration(chain: &mut Chain) {
    let bare = |n: &Node| n.inputs.is_none() && n.outputs.is_none();
    let plain = |n: &Node| bare(n) && matches!(n.element, Element::Name(_));
    let Some((last, before)) = chain.first.split_last() else { return };
    let declares = bare(last) && matches!(last.element, Element::Declaration { .. });
    if !chain.links.is_empty() || before.is_empty() || !declares || !before.iter().all(plain) {
        return;
    }
    let span = before[0].span.to(last.span);
    let mut nodes = std::mem::take(&mut chain.first);
    let Some(mut merged) = nodes.pop() else { return };
    let mut comments = Vec::new();
    let mut all = Vec::new();
    for node in nodes {
        comments.extend(node.comments);
        if let Element::Name(name) = node.element {
            all.push(name);
        }
    }
    if let Element::Declaration { names, .. } = &mut merged.element {
        all.append(names);
        *names = all;
    }
    comments.append(&mut merged.comments);
    merged.comments = comments;
    merged.span = span;
    chain.first.push(merged);
}
