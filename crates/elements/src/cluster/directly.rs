//! The usual way of what was routed here while all links have room for it: directly, a whole batch at once.
//!
//! A batch is dealt out by output node before anything else, and what goes by a link is counted once: less to do for each packet than
//! where each asks its lane for room ([`super::ways`]), in less code. So this is tried first. Room is looked at for all links
//! together; where one has little, whole batches are left to lanes.

use super::adjacencies::Network;
use super::outlet::OVERHEAD;
use super::switch::{Destination, NONE, Switch};
use super::ways::{Ties, scatter};
use cluster::header::{LEN, class_bits};
use graph::{Nanos, Out};
use packet::{Batch, Packet};

/// How many batches go by lanes after one that could not go directly: where links are full the next could not either.
const PAUSE: u32 = 63;

/// What is known of links on which packets go directly.
#[derive(Debug)]
pub struct Direct {
    /// Bytes that may go before it has to be looked at again whether all of these links have room.
    room: u32,
    /// What [`PathChooser::changes`](cluster::path::PathChooser::changes) was when that was looked at.
    changes: u32,
    /// Packets that are tied like this: what rests may fill less of a link.
    ties: Ties,
    /// By output node: whether its link was one of those.
    is_open: Box<[bool]>,
    /// Batches that are to go by lanes before it is tried again.
    pause: u32,
}

impl Direct {
    /// Nothing is known.
    pub fn new(nodes: u16) -> Direct {
        Direct { room: 0, changes: 0, ties: Ties::None, is_open: vec![false; nodes.into()].into(), pause: 0 }
    }
}

/// The outlet of each packet by which it goes directly: the bits that all of them have, those that any has, and the bytes of all
/// packets on the wire. [`NONE`] for a packet that has no such outlet.
#[inline(never)]
fn outlets(
    (packets, next_hops): (&[Packet], &[u32]),
    network: &Network<'_>,
    lines: &[Destination],
    bins: &mut [u16],
) -> (u16, u16, u32) {
    let bins = &mut bins[..packets.len()];
    let mut bytes = 0;
    for ((packet, &number), bin) in packets.iter().zip(next_hops).zip(&mut *bins) {
        let line = network.at(number as usize).and_then(|adjacency| lines.get(usize::from(adjacency.output)));
        *bin = line.map_or(NONE, |line| line.directly);
        // A packet's length has 16 bits, and there are fewer than 2^16.
        bytes += packet.len() as u32;
    }
    let (every, any) = bins.iter().fold((u16::MAX, 0), |(every, any), bin| (every & bin, any | bin));
    (every, any, bytes + bins.len() as u32 * OVERHEAD)
}

impl Switch {
    /// Sends a batch directly.
    ///
    /// # Errors
    /// The batch as it came, if not all of it can go directly now.
    #[inline(never)]
    pub(super) fn send_directly(
        &mut self,
        mut batch: Batch,
        ties: Ties,
        network: &Network<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Result<(), Batch> {
        if self.direct.pause > 0 {
            self.direct.pause -= 1;
            return Err(batch);
        }
        let Direct { room, changes, ties: before, .. } = self.direct;
        if room == 0 || changes != self.chooser.changes() || before != ties {
            self.look_at_links(ties);
        }
        let mut bins = std::mem::take(&mut self.scratch);
        let (packets, next_hops) = batch.with_next_hops();
        let (every, any, bytes) = outlets((packets, next_hops), network, &self.lines, &mut bins);
        // Who has no room any more had some when the outlets were found.
        let holds = self.direct.room >= bytes || !self.look_at_links(ties);
        if any == NONE || !holds || self.direct.room < bytes {
            self.scratch = bins;
            // What is sent otherwise takes room.
            (self.direct.room, self.direct.pause) = (0, PAUSE);
            return Err(batch);
        }
        self.close_lanes();
        self.direct.room -= bytes;
        let (lowest, highest) = (usize::from(every), usize::from(any));
        if lowest == highest {
            self.send_all_directly(lowest, batch, bytes, now, out);
        } else {
            let highest = highest.min(usize::from(self.rest()) - 1);
            batch.forget_columns();
            scatter(batch, &bins, &mut self.bins[lowest..=highest], every);
            for outlet in lowest..=highest {
                let batch = std::mem::take(&mut self.bins[outlet]);
                if !batch.is_empty() {
                    let bytes = batch.bytes() as u32 + batch.len() as u32 * OVERHEAD;
                    self.send_all_directly(outlet, batch, bytes, now, out);
                }
            }
        }
        self.scratch = bins;
        Ok(())
    }

    /// Looks which links have room, and how much; whether any that had some has none now.
    #[inline(never)]
    fn look_at_links(&mut self, ties: Ties) -> bool {
        let mut has_closed = false;
        self.direct.room = u32::MAX;
        for node in 0..self.direct.is_open.len() as u16 {
            let run = match ties {
                _ if node == self.me => continue,
                Ties::Rest => self.chooser.resting_run(node),
                _ => self.chooser.direct_run(node),
            };
            let left = run.map_or(0, |run| run.left.unsigned_abs());
            match left {
                0 => has_closed |= self.direct.is_open[usize::from(node)],
                _ => self.direct.room = self.direct.room.min(left),
            }
            if std::mem::replace(&mut self.direct.is_open[usize::from(node)], left > 0) != (left > 0) {
                let outlet = self.outlet_of.get(usize::from(node)).copied().filter(|_| left > 0);
                let lines = self.lines.iter_mut().filter(|line| line.node == node);
                lines.for_each(|line| line.directly = outlet.unwrap_or(NONE));
            }
        }
        (self.direct.changes, self.direct.ties) = (self.chooser.changes(), ties);
        has_closed
    }

    /// Sends packets by their outlet, numbered if that is their manner.
    #[inline(always)]
    fn send_all_directly(
        &mut self,
        place: usize,
        mut batch: Batch,
        bytes: u32,
        now: Nanos,
        out: &mut Out<'_>,
    ) {
        let packets = batch.len() as u32;
        let outlet = &mut self.outlets[place];
        outlet.charge_many(packets, bytes, now);
        self.calm = self.calm.saturating_sub(bytes);
        let node = outlet.node;
        if node == self.me {
            self.traffic.own.add_many(packets, bytes);
        } else {
            self.traffic.direct.add_many(packets, bytes);
            self.chooser.charge_directly(node, bytes);
            let (turn, is_numbered) = (class_bits(self.ways.manner.class), self.ways.manner.is_numbered);
            if is_numbered || turn != 0 {
                batch.forget_columns();
                self.complete(batch.as_mut_slice(), node, now);
            }
        }
        out.emit(place, batch);
    }

    /// Gives frames for a node their class, and their numbers if they have any.
    #[inline(never)]
    fn complete(&mut self, packets: &mut [Packet], node: u16, now: Nanos) {
        let manner = self.ways.manner;
        let turn = class_bits(manner.class);
        let numbers = self.numbers.get_mut(usize::from(node)).filter(|_| manner.is_numbered);
        let Some(numbers) = numbers else {
            let firsts = packets.iter_mut().filter_map(Packet::first_mut::<1>);
            return firsts.for_each(|[first]| *first ^= turn);
        };
        let Some([header, _]) = self.headers.get(usize::from(node)).copied() else { return };
        for (packet, sequence) in packets.iter_mut().zip(numbers.next()..) {
            if let Some([first, _, _, _, _, _, _, _, end @ ..]) = packet.first_mut::<LEN>() {
                *first ^= turn;
                *end = header.end(sequence);
            }
        }
        numbers.take(node.into(), packets.len() as u32, now);
    }
}
