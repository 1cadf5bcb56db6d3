//! All structures against brute force, through random sequences of changes.
#![allow(clippy::expect_used, reason = "in a test a panic is the message")]

use std::collections::BTreeMap;

use epoch::Reader;
use fib::{
    Address, Beginnings, Dir24_8, Fib, LinearTable, NextHopId, Poptrie, Prefix, Radix, RangeTree, Rib,
};
use proptest::prelude::*;

/// One change: a route comes or is replaced, or goes.
type Step<A> = (Prefix<A>, Option<NextHopId>);

/// The definition: the longest of all prefixes that contain the address.
fn brute_force<A: Address>(routes: &BTreeMap<Prefix<A>, NextHopId>, addr: A) -> Option<NextHopId> {
    routes
        .iter()
        .filter(|(prefix, _)| prefix.contains(addr))
        .max_by_key(|(prefix, _)| prefix.len())
        .map(|(_, &hop)| hop)
}

/// The edges of a prefix, the addresses just outside, and one within.
fn probes<A: Address>(prefix: Prefix<A>, addr: A) -> [A; 5] {
    let within = prefix.first() | (addr & A::host_mask(prefix.len()));
    [prefix.first(), prefix.last(), prefix.first().previous(), prefix.last().next(), within]
}

/// Makes the steps one by one, updating and checking after each group; leaves everything empty.
fn check<A: Address>(
    fibs: &[Box<dyn Fib<A>>],
    groups: &[Vec<Step<A>>],
    random: &[A],
) -> Result<(), TestCaseError> {
    let mut reader = Reader::new();
    let (mut rib, mut routes) = (Rib::new(), BTreeMap::new());
    let mut addrs = random.to_vec();
    for group in groups {
        for (&(prefix, hop), &addr) in group.iter().zip(random.iter().cycle()) {
            match hop {
                Some(hop) => prop_assert_eq!(rib.insert(prefix, hop), routes.insert(prefix, hop)),
                None => prop_assert_eq!(rib.remove(prefix), routes.remove(&prefix)),
            }
            addrs.extend(probes(prefix, addr));
        }
        let changed: Vec<_> = group.iter().map(|step| step.0).collect();
        let expected: Vec<_> = addrs.iter().map(|&addr| brute_force(&routes, addr)).collect();
        let tops: Vec<_> = addrs.iter().map(|addr| addr.top_bits()).collect();
        let beginnings = Beginnings { tops: &tops, whole: &|place| addrs[place] };
        let mut found = vec![None; addrs.len()];
        for (number, fib) in fibs.iter().enumerate() {
            fib.update(&rib, &changed);
            fib.lookup_batch(&reader, &addrs, &mut found);
            prop_assert_eq!(&found, &expected, "structure {}", number);
            found.fill(None);
            fib.lookup_beginnings(&reader, &beginnings, &mut found);
            prop_assert_eq!(&found, &expected, "structure {} by first bits", number);
            for (&addr, &hop) in addrs.iter().zip(&expected) {
                prop_assert_eq!(fib.lookup(&reader, addr), hop, "structure {}", number);
            }
        }
        reader.quiescent();
    }
    let left: Vec<_> = routes.into_keys().collect();
    for &prefix in &left {
        rib.remove(prefix);
    }
    prop_assert!(rib.is_empty());
    for fib in fibs {
        fib.update(&rib, &left);
        prop_assert!(addrs.iter().all(|&addr| fib.lookup(&reader, addr).is_none()));
    }
    Ok(())
}

/// Prefixes that nest, coincide and touch: their bits are those of one of two addresses, but for a few.
fn prefix<A: Address>(random: impl Strategy<Value = A>) -> impl Strategy<Value = Prefix<A>> {
    let near = [0, 0x0A01_0203_0A01_0203_0A01_0203_0A01_0203u128, u128::MAX];
    let len = prop_oneof![0..=A::BITS, 14..=30u32, A::BITS - 3..=A::BITS];
    (random, len, 0..5usize, 0..A::BITS).prop_map(move |(addr, len, which, flip)| {
        let addr = near.get(which).map_or(addr, |&near| A::from_low_bits(near) ^ (A::ONE << flip));
        Prefix::new(addr, len as u8).expect("not longer than an address")
    })
}

