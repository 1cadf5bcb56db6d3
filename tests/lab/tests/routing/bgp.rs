//! eBGP over the data plane, IPv4 and IPv6.

use lab::Result;
use lab::daemons::{Bird, Frr};
use lab::netns::{self, Namespace};

use crate::{alone, networks_reach_each_other, stage, wait_for_route};

/// FRR's sessions with neighbours, each by IPv4 and IPv6 (`10.1.0.2`, `2001:db8:1::2`), and what it announces itself.
pub fn frr_sessions(ours: u32, neighbours: &[(u32, &str, &str)], networks: &[(&str, &str)]) -> String {
    let mut lines = format!("router bgp {ours}\nno bgp ebgp-requires-policy\ntimers bgp 3 9\n");
    for (number, four, six) in neighbours {
        for address in [four, six] {
            lines += &format!(
                "neighbor {address} remote-as {number}\nneighbor {address} timers connect 1\n\
                 neighbor {address} advertisement-interval 0\n"
            );
        }
    }
    lines += "address-family ipv4 unicast\n";
    neighbours.iter().for_each(|(_, _, six)| lines += &format!("no neighbor {six} activate\n"));
    networks.iter().for_each(|(four, _)| lines += &format!("network {four}\n"));
    lines += "exit-address-family\naddress-family ipv6 unicast\n";
    neighbours.iter().for_each(|(_, _, six)| lines += &format!("neighbor {six} activate\n"));
    networks.iter().for_each(|(_, six)| lines += &format!("network {six}\n"));
    lines
}

/// FRR of neighbour n, AS 6500n, which announces its network.
pub fn frr_neighbour(namespace: &Namespace, directory: &std::path::Path, n: u32) -> Result<Frr> {
    let (four, six) = (format!("10.{n}.0.1"), format!("2001:db8:{n}::1"));
    let (net4, net6) = (format!("10.10{n}.0.1/32"), format!("2001:db8:10{n}::1/128"));
    let lines = frr_sessions(65000 + n, &[(65000, &four, &six)], &[(&net4, &net6)]);
    Frr::start(namespace, &directory.join(format!("n{n}")), &["zebra", "bgpd"], &lines)
}

/// FRR's sessions of ours with both neighbours.
pub fn frr_ours() -> String {
    frr_sessions(65000, &[(65001, "10.1.0.2", "2001:db8:1::2"), (65002, "10.2.0.2", "2001:db8:2::2")], &[])
}

#[test]
fn frr_with_frr() -> Result<()> {
    if netns::skipped() || Frr::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let _ours = Frr::start(&stage.inside, directory, &["zebra", "bgpd"], &frr_ours())?;
    let _first = frr_neighbour(&stage.hosts[0], directory, 1)?;
    let mut second = frr_neighbour(&stage.hosts[1], directory, 2)?;
    networks_reach_each_other(&stage)?;
    wait_for_route(&stage, "10.102.0.1/32", true)?;
    // With the session its routes go.
    second.kill();
    wait_for_route(&stage, "10.102.0.1/32", false)?;
    wait_for_route(&stage, "10.101.0.1/32", true)?;
    stage.end()
}

/// BIRD's sessions of neighbour n with us, or of ours with it.
fn bird_sessions(n: u32, ours: bool) -> String {
    let (us, them) = ((1, 65000), (2, 65000 + n));
    let ((from, number), (to, other)) = if ours { (us, them) } else { (them, us) };
    let session = |name: &str, net: String, channel: &str| {
        let (from, to) = (format!("{net}{from}"), format!("{net}{to}"));
        Bird::session(&format!("{name}_{n}"), (&from, number), (&to, other), channel)
    };
    session("four", format!("10.{n}.0."), "ipv4 { import all; export all; };")
        + &session("six", format!("2001:db8:{n}::"), "ipv6 { import all; export all; };")
}

/// BIRD's file for neighbour n, which announces its network and more prefixes (IPv4).
pub fn bird_neighbour(n: u32, more: &[&str]) -> String {
    let more: String = more.iter().map(|prefix| format!("route {prefix} unreachable; ")).collect();
    format!(
        "router id 10.{n}.0.2;\n\
         protocol static {{ ipv4; route 10.10{n}.0.0/24 via \"lo\"; {more}}}\n\
         protocol static {{ ipv6; route 2001:db8:10{n}::/48 via \"lo\"; }}\n{}",
        bird_sessions(n, false)
    )
}

/// BIRD's file for us.
pub fn bird_ours() -> String {
    format!("router id 10.1.0.1;\n{}{}", bird_sessions(1, true), bird_sessions(2, true))
}

#[test]
fn bird_with_bird() -> Result<()> {
    if netns::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let _ours = Bird::start(&stage.inside, directory, "ours", &bird_ours())?;
    let _first = Bird::start(&stage.hosts[0], directory, "n1", &bird_neighbour(1, &[]))?;
    let mut second = Bird::start(&stage.hosts[1], directory, "n2", &bird_neighbour(2, &[]))?;
    networks_reach_each_other(&stage)?;
    wait_for_route(&stage, "10.102.0.0/24", true)?;
    second.kill();
    wait_for_route(&stage, "10.102.0.0/24", false)?;
    wait_for_route(&stage, "10.101.0.0/24", true)?;
    stage.end()
}
