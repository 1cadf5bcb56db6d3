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

use super::source_data::{DEFAULT_DATA, with_length};
use crate::quota::{Quota, active_handler, burst_handler, count_handlers, limit_handler};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, LocalCx, Loss, Out, Spec, State, Up,
};
use packet::Batch;
use std::sync::Arc;

const NO_BUFFER: Loss = Loss(0);

/// See the module.
#[derive(Debug)]
pub struct InfiniteSource {
    data: Vec<u8>,
    quota: Quota,
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
        let data = args.optional("DATA", DEFAULT_DATA.to_vec());
        let limit = args.optional("LIMIT", -1i64);
        let burst = args.optional("BURST", cx.burst);
        let active = args.optional("ACTIVE", true);
        let data = with_length(args, &data);
        let stop = args.keyword("STOP", false);
        args.finish()?;
        Ok(InfiniteSource { data, quota: Quota::new(limit, burst, active), stop })
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalInfiniteSource {
        LocalInfiniteSource { shared: self.clone(), pushes: cx.push_outputs == [true] }
    }

    fn handlers(h: &mut Handlers<InfiniteSource>) {
        count_handlers(h, |s| &s.quota);
        active_handler(h, |s| &s.quota);
        limit_handler(h, |s| &s.quota);
        burst_handler(h, |s| &s.quota);
    }
}

impl LocalInfiniteSource {
    fn make(&mut self, max: usize, cx: &Cx<'_>, out: &mut Out<'_>) -> Batch {
        let InfiniteSource { data, quota, stop } = &*self.shared;
        let wanted = max.min(quota.burst()).min(quota.left());
        if wanted == 0 || !quota.is_active() {
            return Batch::empty();
        }
        let mut batch = cx.pool.alloc_batch(wanted);
        let got = batch.len();
        batch.retain(|p| p.append(data), |p| p.free());
        out.made(got);
        // The packet is larger than a buffer.
        out.count_loss(NO_BUFFER, got - batch.len());
        quota.add(batch.len());
        if quota.left() == 0 && *stop {
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
        let quota = &self.shared.quota;
        if !self.pushes || !quota.is_active() || quota.left() == 0 {
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
