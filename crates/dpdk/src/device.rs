//! One device that the configuration names: plugged in, started, closed.
#![allow(unsafe_code)]

use crate::eal::{Eal, error_text};
use crate::interface::Interface;
use crate::names::{self, Driver, Target};
use crate::pool::DpdkPool;
use crate::port::{DpdkPort, Setup, info};
use crate::raw;
use io::{Claim, Limits, OpenError};
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// What a frame has besides the IP packet: Ethernet header, two VLAN tags.
const FRAME_EXTRA: u32 = 22;
/// The largest IP packet that we make room for without being asked: what hardware takes. (The loopback interface has
/// 64 KB.)
const MOST_MTU: u32 = 9600;
/// The most queues that the AF_PACKET driver makes.
const AF_PACKET_QUEUES: u16 = 16;
/// Frames that each ring of the AF_PACKET driver holds unless the user asks for another number.
const AF_PACKET_FRAMES: u32 = 1024;
/// The smallest slot of such a ring, enough for an MTU of 1500.
const AF_PACKET_SLOT: u32 = 2048;
/// What the kernel puts in front of the frame in such a slot, generously.
const AF_PACKET_HEADER: u32 = 128;

/// A device.
pub(crate) struct Device {
    /// Everything that it is called by; the first is what the user wrote first.
    names: Vec<String>,
    kind: Kind,
    claim: Option<Claim>,
    /// DPDK's number of the port, once there is one, and whether it is there because we asked.
    id: Option<u16>,
    plugged: bool,
    port: Option<Arc<DpdkPort>>,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// DPDK had it, or got it when it was named.
    Port,
    /// A Linux interface; DPDK gets it at start, when the number of queues is known.
    Interface(Driver, Interface),
}

impl Device {
    /// The device that the name stands for; plugs in what DPDK does not have yet.
    ///
    /// # Errors
    /// If there is none, or its driver refuses it.
    pub(crate) fn new(eal: &Eal, name: &str, target: Target) -> Result<Device, OpenError> {
        let device = |kind, id, plugged| Device {
            names: vec![name.to_owned()],
            kind,
            claim: None,
            id,
            plugged,
            port: None,
        };
        let (known_as, spec) = match target {
            Target::Interface(driver, interface) => {
                return Ok(device(Kind::Interface(driver, interface), None, false));
            }
            Target::Number(id) => return Ok(device(Kind::Port, Some(numbered(id)?), false)),
            Target::Unknown(text) => match port_by_name(&text) {
                Some(id) => return Ok(device(Kind::Port, Some(id), false)),
                None => return Err(names::unknown(&text, &port_names())),
            },
            Target::Pci(address) => (address.clone(), address),
            Target::Virtual { name, spec } => (name, spec),
        };
        if let Some(id) = port_by_name(&known_as) {
            return Ok(device(Kind::Port, Some(id), false));
        }
        let id = plug(eal, name, &known_as, &spec)?;
        Ok(device(Kind::Port, Some(id), true))
    }

    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// True if this is one of its names.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    /// Adds a name.
    pub(crate) fn also_called(&mut self, name: &str) {
        self.names.push(name.to_owned());
    }

