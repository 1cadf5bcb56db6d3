//! `MarkIPHeader`: notes where the IP header is, without checking it.
//!
//! # Arguments
//! - `OFFSET`: where the IP header begins, in bytes. Default 0.
//!
//! # Ports
//! One input, one output; push or pull. Sets the network header mark and, by the header length that the header gives,
//! the transport header mark. A packet that ends before there is passed on without marks.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<00000000 45000014 00000000 01000000 0a000001 0a000002>, LIMIT 4)
//!   -> MarkIPHeader(4) -> ttl :: DecIPTTL -> Discard;
//! // ttl.drops = 4
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use packet::wire::ipv4::Ipv4;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct MarkIPHeader {
    offset: usize,
}

/// One worker's part of [`MarkIPHeader`].
#[derive(Debug)]
pub struct LocalMarkIPHeader {
    offset: usize,
}

impl Class for MarkIPHeader {
    const SPEC: Spec = Spec::new("MarkIPHeader", "1/1", "a/a");
    type Local = Agnostic<LocalMarkIPHeader>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<MarkIPHeader, ConfigErrors> {
        let offset = args.optional("OFFSET", 0usize);
        args.finish()?;
        Ok(MarkIPHeader { offset })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalMarkIPHeader { offset: self.offset })
    }
}

impl Simple for LocalMarkIPHeader {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        for packet in batch.iter_mut() {
            let Some(bytes) = packet.data().get(self.offset..) else { continue };
            let header = Ipv4::new(bytes).map(|ip| ip.header_len()).filter(|&h| h <= bytes.len());
            packet.set_network_offset(self.offset);
            if let Some(header) = header {
                packet.set_transport_offset(self.offset + header);
            }
        }
    }
}
