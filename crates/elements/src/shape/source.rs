//! Making packets at a rate: what `RatedSource` and `FastUDPSource` have in common.

use super::bucket::{Bucket, Capacity};
use crate::quota::{Quota, active_handler, count_handlers, limit_handler};
use graph::{Class, Cx, Element, Handlers, LocalCx, Loss, Nanos, Out, Up, value};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const NO_BUFFER: Loss = Loss(0);

/// Changes the packet to be sent before packet number `.0`; returns up to which number it then stays.
type Vary = Box<dyn Fn(u64, &mut Vec<u8>) -> u64 + Send + Sync>;

/// A source as it is configured.
pub struct Source {
    data: Vec<u8>,
    vary: Option<Vary>,
    /// Packets a second; 0 with `unlimited` = as fast as possible.
    rate: AtomicU64,
    unlimited: bool,
    quota: Quota,
    stop: bool,
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Source({} bytes, {}/s)", self.data.len(), self.rate.load(Relaxed))
    }
}

impl Source {
    /// A source of copies of `data`.
    pub fn new(data: Vec<u8>, rate: u64, limit: i64, active: bool, stop: bool, burst: usize) -> Source {
        Source {
            data,
            vary: None,
            rate: AtomicU64::new(rate),
            unlimited: false,
            quota: Quota::new(limit, burst, active),
            stop,
        }
    }

    /// The same, but rate 0 means "as fast as possible".
    pub fn unlimited_at_zero(mut self) -> Source {
        self.unlimited = true;
        self
    }

    /// The same with a packet that changes.
    pub fn varying(mut self, vary: Vary) -> Source {
        self.vary = Some(vary);
        self
    }
}

/// The handlers `count`, `reset`, `rate`, `limit`, `active`.
pub fn source_handlers<C: Class + AsRef<Source>>(h: &mut Handlers<C>) {
    count_handlers(h, |c| &c.as_ref().quota);
    h.read("rate", |c| c.as_ref().rate.load(Relaxed).to_string());
    h.write("rate", |c, text, cx| {
        c.as_ref().rate.store(value(text)?, Relaxed);
        cx.wake();
        Ok(())
    });
    limit_handler(h, |c| &c.as_ref().quota);
    active_handler(h, |c| &c.as_ref().quota);
}

/// One worker's part of a source.
#[derive(Debug)]
pub struct LocalSource {
    shared: Arc<Source>,
    pushes: bool,
    bucket: Option<Bucket>,
    data: Vec<u8>,
    /// The first packet for which `data` must be changed.
    changes_at: u64,
}

impl LocalSource {
    /// One worker's part.
    pub fn new(shared: &Arc<Source>, cx: &LocalCx) -> LocalSource {
        LocalSource {
            shared: shared.clone(),
            pushes: cx.push_outputs == [true],
            bucket: None,
            data: shared.data.clone(),
            changes_at: 0,
        }
    }

    /// True if something is to be sent, now or later.
    fn is_on(&self) -> bool {
        self.shared.quota.is_active() && self.shared.quota.left() > 0
    }

    /// Up to `max` packets; or from when on there may be one.
    fn make(&mut self, max: usize, cx: &Cx<'_>, out: &mut Out<'_>) -> Result<Batch, Nanos> {
        let s = &self.shared;
        let rate = s.rate.load(Relaxed);
        let mut wanted = max.min(s.quota.burst()).min(s.quota.left());
        if !(s.unlimited && rate == 0) {
            let bucket = self.bucket.get_or_insert_with(|| Bucket::new(rate, Capacity::Default, cx.now));
            if bucket.rate() != rate {
                bucket.set_rate(rate, Capacity::Default, cx.now);
            }
            let tokens = bucket.available(cx.now);
            if tokens == 0 {
                return Err(bucket.next());
            }
            wanted = wanted.min(usize::try_from(tokens).unwrap_or(usize::MAX));
        }
        if let Some(vary) = &s.vary {
            let count = s.quota.count();
            if count >= self.changes_at || count == 0 {
                self.changes_at = vary(count, &mut self.data);
            }
            wanted = wanted.min(usize::try_from(self.changes_at.saturating_sub(count)).unwrap_or(usize::MAX));
        }
        let mut batch = cx.pool.alloc_batch(wanted);
        let got = batch.len();
        batch.retain(|p| p.append(&self.data), |p| p.free());
        if batch.len() < wanted {
            // Either the pool is empty for now, or the packet is larger than a buffer.
            let missing = wanted - batch.len();
            out.count_loss(NO_BUFFER, missing);
            out.made(missing);
        }
        debug_assert!(got <= wanted);
        out.made(batch.len());
        if let Some(bucket) = &mut self.bucket {
            bucket.take(wanted as u64);
        }
        s.quota.add(batch.len());
        if s.quota.left() == 0 && s.stop {
            out.stop_driver();
        }
        Ok(batch)
    }
}

impl Element for LocalSource {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pushes {
            out.wake();
        }
    }

    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        if !self.is_on() {
            return Batch::empty();
        }
        self.make(max, cx, out).unwrap_or_else(|time| {
            out.retry_at(time);
            Batch::empty()
        })
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pushes || !self.is_on() {
            return false;
        }
        let room = out.room();
        if room == 0 {
            return false;
        }
        match self.make(room, cx, out) {
            Ok(batch) => {
                let useful = !batch.is_empty();
                out.emit(0, batch);
                out.wake();
                useful
            }
            Err(time) => {
                if time != Nanos::MAX {
                    out.wake_at(time);
                }
                false
            }
        }
    }
}
