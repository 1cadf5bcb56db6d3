//! Where `conf/ip6-router.click` differs from Linux, and why.

use std::net::{IpAddr, Ipv6Addr};

use lab::differential::{Difference, Foreseen};
use lab::output::Output;
use lab::packets::{TCP, UDP, checksum, pseudo_header};
use lab::packets6::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMP6, ROUTING};
use lab::topology::Link;
use lab::view::Frame;

use crate::outputs::{Error, is_forwarded, kinds, octet};

/// All of them; the first that matches counts.
pub const LIST: &[Foreseen] = &[
    Foreseen {
        name: "errors come from the address of the link by which the packet would have left",
        rfc: "RFC 4443 §2.2",
        why: "it says more; Linux takes that of the link by which the error leaves",
        matches: |d| {
            alike(d, |ours, theirs| ours.quote == theirs.quote && ours.rest == theirs.rest)
                && source_may_differ(d)
        },
    },
    Foreseen {
        name: "\"packet too big\" quotes the hop limit as forwarding has left it",
        rfc: "RFC 4443 §2.4 (c)",
        why: "it is one less when the size is looked at; Linux looks first",
        matches: |d| {
            kinds(d.theirs) == [(2, 0)]
                && alike(d, |ours, theirs| {
                    let mut quote = ours.quote.clone();
                    quote[7] = quote[7].wrapping_add(1);
                    quote == theirs.quote && ours.rest == theirs.rest
                })
                && source_may_differ(d)
        },
    },
    Foreseen {
        name: "no sources that are the router's own addresses",
        rfc: "RFC 2827 §3",
        why: "they are spoofed; Linux forwards them",
        matches: |d| d.ours.is_empty() && is_router(source(d)),
    },
    Foreseen {
        name: "nothing is forwarded from the unspecified address",
        rfc: "RFC 4291 §2.5.2",
        why: "Linux looks only when it leaves by another link",
        matches: |d| d.ours.is_empty() && source(d).is_unspecified(),
    },
    Foreseen {
        name: "nothing goes to the unspecified address",
        rfc: "RFC 4291 §2.5.2",
        why: "Linux tells the sender that there is no route, we say nothing",
        matches: |d| d.ours.is_empty() && destination(d).is_unspecified() && kinds(d.theirs) == [(1, 0)],
    },
    Foreseen {
        name: "neighbour solicitations and advertisements are not forwarded",
        rfc: "RFC 4861 §7.1",
        why: "they were for their link, and are valid only with hop limit 255; Linux forwards them",
        matches: |d| {
            d.ours.is_empty()
                && octet(d, NEXT_HEADER) == ICMP6
                && matches!(octet(d, BODY), 135 | 136)
                && !is_router(destination(d))
        },
    },
    Foreseen {
        name: "what comes by link-layer broadcast or multicast is not answered",
        rfc: "RFC 4443 §2.4 (e.4)",
        why: "Linux answers pings to its address however they come",
        matches: |d| d.ours.is_empty() && octet(d, 0) & 1 == 1 && !is_forwarded(d.theirs),
    },
    Foreseen {
        name: "echo requests to groups are not answered",
        rfc: "RFC 4443 §4.2",
        why: "this configuration is in no group but those of neighbour discovery; Linux answers for all routers",
        matches: |d| {
            d.ours.is_empty()
                && destination(d).is_multicast()
                && matches!(d.theirs, [Output::Own { protocol: ICMP6, .. }])
        },
    },
    Foreseen {
        name: "echo requests with a code are not answered",
        rfc: "RFC 4443 §4.1",
        why: "the code of a request is 0; Linux repeats whatever it is",
        matches: |d| {
            d.ours.is_empty()
                && message_type(d) == Some(128)
                && octet(d, BODY + 1) != 0
                && matches!(d.theirs, [Output::Own { protocol: ICMP6, .. }])
        },
    },
    Foreseen {
        name: "TCP to the router is not answered",
        rfc: "RFC 9293 §3.10.7.1",
        why: "this configuration has no TCP that could reset a connection",
        matches: |d| {
            d.ours.is_empty()
                && is_router(destination(d))
                && matches!(d.theirs, [Output::Own { protocol: TCP, .. }])
        },
    },
    Foreseen {
        name: "datagrams to the router with a wrong length or checksum are refused like all others",
        rfc: "RFC 8200 §8.1",
        why: "nobody listens, so nobody looks at them; Linux does",
        matches: |d| {
            is_router(destination(d)) && d.theirs.is_empty() && kinds(d.ours) == [(1, 4)] && !udp_is_sound(d)
        },
    },
    Foreseen {
        name: "extension headers of packets to the router are refused",
        rfc: "RFC 8200 §4",
        why: "this configuration reads no headers between IPv6 and the upper layer; Linux does",
        matches: |d| {
            is_router(destination(d)) && has_extension(d) && matches!(kinds(d.ours)[..], [] | [(4, 1)])
        },
    },
    Foreseen {
        name: "hop-by-hop options are not looked at on the way",
        rfc: "RFC 8200 §4",
        why: "only nodes that are set up for it do; Linux is",
        matches: |d| {
            octet(d, NEXT_HEADER) == HOP_BY_HOP && matches!(d.theirs, [] | [Output::Error { kind: 4, .. }])
        },
    },
    Foreseen {
        name: "errors are sent about packets whose headers end early, too",
        rfc: "RFC 4443 §2.4 (e)",
        why: "they are none of those that no error may be about; Linux looks for their upper layer, and sends none if there is none",
        matches: |d| {
            matches!(d.ours, [Output::Error { .. }])
                && d.theirs.is_empty()
                && has_extension(d)
                && upper_layer(d).is_none()
        },
    },
    Foreseen {
        name: "a hop-by-hop header that runs past the end of the packet is not forwarded",
        rfc: "RFC 8200 §4.3",
        why: "every node on the way may look at it; Linux forwards what has a payload length of 0",
        matches: |d| d.ours.is_empty() && octet(d, NEXT_HEADER) == HOP_BY_HOP && upper_layer(d).is_none(),
    },
    Foreseen {
        name: "options of packets to groups are not looked at",
        rfc: "RFC 8200 §4.2",
        why: "this configuration is in no group but those of neighbour discovery; Linux answers for all nodes",
        matches: |d| {
            d.ours.is_empty()
                && destination(d).is_multicast()
                && has_extension(d)
                && kinds(d.theirs) == [(4, 2)]
        },
    },
    Foreseen {
        name: "redirects are not answered with errors",
        rfc: "RFC 4443 §2.4 (e.2)",
        why: "a router must not; Linux does",
        matches: |d| {
            d.ours.is_empty() && message_type(d) == Some(137) && matches!(kinds(d.theirs)[..], [(1 | 3, _)])
        },
    },
    Foreseen {
        name: "nothing is forwarded from a link-local address, even on its link",
        rfc: "RFC 4291 §2.5.6",
        why: "Linux looks for a route first, and sends it back to the link with a redirect",
        matches: |d| {
            source(d).is_unicast_link_local()
                && (kinds(d.ours) == [(1, 2)] || d.ours.is_empty() && may_be_error(d))
                && (matches!(kinds(d.theirs)[..], [] | [(1..=3, _)]) || is_forwarded(d.theirs))
        },
    },
    Foreseen {
        name: "nothing is forwarded to a link-local address, even on its link",
        rfc: "RFC 4291 §2.5.6",
        why: "its sender can reach it; Linux sends a redirect",
        matches: |d| d.ours.is_empty() && destination(d).is_unicast_link_local(),
    },
];

