//! Routes as text: `prefix [gateway] port`, one a line.
//!
//! `#` begins a comment, blank lines are skipped, lines may end in CR LF. A gateway of `-` or of zeros is none.
//! Both families may be in one file. A byte order mark may stand before the text.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use crate::next_hop::NextHop;
use crate::prefix::{Address, Prefix, PrefixError};
use crate::route_table::{Route, RouteChange};

/// How many errors of a file are kept; the others are counted.
pub const MAX_ERRORS: usize = 20;
/// What some editors put before a text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// How much of a bad word an error quotes, in characters.
const MAX_QUOTE: usize = 48;

/// The routes of a file, in its order. Of two routes for one prefix the later one counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteFile {
    /// Routes for IPv4 prefixes.
    pub v4: Vec<Route<u32>>,
    /// Routes for IPv6 prefixes.
    pub v6: Vec<Route<u128>>,
}

/// What is wrong with a route, or with a change of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There is nothing.
    #[error("expected `prefix [gateway] port`, found nothing")]
    Empty,
    /// The first word is no prefix.
    #[error("{0}")]
    Prefix(#[from] PrefixError),
    /// There is one word only.
    #[error("expected `prefix [gateway] port`, found only a prefix: the output port is missing")]
    NoPort,
    /// The last word is no port number.
    #[error("`{0}` is not an output port: expected a number from 0 to 4294967295")]
    Port(String),
    /// The word between is no address.
    #[error("`{0}` is not a gateway: expected an IP address or `-`")]
    Gateway(String),
    /// There are more than three words.
    #[error("expected the end of the line after the output port, found `{0}`")]
    Extra(String),
    /// The line is not UTF-8.
    #[error("the line is not text (UTF-8)")]
    NotText,
    /// The first word of a change is not known.
    #[error("`{0}` is not a change: expected `add`, `set`, `remove` or `flush`")]
    Change(String),
}

/// An error and the line, counted from 1, that has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {error}")]
pub struct LineError {
    /// Which line.
    pub line: usize,
    /// What is wrong.
    pub error: RouteError,
}

/// What is wrong with a file: the first [`MAX_ERRORS`] errors, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteFileErrors {
    /// The first errors, in the order of their lines.
    pub first: Vec<LineError>,
    /// The number of lines with an error.
    pub total: usize,
}

impl fmt::Display for RouteFileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.first.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        match self.total - self.first.len() {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more line with an error"),
            more => write!(f, "\nand {more} more lines with errors"),
        }
    }
}

impl std::error::Error for RouteFileErrors {}

/// Why a file of routes cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file, or the program that unpacks it, cannot be used.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// gzip does not unpack it.
    #[error("{0}")]
    Gzip(String),
    /// What is in it is no list of routes.
    #[error("{0}")]
    Lines(#[from] RouteFileErrors),
}

impl RouteFile {
    /// Reads a route file, by way of `gzip` if its name ends in `.gz`; see [`parse`](RouteFile::parse).
    ///
    /// # Errors
    /// If it cannot be read or unpacked, or has lines that are no routes.
    pub fn read(path: &Path, default_port: Option<u32>) -> Result<RouteFile, ReadError> {
        Ok(RouteFile::parse(&RouteFile::unpacked(path)?, default_port)?)
    }

    /// The bytes of a file, unpacked by `gzip` if its name ends in `.gz`.
    ///
    /// # Errors
    /// If it cannot be read or unpacked.
    pub fn unpacked(path: &Path) -> Result<Vec<u8>, ReadError> {
        if path.extension().is_none_or(|ending| ending != "gz") {
            return Ok(std::fs::read(path)?);
        }
        // What is not there is said as of any other file.
        File::open(path)?;
        let unpacked = Command::new("gzip").arg("-dc").arg("--").arg(path).output()?;
        if !unpacked.status.success() {
            return Err(ReadError::Gzip(String::from_utf8_lossy(&unpacked.stderr).trim().to_owned()));
        }
        Ok(unpacked.stdout)
    }

