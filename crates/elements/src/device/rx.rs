//! Receiving: what `FromDPDKDevice` and `FromDevice` have in common.
//!
//! The plan says which worker has which queue. If there are fewer queues than workers that the packets are for, those that
//! have one spread what they receive over all of these.

use super::facts::{port_handlers, stat_handler};
use super::force_ip::mark_ip;
use super::steer::Steer;
use epoch::{Count, PerWorker, WorkerCell};
use graph::{
    Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Loss, Out, Queues, Span, Up,
    value,
};
use io::pcap::LinkType;
use io::{Claim, Devices, Port, Received, RssFields, RxQueue};
use packet::wire::ethernet::{self, Mac};
use packet::{Batch, PacketType};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Why packets are lost on receive; the first ones are the names that queues use.
pub const LOSSES: &[&str] = &["oversized", "no_buffer", "rx_error"];
/// The same with `FORCE_IP`.
pub const LOSSES_IP: &[&str] = &["oversized", "no_buffer", "rx_error", "not_ip"];
const RX_ERROR: usize = 2;
const NOT_IP: Loss = Loss(3);

/// In place of a device: there is none yet, and the handler `attach` will name it.
pub const LATER: &str = "-";

/// What a configuration asks for.
#[derive(Clone, Debug, Default)]
pub struct RxWish {
    /// The device, and where it is named.
    pub device: (String, Span),
    /// The first queue to read.
    pub first_queue: u16,
    /// How many queues to read, and where that is written; `None` = one per worker, as far as the device has them.
    pub queues: Option<(u16, Span)>,
    /// What to ask of the device, queues not included.
    pub claim: Claim,
    /// Packets at a time.
    pub burst: usize,
    /// False = wait until told to begin.
    pub active: bool,
    /// Deliver IP packets only, with the IP header marked.
    pub force_ip: bool,
    /// The device may be [`LATER`].
    pub may_be_later: bool,
}

/// Who reads what.
#[derive(Debug, Default)]
struct Places {
    /// The worker of each queue.
    queues: Vec<usize>,
    /// The workers that the packets are for.
    share: Vec<usize>,
}

/// A device from which packets are received.
pub struct RxPort {
    wish: RxWish,
    queues: u16,
    places: OnceLock<Places>,
    active: AtomicBool,
    counts: PerWorker<Count>,
    /// What the device had received when its bytes were last reset.
    bytes_base: AtomicU64,
    port: OnceLock<Arc<dyn Port>>,
    /// Queues not yet handed out to workers, by worker.
    waiting: Mutex<Vec<(usize, Box<dyn RxQueue>)>>,
    /// Queues from which something may still come.
    open: AtomicUsize,
    /// Those that may be attached later.
    later: Option<Arc<dyn Devices>>,
}

/// Counts in words: `1 receive queue`, `2 receive queues`.
pub fn count_of(n: u16, what: &str) -> String {
    format!("{n} {what} queue{}", if n == 1 { "" } else { "s" })
}

/// Claims a device, and says how many of its queues are read.
fn queues(wish: &RxWish, cx: &Configure<'_>) -> Result<u16, ConfigErrors> {
    let (device, span) = (wish.device.0.as_str(), wish.device.1);
    let limits = cx.devices.limits(device).map_err(|e| ConfigErrors::open(span, e))?;
    let left = limits.rx_queues.saturating_sub(wish.first_queue);
    let workers = u16::try_from(cx.places).unwrap_or(u16::MAX).max(1);
    // Without RSS everything comes by one queue, and the worker that reads it spreads it.
    let useful = if wish.claim.rss.fields == Some(RssFields::NONE) { 1 } else { workers };
    let queues = wish.queues.map_or(useful.min(left), |(n, _)| n);
    if queues == 0 || queues > left {
        let span = wish.queues.map_or(span, |(_, s)| s);
        let has = count_of(limits.rx_queues, "receive");
        return Err(ConfigErrors::new(span, format!("device '{device}' has {has}")));
    }
    let claim = Claim { rx_queues: wish.first_queue + queues, ..wish.claim };
    cx.devices.claim(device, claim).map_err(|e| ConfigErrors::open(span, e))?;
    Ok(queues)
}

