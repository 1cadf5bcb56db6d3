//! What a cluster does only if its file asks for it: checks of sources, redirects, counts of routes, other lookup structures,
//! several workers.

use super::{QUICK, alone, packets_are_relayed_in_order};
use lab::cluster::{FIFTH, LIMIT, NODES, Stage};
use lab::netns::{self, succeed};
use lab::routebricks::binary;
use lab::wait::wait_until;
use lab::{Error, Result, snmp};
use serde_json::Value;
use std::time::Duration;

/// Packets and bytes that a node has counted for the route of a prefix.
fn counted(stage: &Stage, node: &str, prefix: &str) -> Result<[u64; 2]> {
    let rows = stage.shown(node, "routes")?;
    let row = rows.iter().find(|row| row["prefix"] == prefix);
    let counts = row.and_then(|row| Some([row["packets"].as_u64()?, row["bytes"].as_u64()?]));
    counts.ok_or_else(|| Error::new(format!("node {node} counts nothing for {prefix}")))
}

/// Packets that a node has lost for this reason.
fn lost(stage: &Stage, node: &str, reason: &str) -> Result<u64> {
    let rows = stage.shown(node, "drops")?;
    Ok(rows.iter().filter(|row| row["reason"] == reason).filter_map(|row| row["packets"].as_u64()).sum())
}

#[test]
fn sources_are_checked_routes_counted_and_senders_redirected_at_the_input_node() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let lookup = "lookup = { ipv4 = 'quickest', ipv6 = 'radix' }\n";
    let stage =
        Stage::new(&format!("{QUICK}rpf = 'strict'\nredirects = true\ncount_routes = true\n{lookup}"))?;
    stage.wait_for_all_pings()?;
    let sender = &stage.hosts[1];
    for node in ["a", "b"] {
        let rows = stage.shown(node, "elements")?;
        let told = ["rt0", "rt6_0"].map(|element| {
            let config = rows.iter().find(|row| row["element"] == element).map(|row| &row["config"]);
            config.and_then(Value::as_str)?.split(", ").find(|word| word.starts_with("STRUCTURE "))
        });
        assert_eq!(told, [Some("STRUCTURE quickest"), Some("STRUCTURE radix")], "{node}");
    }

    // There and back, each at the node where it comes in.
    let of = [("b", "10.3.0.2/32"), ("c", "10.2.0.2/32"), ("c", "10.3.0.2/32"), ("a", "10.3.0.2/32")];
    let all = || of.iter().map(|(node, prefix)| counted(&stage, node, prefix)).collect::<Result<Vec<_>>>();
    let before = all()?;
    let printed = sender.run("ping", &["-n", "-c200", "-i0.005", "-q", "10.3.0.2"])?;
    assert!(printed.contains(" 200 received"), "{printed}");
    let added: Vec<_> = all()?.iter().zip(&before).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]).collect();
    // Ethernet, IPv4, ICMP, 56 bytes.
    let pings = [200, 200 * (14 + 20 + 8 + 56)];
    assert_eq!(added, [pings, pings, [0, 0], [0, 0]]);

    // A second address on the link, and one behind the line of another node.
    sender.ip("address add 10.2.0.77/24 dev eth0\naddress add 10.4.0.99/32 dev lo\n")?;
    let answered = |from: &str| {
        Ok::<_, Error>(
            sender.output("ping", &["-n", "-c1", "-W0.5", "-I", from, "10.3.0.2"])?.status.success(),
        )
    };
    wait_until("ping from the second address", LIMIT, || Ok(answered("10.2.0.77")?.then_some(())))?;
    let before = lost(&stage, "b", "reverse_path")?;
    assert!(!answered("10.4.0.99")?);
    assert_eq!(lost(&stage, "b", "reverse_path")?, before + 1);

    // To a network behind another router on the sender's own link.
    stage.inside.ip(
        "neighbour replace 10.2.0.78 lladdr 02:00:00:00:00:78 dev ext2\nroute add 10.9.0.0/16 via 10.2.0.78\n",
    )?;
    wait_until("a redirect", LIMIT, || {
        sender.output("ping", &["-n", "-c1", "-W0.1", "10.9.0.1"])?;
        Ok((snmp::counter(sender, "Icmp", "InRedirects")? > 0).then_some(()))
    })?;
    stage.end()
}

