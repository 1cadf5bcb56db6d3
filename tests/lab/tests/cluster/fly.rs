//! A 2-ary 2-fly: four nodes with lines, four behind them, each with two links out and two in.

use super::{
    LENGTH, QUICK, a_twin_goes_with_its_node, all_is_one_hop, alone, election,
    routes_are_those_of_the_control_node,
};
use lab::cluster::{BEHIND, LIMIT, NODES, Probe, Stage};
use lab::daemons::Etcd;
use lab::netns;
use lab::wait::wait_until;
use lab::{Error, Result};
use serde_json::Value;
use std::thread;
use std::time::Duration;

/// Packets a second: a few of what lines carry.
const RATE: u32 = 500;

#[test]
fn eight_nodes_of_a_fly_are_one_router() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::fly(QUICK, false)?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    // Those of each node go to the two rows that it can reach, or come from there: one neighbour is both.
    let links = stage.rows("links")?;
    let peers = |node: &str| -> Vec<&str> {
        links.iter().filter(|row| row["node"] == node).filter_map(|row| row["peer"].as_str()).collect()
    };
    assert_eq!([peers("a"), peers("d"), peers("w")], [["w", "x", "y"], ["x", "y", "z"], ["a", "b", "c"]]);
    assert!(links.iter().all(|row| row["rate"] == 100_000_000), "2R/k");
    all_is_one_hop(&stage)?;
    routes_are_those_of_the_control_node(&stage)?;
    what_has_no_meaning_is_refused(&stage)?;
    packets_are_in_order(&stage)?;
    one_behind_is_killed(&stage)?;
    one_behind_drains_and_is_killed(&stage)?;
    a_twin_goes_with_its_node(&stage)?;
    nodes_go_and_come(&stage)?;
    stage.end()
}

/// Those behind follow whoever is elected among those with lines.
#[test]
fn another_control_node_takes_over_in_a_fly() -> Result<()> {
    if netns::skipped() || Etcd::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::fly(election::SETTINGS, true)?;
    stage.wait_for_all_pings()?;
    let named = |key: &str| -> Result<Vec<String>> {
        let nodes = stage.rows("nodes")?;
        let rows = nodes.iter().filter(|row| row[key] == true);
        Ok(rows.filter_map(|row| row["node"].as_str().map(str::to_owned)).collect())
    };
    assert_eq!(named("candidate")?, NODES);
    let first = named("control")?;
    stage.kill(&first[0])?;
    let another = || Ok(named("control")?.iter().any(|node| *node != first[0]).then_some(()));
    wait_until("another control node", LIMIT, another)?;
    stage.start(&first[0])?;
    stage.wait_for_all_pings()?;
    routes_are_those_of_the_control_node(&stage)?;
    assert_ne!(named("control")?, first);
    stage.end()
}

/// Everything stays as it is, and the command says why.
fn what_has_no_meaning_is_refused(stage: &Stage) -> Result<()> {
    let refused = |done: Result<String>| match done {
        Ok(printed) => panic!("{printed}"),
        Err(error) => error.to_string(),
    };
    let said = refused(stage.reload(&stage.file(4).replace("[[node]]\nname = 'z'\n", ""), &[]));
    assert!(said.contains("a fly 2 2 has 8 nodes, not 7: where some are missing"), "{said}");
    let said = refused(stage.reload(&stage.file(5), &[]));
    assert!(said.contains("a fly 2 2 has 8 nodes, not 9"), "{said}");
    assert_eq!(stage.reload(&stage.file(4), &[])?.trim_end(), "nothing differs");
    Ok(())
}

/// One behind and one with a line, each while the others forward; not all that are left have a link to it.
fn nodes_go_and_come(stage: &Stage) -> Result<()> {
    let numbered = (0..).zip(NODES.into_iter().chain(BEHIND)).fold(stage.file(4), |text, (number, name)| {
        text.replace(&format!("name = '{name}'\n"), &format!("name = '{name}'\nnumber = {number}\n"))
    });
    assert_eq!(stage.reload(&numbered, &[])?.trim_end(), "nothing differs");
    for (name, number) in [("w", 4), ("c", 2)] {
        let block = numbered.split("[[node]]").find(|block| block.contains(&format!("name = '{name}'")));
        let block = block.ok_or_else(|| Error::new("no such node"))?;
        let without = numbered.replace(&format!("[[node]]{block}"), "");
        for (text, sign, nodes) in [(&without, '-', 7), (&numbered, '+', 8)] {
            let probes = stage.probes(&[(0, 1), (1, 3), (3, 0)], LENGTH, RATE)?;
            let said = stage.reload(text, &[])?;
            assert!(said.starts_with(&format!("{sign} node {name} (number {number})")), "{said}");
            stage.wait_for_all_links()?;
            thread::sleep(Duration::from_millis(500));
            let seen = Probe::end(probes)?;
            let all_came =
                seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.received == seen.sent);
            assert!(all_came, "{sign}{name}: {seen:?}\n{}", stage.typed(&["status"])?);
            assert_eq!(stage.rows("nodes")?.len(), nodes);
        }
        stage.wait_for_all_pings()?;
    }
    wait_until("what is relayed", LIMIT, || {
        stage.wait_for_all_pings()?;
        Ok((stage.relayed(Some("w"))? > 0).then_some(()))
    })
}

