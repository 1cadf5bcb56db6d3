//! Ports that pass packets on without copying them: what one node sends, another receives.

use io::{
    Claim, Devices, Limits, Link, OpenError, PoolSize, Port, PortStats, Received, RxQueue, Sent, TxQueue,
};
use packet::wire::ethernet::Mac;
use packet::{Batch, Packet, Pool};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is on its way from one port to another.
pub type Wire = Arc<Mutex<VecDeque<Packet>>>;

/// The packets on a wire.
pub fn on(wire: &Wire) -> MutexGuard<'_, VecDeque<Packet>> {
    wire.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The ports of a node, by name: the wire that it receives from, and the one that it sends to.
pub struct Ports {
    pub pool: Pool,
    pub wires: BTreeMap<String, (Wire, Wire)>,
}

impl Devices for Ports {
    fn limits(&self, name: &str) -> Result<Limits, OpenError> {
        let none = || OpenError::new(format!("no port '{name}'"), "");
        self.wires.get(name).map(|_| Limits { rx_queues: 1, tx_queues: 1 }).ok_or_else(none)
    }

    fn claim(&self, _: &str, _: Claim) -> Result<(), OpenError> {
        Ok(())
    }

    fn start(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError> {
        self.limits(name)?;
        let (rx, tx) = &self.wires[name];
        Ok(Arc::new(WirePort { name: name.to_owned(), rx: rx.clone(), tx: tx.clone() }))
    }

    fn pool(&self) -> Pool {
        self.pool.clone()
    }

    fn set_pool_size(&self, _: PoolSize) {}

    fn stop(&self) {}
}

struct WirePort {
    name: String,
    rx: Wire,
    tx: Wire,
}

impl Port for WirePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn mtu(&self) -> u16 {
        1500
    }

    fn link(&self) -> Link {
        Link { up: true, speed_mbps: None, full_duplex: true }
    }

    fn stats(&self) -> PortStats {
        PortStats::default()
    }

    fn driver(&self) -> String {
        "wire".to_owned()
    }

    fn queues(&self) -> Limits {
        Limits { rx_queues: 1, tx_queues: 1 }
    }

    fn take_rx(&self, _: u16) -> Option<Box<dyn RxQueue>> {
        Some(Box::new(Rx(self.rx.clone())))
    }

    fn take_tx(&self, _: u16) -> Option<Box<dyn TxQueue>> {
        Some(Box::new(Tx(self.tx.clone())))
    }
}

struct Rx(Wire);

impl RxQueue for Rx {
    fn rx(&mut self, max: usize) -> Received {
        let mut wire = on(&self.0);
        let packets = max.min(Batch::MAX).min(wire.len());
        let mut batch = Batch::empty();
        for mut packet in wire.drain(..packets) {
            packet.set_mac_offset(0);
            batch.push(packet);
        }
        batch.into()
    }
}

struct Tx(Wire);

impl TxQueue for Tx {
    fn tx(&mut self, batch: Batch) -> Sent {
        let packets = batch.len();
        on(&self.0).extend(batch);
        Sent { packets, ..Sent::default() }
    }
}
