//! The neighbours of an interface: which Ethernet address an IP address has, and packets that wait to learn it.
//!
//! Known addresses are read without locks. Everything else takes one lock: it happens when an address is unknown, has
//! grown old, or is learnt. Time comes in as an argument; what is to be done comes out as [`Effects`].

use super::asked::{Asked, QUERY_INTERVAL};
use super::effects::{Effects, Reason};
use super::neighbour_map::{Entry, Key, NeighbourMap};
use super::waiting::Waiting;
use epoch::Reader;
use graph::Nanos;
use packet::Packet;
use packet::wire::ethernet::{self, Mac};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Unknown addresses remembered at a time, so that a scan of a large network cannot fill memory.
const MAX_PENDING: usize = 65_536;
/// Stale items that the order of news may hold beside as many as there are live ones.
const SLACK: usize = 64;

/// How much a table holds and how long. 0 = no limit, for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Packets that wait in all.
    pub packets: usize,
    /// Packets that wait for one address.
    pub entry_packets: usize,
    /// Addresses, known and unknown.
    pub entries: usize,
    /// After so long without news an address is forgotten and a waiting packet given up.
    pub timeout: Nanos,
}

/// What the lock guards.
#[derive(Debug)]
struct State<K> {
    /// Addresses that are not known and have been asked for.
    pending: Asked<K>,
    /// Packets to pending addresses.
    waiting: Waiting<K>,
    /// News about known addresses, oldest first. Items whose address has gone, or of which there is later news, are stale, and
    /// skipped when they come to the front.
    learnt: VecDeque<(Nanos, K)>,
    /// What changes by handlers leave for a worker to do.
    left: Effects<K>,
}

