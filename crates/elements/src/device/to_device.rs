//! `ToDevice`: pulls packets and sends them to a network interface.
//!
//! # Arguments
//! - `DEVNAME`: the interface, or any device that `FromDPDKDevice` knows.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `QUEUE`: the transmit queue to use. Default 0.
//! - `NDESC`: descriptors of the queue; 0 = the driver's choice. Default 0.
//!
//! `METHOD`, `DEBUG`, `NO_PAD`, `QUIET` and `ALLOW_NONEXISTENT` have no effect here; a warning says so.
//!
//! # Ports
//! One pull input. It sleeps while there is nothing to pull. What the device does not take at once it keeps and tries
//! again, and pulls nothing in the meantime: queues in front of it fill up.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets that the device took; also `n_sent` |
//! | `byte_count` | r | bytes that the device has sent by all its queues, 0 if it counts none; also `n_sent_bytes` |
//! | `dropped` | r | packets dropped here, for whatever reason; also `n_dropped` |
//! | `reset_counts` | w | all start from 0 again |
//! | `hw_count`, `hw_bytes`, `hw_errors` | r | what the device says it has sent, and failed to send |
//! | `xstats`, `mac`, `mtu`, `carrier`, `speed`, `duplex`, `device`, `driver`, `numa_node`, `nb_rx_queues`, `nb_tx_queues` | r | as in `FromDPDKDevice` |
//!
//! # Losses
//! - `tx_full`, `no_device`: stay 0, since what a full device does not take waits upstream, and there is always one.
//!
//! What the device refuses for good (`oversized`, `bad_frame`, `link_down`, `device_gone`, `no_buffer`, `tx_error`), and what
//! waits for one that takes nothing for 100 ms (`tx_stuck`), as in `ToDPDKDevice`.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 20) -> Queue(50) -> out :: ToDevice(eth1);
//! // out.count = 20
//! ```

use super::keywords::ignore;
use super::tx::{LOSSES, Sender, TxPort, TxWish, tx_handlers};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Out, Queues, Spec,
    State, Up,
};
use io::Claim;
use packet::Batch;
use std::sync::Arc;

/// See the module.
pub struct ToDevice {
    tx: Arc<TxPort>,
    burst: usize,
}

/// One worker's part of [`ToDevice`].
pub struct LocalToDevice {
    sender: Option<Sender>,
    burst: usize,
}

impl AsRef<TxPort> for ToDevice {
    fn as_ref(&self) -> &TxPort {
        &self.tx
    }
}

impl Class for ToDevice {
    const SPEC: Spec = Spec { state: State::Home, losses: LOSSES, ..Spec::new("ToDevice", "1/0", "l/l") };
    type Local = LocalToDevice;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ToDevice, ConfigErrors> {
        let device: String = args.required("DEVNAME");
        let burst: usize = args.keyword("BURST", cx.burst);
        let queue: u16 = args.keyword("QUEUE", 0);
        let claim = Claim { tx_descriptors: args.keyword("NDESC", 0), ..Claim::default() };
        ignore(args, &["METHOD", "DEBUG", "NO_PAD", "QUIET", "ALLOW_NONEXISTENT"]);
        let queues = Some((1, args.span_of("QUEUE")));
        let span = args.span_of("DEVNAME");
        args.finish()?;
        let wish = TxWish { device: (device, span), first_queue: queue, queues, claim, may_be_later: false };
        Ok(ToDevice { tx: TxPort::claim(wish, cx)?, burst: burst.clamp(1, Batch::MAX) })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        self.tx.open(cx)
    }

    fn queues(&self) -> Option<Queues> {
        Some(self.tx.queues())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalToDevice {
        LocalToDevice { sender: self.tx.sender(cx), burst: self.burst }
    }

    fn handlers(h: &mut Handlers<ToDevice>) {
        tx_handlers(h);
    }
}

impl Element for LocalToDevice {
    fn start(&mut self, _: &Cx<'_>, out: &mut Out<'_>) {
        out.wake();
    }

    fn run(&mut self, cx: &Cx<'_>, up: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        let sent = if sender.len() == 0 {
            let batch = up.pull(0, self.burst, cx, out);
            let pulled = batch.len();
            if pulled == 0 {
                up.wait(out);
                return false;
            }
            let rest = sender.send_now(batch, out);
            let sent = pulled - rest.len();
            if !rest.is_empty() {
                sender.add(rest);
            }
            sent
        } else {
            sender.send(false, cx.now, out)
        };
        out.wake();
        sent > 0
    }
}
