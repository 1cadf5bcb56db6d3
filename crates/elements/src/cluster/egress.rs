//! Packets for lines of this node: in order again, and with the headers of their next hops.

use super::adjacencies::Adjacencies;
use super::losses::{self, STALE};
use super::settings::Settings;
use super::switch::Switch;
use cluster::delay::DelaySpread;
use cluster::header::{CLASSES, Glance, Header, LEN, SEQUENCES};
use cluster::path::Order;
use cluster::resequence::{Counts, Reason, Rejected, Resequencer};
use graph::{Cx, Nanos, Out};
use packet::wire::ethernet::HEADER_LEN;
use packet::{Batch, Packet};

/// Frames in a row of a life that was not heard of otherwise, after which it is taken to be the present one.
const PROBATION: u32 = 3;
/// The time over which delays are compared, in nanoseconds.
const DELAY_WINDOW: Nanos = 1_000_000_000;

/// A packet that may go out.
#[derive(Debug)]
pub struct Arrived {
    packet: Packet,
    source: u16,
    port: u8,
}

/// Packets that may have to wait, with numbers that follow each other.
#[derive(Debug, Clone, Copy)]
pub struct Early {
    /// The number of their stream.
    pub stream: u32,
    /// By which they came.
    pub path: u16,
    /// Their input node.
    pub source: u16,
    /// The line that they leave by.
    pub port: u8,
    /// The life of their input node.
    pub incarnation: u8,
    /// The number of the first.
    pub sequence: u32,
    /// How many they are.
    pub count: usize,
}

/// What one worker of an input node sends here in one class.
#[derive(Debug)]
struct Stream {
    resequencer: Resequencer<Arrived>,
    /// Frames in a row of another life.
    newcomer: (u8, u32),
}

/// What is known of an input node.
#[derive(Debug)]
struct Source {
    delays: DelaySpread,
    /// The time that packets wait for others at most.
    deadline: u64,
    /// Its life as its hellos say, if it is heard directly.
    incarnation: Option<u8>,
    /// Its hellos are heard now.
    is_heard: bool,
    /// By number.
    paths: Box<[PathState]>,
}

/// Whether packets may come by a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathState {
    Up,
    /// What is still under way may come until then.
    Until(Nanos),
    Down,
}

/// All streams that come here.
#[derive(Debug)]
pub struct Egress {
    sources: Box<[Source]>,
    /// By input node, worker and class; made when the first frame comes.
    streams: Box<[Option<Box<Stream>>]>,
    /// What goes out at the end of this call.
    released: Vec<Arrived>,
    workers: usize,
    window: usize,
    deadline: u64,
    /// Paths that will be down in a while, at most.
    closing: usize,
}

impl Egress {
    /// No stream yet.
    pub fn new(settings: &Settings) -> Egress {
        let nodes = usize::from(settings.topology.nodes());
        let is_mesh = settings.topology.is_mesh();
        // Across several stages each path of the stream is many: a second one that is never heard of leaves only the
        // deadline.
        let paths = if is_mesh { vec![PathState::Down; nodes] } else { vec![PathState::Up; 2] };
        let source = || Source {
            delays: DelaySpread::new(DELAY_WINDOW),
            deadline: settings.deadline,
            incarnation: None,
            is_heard: false,
            paths: paths.clone().into(),
        };
        let workers = usize::from(settings.workers);
        let is_strict = settings.has(Order::Strict);
        let streams = if is_strict { nodes * workers * usize::from(CLASSES) } else { 0 };
        Egress {
            sources: std::iter::repeat_with(source).take(nodes).collect(),
            streams: std::iter::repeat_with(|| None).take(streams).collect(),
            released: Vec::new(),
            workers,
            window: settings.window,
            deadline: settings.deadline,
            closing: 0,
        }
    }

    /// How far the delays from a node are apart, in nanoseconds.
    pub fn spread(&mut self, node: u16, now: Nanos) -> u64 {
        self.sources.get_mut(usize::from(node)).map_or(0, |source| source.delays.spread(now))
    }

    /// Something that a node sent at `stamp` by its clock has come.
    pub fn note_delay(&mut self, node: u16, stamp: u64, now: Nanos) {
        let source = self.sources.get_mut(usize::from(node));
        source.into_iter().for_each(|source| source.delays.note(stamp, now));
    }

