//! `ToDPDKDevice`: sends packets to a device through DPDK.
//!
//! # Arguments
//! - `PORT`: the device, as in `FromDPDKDevice`.
//! - `QUEUE`: the first transmit queue to use; -1 = 0. Default -1.
//! - `N_QUEUES`: how many queues to use; -1 = one per worker, as far as the device has them. Default -1, and 1 if a
//!   `QUEUE` is given.
//! - `IQUEUE`: packets that may wait for the device on each worker. Default 1024.
//! - `BURST`: so many packets, 1 to 256, are worth sending at once; more that come together leave together. Default 16, as
//!   kn in RouteBricks (SOSP 2009, Table 1), and no more than the router's burst.
//! - `TIMEOUT`: so long fewer packets than a `BURST` wait for more; a bare number is in milliseconds, as in FastClick.
//!   Default 0: they wait until the worker has done what it is about, no longer.
//! - `BLOCKING`: true = while the device is full, wait for it (less than a millisecond) before anything is lost. Default
//!   false.
//! - `NDESC`: descriptors of each queue; 0 = the driver's choice. Default 0.
//!
//! Other arguments of FastClick's element have no effect here; a warning says so.
//!
//! # Ports
//! One push input.
//!
//! # Workers
//! Every worker sends by a queue of its own. If the device has fewer queues than there are workers, those workers have
//! them to which packets for it may come, and of these the ones that send for the fewest other devices; the others hand
//! their packets over.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets that the device took; also `n_sent` |
//! | `byte_count` | r | bytes that the device has sent by all its queues, 0 if it counts none; also `n_sent_bytes` |
//! | `dropped` | r | packets dropped here, for whatever reason; also `n_dropped` |
//! | `reset_counts` | w | all start from 0 again |
//! | `attach` | w | the device, if it is `-` in the configuration, as in `FromDPDKDevice`; one queue is used |
//! | `hw_count`, `hw_bytes`, `hw_errors` | r | what the device says it has sent, and failed to send |
//! | `xstats`, `mac`, `mtu`, `carrier`, `speed`, `duplex`, `device`, `driver`, `numa_node`, `nb_rx_queues`, `nb_tx_queues` | r | as in `FromDPDKDevice` |
//!
//! # Losses
//! - `tx_full`: the device did not take the packet, and `IQUEUE` others were waiting.
//! - `no_device`: none is attached yet.
//! - `tx_stuck`: the device took nothing for 100 ms, for which the packet waited.
//! - `oversized`: the frame is longer than the device sends.
//! - `bad_frame`: it is no frame that the device sends, such as one that is shorter than an Ethernet header.
//! - `link_down`: the interface is down, or has no carrier, and the device says so.
//! - `device_gone`: the device has gone: deleted, unplugged, closed.
//! - `no_buffer`: no packet buffer for a copy that the device needs.
//! - `tx_error`: the device failed for another reason.
//!
//! What the device refuses for good is dropped at once under one of the last six names: nothing waits behind it.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 20) -> out :: ToDPDKDevice(eth1);
//! // out.count = 20
//! // out.byte_count = 1280
//! ```

use super::from_dpdk_device::{FASTCLICK, queue_arguments};
use super::keywords::{burst_argument, ignore};
use super::tx::{LOSSES, NO_DEVICE, Sender, TxPort, TxWish, tx_handlers};
use graph::{
    ArgError, Args, Class, ConfigErrors, Configure, Cx, Element, FromArg, Handlers, Initialize, LocalCx,
    Nanos, Out, Queues, Spec, Text, Up,
};
use io::Claim;
use packet::Batch;
use std::sync::Arc;
use std::time::Duration;

/// Packets that do not wait for more. What a batch of packets leaves of its packets for one of several ports is rarely the
/// router's whole burst, and letting it wait costs more than another call of the driver.
const BURST: usize = 16;

/// See the module.
pub struct ToDpdkDevice {
    tx: Arc<TxPort>,
    hold: usize,
    burst: usize,
    timeout: Nanos,
    blocking: bool,
}

/// A time to wait; a bare number is in milliseconds.
struct Wait(Nanos);

impl FromArg for Wait {
    fn from_arg(arg: &Text) -> Result<Wait, ArgError> {
        let nanos = match arg.text.parse::<u32>() {
            Ok(milliseconds) => u64::from(milliseconds) * 1_000_000,
            Err(_) => u64::try_from(Duration::from_arg(arg)?.as_nanos()).unwrap_or(u64::MAX),
        };
        Ok(Wait(nanos))
    }

