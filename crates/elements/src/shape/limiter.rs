//! Pulling no faster than a rate: what `RatedUnqueue`, `Shaper` and their kin have in common.

use super::bucket::{Bucket, Capacity};
use crate::quota::{Quota, active_handler, count_handlers};
use graph::{Args, Class, Cx, Element, Handlers, Nanos, Out, Up, value};
use lang::args::{Bandwidth, FromArg};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets a second.
    Packets,
    /// Bytes a second.
    Bytes,
}

/// A limit as it is configured.
#[derive(Debug)]
pub struct Limit {
    unit: Unit,
    rate: AtomicU64,
    capacity: Capacity,
    quota: Quota,
}

/// Reads `BURST_DURATION` and `BURST_SIZE` (`BURST_BYTES`).
pub fn capacity(args: &mut Args) -> Capacity {
    let time: Option<Duration> = args.keyword_if_given("BURST_DURATION");
    let size: Option<u64> = args.keyword_if_given("BURST_SIZE");
    let bytes: Option<u64> = args.keyword_if_given("BURST_BYTES");
    if time.is_some() && size.or(bytes).is_some() {
        args.error("BURST_DURATION", "give a duration or a size, not both");
    }
    match (time, size.or(bytes)) {
        (Some(time), _) => Capacity::Time(Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)),
        (None, Some(n)) => Capacity::Tokens(n),
        (None, None) => Capacity::Default,
    }
}

/// A rate in packets or bytes a second, as a user writes it.
fn rate_argument(unit: Unit, args: &mut Args) -> u64 {
    match unit {
        Unit::Packets => args.required("RATE"),
        Unit::Bytes => args.required::<Bandwidth>("RATE").0,
    }
}

impl Limit {
    /// Reads `RATE`, `BURST_DURATION`, `BURST_SIZE`, `BURST` and `ACTIVE`.
    pub fn configure(unit: Unit, args: &mut Args, burst: usize) -> Arc<Limit> {
        let rate = rate_argument(unit, args);
        let capacity = capacity(args);
        let burst: usize = args.keyword("BURST", burst);
        let active = args.keyword("ACTIVE", true);
        Arc::new(Limit { unit, rate: AtomicU64::new(rate), capacity, quota: Quota::new(-1, burst, active) })
    }
}

/// The handlers `rate`, `count`, `reset`, `active`.
pub fn limit_handlers<C: Class + AsRef<Limit>>(h: &mut Handlers<C>) {
    h.read("rate", |c| c.as_ref().rate.load(Relaxed).to_string());
    h.write("rate", |c, text, cx| {
        let limit = c.as_ref();
        let rate = match limit.unit {
            Unit::Packets => value(text)?,
            Unit::Bytes => read_bandwidth(text)?,
        };
        limit.rate.store(rate, Relaxed);
        cx.wake();
        Ok(())
    });
    count_handlers(h, |c| &c.as_ref().quota);
    active_handler(h, |c| &c.as_ref().quota);
}

fn read_bandwidth(text: &str) -> Result<u64, String> {
    let text = graph::Text::verbatim(text.trim(), graph::Span::default());
    Bandwidth::from_arg(&text).map(|b| b.0).map_err(|e| e.message)
}

/// One worker's bucket.
#[derive(Debug)]
pub struct Limiter {
    limit: Arc<Limit>,
    bucket: Option<Bucket>,
}

impl Limiter {
    /// A limiter whose bucket is full at its first use.
    pub fn new(limit: &Arc<Limit>) -> Limiter {
        Limiter { limit: limit.clone(), bucket: None }
    }

    /// Pulls as much as the limit allows, at most `max` packets; or says from when on it allows something.
    fn pull(&mut self, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Result<Batch, Nanos> {
        let limit = &self.limit;
        let rate = limit.rate.load(Relaxed);
        let bucket = self.bucket.get_or_insert_with(|| Bucket::new(rate, limit.capacity, cx.now));
        if bucket.rate() != rate {
            bucket.set_rate(rate, limit.capacity, cx.now);
        }
        let tokens = bucket.available(cx.now);
        if tokens == 0 {
            return Err(bucket.next());
        }
        let batch = match limit.unit {
            Unit::Packets => {
                let batch = up.pull(0, max.min(usize::try_from(tokens).unwrap_or(max)), cx, out);
                bucket.take(batch.len() as u64);
                batch
            }
            Unit::Bytes => {
                let mut batch = Batch::empty();
                while batch.len() < max && bucket.available(cx.now) > 0 {
                    let mut one = up.pull(0, 1, cx, out);
                    if one.is_empty() {
                        break;
                    }
                    bucket.take(one.bytes());
                    batch.append(&mut one);
                }
                batch
            }
        };
        limit.quota.add(batch.len());
        Ok(batch)
    }
}

/// Pulls, limited, and pushes on.
#[derive(Debug)]
pub struct RatedMover(pub Limiter);

impl Element for RatedMover {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.0.limit.quota.is_active() {
            return false;
        }
        let burst = self.0.limit.quota.burst();
        match self.0.pull(burst, cx, up, out) {
            Err(Nanos::MAX) => false,
            Err(time) => {
                out.wake_at(time);
                false
            }
            Ok(batch) if batch.is_empty() => {
                up.wait(out);
                false
            }
            Ok(batch) => {
                out.emit(0, batch);
                out.wake();
                true
            }
        }
    }
}

/// Passes on pulls, limited.
#[derive(Debug)]
pub struct RatedPull(pub Limiter);

impl Element for RatedPull {
    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        if !self.0.limit.quota.is_active() {
            return Batch::empty();
        }
        self.0.pull(max, cx, up, out).unwrap_or_else(|time| {
            out.retry_at(time);
            Batch::empty()
        })
    }
}
