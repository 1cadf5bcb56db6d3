//! Tests of the choice of paths.

use proptest::prelude::*;

use super::*;
use crate::shares::{Links, small};
use crate::topology::Topology;

const R: u64 = 8_000_000_000;

/// Node 0 of four.
fn chooser(policy: Policy, order: Order) -> PathChooser {
    let mut chooser = PathChooser::new(Config::mesh(4, R, policy, order));
    let links = Links::new(Topology::mesh(4).unwrap(), R / 2);
    (1..4).for_each(|to| chooser.set_weights(to, &small(&links.weights(0, to))));
    chooser
}

/// Sends at rate R to node 1, a packet of 1,000 bytes each microsecond, and counts by link.
fn flood(chooser: &mut PathChooser, packets: u64) -> [u32; 4] {
    let mut count = [0; 4];
    for packet in 0..packets {
        chooser.advance(packet * 1000);
        count[usize::from(chooser.choose(1, 1000, packet as u32 % 64).unwrap())] += 1;
    }
    count
}

#[test]
fn a_node_that_sends_all_to_one_goes_half_by_relays() {
    for policy in [Policy::Adaptive, Policy::Vlb] {
        let [here, direct, a, b] = flood(&mut chooser(policy, Order::Strict), 40_000);
        assert_eq!(here, 0);
        assert!(direct.abs_diff(20_000) < 100 && a.abs_diff(b) < 30, "{policy:?}: {direct} {a} {b}");
    }
    let [_, direct, a, b] = flood(&mut chooser(Policy::DirectVlb, Order::Spray), 40_000);
    assert!(direct.abs_diff(10_000) < 100 && a.abs_diff(b) < 30, "{direct} {a} {b}");
}

#[test]
fn direct_traffic_fills_what_relays_leave() {
    // To node 1 goes 0.4 R, less than the link can take, until a relay puts 0.3 R on it.
    let mut chooser = chooser(Policy::Adaptive, Order::Spray);
    let mut relayed = [0, 0];
    for packet in 0..40_000u64 {
        chooser.advance(packet * 1000);
        if packet >= 20_000 && packet % 10 < 3 {
            chooser.relayed(1, 1000);
        }
        if packet % 10 < 4 && chooser.choose(1, 1000, 0) != Some(1) {
            relayed[usize::from(packet >= 20_000)] += 1;
        }
    }
    // D + M/2 + 0.3 R = 0.485 R where D + M = 0.4 R: M = 0.43 R, more than there is, so all is spread: half by relays.
    assert_eq!(relayed[0], 0);
    assert!((3800..=4000).contains(&relayed[1]), "{relayed:?}");
}

#[test]
fn flows_and_flowlets_stay_on_their_paths() {
    let mut hashed = chooser(Policy::FlowHash, Order::Spray);
    let mut single = chooser(Policy::Adaptive, Order::SinglePath);
    for flow in 0..100 {
        let path = hashed.choose(1, 1000, flow);
        assert!((0..50).all(|_| hashed.choose(1, 1000, flow) == path && single.choose(1, 64, flow) == path));
    }
    let mut flowlets = chooser(Policy::Adaptive, Order::Flowlet);
    let mut paths = [None; 64];
    let mut moves = 0;
    for packet in 0..40_000u64 {
        flowlets.advance(packet * 1000);
        let flow = (packet * 7 % 64) as usize;
        let path = flowlets.choose(1, 1000, flow as u32);
        moves += u32::from(paths[flow] != path && paths[flow].is_some());
        paths[flow] = path;
    }
    assert!(moves < 400, "{moves}");
}

#[test]
fn what_is_down_is_not_chosen() {
    for policy in [Policy::Adaptive, Policy::DirectVlb, Policy::Vlb, Policy::FlowHash] {
        for order in [Order::Spray, Order::Flowlet, Order::Strict, Order::SinglePath] {
            let mut chooser = chooser(policy, order);
            flood(&mut chooser, 1000);
            chooser.set_weights(1, &[0, 0, 3, 0]);
            assert_eq!(flood(&mut chooser, 1000), [0, 0, 1000, 0], "{policy:?} {order:?}");
            chooser.set_weights(1, &[0, 2, 0, 0]);
            assert_eq!(flood(&mut chooser, 1000), [0, 1000, 0, 0], "{policy:?} {order:?}");
            chooser.set_weights(1, &[]);
            assert_eq!(chooser.choose(1, 1000, 0), None, "{policy:?} {order:?}");
        }
    }
}

