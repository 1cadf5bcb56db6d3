//! `ICMP6PingResponder`: turns ICMPv6 echo requests into their replies (RFC 4443 §4.2).
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input; replies leave by output 0, push or pull. What is not a sound echo request leaves by push output 1 if that
//! is connected: other protocols, packets with extension headers, requests with a wrong checksum, and requests to or from
//! addresses that are not one node's. Packets must have a network header mark. The destination annotation is cleared, so
//! that the reply goes to its destination. Replies have hop limit 64 and flow label 0, and the request's code, whatever that
//! is, as Linux's replies do.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | requests answered |
//!
//! # Losses
//! - `not_a_ping`: the packet is not a sound echo request.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00083a40 20010db8000000000000000000000001 20010db8000000000000000000000002 8000 2446 0001 0001>, LIMIT 4)
//!   -> CheckIP6Header -> r :: ICMP6PingResponder -> rt :: LookupIP6Route(2001:db8::1 0);
//! rt -> back :: Counter -> Discard;
//! // r.count = 4
//! // back.count = 4
//! ```

use super::addresses::clear_destination;
use super::ip6_mirror;
use epoch::{Count, PerWorker};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::checksum;
use packet::wire::icmp6::{self, ECHO, ECHO_REPLY};
use packet::wire::ipv6::{self, HEADER_LEN, Ipv6};
use packet::{Batch, Packet};
use std::sync::Arc;

const NOT_A_PING: Loss = Loss(0);
const HOP_LIMIT: u8 = 64;

/// See the module.
#[derive(Debug)]
pub struct ICMP6PingResponder {
    answered: PerWorker<Count>,
}

/// One worker's part of [`ICMP6PingResponder`].
#[derive(Debug)]
pub struct LocalICMP6PingResponder {
    shared: Arc<ICMP6PingResponder>,
    worker: usize,
}

impl Class for ICMP6PingResponder {
    const SPEC: Spec = Spec { losses: &["not_a_ping"], ..Spec::new("ICMP6PingResponder", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalICMP6PingResponder>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ICMP6PingResponder, ConfigErrors> {
        args.finish()?;
        Ok(ICMP6PingResponder { answered: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalICMP6PingResponder { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<ICMP6PingResponder>) {
        h.read("count", |r| r.answered.sum(Count::get).to_string());
    }
}

/// True for a sound echo request to and from single nodes.
fn is_request(bytes: &[u8]) -> bool {
    let Some(ip) = Ipv6::check(bytes) else { return false };
    let (source, destination, message) = (ip.source(), ip.destination(), ip.payload());
    let is_node = |address: u128| address != 0 && !ipv6::is_multicast(address);
    ip.next_header() == ipv6::ICMP
        && is_node(source)
        && is_node(destination)
        && message.len() >= icmp6::HEADER_LEN
        && message.first() == Some(&ECHO)
        && icmp6::checksum_is_valid(source, destination, message)
}

/// Turns a request into its reply; false, and nothing changed, if it is none.
pub(super) fn answer(packet: &mut Packet) -> bool {
    if !packet.network().is_some_and(is_request) {
        return false;
    }
    let message = packet.network_mut().and_then(|bytes| bytes.split_first_chunk_mut::<HEADER_LEN>());
    let Some((head, message)) = message else { return false };
    ip6_mirror::swap(head);
    (head[1], head[2], head[3], head[7]) = (head[1] & 0xf0, 0, 0, HOP_LIMIT);
    let code = message[1];
    message[0] = ECHO_REPLY;
    let old = u16::from_be_bytes([message[2], message[3]]);
    let new = checksum::update(old, u16::from_be_bytes([ECHO, code]), u16::from_be_bytes([ECHO_REPLY, code]));
    message[2..4].copy_from_slice(&new.to_be_bytes());
    packet.set_next_hop(0);
    clear_destination(packet);
    true
}

impl Simple for LocalICMP6PingResponder {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(answer, |packet| out.reject(1, packet, NOT_A_PING));
        self.shared.answered[self.worker].add(batch.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;
    use packet::wire::ipv6::Header;

    const FROM: u128 = 0x2001 << 112 | 1;
    const TO: u128 = 0x2001 << 112 | 2;

    fn ping(change: impl Fn(&mut Header, &mut [u8])) -> Packet {
        let mut message = *b"\x80\0\0\0\0\x07\0\x01abc";
        let mut header = Header {
            traffic_class: 0xb8,
            flow_label: 0x54321,
            payload_len: 11,
            next_header: ipv6::ICMP,
            hop_limit: 3,
            source: FROM,
            destination: TO,
        };
        icmp6::set_checksum(FROM, TO, &mut message);
        change(&mut header, &mut message);
        let mut packet =
            Pool::heap(4, 512).packet(&[b"MACX", &header.bytes()[..], &message].concat()).unwrap();
        packet.set_mac_offset(0);
        packet.set_network_offset(4);
        packet
    }

    #[test]
    fn replies_byte_by_byte() {
        let want = Header {
            traffic_class: 0xb8,
            flow_label: 0,
            payload_len: 11,
            next_header: ipv6::ICMP,
            hop_limit: 64,
            source: TO,
            destination: FROM,
        };
        for code in [0, 1, 255] {
            let mut p = ping(|_, m| {
                m[1] = code;
                icmp6::set_checksum(FROM, TO, m);
            });
            assert!(answer(&mut p));
            assert_eq!(p.data()[..44], [b"MACX", &want.bytes()[..]].concat());
            assert_eq!((&p.data()[44..46], &p.data()[48..]), (&[129, code][..], &b"\0\x07\0\x01abc"[..]));
            assert!(icmp6::checksum_is_valid(TO, FROM, &p.data()[44..]));
            p.free();
        }
    }

    #[test]
    fn others_are_left_alone() {
        let changes: [fn(&mut Header, &mut [u8]); 7] = [
            |h, _| h.next_header = 17,
            |h, _| h.payload_len = 12,
            |h, _| h.source = 0,
            |h, _| h.source = 0xff02 << 112,
            |h, m| {
                h.destination = 0xff02 << 112 | 1;
                icmp6::set_checksum(FROM, 0xff02 << 112 | 1, m);
            },
            |_, m| m[4] = 9,
            |_, m| {
                m[0] = ECHO_REPLY;
                icmp6::set_checksum(FROM, TO, m);
            },
        ];
        for change in changes {
            let mut p = ping(change);
            let before = p.data().to_vec();
            assert!(!answer(&mut p));
            assert_eq!(p.data(), before);
            p.free();
        }
    }
}
