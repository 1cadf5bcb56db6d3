//! A tap as a port: what is sent Linux receives on the interface, and the other way round.

use super::counts::{Queues, RX_LOSSES, RxCounts, TxCounts};
use super::errors::{Verdict, judge};
use super::interface::Interface;
use super::tap_device::{Facts, TapFile};
use crate::devices::OpenError;
use crate::port::{Claim, FRAME_EXTRA, Limits, Link, Port, PortStats, Received, RxQueue, Sent, TxQueue};
use crate::refusal::Refusals;
use packet::wire::ethernet::Mac;
use packet::{Batch, Packet, Pool};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most queues each way.
const QUEUES: u16 = 64;
/// Buffers that a receive queue gets at a time.
const BUFFERS: usize = 8;
/// A tap that had no frame is not asked again before this time has passed: asking costs a system call, and a busy worker
/// asks after each burst of its other ports.
const PAUSE: Duration = Duration::from_micros(10);

/// A tap.
#[derive(Debug)]
pub struct TapPort {
    name: String,
    pool: Pool,
    queues: Queues,
    /// One for each receive queue; transmit queues share them. None once it was given up.
    files: Mutex<Vec<TapFile>>,
    facts: Facts,
}

impl TapPort {
    /// What taps can do.
    pub const LIMITS: Limits = Limits { rx_queues: QUEUES, tx_queues: QUEUES };

    /// Makes the interface, in the network namespace of the calling thread, and sets it up. `name` is what the user calls
    /// the port. The interface goes when the port and all its queues have gone.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn open(name: &str, interface: &str, claim: Claim, pool: Pool) -> Result<TapPort, OpenError> {
        let failed = |e: Error| OpenError::new(format!("cannot open {name}: {}", what(&e)), help(&e));
        let limits = Limits { rx_queues: claim.rx_queues.max(1), tx_queues: claim.tx_queues.max(1) };
        let several = limits.rx_queues > 1;
        let files = (0..limits.rx_queues).map(|_| TapFile::open(interface, several));
        let files = files.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let there = Interface::find(interface).ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        if claim.mtu != 0 {
            there.set_mtu(claim.mtu.into()).map_err(failed)?;
        }
        there.set_up().map_err(failed)?;
        let (queues, facts) = (Queues::new(limits), Facts::default());
        Ok(TapPort { name: name.to_owned(), pool, queues, files: Mutex::new(files), facts })
    }

    /// Gives up the tap, which goes as soon as no queue of it is out.
    pub fn stop(&self) {
        self.files().clear();
    }

    fn files(&self) -> MutexGuard<'_, Vec<TapFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks any of its files, of which there is one until it is given up.
    fn ask<T>(&self, question: impl FnOnce(&TapFile) -> std::io::Result<T>) -> Option<T> {
        self.files().first().and_then(|file| question(file).ok())
    }
}

/// What has gone wrong, in words.
fn what(error: &Error) -> String {
    match error.raw_os_error() {
        Some(libc::EBUSY) => "the name is another program's tap or another interface's".to_owned(),
        Some(libc::EINVAL) => "there is an interface of this name that is no such tap".to_owned(),
        Some(libc::ENOENT) => "/dev/net/tun: the kernel has no taps here".to_owned(),
        Some(libc::EMFILE) => "too many open files".to_owned(),
        _ => error.to_string(),
    }
}

/// What to do about it.
fn help(error: &Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EINVAL) => "choose another name, or delete it: ip link del",
        Some(libc::EPERM | libc::EACCES) => "this needs root, or the capability CAP_NET_ADMIN",
        Some(libc::ENOENT) => "load the module tun",
        Some(libc::EMFILE) => "allow more: ulimit -n",
        _ => "",
    }
}

