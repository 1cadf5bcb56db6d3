//! One started port.
#![allow(unsafe_code)]

use crate::driver;
use crate::eal::{Eal, error_text};
use crate::ops::Ops;
use crate::pool::DpdkPool;
use crate::queue::{DpdkRx, DpdkTx, Mtu, Place};
use crate::raw;
use crate::rss;
use io::linux::Interface;
use io::{Claim, Limits, Link, OpenError, Port, PortStats, RssOffer, RssState, RxQueue, TxQueue};
use packet::BufferSource;
use packet::wire::ethernet::Mac;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Descriptors per queue if neither the user nor the driver says how many.
const DESCRIPTORS: u16 = 1024;

/// The driver of XDP sockets, which does not empty its fill rings when it closes.
const XDP: &str = "net_af_xdp";

/// What DPDK says about a port.
pub(crate) struct Info {
    pub driver: String,
    pub numa_node: Option<u32>,
    pub limits: Limits,
    pub rss: RssOffer,
    rx_descriptors: u16,
    tx_descriptors: u16,
}

/// Asks DPDK about a port.
pub(crate) fn info(id: u16) -> Result<Info, OpenError> {
    let mut raw = MaybeUninit::<raw::rb_info>::zeroed();
    // SAFETY: room for one structure; port numbers are checked by DPDK.
    let code = unsafe { raw::rb_info(id, raw.as_mut_ptr()) };
    if code != 0 {
        return Err(OpenError::new(format!("DPDK port {id}: {}", error_text(code)), ""));
    }
    // SAFETY: zeroed and filled in; all fields are numbers or a pointer.
    let raw = unsafe { raw.assume_init() };
    let driver = if raw.driver.is_null() {
        String::new()
    } else {
        // SAFETY: a static string of the driver.
        unsafe { CStr::from_ptr(raw.driver) }.to_string_lossy().into_owned()
    };
    let or_default = |n: u16| if n == 0 { DESCRIPTORS } else { n };
    Ok(Info {
        driver,
        numa_node: u32::try_from(raw.socket).ok(),
        limits: Limits { rx_queues: raw.max_rx_queues, tx_queues: raw.max_tx_queues },
        rss: rss::offer(&raw),
        rx_descriptors: or_default(raw.rx_descriptors),
        tx_descriptors: or_default(raw.tx_descriptors),
    })
}

/// How a port will be set up: what was claimed, within what the device can do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    rx_queues: u16,
    tx_queues: u16,
    rx_descriptors: u16,
    tx_descriptors: u16,
    mtu: u16,
    promiscuous: bool,
    rss: rss::Setting,
}

impl Setup {
    /// At least one queue each way where the device has any: many drivers do not start without.
    pub(crate) fn new(id: u16, info: &Info, claim: Claim) -> Setup {
        let wish = |claimed: u16, default: u16| if claimed == 0 { default } else { claimed };
        let mut rx = wish(claim.rx_descriptors, info.rx_descriptors);
        let mut tx = wish(claim.tx_descriptors, info.tx_descriptors);
        // SAFETY: both point to numbers. On failure they stay, and the queue's own setup will say what is wrong.
        unsafe { raw::rte_eth_dev_adjust_nb_rx_tx_desc(id, &raw mut rx, &raw mut tx) };
        Setup {
            rx_queues: claim.rx_queues.max(1).min(info.limits.rx_queues),
            tx_queues: claim.tx_queues.max(1).min(info.limits.tx_queues),
            rx_descriptors: rx,
            tx_descriptors: tx,
            mtu: claim.mtu,
            promiscuous: claim.promiscuous,
            rss: rss::Setting::new(claim.rss, info.rss),
        }
    }

    /// Refuses what can be told before the device is touched.
    pub(crate) fn check(&self, name: &str) -> Result<(), OpenError> {
        self.rss.check(name, self.rx_queues)
    }

