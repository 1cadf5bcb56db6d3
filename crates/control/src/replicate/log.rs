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
use super::snapshot::Snapshot;
use super::watch;
use crate::publish::Tables;
use fib::Family;
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

    /// Numbers these frames, and wakes who waits for them.
    pub(super) fn append(&self, topic: Topic, frames: Vec<Vec<u8>>) {
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
        watch::begin(tables, &ring);
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
        watch::end(&self.tables);
    }
}
