//! `ICMP6Error`: turns packets into ICMPv6 error messages to their senders (RFC 4443).
//!
//! The message quotes as much of the packet as fits in 1280 bytes and has hop limit 64. No message is sent in answer to
//! ICMPv6 errors and redirects, to senders that are not one node, or to packets that came by multicast or broadcast of IP
//! or the link; but "packet too big" may answer multicasts, and so may a parameter problem about an option that asks for
//! it (RFC 4443 §2.4 (e)). A parameter problem points at the byte that the `ICMP_PARAM_PROB` annotation names.
//!
//! # Arguments
//! - `SRC`: source address of the messages.
//! - `TYPE`: `unreachable`, `packettoobig`, `timeexceeded`, `parameterproblem`, or a number below 128.
//! - `CODE`: a number, or of `unreachable`: `noroute prohibited beyondscope address port policy reject`; of
//!   `timeexceeded`: `transit reassembly`; of `parameterproblem`: `header nextheader option`. Default 0.
//! - `BADADDRS`: addresses and prefixes, such as known anycast addresses; packets from them get no answer. Default none.
//! - `MTU`: the MTU of the next link, at least 1280; `packettoobig` needs it.
//! - `RATE_LIMIT`: false = no limit to the messages sent (RFC 4443 §2.4 (f)). Default true, but false for `packettoobig`,
//!   as in Linux.
//! - `RATE`, `BURST`: messages a second, and at once after a pause, to all addresses together; `RATE` 0 = no limit.
//!   Default 1000 and 50.
//! - `HOST_RATE`, `HOST_BURST`: the same to one address. Default 1 and 6. There are 4096 such limits, which addresses
//!   share by their hash.
//!
//! # Ports
//! One input, one output; push or pull. Packets must have a network header mark. The destination annotation is cleared,
//! so that the message goes to its destination.
//!
//! # Losses
//! - `no_header`: the packet has no sound IPv6 header at its mark.
//! - `icmp`: it is an ICMPv6 error or redirect.
//! - `link_broadcast`: it came as a broadcast or multicast of the link layer.
//! - `bad_source`: its source address is not that of one node, or in `BADADDRS`.
//! - `bad_destination`: its destination is a multicast address.
//! - `no_room`: the buffer is too small for the message.
//! - `rate_limited`: there have been as many messages as may be, in all or to this sender.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00083b01 20010db8000000000000000000000001 3fff0000000000000000000000000002 01020304 05060708>, LIMIT 3)
//!   -> CheckIP6Header -> hops :: DecIP6HLIM -> Discard;
//! hops[1] -> ICMP6Error(2001:db8::fe, timeexceeded) -> c :: Counter -> rt :: LookupIP6Route(2001:db8::1 0);
//! rt -> back :: Counter -> Discard;
//! // c.byte_count = 288
//! // back.count = 3
//! ```

use super::addresses::{AddressSet6, clear_destination};
use super::icmp6_message::{HEADERS, Headers, MAX_LEN, Message, Refusal};
use super::icmp6_names as names;
use crate::icmp::rate::Limits;
use graph::{
    Agnostic, ArgError, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Nanos, Out, Simple, Spec,
    Text,
};
use packet::wire::{icmp6, ipv6};
use packet::{Batch, Packet, anno};
use std::net::Ipv6Addr;
use std::sync::Arc;

const NO_ROOM: Loss = Loss(5);
const RATE_LIMITED: Loss = Loss(6);

impl From<Refusal> for Loss {
    fn from(refusal: Refusal) -> Loss {
        Loss(match refusal {
            Refusal::NoHeader => 0,
            Refusal::Icmp => 1,
            Refusal::LinkBroadcast => 2,
            Refusal::Source => 3,
            Refusal::Destination => 4,
        })
    }
}

/// See the module.
#[derive(Debug)]
pub struct ICMP6Error {
    message: Message,
    next_mtu: u32,
    limits: Limits,
}

/// One worker's part of [`ICMP6Error`].
#[derive(Debug)]
pub struct LocalICMP6Error {
    shared: Arc<ICMP6Error>,
}

