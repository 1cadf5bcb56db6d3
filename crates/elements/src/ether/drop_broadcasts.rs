//! `DropBroadcasts`: stops packets that came as link-level broadcast or multicast.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull. Packets whose packet type annotation says broadcast or multicast leave by push
//! output 1 if that is connected.
//!
//! # Losses
//! - `broadcast`: came as broadcast or multicast.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<ffffffffffff 020000000002 0800>, LIMIT 3) -> HostEtherFilter(2:0:0:0:0:1)
//!   -> d :: DropBroadcasts -> a :: Counter -> Discard;
//! d[1] -> b :: Counter -> Discard;
//! // a.count = 0
//! // b.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::{Batch, PacketType};
use std::sync::Arc;

const BROADCAST: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct DropBroadcasts;

/// One worker's part of [`DropBroadcasts`].
#[derive(Debug)]
pub struct LocalDropBroadcasts;

impl Class for DropBroadcasts {
    const SPEC: Spec =
        Spec { losses: &["broadcast"], annotations: true, ..Spec::new("DropBroadcasts", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalDropBroadcasts>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<DropBroadcasts, ConfigErrors> {
        args.finish()?;
        Ok(DropBroadcasts)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalDropBroadcasts)
    }
}

impl Simple for LocalDropBroadcasts {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(
            |p| !matches!(p.packet_type(), PacketType::Broadcast | PacketType::Multicast),
            |p| out.reject(1, p, BROADCAST),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, through};

    #[test]
    fn only_packets_to_one_host_pass() {
        let frames = [0, 1, 2, 3, 4].map(|packet_type| Frame { packet_type, ..Frame::new(&[packet_type]) });
        let (kept, losses) = through("d :: DropBroadcasts", &frames);
        assert_eq!(kept.iter().map(|f| f.packet_type).collect::<Vec<_>>(), [0, 3, 4]);
        assert_eq!(losses, ["d.broadcast = 2"]);
    }
}
