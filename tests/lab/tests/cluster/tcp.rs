//! TCP through a cluster that keeps the order next to TCP through one router, in figures: `make failures`.

use lab::cluster::{LIMIT, Stage, iperf};
use lab::netns;
use lab::process::Process;
use lab::routebricks::binary;
use lab::snmp;
use lab::wait::wait_until;
use lab::{Error, Result};

use crate::figures::links_are;

/// What a connection gets at most, in Mbit/s.
const CAP: f64 = 100.0;
/// Links carry 60 Mbit/s: the rest of a connection goes by relays.
const SETTINGS: &str = "line_rate = '120M'\nhello = '50ms'\norder = 'strict'\n";
const CONNECTIONS: usize = 5;
/// Of the counters of TCP, those of segments that were sent again because of what was acknowledged.
const SENT_AGAIN: [&str; 3] = ["TCPFastRetrans", "TCPSackRecovery", "TCPRenoRecovery"];

/// What connections got, in Mbit/s, and what they sent again.
#[derive(Debug, Default)]
struct Got {
    rates: Vec<f64>,
    again: u64,
}

impl Got {
    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or_default()
    }
}

/// Several connections from the first host to the second, one after the other.
fn connections(stage: &Stage) -> Result<Got> {
    let mut got = Got::default();
    let again = || -> Result<u64> {
        SENT_AGAIN.iter().map(|name| snmp::counter(&stage.hosts[0], "TcpExt", name)).sum()
    };
    let before = again()?;
    for _ in 0..CONNECTIONS {
        let report = iperf::between(stage, 0, 1, &["-t5", "--fq-rate", &format!("{CAP}M")])?;
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
        got.rates.push(rate.ok_or_else(|| Error::new("iperf3 reports no rate"))? / 1e6);
    }
    got.again = again()? - before;
    Ok(got)
}

/// The same ports, as those of one router.
fn one_router(stage: &Stage) -> Result<Process> {
    stage.inside.ip("address add 10.1.0.1/24 dev port1\naddress add 10.2.0.1/24 dev port2\n")?;
    let words = ["router", "port1", "port2"].map(str::to_owned);
    let program = binary()?.display().to_string();
    Process::start(&stage.inside, "router", &program, &words, stage.directory.path())
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn what_tcp_gets() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let _one = crate::alone();
    let links = links_are();
    let mut stage = Stage::new(&format!("{SETTINGS}link_type = '{links}'\n"))?;
    stage.wait_for_all_pings()?;
    stage.wait_for_all_links()?;
    let before = stage.relayed(None)?;
    let cluster = connections(&stage)?;
    let relayed = stage.relayed(None)? - before;
    let checks = stage.stop()?;
    assert!(checks.iter().all(|check| check.holds), "{checks:?}");
    let mut router = one_router(&stage)?;
    wait_until("an answer by the router", LIMIT, || Ok(stage.pings(0, "10.2.0.2")?.then_some(())))?;
    let one = connections(&stage)?;
    router.terminate(LIMIT)?;
    println!(
        "links: {links}; Mbit/s of {CONNECTIONS} connections of 5 s, segments sent again after duplicate acknowledgements"
    );
    println!("cluster     {cluster:.2?}; {relayed} packets relayed");
    println!("one router  {one:.2?}");
    println!("the cluster's median by the router's: {:.4}", cluster.median() / one.median());
    assert!(relayed > 0, "nothing went by relays");
    assert_eq!(cluster.again, 0, "as if packets had come in another order");
    stage.are_back()
}
