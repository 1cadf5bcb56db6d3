//! `StoreData`: overwrites bytes of packets.
//!
//! # Arguments
//! - `OFFSET`: where the first byte goes.
//! - `DATA`: the bytes.
//! - `MASK`: as long as `DATA`; only bits that are 1 in it are changed. Default: all.
//! - `GROW`: true = packets that end earlier are made longer, with zeros up to the offset. Default false: what lies
//!   behind the end of the packet is not stored.
//!
//! # Ports
//! One input, one output; push or pull.
//!
//! # Losses
//! - `no_room`: the buffer has no room for a longer packet.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA "abcdef", LIMIT 3) -> StoreData(2, "XY") -> Classifier(0/616258596566)
//!   -> c :: Counter -> Discard;
//! // c.count = 3
//! ```

use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, LocalCx, Loss, Out, Simple, Spec};
use packet::{Batch, Packet};
use std::sync::Arc;

const NO_ROOM: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct StoreData {
    offset: usize,
    data: Vec<u8>,
    mask: Vec<u8>,
    grow: bool,
}

/// One worker's part of [`StoreData`].
#[derive(Debug)]
pub struct LocalStoreData {
    shared: Arc<StoreData>,
}

impl Class for StoreData {
    const SPEC: Spec = Spec { losses: &["no_room"], ..Spec::new("StoreData", "1/1", "a/a") };
    type Local = Agnostic<LocalStoreData>;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<StoreData, ConfigErrors> {
        args.keywords(&["OFFSET", "DATA", "MASK", "GROW"]);
        let grow = args.keyword("GROW", false);
        let offset = args.required("OFFSET");
        let data: Vec<u8> = args.required("DATA");
        let mask = args.optional("MASK", vec![0xff; data.len()]);
        if mask.len() != data.len() {
            args.error("MASK", format!("{} bytes long, but DATA has {}", mask.len(), data.len()));
        }
        args.finish()?;
        Ok(StoreData { offset, data, mask, grow })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> Self::Local {
        Agnostic(LocalStoreData { shared: self.clone() })
    }
}

impl StoreData {
    fn store(&self, packet: &mut Packet) -> bool {
        let end = self.offset.saturating_add(self.data.len());
        let len = packet.len();
        if self.grow && end > len {
            if !packet.put(end - len) {
                return false;
            }
            packet.data_mut()[len..].fill(0);
        }
        let room = packet.data_mut().get_mut(self.offset..).unwrap_or(&mut []);
        for ((byte, data), mask) in room.iter_mut().zip(&self.data).zip(&self.mask) {
            *byte = *byte & !mask | data & mask;
        }
        true
    }
}

impl Simple for LocalStoreData {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        batch.retain(|p| self.shared.store(p), |p| out.lose(p, NO_ROOM));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, errors, hex, through};

    fn stored(arguments: &str, bytes: &[u8]) -> (Vec<String>, Vec<String>) {
        let (kept, losses) = through(&format!("s :: StoreData({arguments})"), &[Frame::new(bytes)]);
        (kept.iter().map(|f| hex(&f.bytes)).collect(), losses)
    }

    #[test]
    fn bytes_are_stored() {
        for (arguments, want) in [
            (r"1, \<aabb>", "00aabb00"),
            (r"3, \<aabb>", "000000aa"),
            (r"9, \<aabb>", "00000000"),
            (r"3, \<aabb>, GROW true", "000000aabb"),
            (r"5, \<aa>, GROW true", "0000000000aa"),
            (r"0, \<ffff>, \<0ff0>", "0ff00000"),
            ("DATA ab, OFFSET 0", "61620000"),
        ] {
            assert_eq!(stored(arguments, &[0; 4]), (vec![want.to_owned()], vec![]), "{arguments}");
        }
        assert_eq!(stored("65000, a, GROW true", &[0]), (vec![], vec!["s.no_room = 1".to_owned()]));
    }

    #[test]
    fn mistakes() {
        let text = errors("Idle -> StoreData(0, abc, ab) -> Discard;");
        assert!(text.contains("MASK: 2 bytes long, but DATA has 3"), "{text}");
    }
}
