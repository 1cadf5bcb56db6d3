//! Routes with several ways: flows are spread, stay on their way, and move when it ends.

use std::time::{Duration, Instant};

use lab::netns::{self, Namespace};
use lab::process::Process;
use lab::veth::Flapping;
use lab::wait::wait_until;
use lab::{Error, Result};

use lab::twins::{LIMIT, Stage};

/// Destinations that are asked.
pub const FLOWS: u32 = 40;

/// Three hosts; the second and third answer for all of 10.9.0.0/16 and 2001:db8:9::/48, the third with a higher TTL.
pub fn stage() -> Result<Stage> {
    let stage = Stage::new(3, &[])?;
    for (host, ttl) in stage.hosts[1..].iter().zip(["64", "128"]) {
        host.ip(
            "link set lo up\nroute add local 10.9.0.0/16 dev lo\nroute add local 2001:db8:9::/48 dev lo\n",
        )?;
        host.set("net/ipv4/ip_default_ttl", ttl)?;
        host.set("net/ipv6/conf/all/hop_limit", ttl)?;
        host.set("net/ipv6/conf/default/hop_limit", ttl)?;
        host.set("net/ipv6/conf/eth0/hop_limit", ttl)?;
        host.set("net/ipv6/conf/lo/hop_limit", ttl)?;
    }
    for n in 1..=3 {
        stage.wait_for_ping(n - 1, &format!("10.{n}.0.1"), true)?;
        stage.wait_for_ping(n - 1, &format!("2001:db8:{n}::1"), true)?;
    }
    Ok(stage)
}

/// Which host answers for each of some destinations: 2, 3, or 0 = none.
pub fn answers(from: &Namespace, prefix: &str) -> Result<Vec<u8>> {
    let script = format!(
        "for i in $(seq 1 {FLOWS}); do ping -n -c1 -W1 {prefix}$i | \
         sed -n 's/.*ttl=63 .*/2/p;s/.*ttl=127 .*/3/p;s/.*100% packet loss.*/0/p'; done"
    );
    let printed = from.run("sh", &["-c", &script])?;
    let answers: Vec<u8> = printed.lines().filter_map(|line| line.parse().ok()).collect();
    match answers.len() == FLOWS as usize {
        true => Ok(answers),
        false => Err(Error::new(format!("{} answers for {prefix}: {printed}", answers.len()))),
    }
}

pub fn count(answers: &[u8], host: u8) -> usize {
    answers.iter().filter(|answer| **answer == host).count()
}

/// Both hosts answer, each flow always the same one, and without Linux as soon as the group has both members.
fn spread(stage: &Stage, prefix: &str) -> Result<Vec<u8>> {
    wait_until("both ways", LIMIT, || {
        let before = stage.packets("punt0")?;
        let [first, second] = [answers(&stage.hosts[0], prefix)?, answers(&stage.hosts[0], prefix)?];
        // While the group takes a member back, flows move to it.
        let both = first == second && count(&first, 2) >= 5 && count(&first, 3) >= 5;
        let alone = stage.packets("punt0")? - before < FLOWS.into();
        Ok((both && alone && count(&first, 0) == 0).then_some(first))
    })
}

#[test]
fn flows_are_spread_and_move_when_their_way_ends() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    stage.inside.ip("route add 10.9.0.0/16 nexthop via 10.2.0.2 nexthop via 10.3.0.2\n\
         nexthop add id 2 via 2001:db8:2::2 dev eth2\nnexthop add id 3 via 2001:db8:3::2 dev eth3\n\
         nexthop add id 9 group 2/3\nroute add 2001:db8:9::/48 nhid 9\n")?;
    for prefix in ["10.9.0.", "2001:db8:9::"] {
        spread(&stage, prefix)?;
        // A neighbour that does not answer any more: only its flows move.
        let (address, rest) = match prefix.contains(':') {
            true => ("2001:db8:3::2", "nud failed"),
            false => ("10.3.0.2", "nud failed"),
        };
        stage.hosts[2].ip("link set eth0 arp off\n")?;
        stage.hosts[2].set("net/ipv6/conf/eth0/disable_ipv6", "1")?;
        stage.inside.ip(&format!("neigh replace {address} dev eth3 {rest}\n"))?;
        wait_until("all flows to move", LIMIT, || {
            Ok((count(&answers(&stage.hosts[0], prefix)?, 2) == FLOWS as usize).then_some(()))
        })?;
        // When it is back, without any packet to it, so are they.
        stage.hosts[2].ip("link set eth0 arp on\n")?;
        stage.hosts[2].set("net/ipv6/conf/eth0/disable_ipv6", "0")?;
        stage.hosts[2].ip(
            "address replace 2001:db8:3::2/64 dev eth0 nodad\nroute replace default via 2001:db8:3::1\n\
             route replace local 2001:db8:9::/48 dev lo\n",
        )?;
        stage.hosts[2].set("net/ipv6/conf/eth0/hop_limit", "128")?;
        spread(&stage, prefix)?;
    }
    stage.end()
}

/// A cable that is pulled while another link of the machine flaps: the gap in a stream of pings over that way.
#[test]
fn a_pulled_cable_costs_little() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = stage()?;
    stage.inside.ip("route add 10.9.0.0/16 nexthop via 10.2.0.2 nexthop via 10.3.0.2\n")?;
    let first = spread(&stage, "10.9.0.")?;
    let _flapping = Flapping::start()?;
    let flow = first.iter().position(|host| *host == 3).unwrap_or(0) + 1;
    let words = ["-n", "-c400", "-i0.005", "-W1", "-q", &format!("10.9.0.{flow}")].map(str::to_owned);
    let ping = Process::start(&stage.hosts[0], "ping", "ping", &words, stage.directory.path())?;
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    stage.hosts[2].ip("link set eth0 down\n")?;
    let twin = || stage.inside.run("ip", &["link", "show", "eth3"]);
    wait_until("the twin's carrier to go", LIMIT, || Ok(twin()?.contains("NO-CARRIER").then_some(())))?;
    println!("Linux knows after {:?}", begun.elapsed());
    let printed = wait_until("ping to end", LIMIT, || {
        let printed = ping.printed()?;
        Ok(printed.contains("received").then_some(printed))
    })?;
    let received: u32 =
        printed.split(", ").find_map(|part| part.strip_suffix(" received")?.parse().ok()).unwrap_or(0);
    println!("lost {} of 400 pings, 5 ms apart", 400 - received);
    // The kernel tells of carriers once a second while others change.
    assert!(received >= 370, "{printed}");
    stage.hosts[2].ip("link set eth0 up\n")?;
    wait_until("the twin's carrier to come back", LIMIT, || {
        Ok((!twin()?.contains("NO-CARRIER")).then_some(()))
    })?;
    stage.end()
}