    /// Buffers that the port's rings can hold to receive, and to send.
    pub(crate) fn buffers(&self) -> [u32; 2] {
        [
            u32::from(self.rx_queues) * u32::from(self.rx_descriptors),
            u32::from(self.tx_queues) * u32::from(self.tx_descriptors),
        ]
    }
}

/// A started port.
pub(crate) struct DpdkPort {
    name: String,
    id: u16,
    queues: Limits,
    /// The device computes flow hashes.
    hashes: bool,
    rss: rss::Setting,
    /// The device is hardware.
    hardware: bool,
    /// Buffers that the driver took when it started and keeps for itself when it closes.
    sunk: usize,
    /// The Linux interface below, where there is one.
    interface: Option<Interface>,
    pool: Arc<DpdkPool>,
    /// Frames that were refused before the driver saw them.
    refused: Arc<AtomicU64>,
    state: Mutex<State>,
    _eal: Arc<Eal>,
}

struct State {
    open: bool,
    started: bool,
    taken_rx: Vec<bool>,
    taken_tx: Vec<bool>,
    /// Cloned by every queue that is out.
    alive: Arc<()>,
    /// What to put back when the port closes.
    promiscuous_before: bool,
    mtu_before: Option<u32>,
}

impl DpdkPort {
    /// Sets up and starts the port.
    ///
    /// # Errors
    /// If the device refuses; the port is stopped then.
    pub(crate) fn start(
        name: &str,
        id: u16,
        setup: Setup,
        interface: Option<Interface>,
        pool: &Arc<DpdkPool>,
        eal: &Arc<Eal>,
    ) -> Result<DpdkPort, OpenError> {
        let mut port = DpdkPort {
            name: name.to_owned(),
            id,
            queues: Limits { rx_queues: setup.rx_queues, tx_queues: setup.tx_queues },
            hashes: false,
            rss: setup.rss,
            hardware: is_hardware(id),
            sunk: 0,
            interface,
            pool: pool.clone(),
            refused: Arc::default(),
            state: Mutex::new(State {
                open: true,
                started: false,
                taken_rx: vec![false; usize::from(setup.rx_queues)],
                taken_tx: vec![false; usize::from(setup.tx_queues)],
                alive: Arc::default(),
                promiscuous_before: true,
                mtu_before: None,
            }),
            _eal: eal.clone(),
        };
        let listener = eal.listen();
        let before = pool.in_use();
        let result = port.set_up(setup);
        let words = listener.words();
        let driver = info(id).map(|i| i.driver).unwrap_or_default();
        if driver == XDP {
            let measured = pool.in_use().saturating_sub(before);
            port.sunk = pool.xdp_takes(setup.rx_queues, measured);
        }
        result.map_err(|(what, code)| {
            port.stop();
            let said = if words.is_empty() { error_text(code) } else { words };
            OpenError::new(format!("{name}: cannot {what}: {said}"), help(what, &driver, code))
        })?;
        Ok(port)
    }

    fn set_up(&mut self, setup: Setup) -> Result<(), (&'static str, i32)> {
        let id = self.id;
        let done = |code: i32, what: &'static str| if code == 0 { Ok(()) } else { Err((what, code)) };
        self.set_mtu(setup.mtu)?;
        let mtu = if self.interface.is_some() { 0 } else { u32::from(setup.mtu) };
        self.hashes = setup.rss.configure(id, [setup.rx_queues, setup.tx_queues], mtu)?;
        let pool = self.pool.raw().as_ptr();
        for queue in 0..setup.rx_queues {
            // SAFETY: the pool outlives the port, which holds it until it is closed.
            let code = unsafe { raw::rb_rx_queue(id, queue, setup.rx_descriptors, pool) };
            done(code, "set up a receive queue")?;
        }
        for queue in 0..setup.tx_queues {
            // SAFETY: plain numbers, checked by DPDK.
            let code = unsafe { raw::rb_tx_queue(id, queue, setup.tx_descriptors) };
            done(code, "set up a transmit queue")?;
        }
        if mtu != 0 {
            // Drivers without a way to change it took the value when they were configured.
            // SAFETY: plain numbers, checked by DPDK.
            let code = unsafe { raw::rte_eth_dev_set_mtu(id, setup.mtu) };
            done(if code == -libc::ENOTSUP { 0 } else { code }, "set the MTU")?;
        }
        // SAFETY: the port is configured, and its queues are set up.
        done(unsafe { raw::rte_eth_dev_start(id) }, "start it")?;
        self.lock().started = true;
        setup.rss.finish(id, setup.rx_queues)?;
        if setup.promiscuous {
            self.set_promiscuous()?;
        }
        Ok(())
    }

