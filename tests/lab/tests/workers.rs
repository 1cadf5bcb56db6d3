//! Routers that share processors, and routers that sleep: nobody starves, and nobody oversleeps.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lab::capture::{RawPort, wait_for_frames};
use lab::netns::{self, Namespace};
use lab::packets::{ETHERTYPE_IP, Ip, Mac, UDP, ethernet};
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::veth::{self, End};
use lab::{Context, Error, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A namespace with cables, and `conf/forward.click` between `eth1` and `eth2`.
struct Forwarder {
    router: Routebricks,
    directory: TempDir,
    /// The other ends of `eth1` and `eth2`, if they are in another namespace.
    outside: Option<Namespace>,
    namespace: Namespace,
}

/// Each of these tests measures time, or needs some: one at a time.
static ALONE: Mutex<()> = Mutex::new(());

const ENDS: [&str; 2] = ["eth1", "eth2"];
/// How long a share is measured.
const WINDOW: Duration = Duration::from_millis(100);

impl Forwarder {
    /// With `h1` and `h2` in a second namespace at the other ends of the cables.
    fn between_hosts() -> Result<Forwarder> {
        let (outside, namespace) = (Namespace::unique("hosts")?, Namespace::unique("forward")?);
        let cable = |n| (end(&outside, ["h1", "h2"][n], n as u8), end(&namespace, ENDS[n], n as u8 + 2));
        veth::connect(&[cable(0), cable(1)])?;
        Forwarder::start(namespace, Some(outside))
    }

    /// With one cable from `eth1` to `eth2`: what the router sends comes back to it, so its work never ends.
    fn in_a_circle() -> Result<Forwarder> {
        let namespace = Namespace::unique("circle")?;
        veth::connect(&[(end(&namespace, ENDS[0], 0), end(&namespace, ENDS[1], 1))])?;
        Forwarder::start(namespace, None)
    }

    fn start(namespace: Namespace, outside: Option<Namespace>) -> Result<Forwarder> {
        let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
        let launch = Launch::conf("forward.click", &["A=eth1", "B=eth2"])?;
        let router = Routebricks::start(&namespace, launch, directory.path())?;
        Ok(Forwarder { router, directory, outside, namespace })
    }

    fn restart(&mut self) -> Result<()> {
        let launch = Launch::conf("forward.click", &["A=eth1", "B=eth2"])?;
        self.router = Routebricks::start(&self.namespace, launch, self.directory.path())?;
        Ok(())
    }

    /// The hosts' ends.
    fn ports(&self) -> Result<[RawPort; 2]> {
        let outside = self.outside.as_ref().ok_or_else(|| Error::new("there are no hosts"))?;
        Ok([RawPort::open(outside, "h1")?, RawPort::open(outside, "h2")?])
    }

    fn stop(mut self) -> Result<()> {
        let checks = self.router.stop()?;
        assert!(checks.iter().all(|check| check.holds), "{checks:?}");
        Ok(())
    }
}

fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
}

fn frame(number: u16) -> Vec<u8> {
    let packet = Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), number, UDP, vec![0; 26]);
    ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 0]), ETHERTYPE_IP, &packet.build())
}

