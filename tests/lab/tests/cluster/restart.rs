//! Packets to a node that is killed and comes back: none is late, and what is on its way there costs nobody else anything.

use std::thread;
use std::time::Duration;

use lab::Result;
use lab::cluster::{Probe, Stage};
use lab::netns;

use crate::alone;

/// Restarts c so many times while it is sent to from two nodes, one of them the control node.
fn nothing_is_late(stage: &Stage, restarts: usize, length: usize, rate: u32) -> Result<()> {
    for restart in 0..restarts {
        let probes = stage.probes(&[(0, 2), (1, 2), (3, 1)], length, rate)?;
        thread::sleep(Duration::from_millis(300));
        stage.kill("c")?;
        thread::sleep(Duration::from_millis(600));
        stage.start("c")?;
        for from in [0, 1] {
            stage.wait_for_ping(from, "10.3.0.2", true)?;
        }
        thread::sleep(Duration::from_millis(500));
        let seen = Probe::end(probes)?;
        println!("{restart}: {seen:?}");
        let in_order = seen.iter().all(|seen| (seen.again, seen.late) == (0, 0));
        assert!(in_order, "restart {restart}: {seen:?}\n{}", stage.typed(&["status"])?);
        assert!(seen.iter().all(|seen| seen.received > 0), "{seen:?}");
    }
    Ok(())
}

/// Restarts with these settings.
fn restarts_are_in_order(settings: &str, restarts: usize) -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(settings)?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    nothing_is_late(&stage, restarts, 200, 5000)?;
    nothing_is_late(&stage, restarts, 1000, 500)?;
    stage.end()
}

#[test]
fn packets_to_a_node_that_comes_back_are_in_order() -> Result<()> {
    // Hellos far apart: a machine that is busy is not the subject.
    restarts_are_in_order("line_rate = '100M'\nhello = '30ms'\n", 2)
}

#[test]
#[ignore = "takes minutes; make failures"]
fn packets_to_a_node_that_often_comes_back_are_in_order() -> Result<()> {
    restarts_are_in_order("line_rate = '100M'\n", 20)
}

#[test]
fn what_is_for_a_dead_node_takes_nobodys_link() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    // Links of 11 Mbit/s.
    let stage = Stage::new("line_rate = '22M'\nhello = '30ms'\n")?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    stage.kill("c")?;
    // Linux has forgotten the neighbours there, and gets all that is for them.
    thread::sleep(Duration::from_secs(2));
    // From b 8.5 Mbit/s to c, and as many to a: together more than the link to a carries.
    let probes = stage.probes(&[(1, 2), (1, 0)], 1000, 1000)?;
    thread::sleep(Duration::from_secs(3));
    let seen = Probe::end(probes)?;
    println!("{seen:?}");
    assert_eq!(seen[0].received, 0);
    assert!(seen[1].received * 1000 >= seen[1].sent * 995, "{seen:?}\n{}", stage.typed(&["status"])?);
    stage.start("c")?;
    stage.wait_for_all_links()?;
    stage.end()
}
