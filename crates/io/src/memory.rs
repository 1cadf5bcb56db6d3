//! Ports whose wires are lists in memory: for tests, benchmarks and the simulator.

use crate::devices::{Devices, OpenError, PoolSize};
use crate::port::{Claim, Limits, Link, Port, PortStats, Received, RxQueue, Sent, TxQueue};
use crate::refusal::{Refusal, Refusals};
use crate::rss::RssOffer;
use packet::wire::ethernet::Mac;
use packet::{Batch, Packet, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One memory port: what tests put in is received, what is sent can be taken out.
#[derive(Debug)]
pub struct MemoryPort {
    name: String,
    mac: Mac,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    claim: Claim,
    rx: Vec<VecDeque<Packet>>,
    tx: Vec<Vec<u8>>,
    /// Frames that each transmit queue takes before it says "full"; `None` = no bound.
    tx_room: Option<usize>,
    refuses: Refuses,
    refused: Refusals,
    taken_rx: Vec<bool>,
    taken_tx: Vec<bool>,
    stats: PortStats,
    finished: bool,
}

/// Which frames a memory port refuses for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refuses {
    /// None.
    #[default]
    Nothing,
    /// Those that are longer than so many bytes.
    LongerThan(usize),
    /// All, for this reason.
    Everything(Refusal),
    /// All but so many from now on, as if the interface went down then.
    After(usize),
}

impl Refuses {
    /// Why a frame of this length is refused.
    fn refuse(&mut self, length: usize) -> Option<Refusal> {
        match self {
            Refuses::Nothing => None,
            Refuses::LongerThan(most) => (length > *most).then_some(Refusal::Oversized),
            Refuses::Everything(why) => Some(*why),
            Refuses::After(0) => Some(Refusal::LinkDown),
            Refuses::After(more) => {
                *more -= 1;
                None
            }
        }
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryPort {
    fn new(name: &str, number: usize, limits: Limits) -> Arc<MemoryPort> {
        let mac = [2, 0, 0, 0, 0, u8::try_from(number).unwrap_or(255)];
        Arc::new(MemoryPort { name: name.to_owned(), mac, limits, state: Mutex::default() })
    }

    /// Puts a frame on the wire into receive queue `queue`. False if there is no buffer or no such queue.
    pub fn inject(&self, pool: &Pool, queue: usize, frame: &[u8]) -> bool {
        let Some(packet) = pool.packet(frame) else { return false };
        match lock(&self.state).rx.get_mut(queue) {
            Some(q) => {
                q.push_back(packet);
                true
            }
            None => {
                packet.free();
                false
            }
        }
    }

    /// Nothing more will be injected.
    pub fn finish(&self) {
        lock(&self.state).finished = true;
    }

    /// Takes the frames that were sent since the last call, oldest first.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut lock(&self.state).tx)
    }

    /// Lets the port take only `frames` more frames before it says "full"; `None` = no bound.
    pub fn set_tx_room(&self, frames: Option<usize>) {
        lock(&self.state).tx_room = frames;
    }

    /// Lets the port refuse frames for good.
    pub fn set_refuses(&self, which: Refuses) {
        lock(&self.state).refuses = which;
    }
}

impl Drop for MemoryPort {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.rx.drain(..).flatten().for_each(Packet::free);
    }
}

/// The devices of a test: memory ports by name.
#[derive(Debug)]
pub struct MemoryDevices {
    pool: Pool,
    ports: Mutex<BTreeMap<String, Arc<MemoryPort>>>,
    /// Makes ports of further names as they are asked for.
    more: Option<More>,
    /// What RSS the devices say they have.
    rss: Option<RssOffer>,
}

#[derive(Debug)]
struct More {
    limits: Limits,
    refuse: fn(&str) -> Option<OpenError>,
}

