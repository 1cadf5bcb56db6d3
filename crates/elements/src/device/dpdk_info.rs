//! `DPDKInfo`: sets the size of the pool that packets come from.
//!
//! # Arguments
//! - `NB_MBUF`: buffers in the pool; also `NB_SOCKET_MBUF`. Default: what the devices need and some more.
//! - `SPARE`: in place of that, buffers besides those that rings of devices hold. Default 32,768; where there are XDP sockets
//!   16,384, and more for devices that are attached later.
//! - `MBUF_SIZE`: bytes of one buffer, the 128 before the packet included. Default: room for 2048 bytes
//!   of packet, or for the longest frames of the devices.
//!
//! Other arguments of FastClick's element have no effect here; a warning says so.
//!
//! # Ports
//! None.
//!
//! # Example
//! ```click
//! DPDKInfo(NB_MBUF 65536, MBUF_SIZE 4096);
//! InfiniteSource(LIMIT 3) -> d :: Discard;
//! // d.count = 3
//! ```

use super::keywords::ignore;
use graph::{Args, Class, ConfigErrors, Configure, Element, LocalCx, Phase, Spec};
use io::PoolSize;
use std::sync::Arc;

/// Bytes before the packet in every buffer.
const HEADROOM: u16 = 128;
/// More than fits into any machine's memory.
const MOST_BUFFERS: usize = 1 << 27;

/// See the module.
#[derive(Debug)]
pub struct DpdkInfo;

/// Nothing happens while the router runs.
#[derive(Debug)]
pub struct LocalDpdkInfo;

impl Class for DpdkInfo {
    const SPEC: Spec = Spec { phase: Phase::Info, ..Spec::new("DPDKInfo", "0/0", "a/a") };
    type Local = LocalDpdkInfo;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<DpdkInfo, ConfigErrors> {
        let socket: Option<usize> = args.optional_if_given("NB_SOCKET_MBUF");
        let total: Option<usize> = args.keyword_if_given("NB_MBUF");
        let spare: Option<usize> = args.keyword_if_given("SPARE");
        let size: Option<u16> = args.optional_if_given("MBUF_SIZE");
        let numbered: Vec<String> = (0..8).map(|n| format!("NB_SOCKET_MBUF_{n}")).collect();
        let numbered: Vec<&str> = numbered.iter().map(String::as_str).collect();
        ignore(args, &numbered);
        ignore(
            args,
            &[
                "MBUF_CACHE_SIZE",
                "RX_PTHRESH",
                "RX_HTHRESH",
                "RX_WTHRESH",
                "TX_PTHRESH",
                "TX_HTHRESH",
                "TX_WTHRESH",
                "NDESC_RX",
                "NDESC_TX",
                "DEFAULT_MTU",
                "HAVE_TX_OFFLOAD",
                "MEMPOOL_PREFIX",
            ],
        );
        let buffers = total.or(socket);
        for (name, number, least) in [("NB_MBUF", buffers, 1), ("SPARE", spare, 0)] {
            if number.is_some_and(|n| n < least || n > MOST_BUFFERS) {
                args.error(name, format!("out of range, bound {MOST_BUFFERS}"));
            }
        }
        if buffers.is_some() && spare.is_some() {
            args.error("SPARE", "cannot be given with NB_MBUF");
        }
        let data_room = size.map(|size| size.saturating_sub(HEADROOM));
        if data_room.is_some_and(|room| room < 64) {
            args.error("MBUF_SIZE", format!("a buffer needs at least {} bytes", HEADROOM + 64));
        }
        args.finish()?;
        cx.devices.set_pool_size(PoolSize { buffers, spare, data_room });
        Ok(DpdkInfo)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalDpdkInfo {
        LocalDpdkInfo
    }
}

impl Element for LocalDpdkInfo {}
