//! Elections where much goes wrong: never two control nodes, and in the end one.

use super::tests::{TTL, config, present};
use super::{Election, Holder, Present, Role, Step, View};
use crate::random::Random;

const MS: u64 = 1_000_000;

/// A store as etcd is one, and nodes that it may not reach, whose messages take their time, and that stand still.
struct World {
    random: Random,
    now: u64,
    revision: u64,
    /// By number: the node, and until when.
    leases: Vec<(u16, u64)>,
    /// Node, lease, and the revision that made it.
    key: Option<(u16, usize, u64)>,
    /// Node, lease, and whether it says that it is a candidate.
    members: Vec<(u16, usize, bool)>,
    nodes: Vec<Node>,
    /// The highest revision of a key that went.
    last_term: u64,
}

struct Node {
    election: Election,
    lease: usize,
    sent: Option<(Step, u64, u64)>,
    answer: Option<(Answer, u64, u64)>,
    frozen: u64,
    cut: u64,
    /// Until when it hears nobody by its links.
    alone: u64,
}

#[derive(Clone)]
enum Answer {
    Granted(usize),
    Renewed(bool),
    Announced(bool),
    Campaigned,
    View(View),
    None,
}

impl World {
    fn new(seed: u64, count: u16) -> World {
        let node = |me| Node {
            election: Election::new(config(me)),
            lease: usize::MAX,
            sent: None,
            answer: None,
            frozen: 0,
            cut: 0,
            alone: 0,
        };
        let nodes = (0..count).map(node).collect();
        World {
            random: Random::new(seed),
            now: 0,
            revision: 1,
            leases: Vec::new(),
            key: None,
            members: Vec::new(),
            nodes,
            last_term: 0,
        }
    }

    fn lives(&self, lease: usize) -> bool {
        self.leases.get(lease).is_some_and(|(_, until)| self.now < *until)
    }

    fn expire(&mut self) {
        let (leases, now) = (&self.leases, self.now);
        let lives = |lease: usize| leases.get(lease).is_some_and(|(_, until)| now < *until);
        self.members.retain(|(_, lease, _)| lives(*lease));
        self.key = self.key.filter(|(_, lease, _)| lives(*lease));
    }

    fn serve(&mut self, i: usize, step: Step) -> Answer {
        let (node, lease) = (i as u16, self.nodes[i].lease);
        match step {
            Step::Grant => {
                self.leases.push((node, self.now + TTL));
                Answer::Granted(self.leases.len() - 1)
            }
            Step::Renew => {
                let lives = self.lives(lease);
                if lives {
                    self.leases[lease].1 = self.now + TTL;
                }
                Answer::Renewed(lives)
            }
            Step::Announce => {
                let lives = self.lives(lease);
                if lives {
                    self.members.retain(|(other, ..)| *other != node);
                    self.members.push((node, lease, self.nodes[i].election.is_candidate()));
                }
                Answer::Announced(lives)
            }
            Step::Campaign => {
                if self.key.is_none() && self.lives(lease) {
                    self.revision += 1;
                    assert!(self.revision > self.last_term);
                    self.last_term = self.revision;
                    self.key = Some((node, lease, self.revision));
                }
                Answer::Campaigned
            }
            Step::Look => Answer::View(View {
                holder: self.key.map(|(node, of, term)| Holder { node, term, ours: of == lease }),
                present: self
                    .members
                    .iter()
                    .map(|(node, _, candidate)| Present { candidate: *candidate, ..present(*node, true) })
                    .collect(),
            }),
            Step::Resign => {
                if let Some((_, until)) = self.leases.get_mut(lease) {
                    *until = self.now;
                }
                self.expire();
                Answer::None
            }
            Step::Wait(_) => Answer::None,
        }
    }

    /// How many nodes gave their lease back.
    fn tick(&mut self, until_calm: u64) -> usize {
        let mut resigned = 0;
        self.now += 5 * MS;
        self.expire();
        let calm = self.now >= until_calm;
        for i in 0..self.nodes.len() {
            let dice = self.random.below(10_000);
            let long = self.random.below(6000) as u64 * MS;
            let node = &mut self.nodes[i];
            match dice {
                0..=3 if !calm => node.frozen = self.now + long,
                4..=9 if !calm => node.cut = self.now + long,
                10..=12 if !calm => node.alone = self.now + 4 * long,
                _ => {}
            }
            let delay = self.random.below(if calm { 3 } else { 200 }) as u64 * MS;
            let (now, node) = (self.now, &mut self.nodes[i]);
            if let Some((step, sent, at)) = node.sent.filter(|(_, _, at)| *at <= now) {
                // What is lost on the way is noticed when it takes too long.
                let answer = if node.cut > now { Answer::None } else { self.serve(i, step) };
                let node = &mut self.nodes[i];
                node.sent = None;
                let answer = if node.cut > at + delay { Answer::None } else { answer };
                node.answer = Some((answer, sent, at + delay));
            }
            let node = &mut self.nodes[i];
            if node.frozen > now {
                continue;
            }
            let election = &mut node.election;
            election.set_reaches(now, calm || node.alone <= now);
            if let Some((answer, sent, _)) = node.answer.take_if(|(_, _, at)| *at <= now) {
                match answer {
                    Answer::Granted(lease) => {
                        node.lease = lease;
                        election.granted(sent, TTL);
                    }
                    Answer::Renewed(true) => election.renewed(sent, TTL),
                    Answer::Renewed(false) | Answer::Announced(false) => election.lease_is_gone(),
                    Answer::Announced(true) => election.announced(),
                    Answer::Campaigned => election.campaigned(now),
                    Answer::View(view) => election.saw(now, view),
                    Answer::None => election.failed(now),
                }
            }
            if node.sent.is_none() && node.answer.is_none() {
                // In place of a watch.
                if self.random.below(20) == 0 {
                    election.changed();
                }
                match election.step(now) {
                    Step::Wait(_) => {}
                    Step::Resign => {
                        resigned += 1;
                        election.lease_is_gone();
                        node.sent = Some((Step::Resign, now, now + delay));
                    }
                    step => node.sent = Some((step, now, now + delay)),
                }
            }
        }
        resigned
    }
}

#[test]
fn never_two_and_in_the_end_one() {
    let (mut terms, mut resigned) = (0, 0);
    for seed in 0..200 {
        let count = 2 + (seed % 5) as u16;
        let mut world = World::new(seed, count);
        let calm = 60_000 * MS;
        while world.now < calm + 4 * TTL {
            resigned += world.tick(calm);
            let certain = (0..count).filter(|i| world.nodes[usize::from(*i)].election.is_certain(world.now));
            let certain: Vec<u16> = certain.collect();
            assert!(certain.len() <= 1, "seed {seed} at {}: {certain:?}", world.now);
            // Who is certain is the one that the store names.
            if let (Some(one), Some((holder, _, _))) = (certain.first(), world.key) {
                assert_eq!(*one, holder, "seed {seed} at {}", world.now);
            }
        }
        let control = world.nodes[0].election.role().control(0);
        assert!(control.is_some(), "seed {seed}");
        for (i, node) in (0..).zip(&world.nodes) {
            assert_eq!(node.election.role().control(i), control, "seed {seed}, node {i}");
        }
        let (node, term) = control.unwrap();
        assert_eq!(world.nodes[usize::from(node)].election.role(), Role::Control { term });
        terms += term;
    }
    // They did change hands.
    assert!(terms > 1000, "{terms}");
    assert!(resigned > 50, "{resigned}");
}