#[test]
fn nodes_with_several_workers_keep_the_order() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    // What a probe sends does not fit the direct link.
    let class = "[[class]]\nname = 'voice'\norder = 'single-path'\ndscp = ['ef']\n";
    let stage = Stage::of_nodes(&format!("line_rate = '16M'\nhello = '50ms'\n{class}"), "workers = 2\n")?;
    let printed = stage.supervisor.printed()?;
    assert_eq!(printed.matches(" elements, 2 workers, ").count(), NODES.len(), "{printed}");
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    packets_are_relayed_in_order(&stage, Duration::from_secs(3), 1000)?;
    pings_are_of_their_class(&stage)?;
    stage.end()
}

/// Pings with a code point, and the answers, are counted in its class, each at the node where it comes in.
fn pings_are_of_their_class(stage: &Stage) -> Result<()> {
    let printed =
        stage.hosts[1].run("ping", &["-n", "-c100", "-i0.005", "-q", "-Q0xb8", &Stage::host_address(2)])?;
    assert!(printed.contains(" 100 received"), "{printed}");
    let counted = || -> Result<_> {
        let rows = stage.rows("classes")?.into_iter().filter(|row| row["class"] == "voice");
        let of = |row: Value| (row["packets"].clone(), row["bytes"].clone(), row["state"].clone());
        Ok(rows.map(of).collect::<Vec<_>>())
    };
    // Ethernet, IPv4, ICMP, 56 bytes.
    let row = |pings: u64| (pings.into(), (pings * 98).into(), "used".into());
    wait_until("counts of classes", LIMIT, || {
        let counted = counted()?;
        Ok((counted == [row(0), row(100), row(100), row(0)]).then_some(()))
    })
}

/// A link of a node that comes is slower than the others: all nodes know it, also those that do not have it, and after a new start.
#[test]
fn all_nodes_know_which_links_are_slow() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = alone();
    let stage = Stage::new(QUICK)?;
    let rated = |rate: &str| {
        let link = format!("name = '{FIFTH}'\nlinks = [{{ to = 'a', rate = '{rate}' }}]\n");
        stage.file(5).replace(&format!("name = '{FIFTH}'\n"), &link)
    };
    stage.reload(&rated("10M"), &[])?;
    let checked = stage.directory.path().join("cluster.toml").display().to_string();
    let checked = succeed(netns::command(binary()?).args(["cluster", "check", &checked]))?;
    let said = "5 nodes, 5 lines, internal links of 10 to 40 Mbit/s, which carry every traffic matrix up to 62 % of the lines\n";
    assert!(checked.contains(said), "{checked}");
    let as_it_is = || -> Result<()> {
        stage.wait_for_all_links()?;
        let all = stage.rows("links")?;
        for row in &all {
            let ends = [row["node"].as_str(), row["peer"].as_str()];
            let is_slow = ends.contains(&Some("a")) && ends.contains(&Some(FIFTH));
            assert_eq!(row["rate"], if is_slow { 10_000_000 } else { 40_000_000 }, "{row}");
        }
        wait_until("shares", LIMIT, || {
            let shares = stage.rows("shares")?;
            let of = |row: &&Value| row["node"] == "b" && row["to_node"] == "a";
            let weights = shares.iter().filter(of).map(|row| row["weight"].as_u64());
            // Directly, by c, by d, and by the fifth.
            Ok((weights.eq([8, 4, 4, 1].map(Some))).then_some(()))
        })
    };
    as_it_is()?;
    stage.kill("b")?;
    stage.start("b")?;
    as_it_is()?;
    stage.wait_for_ping(0, &Stage::host_address(4), true)?;
    let refused = stage.reload(&rated("20M"), &[]).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused.contains("cannot change: the rate of the link between a and e"), "{refused}");
    stage.reload(&stage.file(4), &[])?;
    let rates = stage.rows("links")?.into_iter().all(|row| row["rate"] == 50_000_000);
    assert!(rates, "{}", stage.typed(&["status"])?);
    stage.end()
}
