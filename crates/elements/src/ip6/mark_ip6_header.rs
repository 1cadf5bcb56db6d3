//! `MarkIP6Header`: notes where the IPv6 header is, without checking it.
//!
//! # Arguments
//! - `OFFSET`: where the IPv6 header begins, in bytes. Default 0.
//!
//! # Ports
//! One input, one output; push or pull. Sets the network header mark and, behind the extension headers, the transport
//! header mark. A packet that ends before there is passed on without marks.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<00000000 60000000 00003b01 20010db8000000000000000000000001 20010db8000000000000000000000002>, LIMIT 4)
//!   -> MarkIP6Header(4) -> hops :: DecIP6HLIM -> Discard;
//! // hops.drops = 4
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use packet::wire::ipv6::Ipv6;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct MarkIP6Header {
    offset: usize,
}

/// One worker's part of [`MarkIP6Header`].
#[derive(Debug)]
pub struct LocalMarkIP6Header {
    offset: usize,
}

impl Class for MarkIP6Header {
    const SPEC: Spec = Spec::new("MarkIP6Header", "1/1", "a/a");
    type Local = Agnostic<LocalMarkIP6Header>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<MarkIP6Header, ConfigErrors> {
        let offset = args.optional("OFFSET", 0usize);
        args.finish()?;
        Ok(MarkIP6Header { offset })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalMarkIP6Header { offset: self.offset })
    }
}

impl Simple for LocalMarkIP6Header {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        for packet in batch.iter_mut() {
            let Some(bytes) = packet.data().get(self.offset..) else { continue };
            let upper = Ipv6::new(bytes).and_then(|ip| ip.upper_layer());
            packet.set_network_offset(self.offset);
            if let Some(upper) = upper {
                packet.set_transport_offset(self.offset + upper.offset);
            }
        }
    }
}
