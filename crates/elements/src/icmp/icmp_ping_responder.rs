//! `ICMPPingResponder`: turns ICMP echo requests into their replies.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input; replies leave by output 0, push or pull. What is not a sound echo request leaves by push output 1 if that
//! is connected: other protocols, fragments, requests with a wrong checksum, and requests to or from addresses that are
//! not one host's. Packets must have a network header mark. The destination annotation is set to the reply's.
//! Options of the request are not in the reply; its TTL is 255. It has the request's code, whatever that is, as Linux's replies do.
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
//! InfiniteSource(DATA \<4500001c 00000000 40010000 0a000001 0b000002 0800f7fd 00010001>, LIMIT 4)
//!   -> MarkIPHeader -> r :: ICMPPingResponder -> rt :: StaticIPLookup(10.0.0.0/8 0);
//! rt -> back :: Counter -> Discard;
//! // r.count = 4
//! // back.count = 4
//! ```

use epoch::{Count, PerWorker};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::checksum;
use packet::wire::icmp::{self, ECHO, ECHO_REPLY};
use packet::wire::ipv4::{self, Ipv4, MIN_HEADER_LEN};
use packet::{Batch, Packet};
use std::sync::Arc;

const NOT_A_PING: Loss = Loss(0);
const TTL: u8 = 255;

/// See the module.
#[derive(Debug)]
pub struct ICMPPingResponder {
    answered: PerWorker<Count>,
}

/// One worker's part of [`ICMPPingResponder`].
#[derive(Debug)]
pub struct LocalICMPPingResponder {
    shared: Arc<ICMPPingResponder>,
    worker: usize,
}

impl Class for ICMPPingResponder {
    const SPEC: Spec = Spec { losses: &["not_a_ping"], ..Spec::new("ICMPPingResponder", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalICMPPingResponder>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ICMPPingResponder, ConfigErrors> {
        args.finish()?;
        Ok(ICMPPingResponder { answered: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalICMPPingResponder { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<ICMPPingResponder>) {
        h.read("count", |r| r.answered.sum(Count::get).to_string());
    }
}

/// Length of the IP header of a sound echo request to and from single hosts.
fn request(bytes: &[u8]) -> Option<usize> {
    let ip = Ipv4::check(bytes)?;
    let is_host = |address: u32| !matches!(address >> 24, 0 | 224..);
    let message = ip.payload();
    let sound = ip.protocol() == ipv4::ICMP
        && !ip.is_fragment()
        && is_host(ip.source())
        && is_host(ip.destination())
        && message.len() >= icmp::HEADER_LEN
        && message.first() == Some(&ECHO)
        && checksum::is_valid(message);
    sound.then(|| ip.header_len())
}

/// Turns a request into its reply; false, and nothing changed, if it is none.
pub(super) fn answer(packet: &mut Packet) -> bool {
    let Some(offset) = packet.network_offset() else { return false };
    let Some(header_len) = packet.network().and_then(request) else { return false };
    let mac = packet.mac_offset();
    let options = header_len - MIN_HEADER_LEN;
    if options > 0 {
        packet.data_mut().copy_within(..offset + MIN_HEADER_LEN, options);
        packet.pull(options);
        packet.set_network_offset(offset);
        packet.set_transport_offset(offset + MIN_HEADER_LEN);
        mac.into_iter().for_each(|mac| packet.set_mac_offset(mac));
    }
    let Some(bytes) = packet.network_mut() else { return false };
    // `request` has seen header and message whole.
    let (header, message) = bytes.split_at_mut(MIN_HEADER_LEN);
    let total = u16::from_be_bytes([header[2], header[3]]) - options as u16;
    header[0] = 0x45;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].fill(0);
    header[8] = TTL;
    let (source, destination) = header[12..].split_at_mut(4);
    source.swap_with_slice(&mut destination[..4]);
    ipv4::set_checksum(header);
    let code = message[1];
    message[0] = ECHO_REPLY;
    let old = u16::from_be_bytes([message[2], message[3]]);
    let new = checksum::update(old, u16::from_be_bytes([ECHO, code]), u16::from_be_bytes([ECHO_REPLY, code]));
    message[2..4].copy_from_slice(&new.to_be_bytes());
    let destination = Ipv4::new(header).map_or(0, |ip| ip.destination());
    packet.set_dst_ip(destination);
    packet.set_next_hop(0);
    true
}

impl Simple for LocalICMPPingResponder {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(answer, |packet| out.reject(1, packet, NOT_A_PING));
        self.shared.answered[self.worker].add(batch.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    /// Prefix of four bytes, IP header with these options, echo request with this payload.
    fn ping(options: &[u8], payload: &[u8], change: impl Fn(&mut [u8])) -> Packet {
        let mut message = [&[ECHO, 0, 0, 0, 0, 7, 0, 1][..], payload].concat();
        icmp::set_checksum(&mut message);
        let total = 20 + options.len() + message.len();
        let mut ip = vec![
            0x45 + (options.len() / 4) as u8,
            5,
            0,
            total as u8,
            1,
            2,
            0x40,
            0,
            9,
            1,
            0,
            0,
            10,
            0,
            0,
            1,
            11,
            0,
            0,
            2,
        ];
        ip.extend(options);
        ip.extend(message);
        change(&mut ip);
        ipv4::set_checksum(&mut ip);
        let mut packet = Pool::heap(4, 512).packet(&[b"MACX", &ip[..]].concat()).unwrap();
        packet.set_mac_offset(0);
        packet.set_network_offset(4);
        packet
    }

    #[test]
    fn replies_byte_by_byte() {
        let with_code = |code| {
            move |ip: &mut [u8]| {
                let at = ip.len() - 11;
                ip[at + 1] = code;
                icmp::set_checksum(&mut ip[at..]);
            }
        };
        for (options, code) in [(&[][..], 0), (&[7, 7, 4, 0, 0, 0, 0, 0], 0), (&[], 1), (&[], 255)] {
            let mut p = ping(options, b"abc", with_code(code));
            assert!(answer(&mut p));
            let want = b"MACX\x45\x05\x00\x1f\x01\x02\x00\x00\xff\x01";
            assert_eq!(p.data()[..14], want[..]);
            assert_eq!(p.data()[16..24], [11, 0, 0, 2, 10, 0, 0, 1]);
            assert_eq!((&p.data()[24..26], &p.data()[28..]), (&[0, code][..], &b"\0\x07\0\x01abc"[..]));
            let ip = Ipv4::check(p.network().unwrap()).unwrap();
            assert!(ip.checksum_is_valid() && checksum::is_valid(ip.payload()));
            assert_eq!((p.dst_ip(), p.mac_offset()), (0x0a00_0001, Some(0)));
            p.free();
        }
    }

    #[test]
    fn others_are_left_alone() {
        for change in [
            |ip: &mut [u8]| ip[9] = 17,
            |ip: &mut [u8]| ip[20] = ECHO_REPLY,
            |ip: &mut [u8]| ip[6] = 0x20,
            |ip: &mut [u8]| ip[7] = 1,
            |ip: &mut [u8]| ip[24] = 99,
            |ip: &mut [u8]| ip[16] = 224,
            |ip: &mut [u8]| ip[12] = 0,
            |ip: &mut [u8]| ip[3] = 27,
            |ip: &mut [u8]| ip[0] = 0x44,
        ] {
            let mut p = ping(&[], b"abcd", change);
            let before = p.data().to_vec();
            assert!(!answer(&mut p));
            assert_eq!(p.data(), before);
            p.free();
        }
    }
}
