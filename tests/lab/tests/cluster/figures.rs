//! What failures cost, and whether there are some where nothing fails, in figures: `make failures`. Nothing here is judged but
//! that every packet comes once and in order, and that everything is as before afterwards; what the gaps are to be stands
//! in the manual beside what they were.

use std::env;
use std::fmt::Display;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use lab::Result;
use lab::cluster::{FIFTH, LIMIT, NODES, Probe, Seen, Stage};
use lab::netns;
use lab::wait::wait_until;

use crate::alone;

/// Bytes of payload of a probe's packets.
const LENGTH: usize = 60;
/// The same on a line, with UDP, IP, Ethernet and what that adds to a frame.
const ON_LINE: u32 = LENGTH as u32 + 8 + 20 + 14 + 24;
/// For how long probes run before and after a failure.
const CALM: Duration = Duration::from_millis(500);
/// The aim.
const GAP: Duration = Duration::from_millis(50);

/// What the links are: `veth` or `ring`.
const LINKS: &str = "CLUSTER_LINKS";

/// The same as the environment has it.
pub fn links_are() -> String {
    env::var(LINKS).unwrap_or_else(|_| "veth".to_owned())
}

/// A number that the environment may give.
fn number<T: FromStr + Display>(name: &str, usual: T) -> T {
    let number = env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    println!("{name}={number}");
    number
}

/// A cluster whose lines a probe fills to 70 %, more than fits the direct link, and a probe's packets a second. At less than
/// 50 % everything goes directly.
fn stage() -> Result<(Stage, u32)> {
    let links = links_are();
    println!("{LINKS}={links}");
    let (rate, hello) = (number("CLUSTER_RATE", 10_000), number("CLUSTER_HELLO", 10));
    let line = u64::from(rate * ON_LINE * 8) * 100 / number("CLUSTER_LOAD", 70).max(1);
    let of_each = match number("CLUSTER_BUFFERS", 0) {
        0 => String::new(),
        buffers => format!("buffers = {buffers}\n"),
    };
    let stage = Stage::of_nodes(
        &format!("line_rate = '{line}'\nhello = '{hello}ms'\nlink_type = '{links}'\n"),
        &of_each,
    )?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    Ok((stage, rate))
}

/// What fails.
#[derive(Clone, Copy)]
enum Failure {
    Node(usize),
    Link(usize, usize),
}

impl Failure {
    /// All in turn.
    fn number(round: usize) -> Failure {
        let links = [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)];
        match round % 2 {
            // Rings are nothing that could be pulled.
            _ if links_are() == "ring" => Failure::Node(round % 4),
            0 => Failure::Node(round / 2 % 4),
            _ => Failure::Link(links[round / 2 % 6].0, links[round / 2 % 6].1),
        }
    }

    fn text(self) -> String {
        match self {
            Failure::Node(node) => format!("kill -9 of node {}", NODES[node]),
            Failure::Link(from, to) => format!("link of {} and {} down", NODES[from], NODES[to]),
        }
    }

    /// Pairs of hosts that have nothing to do with a node, or the ends of a link and the two others; each line sends to one
    /// other.
    fn pairs(self) -> Vec<(usize, usize)> {
        match self {
            Failure::Node(node) => {
                let others: Vec<usize> = (0..4).filter(|other| *other != node).collect();
                (0..3).map(|i| (others[i], others[(i + 1) % 3])).collect()
            }
            Failure::Link(a, b) => {
                let others: Vec<usize> = (0..4).filter(|node| *node != a && *node != b).collect();
                let (c, d) = (others[0], others[1]);
                vec![(a, b), (b, a), (c, d), (d, c)]
            }
        }
    }

    /// How often links went down, as the nodes say that go on.
    fn downs(self, stage: &Stage) -> Result<u64> {
        let victim = if let Failure::Node(node) = self { NODES[node] } else { "" };
        stage.sum("links", "times_down", |row| row["node"] != victim)
    }

    /// How often they must when it happens.
    fn expected_downs(self) -> u64 {
        if let Failure::Node(_) = self { 3 } else { 2 }
    }

    fn happen(self, stage: &Stage) -> Result<()> {
        match self {
            Failure::Node(node) => stage.kill(NODES[node]),
            Failure::Link(from, to) => stage.link_set(NODES[from], &[&format!("to-{}", NODES[to]), "down"]),
        }
    }

    fn mend(self, stage: &Stage) -> Result<()> {
        match self {
            Failure::Node(node) => stage.start(NODES[node])?,
            Failure::Link(from, to) => stage.link_set(NODES[from], &[&format!("to-{}", NODES[to]), "up"])?,
        }
        stage.wait_for_all_links()?;
        match self {
            Failure::Node(_) => stage.wait_for_all_pings(),
            Failure::Link(..) => Ok(()),
        }
    }
}

/// Nothing waits anywhere.
fn is_calm(stage: &Stage) -> Result<()> {
    wait_until("the end of all that waits", LIMIT, || {
        let held = stage.sum("streams", "held", |_| true)?;
        let waiting = stage.sum("links", "waiting_packets", |_| true)?
            + stage.sum("lines", "waiting_packets", |_| true)?;
        Ok((held == 0 && waiting == 0).then_some(()))
    })
}

