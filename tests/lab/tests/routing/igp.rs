//! OSPF and IS-IS over the data plane: their packets are multicast, those of IS-IS without IP.

use lab::Result;
use lab::daemons::{Bird, Frr};
use lab::netns;

use crate::{alone, networks_reach_each_other, stage, wait_for_route};

/// OSPFv2 and OSPFv3 on these interfaces.
fn frr_ospf(id: &str, interfaces: &[&str]) -> String {
    let mut lines = String::new();
    for interface in interfaces {
        lines += &format!("interface {interface}\nip ospf area 0\nipv6 ospf6 area 0\n");
        if *interface != "lo" {
            lines += "ip ospf network point-to-point\nip ospf hello-interval 1\nip ospf dead-interval 8\n\
                      ipv6 ospf6 network point-to-point\nipv6 ospf6 hello-interval 1\nipv6 ospf6 dead-interval 8\n";
        }
        lines += "exit\n";
    }
    lines + &format!("router ospf\nospf router-id {id}\nexit\nrouter ospf6\nospf6 router-id {id}\nexit\n")
}

#[test]
fn ospf_of_frr() -> Result<()> {
    if netns::skipped() || Frr::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let daemons = ["zebra", "ospfd", "ospf6d"];
    let _ours = Frr::start(&stage.inside, directory, &daemons, &frr_ospf("10.0.0.3", &["eth1", "eth2"]))?;
    let _neighbours = [1, 2].map(|n| {
        let lines = frr_ospf(&format!("10.0.0.{n}"), &["eth0", "lo"]);
        Frr::start(&stage.hosts[n - 1], &directory.join(format!("n{n}")), &daemons, &lines)
    });
    networks_reach_each_other(&stage)?;
    stage.end()
}

#[test]
fn ospf_of_bird_with_frr() -> Result<()> {
    if netns::skipped() || Frr::skipped() || Bird::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let config = |version: u8| {
        let family = if version == 2 { 4 } else { 6 };
        format!(
            "protocol ospf v{version} {{ ipv{family} {{ import all; export none; }}; area 0 {{\n\
             interface \"eth*\" {{ type ptp; hello 1; dead 8; }}; }}; }}\n"
        )
    };
    let ours = format!("router id 10.0.0.3;\n{}{}", config(2), config(3));
    let _ours = Bird::start(&stage.inside, directory, "ours", &ours)?;
    let _neighbours = [1, 2].map(|n| {
        let lines = frr_ospf(&format!("10.0.0.{n}"), &["eth0", "lo"]);
        Frr::start(
            &stage.hosts[n - 1],
            &directory.join(format!("n{n}")),
            &["zebra", "ospfd", "ospf6d"],
            &lines,
        )
    });
    networks_reach_each_other(&stage)?;
    stage.end()
}

#[test]
fn isis_of_frr() -> Result<()> {
    if netns::skipped() || Frr::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let lines = |n: u8, interfaces: &[&str]| {
        let mut lines = String::new();
        for interface in interfaces {
            lines += &format!("interface {interface}\nip router isis lab\nipv6 router isis lab\n");
            lines += match *interface {
                "lo" => "isis passive\nexit\n",
                _ => "isis network point-to-point\nisis hello-interval 1\nexit\n",
            };
        }
        // The address last: with interfaces that come later FRR is slow to tell of them.
        lines += "router isis lab\nis-type level-2-only\nlsp-gen-interval 1\nspf-interval 1\n";
        lines += &format!("net 49.0001.0000.0000.000{n}.00\nexit\n");
        lines
    };
    let daemons = ["zebra", "isisd"];
    let _ours = Frr::start(&stage.inside, directory, &daemons, &lines(3, &["eth1", "eth2"]))?;
    let _neighbours = [1, 2].map(|n: u8| {
        let host = &stage.hosts[usize::from(n) - 1];
        Frr::start(host, &directory.join(format!("n{n}")), &daemons, &lines(n, &["eth0", "lo"]))
    });
    networks_reach_each_other(&stage)?;
    // It stays: hellos of full length pass, too.
    std::thread::sleep(std::time::Duration::from_secs(4));
    wait_for_route(&stage, "10.102.0.1/32", true)?;
    stage.end()
}
