//! What has changed in the tables, numbered, as far back as there is room; and who has followed how far.
//!
//! ```text
//!   tables ── watch ──▶ Ring: …, 41, 42, 43, 44     each a frame, written once for all nodes
//!      └── snapshot ──▶ frames, as of 43             for a node that has come for the first time, or has fallen behind
//! ```
//!
//! The tables themselves are the latest state: there is no second copy of it.

use super::change::{self, Topic};
use super::nodes::Nodes;
use crate::publish::Tables;
use fib::{Address, Adjacencies, AdjacencyEvent, Family, NextHopId, RouteEvent, RouteTable};
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// What a change takes beside its frame, about.
const OVERHEAD: usize = 64;

/// A frame that several share.
pub type Frame = Arc<[u8]>;

/// Wakes a thread when there is something new.
#[derive(Debug)]
pub struct Waker {
    fd: EventFd,
    awake: AtomicBool,
}

impl Waker {
    /// One that `fd` wakes.
    pub fn new(fd: EventFd) -> Waker {
        Waker { fd, awake: AtomicBool::new(false) }
    }

    /// What to wait for.
    pub fn fd(&self) -> &EventFd {
        &self.fd
    }

    /// Wakes, once until the next [`rest`](Self::rest).
    pub fn wake(&self) {
        if !self.awake.swap(true, Ordering::AcqRel) {
            // The counter cannot overflow by this.
            let _ = self.fd.write(1);
        }
    }

    /// To be called before looking for what is new.
    pub fn rest(&self) {
        if self.awake.load(Ordering::Acquire) {
            // Nothing to be read is as good.
            let _ = self.fd.read();
            self.awake.store(false, Ordering::Release);
        }
    }
}

/// Numbered changes, the newest ones.
#[derive(Debug)]
pub struct Ring {
    entries: Mutex<Entries>,
    /// Bytes that entries may have.
    room: usize,
}

#[derive(Debug, Default)]
struct Entries {
    /// The position of the newest. It begins at 1, where nothing has changed yet: 0 is that of a node that has nothing.
    position: u64,
    newest: VecDeque<(Topic, Frame)>,
    bytes: usize,
    wakers: Vec<Weak<Waker>>,
}

/// What comes after a position.
#[derive(Debug, Default)]
pub struct News {
    /// Frames with what each is about, the oldest first.
    pub frames: Vec<(u64, Topic, Frame)>,
    /// True if there is more than was asked for.
    pub more: bool,
}

impl Ring {
    fn new(room: usize) -> Ring {
        Ring { entries: Mutex::new(Entries { position: 1, ..Entries::default() }), room }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position of the newest change.
    pub fn position(&self) -> u64 {
        self.lock().position
    }

    /// How many changes can be had, and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let entries = self.lock();
        (entries.newest.len(), entries.bytes)
    }

    fn append(&self, topic: Topic, frames: Vec<Vec<u8>>) {
        let mut entries = self.lock();
        for mut frame in frames {
            entries.position += 1;
            change::stamp(&mut frame, entries.position);
            entries.bytes += frame.len() + OVERHEAD;
            entries.newest.push_back((topic, frame.into()));
        }
        while entries.bytes > self.room
            && let Some((_, oldest)) = entries.newest.pop_front()
        {
            entries.bytes -= oldest.len() + OVERHEAD;
        }
        entries.wakers.retain(|waker| match waker.upgrade() {
            Some(waker) => {
                waker.wake();
                true
            }
            None => false,
        });
    }

    /// Has `waker` woken by all changes from now on, as long as it lives.
    pub fn wake(&self, waker: &Arc<Waker>) {
        self.lock().wakers.push(Arc::downgrade(waker));
    }

    /// True if everything after this position can be had.
    pub fn has_all_after(&self, position: u64) -> bool {
        let entries = self.lock();
        position <= entries.position && entries.position - position <= entries.newest.len() as u64
    }

    /// What has changed after a position, up to some `bytes` of it; `None` if not all of it can be had any more.
    pub fn after(&self, position: u64, bytes: usize) -> Option<News> {
        let entries = self.lock();
        let count = entries.position.checked_sub(position)?;
        let skip = entries.newest.len().checked_sub(usize::try_from(count).ok()?)?;
        let (mut news, mut sum) = (News::default(), 0);
        for ((topic, frame), position) in entries.newest.range(skip..).zip(position + 1..) {
            if sum >= bytes {
                news.more = true;
                break;
            }
            sum += frame.len();
            news.frames.push((position, *topic, frame.clone()));
        }
        Some(news)
    }
}

/// All that there was at one moment for each table.
#[derive(Debug)]
pub struct Snapshot {
    /// In the order in which they can be followed: numbers, neighbours, groups, routes.
    pub frames: Vec<Frame>,
    /// The position of each `Topic`.
    pub positions: [u64; 4],
}

