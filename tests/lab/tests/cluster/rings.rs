//! Nodes that are joined by rings.

use std::time::Duration;

use lab::Result;
use lab::cluster::{FIFTH, NODES, Stage};
use lab::netns;

use crate::{all_is_one_hop, gap_is_short, packets_are_relayed_in_order};

/// What a probe sends does not fit the direct link.
const SETTINGS: &str = "line_rate = '16M'\nhello = '10ms'\nlink_type = 'ring'\n";

#[test]
fn nodes_joined_by_rings_are_one_router() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = crate::alone();
    let stage = Stage::new(SETTINGS)?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    all_is_one_hop(&stage)?;
    assert_eq!(rings(&stage), 6);
    links_are_no_interfaces(&stage)?;
    the_longest_packets_pass(&stage)?;
    packets_are_relayed_in_order(&stage, Duration::from_secs(2), 500)?;
    a_killed_relay_comes_back(&stage)?;
    a_node_comes_and_goes(&stage)?;
    stage.end()
}

/// How many there are. None is left at the end: [`Stage::end`] looks at that.
fn rings(stage: &Stage) -> usize {
    stage.files().iter().filter(|path| path.extension().is_some_and(|extension| extension == "ring")).count()
}

/// Nothing in the nodes' Linux but their lines.
fn links_are_no_interfaces(stage: &Stage) -> Result<()> {
    for node in NODES {
        assert!(stage.link_set(node, &["lo", "up"]).is_ok());
        for peer in NODES {
            assert!(stage.link_set(node, &[&format!("to-{peer}"), "up"]).is_err(), "{node} {peer}");
        }
    }
    Ok(())
}

fn the_longest_packets_pass(stage: &Stage) -> Result<()> {
    for (from, to) in [(0, 1), (3, 2)] {
        let printed = stage.hosts[from]
            .run("ping", &["-n", "-c20", "-i0.01", "-q", "-Mdo", "-s1472", &Stage::host_address(to)])?;
        assert!(printed.contains(" 20 received"), "{printed}");
    }
    Ok(())
}

/// It says nothing to anybody, and leaves everything as it was.
fn a_killed_relay_comes_back(stage: &Stage) -> Result<()> {
    let start = || {
        stage.typed(&["start", "c"])?;
        stage.wait_for_ping(0, "10.3.0.2", true)?;
        stage.wait_for_ping(2, "10.4.0.2", true)
    };
    gap_is_short(stage, &[(0, 1), (1, 3)], || stage.kill("c"), start)?;
    start()?;
    stage.wait_for_all_links()
}

fn a_node_comes_and_goes(stage: &Stage) -> Result<()> {
    stage.reload(&stage.file(5), &[])?;
    for (from, to) in [(0, 4), (4, 0), (3, 4), (4, 2)] {
        stage.wait_for_ping(from, &Stage::host_address(to), true)?;
    }
    assert_eq!(rings(stage), 10);
    stage.reload(&stage.file(4), &[])?;
    assert!(stage.rows("links")?.iter().all(|row| row["node"] != FIFTH && row["peer"] != FIFTH));
    stage.wait_for_all_pings()
}
