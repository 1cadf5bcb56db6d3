//! The usual way of what comes in by links: nothing waits for any outlet, and headers are right.
//!
//! Packets of a kind, whose headers differ in adjacency and number only, follow each other: what was found out for the first
//! holds for all.

use super::egress::Early;
use super::outlet::length;
use super::switch::{Adjacencies, NONE, Network, Switch};
use cluster::header::{Glance, Header, LEN, Phase, SEQUENCES};
use graph::{Cx, Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// What is known of packets of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    /// The header of one of them.
    glance: Glance,
    outlet: u16,
    /// The node that they are sent on to; [`NONE`] if they leave the cluster here.
    relayed_to: u16,
    /// The line by which they leave.
    line: u16,
    /// The number of the next, if they are numbered.
    next: u32,
    /// How many from there on may pass.
    room: usize,
    stream: u32,
    path: u16,
}

impl Kind {
    /// Of which nothing is known but how one of them looks.
    fn new(glance: Glance) -> Kind {
        Kind { glance, outlet: 0, relayed_to: NONE, line: NONE, next: 0, room: 0, stream: 0, path: 0 }
    }
}

/// The header of a packet.
#[inline(always)]
fn glance(packet: &Packet) -> Option<Glance> {
    packet.head::<HEADER_LEN>(0).and_then(|head| head.first_chunk()).map(Glance::new)
}

/// Gets packets of a kind ready to be sent on, up to the first that is another or a marker. How many there are, and their
/// bytes.
#[inline(never)]
fn pass_on(packets: &mut [Packet], known: &Kind) -> (usize, u32) {
    let (mut passed, mut bytes) = (0, 0);
    for packet in packets {
        let length = length(packet);
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { break };
        let Some(header) = head.first_chunk_mut() else { break };
        let glance = Glance::new(header);
        // Markers are not traffic.
        if !glance.is_like(&known.glance) || glance.adjacency() == 0 {
            break;
        }
        Header::relay(header);
        bytes += length;
        passed += 1;
    }
    (passed, bytes)
}

/// Gets packets of a kind ready for their line, up to the first that is another, or not the next. How many there are, and
/// their bytes.
#[inline(never)]
fn pass_out<const STRICT: bool>(packets: &mut [Packet], known: &Kind, network: &Network<'_>) -> (usize, u32) {
    let (mut passed, mut bytes) = (0, 0);
    let most = if STRICT { known.room.min(packets.len()) } else { packets.len() };
    let mut next = known.next;
    let Kind { glance: like, line, .. } = *known;
    for packet in &mut packets[..most] {
        let length = length(packet);
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { break };
        let Some(glance) = head.first_chunk().map(Glance::new) else { break };
        if !glance.is_like(&like) || (STRICT && glance.sequence() != next) {
            break;
        }
        let adjacency = network.get(head, glance.adjacency());
        let Some(adjacency) = adjacency.filter(|adjacency| adjacency.output == line) else { break };
        head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
        next = (next + 1) % SEQUENCES;
        bytes += length;
        passed += 1;
    }
    (passed, bytes)
}

/// Gets packets of a kind ready for their line that are not the next of their stream, up to the first that is another.
fn take_early(packets: &mut [Packet], known: &Kind, all: Adjacencies<'_>, early: &mut Vec<Early>) {
    for packet in packets {
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else { break };
        let Some(glance) = head.first_chunk().map(Glance::new) else { break };
        let adjacency = all.of(head).get(glance.adjacency() as usize);
        let Some(adjacency) = adjacency.filter(|adjacency| adjacency.output == known.line) else { break };
        let sequence = glance.sequence();
        if !glance.is_like(&known.glance) || (sequence == known.next && known.room > 0) {
            break;
        }
        head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
        let Kind { stream, path, .. } = *known;
        let (source, port, incarnation) = (glance.source(), glance.port(), glance.incarnation());
        early.push(Early { stream, path, source, port, incarnation, sequence });
    }
}