fn packets_are_in_order(stage: &Stage) -> Result<()> {
    let before = stage.relayed(None)?;
    let probes = stage.probes(&[(0, 1), (1, 2), (2, 3), (3, 0)], LENGTH, RATE)?;
    thread::sleep(Duration::from_secs(2));
    let seen = Probe::end(probes)?;
    let status = stage.typed(&["status"])?;
    assert!(seen.iter().all(|seen| (seen.again, seen.late) == (0, 0)), "{seen:?}\n{status}");
    assert!(
        seen.iter().all(|seen| seen.received > 0 && seen.received * 10 > seen.sent * 9),
        "{seen:?}\n{status}"
    );
    // Each crosses four links, and three nodes on the way.
    let sent: u64 = seen.iter().map(|seen| seen.sent).sum();
    wait_until("counts of what was relayed", LIMIT, || {
        Ok((stage.relayed(None)? > before + 2 * sent).then_some(()))
    })
}

/// When all know of it nothing goes by it, and nothing is lost, until it is back, in a new life.
fn one_behind_is_killed(stage: &Stage) -> Result<()> {
    let life = || {
        let links = stage.rows("links")?;
        let row = links.iter().find(|row| row["node"] == "a" && row["peer"] == "w");
        row.and_then(|row: &Value| row["incarnation"].as_u64()).ok_or_else(|| Error::new("no link to w"))
    };
    let before = life()?;
    stage.kill("w")?;
    wait_until("the end of the link", LIMIT, || {
        let links = stage.rows("links")?;
        let mut ends = links.iter().filter(|row| row["node"] == "a" && row["peer"] == "w");
        Ok(ends.all(|row| row["state"] == "down").then_some(()))
    })?;
    // Those of the others that it has no link to.
    for node in ["d", "x", "y", "z"] {
        knows_that_none_leads_to(stage, node, "w")?;
    }
    let pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 1)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    thread::sleep(Duration::from_secs(1));
    let seen = Probe::end(probes)?;
    let all_came = seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.received == seen.sent);
    assert!(all_came, "{seen:?}\n{}", stage.typed(&["status"])?);
    stage.start("w")?;
    stage.wait_for_all_links()?;
    assert_eq!(life()?, (before + 1) % 16);
    stage.wait_for_all_pings()
}

/// Who drains relays nothing any more, and takes nothing with it when it ends and comes back.
fn one_behind_drains_and_is_killed(stage: &Stage) -> Result<()> {
    let pairs = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 1)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    stage.typed(&["drain", "w"])?;
    assert_eq!([stage.node("w")?["drains"].clone(), stage.node("x")?["drains"].clone()], [true, false]);
    thread::sleep(Duration::from_millis(200));
    let before = stage.relayed(Some("w"))?;
    thread::sleep(Duration::from_millis(200));
    assert_eq!(stage.relayed(Some("w"))?, before);
    stage.kill("w")?;
    let seen = Probe::end(probes)?;
    let all_came = seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.received == seen.sent);
    assert!(all_came, "{seen:?}\n{}", stage.typed(&["status"])?);
    stage.start("w")?;
    stage.wait_for_all_links()?;
    assert_eq!(stage.node("w")?["drains"], false, "a new life");
    wait_until("what is relayed", LIMIT, || {
        stage.wait_for_all_pings()?;
        Ok((stage.relayed(Some("w"))? > 0).then_some(()))
    })
}

/// Waits until a node has heard from all neighbours of another one that their links there are down.
fn knows_that_none_leads_to(stage: &Stage, node: &str, dead: &str) -> Result<()> {
    wait_until(&format!("{node} knows of {dead}"), LIMIT, || {
        let far = stage.rows("far_links")?;
        let told = far.iter().filter(|row| row["node"] == node && row["to_node"] == dead);
        Ok((told.filter(|row| row["state"] == "down").count() == 3).then_some(()))
    })
}