/// A few next hops that need four bytes, so that compact forms widen.
fn any_hop() -> impl Strategy<Value = u32> {
    prop_oneof![20 => 0..6u32, 1 => Just(40_000), 1 => Just(70_000)]
}

fn groups<A: Address>(
    random: impl Strategy<Value = A>,
    hop: impl Strategy<Value = u32>,
) -> impl Strategy<Value = Vec<Vec<Step<A>>>> {
    let hop = prop::option::weighted(0.7, hop.prop_map(|index| NextHopId::new(index).expect("small")));
    prop::collection::vec(prop::collection::vec((prefix(random), hop), 1..8), 1..12)
}

thread_local! {
    // Large arrays are made once and left empty by each case.
    static V4: Vec<Box<dyn Fib<u32>>> = vec![
        Box::new(LinearTable::new()),
        Box::new(Radix::new()),
        Box::new(Dir24_8::new()),
        Box::new(Poptrie::with_direct_bits(6)),
        Box::new(Poptrie::with_direct_bits(16)),
        Box::new(Poptrie::with_direct_bits(18)),
        Box::new(RangeTree::with_direct_bits(6)),
        Box::new(RangeTree::new()),
    ];
    // For next hops of half a byte, and of one: these stay as narrow.
    static HALF: Vec<Box<dyn Fib<u32>>> = vec![Box::new(Dir24_8::new())];
    static BYTE: Vec<Box<dyn Fib<u32>>> = vec![Box::new(Dir24_8::new())];
    static V6: Vec<Box<dyn Fib<u128>>> = vec![
        Box::new(LinearTable::new()),
        Box::new(Radix::new()),
        Box::new(Poptrie::with_direct_bits(6)),
        Box::new(Poptrie::with_direct_bits(16)),
        Box::new(Poptrie::with_direct_bits(18)),
        Box::new(RangeTree::with_direct_bits(6)),
        Box::new(RangeTree::with_direct_bits(16)),
        Box::new(RangeTree::new()),
    ];
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ipv4_structures_agree_with_brute_force(
        groups in groups(any::<u32>(), any_hop()),
        random in prop::collection::vec(any::<u32>(), 8),
    ) {
        V4.with(|fibs| check(fibs, &groups, &random))?;
    }

    #[test]
    fn narrow_entries_agree_with_brute_force(
        few in groups(any::<u32>(), 0..14u32),
        more in groups(any::<u32>(), prop_oneof![0..14u32, 14..254u32]),
        random in prop::collection::vec(any::<u32>(), 8),
    ) {
        HALF.with(|fibs| check(fibs, &few, &random))?;
        BYTE.with(|fibs| check(fibs, &more, &random))?;
        // That they are as narrow as is meant.
        let mebibytes = |fibs: &Vec<Box<dyn Fib<u32>>>| {
            fibs[0].memory().iter().map(|part| part.bytes).sum::<usize>() >> 20
        };
        prop_assert!(HALF.with(mebibytes) < 16 && BYTE.with(mebibytes) < 32);
    }

    #[test]
    fn ipv6_structures_agree_with_brute_force(
        groups in groups(any::<u128>(), any_hop()),
        random in prop::collection::vec(any::<u128>(), 8),
    ) {
        V6.with(|fibs| check(fibs, &groups, &random))?;
    }
}

#[test]
fn a_default_route_and_host_routes_at_both_ends_are_found() {
    fn ends<A: Address>(fibs: &[Box<dyn Fib<A>>]) {
        let hop = |index| NextHopId::new(index).expect("small");
        let (zero, ones) = (A::default(), !A::default());
        let routes =
            [(Prefix::default(), hop(1)), (Prefix::host(zero), hop(2)), (Prefix::host(ones), hop(3))];
        let rib: Rib<A> = routes.into_iter().collect();
        let reader = Reader::new();
        for fib in fibs {
            fib.update(&rib, &routes.map(|route| route.0));
            let found = [zero, zero.next(), ones.previous(), ones].map(|addr| fib.lookup(&reader, addr));
            assert_eq!(found, [2, 1, 1, 3].map(|index| Some(hop(index))));
        }
    }
    V4.with(|fibs| ends(fibs));
    V6.with(|fibs| ends(fibs));
}
