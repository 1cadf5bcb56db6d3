//! What the demo does with four nodes that are one router, step by step. Each step adds its checks.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::iperf;
use super::probe::{Probe, Seen};
use super::stage::{FIFTH, LIMIT, Stage};
use crate::checks::{Check, Checks};
use crate::daemons::{Bird, Family, Frr, SynthTable};
use crate::report::thousands;
use crate::snmp;
use crate::steps::{UdpLoss, answered, hops};
use crate::wait::wait_until;
use crate::{Error, Result};

/// What a line carries, in bits a second; a link carries half of it. Two processors are enough for all of it.
const LINE: u32 = 16_000_000;
/// In the cluster's file. The longest of three intervals without a hello is well below [`GAP`].
const SETTINGS: &str = "line_rate = '16M'\nhello = '10ms'\n";
/// Bytes of payload of a probe's packets.
const LENGTH: usize = 1000;
/// The same on a line: with UDP, IP and Ethernet.
const ON_LINE: u32 = 1000 + 8 + 20 + 14 + 24;
/// Packets a second of a probe: 70 % of a line, more than fits the direct link.
const RATE: u32 = 1300;
/// How long a failure may cost traffic.
const GAP: Duration = Duration::from_millis(50);
/// How often a step may be tried: on a machine that is busy with other things, nodes may not run for longer than that.
const TRIES: u32 = 4;
/// For how long probes run before, and after, something is done.
const CALM: Duration = Duration::from_millis(700);
/// For how long a line is offered too much: long enough for all buffers to fill.
const FLOOD: Duration = Duration::from_secs(4);
/// Prefixes that FRR learns.
const PREFIXES: usize = 2_000;
/// The least of Jain's index.
const FAIR: f64 = 0.99;

/// A running cluster to be shown.
#[derive(Debug)]
pub struct Show {
    stage: Stage,
}

impl Show {
    /// Starts it.
    pub fn build() -> Result<Show> {
        Ok(Show { stage: Stage::new(SETTINGS)? })
    }