    fn placeholder() -> Wait {
        Wait(0)
    }
}

/// One worker's part of [`ToDpdkDevice`].
#[repr(C, align(64))]
pub struct LocalToDpdkDevice {
    burst: usize,
    sender: Option<Sender>,
    /// When what waits for more is sent at the latest.
    due: Option<Nanos>,
    shared: Arc<ToDpdkDevice>,
}

impl AsRef<TxPort> for ToDpdkDevice {
    fn as_ref(&self) -> &TxPort {
        &self.tx
    }
}

impl Class for ToDpdkDevice {
    const SPEC: Spec = Spec { losses: LOSSES, ..Spec::new("ToDPDKDevice", "1/0", "h/h") };
    type Local = LocalToDpdkDevice;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ToDpdkDevice, ConfigErrors> {
        let device: String = args.required("PORT");
        let (first_queue, queues) = queue_arguments(args);
        let hold: usize = args.keyword("IQUEUE", 1024);
        let burst = burst_argument(args, cx.burst.min(BURST));
        let blocking = args.keyword("BLOCKING", false);
        let claim = Claim { tx_descriptors: args.keyword("NDESC", 0), ..Claim::default() };
        ignore(args, FASTCLICK);
        let Wait(timeout) = args.keyword("TIMEOUT", Wait(0));
        ignore(args, &["MAC", "CONGESTION", "TCO", "UCO", "IPCO", "TSO"]);
        let span = args.span_of("PORT");
        args.finish()?;
        let wish = TxWish { device: (device, span), first_queue, queues, claim, may_be_later: true };
        Ok(ToDpdkDevice { tx: TxPort::claim(wish, cx)?, hold: hold.max(burst - 1), burst, timeout, blocking })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        self.tx.open(cx)
    }

    fn queues(&self) -> Option<Queues> {
        Some(self.tx.queues())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalToDpdkDevice {
        LocalToDpdkDevice { sender: self.tx.sender(cx), burst: self.burst, due: None, shared: self.clone() }
    }

    fn handlers(h: &mut Handlers<ToDpdkDevice>) {
        tx_handlers(h);
        h.write("attach", |c, text, _| c.tx.attach(text.trim()));
    }
}

impl LocalToDpdkDevice {
    /// Lets packets wait for more, or for the device.
    #[inline(never)]
    fn hold(&mut self, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if self.sender.is_none() {
            self.sender = self.shared.tx.attached(cx.worker);
        }
        let Some(sender) = &mut self.sender else {
            // The plan leads packets to workers with a queue, so there is no device yet.
            return out.lose_all(batch, NO_DEVICE);
        };
        sender.add(batch);
        if sender.len() >= self.burst {
            sender.send(self.shared.blocking, cx.now, out);
            sender.cut(self.shared.hold, out);
        }
        self.look_again(cx.now, out);
    }

    /// Sees to it that what waits will be sent: as soon as its turn comes if it is a burst or need not wait for more, else
    /// when its time has come.
    fn look_again(&mut self, now: Nanos, out: &mut Out<'_>) {
        let waiting = self.sender.as_ref().map_or(0, Sender::len);
        if waiting > 0 && waiting < self.burst && self.shared.timeout > 0 {
            out.wake_at(*self.due.get_or_insert(now.saturating_add(self.shared.timeout)));
            return;
        }
        if self.due.take().is_some() {
            out.cancel_timer();
        }
        if waiting > 0 {
            out.wake();
        }
    }
}

impl Element for LocalToDpdkDevice {
    fn push(&mut self, _: usize, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let enough = batch.len() >= self.burst;
        match &mut self.sender {
            Some(sender) if enough && sender.len() == 0 => {
                let rest = sender.send_now(batch, out);
                if !rest.is_empty() {
                    self.hold(rest, cx, out);
                }
            }
            _ => self.hold(batch, cx, out),
        }
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let Some(sender) = &mut self.sender else { return false };
        // Woken before that because the device was full, and meanwhile all that was too much has gone.
        let early = self.due.is_some_and(|due| cx.now < due);
        let sent = if early { 0 } else { sender.send(false, cx.now, out) };
        if !early {
            self.due = None;
        }
        self.look_again(cx.now, out);
        sent > 0
    }
}