/// Where the next header field of the IPv6 header is in a frame.
const NEXT_HEADER: usize = 14 + 6;
/// Where what follows the IPv6 header begins.
const BODY: usize = 14 + 40;

/// Whether both routers sent one ICMPv6 error, and the two compare as asked for.
fn alike(d: &Difference, compare: fn(&Error, &Error) -> bool) -> bool {
    Error::pair(d.ours, d.theirs).is_some_and(|(ours, theirs)| compare(&ours, &theirs))
}

/// Whether our error comes from a global address of the router, and is not about a packet that was sent to one of its
/// addresses: that would have to be the source.
fn source_may_differ(d: &Difference) -> bool {
    let [Output::Error { source, .. }] = d.ours else { return false };
    Link::all().iter().any(|link| IpAddr::from(link.router6()) == *source) && !is_router(destination(d))
}

/// Whether the first header behind that of IPv6 is an extension header.
fn has_extension(d: &Difference) -> bool {
    [HOP_BY_HOP, ROUTING, FRAGMENT, DESTINATION_OPTIONS].contains(&octet(d, NEXT_HEADER))
}

/// What follows the extension headers of the packet that was sent, and its number; `None` unless at most 16 of them,
/// hop-by-hop options only in front, lie within the packet. Behind the header of a later fragment is nothing.
fn upper_layer(d: &Difference) -> Option<(u8, Vec<u8>)> {
    let ip = Frame::parse(&d.sent.frame)?.ip6()?;
    let (mut next, mut rest) = (ip.next_header(), ip.payload());
    for number in 0.. {
        let length = match next {
            HOP_BY_HOP if number > 0 => return None,
            FRAGMENT => 8,
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 * (usize::from(*rest.get(1)?) + 1),
            _ => break,
        };
        let (header, behind) = rest.split_at_checked(length).filter(|_| number < 16)?;
        if next == FRAGMENT && (header[2] != 0 || header[3] >> 3 != 0) {
            return Some((header[0], Vec::new()));
        }
        (next, rest) = (header[0], behind);
    }
    Some((next, rest.to_vec()))
}

/// The type of the ICMPv6 message that was sent, if there is one.
fn message_type(d: &Difference) -> Option<u8> {
    let (number, message) = upper_layer(d)?;
    message.first().copied().filter(|_| number == ICMP6)
}

/// Whether the packet that was sent holds an ICMPv6 error or redirect, or a message that does not show what it is.
fn may_be_error(d: &Difference) -> bool {
    upper_layer(d).is_some_and(|(number, _)| number == ICMP6)
        && message_type(d).is_none_or(|kind| kind < 128 || kind == 137)
}

/// Whether the packet that was sent holds a UDP datagram of the right length with a right checksum.
fn udp_is_sound(d: &Difference) -> bool {
    let Some(ip) = Frame::parse(&d.sent.frame).and_then(|frame| frame.ip6()) else { return false };
    let body = ip.payload();
    let pseudo = pseudo_header(ip.source().into(), ip.destination().into(), UDP, body.len());
    body.len() >= 8
        && body[4..6] == (body.len() as u16).to_be_bytes()
        && body[6..8] != [0, 0]
        && checksum(&[&pseudo, body].concat()) == 0
}

/// The source address of the packet that was sent; unspecified if it is cut before that.
fn source(d: &Difference) -> Ipv6Addr {
    address(d, 14 + 8)
}

fn destination(d: &Difference) -> Ipv6Addr {
    address(d, 14 + 24)
}

fn address(d: &Difference, at: usize) -> Ipv6Addr {
    let octets = d.sent.frame.get(at..at + 16).and_then(|octets| <[u8; 16]>::try_from(octets).ok());
    octets.map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from)
}

fn is_router(address: Ipv6Addr) -> bool {
    Link::all().iter().any(|link| link.is_router6(address))
}