    /// For a person.
    pub fn picture() -> &'static str {
        "h1 ─ ext1 node a ─── node b ext2 ─ h2     lines of 16 Mbit/s\n\
         \x20              │  ╲ ╱  │\n\
         \x20              │  ╱ ╲  │                links of 8 Mbit/s\n\
         h3 ─ ext3 node c ─── node d ext4 ─ h4     control plane: Linux of node a"
    }

    /// Waits until every host reaches every other, by both protocols.
    pub fn reach(&self) -> Result<()> {
        self.stage.wait_for_all_pings()
    }

    /// All steps in order.
    pub fn run(&self, checks: &mut Checks) -> Result<()> {
        checks.heading("four nodes, one hop");
        self.pings(checks)?;
        self.traceroute(checks)?;
        checks.heading("iperf3 between all pairs of hosts at once");
        self.tcp(checks)?;
        self.udp(checks)?;
        checks.heading("FRR at node a learns routes from behind node c");
        self.bgp(checks)?;
        checks.heading("three hosts offer a fourth 1, 1/2 and 1/4 of its line");
        self.fairness(checks)?;
        let packets = thousands(RATE as usize);
        checks.heading(&format!("failures under probes of {packets} packets a second, in strict order"));
        let resolution = milliseconds(Duration::from_secs(1) / RATE);
        println!(
            "  a gap: from a packet that came to the next that did, by when they were sent; known to {resolution}"
        );
        self.kill_relay(checks)?;
        self.pull_link(checks)?;
        self.drain(checks)?;
        self.grow(checks)
    }

    /// Ends the cluster in order.
    pub fn stop(mut self) -> Result<Vec<Check>> {
        self.stage.stop()
    }

    fn pings(&self, checks: &mut Checks) -> Result<()> {
        for from in 0..4 {
            let others = Stage::pairs().filter(|pair| pair.0 == from).map(|(_, to)| Stage::host_address(to));
            let seen = self.ping(from, &others.collect::<Vec<_>>())?;
            checks.add(Check::same(format!("ping h{} -> all others", from + 1), answers(9), seen));
        }
        Ok(())
    }

    /// Three pings to each address.
    fn ping(&self, from: usize, to: &[String]) -> Result<String> {
        let mut sum = 0;
        for address in to {
            let words = ["-n", "-c3", "-i0.02", "-W2", address];
            let output = self.stage.hosts[from].output("ping", &words)?;
            let seen = answered(&String::from_utf8_lossy(&output.stdout));
            sum += seen.split(' ').next().and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
        }
        Ok(format!("{sum} of {} answered", 3 * to.len()))
    }

    /// Whatever nodes a packet crosses, only that of its input line is a hop, and says so from that line's address.
    fn traceroute(&self, checks: &mut Checks) -> Result<()> {
        let mut right = 0;
        for (from, to) in Stage::pairs() {
            let target = Stage::host_address(to);
            let words = ["-n", "-q1", "-w5", "-m5", &target];
            let seen = hops(&self.stage.hosts[from].run("traceroute", &words)?);
            let expected = format!("10.{}.0.1 {target}", from + 1);
            right += u32::from(seen == expected);
            if (from, to) == (0, 3) || seen != expected {
                let name = format!("traceroute h{} -> h{}", from + 1, to + 1);
                checks.add(Check::same(name, expected, seen));
            }
        }
        let text = |pairs: u32| format!("1 hop for {pairs} of 12 pairs");
        checks.add(Check::same("traceroute between all pairs", text(12), text(right)));
        Ok(())
    }

    fn tcp(&self, checks: &mut Checks) -> Result<()> {
        let reports = iperf::between_all_pairs(&self.stage, &["-b1M", "-l8K", "-t2"])?;
        let rates = reports.iter().map(|report| number(report, "/end/sum_received/bits_per_second") / 1e6);
        let (least, sum) =
            rates.fold((f64::INFINITY, 0.0), |(least, sum), rate| (rate.min(least), sum + rate));
        let seen = format!("{least:.2} Mbit/s, all 12 together {sum:.1}");
        let name = "TCP, 12 times 1 Mbit/s: the slowest";
        checks.add(Check::that(name, "at least 0.80 Mbit/s", seen, least >= 0.8));
        Ok(())
    }

    fn udp(&self, checks: &mut Checks) -> Result<()> {
        for tried in 1..=TRIES {
            let before = self.overflowed()?;
            let reports = iperf::between_all_pairs(&self.stage, &["-u", "-b1M", "-l1000", "-t2"])?;
            let seen = UdpLoss::of(&reports, self.overflowed()? - before);
            if seen.is_little() || tried == TRIES {
                let text = format!("{seen}{}", again(tried));
                checks.add(Check::that("UDP, 12 times 1 Mbit/s", UdpLoss::EXPECTED, text, seen.is_little()));
                break;
            }
            println!("  again: {seen}");
        }
        Ok(())
    }

    /// Datagrams that all hosts together have lost at full sockets.
    fn overflowed(&self) -> Result<u64> {
        self.stage.hosts.iter().map(snmp::overflowed).sum()
    }

    /// BIRD on h3 announces a table to FRR in the Linux of node a, by a session that crosses the cluster; all nodes forward
    /// by it.
    fn bgp(&self, checks: &mut Checks) -> Result<()> {
        let directory = self.stage.directory.path();
        let table = SynthTable::make(directory, Family::V4, PREFIXES)?;
        let host = &self.stage.hosts[2];
        // It answers for every address.
        host.ip("route del default\nroute add 10.0.0.0/8 via 10.3.0.1\nroute add local default dev lo table main\n")?;
        let channel = "ipv4 { import none; export where source = RTS_STATIC; };";
        let session = Bird::session("frr", ("10.3.0.2", 65003), ("10.3.0.1", 65000), channel);
        let config = format!("router id 10.3.0.2;\nprotocol device {{}}\n{}{session}", table.include());
        let _bird = Bird::start_with(host, directory, "h3", &config)?;
        let lines = "router bgp 65000\nno bgp ebgp-requires-policy\nneighbor 10.3.0.2 remote-as 65003\n\
                     neighbor 10.3.0.2 timers connect 1\n";
        let mut frr = Frr::start(&self.stage.inside, directory, &["zebra", "bgpd"], lines)?;
        let mut seen = 0;
        let learned = wait_until("the table", LIMIT, || {
            seen = frr.routes("ip", "ebgp")?.1;
            Ok((seen == table.len()).then_some(()))
        });
        let text = |routes: usize| format!("{} routes in the kernel", thousands(routes));
        checks.add(Check::same("learned by BGP over ext3", text(table.len()), text(seen)));
        learned?;
        let addresses: Vec<String> = table.addresses(3).iter().map(IpAddr::to_string).collect();
        for from in [0, 1, 3] {
            // The first may come before the node has the route.
            addresses.iter().try_for_each(|to| self.stage.wait_for_ping(from, to, true))?;
            let name = format!("ping h{} -> three addresses in the table", from + 1);
            checks.add(Check::same(name, answers(9), self.ping(from, &addresses)?));
        }
        frr.kill();
        host.ip("route del local default dev lo table main\nroute add default via 10.3.0.1\n")
    }

    /// Inputs share the line fairly, whatever they offer.
    fn fairness(&self, checks: &mut Checks) -> Result<()> {
        let full = LINE / 8 / ON_LINE;
        for tried in 1..=TRIES {
            let mut probes = Vec::new();
            for (from, part) in [(0, 1), (1, 2), (2, 4)] {
                let (hosts, address) = (&self.stage.hosts, Stage::host_address(3));
                let rate = full / u32::from(part);
                probes.push(Probe::start(&hosts[from], &hosts[3], &address, part, LENGTH, rate)?);
            }
            thread::sleep(FLOOD);
            let seen = Probe::end(probes)?;
            let index = jain(&seen);
            if index >= FAIR || tried == TRIES {
                let part = |seen: &Seen| format!("{} of {}", seen.received, seen.sent);
                let parts: Vec<String> = seen.iter().map(part).collect();
                println!("  through the line: {} packets", parts.join(", "));
                let name = "Jain's index of what each got of its max-min share";
                let seen = format!("{index:.4}{}", again(tried));
                checks.add(Check::that(name, format!("at least {FAIR}"), seen, index >= FAIR));
                break;
            }
            println!("  again, as Jain's index was {index:.4}");
        }
        Ok(())
    }

    fn kill_relay(&self, checks: &mut Checks) -> Result<()> {
        let pairs = [(0, 1), (1, 3), (3, 0)];
        let (before, mut relayed) = (self.stage.relayed(Some("c"))?, 0);
        let name = "c, a relay, is killed and comes back";
        self.disturb(checks, name, &pairs, || {
            // A process that was started again counts from 0.
            relayed = relayed.max(self.stage.relayed(Some("c"))?.saturating_sub(before));
            self.stage.kill("c")?;
            thread::sleep(CALM);
            self.stage.start("c")?;
            self.stage.wait_for_all_links()
        })?;
        checks.add(Check::that("  relayed by c before", "some", thousands(relayed as usize), relayed > 0));
        self.stage.wait_for_ping(0, &Stage::host_address(2), true)?;
        checks.add(Check::same(
            "  ping h1 -> h3, whose node it is",
            answers(3),
            self.ping(0, &[Stage::host_address(2)])?,
        ));
        Ok(())
    }

    fn pull_link(&self, checks: &mut Checks) -> Result<()> {
        let pairs = [(1, 3), (3, 1), (0, 2)];
        let mut down = 0;
        let name = "the link of b and d is pulled and put back";
        self.disturb(checks, name, &pairs, || {
            self.stage.link_set("b", &["to-d", "down"])?;
            thread::sleep(CALM);
            down = self.stage.rows("links")?.iter().filter(|row| row["state"] == "down").count();
            self.stage.link_set("b", &["to-d", "up"])?;
            self.stage.wait_for_all_links()
        })?;
        checks.add(Check::same("  nodes that said it was down", 2, down));
        Ok(())
    }

    fn drain(&self, checks: &mut Checks) -> Result<()> {
        let pairs = [(0, 1), (1, 3), (3, 0)];
        let (mut drained, mut after) = (0, 0);
        let mut heard = String::new();
        self.disturb(checks, "c is drained and undrained", &pairs, || {
            let relayed = || self.stage.relayed(Some("c"));
            self.stage.typed(&["drain", "c"])?;
            thread::sleep(CALM / 2);
            let before = relayed()?;
            thread::sleep(CALM);
            drained = relayed()? - before;
            heard = self.ping(0, &[Stage::host_address(2)])?;
            self.stage.typed(&["drain", "c", "--off"])?;
            let before = relayed()?;
            thread::sleep(CALM);
            after = relayed()? - before;
            Ok(())
        })?;
        checks.add(Check::same("  relayed by c while drained", 0, drained));
        checks.add(Check::same("  ping h1 -> h3, its own line, meanwhile", answers(3), heard));
        checks.add(Check::that("  relayed by c afterwards", "some", thousands(after as usize), after > 0));
        Ok(())
    }

    /// A fifth node comes, and goes.
    fn grow(&self, checks: &mut Checks) -> Result<()> {
        let pairs = [(0, 1), (1, 3), (3, 0)];
        let (mut relayed, mut heard, mut left) = (0, String::new(), 0);
        self.disturb(checks, "e, a fifth node, comes and goes", &pairs, || {
            self.stage.reload(&self.stage.file(5), &[])?;
            self.stage.wait_for_all_links()?;
            self.stage.wait_for_ping(0, &Stage::host_address(4), true)?;
            heard = self.ping(0, &[Stage::host_address(4)])?;
            thread::sleep(CALM);
            relayed = self.stage.relayed(Some(FIFTH))?;
            self.stage.reload(&self.stage.file(4), &[])?;
            left = self.stage.rows("nodes")?.len();
            Ok(())
        })?;
        checks.add(Check::same("  ping h1 -> h5, behind its port", answers(3), heard));
        checks.add(Check::that("  relayed by e meanwhile", "some", thousands(relayed as usize), relayed > 0));
        checks.add(Check::same("  nodes afterwards", 4, left));
        Ok(())
    }

    /// Does something while probes run between these pairs, again if it cost more than it may. What comes late, or
    /// twice, counts in each try.
    fn disturb(
        &self,
        checks: &mut Checks,
        name: &str,
        pairs: &[(usize, usize)],
        mut what: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let (mut late, mut twice, mut received) = (0, 0, 0);
        for tried in 1..=TRIES {
            let probes = self.stage.probes(pairs, LENGTH, RATE)?;
            thread::sleep(CALM);
            what()?;
            thread::sleep(CALM);
            let seen = Probe::end(probes)?;
            let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
            late += sum(|seen| seen.late);
            twice += sum(|seen| seen.again);
            received += sum(|seen| seen.received);
            let gap = seen.iter().map(|seen| seen.gap).max();
            let gap = gap.ok_or_else(|| Error::new("no probes"))?;
            let holds = gap <= GAP;
            let lost = sum(|seen| seen.sent - seen.received);
            if holds || tried == TRIES {
                let seen = format!("{}, {lost} lost{}", milliseconds(gap), again(tried));
                let expected = format!("at most {}", milliseconds(GAP));
                checks.add(Check::that(format!("{name}: longest gap"), expected, seen, holds));
                break;
            }
            println!("  again, as {}, {lost} packets, was the longest gap", milliseconds(gap));
        }
        let figures =
            |late: u64, twice: u64| format!("{late} late, {twice} twice of {}", thousands(received as usize));
        checks.add(Check::same("  their order", figures(0, 0), figures(late, twice)));
        Ok(())
    }
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