impl MemoryDevices {
    /// Ports of these names, each with up to `limits` queues, over one heap pool.
    pub fn new(pool: Pool, names: &[&str], limits: Limits) -> MemoryDevices {
        let port = |(i, name): (usize, &&str)| ((*name).to_owned(), MemoryPort::new(name, i, limits));
        let ports = Mutex::new(names.iter().enumerate().map(port).collect());
        MemoryDevices { pool, ports, more: None, rss: None }
    }

    /// A port for every name but those that `refuse` finds fault with: to see whether a configuration is consistent.
    pub fn any(pool: Pool, limits: Limits, refuse: fn(&str) -> Option<OpenError>) -> MemoryDevices {
        MemoryDevices { pool, ports: Mutex::default(), more: Some(More { limits, refuse }), rss: None }
    }

    /// The same devices, which say that they have this RSS. A frame comes in by the queue into which it is put all the same.
    #[must_use]
    pub fn with_rss(self, offer: RssOffer) -> MemoryDevices {
        MemoryDevices { rss: Some(offer), ..self }
    }

    /// The port itself, to inject and to look at what was sent.
    pub fn memory(&self, name: &str) -> Option<Arc<MemoryPort>> {
        lock(&self.ports).get(name).cloned()
    }

    fn find(&self, name: &str) -> Result<Arc<MemoryPort>, OpenError> {
        let mut ports = lock(&self.ports);
        match (ports.get(name), &self.more) {
            (Some(port), _) => Ok(port.clone()),
            (None, None) => Err(OpenError::new(format!("no memory port '{name}'"), "")),
            (None, Some(more)) => {
                if let Some(error) = (more.refuse)(name) {
                    return Err(error);
                }
                let port = MemoryPort::new(name, ports.len(), more.limits);
                ports.insert(name.to_owned(), port.clone());
                Ok(port)
            }
        }
    }
}

impl Devices for MemoryDevices {
    fn limits(&self, name: &str) -> Result<Limits, OpenError> {
        self.find(name).map(|p| p.limits)
    }

    fn rss(&self, _: &str) -> Option<RssOffer> {
        self.rss
    }

    fn claim(&self, name: &str, claim: Claim) -> Result<(), OpenError> {
        let port = self.find(name)?;
        if claim.rx_queues > port.limits.rx_queues || claim.tx_queues > port.limits.tx_queues {
            return Err(OpenError::new(format!("memory port '{name}' has too few queues"), ""));
        }
        let mut state = lock(&port.state);
        state.claim = state.claim.and(claim);
        Ok(())
    }

    fn start(&self) -> Result<(), OpenError> {
        for port in lock(&self.ports).values() {
            let mut state = lock(&port.state);
            let (rx, tx) = (usize::from(state.claim.rx_queues), usize::from(state.claim.tx_queues));
            state.rx.resize_with(rx, VecDeque::new);
            state.taken_rx.resize(rx, false);
            state.taken_tx.resize(tx, false);
        }
        Ok(())
    }

    fn attach(&self, name: &str, claim: Claim) -> Result<Arc<dyn Port>, OpenError> {
        self.claim(name, claim)?;
        self.start()?;
        self.port(name)
    }

    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError> {
        self.find(name).map(|p| Arc::new(Handle(p)) as Arc<dyn Port>)
    }

    fn ports(&self) -> Vec<Arc<dyn Port>> {
        lock(&self.ports).values().map(|p| Arc::new(Handle(p.clone())) as Arc<dyn Port>).collect()
    }

    fn pool(&self) -> Pool {
        self.pool.clone()
    }

    fn set_pool_size(&self, _: PoolSize) {}

    fn stop(&self) {}
}

/// What elements see of a memory port.
struct Handle(Arc<MemoryPort>);

impl Port for Handle {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn mac(&self) -> Option<Mac> {
        Some(self.0.mac)
    }

