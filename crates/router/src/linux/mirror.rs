//! Keeps ports as their twins are, and the carriers of twins as those of ports, whatever becomes of the control side.
//!
//! ```text
//!   caller's namespace:   eth1 (twin)  ── up, address, MTU ──▶  eth1 (the port)   :private namespace
//!                                      ◀────────────── carrier ───────────
//! ```

mod pair;

use self::pair::{Pair, Step};
use super::{Namespaces, Port};
use ::io::say;
use control::link::link;
use control::netlink::Action;
use control::netlink::request::LinkChange;
use control::{Cables, LinkWatch};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Within this it notices that it is to end.
const ROUND: Duration = Duration::from_millis(50);

/// Keeps them alike until it is dropped.
#[derive(Debug)]
pub struct Mirror {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mirror {
    /// Starts for these ports and the interface numbers of their twins; `devices` say what they can carry. If a twin goes, `lost` is
    /// set and the router ends. The calling thread is in the caller's namespace, also afterwards.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(
        namespaces: &Namespaces,
        ports: &[Port],
        twins: &[u32],
        devices: &[Arc<dyn ::io::Port>],
        lost: &Arc<AtomicBool>,
    ) -> io::Result<Mirror> {
        let outside = LinkWatch::open()?;
        namespaces.enter_private()?;
        let inside = Inside::open(ports);
        namespaces.enter_caller()?;
        let Inside { links, cables, numbers } = inside?;
        let pairs = ports.iter().zip(twins).zip(numbers);
        let most = |port: &Port| {
            let device = devices.iter().find(|device| device.name() == port.name);
            device.map_or(port.mtu, |device| device.max_mtu().into())
        };
        let pairs = pairs.map(|((port, twin), number)| Pair::new(port, *twin, number, most(port))).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let mut work = Work { outside, links, cables, pairs, lost: lost.clone() };
        let also = stop.clone();
        let thread = Builder::new().name("mirror".to_owned()).spawn(move || {
            while !also.load(Ordering::Acquire) {
                work.round();
                work.wait();
            }
        })?;
        Ok(Mirror { stop, thread: Some(thread) })
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What belongs to the private namespace.
struct Inside {
    links: LinkWatch,
    cables: Cables,
    /// Of the ports' interfaces.
    numbers: Vec<u32>,
}

impl Inside {
    /// Opens it in the current namespace.
    fn open(ports: &[Port]) -> io::Result<Inside> {
        let numbers: Vec<u32> =
            ports.iter().map(|port| Ok(link(&port.name)?.index)).collect::<io::Result<_>>()?;
        Ok(Inside { links: LinkWatch::open()?, cables: Cables::open(&numbers)?, numbers })
    }
}

/// What the thread has.
struct Work {
    outside: LinkWatch,
    links: LinkWatch,
    cables: Cables,
    pairs: Vec<Pair>,
    lost: Arc<AtomicBool>,
}

impl Work {
    fn wait(&self) {
        let fds = [self.outside.as_fd(), self.links.as_fd(), self.cables.as_fd()];
        let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let limit = self.cables.wait().map_or(ROUND, |wait| wait.min(ROUND));
        // Interrupted is as good as nothing there.
        let _ = poll(&mut fds, PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO));
    }

    /// Does what has become necessary.
    fn round(&mut self) {
        for (action, link) in self.outside.read() {
            let Some(place) = self.pairs.iter().position(|pair| pair.twin == link.index) else { continue };
            let steps = self
                .pairs
                .get_mut(place)
                .map(|pair| pair.twin_is((action != Action::Remove).then_some(link)));
            steps.into_iter().flatten().for_each(|step| self.take(place, &step));
        }
        for (action, link) in self.links.read() {
            let Some(place) = self.pairs.iter().position(|pair| pair.port == link.index) else { continue };
            let steps = self.pairs.get_mut(place).map(|pair| pair.port_is(action != Action::Remove));
            // It cannot be given back at the end, which the exit code says.
            if steps.as_ref().is_some_and(|steps| !steps.is_empty()) {
                self.lost.store(true, Ordering::Release);
            }
            steps.into_iter().flatten().for_each(|step| self.take(place, &step));
        }
        for (place, carrier) in self.cables.read() {
            self.take(place, &Step::Carrier(carrier));
        }
    }

    fn take(&mut self, place: usize, step: &Step) {
        let Some(pair) = self.pairs.get(place) else { return };
        let (name, twin, port) = (&pair.name, pair.twin, pair.port);
        let nothing = LinkChange::default();
        let done = match *step {
            Step::Up(up) => self.links.change(port, &LinkChange { up: Some(up), ..nothing }),
            Step::Mac(mac) => self.links.change(port, &LinkChange { mac: Some(mac), ..nothing }),
            // A kernel that cannot do it leaves Linux to find out by itself.
            Step::Carrier(carrier) => {
                // Named with its group, it is told at once.
                let change = LinkChange { carrier: Some(carrier), group: Some(pair.group), ..nothing };
                let _ = self.outside.change(twin, &change);
                Ok(())
            }
            Step::Mtu(mtu) => self.set_mtu(place, mtu),
            Step::Narrow(mtu) => narrow(&self.outside, pair, mtu, ""),
            Step::End => {
                self.lost.store(true, Ordering::Release);
                kill(getpid(), Signal::SIGTERM).map_err(Into::into)
            }
            Step::Say(ref what) => {
                say!("warning: {name}: {what}");
                Ok(())
            }
        };
        if let Err(e) = done {
            let name = self.pairs.get(place).map_or("", |pair| pair.name.as_str());
            say!("warning: {name}: {}: {e}", step.failure());
        }
    }
    /// Has a port carry packets of so many bytes, or its twin none longer than the port does.
    fn set_mtu(&mut self, place: usize, mtu: u32) -> io::Result<()> {
        let Some(pair) = self.pairs.get_mut(place) else { return Ok(()) };
        let change = LinkChange { mtu: Some(mtu), ..LinkChange::default() };
        match self.links.change(pair.port, &change) {
            Ok(()) => {
                pair.mtu = mtu;
                Ok(())
            }
            Err(e) => narrow(&self.outside, pair, mtu, &format!(" ({e})")),
        }
    }
}

/// Gives a twin the MTU of its port again, which does not carry packets of so many bytes.
fn narrow(outside: &LinkWatch, pair: &Pair, mtu: u32, why: &str) -> io::Result<()> {
    let Pair { name, mtu: carried, max_mtu, .. } = pair;
    say!(
        "warning: {name}: the port cannot carry packets of {mtu} bytes{why}, at most {max_mtu}; the MTU is {carried} again"
    );
    outside.change(pair.twin, &LinkChange { mtu: Some(*carried), ..LinkChange::default() })
}
