//! Configuration strings: splitting them into arguments, unquoting, reading typed values.
//!
//! ```
//! use lang::args::Args;
//! use lang::{Span, Text};
//!
//! # fn main() -> Result<(), Vec<lang::Diagnostic>> {
//! let config = Text::verbatim("100, BURST 2", Span::default());
//! let mut args = Args::new(&config);
//! let burst = args.keyword("BURST", 1u32);
//! let capacity = args.optional("CAPACITY", 1000u32);
//! args.finish()?;
//! assert_eq!((capacity, burst), (100, 2));
//! # Ok(())
//! # }
//! ```

mod names;
mod net;
mod number;
mod reader;
mod split;
mod value;
mod words;

pub use names::{Named, Names, names_by_scope};
pub use net::{Ipv4Prefix, Ipv6Prefix, ethernet_address};
pub use number::{Bandwidth, bandwidth, boolean, nanoseconds, real, signed, unsigned};
pub use reader::Args;
pub use split::{keyword, split, unquote};
pub use value::{ArgError, FromArg};
pub use words::Words;
