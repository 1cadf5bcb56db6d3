//! Sending: what `ToDPDKDevice` and `ToDevice` have in common.

use super::facts::{port_handlers, stat_handler};
use super::rx::{LATER, attachable, count_of};
use epoch::{Count, PerWorker, WorkerCell};
use graph::{Class, ConfigErrors, Configure, Handlers, Initialize, LocalCx, Loss, Nanos, Out, Queues, Span};
use io::{Claim, Devices, Port, Refusal, Refusals, Sent, TxQueue};
use packet::Batch;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Why packets are lost at a sending element.
pub const LOSSES: &[&str] = &[
    "tx_full",
    "no_device",
    "tx_stuck",
    Refusal::ALL[0].name(),
    Refusal::ALL[1].name(),
    Refusal::ALL[2].name(),
    Refusal::ALL[3].name(),
    Refusal::ALL[4].name(),
    Refusal::ALL[5].name(),
];
/// The device does not take them, and as many as may wait are waiting.
pub const TX_FULL: Loss = Loss(0);
/// There is no device yet.
pub const NO_DEVICE: Loss = Loss(1);
/// The device took nothing for [`STUCK`], and this packet waited for it.
const TX_STUCK: Loss = Loss(2);
/// Refusals of the device follow, in their order.
const REFUSED: u16 = 3;
/// A device that takes nothing for so long does not come back to what waits for it.
const STUCK: Nanos = 100_000_000;
/// How often a blocking sender asks a full device before it gives up: well below a millisecond.
const BLOCKING_TRIES: u32 = 4096;

/// What a configuration asks for.
#[derive(Clone, Debug, Default)]
pub struct TxWish {
    /// The device, and where it is named.
    pub device: (String, Span),
    /// The first queue to use.
    pub first_queue: u16,
    /// How many queues to use, and where that is written; `None` = one per worker, as far as the device has them.
    pub queues: Option<(u16, Span)>,
    /// What to ask of the device, queues not included.
    pub claim: Claim,
    /// The device may be [`LATER`].
    pub may_be_later: bool,
}

/// A device to which packets are sent.
pub struct TxPort {
    device: (String, Span),
    first_queue: u16,
    /// Queues that were claimed.
    queues: u16,
    /// The workers that have a queue, by queue.
    owners: OnceLock<Vec<usize>>,
    counts: PerWorker<Count>,
    dropped: PerWorker<Count>,
    /// What the device had sent when its bytes were last reset.
    bytes_base: AtomicU64,
    port: OnceLock<Arc<dyn Port>>,
    /// Queues not yet handed out to workers, by worker.
    waiting: Mutex<Vec<(usize, Box<dyn TxQueue>)>>,
    /// Those that may be attached later.
    later: Option<Arc<dyn Devices>>,
}

/// Claims a device, and says how many of its queues are used.
fn queues(wish: &TxWish, cx: &Configure<'_>) -> Result<u16, ConfigErrors> {
    let (device, span) = (wish.device.0.as_str(), wish.device.1);
    let limits = cx.devices.limits(device).map_err(|e| ConfigErrors::open(span, e))?;
    let left = limits.tx_queues.saturating_sub(wish.first_queue);
    let workers = u16::try_from(cx.places).unwrap_or(u16::MAX).max(1);
    let queues = wish.queues.map_or(workers.min(left), |(n, _)| n);
    if queues == 0 || queues > left {
        let span = wish.queues.map_or(span, |(_, s)| s);
        let has = count_of(limits.tx_queues, "transmit");
        return Err(ConfigErrors::new(span, format!("device '{device}' has {has}")));
    }
    // More queues than workers are of no use: a queue has one owner.
    let used = queues.min(workers);
    let claim = Claim { tx_queues: wish.first_queue + used, ..wish.claim };
    cx.devices.claim(device, claim).map_err(|e| ConfigErrors::open(span, e))?;
    Ok(used)
}

impl TxPort {
    /// Claims what is asked for.
    ///
    /// # Errors
    /// If there is no such device or it has too few queues.
    pub fn claim(wish: TxWish, cx: &Configure<'_>) -> Result<Arc<TxPort>, ConfigErrors> {
        let is_later = wish.may_be_later && wish.device.0 == LATER;
        let queues = if is_later { 1 } else { queues(&wish, cx)? };
        Ok(Arc::new(TxPort {
            device: wish.device,
            first_queue: wish.first_queue,
            queues,
            owners: OnceLock::new(),
            counts: PerWorker::new(cx.workers),
            dropped: PerWorker::new(cx.workers),
            bytes_base: AtomicU64::new(0),
            port: OnceLock::new(),
            waiting: Mutex::default(),
            later: is_later.then(|| cx.devices.clone()),
        }))
    }

