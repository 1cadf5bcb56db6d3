//! Routes that are for some packets to a prefix only, rules of policy routing, and routes that the kernel gives up by itself:
//! packets go where Linux would send them.

use std::time::{Duration, Instant};

use lab::netns;
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;
use lab::{Context, Result};

/// Pings of one try.
const PINGS: u64 = 3;

/// Three hosts, of which the second and the third have the same further addresses.
fn stage() -> Result<Stage> {
    let stage = Stage::new(3, &[])?;
    for host in &stage.hosts[1..] {
        host.ip("link set lo up\naddress add 10.50.0.1/32 dev lo\naddress add 10.51.0.1/32 dev lo\n\
             address add 2001:db8:50::1/128 dev lo nodad\n")?;
    }
    stage.inside.ip("route add 10.50.0.0/16 via 10.2.0.2\nroute add 10.51.0.0/16 via 10.2.0.2\n")?;
    Ok(stage)
}

/// Echo requests that a host has had, of both families.
fn echoes(stage: &Stage, host: usize) -> Result<u64> {
    let text = stage.hosts[host].run("nstat", &["-az", "IcmpInEchos", "Icmp6InEchos"])?;
    let counts = text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    Ok(counts.sum())
}

/// Waits until all pings from the first host go to this one.
fn wait_for(stage: &Stage, to: &str, options: &[&str], host: usize) -> Result<()> {
    let words = [&["-c3", "-i0.05", "-W0.3", "-q"], options, &[to]].concat();
    wait_until(&format!("pings {options:?} to {to} at host {}", host + 1), LIMIT, || {
        let before = echoes(stage, host)?;
        stage.hosts[0].output("ping", &words)?;
        Ok((echoes(stage, host)? - before == PINGS).then_some(()))
    })
}

/// Pings to this address do not pass Linux.
fn is_fast(stage: &Stage, to: &str) -> Result<()> {
    wait_until(&format!("{to} by the data plane"), LIMIT, || {
        let before = stage.packets("punt0")?;
        stage.hosts[0].output("ping", &["-c50", "-i0.005", "-W0.3", "-q", to])?;
        Ok((stage.packets("punt0")? - before < 10).then_some(()))
    })
}

#[test]
fn routes_for_a_type_of_service_or_for_sources_are_followed() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    wait_for(&stage, "10.50.0.1", &["-Q0x10"], 1)?;
    stage.inside.ip("route add 10.50.0.0/16 tos 0x10 via 10.3.0.2\n")?;
    wait_for(&stage, "10.50.0.1", &["-Q0x10"], 2)?;
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    is_fast(&stage, "10.51.0.1")?;
    stage.inside.ip("route del 10.50.0.0/16 tos 0x10 via 10.3.0.2\n")?;
    wait_for(&stage, "10.50.0.1", &["-Q0x10"], 1)?;
    is_fast(&stage, "10.50.0.1")?;
    stage.inside.ip("route add 2001:db8:50::/48 via 2001:db8:2::2\n")?;
    wait_for(&stage, "2001:db8:50::1", &[], 1)?;
    let by_source = "2001:db8:50::/48 from 2001:db8:1::/64 via 2001:db8:3::2";
    if stage.inside.ip(&format!("route add {by_source}\n")).is_err() {
        println!("this kernel has no routes by source");
        return stage.end();
    }
    wait_for(&stage, "2001:db8:50::1", &[], 2)?;
    stage.inside.ip(&format!("route del {by_source}\n"))?;
    wait_for(&stage, "2001:db8:50::1", &[], 1)?;
    is_fast(&stage, "2001:db8:50::1")?;
    stage.end()
}

#[test]
fn rules_are_followed() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    stage
        .inside
        .ip("route add 10.51.0.0/16 via 10.3.0.2 table 100\nroute add default via 10.3.0.2 table 101\n")?;
    // By destination, also without saying so; the rest is as fast as it was.
    for rule in ["to 10.51.0.0/16 lookup 101", "lookup 100"] {
        wait_for(&stage, "10.51.0.1", &[], 1)?;
        stage.inside.ip(&format!("rule add {rule}\n"))?;
        wait_for(&stage, "10.51.0.1", &[], 2)?;
        is_fast(&stage, "10.50.0.1")?;
        stage.inside.ip(&format!("rule del {rule}\n"))?;
        wait_for(&stage, "10.51.0.1", &[], 1)?;
        is_fast(&stage, "10.51.0.1")?;
    }
    // By anything else.
    for rule in
        ["from 10.1.0.2 lookup 101", "iif eth1 lookup 101", "ipproto icmp lookup 101", "tos 0x10 lookup 101"]
    {
        stage.inside.ip(&format!("rule add {rule}\n"))?;
        wait_for(&stage, "10.50.0.1", &["-Q0x10"], 2)?;
        stage.inside.ip(&format!("rule del {rule}\n"))?;
        wait_for(&stage, "10.50.0.1", &["-Q0x10"], 1)?;
        is_fast(&stage, "10.50.0.1")?;
    }
    // What does not concern forwarded packets, or changes nothing.
    stage.inside.ip("rule add oif eth3 lookup 101\nrule add iif lo lookup 101\nrule add lookup 220\n")?;
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    is_fast(&stage, "10.50.0.1")?;
    // The table that is asked last in place of main.
    stage.inside.ip("rule add priority 40000 lookup main\nrule del priority 32766\n")?;
    stage.inside.ip("rule add priority 32766 lookup 101\n")?;
    wait_for(&stage, "10.50.0.1", &[], 2)?;
    stage.end()
}

