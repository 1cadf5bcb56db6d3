//! Links: what comes in by them, and whether they are up.

use super::adjacencies::Adjacencies;
use super::losses::{self, LINK_DOWN, MESSAGE, NEWS, RELAY_FULL, UNREACHABLE};
use super::outlet::{Turn, length};
use super::settings::Settings;
use super::switch::{NONE, Switch};
use super::ways::flow;
use cluster::class::TOGETHER;
use cluster::header::{ETHERTYPE_CONTROL, Header, HeaderError, LEN, Phase};
use cluster::liveness::{Event, Liveness};
use cluster::message::{self, Message, Neighbours};
use cluster::path::Order;
use cluster::shares::small;
use graph::{Cx, Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// The least length of an Ethernet frame, check sequence not included.
pub const LEAST_FRAME: usize = 60;
/// Hellos after which everyone knows of a link that went up. Only then packets are sent by it, or who puts them in order
/// would not wait for them.
const HELLOS_TO_SETTLE: u64 = 3;

/// The node at the other end of a link.
#[derive(Debug)]
pub struct Neighbour {
    /// Its number.
    pub node: u16,
    pub(super) liveness: Liveness,
    /// The nodes that it has links to.
    pub(super) reaches: Neighbours,
    /// Those of them that packets may be sent to over it; `None` while it is not to get any itself.
    settled: Option<Neighbours>,
    /// When everyone knows what it reaches now.
    settles: Option<Nanos>,
    /// It asks not to be chosen as relay.
    pub(super) drains: bool,
    /// It knows what classes of packets mean, or was not heard yet.
    pub(super) knows_classes: bool,
    /// It is one of the nodes that there are.
    pub is_member: bool,
    /// Its life, as last heard.
    pub incarnation: Option<u8>,
    /// How far delays from here to there are apart, as measured there, in nanoseconds.
    pub spread_there: u64,
    /// Hellos that came.
    pub hellos: u64,
    /// Times that the link went down.
    pub downs: u64,
}

impl Neighbour {
    /// One that was not heard yet.
    pub fn new(node: u16, settings: &Settings) -> Neighbour {
        Neighbour {
            node,
            liveness: Liveness::new(settings.hello),
            reaches: Neighbours::new(settings.topology.nodes()),
            settled: None,
            settles: None,
            drains: false,
            knows_classes: true,
            is_member: settings.members.contains(&node),
            incarnation: None,
            spread_there: 0,
            hellos: 0,
            downs: 0,
        }
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.liveness.is_up()
    }

    /// See [`Liveness::absent`].
    pub fn absent(&mut self, nanos: Nanos) {
        self.liveness.absent(nanos);
    }
}

impl Switch {
    /// Frames that came in by a link.
    #[inline(never)]
    pub(super) fn receive(
        &mut self,
        place: usize,
        batch: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let rest = match self.is_mesh && self.is_calm(cx.now) {
            true => self.receive_usual(place, batch, all, cx, out),
            false => batch,
        };
        if !rest.is_empty() || !self.egress.is_settled() {
            self.receive_each(place, rest, all, cx, out);
        }
    }

    /// Looks at each frame alone.
    #[inline(never)]
    fn receive_each(
        &mut self,
        place: usize,
        rest: Batch,
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        self.look(cx.now);
        for packet in rest {
            let head = packet.head::<HEADER_LEN>(0).ok_or(HeaderError::Short);
            let header = head.and_then(|head| Header::decode(head)).and_then(|header| {
                header.check(&self.limits)?;
                Ok(header)
            });
            match header {
                Ok(header) => self.received(place, (header, packet), all, cx, out),
                Err(error) => out.lose(packet, losses::of_header(error)),
            }
        }
        self.deliver(out);
    }

    #[inline]
    fn received(
        &mut self,
        place: usize,
        (mut header, packet): (Header, Packet),
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let settings = &self.settings;
        let is_first = header.phase == Phase::ToRelay;
        let is_over = is_first && (self.is_mesh || settings.topology.is_relay(settings.me));
        if is_over {
            header.phase = Phase::ToOutput;
        }
        if header.node != settings.me || header.phase == Phase::ToRelay {
            self.relay(&header, is_over, packet, out);
        } else if header.punt {
            self.unwrap(&header, packet, out);
        } else if header.adjacency == 0 {
            self.message(place, &header, packet, cx, out);
        } else {
            self.arrive(place, (&header, packet), all, cx, out);
        }
    }

    /// Sends on what is for another node.
    #[inline]
    fn relay(&mut self, header: &Header, is_over: bool, mut packet: Packet, out: &mut Out<'_>) {
        let length = length(&packet);
        if header.node >= self.settings.topology.edge_nodes() {
            return out.lose(packet, losses::NODE);
        }
        if is_over && let Some(head) = packet.data_mut().first_chunk_mut::<LEN>() {
            Header::relay(head);
        }
        let (link, turn) = match header.phase {
            Phase::ToOutput => {
                let link = self.towards.get(usize::from(header.node)).copied().unwrap_or(NONE);
                (Some(link), Turn::Fair(header.source))
            }
            Phase::ToRelay => {
                let chosen = match header.class {
                    TOGETHER => {
                        let flow = flow(&packet);
                        self.chooser.choose_in(Order::SinglePath, header.node, length, flow)
                    }
                    _ => self.chooser.choose(header.node, length, 0),
                };
                (chosen, Turn::First)
            }
        };
        let Some(link) = link else { return out.lose(packet, UNREACHABLE) };
        if !self.is_link_up(link) {
            return out.lose(packet, LINK_DOWN);
        }
        self.chooser.relayed(link, length);
        let Some(outlet) = self.outlet(link) else { return out.lose(packet, LINK_DOWN) };
        let sent = match header.punt {
            true => {
                outlet.send_now(packet, out);
                Ok(())
            }
            false => outlet.send(packet, turn, out),
        };
        match sent {
            // Markers are not traffic.
            Ok(()) if header.adjacency == 0 && !header.punt => {}
            Ok(()) => self.traffic.relayed.add(length),
            Err(packet) => out.lose(packet, RELAY_FULL),
        }
    }

    /// The place of the link that is link number `link` of the topology.
    pub(super) fn place_of(&self, link: u16) -> Option<usize> {
        let outlet = self.outlet_of.get(usize::from(link)).copied().filter(|&outlet| outlet != NONE)?;
        usize::from(outlet).checked_sub(usize::from(self.settings.own_lines()))
    }

    fn neighbour(&self, node: u16) -> Option<&Neighbour> {
        self.neighbours.iter().find(|neighbour| neighbour.node == node)
    }

    /// Whether a link of the topology is up.
    #[inline]
    pub(super) fn is_link_up(&self, link: u16) -> bool {
        self.place_of(link).and_then(|place| self.neighbours.get(place)).is_some_and(Neighbour::is_up)
    }

    /// A hello or a marker.
    fn message(&mut self, place: usize, header: &Header, packet: Packet, cx: &Cx<'_>, out: &mut Out<'_>) {
        let is_control =
            packet.head::<HEADER_LEN>(0).is_some_and(|head| head[LEN..] == ETHERTYPE_CONTROL.to_be_bytes());
        let text = packet.data().get(HEADER_LEN..).unwrap_or_default();
        let message = Message::decode(text).ok().filter(|_| is_control);
        match message {
            Some(Message::Hello { hears, drains, classes, spread, stamp })
                if header.source == self.neighbours[place].node =>
            {
                if !self.neighbours[place].is_member {
                    // It is about to be told that it is none, or we that it is one.
                    return out.consume(Batch::one(packet));
                }
                let text = text.get(message::LEN..).unwrap_or_default();
                let has_sense = self.hear_news(header.source, Neighbours::behind(text), cx.now, out);
                let neighbour = &mut self.neighbours[place];
                neighbour.hellos += 1;
                neighbour.spread_there = u64::from(spread) * 1000;
                let mut changed = std::mem::replace(&mut neighbour.drains, drains) != drains;
                changed |= std::mem::replace(&mut neighbour.knows_classes, classes) != classes;
                if neighbour.reaches.read(text) {
                    changed = true;
                    let Neighbour { settled, reaches, settles, .. } = neighbour;
                    settled.iter_mut().for_each(|settled| settled.retain(reaches));
                    *settles = Some(cx.now.saturating_add(HELLOS_TO_SETTLE * self.settings.hello));
                }
                let events = neighbour.liveness.heard(cx.now, header.incarnation, hears);
                self.egress.note_delay(header.source, stamp, cx.now);
                for event in events.into_iter().flatten() {
                    self.happened(place, event, cx.now, out);
                    changed = false;
                }
                if changed {
                    self.learn(cx.now, out);
                }
                if !has_sense {
                    return out.lose(packet, NEWS);
                }
            }
            Some(Message::Marker { stamp }) => {
                self.egress.note_delay(header.source, stamp, cx.now);
                self.marker(place, header, cx.now);
            }
            _ => return out.lose(packet, MESSAGE),
        }
        out.consume(Batch::one(packet));
    }

    /// A link went up or down.
    pub(super) fn happened(&mut self, place: usize, event: Event, now: Nanos, out: &mut Out<'_>) {
        let settles = now.saturating_add(HELLOS_TO_SETTLE * self.settings.hello);
        let neighbour = &mut self.neighbours[place];
        neighbour.settled = None;
        let up = matches!(event, Event::Up { .. });
        neighbour.settles = up.then_some(settles);
        match event {
            Event::Up { incarnation } => {
                let before = neighbour.incarnation.replace(incarnation);
                let node = neighbour.node;
                if before.is_some_and(|before| before != incarnation) {
                    self.begin_anew(node);
                }
                self.egress.restart(node, incarnation);
            }
            Event::Down => {
                neighbour.downs += 1;
                self.egress.unheard(neighbour.node);
                let outlet = &mut self.outlets[usize::from(self.settings.own_lines()) + place];
                outlet.drain().for_each(|packet| out.lose(packet, LINK_DOWN));
            }
        }
        self.tell_news(self.neighbours[place].node, up, now);
        self.learn(now, out);
        self.deliver(out);
    }

    /// A node has forgotten what came from here: the numbers for it begin with 0 again.
    pub(super) fn begin_anew(&mut self, node: u16) {
        if let Some(numbers) = self.numbers.get_mut(usize::from(node)) {
            *numbers = cluster::numbering::Numbering::new(self.settings.topology.radix().into());
        }
    }

    /// Takes in which links are up: weights of paths, and the paths of streams.
    pub(super) fn learn(&mut self, now: Nanos, out: &mut Out<'_>) {
        self.agree_on_classes();
        let settings = self.settings.clone();
        for node in 0..settings.topology.edge_nodes() {
            let link = self.towards.get(usize::from(node)).copied().filter(|&link| self.is_link_up(link));
            let outlet = link.and_then(|link| self.outlet_of.get(usize::from(link)).copied());
            self.second_ways[usize::from(node)] = outlet.unwrap_or(NONE);
        }
        let (topology, me, mut links) = (settings.topology, settings.me, self.all_links());
        self.space_markers(&links);
        for link in (0..topology.radix()).filter(|&link| topology.peer(me, link) != me) {
            let settled = self.neighbour(topology.peer(me, link)).is_some_and(|n| n.settled.is_some());
            if !settled {
                links.set(me, link, 0);
            }
            self.chooser.set_link_rate(link, links.rate(me, link));
        }
        self.news.iter().for_each(|news| news.limit(&mut links));
        if self.is_mesh {
            for relay in (0..topology.nodes()).filter(|&relay| relay != me) {
                let neighbour = self.neighbour(relay);
                if neighbour.is_some_and(|n| n.drains) {
                    links.avoid(relay);
                }
                let settled = neighbour.and_then(|n| n.settled.as_ref());
                for to in (0..topology.nodes()).filter(|&to| to != relay) {
                    if !settled.is_some_and(|settled| settled.has(to)) {
                        links.set(relay, to, 0);
                    }
                }
            }
        }
        for to in 0..topology.edge_nodes() {
            let weights = if self.is_mesh && to == me { vec![] } else { small(&links.weights(me, to)) };
            // To set them begins a new round, so only if they changed.
            if self.weights[usize::from(to)] != weights {
                self.chooser.set_weights(to, &weights);
                self.weights[usize::from(to)] = weights;
            }
        }
        self.learn_paths(now);
        self.deliver(out);
    }

    /// Which paths streams have: from each input node directly, and over each relay that both ends hear.
    fn learn_paths(&mut self, now: Nanos) {
        if !self.is_mesh {
            return;
        }
        let me = self.settings.me;
        for source in (0..self.settings.topology.nodes()).filter(|&source| source != me) {
            for path in 0..self.settings.topology.nodes() {
                let via = if path == me { source } else { path };
                let neighbour = self.neighbour(via).filter(|n| n.is_up());
                let up = neighbour.is_some_and(|n| path == me || (path != source && n.reaches.has(source)));
                // What a relay has from a link that went down may still be on its way.
                let linger = if neighbour.is_some() { self.settings.hello } else { 0 };
                self.egress.set_path(source, path, up, now.saturating_add(linger));
            }
        }
    }

    /// Sends hellos that are due, and finds out which links are down.
    pub(super) fn look_after_links(&mut self, cx: &Cx<'_>, out: &mut Out<'_>) {
        for place in 0..self.neighbours.len() {
            if let Some(event) = self.neighbours[place].liveness.poll(cx.now) {
                self.happened(place, event, cx.now, out);
            }
        }
        let mut settled = self.look_after_news(cx.now);
        for neighbour in &mut self.neighbours {
            if neighbour.settles.take_if(|at| *at <= cx.now).is_some() {
                neighbour.settled = Some(neighbour.reaches.clone());
                settled = true;
            }
        }
        if settled {
            self.learn(cx.now, out);
        }
        let mut mine = Neighbours::new(self.settings.topology.nodes());
        self.neighbours.iter().filter(|n| n.is_up()).for_each(|n| mine.set(n.node, true));
        for place in 0..self.neighbours.len() {
            if !self.neighbours[place].is_member {
                continue;
            }
            let Some(hears) = self.is_hello_due(place, cx.now) else { continue };
            let node = self.neighbours[place].node;
            let spread = self.egress.spread(node, cx.now) / 1000;
            let hello = Message::Hello {
                hears,
                drains: self.shared.drains(),
                classes: true,
                spread: u32::try_from(spread).unwrap_or(u32::MAX),
                stamp: cx.now,
            };
            let header = self.settings.header(node, 0, Phase::ToOutput);
            let news = self.news_for(node, cx.now);
            if let Some(packet) = control_frame(cx, &header, &hello, mine.encode().chain(news)) {
                out.made(1);
                self.take_room(node, length(&packet));
                self.outlets[usize::from(self.settings.own_lines()) + place].send_now(packet, out);
            }
        }
    }
}

/// A frame with a message; `None` if there is no buffer.
pub fn control_frame(
    cx: &Cx<'_>,
    header: &Header,
    message: &Message,
    rest: impl Iterator<Item = u8>,
) -> Option<Packet> {
    let mut bytes = header.encode().ok()?.to_vec();
    bytes.extend(ETHERTYPE_CONTROL.to_be_bytes());
    bytes.extend(message.encode());
    bytes.extend(rest);
    bytes.resize(bytes.len().max(LEAST_FRAME), 0);
    cx.pool.packet(&bytes)
}
