//! Where `conf/ip-router.click` differs from Linux, and why.

use std::net::Ipv4Addr;

use lab::differential::{Difference, Foreseen};
use lab::output::{Output, timestamp_options};
use lab::packets::{TCP, UDP, checksum};
use lab::topology::Link;
use lab::view::{Frame, Packet};

use crate::outputs::{Error, NO_ADDRESS, is_forwarded, kinds, octet};

/// All of them; the first that matches counts. Redirects are left aside in all but the first.
pub const LIST: &[Foreseen] = &[
    Foreseen {
        name: "a neighbour is told of a better way",
        rfc: "RFC 1812 §5.2.7.2",
        why: "the reference must not send redirects: Linux limits their rate for the whole machine",
        matches: |d| d.ours != without_redirects(d) && without_redirects(d) == d.theirs,
    },
    Foreseen {
        name: "errors come from the address of the link by which they leave",
        rfc: "RFC 1812 §4.3.2.4",
        why: "Linux takes the address to which the packet was sent",
        matches: |d| {
            is_router(destination(d))
                && alike(d, |ours, theirs| {
                    let leaves_by = Link { port: ours.port }.router();
                    ours.source == leaves_by && ours.without_source() == theirs.without_source()
                })
        },
    },
    Foreseen {
        name: "an error quotes the header as forwarding has left it",
        rfc: "RFC 1812 §4.3.2.3",
        why: "TTL, options and checksum have been changed when the error is found; Linux looks in another order",
        matches: |d| alike(d, |ours, theirs| ours.without_changes() == theirs.without_changes()),
    },
    Foreseen {
        name: "an error has no options",
        rfc: "RFC 1812 §4.3.2.6",
        why: "Linux repeats record route and timestamp options in it, which leaves less room for the quote",
        matches: |d| {
            has_option(d, &[7, 68])
                && alike(d, |ours, theirs| ours.rest == theirs.rest && ours.quotes_as(theirs))
        },
    },
    Foreseen {
        name: "no sources that are no host's",
        rfc: "RFC 1812 §5.3.7",
        why: "Linux forwards from 0.0.0.0/8 and 240.0.0.0/4",
        matches: |d| d.ours.is_empty() && (source(d).octets()[0] == 0 || source(d).octets()[0] >= 240),
    },
    Foreseen {
        name: "no sources that are broadcast addresses of a link",
        rfc: "RFC 1812 §4.2.2.11",
        why: "Linux looks only at the link by which the packet came, and that only with rp_filter",
        matches: |d| d.ours.is_empty() && is_broadcast(source(d)),
    },
    Foreseen {
        name: "no destinations on no network",
        rfc: "RFC 1812 §5.3.7",
        why: "Linux tells the sender that 0.0.0.0/8 is unreachable, we say nothing",
        matches: |d| d.ours.is_empty() && destination(d).octets()[0] == 0,
    },
    Foreseen {
        name: "TCP to the router is not answered",
        rfc: "RFC 9293 §3.10.7.1",
        why: "this configuration has no TCP that could reset a connection",
        matches: |d| d.ours.is_empty() && matches!(d.theirs, [Output::Own { protocol: TCP, .. }]),
    },
    Foreseen {
        name: "what comes by link-layer broadcast is not answered",
        rfc: "RFC 1122 §3.3.6",
        why: "Linux answers pings to its address however they come",
        matches: |d| d.ours.is_empty() && is_router(destination(d)) && octet(d, 0) & 1 == 1,
    },
    Foreseen {
        name: "datagrams to the router with a wrong length or checksum are refused like all others",
        rfc: "RFC 1122 §4.1.3.4",
        why: "nobody listens, so nobody looks at them; Linux does",
        matches: |d| {
            is_router(destination(d)) && d.theirs.is_empty() && errors(d) == [(3, 3)] && !udp_is_sound(d)
        },
    },
    Foreseen {
        name: "a source route is looked at when a packet is forwarded",
        rfc: "RFC 7126 §4.3, §4.4",
        why: "Linux looks before it knows whether there is a route, or whether the packet is for itself",
        matches: |d| has_option(d, &[131, 137]) && d.theirs.is_empty() && !is_forwarded(d.ours),
    },
    Foreseen {
        name: "a malformed option is looked at when a packet is forwarded",
        rfc: "RFC 1812 §5.2.1.2",
        why: "Linux looks before it knows whether there is a route, or whether the packet is for itself",
        matches: |d| {
            has_options(d)
                && matches!(d.theirs, [Output::Error { kind: 12, .. }])
                && (errors(d) == [(3, 0)] || is_router(destination(d)))
        },
    },
    Foreseen {
        name: "a fragment that ends behind the longest packet is not cut",
        rfc: "RFC 791 §3.2",
        why: "no offset can say where its pieces belong; Linux lets the field overflow",
        matches: |d| {
            let end = (usize::from(octet(d, 20) & 0x1f) << 8 | usize::from(octet(d, 21))) * 8
                + d.sent.frame.len()
                - 34;
            without_redirects(d).is_empty() && d.theirs.len() > 1 && end > 65_535
        },
    },
    Foreseen {
        name: "options that are not copied are left out of later fragments",
        rfc: "RFC 791 §3.2",
        why: "Linux keeps their room, filled with no-operation options",
        matches: |d| {
            let ours = without_redirects(d);
            (has_options(d) || octet(d, 20) & 0x80 != 0)
                && d.theirs.len() > 1
                && reassembled(&ours).is_some_and(|ours| Some(ours) == reassembled(d.theirs))
        },
    },
    Foreseen {
        name: "a timestamp has the address of the link by which the packet leaves",
        rfc: "RFC 1812 §4.2.2.2",
        why: "Linux takes the one of the link by which it came",
        matches: |d| {
            let blanked = |outputs: &[Output]| outputs.iter().map(without_own_addresses).collect::<Vec<_>>();
            has_option(d, &[68]) && blanked(&without_redirects(d)) == blanked(d.theirs)
        },
    },
    Foreseen {
        name: "a full timestamp option counts who had no room",
        rfc: "RFC 791 §3.1",
        why: "Linux does not count when the addresses are given in advance",
        matches: |d| {
            let blanked = |outputs: &[Output]| outputs.iter().map(without_overflow).collect::<Vec<_>>();
            has_option(d, &[68]) && blanked(&without_redirects(d)) == blanked(d.theirs)
        },
    },
    Foreseen {
        name: "a timestamp option whose count is full is an error",
        rfc: "RFC 791 §3.1",
        why: "Linux does not count when the addresses are given in advance",
        matches: |d| {
            has_option(d, &[0xf3]) && !d.theirs.is_empty() && matches!(errors(d)[..], [] | [(12, 0)])
        },
    },
    Foreseen {
        name: "errors are sent whatever the options",
        rfc: "RFC 1812 §4.3.2.7",
        why: "Linux must repeat them in its answer, and sends none if it cannot: their pointers are odd",
        matches: |d| {
            has_option(d, &[7, 68])
                && d.sent.notes.contains(&"malformed option")
                && d.theirs.is_empty()
                && !is_forwarded(d.ours)
        },
    },
];

