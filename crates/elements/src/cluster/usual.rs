//! The usual way of what comes in by links: nothing waits for any outlet, headers are right, streams are in order.

use super::outlet::length;
use super::switch::{Adjacencies, NONE, Switch};
use cluster::header::{Glance, Header, LEN, Phase};
use graph::{Out, Way};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

impl Switch {
    /// Sends on all that goes the usual way, and gives back what does not, as it came.
    pub(super) fn receive_usual(
        &mut self,
        place: usize,
        mut batch: Batch,
        all: Adjacencies<'_>,
        out: &mut Out<'_>,
    ) -> Batch {
        let via = self.neighbours[place].node;
        let (mut everywhere, mut anywhere) = (u16::MAX, 0);
        let mut rest = Batch::empty();
        batch.sift(
            |packet| {
                let outlet = self.usual(via, packet, all).ok_or(())?;
                (everywhere, anywhere) = (everywhere & outlet, anywhere | outlet);
                packet.set_next_hop(outlet.into());
                Ok(())
            },
            |packet, ()| {
                rest.push(packet);
                None
            },
        );
        match everywhere == anywhere {
            true => out.emit(anywhere.into(), batch),
            false => out.split(batch, |packet| Way::Port(packet.next_hop() as usize)),
        }
        rest
    }

    /// The outlet of a packet, which is then ready to go; `None`, and nothing changed, if it is not one of the usual.
    #[inline(always)]
    fn usual(&mut self, via: u16, packet: &mut Packet, all: Adjacencies<'_>) -> Option<u16> {
        let length = length(packet);
        let head = packet.data_mut().first_chunk_mut::<HEADER_LEN>()?;
        let glance = Glance::new(head.first_chunk()?);
        let (node, source) = (glance.node(), glance.source());
        let right = glance.is_usual() & (source != self.me) & (glance.worker() < self.limits.workers);
        if !right || source >= self.limits.nodes {
            return None;
        }
        let outlet = if node != self.me {
            // By node, in a full mesh: NONE where there is none that is up.
            let outlet = self.second_ways.get(usize::from(node)).copied().filter(|&outlet| outlet != NONE)?;
            if glance.phase() != Phase::ToRelay {
                return None;
            }
            Header::relay(head.first_chunk_mut()?);
            self.chooser.relayed(node, length);
            if glance.adjacency() != 0 {
                self.traffic.relayed.add(length);
            }
            outlet
        } else {
            let adjacency = all.of(head).get(glance.adjacency() as usize)?;
            let port = glance.port();
            let line = self.first_line + u32::from(port);
            if port >= self.own_lines || u32::from(adjacency.output) != line {
                return None;
            }
            if self.is_strict && !self.egress.pass(via, self.me, glance) {
                return None;
            }
            head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
            port.into()
        };
        self.outlets[usize::from(outlet)].charge(length);
        Some(outlet)
    }
}
