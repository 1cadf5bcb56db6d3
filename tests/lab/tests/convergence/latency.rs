//! From a route's change in the kernel to the tables that workers read, while the kernel changes many others.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::netlink::numbers::RTM_NEWROUTE;
use control::netlink::wire::Builder;
use control::{NetlinkSocket, Settings, Source, Tables};
use fib::Prefix;
use lab::netns::{self, Namespace};
use lab::{Context, Error, Result};

use crate::octets;
use crate::side::{MODES, Mode, Ours};

/// Changes of one `ip` process.
const CHANGES: u32 = 600_000;
/// Processes at once.
const PROCESSES: u8 = 2;
/// How long one change may take at most.
const LIMIT: Duration = Duration::from_secs(10);

/// Adds and removes routes as fast as the kernel takes them; process n has networks of its own.
fn churn(namespace: &Namespace, n: u8) -> Result<()> {
    let mut lines = String::new();
    for i in 0..CHANGES / 2 {
        let (block, i) = (i >> 16, i & 0xffff);
        // Each added and removed 65,536 changes later.
        for verb in ["add", "del"] {
            lines += &format!(
                "route {verb} {}.{}.{}.0/24 via 10.0.0.2 dev a0\n",
                20 + 10 * n + block as u8,
                i >> 8,
                i & 255
            );
        }
    }
    let mut ip = netns::command("ip");
    ip.args(["-n", namespace.name(), "-force", "-batch", "-"]).stdin(Stdio::piped());
    let mut child = ip.stdout(Stdio::null()).stderr(Stdio::null()).spawn().cannot(|| "run ip".to_owned())?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes()).cannot(|| "write to ip".to_owned())?;
    }
    child.wait().map(drop).cannot(|| "wait for ip".to_owned())
}

/// A route to be seen in our tables: 200.a.b.0/24 over `a0`.
fn marker(socket: &NetlinkSocket, link: u32, n: u32) -> Result<Prefix<u32>> {
    const CREATE: u16 = 0x400 | 1;
    let address = Ipv4Addr::new(200, (n >> 8) as u8, n as u8, 0);
    // Family, lengths, service, table main, protocol static, scope universe, unicast, flags.
    let body = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let message = Builder::new(RTM_NEWROUTE, CREATE, 0, &body)
        .with(1, &octets(address.into()))
        .with(5, &octets(IpAddr::from([10, 0, 0, 2])))
        .with(4, &link.to_ne_bytes());
    socket.send(&message.bytes()).cannot(|| "add a route".to_owned())?;
    Prefix::new(u32::from(address), 24).ok_or_else(|| Error::new("no prefix"))
}

#[test]
#[ignore = "takes a minute and tells figures"]
fn events_reach_the_tables() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    MODES.into_iter().try_for_each(events)
}

fn events(mode: Mode) -> Result<()> {
    let namespace = Namespace::unique("events")?;
    namespace.ip("link add a0 type veth peer name a1\nlink set a0 up\nlink set a1 up\n\
         address add 10.0.0.1/24 dev a0\nneigh replace 10.0.0.2 lladdr 2:0:0:0:0:2 nud permanent dev a0\n")?;
    let tables = Tables::default();
    let (ours, socket, link) = namespace.inside(|| {
        let link = control::link::link("a0").cannot(|| "find a0".to_owned())?.index;
        let settings = Settings { ports: vec![link], source: Source::Kernel, buffer: Settings::BUFFER };
        let ours = Ours::start(mode, &settings, tables.clone())?;
        Ok((ours, NetlinkSocket::open(0, 1 << 20).cannot(|| "open netlink".to_owned())?, link))
    })?;
    assert!(ours.wait(LIMIT));
    for busy in [false, true] {
        let over = AtomicBool::new(!busy);
        let before = ours.handle.status().netlink.messages;
        let begun = Instant::now();
        let mut times = std::thread::scope(|scope| -> Result<Vec<Duration>> {
            let load = scope.spawn(|| {
                let one = |n: u8| (n, busy).1.then(|| churn(&namespace, n));
                std::thread::scope(|scope| {
                    (0..PROCESSES).for_each(|n| {
                        scope.spawn(move || one(n));
                    });
                });
                over.store(true, Ordering::Relaxed);
            });
            let mut times = Vec::new();
            while times.len() < 2000 || !over.load(Ordering::Relaxed) {
                let n = u32::try_from(times.len()).unwrap_or(u32::MAX) + if busy { 20_000 } else { 0 };
                if n > 60_000 {
                    break;
                }
                let begun = Instant::now();
                let prefix = marker(&socket, link, n)?;
                while tables.routes4.get(prefix).is_none() {
                    if begun.elapsed() > LIMIT {
                        return Err(Error::new(format!("{prefix} did not come")));
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
                times.push(begun.elapsed());
            }
            drop(load);
            Ok(times)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let status = ours.handle.status();
        let rate = (status.netlink.messages - before) as f64 / seconds;
        report(mode, &mut times, rate, status.netlink.overruns);
    }
    Ok(())
}

fn report(mode: Mode, times: &mut [Duration], rate: f64, overruns: u64) {
    times.sort_unstable();
    let part = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{mode:?}: {rate:.0} events a second: from the kernel to the tables {:?} in the middle, p99 {:?}, longest {:?}; \
         {overruns} overruns",
        part(0.5),
        part(0.99),
        part(1.0),
    );
}