    /// Reads the text of a route file. Lines that have a prefix only are routes to `default_port`, if there is
    /// one, and errors otherwise.
    pub fn parse(text: &[u8], default_port: Option<u32>) -> Result<RouteFile, RouteFileErrors> {
        let mut file = RouteFile::default();
        let mut errors = RouteFileErrors { first: Vec::new(), total: 0 };
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if let Err(error) = file.parse_line(line, default_port) {
                errors.total += 1;
                if errors.first.len() < MAX_ERRORS {
                    errors.first.push(LineError { line: index + 1, error });
                }
            }
        }
        if errors.total == 0 { Ok(file) } else { Err(errors) }
    }

    fn parse_line(&mut self, line: &[u8], default_port: Option<u32>) -> Result<(), RouteError> {
        let line = line.split(|&byte| byte == b'#').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| RouteError::NotText)?;
        let Some(first) = line.split_ascii_whitespace().next() else {
            return Ok(());
        };
        if first.contains(':') {
            self.v6.push(parse_route(line, default_port)?);
        } else {
            self.v4.push(parse_route(line, default_port)?);
        }
        Ok(())
    }

    /// Writes the routes as [`parse`](RouteFile::parse) reads them.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        self.v4.iter().try_for_each(|route| writeln!(out, "{route}"))?;
        self.v6.iter().try_for_each(|route| writeln!(out, "{route}"))
    }
}

impl<A: Address> FromStr for Route<A> {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        parse_route(text, None)
    }
}

/// Reads `add ROUTE`, `set ROUTE`, `remove PREFIX [[gateway] port]` or `flush`.
impl<A: Address> FromStr for RouteChange<A> {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        let text = text.trim();
        let (verb, rest) = text.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((text, ""));
        match verb {
            "add" => rest.parse().map(RouteChange::Add),
            "set" => rest.parse().map(RouteChange::Set),
            "remove" => {
                if rest.split_ascii_whitespace().count() == 1 {
                    return parse_prefix(rest.trim()).map(|prefix| RouteChange::Remove(prefix, None));
                }
                let route: Route<A> = rest.parse()?;
                Ok(RouteChange::Remove(route.prefix, Some(route.next_hop)))
            }
            "flush" => match rest.split_ascii_whitespace().next() {
                Some(word) => Err(RouteError::Extra(quoted(word))),
                None => Ok(RouteChange::Flush),
            },
            _ => Err(RouteError::Change(quoted(verb))),
        }
    }
}

fn parse_route<A: Address>(text: &str, default_port: Option<u32>) -> Result<Route<A>, RouteError> {
    let mut words = text.split_ascii_whitespace();
    let prefix = parse_prefix(words.next().ok_or(RouteError::Empty)?)?;
    let (gateway, port) = match (words.next(), words.next()) {
        (None, _) => (None, default_port.ok_or(RouteError::NoPort)?),
        (Some(port), None) => (None, parse_port(port)?),
        (Some(gateway), Some(port)) => (parse_gateway(gateway)?, parse_port(port)?),
    };
    match words.next() {
        Some(word) => Err(RouteError::Extra(quoted(word))),
        None => Ok(Route { prefix, next_hop: NextHop { gateway, port } }),
    }
}

fn parse_prefix<A: Address>(word: &str) -> Result<Prefix<A>, RouteError> {
    word.parse().map_err(|error| {
        RouteError::Prefix(match error {
            PrefixError::Address { family, text } => PrefixError::Address { family, text: quoted(&text) },
            PrefixError::Length { max, text } => PrefixError::Length { max, text: quoted(&text) },
        })
    })
}

fn parse_port(word: &str) -> Result<u32, RouteError> {
    // `u32::from_str` alone would take a sign.
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| digits).ok_or_else(|| RouteError::Port(quoted(word)))
}

