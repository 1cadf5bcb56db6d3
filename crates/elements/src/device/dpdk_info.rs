//! `DPDKInfo`: sets the size of the pool that packets come from.
//!
//! # Arguments
//! - `NB_MBUF`: buffers in the pool; also `NB_SOCKET_MBUF`. Default: what the devices need and some more.
//! - `MBUF_SIZE`: bytes of one buffer, the 128 before the packet included. Default: room for 2048 bytes of packet.
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
use std::sync::Arc;

/// Bytes before the packet in every buffer.
const HEADROOM: u16 = 128;
/// Room for packet bytes if only the number of buffers is given.
const DATA_ROOM: u16 = 2048;
/// Buffers if only their size is given.
const BUFFERS: usize = 65_536;
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
        if buffers.is_some_and(|n| n == 0 || n > MOST_BUFFERS) {
            args.error("NB_MBUF", format!("out of range, bound {MOST_BUFFERS}"));
        }
        let data_room = size.map_or(DATA_ROOM, |s| s.saturating_sub(HEADROOM));
        if data_room < 64 {
            args.error("MBUF_SIZE", format!("a buffer needs at least {} bytes", HEADROOM + 64));
        }
        args.finish()?;
        if buffers.is_some() || size.is_some() {
            cx.devices.set_pool_size(buffers.unwrap_or(BUFFERS), data_room);
        }
        Ok(DpdkInfo)
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalDpdkInfo {
        LocalDpdkInfo
    }
}

impl Element for LocalDpdkInfo {}
