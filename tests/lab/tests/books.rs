//! The books of a router at its end: in = out + lost + held.

use std::time::Duration;

use lab::netns;
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::wait::wait_until;
use lab::{Error, Result};

/// Three packets in a queue that nobody empties, and a device, which may always bring more.
const KEPT: &str =
    "FromDPDKDevice(0) -> q :: Queue(10) -> Unqueue(ACTIVE false) -> Discard; InfiniteSource(LIMIT 3) -> q;";
const EAL: [&str; 8] =
    ["--", "--no-huge", "--no-shconf", "--no-telemetry", "--no-pci", "-m", "128", "--vdev=net_null0,no-rx=1"];

#[test]
fn what_waits_when_a_router_ends_is_held() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let mut launch = Launch::conf("forward.click", &[])?;
    launch.arguments = ["run", "-e", KEPT].iter().chain(&EAL).map(|&word| word.to_owned()).collect();
    let mut router = Routebricks::start_here(launch, directory.path())?;
    wait_until("three packets in the queue", Duration::from_secs(10), || {
        Ok((router.handler("q", "length")? == "3").then_some(()))
    })?;
    let checks = router.stop()?;
    let books = checks.iter().find(|check| check.seen.contains(" held"));
    assert_eq!(books.map(|check| check.seen.as_str()), Some("3 in, 0 out, 0 lost, 3 held"));
    assert!(checks.iter().all(|check| check.holds), "{checks:?}");
    Ok(())
}
