//! `InfiniteSource`: sends copies of a packet as often as it is scheduled.
//!
//! # Arguments
//! - `DATA`: the packet's bytes. Default: 64 bytes of text.
//! - `LIMIT`: number of packets to send; -1 = no limit. Default -1.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//! - `LENGTH`: length of the packet in bytes; `DATA` is repeated or cut. Default: the length of `DATA`.
//! - `STOP`: true = stop the router after the last packet. Default false.
//!
//! # Ports
//! One output, push or pull. While all queues downstream are full it sleeps.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets sent |
//! | `reset` | w | start from 0 again |
//! | `active` | rw | see `ACTIVE` |
//! | `limit`, `burst` | rw | see the arguments |
//!
//! # Losses
//! - `no_buffer`: there was no buffer for a packet; it does not count as sent.
//!
//! # Example
//! ```click
//! s :: InfiniteSource(DATA \<00 01 02>, LIMIT 7) -> c :: Counter -> Discard;
//! // s.count = 7
//! // c.byte_count = 21
//! ```

use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec, State, Up, value,
};
use packet::Batch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

const NO_BUFFER: Loss = Loss(0);
const DEFAULT_DATA: &[u8; 64] = b"A packet of RouteBricks: sixty-four bytes of text, neither more.";

/// See the module.
#[derive(Debug)]
pub struct InfiniteSource {
    data: Vec<u8>,
    limit: AtomicI64,
    burst: AtomicUsize,
    active: AtomicBool,
    count: AtomicU64,
    stop: bool,
}

/// One worker's part of [`InfiniteSource`].
#[derive(Debug)]
pub struct LocalInfiniteSource {
    shared: Arc<InfiniteSource>,
    pushes: bool,
}

impl Class for InfiniteSource {
    const SPEC: Spec =
        Spec { losses: &["no_buffer"], state: State::Home, ..Spec::new("InfiniteSource", "0/1", "a/a") };
    type Local = LocalInfiniteSource;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<InfiniteSource, ConfigErrors> {
        let mut data = args.optional("DATA", DEFAULT_DATA.to_vec());
        let limit = args.optional("LIMIT", -1i64);
        let burst = args.optional("BURST", cx.burst);
        let active = args.optional("ACTIVE", true);
        let length = args.keyword("LENGTH", data.len());
        let stop = args.keyword("STOP", false);
        if length > data.len() && data.is_empty() {
            args.error("LENGTH", "there is no DATA to repeat");
        } else if length > usize::from(u16::MAX) {
            args.error("LENGTH", "out of range, bound 65535");
        } else {
            data = data.iter().copied().cycle().take(length).collect();
        }
        args.finish()?;
        Ok(InfiniteSource {
            data,
            limit: AtomicI64::new(limit),
            burst: AtomicUsize::new(burst.clamp(1, Batch::MAX)),
            active: AtomicBool::new(active),
            count: AtomicU64::new(0),
            stop,
        })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalInfiniteSource {
        LocalInfiniteSource { shared: self.clone(), pushes: cx.push_outputs == [true] }
    }

    fn handlers(h: &mut Handlers<InfiniteSource>) {
        h.read("count", |s| s.count.load(Relaxed).to_string());
        h.write("reset", |s, _, cx| {
            s.count.store(0, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("active", |s| s.active.load(Relaxed).to_string());
        h.write("active", |s, text, cx| {
            s.active.store(value::<bool>(text)?, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("limit", |s| s.limit.load(Relaxed).to_string());
        h.write("limit", |s, text, cx| {
            s.limit.store(value::<i64>(text)?, Relaxed);
            cx.wake();
            Ok(())
        });
        h.read("burst", |s| s.burst.load(Relaxed).to_string());
        h.write("burst", |s, text, _| {
            s.burst.store(value::<usize>(text)?.clamp(1, Batch::MAX), Relaxed);
            Ok(())
        });
    }
}

impl LocalInfiniteSource {
    /// How many packets may still be sent.
    fn left(&self) -> usize {
        let limit = self.shared.limit.load(Relaxed);
        match u64::try_from(limit) {
            Ok(limit) => {
                usize::try_from(limit.saturating_sub(self.shared.count.load(Relaxed))).unwrap_or(usize::MAX)
            }
            Err(_) => usize::MAX,
        }
    }

    fn make(&mut self, max: usize, cx: &Cx<'_>, out: &mut Out<'_>) -> Batch {
        let wanted = max.min(self.shared.burst.load(Relaxed)).min(self.left());
        if wanted == 0 || !self.shared.active.load(Relaxed) {
            return Batch::empty();
        }
        let mut batch = cx.pool.alloc_batch(wanted);
        let got = batch.len();
        batch.retain(|p| p.append(&self.shared.data), |p| p.free());
        out.made(got);
        // The packet is larger than a buffer.
        out.count_loss(NO_BUFFER, got - batch.len());
        self.shared.count.fetch_add(batch.len() as u64, Relaxed);
        if self.left() == 0 && self.shared.stop {
            out.stop_driver();
        }
        batch
    }
}

impl Element for LocalInfiniteSource {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        if self.pushes {
            out.wake();
        }
    }

    fn pull(&mut self, _: usize, max: usize, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> Batch {
        self.make(max, cx, out)
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        if !self.pushes || !self.shared.active.load(Relaxed) || self.left() == 0 {
            return false;
        }
        let room = out.room();
        if room == 0 {
            return false;
        }
        let batch = self.make(room, cx, out);
        let useful = !batch.is_empty();
        out.emit(0, batch);
        out.wake();
        useful
    }
}
