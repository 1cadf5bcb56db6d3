//! What `show routes` counts for each route.

use lab::netns;
use lab::twins::Stage;
use lab::{Error, Result};

/// Packets and bytes of the route, for each time that it is shown.
fn counts(stage: &Stage, prefix: &str) -> Result<Vec<[u64; 2]>> {
    let rows = stage.router.rows("routes")?;
    let of = |row: &serde_json::Value| Some([row["packets"].as_u64()?, row["bytes"].as_u64()?]);
    Ok(rows.iter().filter(|row| row["prefix"] == prefix).filter_map(of).collect())
}

/// What is added to the counts of the routes while the first host sends 200 pings, which are answered.
fn while_pinging<const N: usize>(stage: &Stage, to: &str, prefixes: [&str; N]) -> Result<[[u64; 2]; N]> {
    let all =
        || prefixes.map(|prefix| counts(stage, prefix).map(|all| all.first().copied().unwrap_or_default()));
    let before = all();
    let printed = stage.hosts[0].run("ping", &["-c200", "-i0.002", "-q", to])?;
    assert!(printed.contains("200 received"), "{printed}");
    let mut added = [[0; 2]; N];
    for (added, (before, after)) in added.iter_mut().zip(before.into_iter().zip(all())) {
        let (before, after) = (before?, after?);
        *added = [after[0] - before[0], after[1] - before[1]];
    }
    Ok(added)
}

#[test]
fn packets_are_counted_for_their_routes() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    // Of a ping: Ethernet, IPv4 or IPv6, ICMP, 56 bytes.
    const FOUR: [u64; 2] = [200, 200 * (14 + 20 + 8 + 56)];
    const SIX: [u64; 2] = [200, 200 * (14 + 40 + 8 + 56)];
    let stage = Stage::new(2, &["--count-routes"])?;
    stage.hosts[1].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\naddress add 10.9.1.1/32 dev lo\n")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.wait_for_ping(0, "2001:db8:2::2", true)?;
    // Neighbours are routes of their own: there and back.
    let neighbours = ["10.2.0.2/32", "10.1.0.2/32", "10.2.0.0/24"];
    assert_eq!(while_pinging(&stage, "10.2.0.2", neighbours)?, [FOUR, FOUR, [0, 0]]);
    let neighbours = ["2001:db8:2::2/128", "2001:db8:1::2/128"];
    assert_eq!(while_pinging(&stage, "2001:db8:2::2", neighbours)?, [SIX, SIX]);
    // The longest one counts.
    stage.inside.ip("route add 10.9.0.0/16 via 10.2.0.2\nroute add 10.9.1.0/24 via 10.2.0.2\n")?;
    stage.wait_for_ping(0, "10.9.0.1", true)?;
    stage.wait_for_ping(0, "10.9.1.1", true)?;
    let routes = ["10.9.0.0/16", "10.9.1.0/24", "10.2.0.2/32"];
    assert_eq!(while_pinging(&stage, "10.9.1.1", routes)?, [[0, 0], FOUR, [0, 0]]);
    assert_eq!(counts(&stage, "10.9.1.0/24")?.len(), 1, "the ports' one table is shown once");
    // Neither another next hop nor another control side is another route; one that has gone and come again is.
    stage.inside.ip("nexthop add id 7 via 10.2.0.2 dev eth2\nroute replace 10.9.1.0/24 nhid 7\n")?;
    stage.wait_for_ping(0, "10.9.1.1", true)?;
    stage.router.restart_control()?;
    assert_eq!(while_pinging(&stage, "10.9.1.1", routes)?, [[0, 0], FOUR, [0, 0]]);
    let whole = counts(&stage, "10.9.1.0/24")?.first().copied().ok_or_else(|| Error::new("no counts"))?;
    assert!(whole[0] >= 400 && whole[1] == whole[0] * FOUR[1] / FOUR[0], "{whole:?}");
    stage.inside.ip("route del 10.9.1.0/24\n")?;
    lab::wait::wait_until("the end of the route", lab::twins::LIMIT, || {
        Ok(counts(&stage, "10.9.1.0/24")?.is_empty().then_some(()))
    })?;
    stage.inside.ip("route add 10.9.1.0/24 via 10.2.0.2\n")?;
    lab::wait::wait_until("the route", lab::twins::LIMIT, || {
        Ok((counts(&stage, "10.9.1.0/24")? == [[0, 0]]).then_some(()))
    })?;
    stage.end()
}
