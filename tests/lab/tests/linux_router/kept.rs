//! What is set for an interface is set for its twin, and for the interface afterwards, whatever ends the router.

use lab::Result;
use lab::netns::{self, Namespace};
use lab::routebricks::binary;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

const SETTINGS: [(&str, &str); 4] = [
    ("net/ipv4/conf/eth1/rp_filter", "2"),
    ("net/ipv4/conf/eth1/accept_redirects", "0"),
    ("net/ipv4/neigh/eth1/gc_stale_time", "77"),
    ("net/ipv6/conf/eth1/accept_ra", "0"),
];

/// Sets something of every kind.
fn set_up(inside: &Namespace) -> Result<()> {
    for (name, value) in SETTINGS {
        inside.run("sh", &["-c", &format!("echo {value} >/proc/sys/{name}")])?;
    }
    inside.ip("link set eth1 up\nlink set eth1 alias uplink txqueuelen 77\n\
         address add 10.1.7.1/24 brd 10.1.7.200 dev eth1 label eth1:x valid_lft 4000 preferred_lft 3000\n\
         address add 10.1.8.1 peer 10.1.8.2/32 dev eth1 metric 77\n\
         address add 2001:db8:7::1/64 dev eth1 noprefixroute\n\
         neighbour add 10.1.7.9 lladdr 02:00:00:00:99:99 dev eth1 nud permanent\n\
         neighbour add proxy 10.1.7.10 dev eth1\n\
         route add 10.99.0.0/16 via 10.1.7.9 dev eth1 metric 55 mtu 1400\n")
}

/// Whether all of it is there.
fn check(inside: &Namespace, when: &str) -> Result<()> {
    for (name, value) in SETTINGS {
        assert_eq!(inside.run("cat", &[&format!("/proc/sys/{name}")])?.trim(), value, "{when}: {name}");
    }
    let shown = |arguments: &str, wanted: &[&str]| -> Result<()> {
        let printed = inside.run("ip", &arguments.split(' ').collect::<Vec<_>>())?;
        for wanted in wanted {
            assert!(printed.contains(wanted), "{when}: {wanted} is not in {printed}");
        }
        Ok(())
    };
    shown(
        "address show dev eth1",
        &[
            "qlen 77",
            "inet 10.1.7.1/24 brd 10.1.7.200 scope global dynamic eth1:x",
            "inet 10.1.8.1 peer 10.1.8.2/32",
            "inet6 2001:db8:7::1/64 scope global noprefixroute",
        ],
    )?;
    shown("link show dev eth1", &["alias uplink"])?;
    shown("neighbour show dev eth1 nud permanent", &["10.1.7.9 lladdr 02:00:00:00:99:99"])?;
    shown("neighbour show proxy dev eth1", &["10.1.7.10"])?;
    shown(
        "route show",
        &[
            "10.99.0.0/16 via 10.1.7.9 dev eth1 metric 55 mtu 1400",
            "10.1.8.2 dev eth1 proto kernel scope link src 10.1.8.1 metric 77",
        ],
    )
}

/// Ends all processes of the router that are there.
fn kill_all(stage: &Stage) -> Result<()> {
    let pid = stage.router.process().id().to_string();
    stage.inside.run("sh", &["-c", &format!("kill -9 {pid} $(pgrep -P {pid})")])?;
    Ok(())
}

#[test]
fn settings_go_to_the_twin_and_come_back() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let mut stage = Stage::started_by(2, &[], |inside| set_up(inside).map(|()| Vec::new()))?;
    check(&stage.inside, "twin")?;
    // Killed with everything that would give them back, it leaves them for the next one.
    kill_all(&stage)?;
    stage.router.kill();
    assert!(!stage.inside.run("ip", &["-br", "link"])?.contains("eth1"));
    stage.start_again()?;
    check(&stage.inside, "twin of the next router")?;
    stage.router.kill();
    let is_back = |printed: &str| printed.lines().any(|line| line.starts_with("eth1@"));
    wait_until("eth1 given back", LIMIT, || {
        Ok(is_back(&stage.inside.run("ip", &["-br", "link"])?).then_some(()))
    })?;
    wait_until("eth1 up", LIMIT, || {
        Ok(stage.inside.run("ip", &["route", "show"])?.contains("10.99.0.0/16").then_some(()))
    })?;
    check(&stage.inside, "given back")?;
    // Without another router: "routebricks recover".
    stage.start_again()?;
    kill_all(&stage)?;
    stage.router.kill();
    let program = binary()?.display().to_string();
    stage.inside.run(&program, &["recover"])?;
    assert!(is_back(&stage.inside.run("ip", &["-br", "link"])?));
    check(&stage.inside, "recovered")
}
