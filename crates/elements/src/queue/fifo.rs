//! `Queue`: stores packets, first in, first out; drops what comes when it is full.
//!
//! Tasks that pull from it sleep while it is empty; sources that push into it sleep while it is full.
//!
//! # Arguments
//! - `CAPACITY`: packets that it holds. Default 1000.
//!
//! # Ports
//! One push input; output 0 is pull. Packets that find it full leave by push output 1 if that is connected.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `length` | r | packets in it now |
//! | `highwater_length` | r | the most packets it ever held |
//! | `capacity` | rw | see `CAPACITY`; what is above a lower capacity is dropped, newest first |
//! | `drops` | r | packets that found it full |
//! | `reset_counts` | w | `drops` and `highwater_length` start anew |
//! | `reset` | w | drops all packets in it |
//!
//! # Losses
//! - `full`: the queue was full.
//! - `reset`: dropped by the handler `reset` or a lowered `capacity`.
//!
//! # Workers
//! Its packets are pulled on one worker. Packets pushed on that worker go straight into the queue; every other worker
//! pushes into a ring of its own that the pulling worker empties. All together hold at most `CAPACITY` packets.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> Null -> q :: Queue(4) -> Idle;
//! // q.length = 4
//! // q.capacity = 4
//! // q.drops = 0
//! ```

use super::store::Store;
use epoch::{Count, PerWorker};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Loss, Notifier, Out,
    Spec, State, Up, value,
};
use packet::{Batch, Packet};
use rtrb::{Consumer, Producer, RingBuffer};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const FULL: Loss = Loss(0);
const RESET: Loss = Loss(1);
/// The largest capacity: what a pool could ever fill.
const MAX_CAPACITY: usize = 1 << 24;

/// See the module.
#[derive(Debug)]
pub struct Queue {
    notifier: Arc<Notifier>,
    drops: PerWorker<Count>,
    highwater: AtomicUsize,
    reset: AtomicBool,
    workers: usize,
    roads: Mutex<Roads>,
}

/// Ring ends not handed out yet, by pushing worker.
#[derive(Debug, Default)]
struct Roads {
    producers: Vec<Option<Producer<Packet>>>,
    consumers: Vec<Consumer<Packet>>,
}

/// One worker's part of [`Queue`].
#[derive(Debug)]
pub struct LocalQueue {
    shared: Arc<Queue>,
    /// That of `shared`, one step nearer: every call needs it.
    notifier: Arc<Notifier>,
    worker: usize,
    /// On the pulling worker: the packets, and the rings of the others.
    store: Store,
    rings: Vec<Consumer<Packet>>,
    /// On every other worker: the way to the pulling worker.
    road: Option<Producer<Packet>>,
}

