use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn hop(index: u32) -> NextHopId {
    NextHopId::new(index).unwrap()
}

fn p(text: &str) -> Prefix<u32> {
    text.parse().unwrap()
}

#[test]
fn a_removed_route_falls_back_to_what_covers_it() {
    let mut rib: Rib<u32> = [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))].into_iter().collect();
    let addr = p("10.1.2.3").first();
    assert_eq!(rib.lookup(addr), Some((p("10.1/16"), hop(2))));
    assert_eq!(rib.remove(p("10.1/16")), Some(hop(2)));
    assert_eq!(rib.lookup(addr), Some((p("10/8"), hop(1))));
    assert_eq!((rib.remove(p("10.1/16")), rib.len()), (None, 1));
    assert_eq!(rib.insert(p("10/8"), hop(3)), Some(hop(1)));
    assert_eq!(rib.covering(p("10.9/16")), Some((p("10/8"), hop(3))));
    assert_eq!((rib.covering(p("0/0")), rib.get(p("10/8"))), (None, Some(hop(3))));
}

#[test]
fn ranges_have_no_gaps_and_reach_both_ends() {
    let rib: Rib<u32> = [(p("0.0.0.1"), hop(1)), (p("255.255.255.254/31"), hop(2))].into_iter().collect();
    let mut ranges = Vec::new();
    rib.ranges(p("0/0"), |first, last, hop| ranges.push((first, last, hop)));
    ranges.dedup_by(|b, a| {
        let same = a.2 == b.2;
        assert_eq!(b.0, a.1 + 1);
        if same {
            a.1 = b.1;
        }
        same
    });
    let (m, none) = (u32::MAX, None);
    assert_eq!(ranges, [(0, 0, none), (1, 1, Some(hop(1))), (2, m - 2, none), (m - 1, m, Some(hop(2)))]);
}

#[test]
fn a_clone_is_a_snapshot() {
    let mut rib: Rib<u32> = [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))].into_iter().collect();
    let before = rib.clone();
    rib.remove(p("10/8"));
    rib.insert(p("10.1/16"), hop(9));
    rib.insert(p("11/8"), hop(4));
    assert_eq!(before.iter().collect::<Vec<_>>(), [(p("10/8"), hop(1)), (p("10.1/16"), hop(2))]);
    assert_eq!(rib.iter().collect::<Vec<_>>(), [(p("10.1/16"), hop(9)), (p("11/8"), hop(4))]);
    assert_eq!((before.len(), rib.len()), (2, 2));
}

/// Prefixes of few bits and of many, so that they nest, coincide and lie apart.
fn prefixes() -> impl Strategy<Value = Prefix<u32>> {
    (any::<u32>(), 0..=32u8, 0..4u32).prop_map(|(addr, len, spread)| {
        Prefix::truncated(if spread == 0 { addr } else { addr & 0xC000_0303 }, len)
    })
}

fn sorted(map: &BTreeMap<Prefix<u32>, NextHopId>) -> Vec<(Prefix<u32>, NextHopId)> {
    map.iter().map(|(&prefix, &hop)| (prefix, hop)).collect()
}

fn ranges_between_reach_both_ends(rib: &Rib<u32>, first: u32, last: u32) -> Result<(), TestCaseError> {
    let mut ranges = Vec::new();
    rib.ranges_between(first, last, |first, last, hop| ranges.push((first, last, hop)));
    prop_assert!(ranges.is_sorted_by(|a, b| a.1.checked_add(1) == Some(b.0)));
    prop_assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (first, last));
    for (first, last, hop) in ranges {
        prop_assert_eq!((rib.lookup_hop(first), rib.lookup_hop(last)), (hop, hop));
    }
    Ok(())
}

