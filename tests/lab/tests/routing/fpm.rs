//! Routes from zebra by FPM, with next-hop groups and without.

use lab::Result;
use lab::daemons::Frr;
use lab::netns;
use lab::twins::LIMIT;
use lab::wait::wait_until;

use crate::bgp::{frr_neighbour, frr_ours};
use crate::{alone, networks_reach_each_other, next_hop, stage, wait_for_route};

#[test]
fn with_groups_and_without() -> Result<()> {
    if netns::skipped() || Frr::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&["--fpm"])?;
    let directory = stage.directory.path();
    let lines = format!("fpm address 127.0.0.1 port 2620\n{}", frr_ours());
    let ours = Frr::start(&stage.inside, directory, &["zebra -M dplane_fpm_nl", "bgpd"], &lines)?;
    let _first = frr_neighbour(&stage.hosts[0], directory, 1)?;
    let mut second = frr_neighbour(&stage.hosts[1], directory, 2)?;
    networks_reach_each_other(&stage)?;
    let seen = |what: &str| -> Result<String> {
        let hop = next_hop(&stage, "10.102.0.1/32")?;
        hop.ok_or_else(|| lab::Error::new(format!("no route {what}")))
    };
    let with = seen("over an object")?;
    // zebra closes the connection and sends everything again, in the other form.
    ours.configure("no fpm use-next-hop-groups")?;
    let without = wait_until("routes without objects", LIMIT, || {
        Ok(next_hop(&stage, "10.102.0.1/32")?.filter(|hop| *hop != with))
    })?;
    assert!(without.starts_with("10.2.0.2"), "{with:?}, then {without:?}");
    networks_reach_each_other(&stage)?;
    // The sweep after the second connection has taken nothing that is there.
    std::thread::sleep(std::time::Duration::from_secs(4));
    networks_reach_each_other(&stage)?;
    second.kill();
    wait_for_route(&stage, "10.102.0.1/32", false)?;
    wait_for_route(&stage, "10.101.0.1/32", true)?;
    stage.end()
}