    /// A node is heard in this life.
    pub fn restart(&mut self, node: u16, incarnation: u8) {
        let Some(source) = self.sources.get_mut(usize::from(node)) else { return };
        source.incarnation = Some(incarnation);
        source.is_heard = true;
        let mut released = std::mem::take(&mut self.released);
        for stream in self.of_node(node).filter(|stream| stream.resequencer.incarnation() != incarnation) {
            stream.resequencer.restart(incarnation, &mut released);
        }
        self.released = released;
    }

    /// A node that is not heard directly is said to be in this life. If that is wrong its packets say so.
    pub fn renew(&mut self, node: u16, incarnation: u8) {
        self.restart(node, incarnation);
        self.unheard(node);
    }

    /// A node is heard no more: only its packets say in which life it is.
    pub fn unheard(&mut self, node: u16) {
        self.sources.get_mut(usize::from(node)).into_iter().for_each(|source| source.is_heard = false);
    }

    /// A path from a node is up from now on, or down from `at` on.
    pub fn set_path(&mut self, node: u16, path: u16, up: bool, at: Nanos) {
        let source = self.sources.get_mut(usize::from(node));
        let Some(state) = source.and_then(|s| s.paths.get_mut(usize::from(path))) else { return };
        match (up, *state) {
            (true, PathState::Down) => {
                *state = PathState::Up;
                self.of_node(node).for_each(|stream| stream.resequencer.path_up(path.into()));
            }
            (true, _) => *state = PathState::Up,
            (false, PathState::Up) => {
                *state = PathState::Until(at);
                self.closing += 1;
            }
            (false, PathState::Until(then)) => *state = PathState::Until(then.min(at)),
            (false, PathState::Down) => {}
        }
    }

    /// Takes down the paths whose time has come.
    fn close_paths(&mut self, now: Nanos) {
        if self.closing == 0 {
            return;
        }
        self.closing = 0;
        let mut released = std::mem::take(&mut self.released);
        for node in 0..self.sources.len() {
            for path in 0..self.sources[node].paths.len() {
                match self.sources[node].paths[path] {
                    PathState::Until(at) if at <= now => {
                        self.sources[node].paths[path] = PathState::Down;
                        let streams = self.of_node(node as u16);
                        streams.for_each(|stream| stream.resequencer.path_down(path, &mut released));
                    }
                    PathState::Until(_) => self.closing += 1,
                    _ => {}
                }
            }
        }
        self.released = released;
    }

    /// The streams of a node.
    fn of_node(&mut self, node: u16) -> impl Iterator<Item = &mut Stream> {
        let count = self.workers * usize::from(CLASSES);
        self.streams
            .iter_mut()
            .skip(usize::from(node) * count)
            .take(count)
            .flatten()
            .map(|stream| &mut **stream)
    }

    /// The number of the stream that a frame belongs to.
    fn number(&self, header: &Header) -> usize {
        let number = usize::from(header.source) * self.workers + usize::from(header.worker);
        number * usize::from(CLASSES) + usize::from(header.class)
    }

    /// The stream that a frame belongs to, made if it is its first.
    #[inline]
    fn stream(&mut self, header: &Header) -> Option<&mut Stream> {
        let number = self.number(header);
        let stream = self.streams.get_mut(number)?;
        if stream.is_none() {
            let source = self.sources.get(usize::from(header.source))?;
            *stream = Some(Stream::new(source, header.incarnation, self.window));
        }
        stream.as_deref_mut()
    }

    /// The number of the stream of a packet, that of the packet that may pass next, and how many from there on, if it comes by
    /// `path`; `None` if it is none of those.
    #[inline]
    pub fn passing(&self, path: u16, glance: Glance) -> Option<(u32, u32, usize)> {
        let number = usize::from(glance.source()) * self.workers + usize::from(glance.worker());
        let number = number * usize::from(CLASSES) + usize::from(glance.class());
        let stream = self.streams.get(number)?.as_ref()?;
        let (next, room) = stream.resequencer.passing(path.into(), glance.incarnation(), Batch::MAX)?;
        // Fewer than nodes, workers and classes have bits together.
        Some((number as u32, next, room))
    }

    /// So many packets of a stream have passed. True if some that wait may be released now: [`Egress::catch_up`].
    #[inline]
    pub fn pass(&mut self, stream: u32, path: u16, count: u32) -> bool {
        let Some(Some(stream)) = self.streams.get_mut(stream as usize) else { return false };
        stream.resequencer.pass(path.into(), count as usize);
        stream.resequencer.held() > 0
    }

