//! The resequencer against a naive one, and against networks that lose, delay, duplicate and fail.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use proptest::prelude::*;

use super::*;
use crate::numbering::Numbering;
use crate::random::Random;

const MS: u64 = 1_000_000;

/// The rules as they are written at the top of the module, with sets.
#[derive(Default)]
struct Naive {
    next: u64,
    held: BTreeMap<u64, u64>,
    lost: BTreeSet<u64>,
    floors: Vec<Option<u64>>,
    deadline: u64,
}

impl Naive {
    fn accept(&mut self, path: usize, number: u64, now: u64) -> (Vec<u64>, Option<Reason>) {
        if number < self.next {
            let late = self.lost.remove(&number);
            return (vec![], Some(if late { Reason::Late } else { Reason::Duplicate }));
        }
        self.floor(path, number + 1);
        let is_new = !self.held.contains_key(&number);
        self.held.entry(number).or_insert(now);
        (self.settle(), (!is_new).then_some(Reason::Duplicate))
    }

    fn floor(&mut self, path: usize, to: u64) {
        if let Some(floor) = &mut self.floors[path] {
            *floor = to.max(*floor);
        }
    }

    fn settle(&mut self) -> Vec<u64> {
        let end = self.held.keys().last().map_or(self.next, |last| last + 1);
        let floor = self.floors.iter().flatten().min().copied().unwrap_or(end);
        self.until(floor)
    }

    fn until(&mut self, floor: u64) -> Vec<u64> {
        let mut out = vec![];
        loop {
            if self.held.remove(&self.next).is_some() {
                out.push(self.next);
            } else if self.next < floor {
                self.lost.insert(self.next);
            } else {
                return out;
            }
            self.next += 1;
        }
    }

