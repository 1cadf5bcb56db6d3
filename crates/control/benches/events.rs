//! What events cost without the kernel's part: `cargo bench -p control --bench events [-- ROUTES]`.
//!
//! In a table of so many IPv4 routes, 200,000 prefixes in no order come and go, told as the kernel tells of them. They are
//! taken into the model and published in lots as they come to be when few or many are waiting. Shown are nanoseconds of
//! processor time for an event, of the best of several rounds.
#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use std::time::Duration;

use control::netlink::numbers::{RTM_DELROUTE, RTM_NEWROUTE};
use control::netlink::wire::{Builder, Messages};
use control::netlink::{Action, Link, Message, decode};
use control::{Follower, Model, Publisher, Tables};
use epoch::Reader;
use fib::{NextHop, Prefix, Random, synth};

const ROUNDS: usize = 4;
/// Prefixes that come and go.
const CHANGING: usize = 200_000;
/// Gateways on the one link.
const GATEWAYS: usize = 16;

fn message(kind: u16, prefix: Prefix<u32>, gateway: usize) -> Vec<u8> {
    let body = [2, prefix.len(), 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let flags = if kind == RTM_NEWROUTE { 0x600 } else { 0 };
    Builder::new(kind, flags, 0, &body)
        .with(15, &254u32.to_ne_bytes())
        .with(1, &prefix.first().to_be_bytes())
        .with(5, &[10, 1, 0, 2 + (gateway % GATEWAYS) as u8])
        .with(4, &11u32.to_ne_bytes())
        .bytes()
}

/// Seconds of processor time of this thread.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

struct World {
    follower: Follower,
    model: Model,
    publisher: Publisher,
    reader: Reader,
}

impl World {
    fn take(&mut self, datagram: &[u8]) {
        for raw in Messages::new(datagram).map_while(Result::ok) {
            self.follower.take(&raw, &mut self.model, Duration::ZERO);
        }
    }

    fn publish(&mut self) {
        while self.publisher.publish(&mut self.model, None, &mut self.reader) {}
    }
}

fn main() {
    let count = std::env::args().skip(1).find_map(|word| word.parse::<usize>().ok()).unwrap_or(900_000);
    let hop = NextHop { gateway: None, port: 0 };
    let table = synth::<u32>(count.max(CHANGING), 1, &[hop]).expect("a table can be made");
    let mut all: Vec<Prefix<u32>> = table.routes.iter().map(|route| route.prefix).collect();
    let mut random = Random::new(4);
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
    let (changing, staying) = all.split_at(CHANGING);
    let tables = Tables::default();
    let mut world = World {
        follower: Follower::new(),
        model: Model::default(),
        publisher: Publisher::new(tables.clone(), &[11]),
        reader: Reader::new(),
    };
    let link = Link { index: 11, up: true, carrier: true, mtu: 1500, mac: Some([2; 6]), ..Link::default() };
    world.model.apply(Message::Link(Action::Add, link), false);
    (0..).zip(staying).for_each(|(i, prefix)| world.take(&message(RTM_NEWROUTE, *prefix, i)));
    world.publish();
    let mut events = Vec::new();
    for (i, prefix) in changing.iter().enumerate() {
        let n = (i + changing.len() / 2) % changing.len();
        events.push(message(RTM_NEWROUTE, *prefix, i));
        events.push(message(RTM_DELROUTE, changing[n], n));
    }
    let before = used();
    events.iter().flat_map(|event| Messages::new(event)).flatten().for_each(|raw| {
        std::hint::black_box(decode(&raw));
    });
    let decoding = (used() - before) * 1e9 / events.len() as f64;
    println!("{} routes, {CHANGING} come and go; ns an event: {decoding:.0} decoded only", staying.len());
    println!("{:<8}{:>8}{:>8}{:>8}", "lot", "model", "tables", "all");
    for lot in [1, 16, 256, 1024, 4096] {
        let mut best = [f64::MAX; 2];
        for _ in 0..ROUNDS {
            let mut times = [0.0; 2];
            for some in events.chunks(lot) {
                let before = used();
                some.iter().for_each(|event| world.take(event));
                let between = used();
                world.publish();
                times[0] += between - before;
                times[1] += used() - between;
            }
            if times.iter().sum::<f64>() < best.iter().sum() {
                best = times;
            }
            // The cost of asking for the time is that of small lots.
        }
        let [model, publish] = best.map(|time| time * 1e9 / events.len() as f64);
        println!("{lot:<8}{model:>8.0}{publish:>8.0}{:>8.0}", model + publish);
    }
    assert!(tables.routes4.len() >= staying.len() + CHANGING / 2);
}