impl Error {
    /// Without what forwarding changes in a header: TTL, checksum, options.
    fn without_changes(&self) -> Error {
        let mut error = self.clone();
        let header = error.quote.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
        for place in [8, 10, 11].into_iter().chain(20..header.max(20)) {
            if let Some(octet) = error.quote.get_mut(place) {
                *octet = 0;
            }
        }
        error
    }

    /// Whether both quote the same, as far as both do. Linux repeats record route and timestamp options in the header of
    /// its errors, which leaves less room.
    fn quotes_as(&self, other: &Error) -> bool {
        let (ours, theirs) = (self.without_changes(), other.without_changes());
        let common = ours.quote.len().min(theirs.quote.len());
        common >= 28 && ours.quote[..common] == theirs.quote[..common]
    }

    /// Without its source and what forwarding changes.
    fn without_source(&self) -> Error {
        Error { source: NO_ADDRESS, ..self.without_changes() }
    }
}

/// Whether both routers sent one ICMP error, and the two compare as asked for.
fn alike(d: &Difference, compare: fn(&Error, &Error) -> bool) -> bool {
    Error::pair(&without_redirects(d), d.theirs).is_some_and(|(ours, theirs)| compare(&ours, &theirs))
}

/// What our router sent but for right redirects: to a neighbour that sent the packet, by the port by which it came, to
/// another neighbour there.
fn without_redirects(d: &Difference) -> Vec<Output> {
    let near = |address: Ipv4Addr| address.octets()[..3] == Link { port: d.sent.port }.router().octets()[..3];
    let is_redirect = |output: &&Output| match output {
        Output::Error { port, destination, kind: 5, code: 1, rest, .. } => {
            *port == d.sent.port
                && *destination == source(d)
                && near(source(d))
                && near(Ipv4Addr::from(*rest))
        }
        _ => false,
    };
    d.ours.iter().filter(|output| !is_redirect(output)).cloned().collect()
}

