//! A paced stream of numbered datagrams: what of it is lost, and for how long.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, sockopt};

use crate::netns::Namespace;
use crate::{Context, Error, Result};

/// Datagrams a second.
pub const RATE: u32 = 10_000;
/// The port that they go to.
pub const PORT: u16 = 7777;
/// How long after the last datagram one may still arrive.
const LINGER: Duration = Duration::from_millis(300);
/// Octets that a socket may hold.
const BUFFER: usize = 16 << 20;

/// A stream under way. It is spread over the destinations in turn.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    flows: usize,
    sender: JoinHandle<Result<u32>>,
    receivers: Vec<Receiver>,
}

/// A thread that collects numbers until told to stop.
#[derive(Debug)]
struct Receiver {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<u32>>>,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Datagrams sent.
    pub sent: usize,
    /// Datagrams that did not arrive.
    pub lost: usize,
    /// The longest time for which nothing of a flow arrived that was sent to it.
    pub gap: Duration,
}

impl Probe {
    /// Begins to send from `from` to these destinations, each a flow; whoever of `receivers` has an address receives.
    pub fn start(from: &Namespace, to: &[IpAddr], receivers: &[&Namespace]) -> Result<Probe> {
        let receive = |namespace: &&Namespace| {
            let sockets = namespace.inside(|| {
                ["0.0.0.0", "::"].iter().map(|any| socket(any, PORT)).collect::<Result<Vec<UdpSocket>>>()
            })?;
            Ok(sockets.into_iter().map(|socket| {
                let stop = Arc::new(AtomicBool::new(false));
                let flag = stop.clone();
                Receiver { stop, thread: thread::spawn(move || listen(&socket, &flag)) }
            }))
        };
        let receivers: Vec<_> = receivers.iter().map(receive).collect::<Result<_>>()?;
        let sockets = from.inside(|| {
            let connect = |ip: &IpAddr| {
                let socket = socket(if ip.is_ipv4() { "0.0.0.0" } else { "::" }, 0)?;
                socket.connect(SocketAddr::new(*ip, PORT)).cannot(|| format!("send to {ip}"))?;
                Ok(socket)
            };
            to.iter().map(connect).collect::<Result<Vec<_>>>()
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let (flag, flows) = (stop.clone(), sockets.len().max(1));
        let sender = thread::spawn(move || send(&sockets, &flag));
        Ok(Probe { stop, flows, sender, receivers: receivers.into_iter().flatten().collect() })
    }

    /// Ends it, and says what became of it.
    pub fn stop(self) -> Result<Seen> {
        let panicked = || Error::new("a thread of the probe panicked");
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.sender.join().map_err(|_| panicked())??;
        thread::sleep(LINGER);
        let mut arrived = vec![false; sent as usize];
        for Receiver { stop, thread } in self.receivers {
            stop.store(true, Ordering::Relaxed);
            for number in thread.join().map_err(|_| panicked())?? {
                if let Some(place) = arrived.get_mut(number as usize) {
                    *place = true;
                }
            }
        }
        Ok(judge(&arrived, self.flows))
    }
}

/// Datagram n is of flow n modulo their number.
fn judge(arrived: &[bool], flows: usize) -> Seen {
    let runs = (0..flows).flat_map(|flow| {
        let mut run = 0;
        arrived.iter().skip(flow).step_by(flows).map(move |there| {
            run = if *there { 0 } else { run + 1 };
            run
        })
    });
    let longest: u32 = runs.max().unwrap_or(0);
    let each = Duration::from_secs(1) * u32::try_from(flows).unwrap_or(u32::MAX) / RATE;
    Seen { sent: arrived.len(), lost: arrived.iter().filter(|there| !**there).count(), gap: each * longest }
}

/// A socket at all addresses of the family of `any`: each family has one of its own on the same port.
fn socket(any: &str, port: u16) -> Result<UdpSocket> {
    let ip: IpAddr = any.parse().cannot(|| format!("read {any}"))?;
    let family = if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
    let socket = made.cannot(|| "make a socket".to_owned())?;
    if ip.is_ipv6() {
        setsockopt(&socket, sockopt::Ipv6V6Only, &true).cannot(|| "make a socket for IPv6".to_owned())?;
    }
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).cannot(|| "enlarge a socket".to_owned())?;
    let address = SockaddrStorage::from(SocketAddr::new(ip, port));
    bind(socket.as_raw_fd(), &address).cannot(|| format!("bind port {port}"))?;
    Ok(UdpSocket::from(socket))
}

/// Sends until told to stop; returns how many datagrams.
fn send(sockets: &[UdpSocket], stop: &AtomicBool) -> Result<u32> {
    let begun = Instant::now();
    let mut number: u32 = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = begun.elapsed().as_micros() * u128::from(RATE) / 1_000_000;
        while u128::from(number) < due {
            let Some(socket) = sockets.get(number as usize % sockets.len().max(1)) else { break };
            // Refused or unreachable: it counts as lost.
            let _ = socket.send(&number.to_be_bytes());
            number = number.checked_add(1).ok_or_else(|| Error::new("the probe went on for days"))?;
        }
        thread::sleep(Duration::from_micros(200));
    }
    Ok(number)
}

/// Receives until told to stop; returns the numbers.
fn listen(socket: &UdpSocket, stop: &AtomicBool) -> Result<Vec<u32>> {
    socket.set_read_timeout(Some(LINGER / 3)).cannot(|| "set a time limit".to_owned())?;
    let (mut numbers, mut buffer) = (Vec::new(), [0; 64]);
    while !stop.load(Ordering::Relaxed) {
        // A time limit, or an ICMP error.
        let Ok(length) = socket.recv(&mut buffer) else { continue };
        if let Some(bytes) = buffer.get(..length).and_then(<[u8]>::first_chunk) {
            numbers.push(u32::from_be_bytes(*bytes));
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_of_flows() {
        let ms = Duration::from_millis;
        // Two flows, 200 µs apart each; the second loses three in a row, the first one.
        let arrived = [true, true, true, false, false, false, true, false, true, true];
        assert_eq!(judge(&arrived, 2), Seen { sent: 10, lost: 4, gap: ms(6) / 10 });
        assert_eq!(judge(&[true; 4], 2), Seen { sent: 4, lost: 0, gap: ms(0) });
        assert_eq!(judge(&[], 1), Seen { sent: 0, lost: 0, gap: ms(0) });
    }
}
