//! The threads of the control node that serve the others: one that listens, one for each connection.

use super::adopt::{Adoption, Told};
use super::channel::{Channel, ChannelError};
use super::client::{ALIVE, SILENCE, StartError};
use super::feed::Feed;
use super::log::{Log, Waker};
use super::message::{Hello, Message, VERSION};
use super::nodes::NodeStatus;
use super::tls::{Identity, is_named};
use super::wire::ProtocolError;
use crate::priority;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use rustls::{ServerConfig, ServerConnection};
use serde::Serialize;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections at once, whoever they are from.
const MOST_CONNECTIONS: usize = 1024;
/// A connection ends that takes nothing of what it is sent for so long.
const STALLED: Duration = Duration::from_secs(10);

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The control node's certificate and key.
    pub identity: Identity,
    /// The names of the nodes that may follow.
    pub nodes: Vec<String>,
    /// So long it waits at the start for the nodes to tell which numbers next hops have, if its own tables are still
    /// empty; shorter if all have told. Zero: it does not ask.
    pub adopt: Duration,
}

/// What there is to see from outside.
#[derive(Clone, Debug, Serialize)]
pub struct ServerStatus {
    /// The position of the newest change.
    pub position: u64,
    /// Changes that a node can still catch up with.
    pub kept_changes: usize,
    /// Bytes that these take.
    pub kept_bytes: usize,
    /// Connections that were refused: whose certificate was none, who said nothing sensible, or may not follow.
    pub refused: usize,
    /// Why the last one was.
    pub last_refusal: Option<String>,
    /// The nodes that have ever followed.
    pub nodes: Vec<NodeStatus>,
}

/// What all threads share.
struct Shared {
    log: Arc<Log>,
    tls: Arc<ServerConfig>,
    nodes: Mutex<Vec<String>>,
    adoption: Adoption,
    waker: Arc<Waker>,
    stop: AtomicBool,
    refused: AtomicUsize,
    last_refusal: Mutex<Option<String>>,
    /// The latest term of which a node has said that it follows its control node.
    superseded: AtomicU64,
}

impl Shared {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn refuse(&self, why: String) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_refusal) = Some(why);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A waker of its own.
pub fn waker() -> io::Result<Arc<Waker>> {
    Ok(Arc::new(Waker::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?)))
}

