//! From words to an expression.
//!
//! ```text
//! pattern   := any [ '?' pattern ':' pattern ]
//! any       := all { ('or' | '||') all }          all := unary { ('and' | '&&') unary }
//! unary     := ('not' | '!') unary | '(' pattern ')' | primitive
//! primitive := qualifiers [ '&' mask ] [ relation ] value
//! ```
//!
//! A primitive that is a bare value takes the qualifiers of the one before: `src port 80 or 81`.

use super::expr::{Base, Expr, Field, Op, Test};
use super::lex::{Token, lex};
use super::names;
use super::relate::{
    Direction, Relation, direct, directless, mac_is, protocol_is, protocol_relation, relate,
};
use lang::args::{FromArg, Ipv4Prefix, ethernet_address, unsigned};
use lang::{Span, Text};
use packet::wire::ipv4;
use std::net::Ipv4Addr;
use std::ops::Range;

/// Words and signs that a pattern may have, and how deep it may nest: what recursion over it can bear.
const MOST_TOKENS: usize = 4000;
const MOST_NESTED: usize = 100;

/// Reads a pattern.
///
/// # Errors
/// What is wrong, and where.
pub fn parse(text: &Text) -> Result<Expr, (String, Span)> {
    let located = |(message, at): Error| (message, text.span_of(at));
    let end = text.text.len();
    let tokens = lex(&text.text).map_err(|at| {
        let what = text.text.get(at.clone()).unwrap_or_default();
        located((format!("unexpected '{what}'"), at))
    })?;
    if tokens.len() > MOST_TOKENS {
        return Err(located((format!("more than {MOST_TOKENS} words"), 0..end)));
    }
    let mut parser = Parser { text, tokens, next: 0, end, nested: 0, previous: Qualifiers::default() };
    if parser.tokens.is_empty() {
        return Err(located(("empty pattern".to_owned(), 0..end)));
    }
    let expr = parser.pattern().map_err(located)?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(located((format!("unexpected '{}'", token.text), token.at.clone()))),
    }
}

type Error = (String, Range<usize>);

/// What a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    EtherHost,
    Port,
    Protocol,
    IcmpType,
    TcpFlag,
    /// A plain number and its largest value.
    Number(Field, u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct Qualifiers {
    direction: Option<Direction>,
    /// Protocol number, or [`names::TCP_UDP`].
    protocol: Option<u32>,
    kind: Option<Kind>,
    ether: bool,
    ip: bool,
}

fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "host" => Kind::Host,
        "net" => Kind::Net,
        "port" => Kind::Port,
        "proto" => Kind::Protocol,
        "type" => Kind::IcmpType,
        "opt" => Kind::TcpFlag,
        "vers" => Kind::Number(Field::Version, 15),
        "hl" => Kind::Number(Field::HeaderLen, 15),
        "tos" => Kind::Number(Field::Tos, 255),
        "dscp" => Kind::Number(Field::Dscp, 63),
        "len" => Kind::Number(Field::TotalLen, 65_535),
        "id" => Kind::Number(Field::Id, 65_535),
        "ttl" => Kind::Number(Field::Ttl, 255),
        "win" => Kind::Number(Field::TcpWindow, 65_535),
        _ => return None,
    })
}

/// Words that say all by themselves.
fn constant(word: &str) -> Option<Expr> {
    let bits = |field, mask, value| Expr::Test(Test { field, mask, op: Op::Equal, value });
    let present = |field| Expr::Test(Test::any(field));
    let fragment = u32::from(ipv4::OFFSET_MASK | ipv4::MORE_FRAGMENTS);
    Some(match word {
        "-" | "any" | "all" | "true" => Expr::Constant(true),
        "false" | "none" => Expr::Constant(false),
        "frag" => present(Field::Fragment).and(bits(Field::Fragment, fragment, 0).negated()),
        "unfrag" => bits(Field::Fragment, fragment, 0),
        "ect" => present(Field::Tos).and(bits(Field::Tos, 3, 0).negated()),
        "ce" => bits(Field::Tos, 3, 3),
        _ => return None,
    })
}

