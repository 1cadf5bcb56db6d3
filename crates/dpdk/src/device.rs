//! One device that the configuration names: plugged in, started, closed.
#![allow(unsafe_code)]

use crate::descriptors::close_on_exec;
use crate::driver::{self, Driver};
use crate::eal::{Eal, error_text};
use crate::names::{self, Target};
use crate::pool::DpdkPool;
use crate::port::{DpdkPort, Setup, info};
use crate::raw;
use io::linux::{Interface, PacketPort, TapPort};
use io::{Claim, Limits, OpenError, Port, RssOffer};
use packet::Pool;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The largest IP packet that we make room for without being asked: what hardware takes. (The loopback interface has
/// 64 KB.)
const MOST_MTU: u32 = 9600;

/// A device.
pub(crate) struct Device {
    /// Everything that it is called by; the first is what the user wrote first.
    names: Vec<String>,
    kind: Kind,
    claim: Option<Claim>,
    /// DPDK's number of the port, once there is one, and whether it is there because we asked.
    id: Option<u16>,
    plugged: bool,
    port: Option<Started>,
    /// What the user should know of it.
    warning: Option<String>,
}

enum Kind {
    /// DPDK had it, or got it when it was named.
    Port,
    /// A Linux interface; opened at start, when the number of queues is known.
    Interface(Linux),
    /// A tap with this name, which is no device of DPDK's.
    Tap(String),
}

/// A port that was started.
enum Started {
    /// By DPDK.
    Dpdk(Arc<DpdkPort>),
    Tap(Arc<TapPort>),
    Packet(Arc<PacketPort>),
}

/// A Linux interface and how it is used.
struct Linux {
    interface: Interface,
    driver: Driver,
    /// The user named the driver.
    named: bool,
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
            warning: None,
        };
        let (known_as, spec) = match target {
            Target::Interface(driver, interface) => {
                let (driver, named) = (driver.unwrap_or(Driver::AfXdp), driver.is_some());
                let mut device = device(Kind::Interface(Linux { interface, driver, named }), None, false);
                device.look_at_interface();
                return Ok(device);
            }
            Target::Tap(tap) => return Ok(device(Kind::Tap(tap), None, false)),
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

    /// What the user wrote first.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// True if this is one of its names.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.names.iter().any(|n| n == name)
    }

    /// What the user should know of how it was opened.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Takes the other one's name if both are the same device.
    ///
    /// # Errors
    /// If both are the same Linux interface, by different drivers.
    pub(crate) fn joins(&mut self, other: &Device) -> Result<bool, OpenError> {
        let same = match (&mut self.kind, &other.kind) {
            (Kind::Port, Kind::Port) => self.id == other.id,
            (Kind::Interface(ours), Kind::Interface(theirs)) if ours.interface == theirs.interface => {
                if theirs.named && theirs.driver != ours.driver {
                    return Err(OpenError::new(
                        format!("{} and {} are one interface by two drivers", self.name(), other.name()),
                        "write the same name in both places",
                    ));
                }
                if theirs.named {
                    ours.named = true;
                    self.warning.clone_from(&other.warning);
                }
                true
            }
            _ => false,
        };
        if same {
            self.names.extend_from_slice(&other.names);
        }
        Ok(same)
    }

    /// Takes what can be told in advance into account.
    fn look_at_interface(&mut self) {
        let Kind::Interface(Linux { interface, driver, named }) = &self.kind else { return };
        match (driver, named) {
            (_, false) => {
                if let Some(reason) = driver::obstacle(interface) {
                    self.fall_back(&reason);
                }
            }
            (Driver::AfXdp, true) => {
                let lost =
                    |reason| format!("{}: {reason}: frames of the others stay with Linux", self.name());
                self.warning = driver::too_many_queues(interface).map(lost);
            }
            (Driver::AfPacket, true) => {}
        }
    }

    /// Gives up the XDP socket that nobody asked for by name. False if there is none such.
    fn fall_back(&mut self, reason: &str) -> bool {
        let Kind::Interface(Linux { interface, driver: driver @ Driver::AfXdp, named: false }) =
            &mut self.kind
        else {
            return false;
        };
        *driver = Driver::AfPacket;
        // Named without a driver, it is called like the interface.
        let name = &interface.name;
        let reason = reason.strip_prefix(&format!("{name}: ")).unwrap_or(reason);
        self.warning = Some(format!(
            "{name}: no XDP socket: {reason}. A raw socket takes its place, which is slower; write \
             af_packet:{name} if that does no harm"
        ));
        true
    }

    /// Decides by which driver a Linux interface is used, now that the claims are known.
    pub(crate) fn settle_mtu(&mut self) {
        if let Some(reason) = driver::too_large_mtu(self.mtu()) {
            self.fall_back(&reason);
        }
    }

    /// The same, now that it is known how large buffers will be.
    ///
    /// # Errors
    /// If an XDP socket is asked for that cannot use them.
    pub(crate) fn settle_buffers(&mut self, data_room: u16) -> Result<(), OpenError> {
        let Kind::Interface(Linux { driver: Driver::AfXdp, .. }) = self.kind else { return Ok(()) };
        let Some(reason) = driver::too_large_buffers(data_room) else { return Ok(()) };
        if self.claim.is_none() || self.fall_back(&reason) {
            return Ok(());
        }
        let help = "lower the MTU of the largest device, or use af_packet";
        Err(OpenError::new(format!("{}: {reason}", self.name()), help))
    }

    /// What the device can do.
    pub(crate) fn limits(&self) -> Result<Limits, OpenError> {
        match (&self.kind, self.id) {
            (Kind::Interface(linux), _) => Ok(linux.driver.limits()),
            (Kind::Tap(_), _) => Ok(TapPort::LIMITS),
            (Kind::Port, Some(id)) => Ok(info(id)?.limits),
            (Kind::Port, None) => Ok(Limits { rx_queues: 0, tx_queues: 0 }),
        }
    }

    /// What RSS it has: none where it is a Linux interface, whose settings are Linux's.
    pub(crate) fn rss(&self) -> RssOffer {
        let port = self.id.filter(|_| matches!(self.kind, Kind::Port));
        port.and_then(|id| info(id).ok()).map(|info| info.rss).unwrap_or_default()
    }

    /// What the user should know of RSS that is wanted and not to be had.
    pub(crate) fn rss_warning(&self) -> Option<String> {
        let (argument, text) = self.claim?.rss.warning(self.rss())?;
        Some(format!("{}: {argument}: {text}", self.name()))
    }

    /// Refuses RSS that the device does not take, or that disagrees with what is wanted already.
    fn check_rss(&self, claim: Claim) -> Result<(), OpenError> {
        if let Some(argument) = self.claim.unwrap_or_default().rss.conflict(claim.rss) {
            let message = format!("{}: two elements set {argument} differently", self.name());
            return Err(OpenError::new(message, "a device has one such setting: write it in one place"));
        }
        let refused = |(argument, text)| OpenError::new(format!("{}: {argument}: {text}", self.name()), "");
        claim.rss.check(self.rss()).map_err(refused)
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
        self.check_rss(claim)?;
        self.claim = Some(self.claim.unwrap_or_default().and(claim));
        Ok(())
    }

    /// The largest IP packet that the device will carry; 0 if that is the device's default.
    fn mtu(&self) -> u32 {
        match (&self.kind, self.claim.unwrap_or_default().mtu) {
            (Kind::Interface(linux), 0) => linux.interface.mtu().unwrap_or(0).min(MOST_MTU),
            (_, mtu) => u32::from(mtu),
        }
    }

    /// Bytes that a buffer must have for the largest frame of the device, as far as it is known.
    pub(crate) fn frame_room(&self) -> u32 {
        match &self.kind {
            Kind::Interface(linux) => linux.driver.frame_room(self.mtu()),
            Kind::Tap(_) => self.mtu() + driver::FRAME_EXTRA,
            Kind::Port => self.mtu() + driver::FRAME_EXTRA + driver::DEVICE_HEADER,
        }
    }

    /// True if it is read through an XDP socket.
    pub(crate) fn is_xdp(&self) -> bool {
        matches!(&self.kind, Kind::Interface(Linux { driver: Driver::AfXdp, .. }))
    }

    /// Buffers that the device's rings can hold to receive, and to send.
    pub(crate) fn ring_buffers(&self) -> [u32; 2] {
        let Some((id, claim)) = self.id.zip(self.claim) else { return [0; 2] };
        info(id).map_or([0; 2], |info| Setup::new(id, &info, claim).buffers())
    }

    /// Gives DPDK the Linux interface, if the device is one that is read by an XDP socket and somebody claimed it.
    pub(crate) fn plug(&mut self, eal: &Eal) -> Result<(), OpenError> {
        let (Kind::Interface(Linux { interface, driver: Driver::AfXdp, .. }), Some(_), None) =
            (&self.kind, self.claim, self.id)
        else {
            return Ok(());
        };
        let (known_as, spec) = driver::xdp(&interface.name);
        match plug(eal, self.name(), &known_as, &spec) {
            Err(error) if self.fall_back(&error.message) => {}
            result => (self.id, self.plugged) = (Some(result?), true),
        }
        Ok(())
    }

    /// Starts what is no device of DPDK's.
    fn start_without_dpdk(&mut self, pool: &Arc<DpdkPool>) -> Result<(), OpenError> {
        let (Some(claim), None) = (self.claim, &self.port) else { return Ok(()) };
        let pool = Pool::new(pool.clone());
        self.port = match &self.kind {
            Kind::Tap(tap) => Some(Started::Tap(Arc::new(TapPort::open(self.name(), tap, claim, pool)?))),
            Kind::Interface(Linux { interface, driver: Driver::AfPacket, .. }) => {
                let port = PacketPort::open(self.name(), interface, claim, pool)?;
                Some(Started::Packet(Arc::new(port)))
            }
            _ => None,
        };
        Ok(())
    }

    /// Starts the device if somebody claimed it.
    pub(crate) fn start(&mut self, eal: &Arc<Eal>, pool: &Arc<DpdkPool>) -> Result<(), OpenError> {
        let Some((id, claim)) = self.id.zip(self.claim).filter(|_| self.port.is_none()) else {
            return self.start_without_dpdk(pool);
        };
        let setup = Setup::new(id, &info(id)?, claim);
        setup.check(self.name())?;
        let (is_xdp, interface) = (self.is_xdp(), self.interface().cloned());
        let started = match pool.no_xdp().filter(|_| is_xdp) {
            Some(reason) => Err(OpenError::new(format!("{}: {reason}", self.name()), "use af_packet")),
            None => DpdkPort::start(self.name(), id, setup, interface, pool, eal),
        };
        match started {
            Ok(port) => {
                close_on_exec();
                self.port = Some(Started::Dpdk(Arc::new(port)));
            }
            Err(error) => {
                // The driver says so little only if the interface has an XDP program already.
                let silent = error.message.contains("Failed to create xsk socket");
                let reason = if silent { "another program may have one on it" } else { &error.message };
                if !self.fall_back(reason) {
                    return Err(error);
                }
                unplug(id, true);
                self.id = None;
                return self.start_without_dpdk(pool);
            }
        }
        Ok(())
    }

    /// The Linux interface that it is.
    fn interface(&self) -> Option<&Interface> {
        match &self.kind {
            Kind::Interface(linux) => Some(&linux.interface),
            Kind::Port | Kind::Tap(_) => None,
        }
    }

    /// The port, once it is started.
    pub(crate) fn port(&self) -> Option<Arc<dyn Port>> {
        match self.port.as_ref()? {
            Started::Dpdk(port) => Some(port.clone()),
            Started::Tap(port) => Some(port.clone()),
            Started::Packet(port) => Some(port.clone()),
        }
    }

    /// Stops the port and takes the device from DPDK, unless a queue of the port is still out.
    pub(crate) fn close(self) {
        match self.port {
            Some(Started::Tap(port)) => port.stop(),
            Some(Started::Packet(port)) => port.stop(),
            Some(Started::Dpdk(port)) if !port.stop() => return,
            Some(Started::Dpdk(_)) | None => {}
        }
        if let Some(id) = self.id {
            unplug(id, self.plugged);
        }
    }
}

