//! What was heard of one node.

use super::wire::{AGE_UNIT, Record};
use crate::header::INCARNATIONS;

/// What a node was heard to say last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// In which life.
    pub incarnation: u8,
    /// How long ago, in nanoseconds.
    pub age: u64,
    /// How many of its links are up.
    pub up: u32,
    /// It asks not to be on the way of what is not for it.
    pub drains: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Heard {
    incarnation: u8,
    sequence: u32,
    /// When its origin said it, by this node's clock.
    at: u64,
    pub up: u128,
    /// Those of them that are used: links that came up are not until later.
    pub used: u128,
    /// When all of them are.
    settles: Option<u64>,
    pub drains: bool,
}

/// Whether a number comes after another one (RFC 1982 §3.2).
pub(super) fn is_later(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// Nanoseconds as they are written: nothing looks younger than it is.
pub(super) fn units(age: u64) -> u16 {
    u16::try_from(age.div_ceil(AGE_UNIT)).unwrap_or(u16::MAX)
}

impl Heard {
    /// What there is now that a node says this. `before`: what it said before; until then all links counted as up.
    pub fn new(record: &Record, before: Option<&Heard>, all: u128, now: u64, settle: u64) -> Heard {
        let age = u64::from(record.age).saturating_mul(AGE_UNIT);
        let used = before.map_or(all, |before| before.used) & record.up;
        let settles = match before {
            _ if used == record.up => None,
            // It is only said again.
            Some(before) if before.up == record.up => before.settles,
            _ => Some(now.saturating_add(settle)),
        };
        let Record { incarnation, sequence, up, drains, .. } = *record;
        let mut heard =
            Heard { incarnation, sequence, at: now.saturating_sub(age), up, used, settles, drains };
        if settle == 0 {
            heard.settle(now);
        }
        heard
    }

    /// Whether a record comes after this: of a later life, or later in the same. Lives are numbered in a small circle; one that
    /// seems to be earlier is believed when this is forgotten. Nodes of the version before pass records on without saying who
    /// drains, so one that does say it comes after the same that does not.
    pub fn is_older_than(&self, record: &Record) -> bool {
        match (record.incarnation + INCARNATIONS - self.incarnation) % INCARNATIONS {
            0 if record.sequence == self.sequence => record.drains && !self.drains,
            0 => is_later(record.sequence, self.sequence),
            ahead => ahead < INCARNATIONS / 2,
        }
    }

    /// Whether a record says something else than this.
    pub fn says_other_than(&self, record: &Record) -> bool {
        (self.incarnation, self.up, self.drains) != (record.incarnation, record.up, record.drains)
    }

    /// Nobody listened for so many nanoseconds.
    pub fn absent(&mut self, nanos: u64) {
        self.at = self.at.saturating_add(nanos);
    }

    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.at)
    }

    /// Takes up what has come up if it is time. True if that was something.
    pub fn settle(&mut self, now: u64) -> bool {
        self.settles.take_if(|at| *at <= now).is_some()
            && std::mem::replace(&mut self.used, self.up) != self.up
    }

    pub fn record(&self, origin: u16, now: u64) -> Record {
        let Heard { incarnation, sequence, up, drains, .. } = *self;
        Record { origin, incarnation, sequence, age: units(self.age(now)), up, drains }
    }

    pub fn said(&self, now: u64) -> Said {
        let Heard { incarnation, drains, .. } = *self;
        Said { incarnation, age: self.age(now), up: self.up.count_ones(), drains }
    }
}
