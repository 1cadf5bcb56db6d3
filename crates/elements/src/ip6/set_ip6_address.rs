//! `SetIP6Address`: sets the destination address annotation.
//!
//! # Arguments
//! - `IP`: the address. One that begins with four zero octets, such as `::`, makes the destination address in the
//!   packet's header count.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 6) -> SetIP6Address(2001:db8::9) -> rt :: LookupIP6Route(::/0 0, 2001:db8::/32 1);
//! rt[0] -> Discard;
//! rt[1] -> c :: Counter -> Discard;
//! // c.count = 6
//! ```

use super::addresses::set_destination;
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct SetIP6Address {
    address: u128,
}

/// One worker's part of [`SetIP6Address`].
#[derive(Debug)]
pub struct LocalSetIP6Address {
    address: u128,
}

impl Class for SetIP6Address {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("SetIP6Address", "1/1", "a/a") };
    type Local = Agnostic<LocalSetIP6Address>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<SetIP6Address, ConfigErrors> {
        let address: Ipv6Addr = args.required("IP");
        args.finish()?;
        Ok(SetIP6Address { address: address.to_bits() })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalSetIP6Address { address: self.address })
    }
}

impl Simple for LocalSetIP6Address {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        batch.iter_mut().for_each(|packet| set_destination(packet, self.address));
    }
}
