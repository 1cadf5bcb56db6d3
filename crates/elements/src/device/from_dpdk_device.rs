//! `FromDPDKDevice`: receives packets from a device through DPDK.
//!
//! # Arguments
//! - `PORT`: the device: a Linux interface (`eth1`, by an XDP socket where one will do; `af_xdp:eth1` by one in any
//!   case, `af_packet:eth1` by a raw socket), a tap to be made (`tap:rb0`), a PCI address (`0000:3b:00.0`), a DPDK port
//!   number, a virtual device with its arguments in quotes (`"net_tap0,iface=tap0"`), or one end of a ring that joins it to
//!   another process (`ring:/run/a-b`, `"ring:/run/a-b,mtu=9000"`). Linux does not see what comes
//!   in by an XDP socket. `-` is none yet: it is attached while the router runs.
//! - `QUEUE`: the first receive queue to read; -1 = 0. Default -1.
//! - `N_QUEUES`: how many queues to read; -1 = one per worker, as far as the device has them. Default -1, and 1 if a
//!   `QUEUE` is given.
//! - `PROMISC`: receive frames to any address. Default true.
//! - `BURST`: packets at a time, 1 to 256. Default: the router's burst.
//! - `NDESC`: descriptors of each queue; 0 = the driver's choice. Default 0.
//! - `MTU`: sets the device's MTU in bytes; 0 = leaves it. Default 0.
//! - `RSS`: what the device hashes to choose the queue of a packet, in words: `ip` (addresses), `tcp`, `udp`, `sctp` (addresses
//!   and ports), `tunnel` (VXLAN, GENEVE, NVGRE), `inner` (in tunnels, the innermost headers in place of the outermost),
//!   `ethernet` (what is not IP), `vlan`, `mpls`, `gtp`, `ipsec`, `l2tp`, `pppoe`; `all`: everything that the device offers; `none`: no RSS,
//!   and unless `N_QUEUES` says otherwise one queue. Default: `ip tcp udp sctp` as far as the device offers them. A word that
//!   the device does not offer is a warning.
//! - `RSS_KEY`: with what it hashes: `default` (the driver's key), `symmetric` (both directions of a flow get queues of the same
//!   number, also of two devices if these have as many queues and as long tables) or the bytes of a key in hexadecimal, as many as the device takes. Default `default`.
//! - `RSS_QUEUES`: over how many queues it spreads, from its first on: its redirection table names them by turns. Default:
//!   all that are read.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//!
//! The three of RSS are settings of the device: where several elements read it, one of them says so, or all the same. A
//! device without RSS starts with a warning.
//!
//! Other arguments of FastClick's element have no effect here; a warning says so.
//!
//! # Ports
//! One push output.
//!
//! # Workers
//! Every worker reads queues of its own. If the device has fewer queues than there are workers, those that have a
//! queue spread the packets over all of them by flow: addresses, protocol and ports. The order within a flow stays. They use
//! the device's hash where it gives one; without, the two directions of a flow are two flows, whatever `RSS_KEY` says.
//!
//! Several paths that have no element in common, each from devices with fewer queues than there are workers, get workers
//! of their own instead: with as many paths as workers each is on one worker from end to end. A path with an element that
//! `StaticThreadSched` binds is left as it is.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets received |
//! | `byte_count` | r | bytes that the device has received by all its queues; 0 if it counts none |
//! | `reset_counts` | w | both start from 0 again |
//! | `active` | rw | see `ACTIVE` |
//! | `attach` | w | the device, if it is `-` in the configuration: it is opened, and one queue of it is read from then on |
//! | `hw_count`, `hw_bytes` | r | what the device says it has received |
//! | `hw_dropped`, `hw_errors` | r | packets that the device dropped because nobody took them or there was no buffer; faulty packets |
//! | `xstats` | r | the device's own counts, all or the one whose name is given |
//! | `mac`, `mtu`, `carrier`, `speed`, `duplex` | r | address, MTU in bytes, 1 if the link is up, Mbit/s, `full` or `half` |
//! | `device`, `driver`, `numa_node`, `nb_rx_queues`, `nb_tx_queues` | r | about the device |
//! | `rss` | r | what the device hashes, by DPDK's names, its key and its redirection table, as its driver tells; `none` if there is no RSS |
//! | `nb_workers` | r | workers that its packets are spread over |
//!
//! # Losses
//! - `oversized`: the packet came in several pieces that do not fit into one buffer.
//! - `no_buffer`: there was no buffer to copy a packet into.
//! - `rx_error`: the device gave the packet up for another reason.
//!
//! # Example
//! ```click
//! // Ten frames come in at eth0.
//! in :: FromDPDKDevice(eth0) -> Counter -> out :: ToDPDKDevice(eth1);
//! // in.count = 10
//! // out.count = 10
//! ```

