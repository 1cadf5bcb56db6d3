//! All DPDK devices of the process: from names to ports.

use crate::device::Device;
use crate::eal::{Eal, EalOptions};
use crate::names;
use crate::pool::{DpdkPool, MOST_DATA_ROOM, Size};
use io::{Claim, Devices, Limits, NoDevices, OpenError, PoolSize, Port, RssOffer, say};
use packet::{BufferSource, Pool};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers on top of what the rings of all ports hold: batches under way, queues of the configuration, caches, rings of
/// ports that are attached later.
const SPARE_BUFFERS: u32 = 32_768;
/// The same where there are XDP sockets, without what ports that are attached later receive into. With each of these the kernel keeps 128 bytes for every buffer of the pool and clears
/// them in one go, of which nobody else has the processor: up to 6 ms for 16,384 in a virtual machine.
const SPARE_WITH_XDP: u32 = 16_384;
/// Fewer than these beside the rings, and packets may stop for want of buffers.
const LEAST_SPARE: u32 = 1024;
/// Buffers that rings may take, as long as it is not known which ports there will be.
const RING_BUFFERS: u32 = 8_192;
/// Room for a full-sized Ethernet frame with two VLAN tags, and what drivers align it to.
const DATA_ROOM: u16 = 2048;

/// The devices of a process, behind DPDK. Starts DPDK when the first device is named.
///
/// A device is written as
/// - a DPDK port number (`0`) or the name of a DPDK device (`net_pcap0`) that EAL arguments made;
/// - a virtual device with its arguments (`net_null0`, `net_tap0,iface=t0`);
/// - `tap:NAME`: a tap of Linux, without DPDK;
/// - a Linux interface of the current network namespace: `af_xdp:eth1` through an XDP socket (one queue),
///   `af_packet:eth1` through raw sockets, without DPDK, `eth1` through an XDP socket unless something speaks against it, of which
///   [`Devices::warnings`] tells;
/// - a PCI address (`0000:3b:00.0`) of a device that is bound to a driver for user space.
pub struct DpdkDevices {
    options: EalOptions,
    // For configurations that name no device: they get buffers of the heap.
    without: NoDevices,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    eal: Option<Result<Arc<Eal>, OpenError>>,
    wish: PoolSize,
    /// Devices that will be attached while the others run.
    expected: u32,
    devices: Vec<Device>,
    pool: Option<Arc<DpdkPool>>,
    /// Buffers that had not come back when everything was closed.
    missing: usize,
}