#[test]
fn next_hop_objects_that_go_with_the_carrier_take_their_routes_along() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    stage.inside.ip("nexthop add id 7 via 10.2.0.2 dev eth2\nroute replace 10.50.0.0/16 nhid 7\n")?;
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    stage.hosts[1].ip("link set eth0 down\n")?;
    wait_until("the kernel removes it", LIMIT, || {
        Ok(stage.inside.run("ip", &["nexthop"])?.trim().is_empty().then_some(()))
    })?;
    stage.hosts[1].ip("link set eth0 up\nroute replace default via 10.2.0.1\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let shown = stage.inside.run("ip", &["route", "show", "10.50.0.0/16"])?;
    assert_eq!(shown.trim(), "");
    wait_until("no route", LIMIT, || {
        let found = stage.router.handler("rt0", "table")?;
        Ok((!found.contains("10.50.0.0/16")).then_some(()))
    })?;
    assert!(!stage.pings(0, "10.50.0.1")?);
    stage.end()
}

/// Has a host advertise itself as a router for so many seconds, with this preference (RFC 4191: 1 high, 0 medium, 3 low).
fn advertise(stage: &Stage, host: usize, preference: u8, seconds: u16) -> Result<()> {
    let text = format!(
        "from scapy.all import *\nconf.verb = 0\nlocal = [a for a in in6_getifaddr() if a[2] == 'eth0' and a[0].startswith('fe80')][0][0]\n\
         sendp(Ether(src=get_if_hwaddr('eth0'), dst='33:33:00:00:00:01') / IPv6(src=local, dst='ff02::1', hlim=255) / \
         ICMPv6ND_RA(prf={preference}, routerlifetime={seconds}) / ICMPv6NDOptSrcLLAddr(lladdr=get_if_hwaddr('eth0')), iface='eth0')\n"
    );
    stage.hosts[host].run("/usr/bin/python3", &["-c", &text]).map(drop)
}

/// The interface by which Linux would forward to this address.
fn interface(stage: &Stage, to: &str) -> Result<String> {
    let text = stage.inside.run("ip", &["-6", "route", "get", to, "from", "2001:db8:1::2", "iif", "eth1"])?;
    let mut words = text.split_whitespace().skip_while(|word| *word != "dev").skip(1);
    Ok(words.next().unwrap_or_default().to_owned())
}

#[test]
fn of_several_default_routers_the_kernel_s_is_used_until_its_time_ends() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    for port in ["eth2", "eth3"] {
        for (name, value) in [("accept_ra", "2"), ("accept_ra_defrtr", "1"), ("accept_ra_rtr_pref", "1")] {
            stage.inside.set(&format!("net/ipv6/conf/{port}/{name}"), value)?;
        }
    }
    for host in &stage.hosts[1..] {
        // Linux drops the default routes of a neighbour whose advertisement says that it is no router (RFC 4861 §7.2.5).
        host.set("net/ipv6/conf/all/forwarding", "1")?;
        wait_until("a link-local address", LIMIT, || {
            let shown = host.run("ip", &["-6", "address", "show", "dev", "eth0"])?;
            Ok((shown.contains("fe80") && !shown.contains("tentative")).then_some(()))
        })?;
    }
    for (first, second) in [(3, 1), (1, 3), (0, 1), (3, 0)] {
        advertise(&stage, 1, first, 1800)?;
        advertise(&stage, 2, second, 1800)?;
        wait_until("both routers", LIMIT, || {
            let shown = stage.inside.run("ip", &["-6", "route", "show", "default"])?;
            Ok((shown.matches("via fe80").count() == 2).then_some(()))
        })?;
        let port = interface(&stage, "2001:db8:50::1")?;
        assert!(["eth2", "eth3"].contains(&port.as_str()), "{first} {second}: {port}");
        let host = if port == "eth2" { 1 } else { 2 };
        wait_for(&stage, "2001:db8:50::1", &[], host).cannot(|| format!("preferences {first}, {second}"))?;
        advertise(&stage, 1, 0, 0)?;
        advertise(&stage, 2, 0, 0)?;
        wait_until("no router", LIMIT, || {
            Ok((!stage.inside.run("ip", &["-6", "route", "show", "default"])?.contains("via")).then_some(()))
        })?;
    }
    // The kernel stops using the better one when its time is over, whatever it still shows.
    advertise(&stage, 1, 0, 1800)?;
    advertise(&stage, 2, 1, 4)?;
    let begun = Instant::now();
    wait_for(&stage, "2001:db8:50::1", &[], 2)?;
    std::thread::sleep(Duration::from_millis(5200).saturating_sub(begun.elapsed()));
    let before = echoes(&stage, 1)?;
    stage.hosts[0].output("ping", &["-c3", "-i0.05", "-W0.3", "-q", "2001:db8:50::1"])?;
    assert_eq!(echoes(&stage, 1)? - before, PINGS);
    stage.end()
}

#[test]
fn handlers_do_not_change_tables_that_linux_fills() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    let routes = stage.fib()?;
    for table in ["rt0", "rt6_0", "rt1"] {
        for (handler, text) in [
            ("flush", ""),
            ("add", "10.77.0.0/16 0"),
            ("set", "10.50.0.0/16 0"),
            ("remove", "10.50.0.0/16"),
            ("ctrl", "flush"),
        ] {
            let error =
                stage.router.write(table, handler, text).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains("are Linux's: change them there"), "{table}.{handler}: {error}");
        }
    }
    for (element, handler) in [("next0", "set"), ("next0", "remove"), ("next6_0", "remove")] {
        let error = stage
            .router
            .write(element, handler, "10.2.0.2 1")
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default();
        assert!(error.contains("are Linux's: change them there"), "{element}.{handler}: {error}");
    }
    assert_eq!(stage.fib()?, routes);
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    stage.router.write("rt0", "structure", "poptrie")?;
    wait_for(&stage, "10.50.0.1", &[], 1)?;
    stage.end()
}
