//! What is set for twins decides about forwarded packets as it does in Linux.

use std::time::Duration;

use lab::Result;
use lab::netns;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

use super::pings_do_not_pass_linux;

/// Whether a host's end of its cable has a carrier.
fn has_carrier(stage: &Stage, host: usize) -> Result<bool> {
    Ok(stage.hosts[host].run("ip", &["-o", "link", "show", "eth0"])?.contains("LOWER_UP"))
}

/// `show interfaces` says of a port whether it is set up, and whether it has a link.
fn states(stage: &Stage, port: &str) -> Result<[bool; 2]> {
    let rows = stage.router.rows("interfaces")?;
    let row = rows.into_iter().find(|row| row["name"] == port).unwrap_or_default();
    Ok(["admin_up", "link_up"].map(|key| row[key] == true))
}

fn wait_for_states(stage: &Stage, port: &str, wanted: [bool; 2]) -> Result<()> {
    wait_until(&format!("{port} to be {wanted:?}"), LIMIT, || {
        Ok((states(stage, port)? == wanted).then_some(()))
    })
}

#[test]
fn a_twin_that_is_set_down_closes_its_port() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    for to in ["10.2.0.2", "2001:db8:2::2"] {
        stage.wait_for_ping(0, to, true)?;
    }
    wait_for_states(&stage, "eth1", [true, true])?;
    for _ in 0..3 {
        stage.inside.ip("link set eth1 down\n")?;
        wait_until("the host to lose its carrier", LIMIT, || Ok((!has_carrier(&stage, 0)?).then_some(())))?;
        wait_for_states(&stage, "eth1", [false, false])?;
        assert!(!stage.pings(0, "10.2.0.2")? && !stage.pings(1, "10.1.0.2")?);
        stage.inside.ip("link set eth1 up\naddress replace 2001:db8:1::1/64 dev eth1 nodad\n")?;
        wait_for_states(&stage, "eth1", [true, true])?;
        for to in ["10.2.0.2", "2001:db8:2::2"] {
            stage.wait_for_ping(0, to, true)?;
        }
        pings_do_not_pass_linux(&stage, "10.2.0.2", "next0")?;
    }
    // While the control side is not there, too.
    let pid = stage.router.control()?["pid"].to_string();
    stage.inside.run("kill", &["-STOP", &pid])?;
    stage.inside.ip("link set eth1 down\n")?;
    wait_until("the host to lose its carrier", LIMIT, || Ok((!has_carrier(&stage, 0)?).then_some(())))?;
    stage.inside.ip("link set eth1 up\n")?;
    wait_until("the host to have a carrier", LIMIT, || Ok(has_carrier(&stage, 0)?.then_some(())))?;
    stage.inside.run("kill", &["-CONT", &pid])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

#[test]
fn the_carrier_of_a_port_is_that_of_its_twin_without_a_control_side() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let pid = stage.router.control()?["pid"].to_string();
    stage.inside.run("kill", &["-STOP", &pid])?;
    let twin = || Ok(stage.inside.run("ip", &["-o", "link", "show", "eth2"])?.contains("LOWER_UP"));
    for up in [false, true] {
        stage.hosts[1].ip(&format!("link set eth0 {}\n", if up { "up" } else { "down" }))?;
        wait_until("the twin to follow", LIMIT, || Ok((twin()? == up).then_some(())))?;
    }
    stage.inside.run("kill", &["-CONT", &pid])?;
    stage.end()
}

#[test]
fn forwarding_can_be_switched_off_for_each_family() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    let [v4, v6] = ["10.2.0.2", "2001:db8:2::2"];
    for (setting, stays) in [
        ("net/ipv4/conf/eth1/forwarding", v6),
        ("net/ipv4/ip_forward", v6),
        ("net/ipv4/conf/all/forwarding", v6),
        ("net/ipv6/conf/all/forwarding", v4),
        ("net/ipv6/conf/eth1/disable_ipv6", v4),
    ] {
        let (off, on) = if setting.contains("disable") { ("1", "0") } else { ("0", "1") };
        let goes = if stays == v4 { v6 } else { v4 };
        stage.wait_for_ping(0, goes, true)?;
        stage.wait_for_ping(0, stays, true)?;
        stage.inside.set(setting, off)?;
        stage.wait_for_ping(0, goes, false)?;
        // Not for a moment only.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!stage.pings(0, goes)? && stage.pings(0, stays)?, "{setting}");
        stage.inside.set(setting, on)?;
        // Linux has taken addresses away.
        stage.inside.ip("address replace 2001:db8:1::1/64 dev eth1 nodad\n")?;
    }
    stage.wait_for_ping(0, v6, true)?;
    pings_do_not_pass_linux(&stage, v4, "next0")?;
    stage.end()
}

#[test]
fn a_twin_has_one_ethernet_address() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.inside.ip("link set eth1 address 02:00:00:00:01:99\n")?;
    let reach = |mac: &str| {
        stage.hosts[0].ip(&format!("neigh replace 10.1.0.1 lladdr {mac} dev eth0 nud permanent\n"))
    };
    reach("02:00:00:00:01:99")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    pings_do_not_pass_linux(&stage, "10.2.0.2", "next0")?;
    // What goes out carries the new one.
    stage.hosts[0].ip("neigh del 10.1.0.1 dev eth0\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let known = stage.hosts[0].run("ip", &["neigh", "show", "10.1.0.1"])?;
    assert!(known.contains("02:00:00:00:01:99"), "{known}");
    reach("02:00:00:00:00:01")?;
    assert!(!stage.pings(0, "10.2.0.2")?);
    stage.inside.ip("link set eth1 address 02:00:00:00:00:01\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}

#[test]
fn virtual_routers_are_forwarded_for() -> Result<()> {
    if netns::skipped() || netns::lacks("macvlan") {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    for (mode, mac) in
        [("bridge", "00:00:5e:00:01:05"), ("private", "00:00:5e:00:02:05"), ("vepa", "00:00:5e:00:01:06")]
    {
        stage.inside.ip(&format!(
            "link add vr1 link eth1 address {mac} type macvlan mode {mode}\nlink set vr1 up\n"
        ))?;
        let reach = |to: &str| {
            stage.hosts[0].ip(&format!("neigh replace {to} lladdr {mac} dev eth0 nud permanent\n"))
        };
        reach("10.1.0.1")?;
        reach("2001:db8:1::1")?;
        for (to, forwards) in [("10.2.0.2", "next0"), ("2001:db8:2::2", "next6_0")] {
            wait_until("the virtual router", LIMIT, || {
                Ok(pings_do_not_pass_linux_now(&stage, to, forwards)?.then_some(()))
            })?;
        }
        // A virtual router that is no master any more forwards nothing.
        stage.inside.ip("link set vr1 down\n")?;
        stage.wait_for_ping(0, "10.2.0.2", false)?;
        stage.inside.ip("link del vr1\n")?;
    }
    stage.end()
}

/// Twenty pings are answered, and Linux has seen nearly none.
fn pings_do_not_pass_linux_now(stage: &Stage, to: &str, forwards: &str) -> Result<bool> {
    let before = (stage.packets(forwards)?, stage.packets("punt0")?);
    let printed = stage.hosts[0].output("ping", &["-c20", "-i0.01", "-q", "-W1", to])?.stdout;
    let all = String::from_utf8_lossy(&printed).contains("20 received");
    let after = (stage.packets(forwards)?, stage.packets("punt0")?);
    Ok(all && after.0 - before.0 >= 20 && after.1 - before.1 < 10)
}