impl RxPort {
    /// Claims what is asked for.
    ///
    /// # Errors
    /// If there is no such device or it has too few queues.
    pub fn claim(wish: RxWish, cx: &Configure<'_>) -> Result<Arc<RxPort>, ConfigErrors> {
        let is_later = wish.may_be_later && wish.device.0 == LATER;
        if is_later {
            cx.devices.expect();
        }
        let queues = if is_later { 1 } else { queues(&wish, cx)? };
        Ok(Arc::new(RxPort {
            active: AtomicBool::new(wish.active),
            wish,
            queues,
            places: OnceLock::new(),
            counts: PerWorker::new(cx.workers),
            bytes_base: AtomicU64::new(0),
            port: OnceLock::new(),
            waiting: Mutex::default(),
            open: AtomicUsize::new(usize::from(queues)),
            later: is_later.then(|| cx.devices.clone()),
        }))
    }

    /// Takes the queues of the started device.
    ///
    /// # Errors
    /// If one is taken already.
    pub fn open(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (device, span) = (self.wish.device.0.as_str(), self.wish.device.1);
        // Opened once.
        let _ = self.places.set(Places { queues: cx.queue_workers().to_vec(), share: cx.share() });
        if self.later.is_some() {
            return Ok(());
        }
        let port = cx.devices.port(device).map_err(|e| ConfigErrors::open(span, e))?;
        self.take(port).map_err(|text| ConfigErrors::new(span, text))
    }

    /// Names the device of an element that has none yet, and starts it.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn attach(&self, device: &str) -> Result<(), String> {
        let Some(devices) = &self.later else {
            return Err("only an element whose device is - can get one while the router runs".to_owned());
        };
        attachable(self.port.get(), device)?;
        let claim = Claim { rx_queues: 1, ..self.wish.claim };
        let port = devices.attach(device, claim).map_err(|e| e.message)?;
        self.take(port)
    }

    /// Takes its queues.
    fn take(&self, port: Arc<dyn Port>) -> Result<(), String> {
        let device = port.name().to_owned();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let workers = self.places.get().map_or(&[][..], |p| &p.queues);
        for (queue, worker) in (self.wish.first_queue..).zip(workers) {
            let Some(rx) = port.take_rx(queue) else {
                return Err(format!("receive queue {queue} of '{device}' is read by another element"));
            };
            waiting.push((*worker, rx));
        }
        // The lock is held, and who comes second finds no queue.
        let _ = self.port.set(port);
        Ok(())
    }

    /// For [`Class::queues`].
    pub fn queues(&self) -> Queues {
        Queues::Receive(self.queues.into())
    }

    /// The workers that the packets are for.
    fn share(&self) -> &[usize] {
        self.places.get().map_or(&[], |p| &p.share)
    }

    /// The part of one worker.
    pub fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalRx {
        let mut local = LocalRx {
            burst: self.wish.burst,
            plain: !(cx.annotations || self.wish.force_ip),
            count: self.counts.cell(cx.worker).unwrap_or_default(),
            mac: None,
            queues: Vec::new(),
            steer: None,
            annotations: cx.annotations,
            shared: self.clone(),
        };
        local.take_queues(cx.worker);
        local
    }

    /// The device, once it is open.
    pub fn port(&self) -> Option<&Arc<dyn Port>> {
        self.port.get()
    }

    fn device_bytes(&self) -> u64 {
        self.port.get().map_or(0, |p| p.stats().rx_bytes)
    }

    /// Bytes that the device says it has received since the counts were reset.
    fn bytes(&self) -> u64 {
        self.device_bytes().saturating_sub(self.bytes_base.load(Relaxed))
    }

    fn reset_counts(&self) {
        self.counts.rebase();
        self.bytes_base.store(self.device_bytes(), Relaxed);
    }

    /// True while something may still come.
    pub fn is_open(&self) -> bool {
        self.open.load(Relaxed) > 0
    }
}

