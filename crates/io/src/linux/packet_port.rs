//! A Linux interface by raw packet sockets, one for each queue.
//!
//! Linux sees what is received as well, so nothing is taken from it. Frames come as they were sent: fragments are not put
//! together (RFC 1812, 5.2.6), and VLAN tags that Linux took out stand in their place again.

use super::counts::{Queues, RX_LOSSES, RxCounts, TxCounts};
use super::errors::{Verdict, judge};
use super::interface::Interface;
use super::ring::{Frame, Geometry, Ring};
use super::socket::{BURST, RawSocket};
use crate::devices::OpenError;
use crate::port::{Claim, FRAME_EXTRA, Limits, Link, Port, PortStats, Received, RxQueue, Sent, TxQueue};
use crate::refusal::{Refusal, Refusals};
use packet::wire::ethernet::Mac;
use packet::{Batch, Packet, Pool};
use std::io::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most queues each way.
const QUEUES: u16 = 64;
/// Frames that each ring holds unless the user asks for another number.
const FRAMES: u16 = 1024;

/// An interface that is read and written by raw sockets.
pub struct PacketPort {
    name: String,
    interface: Interface,
    pool: Pool,
    queues: Queues,
    readers: Vec<Arc<RawSocket>>,
    missed: AtomicU64,
    state: Mutex<State>,
}

struct State {
    /// Of receive queues that were not handed out.
    rings: Vec<Option<Ring>>,
    /// Of transmit queues that were not handed out.
    writers: Vec<Option<RawSocket>>,
    /// Keeps the interface promiscuous.
    promiscuous: Option<RawSocket>,
    /// What to put back when the port closes.
    mtu_before: Option<u32>,
}

impl PacketPort {
    /// What raw sockets can do.
    pub const LIMITS: Limits = Limits { rx_queues: QUEUES, tx_queues: QUEUES };

    /// Opens an interface. `name` is what the user calls the port.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(
        name: &str,
        interface: &Interface,
        claim: Claim,
        pool: Pool,
    ) -> Result<PacketPort, OpenError> {
        let open = || -> Result<PacketPort, Error> {
            let limits = Limits { rx_queues: claim.rx_queues.max(1), tx_queues: claim.tx_queues.max(1) };
            let frames = if claim.rx_descriptors == 0 { FRAMES } else { claim.rx_descriptors };
            let geometry = Geometry::new(frames.into(), pool.data_room());
            let index = interface.index()?;
            let readers = (0..limits.rx_queues).map(|_| RawSocket::new().map(Arc::new));
            let readers = readers.collect::<Result<Vec<_>, _>>()?;
            let rings = readers.iter().map(|socket| Ring::new(socket, geometry).map(Some));
            let rings = rings.collect::<Result<_, _>>()?;
            let writers = (0..limits.tx_queues).map(|_| writer(index).map(Some)).collect::<Result<_, _>>()?;
            let promiscuous = claim.promiscuous.then(RawSocket::new).transpose()?;
            if let Some(socket) = &promiscuous {
                socket.promiscuous(index)?;
            }
            let mtu_before = set_mtu(interface, claim.mtu)?;
            receive_all(&readers, index)?;
            Ok(PacketPort {
                name: name.to_owned(),
                interface: interface.clone(),
                pool,
                queues: Queues::new(limits),
                readers,
                missed: AtomicU64::new(0),
                state: Mutex::new(State { rings, writers, promiscuous, mtu_before }),
            })
        };
        open().map_err(|e| {
            let help = help(&e, interface, claim.rx_queues);
            OpenError::new(format!("cannot open {name} by a raw socket: {e}"), help)
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives up what was not handed out, and puts back what was changed of the interface.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.rings.clear();
        state.writers.clear();
        state.promiscuous = None;
        if let Some(mtu) = state.mtu_before.take() {
            // The interface may be gone; there is nothing to put back then.
            let _ = self.interface.set_mtu(mtu);
        }
    }
}

/// A socket that sends on the interface.
fn writer(index: i32) -> Result<RawSocket, Error> {
    let socket = RawSocket::new()?;
    socket.bypass_queueing()?;
    socket.bind(index, false)?;
    Ok(socket)
}

/// Lets the sockets receive. Each is shut until it is one of the group: else it would get every frame.
fn receive_all(readers: &[Arc<RawSocket>], index: i32) -> Result<(), Error> {
    let mut group = None;
    for socket in readers {
        socket.ignore_outgoing()?;
        socket.shut()?;
        socket.bind(index, true)?;
        if readers.len() > 1 {
            group = Some(socket.join(group)?);
        }
    }
    readers.iter().try_for_each(|socket| socket.open())
}

/// Sets the MTU, if one is asked for; returns the one before if it was another.
fn set_mtu(interface: &Interface, mtu: u16) -> Result<Option<u32>, Error> {
    let before = interface.mtu()?;
    if mtu == 0 || before == u32::from(mtu) {
        return Ok(None);
    }
    interface.set_mtu(mtu.into())?;
    Ok(Some(before))
}

/// What to do about an interface that cannot be opened.
fn help(error: &Error, interface: &Interface, queues: u16) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "this needs root, or the capabilities CAP_NET_RAW and CAP_NET_ADMIN".to_owned()
        }
        Some(libc::EMFILE) => "too many open files: allow more with ulimit -n".to_owned(),
        Some(libc::ENOMEM) => {
            "there is not enough memory for the rings: ask for fewer frames (NDESC)".to_owned()
        }
        Some(libc::EINVAL) if queues > 1 && !interface.running().unwrap_or(true) => {
            format!(
                "older kernels share frames between queues only while the interface is up: ip link set {} up",
                interface.name
            )
        }
        _ => String::new(),
    }
}