    fn poll(&mut self, now: u64) -> Vec<u64> {
        let due = |held: &BTreeMap<u64, u64>, deadline| {
            held.iter().filter(|&(_, since)| since + deadline <= now).map(|(&number, _)| number).next_back()
        };
        due(&self.held, self.deadline).map_or(vec![], |number| self.until(number))
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A packet so many numbers after the first that was not sent, or before.
    Packet {
        path: usize,
        offset: i64,
    },
    Marker {
        path: usize,
        offset: u64,
    },
    Down(usize),
    Up(usize),
    Poll,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        12 => (0..3usize, -6..20i64).prop_map(|(path, offset)| Step::Packet { path, offset }),
        6 => (0..3usize, -1..2i64).prop_map(|(path, offset)| Step::Packet { path, offset }),
        2 => (0..3usize, 0..6u64).prop_map(|(path, offset)| Step::Marker { path, offset }),
        1 => (0..3usize).prop_map(Step::Down),
        1 => (0..3usize).prop_map(Step::Up),
        2 => Just(Step::Poll),
    ];
    prop::collection::vec((0..30u64, step), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn does_what_the_naive_one_does(steps in steps()) {
        let mut stream = Resequencer::new(3, 64, 100, 5);
        let mut naive = Naive { floors: vec![Some(0); 3], deadline: 100, ..Naive::default() };
        let (mut now, mut out) = (0, vec![]);
        for (gap, step) in steps {
            now += gap;
            out.clear();
            let expected = match step {
                Step::Packet { path, offset } => {
                    let number = naive.next.saturating_add_signed(offset);
                    // Those that may pass do, of even numbers.
                    let got = if number % 2 == 0 && stream.passing(path, 5, 1) == Some((low(number), 1))
                    {
                        out.push(number);
                        stream.pass(path, 1);
                        stream.catch_up(&mut out);
                        Ok(())
                    } else {
                        stream.accept(path, 5, low(number), number, now, &mut out)
                    };
                    let (expected, reason) = naive.accept(path, number, now);
                    prop_assert_eq!(got.err(), reason.map(|reason| Rejected { item: number, reason }));
                    expected
                }
                Step::Marker { path, offset } => {
                    prop_assert_eq!(stream.marker(path, 5, low(naive.next + offset), now, &mut out), Ok(()));
                    naive.floor(path, naive.next + offset);
                    naive.settle()
                }
                Step::Down(path) => {
                    stream.path_down(path, &mut out);
                    naive.floors[path] = None;
                    naive.settle()
                }
                Step::Up(path) => {
                    stream.path_up(path);
                    naive.floors[path] = Some(naive.next);
                    vec![]
                }
                Step::Poll => {
                    stream.poll(now, &mut out);
                    prop_assert!(stream.due().is_none_or(|due| due > now));
                    naive.poll(now)
                }
            };
            prop_assert_eq!(&out, &expected);
            prop_assert_eq!((stream.next, stream.held()), (naive.next, naive.held.len()));
            prop_assert!(stream.waiting.len() < 2 * stream.slots.len());
            let due = naive.held.values().min().map(|since| since + 100);
            prop_assert_eq!(stream.due(), due);
        }
    }
}

/// A network of three paths that keep order, each with its own delay, that may lose, duplicate and fail.
struct Trial {
    loss: f64,
    duplication: f64,
    failure: bool,
    deadline: u64,
    delays: [u64; 3],
}

/// Sends 3,000 packets through it, and gives the numbers delivered and what the stream counted.
#[expect(clippy::too_many_lines, reason = "a network in one place")]
fn run(seed: u64, trial: &Trial) -> (Vec<u64>, Counts) {
    enum What {
        Packet(u64, u32),
        Marker(u32),
        Down,
    }
    let mut random = Random::new(seed);
    let mut stream = Resequencer::new(3, 1024, trial.deadline, 0);
    let mut numbers = Numbering::new(3);
    let mut events = BinaryHeap::new();
    let mut what = vec![];
    let mut last = [0u64; 3];
    let dead_from = if trial.failure { 10_000 + random.below(10_000) as u64 } else { u64::MAX };
    let mut send = |at: u64, path: usize, item: What, random: &mut Random, lost: bool| {
        let jitter = random.below(trial.delays[path] as usize + 1) as u64;
        // Each path keeps its order.
        last[path] = last[path].max(at + trial.delays[path] + jitter);
        let is_dead = path == 2 && at >= dead_from;
        if !lost && !is_dead {
            events.push(Reverse((last[path], what.len(), path)));
            what.push(item);
        }
    };
    for packet in 0..3000u64 {
        let now = packet * 10;
        let path = if now > dead_from.saturating_add(300) { random.below(2) } else { random.below(3) };
        let number = numbers.number(path, now);
        let lost = random.fraction() < trial.loss;
        send(now, path, What::Packet(packet, number), &mut random, lost);
        if random.fraction() < trial.duplication {
            send(now, path, What::Packet(packet, number), &mut random, false);
        }
        for (path, number) in numbers.markers(now, 200, |_| 0) {
            send(now, path, What::Marker(number), &mut random, false);
        }
    }
    for (path, number) in numbers.markers(1_000_000, 200, |_| 0) {
        send(30_000, path, What::Marker(number), &mut random, false);
    }
    if trial.failure {
        // Told by missed hellos, some time later.
        events.push(Reverse((dead_from + 500, what.len(), 2)));
        what.push(What::Down);
    }
    let mut out = vec![];
    let mut most_held = 0;
    while let Some(Reverse((now, index, path))) = events.pop() {
        stream.poll(now, &mut out);
        match what[index] {
            What::Packet(packet, number) => {
                let _ = stream.accept(path, 0, number, packet, now, &mut out);
            }
            What::Marker(number) => stream.marker(path, 0, number, now, &mut out).unwrap(),
            What::Down => stream.path_down(path, &mut out),
        }
        most_held = most_held.max(stream.held());
        assert!(stream.due().is_none_or(|due| due > now && due <= now + trial.deadline));
    }
    assert!(most_held < 1024);
    if let Some(due) = stream.due() {
        stream.poll(due + trial.deadline, &mut out);
    }
    assert_eq!(stream.held(), 0, "nothing is held for ever");
    (out, stream.counts())
}

fn seeds(usual: u64) -> std::ops::Range<u64> {
    let count = std::env::var("CLUSTER_SEEDS").ok().and_then(|count| count.parse().ok());
    0..count.unwrap_or(usual)
}

#[test]
fn at_most_once_and_in_order_whatever_the_network_does() {
    for seed in seeds(1000) {
        let mut random = Random::new(!seed);
        let mut chance = |most: f64| if random.below(2) == 0 { 0.0 } else { random.fraction() * most };
        let (loss, duplication) = (chance(0.2), chance(0.1));
        let mut delay = || 1 + random.below(800) as u64;
        let delays = [delay(), delay(), delay()];
        let trial = Trial {
            loss,
            duplication,
            failure: seed % 3 == 0,
            deadline: 1 + random.below(4000) as u64,
            delays,
        };
        let (out, counts) = run(seed, &trial);
        assert!(out.is_sorted_by(|a, b| a < b), "seed {seed}");
        assert_eq!(out.len() as u64, counts.delivered);
        assert!(counts.late <= counts.given_up);
        // Every number up to the last was delivered or given up.
        assert!(counts.delivered + counts.given_up >= out.last().map_or(0, |last| last + 1), "seed {seed}");
    }
}

#[test]
fn without_loss_nothing_is_given_up_however_far_apart_paths_are() {
    for seed in seeds(200) {
        let trial = Trial {
            loss: 0.0,
            duplication: 0.0,
            failure: false,
            deadline: 5000,
            delays: [1, 200, 1 + seed * 9 % 1000],
        };
        let (out, counts) = run(seed, &trial);
        assert_eq!(out, (0..3000).collect::<Vec<_>>());
        assert_eq!((counts.given_up, counts.late, counts.duplicate), (0, 0, 0));
        assert!(counts.waited > 100);
    }
}

#[test]
fn what_is_lost_is_found_out_long_before_the_deadline() {
    for seed in seeds(200) {
        let trial = Trial {
            loss: 0.05,
            duplication: 0.0,
            failure: false,
            deadline: 1000 * MS,
            delays: [50, 100, 150],
        };
        let (out, counts) = run(seed, &trial);
        assert_eq!((counts.late, counts.expired), (0, 0), "no packet was given up that was under way");
        // What was lost at the very end is known by the last markers.
        assert_eq!(out.len() as u64 + counts.given_up, 3000);
    }
}

#[test]
fn a_dead_path_is_waited_for_until_it_is_known_to_be_dead() {
    let mut stream = Resequencer::new(3, 64, 1000 * MS, 0);
    let mut out = vec![];
    stream.accept(0, 0, 0, 'a', 0, &mut out).unwrap();
    stream.accept(0, 0, 2, 'c', 0, &mut out).unwrap();
    stream.accept(1, 0, 3, 'd', 0, &mut out).unwrap();
    assert_eq!(out, ['a']);
    stream.path_down(2, &mut out);
    assert_eq!(out, ['a', 'c', 'd']);
    let late = stream.accept(2, 0, 1, 'b', 0, &mut out);
    assert_eq!(late, Err(Rejected { item: 'b', reason: Reason::Late }));
    assert_eq!(stream.accept(2, 0, 1, 'b', 0, &mut out).unwrap_err().reason, Reason::Duplicate);
    stream.path_up(2);
    stream.accept(0, 0, 5, 'f', 0, &mut out).unwrap();
    stream.accept(1, 0, 6, 'g', 0, &mut out).unwrap();
    assert_eq!(out.len(), 3, "2 may have 4 under way");
    stream.marker(2, 0, 5, 0, &mut out).unwrap();
    assert_eq!(out[3..], ['f', 'g']);
    let counts = Counts { delivered: 5, waited: 4, given_up: 2, late: 1, duplicate: 1, ..Counts::default() };
    assert_eq!(stream.counts(), counts);
}

#[test]
fn with_all_paths_down_nothing_waits() {
    let mut stream = Resequencer::new(2, 64, 1000, 0);
    let mut out = vec![];
    stream.accept(0, 0, 3, 3, 0, &mut out).unwrap();
    stream.path_down(0, &mut out);
    stream.path_down(1, &mut out);
    stream.accept(1, 0, 5, 5, 0, &mut out).unwrap();
    assert_eq!(out, [3, 5]);
    stream.path_down(7, &mut out);
    stream.path_up(7);
    assert_eq!(stream.accept(7, 0, 6, 6, 0, &mut out).unwrap_err().reason, Reason::NoPath);
    assert_eq!(stream.marker(7, 0, 6, 0, &mut out), Err(Reason::NoPath));
}

#[test]
fn frames_outside_the_window_cannot_move_it_until_they_come_in_a_row() {
    let mut stream = Resequencer::new(1, 64, 1000, 0);
    let mut out = vec![];
    for number in 0..10 {
        stream.accept(0, 0, number, number, 0, &mut out).unwrap();
        // One stray frame after each.
        let stray = stream.accept(0, 0, 5_000_000 + 7 * number, 0, 0, &mut out);
        assert_eq!(stray.unwrap_err().reason, Reason::OutOfWindow);
        assert_eq!(stream.held(), 0);
    }
    assert_eq!(out, (0..10).collect::<Vec<_>>());
    out.clear();
    // The stream is really elsewhere: the third frame in a row is taken.
    for number in [7_000_000, 7_000_003, 7_000_004, 7_000_006, 7_000_005] {
        let _ = stream.accept(0, 0, number, number, 0, &mut out);
    }
    assert_eq!(out, [7_000_004, 7_000_006]);
    assert_eq!((stream.counts().out_of_window, stream.counts().moved, stream.counts().late), (12, 1, 1));
}

#[test]
fn very_late_frames_do_not_move_the_window_back_until_nothing_else_comes() {
    let mut stream = Resequencer::new(1, 64, 1000, 0);
    let mut out = vec![];
    let send = |stream: &mut Resequencer<u32>, number, now, out: &mut Vec<u32>| {
        stream.accept(0, 0, number, number, now, out).map_err(|rejected| rejected.reason)
    };
    for number in 0..200 {
        assert_eq!(send(&mut stream, number, 0, &mut out), Ok(()));
    }
    for number in 0..100 {
        let now = u64::from(number) * 160;
        assert_eq!(send(&mut stream, number, now, &mut out), Err(Reason::OutOfWindow));
    }
    assert_eq!(send(&mut stream, 200, 16_000, &mut out), Ok(()));
    assert_eq!(send(&mut stream, 100, 17_000, &mut out), Err(Reason::OutOfWindow));
    assert_eq!(send(&mut stream, 101, 33_000, &mut out), Err(Reason::OutOfWindow));
    assert_eq!(out.len(), 201);
    // Sixteen deadlines of nothing else: somebody had led us astray.
    assert_eq!(send(&mut stream, 102, 33_001, &mut out), Ok(()));
    assert_eq!(send(&mut stream, 103, 33_001, &mut out), Ok(()));
    assert_eq!(out[201..], [102, 103]);
}

#[test]
fn frames_of_another_life_are_refused_until_it_is_announced() {
    let mut stream = Resequencer::new(2, 64, 1000, 3);
    let mut out = vec![];
    for number in 0..100 {
        stream.accept(0, 3, number, number, 0, &mut out).unwrap();
    }
    stream.accept(0, 3, 101, 101, 0, &mut out).unwrap();
    assert_eq!(stream.accept(0, 4, 100, 7, 0, &mut out).unwrap_err().reason, Reason::WrongIncarnation);
    assert_eq!(stream.marker(0, 4, 100, 0, &mut out), Err(Reason::WrongIncarnation));
    out.clear();
    stream.restart(4, &mut out);
    assert_eq!(out, [101], "what waited is not lost");
    stream.accept(1, 4, 0, 0, 0, &mut out).unwrap();
    assert_eq!(stream.accept(0, 3, 100, 7, 0, &mut out).unwrap_err().reason, Reason::WrongIncarnation);
    stream.accept(0, 4, 1, 1, 0, &mut out).unwrap();
    assert_eq!(out, [101, 0, 1]);
}

#[test]
fn numbers_go_round() {
    let mut stream = Resequencer::new(2, 64, 1000, 0);
    let mut out = vec![];
    stream.next = u64::from(SEQUENCES) - 2;
    stream.path_up(0);
    stream.path_up(1);
    for number in [SEQUENCES - 1, 1, SEQUENCES - 2, 0] {
        stream.accept(number as usize % 2, 0, number, number, 0, &mut out).unwrap();
    }
    assert_eq!(out, [SEQUENCES - 2, SEQUENCES - 1, 0, 1]);
    assert_eq!(stream.accept(0, 0, SEQUENCES - 1, 0, 0, &mut out).unwrap_err().reason, Reason::Duplicate);
}
