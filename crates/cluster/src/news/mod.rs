//! News of far links: which links of a k-ary n-fly are down that are not this node's own, and which nodes drain.
//!
//! A node hears from its neighbours which of its own links are up ([`crate::liveness`]). In a fly it sends packets by links
//! further on, too. So each node says of itself which of its links are up, under its incarnation and a number, and everyone
//! passes on what is newer than what he had (flooding, as OSPF has it, RFC 2328 §13). This stands in hellos, behind the
//! sender's [`crate::message::Neighbours`]; who does not know of news ignores it.
//!
//! - **A link is down if one of its ends says so**, and up otherwise: also if nobody says anything, as for nodes that do not
//!   know of news. The first link of a way that leaves what this node can reach has an end that it does hear, and that says
//!   so; hence news that nobody renews may be forgotten, and what far nodes said before they were cut off does no harm.
//! - **Down holds at once, up later** ([`Timing::settle`]), the later the further in front a node's column is: who sends by a link
//!   does so only when those that must choose it behind him know of it, too. That goes for own links as well: they can be
//!   on the second way of what this node sends on a first one.
//! - **Who drains is avoided** where another way leads there, from when that is heard on. It goes on sending what others have it send, so
//!   nothing has to settle.
//! - **What changed goes out at once** ([`News::is_fresh`]) and again with the next hellos, [`REPEATS`] times in all. Everything
//!   else that is known takes turns, a few records in each hello, so that what was lost comes later.
//! - **News ages.** Each node renews its own every [`Timing::refresh`]; after [`Timing::lifetime`] it is forgotten. The age
//!   travels with it and is rounded up, so nothing lives on by going in circles.
//! - **Numbers of this node that are not its own** (it was started again, or somebody wrote nonsense) it answers with a
//!   newer one.
//!
//! What is kept is one entry for each node of the fly, whatever comes. Time is an argument.

mod table;
mod wire;

#[cfg(test)]
mod tests;

pub use table::Said;
pub use wire::{AGE_UNIT, MOST, NewsError, Record, VERSION, read, write};

use crate::header::INCARNATIONS;
use crate::shares::Links;
use crate::topology::Topology;
use table::Heard;

/// Hellos to a neighbour in a row that carry what changed.
pub const REPEATS: u8 = 3;

/// Hellos after which a link that came up is used by its own ends.
const OWN_SETTLE: u64 = 3;

/// Times that follow from the size of a fly and the time between hellos, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Records in each hello that did not change.
    pub turns: usize,
    /// How often a node renews what it says.
    pub refresh: u64,
    /// The age at which news is forgotten.
    pub lifetime: u64,
    /// After what time a far link that came up is used.
    pub settle: u64,
    hello: u64,
}

impl Timing {
    /// Those of a node of a fly with a hello every `hello` nanoseconds.
    pub fn new(topology: &Topology, me: u16, hello: u64) -> Timing {
        let nodes = usize::from(topology.nodes());
        let turns = (nodes / 16).clamp(4, MOST);
        let columns = u64::from(topology.columns());
        let round = nodes.div_ceil(turns) as u64;
        let hellos = |count: u64| hello.max(1).saturating_mul(count);
        // A record crosses the fly in at most 2n rounds, if none is lost.
        let lifetime = hellos(round.saturating_mul(4 * (8 + 2 * columns)));
        let behind = columns - 1 - u64::from(topology.column(me));
        Timing {
            turns,
            refresh: hellos(8 * round),
            lifetime: lifetime.min(AGE_UNIT * u64::from(u16::MAX)),
            settle: hellos((OWN_SETTLE + columns) * behind),
            hello: hello.max(1),
        }
    }
}

/// A life of a node that was not known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// The node.
    pub node: u16,
    /// Its incarnation.
    pub incarnation: u8,
    /// Another life of it was known.
    pub is_another: bool,
}

