//! How the nodes of a fly hear of links that are not their own: [`crate::news`] in hellos that take their time.
//!
//! A link is as it is for both directions, as hellos have it: in a fly hellos go against the packets, too.

use super::{Event, Model};
use crate::news::News;
use crate::topology::Topology;

/// How often nodes look after their news, in nanoseconds.
const TICK: u64 = 1_000_000;

/// News on its way.
#[derive(Debug)]
pub(super) struct Letter {
    pub from: u16,
    pub to: u16,
    pub bytes: Vec<u8>,
}

impl Model {
    /// The time between hellos: three of them are missed before a failure is known.
    fn hello(&self) -> u64 {
        (self.setup.detection / crate::liveness::MISSES).max(TICK)
    }

    /// A node of a fly begins a life, in which it finds its links to be as they are.
    pub(super) fn begin_life(&mut self, node: u16, incarnation: u8) {
        let news = News::new(self.setup.topology, node, incarnation, self.hello());
        self.nodes[usize::from(node)].news = news;
        for peer in self.setup.topology.neighbours(node) {
            self.find(node, peer);
        }
    }

    /// A node of a fly drains, or does not any more, from now on: others send nothing by it where another way leads there.
    pub fn set_drains(&mut self, node: u16, drains: bool) {
        let now = self.now;
        let news = self.nodes[usize::from(node)].news.as_mut();
        if news.is_some_and(|news| news.set_drains(drains, now)) {
            self.begin_to_tell();
            self.learn_at(node);
        }
    }

    /// The next life of a node.
    pub(super) fn next_life(&mut self, node: u16) {
        if !self.setup.topology.is_mesh() {
            let life = &mut self.nodes[usize::from(node)].life;
            *life = (*life + 1) % crate::header::INCARNATIONS;
            let life = *life;
            self.begin_life(node, life);
        }
    }

    /// From the first failure on nodes tell each other news: before there is nothing to tell.
    pub(super) fn begin_to_tell(&mut self) {
        if !self.setup.topology.is_mesh() && !std::mem::replace(&mut self.tells, true) {
            self.after(TICK, Event::Tell);
        }
    }

    /// Both ends of a link find out how it is now.
    pub(super) fn find_link(&mut self, node: u16, peer: u16) {
        self.find(node, peer);
        self.find(peer, node);
        self.learn_at(node);
        self.learn_at(peer);
    }

    fn find(&mut self, node: u16, peer: u16) {
        let (up, now) = (self.is_link_up(node, peer), self.now);
        self.nodes[usize::from(node)].news.iter_mut().for_each(|news| news.set_link(peer, up, now));
    }

    /// Whether all wires between two nodes are up.
    fn is_link_up(&self, a: u16, b: u16) -> bool {
        wires(self.setup.topology, a, b).all(|(node, link)| self.wires[self.wire(node, link)].up)
    }

    /// What a node of a fly believes now.
    pub(super) fn learn_at(&mut self, number: u16) {
        let mut links = self.links.clone();
        let Some(news) = &self.nodes[usize::from(number)].news else { return };
        news.limit(&mut links);
        self.nodes[usize::from(number)].learn(&self.setup, &links, number);
    }

    /// Every node sends the hellos that are due, and those that cannot wait.
    pub(super) fn tell(&mut self) {
        let (now, hello, topology) = (self.now, self.hello(), self.setup.topology);
        let is_due = now / hello != (now - TICK) / hello;
        for node in 0..topology.nodes() {
            let Some(news) = &mut self.nodes[usize::from(node)].news else { continue };
            let changed = news.poll(now);
            let mut letters = Vec::new();
            for to in topology.neighbours(node) {
                if is_due || news.is_fresh(to) {
                    let mut bytes = Vec::new();
                    news.write(to, now, &mut bytes);
                    letters.push(Letter { from: node, to, bytes });
                }
            }
            letters.into_iter().for_each(|letter| self.post(letter));
            if changed {
                self.learn_at(node);
            }
        }
        self.after(TICK, Event::Tell);
    }

    fn post(&mut self, letter: Letter) {
        let Letter { from, to, .. } = letter;
        let Some((node, link)) = wires(self.setup.topology, from, to).next() else { return };
        if self.is_link_up(from, to) {
            let delay = self.wires[self.wire(node, link)].delay;
            self.letters.push_back(Some(letter));
            let number = self.letters_gone + self.letters.len() as u64 - 1;
            self.after(delay, Event::Told(number));
        }
    }

    /// A hello has come, unless its link is down by now.
    pub(super) fn told(&mut self, number: u64) {
        let place = usize::try_from(number - self.letters_gone).unwrap_or(usize::MAX);
        let letter = self.letters.get_mut(place).and_then(Option::take);
        while self.letters.pop_front_if(|letter| letter.is_none()).is_some() {
            self.letters_gone += 1;
        }
        let Some(Letter { from, to, bytes }) = letter else { return };
        let is_up = self.is_link_up(from, to);
        let now = self.now;
        let news = self.nodes[usize::from(to)].news.as_mut().filter(|_| is_up);
        if news.is_some_and(|news| news.read(from, &bytes, now).is_ok_and(|changes| changes.links)) {
            self.learn_at(to);
        }
    }
}

/// The wires between two nodes: one, or one each way.
fn wires(topology: Topology, a: u16, b: u16) -> impl Iterator<Item = (u16, u16)> {
    [(a, b), (b, a)].into_iter().filter_map(move |(from, to)| Some((from, topology.link_to(from, to)?)))
}