    fn mtu(&self) -> u16 {
        match lock(&self.0.state).claim.mtu {
            0 => 1500,
            mtu => mtu,
        }
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: None, full_duplex: true }
    }

    fn stats(&self) -> PortStats {
        lock(&self.0.state).stats
    }

    fn driver(&self) -> String {
        "memory".to_owned()
    }

    fn queues(&self) -> Limits {
        let claim = lock(&self.0.state).claim;
        Limits { rx_queues: claim.rx_queues, tx_queues: claim.tx_queues }
    }

    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>> {
        take(&mut lock(&self.0.state).taken_rx, queue)?;
        Some(Box::new(MemoryRx { port: self.0.clone(), queue: usize::from(queue) }))
    }

    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>> {
        take(&mut lock(&self.0.state).taken_tx, queue)?;
        Some(Box::new(MemoryTx { port: self.0.clone() }))
    }
}

fn take(taken: &mut [bool], queue: u16) -> Option<()> {
    let slot = taken.get_mut(usize::from(queue))?;
    (!std::mem::replace(slot, true)).then_some(())
}

struct MemoryRx {
    port: Arc<MemoryPort>,
    queue: usize,
}

impl RxQueue for MemoryRx {
    fn rx(&mut self, max: usize) -> Received {
        let mut state = lock(&self.port.state);
        let State { rx, stats, .. } = &mut *state;
        let Some(queue) = rx.get_mut(self.queue) else { return Received::default() };
        let mut batch = Batch::empty();
        for mut packet in queue.drain(..max.min(Batch::MAX).min(queue.len())) {
            packet.set_mac_offset(0);
            stats.rx_bytes += packet.len() as u64;
            batch.push(packet);
        }
        stats.rx_packets += batch.len() as u64;
        batch.into()
    }

    fn finished(&self) -> bool {
        let state = lock(&self.port.state);
        state.finished && state.rx.get(self.queue).is_none_or(VecDeque::is_empty)
    }
}

struct MemoryTx {
    port: Arc<MemoryPort>,
}

impl TxQueue for MemoryTx {
    fn tx(&mut self, mut batch: Batch) -> Sent {
        let mut state = lock(&self.port.state);
        let State { tx, tx_room, refuses, refused, stats, .. } = &mut *state;
        let before = refused.sum();
        let mut taken = 0;
        for packet in batch.iter() {
            if let Some(why) = refuses.refuse(packet.len()) {
                refused[why] += 1;
                stats.tx_errors += 1;
            } else if *tx_room == Some(0) {
                break;
            } else {
                *tx_room = tx_room.map(|room| room - 1);
                stats.tx_packets += 1;
                stats.tx_bytes += packet.len() as u64;
                tx.push(packet.data().to_vec());
            }
            taken += 1;
        }
        let rest = batch.split_off(taken);
        batch.free();
        let refused = usize::try_from(refused.sum() - before).unwrap_or(taken);
        Sent { packets: taken, refused, rest }
    }

    fn refusals(&self) -> Refusals {
        lock(&self.port.state).refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_port_unless_refused() {
        let limits = Limits { rx_queues: 2, tx_queues: 1 };
        let refuse = |name: &str| name.starts_with("bad").then(|| OpenError::new("bad name", ""));
        let devices = MemoryDevices::any(Pool::heap(1, 64), limits, refuse);
        assert_eq!((devices.limits("eth0"), devices.ports().len()), (Ok(limits), 1));
        assert_eq!(devices.limits("bad0"), Err(OpenError::new("bad name", "")));
        devices.claim("eth0", Claim { rx_queues: 2, ..Claim::default() }).unwrap();
        assert!(devices.claim("eth1", Claim { tx_queues: 2, ..Claim::default() }).is_err());
        devices.start().unwrap();
        let port = devices.port("eth0").unwrap();
        let taken = [0, 1, 1, 2].map(|queue| port.take_rx(queue).is_some());
        assert_eq!((taken, port.take_tx(0).is_some()), ([true, true, false, false], false));
        assert_eq!(devices.ports().len(), 2);
    }
}
