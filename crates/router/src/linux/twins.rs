//! Ports taken from Linux, and their twins given to it.

use super::interface_state::{self, InterfaceState};
use super::keeper::give_back;
use super::{Namespaces, eligible, forwarding};
use ::io::say;
use control::Cables;
use control::link::{change, link};
use control::netlink::Link;
use control::netlink::request::LinkChange;
use control::offload::{Offload, offloads, set_offloads};
use std::io;
use std::net::IpAddr;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::thread::sleep;
use std::time::Duration;

/// How often an interface that is not there is looked for.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// A port, as it was found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Port {
    /// The interface's name, and that of its twin.
    pub name: String,
    /// What the twin is called before it gets its name.
    pub tap: String,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Longest packet in bytes.
    pub mtu: u32,
    /// It was set up.
    pub up: bool,
    /// It took frames to any address.
    pub promiscuous: bool,
    /// It ran an XDP program.
    pub xdp: bool,
    /// What puts received segments together for it, and is off while it is a port.
    pub offloads: Vec<Offload>,
    /// Further addresses, with the bits of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
    /// What else is set for it.
    pub state: InterfaceState,
}

#[cfg(test)]
impl Port {
    /// A port on which nothing is set.
    pub fn idle(name: &str, mac: [u8; 6]) -> Port {
        Port {
            name: name.to_owned(),
            tap: format!("tap-{name}"),
            mac,
            mtu: 1500,
            up: true,
            promiscuous: false,
            xdp: false,
            offloads: Vec::new(),
            addresses: Vec::new(),
            state: InterfaceState::default(),
        }
    }
}

impl Port {
    /// Looks at an interface of the current namespace, which becomes port number `index`.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn find(name: &str, index: usize) -> Result<Port, String> {
        eligible::check_name(name)?;
        let found = wait_for(name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => eligible::missing(name),
            _ => format!("{name}: {e}"),
        })?;
        let mac = eligible::check_link(&found)?;
        let state = InterfaceState::of(name, found.index).map_err(|e| format!("{name}: {e}"))?;
        Ok(Port {
            name: name.to_owned(),
            tap: format!("rbtwin{index}"),
            mac,
            mtu: found.mtu,
            up: found.up,
            promiscuous: found.promiscuous,
            xdp: found.xdp,
            // Where none can be asked for there is none to be put back.
            offloads: offloads(found.index).unwrap_or_default(),
            addresses: Vec::new(),
            state,
        })
    }
}

/// The interface of this name. A router that was killed a moment ago is about to give it back.
fn wait_for(name: &str) -> io::Result<Link> {
    for _ in 0..LOOKS {
        match link(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => sleep(PAUSE),
            found => return found,
        }
    }
    link(name)
}

/// Ports that are in the private namespace. Dropping it gives them back.
#[derive(Debug)]
pub struct Twins<N: Deref<Target = Namespaces>> {
    namespaces: N,
    taken: Vec<Port>,
}

impl<N: Deref<Target = Namespaces>> Twins<N> {
    /// Moves the ports into the private namespace, and sets them up there.
    ///
    /// # Errors
    /// What to tell the user; what was taken is given back.
    pub fn take(namespaces: N, ports: &[Port]) -> Result<Twins<N>, String> {
        let mut twins = Twins { namespaces, taken: Vec::new() };
        for port in ports {
            let there = LinkChange { namespace: Some(twins.namespaces.private()), ..LinkChange::default() };
            link(&port.name)
                .and_then(|found| {
                    interface_state::warn(&port.name, found.index);
                    eligible::warn(&found);
                    change(found.index, &there)
                })
                .map_err(|e| format!("{}: cannot be moved to a namespace of its own: {e}", port.name))?;
            twins.taken.push(port.clone());
        }
        let namespaces = &*twins.namespaces;
        let up = || -> io::Result<()> {
            namespaces.enter_private()?;
            for port in ports {
                let index = link(&port.name)?.index;
                if let Err(e) = set_offloads(index, &port.offloads, false) {
                    let names =
                        port.offloads.iter().map(|offload| offload.name()).collect::<Vec<_>>().join(", ");
                    say!("warning: {}: cannot switch off {names}: {e}", port.name);
                }
                change(index, &LinkChange { up: Some(true), ..LinkChange::default() })?;
            }
            Ok(())
        };
        let done = up();
        let back = namespaces.enter_caller();
        done.and(back).map_err(|e| format!("the ports cannot be set up: {e}"))?;
        Ok(twins)
    }

