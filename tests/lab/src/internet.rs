//! A router that Linux drives in its usual place: between a customer and two providers with full tables.
//!
//! ```text
//!   h1 ─ n1 AS 65001 ─ eth1 ┐
//!      ┌ n2 AS 65002 ─ eth2 ├ router, FRR as AS 65000
//!   h2 ┴ n3 AS 65003 ─ eth3 ┘
//! ```
//!
//! n1, n2 and n3 run BIRD. n2 and n3 announce the same table, so that each of its prefixes has two ways; h2 answers for all
//! addresses in it. n1 gets a default route and announces the network of h1.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::checks::{Check, Checks};
use crate::daemons::{Bird, Family, Frr, SynthTable};
use crate::netns::Namespace;
use crate::probe::{Probe, RATE};
use crate::report::{ProgressBar, thousands};
use crate::twins::Stage;
use crate::wait::wait_until;
use crate::{Error, Result};

/// Prefixes of IPv6 for each of IPv4, as in the real tables of 2025.
const SHARE6: f64 = 0.18;
/// Destinations of the probe.
const FLOWS: usize = 64;
/// How long learning the table may take.
const LEARN: Duration = Duration::from_secs(300);
/// How much later than the kernel our table may be complete.
const BEHIND: Duration = Duration::from_millis(500);
/// How long a failed neighbour may cost traffic.
const GAP: Duration = Duration::from_millis(50);
/// FRR's sessions: IPv4 and IPv6 with each neighbour.
const SESSIONS: [usize; 2] = [3, 3];

/// Everything up and talking.
#[derive(Debug)]
pub struct Internet {
    stage: Stage,
    h1: Namespace,
    h2: Namespace,
    tables: [SynthTable; 2],
    frr: Frr,
    _birds: Vec<Bird>,
    /// Routes of the kernel and of ours before anything was learned.
    before: ([usize; 2], [usize; 2]),
    begun: Instant,
}

impl Internet {
    /// Builds it, and starts all daemons. `prefixes`: of IPv4; some of IPv6 are added.
    pub fn build(prefixes: usize) -> Result<Internet> {
        let stage = Stage::new(3, &[])?;
        let directory = stage.directory.path();
        let six = (prefixes as f64 * SHARE6) as usize;
        let tables = [
            SynthTable::make(directory, Family::V4, prefixes)?,
            SynthTable::make(directory, Family::V6, six)?,
        ];
        let (h1, h2) = hosts(&stage)?;
        let before = (stage.kernel_fib()?, stage.fib()?);
        let begun = Instant::now();
        let frr = Frr::start(&stage.inside, directory, &["zebra", "bgpd"], &ours())?;
        let birds = (1..=3).map(|n| {
            let config = neighbour(n, &tables);
            Bird::start_with(&stage.hosts[n - 1], directory, &format!("n{n}"), &config)
        });
        let birds = birds.collect::<Result<_>>()?;
        Ok(Internet { stage, h1, h2, tables, frr, _birds: birds, before, begun })
    }

