//! What the demo does with a router, step by step. Each step adds its checks.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::capture::wait_for_frames;
use crate::checks::{Check, Checks};
use crate::exchange::Exchange;
use crate::process::Process;
use crate::rng::Rng;
use crate::snmp::overflowed;
use crate::table::RouteTable;
use crate::topology::{Hosts, Link, SMALL_MTU, Topology};
use crate::view::Frame;
use crate::{Context, Error, Result, replay, trace};

/// Seconds that each iperf3 run takes.
const IPERF_SECONDS: u32 = 3;
/// What the UDP run offers, in Mbit/s.
const UDP_OFFERED: f64 = 50.0;
/// How often that may be tried.
const UDP_RUNS: u32 = 3;
/// Packets of the generated capture.
pub const CAPTURE: usize = 50_000;
/// Seed of the generated capture.
pub const SEED: u64 = 1;

/// Where everything happens.
pub struct Stage<'a> {
    /// Hosts and cables, with a router in the middle.
    pub topology: &'a Topology,
    /// What the router was told.
    pub table: &'a RouteTable,
    /// For logs and captures.
    pub directory: &'a Path,
}

impl Stage<'_> {
    /// All steps in order.
    pub fn run(&self, checks: &mut Checks) -> Result<()> {
        checks.heading("ping between all hosts");
        self.ping_all(checks)?;
        checks.heading("traceroute");
        self.traceroute(checks)?;
        checks.heading("packets that cannot be forwarded");
        self.big_without_df(checks)?;
        self.refusals(checks)?;
        checks.heading("iperf3, h1 to h3");
        self.iperf_tcp(checks)?;
        self.iperf_udp(checks)?;
        checks.heading(&format!(
            "replay of a generated capture, {} packets",
            crate::report::thousands(CAPTURE)
        ));
        self.replay(checks)
    }

    /// Three echo requests on each way; none may be lost.
    pub fn ping_all(&self, checks: &mut Checks) -> Result<()> {
        for from in Link::all() {
            for to in Link::all().into_iter().filter(|to| *to != from) {
                let printed =
                    self.ping(from, &["-c", "3", "-i", "0.05", "-W", "2", &to.host().to_string()])?;
                let name = format!("ping {} -> {}", host(from), host(to));
                checks.add(Check::same(name, "3 of 3 answered", answered(&printed)));
            }
        }
        Ok(())
    }

    /// The router is the only hop, and answers from its address on the asker's link (RFC 1812 §4.3.2.4).
    pub fn traceroute(&self, checks: &mut Checks) -> Result<()> {
        let (from, to) = (Link { port: 0 }, Link { port: 2 });
        for kind in [&["-U"][..], &["-I"]] {
            let target = to.host().to_string();
            let arguments = [&["-n", "-q", "1", "-w", "2", "-m", "5"], kind, &[&target]].concat();
            let printed = self.topology.host(from).run("traceroute", &arguments)?;
            let expected = format!("{} {}", from.router(), to.host());
            let how = if kind == ["-U"] { "UDP" } else { "ICMP" };
            let name = format!("traceroute ({how}) {} -> {}", host(from), host(to));
            checks.add(Check::same(name, expected, hops(&printed)));
        }
        Ok(())
    }

    /// A packet of 1,500 octets leaves by the small link in two pieces, and is answered as a whole.
    ///
    /// Must come before anything that tells h1 the path MTU, or h1 would cut the packet itself.
    pub fn big_without_df(&self, checks: &mut Checks) -> Result<()> {
        let (from, to) = (Link { port: 0 }, Link { port: 2 });
        let port = self.topology.raw_port(to)?;
        let data = (crate::topology::MTU - 28).to_string();
        let target = to.host().to_string();
        let printed = self.ping(from, &["-c", "1", "-W", "2", "-M", "dont", "-s", &data, &target])?;
        let mut pieces = Vec::new();
        wait_for_frames(&[&port], Duration::from_millis(100))?;
        while let Some(frame) = port.receive()? {
            if let Some(ip) = Frame::parse(&frame).and_then(|frame| frame.ip())
                && ip.source() == from.host()
            {
                pieces.push(format!("{}+{}", ip.offset(), ip.payload().len()));
            }
        }
        checks.add(Check::same(
            "1,500 octets, no DF, to the link with MTU 1,400",
            "1 of 1 answered",
            answered(&printed),
        ));
        checks.add(Check::same(
            "  its pieces on that link (offset+length)",
            "0+1376 1376+104",
            pieces.join(" "),
        ));
        Ok(())
    }

    /// TTL 1, no route, and too big with DF: the sender hears why.
    pub fn refusals(&self, checks: &mut Checks) -> Result<()> {
        let (from, to) = (Link { port: 0 }, Link { port: 2 });
        let (router, target) = (from.router(), to.host().to_string());

        let printed = self.ping(from, &["-c", "1", "-W", "2", "-t", "1", &target])?;
        let expected = format!("{router}: Time to live exceeded");
        checks.add(Check::same("TTL 1", expected, refusal(&printed)));

        let hole = self.table.hole(&mut Rng::new(SEED))?;
        let printed = self.ping(from, &["-c", "1", "-W", "2", &hole.to_string()])?;
        let seen = refusal(&printed);
        let from_router = |what: &str| seen == format!("{router}: Destination {what} Unreachable");
        let holds = from_router("Net") || from_router("Host");
        let expected = format!("{router}: Destination Net (or Host) Unreachable");
        checks.add(Check::that(format!("no route to {hole}"), expected, &seen, holds));

        let data = (SMALL_MTU - 28 + 1).to_string();
        let printed = self.ping(from, &["-c", "1", "-W", "2", "-M", "do", "-s", &data, &target])?;
        let expected = format!("{router}: Frag needed and DF set (mtu = {SMALL_MTU})");
        checks.add(Check::same(
            "1,401 octets with DF to the link with MTU 1,400",
            expected,
            refusal(&printed),
        ));
        let data = (SMALL_MTU - 28).to_string();
        let printed = self.ping(from, &["-c", "1", "-W", "2", "-M", "do", "-s", &data, &target])?;
        checks.add(Check::same("1,400 octets with DF to the same", "1 of 1 answered", answered(&printed)));
        Ok(())
    }

    /// TCP gets through. Its rate is printed, not judged: all hosts and the router share this machine.
    pub fn iperf_tcp(&self, checks: &mut Checks) -> Result<()> {
        let report = self.iperf("iperf3-tcp", &[])?;
        let rate = number(&report, "/end/sum_received/bits_per_second") / 1e6;
        checks.add(Check::that("TCP", "above 0 Mbit/s", format!("{rate:.0} Mbit/s"), rate > 0.0));
        Ok(())
    }

    /// Paced UDP gets through nearly without loss: in one run of three, since a machine that is busy with other things
    /// keeps a router from its work, too. What a host lost itself is not the router's.
    pub fn iperf_udp(&self, checks: &mut Checks) -> Result<()> {
        let offered = format!("{UDP_OFFERED}M");
        let name = format!("UDP, {UDP_OFFERED} Mbit/s offered");
        let receiver = self.topology.host(Link { port: 2 });
        for run in 1..=UDP_RUNS {
            let before = overflowed(receiver)?;
            let report = self.iperf("iperf3-udp", &["-u", "-b", &offered, "-l", "1200"])?;
            let seen = UdpLoss::of([&report], overflowed(receiver)? - before);
            if seen.is_little() || run == UDP_RUNS {
                checks.add(Check::that(&name, UdpLoss::EXPECTED, &seen, seen.is_little()));
                break;
            }
            println!("  again: {seen}");
        }
        Ok(())
    }

    /// Makes a capture, writes it to a file, reads it back, sends it, and counts what comes out.
    pub fn replay(&self, checks: &mut Checks) -> Result<()> {
        let plan = replay::plan(CAPTURE, SEED, self.table)?;
        let path = self.directory.join("capture.pcap");
        trace::write(&path, plan.iter().map(|planned| planned.frame.as_slice()))?;
        let frames = trace::read(&path)?;
        if frames.iter().ne(plan.iter().map(|planned| &planned.frame)) {
            return Err(Error::new(format!("{} does not hold what was written", path.display())));
        }
        let mut exchange = Exchange::open(self.topology, Hosts::Live)?;
        let start = Instant::now();
        let found = replay::run(&mut exchange, &plan)?;
        println!("  sent in {:.1} s, in chunks of {}", start.elapsed().as_secs_f64(), crate::exchange::CHUNK);
        found.into_iter().for_each(|check| checks.add(check));
        Ok(())
    }

    fn ping(&self, from: Link, arguments: &[&str]) -> Result<String> {
        let output = self.topology.host(from).output("ping", &[&["-n"], arguments].concat())?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs an iperf3 client on h1 against a server on h3.
    fn iperf(&self, name: &str, more: &[&str]) -> Result<Value> {
        let (client, server) = (Link { port: 0 }, Link { port: 2 });
        let arguments = ["-s", "-1", "--forceflush"].map(str::to_owned);
        let mut process =
            Process::start(self.topology.host(server), name, "iperf3", &arguments, self.directory)?;
        process.wait_for_line("Server listening", Duration::from_secs(5))?;
        let (address, seconds) = (server.host().to_string(), IPERF_SECONDS.to_string());
        let arguments = [&["-c", &address, "-t", &seconds, "-J", "--connect-timeout", "3000"], more].concat();
        let output = self.topology.host(client).output("iperf3", &arguments)?;
        let report: Value =
            serde_json::from_slice(&output.stdout).cannot(|| "read the report of iperf3".to_owned())?;
        match report["error"].as_str() {
            Some(complaint) => Err(Error::new(format!("iperf3: {complaint}"))),
            None => Ok(report),
        }
    }
}

