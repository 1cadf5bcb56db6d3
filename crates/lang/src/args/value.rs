//! Types that an argument can be read as.

use crate::source::Span;
use crate::text::Text;
use std::path::PathBuf;

/// Why an argument cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    /// What is wrong, such as `invalid number`.
    pub message: String,
    /// The place, if it is narrower than the argument.
    pub span: Option<Span>,
    /// What to do about it.
    pub help: Option<String>,
}

impl ArgError {
    /// An error about the whole argument.
    pub fn new(message: impl Into<String>) -> ArgError {
        ArgError { message: message.into(), span: None, help: None }
    }

    /// Click's words for a value that is not of the wanted form.
    pub fn parse() -> ArgError {
        ArgError::new("parse error")
    }

    /// Click's words for a number that is not one.
    pub fn number() -> ArgError {
        ArgError::new("invalid number")
    }

    /// Click's words for a number beyond `bound`.
    pub fn range(bound: impl std::fmt::Display) -> ArgError {
        ArgError::new(format!("out of range, bound {bound}"))
    }

    /// With a narrower place, unless it has one.
    #[must_use]
    pub fn at(mut self, span: Span) -> ArgError {
        self.span.get_or_insert(span);
        self
    }

    /// With advice.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> ArgError {
        self.help = Some(text.into());
        self
    }
}

/// A type that an argument can be read as. Elements implement it for types of their own.
pub trait FromArg: Sized {
    /// Reads the argument.
    ///
    /// # Errors
    /// What is wrong with the text, in a few words; the reader puts the argument's name before it.
    fn from_arg(arg: &Text) -> Result<Self, ArgError>;

    /// Any value: it stands in for one that could not be read, until [`super::Args::finish`] reports that.
    fn placeholder() -> Self;
}

/// The argument as it stands, quotes included.
impl FromArg for Text {
    fn from_arg(arg: &Text) -> Result<Text, ArgError> {
        Ok(arg.clone())
    }
    fn placeholder() -> Text {
        Text::default()
    }
}

/// Text without its quotes.
impl FromArg for String {
    fn from_arg(arg: &Text) -> Result<String, ArgError> {
        String::from_utf8(super::unquote(&arg.text)).map_err(|_| ArgError::new("not valid UTF-8"))
    }
    fn placeholder() -> String {
        String::new()
    }
}

/// Binary data: text without its quotes, `\<hex>` included.
impl FromArg for Vec<u8> {
    fn from_arg(arg: &Text) -> Result<Vec<u8>, ArgError> {
        Ok(super::unquote(&arg.text))
    }
    fn placeholder() -> Vec<u8> {
        Vec::new()
    }
}

/// A file name, which must not be empty.
impl FromArg for PathBuf {
    fn from_arg(arg: &Text) -> Result<PathBuf, ArgError> {
        let name = String::from_arg(arg)?;
        if name.is_empty() { Err(ArgError::new("file name is empty")) } else { Ok(name.into()) }
    }
    fn placeholder() -> PathBuf {
        PathBuf::new()
    }
}