/// Sends `count` frames into one port and waits until they have come out of the other, in order.
fn pass(ports: &[RawPort; 2], from: usize, count: u16) -> Result<()> {
    let frames: Vec<Vec<u8>> = (0..count).map(frame).collect();
    for frame in &frames {
        ports[from].send(frame)?;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut arrived = Vec::new();
    while arrived.len() < frames.len() && Instant::now() < deadline {
        wait_for_frames(&[&ports[1 - from]], Duration::from_millis(50))?;
        while let Some(frame) = ports[1 - from].receive()? {
            arrived.push(frame);
        }
    }
    assert_eq!(arrived.len(), frames.len(), "frames from port {from}");
    assert_eq!(arrived, frames);
    Ok(())
}

/// What a router has done so far.
#[derive(Clone, Copy)]
struct Progress {
    processor: Duration,
    packets: u64,
}

fn progress(forwarder: &Forwarder) -> Result<Progress> {
    let devices = forwarder.namespace.inside(|| {
        fs::read_to_string("/proc/thread-self/net/dev").cannot(|| "read /proc/net/dev".to_owned())
    })?;
    let received = |line: &str| line.split_whitespace().nth(2)?.parse::<u64>().ok();
    let packets =
        devices.lines().filter(|line| line.trim_start().starts_with("eth")).filter_map(received).sum();
    Ok(Progress { processor: forwarder.router.process().cpu_time()?, packets })
}

/// Lets this thread, and what it starts, run on the first two processors that it may use. False if there is but one.
fn keep_to_two_processors() -> Result<bool> {
    let own = Pid::from_raw(0);
    let allowed = sched_getaffinity(own).cannot(|| "read the processor affinity".to_owned())?;
    let numbers = (0..CpuSet::count()).filter(|&number| allowed.is_set(number).unwrap_or(false));
    let mut two = CpuSet::new();
    let mut found = 0;
    for number in numbers.take(2) {
        two.set(number).cannot(|| "choose processors".to_owned())?;
        found += 1;
    }
    sched_setaffinity(own, &two).cannot(|| "set the processor affinity".to_owned())?;
    Ok(found == 2)
}

/// Four routers whose work never ends, on two processors: in every tenth of a second each gets at least a tenth of
/// its fair share of processor time and of packets.
///
/// While something else takes more than half of the processors, the share of a router says nothing about the others:
/// such tenths of a second are not judged.
#[test]
fn nobody_starves() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if netns::skipped() {
        return Ok(());
    }
    if !keep_to_two_processors()? {
        println!("skipped: there is only one processor");
        return Ok(());
    }
    let forwarders: Vec<Forwarder> = (0..4).map(|_| Forwarder::in_a_circle()).collect::<Result<_>>()?;
    for forwarder in &forwarders {
        let port = RawPort::open(&forwarder.namespace, ENDS[0])?;
        (0..64).try_for_each(|number| port.send(&frame(number)))?;
    }
    std::thread::sleep(Duration::from_millis(300));
    let look = || forwarders.iter().map(progress).collect::<Result<Vec<Progress>>>();
    let (mut before, mut since, mut least) = (look()?, Instant::now(), (1.0_f64, 1.0_f64));
    let (mut judged, end) = (0, since + Duration::from_secs(20));
    while judged < 30 && Instant::now() < end {
        std::thread::sleep((since + WINDOW).saturating_duration_since(Instant::now()));
        let (now, elapsed) = (look()?, since.elapsed());
        since += elapsed;
        let steps = || before.iter().zip(&now);
        let processor: Vec<f64> = steps().map(|(a, b)| (b.processor - a.processor).as_secs_f64()).collect();
        let packets: Vec<f64> = steps().map(|(a, b)| (b.packets - a.packets) as f64).collect();
        // All four together had at least one of the two processors, as good as all the time.
        if processor.iter().sum::<f64>() > 0.95 * elapsed.as_secs_f64() {
            judged += 1;
            let (processor, packets) = (shares(&processor), shares(&packets));
            assert!(processor.iter().all(|share| *share >= 0.1), "processor time {processor:.2?}");
            assert!(packets.iter().all(|share| *share >= 0.1), "packets {packets:.2?}");
            least.0 = processor.into_iter().fold(least.0, f64::min);
            least.1 = packets.into_iter().fold(least.1, f64::min);
        }
        before = now;
    }
    println!(
        "least share in {judged} windows: {:.2} of a fair one in time, {:.2} in packets",
        least.0, least.1
    );
    if judged < 30 {
        println!("skipped: something else takes more than half of the processors");
    }
    forwarders.into_iter().try_for_each(Forwarder::stop)
}

/// Each figure as a multiple of their mean.
fn shares(figures: &[f64]) -> Vec<f64> {
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    figures.iter().map(|figure| figure / mean).collect()
}

/// A router without packets leaves its processor to others; what comes then is lost in no case.
#[test]
fn an_idle_router_sleeps_and_wakes() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if netns::skipped() {
        return Ok(());
    }
    let forwarder = Forwarder::between_hosts()?;
    std::thread::sleep(Duration::from_secs(2));
    let (start, before) = (Instant::now(), forwarder.router.process().cpu_time()?);
    std::thread::sleep(Duration::from_secs(2));
    let used = forwarder.router.process().cpu_time()? - before;
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    println!("idle: {:.2} % of a processor", 100.0 * share);
    assert!(share < 0.03, "{:.2} % of a processor", 100.0 * share);

    let ports = forwarder.ports()?;
    // Pauses after which the router does not sleep yet, naps, and sleeps deeply.
    let pauses = [0, 1, 2, 5, 20, 50, 150, 300];
    for round in 0..3 {
        for pause in pauses {
            std::thread::sleep(Duration::from_millis(pause));
            pass(&ports, round % 2, [1, 64, 3][round])?;
        }
    }
    forwarder.stop()
}

/// Two routers on one machine: what happens to one is nothing to the other.
#[test]
fn two_routers_do_not_disturb_each_other() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if netns::skipped() {
        return Ok(());
    }
    let steady = Forwarder::between_hosts()?;
    let ports = steady.ports()?;
    let through_steady = || (0..10).try_for_each(|turn| pass(&ports, turn % 2, 100));
    through_steady()?;
    let mut other = Forwarder::between_hosts()?;
    through_steady()?;
    pass(&other.ports()?, 0, 100)?;
    // It is killed, comes back, and ends in order.
    other.router.kill();
    through_steady()?;
    other.restart()?;
    through_steady()?;
    pass(&other.ports()?, 1, 100)?;
    other.stop()?;
    through_steady()?;
    steady.stop()
}
