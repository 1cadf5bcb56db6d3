//! `DecIP6HLIM`: decrements the hop limit of IPv6 packets.
//!
//! A packet whose hop limit is 1 or 0 has expired (RFC 8200 §3) and is not changed. Packets must have a network header
//! mark, as `CheckIP6Header` sets it; a header that was stripped since is found all the same.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One input; packets leave by output 0, push or pull. Expired ones leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `drops` | r | expired packets |
//!
//! # Losses
//! - `expired`: the hop limit was 1 or 0.
//! - `no_header`: the packet has no network header mark, or ends within the header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 00003b01 20010db8000000000000000000000001 20010db8000000000000000000000002>, LIMIT 3)
//!   -> CheckIP6Header -> hops :: DecIP6HLIM -> Discard;
//! hops[1] -> expired :: Counter -> Discard;
//! // hops.drops = 3
//! // expired.count = 3
//! ```

use crate::ip::hops::{EXPIRED, LOSSES, NO_HEADER, go_on};
use epoch::{Count, PerWorker};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::ipv6::{self, HEADER_LEN};
use packet::{Batch, Packet};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct DecIP6HLIM {
    drops: PerWorker<Count>,
}

/// One worker's part of [`DecIP6HLIM`].
#[derive(Debug)]
pub struct LocalDecIP6HLIM {
    shared: Arc<DecIP6HLIM>,
    worker: usize,
}

impl Class for DecIP6HLIM {
    const SPEC: Spec = Spec { losses: &LOSSES, ..Spec::new("DecIP6HLIM", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalDecIP6HLIM>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<DecIP6HLIM, ConfigErrors> {
        args.finish()?;
        Ok(DecIP6HLIM { drops: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalDecIP6HLIM { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<DecIP6HLIM>) {
        h.read("drops", |d| d.drops.sum(Count::get).to_string());
    }
}

fn decrement(packet: &mut Packet) -> Result<(), Loss> {
    let header = packet.network_head_mut::<HEADER_LEN>().ok_or(NO_HEADER)?;
    if ipv6::decrement_hop_limit(header) { Ok(()) } else { Err(EXPIRED) }
}

impl Simple for LocalDecIP6HLIM {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let second = |mut packet: Packet| {
            let taken = decrement(&mut packet);
            go_on(packet, taken, &self.shared.drops[self.worker], out)
        };
        batch.sift_network(ipv6::decrement_hop_limit, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;

    #[test]
    fn cases() {
        let run = |limit: u8| {
            let mut bytes = [0xee; 50];
            bytes[7] = limit;
            let mut packet = Pool::heap(4, 256).packet(&bytes).unwrap();
            packet.set_network_offset(0);
            let result = decrement(&mut packet);
            let after = packet.data()[7];
            packet.free();
            (result, after)
        };
        assert_eq!(run(255), (Ok(()), 254));
        assert_eq!(run(2), (Ok(()), 1));
        assert_eq!(run(1), (Err(EXPIRED), 1));
        assert_eq!(run(0), (Err(EXPIRED), 0));
        let mut packet = Pool::heap(4, 256).packet(&[0x60; 40]).unwrap();
        assert_eq!(decrement(&mut packet), Err(NO_HEADER));
        packet.set_network_offset(0);
        packet.truncate(39);
        assert_eq!(decrement(&mut packet), Err(NO_HEADER));
        assert!(packet.put(1) && packet.pull(40));
        assert_eq!(decrement(&mut packet), Ok(()), "stripped, but there");
        packet.free();
    }
}
