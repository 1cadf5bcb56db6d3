//! `MarkMACHeader`: marks where the link-layer header begins.
//!
//! # Arguments
//! - `OFFSET`: where, in bytes from the start of the packet. Default 0.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `short`: the packet ends before the offset.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> MarkMACHeader -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::{Batch, Packet};
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct MarkMACHeader {
    offset: usize,
}

/// One worker's part of [`MarkMACHeader`].
#[derive(Debug)]
pub struct LocalMarkMACHeader {
    offset: usize,
}

impl Class for MarkMACHeader {
    const SPEC: Spec = Spec { losses: &["short"], ..Spec::new("MarkMACHeader", "1/1", "a/a") };
    type Local = Agnostic<LocalMarkMACHeader>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<MarkMACHeader, ConfigErrors> {
        let offset = args.optional("OFFSET", 0);
        args.finish()?;
        Ok(MarkMACHeader { offset })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalMarkMACHeader { offset: self.offset })
    }
}

impl Simple for LocalMarkMACHeader {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let mark = |p: &mut Packet| {
            let inside = self.offset <= p.len();
            if inside {
                p.set_mac_offset(self.offset);
            }
            inside
        };
        batch.retain(mark, |p| out.lose(p, SHORT));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, through};

    #[test]
    fn the_mark_is_set() {
        let frames = [&[1u8, 2, 3][..], &[1, 2], &[1]].map(Frame::new);
        let (kept, losses) = through("m :: MarkMACHeader(2)", &frames);
        assert_eq!(kept.iter().map(|f| f.mac).collect::<Vec<_>>(), [Some(2), Some(2)]);
        assert_eq!(losses, ["m.short = 1"]);
        assert_eq!(through("MarkMACHeader", &frames[..1]).0[0].mac, Some(0));
    }
}