/// The handlers of a receiving element.
pub fn rx_handlers<C: Class + AsRef<RxPort>>(h: &mut Handlers<C>) {
    let port: fn(&C) -> Option<&Arc<dyn Port>> = |c| c.as_ref().port();
    h.read("count", |c| c.as_ref().counts.sum(Count::get).to_string());
    h.read("byte_count", |c| c.as_ref().bytes().to_string());
    h.write("reset_counts", |c, _, _| {
        c.as_ref().reset_counts();
        Ok(())
    });
    h.read("active", |c| c.as_ref().active.load(Relaxed).to_string());
    h.write("active", |c, text, cx| {
        c.as_ref().active.store(value(text)?, Relaxed);
        cx.wake();
        Ok(())
    });
    h.read("nb_workers", |c| c.as_ref().share().len().to_string());
    stat_handler(h, "hw_count", port, |s| s.rx_packets);
    stat_handler(h, "hw_bytes", port, |s| s.rx_bytes);
    stat_handler(h, "hw_dropped", port, |s| s.rx_missed + s.rx_no_buffer);
    stat_handler(h, "hw_errors", port, |s| s.rx_errors);
    port_handlers(h, port);
}

struct Queue {
    rx: Box<dyn RxQueue>,
    /// Losses that have been reported so far, by the queue's own numbering.
    seen: Vec<u64>,
}

/// One worker's part of a receiving element; what each poll uses lies together.
#[repr(C, align(64))]
pub struct LocalRx {
    queues: Vec<Queue>,
    burst: usize,
    count: WorkerCell<Count>,
    /// What is received is passed on as it is.
    plain: bool,
    annotations: bool,
    shared: Arc<RxPort>,
    steer: Option<Steer>,
    mac: Option<Mac>,
}

/// Whether an element without a device may get this one: not if it has another.
pub fn attachable(has: Option<&Arc<dyn Port>>, device: &str) -> Result<(), String> {
    match has {
        Some(port) => Err(format!("{} is attached already", port.name())),
        None if device.is_empty() || device == LATER => Err("the name of a device is wanted".to_owned()),
        None => Ok(()),
    }
}

impl LocalRx {
    /// Takes the queues that are meant for this worker, if there are any.
    #[cold]
    fn take_queues(&mut self, worker: usize) {
        let shared = &self.shared;
        let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = waiting.extract_if(.., |(of, _)| *of == worker);
        self.queues.extend(mine.map(|(_, rx)| Queue { rx, seen: Vec::new() }));
        if !self.queues.is_empty() && usize::from(shared.queues) < shared.share().len() {
            self.steer = Some(Steer::new(shared.share()));
            self.plain = false;
        }
        self.mac = shared.port.get().and_then(|port| port.mac());
    }

    /// Counts packets that were received.
    #[inline]
    fn count(&self, packets: usize, out: &mut Out<'_>) {
        out.made(packets);
        self.count.add(packets as u64);
    }

    /// Passes on what a queue has brought. True if there was something, and then there is to be another run.
    #[inline(never)]
    fn take_in(&mut self, queue: usize, got: Received, cx: &Cx<'_>, out: &mut Out<'_>) -> bool {
        let Received { batch, lost } = got;
        if lost > 0
            && let Some(queue) = self.queues.get_mut(queue)
        {
            queue.count_losses(out);
        }
        if batch.is_empty() {
            return false;
        }
        self.count(batch.len(), out);
        if self.plain {
            out.emit(0, batch);
        } else {
            self.prepare_and_emit(batch, cx, out);
        }
        out.wake();
        true
    }

