//! Rules of policy routing (linux/fib_rules.h).

use super::message::{Rule, Selection};
use super::numbers::{AF_INET, AF_INET6};
use super::wire::{Attributes, u32_at};
use fib::Family;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `FIB_RULE_INVERT`: it is for all other packets.
const INVERT: u32 = 0x2;
/// `FR_ACT_TO_TBL`: look the packet up in a table.
const TO_TABLE: u8 = 1;
/// `FR_ACT_NOP`.
const NOTHING: u8 = 3;

/// `struct fib_rule_hdr`: family, lengths of destination and source, TOS, table, two reserved, action, flags.
pub(super) fn rule(body: &[u8]) -> Option<Rule> {
    let &[family, to_len, from_len, tos, table, _, _, action] = body.first_chunk()?;
    let family = match family {
        AF_INET => Family::Ipv4,
        AF_INET6 => Family::Ipv6,
        _ => return None,
    };
    let inverted = u32_at(body, 8)? & INVERT != 0;
    let (mut priority, mut table, mut to, mut input) = (0, u32::from(table), None, None);
    // What it selects by that we do not look at; what it does besides a lookup; whether forwarded packets can match at all.
    let (mut is_more, mut does_more, mut is_for_none) =
        (from_len != 0 || tos != 0 || inverted, action != TO_TABLE, action == NOTHING);
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    for (kind, value) in Attributes::new(body.get(12..)?) {
        match kind {
            // `FRA_DST`, `FRA_IIFNAME`, `FRA_PRIORITY`, `FRA_TABLE`.
            1 => to = super::decode::ip(value),
            3 => input = name(value),
            6 => priority = u32_at(value, 0)?,
            15 => table = u32_at(value, 0)?,
            // `FRA_OIFNAME` matches what programs send out of an interface, `FRA_L3MDEV` what is in a VRF.
            17 => is_for_none = true,
            19 => is_for_none |= value != [0],
            // `FRA_SUPPRESS_IFGROUP` and `FRA_SUPPRESS_PREFIXLEN`: -1 is "no".
            13 | 14 => does_more |= u32_at(value, 0)? != u32::MAX,
            // `FRA_FLOW`, `FRA_TUN_ID`, `FRA_FWMARK`, `FRA_FWMASK`: 0 is "any".
            10 | 11 | 12 | 16 => is_more |= value.iter().any(|byte| *byte != 0),
            // `FRA_PAD`, `FRA_PROTOCOL`: who made it.
            18 | 21 => {}
            // `FRA_SRC` is told by its length, too. Whatever else there is, and whatever comes: protocols, ports, users, ….
            _ => is_more = true,
        }
    }
    let wildcard = match family {
        Family::Ipv4 => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Family::Ipv6 => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let for_packets = match (input, to_len) {
        _ if is_for_none && !inverted => Selection::None,
        // What the machine sends itself.
        (Some(input), _) if !inverted && input.starts_with(b"lo\0") => Selection::None,
        _ if is_more => Selection::Some,
        (None, 0) => Selection::All,
        (None, len) => Selection::To(to.unwrap_or(wildcard), len),
        (Some(input), _) => Selection::From(input),
    };
    let table = (!does_more).then_some(table);
    Some(Rule { family, priority, for_packets, table, digest: hasher.finish() })
}

/// The name of an interface.
fn name(value: &[u8]) -> Option<[u8; 16]> {
    let mut name = [0; 16];
    let len = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    name.get_mut(..len.min(15))?.copy_from_slice(value.get(..len.min(15))?);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule for IPv4 with these lengths of destination and source, action and flags, and these attributes.
    fn said(header: [u8; 4], attributes: &[(u16, &[u8])]) -> Option<(Selection, Option<u32>)> {
        let [to, from, action, flags] = header;
        let mut body = vec![AF_INET, to, from, 0, 7, 0, 0, action];
        body.extend(u32::from(flags).to_ne_bytes());
        for (kind, value) in attributes {
            body.extend(u16::try_from(4 + value.len()).unwrap().to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend_from_slice(value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        rule(&body).map(|rule| (rule.for_packets, rule.table))
    }

    #[test]
    fn which_packets_a_rule_is_for() {
        let (seven, to) = (Some(7), IpAddr::from(Ipv4Addr::new(10, 8, 0, 0)));
        let none = u32::MAX.to_ne_bytes();
        assert_eq!(said([0, 0, 1, 0], &[(14, &none)]), Some((Selection::All, seven)));
        assert_eq!(said([13, 0, 1, 0], &[(1, &[10, 8, 0, 0])]), Some((Selection::To(to, 13), seven)));
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth1");
        assert_eq!(said([0, 0, 1, 0], &[(3, b"eth1\0")]), Some((Selection::From(name), seven)));
        // Of what programs send, of the machine itself, of VRFs.
        for attribute in [(17, &b"eth1\0"[..]), (3, b"lo\0"), (19, &[1])] {
            assert_eq!(said([0, 0, 1, 0], &[attribute]), Some((Selection::None, seven)));
        }
        // By source, mark, protocol; of all others; by what is not known.
        for (header, attribute) in [
            ([0, 24, 1, 0], (2, &[10, 1, 0, 0][..])),
            ([0, 0, 1, 0], (10, &[1, 0, 0, 0])),
            ([0, 0, 1, 0], (22, &[1])),
            ([13, 0, 1, 2], (1, &[10, 8, 0, 0])),
            ([0, 0, 1, 0], (99, &[0])),
        ] {
            assert_eq!(
                said(header, &[attribute]),
                Some((Selection::Some, seven)),
                "{header:?} {attribute:?}"
            );
        }
    }

    #[test]
    fn which_table_a_rule_names() {
        let table = 1000_u32.to_ne_bytes();
        assert_eq!(said([0, 0, 1, 0], &[(15, &table)]), Some((Selection::All, Some(1000))));
        // It goes on with main's routes but the default one; it refuses.
        assert_eq!(said([0, 0, 1, 0], &[(14, &0_u32.to_ne_bytes())]), Some((Selection::All, None)));
        assert_eq!(said([0, 0, 7, 0], &[]), Some((Selection::All, None)));
        // It does nothing.
        assert_eq!(said([0, 0, 3, 0], &[]), Some((Selection::None, None)));
        assert_eq!(rule(&[AF_INET, 0]), None);
    }
}
