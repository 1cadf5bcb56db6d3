//! `IP6Mirror`: swaps source and destination address of IPv6 packets.
//!
//! Checksums of upper layers stay right: their sum has both addresses. The destination annotation is cleared, so that
//! the new destination counts.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull. Packets must have a network header mark; without one they pass as they are.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b40 20010db8000000000000000000000001 20010db9000000000000000000000002>, LIMIT 2)
//!   -> CheckIP6Header -> IP6Mirror -> rt :: LookupIP6Route(2001:db8::/32 0);
//! rt -> back :: Counter -> Discard;
//! // back.count = 2
//! ```

use super::addresses::clear_destination;
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::Batch;
use packet::wire::ipv6::HEADER_LEN;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct IP6Mirror;

/// One worker's part of [`IP6Mirror`].
#[derive(Debug)]
pub struct LocalIP6Mirror;

impl Class for IP6Mirror {
    const SPEC: Spec = Spec::new("IP6Mirror", "1/1", "a/a");
    type Local = Agnostic<LocalIP6Mirror>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<IP6Mirror, ConfigErrors> {
        args.finish()?;
        Ok(IP6Mirror)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalIP6Mirror)
    }
}

/// Swaps the addresses.
#[inline]
pub(super) fn swap(head: &mut [u8; HEADER_LEN]) {
    let (front, destination) = head.split_at_mut(24);
    front[8..].swap_with_slice(destination);
}

impl Simple for LocalIP6Mirror {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        for packet in batch.iter_mut() {
            let Some(head) = packet.network_head_mut::<HEADER_LEN>() else { continue };
            swap(head);
            clear_destination(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, bytes, through};

    #[test]
    fn addresses_change_places() {
        let ip = |a: &str, b: &str| {
            bytes(&format!(
                "60000000 00013b40 {a}0000000000000000000000000001 {b}0000000000000000000000000002 99"
            ))
        };
        let (kept, losses) = through("MarkIP6Header -> IP6Mirror", &[Frame::new(&ip("2001", "3ffe"))]);
        let want =
            bytes("60000000 00013b40 3ffe0000000000000000000000000002 20010000000000000000000000000001 99");
        assert_eq!((kept[0].bytes.clone(), losses), (want, vec![]));
    }
}