    /// Takes the queues of the started device.
    ///
    /// # Errors
    /// If one is taken already.
    pub fn open(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (device, span) = (self.device.0.as_str(), self.device.1);
        // Opened once.
        let _ = self.owners.set(cx.queue_workers().to_vec());
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
        let claim = Claim { tx_queues: self.first_queue.saturating_add(1), ..Claim::default() };
        let port = devices.attach(device, claim).map_err(|e| e.message)?;
        self.take(port)
    }

    /// Takes its queues.
    fn take(&self, port: Arc<dyn Port>) -> Result<(), String> {
        let device = port.name().to_owned();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (queue, worker) in (self.first_queue..).zip(self.owners.get().into_iter().flatten()) {
            let Some(tx) = port.take_tx(queue) else {
                return Err(format!(
                    "transmit queue {queue} of '{device}' is used by another element: let all paths to it lead \
                     to one element, or give each a QUEUE"
                ));
            };
            waiting.push((*worker, tx));
        }
        // The lock is held, and who comes second finds no queue.
        let _ = self.port.set(port);
        Ok(())
    }

    /// One worker's queue, if it has one.
    pub fn sender(self: &Arc<Self>, cx: &LocalCx) -> Option<Sender> {
        self.sender_of(cx.worker)
    }

    /// The same while the router runs, for a device that was attached meanwhile.
    #[cold]
    pub fn attached(self: &Arc<Self>, worker: usize) -> Option<Sender> {
        self.later.as_ref().and_then(|_| self.sender_of(worker))
    }

    fn sender_of(self: &Arc<Self>, of: usize) -> Option<Sender> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let i = waiting.iter().position(|(worker, _)| *worker == of)?;
        let (worker, queue) = waiting.swap_remove(i);
        let count = self.counts.cell(worker).unwrap_or_default();
        let (held, seen) = (VecDeque::new(), Refusals::default());
        Some(Sender { shared: self.clone(), worker, queue, count, held, len: 0, seen, stuck_since: None })
    }

    /// For [`Class::queues`].
    pub fn queues(&self) -> Queues {
        Queues::Send(self.queues.into())
    }

    fn device_bytes(&self) -> u64 {
        self.port.get().map_or(0, |p| p.stats().tx_bytes)
    }

    /// Bytes that the device says it has sent since the counts were reset.
    fn bytes(&self) -> u64 {
        self.device_bytes().saturating_sub(self.bytes_base.load(Relaxed))
    }

    fn reset_counts(&self) {
        self.counts.rebase();
        self.dropped.rebase();
        self.bytes_base.store(self.device_bytes(), Relaxed);
    }

    /// The device, once it is open.
    pub fn port(&self) -> Option<&Arc<dyn Port>> {
        self.port.get()
    }
}

/// The handlers of a sending element.
pub fn tx_handlers<C: Class + AsRef<TxPort>>(h: &mut Handlers<C>) {
    let port: fn(&C) -> Option<&Arc<dyn Port>> = |c| c.as_ref().port();
    for name in ["count", "n_sent"] {
        h.read(name, |c| c.as_ref().counts.sum(Count::get).to_string());
    }
    for name in ["byte_count", "n_sent_bytes"] {
        h.read(name, |c| c.as_ref().bytes().to_string());
    }
    for name in ["dropped", "n_dropped"] {
        h.read(name, |c| c.as_ref().dropped.sum(Count::get).to_string());
    }
    h.write("reset_counts", |c, _, _| {
        c.as_ref().reset_counts();
        Ok(())
    });
    stat_handler(h, "hw_count", port, |s| s.tx_packets);
    stat_handler(h, "hw_bytes", port, |s| s.tx_bytes);
    stat_handler(h, "hw_errors", port, |s| s.tx_errors);
    port_handlers(h, port);
}

/// One worker's transmit queue, and the packets that wait for it; what each sending uses comes first.
#[repr(C)]
pub struct Sender {
    queue: Box<dyn TxQueue>,
    len: usize,
    count: WorkerCell<Count>,
    held: VecDeque<Batch>,
    worker: usize,
    shared: Arc<TxPort>,
    /// Refusals that were counted so far.
    seen: Refusals,
    /// Since when the device has taken nothing of what waits.
    stuck_since: Option<Nanos>,
}