/// [`kinds`] of what our router sent, redirects left aside.
fn errors(d: &Difference) -> Vec<(u8, u8)> {
    kinds(&without_redirects(d))
}

fn has_options(d: &Difference) -> bool {
    octet(d, 14) & 0x0f > 5
}

/// Whether one of these option types is among the octets where options are: good enough to tell sorts of packets.
fn has_option(d: &Difference, kinds: &[u8]) -> bool {
    let end = 14 + usize::from(octet(d, 14) & 0x0f) * 4;
    d.sent.frame.get(34..end).is_some_and(|options| options.iter().any(|octet| kinds.contains(octet)))
}

/// Whether the packet that was sent holds a UDP datagram of the right length with a right checksum.
fn udp_is_sound(d: &Difference) -> bool {
    let Some(ip) = Frame::parse(&d.sent.frame).and_then(|frame| frame.ip()) else { return false };
    let (body, addresses) = (ip.payload(), [ip.source().octets(), ip.destination().octets()].concat());
    let length = (body.len() as u16).to_be_bytes();
    let pseudo = [&addresses[..], &[0, UDP], &length, body].concat();
    body.len() >= 8 && body[4..6] == length && checksum(&pseudo) == 0
}

/// What the pieces add up to: way, addresses, TTL, protocol, identification, and payload; `None` if one is missing.
fn reassembled(outputs: &[Output]) -> Option<(usize, Vec<u8>, Vec<u8>)> {
    let mut pieces = Vec::new();
    for output in outputs {
        let Output::Forwarded { port, packet, .. } = output else { return None };
        let ip = Packet::parse(packet)?;
        let same = [&packet[1..2], &packet[4..6], &packet[8..10], &packet[12..20]].concat();
        pieces.push((ip.offset(), *port, same, ip.payload().to_vec()));
    }
    pieces.sort();
    let (start, port, same, _) = pieces.first()?.clone();
    let mut payload = Vec::new();
    for piece in pieces {
        if piece.0 != start + payload.len() || piece.1 != port || piece.2 != same {
            return None;
        }
        payload.extend(piece.3);
    }
    Some((port, same, payload))
}

/// The output with the counts of its timestamp options set to 0.
fn without_overflow(output: &Output) -> Output {
    with_timestamps(output, |option| option[3] &= 0x0f)
}

/// The output with the router's own addresses in its timestamp options set to 0.
fn without_own_addresses(output: &Output) -> Output {
    with_timestamps(output, |option| {
        let entries = option[4..].chunks_exact_mut(8).map(|entry| &mut entry[..4]);
        for address in entries {
            if Link::all().iter().any(|link| link.router().octets() == *address) {
                address.fill(0);
            }
        }
    })
}

/// The output with every timestamp option of the packet that is sent on changed.
fn with_timestamps(output: &Output, change: fn(&mut [u8])) -> Output {
    let mut output = output.clone();
    let Output::Forwarded { packet: bytes, .. } = &mut output else { return output };
    for option in timestamp_options(bytes) {
        change(&mut bytes[option]);
    }
    output
}

/// The source address of the packet that was sent; unspecified if it is cut before that.
fn source(d: &Difference) -> Ipv4Addr {
    address(d, 26)
}

fn destination(d: &Difference) -> Ipv4Addr {
    address(d, 30)
}

fn address(d: &Difference, at: usize) -> Ipv4Addr {
    let octets = d.sent.frame.get(at..at + 4).and_then(|octets| <[u8; 4]>::try_from(octets).ok());
    octets.map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
}

fn is_router(address: Ipv4Addr) -> bool {
    Link::all().iter().any(|link| link.router() == address)
}

fn is_broadcast(address: Ipv4Addr) -> bool {
    Link::all().iter().any(|link| Ipv4Addr::from(u32::from(link.router()) | 0xff) == address)
}
