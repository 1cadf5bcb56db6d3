//! VLANs on the twins, made with `ip` while the router runs.

use lab::Result;
use lab::netns::{self, Namespace, missing_program};
use lab::process::Process;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// True, and said so, where there is no lab or the kernel has no such interfaces.
pub fn skipped(kinds: &[&str]) -> bool {
    netns::skipped() || kinds.iter().any(|kind| netns::lacks(kind))
}

/// A host in VLAN `id` behind the port of host number `behind`: 10.`id`.0.2 and 2001:db8:`id`::2, its ways to everywhere .1.
pub fn host(stage: &Stage, behind: usize, id: u16) -> Result<Namespace> {
    let vlan = Namespace::unique(&format!("v{id}"))?;
    // A tag that the kernel leaves to the device would never be in the frame.
    stage.hosts[behind].run("ethtool", &["-K", "eth0", "txvlan", "off"])?;
    let name = vlan.name();
    stage.hosts[behind]
        .ip(&format!("link add link eth0 name v{id} type vlan id {id}\nlink set v{id} netns {name}\n"))?;
    vlan.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    vlan.ip(&format!("link set v{id} name eth0\nlink set eth0 up\n"))?;
    Ok(vlan)
}

/// Its addresses, and its ways to everywhere.
fn with_addresses(vlan: Namespace, net: u16) -> Result<Namespace> {
    vlan.ip(&format!(
        "address add 10.{net}.0.2/24 dev eth0\nroute add default via 10.{net}.0.1\n\
         address add 2001:db8:{net}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{net}::1\n"
    ))?;
    Ok(vlan)
}

/// The router's end of a VLAN.
pub fn add(stage: &Stage, port: &str, id: u16, net: u16) -> Result<()> {
    stage.inside.ip(&format!(
        "link add link {port} name {port}.{id} type vlan id {id}\nlink set {port}.{id} up\n\
         address add 10.{net}.0.1/24 dev {port}.{id}\naddress add 2001:db8:{net}::1/64 dev {port}.{id} nodad\n"
    ))
}

pub fn pings(from: &Namespace, to: &str) -> Result<bool> {
    Ok(from.output("ping", &["-c1", "-W0.5", to])?.status.success())
}

pub fn wait_for_ping(from: &Namespace, to: &str, answered: bool) -> Result<()> {
    let what = format!("ping from {} to {to}: {answered}", from.name());
    wait_until(&what, LIMIT, || Ok((pings(from, to)? == answered).then_some(())))
}

/// Pings are forwarded by the data plane, which is the element `forwards`, and come back another way or the same.
pub fn do_not_pass_linux(stage: &Stage, from: &Namespace, to: &str, forwards: &str, each: u64) -> Result<()> {
    let counts = || Ok((stage.packets(forwards)?, stage.packets("punt0")?));
    let before = counts()?;
    let printed = from.run("ping", &["-c100", "-i0.005", "-q", to])?;
    assert!(printed.contains("100 received"), "{printed}");
    let after = counts()?;
    assert!(after.0 - before.0 >= 100 * each, "{before:?} {after:?}");
    assert!(after.1 - before.1 < 20, "{before:?} {after:?}");
    Ok(())
}

