//! `StripToNetworkHeader`: removes all bytes before the network header.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `no_header`: the packet has no marked network header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "12345678", LIMIT 3) -> s :: StripToNetworkHeader -> c :: Counter -> Discard;
//! // c.count = 0
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::Batch;
use std::sync::Arc;

const NO_HEADER: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct StripToNetworkHeader;

/// One worker's part of [`StripToNetworkHeader`].
#[derive(Debug)]
pub struct LocalStripToNetworkHeader;

impl Class for StripToNetworkHeader {
    const SPEC: Spec = Spec { losses: &["no_header"], ..Spec::new("StripToNetworkHeader", "1/1", "a/a") };
    type Local = Agnostic<LocalStripToNetworkHeader>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<StripToNetworkHeader, ConfigErrors> {
        args.finish()?;
        Ok(StripToNetworkHeader)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalStripToNetworkHeader)
    }
}

impl Simple for LocalStripToNetworkHeader {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(|p| p.network_offset().is_some_and(|offset| p.pull(offset)), |p| out.lose(p, NO_HEADER));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, hex, through};

    #[test]
    fn the_network_header_comes_first() {
        let frames = [2, 0, 4].map(|offset| Frame::new(&[1, 2, 3, 4]).network(offset));
        let (kept, losses) =
            through("s :: StripToNetworkHeader", &[&frames[..], &[Frame::new(&[1])]].concat());
        assert_eq!(kept.iter().map(|f| hex(&f.bytes)).collect::<Vec<_>>(), ["0304", "01020304", ""]);
        assert!(kept.iter().all(|f| f.network == Some(0)));
        assert_eq!(losses, ["s.no_header = 1"]);
    }
}