#[test]
fn a_batch_is_its_packets() {
    let mut one = chooser(Policy::Adaptive, Order::Flowlet);
    let mut many = one.clone();
    let asks: Vec<Ask> =
        (0..96).map(|i| Ask { to: 1 + i % 3, len: 64 + u32::from(i), flow: u32::from(i) % 7 }).collect();
    let mut links = vec![None; asks.len()];
    for now in (0..100_000).step_by(500) {
        many.choose_batch(now, &asks, &mut links);
        one.advance(now);
        let expected: Vec<_> = asks.iter().map(|ask| one.choose(ask.to, ask.len, ask.flow)).collect();
        assert_eq!(links, expected);
    }
}

/// What someone does with a chooser.
#[derive(Debug, Clone, Copy)]
enum Act {
    Wait(u64),
    Keep(u16),
    Charge(u32),
    Relay(u16),
    Choose(u16),
    Follow(u16),
    Rate(u16, u64),
    Weights(u16, u8),
    Run(u16, u32),
}

fn any_act() -> impl Strategy<Value = Act> {
    let node = || 1u16..4;
    prop_oneof![
        (0u64..3_000).prop_map(Act::Wait),
        node().prop_map(Act::Keep),
        (64u32..4_000).prop_map(Act::Charge),
        node().prop_map(Act::Relay),
        node().prop_map(Act::Choose),
        node().prop_map(Act::Follow),
        (node(), R / 8..R).prop_map(|(link, rate)| Act::Rate(link, rate)),
        (node(), 0u8..3).prop_map(|(to, weight)| Act::Weights(to, weight)),
        (node(), 64u32..4_000).prop_map(|(to, bytes)| Act::Run(to, bytes)),
    ]
}

proptest! {
    /// What the throughput of the cluster rests on: whatever comes, no relay gets more than its share of what a
    /// destination is sent by relays or not, and direct traffic beyond its share only fills what is left.
    #[test]
    fn no_relay_gets_more_than_its_share(
        packets in prop::collection::vec((1u16..4, 64u32..1515, 0u32..8, 0u64..2000), 500..2000),
        order in prop_oneof![Just(Order::Spray), Just(Order::Flowlet)],
    ) {
        let mut chooser = chooser(Policy::Adaptive, order);
        let (mut sent, mut by) = ([0u64; 4], [[0u64; 4]; 4]);
        let mut now = 0;
        for (to, len, flow, gap) in packets {
            now += gap;
            chooser.advance(now);
            let link = chooser.choose(to, len, flow).unwrap();
            sent[usize::from(to)] += u64::from(len);
            by[usize::from(to)][usize::from(link)] += u64::from(len);
            let slack = u64::from(crate::spread::MAX_OVERDRAFT) + 1514 + 4 * crate::spread::QUANTUM as u64;
            for to in 1..4 {
                for relay in (1..4).filter(|&relay| relay != to) {
                    prop_assert!(by[to][relay] * 4 <= sent[to] + slack * 4);
                }
            }
        }
    }

    /// What is left of a run that goes directly may be used later, as long as nothing else took room.
    #[test]
    fn what_is_left_of_a_run_is_there(
        acts in prop::collection::vec(any_act(), 1..300),
        order in prop_oneof![Just(Order::Spray), Just(Order::Flowlet)],
    ) {
        let mut chooser = chooser(Policy::Adaptive, order);
        let (mut now, mut kept) = (0, None::<(u32, Run, i32)>);
        for act in acts {
            match act {
                Act::Wait(time) => now += time,
                Act::Keep(to) => kept = chooser.direct_run(to).map(|run| (chooser.changes(), run, run.left)),
                Act::Charge(bytes) => {
                    if let Some((_, run, left)) = kept.as_mut().filter(|(.., left)| *left > 0) {
                        chooser.charge(run.link, run, bytes);
                        *left -= bytes as i32;
                    }
                }
                Act::Relay(link) => chooser.relayed(link, 1000),
                Act::Choose(to) => _ = chooser.choose(to, 1000, to.into()),
                Act::Follow(to) => _ = chooser.follow(to, 1000, 7, None),
                Act::Rate(link, rate) => chooser.set_link_rate(link, rate),
                Act::Weights(to, weight) => {
                    let mut weights = [0, 1, 1, 1];
                    weights[usize::from(to)] = weight;
                    chooser.set_weights(to, &weights);
                }
                Act::Run(to, bytes) => {
                    // One at a time by each link.
                    if kept.is_none_or(|(_, run, _)| run.link != to)
                        && let Some(run) = chooser.run(to)
                    {
                        chooser.charge(to, &run, bytes);
                    }
                }
            }
            chooser.advance(now);
            kept = kept.filter(|(changes, ..)| *changes == chooser.changes());
            if let Some((_, run, left)) = kept {
                let there = chooser.direct_run(run.link).map_or(0, |run| run.left);
                prop_assert!(there >= left, "{} of {}", there, left);
            }
        }
    }
}
