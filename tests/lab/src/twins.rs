//! A router that Linux drives (`routebricks router`), and its neighbours.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::Duration;

use crate::checks::Check;
use crate::hosts::{self, end};
use crate::netns::Namespace;
use crate::routebricks::{Launch, Routebricks, binary};
use crate::router::Router;
use crate::veth;
use crate::wait::wait_until;
use crate::{Context, Error, Result};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Hosts behind `eth1`, `eth2`, … of a router. Host n is 10.n.0.2 and 2001:db8:n::2, the router's end .1.
#[derive(Debug)]
pub struct Stage {
    /// The running router.
    pub router: Routebricks,
    /// For logs.
    pub directory: tempfile::TempDir,
    /// The hosts, by port.
    pub hosts: Vec<Namespace>,
    /// Where the router's twins are.
    pub inside: Namespace,
    launch: Launch,
}

impl Stage {
    /// Starts the router and waits until it is ready.
    pub fn new(count: u8, arguments: &[&str]) -> Result<Stage> {
        Stage::started_by(count, arguments, |_| Ok(Vec::new()))
    }

    /// The same, with something that starts the router in its namespace.
    pub fn started_by(
        count: u8,
        arguments: &[&str],
        starter: impl FnOnce(&Namespace) -> Result<Vec<String>>,
    ) -> Result<Stage> {
        let inside = Namespace::unique("router")?;
        let ports: Vec<String> = (1..=count).map(|n| format!("eth{n}")).collect();
        let hosts = hosts::behind(&inside, &ports)?;
        let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
        let ports: Vec<&str> = ports.iter().map(String::as_str).collect();
        let words = [&["router"], &ports[..], arguments].concat();
        let launch = Launch {
            program: binary()?,
            starter: starter(&inside)?,
            arguments: words.into_iter().map(str::to_owned).collect(),
            ready: "routebricks: ready:".to_owned(),
            limit: LIMIT,
            show: Vec::new(),
        };
        let router = Routebricks::start(&inside, launch.clone(), directory.path())?;
        let stage = Stage { router, directory, hosts, inside, launch };
        stage.add_addresses()?;
        Ok(stage)
    }

    fn add_addresses(&self) -> Result<()> {
        (1..=self.hosts.len()).try_for_each(|n| {
            self.inside.ip(&format!(
                "address replace 10.{n}.0.1/24 dev eth{n}\naddress replace 2001:db8:{n}::1/64 dev eth{n} nodad\n"
            ))
        })
    }

    /// Starts the router again after its end.
    pub fn start_again(&mut self) -> Result<()> {
        self.router = Routebricks::start(&self.inside, self.launch.clone(), self.directory.path())?;
        self.add_addresses()
    }

    /// Whether one ping from a host is answered within half a second.
    pub fn pings(&self, host: usize, to: &str) -> Result<bool> {
        Ok(self.hosts[host].output("ping", &["-c1", "-W0.5", to])?.status.success())
    }

    /// Waits until pings from a host are answered, or are not.
    pub fn wait_for_ping(&self, host: usize, to: &str, answered: bool) -> Result<()> {
        let what = format!("ping from h{} to {to}: {answered}", host + 1);
        wait_until(&what, LIMIT, || Ok((self.pings(host, to)? == answered).then_some(())))
    }

    /// Packets that an element has seen.
    pub fn packets(&self, element: &str) -> Result<u64> {
        let rows = self.router.rows("elements")?;
        let row = rows.iter().find(|row| row["element"] == element);
        row.and_then(|row| row["packets"].as_u64()).ok_or_else(|| Error::new(format!("no element {element}")))
    }

    /// How many routes the router's tables have, of IPv4 and IPv6.
    pub fn fib(&self) -> Result<[usize; 2]> {
        let count = |element: &str| {
            let text = self.router.handler(element, "count")?;
            text.parse().cannot(|| format!("read {element}.count: {text}"))
        };
        Ok([count("rt0")?, count("rt6_0")?])
    }

    /// How many routes the kernel has there, of all tables, IPv4 and IPv6. IPv4's count is of prefixes, without looking at
    /// one.
    pub fn kernel_fib(&self) -> Result<[usize; 2]> {
        self.inside.inside(|| {
            let read = |name: &str| {
                let path = format!("/proc/thread-self/net/{name}");
                std::fs::read_to_string(&path).cannot(|| format!("read {path}"))
            };
            let tries = read("fib_triestat")?;
            let prefixes = tries.lines().filter_map(|line| line.trim().strip_prefix("Prefixes:"));
            // Main and local are one trie that is shown twice as long as there are no rules.
            let four: usize =
                prefixes.filter_map(|text| text.trim().parse::<usize>().ok()).max().unwrap_or(0);
            let six = read("rt6_stats")?;
            let six = six.split_whitespace().nth(1).and_then(|hex| usize::from_str_radix(hex, 16).ok());
            Ok([four, six.unwrap_or(0)])
        })
    }

    /// Lays a cable between two namespaces that are no part of the router, and gives its ends these addresses of a /24
    /// and of a /64 (`10.101.0.1/24`, …), one `NAME ADDRESS ADDRESS6` each.
    pub fn cable(a: (&Namespace, &str, &str, &str), b: (&Namespace, &str, &str, &str)) -> Result<()> {
        /// Numbers that no host or port has.
        static NEXT: AtomicU8 = AtomicU8::new(0x40);
        let ends = [a, b].map(|(namespace, name, ..)| end(namespace, name, NEXT.fetch_add(1, Relaxed)));
        veth::connect(&[(ends[0], ends[1])])?;
        for (namespace, name, address, address6) in [a, b] {
            veth::finish_frames(namespace, name)?;
            namespace.set("net/ipv6/conf/all/disable_ipv6", "0")?;
            namespace.ip(&format!(
                "address add {address} dev {name}\naddress add {address6} dev {name} nodad\n"
            ))?;
        }
        Ok(())
    }

    /// Ends the router, which must have lost no buffer and given its interfaces back.
    ///
    /// # Errors
    /// Those of a test if it has not.
    pub fn end(mut self) -> Result<()> {
        let checks = self.stop()?;
        match checks.iter().all(|check| check.holds) {
            true => Ok(()),
            false => Err(Error::new(format!("{checks:?}"))),
        }
    }

    /// Ends the router, and says what was found: its exit code, its buffers, its interfaces.
    pub fn stop(&mut self) -> Result<Vec<Check>> {
        let mut checks = self.router.stop()?;
        for n in 1..=self.hosts.len() {
            let shown = self.inside.run("ip", &["-o", "link", "show", &format!("eth{n}")])?;
            let mac = format!("02:00:00:00:00:{n:02x}");
            let back = shown.contains(&mac) && shown.contains("link-netns") && shown.contains("UP");
            let holds = back && !shown.contains("xdp");
            let seen = if holds { "back in Linux" } else { shown.trim() };
            checks.push(Check::that(format!("eth{n}"), "back in Linux", seen, holds));
        }
        Ok(checks)
    }
}