/// What `ping` prints, whether it is answered or not.
pub fn printed(from: &Namespace, words: &[&str]) -> Result<String> {
    let output = from.output("ping", words)?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

fn lost(stage: &Stage, name: &str) -> Result<u64> {
    Ok(stage.router.losses()?.get(name).copied().unwrap_or(0))
}

#[test]
fn hosts_in_two_vlans_of_a_port_reach_each_other_and_others() -> Result<()> {
    if skipped(&["vlan"]) {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let (a, b) = (with_addresses(host(&stage, 0, 100)?, 100)?, with_addresses(host(&stage, 0, 200)?, 200)?);
    add(&stage, "eth1", 100, 100)?;
    add(&stage, "eth1", 200, 200)?;
    for to in ["10.100.0.1", "10.200.0.2", "10.2.0.2", "10.1.0.2"] {
        wait_for_ping(&a, to, true)?;
        wait_for_ping(&a, &to.replacen("10.", "2001:db8:", 1).replace(".0.", "::"), true)?;
    }
    // There and back by the same port, and with a tag on one side only.
    do_not_pass_linux(&stage, &a, "10.200.0.2", "next0", 2)?;
    do_not_pass_linux(&stage, &a, "2001:db8:200::2", "next6_0", 2)?;
    do_not_pass_linux(&stage, &a, "10.2.0.2", "next0", 1)?;
    do_not_pass_linux(&stage, &stage.hosts[1], "10.200.0.2", "next1", 1)?;
    do_not_pass_linux(&stage, &stage.hosts[0], "2001:db8:100::2", "next6_0", 2)?;
    // One hop, with the address of the VLAN that the packet came in by.
    let hops = a.run("traceroute", &["-n", "-q1", "-w2", "-m5", "10.200.0.2"])?;
    let hops: Vec<&str> = hops.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.100.0.1", "10.200.0.2"]);
    let answer = printed(&b, &["-c1", "-t1", "-W2", "2001:db8:2::2"])?;
    assert!(answer.contains("From 2001:db8:200::1") && answer.contains("Time exceeded"), "{answer}");
    // A VLAN that there is not.
    let c = with_addresses(host(&stage, 0, 250)?, 250)?;
    assert!(!pings(&c, "10.2.0.2")?);
    assert!(lost(&stage, "vlan0.unknown_vlan")? > 0);
    let rows = stage.router.rows("interfaces")?;
    let row = rows.iter().find(|row| row["name"] == "eth1.200").cloned().unwrap_or_default();
    let seen = ["port", "vlan", "mtu_bytes", "link_up", "vrf"].map(|key| row[key].to_string());
    assert_eq!(seen, ["\"eth1\"", "\"200\"", "1500", "true", "null"]);
    assert!(row["rx_packets"].as_u64() > Some(200) && row["tx_packets"].as_u64() > Some(200), "{row}");
    let rows = stage.router.rows("neighbours")?;
    assert!(
        rows.iter().any(|row| row["address"] == "10.200.0.2" && row["interface"] == "eth1.200"),
        "{rows:?}"
    );
    stage.end()
}

#[test]
fn vlans_have_mtus_and_come_and_go() -> Result<()> {
    if skipped(&["vlan"]) {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let (a, b) = (with_addresses(host(&stage, 0, 100)?, 100)?, with_addresses(host(&stage, 1, 200)?, 200)?);
    add(&stage, "eth1", 100, 100)?;
    add(&stage, "eth2", 200, 200)?;
    wait_for_ping(&a, "10.200.0.2", true)?;
    wait_for_ping(&a, "2001:db8:200::2", true)?;
    // Frames of full length, with a tag.
    assert!(printed(&a, &["-c1", "-W2", "-M", "do", "-s1472", "10.200.0.2"])?.contains("1 received"));
    stage.inside.ip("link set eth2.200 mtu 1400\n")?;
    b.ip("link set eth0 mtu 1400\n")?;
    let long = || printed(&a, &["-c1", "-W2", "-M", "do", "-s1450", "10.200.0.2"]);
    wait_until("the MTU", LIMIT, || Ok((!long()?.contains("1 received")).then_some(())))?;
    a.ip("route flush cache\n")?;
    let answer = long()?;
    assert!(answer.contains("From 10.100.0.1") && answer.contains("mtu = 1400"), "{answer}");
    let answer = printed(&a, &["-c1", "-W2", "-M", "do", "-s1420", "2001:db8:200::2"])?;
    assert!(answer.contains("From 2001:db8:100::1") && answer.contains("mtu=1400"), "{answer}");
    // Down and up.
    stage.inside.ip("link set eth1.100 down\n")?;
    wait_for_ping(&a, "10.200.0.2", false)?;
    assert!(lost(&stage, "vlan0.down")? > 0);
    stage.inside.ip("link set eth1.100 up\n")?;
    wait_for_ping(&a, "10.200.0.2", true)?;
    // Gone, and there again with another number, and on another port.
    stage.inside.ip("link del eth2.200\n")?;
    wait_for_ping(&a, "10.200.0.2", false)?;
    let c = with_addresses(host(&stage, 1, 201)?, 200)?;
    add(&stage, "eth2", 201, 200)?;
    wait_for_ping(&a, "10.200.0.2", true)?;
    do_not_pass_linux(&stage, &a, "10.200.0.2", "next0", 1)?;
    drop((b, c));
    stage.inside.ip("link del eth2.201\n")?;
    let d = with_addresses(host(&stage, 0, 200)?, 200)?;
    add(&stage, "eth1", 200, 200)?;
    wait_for_ping(&d, "10.100.0.2", true)?;
    do_not_pass_linux(&stage, &d, "10.100.0.2", "next0", 2)?;
    stage.end()
}

#[test]
fn vlans_may_lie_in_vlans() -> Result<()> {
    if skipped(&["vlan"]) {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let outer = host(&stage, 0, 7)?;
    outer.ip("link add link eth0 name inner type vlan id 100\nlink set inner up\naddress add 10.100.0.2/24 dev inner\n\
         route add default via 10.100.0.1\naddress add 2001:db8:100::2/64 dev inner nodad\nroute add default via 2001:db8:100::1\n")?;
    outer.run("ethtool", &["-K", "eth0", "txvlan", "off"]).ok();
    stage.inside.ip("link add link eth1 name svc type vlan id 7\nlink set svc up\n")?;
    add(&stage, "svc", 100, 100)?;
    wait_for_ping(&outer, "10.2.0.2", true)?;
    wait_for_ping(&outer, "2001:db8:2::2", true)?;
    do_not_pass_linux(&stage, &outer, "10.2.0.2", "next0", 1)?;
    do_not_pass_linux(&stage, &stage.hosts[1], "2001:db8:100::2", "next6_1", 1)?;
    stage.end()
}

#[test]
fn tcp_passes_between_vlans() -> Result<()> {
    if skipped(&["vlan"]) || missing_program(&["iperf3"]).is_some() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let (a, b) = (with_addresses(host(&stage, 0, 100)?, 100)?, with_addresses(host(&stage, 0, 200)?, 200)?);
    for namespace in [&a, &b] {
        namespace.run("ethtool", &["-K", "eth0", "tx", "off"]).ok();
    }
    add(&stage, "eth1", 100, 100)?;
    add(&stage, "eth1", 200, 200)?;
    wait_for_ping(&a, "10.200.0.2", true)?;
    let words = ["-s", "-1"].map(str::to_owned);
    let _server = Process::start(&b, "iperf3", "iperf3", &words, stage.directory.path())?;
    let speed = wait_until("iperf3", LIMIT, || {
        let output = a.output("iperf3", &["-c", "10.200.0.2", "-t2", "-J"])?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        Ok(report["end"]["sum_received"]["bits_per_second"].as_f64())
    })?;
    println!("{:.0} Mbit/s", speed / 1e6);
    assert!(speed > 10e6, "{speed}");
    stage.end()
}
