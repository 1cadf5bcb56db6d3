//! Relations of a packet's numbers with values, as expressions.

use super::expr::{Expr, Field, Op, Test};
use super::names;
use packet::wire::ipv4;

/// Which of the two ends a primitive is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Source,
    Destination,
    Either,
    Both,
}

/// How a number is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    Greater,
    AtMost,
    AtLeast,
}

impl Relation {
    /// What to ask of each side: `!=` is asked of both together.
    pub fn for_one_side(self) -> Relation {
        if self == Relation::NotEqual { Relation::Equal } else { self }
    }
}

/// Packets of a protocol, or of TCP and UDP for [`names::TCP_UDP`].
pub fn protocol_is(protocol: u32) -> Expr {
    protocol_relation(None, Relation::Equal, protocol)
}

/// Packets whose protocol has this relation to a value.
pub fn protocol_relation(mask: Option<u32>, relation: Relation, value: u32) -> Expr {
    if value != names::TCP_UDP {
        return relate(Field::Protocol, mask, relation, value);
    }
    let is = |p: u8| Expr::Test(Test::equal(Field::Protocol, u32::from(p)));
    directless(relation, is(ipv4::TCP).or(is(ipv4::UDP)), Field::Protocol)
}

/// Packets whose MAC address in these two fields is this one.
pub fn mac_is((high, low): (Field, Field), mac: [u8; 6]) -> Expr {
    let [a, b, c, d, e, f] = mac;
    let upper = Test::equal(high, u32::from(u16::from_be_bytes([a, b])));
    Expr::Test(upper).and(Expr::Test(Test::equal(low, u32::from_be_bytes([c, d, e, f]))))
}

/// A relation of one number with a value. Whatever the relation, the packet must have the number.
pub fn relate(field: Field, mask: Option<u32>, relation: Relation, value: u32) -> Expr {
    let mask = mask.unwrap_or(u32::MAX);
    let test = |op, value| Expr::Test(Test { field, mask, op, value });
    let present = || Expr::Test(Test::any(field));
    let at_least = |value: u32| match value.checked_sub(1) {
        Some(less) => test(Op::Greater, less),
        None => present(),
    };
    match relation {
        Relation::Equal => test(Op::Equal, value),
        Relation::NotEqual => present().and(test(Op::Equal, value).negated()),
        Relation::Greater => test(Op::Greater, value),
        Relation::AtLeast => at_least(value),
        Relation::Less if value == 0 => Expr::Constant(false),
        Relation::Less => present().and(at_least(value).negated()),
        Relation::AtMost => present().and(test(Op::Greater, value).negated()),
    }
}

/// `!=` of something that has no direction; other relations are in `expr` already.
pub fn directless(relation: Relation, expr: Expr, field: Field) -> Expr {
    match relation {
        Relation::NotEqual => Expr::Test(Test::any(field)).and(expr.negated()),
        _ => expr,
    }
}

/// Joins what is asked of source and destination. `!=` holds if the equality does not, for packets that have the field.
pub fn direct(direction: Direction, relation: Relation, sides: [(Expr, Field); 2]) -> Expr {
    let [(source, field), (destination, other)] = sides;
    let (expr, field) = match direction {
        Direction::Source => (source, field),
        Direction::Destination => (destination, other),
        Direction::Either => (source.or(destination), field),
        Direction::Both => (source.and(destination), field),
    };
    directless(relation, expr, field)
}