impl Switch {
    /// Sends on all that goes the usual way, and gives back what does not, as it came.
    pub(super) fn receive_usual(
        &mut self,
        place: usize,
        batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Batch {
        match self.is_strict {
            true => self.receive_kinds::<true>(place, batch, all, cx, out),
            false => self.receive_kinds::<false>(place, batch, all, cx, out),
        }
    }

    #[inline(always)]
    fn receive_kinds<const STRICT: bool>(
        &mut self,
        place: usize,
        mut batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Batch {
        let via = self.neighbours[place].node;
        let rest = self.rest();
        let mut bins = [rest; Batch::MAX];
        let (mut every, mut any) = (u16::MAX, 0);
        let (mut packets, mut bins_left) = (batch.as_mut_slice(), &mut bins[..]);
        while let Some(first) = packets.first() {
            let (mut bin, mut count) = (rest, 1);
            let network = all.network(first);
            if let Some(kind) = glance(first).and_then(|glance| self.know(via, glance)) {
                let (passed, bytes) = match network.filter(|_| kind.relayed_to == NONE) {
                    Some(network) => pass_out::<STRICT>(packets, &kind, &network),
                    None => pass_on(packets, &kind),
                };
                if passed > 0 {
                    self.count_kind(&kind, passed, bytes);
                    (bin, count) = (kind.outlet, passed);
                } else if STRICT && kind.relayed_to == NONE {
                    let early = self.early.len();
                    take_early(packets, &kind, all, &mut self.early);
                    let taken = self.early.len() - early;
                    if taken > 0 {
                        (bin, count) = (rest + 1, taken);
                    } else if self.take_tagged(packets, &kind, all, cx) {
                        bin = rest + 1;
                    }
                }
            }
            (every, any) = (every & bin, any | bin);
            packets = &mut packets[count..];
            bins_left[..count].fill(bin);
            bins_left = &mut bins_left[count..];
        }
        let rest = self.deal(batch, &bins, (every, any), out);
        if STRICT {
            self.settle_streams(cx.now, out);
        }
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
        let Kind { glance, line, stream, path, .. } = *known;
        let Some(packet) = packets.first_mut() else { return false };
        let Some(head) = packet.head::<HEADER_LEN>(0) else { return false };
        let adjacency = all.of(head).get(glance.adjacency() as usize);
        let adjacency = adjacency.filter(|adjacency| adjacency.is_tagged() && adjacency.port() == line);
        if adjacency.is_none_or(|adjacency| self.put_tags(packet, adjacency, cx).is_err()) {
            return false;
        }
        let (source, port, incarnation) = (glance.source(), glance.port(), glance.incarnation());
        self.early.push(Early { stream, path, source, port, incarnation, sequence: glance.sequence() });
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
        let known = Kind { outlet: port.into(), line, ..Kind::new(glance) };
        if !self.is_strict {
            return Some(known);
        }
        let path = if via == source { self.me } else { via };
        let (stream, next, room) = self.egress.passing(path, glance)?;
        Some(Kind { stream, path, next, room, ..known })
    }

    /// Counts packets of a kind that have gone.
    #[inline]
    fn count_kind(&mut self, known: &Kind, packets: usize, bytes: u32) {
        let Kind { outlet, relayed_to, stream, path, .. } = *known;
        // A batch has fewer than 2^32.
        let packets = packets as u32;
        self.outlets[usize::from(outlet)].charge_many(packets, bytes);
        if relayed_to != NONE {
            self.chooser.relayed(relayed_to, bytes);
            self.traffic.relayed.add_many(packets, bytes);
        } else if self.is_strict && self.egress.pass(stream, path, packets) {
            self.passed.push(stream);
        }
    }

    /// Delivers what need not wait any more, and takes in what came too early. All that has passed has been sent on.
    #[inline]
    fn settle_streams(&mut self, now: Nanos, out: &mut Out<'_>) {
        while let Some(stream) = self.passed.pop() {
            self.egress.catch_up(stream);
        }
        if self.early.is_empty() {
            return;
        }
        let place = usize::from(self.rest()) + 1;
        let mut early = std::mem::take(&mut self.early);
        for (packet, early) in std::mem::take(&mut self.bins[place]).into_iter().zip(early.drain(..)) {
            self.accept(early, packet, now, out);
        }
        self.early = early;
    }
}