impl Class for ICMP6Error {
    const SPEC: Spec = Spec {
        losses: &[
            "no_header",
            "icmp",
            "link_broadcast",
            "bad_source",
            "bad_destination",
            "no_room",
            "rate_limited",
        ],
        annotations: true,
        ..Spec::new("ICMP6Error", "1/1", "a/a")
    };
    type Local = Agnostic<LocalICMP6Error>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<ICMP6Error, ConfigErrors> {
        let bad = args.keyword("BADADDRS", AddressSet6::new());
        let mtu: Option<u32> = args.keyword_if_given("MTU");
        let source: Ipv6Addr = args.required("SRC");
        let kind: Text = args.required("TYPE");
        let code: Option<Text> = args.optional_if_given("CODE");
        let (kind, code) = kind_and_code(args, &kind, code.as_ref());
        let limits = Limits::from_args(args, kind != icmp6::TOO_BIG);
        match mtu {
            Some(mtu) if (mtu as usize) < ipv6::MIN_MTU => {
                args.error("MTU", format!("out of range, bound {}", ipv6::MIN_MTU));
            }
            None if kind == icmp6::TOO_BIG => args.error("MTU", "required for packettoobig"),
            _ => {}
        }
        args.finish()?;
        let message = Message { source: source.to_bits(), kind, code, bad, limit: MAX_LEN };
        Ok(ICMP6Error { message, next_mtu: mtu.unwrap_or(0), limits })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalICMP6Error { shared: self.clone() })
    }
}

fn kind_and_code(args: &mut Args, kind: &Text, code: Option<&Text>) -> (u8, u8) {
    let told = |e: ArgError| format!("{}{}", e.message, e.help.map(|h| format!(": {h}")).unwrap_or_default());
    let number = match names::parse_type(&kind.text) {
        Ok(number) if icmp6::is_error(number) => number,
        Ok(number) => {
            args.error("TYPE", format!("{number} is not an error message"));
            return (0, 0);
        }
        // A missing argument has been reported already.
        Err(_) if kind.text.is_empty() => return (0, 0),
        Err(e) => {
            args.error("TYPE", told(e));
            return (0, 0);
        }
    };
    match code.map(|code| names::parse_code(number, &code.text)) {
        None => (number, 0),
        Some(Ok(code)) => (number, code),
        Some(Err(e)) => {
            args.error("CODE", told(e));
            (number, 0)
        }
    }
}

impl ICMP6Error {
    /// The second word of the ICMPv6 header.
    fn rest(&self, packet: &Packet) -> u32 {
        match self.message.kind {
            icmp6::TOO_BIG => self.next_mtu,
            icmp6::PARAMETER_PROBLEM => u32::from(packet.anno_u8(anno::ICMP_PARAM_PROB)),
            _ => 0,
        }
    }

    fn turn(&self, packet: &mut Packet, now: Nanos) -> Result<(), Loss> {
        let bytes = packet.network().ok_or(Refusal::NoHeader)?;
        let headers = self.message.answer(bytes, packet.packet_type(), self.rest(packet))?;
        // Only what would be sent counts.
        if !self.limits.take(headers.destination, now) {
            return Err(RATE_LIMITED);
        }
        let offset = packet.network_offset().unwrap_or(0);
        wrap(packet, offset, &headers).ok_or(NO_ROOM)?;
        packet.clear_annos();
        packet.set_next_hop(0);
        clear_destination(packet);
        packet.set_network_offset(0);
        packet.set_transport_offset(ipv6::HEADER_LEN);
        Ok(())
    }
}

/// Cuts the packet to what is quoted and puts the headers before it.
fn wrap(packet: &mut Packet, offset: usize, headers: &Headers) -> Option<()> {
    packet.pull(offset).then_some(())?;
    packet.truncate(headers.quoted);
    packet.push(HEADERS).then_some(())?;
    *packet.data_mut().first_chunk_mut()? = headers.bytes;
    Some(())
}

