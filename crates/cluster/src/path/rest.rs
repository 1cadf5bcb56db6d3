//! While nothing goes by relays, flowlets need not be noted: they *rest*.
//!
//! When every packet has gone directly for longer than δ, all flowlets that there are are on their direct
//! paths, whichever packet belongs to which. So packets go directly as long as a flowlet that begins would, without a look
//! at flows. The first that cannot *wakes* flowlets: each flow then counts as one that just had a packet and went directly. So no flowlet
//! is split that was there; what begins within the next δ stays with the others as long as they fit.

use super::{PathChooser, Run};
use crate::flowlet::{DIRECT, PAPER_GAP};

/// How many times δ nothing goes by a relay before flowlets rest.
const TIMES: u64 = 10;

/// When flowlets rest.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    /// When something last went by a relay, or flowlets were woken.
    since: u64,
    /// How long after that they rest; for ever if they never do.
    after: u64,
}

impl Rest {
    /// Whether they rest at all, and δ in nanoseconds.
    pub fn new(rests: bool, gap: u64) -> Rest {
        Rest { since: 0, after: if rests { Rest::after(gap) } else { u64::MAX } }
    }

    /// Longer than δ, which would do: what is awake for moments between two bursts had better stay so, as in the second burst
    /// flows that begin would all go with those that are there.
    fn after(gap: u64) -> u64 {
        gap.max(PAPER_GAP).saturating_mul(TIMES)
    }

    /// Whether this δ makes them rest later or earlier.
    pub fn is_other(&self, gap: u64) -> bool {
        self.after != u64::MAX && self.after != Rest::after(gap)
    }

    /// Takes another δ, while they are awake.
    pub fn set_gap(&mut self, gap: u64) {
        self.after = Rest::after(gap);
    }
}

impl PathChooser {
    /// Whether flowlets rest: they are all on their direct paths, and [`PathChooser::resting_run`] says how much may go there
    /// before they are woken.
    #[inline]
    pub fn is_resting(&self) -> bool {
        self.now.saturating_sub(self.rest.since) >= self.rest.after
    }

    /// What may go directly to node `to`, whatever its flow, while flowlets rest.
    #[inline]
    pub fn resting_run(&mut self, to: u16) -> Option<Run> {
        // What flowlets that begin may fill: the rest is left to those that are there.
        self.direct_up_to(to, self.config.slack / 2)
    }

    /// Whether a packet goes directly because flowlets rest. Else they are awake.
    #[inline]
    pub(super) fn rests_with(&mut self, to: usize, len: u32) -> bool {
        if !self.is_resting() {
            return false;
        }
        let goes = self.goes_directly(to, len, self.config.slack / 2);
        if !goes {
            self.wake();
        }
        goes
    }

    /// A packet to node `to` goes by this link.
    #[inline]
    pub(super) fn went_by(&mut self, to: usize, link: usize) {
        if link != to {
            // What goes in another order does not ask whether flowlets rest.
            self.wake();
            self.rest.since = self.now;
        }
    }