    /// True if both are the same device.
    pub(crate) fn is_same(&self, other: &Device) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Port, Kind::Port) => self.id == other.id,
            (a, b) => a == b,
        }
    }

    /// What the device can do.
    pub(crate) fn limits(&self) -> Result<Limits, OpenError> {
        match (&self.kind, self.id) {
            (Kind::Interface(Driver::AfPacket, _), _) => {
                Ok(Limits { rx_queues: AF_PACKET_QUEUES, tx_queues: AF_PACKET_QUEUES })
            }
            // An XDP socket serves one queue of the interface.
            (Kind::Interface(Driver::AfXdp, _), _) => Ok(Limits { rx_queues: 1, tx_queues: 1 }),
            (Kind::Port, Some(id)) => Ok(info(id)?.limits),
            (Kind::Port, None) => Ok(Limits { rx_queues: 0, tx_queues: 0 }),
        }
    }

    /// Adds to what is wanted of the device.
    pub(crate) fn claim(&mut self, claim: Claim) -> Result<(), OpenError> {
        let (name, limits) = (self.name(), self.limits()?);
        if self.port.is_some() {
            return Err(OpenError::new(format!("{name} is already started"), ""));
        }
        let queues =
            [("receive", claim.rx_queues, limits.rx_queues), ("transmit", claim.tx_queues, limits.tx_queues)];
        for (what, asked, most) in queues {
            if asked > most {
                return Err(OpenError::new(
                    format!("{name} has no more than {most} {what} queues; {asked} are asked for"),
                    "use fewer queues or workers",
                ));
            }
        }
        self.claim = Some(self.claim.unwrap_or_default().and(claim));
        Ok(())
    }

    /// The largest IP packet that the device will carry; 0 if that is the device's default.
    fn mtu(&self) -> u32 {
        match (&self.kind, self.claim.unwrap_or_default().mtu) {
            (Kind::Interface(_, interface), 0) => interface.mtu().unwrap_or(0).min(MOST_MTU),
            (_, mtu) => u32::from(mtu),
        }
    }

    /// Bytes that a buffer must have for the largest frame of the device, as far as it is known.
    pub(crate) fn frame_room(&self) -> u32 {
        match self.kind {
            // The driver insists on buffers for whole slots.
            Kind::Interface(Driver::AfPacket, _) if self.slot() > AF_PACKET_SLOT => self.slot(),
            _ => self.mtu() + FRAME_EXTRA,
        }
    }

    /// Bytes of one slot of the rings of the AF_PACKET driver.
    fn slot(&self) -> u32 {
        (self.mtu() + FRAME_EXTRA + AF_PACKET_HEADER).next_power_of_two().max(AF_PACKET_SLOT)
    }

    /// Buffers that the device's rings will hold.
    pub(crate) fn ring_buffers(&self) -> u32 {
        let Some((id, claim)) = self.id.zip(self.claim) else { return 0 };
        info(id).map_or(0, |info| Setup::new(id, &info, claim).buffers())
    }

    /// Gives DPDK the Linux interface, if the device is one and somebody claimed it.
    pub(crate) fn plug(&mut self, eal: &Eal) -> Result<(), OpenError> {
        let (Kind::Interface(driver, interface), Some(claim), None) = (&self.kind, self.claim, self.id)
        else {
            return Ok(());
        };
        let linux = &interface.name;
        let (known_as, spec) = match driver {
            Driver::AfPacket => {
                let name = format!("net_af_packet_{linux}");
                let queues = claim.rx_queues.max(claim.tx_queues).max(1);
                let wish = u32::from(claim.rx_descriptors.max(claim.tx_descriptors));
                let frames = if wish == 0 { AF_PACKET_FRAMES } else { wish.next_power_of_two().max(8) };
                let (slot, block) = (self.slot(), self.slot().max(4096));
                let spec = format!(
                    "{name},iface={linux},qpairs={queues},framesz={slot},blocksz={block},framecnt={frames},\
                     qdisc_bypass=1"
                );
                (name, spec)
            }
            Driver::AfXdp => {
                let name = format!("net_af_xdp_{linux}");
                let spec = format!("{name},iface={linux}");
                (name, spec)
            }
        };
        self.id = Some(plug(eal, self.name(), &known_as, &spec)?);
        self.plugged = true;
        if *driver == Driver::AfPacket {
            interface.ignore_outgoing().map_err(|e| {
                OpenError::new(format!("{}: cannot filter what Linux sends on it: {e}", self.name()), "")
            })?;
        }
        Ok(())
    }

    /// Starts the device if somebody claimed it.
    pub(crate) fn start(&mut self, eal: &Arc<Eal>, pool: &Arc<DpdkPool>) -> Result<(), OpenError> {
        let Some((id, claim)) = self.id.zip(self.claim).filter(|_| self.port.is_none()) else {
            return Ok(());
        };
        let info = info(id)?;
        let mut setup = Setup::new(id, &info, claim);
        let interface = match &self.kind {
            Kind::Port => None,
            Kind::Interface(driver, interface) => {
                if *driver == Driver::AfPacket {
                    // Linux spreads frames over all sockets of the device, so all must be read.
                    setup.use_all_rx_queues(info.limits);
                }
                Some(interface.clone())
            }
        };
        self.port = Some(Arc::new(DpdkPort::start(self.name(), id, setup, interface, pool, eal)?));
        Ok(())
    }

    /// The port, once it is started.
    pub(crate) fn port(&self) -> Option<&Arc<DpdkPort>> {
        self.port.as_ref()
    }

    /// Stops the port and takes the device from DPDK, unless a queue of the port is still out.
    pub(crate) fn close(self) {
        let Some(id) = self.id else { return };
        if self.port.is_some_and(|port| !port.stop()) {
            return;
        }
        let (mut bus, mut device) = (std::ptr::null(), std::ptr::null());
        // SAFETY: both are valid for writes; the port number is checked by DPDK.
        let code = unsafe { raw::rb_device(id, &raw mut bus, &raw mut device) };
        // The names belong to the device, which unplugging frees.
        let names = (code == 0 && self.plugged).then(|| (owned(bus), owned(device)));
        // SAFETY: the port is stopped and no queue of it is out.
        unsafe { raw::rte_eth_dev_close(id) };
        if let Some((bus, device)) = names {
            // SAFETY: NUL-terminated strings. A failure leaves the device to EAL's own clean-up.
            unsafe { raw::rte_eal_hotplug_remove(bus.as_ptr(), device.as_ptr()) };
        }
    }
}

