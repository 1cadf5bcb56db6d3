//! What frames for and from the Linux of the control node may take of internal links.
//!
//! Packets of traffic to a node that is down, or to neighbours that nobody answers for, are punted at the rate at which they come in.
//! They go before everything else on a link, so what they may take is bounded: the rest is for traffic.

use super::settings::Settings;
use super::switch::Switch;
use cluster::overhead::PUNT_PART;
use cluster::utilisation::Bucket;
use graph::Nanos;

/// Bytes that may go at once: what Linux sends when a neighbour answers that many packets waited for.
const BURST: u32 = 1 << 16;

/// The share of one link.
#[derive(Debug)]
pub struct Share(Bucket);

impl Share {
    /// That of a link of this rate, in bits per second.
    pub fn new(rate: u64) -> Share {
        Share(Bucket::new(rate / PUNT_PART))
    }

    /// Another rate of the link.
    pub fn set_rate(&mut self, rate: u64) {
        self.0.set_rate(rate / PUNT_PART);
    }

    /// Whether a frame may go that takes so many bytes on the wire; counts it if so. Half of what may go at once is kept for urgent
    /// ones: routing protocols, neighbours.
    pub fn admits(&mut self, length: u32, is_urgent: bool, now: Nanos) -> bool {
        let most = if is_urgent { BURST } else { BURST / 2 };
        let admits = self.0.level(now).saturating_add(length) <= most;
        if admits {
            self.0.add(now, length);
        }
        admits
    }
}

impl Switch {
    /// Counts what goes by a link and is no traffic: less is left there for traffic that would go directly.
    pub(super) fn take_room(&mut self, node: u16, length: u32) {
        if let Some(link) = self.settings.topology.link_to(self.me, node) {
            self.chooser.relayed(link, length);
        }
    }
}

/// Of the links of the topology, at this rate.
pub fn shares(settings: &Settings, rate: u64) -> Box<[Share]> {
    (0..settings.topology.radix()).map(|_| Share::new(rate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::SECOND;

    #[test]
    fn a_flood_takes_its_share_and_leaves_room_for_what_is_urgent() {
        let mut share = Share::new(32_000_000);
        let mut sent = 0;
        for microsecond in 0..1_000_000 {
            sent += u64::from(share.admits(1000, false, microsecond * 1000));
        }
        // A 32nd of the rate is 125,000 bytes a second, beside what may go at once.
        assert!((124..=158).contains(&sent), "{sent}");
        assert!((0..30).all(|_| share.admits(1000, true, SECOND)));
        assert!(!share.admits(60_000, true, SECOND));
    }
}