/// What news changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// [`News::limit`] says something else.
    pub links: bool,
    /// At most one for each record of a hello.
    pub lives: Vec<Life>,
}

/// What one neighbour is to be told.
#[derive(Debug, Clone)]
struct Due {
    /// By origin: how many more hellos are to have it.
    left: Box<[u8]>,
    /// Something of it has not been in any hello yet.
    fresh: bool,
    /// The origin whose turn was the last.
    turn: u16,
}

/// What one node of a fly knows of the links of the others, and says of its own.
#[derive(Debug, Clone)]
pub struct News {
    topology: Topology,
    me: u16,
    timing: Timing,
    /// What this node says of itself; its age is not used.
    own: Record,
    /// When it said so.
    said: u64,
    /// Those of its own links that are used, and when all are that are up: they may be second links of a way, too.
    used: u128,
    settles: Option<u64>,
    neighbours: Box<[u16]>,
    /// By neighbour.
    due: Vec<Due>,
    /// By origin.
    heard: Box<[Option<Heard>]>,
    /// By origin: its last life that was heard of.
    lives: Box<[Option<u8>]>,
    /// When [`News::poll`] was called last.
    polled: u64,
    /// When it next looks at what is heard.
    look: u64,
}

impl News {
    /// A node in its `incarnation`, none of whose links is up yet. `None` in a full mesh, where neighbours say enough.
    pub fn new(topology: Topology, me: u16, incarnation: u8, hello: u64) -> Option<News> {
        if topology.is_mesh() || me >= topology.nodes() {
            return None;
        }
        let nodes = usize::from(topology.nodes());
        let neighbours: Box<[u16]> = topology.neighbours(me).into();
        let due = Due { left: vec![0; nodes].into(), fresh: false, turn: 0 };
        Some(News {
            topology,
            me,
            timing: Timing::new(&topology, me, hello),
            own: Record {
                origin: me,
                incarnation: incarnation % INCARNATIONS,
                sequence: 0,
                age: 0,
                up: 0,
                drains: false,
            },
            said: 0,
            used: 0,
            settles: None,
            due: vec![due; neighbours.len()],
            neighbours,
            heard: vec![None; nodes].into(),
            lives: vec![None; nodes].into(),
            polled: 0,
            look: 0,
        })
    }

    /// This node's link to a neighbour is up, or down, from now on. Who has just come is told everything.
    pub fn set_link(&mut self, peer: u16, up: bool, now: u64) {
        let Some(place) = self.place(peer) else { return };
        let bit = 1 << place;
        let bits = if up { self.own.up | bit } else { self.own.up & !bit };
        if bits == self.own.up {
            return;
        }
        self.own.up = bits;
        self.used &= bits;
        self.settles = (self.used != bits).then(|| now.saturating_add(self.timing.settle));
        self.settle(now);
        self.say(now);
        self.tell(self.me, None);
        if up {
            let heard = &self.heard;
            let Due { left, fresh, .. } = &mut self.due[place];
            left.iter_mut().zip(heard).filter(|(_, heard)| heard.is_some()).for_each(|(left, _)| {
                *left = REPEATS;
                *fresh = true;
            });
        }
    }

    /// This node drains, or does not any more, from now on. True if that is new, and [`News::limit`] says something else.
    pub fn set_drains(&mut self, drains: bool, now: u64) -> bool {
        let changed = std::mem::replace(&mut self.own.drains, drains) != drains;
        if changed {
            self.say(now);
            self.tell(self.me, None);
        }
        changed
    }

    /// Whether a neighbour is to be sent a hello now, before the next one is due.
    pub fn is_fresh(&self, peer: u16) -> bool {
        self.place(peer).is_some_and(|place| self.due[place].fresh)
    }

