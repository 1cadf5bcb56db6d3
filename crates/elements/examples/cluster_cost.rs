//! What a cluster costs a packet: route and rewrite at the input node alone, and with all that brings it to its output node.
//!
//! ```sh
//! cargo build --release -p elements --example cluster_cost
//! for mode in none spray flowlet strict; do
//!     for batches in 2000 4000; do
//!         valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/cluster_cost $mode $batches
//!     done
//! done
//! ```
//!
//! Four nodes in one graph, their switches wired to each other; everything goes from the line of node 0 to that of node 1,
//! in batches of 32 packets of 64 bytes, half of it by relays. The difference between two numbers of batches, less that of
//! `none`, is what a packet costs at all nodes of its way together, on the average of both ways.

use elements::harness::{Bench, Setup};
use graph::SECOND;
use std::fmt::Write;
use std::time::Instant;

const NODES: usize = 4;
const PACKET: &str =
    "020000000101020000000909 0800 45000032000000004011 64b7 0a0000010a010203 12340035001e0000";
/// Packets in a batch.
const BATCH: u64 = 32;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let batches: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let packets = BATCH * batches;
    let mut bench = Bench::new(&config(&mode, packets), &Setup::default())?;
    // Until links have been found to be up.
    bench.run_for(SECOND / 10);
    let started = Instant::now();
    bench.write("source.active", "true")?;
    while bench.read("out.count").trim() != packets.to_string() && bench.step() {}
    let each = started.elapsed().as_nanos() as f64 / packets as f64;
    println!("{mode}: {} of {packets} packets, {each:.1} ns each", bench.read("out.count").trim());
    bench.losses().iter().filter(|loss| !loss.ends_with(" = 0")).for_each(|loss| println!("{loss}"));
    if mode != "none" {
        bench.run_for(SECOND / 10 + SECOND);
        print!("{}", bench.read("s0.traffic"));
    }
    Ok(())
}

fn config(mode: &str, packets: u64) -> String {
    let source = format!(
        "source :: InfiniteSource(DATA \\<{PACKET}>, LENGTH 64, LIMIT {packets}, ACTIVE false) -> CheckIPHeader(OFFSET 14)
           -> rt :: DirectIPLookup(10.0.0.0/16 192.168.0.1 0, 10.1.0.0/16 192.168.1.1 1, ONE_OUTPUT true)
           -> AdjacencyRewrite(rt, 0 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:2, 1 192.168.1.1 2:0:0:0:1:1 2:0:0:0:1:2,
                               ADJACENCIES main, ONE_OUTPUT true)"
    );
    if mode == "none" {
        return format!("{source} -> out :: Counter -> Discard;");
    }
    let mut text = String::new();
    for node in 0..NODES {
        let _ = writeln!(
            text,
            "s{node} :: ClusterSwitch(NODE {node}, NODES {NODES}, LINE_RATE 1000000Tbps, LINK_RATE 1000000Tbps,
                                      POLICY vlb, ORDER {mode});"
        );
    }
    let place = |me: usize, other: usize| if other < me { other } else { other - 1 };
    for node in 0..NODES {
        for peer in (0..NODES).filter(|&peer| peer != node) {
            let (output, input) = (1 + place(node, peer), 1 + place(peer, node));
            let _ = writeln!(text, "s{node}[{output}] -> [{input}] s{peer};");
        }
    }
    let _ = write!(
        text,
        "Idle -> s1[0] -> out :: Counter -> Discard; Idle -> s2[0] -> Discard; Idle -> s3[0] -> Discard;
         s0[0] -> Discard; {source} -> s0;"
    );
    text
}