fn parse_gateway(word: &str) -> Result<Option<IpAddr>, RouteError> {
    if word == "-" {
        return Ok(None);
    }
    let gateway: IpAddr = word.parse().map_err(|_| RouteError::Gateway(quoted(word)))?;
    Ok((!gateway.is_unspecified()).then_some(gateway))
}

/// A word as errors quote it: not longer than a line should be, and without what terminals obey.
fn quoted(word: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let more = word.chars().nth(MAX_QUOTE).map(|_| '…');
    word.chars().take(MAX_QUOTE).map(shown).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(gateway: Option<&str>, port: u32) -> NextHop {
        NextHop { gateway: gateway.map(|text| text.parse().unwrap()), port }
    }

    #[test]
    fn files_are_read_packed_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("routes.txt");
        std::fs::write(&plain, "10.0.0.0/8\r\n2001:db8::/32 4\n").unwrap();
        let want = RouteFile::parse(b"10.0.0.0/8 7\n2001:db8::/32 4\n", None).unwrap();
        assert_eq!(RouteFile::read(&plain, Some(7)).unwrap(), want);
        assert!(matches!(RouteFile::read(&plain, None), Err(ReadError::Lines(_))));
        assert!(Command::new("gzip").arg("-k").arg(&plain).status().unwrap().success());
        let packed = folder.path().join("routes.txt.gz");
        assert_eq!(RouteFile::read(&packed, Some(7)).unwrap(), want);
        std::fs::write(&packed, "not packed").unwrap();
        assert!(matches!(RouteFile::read(&packed, None), Err(ReadError::Gzip(_))));
        assert!(matches!(RouteFile::read(&folder.path().join("none"), None), Err(ReadError::Io(_))));
    }

    #[test]
    fn reads_both_families_comments_and_crlf() {
        let text = "\u{feff}10.9.0.0/16 1\n# a table\r\n10.0.0.0/8 1\r\n\r\n  10.1/16\t192.0.2.1 2 # comment\r\n0/0 - 3\r\n\
                    2001:db8::/32 fe80::1 4\n::/0 :: 5\n10.1.0.0/16 2001:db8::1 6";
        let file = RouteFile::parse(text.as_bytes(), None).unwrap();
        let v4 = [
            ("10.9.0.0/16", hop(None, 1)),
            ("10.0.0.0/8", hop(None, 1)),
            ("10.1.0.0/16", hop(Some("192.0.2.1"), 2)),
            ("0.0.0.0/0", hop(None, 3)),
            ("10.1.0.0/16", hop(Some("2001:db8::1"), 6)),
        ]
        .map(|(prefix, next_hop)| Route { prefix: prefix.parse().unwrap(), next_hop });
        let v6 = [("2001:db8::/32", hop(Some("fe80::1"), 4)), ("::/0", hop(None, 5))]
            .map(|(prefix, next_hop)| Route { prefix: prefix.parse().unwrap(), next_hop });
        assert_eq!(file, RouteFile { v4: v4.to_vec(), v6: v6.to_vec() });
        let mut written = Vec::new();
        file.write(&mut written).unwrap();
        assert_eq!(RouteFile::parse(&written, None).unwrap(), file);
    }

    #[test]
    fn says_all_that_is_wrong_with_line_numbers() {
        let text = b"10.0.0.0/8 1\n10.0.0.0/8\n10.0.0.0/33 1\n10.0.0/a 1\nx 1\n1.2.3.4 y\n1.2.3.4 - 1 2\n\
                     1.2.3.4 gw 1\n\xff 1\n::1/200 1\n10.0.0.0/8 -1\n10.0.0.0/8 4294967296\n";
        let errors = RouteFile::parse(text, None).unwrap_err();
        let expected = "\
line 2: expected `prefix [gateway] port`, found only a prefix: the output port is missing
line 3: `33` is not a prefix length: expected a number from 0 to 32 or a mask such as 255.255.255.0
line 4: `a` is not a prefix length: expected a number from 0 to 32 or a mask such as 255.255.255.0
line 5: `x` is not an IPv4 address
line 6: `y` is not an output port: expected a number from 0 to 4294967295
line 7: expected the end of the line after the output port, found `2`
line 8: `gw` is not a gateway: expected an IP address or `-`
line 9: the line is not text (UTF-8)
line 10: `200` is not a prefix length: expected a number from 0 to 128
line 11: `-1` is not an output port: expected a number from 0 to 4294967295
line 12: `4294967296` is not an output port: expected a number from 0 to 4294967295";
        assert_eq!(errors.to_string(), expected);
        assert_eq!(errors.total, 11);
    }

    #[test]
    fn keeps_the_first_errors_and_counts_the_rest() {
        let errors = RouteFile::parse("bad\n".repeat(1000).as_bytes(), None).unwrap_err();
        assert_eq!((errors.first.len(), errors.total), (MAX_ERRORS, 1000));
        assert!(
            errors
                .to_string()
                .ends_with("line 20: `bad` is not an IPv4 address\nand 980 more lines with errors")
        );
        let long = "9".repeat(100_000);
        let error = RouteFile::parse(long.as_bytes(), None).unwrap_err().first.remove(0).error;
        assert_eq!(error.to_string(), format!("`{}…` is not an IPv4 address", "9".repeat(MAX_QUOTE)));
        let error = RouteFile::parse(b"10.0.0.0/8 \x1b[31mX\x07 1", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 1: `\u{fffd}[31mX\u{fffd}` is not a gateway: expected an IP address or `-`"
        );
    }

    #[test]
    fn a_default_port_stands_in_for_a_missing_one() {
        let file = RouteFile::parse(b"10.0.0.0/8\r\n::/0 2\r\n", Some(9)).unwrap();
        assert_eq!((file.v4[0].next_hop, file.v6[0].next_hop), (hop(None, 9), hop(None, 2)));
    }

    #[test]
    fn reads_changes() {
        let change = |text: &str| text.parse::<RouteChange<u32>>();
        let route: Route<u32> = "10/8 1.2.3.4 5".parse().unwrap();
        assert_eq!(change("add 10/8 1.2.3.4 5"), Ok(RouteChange::Add(route)));
        assert_eq!(change(" set  10/8\t1.2.3.4 5 "), Ok(RouteChange::Set(route)));
        assert_eq!(
            change("remove 10/8 1.2.3.4 5"),
            Ok(RouteChange::Remove(route.prefix, Some(route.next_hop)))
        );
        assert_eq!(change("remove 10/8 "), Ok(RouteChange::Remove(route.prefix, None)));
        assert_eq!(change("flush"), Ok(RouteChange::Flush));
        assert_eq!(change("flush 1"), Err(RouteError::Extra("1".into())));
        assert_eq!((change("add"), change("remove")), (Err(RouteError::Empty), Err(RouteError::Empty)));
        assert_eq!(
            change("drop 10/8").unwrap_err().to_string(),
            "`drop` is not a change: expected `add`, `set`, `remove` or `flush`"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = RouteFile::parse(&bytes, None);
        }

        #[test]
        fn writing_is_undone_by_reading(routes in prop::collection::vec(
            (any::<u32>(), 0..=32u8, any::<u128>(), 0..=128u8, prop::option::of(any::<IpAddr>()), any::<u32>()), 0..20,
        )) {
            let mut file = RouteFile::default();
            for (addr, len, addr6, len6, gateway, port) in routes {
                let next_hop = NextHop { gateway: gateway.filter(|gateway| !gateway.is_unspecified()), port };
                file.v4.push(Route { prefix: Prefix::new(addr, len).unwrap(), next_hop });
                file.v6.push(Route { prefix: Prefix::new(addr6, len6).unwrap(), next_hop });
            }
            let mut text = Vec::new();
            file.write(&mut text).unwrap();
            prop_assert_eq!(RouteFile::parse(&text, None).unwrap(), file);
        }
    }
}
