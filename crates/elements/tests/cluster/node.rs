//! A node: its whole graph between memory ports.

use crate::setup::{Setup, config};
use elements::harness::flatten;
use fib::{Interface, InterfaceChange, Interfaces};
use graph::{Clock, Engine, Options, Router, Tables};
use io::memory::{MemoryDevices, MemoryPort};
use io::{Devices, Limits};
use lang::render;
use packet::Pool;
use std::sync::Arc;

/// One node.
pub struct Node {
    pub router: Router,
    tables: Tables,
    engine: Engine,
    clock: Arc<Clock>,
    devices: Arc<MemoryDevices>,
    pub up: bool,
}

impl Node {
    pub fn new(setup: &Setup, me: u16, incarnation: u8, now: u64) -> Node {
        let text = config(setup, me, incarnation);
        let mut names: Vec<String> = (0..setup.ports).map(|port| format!("line{port}")).collect();
        names.extend((setup.links)(me, setup.nodes).iter().map(|peer| format!("to{peer}")));
        names.extend((0..setup.edge * setup.ports).map(|line| format!("twin{line}")));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let limits = Limits { rx_queues: 1, tx_queues: 1 };
        let devices = Arc::new(MemoryDevices::new(Pool::heap(1 << 16, 2048), &names, limits));
        let (flat, sources) = flatten(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let clock = Arc::new(Clock::simulated(now));
        let tables = Tables::new();
        let options = Options {
            workers: 1,
            burst: 32,
            clock: clock.clone(),
            devices: devices.clone(),
            tables: tables.clone(),
        };
        let router = Router::new(flat, &elements::classes(), &options);
        let router = router.unwrap_or_else(|d| panic!("{}\n{text}", render(&d, &sources, false)));
        let mut engine = router.engines().remove(0);
        engine.start();
        Node { router, tables, engine, clock, devices, up: true }
    }

    pub fn port(&self, name: &str) -> Arc<MemoryPort> {
        self.devices.memory(name).unwrap()
    }

    pub fn inject(&self, port: &str, frame: &[u8]) {
        assert!(self.port(port).inject(&self.devices.pool(), 0, frame));
    }

    /// Interfaces are from now on what `change` makes of each.
    pub fn set_interfaces(&self, change: impl Fn(Interface) -> Option<Interface>) {
        let all = self.tables.get_or("main", || Interfaces::new(1));
        let (known, ()) = all.snapshot(drop);
        let changed = known.into_iter().map(|one| InterfaceChange { now: one.now.and_then(&change), ..one });
        all.change(changed.collect());
    }

    pub fn read(&self, handler: &str) -> String {
        self.router.read("cluster", handler, "").unwrap()
    }

    /// Losses that are not 0.
    pub fn losses(&self) -> Vec<(String, u64)> {
        let rows = self.router.loss_rows();
        let rows = rows.iter().filter(|row| row.packets > 0);
        rows.map(|row| (format!("{}.{}", row.element, row.reason), row.packets)).collect()
    }

    /// Packets in the graph: with what made = gone + lost + held says.
    pub fn held(&self) -> u64 {
        let (made, gone, lost) = self.router.balance();
        made - gone - lost
    }

    /// Buffers of packets that it has.
    pub fn buffers(&self) -> u64 {
        self.devices.pool().in_use() as u64
    }

    /// Runs at this time until there is nothing to do; gives the time of the next timer.
    pub fn run(&mut self, now: u64) -> u64 {
        self.clock.advance(now);
        for _ in 0..10_000 {
            let round = self.engine.round();
            if !round.useful {
                return round.next_timer.unwrap_or(u64::MAX);
            }
        }
        panic!("it does not come to rest");
    }
}