use super::keywords::{burst_argument, ignore};
use super::rss::rss_arguments;
use super::rx::{LOSSES, LocalRx, RxPort, RxWish, rx_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, Initialize, LocalCx, Queues, Span, Spec};
use io::Claim;
use std::sync::Arc;

/// Arguments of FastClick that concern its threads, or the hardware beyond what is done here.
pub(super) const FASTCLICK: &[&str] = &[
    "MAXTHREADS",
    "THREADOFFSET",
    "NUMA",
    "NUMA_NODE",
    "VERBOSE",
    "MODE",
    "VF_POOLS",
    "RSS_AGGREGATE",
    "PAUSE",
    "PAINT_QUEUE",
    "CLEAR",
    "RX_INTR",
    "MINQUEUES",
    "MAXQUEUES",
    "SCALE",
    "TIMESTAMP",
    "ALLOC",
];

/// See the module.
pub struct FromDpdkDevice {
    rx: Arc<RxPort>,
}

impl AsRef<RxPort> for FromDpdkDevice {
    fn as_ref(&self) -> &RxPort {
        &self.rx
    }
}

/// Reads `QUEUE` and `N_QUEUES`: the first queue, and how many with the place where that is written.
pub(super) fn queue_arguments(args: &mut Args) -> (u16, Option<(u16, Span)>) {
    let queue: i32 = args.optional("QUEUE", -1);
    let queues: i32 = args.optional("N_QUEUES", -1);
    for (name, n, least) in [("QUEUE", queue, -1), ("N_QUEUES", queues, -1)] {
        if n < least || n > i32::from(u16::MAX) / 2 || (name == "N_QUEUES" && n == 0) {
            args.error(name, "no such number of queues");
        }
    }
    let first = u16::try_from(queue).ok();
    let number = u16::try_from(queues).ok().map(|n| (n, args.span_of("N_QUEUES")));
    let one = first.map(|_| (1, args.span_of("QUEUE")));
    (first.unwrap_or(0), number.or(one))
}

impl Class for FromDpdkDevice {
    const SPEC: Spec = Spec { losses: LOSSES, ..Spec::new("FromDPDKDevice", "0/1", "h/h") };
    type Local = LocalRx;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<FromDpdkDevice, ConfigErrors> {
        let device: String = args.required("PORT");
        let (first_queue, queues) = queue_arguments(args);
        let claim = Claim {
            promiscuous: args.keyword("PROMISC", true),
            rx_descriptors: args.keyword("NDESC", 0),
            mtu: args.keyword("MTU", 0),
            rss: rss_arguments(args, &device, cx),
            ..Claim::default()
        };
        let burst = burst_argument(args, cx.burst);
        let active = args.keyword("ACTIVE", true);
        ignore(args, FASTCLICK);
        let span = args.span_of("PORT");
        args.finish()?;
        let wish = RxWish {
            device: (device, span),
            first_queue,
            queues,
            claim,
            burst,
            active,
            force_ip: false,
            may_be_later: true,
        };
        Ok(FromDpdkDevice { rx: RxPort::claim(wish, cx)? })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        self.rx.open(cx)
    }

    fn queues(&self) -> Option<Queues> {
        Some(self.rx.queues())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalRx {
        self.rx.local(cx)
    }

    fn handlers(h: &mut Handlers<FromDpdkDevice>) {
        rx_handlers(h);
        h.read("rss", |c| {
            let state = c.rx.port().and_then(|port| port.rss());
            state.map_or_else(|| "none".to_owned(), |state| state.to_string())
        });
        h.write("attach", |c, text, cx| {
            c.rx.attach(text.trim())?;
            cx.wake();
            Ok(())
        });
    }

    fn waits_for_outside(&self) -> bool {
        self.rx.is_open()
    }
}
