//! What a round of the engine promises to its driver.

use elements::harness::{Bench, Setup};

#[test]
fn a_task_that_goes_to_sleep_does_not_end_the_round() {
    // The mover starts first, finds its queue empty and sleeps; the source must have its turn all the same.
    let config = "InfiniteSource(LIMIT 1) -> d :: Discard; Idle -> Queue -> Unqueue -> Discard;";
    let mut bench = Bench::new(config, &Setup::default()).unwrap();
    assert!(bench.step());
    assert_eq!(bench.read("d.count"), "1");
    bench.end().unwrap();
}