    /// Adds to a hello to a neighbour what it is to be told.
    pub fn write(&mut self, peer: u16, now: u64, out: &mut Vec<u8>) {
        let Some(place) = self.place(peer) else { return };
        let mut chosen: Vec<u16> = Vec::with_capacity(MOST);
        let due = &mut self.due[place];
        if due.left.iter().any(|&left| left > 0) {
            // What was told least goes first.
            for times in (1..=REPEATS).rev() {
                for (origin, left) in (0..).zip(&mut due.left).filter(|(_, left)| **left == times) {
                    if chosen.len() < MOST && !chosen.contains(&origin) {
                        chosen.push(origin);
                        *left -= 1;
                    }
                }
            }
            due.fresh = due.left.contains(&REPEATS);
        }
        let (nodes, mut turns) = (self.topology.nodes(), self.timing.turns);
        let mut turn = due.turn;
        for _ in 0..nodes {
            if turns == 0 || chosen.len() >= MOST {
                break;
            }
            turn = if turn + 1 < nodes { turn + 1 } else { 0 };
            let is_known = turn == self.me || self.heard[usize::from(turn)].is_some();
            if is_known && !chosen.contains(&turn) {
                chosen.push(turn);
                turns -= 1;
            }
        }
        due.turn = turn;
        let records: Vec<Record> = chosen.into_iter().filter_map(|origin| self.record(origin, now)).collect();
        write(&self.topology, &records, out);
    }

    /// Takes in what a hello of a neighbour has behind its neighbours.
    ///
    /// # Errors
    /// If something of it is out of range; then nothing of it is taken in.
    pub fn read(&mut self, peer: u16, bytes: &[u8], now: u64) -> Result<Changes, NewsError> {
        let records = read(&self.topology, bytes)?;
        let from = self.place(peer);
        let mut changes = Changes::default();
        for record in &records {
            if record.origin == self.me {
                self.answer(record, now);
            } else {
                self.take(record, from, now, &mut changes);
            }
        }
        Ok(changes)
    }

    /// Lets time pass: says what is to be said again, forgets what is old, takes up what is settled. To be called several
    /// times in each hello. True if [`News::limit`] says something else.
    pub fn poll(&mut self, now: u64) -> bool {
        let gone = now.saturating_sub(std::mem::replace(&mut self.polled, now));
        if gone > self.timing.hello {
            // What came meanwhile has not been read yet, and nothing is old for that.
            self.heard.iter_mut().flatten().for_each(|heard| heard.absent(gone));
        }
        if now.saturating_sub(self.said) >= self.timing.refresh {
            self.say(now);
        }
        if now < self.look {
            return false;
        }
        self.look = now.saturating_add(self.timing.hello / 4);
        let mut changed = self.settle(now);
        for (origin, entry) in (0..).zip(&mut self.heard) {
            let Some(heard) = entry else { continue };
            changed |= heard.settle(now);
            if heard.age(now) >= self.timing.lifetime {
                changed |= heard.drains || heard.used != wire::all(self.topology.neighbours(origin).len());
                *entry = None;
            }
        }
        changed
    }

    /// All links that are up are used from now on, as at the beginning of a whole cluster.
    pub fn begin(&mut self) {
        (self.used, self.settles) = (self.own.up, None);
    }

    /// Takes out all links that are not to be used, in both directions, and has those avoided that drain.
    pub fn limit(&self, links: &mut Links) {
        self.drains().for_each(|node| links.avoid(node));
        let own = self.neighbours.iter().enumerate().filter(|(place, _)| self.used & 1 << place == 0);
        let far = self.down().map(|(a, b, _)| (a, b));
        for (a, b) in far.chain(own.map(|(_, peer)| (self.me, *peer))) {
            for (from, to) in [(a, b), (b, a)] {
                self.topology.link_to(from, to).into_iter().for_each(|link| links.set(from, link, 0));
            }
        }
    }

