//! Markers: up to which number all of a stream has been sent on a path.

use super::links::{LEAST_FRAME, Neighbour, control_frame};
use super::losses::LINK_FULL;
use super::outlet::{OVERHEAD, Turn, length};
use super::switch::Switch;
use cluster::header::{Header, Phase};
use cluster::message::Message;
use cluster::numbering::marker_gap;
use cluster::shares::Links;
use graph::{Cx, Nanos, Out};

/// A path that carried nothing for so many nanoseconds gets a marker.
const IDLE: Nanos = 2_000_000;
/// Every how many ticks all paths get one, so that their delays are known.
const TICKS_PER_MARK: u64 = 8;

impl Switch {
    /// Takes in how often paths get markers: where they are slow, more seldom.
    pub(super) fn space_markers(&mut self, links: &Links) {
        if !self.is_mesh || !self.is_strict {
            return;
        }
        let (me, nodes) = (self.me, self.settings.topology.nodes());
        let bits = 8 * (LEAST_FRAME as u64 + u64::from(OVERHEAD));
        // Members are nodes, of which there are fewer than 2^12.
        let members = self.members.len() as u16;
        let gap = |to, via| marker_gap(members, bits, links.rate(me, via).min(links.rate(via, to)));
        self.marker_gaps = (0..nodes).map(|to| (0..nodes).map(|via| gap(to, via)).collect()).collect();
    }

    /// Sends markers on paths that carried nothing.
    pub(super) fn send_markers(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        let idle = if self.ticks.is_multiple_of(TICKS_PER_MARK) { 0 } else { IDLE };
        let mut due = Vec::new();
        for node in 0..self.settings.topology.edge_nodes() {
            if node == self.settings.me {
                continue;
            }
            let gaps = self.marker_gaps.get(usize::from(node));
            let gap = |link: usize| gaps.and_then(|gaps| gaps.get(link)).copied().unwrap_or(0);
            due.extend(self.numbers[usize::from(node)].markers(cx.now, idle, gap));
            for (link, sequence) in due.drain(..) {
                self.mark(node, link as u16, sequence, cx, out);
            }
        }
    }

    fn mark(&mut self, node: u16, link: u16, sequence: u32, cx: &Cx<'_>, out: &mut Out<'_>) {
        let is_direct = self.is_mesh && link == node;
        let has_share = || self.weights[usize::from(node)].get(usize::from(link)).is_some_and(|&w| w > 0);
        let reaches = |n: &Neighbour| match self.is_mesh {
            true => is_direct || n.reaches.has(node),
            false => has_share(),
        };
        let place =
            self.place_of(link).filter(|&p| self.neighbours[p].is_up() && reaches(&self.neighbours[p]));
        let Some(place) = place else { return };
        let (phase, turn) = match is_direct {
            true => (Phase::ToOutput, Turn::Fair(self.settings.me)),
            false => (Phase::ToRelay, Turn::First),
        };
        let outlet = &mut self.outlets[usize::from(self.settings.own_lines()) + place];
        if !outlet.admits(turn, LEAST_FRAME as u32 + OVERHEAD) {
            return;
        }
        let class = cluster::class::numbered(self.settings.order);
        let header = Header { sequence, class, ..self.settings.header(node, 0, phase) };
        let marker = Message::Marker { stamp: cx.now };
        if let Some(packet) = control_frame(cx, &header, &marker, std::iter::empty()) {
            out.made(1);
            let length = length(&packet);
            match outlet.send(packet, turn, out) {
                Ok(()) => self.chooser.relayed(link, length),
                Err(packet) => out.lose(packet, LINK_FULL),
            }
        }
    }
}