    /// From now on flows are told apart, if they were not.
    #[inline]
    pub(super) fn wake(&mut self) {
        if self.is_resting() {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&mut self) {
        self.change();
        self.rest.since = self.now;
        let now = self.now;
        self.flowlets.iter_mut().for_each(|table| table.put_all_on(DIRECT, now));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, Order, Policy};
    use super::*;
    use crate::shares::{Links, small};
    use crate::topology::Topology;
    use proptest::prelude::*;

    const R: u64 = 8_000_000_000;
    const MS: u64 = 1_000_000;

    /// Node 0 of four, with links of 4 Gbit/s.
    fn chooser(policy: Policy, gap: u64) -> PathChooser {
        let mut chooser = PathChooser::new(Config { gap, ..Config::mesh(4, R, policy, Order::Flowlet) });
        let links = Links::new(Topology::mesh(4).unwrap(), R / 2);
        (1..4).for_each(|to| chooser.set_weights(to, &small(&links.weights(0, to))));
        chooser
    }

    /// Packets of 1,000 bytes of 64 flows to node 1 at 2 Gbit/s, which fit on its link.
    fn trickle(chooser: &mut PathChooser, from: u64, to: u64) {
        for now in (from..to).step_by(4_000) {
            chooser.advance(now);
            assert_eq!(chooser.choose(1, 1000, (now / 4_000 % 64) as u32), Some(1));
        }
    }

    #[test]
    fn flowlets_rest_while_all_goes_directly() {
        let mut chooser = chooser(Policy::Adaptive, 10 * MS);
        trickle(&mut chooser, 0, 1_000 * MS);
        assert!(!chooser.is_resting());
        trickle(&mut chooser, 1_000 * MS, 1_050 * MS);
        assert!(chooser.is_resting());
        assert_eq!(chooser.resting_run(1).map(|run| (run.link, run.left > 0)), Some((1, true)));
        // A burst that fills the link: flowlets that were there stay together on it, then move one by one.
        let mut paths = [None; 64];
        let mut moves = 0;
        for packet in 0..6_400_u64 {
            chooser.advance(1_050 * MS + packet * 1000);
            let flow = (packet % 64) as usize;
            let path = chooser.choose(1, 1000, flow as u32);
            moves += u32::from(paths[flow].replace(path) != Some(path));
        }
        assert!(!chooser.is_resting());
        assert!((64..200).contains(&moves), "{moves}");
        // A second behind the last that went by a relay.
        let relayed = chooser.rest.since;
        assert!((1_050 * MS..1_057 * MS).contains(&relayed));
        chooser.advance(relayed + 1_000 * MS - 1);
        assert!(!chooser.is_resting());
        chooser.advance(relayed + 1_000 * MS);
        assert!(chooser.is_resting());
    }

    #[test]
    fn what_cannot_go_directly_wakes_flowlets() {
        for wake in [
            |c: &mut PathChooser| c.set_weights(1, &[0, 0, 3, 0]),
            |c: &mut PathChooser| c.relayed(1, 1 << 20),
        ] {
            let mut chooser = chooser(Policy::Adaptive, PAPER_GAP);
            trickle(&mut chooser, 0, 1_001 * MS);
            wake(&mut chooser);
            assert!(chooser.is_resting() && chooser.resting_run(1).is_none());
            assert_ne!(chooser.choose(1, 1000, 7), None);
            assert!(!chooser.is_resting());
        }
    }

    #[test]
    fn what_another_order_sends_by_relays_wakes_flowlets() {
        let config = Config::mesh(4, R, Policy::Adaptive, Order::Strict);
        for (order, is_run) in [(Order::Strict, false), (Order::Strict, true), (Order::SinglePath, false)] {
            let mut chooser = PathChooser::new(Config { has_flowlets: true, ..config });
            let links = Links::new(Topology::mesh(4).unwrap(), R / 2);
            (1..4).for_each(|to| chooser.set_weights(to, &small(&links.weights(0, to))));
            chooser.advance(1_001 * MS);
            assert!(chooser.is_resting());
            let is_relayed = |chooser: &mut PathChooser, flow| match is_run {
                false => chooser.choose_in(order, 1, 1000, flow) != Some(1),
                true => chooser.run(1).is_some_and(|run| {
                    chooser.charge(1, &run, 1000);
                    run.link != 1
                }),
            };
            assert!((0..100).any(|flow| is_relayed(&mut chooser, flow)));
            assert!(!chooser.is_resting());
            assert_eq!(chooser.flowlet(7), Some(DIRECT), "where it was");
            let path = chooser.choose_in(Order::Flowlet, 2, 1000, 8);
            assert_eq!(path, Some(2));
        }
    }

    #[test]
    fn a_longer_gap_wakes_flowlets() {
        let mut chooser = chooser(Policy::Adaptive, 10 * MS);
        trickle(&mut chooser, 0, 1_001 * MS);
        chooser.set_gap(20 * MS);
        assert!(chooser.is_resting(), "both are below the least time");
        chooser.set_gap(200 * MS);
        assert!(!chooser.is_resting());
        assert_eq!(chooser.flowlet(7), Some(DIRECT));
        trickle(&mut chooser, 1_001 * MS, 2_999 * MS);
        assert!(!chooser.is_resting());
        trickle(&mut chooser, 2_999 * MS, 3_002 * MS);
        assert!(chooser.is_resting());
    }

    #[test]
    fn who_spreads_everything_never_rests() {
        let mut chooser = chooser(Policy::Vlb, PAPER_GAP);
        chooser.advance(u64::MAX - 1);
        assert!(!chooser.is_resting());
    }

    proptest! {
        /// Flows that are there go as if each packet had been noted.
        #[test]
        fn rest_changes_nothing_for_flows_that_are_there(
            policy in prop_oneof![Just(Policy::Adaptive), Just(Policy::DirectVlb)],
            loads in prop::collection::vec((1u64..20, 500u64..1_500), 1..8),
        ) {
            let mut resting = chooser(policy, PAPER_GAP);
            let mut noting = resting.clone();
            noting.rest.after = u64::MAX;
            let (mut now, mut flow) = (0, 0u32);
            // Nothing, then little, then much.
            for (few, gap) in loads {
                now += 1_100 * MS;
                for step in 0..few * 100 + 4_000 {
                    now += if step < few * 100 { 10_000 } else { gap };
                    flow = (flow + 7) % 64;
                    resting.advance(now);
                    noting.advance(now);
                    prop_assert!(resting.is_resting() || step >= few * 100);
                    prop_assert_eq!(resting.choose(1, 1000, flow), noting.choose(1, 1000, flow));
                }
            }
        }
    }
}