impl Port for PacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> Option<Mac> {
        self.interface.mac().ok().filter(|mac| *mac != [0; 6])
    }

    fn mtu(&self) -> u16 {
        u16::try_from(self.interface.mtu().unwrap_or(1500)).unwrap_or(u16::MAX)
    }

    fn max_mtu(&self) -> u16 {
        u16::try_from(self.pool.data_room().saturating_sub(FRAME_EXTRA)).unwrap_or(u16::MAX)
    }

    fn link(&self) -> Link {
        Link { up: self.interface.running().unwrap_or(false), speed_mbps: None, full_duplex: true }
    }

    fn stats(&self) -> PortStats {
        let new = self.readers.iter().map(|socket| socket.missed()).sum::<u64>();
        let missed = self.missed.fetch_add(new, Relaxed) + new;
        PortStats { rx_missed: missed, ..self.queues.stats() }
    }

    fn extended_stats(&self) -> Vec<(String, u64)> {
        self.queues.extended()
    }

    fn driver(&self) -> String {
        "af_packet".to_owned()
    }

    fn queues(&self) -> Limits {
        self.queues.limits()
    }

    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>> {
        let (at, counts) = self.queues.take_rx(queue)?;
        let ring = self.lock().rings.get_mut(at)?.take()?;
        let losses = RX_LOSSES.map(|why| (why, 0));
        Some(Box::new(PacketRx { ring, pool: self.pool.clone(), counts, losses }))
    }

    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>> {
        let (at, counts) = self.queues.take_tx(queue)?;
        let socket = self.lock().writers.get_mut(at)?.take()?;
        Some(Box::new(PacketTx { socket, interface: self.interface.clone(), counts }))
    }
}

/// The receiving half.
struct PacketRx {
    ring: Ring,
    pool: Pool,
    counts: Arc<RxCounts>,
    losses: [(&'static str, u64); 2],
}

/// Copies a frame into a fresh packet, with its VLAN tag where it belongs. False if it does not fit.
fn fill(packet: &mut Packet, frame: &Frame<'_>) -> bool {
    /// The two addresses, behind which tags stand.
    const ADDRESSES: usize = 12;
    let Some(bytes) = frame.bytes else { return false };
    let parts = match (frame.tag, bytes.split_at_checked(ADDRESSES)) {
        (Some(tag), Some((addresses, rest))) => (addresses, tag, rest),
        _ => return packet.append(bytes),
    };
    packet.append(parts.0) && packet.append(&parts.1) && packet.append(parts.2)
}

impl RxQueue for PacketRx {
    fn rx(&mut self, max: usize) -> Received {
        let ready = self.ring.ready(max.min(Batch::MAX));
        if ready == 0 {
            return Received::default();
        }
        let fresh = self.pool.alloc_batch(ready);
        if fresh.len() < ready {
            // The others stay in the ring until there are buffers.
            self.counts.no_buffer();
        }
        let (mut batch, mut lost) = (Batch::empty(), 0);
        for mut packet in fresh {
            if self.ring.take(|frame| fill(&mut packet, &frame)) == Some(true) {
                packet.set_mac_offset(0);
                batch.push(packet);
            } else {
                packet.free();
                self.counts.oversized();
                lost += 1;
            }
        }
        self.losses[0].1 += lost as u64;
        self.counts.received(&batch);
        Received { batch, lost }
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

/// The sending half.
struct PacketTx {
    socket: RawSocket,
    interface: Interface,
    counts: Arc<TxCounts>,
}

impl PacketTx {
    /// What becomes of the first packet, which the kernel did not take.
    #[cold]
    fn judge(&self, error: &Error) -> Verdict {
        match judge(error) {
            // The kernel says the same of a device whose queue is full and of one without a carrier.
            Verdict::Full if error.raw_os_error() == Some(libc::ENOBUFS) => match self.interface.running() {
                Ok(true) => Verdict::Full,
                Ok(false) => Verdict::Refused(Refusal::LinkDown),
                Err(_) => Verdict::Refused(Refusal::DeviceGone),
            },
            // A socket says once that its interface was down, when it is up again, too.
            Verdict::Refused(Refusal::LinkDown) if self.interface.running().unwrap_or(false) => {
                Verdict::Again
            }
            verdict => verdict,
        }
    }
}

impl TxQueue for PacketTx {
    fn tx(&mut self, mut batch: Batch) -> Sent {
        let (mut taken, mut refused, mut bytes) = (0, 0, 0);
        while taken < batch.len() {
            let packets = &batch.as_slice()[taken..];
            match self.socket.send(packets.iter().take(BURST).map(Packet::data)) {
                Ok(sent) => {
                    bytes += packets[..sent].iter().map(|packet| packet.len() as u64).sum::<u64>();
                    taken += sent;
                }
                Err(error) => match self.judge(&error) {
                    Verdict::Again => {}
                    Verdict::Full => break,
                    Verdict::Refused(why) => {
                        let dropped = if why.concerns_all() { packets.len() } else { 1 };
                        self.counts.refused(why, dropped as u64);
                        refused += dropped;
                        taken += dropped;
                    }
                },
            }
        }
        let rest = batch.split_off(taken);
        batch.free();
        self.counts.sent((taken - refused) as u64, bytes);
        Sent { packets: taken, refused, rest }
    }

    fn refusals(&self) -> Refusals {
        self.counts.refusals()
    }
}