    fn set_mtu(&mut self, mtu: u16) -> Result<(), (&'static str, i32)> {
        let (Some(interface), true) = (&self.interface, mtu != 0) else { return Ok(()) };
        let failed = |e: std::io::Error| ("set the MTU", e.raw_os_error().unwrap_or(libc::EIO));
        let before = interface.mtu().map_err(failed)?;
        if before != u32::from(mtu) {
            interface.set_mtu(u32::from(mtu)).map_err(failed)?;
            self.lock().mtu_before = Some(before);
        }
        Ok(())
    }

    fn set_promiscuous(&self) -> Result<(), (&'static str, i32)> {
        // What Linux says counts where there is an interface: somebody else may have asked for it.
        let before = match &self.interface {
            Some(interface) => interface.promiscuous().unwrap_or(true),
            // SAFETY: plain number, checked by DPDK.
            None => unsafe { raw::rte_eth_promiscuous_get(self.id) == 1 },
        };
        self.lock().promiscuous_before = before;
        // SAFETY: plain number, checked by DPDK.
        match unsafe { raw::rte_eth_promiscuous_enable(self.id) } {
            // A device without such a filter receives everything anyway.
            code if code == 0 || code == -libc::ENOTSUP => Ok(()),
            code => Err(("receive frames for any address", code)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the port; its rings give their buffers back when the device is closed. False, and nothing done, while
    /// one of its queues is still out.
    pub(crate) fn stop(&self) -> bool {
        let mut state = self.lock();
        if Arc::get_mut(&mut state.alive).is_none() {
            return false;
        }
        if !std::mem::replace(&mut state.open, false) {
            return true;
        }
        if !state.promiscuous_before {
            // SAFETY: plain number, checked by DPDK. A failure leaves the device as it is.
            unsafe { raw::rte_eth_promiscuous_disable(self.id) };
        }
        if state.started {
            self.drain();
            // SAFETY: no queue is out and none can be taken any more.
            unsafe { raw::rte_eth_dev_stop(self.id) };
        }
        self.pool.sink(self.sunk);
        if let (Some(interface), Some(mtu)) = (&self.interface, state.mtu_before) {
            // The interface may be gone; there is nothing to put back then.
            let _ = interface.set_mtu(mtu);
        }
        true
    }

    /// Frees what waits in the queues, since not every driver does so (net_ring). Bounded, because some
    /// drivers always have another packet.
    fn drain(&self) {
        const BURSTS: usize = 256;
        let mut packets = [std::ptr::null_mut(); 32];
        let ops = Ops::new(self.id);
        for queue in 0..self.queues.rx_queues {
            for _ in 0..BURSTS {
                // SAFETY: the port is started and no queue of it is out; there is room for 32 pointers.
                let n = unsafe { ops.receive(queue, packets.as_mut_ptr(), 32) };
                for packet in &packets[..usize::from(n.min(32))] {
                    // SAFETY: the driver gave us the packet.
                    unsafe { raw::rb_free(*packet) };
                }
                if n == 0 {
                    break;
                }
            }
        }
        for queue in 0..self.queues.tx_queues {
            // Drivers look for buffers that the device is done with when they are called.
            // SAFETY: as above; no packets are given.
            unsafe { ops.send(queue, packets.as_mut_ptr(), 0) };
        }
    }

    /// Runs `ask` while the port is open.
    fn while_open<T>(&self, ask: impl FnOnce(u16) -> Option<T>) -> Option<T> {
        let state = self.lock();
        if state.open { ask(self.id) } else { None }
    }

    fn place(&self, state: &State, queue: u16) -> Place {
        Place { ops: Ops::new(self.id), queue, pool: self.pool.clone(), _alive: state.alive.clone() }
    }
}

/// True if the device sits on a bus of the machine, not on DPDK's bus of virtual devices.
fn is_hardware(id: u16) -> bool {
    let (mut bus, mut device) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both are valid for writes; the port number is checked by DPDK.
    if unsafe { raw::rb_device(id, &raw mut bus, &raw mut device) } != 0 || bus.is_null() {
        return false;
    }
    // SAFETY: a static string of the bus.
    let bus = unsafe { CStr::from_ptr(bus) };
    bus != c"vdev"
}

/// What to do when a device refuses a step. Drivers often say -1 for "failed", which is the number of EPERM, so numbers
/// count for little.
fn help(step: &str, driver: &str, code: i32) -> &'static str {
    // SAFETY: plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    match code.abs() {
        libc::EPERM | libc::EACCES if !root => {
            "this needs root, or the capabilities CAP_NET_RAW and CAP_NET_ADMIN"
        }
        libc::EBUSY => "another program uses the device",
        _ if driver == XDP => {
            "another program may have an XDP socket on this interface, or XDP is not for it: try af_packet"
        }
        libc::ENOMEM => "the packet buffers may be too few or too small: ask for more (DPDKInfo)",
        libc::EINVAL if step == "set it up" => "the device does not take this MTU or number of queues",
        _ => "",
    }
}

/// Marks a queue as taken; `None` if it was or does not exist.
fn take(taken: &mut [bool], queue: u16) -> Option<()> {
    let slot = taken.get_mut(usize::from(queue))?;
    (!std::mem::replace(slot, true)).then_some(())
}

impl Port for DpdkPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> Option<Mac> {
        self.while_open(|id| {
            let mut raw = MaybeUninit::<raw::rte_ether_addr>::zeroed();
            // SAFETY: room for one address; the port number is checked by DPDK.
            if unsafe { raw::rte_eth_macaddr_get(id, raw.as_mut_ptr()) } != 0 {
                return None;
            }
            // SAFETY: zeroed and filled in; six bytes.
            let mac = unsafe { raw.assume_init() }.addr_bytes;
            (mac != [0; 6]).then_some(mac)
        })
    }

