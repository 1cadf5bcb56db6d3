//! VLANs and VRFs on twins of several nodes' lines, made with `ip` while the cluster runs.

use super::alone;
use lab::Result;
use lab::cluster::{LIMIT, Stage};
use lab::netns::{self, Namespace};
use lab::wait::wait_until;
use serde_json::Value;

/// Nobody is taken for dead who does not run for a while.
const CALM: &str = "line_rate = '100M'\nhello = '200ms'\n";

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

/// All of 50 pings in a row are answered, sooner or later: ping does not wait for an answer that takes much longer than those
/// before it, as one may on a busy machine.
fn wait_for_all_answers(from: &Namespace, to: &str) -> Result<()> {
    let answered = || {
        let output = from.output("ping", &["-n", "-c50", "-i0.02", "-q", to])?;
        Ok(String::from_utf8_lossy(&output.stdout).contains(" 50 received").then_some(()))
    };
    wait_until(&format!("50 answers to {} from {to}", from.name()), LIMIT, answered)
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
    wait_for_all_answers(from, to)?;
    let after = counts()?;
    assert!(after - before < 10, "{before} {after}");
    Ok(())
}

/// VRFs, in which nothing else leads.
fn add_vrfs(stage: &Stage) -> Result<()> {
    for (name, table) in [("red", 10), ("blue", 20)] {
        stage.inside.ip(&format!(
            "link add {name} type vrf table {table}\nlink set {name} up\n\
             route add unreachable default metric 4278198272 table {table}\n"
        ))?;
    }
    Ok(())
}

/// VLANs on three nodes' lines. The same networks are in two VRFs.
fn add_vlans(stage: &Stage) -> Result<()> {
    add(stage, 1, (None, 100), 60, None)?;
    add(stage, 2, (Some(7), 100), 61, None)?;
    add(stage, 1, (None, 301), 50, Some("red"))?;
    add(stage, 2, (None, 302), 51, Some("red"))?;
    add(stage, 2, (None, 301), 50, Some("blue"))?;
    add(stage, 3, (None, 302), 51, Some("blue"))?;
    stage.inside.ip(
        "route replace 10.66.0.0/24 via 10.51.0.2 table 10\nroute replace 10.77.0.0/24 via 10.51.0.2 table 20\n",
    )
}

/// Hosts behind them.
struct Hosts {
    plain: Namespace,
    double: Namespace,
    red: Namespace,
    far_red: Namespace,
    blue: Namespace,
    _far_blue: Namespace,
}

impl Hosts {
    fn new(stage: &Stage) -> Result<Hosts> {
        Ok(Hosts {
            plain: host(stage, 1, (None, 100), 60, "10.67.0.1")?,
            double: host(stage, 2, (Some(7), 100), 61, "10.68.0.1")?,
            red: host(stage, 1, (None, 301), 50, "10.52.0.1")?,
            far_red: host(stage, 2, (None, 302), 51, "10.66.0.1")?,
            blue: host(stage, 2, (None, 301), 50, "10.52.0.1")?,
            _far_blue: host(stage, 3, (None, 302), 51, "10.77.0.1")?,
        })
    }

    fn reach_each_other(&self, stage: &Stage) -> Result<()> {
        let of_plain = ["10.60.0.1", "10.61.0.2", "2001:db8:61::2", "10.1.0.2", "10.4.0.2", "2001:db8:4::2"];
        of_plain.into_iter().try_for_each(|to| wait_for_ping(stage, &self.plain, to))?;
        wait_for_ping(stage, &self.red, "10.66.0.1")?;
        wait_for_ping(stage, &self.red, "2001:db8:51::2")?;
        wait_for_ping(stage, &self.blue, "10.77.0.1")?;
        wait_for_ping(stage, &self.far_red, "10.50.0.2")
    }

    /// Nor does what they send, but for what Linux is to answer.
    fn do_not_pass_linux(&self, stage: &Stage) -> Result<()> {
        let Hosts { plain, double, red, blue, .. } = self;
        do_not_pass_linux(stage, plain, "10.61.0.2", ["ext2.100", "ext3.s7.100"])?;
        do_not_pass_linux(stage, double, "2001:db8:60::2", ["ext2.100", "ext3.s7.100"])?;
        do_not_pass_linux(stage, double, "10.4.0.2", ["ext3.s7.100", "ext4"])?;
        do_not_pass_linux(stage, &stage.hosts[0], "10.60.0.2", ["ext1", "ext2.100"])?;
        do_not_pass_linux(stage, red, "10.66.0.1", ["ext2.301", "ext3.302"])?;
        do_not_pass_linux(stage, blue, "10.77.0.1", ["ext3.301", "ext4.302"])
    }

    /// Neither VRF knows what is in the other, nor what is in none. One hop, with the address of the VLAN that the packet came
    /// in by; the longest packets fit.
    fn are_as_behind_one_router(&self) -> Result<()> {
        let Hosts { plain, double, red, blue, .. } = self;
        for (from, to) in [(red, "10.77.0.1"), (blue, "10.66.0.1"), (red, "10.61.0.2"), (plain, "10.66.0.1")]
        {
            assert!(!from.output("ping", &["-n", "-c1", "-W1", to])?.status.success(), "{to}");
        }
        let hops = plain.run("traceroute", &["-n", "-q1", "-w5", "-m5", "10.61.0.2"])?;
        let hops: Vec<&str> =
            hops.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, ["10.60.0.1", "10.61.0.2"]);
        // By raw sockets Linux takes frames with two tags only if the second one has room.
        let longest = [
            (plain, "10.60.0.1", "1472"),
            (plain, "10.1.0.2", "1472"),
            (double, "10.61.0.1", "1468"),
            (double, "10.60.0.2", "1468"),
        ];
        for (from, to, len) in longest {
            from.run("ping", &["-n", "-c1", "-W5", "-Mdo", "-s", len, to])?;
        }
        Ok(())
    }
}

#[test]
fn vlans_and_vrfs_hold_for_all_nodes() -> Result<()> {
    if netns::skipped() || netns::lacks("vlan") || netns::lacks("vrf") {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(CALM)?;
    stage.wait_for_all_pings()?;
    add_vrfs(&stage)?;
    add_vlans(&stage)?;
    let hosts = Hosts::new(&stage)?;
    hosts.reach_each_other(&stage)?;
    hosts.do_not_pass_linux(&stage)?;
    hosts.are_as_behind_one_router()?;
    // Without a control node it goes on; with a new one it is as Linux has it.
    stage.kill("a")?;
    let Hosts { plain, double, red, blue, .. } = &hosts;
    for (from, to) in
        [(plain, "10.61.0.2"), (double, "2001:db8:60::2"), (red, "10.66.0.1"), (blue, "10.77.0.1")]
    {
        wait_for_all_answers(from, to)?;
    }
    stage.start("a")?;
    add_vlans(&stage)?;
    hosts.reach_each_other(&stage)?;
    // A VLAN goes.
    stage.inside.ip("link del ext2.100\n")?;
    let is_gone =
        || Ok((!plain.output("ping", &["-n", "-c1", "-W0.5", "10.61.0.2"])?.status.success()).then_some(()));
    wait_until("a VLAN that is gone", LIMIT, is_gone)?;
    wait_for_ping(&stage, red, "10.66.0.1")?;
    stage.end()
}
