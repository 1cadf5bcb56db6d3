//! `routebricks cluster`: four processes on this machine are one router.
//!
//! Rates are low: hosts, nodes and probes share the processors with whatever else runs there.

mod election;
mod extras;
mod figures;
mod fly;
mod growth;
mod narrow_links;
mod page;
mod raw_links;
mod restart;
mod rings;
mod tcp;
mod vlans;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use lab::cluster::{LIMIT, NODES, Probe, Seen, Stage, iperf};
use lab::netns::{self, missing_program};
use lab::veth::Flapping;
use lab::wait::wait_until;
use lab::{Error, Result};

/// For how long all that is sent may be lost when a node or a link fails.
const LONGEST_GAP: Duration = Duration::from_millis(50);
/// How often that may be tried: on a machine that is busy with other things nodes may not run for as long.
const TRIES: u32 = 4;

/// Four nodes at a time are enough for a small machine.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where failures are not the subject: nodes that do not run for a while are not taken for dead.
const QUICK: &str = "line_rate = '100M'\nhello = '50ms'\n";

#[test]
fn four_nodes_are_one_router() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(QUICK)?;
    stage.wait_for_all_pings()?;
    all_is_one_hop(&stage)?;
    // What the nodes forward does not pass Linux.
    let before = stage.sum("traffic", "packets", |row| row["way"] != "own")?;
    let printed = stage.hosts[1].run("ping", &["-n", "-c200", "-i0.005", "-q", "10.3.0.2"])?;
    assert!(printed.contains(" 200 received"), "{printed}");
    wait_until("counts of what was forwarded", LIMIT, || {
        let after = stage.sum("traffic", "packets", |row| row["way"] != "own")?;
        Ok((after - before >= 400).then_some(()))
    })?;
    routes_are_those_of_the_control_node(&stage)?;
    tcp_between_all_pairs_at_once(&stage)?;
    stage.end()
}

/// The router is one hop, whose address is that of the port that the packet came in by.
fn all_is_one_hop(stage: &Stage) -> Result<()> {
    for (from, to) in Stage::pairs() {
        let target = Stage::host_address(to);
        let printed = stage.hosts[from].run("traceroute", &["-n", "-q1", "-w5", "-m5", &target])?;
        let hops: Vec<&str> =
            printed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, [format!("10.{}.0.1", from + 1), target], "{printed}");
    }
    Ok(())
}

/// What Linux of the control node is told holds for all nodes.
fn routes_are_those_of_the_control_node(stage: &Stage) -> Result<()> {
    stage.hosts[2].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    assert!(!stage.pings(1, "10.9.0.1")?);
    stage.inside.ip("route add 10.9.0.0/16 via 10.3.0.2\n")?;
    for host in [0, 1, 3] {
        stage.wait_for_ping(host, "10.9.0.1", true)?;
    }
    stage.inside.ip("route del 10.9.0.0/16\n")?;
    for host in [0, 1, 3] {
        stage.wait_for_ping(host, "10.9.0.1", false)?;
    }
    Ok(())
}

/// Twelve connections of 1 Mbit/s each.
fn tcp_between_all_pairs_at_once(stage: &Stage) -> Result<()> {
    if missing_program(&["iperf3"]).is_some() {
        println!("no iperf3: TCP is left out");
        return Ok(());
    }
    let reports = iperf::between_all_pairs(stage, &["-b1M", "-l8K", "-t3"])?;
    for (report, (from, to)) in reports.iter().zip(Stage::pairs()) {
        let received = report["end"]["sum_received"]["bytes"].as_u64().unwrap_or(0);
        let again = report["end"]["sum_sent"]["retransmits"].as_u64();
        println!("TCP {from} -> {to}: {received} bytes, {again:?} sent again");
        assert!(received >= 200_000, "{from} -> {to}: {report}");
    }
    Ok(())
}

/// Lines of 16 Mbit/s and links of 8: what a probe sends does not fit the direct link.
const SLOW: &str = "line_rate = '16M'\nhello = '10ms'\n";
const LENGTH: usize = 1000;
const RATE: u32 = 1500;

fn end(probes: Vec<Probe>, pairs: &[(usize, usize)]) -> Result<Vec<Seen>> {
    let seen = Probe::end(probes)?;
    for (seen, (from, to)) in seen.iter().zip(pairs) {
        println!("{} -> {}: {seen:?}", NODES[*from], NODES[*to]);
    }
    Ok(seen)
}

/// Fails something while probes run, and mends it, until the gap is as short as it must be. All that arrived did so once
/// and in order, each time.
fn gap_is_short(
    stage: &Stage,
    pairs: &[(usize, usize)],
    fail: impl Fn() -> Result<()>,
    mend: impl Fn() -> Result<()>,
) -> Result<()> {
    for tried in 1.. {
        let probes = stage.probes(pairs, LENGTH, RATE)?;
        thread::sleep(Duration::from_secs(1));
        fail()?;
        thread::sleep(Duration::from_secs(1));
        let seen = end(probes, pairs)?;
        let in_order = seen.iter().all(|seen| (seen.again, seen.late) == (0, 0));
        assert!(in_order, "{seen:?}\n{}", stage.typed(&["status"])?);
        if seen.iter().all(|seen| seen.gap < LONGEST_GAP) {
            return Ok(());
        }
        assert!(tried < TRIES, "{seen:?}");
        mend()?;
    }
    Ok(())
}