    /// Nothing is to go out at the end of this call.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.released.is_empty()
    }

    /// Releases what waits for nothing any more.
    pub fn catch_up(&mut self, stream: u32) {
        if let Some(Some(stream)) = self.streams.get_mut(stream as usize) {
            stream.resequencer.catch_up(&mut self.released);
        }
    }

    /// Looks at delays, and sets deadlines accordingly. Gives the largest spread.
    fn measure(&mut self, now: Nanos) -> u64 {
        let per_source = self.workers * usize::from(CLASSES);
        let mut largest = 0;
        for (node, source) in self.sources.iter_mut().enumerate() {
            let deadline = source.delays.deadline(now, self.deadline);
            largest = largest.max(source.delays.spread(now));
            if std::mem::replace(&mut source.deadline, deadline) != deadline {
                let streams = self.streams.iter_mut().skip(node * per_source).take(per_source).flatten();
                streams.for_each(|stream| stream.resequencer.set_deadline(deadline));
            }
        }
        largest
    }

    /// What the streams of a node have seen, how many packets wait there, and how long they may.
    pub fn counts(&self, node: u16) -> (Counts, usize, u64) {
        let per_source = self.workers * usize::from(CLASSES);
        let streams = self.streams.iter().skip(usize::from(node) * per_source).take(per_source).flatten();
        let mut all = (Counts::default(), 0, self.sources.get(usize::from(node)).map_or(0, |s| s.deadline));
        for stream in streams {
            let counts = stream.resequencer.counts();
            let sum = &mut all.0;
            sum.delivered += counts.delivered;
            sum.waited += counts.waited;
            sum.given_up += counts.given_up;
            sum.expired += counts.expired;
            sum.late += counts.late;
            sum.duplicate += counts.duplicate;
            sum.out_of_window += counts.out_of_window;
            sum.wrong_incarnation += counts.wrong_incarnation;
            sum.moved += counts.moved;
            all.1 += stream.resequencer.held();
        }
        all
    }
}

impl Stream {
    #[cold]
    fn new(source: &Source, incarnation: u8, window: usize) -> Box<Stream> {
        let incarnation = source.incarnation.unwrap_or(incarnation);
        let mut resequencer = Resequencer::new(source.paths.len(), window, source.deadline, incarnation);
        let down = source.paths.iter().enumerate().filter(|(_, state)| **state == PathState::Down);
        // Nothing waits yet, so nothing is released.
        down.for_each(|(path, _)| resequencer.path_down(path, &mut Vec::new()));
        Box::new(Stream { resequencer, newcomer: (0, 0) })
    }

    /// A frame of another life than the present one has come. True if that is now the present one: several have come in
    /// a row, and no hello says otherwise.
    fn is_new_life(&mut self, incarnation: u8) -> bool {
        let (before, seen) = self.newcomer;
        let seen = if before == incarnation { seen + 1 } else { 1 };
        self.newcomer = (incarnation, if seen >= PROBATION { 0 } else { seen });
        seen >= PROBATION
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        // Held when the router ends: neither sent nor lost.
        let waiting = self.streams.iter_mut().flatten().flat_map(|stream| stream.resequencer.drain());
        waiting.for_each(|arrived| arrived.packet.free_held());
        self.released.drain(..).for_each(|arrived| arrived.packet.free_held());
    }
}

