//! Directed broadcasts: packets from elsewhere to all hosts of a connected network (RFC 2644).

use lab::Result;
use lab::netns::{self, Namespace};
use lab::twins::{LIMIT, Stage};
use lab::wait::wait_until;

/// The hosts that answer pings to this broadcast address.
fn answers(from: &Namespace, to: &str) -> Result<Vec<String>> {
    let printed = from.output("ping", &["-b", "-c3", "-i0.2", "-W1", to])?.stdout;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let from = printed.lines().filter_map(|line| line.split_once("bytes from ")?.1.split_once(':'));
    let mut all: Vec<String> = from.map(|(host, _)| host.to_owned()).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[test]
fn directed_broadcasts_are_not_forwarded() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.hosts[1].set("net/ipv4/icmp_echo_ignore_broadcasts", "0")?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    // The host would answer: it does to a neighbour.
    wait_until("an answer to a broadcast", LIMIT, || {
        Ok((answers(&stage.inside, "10.2.0.255")? == ["10.2.0.2"]).then_some(()))
    })?;
    for broadcast in ["10.2.0.255", "10.2.0.0"] {
        assert_eq!(answers(&stage.hosts[0], broadcast)?, [""; 0], "{broadcast}");
    }
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    stage.end()
}
