//! The control node is elected by etcd, and another one takes over while packets pass.

use std::thread;
use std::time::{Duration, Instant};

use lab::cluster::{LIMIT, NODES, Probe, Seen, Stage};
use lab::daemons::Etcd;
use lab::netns;
use lab::wait::wait_until;
use lab::{Error, Result};

use crate::{LENGTH, RATE, TRIES, alone, routes_are_those_of_the_control_node};

/// The first member that the command is given does not answer; what the file says does not count then.
pub const SETTINGS: &str = "line_rate = '100M'\nhello = '50ms'\n\
                        [etcd]\nendpoints = ['http://127.0.0.1:1']\nttl = '2s'\nhold = '8s'\n";
/// A route that Linux has again as soon as it can, and one that it does not get again.
const KNOWN: &str = "10.9.0.1";
const FORGOTTEN: &str = "10.8.0.1";

#[test]
fn another_control_node_takes_over() -> Result<()> {
    if netns::skipped() || Etcd::skipped() {
        return Ok(());
    }
    let _one = alone();
    let mut stage = Stage::elected(SETTINGS)?;
    stage.wait_for_all_pings()?;
    let (first, term) = control(&stage)?.ok_or_else(|| Error::new("no control node"))?;
    everyone_knows(&stage, &first, term)?;
    stage.hosts[2].ip(&format!("link set lo up\naddress add {KNOWN}/32 dev lo\n"))?;
    stage.hosts[3].ip(&format!("link set lo up\naddress add {FORGOTTEN}/32 dev lo\n"))?;
    let (mut now, mut term) = (first, term);
    // On a machine that is busy with other things nodes may not run for so long that Linux forgets neighbours.
    for tried in 1.. {
        stage
            .inside
            .ip("route replace 10.9.0.0/16 via 10.3.0.2\nroute replace 10.8.0.0/16 via 10.4.0.2\n")?;
        for target in [KNOWN, FORGOTTEN] {
            stage.wait_for_ping(1, target, true)?;
        }
        let (next, later, fine) = it_is_killed(&stage, &now)?;
        assert!(later > term, "{term} {later}");
        stage.wait_for_ping(if next == "b" { 1 } else { 0 }, FORGOTTEN, false)?;
        // It comes back, and follows.
        stage.start(&now)?;
        stage.wait_for_all_pings()?;
        everyone_knows(&stage, &next, later)?;
        (now, term) = (next, later);
        if fine {
            break;
        }
        assert!(tried < TRIES, "{}", stage.supervisor.printed()?);
    }
    stage.inside.ip("route del 10.9.0.0/16\n")?;
    stage.hosts[2].ip(&format!("address del {KNOWN}/32 dev lo\n"))?;
    routes_are_those_of_the_control_node(&stage)?;
    for tried in 1.. {
        if etcd_is_gone_for_a_while(&mut stage, &now)? {
            break;
        }
        assert!(tried < TRIES, "{}", stage.supervisor.printed()?);
    }
    it_is_cut_off(&stage)?;
    a_fifth_is_taken_over(&stage)?;
    stage.end()
}

/// The control node, and its term.
fn control(stage: &Stage) -> Result<Option<(String, u64)>> {
    let rows = stage.rows("nodes")?;
    let mut all = rows.iter().filter(|row| row["control"] == true);
    let found = all.next().and_then(|row| {
        let terms = rows.iter().filter_map(|row| row["election"]["term"].as_u64());
        Some((row["node"].as_str()?.to_owned(), terms.max()?))
    });
    assert!(all.next().is_none(), "{rows:?}");
    Ok(found)
}

/// All nodes are there, and take this one for the control node.
fn everyone_knows(stage: &Stage, control: &str, term: u64) -> Result<()> {
    wait_until("the same news everywhere", LIMIT, || {
        let rows = stage.rows("nodes")?;
        let knows = |row: &serde_json::Value| {
            let news = &row["election"];
            row["present"] == true
                && news["control"] == control
                && news["term"] == term
                && news["silent"].is_null()
        };
        Ok((rows.len() == NODES.len() && rows.iter().all(knows)).then_some(()))
    })
}

