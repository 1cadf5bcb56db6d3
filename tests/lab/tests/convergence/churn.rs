//! 100,000 changes of routes a second for a minute, as zebra would send them, and as many as the kernel makes, while a worker
//! looks up as fast as it can.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::netlink::numbers::{RTM_DELROUTE, RTM_NEWROUTE};
use control::netlink::wire::Builder;
use control::{NetlinkSocket, Settings, Source, Tables};
use epoch::Reader;
use fib::{NextHopId, Random};
use lab::netns::{self, Namespace};
use lab::wait::wait_until;
use lab::{Context, Error, Result};

use crate::LIMIT;
use crate::side::{MODES, Mode, Ours};

const RATE: u64 = 100_000;
const LASTS: Duration = Duration::from_secs(60);
/// 20.0.0.0/24 and following, which change; those of 30.0.0.0/8 never do.
const PREFIXES: u32 = 1 << 16;
/// Addresses looked up at once.
const BATCH: usize = 64;
/// Gateways 10.0.0.2 to 10.0.0.5: of changing routes the first two, of the /8 above them, and of unchanging ones.
const CHANGING: [u8; 2] = [2, 3];
const ABOVE: u8 = 4;
const UNCHANGING: u8 = 5;
/// More than this, in bytes, beside what is kept for whoever follows our control side, is a leak.
const MOST_GROWTH: u64 = 16 << 20;

/// Changes that the kernel is asked for in one go at most.
const BATCH_OF_KERNEL: u64 = 256;

/// Whom changes are sent to.
enum Way {
    /// Us, as zebra does it.
    Fpm(TcpStream),
    /// The kernel, which tells us of what it has done.
    Kernel(NetlinkSocket),
}

impl Way {
    fn send(&mut self, messages: &[Vec<u8>]) -> Result<()> {
        match self {
            Way::Fpm(stream) => {
                let frame = |message: &Vec<u8>| {
                    let [high, low] = (message.len() as u16 + 4).to_be_bytes();
                    [&[1, 1, high, low][..], message].concat()
                };
                let frames: Vec<u8> = messages.iter().flat_map(frame).collect();
                stream.write_all(&frames).cannot(|| "send changes".to_owned())
            }
            Way::Kernel(socket) => messages
                .chunks(BATCH_OF_KERNEL as usize)
                .try_for_each(|some| socket.send(&some.concat()).cannot(|| "change routes".to_owned())),
        }
    }

    /// How many changes are to be sent now, `sent` after so long.
    fn due(&self, sent: u64, time: Duration) -> u64 {
        match self {
            Way::Fpm(_) => (time.as_micros() as u64 * RATE / 1_000_000).saturating_sub(sent).min(1000),
            // As fast as it makes them.
            Way::Kernel(_) => BATCH_OF_KERNEL,
        }
    }
}