/// Of probes between two pairs of hosts, both ways, for so long: more than `least` packets go by relays, all in order.
fn packets_are_relayed_in_order(stage: &Stage, time: Duration, least: u64) -> Result<()> {
    let before = stage.relayed(None)?;
    let pairs = [(0, 1), (1, 0), (2, 3), (3, 2)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    thread::sleep(time);
    let seen = end(probes, &pairs)?;
    let status = stage.typed(&["status"])?;
    assert!(seen.iter().all(|seen| (seen.again, seen.late) == (0, 0)), "{seen:?}\n{status}");
    assert!(seen.iter().all(|seen| seen.received * 10 > seen.sent * 9), "{seen:?}\n{status}");
    assert!(stage.relayed(None)? > before + least, "{status}");
    Ok(())
}

#[test]
fn failures_cost_little_and_order_stays() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(SLOW)?;
    stage.wait_for_all_pings()?;
    let _flapping = Flapping::start()?;
    a_relay_is_killed(&stage)?;
    a_link_is_pulled(&stage)?;
    a_node_is_drained(&stage)?;
    stage.end()
}

fn a_relay_is_killed(stage: &Stage) -> Result<()> {
    let before = stage.relayed(Some("c"))?;
    let kill = || {
        assert!(stage.relayed(Some("c"))? > before + 100, "c relays nothing");
        stage.kill("c")
    };
    let start = || {
        assert!(!stage.pings(0, "10.3.0.2")?);
        stage.typed(&["start", "c"])?;
        stage.wait_for_ping(0, "10.3.0.2", true)?;
        stage.wait_for_ping(2, "10.4.0.2", true)
    };
    gap_is_short(stage, &[(0, 1), (1, 3)], kill, start)?;
    start()
}

/// Pairs that have it on first and on second ways, and the pair at its ends.
fn a_link_is_pulled(stage: &Stage) -> Result<()> {
    let pull = || stage.link_set("b", &["to-d", "down"]);
    let plug = || {
        let links = stage.rows("links")?;
        let down = links.iter().filter(|row| row["state"] == "down");
        let down: Vec<_> = down.map(|row| (row["node"].as_str(), row["peer"].as_str())).collect();
        for end in [(Some("b"), Some("d")), (Some("d"), Some("b"))] {
            assert!(down.contains(&end), "{down:?}");
        }
        stage.link_set("b", &["to-d", "up"])?;
        stage.wait_for_all_links()
    };
    for pairs in [&[(1, 2), (0, 3)][..], &[(1, 3)]] {
        gap_is_short(stage, pairs, pull, plug)?;
        plug()?;
    }
    Ok(())
}

/// It relays nothing more, and its own line goes on.
fn a_node_is_drained(stage: &Stage) -> Result<()> {
    stage.typed(&["drain", "c"])?;
    thread::sleep(Duration::from_millis(500));
    assert_eq!([stage.node("b")?["drains"].clone(), stage.node("c")?["drains"].clone()], [false, true]);
    let before = (stage.relayed(None)?, stage.relayed(Some("c"))?);
    let pairs = [(0, 1), (2, 3)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    thread::sleep(Duration::from_secs(2));
    let seen = end(probes, &pairs)?;
    assert!(seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.received > 0), "{seen:?}");
    let after = (stage.relayed(None)?, stage.relayed(Some("c"))?);
    assert!(after.0 > before.0 + 100 && after.1 == before.1, "{before:?} {after:?}");
    stage.typed(&["drain", "c", "--off"]).map(drop)
}

#[test]
fn whoever_is_killed_comes_back() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let mut stage = Stage::new(QUICK)?;
    stage.wait_for_all_pings()?;
    the_control_node_is_killed(&stage)?;
    the_supervisor_is_killed(&mut stage)?;
    stage.end()
}

/// The others forward as they did; when it is back they follow it again.
fn the_control_node_is_killed(stage: &Stage) -> Result<()> {
    let pairs = [(1, 2), (3, 1)];
    let probes = stage.probes(&pairs, LENGTH, RATE)?;
    thread::sleep(Duration::from_millis(500));
    stage.kill("a")?;
    assert!(stage.sum("nodes", "pid", |row| row["ready"] == true && row["node"] == "a")? == 0);
    thread::sleep(Duration::from_secs(1));
    let seen = end(probes, &pairs)?;
    // They went directly, where nothing has failed.
    assert!(
        seen.iter().all(|seen| (seen.again, seen.late) == (0, 0) && seen.sent == seen.received),
        "{seen:?}"
    );
    stage.start("a")?;
    stage.wait_for_all_pings()?;
    routes_are_those_of_the_control_node(stage)?;
    a_twin_goes_with_its_node(stage)
}

/// Linux is told of a node that goes: the twin of its line at the control node has no carrier until it is back.
fn a_twin_goes_with_its_node(stage: &Stage) -> Result<()> {
    let carrier = |is: bool| {
        let shown = stage.inside.run("ip", &["-o", "link", "show", "ext4"])?;
        Ok((shown.contains("LOWER_UP") == is).then_some(()))
    };
    carrier(true)?.ok_or_else(|| Error::new("no carrier"))?;
    stage.kill("d")?;
    wait_until("the end of the carrier", LIMIT, || carrier(false))?;
    assert!(stage.rows("shares")?.iter().all(|row| row["to_node"] != "d"), "nobody can send there");
    stage.typed(&["start", "d"])?;
    wait_until("a carrier", LIMIT, || carrier(true))?;
    stage.wait_for_ping(0, "10.4.0.2", true)
}

/// Its nodes end with it, and the interfaces come back; then the cluster can be started again.
fn the_supervisor_is_killed(stage: &mut Stage) -> Result<()> {
    let pids: Vec<i32> = NODES.iter().map(|node| stage.pid(node)).collect::<Result<_>>()?;
    stage.supervisor.kill();
    for pid in pids {
        let gone = || Ok((!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
        wait_until("the end of a node", LIMIT, gone)?;
    }
    stage.are_back()?;
    stage.start_again()?;
    stage.wait_for_all_pings()
}
