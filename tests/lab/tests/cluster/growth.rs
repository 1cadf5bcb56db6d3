//! Nodes that come and go while the others forward.

use std::thread;
use std::time::Duration;

use lab::cluster::{FIFTH, LIMIT, Probe, Seen, Stage};
use lab::netns;
use lab::wait::wait_until;
use lab::{Error, Result};

use crate::{LENGTH, TRIES, alone};

/// Lines of 16 Mbit/s; links of what four nodes need, and then of what five need.
const SETTINGS: &str = "line_rate = '16M'\nhello = '20ms'\n";
/// Packets a second, 70 % of a line: more than fits the direct link.
const RATE: u32 = 1300;
const PAIRS: [(usize, usize); 3] = [(0, 1), (1, 3), (3, 0)];

#[test]
fn a_node_comes_and_goes_while_the_others_forward() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(SETTINGS)?;
    stage.wait_for_all_pings()?;
    what_cannot_be_is_refused(&stage)?;
    // On a machine that is busy with other things packets may find a queue full.
    for tried in 1.. {
        let came = while_probed(&stage, || it_comes(&stage))?;
        it_is_one_of_them(&stage)?;
        let went = while_probed(&stage, || it_goes(&stage))?;
        if came.iter().chain(&went).all(|seen| seen.sent == seen.received) {
            break;
        }
        assert!(tried < TRIES, "{came:?} {went:?}\n{}", stage.typed(&["status"])?);
    }
    it_comes(&stage)?;
    it_comes_back_in_a_new_life(&stage)?;
    it_is_replaced(&stage)?;
    it_goes(&stage)?;
    stage.wait_for_all_pings()?;
    assert!(stage.supervisor.printed()?.matches("e: routebricks: stopped: ").count() >= 3);
    stage.end()
}

/// Probes of pairs that have nothing to do with it see no packet twice or late.
fn while_probed(stage: &Stage, work: impl FnOnce() -> Result<()>) -> Result<Vec<Seen>> {
    let probes = stage.probes(&PAIRS, LENGTH, RATE)?;
    thread::sleep(Duration::from_millis(500));
    work()?;
    thread::sleep(Duration::from_millis(500));
    let seen = Probe::end(probes)?;
    println!("{seen:?}");
    assert!(seen.iter().all(|seen| (seen.again, seen.late) == (0, 0)), "{seen:?}");
    Ok(seen)
}

/// Everything stays as it is, and the command says why.
fn what_cannot_be_is_refused(stage: &Stage) -> Result<()> {
    let refused = |text: &str| match stage.reload(text, &[]) {
        Ok(printed) => panic!("{printed}"),
        Err(error) => error.to_string(),
    };
    let faulty = stage.file(5).replace("port5", "0000:3b:00.0").replace("20ms", "20");
    let said = refused(&faulty);
    assert!(said.contains("`hello` is a time") && said.contains("is a PCI device"), "{said}");
    let said = refused(&stage.file(5).replace("20ms", "30ms").replace("16M", "17M"));
    assert!(said.contains("while the cluster runs these cannot change: line_rate; hello"), "{said}");
    let said = refused(&stage.file(4).replace("'port1'", "'port5'"));
    assert!(said.contains("cannot change: the control node, a"), "{said}");
    let said = refused(&stage.file(5).replace("'port5'", "'nothing'"));
    assert!(said.contains("there is no interface nothing"), "{said}");
    let said = refused(&stage.file(5).replace("name = 'e'", "name = 'e'\nnumber = 8"));
    assert!(said.contains("it was started with room for 8 (`max_nodes`)"), "{said}");
    assert_eq!(stage.reload(&stage.file(4), &[])?.trim_end(), "nothing differs");
    assert_eq!(stage.rows("nodes")?.len(), 4);
    Ok(())
}

fn it_comes(stage: &Stage) -> Result<()> {
    let expected = "+ node e (number 4): ext5 on port5";
    assert_eq!(stage.reload(&stage.file(5), &["--check"])?.trim_end(), expected);
    assert_eq!(stage.rows("nodes")?.len(), 4);
    assert_eq!(stage.reload(&stage.file(5), &[])?.trim_end(), expected);
    wait_until("all links", LIMIT, || {
        let links = stage.rows("links")?;
        Ok((links.len() == 20 && links.iter().all(|row| row["state"] == "up")).then_some(()))
    })?;
    // Its packets are not those that are probed.
    stage.wait_for_ping(4, "10.3.0.2", true)?;
    stage.wait_for_ping(2, "10.5.0.2", true)
}