impl Simple for LocalICMP6Error {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        batch.retain_ok(|packet| shared.turn(packet, cx.now), |packet, loss| out.lose(packet, loss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Bench, Setup};
    use crate::testing::{bytes, errors};
    use packet::Pool;

    fn element(kind: u8, code: u8) -> ICMP6Error {
        let message = Message { source: 0xfe, kind, code, bad: AddressSet6::new(), limit: MAX_LEN };
        ICMP6Error { message, next_mtu: 1400, limits: Limits::new(None, None) }
    }

    /// A frame with a packet in it.
    fn packet() -> Packet {
        let data = bytes(&format!(
            "{} 60000000 00043b40 {:032x} {:032x} 01020304",
            "ee".repeat(14),
            0x2001 << 112 | 1_u128,
            0x2001 << 112 | 2_u128
        ));
        let mut p = Pool::heap(4, 512).packet(&data).unwrap();
        p.set_network_offset(14);
        p.set_dst_ip(0xfe80_0000);
        p.set_anno_u8(anno::ICMP_PARAM_PROB, 6);
        p.set_anno_u8(anno::PAINT, 7);
        p
    }

    #[test]
    fn the_second_word_fits_the_type() {
        for (kind, code, rest) in
            [(1, 0, [0; 4]), (2, 0, [0, 0, 5, 120]), (3, 1, [0; 4]), (4, 1, [0, 0, 0, 6])]
        {
            let mut p = packet();
            element(kind, code).turn(&mut p, 0).unwrap();
            assert_eq!((p.len(), &p.data()[40..42], &p.data()[44..48]), (92, &[kind, code][..], &rest[..]));
            p.free();
        }
    }

    #[test]
    fn marks_and_annotations_are_those_of_a_new_packet() {
        let mut p = packet();
        element(3, 0).turn(&mut p, 0).unwrap();
        assert_eq!((p.network_offset(), p.transport_offset(), p.mac_offset()), (Some(0), Some(40), None));
        assert_eq!((p.dst_ip(), p.anno_u8(anno::PAINT)), (0, 0));
        // The answer is an ICMPv6 error itself, so it gets none.
        p.data_mut()[8] = 0x20;
        assert_eq!(element(3, 0).turn(&mut p, 0), Err(Loss::from(Refusal::Icmp)));
        p.free();
        let mut unmarked = Pool::heap(4, 512).packet(&[0x60; 60]).unwrap();
        assert_eq!(element(3, 0).turn(&mut unmarked, 0), Err(Loss(0)));
        unmarked.free();
    }

    #[test]
    fn arguments() {
        let error = |config: &str| errors(&format!("Idle -> ICMP6Error({config}) -> Discard;"));
        for good in ["::1, 3, 1", "fe80::1, packettoobig, MTU 1280", "fe80::1, unreachable, policy, RATE 3"] {
            assert_eq!(error(good), "");
        }
        for (bad, want) in [
            ("::1", "TYPE: required argument missing"),
            ("::1, echo", "TYPE: 128 is not an error message"),
            ("::1, nonsense", "TYPE: unknown name 'nonsense'"),
            ("::1, timeexceeded, port", "CODE: unknown name 'port'"),
            ("::1, packettoobig", "MTU: required for packettoobig"),
            ("::1, packettoobig, MTU 1279", "MTU: out of range, bound 1280"),
        ] {
            assert!(error(bad).contains(want), "{bad}: {}", error(bad));
        }
    }

    /// Messages sent when one sender sends 20 packets a second for two seconds.
    fn sent(arguments: &str) -> String {
        let text = format!(
            "RatedSource(DATA \\<60000000 00003b40 {:032x} {:032x}>, RATE 20, LIMIT 40)
                 -> MarkIP6Header -> e :: ICMP6Error(fe80::1, {arguments}) -> c :: Counter -> Discard;",
            0x2001 << 112 | 1_u128,
            0x2001 << 112 | 2_u128
        );
        let mut bench = Bench::new(&text, &Setup { burst: 1, ..Setup::default() }).unwrap();
        bench.run().unwrap();
        let count = bench.read("c.count");
        let lost = 40 - count.parse::<u32>().unwrap();
        assert!(bench.losses().contains(&format!("e.rate_limited = {lost}")) || lost == 0);
        bench.end().unwrap();
        count
    }

    #[test]
    fn rates_are_limited() {
        for (arguments, passed) in [
            ("timeexceeded", "7"),
            ("timeexceeded, RATE_LIMIT false", "40"),
            ("packettoobig, MTU 1400", "40"),
            ("packettoobig, MTU 1400, HOST_BURST 1", "2"),
        ] {
            assert_eq!(sent(arguments), passed, "{arguments}");
        }
    }
}
