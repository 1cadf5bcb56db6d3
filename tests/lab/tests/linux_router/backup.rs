//! Routes of one prefix with different metrics: when the neighbour or the cable of the better one ends, the worse one has
//! the traffic, and gives it back.

use lab::Result;
use lab::netns;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

use crate::multipath::{FLOWS, answers, count, stage};

/// All destinations are behind this host, and Linux has nothing to do with it.
fn all_by(stage: &Stage, prefix: &str, host: u8) -> Result<()> {
    wait_until(&format!("{prefix} by host {host}"), LIMIT, || {
        let before = stage.packets("punt0")?;
        let all = count(&answers(&stage.hosts[0], prefix)?, host) == FLOWS as usize;
        let alone = stage.packets("punt0")? - before < FLOWS.into();
        Ok((all && alone).then_some(()))
    })
}

/// Linux would send it there as well: the twin's carrier follows the port's.
fn linux_as_well(stage: &Stage, to: &str, gateway: &str) -> Result<()> {
    wait_until(&format!("Linux to choose {gateway}"), LIMIT, || {
        Ok(stage.inside.run("ip", &["route", "get", to])?.contains(gateway).then_some(()))
    })
}

#[test]
fn a_worse_route_takes_over_and_gives_back() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    stage.inside.ip(
        "route add 10.9.0.0/16 via 10.3.0.2 metric 20\nroute add 10.9.0.0/16 via 10.2.0.2 metric 10\n\
         route add 2001:db8:9::/48 via 2001:db8:3::2 metric 20\n\
         route add 2001:db8:9::/48 via 2001:db8:2::2 metric 10\n",
    )?;
    for (prefix, gateway) in [("10.9.0.", "10.2.0.2"), ("2001:db8:9::", "2001:db8:2::2")] {
        all_by(&stage, prefix, 2)?;
        stage.hosts[1].ip("link set eth0 arp off\n")?;
        stage.hosts[1].set("net/ipv6/conf/eth0/disable_ipv6", "1")?;
        stage.inside.ip(&format!("neigh replace {gateway} dev eth2 nud failed\n"))?;
        all_by(&stage, prefix, 3)?;
        // Linux asks for it again and again, and forgets it in between.
        stage.inside.ip(&format!("neigh del {gateway} dev eth2\n"))?;
        all_by(&stage, prefix, 3)?;
        stage.hosts[1].ip("link set eth0 arp on\n")?;
        stage.hosts[1].set("net/ipv6/conf/eth0/disable_ipv6", "0")?;
        stage.hosts[1].ip(
            "address replace 2001:db8:2::2/64 dev eth0 nodad\nroute replace default via 2001:db8:2::1\n\
             route replace local 2001:db8:9::/48 dev lo\n",
        )?;
        all_by(&stage, prefix, 2)?;
    }
    // The choice is that of a Linux which looks at carriers.
    stage.inside.set("net/ipv4/conf/all/ignore_routes_with_linkdown", "1")?;
    linux_as_well(&stage, "10.9.0.1", "10.2.0.2")?;
    stage.hosts[1].ip("link set eth0 down\n")?;
    all_by(&stage, "10.9.0.", 3)?;
    linux_as_well(&stage, "10.9.0.1", "10.3.0.2")?;
    stage.hosts[1].ip("link set eth0 up\nroute replace default via 10.2.0.1\n")?;
    all_by(&stage, "10.9.0.", 2)?;
    linux_as_well(&stage, "10.9.0.1", "10.2.0.2")?;
    // When the better route goes the worse one is the only one.
    stage.inside.ip("route del 10.9.0.0/16 via 10.2.0.2 metric 10\n")?;
    all_by(&stage, "10.9.0.", 3)?;
    stage.end()
}