/// Its line is one of the router's, it relays for the others, and routes by its line hold for all.
fn it_is_one_of_them(stage: &Stage) -> Result<()> {
    for (from, to) in [(0, 4), (4, 0), (1, 4), (4, 3)] {
        stage.wait_for_ping(from, &Stage::host_address(to), true)?;
        stage.wait_for_ping(from, &format!("2001:db8:{}::2", to + 1), true)?;
    }
    let target = "10.5.0.2";
    let printed = stage.hosts[1].run("traceroute", &["-n", "-q1", "-w5", "-m5", target])?;
    let hops: Vec<&str> = printed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(hops, ["10.2.0.1", target], "{printed}");
    stage.hosts[4].ip("link set lo up\naddress add 10.9.0.1/32 dev lo\n")?;
    stage.inside.ip("route add 10.9.0.0/16 via 10.5.0.2\n")?;
    for host in [0, 2] {
        stage.wait_for_ping(host, "10.9.0.1", true)?;
    }
    stage.inside.ip("route del 10.9.0.0/16\n")?;
    stage.wait_for_ping(2, "10.9.0.1", false)?;
    stage.hosts[4].ip("address del 10.9.0.1/32 dev lo\n")?;
    let before = stage.relayed(Some(FIFTH))?;
    let seen = while_probed(stage, || Ok(()))?;
    assert!(stage.relayed(Some(FIFTH))? > before + 50, "{seen:?} {}", stage.typed(&["status"])?);
    let shares = stage.rows("shares")?;
    assert!(shares.iter().any(|row| row["node"] == "a" && row["to_node"] == "b" && row["via_node"] == "e"));
    Ok(())
}

/// Nothing of it is left in the control node's Linux, and its port is back.
fn it_goes(stage: &Stage) -> Result<()> {
    let printed = stage.reload(&stage.file(4), &[])?;
    assert_eq!(printed.trim_end(), "- node e (number 4): ext5 on port5");
    assert_eq!((stage.rows("nodes")?.len(), stage.rows("links")?.len()), (4, 12));
    assert!(!stage.inside.output("ip", &["link", "show", "ext5"])?.status.success());
    let shown = stage.inside.run("ip", &["-o", "link", "show", "port5"])?;
    assert!(shown.contains("UP"), "{shown}");
    assert!(!stage.pings(0, "10.5.0.2")?);
    wait_until("shares without it", LIMIT, || {
        let shares = stage.rows("shares")?;
        Ok(shares.iter().all(|row| row["via_node"] != "e" && row["to_node"] != "e").then_some(()))
    })
}

/// A new process in the same place is taken for what it is.
fn it_comes_back_in_a_new_life(stage: &Stage) -> Result<()> {
    let life = || {
        let links = stage.rows("links")?;
        let row = links.iter().find(|row| row["node"] == "b" && row["peer"] == FIFTH);
        row.and_then(|row| row["incarnation"].as_u64()).ok_or_else(|| Error::new("no link to e"))
    };
    let before = life()?;
    stage.kill(FIFTH)?;
    stage.start(FIFTH)?;
    stage.wait_for_all_links()?;
    stage.wait_for_ping(1, "10.5.0.2", true)?;
    stage.wait_for_ping(4, "10.4.0.2", true)?;
    assert_eq!(life()?, (before + 1) % 16);
    Ok(())
}

/// What differs in more than can change is another node in the same place.
fn it_is_replaced(stage: &Stage) -> Result<()> {
    let other = stage.file(5).replace("10.5.0.1/24", "10.5.0.1/16");
    let printed = stage.reload(&other, &[])?;
    let expected = ["- node e (number 4): ext5 on port5", "+ node e (number 4): ext5 on port5"];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
    let shown = stage.inside.run("ip", &["address", "show", "dev", "ext5"])?;
    assert!(shown.contains("10.5.0.1/16"), "{shown}");
    stage.wait_for_all_links()?;
    stage.wait_for_ping(1, "10.5.0.2", true)
}
