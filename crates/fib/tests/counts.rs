//! Numbers of routes that are counted, with no other reader in the process.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use epoch::Reader;
use fib::{NextHop, Prefix, RangeTree, Route, RouteChange, RouteCount, RouteTable};

fn numbers_are_used_again_and_begin_at_nothing() {
    let (table, mut reader) = (RouteTable::<u128>::new(RangeTree::new()), Reader::new());
    let counts = table.count_routes(1, RangeTree::new);
    let bytes = || table.memory().iter().find(|part| part.part == "counts").map(|part| part.bytes);
    let mut after_first = None;
    for n in 0..40_000u128 {
        let prefix = Prefix::new(n << 64, 64).unwrap();
        let next_hop = NextHop { gateway: None, port: 7 };
        table.apply(&[RouteChange::Add(Route { prefix, next_hop })]).unwrap();
        let mut found = [None; 2];
        counts.lookup_batch(&reader, &[n << 64 | 5, 1 << 127], &mut found);
        counts.count(0, &found, |_| 1000);
        assert_eq!(counts.counts(), [RouteCount { prefix, packets: 1, bytes: 1000 }]);
        table.apply(&[RouteChange::Remove(prefix, None)]).unwrap();
        reader.quiescent();
        after_first.get_or_insert_with(bytes);
    }
    // One number for all of them.
    assert_eq!((counts.counts(), Some(bytes())), (vec![], after_first));
}

fn a_number_is_kept_back_while_a_worker_may_count_for_its_route() {
    let (table, mut reader) = (RouteTable::<u32>::new(RangeTree::new()), Reader::new());
    let counts = table.count_routes(1, RangeTree::new);
    let route =
        |text: &str| Route { prefix: text.parse().unwrap(), next_hop: NextHop { gateway: None, port: 7 } };
    let (old, new) = (route("10.0.0.0/8"), route("11.0.0.0/8"));
    table.apply(&[RouteChange::Add(old)]).unwrap();
    let mut found = [None];
    counts.lookup_batch(&reader, &[0x0a00_0001], &mut found);
    table.apply(&[RouteChange::Remove(old.prefix, None), RouteChange::Add(new)]).unwrap();
    counts.count(0, &found, |_| 64);
    reader.quiescent();
    assert_eq!(counts.counts(), [RouteCount { prefix: new.prefix, packets: 0, bytes: 0 }]);
}

/// One after the other: a reader of one would keep numbers back in the other.
#[test]
fn numbers_of_routes() {
    numbers_are_used_again_and_begin_at_nothing();
    a_number_is_kept_back_while_a_worker_may_count_for_its_route();
}