    fn mtu(&self) -> u16 {
        if let Some(mtu) = self.interface.as_ref().and_then(|i| i.mtu().ok()) {
            return u16::try_from(mtu).unwrap_or(u16::MAX);
        }
        let mtu = self.while_open(|id| {
            let mut mtu = 0;
            // SAFETY: points to a number; the port number is checked by DPDK.
            (unsafe { raw::rte_eth_dev_get_mtu(id, &raw mut mtu) } == 0).then_some(mtu)
        });
        mtu.unwrap_or(1500)
    }

    fn max_mtu(&self) -> u16 {
        let headroom = if self.sunk > 0 { driver::XDP_HEADROOM as usize } else { 0 };
        let room = self.pool.data_room().saturating_sub(io::FRAME_EXTRA + headroom);
        u16::try_from(room).unwrap_or(u16::MAX)
    }

    fn link(&self) -> Link {
        if let Some(interface) = &self.interface {
            // The drivers on top of Linux interfaces make up a speed.
            return Link { up: interface.running().unwrap_or(false), speed_mbps: None, full_duplex: true };
        }
        let link = self.while_open(|id| {
            let mut link = raw::rb_link { mbps: 0, up: 0, full_duplex: 0 };
            // SAFETY: room for one structure; the port number is checked by DPDK.
            (unsafe { raw::rb_link(id, &raw mut link) } == 0).then_some(link)
        });
        link.map_or_else(Link::default, |l| Link {
            up: l.up != 0,
            speed_mbps: (l.mbps != 0).then_some(l.mbps),
            full_duplex: l.full_duplex != 0,
        })
    }

