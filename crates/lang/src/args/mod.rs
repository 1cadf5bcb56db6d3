//! Configuration strings: splitting them into arguments, unquoting, reading typed values.

mod split;

pub use split::{keyword, split, unquote};
mod reader;
pub use reader::{ArgError, Args};