/// A copy of a name of DPDK.
fn owned(text: *const libc::c_char) -> CString {
    if text.is_null() {
        return CString::default();
    }
    // SAFETY: not null, and DPDK's names are NUL-terminated.
    unsafe { CStr::from_ptr(text) }.to_owned()
}

/// Gives DPDK a device: `name` is what the user wrote, `known_as` what DPDK will call the port.
fn plug(eal: &Eal, name: &str, known_as: &str, spec: &str) -> Result<u16, OpenError> {
    let Ok(spec) = CString::new(spec) else {
        return Err(OpenError::new(format!("{name}: the name contains a NUL character"), ""));
    };
    let listener = eal.listen();
    // SAFETY: a NUL-terminated string, which is copied.
    let code = unsafe { raw::rte_dev_probe(spec.as_ptr()) };
    let words = listener.words();
    if code == 0
        && let Some(id) = port_by_name(known_as)
    {
        return Ok(id);
    }
    let said = if words.is_empty() { error_text(code) } else { words };
    let help = plug_help(name, &said, code);
    Err(OpenError::new(format!("cannot open {name}: {said}"), help))
}

/// What to do about a device that its driver refuses.
fn plug_help(name: &str, said: &str, code: i32) -> String {
    // SAFETY: plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    if names::pci_address(name).is_some() {
        return format!(
            "see whether it exists and is bound to a driver for user space: dpdk-devbind.py --status; \
             bind it with: dpdk-devbind.py --bind=vfio-pci {name}"
        );
    }
    if said.contains("PACKET_FANOUT") {
        // The driver makes the number of its socket group from process and interface number.
        return "another program happens to use the same number for a group of sockets: start again"
            .to_owned();
    }
    match code.abs() {
        libc::EBUSY | libc::EEXIST => "another program uses the device".to_owned(),
        _ if !root => {
            "if the device needs privileges: run as root, or give the program the capabilities CAP_NET_RAW and \
             CAP_NET_ADMIN"
                .to_owned()
        }
        _ => "a virtual device is written like net_tap0,iface=NAME or net_pcap0,rx_pcap=FILE".to_owned(),
    }
}

/// The number, if DPDK has such a port.
fn numbered(id: u16) -> Result<u16, OpenError> {
    // SAFETY: any number may be asked about.
    if unsafe { raw::rte_eth_dev_is_valid_port(id) } == 1 {
        return Ok(id);
    }
    let ports = port_names();
    let help = if ports.is_empty() {
        "there are none: name a Linux interface instead, or make one after -- on the command line, for \
         instance: -- --vdev=net_tap0,iface=NAME"
            .to_owned()
    } else {
        format!(
            "there are: {}",
            ports.iter().enumerate().map(|(i, n)| format!("{i} ({n})")).collect::<Vec<_>>().join(", ")
        )
    };
    Err(OpenError::new(format!("there is no DPDK port {id}"), help))
}

fn port_by_name(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    let mut id = 0;
    // SAFETY: a NUL-terminated string, and room for a number.
    (unsafe { raw::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

/// The names of DPDK's ports, in the order of their numbers.
fn port_names() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: any number may be asked about; the result ends with a number above all ports.
    let mut id = unsafe { raw::rte_eth_find_next(0) };
    while u32::from(id) < raw::RTE_MAX_ETHPORTS {
        let mut name = [0; raw::RTE_ETH_NAME_MAX_LEN as usize];
        // SAFETY: room for the longest name.
        if unsafe { raw::rte_eth_dev_get_name_by_port(id, name.as_mut_ptr()) } == 0 {
            names.push(owned(name.as_ptr()).to_string_lossy().into_owned());
        }
        // SAFETY: as above.
        id = unsafe { raw::rte_eth_find_next(id + 1) };
    }
    names
}
