//! The usual way of what comes in by links: nothing waits for any outlet, and headers are right.
//!
//! Packets of a kind, whose headers differ in adjacency and number only, follow each other: what was found out for the first
//! holds for all.

use super::egress::Early;
use super::outlet::length;
use super::switch::{Adjacencies, NONE, Switch};
use cluster::header::{Glance, Header, LEN, Phase, SEQUENCES};
use graph::{Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// What is known of packets of one kind.
#[derive(Debug, Clone, Copy)]
struct Kind {
    kind: (u64, u32),
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
    /// What has not been counted yet: packets, and their bytes.
    packets: u32,
    bytes: u32,
}

impl Kind {
    /// None that there is: an address whose lowest bit is set is not one of ours.
    const NO: Kind = Kind {
        kind: (u64::MAX, 0),
        outlet: 0,
        relayed_to: NONE,
        line: NONE,
        next: 0,
        room: 0,
        stream: 0,
        path: 0,
        packets: 0,
        bytes: 0,
    };
}

impl Switch {
    /// Sends on all that goes the usual way, and gives back what does not, as it came.
    pub(super) fn receive_usual(
        &mut self,
        place: usize,
        batch: Batch,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        match self.is_strict {
            true => self.receive_kinds::<true>(place, batch, all, now, out),
            false => self.receive_kinds::<false>(place, batch, all, now, out),
        }
    }

    #[inline(always)]
    fn receive_kinds<const STRICT: bool>(
        &mut self,
        place: usize,
        mut batch: Batch,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Batch {
        let via = self.neighbours[place].node;
        let rest = self.rest();
        let mut bins = [rest; Batch::MAX];
        let (mut every, mut any) = (u16::MAX, 0);
        let mut known = Kind::NO;
        for (packet, bin) in batch.iter_mut().zip(&mut bins) {
            *bin = self.usual::<STRICT>(via, packet, all, &mut known).unwrap_or(rest);
            (every, any) = (every & *bin, any | *bin);
        }
        self.count_kind(&known);
        let rest = self.deal(batch, &bins, (every, any), out);
        if STRICT {
            self.settle_streams(now, out);
        }
        rest
    }

    /// The bin of a packet, which is then ready to go; `None`, and nothing changed, if it is not one of the usual.
    #[inline(always)]
    fn usual<const STRICT: bool>(
        &mut self,
        via: u16,
        packet: &mut Packet,
        all: Adjacencies<'_>,
        known: &mut Kind,
    ) -> Option<u16> {
        let length = length(packet);
        let head = packet.data_mut().first_chunk_mut::<HEADER_LEN>()?;
        let glance = Glance::new(head.first_chunk()?);
        if glance.kind() != known.kind {
            self.count_kind(known);
            *known = Kind::NO;
            *known = self.know(via, glance)?;
        }
        if known.relayed_to != NONE {
            // Markers are not traffic.
            if glance.adjacency() == 0 {
                return None;
            }
            Header::relay(head.first_chunk_mut()?);
        } else {
            let adjacency = all.of(head).get(glance.adjacency() as usize)?;
            if adjacency.output != known.line {
                return None;
            }
            head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
            if STRICT {
                if glance.sequence() != known.next || known.room == 0 {
                    let Kind { stream, path, .. } = *known;
                    let (source, port) = (glance.source(), glance.port());
                    let (incarnation, sequence) = (glance.incarnation(), glance.sequence());
                    self.early.push(Early { stream, path, source, port, incarnation, sequence });
                    return Some(self.rest() + 1);
                }
                known.next = (known.next + 1) % SEQUENCES;
                known.room -= 1;
            }
        }
        known.packets += 1;
        known.bytes += length;
        Some(known.outlet)
    }

    /// What is to be known of packets of such a kind; `None` if they are not usual.
    #[inline(never)]
    fn know(&mut self, via: u16, glance: Glance) -> Option<Kind> {
        let (node, source) = (glance.node(), glance.source());
        let right = glance.is_usual() & (source != self.me) & (glance.worker() < self.limits.workers);
        if !right || source >= self.limits.nodes {
            return None;
        }
        let kind = glance.kind();
        if node != self.me {
            // By node, in a full mesh: NONE where there is none that is up.
            let outlet = self.second_ways.get(usize::from(node)).copied().filter(|&outlet| outlet != NONE)?;
            let is_first = glance.phase() == Phase::ToRelay;
            return is_first.then_some(Kind { kind, outlet, relayed_to: node, ..Kind::NO });
        }
        let port = glance.port();
        // Lines that next hops can be of have numbers of 16 bits.
        let line = u16::try_from(self.first_line + u32::from(port)).ok().filter(|_| port < self.own_lines)?;
        let known = Kind { kind, outlet: port.into(), line, ..Kind::NO };
        if !self.is_strict {
            return Some(known);
        }
        let path = if via == source { self.me } else { via };
        let (stream, next, room) = self.egress.passing(path, glance)?;
        Some(Kind { stream, path, next, room, ..known })
    }

    /// Counts what has gone of a kind.
    #[inline]
    fn count_kind(&mut self, known: &Kind) {
        let Kind { outlet, relayed_to, stream, path, packets, bytes, .. } = *known;
        if packets == 0 {
            return;
        }
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
