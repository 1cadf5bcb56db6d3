//! Compound element classes: `{ formals | statements || ... }`.

use super::{Parsed, Parser};
use crate::ast::{Alternative, Compound, Formal};
use crate::lex::Kind;

impl Parser<'_> {
    /// A compound; the present token is its `{`.
    pub(super) fn compound(&mut self) -> Parsed<Compound> {
        let open = self.token.span;
        self.nested(|p| {
            p.advance();
            let mut alternatives = Vec::new();
            let mut extends = None;
            loop {
                if p.at(Kind::Ellipsis) {
                    extends = Some(p.advance().span);
                    break;
                }
                alternatives.push(p.alternative());
                if !p.eat(Kind::BarBar) {
                    break;
                }
            }
            if !p.at(Kind::CloseBrace) {
                let failed = p.expected("`}`");
                if let Some(d) = p.diagnostics.last_mut() {
                    d.labels.push(crate::Label { span: open, text: "to close this `{`".to_string() });
                }
                return Err(failed);
            }
            p.advance();
            Ok(Compound { alternatives, extends, span: open.to(p.last) })
        })
    }

    fn alternative(&mut self) -> Alternative {
        let span = self.token.span;
        let formals = self.formals();
        let block = self.block();
        Alternative { formals, block, span }
    }

    /// `$a, $b, COUNT $c, __REST__ $r |`. Mistakes are recorded and reading goes on behind the `|`.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals: Vec<Formal> = Vec::new();
        if self.eat(Kind::Bar) {
            return formals;
        }
        let is_formal = |p: &Self| match p.token.kind {
            Kind::Variable => true,
            Kind::Ident => p.peek() == Kind::Variable,
            _ => false,
        };
        if !is_formal(self) {
            return formals;
        }
        loop {
            if !is_formal(self) {
                self.expected("a formal parameter such as `$x`");
                self.skip_formals();
                return formals;
            }
            let keyword = self.at(Kind::Ident).then(|| self.ident());
            let name = self.variable();
            self.check_order(&formals, keyword.as_ref().map(|k| k.name.as_str()), &name);
            formals.push(Formal { keyword, name });
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        if !self.eat(Kind::Bar) {
            self.expected("`|` behind the formal parameters");
            self.skip_formals();
        }
        formals
    }

    /// To behind the `|`, or to where there cannot be one.
    fn skip_formals(&mut self) {
        while !matches!(self.token.kind, Kind::Semicolon | Kind::CloseBrace | Kind::BarBar | Kind::End) {
            if self.advance().kind == Kind::Bar {
                return;
            }
        }
    }

    /// Positional formals come first, then keywords, then `__REST__`; no name twice.
    fn check_order(&mut self, before: &[Formal], keyword: Option<&str>, name: &crate::ast::Ident) {
        let last = before.last().and_then(|f| f.keyword.as_ref()).map(|k| k.name.as_str());
        let message = match (last, keyword) {
            (Some("__REST__"), _) => Some("`__REST__` must be the last formal parameter"),
            (Some(_), None) => Some("positional formal parameters come before those with keywords"),
            _ => None,
        };
        if let Some(message) = message {
            self.error(name.span, message);
        }
        if let Some(first) = before.iter().find(|f| f.name.name == name.name) {
            let (variable, at) = (name.name.clone(), first.name.span);
            let d = self.error(name.span, format!("parameter '${variable}' multiply defined"));
            d.labels.push(crate::Label { span: at, text: "first defined here".to_string() });
        }
    }
}