impl Class for Queue {
    const SPEC: Spec =
        Spec { losses: &["full", "reset"], state: State::Shared, ..Spec::new("Queue", "1/1-2", "h/lh") };
    type Local = LocalQueue;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Queue, ConfigErrors> {
        let capacity = args.optional("CAPACITY", 1000);
        if capacity > MAX_CAPACITY {
            args.error("CAPACITY", format!("out of range, bound {MAX_CAPACITY}"));
        }
        args.finish()?;
        let notifier = Notifier::with_full(capacity);
        Ok(Queue {
            notifier: Arc::new(if cx.workers == 1 { notifier.of_one_worker() } else { notifier }),
            drops: PerWorker::new(cx.workers),
            highwater: AtomicUsize::new(0),
            reset: AtomicBool::new(false),
            workers: cx.workers,
            roads: Mutex::default(),
        })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let home = cx.home().unwrap_or(0);
        let mut roads = self.roads();
        for worker in 0..self.workers {
            let road = (worker != home).then(|| RingBuffer::new(self.notifier.capacity().max(1)));
            let (producer, consumer) = road.unzip();
            roads.producers.push(producer);
            roads.consumers.extend(consumer);
        }
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalQueue {
        let mut roads = self.roads();
        let road = roads.producers.get_mut(cx.worker).and_then(Option::take);
        let rings = if road.is_none() { std::mem::take(&mut roads.consumers) } else { Vec::new() };
        drop(roads);
        let notifier = self.notifier.clone();
        LocalQueue { shared: self.clone(), notifier, worker: cx.worker, store: Store::default(), rings, road }
    }

    fn handlers(h: &mut Handlers<Queue>) {
        h.read("length", |q| q.notifier.len().min(q.notifier.capacity()).to_string());
        h.read("highwater_length", |q| q.highwater.load(Relaxed).to_string());
        h.read("capacity", |q| q.notifier.capacity().to_string());
        h.write("capacity", |q, text, cx| {
            let capacity: usize = value(text)?;
            if capacity > MAX_CAPACITY {
                return Err(format!("out of range, bound {MAX_CAPACITY}"));
            }
            q.notifier.set_capacity(capacity);
            cx.wake();
            cx.notify_pushers(&q.notifier);
            Ok(())
        });
        h.read("drops", |q| q.drops.sum(Count::get).to_string());
        h.write("reset_counts", |q, _, _| {
            q.drops.rebase();
            q.highwater.store(q.notifier.len(), Relaxed);
            Ok(())
        });
        h.write("reset", |q, _, cx| {
            q.reset.store(true, Relaxed);
            cx.wake();
            Ok(())
        });
    }

    fn notifier(&self) -> Option<&Arc<Notifier>> {
        Some(&self.notifier)
    }
}

impl Queue {
    fn roads(&self) -> MutexGuard<'_, Roads> {
        self.roads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LocalQueue {
    /// Stores packets that have a place; gives back those for which the ring has none.
    fn store(&mut self, batch: Batch) -> Batch {
        let Some(road) = &mut self.road else {
            self.store.push(batch);
            return Batch::empty();
        };
        let mut refused = Batch::empty();
        for packet in batch {
            if let Err(rtrb::PushError::Full(packet)) = road.push(packet) {
                refused.push(packet);
            }
        }
        refused
    }

    fn collect(&mut self) {
        for ring in &mut self.rings {
            loop {
                let batch: Batch = std::iter::from_fn(|| ring.pop().ok()).take(Batch::MAX).collect();
                if batch.is_empty() {
                    break;
                }
                self.store.push(batch);
            }
        }
    }

    fn drop_newest(&mut self, keep: usize, out: &mut Out<'_>) {
        self.collect();
        let mut dropped = 0;
        while self.store.len() > keep {
            let newest = self.store.pop_newest(self.store.len() - keep);
            dropped += newest.len();
            out.lose_all(newest, RESET);
        }
        if dropped > 0 && self.notifier.release(dropped) {
            out.notify_pushers(&self.notifier);
        }
    }
}

impl Element for LocalQueue {
    fn push(&mut self, _: usize, mut batch: Batch, _: &Cx<'_>, out: &mut Out<'_>) {
        let (got, was_empty) = self.notifier.reserve(batch.len());
        let mut refused = batch.split_off(got);
        let mut unplaced = self.store(batch);
        let notifier = &self.notifier;
        if !unplaced.is_empty() {
            notifier.release(unplaced.len());
            refused.append(&mut unplaced);
        }
        let len = notifier.len();
        if len > self.shared.highwater.load(Relaxed) {
            self.shared.highwater.fetch_max(len, Relaxed);
        }
        if was_empty {
            out.notify_pullers(notifier);
        }
        if !refused.is_empty() {
            self.shared.drops[self.worker].add(refused.len() as u64);
            refused.into_iter().for_each(|p| out.reject(1, p, FULL));
        }
    }

    fn pull(&mut self, _: usize, max: usize, _: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        if !self.rings.is_empty() {
            self.collect();
        }
        let batch = self.store.pop(max);
        if !batch.is_empty() && self.notifier.release(batch.len()) {
            out.notify_pushers(&self.notifier);
        }
        batch
    }

    fn run(&mut self, _: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if self.road.is_some() {
            return false;
        }
        let keep = if self.shared.reset.swap(false, Relaxed) { 0 } else { self.notifier.capacity() };
        self.drop_newest(keep, out);
        true
    }
}

impl Drop for LocalQueue {
    fn drop(&mut self) {
        // Packets that are held when the router ends: neither sent nor lost.
        self.collect();
        std::mem::take(&mut self.store).free_held();
    }
}