    /// Gives the taps, which are in the private namespace now, to the caller's under the names of their ports. The
    /// calling thread is in the caller's namespace afterwards. Returns their interface numbers, by port,
    /// and who listens to the ports' carriers.
    ///
    /// # Errors
    /// Those of the system.
    pub fn hand_over(&self) -> io::Result<(Vec<u32>, Cables)> {
        self.namespaces.enter_private()?;
        let ports: Vec<u32> =
            self.taken.iter().map(|port| Ok(link(&port.name)?.index)).collect::<io::Result<_>>()?;
        let cables = Cables::open(&ports)?;
        Ok((hand_over(&self.namespaces, &self.taken)?, cables))
    }
}

/// Gives taps that are in the private namespace to the caller's, with the names, addresses and MTUs of `ports`. The
/// calling thread is in the caller's namespace afterwards. Returns their interface numbers, by port.
///
/// # Errors
/// Those of the system.
pub fn hand_over(namespaces: &Namespaces, ports: &[Port]) -> io::Result<Vec<u32>> {
    namespaces.enter_private()?;
    for port in ports {
        let tap = link(&port.tap)?.index;
        let same =
            LinkChange { up: Some(false), mac: Some(port.mac), mtu: Some(port.mtu), ..LinkChange::default() };
        change(tap, &same)?;
        let there = LinkChange {
            namespace: Some(namespaces.caller().as_raw_fd()),
            name: Some(&port.name),
            ..LinkChange::default()
        };
        change(tap, &there)?;
    }
    namespaces.enter_caller()?;
    forwarding::switch_on(ports.iter().map(|port| port.name.as_str()));
    let names: Vec<String> = ports.iter().map(|port| port.name.clone()).collect();
    interface_state::put(ports, &names, true)
}

/// Takes a twin back into the private namespace, where its tap has the name again that it had before. The calling thread is in
/// the caller's namespace afterwards.
///
/// # Errors
/// Those of the system; that it is gone already is none.
pub fn take_back(namespaces: &Namespaces, port: &Port) -> io::Result<()> {
    namespaces.enter_caller()?;
    let twin = match link(&port.name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.index,
    };
    change(twin, &LinkChange { up: Some(false), ..LinkChange::default() })?;
    let back =
        LinkChange { namespace: Some(namespaces.private()), name: Some(&port.tap), ..LinkChange::default() };
    change(twin, &back)
}

impl<N: Deref<Target = Namespaces>> Twins<N> {
    /// Gives the ports back as their twins were last.
    ///
    /// # Errors
    /// What to tell the user: an interface stays in the private namespace.
    pub fn give_back(mut self) -> Result<(), String> {
        self.return_all()
    }

    fn return_all(&mut self) -> Result<(), String> {
        let ports = self.namespaces.latest(&std::mem::take(&mut self.taken));
        let entered = self.namespaces.enter_private();
        entered.and_then(|()| give_back(&ports, self.namespaces.caller())).map_err(|e| e.to_string())
    }
}

impl<N: Deref<Target = Namespaces>> Drop for Twins<N> {
    fn drop(&mut self) {
        if !self.taken.is_empty()
            && let Err(e) = self.return_all()
        {
            say!("error: an interface could not be given back to Linux: {e}");
        }
    }
}
