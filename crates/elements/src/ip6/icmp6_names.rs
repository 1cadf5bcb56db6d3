//! Names of ICMPv6 types and codes, as configurations and `IP6Print` use them.

use crate::icmp::names::find;
use graph::ArgError;

/// Types by name.
const TYPES: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packettoobig", 2),
    ("timeexceeded", 3),
    ("parameterproblem", 4),
    ("echo", 128),
    ("echo-reply", 129),
    ("routersolicit", 133),
    ("routeradvert", 134),
    ("neighborsolicit", 135),
    ("neighboradvert", 136),
    ("redirect", 137),
];

/// Further names of types.
const SYNONYMS: &[(&str, u8)] = &[("dst-unreachable", 1), ("toobig", 2), ("paramprob", 4)];

/// Codes by type and first name.
const CODES: &[(u8, &str, u8)] = &[
    (1, "noroute", 0),
    (1, "prohibited", 1),
    (1, "beyondscope", 2),
    (1, "address", 3),
    (1, "port", 4),
    (1, "policy", 5),
    (1, "reject", 6),
    (3, "transit", 0),
    (3, "reassembly", 1),
    (4, "header", 0),
    (4, "nextheader", 1),
    (4, "option", 2),
];

/// The name of a type, if it has one.
pub(crate) fn type_name(kind: u8) -> Option<&'static str> {
    TYPES.iter().find(|(_, number)| *number == kind).map(|(name, _)| *name)
}

/// The name of a code of a type, if it has one.
pub(crate) fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    CODES.iter().find(|(k, _, c)| (*k, *c) == (kind, code)).map(|(_, name, _)| *name)
}

/// Reads a type: a name or a number.
pub(super) fn parse_type(text: &str) -> Result<u8, ArgError> {
    find(text, TYPES.iter().chain(SYNONYMS).copied())
}

/// Reads a code of a type: a name or a number.
pub(super) fn parse_code(kind: u8, text: &str) -> Result<u8, ArgError> {
    find(text, CODES.iter().filter(|(k, ..)| *k == kind).map(|(_, name, code)| (*name, *code)))
}
