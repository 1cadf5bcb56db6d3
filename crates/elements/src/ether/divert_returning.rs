//! `DivertReturning`: diverts a few of the packets that would leave by the interface that they came in by.
//!
//! Whoever sends such packets could send them to their next hop at once. In `routebricks router` Linux gets those that are
//! diverted: it forwards them, and tells their senders so by redirects (RFC 792, RFC 4861 §8) as far as it has reason to.
//!
//! # Arguments
//! - `ADJACENCIES`: a name: that of the `AdjacencyRewrite` or `IP6AdjacencyRewrite` behind it.
//! - `PORT`: the number of the port that packets come from.
//! - `INTERFACES`: a name, as that of `FindInterface`: packets come from the VLANs of the port that their tags say.
//! - `RATE`: so many packets are diverted a second, 0 = none; a tenth of that, but at least one, may be at once. Default 100.
//!
//! # Ports
//! One push input; push output 0 for nearly all packets, 1 for those that are diverted. Routes must have been looked up; of
//! a route with several ways each counts.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `diverted` | r | packets diverted so far |
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4500001400000000 4011a6e9 0a000001 0a010203>, LIMIT 50) -> MarkIPHeader(0) -> GetIPAddress(16)
//!   -> rt :: DirectIPLookup(10.1.0.0/16 1, ONE_OUTPUT true) -> back :: DivertReturning(ADJACENCIES a, PORT 1, RATE 30);
//! back[0] -> rewrite :: AdjacencyRewrite(rt, ADJACENCIES a, 1 - 2:0:0:0:0:1 2:0:0:0:0:2);
//! rewrite[0] -> Discard;
//! rewrite[1] -> c :: Counter -> Discard;
//! back[1] -> d :: Counter -> Discard;
//! // d.count = 3
//! // c.count = 47
//! ```