/// A route via 10.0.0.`gateway`, or its removal, as a message.
fn message(prefix: u32, len: u8, gateway: Option<u8>, link: u32) -> Vec<u8> {
    let kind = if gateway.is_some() { RTM_NEWROUTE } else { RTM_DELROUTE };
    let body = [2, len, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    let mut message = Builder::new(kind, 0x501, 0, &body)
        .with(1, &Ipv4Addr::from(prefix).octets())
        .with(6, &20u32.to_ne_bytes());
    if let Some(gateway) = gateway {
        message = message.with(5, &[10, 0, 0, gateway]).with(4, &link.to_ne_bytes());
    }
    message.bytes()
}

fn changing(n: u32) -> u32 {
    0x1400_0000 + (n << 8)
}

/// Gateways by prefix: 0 = none.
type Sent = Vec<u8>;

/// Sends changes, and returns what the last of each prefix was.
fn change(way: &mut Way, link: u32) -> Result<(Sent, u64, Duration)> {
    let mut random = Random::new(7);
    let mut last = vec![0; PREFIXES as usize];
    let (begun, mut sent) = (Instant::now(), 0u64);
    while begun.elapsed() < LASTS {
        let mut lot = Vec::new();
        let now = way.due(sent, begun.elapsed());
        for _ in 0..now {
            let n = random.below(PREFIXES as usize);
            // Another one than before.
            let choice = [0, CHANGING[0], CHANGING[1]][random.below(3)];
            let new = if choice == last[n] { CHANGING[usize::from(choice == CHANGING[0])] } else { choice };
            last[n] = new;
            lot.push(message(changing(n as u32), 24, (new != 0).then_some(new), link));
        }
        sent += now;
        way.send(&lot)?;
        if let Way::Fpm(_) = way {
            std::thread::sleep(Duration::from_micros(500));
        }
    }
    Ok((last, sent, begun.elapsed()))
}

/// Looks up until it is told to end; every answer must be one that the prefix has had. How many there were.
fn look_up(tables: &Tables, over: &AtomicBool) -> Result<u64> {
    let mut reader = Reader::new();
    let mut random = Random::new(8);
    let (mut addresses, mut hops) = ([0u32; BATCH], [None; BATCH]);
    let mut looked = 0;
    while !over.load(Ordering::Relaxed) {
        for address in &mut addresses {
            let bits = random.bits() as u32;
            let net = if bits & 7 == 0 { 30 } else { 20 };
            *address = net << 24 | bits >> 8;
        }
        tables.routes4.lookup_batch(&reader, &addresses, &mut hops);
        // As `AdjacencyRewrite` does with the first packets to a new next hop.
        let known = tables.adjacencies4.read(&reader).list().len();
        if hops.iter().any(|hop| NextHopId::bits(*hop) as usize >= known) {
            tables.adjacencies4.cover(tables.routes4.next_hops(&reader));
        }
        let forwarding = tables.adjacencies4.read(&reader);
        for (address, hop) in addresses.iter().zip(hops) {
            let adjacency = forwarding.list().get(NextHopId::bits(hop) as usize);
            // The last byte of the neighbour's Ethernet address is that of its IP address.
            let gateway = adjacency.filter(|adjacency| adjacency.is_usable()).map(|a| a.header[5]);
            let is_right = match (address >> 24, gateway) {
                (30, Some(gateway)) => gateway == UNCHANGING,
                (_, Some(gateway)) => CHANGING.contains(&gateway) || gateway == ABOVE,
                _ => false,
            };
            if !is_right {
                return Err(Error::new(format!("{}: {hop:?} {gateway:?}", Ipv4Addr::from(*address))));
            }
        }
        looked += BATCH as u64;
        reader.quiescent();
    }
    Ok(looked)
}

/// Bytes of memory that this process has.
fn memory() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").cannot(|| "read /proc/self/statm".to_owned())?;
    let pages = text.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
    pages.map(|pages| pages * 4096).ok_or_else(|| Error::new("no figure in /proc/self/statm"))
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Fpm,
    Kernel,
}

#[test]
#[ignore = "takes two minutes and tells figures"]
fn changes_by_message_under_lookups() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    MODES.into_iter().try_for_each(|mode| changes(mode, Origin::Fpm))
}

#[test]
#[ignore = "takes two minutes and tells figures"]
fn changes_by_the_kernel_under_lookups() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    MODES.into_iter().try_for_each(|mode| changes(mode, Origin::Kernel))
}

/// Our control side in the current network namespace, and the way to send it changes.
fn start(mode: Mode, from: Origin, link: u32, tables: &Tables) -> Result<(Ours, Way)> {
    let settings = |source| Settings { ports: vec![link], source, buffer: Settings::BUFFER };
    match from {
        Origin::Fpm => {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
            let address: SocketAddr = free.cannot(|| "find a port".to_owned())?;
            let ours = Ours::start(mode, &settings(Source::Fpm(address)), tables.clone())?;
            Ok((ours, Way::Fpm(TcpStream::connect(address).cannot(|| "connect".to_owned())?)))
        }
        Origin::Kernel => {
            let ours = Ours::start(mode, &settings(Source::Kernel), tables.clone())?;
            let socket = NetlinkSocket::open(0, 1 << 20).cannot(|| "open netlink".to_owned())?;
            Ok((ours, Way::Kernel(socket)))
        }
    }
}