impl DpdkDevices {
    /// Devices for a process that starts DPDK with these options, if at all.
    pub fn new(options: EalOptions) -> DpdkDevices {
        let without = NoDevices::new("");
        DpdkDevices { options, without, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a device was named, so that DPDK runs and packets are in its buffers.
    pub fn is_running(&self) -> bool {
        !self.lock().devices.is_empty()
    }

    /// Stops and closes everything, as [`Devices::stop`] does; returns how many buffers had not come back, which is
    /// 0 unless packets or queues are still in use.
    pub fn close(&self) -> usize {
        let mut state = self.lock();
        state.close();
        state.missing
    }
}

impl Drop for DpdkDevices {
    fn drop(&mut self) {
        self.close();
    }
}

impl Devices for DpdkDevices {
    fn limits(&self, name: &str) -> Result<Limits, OpenError> {
        let mut state = self.lock();
        let index = state.find(name, &self.options)?;
        state.devices[index].limits()
    }

    fn rss(&self, name: &str) -> Option<RssOffer> {
        let mut state = self.lock();
        let index = state.find(name, &self.options).ok()?;
        Some(state.devices[index].rss())
    }

    fn claim(&self, name: &str, claim: Claim) -> Result<(), OpenError> {
        let mut state = self.lock();
        let index = state.find(name, &self.options)?;
        state.devices[index].claim(claim)
    }

    fn expect(&self) {
        self.lock().expected += 1;
    }

    fn start(&self) -> Result<(), OpenError> {
        let mut state = self.lock();
        let result = state.start();
        if result.is_err() {
            state.close();
        }
        result
    }

    fn attach(&self, name: &str, claim: Claim) -> Result<Arc<dyn Port>, OpenError> {
        let mut state = self.lock();
        let index = state.find(name, &self.options)?;
        let result = state.attach(index, claim);
        if result.is_err() && state.devices.get(index).is_some_and(|device| device.port().is_none()) {
            // It is as if nobody had named it.
            state.devices.remove(index).close();
        }
        result
    }

    fn port(&self, name: &str) -> Result<Arc<dyn Port>, OpenError> {
        let mut state = self.lock();
        let index = state.find(name, &self.options)?;
        match state.devices[index].port() {
            Some(port) => Ok(port),
            None => Err(OpenError::new(format!("{name} is not started"), "")),
        }
    }

    fn ports(&self) -> Vec<Arc<dyn Port>> {
        self.lock().devices.iter().filter_map(Device::port).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let state = self.lock();
        let of_devices = state.devices.iter().filter_map(|d| d.warning().map(str::to_owned));
        of_devices.chain(state.few_buffers()).collect()
    }

    fn pool(&self) -> Pool {
        let mut state = self.lock();
        if state.devices.is_empty() {
            return self.without.pool();
        }
        match state.pool() {
            Ok(pool) => Pool::new(pool),
            // `start` meets the same failure and reports it.
            Err(_) => self.without.pool(),
        }
    }

    fn set_pool_size(&self, size: PoolSize) {
        self.lock().wish = size;
    }

    fn stop(&self) {
        self.close();
    }
}

impl State {
    /// EAL, started if it was not yet.
    fn eal(&mut self, options: &EalOptions) -> Result<Arc<Eal>, OpenError> {
        let memory = self.size(RING_BUFFERS, SPARE_BUFFERS).memory();
        self.eal.get_or_insert_with(|| Eal::init(options, memory)).clone()
    }

    /// Size of the pool if rings hold `rings` buffers, and so many come on top unless something else is asked for.
    fn size(&self, rings: u32, spare: u32) -> Size {
        let wished = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let spare = self.wish.spare.map_or(spare, wished);
        let buffers = self.wish.buffers.map_or(rings.saturating_add(spare), wished);
        Size { buffers, data_room: self.data_room() }
    }

    /// Bytes of packet in each buffer: one device with long frames makes the buffers of all so large.
    fn data_room(&self) -> u16 {
        let frames = self.devices.iter().map(Device::frame_room).max().unwrap_or(0);
        let frames = u16::try_from(frames).unwrap_or(u16::MAX).min(MOST_DATA_ROOM);
        let room = self.wish.data_room.map_or(DATA_ROOM.max(frames), |room| room.min(MOST_DATA_ROOM));
        room.next_multiple_of(64)
    }

    /// Index of the device of this name, which becomes known if it was not.
    fn find(&mut self, name: &str, options: &EalOptions) -> Result<usize, OpenError> {
        if let Some(index) = self.devices.iter().position(|d| d.is_called(name)) {
            return Ok(index);
        }
        let target = names::parse(name)?;
        let eal = self.eal(options)?;
        let device = Device::new(&eal, name, target)?;
        for (index, other) in self.devices.iter_mut().enumerate() {
            if other.joins(&device)? {
                return Ok(index);
            }
        }
        self.devices.push(device);
        Ok(self.devices.len() - 1)
    }

    fn start(&mut self) -> Result<(), OpenError> {
        let Some(eal) = self.eal.clone() else { return Ok(()) };
        let eal = eal?;
        self.devices.iter_mut().for_each(Device::settle_mtu);
        let data_room = self.data_room();
        for device in &mut self.devices {
            device.settle_buffers(data_room)?;
            device.plug(&eal)?;
        }
        let pool = self.pool()?;
        for device in &mut self.devices {
            device.start(&eal, &pool)?;
        }
        Ok(())
    }

    /// Starts a device beside those that run, and warns of what it is not.
    fn attach(&mut self, index: usize, claim: Claim) -> Result<Arc<dyn Port>, OpenError> {
        let Some(eal) = self.eal.clone() else { return Err(OpenError::new("DPDK is not running", "")) };
        let (eal, pool) = (eal?, self.pool()?);
        let data_room = pool.data_room().try_into().unwrap_or(u16::MAX);
        let Some(device) = self.devices.get_mut(index) else {
            return Err(OpenError::new("the devices were closed", ""));
        };
        if device.port().is_none() {
            device.claim(claim)?;
            device.settle_mtu();
            device.settle_buffers(data_room)?;
            if device.frame_room() > u32::from(data_room) {
                let (name, room) = (device.name(), device.frame_room());
                let message = format!(
                    "{name}: its frames need buffers of {room} bytes, those there are have {data_room}"
                );
                return Err(OpenError::new(message, "lower its MTU, or start with it"));
            }
            device.plug(&eal)?;
            device.start(&eal, &pool)?;
            let warning = device.warning().map(str::to_owned);
            warning
                .into_iter()
                .chain(device.rss_warning())
                .chain(self.few_buffers())
                .for_each(|warning| say!("warning: {warning}"));
        }
        let port = self.devices.get(index).and_then(Device::port);
        let port = port.ok_or_else(|| OpenError::new("the device is not started", ""))?;
        let has = port.queues();
        if has.rx_queues < claim.rx_queues || has.tx_queues < claim.tx_queues {
            return Err(OpenError::new(format!("{} was started with fewer queues", port.name()), ""));
        }
        Ok(port)
    }

    /// The pool, made if it was not yet.
    fn pool(&mut self) -> Result<Arc<DpdkPool>, OpenError> {
        if let Some(pool) = &self.pool {
            return Ok(pool.clone());
        }
        let Some(eal) = self.eal.clone() else { return Err(OpenError::new("DPDK is not running", "")) };
        let pool = Arc::new(DpdkPool::new(&eal?, self.size(self.ring_buffers(), self.spare()))?);
        self.pool = Some(pool.clone());
        Ok(pool)
    }

    /// Buffers on top of what rings hold, unless something else is asked for.
    fn spare(&self) -> u32 {
        if !self.devices.iter().any(Device::is_xdp) {
            return SPARE_BUFFERS;
        }
        let of_one = self.devices.iter().map(|device| device.ring_buffers()[0]).max().unwrap_or(0);
        self.expected.saturating_mul(of_one).saturating_add(SPARE_WITH_XDP).min(SPARE_BUFFERS)
    }

    /// Buffers that the rings of all devices can hold.
    fn ring_buffers(&self) -> u32 {
        self.devices.iter().flat_map(Device::ring_buffers).sum()
    }

    /// Says so if the rings leave too few buffers to others.
    fn few_buffers(&self) -> Option<String> {
        let (all, rings) = (self.pool.as_ref()?.capacity(), self.ring_buffers());
        (all < (rings + LEAST_SPARE) as usize).then(|| {
            format!(
                "of {all} packet buffers {rings} may be in the rings of devices: packets may stop for want of others \
                 (DPDKInfo)"
            )
        })
    }

    /// Stops and closes all ports, and counts what is missing.
    fn close(&mut self) {
        let Some(Ok(eal)) = self.eal.clone() else { return };
        let listener = eal.listen();
        for device in self.devices.drain(..) {
            device.close();
        }
        if let Some(pool) = self.pool.take() {
            self.missing = pool.missing();
        }
        drop(listener);
        eal.remove_files();
        // Whoever still holds the EAL keeps it running; nothing new can be opened.
        self.eal = Some(Err(OpenError::new("the devices were closed", "")));
    }
}
