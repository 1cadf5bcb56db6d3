//! `ICMPError`: turns packets into ICMP error messages to their senders.
//!
//! The message quotes as much of the packet as fits in 576 bytes (RFC 1812 §4.3.2.3), has precedence 6, TTL 255, and
//! goes back over the source route that the packet has travelled, if any. No message is sent in answer to ICMP other
//! than queries, to fragments but the first, to broadcasts and multicasts, or to senders that are not one host
//! (RFC 1122 §3.2.2). A redirect names the packet's destination annotation as gateway; a parameter problem points at
//! the byte that `IPGWOptions` noted.
//!
//! # Arguments
//! - `SRC`: source address of the messages.
//! - `TYPE`: `unreachable`, `sourcequench`, `redirect`, `timeexceeded`, `parameterproblem`, or a number.
//! - `CODE`: a number, or of `unreachable`: `net host protocol port needfrag srcroutefail filterprohibited` ...; of
//!   `redirect`: `net host tosnet toshost`; of `timeexceeded`: `transit reassembly`; of `parameterproblem`:
//!   `erroratptr missingopt length`. Default 0.
//! - `BADADDRS`: addresses and prefixes, such as the broadcast addresses of the links; packets from or to them get no
//!   answer. Default none.
//! - `MTU`: the longest message in bytes; never more than 576. Default 576.
//! - `PMTU`: the MTU of the next link, told with `unreachable, needfrag` (RFC 1191). Default: `MTU` if that is given,
//!   else 0 = not told.
//! - `SET_FIX_ANNO` (or `SETFIX`): true = ask `FixIPSrc` to set the source address. Default true.
//! - `RATE_LIMIT`: true = send no more than Linux does (RFC 1812 §4.3.2.8): the next four say what that is. Default
//!   false, as in Click, unless one of them is given.
//! - `RATE`, `BURST`: messages a second, and at once after a pause, to all addresses together; `RATE` 0 = no limit.
//!   Default 1000 and 50.
//! - `HOST_RATE`, `HOST_BURST`: the same to one address. Default 1 and 6. There are 4096 such limits, which addresses
//!   share by their hash.
//!
//! # Ports
//! One input, one output; push or pull. Packets must have a network header mark. The destination annotation is set to
//! where the message goes.
//!
//! # Losses
//! - `no_header`: the packet has no sound IP header at its mark.
//! - `fragment`: it is not the first fragment.
//! - `icmp`: it is ICMP but not a query.
//! - `link_broadcast`: it came as a broadcast or multicast of the link layer.
//! - `bad_source`: its source address is not that of one host, or in `BADADDRS`.
//! - `bad_destination`: its destination is a broadcast or multicast address, or in `BADADDRS`.
//! - `no_room`: the buffer is too small for the message.
//! - `source_route`: it is to be redirected, and has a source route (RFC 1812 §5.2.7.2).
//! - `rate_limited`: there have been as many messages as may be, in all or to this sender.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000018 00000000 01110000 0a000001 0b000002 01020304>, LIMIT 3)
//!   -> MarkIPHeader -> DecIPTTL -> Discard;
//! DecIPTTL@3[1] -> ICMPError(10.0.0.254, timeexceeded) -> c :: Counter -> rt :: StaticIPLookup(10.0.0.1 0);
//! rt -> back :: Counter -> Discard;
//! // c.byte_count = 156
//! // back.count = 3
//! ```

use super::error::{Headers, MAX_LEN, Message, Refusal};
use super::names;
use super::rate::Limits;
use crate::ip::AddressSet;
use graph::{
    Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Nanos, Out, Simple, Spec, Text,
};
use packet::wire::icmp;
use packet::{Batch, Packet, anno};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

const NO_ROOM: Loss = Loss(6);
const RATE_LIMITED: Loss = Loss(7);
/// No message is shorter: headers and eight bytes of an optionless packet (RFC 792).
const MIN_LEN: u16 = 56;

impl From<Refusal> for Loss {
    fn from(refusal: Refusal) -> Loss {
        Loss(match refusal {
            Refusal::NoHeader => 0,
            Refusal::Fragment => 1,
            Refusal::Icmp => 2,
            Refusal::LinkBroadcast => 3,
            Refusal::Source => 4,
            Refusal::Destination => 5,
            Refusal::SourceRoute => 8,
        })
    }
}

/// See the module.
#[derive(Debug)]
pub struct ICMPError {
    message: Message,
    next_mtu: u16,
    fix_source: bool,
    limits: Limits,
    /// Identification of the next message; one sequence for all workers.
    next_id: AtomicU16,
}

/// One worker's part of [`ICMPError`].
#[derive(Debug)]
pub struct LocalICMPError {
    shared: Arc<ICMPError>,
}

