//! `Truncate`: cuts packets to a greatest length.
//!
//! # Arguments
//! - `LENGTH`: bytes that remain, at most.
//! - `EXTRA_ANNO`: true = the bytes cut off are added to the extra length annotation. Default true.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "123456", LIMIT 3) -> Truncate(4) -> c :: Counter -> Discard;
//! // c.byte_count = 12
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Out, Simple, Spec};
use packet::{Batch, Packet, anno};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Truncate {
    length: usize,
    extra_anno: bool,
}

/// One worker's part of [`Truncate`].
#[derive(Debug)]
pub struct LocalTruncate {
    shared: Arc<Truncate>,
}

impl Class for Truncate {
    const SPEC: Spec = Spec { annotations: true, ..Spec::new("Truncate", "1/1", "a/a") };
    type Local = Agnostic<LocalTruncate>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Truncate, ConfigErrors> {
        let extra_anno = args.keyword("EXTRA_ANNO", true);
        let length = args.required("LENGTH");
        args.finish()?;
        Ok(Truncate { length, extra_anno })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalTruncate { shared: self.clone() })
    }
}

impl Truncate {
    fn cut(&self, packet: &mut Packet) {
        let extra = packet.len().saturating_sub(self.length);
        if extra == 0 {
            return;
        }
        packet.truncate(self.length);
        if self.extra_anno {
            let extra = u32::try_from(extra).unwrap_or(u32::MAX);
            let before = packet.anno_u32(anno::EXTRA_LENGTH);
            packet.set_anno_u32(anno::EXTRA_LENGTH, before.saturating_add(extra));
        }
    }
}

impl Simple for LocalTruncate {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {
        batch.iter_mut().for_each(|p| self.shared.cut(p));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, hex, through};

    #[test]
    fn long_packets_are_cut_and_the_rest_is_noted() {
        let frames = [&[1u8, 2, 3, 4, 5][..], &[1, 2, 3], &[1, 2], &[]].map(Frame::new);
        // What was cut off in all, in the lowest byte of the annotation, comes out as paint.
        let cut = |arguments: &str| {
            let (kept, losses) = through(&format!("Truncate({arguments}) -> CheckPaint(0)"), &frames);
            assert!(losses.is_empty());
            kept.iter().map(|f| hex(&f.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(cut("3"), ["010203", "010203", "0102", ""]);
        let low = if cfg!(target_endian = "little") { 28 } else { 31 };
        let noted = |elements: &str| {
            through(&format!("{elements} -> CheckPaint(4, ANNO {low})"), &frames[..1]).0.len()
        };
        assert_eq!(noted("Truncate(3) -> Truncate(1)"), 1);
        assert_eq!(noted("Truncate(3) -> Truncate(1, EXTRA_ANNO false)"), 0);
    }
}