/// Closes a port that is stopped and has no queue out; takes its device from DPDK if we `plugged` it in.
fn unplug(id: u16, plugged: bool) {
    let (mut bus, mut device) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both are valid for writes; the port number is checked by DPDK.
    let code = unsafe { raw::rb_device(id, &raw mut bus, &raw mut device) };
    // The names belong to the device, which unplugging frees.
    let names = (code == 0 && plugged).then(|| (owned(bus), owned(device)));
    // SAFETY: the port is stopped and no queue of it is out.
    unsafe { raw::rte_eth_dev_close(id) };
    if let Some((bus, device)) = names {
        // SAFETY: NUL-terminated strings. A failure leaves the device to EAL's own clean-up.
        unsafe { raw::rte_eal_hotplug_remove(bus.as_ptr(), device.as_ptr()) };
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
    if port_names().len() >= raw::RTE_MAX_ETHPORTS as usize {
        let most = raw::RTE_MAX_ETHPORTS;
        return Err(OpenError::new(
            format!("{name}: DPDK has no more than {most} devices (RTE_MAX_ETHPORTS), and all are taken"),
            "a Linux interface needs none as af_packet:NAME, nor does a tap as tap:NAME",
        ));
    }
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
    let help = plug_help(name, code);
    Err(OpenError::new(format!("cannot open {name}: {said}"), help))
}

/// What to do about a device that its driver refuses.
fn plug_help(name: &str, code: i32) -> String {
    // SAFETY: plain system call.
    let root = unsafe { libc::geteuid() } == 0;
    if names::pci_address(name).is_some() {
        return format!(
            "see whether it exists and is bound to a driver for user space: dpdk-devbind.py --status; \
             bind it with: dpdk-devbind.py --bind=vfio-pci {name}"
        );
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
