//! `FixIPSrc`: gives packets that ask for it the source address of the link by which they leave.
//!
//! `ICMPError` asks by an annotation, since it does not know by which link its packets will leave.
//!
//! # Arguments
//! - `IPADDR`: the address.
//!
//! # Ports
//! One input, one output; push or pull. Packets without the annotation, or without a network header mark, pass as they
//! are. Where the source is set the annotation is cleared and the header checksum computed.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 0a000001 0b000002>, LIMIT 2)
//!   -> MarkIPHeader -> ICMPError(10.0.0.254, timeexceeded) -> FixIPSrc(10.9.9.9)
//!   -> GetIPAddress(12) -> rt :: StaticIPLookup(10.9.9.9 0);
//! rt -> fixed :: Counter -> Discard;
//! // fixed.count = 2
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::wire::{self, ipv4};
use packet::{Batch, Packet, anno};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Offset of the source address in an IP header.
const SOURCE: usize = 12;

/// See the module.
#[derive(Debug)]
pub struct FixIPSrc {
    address: Ipv4Addr,
}

/// One worker's part of [`FixIPSrc`].
#[derive(Debug)]
pub struct LocalFixIPSrc {
    address: Ipv4Addr,
}

impl Class for FixIPSrc {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("FixIPSrc", "1/1", "a/a") };
    type Local = Agnostic<LocalFixIPSrc>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<FixIPSrc, ConfigErrors> {
        let address = args.required("IPADDR");
        args.finish()?;
        Ok(FixIPSrc { address })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalFixIPSrc { address: self.address })
    }
}

impl LocalFixIPSrc {
    #[cold]
    fn fix(&self, packet: &mut Packet) {
        packet.set_anno_u8(anno::FIX_IP_SRC, 0);
        if let Some(header) = packet.network_mut()
            && wire::put(header, SOURCE, &self.address.octets())
        {
            ipv4::set_checksum(header);
        }
    }
}

impl Simple for LocalFixIPSrc {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        for packet in batch.iter_mut() {
            if packet.anno_u8(anno::FIX_IP_SRC) != 0 {
                self.fix(packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;
    use packet::wire::ipv4::Ipv4;

    #[test]
    fn source_and_checksum_are_set_once() {
        let element = LocalFixIPSrc { address: Ipv4Addr::new(10, 9, 9, 9) };
        let header = *b"\x45\x00\x00\x14\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02";
        let mut packet = Pool::heap(4, 256).packet(&header).unwrap();
        packet.set_network_offset(0);
        packet.set_anno_u8(anno::FIX_IP_SRC, 1);
        element.fix(&mut packet);
        let ip = Ipv4::new(packet.data()).unwrap();
        assert_eq!((ip.source(), ip.checksum_is_valid()), (0x0a09_0909, true));
        assert_eq!(packet.anno_u8(anno::FIX_IP_SRC), 0);
        packet.free();
    }
}
