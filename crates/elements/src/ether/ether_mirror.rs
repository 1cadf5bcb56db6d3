//! `EtherMirror`: swaps source and destination address of Ethernet frames.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `short`: too short for an Ethernet header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<020000000001 020000000002 0800>, LIMIT 3) -> EtherMirror
//!   -> Classifier(0/020000000002020000000001 12/0800) -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};
use std::sync::Arc;

const SHORT: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct EtherMirror;

/// One worker's part of [`EtherMirror`].
#[derive(Debug)]
pub struct LocalEtherMirror;

impl Class for EtherMirror {
    const SPEC: Spec = Spec { losses: &["short"], ..Spec::new("EtherMirror", "1/1", "a/a") };
    type Local = Agnostic<LocalEtherMirror>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<EtherMirror, ConfigErrors> {
        args.finish()?;
        Ok(EtherMirror)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalEtherMirror)
    }
}

fn mirror(packet: &mut Packet) -> bool {
    let Some(header) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { return false };
    let (destination, rest) = header.split_at_mut(6);
    destination.swap_with_slice(&mut rest[..6]);
    true
}

impl Simple for LocalEtherMirror {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(mirror, |p| out.lose(p, SHORT));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, bytes, through};

    #[test]
    fn addresses_are_swapped() {
        let frames = [bytes("010203040506 0708090a0b0c 0800 99"), vec![1; 13]].map(|b| Frame::new(&b));
        let (kept, losses) = through("e :: EtherMirror", &frames);
        assert_eq!(kept[0].bytes, bytes("0708090a0b0c 010203040506 0800 99"));
        assert_eq!(losses, ["e.short = 1"]);
    }
}