/// Gateways of prefixes as they are to be: the first that has another one now.
fn differs(tables: &Tables, last: &Sent) -> Option<String> {
    (0..).zip(last).find_map(|(n, gateway)| {
        let found = tables.routes4.find(changing(n)).and_then(|route| route.next_hop.gateway);
        let expected = if *gateway == 0 { ABOVE } else { *gateway };
        let is_right = found == Some([10, 0, 0, expected].into());
        (!is_right).then(|| format!("{}: {found:?}, not 10.0.0.{expected}", Ipv4Addr::from(changing(n))))
    })
}

/// How long it takes until the tables have every last change.
fn catch_up(ours: &Ours, from: Origin, last: &Sent, sent: u64) -> Result<Duration> {
    let begun = Instant::now();
    let all = u64::from(PREFIXES) + 1 + sent;
    loop {
        let status = ours.handle.status();
        let has_read = from == Origin::Kernel || status.fpm_messages == Some(all);
        let differs = if has_read && status.published { differs(&ours.tables, last) } else { None };
        if has_read && status.published && differs.is_none() && ours.has_same_routes() {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > LIMIT {
            return Err(Error::new(format!("{status:?} of {all}, {differs:?}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn changes(mode: Mode, from: Origin) -> Result<()> {
    let namespace = Namespace::unique("churn")?;
    let mut lines = "link set lo up\nlink add a0 type veth peer name a1\nlink set a0 up\nlink set a1 up\n\
                     address add 10.0.0.1/24 dev a0\n"
        .to_owned();
    (2..=5)
        .for_each(|n| lines += &format!("neigh add 10.0.0.{n} lladdr 2:0:0:0:0:{n} nud permanent dev a0\n"));
    namespace.ip(&lines)?;
    let tables = Tables::default();
    namespace.inside(|| {
        let link = control::link::link("a0").cannot(|| "find a0".to_owned())?.index;
        let (ours, mut way) = start(mode, from, link, &tables)?;
        way.send(&[message(0x1400_0000, 8, Some(ABOVE), link)])?;
        let unchanging = (0..PREFIXES).map(|n| message(0x1e00_0000 + (n << 8), 24, Some(UNCHANGING), link));
        way.send(&unchanging.collect::<Vec<_>>())?;
        let complete = || Ok((tables.routes4.len() > PREFIXES as usize).then_some(()));
        if !ours.wait(LIMIT) || wait_until("the first routes", LIMIT, complete).is_err() {
            return Err(Error::new("the first routes did not come"));
        }
        let (over, before) = (AtomicBool::new(false), memory()?.saturating_sub(ours.kept()));
        let (last, sent, time, looked) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| look_up(&tables, &over));
            let changed = change(&mut way, link);
            over.store(true, Ordering::Relaxed);
            let looked = worker.join().map_err(|_| Error::new("the worker fell"))??;
            let (last, sent, time) = changed?;
            Ok::<_, Error>((last, sent, time, looked))
        })?;
        let behind = catch_up(&ours, from, &last, sent)?;
        let grown = memory()?.saturating_sub(ours.kept() + before) >> 20;
        println!(
            "{mode:?}, {from:?}: {:.0} changes a second for {:.0} s, the last one made {:.3} s after it was sent; {looked} lookups, all \
             right; {grown} MiB of memory more, beside {} of changes for followers; {} overruns",
            sent as f64 / time.as_secs_f64(),
            time.as_secs_f64(),
            behind.as_secs_f64(),
            ours.kept() >> 20,
            ours.handle.status().netlink.overruns,
        );
        assert!(grown << 20 < MOST_GROWTH, "{grown} MiB");
        Ok(())
    })
}
