use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::random::Random;

const MS: u64 = 1_000_000;
const HELLO: u64 = 10 * MS;

/// Nodes that tell each other, on links that lose some of it. A tick is a millisecond.
struct Net {
    topology: Topology,
    /// `None`: dead, or of a version that does not know of news.
    nodes: Vec<Option<News>>,
    cut: BTreeSet<(u16, u16)>,
    dead: BTreeSet<u16>,
    drains: BTreeSet<u16>,
    frames: Vec<(u64, u16, u16, Vec<u8>)>,
    random: Random,
    lost_percent: usize,
    now: u64,
    sent: usize,
}

fn ends(a: u16, b: u16) -> (u16, u16) {
    (a.min(b), a.max(b))
}

impl Net {
    fn new(topology: Topology, seed: u64, lost_percent: usize) -> Net {
        let nodes = (0..topology.nodes()).map(|me| News::new(topology, me, 1, HELLO)).collect();
        let mut net = Net {
            topology,
            nodes,
            cut: BTreeSet::new(),
            dead: BTreeSet::new(),
            drains: BTreeSet::new(),
            frames: Vec::new(),
            random: Random::new(seed),
            lost_percent,
            now: 1000 * MS,
            sent: 0,
        };
        net.links().into_iter().for_each(|(a, b)| net.know(a, b));
        net
    }

    fn links(&self) -> BTreeSet<(u16, u16)> {
        let of = |node| self.topology.neighbours(node).into_iter().map(move |peer| ends(node, peer));
        (0..self.topology.nodes()).flat_map(of).collect()
    }

    fn is_up(&self, a: u16, b: u16) -> bool {
        !self.cut.contains(&ends(a, b)) && !self.dead.contains(&a) && !self.dead.contains(&b)
    }

    /// Both ends find out how a link is.
    fn know(&mut self, a: u16, b: u16) {
        let (up, now) = (self.is_up(a, b), self.now);
        for (node, peer) in [(a, b), (b, a)] {
            self.nodes[usize::from(node)].iter_mut().for_each(|news| news.set_link(peer, up, now));
        }
    }

    fn set_link(&mut self, (a, b): (u16, u16), up: bool) {
        if up {
            self.cut.remove(&(a, b))
        } else {
            self.cut.insert((a, b))
        };
        self.know(a, b);
    }

    fn kill(&mut self, node: u16) {
        self.dead.insert(node);
        self.drains.remove(&node);
        self.nodes[usize::from(node)] = None;
        self.topology.neighbours(node).into_iter().for_each(|peer| self.know(node, peer));
    }

    fn start(&mut self, node: u16, incarnation: u8) {
        self.dead.remove(&node);
        self.nodes[usize::from(node)] = News::new(self.topology, node, incarnation, HELLO);
        self.topology.neighbours(node).into_iter().for_each(|peer| self.know(node, peer));
    }

    fn drain(&mut self, node: u16, drains: bool) {
        let Some(news) = &mut self.nodes[usize::from(node)] else { return };
        let changed = if drains { self.drains.insert(node) } else { self.drains.remove(&node) };
        assert_eq!(news.set_drains(drains, self.now), changed);
    }

    fn run(&mut self, ticks: u64) {
        for _ in 0..ticks {
            self.now += MS;
            let now = self.now;
            let due = self.frames.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>();
            for (_, from, to, bytes) in due {
                let up = self.is_up(from, to);
                if let Some(news) = self.nodes[usize::from(to)].as_mut().filter(|_| up) {
                    news.read(from, &bytes, now).unwrap();
                }
            }
            for me in 0..self.topology.nodes() {
                let Some(news) = &mut self.nodes[usize::from(me)] else { continue };
                news.poll(now);
                for peer in self.topology.neighbours(me) {
                    let is_due = (now / MS + u64::from(me)).is_multiple_of(10);
                    if !is_due && !news.is_fresh(peer) {
                        continue;
                    }
                    let mut bytes = Vec::new();
                    news.write(peer, now, &mut bytes);
                    self.sent += 1;
                    if self.random.below(100) >= self.lost_percent {
                        // Frames may overtake each other.
                        let delay = self.random.below(4) as u64 * MS;
                        self.frames.push((now + delay, me, peer, bytes));
                    }
                }
            }
        }
    }

