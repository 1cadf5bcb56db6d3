//! What a dump of full tables costs without the kernel's part: `cargo bench -p control [-- IPV4-ROUTES IPV6-ROUTES]`.
//!
//! Messages as the kernel writes them for routes of BIRD, in datagrams of 32 KiB, are decoded, taken into the model and
//! published, 5 ms of reading by turns with a publication as in the control thread: once into empty tables, then again as
//! after an overrun, when nothing has changed. Shown are seconds of processor time of the best of several rounds.
#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use std::time::{Duration, Instant};

use control::netlink::numbers::{NLMSG_DONE, RTM_NEWLINK, RTM_NEWROUTE};
use control::netlink::wire::{Builder, Messages};
use control::netlink::{Action, Link, Message, decode};
use control::{Follower, Model, Publisher, Tables};
use epoch::Reader;
use fib::{Address, NextHop, Prefix, synth};

const ROUNDS: usize = 5;
const DATAGRAM: usize = 32 * 1024;
/// So long the control thread reads before it publishes.
const READ_FOR: Duration = Duration::from_millis(5);
/// Gateways on the one link.
const GATEWAYS: u8 = 16;

/// The dump of a family, in datagrams.
fn dump<A: Address>(count: usize, family: u8) -> Vec<Vec<u8>> {
    let hops: Vec<_> = (0..u32::from(GATEWAYS)).map(|port| NextHop { gateway: None, port }).collect();
    let table = synth::<A>(count, 1, &hops).expect("a table can be made");
    let mut datagrams = vec![Vec::with_capacity(DATAGRAM)];
    for route in &table.routes {
        let message = message(route.prefix, route.next_hop.port as u8, family);
        let last = datagrams.last_mut().expect("there is one");
        if last.len() + message.len() > DATAGRAM {
            datagrams.push(message);
        } else {
            last.extend(message);
        }
    }
    datagrams
}

fn octets<A: Address>(address: A) -> Vec<u8> {
    match address.to_ip() {
        std::net::IpAddr::V4(ip) => ip.octets().to_vec(),
        std::net::IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn message<A: Address>(prefix: Prefix<A>, gateway: u8, family: u8) -> Vec<u8> {
    let body = [family, prefix.len(), 0, 0, 254, 12, 0, 1, 0, 0, 0, 0];
    let mut via = if family == 2 {
        vec![10, 1, 0, 0]
    } else {
        vec![0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    };
    *via.last_mut().expect("it has bytes") = gateway + 2;
    let message = Builder::new(RTM_NEWROUTE, 2, 1, &body)
        .with(15, &254u32.to_ne_bytes())
        .with(1, &octets(prefix.first()))
        .with(6, &32u32.to_ne_bytes())
        .with(5, &via)
        .with(4, &11u32.to_ne_bytes());
    if family == 2 { message.bytes() } else { message.with(12, &[0; 32]).with(20, &[0]).bytes() }
}

/// Seconds of processor time of this thread.
fn used() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

/// One listener and its tables.
struct World {
    follower: Follower,
    model: Model,
    publisher: Publisher,
    reader: Reader,
    tables: Tables,
}

impl World {
    fn new() -> World {
        let tables = Tables::default();
        let publisher = Publisher::new(tables.clone(), &[11]);
        let mut model = Model::default();
        let link =
            Link { index: 11, up: true, carrier: true, mtu: 1500, mac: Some([2; 6]), ..Link::default() };
        model.apply(Message::Link(Action::Add, link), false);
        World { follower: Follower::new(), model, publisher, reader: Reader::new(), tables }
    }

    /// All dumps that the follower asks for; only those of routes name anything. Seconds for the model and for tables.
    fn run(&mut self, dumps: &[Vec<Vec<u8>>; 2]) -> [f64; 2] {
        let now = Duration::ZERO;
        let mut times = [0.0; 2];
        while let Some(request) = self.follower.request(&mut self.model, now) {
            let sequence = request.get(8..12).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
            let kind = u16::from_ne_bytes([request[4], request[5]]);
            let datagrams = match (kind, request[16]) {
                (26, 2) => &dumps[0][..],
                (26, _) => &dumps[1][..],
                _ => &[],
            };
            let link = Builder::new(RTM_NEWLINK, 2, 0, &[0, 0, 1, 0, 11, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0]);
            let link = link.with(1, &[2; 6]).with(4, &1500u32.to_ne_bytes()).bytes();
            self.take(&link, 0);
            let mut rest = datagrams;
            while !rest.is_empty() {
                let (begun, before) = (Instant::now(), used());
                while let Some((datagram, others)) = rest.split_first()
                    && begun.elapsed() < READ_FOR
                {
                    self.take(datagram, sequence);
                    rest = others;
                }
                times[0] += used() - before;
                // As the control thread: at the start, everything in one go.
                if self.publisher.has_started() {
                    times[1] += self.publish().0;
                }
            }
            let before = used();
            self.take(&Builder::new(NLMSG_DONE, 2, sequence, &[0; 4]).bytes(), sequence);
            times[0] += used() - before;
        }
        loop {
            let (time, more) = self.publish();
            times[1] += time;
            if !more {
                return times;
            }
        }
    }

    fn take(&mut self, datagram: &[u8], sequence: u32) {
        for raw in Messages::new(datagram).map_while(Result::ok) {
            let raw = control::netlink::wire::Raw { sequence, ..raw };
            self.follower.take(&raw, &mut self.model, Duration::ZERO);
        }
    }

    fn publish(&mut self) -> (f64, bool) {
        let before = used();
        let more = self.publisher.publish(&mut self.model, None, &mut self.reader);
        (used() - before, more)
    }
}

fn main() {
    let mut counts = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let counts = [counts.next().unwrap_or(900_000), counts.next().unwrap_or(160_000)];
    let dumps = [dump::<u32>(counts[0], 2), dump::<u128>(counts[1], 10)];
    let mut best = [[f64::MAX; 2]; 3];
    let mut note = |row: usize, times: [f64; 2]| {
        if times.iter().sum::<f64>() < best[row].iter().sum() {
            best[row] = times;
        }
    };
    for _ in 0..ROUNDS {
        let before = used();
        for datagram in dumps.iter().flatten() {
            for raw in Messages::new(datagram).map_while(Result::ok) {
                std::hint::black_box(decode(&raw));
            }
        }
        note(0, [used() - before, 0.0]);
        let mut world = World::new();
        note(1, world.run(&dumps));
        assert!(world.tables.routes4.len() >= counts[0] && world.tables.routes6.len() >= counts[1]);
        let changes = world.publisher.counts.route_changes;
        world.follower.overrun();
        note(2, world.run(&dumps));
        assert_eq!(world.publisher.counts.route_changes, changes, "nothing has changed");
    }
    println!("{} IPv4 and {} IPv6 routes; seconds      model   tables      all", counts[0], counts[1]);
    for (name, [model, tables]) in ["decoded only", "into empty tables", "again, unchanged"].iter().zip(best)
    {
        println!("{name:<48}{model:>8.3} {tables:>8.3} {:>8.3}", model + tables);
    }
}