    fn stats(&self) -> PortStats {
        let refused = self.refused.load(Ordering::Relaxed);
        let raw = self.while_open(|id| {
            let mut raw = MaybeUninit::<raw::rte_eth_stats>::zeroed();
            // SAFETY: room for one structure; the port number is checked by DPDK.
            let code = unsafe { raw::rte_eth_stats_get(id, raw.as_mut_ptr()) };
            // SAFETY: zeroed and filled in; numbers only.
            (code == 0).then(|| unsafe { raw.assume_init() })
        });
        raw.map_or_else(PortStats::default, |s| PortStats {
            rx_packets: s.ipackets,
            rx_bytes: s.ibytes,
            rx_missed: s.imissed,
            rx_errors: s.ierrors,
            rx_no_buffer: s.rx_nombuf,
            tx_packets: s.opackets,
            tx_bytes: s.obytes,
            tx_errors: s.oerrors + refused,
        })
    }

    fn extended_stats(&self) -> Vec<(String, u64)> {
        self.while_open(|id| Some(extended_stats(id))).unwrap_or_default()
    }

    fn driver(&self) -> String {
        self.while_open(|id| info(id).ok()).map(|i| i.driver).unwrap_or_default()
    }

    fn numa_node(&self) -> Option<u32> {
        self.while_open(|id| info(id).ok())?.numa_node
    }

    fn queues(&self) -> Limits {
        self.queues
    }

    fn rss(&self) -> Option<RssState> {
        self.while_open(|id| self.rss.state(id))
    }

    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>> {
        let mut state = self.lock();
        if !state.open {
            return None;
        }
        take(&mut state.taken_rx, queue)?;
        Some(Box::new(DpdkRx::new(self.place(&state, queue), self.hashes)))
    }

    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>> {
        let mut state = self.lock();
        if !state.open {
            return None;
        }
        take(&mut state.taken_tx, queue)?;
        let device = Mtu { id: self.id, interface: self.interface.clone() };
        Some(Box::new(DpdkTx::new(self.place(&state, queue), self.hardware, self.refused.clone(), device)))
    }
}

/// All counters of a port by name; empty if the driver has none.
fn extended_stats(id: u16) -> Vec<(String, u64)> {
    // SAFETY: with no room, only the number of counters is returned.
    let count = unsafe { raw::rte_eth_xstats_get(id, std::ptr::null_mut(), 0) };
    let count = u32::try_from(count).unwrap_or(0);
    let room = count as usize;
    let mut names = vec![raw::rte_eth_xstat_name { name: [0; 64] }; room];
    let mut values = vec![raw::rte_eth_xstat { id: 0, value: 0 }; room];
    // SAFETY: room for `count` names.
    let n = unsafe { raw::rte_eth_xstats_get_names(id, names.as_mut_ptr(), count) };
    // SAFETY: room for `count` values.
    let m = unsafe { raw::rte_eth_xstats_get(id, values.as_mut_ptr(), count) };
    let most = i32::try_from(count).unwrap_or(0);
    if n < 0 || m < 0 || n > most || m > most {
        return Vec::new();
    }
    let name = |index: u64| {
        let bytes: Vec<u8> =
            names.get(usize::try_from(index).ok()?)?.name.iter().map(|c| c.cast_unsigned()).collect();
        Some(CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy().into_owned())
    };
    values.iter().filter_map(|v| Some((name(v.id)?, v.value))).collect()
}