fn own_ranges_are_those_that_change_with_the_route(
    rib: &Rib<u32>,
    probe: Prefix<u32>,
) -> Result<(), TestCaseError> {
    for whole in [16, 24, 28] {
        let mut ranges = Vec::new();
        rib.own_ranges(probe, whole, |first, last, hop| ranges.push((first, last, hop)));
        let area = Prefix::truncated(probe.first(), probe.len().min(whole));
        prop_assert!(ranges.is_sorted_by(|a, b| a.1 < b.0), "{:?}", ranges);
        let mut edges = vec![area.first(), area.last()];
        for &(first, last, hop) in &ranges {
            prop_assert!(first <= last && area.first() <= first && last <= area.last());
            prop_assert_eq!((rib.lookup_hop(first), rib.lookup_hop(last)), (hop, hop));
            edges.extend([first, last]);
        }
        edges.extend(rib.iter_under(area).flat_map(|(p, _)| [p.first(), p.last()]));
        for edge in edges {
            for addr in [edge.saturating_sub(1), edge, edge.saturating_add(1)] {
                // Decided by the route, or by none within; then all of the part around it comes, too.
                let own = |addr| rib.lookup(addr).is_none_or(|(prefix, _)| prefix.covers(probe));
                let part = Prefix::truncated(addr, whole);
                let split = rib.iter_under(part).any(|(p, _)| p.len() > whole);
                let wanted = area.contains(addr) && (own(addr) || split && own_part(rib, part, probe));
                let there = ranges.iter().any(|&(first, last, _)| (first..=last).contains(&addr));
                prop_assert!(there || !wanted, "{} of {} is missing", Prefix::host(addr), probe);
            }
        }
        // Whole parts.
        for &(first, last, _) in &ranges {
            for (edge, outside) in [(first, first.wrapping_sub(1)), (last, last.wrapping_add(1))] {
                let part = Prefix::truncated(edge, whole);
                if part.contains(outside) && area.contains(outside) {
                    prop_assert!(ranges.iter().any(|&(first, last, _)| (first..=last).contains(&outside)));
                }
            }
        }
    }
    Ok(())
}

/// True when some address of the part is decided by the route of `probe` or by one that covers it.
fn own_part(rib: &Rib<u32>, part: Prefix<u32>, probe: Prefix<u32>) -> bool {
    rib.covering(part).is_none_or(|(prefix, _)| prefix.covers(probe))
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_map(
        steps in prop::collection::vec((prefixes(), prop::option::weighted(0.6, 0..5u32)), 1..80),
        probes in prop::collection::vec(prefixes(), 20),
    ) {
        let (mut rib, mut map) = (Rib::new(), BTreeMap::new());
        for (prefix, insert) in steps {
            match insert {
                Some(index) => prop_assert_eq!(rib.insert(prefix, hop(index)), map.insert(prefix, hop(index))),
                None => prop_assert_eq!(rib.remove(prefix), map.remove(&prefix)),
            }
            prop_assert_eq!(rib.len(), map.len());
        }
        prop_assert_eq!(rib.iter().collect::<Vec<_>>(), sorted(&map));
        let compact: Rib<u32> = rib.iter().collect();
        let nodes = |rib: &Rib<u32>| trie::count(rib.short.as_deref());
        prop_assert_eq!(nodes(&rib), nodes(&compact), "nodes left over");
        prop_assert!(rib.memory_bytes() <= 4 * compact.memory_bytes(), "memory left over");
        for probe in probes {
            let best = |target: Prefix<u32>| {
                map.iter().filter(|(p, _)| p.covers(target)).max_by_key(|(p, _)| p.len()).map(|(&p, &h)| (p, h))
            };
            prop_assert_eq!(rib.get(probe), map.get(&probe).copied());
            prop_assert_eq!(rib.covering(probe), best(probe));
            prop_assert_eq!(rib.lookup(probe.last()), best(Prefix::host(probe.last())));
            prop_assert_eq!(rib.lookup_hop(probe.last()), best(Prefix::host(probe.last())).map(|b| b.1));
            let under: Vec<_> = sorted(&map).into_iter().filter(|(p, _)| probe.covers(*p)).collect();
            prop_assert_eq!(rib.iter_under(probe).collect::<Vec<_>>(), &under[..]);
            let mut next = Some(probe.first());
            rib.ranges(probe, |first, last, hop| {
                assert_eq!(Some(first), next);
                assert!(first <= last && last <= probe.last());
                for addr in [first, last, first + (last - first) / 2] {
                    assert_eq!(hop, rib.lookup_hop(addr));
                }
                next = last.checked_add(1);
            });
            prop_assert_eq!(next, probe.last().checked_add(1));
            ranges_between_reach_both_ends(&rib, probe.first() / 2, probe.last())?;
            ranges_between_reach_both_ends(&rib, probe.last(), probe.last())?;
            own_ranges_are_those_that_change_with_the_route(&rib, probe)?;
        }
    }
}
