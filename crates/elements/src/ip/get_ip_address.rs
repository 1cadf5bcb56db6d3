//! `GetIPAddress`: copies an IPv4 address out of the packet into an annotation.
//!
//! # Arguments
//! - `OFFSET`: where the address stands, in bytes from the start of the packet; 16 for the destination of an IP packet.
//! - `ANNO`: the annotation: an offset or a name. Default: the destination address annotation.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `short`: the packet ends before the address does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 40110000 0a000001 0b000002>, LIMIT 6)
//!   -> GetIPAddress(16) -> rt :: StaticIPLookup(10.0.0.0/8 0, 11.0.0.0/8 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 6
//! ```

use crate::anno_offset::AnnoOffset;
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::{Batch, anno, wire};
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct GetIPAddress {
    offset: usize,
    anno: usize,
}

/// One worker's part of [`GetIPAddress`].
#[derive(Debug)]
pub struct LocalGetIPAddress {
    offset: usize,
    anno: usize,
}

impl Class for GetIPAddress {
    const SPEC: Spec = Spec { losses: &["short"], ..Spec::new("GetIPAddress", "1/1", "a/a") };
    type Local = Agnostic<LocalGetIPAddress>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<GetIPAddress, ConfigErrors> {
        args.keywords(&["OFFSET", "ANNO"]);
        let offset = args.required("OFFSET");
        let anno: AnnoOffset<4> = args.optional("ANNO", AnnoOffset(anno::DST_IP));
        args.finish()?;
        Ok(GetIPAddress { offset, anno: anno.0 })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalGetIPAddress { offset: self.offset, anno: self.anno })
    }
}

impl Simple for LocalGetIPAddress {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(
            |packet| match wire::be32(packet.data(), self.offset) {
                Some(address) if self.anno == anno::DST_IP => {
                    packet.set_dst_ip(address);
                    true
                }
                Some(address) => {
                    packet.write_anno(self.anno, &address.to_be_bytes());
                    true
                }
                None => false,
            },
            |packet| out.lose(packet, SHORT),
        );
    }
}
