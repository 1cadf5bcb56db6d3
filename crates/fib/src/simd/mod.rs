//! Lookups with vector instructions, chosen at run time where the processor has them; each has a scalar twin elsewhere that
//! tests hold it equal to. The only room of this crate for `unsafe` code.

pub(crate) mod gather;
pub(crate) mod results;
pub(crate) mod search;
