//! Internal links by raw sockets, which can be looked at.

use std::thread;

use lab::cluster::Stage;
use lab::netns::{self, missing_program};
use lab::{Error, Result};

#[test]
fn internal_links_by_raw_sockets_can_be_looked_at() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    if let Some(program) = missing_program(&["tcpdump"]) {
        println!("skipped: no {program}");
        return Ok(());
    }
    let _one = crate::alone();
    let stage = Stage::new("line_rate = '16M'\nhello = '50ms'\nlink_type = 'af_packet'\n")?;
    stage.wait_for_all_pings()?;
    crate::all_is_one_hop(&stage)?;
    crate::packets_are_relayed_in_order(&stage, std::time::Duration::from_secs(2), 500)?;
    let printed = thread::scope(|scope| -> Result<String> {
        let looking = scope.spawn(|| stage.frames("c", "to-a", 100));
        stage.hosts[0].run("ping", &["-n", "-c300", "-i0.01", "-q", "10.3.0.2"])?;
        looking.join().map_err(|_| Error::new("tcpdump's thread panicked"))?
    })?;
    // Packets and hellos.
    for what in ["ICMP echo request", "0x88b6"] {
        assert!(printed.lines().any(|line| line.contains(what)), "{printed}");
    }
    stage.end()
}
