//! VRFs, made with `ip` while the router runs.

use super::vlans::{add, do_not_pass_linux, host, pings, printed, skipped, wait_for_ping};
use lab::Result;
use lab::netns::Namespace;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// A network with this host number, behind .1.
fn addresses(host: &Namespace, net: u16, more: &str) -> Result<()> {
    host.ip(&format!(
        "address add 10.{net}.0.2/24 dev eth0\nroute add default via 10.{net}.0.1\n\
         address add 2001:db8:{net}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{net}::1\n\
         link set lo up\naddress add {more}/32 dev lo\n"
    ))
}

/// VRF red: VLAN 100 of eth1 and all of eth2. VRF blue: VLAN 200 of eth1 and VLAN 300 of eth2. The networks of both have the
/// same addresses; behind the second one is 10.66.0.1 in red and 10.77.0.1 in blue.
pub fn stage(arguments: &[&str]) -> Result<(Stage, [Namespace; 3])> {
    let stage = Stage::new(2, arguments)?;
    stage.inside.ip("link add red type vrf table 10\nlink set red up\nlink add blue type vrf table 20\nlink set blue up\n")?;
    for table in [10, 20] {
        stage.inside.ip(&format!("route add unreachable default metric 4278198272 table {table}\n"))?;
    }
    let [a, b, d] = [host(&stage, 0, 100)?, host(&stage, 0, 200)?, host(&stage, 1, 300)?];
    addresses(&a, 50, "10.51.0.2")?;
    addresses(&b, 50, "10.52.0.2")?;
    addresses(&d, 2, "10.77.0.1")?;
    stage.hosts[1].ip("link set lo up\naddress add 10.66.0.1/32 dev lo\n")?;
    add(&stage, "eth1", 100, 50)?;
    stage.inside.ip("link set eth1.100 master red\n")?;
    stage.inside.ip("link add link eth1 name eth1.200 type vlan id 200\nlink set eth1.200 master blue\n\
         link set eth1.200 up\naddress add 10.50.0.1/24 dev eth1.200\naddress add 2001:db8:50::1/64 dev eth1.200 nodad\n")?;
    stage.inside.ip("link set eth2 master red\n")?;
    stage.inside.ip("link add link eth2 name eth2.300 type vlan id 300\nlink set eth2.300 master blue\n\
         link set eth2.300 up\naddress add 10.2.0.1/24 dev eth2.300\naddress add 2001:db8:2::1/64 dev eth2.300 nodad\n")?;
    // IPv6 addresses go with a change of VRF.
    for (address, device) in [("2001:db8:50::1/64", "eth1.100"), ("2001:db8:2::1/64", "eth2")] {
        stage.inside.ip(&format!("address replace {address} dev {device} nodad\n"))?;
    }
    stage
        .inside
        .ip("route add 10.66.0.0/24 via 10.2.0.2 table 10\nroute add 10.77.0.0/24 via 10.2.0.2 table 20\n")?;
    Ok((stage, [a, b, d]))
}