impl Sender {
    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Lets packets wait behind those that do.
    pub fn add(&mut self, mut batch: Batch) {
        self.len += batch.len();
        if let Some(last) = self.held.back_mut() {
            last.append(&mut batch);
        }
        if !batch.is_empty() {
            self.held.push_back(batch);
        }
    }

    /// Sends what waits, as far as the device takes it; returns how much that was. `blocking`: asks a full device many
    /// times before giving up. What waits for a device that takes nothing for a long time is dropped.
    pub fn send(&mut self, blocking: bool, now: Nanos, out: &mut Out<'_>) -> usize {
        let gone = self.try_to_send(blocking, out);
        if gone > 0 || self.len == 0 {
            self.stuck_since = None;
            return gone;
        }
        let since = *self.stuck_since.get_or_insert(now);
        if now.saturating_sub(since) < STUCK {
            return 0;
        }
        self.stuck_since = None;
        self.give_up(out)
    }

    fn try_to_send(&mut self, blocking: bool, out: &mut Out<'_>) -> usize {
        let (mut all, mut refused, mut tries) = (0, 0, 0);
        while let Some(batch) = self.held.pop_front() {
            let Sent { packets, refused: more, rest } = self.queue.tx(batch);
            all += packets;
            refused += more;
            if !rest.is_empty() {
                self.held.push_front(rest);
                tries += u32::from(packets == 0);
                if packets == 0 && (!blocking || tries >= BLOCKING_TRIES) {
                    break;
                }
                std::hint::spin_loop();
            }
        }
        self.len -= all;
        self.count(all, refused, out);
        all
    }

    /// Drops the first packet, and the others as well if the device takes none of them either.
    #[cold]
    fn give_up(&mut self, out: &mut Out<'_>) -> usize {
        let Some(mut first) = self.held.pop_front() else { return 0 };
        let rest = first.split_off(1);
        if !rest.is_empty() {
            self.held.push_front(rest);
        }
        self.drop_as(TX_STUCK, first, out);
        let mut gone = 1 + self.try_to_send(false, out);
        if gone == 1 {
            for batch in std::mem::take(&mut self.held) {
                gone += batch.len();
                self.drop_as(TX_STUCK, batch, out);
            }
        }
        gone
    }

    fn drop_as(&mut self, why: Loss, batch: Batch, out: &mut Out<'_>) {
        self.len -= batch.len();
        self.shared.dropped[self.worker].add(batch.len() as u64);
        out.lose_all(batch, why);
    }

    /// Sends these packets, to be called only if none waits; returns what the device did not take.
    #[inline]
    pub fn send_now(&mut self, batch: Batch, out: &mut Out<'_>) -> Batch {
        let Sent { packets, refused, rest } = self.queue.tx(batch);
        self.count(packets, refused, out);
        rest
    }

    /// Counts packets that are gone, of which so many were refused.
    #[inline]
    fn count(&mut self, packets: usize, refused: usize, out: &mut Out<'_>) {
        if packets > refused {
            out.gone(packets - refused);
            self.count.add((packets - refused) as u64);
        }
        if refused > 0 {
            self.count_refused(out);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_refused(&mut self, out: &mut Out<'_>) {
        let all = self.queue.refusals();
        for ((i, (_, total)), (_, seen)) in (REFUSED..).zip(all.iter()).zip(self.seen.iter()) {
            let new = total.saturating_sub(seen);
            if new > 0 {
                self.shared.dropped[self.worker].add(new);
                out.count_loss(Loss(i), usize::try_from(new).unwrap_or(usize::MAX));
            }
        }
        self.seen = all;
    }

    /// Loses what waits beyond `limit` packets, newest first.
    pub fn cut(&mut self, limit: usize, out: &mut Out<'_>) {
        while self.len > limit
            && let Some(mut last) = self.held.pop_back()
        {
            let kept = last.len().saturating_sub(self.len - limit);
            let lost = last.split_off(kept);
            self.drop_as(TX_FULL, lost, out);
            if !last.is_empty() {
                self.held.push_back(last);
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Held when the router ends: neither sent nor lost.
        self.held.drain(..).for_each(Batch::free_held);
    }
}
