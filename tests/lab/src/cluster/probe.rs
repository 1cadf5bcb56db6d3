//! Numbered packets at an even pace from one host to another: what was lost, for how long, and what came out of order.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

use crate::netns::Namespace;
use crate::{Context, Error, Result};

/// How long the last packets may be on their way.
const LAST: Duration = Duration::from_secs(1);
/// The port that the first goes to.
const PORT: u16 = 9000;
/// So much of a pause that was too long a sender makes up for.
const MADE_UP: Duration = Duration::from_millis(1);
/// How often a receiver looks when there is nothing: to wake up for each packet would take a good part of a processor.
const LOOK: Duration = Duration::from_millis(2);
/// Octets that a receiver may hold while it does not run.
const BUFFER: usize = 16 << 20;

/// What a probe has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Packets sent.
    pub sent: u64,
    /// Different packets received.
    pub received: u64,
    /// Packets received again.
    pub again: u64,
    /// Packets received after one with a higher number.
    pub late: u64,
    /// The longest time for which everything sent was lost: between the sending of two packets that arrived.
    pub gap: Duration,
}

/// A running probe.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    /// When each packet was sent.
    sender: JoinHandle<Result<Vec<Instant>>>,
    /// The numbers that arrived, in the order of arrival.
    receiver: JoinHandle<Vec<u64>>,
}

impl Probe {
    /// Sends packets of `length` bytes of payload, so many a second. Probes between the same hosts have different
    /// numbers.
    pub fn start(
        from: &Namespace,
        to: &Namespace,
        address: &str,
        number: u16,
        length: usize,
        rate: u32,
    ) -> Result<Probe> {
        let port = PORT + number;
        let open =
            |address: String| UdpSocket::bind(&address).cannot(|| format!("open a socket at {address}"));
        let receiving = to.inside(|| open(format!("0.0.0.0:{port}")))?;
        receiving.set_nonblocking(true).cannot(|| "keep a socket from waiting".to_owned())?;
        setsockopt(&receiving, sockopt::RcvBufForce, &BUFFER).cannot(|| "enlarge a socket".to_owned())?;
        let sending = from.inside(|| open("0.0.0.0:0".to_owned()))?;
        sending.connect((address, port)).cannot(|| format!("connect to {address}"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ends, also_ends) = (stop.clone(), stop.clone());
        let pause = Duration::from_secs(1) / rate;
        let sender = thread::spawn(move || {
            stay(usize::from(number))?;
            // Pauses of 100 µs would take 150 with the default slack.
            nix::sys::prctl::set_timerslack(1_000).cannot(|| "sleep for as long as is asked".to_owned())?;
            send(&sending, length, pause, &ends)
        });
        let receiver = thread::spawn(move || receive(&receiving, &also_ends));
        Ok(Probe { stop, sender, receiver })
    }

    /// Ends probes, all at the same time, and counts.
    pub fn end(probes: Vec<Probe>) -> Result<Vec<Seen>> {
        probes.iter().for_each(|probe| probe.stop.store(true, Ordering::Relaxed));
        probes.into_iter().map(Probe::count).collect()
    }

    fn count(self) -> Result<Seen> {
        let sent = self.sender.join().map_err(|_| Error::new("a sender panicked"))??;
        let arrived = self.receiver.join().map_err(|_| Error::new("a receiver panicked"))?;
        Ok(judge(&sent, &arrived))
    }
}

/// Keeps the calling thread on one processor. Linux queues what crosses a veth where its sender runs: what a sender that
/// moves sends from two processors may get to the router out of order.
fn stay(number: usize) -> Result<()> {
    let (me, what) = (Pid::from_raw(0), || "stay on one processor".to_owned());
    let allowed = sched_getaffinity(me).cannot(what)?;
    let allowed: Vec<usize> =
        (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    let mut one = CpuSet::new();
    if let Some(cpu) = allowed.get(number % allowed.len().max(1)) {
        one.set(*cpu).cannot(what)?;
        sched_setaffinity(me, &one).cannot(what)?;
    }
    Ok(())
}

fn send(socket: &UdpSocket, length: usize, pause: Duration, stop: &AtomicBool) -> Result<Vec<Instant>> {
    let mut frame = vec![0; length];
    let mut sent = Vec::new();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if now < due {
            thread::sleep(due - now);
        }
        // After a pause that was much longer than asked for what is missing is not made up for.
        due = due.max(now.checked_sub(MADE_UP).unwrap_or(now)) + pause;
        frame[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
        sent.push(Instant::now());
        // What a refusal of ICMP refers to is over.
        let _ = socket.send(&frame);
    }
    Ok(sent)
}

fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Vec<u64> {
    let mut buffer = [0; 2048];
    let mut arrived = Vec::new();
    let mut stopped: Option<Instant> = None;
    while stopped.is_none_or(|since| since.elapsed() < LAST) {
        if stopped.is_none() && stop.load(Ordering::Relaxed) {
            stopped = Some(Instant::now());
        }
        match socket.recv(&mut buffer) {
            Ok(length) => {
                arrived.extend(buffer[..length].first_chunk().map(|number| u64::from_be_bytes(*number)));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
    arrived
}

fn judge(sent: &[Instant], arrived: &[u64]) -> Seen {
    let mut sorted: Vec<u64> = arrived.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut highest = None;
    let mut late = 0;
    for number in arrived {
        late += u64::from(highest.is_some_and(|highest| *number < highest));
        highest = highest.max(Some(*number));
    }
    let at = |number: &u64| usize::try_from(*number).ok().and_then(|number| sent.get(number).copied());
    let lost_between = |pair: &[u64]| match pair {
        [a, b] if b - a > 1 => at(b)?.checked_duration_since(at(a)?),
        _ => None,
    };
    let inner = sorted.windows(2).filter_map(lost_between).max().unwrap_or_default();
    let end = sent.last().zip(sorted.last().and_then(at)).map_or(Duration::MAX, |(last, seen)| *last - seen);
    let begin =
        sent.first().zip(sorted.first().and_then(at)).map_or(Duration::MAX, |(first, seen)| seen - *first);
    Seen {
        sent: sent.len() as u64,
        received: sorted.len() as u64,
        again: (arrived.len() - sorted.len()) as u64,
        late,
        gap: inner.max(end).max(begin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_counts_right() {
        let start = Instant::now();
        let sent: Vec<Instant> = (0..10).map(|i| start + Duration::from_millis(i)).collect();
        let seen = judge(&sent, &[0, 1, 3, 2, 2, 7, 8, 9]);
        let expected = Seen { sent: 10, received: 7, again: 1, late: 2, gap: Duration::from_millis(4) };
        assert_eq!(seen, expected);
        assert_eq!(judge(&sent, &[5]).gap, Duration::from_millis(5));
        assert_eq!(judge(&sent, &[]).gap, Duration::MAX);
    }
}
