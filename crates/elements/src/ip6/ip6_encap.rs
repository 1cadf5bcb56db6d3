//! `IP6Encap`: puts an IPv6 header before packets.
//!
//! # Arguments
//! - `PROTO`: what the packets are: a protocol number, or `tcp`, `udp`, `icmp6`, `ip` (4), `ip6` (41), `gre`, `none`.
//! - `SRC`: source address.
//! - `DST`: destination address; `DST_ANNO` = what the destination annotation says.
//! - `HLIM`: hop limit. Default 64.
//! - `CLASS`: traffic class, 0 to 255. Default 0.
//! - `FLOW`: flow label. Default 0.
//!
//! # Ports
//! One input, one output; push or pull. Sets network and transport header marks and clears the destination annotation,
//! so that the new destination counts.
//!
//! # Losses
//! - `too_long`: the packet is longer than 65,535 bytes, which the payload length cannot say.
//! - `no_room`: the buffer has no room for the header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "12345678", LIMIT 3) -> IP6Encap(udp, 2001:db8::1, 2001:db8::2)
//!   -> Classifier(0/60000000000811 40/3132) -> c :: Counter -> Discard;
//! // c.byte_count = 144
//! ```

use super::addresses::{clear_destination, destination};
use graph::{
    Agnostic, ArgError, Args, Class, ConfigErrors, Configure, Cx, FromArg, LocalCx, Loss, Out, Simple, Spec,
    Text,
};
use packet::wire::ipv6::{self, HEADER_LEN, Header};
use packet::{Batch, Packet};
use std::net::Ipv6Addr;
use std::sync::Arc;

const TOO_LONG: Loss = Loss(0);
const NO_ROOM: Loss = Loss(1);
const MAX_LABEL: u32 = 0xf_ffff;

/// See the module.
#[derive(Debug)]
pub struct IP6Encap {
    header: Header,
    to_annotation: bool,
}

/// One worker's part of [`IP6Encap`].
#[derive(Debug)]
pub struct LocalIP6Encap {
    shared: Arc<IP6Encap>,
}

/// A protocol by number or name.
struct Protocol(u8);

impl FromArg for Protocol {
    fn from_arg(arg: &Text) -> Result<Protocol, ArgError> {
        Ok(Protocol(match arg.text.to_ascii_lowercase().as_str() {
            "tcp" => ipv6::TCP,
            "udp" => ipv6::UDP,
            "icmp6" => ipv6::ICMP,
            "ip" => 4,
            "ip6" => 41,
            "gre" => 47,
            "none" => ipv6::NO_NEXT,
            _ => u8::from_arg(arg)?,
        }))
    }

    fn placeholder() -> Protocol {
        Protocol(ipv6::NO_NEXT)
    }
}

/// An address, or `None` for that of the annotation.
struct To(Option<Ipv6Addr>);

impl FromArg for To {
    fn from_arg(arg: &Text) -> Result<To, ArgError> {
        if arg.text == "DST_ANNO" {
            return Ok(To(None));
        }
        Ipv6Addr::from_arg(arg).map(|address| To(Some(address)))
    }

    fn placeholder() -> To {
        To(None)
    }
}

impl Class for IP6Encap {
    const SPEC: Spec =
        Spec { losses: &["too_long", "no_room"], annotations: true, ..Spec::new("IP6Encap", "1/1", "a/a") };
    type Local = Agnostic<LocalIP6Encap>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<IP6Encap, ConfigErrors> {
        let hop_limit = args.keyword("HLIM", 64);
        let traffic_class = args.keyword("CLASS", 0);
        let flow_label = args.keyword("FLOW", 0);
        let Protocol(next_header) = args.required("PROTO");
        let source: Ipv6Addr = args.required("SRC");
        let To(to) = args.required("DST");
        if flow_label > MAX_LABEL {
            args.error("FLOW", format!("out of range, bound {MAX_LABEL}"));
        }
        args.finish()?;
        let destination = to.map_or(0, Ipv6Addr::to_bits);
        let source = source.to_bits();
        let header =
            Header { traffic_class, flow_label, payload_len: 0, next_header, hop_limit, source, destination };
        Ok(IP6Encap { header, to_annotation: to.is_none() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalIP6Encap { shared: self.clone() })
    }
}

impl IP6Encap {
    fn encapsulate(&self, packet: &mut Packet) -> Result<(), Loss> {
        let payload_len = u16::try_from(packet.len()).map_err(|_| TOO_LONG)?;
        let destination = if self.to_annotation { destination(packet) } else { self.header.destination };
        let header = Header { payload_len, destination, ..self.header };
        if !packet.push(HEADER_LEN) {
            return Err(NO_ROOM);
        }
        if let Some(front) = packet.data_mut().first_chunk_mut() {
            *front = header.bytes();
        }
        packet.set_network_offset(0);
        packet.set_transport_offset(HEADER_LEN);
        clear_destination(packet);
        Ok(())
    }
}

impl Simple for LocalIP6Encap {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        batch.retain_ok(|packet| shared.encapsulate(packet), |packet, loss| out.lose(packet, loss));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, bytes, errors, through};

    #[test]
    fn the_header_is_what_the_arguments_say() {
        let encap = "IP6Encap(41, fe80::1, ff02::2, HLIM 3, CLASS 0xa5, FLOW 0x12345)";
        let (kept, losses) = through(encap, &[Frame::new(&[7, 8])]);
        let want =
            bytes("6a512345 00022903 fe800000000000000000000000000001 ff020000000000000000000000000002 0708");
        assert_eq!((&kept[0].bytes, kept[0].network, losses), (&want, Some(0), vec![]));
        let (kept, _) =
            through("SetIP6Address(2001:db8::7) -> IP6Encap(none, ::1, DST_ANNO)", &[Frame::new(&[])]);
        let want =
            bytes("60000000 00003b40 00000000000000000000000000000001 20010db8000000000000000000000007");
        assert_eq!((&kept[0].bytes, kept[0].dst), (&want, 0));
    }

    #[test]
    fn mistakes() {
        for (bad, want) in [
            ("sctp, ::1, ::2", "PROTO: "),
            ("256, ::1, ::2", "PROTO: "),
            ("tcp, 10.0.0.1, ::2", "SRC: "),
            ("tcp, ::1, ::2, FLOW 1048576", "FLOW: out of range, bound 1048575"),
        ] {
            let error = errors(&format!("Idle -> IP6Encap({bad}) -> Discard;"));
            assert!(error.contains(want), "{bad}: {error}");
        }
    }
}
