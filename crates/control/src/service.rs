//! The thread that reads, keeps the model and publishes.
//!
//! ```text
//!   loop:  wait for netlink, FPM, or the end
//!          read what is there, for a few milliseconds at most ─▶ model
//!          publish what has changed, a bounded number of prefixes ─▶ tables
//! ```

mod handle;
mod recheck;
mod zebra;

pub use self::handle::{Handle, Status};

use self::handle::{Models, Shared, lock};
use self::recheck::Recheck;
use self::zebra::Zebra;
use crate::cables::Cables;
use crate::fpm::Session;
use crate::kernel::{Follower, Model};
use crate::netlink::request::{self, LinkChange};
use crate::netlink::wire::Messages;
use crate::priority;
use crate::publish::{Publisher, Tables};
use crate::replicate::{Log, Reclaim};
use crate::socket::{GROUPS, Inbox, NetlinkSocket, Read};
use epoch::Reader;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// So long it reads without publishing.
const READ_FOR: Duration = Duration::from_millis(5);
/// How often it asks the kernel to confirm neighbours that nobody has spoken with: the kernel does not see what the
/// workers send.
const CONFIRM: Duration = Duration::from_secs(20);
/// Neighbours that it asks for at once.
const CONFIRM_MOST: usize = 1024;

/// So long at most it waits at the start for all that the kernel has, to publish it in one go.
const START: Duration = Duration::from_secs(5);
/// The same if the tables have what was there before, which is good enough for a while.
const START_AGAIN: Duration = Duration::from_secs(30);
/// How often it asks the kernel to find out neighbours that groups of next hops lack.
const ASK: Duration = Duration::from_secs(1);

/// How often it looks around even if nothing happens, so that others see that it does.
const ROUND: Duration = Duration::from_secs(1);

/// Where routes come from; the kernel's local table is always used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// From the kernel's main table.
    #[default]
    Kernel,
    /// From zebra, which connects to this address.
    Fpm(SocketAddr),
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Interface numbers of the twins, by port; 0 for a port that has none. VLANs have numbers behind all of these, so ports
    /// that may come later must be among them.
    pub ports: Vec<u32>,
    /// Where routes come from.
    pub source: Source,
    /// Bytes of messages that may wait in the kernel.
    pub buffer: usize,
}

impl Settings {
    /// Enough for a full table announced by a fast daemon while this thread publishes: 0.8 s of 200,000 events a second.
    pub const BUFFER: usize = 128 << 20;
}

/// What only some want.
#[derive(Default)]
struct Also {
    /// Numbers that followers of the tables have are not given again too soon.
    reclaim: Option<Reclaim>,
    /// Whoever follows has FRR's routes from before, or none.
    is_apart: bool,
    /// So long what was in the tables at the start stays though Linux does not have it.
    hold: Duration,
}

/// What the thread owns.
pub struct Control {
    socket: NetlinkSocket,
    recheck: Recheck,
    /// If routes come from there.
    zebra: Option<Zebra>,
    follower: Follower,
    publisher: Publisher,
    reclaim: Option<Reclaim>,
    /// Whoever follows has FRR's routes from before, or none.
    is_apart: bool,
    /// So long what was in the tables at the start stays though Linux does not have it.
    hold: Duration,
    rounds: u64,
    cables: Option<Cables>,
    wake: Arc<EventFd>,
    shared: Arc<Shared>,
    start: Instant,
    confirmed: Duration,
    asked: Duration,
}

impl Control {
    /// Opens sockets in the current network namespace and starts the thread. `cables` say when ports lose their
    /// carriers; the twins' carriers follow them.
    ///
    /// # Errors
    /// If a socket or the thread cannot be had.
    pub fn start(settings: &Settings, cables: Option<Cables>, tables: Tables) -> io::Result<Handle> {
        Control::start_for(settings, cables, tables, Also::default())
    }

    /// As [`start`](Self::start), for other nodes as well: those that follow the log of these tables
    /// ([`replicate`](crate::replicate)) get them as soon as everything that there is has been published.
    ///
    /// # Errors
    /// If a socket or the thread cannot be had.
    pub fn start_replicated(
        settings: &Settings,
        cables: Option<Cables>,
        log: &Arc<Log>,
    ) -> io::Result<Handle> {
        let also = Also { reclaim: Some(Reclaim::new(log)), ..Also::default() };
        Control::start_for(settings, cables, log.tables().clone(), also)
    }

