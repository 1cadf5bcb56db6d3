//! Order at the moment when a neighbour becomes known.
//!
//! Until then packets to it leave by `UNRESOLVED`, to Linux, which queues them and sends them when it knows the neighbour. Those that
//! go directly afterwards would overtake them. So packets to a destination that was diverted are held for a while after its
//! neighbour became usable, until what was diverted has come out, and then follow in their order.

use graph::{Nanos, SECOND};
use packet::Packet;
use std::collections::VecDeque;

/// How long Linux may queue a packet for a neighbour: three requests, a second apart. What was diverted before is gone.
const FORGET: Nanos = 4 * SECOND;
/// Packets that are held at most.
const MOST_HELD: usize = 1024;
/// Destinations that are remembered: sets, and places in each.
const SETS: usize = 256;
const PLACES: usize = 4;

/// A destination whose packets were diverted.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// See [`Fence::note`]; 0 of a place that is free.
    key: u64,
    /// When a packet was last diverted.
    diverted: Nanos,
    /// Until when packets are held since the neighbour is usable; 0 while it is not.
    until: Nanos,
}

/// The set of a destination, below [`SETS`].
fn set(key: u64) -> usize {
    // A multiplication mixes the bits of addresses, which differ in the last ones.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on at once.
    Pass,
    /// It is to wait until then: [`Fence::hold`].
    Hold(Nanos),
}

/// The destinations that were diverted of late, and the packets that are held.
#[derive(Debug)]
pub struct Fence {
    /// How long packets are held; 0 = never, and nothing is noted.
    settle: Nanos,
    /// Until then there is something to look at.
    active: Nanos,
    /// Made when the first packet is diverted.
    marks: Vec<[Mark; PLACES]>,
    /// With the time at which each goes on.
    held: VecDeque<(Nanos, Packet)>,
    /// The least of these times.
    due: Option<Nanos>,
}

impl Fence {
    /// Holds packets for so long.
    pub fn new(settle: Nanos) -> Fence {
        Fence { settle, active: 0, marks: Vec::new(), held: VecDeque::new(), due: None }
    }

    /// Whether packets are to be looked at one by one: [`Fence::verdict`].
    #[inline(always)]
    pub fn is_active(&self, now: Nanos) -> bool {
        now < self.active
    }

    fn find(&mut self, key: u64) -> Option<&mut Mark> {
        self.marks.get_mut(set(key))?.iter_mut().find(|mark| mark.key == key)
    }

    /// A packet is diverted. `key` stands for its destination, and is not 0.
    pub fn note(&mut self, key: u64, now: Nanos) {
        if self.settle == 0 {
            return;
        }
        if self.marks.is_empty() {
            self.marks = vec![Default::default(); SETS];
        }
        if self.held.is_empty() {
            self.active = now.saturating_add(FORGET);
        }
        if let Some(mark) = self.find(key) {
            mark.diverted = now;
            return;
        }
        let oldest = self.marks[set(key)].iter_mut().min_by_key(|mark| mark.diverted.max(mark.until));
        oldest.into_iter().for_each(|mark| *mark = Mark { key, diverted: now, until: 0 });
    }

    /// What becomes of a packet to this destination, whose neighbour is usable now or not. All packets whose time has come
    /// have been [released](Fence::release).
    pub fn verdict(&mut self, key: u64, is_usable: bool, now: Nanos) -> Verdict {
        let settle = self.settle;
        let Some(mark) = self.find(key) else { return Verdict::Pass };
        if mark.until == 0 && is_usable && now.saturating_sub(mark.diverted) < FORGET {
            mark.until = now.saturating_add(settle);
        }
        // Behind those that are held, even if the neighbour is not usable any more.
        if now < mark.until {
            return Verdict::Hold(mark.until);
        }
        match is_usable {
            true => *mark = Mark::default(),
            false => mark.until = 0,
        }
        Verdict::Pass
    }

    /// Holds a packet until then.
    ///
    /// # Errors
    /// The packet, if too many are held.
    pub fn hold(&mut self, packet: Packet, until: Nanos) -> Result<(), Packet> {
        if self.held.len() >= MOST_HELD {
            return Err(packet);
        }
        self.held.push_back((until, packet));
        self.active = Nanos::MAX;
        self.due = Some(self.due.map_or(until, |due| due.min(until)));
        Ok(())
    }

    /// Takes out a packet whose time has come, in the order in which they came.
    pub fn release(&mut self, now: Nanos) -> Option<Packet> {
        self.due.filter(|due| *due <= now)?;
        let Some(place) = self.held.iter().position(|(until, _)| *until <= now) else {
            self.due = self.held.iter().map(|(until, _)| *until).min();
            return None;
        };
        let (_, packet) = self.held.remove(place)?;
        if self.held.is_empty() {
            self.active = now.saturating_add(FORGET);
        }
        Some(packet)
    }

    /// When the next packet goes on, if any is held.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        // Held when the router ends: neither sent nor lost.
        self.held.drain(..).for_each(|(_, packet)| packet.free_held());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn who_was_diverted_is_held_once_and_nobody_else() {
        let mut fence = Fence::new(10 * MS);
        assert!(!fence.is_active(0));
        fence.note(7, 5 * MS);
        assert!(fence.is_active(6 * MS) && !fence.is_active(5 * MS + FORGET));
        assert_eq!(fence.verdict(7, false, 900 * MS), Verdict::Pass, "to Linux as before");
        fence.note(7, 900 * MS);
        assert_eq!(fence.verdict(8, true, 901 * MS), Verdict::Pass);
        let held = Verdict::Hold(912 * MS);
        assert_eq!(fence.verdict(7, true, 902 * MS), held);
        assert_eq!(fence.verdict(7, false, 911 * MS), held, "behind those that are held");
        assert_eq!(fence.verdict(7, true, 912 * MS), Verdict::Pass);
        assert_eq!(fence.verdict(7, true, 913 * MS), Verdict::Pass, "and is forgotten");
    }

    #[test]
    fn what_was_diverted_long_ago_is_not_waited_for() {
        let mut fence = Fence::new(10 * MS);
        fence.note(7, 0);
        assert_eq!(fence.verdict(7, true, FORGET), Verdict::Pass);
        let mut off = Fence::new(0);
        off.note(7, 0);
        assert!(!off.is_active(0));
    }

    #[test]
    fn a_scan_forgets_the_oldest() {
        let mut fence = Fence::new(10 * MS);
        for key in 1..=5000 {
            fence.note(key, key);
        }
        let held = (1..=5000).filter(|key| fence.verdict(*key, true, 5001) != Verdict::Pass);
        let held: Vec<u64> = held.collect();
        assert!(held.len() <= SETS * PLACES && held.contains(&5000) && !held.contains(&1), "{held:?}");
    }
}