    /// The far links that are not used because an end says that they are down, or was the last to say that they are up: who
    /// says so, and the other end; whether it is up, and only settles.
    pub fn down(&self) -> impl Iterator<Item = (u16, u16, bool)> {
        let known = (0..).zip(&self.heard).filter_map(|(origin, heard)| Some((origin, heard.as_ref()?)));
        known.flat_map(|(origin, heard)| {
            let peers = self.topology.neighbours(origin).into_iter().enumerate();
            let down = peers.filter(|&(place, peer)| peer != self.me && heard.used & 1 << place == 0);
            down.map(move |(place, peer)| (origin, peer, heard.up & 1 << place != 0))
        })
    }

    /// The nodes that drain, this one among them.
    pub fn drains(&self) -> impl Iterator<Item = u16> {
        let others =
            (0..).zip(&self.heard).filter(|(_, heard)| heard.as_ref().is_some_and(|heard| heard.drains));
        others.map(|(node, _)| node).chain(self.own.drains.then_some(self.me))
    }

    /// What every other node was heard to say last, by its number; `None` if nothing.
    pub fn said(&self, now: u64) -> impl Iterator<Item = Option<Said>> {
        self.heard.iter().map(move |heard| heard.as_ref().map(|heard| heard.said(now)))
    }

    /// Takes up own links if it is time. True if there were any.
    fn settle(&mut self, now: u64) -> bool {
        self.settles.take_if(|at| *at <= now).is_some()
            && std::mem::replace(&mut self.used, self.own.up) != self.own.up
    }

    fn place(&self, peer: u16) -> Option<usize> {
        self.neighbours.binary_search(&peer).ok()
    }

    /// This node says something new of itself, or the same again.
    fn say(&mut self, now: u64) {
        self.own.sequence = self.own.sequence.wrapping_add(1);
        self.said = now;
    }

    /// All neighbours but one are to hear of an origin at once.
    fn tell(&mut self, origin: u16, but: Option<usize>) {
        for (place, due) in self.due.iter_mut().enumerate().filter(|(place, _)| Some(*place) != but) {
            due.left[usize::from(origin)] = REPEATS;
            // Who does not hear anything is told when the link comes up.
            due.fresh |= self.own.up & 1 << place != 0;
        }
    }

    /// What an origin says, as it is passed on.
    fn record(&self, origin: u16, now: u64) -> Option<Record> {
        if origin == self.me {
            return Some(Record { age: table::units(now.saturating_sub(self.said)), ..self.own });
        }
        Some(self.heard.get(usize::from(origin))?.as_ref()?.record(origin, now))
    }

    /// Somebody heard something of this node that it did not say, or before this life.
    fn answer(&mut self, record: &Record, now: u64) {
        if record.incarnation != self.own.incarnation {
            self.due.iter_mut().for_each(|due| due.left[usize::from(self.me)] = REPEATS - 1);
        } else if table::is_later(record.sequence, self.own.sequence)
            || (record.sequence == self.own.sequence && record.drains && !self.own.drains)
        {
            self.own.sequence = record.sequence;
            self.say(now);
            self.tell(self.me, None);
        }
    }

    fn take(&mut self, record: &Record, from: Option<usize>, now: u64, changes: &mut Changes) {
        if u64::from(record.age).saturating_mul(AGE_UNIT) >= self.timing.lifetime {
            return;
        }
        let origin = usize::from(record.origin);
        let before = self.heard[origin].as_ref();
        if before.is_some_and(|before| !before.is_older_than(record)) {
            return;
        }
        let all = wire::all(self.topology.neighbours(record.origin).len());
        let after = Heard::new(record, before, all, now, self.timing.settle);
        changes.links |=
            before.map_or((all, false), |before| (before.used, before.drains)) != (after.used, after.drains);
        let says_more = before.is_none_or(|before| before.says_other_than(record));
        self.heard[origin] = Some(after);
        let last = self.lives[origin].replace(record.incarnation);
        if last != Some(record.incarnation) {
            let (node, incarnation) = (record.origin, record.incarnation);
            changes.lives.push(Life { node, incarnation, is_another: last.is_some() });
        }
        if says_more {
            self.tell(record.origin, from);
        }
    }
}
