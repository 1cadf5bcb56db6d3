//! One error type: a sentence for a person.

use std::fmt::Display;

/// What was being done and why it failed, as a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Error {
    /// An error that reads as `text`.
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

/// The result of everything that may fail in the lab.
pub type Result<T> = std::result::Result<T, Error>;

/// Puts what was being done in front of the cause.
pub trait Context<T> {
    /// Turns an error into `cannot WHAT: CAUSE`.
    fn cannot(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn cannot(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error(format!("cannot {}: {cause}", what())))
    }
}
