//! `IP6Fragmenter`: keeps IPv6 packets that are longer than the MTU from going on.
//!
//! Routers do not cut IPv6 packets (RFC 8200 §5): their senders do, when an `ICMP6Error` of type `packettoobig` at
//! output 1 has told them the MTU.
//!
//! # Arguments
//! - `MTU`: the longest IPv6 packet that may pass, in bytes; at least 1280.
//! - `VERBOSE`: true = a line on the standard error output for every packet that is too long. Default false.
//!
//! # Ports
//! One push input; packets leave by push output 0. Too long ones leave by push output 1 if that is connected. Bytes
//! before the network header mark, and behind the end of the packet, do not count.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `drops` | r | packets that were too long |
//!
//! # Losses
//! - `too_big`: the packet is too long.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<60000000 05b43b40 20010db8000000000000000000000001 20010db8000000000000000000000002>, LENGTH 1500, LIMIT 2)
//!   -> CheckIP6Header -> f :: IP6Fragmenter(1499) -> Discard;
//! f[1] -> c :: Counter -> Discard;
//! // f.drops = 2
//! // c.byte_count = 3000
//! ```

use epoch::{Count, PerWorker};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec};
use io::say;
use packet::wire::ipv6::{Ipv6, MIN_MTU};
use packet::{Batch, Packet};
use std::sync::Arc;

const TOO_BIG: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct IP6Fragmenter {
    mtu: usize,
    verbose: bool,
    name: String,
    drops: PerWorker<Count>,
}

/// One worker's part of [`IP6Fragmenter`].
#[derive(Debug)]
pub struct LocalIP6Fragmenter {
    shared: Arc<IP6Fragmenter>,
    worker: usize,
}

impl Class for IP6Fragmenter {
    const SPEC: Spec = Spec { losses: &["too_big"], ..Spec::new("IP6Fragmenter", "1/1-2", "h/h") };
    type Local = LocalIP6Fragmenter;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IP6Fragmenter, ConfigErrors> {
        let mtu = args.required("MTU");
        let verbose = args.optional("VERBOSE", false);
        if mtu < MIN_MTU {
            args.error("MTU", format!("out of range, bound {MIN_MTU}"));
        }
        args.finish()?;
        Ok(IP6Fragmenter { mtu, verbose, name: cx.name.to_owned(), drops: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalIP6Fragmenter {
        LocalIP6Fragmenter { shared: self.clone(), worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<IP6Fragmenter>) {
        h.read("drops", |f| f.drops.sum(Count::get).to_string());
    }
}

impl IP6Fragmenter {
    #[inline]
    fn fits(&self, packet: &Packet) -> bool {
        packet.len() <= self.mtu || self.is_short(packet)
    }

    /// For packets with something before or behind the IP packet.
    fn is_short(&self, packet: &Packet) -> bool {
        let Some(bytes) = packet.network() else { return false };
        bytes.len() <= self.mtu || Ipv6::check(bytes).is_some_and(|ip| ip.total_len() <= self.mtu)
    }
}

impl Element for LocalIP6Fragmenter {
    fn push(&mut self, _: usize, mut batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        batch.retain(
            |packet| shared.fits(packet),
            |packet| {
                shared.drops[self.worker].add(1);
                if shared.verbose {
                    say!("{}: packet of {} bytes is too big", shared.name, packet.len());
                }
                out.reject(1, packet, TOO_BIG);
            },
        );
        out.emit(0, batch);
    }
}

#[cfg(test)]
mod tests {
    use crate::harness::{Bench, Setup};
    use crate::testing::errors;

    /// Of packets with so much before the header, so long a payload and so much behind it, how many are too long.
    fn drops(before: usize, payload: u16, behind: usize, mtu: usize) -> String {
        let config = format!(
            "InfiniteSource(DATA \\<{} 6000 0000 {payload:04x} 3b40>, LENGTH {}, LIMIT 3)
               -> MarkIP6Header({before}) -> f :: IP6Fragmenter({mtu}) -> Discard;",
            "00".repeat(before),
            before + 40 + usize::from(payload) + behind,
        );
        let mut bench = Bench::new(&config, &Setup::default()).unwrap();
        bench.run().unwrap();
        let drops = bench.read("f.drops");
        bench.end().unwrap();
        drops
    }

    #[test]
    fn only_the_packet_itself_counts() {
        assert_eq!((drops(0, 1460, 0, 1500), drops(0, 1461, 0, 1500)), ("0".into(), "3".into()));
        assert_eq!((drops(14, 1460, 9, 1500), drops(14, 1461, 9, 1500)), ("0".into(), "3".into()));
        assert!(errors("Idle -> IP6Fragmenter(1279) -> Discard;").contains("MTU: out of range, bound 1280"));
    }
}
