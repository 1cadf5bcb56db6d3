//! What predicates of both IP versions ask about the outputs of routers.

use std::net::{IpAddr, Ipv4Addr};

use lab::differential::Difference;
use lab::output::Output;

/// In place of an address that is left aside.
pub const NO_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// An ICMP error without what the two may differ in.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    pub port: usize,
    pub source: IpAddr,
    /// All but source and quote.
    pub rest: Output,
    pub quote: Vec<u8>,
}

impl Error {
    fn of(output: &Output) -> Option<Error> {
        let mut rest = output.clone();
        let Output::Error { port, source, quote, .. } = &mut rest else { return None };
        let (port, source, quote) = (*port, std::mem::replace(source, NO_ADDRESS), std::mem::take(quote));
        Some(Error { port, source, rest, quote })
    }

    /// The errors of both routers, if each sent one and nothing else.
    pub fn pair(ours: &[Output], theirs: &[Output]) -> Option<(Error, Error)> {
        let ([ours], [theirs]) = (ours, theirs) else { return None };
        Some((Error::of(ours)?, Error::of(theirs)?))
    }
}

/// Types and codes of the ICMP errors among these; (0, 0) for anything else.
pub fn kinds(outputs: &[Output]) -> Vec<(u8, u8)> {
    let kind = |output: &Output| match output {
        Output::Error { kind, code, .. } => (*kind, *code),
        _ => (0, 0),
    };
    outputs.iter().map(kind).collect()
}

pub fn is_forwarded(outputs: &[Output]) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Forwarded { .. }))
}

/// An octet of the frame that was sent; 0 if it is cut before that.
pub fn octet(d: &Difference, at: usize) -> u8 {
    d.sent.frame.get(at).copied().unwrap_or(0)
}