use super::find_interface::interface_of;
use crate::icmp::rate::Rate;
use crate::ip::interfaces;
use epoch::{Count, PerWorker};
use fib::{Adjacencies, Forwarding, InterfaceMap, Interfaces, Member, NextHopId};
use graph::{Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Out, Spec, Way};
use packet::{Batch, Packet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// See the module.
#[derive(Debug)]
pub struct DivertReturning {
    adjacencies: Arc<Adjacencies>,
    port: u16,
    interfaces: Option<Arc<Interfaces>>,
    rate: Option<Rate>,
    due: AtomicU64,
    diverted: PerWorker<Count>,
}

/// One worker's part of [`DivertReturning`].
#[derive(Debug)]
pub struct LocalDivertReturning {
    shared: Arc<DivertReturning>,
    worker: usize,
}

impl Class for DivertReturning {
    const SPEC: Spec = Spec::new("DivertReturning", "1/2", "h/h");
    type Local = LocalDivertReturning;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<DivertReturning, ConfigErrors> {
        let adjacencies: String = args.required("ADJACENCIES");
        let adjacencies = cx.tables.get_or(&adjacencies, Adjacencies::default);
        let port = args.required("PORT");
        let interfaces = interfaces(args, cx);
        let rate = args.keyword("RATE", 100);
        args.finish()?;
        let (rate, due) = (Rate::new(rate, rate / 10), AtomicU64::new(0));
        Ok(DivertReturning { adjacencies, port, interfaces, rate, due, diverted: PerWorker::new(cx.workers) })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalDivertReturning {
        LocalDivertReturning { shared: self.clone(), worker: cx.worker }
    }

    fn handlers(h: &mut Handlers<DivertReturning>) {
        h.read("diverted", |d| d.diverted.sum(Count::get).to_string());
    }
}

/// True if packets whose lookup gave `number` may leave by this interface.
#[inline]
fn may_leave_by(number: u32, interface: u32, forwarding: &Forwarding) -> bool {
    let leaves = |number: u32| {
        let adjacency = forwarding.list().get(number as usize).filter(|adjacency| adjacency.is_usable());
        adjacency.is_some_and(|adjacency| u32::from(adjacency.interface()) == interface)
    };
    let any = |members: &[Member]| members.iter().any(|m| leaves(NextHopId::bits(Some(m.hop))));
    leaves(number) || (forwarding.has_groups() && forwarding.members(number).is_some_and(any))
}

impl Element for LocalDivertReturning {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let shared = &*self.shared;
        let Some(rate) = shared.rate else { return out.emit(0, batch) };
        let forwarding = shared.adjacencies.read(cx.reader);
        let map: Option<&InterfaceMap> = shared.interfaces.as_ref().map(|all| all.read(cx.reader));
        let returns = |packet: &Packet| {
            let interface = match map {
                None => Some(u32::from(shared.port)),
                Some(map) => interface_of(shared.port, packet.data(), map),
            };
            interface.is_some_and(|interface| may_leave_by(packet.next_hop(), interface, forwarding))
        };
        if !batch.iter().any(returns) {
            return out.emit(0, batch);
        }
        let count = &shared.diverted[self.worker];
        out.split(batch, |packet| {
            if !returns(packet) || !rate.take(&shared.due, cx.now) {
                return Way::Port(0);
            }
            count.add(1);
            Way::Port(1)
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Frame, Lab, bytes, errors};

    /// What was diverted, and what went on, by the last byte.
    fn sorted(lab: &mut Lab, feed: &str, frames: &[Vec<u8>]) -> [Vec<u8>; 2] {
        frames.iter().for_each(|frame| lab.at(0, feed, &Frame::new(frame)));
        lab.run();
        let tags = |keep: &str| lab.kept(keep).iter().filter_map(|f| f.bytes.last().copied()).collect();
        [tags("k1"), tags("k0")]
    }

    fn frame(tags: &str, to: u8, tag: u8) -> Vec<u8> {
        bytes(&format!(
            "020000000001 020000000009 {tags} 0800 45000015 00000000 40110000 0a000001 0a0{to}0001 {tag:02x}"
        ))
    }

    const ROUTES: &str = "10.1.0.0/16 192.168.0.1 1, 10.2.0.0/16 2, 10.3.0.0/16 9, 10.4.0.0/16 8, 10.5.0.0/16 3, 10.6.0.0/16 1";
    const NEIGHBOURS: &str = "1 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:2, 2 - 2:0:0:0:0:1 2:0:0:0:0:2,
        3 - 2:0:0:0:0:1 2:0:0:0:0:2, group 9 - 1 192.168.0.1 1 2 - 1, group 8 - 2 - 1";

    #[test]
    fn few_of_those_that_go_back_are_diverted() {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> MarkIPHeader(14) -> GetIPAddress(30) -> rt :: DirectIPLookup({ROUTES}, ONE_OUTPUT true)
               -> d :: DivertReturning(ADJACENCIES a, PORT 1, RATE 40);
             d[0] -> k0 :: Keep; d[1] -> k1 :: Keep;
             Idle -> a :: AdjacencyRewrite(rt, ADJACENCIES a, {NEIGHBOURS}); a[0], a[1], a[2], a[3] -> Discard;"
        ));
        // A neighbour that is not known sends nobody back.
        let frames: Vec<_> = (1..=6).map(|to| frame("", to, to)).collect();
        assert_eq!(sorted(&mut lab, "f", &frames), [vec![1, 3], vec![2, 4, 5, 6]]);
        // Four at once in all, then one each 25 ms.
        let many: Vec<_> = (0..9).map(|tag| frame("", 1, tag)).collect();
        assert_eq!(sorted(&mut lab, "f", &many), [vec![0, 1], (2..9).collect::<Vec<_>>()]);
        assert_eq!(lab.0.read("d.diverted"), "4");
    }

    #[test]
    fn frames_with_tags_come_from_their_vlan() {
        let mut lab = Lab::new(&format!(
            "f :: Feed -> v :: FindInterface(PORT 1, INTERFACES i, 3 eth1.100 1 100 2:0:0:0:0:1, 4 eth1.200 1 200 2:0:0:0:0:1);
             v[1], v[2], v[3], v[4], v[5], v[6] -> Discard;
             v[0] -> MarkIPHeader(18) -> GetIPAddress(34) -> rt :: DirectIPLookup({ROUTES}, ONE_OUTPUT true)
               -> d :: DivertReturning(ADJACENCIES a, PORT 1, INTERFACES i);
             d[0] -> k0 :: Keep; d[1] -> k1 :: Keep;
             Idle -> a :: AdjacencyRewrite(rt, ADJACENCIES a, INTERFACES i, {NEIGHBOURS}); a[0], a[1], a[2] -> Discard;"
        ));
        let frames = [("8100 0064", 5, 0), ("8100 00c8", 5, 1), ("8100 0064", 1, 2)];
        let frames = frames.map(|(tags, to, tag)| frame(tags, to, tag));
        assert_eq!(sorted(&mut lab, "f", &frames), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn what_it_needs() {
        let error = errors("Idle -> d :: DivertReturning(PORT 0) -> Discard; d[1] -> Discard;");
        assert!(error.contains("ADJACENCIES"), "{error}");
    }
}