fn answers(pings: u32) -> String {
    format!("{pings} of {pings} answered")
}

/// For a line of the table: that it was not the first try.
fn again(tried: u32) -> String {
    if tried == 1 { String::new() } else { format!(" (try {tried})") }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Jain's index of what each received, as a part of its max-min share of what all received.
fn jain(seen: &[Seen]) -> f64 {
    let total: u64 = seen.iter().map(|seen| seen.received).sum();
    let mut demands: Vec<(u64, u64)> = seen.iter().map(|seen| (seen.sent, seen.received)).collect();
    demands.sort_unstable();
    let (mut left, mut parts) = (total as f64, Vec::new());
    for (place, (sent, received)) in demands.iter().enumerate() {
        let share = (*sent as f64).min(left / (demands.len() - place) as f64);
        left -= share;
        parts.push(if share > 0.0 { *received as f64 / share } else { 0.0 });
    }
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
    if squares > 0.0 { sum * sum / (parts.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fair_has_index_one() {
        let seen = |sent, received| Seen { sent, received, again: 0, late: 0, gap: Duration::ZERO };
        // A line for 100: shares are 20, 40 and 40.
        assert!((jain(&[seen(100, 40), seen(50, 40), seen(20, 20)]) - 1.0).abs() < 1e-9);
        // Parts 1, 2 and 0: 9 of 15.
        assert!((jain(&[seen(100, 80), seen(50, 0), seen(20, 20)]) - 0.6).abs() < 1e-9);
        assert_eq!(jain(&[seen(10, 0)]), 0.0);
    }
}
