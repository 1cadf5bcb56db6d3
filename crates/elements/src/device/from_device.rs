//! `FromDevice`: receives packets from a network interface.
//!
//! The same as `FromDPDKDevice` with Click's arguments.
//!
//! # Arguments
//! - `DEVNAME`: the interface, or any device that `FromDPDKDevice` knows.
//! - `PROMISC`: receive frames to any address. Default false.
//! - `FORCE_IP`: deliver IP packets only, with the IP header marked; the link-layer header stays. Default false.
//! - `BURST`: packets at a time. Default: the router's burst.
//! - `MTU`: sets the interface's MTU in bytes; 0 = leaves it. Default 0.
//! - `QUEUE`, `N_QUEUES`, `NDESC`: as in `FromDPDKDevice`.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//!
//! `SNIFFER`, `SNAPLEN`, `METHOD`, `CAPTURE`, `PROTOCOL`, `HEADROOM`, `TIMESTAMP`, `ENCAP` and `OUTBOUND` have no
//! effect here; a warning says so. `BPF_FILTER` is refused.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! As `FromDPDKDevice`: `count`, `byte_count`, `reset_counts`, `active`, `hw_dropped`, `mac`, `mtu`, `carrier`, …
//!
//! # Losses
//! - `oversized`: the packet came in several pieces that do not fit into one buffer.
//! - `no_buffer`: there was no buffer to copy a packet into.
//! - `rx_error`: the device gave the packet up for another reason.
//! - `not_ip`: not an IP packet, and `FORCE_IP` is true.
//!
//! # Example
//! ```click
//! // Ten frames come in at eth0.
//! FromDevice(eth0, FORCE_IP true) -> c :: Counter -> Discard;
//! // c.count = 10
//! ```

use super::from_dpdk_device::queue_arguments;
use super::keywords::{ignore, refuse};
use super::rx::{LOSSES_IP, LocalRx, RxPort, RxWish, rx_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, Initialize, LocalCx, Queues, Spec};
use io::Claim;
use packet::Batch;
use std::sync::Arc;

/// Arguments of Click that concern how a kernel hands packets over.
const CLICK: &[&str] = &[
    "SNIFFER",
    "SNAPLEN",
    "METHOD",
    "CAPTURE",
    "PROTOCOL",
    "HEADROOM",
    "TIMESTAMP",
    "ENCAP",
    "OUTBOUND",
    "VERBOSE",
];

/// See the module.
pub struct FromDevice {
    rx: Arc<RxPort>,
}

impl AsRef<RxPort> for FromDevice {
    fn as_ref(&self) -> &RxPort {
        &self.rx
    }
}

impl Class for FromDevice {
    const SPEC: Spec = Spec { losses: LOSSES_IP, ..Spec::new("FromDevice", "0/1", "h/h") };
    type Local = LocalRx;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<FromDevice, ConfigErrors> {
        let device: String = args.required("DEVNAME");
        let claim = Claim {
            promiscuous: args.optional("PROMISC", false),
            rx_descriptors: args.keyword("NDESC", 0),
            mtu: args.keyword("MTU", 0),
            ..Claim::default()
        };
        ignore(args, CLICK);
        refuse(args, &["BPF_FILTER"], "put an IPClassifier behind this element");
        let (first_queue, queues) = queue_arguments(args);
        let force_ip = args.keyword("FORCE_IP", false);
        let burst: usize = args.keyword("BURST", cx.burst);
        let active = args.keyword("ACTIVE", true);
        let span = args.span_of("DEVNAME");
        args.finish()?;
        let burst = burst.clamp(1, Batch::MAX);
        let wish = RxWish {
            device: (device, span),
            first_queue,
            queues,
            claim,
            burst,
            active,
            force_ip,
            may_be_later: false,
        };
        Ok(FromDevice { rx: RxPort::claim(wish, cx)? })
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

    fn handlers(h: &mut Handlers<FromDevice>) {
        rx_handlers(h);
    }

    fn waits_for_outside(&self) -> bool {
        self.rx.is_open()
    }
}