/// The running threads; dropping it ends them.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens in the current network namespace. To be started before whoever publishes into the tables of `log`; nodes
    /// wait until that has [said](Log::set_ready) that the tables are whole.
    ///
    /// # Errors
    /// If the certificates are none, or socket or threads cannot be had.
    pub fn start(settings: &ServerSettings, log: Arc<Log>) -> Result<Server, StartError> {
        let listener = TcpListener::bind(settings.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            log,
            tls: settings.identity.server()?,
            nodes: Mutex::new(settings.nodes.clone()),
            adoption: Adoption::default(),
            waker: waker()?,
            stop: AtomicBool::new(false),
            refused: AtomicUsize::new(0),
            last_refusal: Mutex::default(),
            superseded: AtomicU64::new(0),
        });
        if !settings.adopt.is_zero() {
            shared.adoption.open();
        }
        let its = shared.clone();
        let thread =
            thread::Builder::new().name("replicas".to_owned()).spawn(move || listen(&listener, &its))?;
        if !settings.adopt.is_zero() {
            shared.adoption.close(settings.nodes.len(), settings.adopt, shared.log.tables());
        }
        Ok(Server { shared, address, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it serves from.
    pub fn log(&self) -> &Arc<Log> {
        &self.shared.log
    }

    /// Which nodes may follow from now on. Connections of others end when they next say that they live.
    pub fn set_nodes(&self, nodes: &[String]) {
        *lock(&self.shared.nodes) = nodes.to_vec();
        self.shared.log.nodes.retain(|name| nodes.iter().any(|node| node == name));
    }

    /// The latest term of which a node has said that it follows the control node elected for it; 0 if none has.
    pub fn superseded(&self) -> u64 {
        self.shared.superseded.load(Ordering::Acquire)
    }

    /// What the threads have done.
    pub fn status(&self) -> ServerStatus {
        let ring = self.shared.log.ring();
        let (position, (kept_changes, kept_bytes)) = (ring.position(), ring.size());
        ServerStatus {
            position,
            kept_changes,
            kept_bytes,
            refused: self.shared.refused.load(Ordering::Relaxed),
            last_refusal: lock(&self.shared.last_refusal).clone(),
            nodes: self.shared.log.nodes.status(position),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while !shared.stops() {
        let mut fds = [
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(shared.waker.fd().as_fd(), PollFlags::POLLIN),
        ];
        // Interrupted is as good as nothing there.
        let _ = poll(&mut fds, PollTimeout::NONE);
        threads.retain(|thread| !thread.is_finished());
        let Ok((tcp, peer)) = listener.accept() else { continue };
        if threads.len() >= MOST_CONNECTIONS {
            shared.refuse(format!("{peer}: there are {MOST_CONNECTIONS} connections already"));
            continue;
        }
        let its = shared.clone();
        match thread::Builder::new().name("replica".to_owned()).spawn(move || serve(tcp, peer, &its)) {
            Ok(thread) => threads.push(thread),
            Err(error) => shared.refuse(format!("{peer}: {error}")),
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

/// One connection from its beginning to its end.
fn serve(tcp: TcpStream, peer: SocketAddr, shared: &Shared) {
    let begin = || -> Result<_, ChannelError> {
        let tls = ServerConnection::new(shared.tls.clone())?;
        let mut channel = Channel::new(tcp, tls.into())?;
        let waker = waker()?;
        let greeting = greet(&mut channel, &waker, shared)?;
        Ok((channel, waker, greeting))
    };
    let (mut channel, waker, greeting) = match begin() {
        Ok(begun) => begun,
        Err(error) => return shared.refuse(format!("{peer}: {error}")),
    };
    // Not for whoever has not shown a certificate.
    priority::raise();
    let name = greeting.name.clone();
    let mut connection = Connection { shared, name: &name, session: 0, waker };
    let ended = connection.run(&mut channel, &greeting);
    shared.log.nodes.disconnect(&name, connection.session, shared.log.now());
    if let Err(error @ (ChannelError::Protocol(_) | ChannelError::Refused(_))) = ended {
        channel.out().extend(Message::Refused(&error.to_string()).encode());
        let _ = channel.turn(|_, _, _| Ok(()));
        shared.refuse(format!("{name}: {error}"));
    }
    channel.close();
}

/// A node's first word.
struct Greeting {
    name: String,
    oldest: u8,
    newest: u8,
    life: u64,
    position: u64,
}

impl Greeting {
    fn hello(&self) -> Hello<'_> {
        let Greeting { name, oldest, newest, life, position } = self;
        Hello { oldest: *oldest, newest: *newest, life: *life, position: *position, name }
    }
}

/// Waits for the node to show its certificate and to say its name, which must agree.
fn greet(channel: &mut Channel, waker: &Waker, shared: &Shared) -> Result<Greeting, ChannelError> {
    let begun = Instant::now();
    let mut greeting = None;
    while greeting.is_none() {
        if shared.stops() {
            return Err(ChannelError::Closed);
        }
        if begun.elapsed() >= SILENCE {
            return Err(ChannelError::Late("no hello", SILENCE));
        }
        let moved = channel.turn(|kind, body, _| match Message::decode(kind, body)? {
            Message::Hello(hello) if greeting.is_none() => {
                let Hello { oldest, newest, life, position, name } = hello;
                greeting = Some(Greeting { name: name.to_owned(), oldest, newest, life, position });
                Ok(())
            }
            _ => Err(ProtocolError::Turn("a message").into()),
        })?;
        if !moved && greeting.is_none() {
            channel.wait(waker, SILENCE / 20);
        }
    }
    let greeting = greeting.ok_or(ChannelError::Closed)?;
    let certified = channel.tls().peer_certificates().and_then(<[_]>::first);
    let why = if !certified.is_some_and(|certificate| is_named(certificate, &greeting.name)) {
        format!("the certificate is not that of node `{}`", greeting.name)
    } else if !lock(&shared.nodes).contains(&greeting.name) {
        format!("there is no node `{}` in this cluster", greeting.name)
    } else {
        return Ok(greeting);
    };
    channel.out().extend(Message::Refused(&why).encode());
    let _ = channel.turn(|_, _, _| Ok(()));
    Err(ChannelError::Refused(why))
}

/// A node that may follow.
struct Connection<'a> {
    shared: &'a Shared,
    name: &'a str,
    /// See [`Nodes::connect`](super::nodes::Nodes::connect); 0 before.
    session: u64,
    waker: Arc<Waker>,
}

impl Connection<'_> {
    fn run(&mut self, channel: &mut Channel, greeting: &Greeting) -> Result<(), ChannelError> {
        let log = &self.shared.log;
        log.ring().wake(&self.waker);
        self.prepare(channel, greeting)?;
        if log.term() != 0 {
            channel.out().extend(Message::Term(log.term()).encode());
        }
        let (mut feed, resumes) = Feed::new(log, &greeting.hello(), channel.out())?;
        self.session = log.nodes.connect(self.name, resumes);
        let (mut heard, mut moved_at, mut said) = (Instant::now(), Instant::now(), Instant::now());
        let mut snapshots = 0;
        while !self.shared.stops() {
            self.waker.rest();
            if channel.is_idle() {
                feed.next(channel.out());
                if feed.snapshots > snapshots {
                    snapshots = feed.snapshots;
                    log.nodes.snapshot(self.name, self.session);
                }
            }
            let (mut came, mut current) = (false, true);
            let moved = channel.turn(|kind, body, _| {
                came = true;
                match Message::decode(kind, body)? {
                    Message::Ack(position) if position <= log.ring().position() => {
                        current &= log.nodes.acknowledge(self.name, self.session, position);
                        Ok(())
                    }
                    Message::Term(term) => {
                        self.shared.superseded.fetch_max(term, Ordering::AcqRel);
                        Ok(())
                    }
                    Message::Unknown => Ok(()),
                    _ => Err(ProtocolError::Turn("a message").into()),
                }
            })?;
            let now = Instant::now();
            if !current {
                return Err(ChannelError::Refused(
                    "this node has a newer connection, or was taken out".to_owned(),
                ));
            }
            if moved || channel.is_idle() {
                moved_at = now;
            }
            if came {
                heard = now;
            }
            // While it works on what it was sent it may be silent for longer.
            if now - moved_at >= STALLED {
                return Err(ChannelError::Late("nothing was taken", STALLED));
            } else if channel.is_idle() && now - heard >= 2 * SILENCE {
                return Err(ChannelError::Late("nothing was heard", 2 * SILENCE));
            }
            if channel.is_idle() && now - said >= ALIVE {
                said = now;
                channel.out().extend(Message::Alive(log.ring().position()).encode());
            } else if !(moved || channel.is_idle() && feed.has_more()) {
                channel.wait(&self.waker, ALIVE / 4);
            }
        }
        Ok(())
    }

    /// Asks the node for its numbers while that is wanted, and has it wait until the tables are whole.
    fn prepare(&self, channel: &mut Channel, greeting: &Greeting) -> Result<(), ChannelError> {
        let (adoption, log) = (&self.shared.adoption, &self.shared.log);
        let mut told = None;
        if adoption.is_open() {
            channel.out().extend(Message::Tell(VERSION).encode());
            told = Some(Told::new(greeting.life, greeting.position));
        }
        let (mut moved_at, mut said) = (Instant::now(), Instant::now());
        while !self.shared.stops() && (adoption.is_open() || told.is_some() || !log.is_ready()) {
            self.waker.rest();
            let moved = channel.turn(|kind, body, _| match (Message::decode(kind, body)?, &mut told) {
                (Message::Changes(body), Some(told)) => Ok(told.take(body)?),
                (Message::Told, Some(_)) => {
                    adoption.add(self.name, told.take().unwrap_or_default());
                    Ok(())
                }
                (Message::Term(term), _) => {
                    self.shared.superseded.fetch_max(term, Ordering::AcqRel);
                    Ok(())
                }
                (Message::Unknown, _) => Ok(()),
                _ => Err(ProtocolError::Turn("a message").into()),
            })?;
            let now = Instant::now();
            if moved || told.is_none() {
                moved_at = now;
            }
            if now - moved_at >= SILENCE {
                return Err(ChannelError::Late("no next hops", SILENCE));
            }
            if now - said >= ALIVE {
                said = now;
                channel.out().extend(Message::Alive(0).encode());
            } else if !moved {
                let pause = if adoption.is_open() { Duration::from_millis(5) } else { ALIVE / 4 };
                channel.wait(&self.waker, pause);
            }
        }
        Ok(())
    }
}