impl Snapshot {
    /// All that is in these tables; `note` says the position at a moment.
    pub fn of(tables: &Tables, note: impl Fn() -> u64) -> Snapshot {
        let Tables { routes4, adjacencies4, routes6, adjacencies6 } = tables;
        // Adjacencies first: the numbers of members of groups are then among those of the routes' moment.
        let (near4, near6) = (adjacencies4.snapshot(&note), adjacencies6.snapshot(&note));
        let (far4, far6) = (routes4.snapshot(&note), routes6.snapshot(&note));
        let mut frames: Vec<Frame> = Vec::new();
        let emit = &mut |frame: Vec<u8>| frames.push(frame.into());
        for (family, hops) in [(Family::Ipv4, &far4.next_hops), (Family::Ipv6, &far6.next_hops)] {
            let numbered = (0..).zip(hops).filter_map(|(index, hop)| Some((NextHopId::new(index)?, *hop)));
            change::next_hops(family, numbered, emit);
        }
        for (family, near) in [(Family::Ipv4, &near4), (Family::Ipv6, &near6)] {
            change::links(family, &near.mtus, near.seed, emit);
            change::adjacencies(family, near.adjacencies.iter().map(|(hop, one)| (*hop, Some(*one))), emit);
            change::groups(family, near.groups.iter().map(|(hop, group)| (*hop, Some(group))), emit);
        }
        change::routes(far4.rib.iter().map(|(prefix, hop)| (prefix, Some(hop))), emit);
        change::routes(far6.rib.iter().map(|(prefix, hop)| (prefix, Some(hop))), emit);
        let positions = [far4.note, far6.note, near4.note, near6.note];
        Snapshot { frames, positions }
    }

    /// With the changes up to here, it is how all tables were at this position.
    pub fn end(&self) -> u64 {
        self.positions.into_iter().max().unwrap_or(0)
    }

    /// With the changes from here on.
    pub fn begin(&self) -> u64 {
        self.positions.into_iter().min().unwrap_or(0)
    }
}

/// The changes of a router's tables, for nodes to follow. Dropping it ends the record.
pub struct Log {
    tables: Tables,
    ring: Arc<Ring>,
    life: u64,
    /// The last one, while someone sends it.
    snapshot: Mutex<Weak<Snapshot>>,
    /// Who follows.
    pub nodes: Nodes,
    start: Instant,
    ready: AtomicBool,
    term: AtomicU64,
}

impl Log {
    /// Room for some million changes of routes made many at a time, or half a million made one by one.
    pub const ROOM: usize = 64 << 20;

    /// Records what changes in `tables` from now on, the newest `room` bytes of it ([`ROOM`](Self::ROOM)).
    pub fn new(tables: &Tables, room: usize) -> Arc<Log> {
        let ring = Arc::new(Ring::new(room));
        watch_routes(&tables.routes4, &ring);
        watch_routes(&tables.routes6, &ring);
        watch_adjacencies(&tables.adjacencies4, Family::Ipv4, &ring);
        watch_adjacencies(&tables.adjacencies6, Family::Ipv6, &ring);
        // 0 is nobody's.
        let life = RandomState::new().hash_one(std::process::id()).max(1);
        Arc::new(Log {
            tables: tables.clone(),
            ring,
            life,
            snapshot: Mutex::default(),
            nodes: Nodes::default(),
            start: Instant::now(),
            ready: AtomicBool::new(false),
            term: AtomicU64::new(0),
        })
    }

    /// Which life of the tables this is: another one each time.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The changes.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The tables are whole: nodes can have them. Before, tables of a control node that has just been started would take
    /// routes from nodes that still have them.
    pub fn set_ready(&self) {
        if !self.ready.swap(true, Ordering::AcqRel) {
            self.ring.append(Topic::Routes(Family::Ipv4), Vec::new());
        }
    }

    /// True if the tables have been whole once.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The control node was elected for this term.
    pub fn set_term(&self, term: u64) {
        self.term.store(term, Ordering::Release);
    }

    /// The term that it was elected for; 0 if there are no elections.
    pub fn term(&self) -> u64 {
        self.term.load(Ordering::Acquire)
    }

    /// The time for [`Nodes`].
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The position up to which all nodes have everything.
    pub fn settled(&self) -> u64 {
        self.nodes.settled(self.ring.position(), self.now())
    }

    /// All that there is: what others are sending already, if what came since can be had.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        let mut last = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(snapshot) = last.upgrade().filter(|one| self.ring.has_all_after(one.begin())) {
            return snapshot;
        }
        let snapshot = Arc::new(Snapshot::of(&self.tables, || self.ring.position()));
        *last = Arc::downgrade(&snapshot);
        snapshot
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.tables.routes4.watch(None);
        self.tables.routes6.watch(None);
        self.tables.adjacencies4.watch(None);
        self.tables.adjacencies6.watch(None);
    }
}

fn watch_routes<A: Address>(table: &RouteTable<A>, ring: &Arc<Ring>) {
    let ring = ring.clone();
    table.watch(Some(Box::new(move |event| {
        let mut frames = Vec::new();
        let emit = &mut |frame| frames.push(frame);
        match event {
            RouteEvent::NextHops(hops) => change::next_hops(A::FAMILY, hops.iter().copied(), emit),
            RouteEvent::Routes(routes) => change::routes(routes.iter().copied(), emit),
        }
        ring.append(Topic::Routes(A::FAMILY), frames);
    })));
}

fn watch_adjacencies(adjacencies: &Adjacencies, family: Family, ring: &Arc<Ring>) {
    let ring = ring.clone();
    adjacencies.watch(Some(Box::new(move |event| {
        let mut frames = Vec::new();
        let emit = &mut |frame| frames.push(frame);
        match event {
            AdjacencyEvent::Changed(changes) => {
                change::adjacencies(family, changes.adjacencies.iter().copied(), emit);
                let groups = changes.groups.iter().map(|(hop, group)| (*hop, group.as_ref()));
                change::groups(family, groups, emit);
            }
            AdjacencyEvent::Links(mtus, seed) => change::links(family, mtus, seed, emit),
        }
        ring.append(Topic::Adjacencies(family), frames);
    })));
}