impl<K> Default for State<K> {
    fn default() -> State<K> {
        State {
            pending: Asked::default(),
            waiting: Waiting::default(),
            learnt: VecDeque::new(),
            left: Effects::default(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Neighbours<K: Key> {
    known: NeighbourMap<K>,
    limits: Limits,
    state: Mutex<State<K>>,
}

impl<K: Key> Neighbours<K> {
    /// An empty table.
    pub fn new(limits: Limits) -> Neighbours<K> {
        Neighbours { known: NeighbourMap::default(), limits, state: Mutex::default() }
    }

    /// The Ethernet address of `ip`, if it is known and nothing has to be done about it.
    #[inline]
    pub fn fresh(&self, ip: K, now: Nanos, reader: &Reader) -> Option<Mac> {
        self.known.fresh(ip, now, reader)
    }

    /// Takes the lock for a number of changes. After `poll` without news an address in use is asked for again; 0 = never.
    pub fn lock(&self, poll: Nanos) -> Change<'_, K> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Change { known: &self.known, limits: &self.limits, poll, state }
    }
}

/// The table while it is being changed.
pub struct Change<'a, K: Key> {
    known: &'a NeighbourMap<K>,
    limits: &'a Limits,
    poll: Nanos,
    state: MutexGuard<'a, State<K>>,
}

fn is_past(since: Nanos, limit: Nanos, now: Nanos) -> bool {
    limit > 0 && now >= since.saturating_add(limit)
}

impl<K: Key> Change<'_, K> {
    /// Sends a packet to `ip`, or lets it wait and asks for the address.
    pub fn want(&mut self, ip: K, packet: Packet, now: Nanos, effects: &mut Effects<K>) {
        self.expire(now, effects);
        if let Some(entry) = self.known.get(ip) {
            if is_past(entry.updated, self.poll, now) && now >= entry.attention {
                effects.queries.push(ip);
                self.known.set_attention(ip, self.next_attention(entry.updated, now));
            }
            effects.sends.push((entry.mac, packet));
            return;
        }
        self.ask(ip, now, effects);
        self.hold(ip, packet, now, effects);
    }

    /// When an entry in use must be looked at again: to be polled or to be forgotten.
    fn next_attention(&self, updated: Nanos, now: Nanos) -> Nanos {
        let after = |limit: Nanos| if limit == 0 { Nanos::MAX } else { updated.saturating_add(limit) };
        let poll = after(self.poll);
        let poll = if now >= poll { now.saturating_add(QUERY_INTERVAL) } else { poll };
        poll.min(after(self.limits.timeout))
    }

    /// Makes sure that there is a pending entry, and queries if the last query is long enough ago.
    fn ask(&mut self, ip: K, now: Nanos, effects: &mut Effects<K>) {
        if !self.state.pending.contains(ip) {
            self.make_room(effects);
        } else if !self.state.pending.is_due(ip, now) {
            return;
        }
        self.state.pending.push(ip, now);
        effects.queries.push(ip);
    }

    /// Evicts the oldest entries, unknown ones first, until there is room for one more.
    fn make_room(&mut self, effects: &mut Effects<K>) {
        let entries = if self.limits.entries == 0 { usize::MAX } else { self.limits.entries };
        while self.state.pending.len() >= MAX_PENDING || self.entries() >= entries {
            let State { pending, waiting, learnt, .. } = &mut *self.state;
            let oldest_unknown = pending.pop_query();
            if let Some(ip) = oldest_unknown.or_else(|| waiting.oldest().map(|(_, ip)| ip)) {
                self.give_up(ip, Reason::Overflow, effects);
            } else if let Some((updated, ip)) = learnt.pop_front() {
                self.forget(ip, updated);
            } else {
                return;
            }
        }
    }

    /// Lets a packet wait for a pending address.
    fn hold(&mut self, ip: K, packet: Packet, now: Nanos, effects: &mut Effects<K>) {
        let Limits { packets, entry_packets, .. } = *self.limits;
        let waiting = &mut self.state.waiting;
        if entry_packets > 0
            && waiting.len_of(ip) >= entry_packets
            && let Some(oldest) = waiting.pop(ip)
        {
            effects.lost.push((oldest, Reason::Overflow));
        }
        waiting.push(ip, packet, now);
        if packets > 0
            && waiting.len() > packets
            && let Some((_, oldest)) = waiting.oldest()
        {
            self.drop_oldest(oldest, now, Reason::Overflow, effects);
        }
    }

    /// Gives up the packet that has waited longest for an address, and the address with the last one unless it was asked
    /// for just now.
    fn drop_oldest(&mut self, ip: K, now: Nanos, reason: Reason, effects: &mut Effects<K>) {
        let State { waiting, pending, .. } = &mut *self.state;
        effects.lost.extend(waiting.pop(ip).map(|packet| (packet, reason)));
        if waiting.len_of(ip) == 0 && pending.is_due(ip, now) {
            pending.remove(ip);
        }
    }

    /// Gives up a pending address with its packets.
    fn give_up(&mut self, ip: K, reason: Reason, effects: &mut Effects<K>) -> bool {
        let was_pending = self.state.pending.remove(ip);
        effects.lost.extend(self.state.waiting.take(ip).map(|packet| (packet, reason)));
        was_pending
    }

    /// Forgets a known entry unless it is newer than this.
    fn forget(&mut self, ip: K, updated: Nanos) -> bool {
        let current = self.known.get(ip).is_some_and(|e| e.updated == updated);
        current && self.known.remove(ip)
    }

    /// The Ethernet address of `ip` if it is known, fresh or not.
    pub fn known(&self, ip: K) -> Option<Mac> {
        self.known.get(ip).map(|entry| entry.mac)
    }

    /// Takes in what a reply says. False, and nothing changed, if nobody has asked for the address.
    pub fn learn(&mut self, ip: K, mac: Mac, now: Nanos, effects: &mut Effects<K>) -> bool {
        if !self.state.pending.contains(ip) && self.known.get(ip).is_none() {
            return false;
        }
        self.insert(ip, mac, now, effects);
        true
    }

    /// Makes an address known, and lets packets go that wait for it.
    pub fn insert(&mut self, ip: K, mac: Mac, now: Nanos, effects: &mut Effects<K>) {
        let attention = self.next_attention(now, now);
        if !self.state.pending.contains(ip) && self.known.get(ip).is_none() {
            self.make_room(effects);
        }
        self.known.insert(ip, Entry { mac, updated: now, attention });
        let known = self.known;
        let state = &mut *self.state;
        state.learnt.push_back((now, ip));
        if state.learnt.len() > 2 * known.len() + SLACK {
            state.learnt.retain(|(updated, ip)| known.get(*ip).is_some_and(|e| e.updated == *updated));
        }
        state.pending.remove(ip);
        effects.sends.extend(state.waiting.take(ip).map(|packet| (mac, packet)));
    }

    /// Removes an address; false if it is not there.
    pub fn remove(&mut self, ip: K, effects: &mut Effects<K>) -> bool {
        let pending = self.give_up(ip, Reason::Removed, effects);
        self.known.remove(ip) || pending
    }

    /// Removes all addresses.
    pub fn clear(&mut self, effects: &mut Effects<K>) {
        self.known.clear();
        let state = &mut *self.state;
        effects.lost.extend(state.waiting.take_all().map(|packet| (packet, Reason::Removed)));
        state.pending.clear();
        state.learnt.clear();
    }

    /// Forgets what is too old.
    pub fn expire(&mut self, now: Nanos, effects: &mut Effects<K>) {
        let timeout = self.limits.timeout;
        while let Some((since, ip)) = self.state.waiting.oldest()
            && is_past(since, timeout, now)
        {
            self.drop_oldest(ip, now, Reason::Timeout, effects);
        }
        let State { pending, waiting, .. } = &mut *self.state;
        pending.expire(now, |ip| waiting.len_of(ip) > 0);
        while let Some(&(updated, ip)) = self.state.learnt.front()
            && is_past(updated, timeout, now)
        {
            self.state.learnt.pop_front();
            self.forget(ip, updated);
        }
    }

    /// When the next waiting packet will have to be given up.
    pub fn next_timeout(&mut self) -> Option<Nanos> {
        let (since, _) = self.state.waiting.oldest()?;
        (self.limits.timeout > 0).then(|| since.saturating_add(self.limits.timeout))
    }

    /// Known and unknown addresses.
    pub fn entries(&self) -> usize {
        self.known.len() + self.state.pending.len()
    }

    /// Packets that wait.
    pub fn packets(&self) -> usize {
        self.state.waiting.len()
    }

    /// Leaves effects for a worker to carry out.
    pub fn leave(&mut self, effects: Effects<K>) {
        self.state.left.append(effects);
    }

    /// Takes the effects that were left.
    pub fn take_left(&mut self) -> Effects<K> {
        std::mem::take(&mut self.state.left)
    }

    /// Takes out all packets, at the end.
    pub fn take_packets(&mut self) -> Vec<Packet> {
        let state = &mut *self.state;
        state.pending.clear();
        let mut packets: Vec<Packet> = state.waiting.take_all().collect();
        packets.extend(std::mem::take(&mut state.left).into_packets());
        packets
    }

    /// One line an address, in order: address, 1 if known, Ethernet address, seconds since the last news (since the
    /// last query if unknown).
    pub fn text(&self, now: Nanos) -> String {
        let known = self.known.all().into_iter().map(|(ip, e)| (ip, 1, e.mac, e.updated));
        let pending = self.state.pending.iter().map(|(ip, asked)| (ip, 0, [0; 6], asked));
        let mut rows: Vec<(K, u8, Mac, Nanos)> = known.chain(pending).collect();
        rows.sort_unstable();
        rows.iter().fold(String::new(), |mut text, (ip, valid, mac, since)| {
            let micros = now.saturating_sub(*since) / 1000;
            let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
            let (ip, mac) = (ip.ip(), ethernet::text(mac));
            let _ = writeln!(text, "{ip} {valid} {mac} {seconds}.{micros:06}");
            text
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::SECOND;
    use packet::Pool;

    const LIMITS: Limits = Limits { packets: 4, entry_packets: 0, entries: 0, timeout: 300 * SECOND };
    const POLL: Nanos = 60 * SECOND;

    /// A table and what it has asked for, as text: `send MAC ID`, `query IP`, `lost REASON ID`.
    struct Rig {
        table: Neighbours<u32>,
        poll: Nanos,
        pool: Pool,
        next: u8,
    }

    impl Rig {
        fn new(limits: Limits) -> Rig {
            Rig { table: Neighbours::new(limits), poll: POLL, pool: Pool::heap(100, 200), next: 0 }
        }

        fn told(&self, effects: Effects<u32>) -> String {
            let mut told = Vec::new();
            for (mac, packet) in effects.sends {
                told.push(format!("send {} {}", mac[5], packet.data()[0]));
                packet.free();
            }
            told.extend(effects.queries.iter().map(|ip| format!("query {ip}")));
            for (packet, reason) in effects.lost {
                told.push(format!("lost {reason:?} {}", packet.data()[0]));
                packet.free();
            }
            told.join(", ")
        }

        /// Packets are numbered from 1.
        fn want(&mut self, ip: u32, at: Nanos) -> String {
            self.next = self.next.wrapping_add(1);
            let mut effects = Effects::default();
            let packet = self.pool.packet(&[self.next]).unwrap();
            self.table.lock(self.poll).want(ip, packet, at, &mut effects);
            self.told(effects)
        }

        fn learn(&mut self, ip: u32, mac: u8, at: Nanos) -> Option<String> {
            let mut effects = Effects::default();
            let learnt = self.table.lock(self.poll).learn(ip, [2, 0, 0, 0, 0, mac], at, &mut effects);
            let told = self.told(effects);
            learnt.then_some(told)
        }

        fn expire(&mut self, at: Nanos) -> String {
            let mut effects = Effects::default();
            self.table.lock(self.poll).expire(at, &mut effects);
            self.told(effects)
        }

        fn state(&self) -> (usize, usize) {
            let change = self.table.lock(self.poll);
            (change.entries(), change.packets())
        }
    }

    impl Drop for Rig {
        fn drop(&mut self) {
            self.table.lock(self.poll).take_packets().into_iter().for_each(Packet::free);
            assert_eq!(self.pool.in_use(), 0);
        }
    }

    const S: Nanos = SECOND;

    #[test]
    fn packets_wait_in_order_with_one_query_a_second() {
        let mut rig = Rig::new(LIMITS);
        assert_eq!(rig.want(7, 0), "query 7");
        assert_eq!(rig.want(7, S - 1), "");
        assert_eq!(rig.want(7, S), "query 7");
        assert_eq!(rig.learn(8, 8, S), None);
        assert_eq!(rig.state(), (1, 3));
        assert_eq!(rig.learn(7, 9, 2 * S).as_deref(), Some("send 9 1, send 9 2, send 9 3"));
        assert_eq!(rig.want(7, 3 * S), "send 9 4");
        assert_eq!(rig.state(), (1, 0));
        assert_eq!(rig.learn(7, 5, 3 * S).as_deref(), Some(""));
        assert_eq!(rig.want(7, 3 * S), "send 5 5");
    }

    #[test]
    fn the_oldest_packet_is_given_up_when_too_many_wait() {
        let mut rig = Rig::new(LIMITS);
        for (ip, told) in [(1, "query 1"), (2, "query 2"), (1, ""), (3, "query 3")] {
            assert_eq!(rig.want(ip, 0), told);
        }
        assert_eq!(rig.want(3, 0), "lost Overflow 1");
        assert_eq!(rig.want(3, 0), "lost Overflow 2");
        // Address 2 has no packets any more, but its last query still counts.
        assert_eq!(rig.want(2, S - 1), "lost Overflow 3");
        assert_eq!(rig.state(), (3, 4));
        assert_eq!(rig.learn(2, 2, S).as_deref(), Some("send 2 7"));
        assert_eq!(rig.expire(S), "");
        assert_eq!(rig.learn(1, 1, S), None, "idle and forgotten");
    }

    #[test]
    fn one_address_may_have_a_limit_of_its_own() {
        let mut rig = Rig::new(Limits { entry_packets: 2, packets: 0, ..LIMITS });
        assert_eq!(rig.want(1, 0), "query 1");
        assert_eq!(rig.want(1, 0), "");
        assert_eq!(rig.want(1, 0), "lost Overflow 1");
        assert_eq!(rig.want(2, 0), "query 2");
        assert_eq!(rig.learn(1, 1, 0).as_deref(), Some("send 1 2, send 1 3"));
    }

    #[test]
    fn entries_time_out_and_waiting_packets_too() {
        let mut rig = Rig::new(LIMITS);
        rig.want(1, 0);
        rig.want(1, 10 * S);
        rig.want(2, 20 * S);
        rig.learn(2, 2, 20 * S);
        assert_eq!(rig.table.lock(rig.poll).next_timeout(), Some(300 * S));
        assert_eq!(rig.expire(300 * S - 1), "");
        assert_eq!(rig.expire(300 * S), "lost Timeout 1");
        assert_eq!(rig.expire(310 * S), "lost Timeout 2");
        assert_eq!(rig.state(), (1, 0));
        assert_eq!(rig.table.lock(rig.poll).next_timeout(), None);
        assert_eq!(rig.want(2, 320 * S), "query 2", "forgotten, so asked again");
        let mut rig = Rig::new(Limits { timeout: 0, ..LIMITS });
        rig.want(1, 0);
        assert_eq!((rig.expire(Nanos::MAX), rig.table.lock(rig.poll).next_timeout()), (String::new(), None));
    }

    #[test]
    fn addresses_in_use_are_polled() {
        let mut rig = Rig::new(LIMITS);
        let reader = Reader::new();
        rig.want(1, 0);
        rig.learn(1, 1, 0);
        assert_eq!(rig.table.fresh(1, 60 * S - 1, &reader), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(rig.table.fresh(1, 60 * S, &reader), None);
        assert_eq!(rig.want(1, 60 * S), "send 1 2, query 1");
        assert_eq!(rig.table.fresh(1, 61 * S - 1, &reader), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(rig.want(1, 61 * S - 1), "send 1 3");
        assert_eq!(rig.want(1, 61 * S), "send 1 4, query 1");
        rig.learn(1, 1, 62 * S);
        assert_eq!(rig.want(1, 100 * S), "send 1 5");
        let mut rig = Rig::new(LIMITS);
        rig.poll = 0;
        rig.want(1, 0);
        rig.learn(1, 1, 0);
        assert_eq!(rig.table.fresh(1, 300 * S - 1, &reader), Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(rig.want(1, 300 * S), "query 1");
    }

    #[test]
    fn entries_have_a_limit() {
        let mut rig = Rig::new(Limits { entries: 2, ..LIMITS });
        rig.want(1, 0);
        rig.learn(1, 1, 0);
        rig.want(2, 0);
        assert_eq!(rig.want(3, 0), "query 3, lost Overflow 2", "the unknown one goes first");
        rig.learn(3, 3, 0);
        assert_eq!(rig.want(4, 0), "query 4", "the known one with the oldest news goes next");
        assert_eq!((rig.learn(1, 1, 0), rig.state()), (None, (2, 1)));
        rig.table.lock(rig.poll).insert(9, [9; 6], 0, &mut Effects::default());
    }

    #[test]
    fn removing_gives_packets_up() {
        let mut rig = Rig::new(LIMITS);
        rig.want(1, 0);
        rig.want(2, 0);
        let mut effects = Effects::default();
        assert!(rig.table.lock(rig.poll).remove(1, &mut effects));
        assert!(!rig.table.lock(rig.poll).remove(1, &mut effects));
        assert_eq!(rig.told(effects), "lost Removed 1");
        rig.learn(2, 2, 0);
        rig.want(3, 0);
        let mut effects = Effects::default();
        rig.table.lock(rig.poll).clear(&mut effects);
        assert_eq!((rig.told(effects), rig.state()), ("lost Removed 3".to_owned(), (0, 0)));
    }

    #[test]
    fn the_text_is_in_order() {
        let mut rig = Rig::new(LIMITS);
        rig.want(0x0a00_0002, 0);
        rig.want(0x0a00_0001, S);
        rig.learn(0x0a00_0001, 7, 2 * S);
        assert_eq!(
            rig.table.lock(rig.poll).text(2 * S + S / 2),
            "10.0.0.1 1 02-00-00-00-00-07 0.500000\n10.0.0.2 0 00-00-00-00-00-00 2.500000\n"
        );
    }

    #[test]
    fn orders_do_not_grow_without_bound() {
        let mut rig = Rig::new(Limits { entries: 3, ..LIMITS });
        rig.want(99, 0);
        for i in 0..1000 {
            rig.want(1, i);
            rig.learn(1, 1, i);
        }
        let change = rig.table.lock(rig.poll);
        assert!(change.state.learnt.len() <= 2 + SLACK + 1, "{}", change.state.learnt.len());
    }
}