/// A probe of which nothing arrived has a gap without an end.
fn milliseconds(time: Duration) -> String {
    if time == Duration::MAX {
        return "endless".to_owned();
    }
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

fn sum(seen: &[Seen], of: fn(&Seen) -> u64) -> u64 {
    seen.iter().map(of).sum()
}

#[test]
#[ignore = "takes minutes and tells figures"]
fn what_failures_cost() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let (stage, rate) = stage()?;
    let relayed = stage.relayed(None)?;
    println!(
        "| | longest gap, ms | packets | lost | late | twice | packets/s of a probe | links down by mistake |\n|---|---|---|---|---|---|---|---|"
    );
    let mut gaps = Vec::new();
    let mut wrong = 0;
    for round in 0..number("CLUSTER_FAILURES", 20) {
        let failure = Failure::number(round);
        is_calm(&stage)?;
        let (pairs, downs) = (failure.pairs(), failure.downs(&stage)?);
        let begun = Instant::now();
        let probes = stage.probes(&pairs, LENGTH, rate)?;
        thread::sleep(CALM);
        failure.happen(&stage)?;
        thread::sleep(CALM);
        let lasted = begun.elapsed();
        let seen = Probe::end(probes)?;
        let mistakes = (failure.downs(&stage)? - downs).saturating_sub(failure.expected_downs());
        let gap = seen.iter().map(|seen| seen.gap).max().unwrap_or_default();
        let (sent, late, twice) = (sum(&seen, |s| s.sent), sum(&seen, |s| s.late), sum(&seen, |s| s.again));
        let lost = sent - sum(&seen, |s| s.received);
        let paced = sent as f64 / seen.len() as f64 / lasted.as_secs_f64();
        let what = failure.text();
        println!(
            "| {what} | {} | {sent} | {lost} | {late} | {twice} | {paced:.0} | {mistakes} |",
            milliseconds(gap)
        );
        gaps.push(gap);
        wrong += late + twice;
        failure.mend(&stage)?;
    }
    is_calm(&stage)?;
    println!(
        "relayed meanwhile, by processes that were not killed: {}",
        stage.relayed(None)?.saturating_sub(relayed)
    );
    gaps.sort_unstable();
    let median = gaps.get(gaps.len() / 2).copied().unwrap_or_default();
    let beyond = gaps.iter().filter(|gap| **gap >= GAP).count();
    println!(
        "longest gap: median {} ms, largest {} ms, {beyond} of {} not below {} ms",
        milliseconds(median),
        milliseconds(gaps.last().copied().unwrap_or_default()),
        gaps.len(),
        milliseconds(GAP)
    );
    let late = stage.sum("streams", "late", |_| true)?;
    let duplicates = stage.sum("streams", "duplicate", |_| true)?;
    println!("refused by resequencers: {late} late, {duplicates} duplicates");
    assert_eq!(wrong, 0, "packets out of order or twice");
    stage.end()
}

#[test]
#[ignore = "takes minutes and tells figures"]
fn what_growth_costs() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let (stage, rate) = stage()?;
    println!(
        "| | longest gap, ms | packets | lost | late | twice | links down by mistake |\n|---|---|---|---|---|---|---|"
    );
    let mut wrong = 0;
    for _ in 0..number("CLUSTER_GROWTH", 5) {
        for (what, nodes) in [("node e comes", 5), ("node e goes", 4)] {
            is_calm(&stage)?;
            let downs = |stage: &Stage| {
                stage.sum("links", "times_down", |row| row["peer"] != FIFTH && row["node"] != FIFTH)
            };
            let before = downs(&stage)?;
            let probes = stage.probes(&[(0, 1), (1, 0), (2, 3), (3, 2)], LENGTH, rate)?;
            thread::sleep(CALM);
            stage.reload(&stage.file(nodes), &[])?;
            stage.wait_for_all_links()?;
            thread::sleep(CALM);
            let seen = Probe::end(probes)?;
            let gap = seen.iter().map(|seen| seen.gap).max().unwrap_or_default();
            let (sent, late, twice) =
                (sum(&seen, |s| s.sent), sum(&seen, |s| s.late), sum(&seen, |s| s.again));
            let (lost, mistakes) = (sent - sum(&seen, |s| s.received), downs(&stage)? - before);
            println!("| {what} | {} | {sent} | {lost} | {late} | {twice} | {mistakes} |", milliseconds(gap));
            wrong += late + twice;
        }
    }
    assert_eq!(wrong, 0, "packets out of order or twice");
    stage.end()
}

#[test]
#[ignore = "takes as long as it is told"]
fn nothing_fails_by_itself() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let (stage, rate) = stage()?;
    let seconds = number("CLUSTER_SECONDS", 60);
    let before = stage.sum("links", "times_down", |_| true)?;
    let (mut sent, mut lost, mut wrong, mut gap) = (0, 0, 0, Duration::ZERO);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let pairs = Failure::Link(0, 1).pairs();
        let probes = stage.probes(&pairs, LENGTH, rate)?;
        thread::sleep(end.saturating_duration_since(Instant::now()).min(Duration::from_secs(60)));
        let seen = Probe::end(probes)?;
        sent += sum(&seen, |s| s.sent);
        lost += sum(&seen, |s| s.sent - s.received);
        wrong += sum(&seen, |s| s.late + s.again);
        gap = gap.max(seen.iter().map(|seen| seen.gap).max().unwrap_or_default());
    }
    let downs = stage.sum("links", "times_down", |_| true)? - before;
    println!(
        "{seconds} s, {sent} packets: links went down {downs} times, {lost} packets lost, longest gap {} ms",
        milliseconds(gap)
    );
    is_calm(&stage)?;
    assert_eq!(wrong, 0, "packets out of order or twice");
    stage.end()
}
