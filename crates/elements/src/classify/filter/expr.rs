//! What a pattern says, as tests of header fields joined by and, or and not.

use super::view::View;
use std::fmt;

/// Where bytes are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// The IP header.
    Ip,
    /// The header behind the IP header, of a packet that is no later fragment.
    Transport,
    /// The same, of this protocol only.
    Protocol(u8),
}

/// A number in a packet. A packet that has no such number fails every test of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// IP version; of any packet that begins with one.
    Version,
    /// IPv4 header length, in words of 4 bytes.
    HeaderLen,
    /// Type of service.
    Tos,
    /// Differentiated services code point.
    Dscp,
    /// Total length.
    TotalLen,
    /// Identification.
    Id,
    /// Flags and fragment offset.
    Fragment,
    /// Time to live.
    Ttl,
    /// Protocol.
    Protocol,
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Source port of TCP and UDP, not of later fragments.
    SourcePort,
    /// Destination port of TCP and UDP, not of later fragments.
    DestinationPort,
    /// TCP flags.
    TcpFlags,
    /// TCP window.
    TcpWindow,
    /// ICMP type.
    IcmpType,
    /// Upper 2 bytes of the source MAC address.
    EtherSourceHigh,
    /// Lower 4 bytes of the source MAC address.
    EtherSourceLow,
    /// Upper 2 bytes of the destination MAC address.
    EtherDestinationHigh,
    /// Lower 4 bytes of the destination MAC address.
    EtherDestinationLow,
    /// `len` bytes (1 to 4) at `at` from a base, most significant first.
    Bytes {
        /// Counted from here.
        base: Base,
        /// Offset of the first byte.
        at: u16,
        /// Number of bytes.
        len: u8,
    },
}

/// How a number is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// The number is there.
    Any,
    /// It equals the value.
    Equal,
    /// It is larger than the value.
    Greater,
}

/// A test of one number: the bits under `mask`, compared with `value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The number.
    pub field: Field,
    /// The bits of it that count.
    pub mask: u32,
    /// How it is compared.
    pub op: Op,
    /// With what.
    pub value: u32,
}

impl Test {
    /// The field equals the value.
    pub fn equal(field: Field, value: u32) -> Test {
        Test { field, mask: u32::MAX, op: Op::Equal, value }
    }

    /// The packet has the field.
    pub fn any(field: Field) -> Test {
        Test { field, mask: u32::MAX, op: Op::Any, value: 0 }
    }

    /// True if the packet passes.
    #[inline]
    pub fn holds(&self, view: &View<'_>) -> bool {
        match view.load(self.field) {
            None => false,
            Some(number) => match self.op {
                Op::Any => true,
                Op::Equal => number & self.mask == self.value,
                Op::Greater => number & self.mask > self.value,
            },
        }
    }

