//! Ports that join two processes of one machine through shared memory: `ring:PATH`.
//!
//! ```text
//!   process A                       file PATH, mapped by both                        process B
//!   TxQueue ── copies a frame ──▶ [ slots from A to B: lengths, frames ] ── copies it ──▶ RxQueue
//!   RxQueue ◀──────────────────── [ slots from B to A                  ] ◀───────────────  TxQueue
//! ```
//!
//! Whoever comes first makes the memory; the other may come later, go, be killed and come again, and so may the first. Neither
//! makes a system call for a packet. Packets sent while nobody is at the other end are lost and counted as errors, as on a
//! wire that leads nowhere. Nothing that the other end writes is trusted: a number or length that cannot be costs the packets
//! that it is about, and is counted.
//!
//! No queue sleeps or wakes anybody: workers look into their rings as into any other device.

mod attachment;
mod devices;
mod indices;
mod memory;
mod port;

pub use devices::{WithRings, refuse};

#[cfg(test)]
mod tests;

use crate::devices::OpenError;
use crate::port::{Claim, Limits};
use memory::{Geometry, MOST_SLOTS};
use std::path::PathBuf;

/// One queue each way: a ring has one who fills it and one who reads it.
const LIMITS: Limits = Limits { rx_queues: 1, tx_queues: 1 };
/// What a name begins with.
const PREFIX: &str = "ring:";
/// Frames under way in each direction, unless somebody wishes otherwise.
const SLOTS: u32 = 1024;
/// The longest IP packet, unless somebody wishes otherwise.
const MTU: u16 = 1500;
/// The most that is an MTU of an IP packet and still leaves a frame shorter than 64 KB.
const MOST_MTU: u16 = 65_000;
/// What a frame has besides: an Ethernet header and two VLAN tags.
const FRAME_EXTRA: u32 = 14 + 2 * 4;

/// What a name of a ring says: `ring:PATH`, `ring:PATH,mtu=BYTES`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Name {
    path: PathBuf,
    mtu: Option<u16>,
}

impl Name {
    /// Reads a name; `None` if it is not that of a ring.
    fn parse(text: &str) -> Option<Result<Name, OpenError>> {
        let rest = text.strip_prefix(PREFIX)?;
        let (path, options) = rest.split_once(',').unwrap_or((rest, ""));
        let wrong = |why: String| {
            let help = "a ring is written like ring:/run/a-b or \"ring:/run/a-b,mtu=9000\"";
            Some(Err(OpenError::new(format!("{text}: {why}"), help)))
        };
        if path.is_empty() || path.contains('\0') {
            return wrong("the name of a file is missing".to_owned());
        }
        let mut name = Name { path: PathBuf::from(path), mtu: None };
        for option in options.split(',').filter(|option| !option.is_empty()) {
            let mtu = option.strip_prefix("mtu=").and_then(|mtu| mtu.parse().ok());
            match mtu.filter(|mtu: &u16| (68..=MOST_MTU).contains(mtu)) {
                Some(mtu) => name.mtu = Some(mtu),
                None => return wrong(format!("'{option}' is no MTU from 68 to {MOST_MTU}, as mtu=1500")),
            }
        }
        Some(Ok(name))
    }

    /// The longest IP packet.
    fn mtu(&self, claim: Claim) -> u16 {
        self.mtu.unwrap_or(if claim.mtu == 0 { MTU } else { claim.mtu })
    }

    /// The memory that both directions need.
    fn geometry(&self, claim: Claim) -> Geometry {
        let slots = match claim.rx_descriptors.max(claim.tx_descriptors) {
            0 => SLOTS,
            wished => u32::from(wished).next_power_of_two().min(MOST_SLOTS),
        };
        Geometry::for_frames(slots, u32::from(self.mtu(claim)) + FRAME_EXTRA)
    }
}
