//! `DecIPTTL`: decrements the time to live of IPv4 packets and mends the checksum.
//!
//! A packet whose TTL is 1 or 0 has expired (RFC 1812 §5.3.1) and is not changed. Packets must have a network header
//! mark, as `CheckIPHeader` sets it; a header that was stripped since is found all the same.
//!
//! # Arguments
//! - `MULTICAST`: false = packets to multicast addresses pass as they are. Default true.
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
//! - `expired`: the TTL was 1 or 0.
//! - `no_header`: the packet has no network header mark, or ends within the header.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 0111 a5d7 0a000001 0a000002>, LIMIT 3)
//!   -> CheckIPHeader -> ttl :: DecIPTTL -> Discard;
//! ttl[1] -> expired :: Counter -> Discard;
//! // ttl.drops = 3
//! // expired.count = 3
//! ```

use super::hops::{EXPIRED, LOSSES, NO_HEADER, go_on};
use epoch::{Count, PerWorker};
use graph::{Agnostic, Args, Class, ConfigErrors, Configure, Cx, Handlers, LocalCx, Loss, Out, Simple, Spec};
use packet::wire::ipv4::{self, MIN_HEADER_LEN};
use packet::{Batch, Packet};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct DecIPTTL {
    multicast: bool,
    drops: PerWorker<Count>,
}

/// One worker's part of [`DecIPTTL`].
#[derive(Debug)]
pub struct LocalDecIPTTL {
    shared: Arc<DecIPTTL>,
    worker: usize,
}

impl Class for DecIPTTL {
    const SPEC: Spec = Spec { losses: &LOSSES, ..Spec::new("DecIPTTL", "1/1-2", "a/ah") };
    type Local = Agnostic<LocalDecIPTTL>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<DecIPTTL, ConfigErrors> {
        let multicast = args.keyword("MULTICAST", true);
        args.finish()?;
        Ok(DecIPTTL { multicast, drops: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> Self::Local {
        Agnostic(LocalDecIPTTL { shared: self.clone(), worker: cx.worker })
    }

    fn handlers(h: &mut Handlers<DecIPTTL>) {
        h.read("drops", |d| d.drops.sum(Count::get).to_string());
    }
}

impl DecIPTTL {
    fn decrement(&self, packet: &mut Packet) -> Result<(), Loss> {
        let header = packet.network_head_mut::<MIN_HEADER_LEN>().ok_or(NO_HEADER)?;
        if !self.multicast && is_multicast(header) || ipv4::decrement_ttl(header) {
            return Ok(());
        }
        Err(EXPIRED)
    }
}

#[inline(always)]
fn is_multicast(header: &[u8; MIN_HEADER_LEN]) -> bool {
    header[16] >> 4 == 0xe
}

impl Simple for LocalDecIPTTL {
    fn act(&mut self, batch: &mut Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        let second = |mut packet: Packet| {
            let taken = shared.decrement(&mut packet);
            go_on(packet, taken, &shared.drops[self.worker], out)
        };
        match (shared.multicast, batch.has_plain_ttls()) {
            (true, true) => {
                let first = |header: &mut _| {
                    ipv4::decrement_plain_ttl(header);
                    true
                };
                batch.sift_network(first, second);
            }
            (true, false) => batch.sift_network(ipv4::decrement_ttl_usual, second),
            (false, _) => {
                batch.sift_network(
                    |header| !is_multicast(header) && ipv4::decrement_ttl_usual(header),
                    second,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Pool;
    use packet::wire::ipv4::Ipv4;

    fn run(multicast: bool, ttl: u8, destination: u8) -> (Result<(), Loss>, u8, bool) {
        let element = DecIPTTL { multicast, drops: PerWorker::new(1) };
        let mut bytes = *b"\x45\x00\x00\x14\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02";
        (bytes[8], bytes[16]) = (ttl, destination);
        ipv4::set_checksum(&mut bytes);
        let mut packet = Pool::heap(4, 256).packet(&bytes).unwrap();
        packet.set_network_offset(0);
        let result = element.decrement(&mut packet);
        let ip = Ipv4::new(packet.data()).unwrap();
        let seen = (result, ip.ttl(), ip.checksum_is_valid());
        packet.free();
        seen
    }

    #[test]
    fn cases() {
        assert_eq!(run(true, 255, 10), (Ok(()), 254, true));
        assert_eq!(run(true, 2, 10), (Ok(()), 1, true));
        assert_eq!(run(true, 1, 10), (Err(EXPIRED), 1, true));
        assert_eq!(run(true, 0, 10), (Err(EXPIRED), 0, true));
        assert_eq!(run(true, 9, 224), (Ok(()), 8, true));
        assert_eq!(run(false, 9, 239), (Ok(()), 9, true));
        assert_eq!(run(false, 9, 240), (Ok(()), 8, true));
        let element = DecIPTTL { multicast: true, drops: PerWorker::new(1) };
        let mut packet = Pool::heap(4, 256).packet(&[0x45; 20]).unwrap();
        assert_eq!(element.decrement(&mut packet), Err(NO_HEADER));
        packet.set_network_offset(0);
        packet.truncate(19);
        assert_eq!(element.decrement(&mut packet), Err(NO_HEADER));
        assert!(packet.put(1) && packet.pull(20));
        assert_eq!(element.decrement(&mut packet), Ok(()), "stripped, but there");
        packet.free();
    }
}