impl Port for TapPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn mac(&self) -> Option<Mac> {
        self.ask(TapFile::mac)
    }

    fn mtu(&self) -> u16 {
        u16::try_from(self.ask(|file| self.facts.mtu(file)).unwrap_or(1500)).unwrap_or(u16::MAX)
    }

    fn max_mtu(&self) -> u16 {
        u16::try_from(self.pool.data_room().saturating_sub(FRAME_EXTRA)).unwrap_or(u16::MAX)
    }

    fn link(&self) -> Link {
        let up = self.ask(|file| self.facts.running(file)).unwrap_or(false);
        Link { up, speed_mbps: None, full_duplex: true }
    }

    fn stats(&self) -> PortStats {
        self.queues.stats()
    }

    fn extended_stats(&self) -> Vec<(String, u64)> {
        self.queues.extended()
    }

    fn driver(&self) -> String {
        "tap".to_owned()
    }

    fn queues(&self) -> Limits {
        self.queues.limits()
    }

    fn take_rx(&self, queue: u16) -> Option<Box<dyn RxQueue>> {
        let (at, counts) = self.queues.take_rx(queue)?;
        let file = self.files().get(at)?.again().ok()?;
        let losses = RX_LOSSES.map(|why| (why, 0));
        let (pool, spare) = (self.pool.clone(), Batch::empty());
        Some(Box::new(TapRx { file, pool, spare, counts, losses, asked: None }))
    }

    fn take_tx(&self, queue: u16) -> Option<Box<dyn TxQueue>> {
        let (at, counts) = self.queues.take_tx(queue)?;
        let files = self.files();
        let file = files.get(at % files.len().max(1))?.again().ok()?;
        Some(Box::new(TapTx { file, counts }))
    }
}

/// The receiving half.
struct TapRx {
    file: TapFile,
    pool: Pool,
    /// Fresh buffers.
    spare: Batch,
    counts: Arc<RxCounts>,
    losses: [(&'static str, u64); 2],
    /// When there was last no frame.
    asked: Option<Instant>,
}

/// What became of an attempt to read.
enum Got {
    Frame(Packet),
    Oversized,
    Nothing,
}

impl TapRx {
    fn fresh(&mut self) -> Option<Packet> {
        if self.spare.is_empty() {
            self.spare = self.pool.alloc_batch(BUFFERS);
        }
        self.spare.pop()
    }

    fn read(&mut self) -> Got {
        let Some(mut packet) = self.fresh() else {
            // The frame stays in the kernel until there are buffers.
            self.counts.no_buffer();
            return Got::Nothing;
        };
        let room = packet.tailroom();
        packet.put(room);
        let mut beyond = [0; 8];
        match self.file.read(packet.data_mut(), &mut beyond) {
            Ok(length) if (1..=room).contains(&length) => {
                packet.truncate(length);
                packet.set_mac_offset(0);
                Got::Frame(packet)
            }
            read => {
                packet.truncate(0);
                self.spare.push(packet);
                if read.is_ok_and(|length| length > room) { Got::Oversized } else { Got::Nothing }
            }
        }
    }
}

impl RxQueue for TapRx {
    fn rx(&mut self, max: usize) -> Received {
        if self.asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return Received::default();
        }
        self.asked = None;
        let (mut batch, mut lost) = (Batch::empty(), 0);
        for _ in 0..max.min(Batch::MAX) {
            match self.read() {
                Got::Frame(packet) => batch.push(packet),
                Got::Oversized => {
                    self.counts.oversized();
                    self.losses[0].1 += 1;
                    lost += 1;
                }
                Got::Nothing => {
                    self.asked = Some(Instant::now());
                    break;
                }
            }
        }
        if !batch.is_empty() {
            self.counts.received(&batch);
        }
        Received { batch, lost }
    }

    fn losses(&self) -> &[(&'static str, u64)] {
        &self.losses
    }
}

impl Drop for TapRx {
    fn drop(&mut self) {
        std::mem::take(&mut self.spare).free();
    }
}

/// The sending half.
struct TapTx {
    file: TapFile,
    counts: Arc<TxCounts>,
}

impl TxQueue for TapTx {
    fn tx(&mut self, mut batch: Batch) -> Sent {
        let (mut taken, mut refused, mut bytes) = (0, 0, 0);
        let mut down = None;
        for packet in batch.iter() {
            let verdict = match down {
                Some(why) => Verdict::Refused(why),
                None => match write(&self.file, packet.data()) {
                    Ok(()) => {
                        bytes += packet.len() as u64;
                        taken += 1;
                        continue;
                    }
                    Err(verdict) => verdict,
                },
            };
            let Verdict::Refused(why) = verdict else { break };
            down = Some(why).filter(|why| why.concerns_all());
            self.counts.refused(why, 1);
            refused += 1;
            taken += 1;
        }
        let rest = batch.split_off(taken);
        batch.free();
        self.counts.sent((taken - refused) as u64, bytes);
        Sent { packets: taken, refused, rest }
    }

    fn refusals(&self) -> Refusals {
        self.counts.refusals()
    }
}

/// Gives Linux a frame, or says what becomes of it.
fn write(file: &TapFile, frame: &[u8]) -> Result<(), Verdict> {
    loop {
        match file.write(frame).map_err(|error| judge(&error)) {
            Err(Verdict::Again) => {}
            result => return result,
        }
    }
}
