//! Packets that were routed at this node: out by its own lines, or on their way to other nodes.

use super::losses::{LINK_FULL, NO_LINE, UNREACHABLE, UNRESOLVED};
use super::outlet::{Turn, length};
use super::switch::{Adjacencies, NONE, Switch};
use crate::flow_hash::flow_hash;
use cluster::header::{ADJACENCIES, LEN};
use fib::Adjacency;
use graph::{Loss, Nanos, Out};
use packet::{Batch, Packet};

impl Switch {
    /// Frames that were made for their next hops.
    pub(super) fn ingress(&mut self, batch: Batch, all: Adjacencies<'_>, now: Nanos, out: &mut Out<'_>) {
        for packet in batch {
            if let Err((packet, loss)) = self.dispatch(packet, all, now, out) {
                out.lose(packet, loss);
            }
        }
    }

    #[inline]
    fn dispatch(
        &mut self,
        mut packet: Packet,
        all: Adjacencies<'_>,
        now: Nanos,
        out: &mut Out<'_>,
    ) -> Result<(), (Packet, Loss)> {
        let number = packet.next_hop();
        let adjacency = all.of(&packet).get(number as usize).copied().filter(Adjacency::is_usable);
        let Some(adjacency) = adjacency else { return Err((packet, UNRESOLVED)) };
        let Some(&to) = self.lines.get(usize::from(adjacency.output)).filter(|_| number < ADJACENCIES) else {
            return Err((packet, NO_LINE));
        };
        let me = self.settings.me;
        let length = length(&packet);
        if to.node == me {
            self.traffic.own.add(length);
            self.add_to_line(to.port, me, packet, out);
            return Ok(());
        }
        let flow = match packet.flow_hash() {
            0 if self.needs_flow => flow_hash(packet.data()),
            hash => hash,
        };
        let Some(link) = self.chooser.choose(to.node, length, flow) else {
            return Err((packet, UNREACHABLE));
        };
        let is_direct = self.is_mesh && link == to.node;
        let turn = if is_direct { Turn::Fair(me) } else { Turn::First };
        let place = self.outlet_of.get(usize::from(link)).copied().unwrap_or(NONE);
        let Some(outlet) = self.outlets.get_mut(usize::from(place)) else {
            return Err((packet, UNREACHABLE));
        };
        // Numbers are given to what is taken: what is lost before leaves no gap.
        if !outlet.admits(turn, length) {
            return Err((packet, LINK_FULL));
        }
        let sequence =
            if self.is_strict { self.numbers[usize::from(to.node)].number(link.into(), now) } else { 0 };
        if let Some(head) = packet.data_mut().first_chunk_mut::<LEN>() {
            *head = to.headers[usize::from(!is_direct)].bytes(number, sequence);
        }
        let traffic = if is_direct { &mut self.traffic.direct } else { &mut self.traffic.to_relays };
        traffic.add(length);
        outlet.send(packet, turn, out).map_err(|packet| (packet, LINK_FULL))
    }
}
