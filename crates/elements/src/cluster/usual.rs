//! The usual way of what comes in by links: nothing waits for any outlet, and headers are right.
//!
//! Packets of a kind, whose headers differ in adjacency and number only, follow each other: what was found out for the first
//! holds for all.

use super::adjacencies::Adjacencies;
use super::alike::{Alike, Passed, pass_on, pass_out};
use super::egress::Early;
use super::switch::{NONE, Switch};
use cluster::header::{Glance, Phase, SEQUENCES};
use graph::{Cx, Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// What is known of packets of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    alike: Alike,
    outlet: u16,
    /// The node that they are sent on to; [`NONE`] if they leave the cluster here.
    relayed_to: u16,
    /// They are put in order: their stream, and the path that they came by.
    is_in_order: bool,
    stream: u32,
    path: u16,
}

/// What the last packets by a link were, if they were for a line of this node: most often the next are the same.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Latest {
    kind: Kind,
    /// As it stands in frames.
    ethertype: [u8; 2],
}

impl Kind {
    /// Of which nothing is known but how one of them looks.
    fn new(glance: Glance) -> Kind {
        let alike = Alike { glance, line: NONE, next: 0, room: 0 };
        Kind { alike, outlet: 0, relayed_to: NONE, is_in_order: false, stream: 0, path: 0 }
    }
}

/// The header of a packet.
#[inline(always)]
fn glance(packet: &Packet) -> Option<Glance> {
    packet.head::<HEADER_LEN>(0).and_then(|head| head.first_chunk()).map(Glance::new)
}

/// How packets look that begin with this one, which is not the next of its stream, and have the numbers behind it.
fn early(first: Glance, known: &Alike) -> Alike {
    let sequence = first.sequence();
    // Up to the next of the stream, which passes, unless that waits here.
    let before_next = known.next.wrapping_sub(sequence) % SEQUENCES;
    let room = if known.room > 0 { before_next as usize } else { Batch::MAX };
    Alike { next: sequence, room, ..*known }
}

