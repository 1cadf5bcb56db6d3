//! VLANs and VRFs on twins of several nodes' lines, made with `ip` while the cluster runs.

use super::{QUICK, alone};
use lab::Result;
use lab::cluster::{LIMIT, Stage};
use lab::netns::{self, Namespace};
use lab::wait::wait_until;
use serde_json::Value;

/// Tags behind the line of a host; two if there is an outer one.
type Tags = (Option<u16>, u16);

/// A host behind the line of host number `behind` (from 0) and these tags: 10.`net`.0.2 and 2001:db8:`net`::2, and `more`.
fn host(stage: &Stage, behind: usize, (outer, id): Tags, net: u16, more: &str) -> Result<Namespace> {
    let host = Namespace::unique(&format!("v{id}"))?;
    // A tag that the kernel leaves to the device would never be in the frame.
    stage.hosts[behind].run("ethtool", &["-K", "eth0", "txvlan", "off"])?;
    let below = match outer {
        None => "eth0".to_owned(),
        Some(outer) => {
            let make = format!("link add link eth0 name s{outer} type vlan id {outer}\n");
            stage.hosts[behind].ip(&format!("{make}link set s{outer} up\n"))?;
            format!("s{outer}")
        }
    };
    let name = host.name();
    let make = format!("link add link {below} name v{id} type vlan id {id}\nlink set v{id} netns {name}\n");
    stage.hosts[behind].ip(&make)?;
    host.set("net/ipv6/conf/all/disable_ipv6", "0")?;
    host.ip(&format!(
        "link set v{id} name eth0\nlink set eth0 up\nlink set lo up\naddress add {more}/32 dev lo\n\
         address add 10.{net}.0.2/24 dev eth0\nroute add default via 10.{net}.0.1\n\
         address add 2001:db8:{net}::2/64 dev eth0 nodad\nroute add default via 2001:db8:{net}::1\n"
    ))?;
    Ok(host)
}

/// The router's end of it, in a VRF if one is given.
fn add(stage: &Stage, line: usize, (outer, id): Tags, net: u16, vrf: Option<&str>) -> Result<()> {
    let twin = format!("ext{}", line + 1);
    let below = match outer {
        None => twin,
        Some(outer) => {
            let name = format!("{twin}.s{outer}");
            let make = format!("link add link {twin} name {name} type vlan id {outer}\n");
            stage.inside.ip(&format!("{make}link set {name} up\n"))?;
            name
        }
    };
    let name = format!("{below}.{id}");
    stage.inside.ip(&format!("link add link {below} name {name} type vlan id {id}\n"))?;
    if let Some(vrf) = vrf {
        stage.inside.ip(&format!("link set {name} master {vrf}\n"))?;
    }
    stage.inside.ip(&format!(
        "link set {name} up\naddress add 10.{net}.0.1/24 dev {name}\naddress add 2001:db8:{net}::1/64 dev {name} nodad\n"
    ))
}

fn wait_for_ping(stage: &Stage, from: &Namespace, to: &str) -> Result<()> {
    let pings = || Ok(from.output("ping", &["-n", "-c1", "-W0.5", to])?.status.success().then_some(()));
    let waited = wait_until(&format!("ping from {} to {to}", from.name()), LIMIT, pings);
    waited.inspect_err(|_| {
        print!("{}{}", stage.typed(&["status"]).unwrap_or_default(), stage.supervisor.last_lines());
    })
}

/// Packets that Linux has got by an interface.
fn received(stage: &Stage, name: &str) -> Result<u64> {
    let printed = stage.inside.run("ip", &["-j", "-s", "link", "show", "dev", name])?;
    let shown: Value = serde_json::from_str(&printed).unwrap_or_default();
    Ok(shown[0]["stats64"]["rx"]["packets"].as_u64().unwrap_or(u64::MAX))
}

/// Pings are forwarded, there and back, and Linux hears nothing of them by either interface.
fn do_not_pass_linux(stage: &Stage, from: &Namespace, to: &str, names: [&str; 2]) -> Result<()> {
    let counts = || Ok::<_, lab::Error>(received(stage, names[0])? + received(stage, names[1])?);
    let before = counts()?;
    let printed = from.run("ping", &["-n", "-c100", "-i0.005", "-q", to])?;
    assert!(printed.contains("100 received"), "{printed}");
    let after = counts()?;
    assert!(after - before < 20, "{before} {after}");
    Ok(())
}