/// What paced UDP runs lost.
pub struct UdpLoss {
    /// Datagrams sent.
    packets: u64,
    /// Of them, those that did not reach a host.
    lost: u64,
    /// Those that did, and found a full socket.
    overflowed: u64,
}

impl UdpLoss {
    /// What [`UdpLoss::is_little`] says in words.
    pub const EXPECTED: &str = "at most 1 % of some packets lost";

    /// From iperf3's reports, and how many datagrams the receiving hosts dropped themselves meanwhile.
    pub fn of<'a>(reports: impl IntoIterator<Item = &'a Value>, overflowed: u64) -> Self {
        let (mut packets, mut missed) = (0, 0);
        for report in reports {
            packets += count(report, "/end/sum/packets");
            missed += count(report, "/end/sum/lost_packets");
        }
        Self { packets, lost: missed.saturating_sub(overflowed), overflowed }
    }

    /// Whether some were sent and at most 1 % of them lost on the way.
    pub fn is_little(&self) -> bool {
        self.packets > 0 && self.lost * 100 <= self.packets
    }
}

impl fmt::Display for UdpLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loss = self.lost as f64 * 100.0 / self.packets.max(1) as f64;
        write!(f, "{loss:.2} % of {} packets lost", self.packets)?;
        match self.overflowed {
            0 => Ok(()),
            some => write!(f, ", {some} more by full sockets"),
        }
    }
}

