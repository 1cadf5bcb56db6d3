//! The thread of a node that follows the control node, in place of one that listens to Linux.

use super::channel::{Channel, ChannelError};
use super::log::Waker;
use super::message::Message;
use super::replica::{Answer, Counts, Replica};
use super::tls::{Identity, IdentityError, server_name};
use crate::priority;
use crate::publish::Tables;
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use serde::Serialize;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A connection is given up that does not come about, or on which nothing was heard, for so long.
pub const SILENCE: Duration = Duration::from_secs(5);
/// How often a sign of life is sent.
pub const ALIVE: Duration = Duration::from_secs(1);
/// So long it waits before it tries again, at first, and twice as long each time …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How to follow.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where the control node is; tried in turn if there are several.
    pub control: Vec<SocketAddr>,
    /// The name in the control node's certificate.
    pub control_name: String,
    /// This node's name, as in its own certificate.
    pub name: String,
    /// This node's certificate and key.
    pub identity: Identity,
    /// The term that the control node was elected for; 0: any.
    pub term: u64,
}

/// Why it cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What there is to see from outside.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ClientStatus {
    /// There is a connection, and the control node has accepted it.
    pub connected: bool,
    /// The tables have had everything on this connection; without one they are as they were.
    pub synced: bool,
    /// Up to this position the tables have everything.
    pub position: u64,
    /// How many changes they are behind.
    pub behind: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// What was made.
    pub counts: Counts,
    /// Why the last connection ended or did not come about.
    pub error: Option<String>,
}

struct Shared {
    status: Mutex<ClientStatus>,
    stop: AtomicBool,
    waker: Waker,
    /// The term of the control node that is wanted.
    term: AtomicU64,
    /// The term of the one that is followed next.
    next: AtomicU64,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, ClientStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// The running thread; dropping it ends the thread, and leaves the tables as they are.
pub struct Client {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Starts to follow, from the current network namespace. Nobody else may change `tables`.
    ///
    /// # Errors
    /// If the certificates are none, or the thread cannot be had. A control node that cannot be reached is none: it is
    /// tried again and again.
    pub fn start(settings: &ClientSettings, tables: Tables) -> Result<Client, StartError> {
        let fd =
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(io::Error::from)?;
        let shared = Arc::new(Shared {
            status: Mutex::default(),
            stop: AtomicBool::new(false),
            waker: Waker::new(fd),
            term: AtomicU64::new(settings.term),
            next: AtomicU64::new(0),
        });
        let follower = Follower {
            config: settings.identity.client()?,
            control_name: server_name(&settings.control_name)?,
            name: settings.name.clone(),
            control: settings.control.clone(),
            replica: Replica::new(tables),
            shared: shared.clone(),
        };
        server_name(&settings.name)?;
        let thread = thread::Builder::new().name("replica".to_owned()).spawn(move || follower.run())?;
        Ok(Client { shared, thread: Some(thread) })
    }

    /// From the next connection on, the control node must be elected for this term. One that has been elected again keeps
    /// its connections.
    pub fn set_term(&self, term: u64) {
        self.shared.term.store(term, Ordering::Release);
    }

    /// When it is dropped it tells the control node, if that is there, that another one was elected for this term.
    pub fn leave_for(&self, term: u64) {
        self.shared.next.store(term, Ordering::Release);
    }

    /// What the thread has done.
    pub fn status(&self) -> ClientStatus {
        self.shared.status().clone()
    }

    /// Waits until the tables have had everything; false if that takes longer than `limit`.
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.shared.status().synced {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread owns.
struct Follower {
    config: Arc<ClientConfig>,
    control_name: ServerName<'static>,
    name: String,
    control: Vec<SocketAddr>,
    replica: Replica,
    shared: Arc<Shared>,
}

impl Follower {
    fn run(mut self) {
        priority::raise();
        let mut pause = FIRST_PAUSE;
        for address in self.control.clone().into_iter().cycle() {
            if self.shared.stops() {
                return;
            }
            let before = self.shared.status().connections;
            let ended = self.follow(address);
            let mut status = self.shared.status();
            (status.connected, status.synced) = (false, false);
            status.error = ended.err().map(|error| format!("{address}: {error}"));
            pause = if status.connections > before { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            drop(status);
            self.rest(pause);
        }
    }

    /// Waits, or until the end.
    fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.shared.stops() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10).min(pause));
        }
    }

    /// One connection, until it ends.
    fn follow(&mut self, address: SocketAddr) -> Result<(), ChannelError> {
        let tcp = TcpStream::connect_timeout(&address, SILENCE.min(Duration::from_secs(1)))?;
        let tls = ClientConnection::new(self.config.clone(), self.control_name.clone())?;
        let mut channel = Channel::new(tcp, tls.into())?;
        self.replica.want_term(self.shared.term.load(Ordering::Acquire));
        channel.out().extend(self.replica.hello(&self.name));
        let (mut heard, mut said) = (Instant::now(), Instant::now());
        let mut acknowledged = 0;
        while !self.shared.stops() {
            let (replica, mut came) = (&mut self.replica, false);
            let moved = channel.turn(|kind, body, out| {
                came = true;
                match replica.take(kind, body)? {
                    Answer::None => {}
                    Answer::Send(bytes) => out.extend(bytes),
                    Answer::Refused(why) => return Err(ChannelError::Refused(why)),
                }
                Ok(())
            })?;
            let now = Instant::now();
            if came {
                heard = now;
                self.tell();
            } else if now - heard >= SILENCE {
                return Err(ChannelError::Late("nothing was heard", SILENCE));
            }
            let position = self.replica.position();
            if self.replica.is_welcome()
                && channel.is_idle()
                && (position > acknowledged || now - said >= ALIVE)
            {
                channel.out().extend(Message::Ack(position).encode());
                (acknowledged, said) = (position, now);
                continue;
            }
            if !moved {
                channel.wait(&self.shared.waker, ALIVE / 4);
            }
        }
        let next = self.shared.next.load(Ordering::Acquire);
        if next != 0 {
            channel.out().extend(Message::Term(next).encode());
            // If that does not go it has to find out by itself.
            let _ = channel.turn(|_, _, _| Ok(()));
        }
        channel.close();
        Ok(())
    }

    fn tell(&self) {
        let mut status = self.shared.status();
        if self.replica.is_welcome() && !status.connected {
            status.connected = true;
            status.connections += 1;
            status.error = None;
        }
        status.synced = self.replica.is_synced();
        status.position = self.replica.position();
        status.behind = self.replica.newest() - self.replica.position();
        status.counts = self.replica.counts;
    }
}