#[test]
fn the_same_addresses_in_two_vrfs() -> Result<()> {
    if skipped(&["vlan", "vrf"]) {
        return Ok(());
    }
    let (stage, [a, b, d]) = stage(&[])?;
    for host in [&a, &b] {
        wait_for_ping(host, "10.50.0.1", true)?;
        wait_for_ping(host, "10.2.0.2", true)?;
        wait_for_ping(host, "2001:db8:2::2", true)?;
    }
    wait_for_ping(&a, "10.66.0.1", true)?;
    wait_for_ping(&b, "10.77.0.1", true)?;
    // By a whole port, and by VLANs.
    do_not_pass_linux(&stage, &a, "10.66.0.1", "vrt0", 1)?;
    do_not_pass_linux(&stage, &stage.hosts[1], "10.50.0.2", "rt1", 1)?;
    do_not_pass_linux(&stage, &b, "10.77.0.1", "vrt0", 1)?;
    do_not_pass_linux(&stage, &a, "2001:db8:2::2", "vrt6_0", 1)?;
    do_not_pass_linux(&stage, &d, "2001:db8:50::2", "vrt6_1", 1)?;
    // Neither knows what is in the other, nor what is in none.
    for (host, to) in [(&a, "10.77.0.1"), (&b, "10.66.0.1"), (&a, "10.1.0.2"), (&stage.hosts[0], "10.66.0.1")]
    {
        assert!(!pings(host, to)?, "{to}");
    }
    let answer = printed(&a, &["-c1", "-W2", "10.77.0.1"])?;
    assert!(answer.contains("From 10.50.0.1") && answer.contains("nreachable"), "{answer}");
    let answer = printed(&b, &["-c1", "-t1", "-W2", "10.77.0.1"])?;
    assert!(answer.contains("From 10.50.0.1") && answer.contains("Time to live exceeded"), "{answer}");
    // One of the two hosts called 10.2.0.2 goes.
    d.ip("address del 10.2.0.2/24 dev eth0\n")?;
    wait_for_ping(&b, "10.2.0.2", false)?;
    assert!(pings(&a, "10.2.0.2")?);
    // What is shown.
    let rows = stage.router.rows("routes")?;
    let route = |prefix: &str| {
        let of = rows.iter().filter(|row| row["prefix"] == prefix && row["element"] == "vrt0");
        of.map(|row| format!("{} {} {} {}", row["vrf"], row["table"], row["gateway"], row["interface"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(route("10.66.0.0/24"), ["\"red\" 10 \"10.2.0.2\" \"eth2\""]);
    assert_eq!(route("10.77.0.0/24"), ["\"blue\" 20 \"10.2.0.2\" \"eth2.300\""]);
    let rows = stage.router.rows("interfaces")?;
    let vrf = |name: &str| rows.iter().find(|row| row["name"] == name).map(|row| row["vrf"].to_string());
    let vrfs = ["eth1", "eth2", "eth1.100", "eth2.300"].map(|name| vrf(name).unwrap_or_default());
    assert_eq!(vrfs, ["null", "\"red\"", "\"red\"", "\"blue\""]);
    let of = |vrf: &str| stage.router.beside(&["show", "routes", "--vrf", vrf].map(str::to_owned));
    assert!(of("red")?.contains("10.66.0.0/24") && !of("red")?.contains("10.77.0.0/24"));
    let refused = of("green").err().map(|error| error.to_string()).unwrap_or_default();
    let there = "no interface of the router is in a VRF `green`: there are blue, red and main";
    assert!(refused.contains(there), "{refused}");
    stage.end()
}

#[test]
fn interfaces_change_vrfs_and_routes_lead_from_one_to_another() -> Result<()> {
    if skipped(&["vlan", "vrf"]) {
        return Ok(());
    }
    let (stage, [a, b, d]) = stage(&[])?;
    wait_for_ping(&a, "10.66.0.1", true)?;
    wait_for_ping(&b, "10.77.0.1", true)?;
    // Routes whose interface is in the other VRF: there, and back.
    stage.inside.ip("route add 10.77.0.0/24 via 10.2.0.2 dev eth2.300 onlink table 10\n\
         route add 10.51.0.2/32 via 10.50.0.2 dev eth1.100 onlink table 20\n")?;
    let leaked = || Ok(a.output("ping", &["-c1", "-W0.5", "-I", "10.51.0.2", "10.77.0.1"])?.status.success());
    wait_until("a ping from one VRF to the other", LIMIT, || Ok(leaked()?.then_some(())))?;
    let before = stage.packets("punt0")?;
    let answer = printed(&a, &["-c50", "-i0.01", "-q", "-I", "10.51.0.2", "10.77.0.1"])?;
    assert!(answer.contains("50 received") && stage.packets("punt0")? - before < 20, "{answer}");
    // The port leaves red: its host is in none, and red's routes over it are gone.
    stage.inside.ip("link set eth2 nomaster\n")?;
    wait_for_ping(&a, "10.2.0.2", false)?;
    wait_for_ping(&stage.hosts[0], "10.2.0.2", true)?;
    do_not_pass_linux(&stage, &stage.hosts[0], "10.2.0.2", "rt0", 1)?;
    // A VRF goes, with what it had; the host is where all others are.
    drop((b, d));
    stage.inside.ip("link del red\n")?;
    wait_for_ping(&a, "10.2.0.2", true)?;
    do_not_pass_linux(&stage, &a, "10.2.0.2", "vrt0", 1)?;
    stage.end()
}

#[test]
fn sources_are_checked_in_the_vrf() -> Result<()> {
    if skipped(&["vlan", "vrf"]) {
        return Ok(());
    }
    let (stage, [a, b, _d]) = stage(&["--rpf", "strict"])?;
    wait_for_ping(&a, "10.66.0.1", true)?;
    wait_for_ping(&b, "10.77.0.1", true)?;
    // An address that has no way back in its VRF; one that has it in the other.
    for (vrf, element) in [("10", "vrpf0"), ("20", "vrpf0")] {
        let lost =
            || Ok(stage.router.losses()?.get(&format!("{element}.reverse_path")).copied().unwrap_or(0));
        let before: u64 = lost()?;
        let (host, source, to) =
            if vrf == "10" { (&a, "10.51.0.2", "10.66.0.1") } else { (&b, "10.52.0.2", "10.77.0.1") };
        assert!(!host.output("ping", &["-c2", "-i0.2", "-W0.5", "-I", source, to])?.status.success());
        assert_eq!(lost()? - before, 2, "{source}");
        stage.inside.ip(&format!("route add {source}/32 via 10.50.0.2 table {vrf}\n"))?;
        let answered = || Ok(host.output("ping", &["-c1", "-W0.5", "-I", source, to])?.status.success());
        wait_until("an answer", LIMIT, || Ok(answered()?.then_some(())))?;
    }
    stage.end()
}