impl Class for ICMPError {
    const SPEC: Spec = Spec {
        losses: &[
            "no_header",
            "fragment",
            "icmp",
            "link_broadcast",
            "bad_source",
            "bad_destination",
            "no_room",
            "rate_limited",
            "source_route",
        ],
        annotations: true,
        ..Spec::new("ICMPError", "1/1", "a/a")
    };
    type Local = Agnostic<LocalICMPError>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<ICMPError, ConfigErrors> {
        let bad = args.keyword("BADADDRS", AddressSet::new());
        let mtu: Option<u16> = args.keyword_if_given("MTU");
        let next_mtu = args.keyword("PMTU", mtu.unwrap_or(0));
        let fix_source = args.keyword("SETFIX", true);
        let fix_source = args.keyword("SET_FIX_ANNO", fix_source);
        let limits = Limits::from_args(args, false);
        let source: Ipv4Addr = args.required("SRC");
        let kind: Text = args.required("TYPE");
        let code: Option<Text> = args.optional_if_given("CODE");
        let kind = kind_and_code(args, &kind, code.as_ref());
        if mtu.is_some_and(|mtu| mtu < MIN_LEN) {
            args.error("MTU", format!("out of range, bound {MIN_LEN}"));
        }
        args.finish()?;
        let (kind, code) = kind;
        let limit = mtu.map_or(MAX_LEN, |mtu| usize::from(mtu).min(MAX_LEN));
        Ok(ICMPError {
            message: Message { source: source.to_bits(), kind, code, bad, limit },
            next_mtu,
            fix_source,
            limits,
            next_id: AtomicU16::new(1),
        })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalICMPError { shared: self.clone() })
    }
}

fn kind_and_code(args: &mut Args, kind: &Text, code: Option<&Text>) -> (u8, u8) {
    let number = match names::parse_type(&kind.text) {
        Ok(number) if icmp::is_error(number) => number,
        Ok(number) => {
            args.error("TYPE", format!("{number} is not an error message"));
            return (0, 0);
        }
        // A missing argument has been reported already.
        Err(_) if kind.text.is_empty() => return (0, 0),
        Err(e) => {
            args.error(
                "TYPE",
                format!("{}{}", e.message, e.help.map(|h| format!(": {h}")).unwrap_or_default()),
            );
            return (0, 0);
        }
    };
    match code.map(|code| names::parse_code(number, &code.text)) {
        None => (number, 0),
        Some(Ok(code)) => (number, code),
        Some(Err(e)) => {
            args.error(
                "CODE",
                format!("{}{}", e.message, e.help.map(|h| format!(": {h}")).unwrap_or_default()),
            );
            (number, 0)
        }
    }
}

impl ICMPError {
    /// The second word of the ICMP header.
    fn rest(&self, packet: &Packet) -> [u8; 4] {
        match (self.message.kind, self.message.code) {
            (icmp::REDIRECT, _) => packet.dst_ip().to_be_bytes(),
            (icmp::PARAMETER_PROBLEM, 0) => [packet.anno_u8(anno::ICMP_PARAM_PROB), 0, 0, 0],
            (icmp::UNREACHABLE, icmp::NEED_FRAGMENT) => {
                let [high, low] = self.next_mtu.to_be_bytes();
                [0, 0, high, low]
            }
            _ => [0; 4],
        }
    }

    fn turn(&self, packet: &mut Packet, now: Nanos) -> Result<(), Loss> {
        let bytes = packet.network().ok_or(Refusal::NoHeader)?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let headers = self.message.answer(bytes, packet.packet_type(), self.rest(packet), id)?;
        // Only what would be sent counts.
        if !self.limits.take(headers.destination, now) {
            return Err(RATE_LIMITED);
        }
        let offset = packet.network_offset().unwrap_or(0);
        wrap(packet, offset, &headers).ok_or(NO_ROOM)?;
        packet.clear_annos();
        packet.set_next_hop(0);
        packet.set_dst_ip(headers.destination);
        packet.set_network_offset(0);
        packet.set_transport_offset(headers.ip_len);
        if self.fix_source {
            packet.set_anno_u8(anno::FIX_IP_SRC, 1);
        }
        Ok(())
    }
}

/// Cuts the packet to what is quoted and puts the headers before it.
fn wrap(packet: &mut Packet, offset: usize, headers: &Headers) -> Option<()> {
    packet.pull(offset).then_some(())?;
    packet.truncate(headers.quoted);
    let new = headers.bytes();
    packet.push(new.len()).then_some(())?;
    packet.data_mut().get_mut(..new.len())?.copy_from_slice(new);
    Some(())
}