struct Parser<'a> {
    text: &'a Text,
    tokens: Vec<Token>,
    next: usize,
    end: usize,
    nested: usize,
    previous: Qualifiers,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn eat(&mut self, texts: &[&str]) -> bool {
        let found = self.peek().is_some_and(|t| texts.contains(&t.text.as_str()));
        self.next += usize::from(found);
        found
    }

    /// Where the next token stands, or the end.
    fn here(&self) -> Range<usize> {
        self.peek().map_or(self.end..self.end, |t| t.at.clone())
    }

    fn expect(&mut self, text: &str) -> Result<(), Error> {
        if self.eat(&[text]) { Ok(()) } else { Err((format!("'{text}' missing"), self.here())) }
    }

    fn pattern(&mut self) -> Result<Expr, Error> {
        let first = self.any()?;
        if !self.eat(&["?"]) {
            return Ok(first);
        }
        let yes = self.nest(Parser::pattern)?;
        self.expect(":")?;
        let no = self.nest(Parser::pattern)?;
        Ok(first.choose(yes, no))
    }

    fn any(&mut self) -> Result<Expr, Error> {
        let mut expr = self.all()?;
        while self.eat(&["or", "||"]) {
            expr = expr.or(self.all()?);
        }
        Ok(expr)
    }

    fn all(&mut self) -> Result<Expr, Error> {
        let mut expr = self.unary()?;
        while self.eat(&["and", "&&"]) {
            expr = expr.and(self.unary()?);
        }
        Ok(expr)
    }

    fn unary(&mut self) -> Result<Expr, Error> {
        if self.eat(&["not", "!"]) {
            return Ok(self.nest(Parser::unary)?.negated());
        }
        if self.eat(&["("]) {
            let expr = self.nest(Parser::pattern)?;
            self.expect(")")?;
            return Ok(expr);
        }
        self.primitive()
    }

    fn nest(&mut self, f: fn(&mut Parser<'a>) -> Result<Expr, Error>) -> Result<Expr, Error> {
        if self.nested == MOST_NESTED {
            return Err((format!("nested more than {MOST_NESTED} deep"), self.here()));
        }
        self.nested += 1;
        let result = f(self);
        self.nested -= 1;
        result
    }

    fn primitive(&mut self) -> Result<Expr, Error> {
        let start = self.here();
        let mut q = Qualifiers::default();
        while q.kind.is_none()
            && let Some(word) = self.peek().filter(|t| t.is_word()).map(|t| t.text.clone())
        {
            let bytes_follow = self.tokens.get(self.next + 1).is_some_and(|t| t.text == "[");
            match (word.as_str(), constant(&word), kind_of(&word)) {
                (_, Some(expr), _) => {
                    self.next += 1;
                    return Ok(expr);
                }
                ("ip" | "transp" | "tcp" | "udp" | "icmp", ..) if bytes_follow => return self.bytes(&word),
                ("src" | "dst", ..) => q.direction = Some(self.direction(&word)),
                ("ip", ..) => q.ip = true,
                ("ether", ..) => q.ether = true,
                ("tcp" | "udp" | "icmp" | "tcpudp", ..) => q.protocol = names::protocol(&word),
                (_, _, Some(kind)) => q.kind = Some(kind),
                _ => break,
            }
            self.next += 1;
        }
        let mask = if self.eat(&["&"]) { Some(self.number(u32::MAX, "mask")?) } else { None };
        let relation = self.relation();
        let is_value = |t: &&Token| t.is_word() && !matches!(t.text.as_str(), "and" | "or" | "not");
        let Some(value) = self.peek().filter(is_value).cloned() else {
            return self.without_value(&q, mask.is_none() && relation.is_none(), start);
        };
        let kind = match q.kind {
            Some(Kind::Host) if q.ether => Kind::EtherHost,
            Some(kind) => kind,
            None => self.guess(&q, &value)?,
        };
        let bare = q.direction.is_none() && q.protocol.is_none() && q.kind.is_none() && !q.ip && !q.ether;
        if bare && self.previous.kind.is_some_and(|k| k == kind || is_address(k) && is_address(kind)) {
            (q.direction, q.protocol) = (self.previous.direction, self.previous.protocol);
        }
        q.kind = Some(kind);
        self.previous = q;
        self.compare(kind, &q, mask, relation.unwrap_or(Relation::Equal))
    }

    /// `src`, `dst`, `src or dst`, `src and dst`, the other way round too; stops at the last word of it.
    fn direction(&mut self, first: &str) -> Direction {
        let word = |i: usize| self.tokens.get(self.next + i).map_or("", |t| t.text.as_str());
        let other = if first == "src" { "dst" } else { "src" };
        let joined = if word(2) == other { word(1) } else { "" };
        match joined {
            "or" | "||" => {
                self.next += 2;
                Direction::Either
            }
            "and" | "&&" => {
                self.next += 2;
                Direction::Both
            }
            _ if first == "src" => Direction::Source,
            _ => Direction::Destination,
        }
    }

    fn relation(&mut self) -> Option<Relation> {
        let relation = match self.peek()?.text.as_str() {
            "=" | "==" => Relation::Equal,
            "!=" => Relation::NotEqual,
            "<" => Relation::Less,
            ">" => Relation::Greater,
            "<=" => Relation::AtMost,
            ">=" => Relation::AtLeast,
            _ => return None,
        };
        self.next += 1;
        Some(relation)
    }

    /// `tcp`, `udp`, `icmp`, `ip` alone.
    fn without_value(&mut self, q: &Qualifiers, plain: bool, start: Range<usize>) -> Result<Expr, Error> {
        let alone = plain && q.direction.is_none() && q.kind.is_none() && !q.ether;
        match q.protocol {
            Some(protocol) if alone => Ok(protocol_is(protocol)),
            None if alone && q.ip => Ok(Expr::Test(Test::equal(Field::Version, 4))),
            _ => {
                let here = self.here();
                let nothing = start == here;
                let what = match self.peek() {
                    Some(t) if nothing => format!("unexpected '{}'", t.text),
                    _ if nothing => "pattern ends too early".to_owned(),
                    _ => "value missing".to_owned(),
                };
                Err((what, here))
            }
        }
    }

    /// What a value is compared with that no word says: its form tells, or the primitive before, or its name.
    fn guess(&self, q: &Qualifiers, value: &Token) -> Result<Kind, Error> {
        let word = value.text.as_str();
        if q.ether || ethernet_address(word).is_ok() {
            return Ok(Kind::EtherHost);
        }
        if word.parse::<Ipv4Addr>().is_ok() {
            return Ok(Kind::Host);
        }
        if word.contains('/') {
            return Ok(Kind::Net);
        }
        if let Some(kind) = self.previous.kind
            && plain_value(kind, word).is_some()
        {
            return Ok(kind);
        }
        if let Some(kind) = self.named(word) {
            return Ok(kind);
        }
        let ports = q.direction.is_some() || q.protocol == Some(u32::from(ipv4::UDP));
        let candidates = if q.protocol == Some(u32::from(ipv4::ICMP)) {
            [Kind::IcmpType, Kind::TcpFlag, Kind::Protocol, Kind::Port]
        } else if ports {
            [Kind::Port, Kind::Protocol, Kind::TcpFlag, Kind::IcmpType]
        } else {
            [Kind::TcpFlag, Kind::Protocol, Kind::Port, Kind::IcmpType]
        };
        let named = !word.bytes().next().is_some_and(|b| b.is_ascii_digit());
        let found = candidates.into_iter().find(|kind| named && plain_value(*kind, word).is_some());
        found.ok_or_else(|| {
            let what = if named { "unknown word" } else { "number of what:" };
            (format!("{what} '{word}'"), value.at.clone())
        })
    }

    /// A primitive whose value comes next.
    fn compare(
        &mut self,
        kind: Kind,
        q: &Qualifiers,
        mask: Option<u32>,
        relation: Relation,
    ) -> Result<Expr, Error> {
        let at = self.here();
        let directed = matches!(kind, Kind::Host | Kind::Net | Kind::EtherHost | Kind::Port);
        if q.direction.is_some() && !directed {
            return Err(("'src' and 'dst' go with hosts, nets and ports only".to_owned(), at));
        }
        let equality = matches!(relation, Relation::Equal | Relation::NotEqual);
        let ordered = matches!(kind, Kind::Port | Kind::Protocol | Kind::IcmpType | Kind::Number(..));
        if !ordered && (mask.is_some() || !equality) {
            return Err(("only numbers have a mask or an order; use '==' or '!='".to_owned(), at));
        }
        let direction = q.direction.unwrap_or(Direction::Either);
        let sides = [(Field::Source, Field::SourcePort), (Field::Destination, Field::DestinationPort)];
        let expr = match kind {
            Kind::Host | Kind::Net => {
                let (address, bits) = self.prefix(kind)?;
                let test = |f| Test { field: f, mask: bits, op: Op::Equal, value: address & bits };
                let side = sides.map(|(field, _)| (Expr::Test(test(field)), field));
                direct(direction, relation, side)
            }
            Kind::EtherHost => {
                let mac = self.mac()?;
                let source = (Field::EtherSourceHigh, Field::EtherSourceLow);
                let destination = (Field::EtherDestinationHigh, Field::EtherDestinationLow);
                let side = [source, destination].map(|fields| (mac_is(fields, mac), fields.0));
                direct(direction, relation, side)
            }
            Kind::Port => {
                let value = self.value(kind, 65_535)?;
                let test = |f| relate(f, mask, relation.for_one_side(), value);
                direct(direction, relation, sides.map(|(_, port)| (test(port), port)))
            }
            Kind::Protocol => {
                let value = self.value(kind, 255)?;
                protocol_relation(mask, relation, value)
            }
            Kind::TcpFlag => {
                let bit = self.value(kind, 255)?;
                let set = Test { field: Field::TcpFlags, mask: bit, op: Op::Equal, value: bit };
                directless(relation, Expr::Test(set), Field::TcpFlags)
            }
            Kind::IcmpType => relate(Field::IcmpType, mask, relation, self.value(kind, 255)?),
            Kind::Number(field, most) => relate(field, mask, relation, self.value(kind, most)?),
        };
        Ok(match q.protocol {
            Some(protocol) => protocol_is(protocol).and(expr),
            None => expr,
        })
    }

    fn take_word(&mut self, what: &str) -> Result<Token, Error> {
        let token = self.peek().filter(|t| t.is_word()).cloned();
        let token = token.ok_or_else(|| (format!("{what} missing"), self.here()))?;
        self.next += 1;
        Ok(token)
    }

    fn number(&mut self, most: u32, what: &str) -> Result<u32, Error> {
        let token = self.take_word(what)?;
        read_number(&token.text, most).map_err(|m| (format!("{what}: {m}"), token.at))
    }

    /// A number or a name that stands for one.
    fn value(&mut self, kind: Kind, most: u32) -> Result<u32, Error> {
        let token = self.take_word("value")?;
        let named = match kind {
            Kind::Port => names::port(&token.text),
            Kind::Protocol => names::protocol(&token.text),
            Kind::IcmpType => names::icmp_type(&token.text),
            Kind::TcpFlag => names::tcp_flag(&token.text),
            _ => None,
        };
        if let Some(value) = named {
            return Ok(value);
        }
        if kind == Kind::TcpFlag {
            return Err((format!("unknown TCP flag '{}'", token.text), token.at));
        }
        read_number(&token.text, most).map_err(|m| (format!("'{}': {m}", token.text), token.at))
    }

    /// An address and the bits of it that count.
    fn prefix(&mut self, kind: Kind) -> Result<(u32, u32), Error> {
        let token = self.take_word("address")?;
        let bad = |what: &str| (format!("'{}' is no {what}", token.text), token.at.clone());
        if kind == Kind::Host {
            let address: Ipv4Addr = self.read(&token).ok_or_else(|| bad("IPv4 address"))?;
            return Ok((address.to_bits(), u32::MAX));
        }
        if self.eat(&["mask"]) {
            let address: Ipv4Addr = self.read(&token).ok_or_else(|| bad("IPv4 address"))?;
            let mask = self.take_word("mask")?;
            let bits: Ipv4Addr =
                mask.text.parse().map_err(|_| (format!("'{}' is no mask", mask.text), mask.at.clone()))?;
            return Ok((address.to_bits(), bits.to_bits()));
        }
        let prefix: Ipv4Prefix = self.read(&token).ok_or_else(|| bad("IPv4 prefix"))?;
        Ok((prefix.address.to_bits(), prefix.mask().to_bits()))
    }

    fn mac(&mut self) -> Result<[u8; 6], Error> {
        let token = self.take_word("address")?;
        let bad = || (format!("'{}' is no Ethernet address", token.text), token.at.clone());
        self.read(&token).ok_or_else(bad)
    }

    /// A word as an address, which may have a name.
    fn read<T: FromArg>(&self, token: &Token) -> Option<T> {
        T::from_arg(&self.text.slice(token.at.clone())).ok()
    }

    /// Whether a word is the name of an address, and of which kind.
    fn named(&self, word: &str) -> Option<Kind> {
        let names = self.text.names()?;
        match names.ip_prefix(word) {
            Some(prefix) if prefix.length < 32 => Some(Kind::Net),
            Some(_) => Some(Kind::Host),
            None => names.ether(word).map(|_| Kind::EtherHost),
        }
    }

    /// `ip[6:2] & 0x1fff == 0` and its like.
    fn bytes(&mut self, word: &str) -> Result<Expr, Error> {
        let base = match word {
            "ip" => Base::Ip,
            "tcp" => Base::Protocol(ipv4::TCP),
            "udp" => Base::Protocol(ipv4::UDP),
            "icmp" => Base::Protocol(ipv4::ICMP),
            _ => Base::Transport,
        };
        self.next += 2;
        let place = self.take_word("offset")?;
        let (at, len) = place.text.split_once(':').unwrap_or((&place.text, "1"));
        let at = read_number(at, 65_535).map_err(|m| (format!("offset: {m}"), place.at.clone()))?;
        let len = read_number(len, 4).map_err(|m| (format!("length: {m}"), place.at.clone()))?;
        if len == 0 {
            return Err(("length: at least 1".to_owned(), place.at));
        }
        self.expect("]")?;
        let mask = if self.eat(&["&"]) { Some(self.number(u32::MAX, "mask")?) } else { None };
        let relation = self.relation().unwrap_or(Relation::Equal);
        let most = u32::MAX >> (32 - 8 * len);
        let value = self.number(most, "value")?;
        // Both were bounded just now.
        let field = Field::Bytes { base, at: at as u16, len: len as u8 };
        Ok(relate(field, mask, relation, value))
    }
}

fn is_address(kind: Kind) -> bool {
    matches!(kind, Kind::Host | Kind::Net)
}

fn read_number(text: &str, most: u32) -> Result<u32, String> {
    let number = unsigned(text, u64::from(most)).map_err(|e| e.message)?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

/// The value that a word has as this kind, if it is a number or a name.
fn plain_value(kind: Kind, word: &str) -> Option<u32> {
    let (named, most) = match kind {
        Kind::Host | Kind::Net | Kind::EtherHost => return None,
        Kind::TcpFlag => return names::tcp_flag(word),
        Kind::Port => (names::port(word), 65_535),
        Kind::Protocol => (names::protocol(word), 255),
        Kind::IcmpType => (names::icmp_type(word), 255),
        Kind::Number(_, most) => (None, most),
    };
    named.or_else(|| read_number(word, most).ok())
}