    /// As [`start_replicated`](Self::start_replicated), for one router that follows and keeps its tables when this process
    /// ends ([`apart`](crate::replicate::apart)): the tables are those of the router, or empty. FRR is not waited for:
    /// what was there stays until it has sent its first lot.
    ///
    /// # Errors
    /// If a socket or the thread cannot be had.
    pub fn start_apart(settings: &Settings, cables: Option<Cables>, log: &Arc<Log>) -> io::Result<Handle> {
        let also = Also { reclaim: Some(Reclaim::new(log)), is_apart: true, ..Also::default() };
        Control::start_for(settings, cables, log.tables().clone(), also)
    }

    /// As [`start_replicated`](Self::start_replicated), for a node that followed until now and takes over: the tables are
    /// whole, what is in them stays, and what this Linux does not have of it by the time `hold` goes then.
    ///
    /// # Errors
    /// If a socket or the thread cannot be had.
    pub fn start_taking_over(
        settings: &Settings,
        cables: Option<Cables>,
        log: &Arc<Log>,
        hold: Duration,
    ) -> io::Result<Handle> {
        let also = Also { reclaim: Some(Reclaim::new(log)), hold, ..Also::default() };
        Control::start_for(settings, cables, log.tables().clone(), also)
    }

    fn start_for(
        settings: &Settings,
        cables: Option<Cables>,
        tables: Tables,
        also: Also,
    ) -> io::Result<Handle> {
        let Also { reclaim, is_apart, hold } = also;
        let shared = Arc::new(Shared::default());
        let zebra = match settings.source {
            Source::Kernel => None,
            Source::Fpm(address) => {
                lock(&shared.models).frr = Some(Model::default());
                Some(Zebra::open(address)?)
            }
        };
        let wake = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
        let mut publisher = Publisher::new(tables, &settings.ports);
        if !hold.is_zero() {
            publisher.hold_interfaces();
        }
        let control = Control {
            socket: NetlinkSocket::open(GROUPS, settings.buffer)?,
            recheck: Recheck::open()?,
            zebra,
            follower: Follower::new(),
            publisher,
            reclaim,
            is_apart,
            hold,
            rounds: 0,
            cables,
            wake: wake.clone(),
            shared: shared.clone(),
            start: Instant::now(),
            confirmed: Duration::ZERO,
            asked: Duration::ZERO,
        };
        let thread = thread::Builder::new().name("control".to_owned()).spawn(move || control.run())?;
        Ok(Handle::new(shared, wake, thread))
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn run(mut self) {
        priority::raise();
        let (mut reader, mut inbox) = (Reader::new(), Inbox::default());
        let mut more = true;
        while !reader.offline(|| self.wait(more)) {
            let shared = self.shared.clone();
            let mut models = lock(&shared.models);
            let Models { kernel, frr } = &mut *models;
            for (port, twin) in std::mem::take(&mut *lock(&self.shared.ports)) {
                self.publisher.set_port(port, twin);
            }
            self.read_cables();
            self.read_netlink(kernel, &mut inbox);
            let now = self.now();
            self.recheck.step(kernel, now);
            if let Some((zebra, frr)) = self.zebra.as_mut().zip(frr.as_mut()) {
                zebra.read(frr, now, READ_FOR);
            }
            self.confirm(kernel);
            self.rounds += 1;
            if self.is_starting() {
                more = false;
                self.tell(true);
                continue;
            }
            if self.publisher.is_holding() && self.has_all() && self.now() >= self.hold {
                self.publisher.sweep();
            }
            more = self.publisher.publish(kernel, frr.as_mut(), &mut reader);
            for (link, ip, mac) in self.publisher.take_strangers() {
                // One that Linux does not take it finds out when it is needed.
                let _ = self.socket.send(&request::add_neighbour(link, ip, mac, 0));
            }
            for link in self.publisher.take_fresh_links() {
                // As its twin: what the data plane leaves to Linux is forwarded there.
                let _ = self.socket.send(&request::forward(link));
                let _ = self.socket.send(&request::ask_netconf(link));
            }
            self.ask();
            let now = self.now();
            if let Some(reclaim) = &mut self.reclaim {
                reclaim.step(now);
            }
            self.tell(more);
        }
    }

    /// Waits for something to do; true at the end. Does not wait if there is `more` to do anyway.
    fn wait(&mut self, more: bool) -> bool {
        let now = self.now();
        let mut limit = self.recheck.wait(now).min(self.follower.wait(now).unwrap_or(CONFIRM));
        if self.zebra.as_ref().is_some_and(Zebra::is_starting) {
            limit = limit.min(Session::QUIET / 4);
        }
        if self.publisher.wanted().next().is_some() {
            limit = limit.min(ASK);
        }
        if self.is_apart || self.publisher.is_holding() {
            limit = limit.min(ROUND);
        }
        if self.is_starting() {
            limit = limit.min(self.start_limit().saturating_sub(now));
        }
        if let Some(wait) = self.cables.as_ref().and_then(Cables::wait) {
            limit = limit.min(wait);
        }
        let limit = if more { Duration::ZERO } else { limit + Duration::from_millis(1) };
        let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
        let mut fds = vec![self.wake.as_fd(), self.socket.as_fd(), self.recheck.as_fd()];
        fds.extend(self.cables.as_ref().map(AsFd::as_fd));
        fds.extend(self.zebra.iter().flat_map(Zebra::sockets));
        let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // Interrupted is as good as nothing there.
        let _ = poll(&mut fds, limit);
        if fds.first().and_then(PollFd::any).unwrap_or(false) {
            let _ = self.wake.read();
        }
        self.shared.stop.load(Ordering::Acquire)
    }

    /// True until everything that was there at the start has been read: none of it is published before.
    fn is_starting(&self) -> bool {
        !self.publisher.has_started() && !self.follower.is_synced() && self.now() < self.start_limit()
    }

    fn start_limit(&self) -> Duration {
        if self.publisher.is_holding() { START_AGAIN } else { START }
    }

    /// True if everything that the kernel and FRR have was read.
    fn has_all(&self) -> bool {
        self.follower.is_synced() && self.zebra.as_ref().is_none_or(Zebra::is_synced)
    }

    fn read_cables(&mut self) {
        let Some(cables) = &mut self.cables else { return };
        for (port, carrier) in cables.read() {
            self.publisher.set_cable(port, carrier);
            let Some(twin) = self.publisher.twin(port) else { continue };
            let change = LinkChange { carrier: Some(carrier), ..LinkChange::default() };
            // A kernel that cannot do it leaves Linux to find out by itself.
            let _ = self.socket.send(&request::set_link(twin, &change, 0));
        }
    }

    fn read_netlink(&mut self, model: &mut Model, inbox: &mut Inbox) {
        let begun = self.now();
        loop {
            let now = self.now();
            if now - begun >= READ_FOR {
                break;
            }
            if let Some(request) = self.follower.request(model, now)
                && self.socket.send(&request).is_err()
            {
                // As if the answer had been lost.
                self.follower.overrun();
            }
            // Those of a dump have hundreds of routes each: as many of them would take longer than `READ_FOR`.
            let most = if self.follower.is_synced() { Inbox::MOST } else { 1 };
            match self.socket.read_some(inbox, most) {
                Ok(Read::Bytes(_)) => {
                    for raw in inbox.datagrams().flat_map(Messages::new) {
                        match raw {
                            Ok(raw) => self.follower.take(&raw, model, now),
                            Err(_) => self.follower.counts.malformed += 1,
                        }
                    }
                }
                Ok(Read::Overrun) => self.follower.overrun(),
                Ok(Read::Nothing) | Err(_) => break,
            }
        }
    }

    /// Asks the kernel to look after the neighbours that only workers send to: it takes them for unused.
    fn confirm(&mut self, model: &Model) {
        let now = self.now();
        if now.saturating_sub(self.confirmed) < CONFIRM {
            return;
        }
        self.confirmed = now;
        let stale = model.neighbours.iter().filter(|((link, _), one)| {
            one.state == crate::netlink::Neighbour::STALE && self.publisher.is_port(*link)
        });
        for ((link, ip), _) in stale.take(CONFIRM_MOST) {
            // One that is not asked for now is in the next round.
            let _ = self.socket.send(&request::resolve(link, ip));
        }
    }

    /// Asks the kernel for neighbours that no packet would make it look for, because groups do without them.
    fn ask(&mut self) {
        let now = self.now();
        if now.saturating_sub(self.asked) < ASK {
            return;
        }
        self.asked = now;
        for (link, ip) in self.publisher.wanted().take(CONFIRM_MOST) {
            // One that is not asked for now is in the next round.
            let _ = self.socket.send(&request::resolve(link, ip));
        }
    }

    fn tell(&self, more: bool) {
        let synced = self.has_all();
        let is_whole = !more && (synced || self.is_apart && self.follower.is_synced());
        *lock(&self.shared.status) = Status {
            synced,
            kernel: self.follower.is_synced(),
            published: !more,
            netlink: self.follower.counts,
            fpm_messages: self.zebra.as_ref().and_then(Zebra::messages),
            publish: self.publisher.counts,
            holding: self.publisher.is_holding(),
            rounds: self.rounds,
        };
        if let Some(reclaim) = self.reclaim.as_ref().filter(|_| is_whole) {
            reclaim.log().set_ready();
        }
    }
}