impl Simple for LocalICMPError {
    fn act(&mut self, batch: &mut Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        batch.retain_ok(|packet| shared.turn(packet, cx.now), |packet, loss| out.lose(packet, loss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Bench, Setup};
    use packet::Pool;

    fn element(kind: u8, code: u8) -> ICMPError {
        let message = Message { source: 0x0a00_00fe, kind, code, bad: AddressSet::new(), limit: MAX_LEN };
        let limits = Limits::new(None, None);
        ICMPError { message, next_mtu: 1400, fix_source: true, limits, next_id: AtomicU16::new(9) }
    }

    /// A frame with a packet from 10.0.0.1 to 11.0.0.2 in it.
    fn packet() -> Packet {
        let mut bytes = vec![0xee; 14];
        bytes.extend(b"\x45\x00\x00\x18\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0b\x00\x00\x02DATA");
        let mut p = Pool::heap(4, 512).packet(&bytes).unwrap();
        p.set_network_offset(14);
        p.set_dst_ip(0x0c00_0001);
        p.set_anno_u8(anno::ICMP_PARAM_PROB, 21);
        p.set_anno_u8(anno::PAINT, 7);
        p
    }

    #[test]
    fn the_second_word_fits_the_type() {
        for (kind, code, rest) in [
            (11, 0, [0; 4]),
            (3, 1, [0; 4]),
            (3, 4, [0, 0, 5, 120]),
            (5, 1, [12, 0, 0, 1]),
            (12, 0, [21, 0, 0, 0]),
            (12, 1, [0; 4]),
        ] {
            let mut p = packet();
            element(kind, code).turn(&mut p, 0).unwrap();
            assert_eq!((p.len(), &p.data()[20..22], &p.data()[24..28]), (52, &[kind, code][..], &rest[..]));
            p.free();
        }
    }

    #[test]
    fn marks_and_annotations_are_those_of_a_new_packet() {
        let mut p = packet();
        element(11, 0).turn(&mut p, 0).unwrap();
        assert_eq!((p.network_offset(), p.transport_offset(), p.mac_offset()), (Some(0), Some(20), None));
        assert_eq!((p.dst_ip(), p.anno_u8(anno::FIX_IP_SRC), p.anno_u8(anno::PAINT)), (0x0a00_0001, 1, 0));
        assert_eq!(p.data()[4..6], [0, 9]);
        // The answer is an ICMP error itself, so it gets none.
        assert_eq!(element(11, 0).turn(&mut p, 0), Err(Loss::from(Refusal::Icmp)));
        p.free();
        let mut unmarked = Pool::heap(4, 512).packet(&[0x45; 40]).unwrap();
        assert_eq!(element(11, 0).turn(&mut unmarked, 0), Err(Loss(0)));
        unmarked.free();
    }

    #[test]
    fn arguments() {
        let error = |config: &str| {
            let text = format!("Idle -> ICMPError({config}) -> Discard;");
            Bench::new(&text, &Setup::default()).err().unwrap_or_default()
        };
        for good in [
            "10.0.0.1, 3, 4, PMTU 1400",
            "10.0.0.1, unreachable, needfrag",
            "10.0.0.1, timeexceeded, SETFIX false",
        ] {
            assert_eq!(error(good), "");
        }
        for (bad, want) in [
            ("10.0.0.1", "TYPE: required argument missing"),
            ("10.0.0.1, echo", "TYPE: 8 is not an error message"),
            ("10.0.0.1, nonsense", "TYPE: unknown name 'nonsense'"),
            ("10.0.0.1, redirect, needfrag", "CODE: unknown name 'needfrag'"),
            ("10.0.0.1, redirect, MTU 20", "MTU: out of range, bound 56"),
        ] {
            assert!(error(bad).contains(want), "{bad}: {}", error(bad));
        }
    }

    /// Messages sent, and lost, when two senders send 20 packets a second for two seconds.
    fn sent(arguments: &str) -> String {
        let text = format!(
            "s :: RatedSource(DATA \\<45000018 00000000 40110000 0a000001 0b000002 01020304>, RATE 20, LIMIT 40)
                 -> MarkIPHeader -> t :: Tee;
             t[0] -> e :: ICMPError(10.0.0.254, timeexceeded{arguments}) -> c :: Counter -> Discard;
             t[1] -> StoreData(15, \\<05>) -> e;"
        );
        let mut bench = Bench::new(&text, &Setup { burst: 1, ..Setup::default() }).unwrap();
        bench.run().unwrap();
        let result = format!("{} {:?}", bench.read("c.count"), bench.losses());
        bench.end().unwrap();
        result
    }

    #[test]
    fn rates_are_limited_if_asked_for() {
        let outcome = |passed| match 80 - passed {
            0 => format!("{passed} []"),
            lost => format!("{passed} [\"e.rate_limited = {lost}\"]"),
        };
        for (arguments, passed, of_one_limit) in [
            ("", 80, 80),
            (", RATE_LIMIT false", 80, 80),
            // Each sender gets 6 at once, and another after a second.
            (", RATE_LIMIT true", 14, 7),
            (", HOST_BURST 1", 4, 2),
            (", HOST_RATE 0, RATE 1, BURST 3", 4, 4),
            (", HOST_RATE 0", 80, 80),
            (", RATE 4, BURST 1, RATE_LIMIT false", 80, 80),
        ] {
            let mut seen = sent(arguments);
            // Once in 4096 times both senders share a limit by their hashes, which are others in each router.
            if of_one_limit < passed && seen == outcome(of_one_limit) {
                seen = sent(arguments);
            }
            assert_eq!(seen, outcome(passed), "{arguments}");
        }
    }
}
