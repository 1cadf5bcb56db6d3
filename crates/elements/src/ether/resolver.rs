//! What `ARPQuerier` and `IP6NDSolicitor` have in common: packets get the Ethernet header of their neighbour, or wait while it
//! is asked for its address.

use super::effects::{Effects, Reason};
use super::neighbour_map::Key;
use super::neighbour_table::NeighbourTable;
use super::neighbours::Change;
use epoch::{Count, PerWorker};
use graph::{Cx, Loss, Nanos, Out};
use packet::wire::ethernet::{HEADER_LEN, Mac};
use packet::{Batch, Packet, Pool};

/// Why packets are lost.
pub const LOSSES: &[&str] = &[
    "unresolved_overflow",
    "timeout",
    "removed",
    "no_destination",
    "bad_reply",
    "not_asked",
    "no_room",
    "no_buffer",
];
const OVERFLOW: Loss = Loss(0);
const TIMEOUT: Loss = Loss(1);
const REMOVED: Loss = Loss(2);
const NO_DESTINATION: Loss = Loss(3);
const BAD_REPLY: Loss = Loss(4);
const NOT_ASKED: Loss = Loss(5);
const NO_ROOM: Loss = Loss(6);
const NO_BUFFER: Loss = Loss(7);

/// Questions, answers, packets lost.
pub type Counts = PerWorker<[Count; 3]>;
/// Indices into the counts.
pub const QUERIES: usize = 0;
/// See [`QUERIES`].
pub const RESPONSES: usize = 1;
/// See [`QUERIES`].
pub const DROPS: usize = 2;

/// Our end of a link, and the protocol by which its neighbours are asked.
pub trait Link<K: Key> {
    /// Where a packet is to go; the key's default if it does not say.
    fn destination(packet: &mut Packet) -> K;
    /// The Ethernet address of destinations about which nobody has to be asked.
    fn group(&self, ip: K) -> Option<Mac>;
    /// The Ethernet header of packets to this address.
    fn header(&self, destination: Mac) -> [u8; HEADER_LEN];
    /// A frame that asks for the address of `target`; `None` if there is no buffer.
    fn question(&self, target: K, pool: &Pool) -> Option<Packet>;
    /// What a frame answers, unless it is damaged, no answer, or claims our own address or that a host is a group.
    fn answer(&self, frame: &[u8]) -> Option<Answer<K>>;
}

/// What a neighbour answers.
pub struct Answer<K> {
    pub ip: K,
    pub mac: Mac,
    /// It may take the place of another address.
    pub replaces: bool,
}

/// What one worker has at hand during a call.
pub struct Resolver<'c, K: Key, L> {
    pub link: &'c L,
    pub table: &'c NeighbourTable<K>,
    /// When addresses are asked for again.
    pub poll: Nanos,
    pub counts: &'c Counts,
    pub worker: usize,
}

impl<K: Key, L: Link<K>> Resolver<'_, K, L> {
    /// Packets by input 0, answers by input 1.
    pub fn push(&self, port: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if port == 1 {
            return self.answers(batch, cx, out);
        }
        let neighbours = self.table.neighbours();
        let mut rest = Batch::empty();
        batch.retain(
            |p| {
                let ip = L::destination(p);
                let mac = self.link.group(ip).or_else(|| neighbours.fresh(ip, cx.now, cx.reader));
                mac.is_some_and(|mac| p.put_link(&self.link.header(mac)))
            },
            |p| rest.push(p),
        );
        out.emit(0, batch);
        if !rest.is_empty() {
            self.want(rest, cx, out);
        }
    }

    /// Carries out what others left, and what the time asks for.
    pub fn run(&self, cx: &Cx<'_>, out: &mut Out<'_>) {
        let mut change = self.change();
        let mut effects = change.take_left();
        change.expire(cx.now, &mut effects);
        if let Some(time) = change.next_timeout() {
            out.wake_at(time);
        }
        drop(change);
        self.carry_out(effects, cx, out);
    }

    fn change(&self) -> Change<'_, K> {
        self.table.neighbours().lock(self.poll)
    }

    /// Lets packets wait whose neighbour is not known, or sends those whose neighbour is known but needs attention.
    fn want(&self, packets: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let mut effects = Effects::default();
        let mut change = self.change();
        for mut packet in packets {
            let ip = L::destination(&mut packet);
            if ip == K::default() {
                self.lose(packet, NO_DESTINATION, out);
            } else if self.link.group(ip).is_some() {
                // It needs no question, so there was no room for its header.
                self.lose(packet, NO_ROOM, out);
            } else {
                change.want(ip, packet, cx.now, &mut effects);
            }
        }
        if let Some(time) = change.next_timeout() {
            out.wake_at(time);
        }
        drop(change);
        self.carry_out(effects, cx, out);
    }

    fn count(&self, which: usize, n: u64) {
        self.counts[self.worker][which].add(n);
    }

    fn lose(&self, packet: Packet, loss: Loss, out: &mut Out<'_>) {
        self.count(DROPS, 1);
        out.lose(packet, loss);
    }

    fn carry_out(&self, effects: Effects<K>, cx: &Cx<'_>, out: &mut Out<'_>) {
        let mut batch = Batch::empty();
        for (mac, mut packet) in effects.sends {
            if packet.put_link(&self.link.header(mac)) {
                push_or_emit(&mut batch, packet, 0, out);
            } else {
                self.lose(packet, NO_ROOM, out);
            }
        }
        out.emit(0, batch);
        for (packet, reason) in effects.lost {
            let loss = match reason {
                Reason::Overflow => OVERFLOW,
                Reason::Timeout => TIMEOUT,
                Reason::Removed => REMOVED,
            };
            self.table.drops[self.worker].add(1);
            self.lose(packet, loss, out);
        }
        self.ask(&effects.queries, cx, out);
    }

    fn ask(&self, targets: &[K], cx: &Cx<'_>, out: &mut Out<'_>) {
        let output = usize::from(out.is_connected(1));
        let mut batch = Batch::empty();
        self.count(QUERIES, targets.len() as u64);
        out.made(targets.len());
        for &target in targets {
            match self.link.question(target, cx.pool) {
                Some(mut question) => {
                    question.set_mac_offset(0);
                    push_or_emit(&mut batch, question, output, out);
                }
                None => out.count_loss(NO_BUFFER, 1),
            }
        }
        out.emit(output, batch);
    }

    fn answers(&self, answers: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let mut effects = Effects::default();
        let mut change = self.change();
        for packet in answers {
            let Some(Answer { ip, mac, replaces }) = self.link.answer(packet.data()) else {
                out.lose(packet, BAD_REPLY);
                continue;
            };
            self.count(RESPONSES, 1);
            let usable = replaces || change.known(ip).is_none_or(|known| known == mac);
            if usable && change.learn(ip, mac, cx.now, &mut effects) {
                out.consume(Batch::one(packet));
            } else {
                out.lose(packet, NOT_ASKED);
            }
        }
        drop(change);
        self.carry_out(effects, cx, out);
    }
}

fn push_or_emit(batch: &mut Batch, packet: Packet, output: usize, out: &mut Out<'_>) {
    if batch.room() == 0 {
        out.emit(output, std::mem::take(batch));
    }
    batch.push(packet);
}

/// Frees packets that wait when the router ends: neither sent nor lost.
pub fn free_waiting<K: Key>(table: &NeighbourTable<K>, poll: Nanos) {
    table.neighbours().lock(poll).take_packets().into_iter().for_each(Packet::free_held);
}