    /// For a person.
    pub fn picture() -> &'static str {
        " h1 10.101.0.2 ─ n1 AS 65001 ─ eth1 ┐\n\
         \x20              ┌ n2 AS 65002 ─ eth2 ├ routebricks router, FRR as AS 65000\n\
         any address h2 ┴ n3 AS 65003 ─ eth3 ┘"
    }

    /// All steps in order.
    pub fn run(&self, checks: &mut Checks) -> Result<()> {
        checks.heading("FRR learns a large table over the router's ports");
        self.sessions(checks)?;
        self.learn(checks)?;
        checks.heading("traffic between hosts behind the neighbours");
        self.traffic(checks)?;
        checks.heading(&format!("a neighbour fails under {} packets a second", thousands(RATE as usize)));
        self.failover(checks)?;
        checks.heading("FRR is killed under the same traffic");
        self.kill_frr(checks)
    }

    /// Ends the router in order.
    pub fn stop(mut self) -> Result<Vec<Check>> {
        self.stage.stop()
    }

    fn sessions(&self, checks: &mut Checks) -> Result<()> {
        let text = |[four, six]: [usize; 2]| format!("{four} by IPv4, {six} by IPv6");
        let mut seen = [0, 0];
        let up = wait_until("FRR's sessions", LEARN, || {
            seen = [self.frr.sessions("ipv4")?, self.frr.sessions("ipv6")?];
            Ok((seen == SESSIONS).then_some(()))
        });
        checks.add(Check::same("FRR's BGP sessions", text(SESSIONS), text(seen)));
        up
    }

    /// Waits for the table, with a bar for whoever watches.
    fn learn(&self, checks: &mut Checks) -> Result<()> {
        let total = self.tables.each_ref().map(SynthTable::len);
        let mut bar = ProgressBar::new("routes in the data plane", total.iter().sum());
        let (mut kernel, mut ours) = (None, None);
        let mut seen = [0, 0];
        let learned = wait_until("the table", LEARN, || {
            let more = |now: [usize; 2], before: [usize; 2]| [0, 1].map(|i| now[i].saturating_sub(before[i]));
            seen = more(self.stage.fib()?, self.before.1);
            if seen.iter().zip(&total).all(|(seen, total)| seen >= total) {
                ours.get_or_insert_with(|| self.begun.elapsed());
            }
            let there = more(self.stage.kernel_fib()?, self.before.0);
            if there.iter().zip(&total).all(|(there, total)| there >= total) {
                kernel.get_or_insert_with(|| self.begun.elapsed());
            }
            bar.set(seen.iter().sum());
            Ok(kernel.zip(ours))
        });
        bar.end();
        let (kernel, ours) = learned?;
        let text =
            |[four, six]: [usize; 2]| format!("{} of IPv4, {} of IPv6", thousands(four), thousands(six));
        // Some more are those of links that came up meanwhile.
        let seen = [0, 1].map(|i| seen[i].min(total[i]));
        checks.add(Check::same("routes learned", text(total), text(seen)));
        let behind = ours.saturating_sub(kernel);
        let name = format!("complete {:.1} s after FRR's start: behind the kernel", ours.as_secs_f64());
        checks.add(Check::that(name, at_most(BEHIND), milliseconds(behind), behind <= BEHIND));
        Ok(())
    }

    fn traffic(&self, checks: &mut Checks) -> Result<()> {
        self.wait_for_both_ways()?;
        for table in &self.tables {
            for to in table.addresses(2) {
                let printed = self.h1.output("ping", &["-n", "-c3", "-i0.05", "-W2", &to.to_string()])?;
                let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
                checks.add(Check::same(
                    format!("ping h1 -> {to}"),
                    "3 of 3 answered",
                    crate::steps::answered(&printed),
                ));
            }
        }
        let to = self.destinations().first().copied().ok_or_else(|| Error::new("the table is empty"))?;
        let words = ["-n", "-q1", "-w2", "-m6", "-I", &to.to_string()];
        let seen = crate::steps::hops(&self.h1.run("traceroute", &words)?);
        let ways = ["10.2.0.2", "10.3.0.2"].map(|way| format!("10.101.0.1 10.1.0.1 {way} {to}"));
        let expected = format!("10.101.0.1 10.1.0.1 10.2.0.2 (or 10.3.0.2) {to}");
        checks.add(Check::that(format!("traceroute h1 -> {to}"), expected, &seen, ways.contains(&seen)));
        Ok(())
    }

    /// IPv4 addresses from all over the table.
    fn destinations(&self) -> Vec<IpAddr> {
        self.tables[0].addresses(FLOWS)
    }

    /// Waits until FRR knows both ways to every destination, and the router spreads over both.
    fn wait_for_both_ways(&self) -> Result<()> {
        let destinations = self.destinations();
        wait_until("two ways to every destination", LEARN, || {
            for to in &destinations {
                let said = self.frr.ask(&format!("show ip route {to}"))?;
                if said.matches(", via eth").count() != 2 {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    fn failover(&self, checks: &mut Checks) -> Result<()> {
        let failing = &self.stage.hosts[1];
        let through = || -> Result<u64> { self.stage.packets("out1") };
        let probe = Probe::start(&self.h1, &self.destinations(), &[&self.h2])?;
        let before = through()?;
        std::thread::sleep(Duration::from_secs(1));
        let share = through()?.saturating_sub(before);
        failing.ip("link set eth0 down\n")?;
        std::thread::sleep(Duration::from_secs(2));
        let seen = probe.stop()?;
        let name = format!("before, of {} packets by n2", thousands(RATE as usize));
        checks.add(Check::that(name, "some", thousands(share as usize), share > 0));
        let name = format!("n2's cable is pulled, {FLOWS} flows: longest gap");
        checks.add(Check::that(name, at_most(GAP), milliseconds(seen.gap), seen.gap <= GAP));
        let lost = format!("{} of {} packets", thousands(seen.lost), thousands(seen.sent));
        println!(
            "  lost meanwhile: {lost}; FRR then takes {} routes from n2",
            thousands(self.tables[0].len())
        );
        Ok(())
    }

    fn kill_frr(&self, checks: &mut Checks) -> Result<()> {
        let probe = Probe::start(&self.h1, &self.destinations(), &[&self.h2])?;
        std::thread::sleep(Duration::from_millis(500));
        self.frr.signal("KILL")?;
        std::thread::sleep(Duration::from_secs(2));
        let seen = probe.stop()?;
        let text = |lost: usize| format!("{} of {} packets lost", thousands(lost), thousands(seen.sent));
        checks.add(Check::same("kill -9 of zebra and bgpd", text(0), text(seen.lost)));
        Ok(())
    }
}

fn at_most(time: Duration) -> String {
    format!("at most {}", milliseconds(time))
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Hosts behind the neighbours: h1 behind n1, h2 behind n2 and n3, with the answer for any address.
fn hosts(stage: &Stage) -> Result<(Namespace, Namespace)> {
    let (h1, h2) = (Namespace::unique("customer")?, Namespace::unique("internet")?);
    for host in &stage.hosts {
        host.ip("route del default\nroute del ::/0\n")?;
        for variable in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
            host.set(variable, "1")?;
        }
    }
    let [n1, n2, n3] = [0, 1, 2].map(|n| &stage.hosts[n]);
    Stage::cable(
        (n1, "eth1", "10.101.0.1/24", "2001:db8:101::1/64"),
        (&h1, "eth0", "10.101.0.2/24", "2001:db8:101::2/64"),
    )?;
    Stage::cable(
        (n2, "eth1", "10.102.0.1/24", "2001:db8:102::1/64"),
        (&h2, "eth2", "10.102.0.2/24", "2001:db8:102::2/64"),
    )?;
    Stage::cable(
        (n3, "eth1", "10.103.0.1/24", "2001:db8:103::1/64"),
        (&h2, "eth3", "10.103.0.2/24", "2001:db8:103::2/64"),
    )?;
    h1.ip("route add default via 10.101.0.1\nroute add default via 2001:db8:101::1\n")?;
    n2.ip("route add default via 10.102.0.2\nroute add default via 2001:db8:102::2\n")?;
    n3.ip("route add default via 10.103.0.2\nroute add default via 2001:db8:103::2\n")?;
    h2.ip("route add 10.0.0.0/8 via 10.103.0.1\nroute add 2001:db8::/32 via 2001:db8:103::1\n\
         route add local default dev lo table main\nroute add local ::/0 dev lo table main\n")?;
    Ok((h1, h2))
}

/// FRR's configuration: two providers whose routes share the traffic, a customer who gets a default route.
fn ours() -> String {
    let mut lines = String::from(
        "ip prefix-list customer permit 10.101.0.0/24\nipv6 prefix-list customer permit 2001:db8:101::/48\n\
         ip prefix-list default permit 0.0.0.0/0\nipv6 prefix-list default permit ::/0\n\
         router bgp 65000\nno bgp ebgp-requires-policy\nbgp bestpath as-path multipath-relax\ntimers bgp 10 30\n",
    );
    let neighbours = |n: u8| [format!("10.{n}.0.2"), format!("2001:db8:{n}::2")];
    for n in 1..=3 {
        for address in neighbours(n) {
            lines += &format!(
                "neighbor {address} remote-as 6500{n}\nneighbor {address} timers connect 1\n\
                 neighbor {address} advertisement-interval 0\n"
            );
        }
    }
    for (index, family) in ["ipv4", "ipv6"].into_iter().enumerate() {
        lines += &format!("address-family {family} unicast\nmaximum-paths 2\n");
        for n in 1..=3 {
            let address = &neighbours(n)[index];
            let list = if n == 1 { "default" } else { "customer" };
            lines += &format!("neighbor {address} activate\nneighbor {address} prefix-list {list} out\n");
            if n == 1 {
                lines += &format!("neighbor {address} default-originate\n");
            }
            if index == 0 {
                lines += &format!("no neighbor {} activate\n", neighbours(n)[1]);
            }
        }
        lines += "exit-address-family\n";
    }
    lines
}

/// BIRD's file for neighbour n.
fn neighbour(n: usize, tables: &[SynthTable; 2]) -> String {
    let mut config = format!("router id 10.{n}.0.2;\nprotocol device {{}}\n");
    for family in [4, 6] {
        config += &format!(
            "protocol kernel kernel{family} {{ ipv{family} {{ import none; export where source = RTS_BGP; }}; }}\n"
        );
    }
    if n == 1 {
        config += "protocol static table4 { ipv4; route 10.101.0.0/24 via \"eth1\"; }\n\
                   protocol static table6 { ipv6; route 2001:db8:101::/48 via \"eth1\"; }\n";
    } else {
        tables.iter().for_each(|table| config += &table.include());
    }
    let number = 65000 + u32::try_from(n).unwrap_or(0);
    for (family, net) in [(4, format!("10.{n}.0.")), (6, format!("2001:db8:{n}::"))] {
        let channel = format!("ipv{family} {{ import all; export where source = RTS_STATIC; }};");
        let (from, to) = (format!("{net}2"), format!("{net}1"));
        config += &Bird::session(&format!("router{family}"), (&from, number), (&to, 65000), &channel);
    }
    config
}