/// Pairs of hosts behind the others lose nothing, to neighbours and by routes.
fn it_is_killed(stage: &Stage, first: &str) -> Result<(String, u64, bool)> {
    let dead = NODES.iter().position(|node| *node == first).unwrap_or(0);
    let rest: Vec<usize> = (0..NODES.len()).filter(|node| *node != dead).collect();
    let pairs = [(rest[0], rest[1]), (rest[2], rest[0])];
    let mut probes = stage.probes(&pairs, LENGTH, RATE)?;
    // Host 3 has the address that the route leads to.
    let from = if rest[0] == 2 { rest[1] } else { rest[0] };
    if dead != 2 {
        probes.push(Probe::start(&stage.hosts[from], &stage.hosts[2], KNOWN, 7, LENGTH, RATE)?);
    }
    thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    stage.kill(first)?;
    let (second, term) =
        wait_until("another control node", LIMIT, || Ok(control(stage)?.filter(|(node, _)| node != first)))?;
    let elected = begun.elapsed();
    // As a routing daemon does it.
    wait_until("its twins", LIMIT, || {
        let added = stage.inside.output("ip", &["route", "replace", "10.9.0.0/16", "via", "10.3.0.2"])?;
        Ok(added.status.success().then_some(()))
    })?;
    let linux = begun.elapsed();
    assert!(stage.pings(rest[0], FORGOTTEN)?, "a route was forgotten too early");
    let own = format!("10.{}.0.1", rest[0] + 1);
    stage.wait_for_ping(rest[0], &own, true)?;
    println!(
        "{second} elected after {elected:?}, its twins there after {linux:?}, answers after {:?}",
        begun.elapsed()
    );
    // Until what the new one does not know has gone.
    thread::sleep(Duration::from_secs(10));
    let seen = Probe::end(probes)?;
    println!("{seen:?}");
    assert!(elected < Duration::from_secs(10), "{elected:?}");
    Ok((second, term, all_came(&seen)))
}

fn all_came(seen: &[Seen]) -> bool {
    seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.sent == seen.received)
}

/// No link of the control node carries anything, though etcd hears it: it leaves its place to one that the others hear, and
/// follows.
fn it_is_cut_off(stage: &Stage) -> Result<()> {
    let (first, term) = control(stage)?.ok_or_else(|| Error::new("no control node"))?;
    let rest: Vec<usize> = (0..NODES.len()).filter(|node| NODES[*node] != first).collect();
    let links = |state: &str| {
        rest.iter().try_for_each(|node| stage.link_set(&first, &[&format!("to-{}", NODES[*node]), state]))
    };
    links("down")?;
    let (second, later) =
        wait_until("another control node", LIMIT, || Ok(control(stage)?.filter(|(node, _)| *node != first)))?;
    assert!(later > term, "{term} {later}");
    // Its Linux is heard by all that hear each other.
    for node in &rest {
        stage.wait_for_ping(*node, &format!("10.{}.0.1", node + 1), true)?;
    }
    links("up")?;
    stage.wait_for_all_pings()?;
    everyone_knows(stage, &second, later)
}

/// What came while others followed has its twins at whoever takes over then.
fn a_fifth_is_taken_over(stage: &Stage) -> Result<()> {
    stage.reload(&stage.file(5), &[])?;
    stage.wait_for_ping(4, "10.3.0.2", true)?;
    let (now, _) = control(stage)?.ok_or_else(|| Error::new("no control node"))?;
    stage.kill(&now)?;
    wait_until("another control node", LIMIT, || Ok(control(stage)?.filter(|(node, _)| *node != now)))?;
    stage.wait_for_ping(4, "10.5.0.1", true)?;
    stage.start(&now)?;
    let back = NODES.iter().position(|node| *node == now).unwrap_or(0);
    stage.wait_for_ping(4, &Stage::host_address(back), true)
}

/// Nothing happens: the control node is the same, and packets pass.
fn etcd_is_gone_for_a_while(stage: &mut Stage, control_node: &str) -> Result<bool> {
    let pairs = [(0, 1), (2, 3)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    let etcd = |stage: &mut Stage| stage.etcd.take().ok_or_else(|| Error::new("no etcd"));
    let mut store = etcd(stage)?;
    store.kill();
    wait_until("complaints", LIMIT, || {
        let rows = stage.rows("nodes")?;
        Ok(rows.iter().all(|row| !row["election"]["silent"].is_null()).then_some(()))
    })?;
    // Longer than a lease.
    thread::sleep(Duration::from_secs(5));
    assert_eq!(control(stage)?.map(|(node, _)| node).as_deref(), Some(control_node));
    stage.inside.ip("route add 10.9.0.0/16 via 10.3.0.2\n")?;
    stage.wait_for_ping(0, KNOWN, true)?;
    stage.inside.ip("route del 10.9.0.0/16\n")?;
    store.start_again(&stage.inside)?;
    stage.etcd = Some(store);
    wait_until("no complaints", LIMIT, || {
        let rows = stage.rows("nodes")?;
        Ok(rows.iter().all(|row| row["election"]["silent"].is_null() && row["present"] == true).then_some(()))
    })?;
    thread::sleep(Duration::from_secs(3));
    assert_eq!(control(stage)?.map(|(node, _)| node).as_deref(), Some(control_node));
    let seen = Probe::end(probes)?;
    println!("etcd was gone: {seen:?}");
    Ok(all_came(&seen))
}
