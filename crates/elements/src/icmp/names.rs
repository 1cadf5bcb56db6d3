//! Names of ICMP types and codes, as configurations and `IPPrint` use them.

use graph::ArgError;

/// Types by name.
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("unreachable", 3),
    ("sourcequench", 4),
    ("redirect", 5),
    ("echo", 8),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("timeexceeded", 11),
    ("parameterproblem", 12),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
];

/// Further names of types.
const SYNONYMS: &[(&str, u8)] = &[("dst-unreachable", 3), ("paramprob", 12)];

/// Codes by type and first name.
const CODES: &[(u8, &str, u8)] = &[
    (3, "net", 0),
    (3, "host", 1),
    (3, "protocol", 2),
    (3, "port", 3),
    (3, "needfrag", 4),
    (3, "srcroutefail", 5),
    (3, "netunknown", 6),
    (3, "hostunknown", 7),
    (3, "isolated", 8),
    (3, "netprohibited", 9),
    (3, "hostprohibited", 10),
    (3, "nettos", 11),
    (3, "hosttos", 12),
    (3, "filterprohibited", 13),
    (3, "hostprecedence", 14),
    (3, "cutoff", 15),
    (5, "net", 0),
    (5, "host", 1),
    (5, "tosnet", 2),
    (5, "toshost", 3),
    (11, "transit", 0),
    (11, "reassembly", 1),
    (12, "erroratptr", 0),
    (12, "missingopt", 1),
    (12, "length", 2),
];

/// The name of a type, if it has one.
pub(crate) fn type_name(kind: u8) -> Option<&'static str> {
    TYPES.iter().find(|(_, number)| *number == kind).map(|(name, _)| *name)
}

/// The name of a code of a type, if it has one.
pub(crate) fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    CODES.iter().find(|(k, _, c)| (*k, *c) == (kind, code)).map(|(_, name, _)| *name)
}

/// The type of this name.
pub(crate) fn type_number(name: &str) -> Option<u8> {
    TYPES.iter().find(|(n, _)| *n == name).map(|(_, number)| *number)
}

/// Reads a type: a name or a number.
pub(crate) fn parse_type(text: &str) -> Result<u8, ArgError> {
    find(text, TYPES.iter().chain(SYNONYMS).copied())
}

/// Reads a code of a type: a name or a number.
pub(crate) fn parse_code(kind: u8, text: &str) -> Result<u8, ArgError> {
    find(text, CODES.iter().filter(|(k, ..)| *k == kind).map(|(_, name, code)| (*name, *code)))
}

/// Reads one of these names, or a number.
pub(crate) fn find(
    text: &str,
    names: impl Iterator<Item = (&'static str, u8)> + Clone,
) -> Result<u8, ArgError> {
    let named = names.clone().find(|(name, _)| *name == text).map(|(_, number)| number);
    named.map_or_else(|| number(text, names.map(|(name, _)| name)), Ok)
}

fn number(text: &str, names: impl Iterator<Item = &'static str>) -> Result<u8, ArgError> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let n = lang::args::unsigned(text, 255)?;
        return u8::try_from(n).map_err(|_| ArgError::range(255));
    }
    let names: Vec<&str> = names.collect();
    Err(ArgError::new(format!("unknown name '{text}'"))
        .help(format!("a number, or one of {}", names.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(parse_type("timeexceeded"), Ok(11));
        assert_eq!(parse_type("12"), Ok(12));
        assert_eq!(parse_code(3, "needfrag"), Ok(4));
        assert_eq!((parse_code(5, "host"), parse_code(3, "host")), (Ok(1), Ok(1)));
        assert!(
            parse_code(11, "needfrag").is_err() && parse_type("x").is_err() && parse_type("256").is_err()
        );
        assert_eq!(
            (type_name(3), code_name(3, 4), type_name(99)),
            (Some("unreachable"), Some("needfrag"), None)
        );
    }
}