impl Switch {
    /// A packet for a line of this node.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        place: usize,
        (header, mut packet): (&Header, Packet),
        all: Adjacencies<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        if header.port >= self.settings.own_lines() {
            return out.lose(packet, losses::PORT);
        }
        let Some(head) = packet.data_mut().first_chunk_mut::<HEADER_LEN>() else {
            return out.lose(packet, STALE);
        };
        let adjacency = all.of(head).get(header.adjacency as usize);
        let line = self.settings.first_line() + u32::from(header.port);
        match adjacency {
            Some(adjacency) if u32::from(adjacency.output) == line => {
                head[..LEN].copy_from_slice(&adjacency.header[..LEN]);
            }
            Some(adjacency) if adjacency.is_tagged() && u32::from(adjacency.port()) == line => {
                if let Err(loss) = self.put_tags(&mut packet, adjacency, cx) {
                    return out.lose(packet, loss);
                }
            }
            _ => return out.lose(packet, STALE),
        }
        if !self.is_in_order[usize::from(header.class)] {
            self.add_to_line(header.port, header.source, packet, out);
            return;
        }
        if self.egress.stream(header).is_none() {
            return out.lose(packet, losses::PORT);
        }
        let &Header { source, port, incarnation, sequence, .. } = header;
        // Paths are fewer than 2^12.
        let (stream, path) = (self.egress.number(header) as u32, self.path(place, source) as u16);
        self.accept(
            Early { stream, path, source, port, incarnation, sequence, count: 1 },
            packet,
            cx.now,
            out,
        );
    }

    /// Packets that have got their headers for the line are put in order.
    pub(super) fn accept_run(
        &mut self,
        early: Early,
        packets: &mut impl Iterator<Item = Packet>,
        now: Nanos,
        out: &mut Out<'_>,
    ) {
        let Early { stream, path, source, port, incarnation, .. } = early;
        let (mut sequence, mut left) = (early.sequence, early.count);
        while left > 0 {
            let arrived = packets.by_ref().map(|packet| Arrived { packet, source, port });
            let held = match self.egress.streams.get_mut(stream as usize) {
                Some(Some(stream)) => {
                    stream.resequencer.hold_run(path.into(), incarnation, sequence, left, arrived, now)
                }
                _ => 0,
            };
            if held == 0 {
                let Some(packet) = packets.next() else { return };
                self.accept(Early { sequence, ..early }, packet, now, out);
            }
            // A batch has fewer packets than there are numbers.
            sequence = (sequence + held.max(1) as u32) % SEQUENCES;
            left -= held.max(1);
        }
    }

    /// A packet that has got its header for the line is put in order.
    fn accept(&mut self, early: Early, packet: Packet, now: Nanos, out: &mut Out<'_>) {
        let Early { stream, path, source, port, incarnation, sequence, .. } = early;
        let arrived = Arrived { packet, source, port };
        let Egress { sources, streams, released, .. } = &mut self.egress;
        let Some(Some(stream)) = streams.get_mut(stream as usize) else {
            return out.lose(arrived.packet, losses::PORT);
        };
        let accepted = stream.resequencer.accept(path.into(), incarnation, sequence, arrived, now, released);
        if let Err(Rejected { item, reason }) = accepted {
            let is_heard = sources.get(usize::from(source)).is_some_and(|source| source.is_heard);
            if reason == Reason::WrongIncarnation && !is_heard && stream.is_new_life(incarnation) {
                stream.resequencer.restart(incarnation, released);
            }
            out.lose(item.packet, losses::of_reason(reason));
        }
    }

    /// A marker for a stream that ends here. It is about nothing if there is no such stream.
    pub(super) fn marker(&mut self, place: usize, header: &Header, now: Nanos) {
        let path = self.path(place, header.source);
        let mut released = std::mem::take(&mut self.egress.released);
        if self.is_in_order[usize::from(header.class)]
            && let Some(stream) = self.egress.stream(header)
        {
            // A marker that says nothing new, or nothing about this life, is no loss.
            let _ = stream.resequencer.marker(path, header.incarnation, header.sequence, now, &mut released);
        }
        self.egress.released = released;
    }

    /// The number of the path by which something from a node has come: that of the first link.
    #[inline]
    fn path(&self, place: usize, source: u16) -> usize {
        let via = self.neighbours[place].node;
        match self.is_mesh {
            false => 0,
            true if via == source => self.settings.me.into(),
            true => via.into(),
        }
    }

    /// Sends out what is in order.
    #[inline]
    pub(super) fn deliver(&mut self, out: &mut Out<'_>) {
        if self.egress.released.is_empty() {
            return;
        }
        let mut released = std::mem::take(&mut self.egress.released);
        for Arrived { packet, source, port } in released.drain(..) {
            self.add_to_line(port, source, packet, out);
        }
        self.egress.released = released;
    }

    /// Gives up what was waited for too long.
    pub(super) fn poll_streams(&mut self, now: Nanos, out: &mut Out<'_>) {
        self.egress.close_paths(now);
        let Egress { streams, released, .. } = &mut self.egress;
        for stream in streams.iter_mut().flatten() {
            stream.resequencer.poll(now, released);
        }
        self.deliver(out);
    }

    /// Looks at what was measured: deadlines, and δ of flowlets.
    pub(super) fn measure(&mut self, now: Nanos) {
        let here = self.egress.measure(now);
        if self.settings.gap == 0 && self.settings.has(Order::Flowlet) {
            let there = self.neighbours.iter().map(|n| n.spread_there).max().unwrap_or(0);
            let gap = here.max(there).saturating_mul(2).max(super::settings::LEAST_GAP);
            self.chooser.set_gap(gap);
        }
    }
}
