//! The real BGP table, where there is one: `ROUTEBRICKS_DATA` or `shared/data` beside the repository.
#![allow(clippy::expect_used, reason = "in a test a panic is the message")]

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use epoch::Reader;
use fib::{
    Address, Dir24_8, Fib, NextHop, NextHopId, Poptrie, Prefix, Radix, RangeTree, Rib, Route, RouteChange,
    RouteFile, RouteTable,
};

/// The text of the table, or `None` after saying that the test is skipped.
fn table() -> Option<Vec<u8>> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let path =
        std::env::var_os("ROUTEBRICKS_DATA").map_or_else(beside, PathBuf::from).join("bgp-full-table.txt.gz");
    if !path.exists() {
        println!("skipped: there is no bgp-full-table.txt.gz");
        return None;
    }
    let output = Command::new("gzip").arg("-dc").arg(&path).output().expect("gzip runs");
    assert!(output.status.success(), "gzip cannot read {}", path.display());
    Some(output.stdout)
}

/// xorshift64*: a different address each time, the same ones in each run.
fn random(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D)
}

/// Routes by length, to look up in by definition: the longest length first.
struct ByLength<A>(Vec<(u8, std::collections::HashMap<A, NextHopId>)>);

impl<A: Address> ByLength<A> {
    fn new(rib: &Rib<A>) -> ByLength<A> {
        let mut all: Vec<_> =
            (0..=A::BITS as u8).rev().map(|len| (len, std::collections::HashMap::new())).collect();
        for (prefix, hop) in rib {
            all[A::BITS as usize - usize::from(prefix.len())].1.insert(prefix.first(), hop);
        }
        all.retain(|(_, routes)| !routes.is_empty());
        ByLength(all)
    }

    fn lookup(&self, addr: A) -> Option<NextHopId> {
        self.0.iter().find_map(|(len, routes)| routes.get(&(addr & A::mask(*len))).copied())
    }
}

/// With so many next hops, which differ between neighbours, so that no mistake goes unseen.
fn check<A: Address>(routes: &[Route<A>], hops: u32, fibs: &[(&str, Box<dyn Fib<A>>)], lookups: usize) {
    let hop = |i: usize| NextHopId::new(i as u32 % hops).expect("small");
    let mut rib: Rib<A> = routes.iter().enumerate().map(|(i, route)| (route.prefix, hop(i))).collect();
    let mut changed = vec![Prefix::default()];
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let reader = Reader::new();
    for round in 0..2 {
        let oracle = ByLength::new(&rib);
        let mut addrs = Vec::with_capacity(lookups);
        while addrs.len() < lookups {
            let bits =
                A::from_low_bits(u128::from(random(&mut state)) << 64 | u128::from(random(&mut state)));
            let prefix = routes[random(&mut state) as usize % routes.len()].prefix;
            addrs.push(bits);
            addrs.push(prefix.first() | (bits & A::host_mask(prefix.len())));
            addrs.push(prefix.last());
            addrs.push(prefix.last().next());
        }
        let expected: Vec<_> = addrs.iter().map(|&addr| oracle.lookup(addr)).collect();
        assert!(expected.iter().any(Option::is_none) && expected.iter().any(Option::is_some));
        let mut found = vec![None; addrs.len()];
        for (name, fib) in fibs {
            fib.update(&rib, &changed);
            fib.lookup_batch(&reader, &addrs, &mut found);
            let wrong = (0..addrs.len()).find(|&i| found[i] != expected[i]);
            assert_eq!(wrong.map(|i| (addrs[i], found[i], expected[i])), None, "{name} in round {round}");
        }
        // Then a thousandth of the routes goes and as many change.
        changed.clear();
        for (i, route) in routes.iter().enumerate().filter(|(i, _)| i % 1000 < 2) {
            if i % 1000 == 0 {
                rib.remove(route.prefix)
            } else {
                rib.insert(route.prefix, hop(i + 7))
            };
            changed.push(route.prefix);
        }
    }
}

#[test]
fn the_full_table_is_looked_up_right_and_stays_so_through_changes() {
    let Some(text) = table() else { return };
    let file = RouteFile::parse(&text, Some(0)).expect("the table is well formed");
    assert_eq!((file.v4.len(), file.v6.len()), (901_899, 160_147));
    check::<u32>(&file.v4, 13, &[("dir24_8", Box::new(Dir24_8::new()))], 400_000);
    check::<u32>(
        &file.v4,
        251,
        &[
            ("dir24_8", Box::new(Dir24_8::new())),
            ("poptrie", Box::new(Poptrie::new())),
            ("radix", Box::new(Radix::new())),
            ("range tree", Box::new(RangeTree::new())),
        ],
        400_000,
    );
    check::<u128>(
        &file.v6,
        251,
        &[
            ("poptrie", Box::new(Poptrie::new())),
            ("radix", Box::new(Radix::new())),
            ("range tree", Box::new(RangeTree::new())),
        ],
        300_000,
    );
}

#[test]
fn the_full_table_loads_from_text() {
    let Some(text) = table() else { return };
    let start = Instant::now();
    let file = RouteFile::parse(&text, Some(3)).expect("the table is well formed");
    let parsed = start.elapsed();
    let (v4, v6) = (RouteTable::new(Dir24_8::new()), RouteTable::new(Poptrie::new()));
    v4.apply(&file.v4.iter().map(|&route| RouteChange::Add(route)).collect::<Vec<_>>())
        .expect("all distinct");
    v6.apply(&file.v6.iter().map(|&route| RouteChange::Add(route)).collect::<Vec<_>>())
        .expect("all distinct");
    println!("parsed in {parsed:?}, parsed and built in {:?}", start.elapsed());
    assert_eq!((v4.len(), v6.len()), (901_899, 160_147));
    let reader = Reader::new();
    let hop = Some(NextHop { gateway: None, port: 3 });
    assert_eq!(v4.lookup(&reader, 0x0100_0001), hop, "1.0.0.0/24");
    assert_eq!(v4.lookup(&reader, 0x0A00_0001), None, "10.0.0.1 is private");
    assert_eq!(v6.lookup(&reader, 0x2001_0200 << 96), hop, "2001:200::/32");
}
