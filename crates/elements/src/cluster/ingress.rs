//! Packets that were routed at this node: out by its own lines, or on their way to other nodes.

use super::adjacencies::Adjacencies;
use super::losses::{LINE_FULL, LINK_FULL, NO_LINE, UNREACHABLE, UNRESOLVED};
use super::manners::Manner;
use super::outlet::{Turn, length};
use super::switch::{Destination, NONE, Switch};
use super::ways::flow;
use cluster::header::{ADJACENCIES, LEN};
use graph::{Cx, Loss, Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

impl Switch {
    /// Frames that were made for their next hops, all of one class.
    #[inline(never)]
    pub(super) fn ingress_alike(
        &mut self,
        batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let now = cx.now;
        let rest = if self.is_calm(now) { self.send_usual(batch, all, now, out) } else { batch };
        if !rest.is_empty() {
            self.send_each(rest, all, cx, out);
        }
    }

    /// Sends each alone.
    #[inline(never)]
    fn send_each(&mut self, rest: Batch, all: Adjacencies<'_>, cx: &Cx<'_>, out: &mut Out<'_>) {
        self.look(cx.now);
        for mut packet in rest {
            let chosen = match self.choose(&mut packet, all, cx.now) {
                Err(NO_LINE) => self.choose_tagged(&mut packet, all, cx),
                chosen => chosen,
            };
            match chosen {
                Ok((outlet, turn)) => {
                    if let Err(packet) = self.outlets[usize::from(outlet)].send(packet, turn, out) {
                        out.lose(packet, LINK_FULL);
                    }
                }
                Err(loss) => out.lose(packet, loss),
            }
        }
    }

    /// Chooses where a packet goes out, and gives it the header for its way.
    fn choose(&mut self, packet: &mut Packet, all: Adjacencies<'_>, now: Nanos) -> Result<(u16, Turn), Loss> {
        let number = packet.next_hop();
        // Who made it for its next hop saw to it that it has a header.
        let head = packet.data_mut().first_chunk_mut::<HEADER_LEN>().ok_or(UNRESOLVED)?;
        let adjacency = all.of(head).get(number as usize).filter(|adjacency| adjacency.is_usable());
        let adjacency = adjacency.ok_or(UNRESOLVED)?;
        let to = self.lines.get(usize::from(adjacency.output)).filter(|_| number < ADJACENCIES);
        self.lead(packet, *to.ok_or(NO_LINE)?, now)
    }

    /// The same for a packet that leaves with VLAN tags: those for a line of this node get them.
    #[cold]
    fn choose_tagged(
        &mut self,
        packet: &mut Packet,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
    ) -> Result<(u16, Turn), Loss> {
        let number = packet.next_hop();
        let head = packet.head::<HEADER_LEN>(0).ok_or(UNRESOLVED)?;
        let adjacency = all.of(head).get(number as usize).filter(|adjacency| adjacency.is_usable());
        let adjacency = adjacency.ok_or(UNRESOLVED)?;
        let to = self.lines.get(usize::from(adjacency.port())).filter(|_| number < ADJACENCIES);
        let to = *to.ok_or(NO_LINE)?;
        if to.node == self.me {
            self.put_tags(packet, adjacency, cx)?;
        }
        self.lead(packet, to, cx.now)
    }

    /// Chooses the way of a packet to a line.
    #[inline(always)]
    fn lead(&mut self, packet: &mut Packet, to: Destination, now: Nanos) -> Result<(u16, Turn), Loss> {
        let (number, length) = (packet.next_hop(), length(packet));
        let Manner { order, class, is_numbered, needs_flow, .. } = self.ways.manner;
        let flow = if needs_flow { flow(packet) } else { 0 };
        let head = packet.data_mut().first_chunk_mut::<HEADER_LEN>().ok_or(UNRESOLVED)?;
        if to.node == self.me {
            let (outlet, turn) = (u16::from(to.port), Turn::Fair(self.me));
            if !self.outlets[usize::from(outlet)].admits(turn, length) {
                return Err(LINE_FULL);
            }
            self.traffic.own.add(length);
            return Ok((outlet, turn));
        }
        let link = self.chooser.choose_in(order, to.node, length, flow).ok_or(UNREACHABLE)?;
        let is_direct = self.is_mesh && link == to.node;
        let turn = if is_direct { Turn::Fair(self.me) } else { Turn::First };
        let outlet = self.outlet_of.get(usize::from(link)).copied().filter(|&outlet| outlet != NONE);
        let outlet = outlet.ok_or(UNREACHABLE)?;
        // Numbers are given to what is taken: what is lost before leaves no gap.
        if !self.outlets[usize::from(outlet)].admits(turn, length) {
            return Err(LINK_FULL);
        }
        let sequence = match self.numbers.get_mut(usize::from(to.node)).filter(|_| is_numbered) {
            Some(numbers) => numbers.number(link.into(), now),
            None => 0,
        };
        let header = self.headers.get(usize::from(to.node)).ok_or(UNREACHABLE)?[usize::from(!is_direct)];
        let header = header.of_class(class).to_port(to.port);
        head[..LEN].copy_from_slice(&header.bytes(number, sequence));
        let traffic = if is_direct { &mut self.traffic.direct } else { &mut self.traffic.to_relays };
        traffic.add(length);
        Ok((outlet, turn))
    }
}