    /// One burst from each of several queues, or from the one that has had nothing just now: it may be finished. True if
    /// there was something.
    #[inline(never)]
    fn poll_all(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) -> bool {
        if self.queues.is_empty() && self.shared.later.is_some() {
            self.take_queues(cx.worker);
        }
        let several = self.queues.len() > 1;
        let mut useful = false;
        let mut i = 0;
        while i < self.queues.len() {
            let got = if several { self.queues[i].rx.rx(self.burst) } else { Received::default() };
            if self.take_in(i, got, cx, out) {
                useful = true;
            } else if self.close_if_finished(i) {
                continue;
            }
            i += 1;
        }
        if !self.queues.is_empty() {
            out.wake();
        }
        useful
    }

    /// Not inlined: it needs more stack than all the rest.
    #[inline(never)]
    fn prepare_and_emit(&mut self, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if self.annotations {
            self.annotate(&mut batch, cx);
        }
        if self.shared.wish.force_ip {
            batch.retain(|p| mark_ip(p, LinkType::Ethernet), |p| out.lose(p, NOT_IP));
        }
        match &mut self.steer {
            Some(steer) => steer.spread(batch, out),
            None => out.emit(0, batch),
        }
    }

    /// Gives up a queue from which nothing will come any more.
    fn close_if_finished(&mut self, queue: usize) -> bool {
        let finished = self.queues.get(queue).is_some_and(|q| q.rx.finished());
        if finished {
            self.queues.remove(queue);
            self.shared.open.fetch_sub(1, Relaxed);
        }
        finished
    }

    fn annotate(&self, batch: &mut Batch, cx: &Cx<'_>) {
        for packet in batch.iter_mut() {
            packet.clear_annos();
            packet.set_timestamp(cx.now);
            let destination = packet.data().first_chunk::<6>();
            let kind = destination.map_or(PacketType::Host, |to| packet_type(to, self.mac.as_ref()));
            packet.set_packet_type(kind);
        }
    }
}

impl Queue {
    #[cold]
    fn count_losses(&mut self, out: &mut Out<'_>) {
        for (i, (name, total)) in self.rx.losses().iter().enumerate() {
            if self.seen.len() <= i {
                self.seen.push(0);
            }
            let new = total.saturating_sub(self.seen[i]);
            if new > 0 {
                self.seen[i] = *total;
                let reason = LOSSES[..RX_ERROR].iter().position(|l| l == name).unwrap_or(RX_ERROR);
                let n = usize::try_from(new).unwrap_or(usize::MAX);
                out.made(n);
                out.count_loss(Loss(u16::try_from(reason).unwrap_or(0)), n);
            }
        }
    }
}

/// How a frame to this address is addressed, seen from a port with address `own`.
fn packet_type(to: &Mac, own: Option<&Mac>) -> PacketType {
    if *to == ethernet::BROADCAST {
        PacketType::Broadcast
    } else if ethernet::is_group(to) {
        PacketType::Multicast
    } else if own.is_none_or(|own| own == to) {
        PacketType::Host
    } else {
        PacketType::OtherHost
    }
}

impl Element for LocalRx {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if !self.queues.is_empty() {
            out.wake();
        }
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.shared.active.load(Relaxed) {
            return false;
        }
        let [only] = &mut *self.queues else { return self.poll_all(cx, out) };
        let Received { batch, lost } = only.rx.rx(self.burst);
        if batch.is_empty() || lost > 0 || !self.plain {
            return self.take_in(0, Received { batch, lost }, cx, out) || self.poll_all(cx, out);
        }
        let received = batch.len();
        out.emit(0, batch);
        self.count(received, out);
        out.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_types() {
        let own = [2, 0, 0, 0, 0, 1];
        for (to, want) in [
            ([0xff; 6], PacketType::Broadcast),
            ([1, 0, 0x5e, 0, 0, 1], PacketType::Multicast),
            (own, PacketType::Host),
            ([2, 0, 0, 0, 0, 2], PacketType::OtherHost),
        ] {
            assert_eq!(packet_type(&to, Some(&own)), want);
        }
        assert_eq!(packet_type(&own, None), PacketType::Host);
    }
}
