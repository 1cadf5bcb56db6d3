//! Lookups with vector instructions, chosen at run time where the processor has them. The only room of this crate for
//! `unsafe` code; each has a scalar twin elsewhere that tests hold it equal to.

pub(crate) mod gather;
pub(crate) mod search;
