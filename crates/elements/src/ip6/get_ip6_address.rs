//! `GetIP6Address`: copies an IPv6 address out of the packet into an annotation.
//!
//! # Arguments
//! - `OFFSET`: where the address stands, in bytes from the start of the packet; 24 for the destination of an IPv6 packet.
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
//! InfiniteSource(DATA \<20010db8000000000000000000000001>, LIMIT 6)
//!   -> GetIP6Address(0) -> rt :: LookupIP6Route(::/0 0, 2001:db8::/32 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 6
//! ```

use crate::anno_offset::AnnoOffset;
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::{Batch, anno};
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct GetIP6Address {
    offset: usize,
    anno: usize,
}

/// One worker's part of [`GetIP6Address`].
#[derive(Debug)]
pub struct LocalGetIP6Address {
    offset: usize,
    anno: usize,
}

impl Class for GetIP6Address {
    const SPEC: Spec =
        Spec { losses: &["short"], annotations: true, ..Spec::new("GetIP6Address", "1/1", "a/a") };
    type Local = Agnostic<LocalGetIP6Address>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<GetIP6Address, ConfigErrors> {
        args.keywords(&["OFFSET", "ANNO"]);
        let offset = args.required("OFFSET");
        let anno: AnnoOffset<16> = args.optional("ANNO", AnnoOffset(anno::DST_IP6));
        args.finish()?;
        Ok(GetIP6Address { offset, anno: anno.0 })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalGetIP6Address { offset: self.offset, anno: self.anno })
    }
}

impl Simple for LocalGetIP6Address {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(
            |packet| {
                let Some(&address) = packet.head::<16>(self.offset) else { return false };
                packet.write_anno(self.anno, &address);
                true
            },
            |packet| out.lose(packet, SHORT),
        );
    }
}
