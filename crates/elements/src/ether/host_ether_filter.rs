//! `HostEtherFilter`: passes frames for this host, as network hardware does, and notes how they were addressed.
//!
//! # Arguments
//! - `ETHER`: this host's Ethernet address.
//! - `DROP_OWN`: true = frames that come from this address do not pass. Default false.
//! - `DROP_OTHER`: true = frames to other hosts do not pass. Default true.
//! - `OFFSET`: where the Ethernet header begins, in bytes. Default 0.
//!
//! # Ports
//! One input, one output; push or pull. Frames that do not pass leave by push output 1 if that is connected. The packet
//! type annotation is set to host, broadcast, multicast or other host; the MAC header is marked.
//!
//! # Losses
//! - `other_host`: the frame is for another host.
//! - `own`: the frame comes from this host.
//! - `short`: too short for an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 0800>, LIMIT 3) -> f :: HostEtherFilter(2:0:0:0:0:1)
//!   -> a :: Counter -> Discard;
//! InfiniteSource(DATA \<020000000003 020000000002 0800>, LIMIT 4) -> f;
//! f[1] -> b :: Counter -> Discard;
//! // a.count = 3
//! // b.count = 4
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::ethernet::{self, Header, Mac};
use packet::{Batch, Packet, PacketType};
use std::sync::Arc;

const OTHER_HOST: Loss = Loss(0);
const OWN: Loss = Loss(1);
const SHORT: Loss = Loss(2);

/// See the module.
#[derive(Debug)]
pub struct HostEtherFilter {
    ether: Mac,
    drop_own: bool,
    drop_other: bool,
    offset: usize,
}

/// One worker's part of [`HostEtherFilter`].
#[derive(Debug)]
pub struct LocalHostEtherFilter {
    shared: Arc<HostEtherFilter>,
}

impl Class for HostEtherFilter {
    const SPEC: Spec = Spec {
        losses: &["other_host", "own", "short"],
        annotations: true,
        ..Spec::new("HostEtherFilter", "1/1-2", "a/ah")
    };
    type Local = Agnostic<LocalHostEtherFilter>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<HostEtherFilter, ConfigErrors> {
        let offset = args.keyword("OFFSET", 0);
        let ether = args.required("ETHER");
        let drop_own = args.optional("DROP_OWN", false);
        let drop_other = args.optional("DROP_OTHER", true);
        args.finish()?;
        Ok(HostEtherFilter { ether, drop_own, drop_other, offset })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalHostEtherFilter { shared: self.clone() })
    }
}

impl HostEtherFilter {
    /// Notes how a frame was addressed.
    fn check(&self, packet: &mut Packet) -> Result<(), Loss> {
        let frame = packet.data().get(self.offset..).unwrap_or(&[]);
        let header = Header::parse(frame).ok_or(SHORT)?;
        packet.set_mac_offset(self.offset);
        let to = &header.destination;
        let packet_type = match to {
            _ if *to == self.ether => PacketType::Host,
            &ethernet::BROADCAST => PacketType::Broadcast,
            _ if ethernet::is_group(to) => PacketType::Multicast,
            _ => PacketType::OtherHost,
        };
        packet.set_packet_type(packet_type);
        if self.drop_own && header.source == self.ether {
            return Err(OWN);
        }
        if self.drop_other && packet_type == PacketType::OtherHost { Err(OTHER_HOST) } else { Ok(()) }
    }
}

impl Simple for LocalHostEtherFilter {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain_ok(|p| self.shared.check(p), |p, reason| out.reject(1, p, reason));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, through};

    fn frame(to: [u8; 6], from: u8) -> Frame {
        Frame::new(&[&to[..], &[2, 0, 0, 0, 0, from, 8, 0]].concat())
    }

    const US: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn frames_are_typed_and_filtered() {
        let frames = [
            frame(US, 9),
            frame([0xff; 6], 9),
            frame([1, 0, 0x5e, 0, 0, 1], 9),
            frame([2, 0, 0, 0, 0, 2], 9),
            frame(US, 1),
            Frame::new(&[2, 0, 0, 0, 0, 1]),
        ];
        let types = |kept: &[Frame]| kept.iter().map(|f| f.packet_type).collect::<Vec<_>>();
        let (kept, losses) = through("h :: HostEtherFilter(2:0:0:0:0:1)", &frames);
        assert_eq!((types(&kept), kept[0].mac), (vec![0, 1, 2, 0], Some(0)));
        assert_eq!(losses, ["h.other_host = 1", "h.short = 1"]);
        let (kept, losses) = through("h :: HostEtherFilter(2:0:0:0:0:1, true, false)", &frames);
        assert_eq!(types(&kept), [0, 1, 2, 3]);
        assert_eq!(losses, ["h.own = 1", "h.short = 1"]);
    }

    #[test]
    fn the_header_may_begin_later() {
        let mut lab = Lab::new(
            "f :: Feed -> h :: HostEtherFilter(2:0:0:0:0:1, OFFSET 2) -> k :: Keep; h[1] -> o :: Keep;",
        );
        let mut shifted = frame(US, 9);
        shifted.bytes.splice(0..0, [0, 0]);
        lab.at(0, "f", &shifted);
        lab.at(0, "f", &frame(US, 9));
        lab.run();
        assert_eq!((lab.kept("k")[0].mac, lab.kept("o").len()), (Some(2), 1));
        lab.end();
    }
}