    /// What is known of `other` for packets for which this test came out as `outcome`.
    pub fn implies(&self, outcome: bool, other: &Test) -> Option<bool> {
        if self.field != other.field {
            return None;
        }
        if !outcome {
            // If `other` held, so would this.
            return (other.implies(true, self) == Some(true)).then_some(false);
        }
        if other.op == Op::Any {
            return Some(true);
        }
        let same = self.mask == other.mask;
        match (self.op, other.op) {
            (Op::Equal, Op::Equal) if other.mask & !self.mask == 0 => {
                Some(self.value & other.mask == other.value)
            }
            (Op::Equal, Op::Greater) if other.mask & !self.mask == 0 => {
                Some(self.value & other.mask > other.value)
            }
            (Op::Equal, Op::Equal) if self.value & other.mask != other.value & self.mask => Some(false),
            (Op::Greater, Op::Greater) if same && other.value <= self.value => Some(true),
            (Op::Greater, Op::Equal) if same && other.value <= self.value => Some(false),
            _ => None,
        }
    }
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// All packets, or none.
    Constant(bool),
    /// Packets that pass a test.
    Test(Test),
    /// Packets that do not match.
    Not(Box<Expr>),
    /// Packets that match both.
    And(Box<Expr>, Box<Expr>),
    /// Packets that match one or both.
    Or(Box<Expr>, Box<Expr>),
    /// The second for packets that match the first, else the third.
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

impl Expr {
    /// Both.
    #[must_use]
    pub fn and(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Constant(false), _) | (_, Expr::Constant(false)) => Expr::Constant(false),
            (Expr::Constant(true), e) | (e, Expr::Constant(true)) => e,
            (a, b) => Expr::And(Box::new(a), Box::new(b)),
        }
    }

    /// One or both.
    #[must_use]
    pub fn or(self, other: Expr) -> Expr {
        match (self, other) {
            (Expr::Constant(true), _) | (_, Expr::Constant(true)) => Expr::Constant(true),
            (Expr::Constant(false), e) | (e, Expr::Constant(false)) => e,
            (a, b) => Expr::Or(Box::new(a), Box::new(b)),
        }
    }

    /// The opposite.
    #[must_use]
    pub fn negated(self) -> Expr {
        match self {
            Expr::Constant(b) => Expr::Constant(!b),
            Expr::Not(e) => *e,
            e => Expr::Not(Box::new(e)),
        }
    }

    /// `yes` for packets that match this, else `no`.
    #[must_use]
    pub fn choose(self, yes: Expr, no: Expr) -> Expr {
        match self {
            Expr::Constant(true) => yes,
            Expr::Constant(false) => no,
            e => Expr::If(Box::new(e), Box::new(yes), Box::new(no)),
        }
    }

    /// Evaluates the pattern as it stands. The program does the same faster; tests compare them.
    pub fn matches(&self, view: &View<'_>) -> bool {
        match self {
            Expr::Constant(b) => *b,
            Expr::Test(t) => t.holds(view),
            Expr::Not(e) => !e.matches(view),
            Expr::And(a, b) => a.matches(view) && b.matches(view),
            Expr::Or(a, b) => a.matches(view) || b.matches(view),
            Expr::If(c, a, b) => {
                if c.matches(view) {
                    a.matches(view)
                } else {
                    b.matches(view)
                }
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Field::Version => "ip vers",
            Field::HeaderLen => "ip hl",
            Field::Tos => "ip tos",
            Field::Dscp => "ip dscp",
            Field::TotalLen => "ip len",
            Field::Id => "ip id",
            Field::Fragment => "ip[6:2]",
            Field::Ttl => "ip ttl",
            Field::Protocol => "ip proto",
            Field::Source => "src host",
            Field::Destination => "dst host",
            Field::SourcePort => "src port",
            Field::DestinationPort => "dst port",
            Field::TcpFlags => "tcp[13]",
            Field::TcpWindow => "tcp win",
            Field::IcmpType => "icmp type",
            Field::EtherSourceHigh => "ether[6:2]",
            Field::EtherSourceLow => "ether[8:4]",
            Field::EtherDestinationHigh => "ether[0:2]",
            Field::EtherDestinationLow => "ether[2:4]",
            Field::Bytes { base, at, len } => {
                return match base {
                    Base::Ip => write!(f, "ip[{at}:{len}]"),
                    Base::Transport => write!(f, "transp[{at}:{len}]"),
                    Base::Protocol(p) => write!(f, "proto {p} transp[{at}:{len}]"),
                };
            }
        };
        f.write_str(name)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.field)?;
        if self.op == Op::Any {
            return f.write_str(" present");
        }
        if self.mask != u32::MAX {
            write!(f, " & {:#x}", self.mask)?;
        }
        let op = if self.op == Op::Equal { "==" } else { ">" };
        match self.field {
            Field::Source | Field::Destination => {
                write!(f, " {op} {}", std::net::Ipv4Addr::from_bits(self.value))
            }
            _ => write!(f, " {op} {}", self.value),
        }
    }
}