    /// The nodes that news goes to from here.
    fn component(&self, from: u16) -> BTreeSet<u16> {
        let (mut found, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = next.pop() {
            for peer in self.topology.neighbours(node) {
                let there = self.nodes[usize::from(peer)].is_some() && self.is_up(node, peer);
                if there && found.insert(peer) {
                    next.push(peer);
                }
            }
        }
        found
    }

    /// Every node knows exactly which far links are down, as far as somebody can tell it.
    fn all_know(&self, what: &str) {
        for (me, news) in (0..).zip(&self.nodes) {
            let Some(news) = news else { continue };
            let told = self.component(me);
            let far = self.links().into_iter().filter(|&(a, b)| a != me && b != me);
            let down = far.filter(|&(a, b)| !self.is_up(a, b) && (told.contains(&a) || told.contains(&b)));
            // Of links between two that nobody hears any more, nobody knows.
            let known = news.down().filter(|(a, b, _)| told.contains(a) || told.contains(b));
            let known: BTreeSet<_> = known.map(|(a, b, _)| ends(a, b)).collect();
            assert_eq!(known, down.collect(), "node {me}, {what}");
            let drains = news.drains().filter(|node| told.contains(node)).collect::<BTreeSet<_>>();
            let wanted = self.drains.intersection(&told).copied().collect::<BTreeSet<_>>();
            assert_eq!(drains, wanted, "node {me}, {what}");
        }
    }
}

fn shapes() -> impl Strategy<Value = Topology> {
    prop_oneof![Just((2, 2)), Just((2, 3)), Just((3, 2)), Just((4, 2))]
        .prop_map(|(radix, columns)| Topology::fly(radix, columns).unwrap())
}

#[test]
fn a_mesh_needs_no_news() {
    assert!(News::new(Topology::mesh(4).unwrap(), 0, 0, HELLO).is_none());
    assert!(News::new(Topology::fly(2, 2).unwrap(), 8, 0, HELLO).is_none());
}

#[test]
fn down_goes_round_in_milliseconds_and_up_settles_from_behind() {
    let fly = Topology::fly(2, 3).unwrap();
    let mut net = Net::new(fly, 1, 0);
    net.run(200);
    net.all_know("all up");
    // From column 2 to the relay in row 0.
    let link = (0, 16);
    net.set_link(link, false);
    net.run(15);
    net.all_know("three hops of at most 4 ms");
    net.set_link(link, true);
    let knows = |net: &Net, node: usize| net.nodes[node].iter().all(|news| news.down().next().is_none());
    net.run(16);
    // Columns 2, 1, 0: at once, after 6 hellos, after 12.
    assert_eq!([17, 9, 1].map(|node| knows(&net, node)), [true, false, false]);
    net.run(60);
    assert_eq!([17, 9, 1].map(|node| knows(&net, node)), [true, true, false]);
    net.run(60);
    net.all_know("up again");
    assert_eq!(Timing::new(&fly, 17, HELLO).settle, 0);
}

#[test]
fn what_nobody_renews_is_forgotten() {
    let fly = Topology::fly(2, 2).unwrap();
    let mut net = Net::new(fly, 2, 0);
    net.run(100);
    net.kill(7);
    net.run(40);
    net.all_know("one is dead");
    let said = |net: &Net| net.nodes[0].as_ref().unwrap().said(net.now).nth(7).flatten();
    assert_eq!(said(&net).map(|said| (said.incarnation, said.up)), Some((1, 3)));
    net.run(Timing::new(&fly, 0, HELLO).lifetime / MS + 10);
    assert_eq!(said(&net), None, "it does not go in circles");
    net.all_know("and its links are down all the same");
    // An incarnation that looks earlier is a life like any other then.
    net.start(7, 0);
    net.run(200);
    net.all_know("it is back");
    assert_eq!(said(&net).map(|said| said.incarnation), Some(0));
}

#[test]
fn lives_are_told_once() {
    let fly = Topology::fly(2, 2).unwrap();
    let mut news = News::new(fly, 0, 1, HELLO).unwrap();
    let mut read = |incarnation, sequence| {
        let mut bytes = Vec::new();
        write(&fly, &[Record { origin: 3, incarnation, sequence, age: 0, up: 7, drains: false }], &mut bytes);
        news.read(4, &bytes, 0).unwrap().lives
    };
    let life = |incarnation, is_another| vec![Life { node: 3, incarnation, is_another }];
    assert_eq!(read(15, 5), life(15, false));
    assert_eq!(read(15, 6), []);
    assert_eq!(read(1, 0), life(1, true), "numbers go in a circle");
    assert_eq!(read(15, 7), [], "an earlier life is over");
}

/// Whatever numbers somebody invents for a node, it has the last word.
#[test]
fn who_is_misquoted_answers() {
    let fly = Topology::fly(2, 2).unwrap();
    let mut net = Net::new(fly, 3, 0);
    net.run(100);
    for (incarnation, sequence) in [(1, 1 << 30), (1, u32::MAX), (0, 9), (9, 9)] {
        let mut bytes = Vec::new();
        write(&fly, &[Record { origin: 6, incarnation, sequence, age: 0, up: 0, drains: false }], &mut bytes);
        for to in [0, 3] {
            let peer = fly.neighbours(to)[0];
            net.nodes[usize::from(to)].as_mut().unwrap().read(peer, &bytes, net.now).unwrap();
        }
        net.run(200);
        net.all_know("misquoted");
    }
    // A life to come is believed until nobody renews it.
    let mut bytes = Vec::new();
    write(
        &fly,
        &[Record { origin: 6, incarnation: 5, sequence: 0, age: 0, up: 0, drains: false }],
        &mut bytes,
    );
    net.nodes[0].as_mut().unwrap().read(4, &bytes, net.now).unwrap();
    net.run(Timing::new(&fly, 0, HELLO).lifetime / MS + 400);
    net.all_know("and forgotten");
}

#[test]
fn who_drains_is_known_in_milliseconds_and_in_that_life_only() {
    let fly = Topology::fly(2, 3).unwrap();
    let mut net = Net::new(fly, 5, 0);
    net.run(200);
    net.drain(9, true);
    // At most five hops of 4 ms.
    net.run(25);
    net.all_know("one drains");
    net.drain(9, false);
    net.run(25);
    net.all_know("no more");
    net.drain(9, true);
    net.run(25);
    net.kill(9);
    net.run(25);
    net.start(9, 2);
    net.run(200);
    net.all_know("a life that does not drain");
}

/// A node of the version before passes on what others say, but not that they drain.
#[test]
fn who_drains_is_known_beside_nodes_that_do_not_say_so() {
    let fly = Topology::fly(2, 2).unwrap();
    let record = Record { origin: 3, incarnation: 1, sequence: 7, age: 0, up: 7, drains: false };
    let drains = Record { drains: true, ..record };
    for order in [[record, drains], [drains, record]] {
        let mut news = News::new(fly, 0, 1, HELLO).unwrap();
        for record in order {
            let mut bytes = Vec::new();
            write(&fly, &[record], &mut bytes);
            news.read(4, &bytes, 0).unwrap();
        }
        assert_eq!(news.drains().collect::<Vec<_>>(), [3]);
        let mut bytes = Vec::new();
        write(&fly, &[Record { sequence: 8, ..record }], &mut bytes);
        assert!(news.read(4, &bytes, 0).unwrap().links);
        assert_eq!(news.drains().next(), None);
    }
}

/// News costs a hello now and then, not a storm.
#[test]
fn a_change_costs_each_link_few_hellos() {
    let mut net = Net::new(Topology::fly(4, 2).unwrap(), 4, 0);
    net.run(500);
    let before = net.sent;
    net.run(1000);
    let quiet = net.sent - before;
    let before = net.sent;
    net.set_link((0, 16), false);
    net.run(1000);
    let links = 2 * net.links().len();
    assert!(net.sent - before <= quiet + 2 * links, "{} {quiet} {links}", net.sent - before);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever fails, comes back and is lost on the way: when it has been quiet for some hellos, all know what is down.
    #[test]
    fn all_who_can_hear_of_it_know_what_is_down(
        topology in shapes(),
        seed in any::<u64>(),
        lost in 0usize..30,
        changes in prop::collection::vec((0usize..7, any::<prop::sample::Index>(), 0u64..60), 1..12),
        deaf in prop::collection::vec(any::<prop::sample::Index>(), 0..2),
    ) {
        let mut net = Net::new(topology, seed, lost);
        // Those that do not know of news; links are known to be down by their other ends.
        let nodes: Vec<u16> = (0..topology.nodes()).collect();
        let deaf: BTreeSet<u16> = deaf.iter().map(|index| *index.get(&nodes)).collect();
        deaf.iter().for_each(|&node| net.nodes[usize::from(node)] = None);
        let links: Vec<(u16, u16)> = net.links().into_iter().collect();
        let mut life = 1;
        for (what, index, wait) in changes {
            let node = *index.get(&nodes);
            match what {
                0 | 1 => net.set_link(*index.get(&links), what == 1),
                2 if !deaf.contains(&node) => net.kill(node),
                3 if net.dead.contains(&node) => {
                    life = (life + 1) % 16;
                    net.start(node, life);
                }
                4 | 5 => net.drain(node, what == 4),
                _ => {}
            }
            net.run(wait);
        }
        net.run(1500);
        net.all_know("after a while");
    }

    #[test]
    fn any_bytes_leave_one_entry_a_node(
        all in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..80), 1..50),
    ) {
        let fly = Topology::fly(2, 2).unwrap();
        let mut news = News::new(fly, 1, 3, HELLO).unwrap();
        let mut now = 0;
        for mut bytes in all {
            if let Some(version) = bytes.first_mut() {
                *version = VERSION;
            }
            let _ = news.read(5, &bytes, now);
            now += MS;
            news.poll(now);
            let mut out = Vec::new();
            news.write(5, now, &mut out);
            prop_assert!(read(&fly, &out).is_ok_and(|records| records.len() <= 8));
        }
        prop_assert_eq!((news.heard.len(), news.due.len()), (8, 3));
        prop_assert!(news.down().count() <= 24);
        // All of it is gone in the end.
        news.poll(now + HELLO);
        (0..100).for_each(|step| { news.poll(now + HELLO + step * HELLO); });
        prop_assert_eq!(news.down().count(), 0);
    }
}