fn host(link: Link) -> String {
    format!("h{}", link.port + 1)
}

/// `N of M answered`, from ping's closing lines.
pub fn answered(printed: &str) -> String {
    let Some(line) = printed.lines().find(|line| line.contains("packets transmitted")) else {
        return "no statistics".to_owned();
    };
    let figures: Vec<&str> = line.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    match figures[..] {
        [sent, received, ..] => format!("{received} of {sent} answered"),
        _ => line.to_owned(),
    }
}

/// The first ICMP error that ping reports: `SENDER: WHAT`.
fn refusal(printed: &str) -> String {
    let reported = printed.lines().find_map(|line| line.strip_prefix("From ")?.split_once(" icmp_seq=1 "));
    reported.map_or("no ICMP error".to_owned(), |(sender, what)| format!("{sender}: {what}"))
}

/// The addresses in the second column of traceroute's lines, in order.
pub fn hops(printed: &str) -> String {
    let lines = printed.lines().skip(1);
    lines.filter_map(|line| line.split_whitespace().nth(1)).collect::<Vec<_>>().join(" ")
}

fn count(report: &Value, pointer: &str) -> u64 {
    report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn output_of_ping_and_traceroute_is_read() {
        let lost = "PING x\nFrom 10.0.1.1 icmp_seq=1 Time to live exceeded\n\n--- x ping statistics ---\n\
                    3 packets transmitted, 1 received, +1 errors, 66% packet loss, time 41ms\n";
        assert_eq!(answered(lost), "1 of 3 answered");
        assert_eq!(refusal(lost), "10.0.1.1: Time to live exceeded");
        assert_eq!(answered(""), "no statistics");
        let trace =
            "traceroute to 10.0.3.2, 5 hops max\n 1  10.0.1.1  0.03 ms\n 2  *\n 3  10.0.3.2  0.02 ms\n";
        assert_eq!(hops(trace), "10.0.1.1 * 10.0.3.2");
    }

    #[test]
    fn what_full_sockets_lost_is_not_the_routers_loss() {
        let report =
            |packets: u64, lost: u64| json!({"end": {"sum": {"packets": packets, "lost_packets": lost}}});
        let loss = UdpLoss::of([&report(600, 30), &report(400, 10)], 30);
        assert_eq!(loss.to_string(), "1.00 % of 1000 packets lost, 30 more by full sockets");
        assert!(loss.is_little());
        let loss = UdpLoss::of([&report(1000, 11)], 0);
        assert_eq!(loss.to_string(), "1.10 % of 1000 packets lost");
        assert!(!loss.is_little());
        // Some of a host's may have come when iperf3 had counted already; and nothing sent is not a success.
        assert!(UdpLoss::of([&report(1000, 5)], 7).is_little());
        assert!(!UdpLoss::of([&json!({})], 0).is_little());
    }
}