impl Switch {
    /// Sends on all that goes the usual way, and gives back what does not, as it came.
    pub(super) fn receive_usual(
        &mut self,
        place: usize,
        mut batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Batch {
        // Most batches are of one kind, that of the last.
        let packets = batch.as_mut_slice();
        let latest = self.receive_latest(place, packets, all, cx.now);
        let first = latest.unwrap_or_else(|| self.receive_kind(place, packets, all, cx));
        let rest = if first.1 == packets.len() && first.0 < self.rest() {
            out.emit(first.0.into(), batch);
            Batch::empty()
        } else {
            self.receive_kinds(place, first, batch, all, cx, out)
        };
        if !(self.passed.is_empty() && self.early.is_empty()) {
            self.settle_streams(cx.now, out);
        }
        rest
    }

    /// Gets the first packets ready if they are as the last were by this link: their bin, and how many they are.
    #[inline(always)]
    fn receive_latest(
        &mut self,
        place: usize,
        packets: &mut [Packet],
        all: Adjacencies<'_>,
        now: Nanos,
    ) -> Option<(u16, usize)> {
        let Latest { kind, ethertype } = self.latest.get(place)?.as_ref()?;
        let Kind { outlet, is_in_order, stream, path, .. } = *kind;
        let first = glance(packets.first()?)?;
        if !first.is_like(&kind.alike.glance) {
            return None;
        }
        let network = all.network_of(*ethertype);
        let passed = if is_in_order {
            let (_, next, room) = self.egress.passing(path, first)?;
            if first.sequence() != next {
                return None;
            }
            pass_out::<true>(packets, &Alike { next, room, ..kind.alike }, &network)
        } else {
            pass_out::<false>(packets, &kind.alike, &network)
        };
        if passed.packets == 0 {
            return None;
        }
        self.count_out((outlet, stream, path), is_in_order, passed, now);
        Some((outlet, passed.packets))
    }

    /// Gets the first packets ready, which are of one kind: their bin, and how many they are. None of no packets.
    #[inline(never)]
    fn receive_kind(
        &mut self,
        place: usize,
        packets: &mut [Packet],
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
    ) -> (u16, usize) {
        let (rest, via) = (self.rest(), self.neighbours[place].node);
        let Some(first) = packets.first() else { return (rest, 0) };
        let network = all.network(first);
        let Some(kind) = glance(first).and_then(|glance| self.know(via, glance)) else { return (rest, 1) };
        let passed = match network.filter(|_| kind.relayed_to == NONE) {
            Some(_) if kind.is_in_order && kind.alike.glance.sequence() != kind.alike.next => {
                Passed::default()
            }
            Some(network) if kind.is_in_order => pass_out::<true>(packets, &kind.alike, &network),
            Some(network) => pass_out::<false>(packets, &kind.alike, &network),
            None => pass_on(packets, &kind.alike),
        };
        if passed.packets > 0 {
            if let Some(network) = network.filter(|_| kind.relayed_to == NONE) {
                self.latest[place] = Some(Latest { kind, ethertype: network.ethertype });
            }
            self.count_kind(&kind, passed, cx.now);
            return (kind.outlet, passed.packets);
        }
        if let Some(network) = network.filter(|_| kind.is_in_order && kind.relayed_to == NONE) {
            let glance = kind.alike.glance;
            let taken = pass_out::<true>(packets, &early(glance, &kind.alike), &network).packets;
            if taken > 0 {
                let (source, port, incarnation) = (glance.source(), glance.port(), glance.incarnation());
                let (Kind { stream, path, .. }, sequence) = (kind, glance.sequence());
                self.early.push(Early { stream, path, source, port, incarnation, sequence, count: taken });
                return (rest + 1, taken);
            }
            if self.take_tagged(packets, &kind, all, cx) {
                return (rest + 1, 1);
            }
        }
        (rest, 1)
    }

    /// Does so to all packets behind the `first` ones, and hands them on. Gives back what is not usual, as it came.
    #[inline(never)]
    fn receive_kinds(
        &mut self,
        place: usize,
        first: (u16, usize),
        mut batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Batch {
        let mut bins = std::mem::take(&mut self.scratch);
        let packets = batch.as_mut_slice();
        let ((mut every, mut any), (mut bin, mut count), mut at) = ((u16::MAX, 0), first, 0);
        while count > 0 {
            (every, any) = (every & bin, any | bin);
            bins[at..at + count].fill(bin);
            at += count;
            (bin, count) = self.receive_kind(place, &mut packets[at..], all, cx);
        }
        let rest = self.deal(batch, &bins, (every, any), out);
        self.scratch = bins;
        rest
    }

    /// Gets the first packet ready for its line if it is to have tags. It does not pass, but is put in order with those that came
    /// early: numbers on a path go up.
    #[cold]
    fn take_tagged(
        &mut self,
        packets: &mut [Packet],
        known: &Kind,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
    ) -> bool {
        let Kind { alike: Alike { glance, line, .. }, stream, path, .. } = *known;
        let Some(packet) = packets.first_mut() else { return false };
        let Some(head) = packet.head::<HEADER_LEN>(0) else { return false };
        let adjacency = all.of(head).get(glance.adjacency() as usize);
        let adjacency = adjacency.filter(|adjacency| adjacency.is_tagged() && adjacency.port() == line);
        if adjacency.is_none_or(|adjacency| self.put_tags(packet, adjacency, cx).is_err()) {
            return false;
        }
        let (source, port, incarnation) = (glance.source(), glance.port(), glance.incarnation());
        let sequence = glance.sequence();
        self.early.push(Early { stream, path, source, port, incarnation, sequence, count: 1 });
        true
    }

    /// What is to be known of packets of such a kind; `None` if they are not usual.
    #[inline(never)]
    fn know(&mut self, via: u16, glance: Glance) -> Option<Kind> {
        let (node, source) = (glance.node(), glance.source());
        let right = glance.is_usual() & (source != self.me) & (glance.worker() < self.limits.workers);
        if !right || source >= self.limits.nodes {
            return None;
        }
        if node != self.me {
            // By node, in a full mesh: NONE where there is none that is up.
            let outlet = self.second_ways.get(usize::from(node)).copied().filter(|&outlet| outlet != NONE)?;
            let is_first = glance.phase() == Phase::ToRelay;
            return is_first.then_some(Kind { outlet, relayed_to: node, ..Kind::new(glance) });
        }
        let port = glance.port();
        // Lines that next hops can be of have numbers of 16 bits.
        let line = u16::try_from(self.first_line + u32::from(port)).ok().filter(|_| port < self.own_lines)?;
        let leaving = Alike { line, ..Kind::new(glance).alike };
        let known = Kind { outlet: port.into(), alike: leaving, ..Kind::new(glance) };
        if !self.is_in_order[usize::from(glance.class())] {
            return Some(known);
        }
        let path = if via == source { self.me } else { via };
        let (stream, next, room) = self.egress.passing(path, glance)?;
        Some(Kind { is_in_order: true, stream, path, alike: Alike { next, room, ..leaving }, ..known })
    }

    /// Counts packets of a kind that have gone.
    #[inline]
    fn count_kind(&mut self, known: &Kind, passed: Passed, now: Nanos) {
        let Kind { outlet, relayed_to, is_in_order, stream, path, .. } = *known;
        if relayed_to == NONE {
            return self.count_out((outlet, stream, path), is_in_order, passed, now);
        }
        self.charge(outlet, passed, now);
        self.chooser.relayed(relayed_to, passed.bytes);
        // A batch has fewer than 2^32.
        self.traffic.relayed.add_many(passed.packets as u32, passed.bytes);
    }

    /// Counts packets that have left the cluster here: by which outlet, of which stream, by which path.
    #[inline(always)]
    fn count_out(
        &mut self,
        (outlet, stream, path): (u16, u32, u16),
        is_in_order: bool,
        passed: Passed,
        now: Nanos,
    ) {
        self.charge(outlet, passed, now);
        if is_in_order && self.egress.pass(stream, path, passed.packets as u32) {
            self.passed.push(stream);
        }
    }

    #[inline(always)]
    fn charge(&mut self, outlet: u16, passed: Passed, now: Nanos) {
        self.outlets[usize::from(outlet)].charge_many(passed.packets as u32, passed.bytes, now);
        self.calm = self.calm.saturating_sub(passed.bytes);
    }

    /// Delivers what need not wait any more, and takes in what came too early. All that has passed has been sent on.
    #[inline(never)]
    fn settle_streams(&mut self, now: Nanos, out: &mut Out<'_>) {
        while let Some(stream) = self.passed.pop() {
            self.egress.catch_up(stream);
        }
        if self.early.is_empty() {
            return;
        }
        let place = usize::from(self.rest()) + 1;
        let mut early = std::mem::take(&mut self.early);
        let mut packets = std::mem::take(&mut self.bins[place]).into_iter();
        for early in early.drain(..) {
            self.accept_run(early, &mut packets, now, out);
        }
        self.early = early;
    }
}