#[test]
fn vlans_and_vrfs_hold_for_all_nodes() -> Result<()> {
    if netns::skipped() || netns::lacks("vlan") || netns::lacks("vrf") {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(QUICK)?;
    stage.wait_for_all_pings()?;
    stage.inside.ip(
        "link add red type vrf table 10\nlink set red up\nroute add unreachable default metric 4278198272 table 10\n\
         link add blue type vrf table 20\nlink set blue up\nroute add unreachable default metric 4278198272 table 20\n",
    )?;
    let make = || {
        add(&stage, 1, (None, 100), 60, None)?;
        add(&stage, 2, (Some(7), 100), 61, None)?;
        // The same networks in two VRFs, by lines of three nodes.
        add(&stage, 1, (None, 301), 50, Some("red"))?;
        add(&stage, 2, (None, 302), 51, Some("red"))?;
        add(&stage, 2, (None, 301), 50, Some("blue"))?;
        add(&stage, 3, (None, 302), 51, Some("blue"))?;
        stage.inside.ip(
            "route add 10.66.0.0/24 via 10.51.0.2 table 10\nroute add 10.77.0.0/24 via 10.51.0.2 table 20\n",
        )
    };
    make()?;
    let plain = host(&stage, 1, (None, 100), 60, "10.67.0.1")?;
    let double = host(&stage, 2, (Some(7), 100), 61, "10.68.0.1")?;
    let [red, far_red] =
        [host(&stage, 1, (None, 301), 50, "10.52.0.1")?, host(&stage, 2, (None, 302), 51, "10.66.0.1")?];
    let [blue, _far_blue] =
        [host(&stage, 2, (None, 301), 50, "10.52.0.1")?, host(&stage, 3, (None, 302), 51, "10.77.0.1")?];
    let reach = || {
        for to in
            ["10.60.0.1", "10.61.0.2", "2001:db8:61::2", "10.1.0.2", "10.4.0.2", "2001:db8:4::2", "10.2.0.2"]
        {
            wait_for_ping(&stage, &plain, to)?;
        }
        wait_for_ping(&stage, &red, "10.66.0.1")?;
        wait_for_ping(&stage, &red, "2001:db8:51::2")?;
        wait_for_ping(&stage, &blue, "10.77.0.1")?;
        wait_for_ping(&stage, &far_red, "10.50.0.2")
    };
    reach()?;
    do_not_pass_linux(&stage, &plain, "10.61.0.2", ["ext2.100", "ext3.s7.100"])?;
    do_not_pass_linux(&stage, &double, "2001:db8:60::2", ["ext2.100", "ext3.s7.100"])?;
    do_not_pass_linux(&stage, &double, "10.4.0.2", ["ext3.s7.100", "ext4"])?;
    do_not_pass_linux(&stage, &stage.hosts[0], "10.60.0.2", ["ext1", "ext2.100"])?;
    do_not_pass_linux(&stage, &red, "10.66.0.1", ["ext2.301", "ext3.302"])?;
    do_not_pass_linux(&stage, &blue, "10.77.0.1", ["ext3.301", "ext4.302"])?;
    // Neither VRF knows what is in the other, nor what is in none.
    for (from, to) in [(&red, "10.77.0.1"), (&blue, "10.66.0.1"), (&red, "10.61.0.2"), (&plain, "10.66.0.1")]
    {
        assert!(!from.output("ping", &["-n", "-c1", "-W1", to])?.status.success(), "{to}");
    }
    // One hop, with the address of the VLAN that the packet came in by; the longest packets fit, and longer ones are refused.
    let hops = plain.run("traceroute", &["-n", "-q1", "-w5", "-m5", "10.61.0.2"])?;
    let hops: Vec<&str> = hops.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.60.0.1", "10.61.0.2"]);
    for to in ["10.61.0.2", "10.61.0.1", "10.60.0.1"] {
        let printed = plain.run("ping", &["-n", "-c3", "-i0.1", "-Mdo", "-s1472", to])?;
        assert!(printed.contains("3 received"), "{printed}");
        let printed = double.run("ping", &["-n", "-c3", "-i0.1", "-Mdo", "-s1472", to])?;
        assert!(printed.contains("3 received"), "{printed}");
    }
    // Without a control node it goes on; with a new one it is as Linux has it.
    stage.kill("a")?;
    for (from, to) in
        [(&plain, "10.61.0.2"), (&double, "2001:db8:60::2"), (&red, "10.66.0.1"), (&blue, "10.77.0.1")]
    {
        let printed = from.run("ping", &["-n", "-c20", "-i0.01", "-q", to])?;
        assert!(printed.contains(" 20 received"), "{printed}");
    }
    stage.start("a")?;
    stage.inside.ip("route flush table 10\nroute flush table 20\n")?;
    for table in [10, 20] {
        stage.inside.ip(&format!("route add unreachable default metric 4278198272 table {table}\n"))?;
    }
    make()?;
    reach()?;
    // A VLAN goes.
    stage.inside.ip("link del ext2.100\n")?;
    let gone =
        || Ok((!plain.output("ping", &["-n", "-c1", "-W0.5", "10.61.0.2"])?.status.success()).then_some(()));
    wait_until("a VLAN that is gone", LIMIT, gone)?;
    wait_for_ping(&stage, &red, "10.66.0.1")?;
    stage.end()
}
