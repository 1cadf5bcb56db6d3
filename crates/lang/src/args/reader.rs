//! stub
use crate::{Text, Span, Diagnostic};
/// e
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError { span: Option<Span>, message: String, help: Option<String> }
impl ArgError {
    /// n
    pub fn new(span: Option<Span>, message: impl Into<String>) -> Self { ArgError { span, message: message.into(), help: None } }
    /// h
    #[must_use] pub fn help(mut self, h: impl Into<String>) -> Self { self.help = Some(h.into()); self }
    /// d
    pub fn into_diagnostic(self, at: Span) -> Diagnostic { let d = Diagnostic::error(self.span.unwrap_or(at), self.message); match self.help { Some(h) => d.help(h), None => d } }
}
/// a
#[derive(Debug)]
pub struct Args { _t: Text }
impl Args { /// n
 pub fn new(t: &Text) -> Args { Args { _t: t.clone() } } }
