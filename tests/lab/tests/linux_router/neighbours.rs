//! Packets while a neighbour is resolved: those that went to Linux are not overtaken by those that follow.

use std::thread;
use std::time::Duration;

use lab::Result;
use lab::cluster::Probe;
use lab::netns;
use lab::twins::Stage;

/// Packets a second, and how often the neighbour is forgotten meanwhile.
const RATE: u32 = 5000;
const TIMES: u32 = 20;

#[test]
fn nothing_overtakes_what_waits_for_a_neighbour() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let stage = Stage::new(2, &[])?;
    stage.wait_for_ping(0, "10.2.0.2", true)?;
    let before = stage.packets("punt0")?;
    let probe = Probe::start(&stage.hosts[0], &stage.hosts[1], "10.2.0.2", 0, 100, RATE)?;
    for _ in 0..TIMES {
        thread::sleep(Duration::from_millis(100));
        stage.inside.ip("neigh del 10.2.0.2 dev eth2\n")?;
    }
    thread::sleep(Duration::from_millis(100));
    let seen = Probe::end(vec![probe])?;
    println!("{seen:?}");
    assert!(seen.iter().all(|seen| (seen.late, seen.again) == (0, 0)), "{seen:?}");
    let lost = seen.iter().map(|seen| seen.sent - seen.received).sum::<u64>();
    assert!(lost * 100 < seen.iter().map(|seen| seen.sent).sum(), "{seen:?}");
    assert!(stage.packets("punt0")? >= before + u64::from(TIMES), "some went by Linux");
    stage.end()
}
