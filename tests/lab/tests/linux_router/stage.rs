//! A running router and its hosts.

use std::time::Duration;

use lab::netns::Namespace;
use lab::packets::Mac;
use lab::routebricks::{Launch, Routebricks, binary};
use lab::router::Router;
use lab::veth::{self, End};
use lab::wait::wait_until;
use lab::{Error, Result};

pub const LIMIT: Duration = Duration::from_secs(20);

/// Hosts behind `eth1`, `eth2`, … of a router. Host n is 10.n.0.2 and 2001:db8:n::2, the router's end .1.
pub struct Stage {
    pub router: Routebricks,
    pub directory: tempfile::TempDir,
    pub hosts: Vec<Namespace>,
    pub inside: Namespace,
    launch: Launch,
}

fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
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
        let hosts: Vec<Namespace> =
            (1..=count).map(|n| Namespace::unique(&format!("h{n}"))).collect::<Result<_>>()?;
        let ports: Vec<String> = (1..=count).map(|n| format!("eth{n}")).collect();
        let cables: Vec<_> = hosts
            .iter()
            .zip(&ports)
            .zip(1..)
            .map(|((host, port), n)| (end(host, "eth0", 0x10 + n), end(&inside, port, n)))
            .collect();
        veth::connect(&cables)?;
        for (host, n) in hosts.iter().zip(1..) {
            veth::finish_frames(host, "eth0")?;
            host.set("net/ipv6/conf/all/disable_ipv6", "0")?;
            host.ip(&format!(
                "address add 10.{n}.0.2/24 dev eth0\nroute add default via 10.{n}.0.1\n\
                 address add 2001:db8:{n}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{n}::1\n"
            ))?;
        }
        inside.set("net/ipv6/conf/all/disable_ipv6", "0")?;
        inside.set("net/ipv6/conf/default/disable_ipv6", "0")?;
        inside.set("net/ipv4/icmp_ratelimit", "0")?;
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
                "address add 10.{n}.0.1/24 dev eth{n}\naddress add 2001:db8:{n}::1/64 dev eth{n} nodad\n"
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

    /// Ends the router, which must have lost no buffer and given its interfaces back.
    pub fn end(mut self) -> Result<()> {
        let checks = self.router.stop()?;
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        for n in 1..=self.hosts.len() {
            let shown = self.inside.run("ip", &["-o", "link", "show", &format!("eth{n}")])?;
            let mac = format!("02:00:00:00:00:{n:02x}");
            assert!(shown.contains(&mac) && shown.contains("link-netns") && shown.contains("UP"), "{shown}");
            assert!(!shown.contains("xdp"), "{shown}");
        }
        Ok(())
    }
}
