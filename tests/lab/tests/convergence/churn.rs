//! 100,000 changes of routes a second for a minute, as zebra would send them, while a worker looks up as fast as it can.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use control::netlink::numbers::{RTM_DELROUTE, RTM_NEWROUTE};
use control::netlink::wire::Builder;
use control::{Settings, Source, Tables};
use epoch::Reader;
use fib::{NextHopId, Random};
use lab::netns::{self, Namespace};
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
/// More than this, in bytes, is a leak.
const MOST_GROWTH: u64 = 64 << 20;

/// A route via 10.0.0.`gateway`, or its removal, as a frame of FPM.
fn frame(prefix: u32, len: u8, gateway: Option<u8>, link: u32) -> Vec<u8> {
    let kind = if gateway.is_some() { RTM_NEWROUTE } else { RTM_DELROUTE };
    let body = [2, len, 0, 0, 254, 186, 0, 1, 0, 0, 0, 0];
    let mut message = Builder::new(kind, 0x501, 0, &body)
        .with(1, &Ipv4Addr::from(prefix).octets())
        .with(6, &20u32.to_ne_bytes());
    if let Some(gateway) = gateway {
        message = message.with(5, &[10, 0, 0, gateway]).with(4, &link.to_ne_bytes());
    }
    let message = message.bytes();
    let [high, low] = (message.len() as u16 + 4).to_be_bytes();
    [&[1, 1, high, low][..], &message].concat()
}

fn changing(n: u32) -> u32 {
    0x1400_0000 + (n << 8)
}

/// Gateways by prefix: 0 = none.
type Sent = Vec<u8>;

/// Sends changes at the rate, and returns what the last of each prefix was.
fn change(stream: &mut TcpStream, link: u32) -> Result<(Sent, u64, Duration)> {
    let mut random = Random::new(7);
    let mut last = vec![0; PREFIXES as usize];
    let (begun, mut sent) = (Instant::now(), 0u64);
    while begun.elapsed() < LASTS {
        let due = begun.elapsed().as_micros() as u64 * RATE / 1_000_000;
        let mut lot = Vec::new();
        let now = due.saturating_sub(sent).min(1000);
        for _ in 0..now {
            let n = random.below(PREFIXES as usize);
            // Another one than before.
            let choice = [0, CHANGING[0], CHANGING[1]][random.below(3)];
            let new = if choice == last[n] { CHANGING[usize::from(choice == CHANGING[0])] } else { choice };
            last[n] = new;
            lot.extend(frame(changing(n as u32), 24, (new != 0).then_some(new), link));
        }
        sent += now;
        stream.write_all(&lot).cannot(|| "send changes".to_owned())?;
        std::thread::sleep(Duration::from_micros(500));
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

#[test]
#[ignore = "takes a minute and tells figures"]
fn changes_by_message_under_lookups() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    MODES.into_iter().try_for_each(changes)
}

fn changes(mode: Mode) -> Result<()> {
    let namespace = Namespace::unique("churn")?;
    let mut lines = "link set lo up\nlink add a0 type veth peer name a1\nlink set a0 up\nlink set a1 up\n\
                     address add 10.0.0.1/24 dev a0\n"
        .to_owned();
    (2..=5)
        .for_each(|n| lines += &format!("neigh add 10.0.0.{n} lladdr 2:0:0:0:0:{n} nud permanent dev a0\n"));
    namespace.ip(&lines)?;
    let tables = Tables::default();
    let result = namespace.inside(|| {
        let link = control::link::link("a0").cannot(|| "find a0".to_owned())?.index;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let address: SocketAddr = free.cannot(|| "find a port".to_owned())?;
        let settings = Settings { ports: vec![link], source: Source::Fpm(address), buffer: Settings::BUFFER };
        let ours = Ours::start(mode, &settings, tables.clone())?;
        let mut stream = TcpStream::connect(address).cannot(|| "connect".to_owned())?;
        let mut first = frame(0x1400_0000, 8, Some(ABOVE), link);
        (0..PREFIXES).for_each(|n| first.extend(frame(0x1e00_0000 + (n << 8), 24, Some(UNCHANGING), link)));
        stream.write_all(&first).cannot(|| "send routes".to_owned())?;
        if !ours.wait(LIMIT) {
            return Err(Error::new("the first routes did not come"));
        }
        let (over, before) = (AtomicBool::new(false), memory()?);
        let (last, sent, time, looked) = std::thread::scope(|scope| {
            let worker = scope.spawn(|| look_up(&tables, &over));
            let changed = change(&mut stream, link);
            over.store(true, Ordering::Relaxed);
            let looked = worker.join().map_err(|_| Error::new("the worker fell"))??;
            let (last, sent, time) = changed?;
            Ok::<_, Error>((last, sent, time, looked))
        })?;
        let begun = Instant::now();
        let all = u64::from(PREFIXES) + 1 + sent;
        while ours.handle.status().fpm_messages != Some(all) || !ours.handle.status().published || !ours.has_same_routes() {
            if begun.elapsed() > LIMIT {
                return Err(Error::new(format!("{:?} of {all}", ours.handle.status())));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let behind = begun.elapsed();
        let rate = sent as f64 / time.as_secs_f64();
        let grown = memory()?.saturating_sub(before) >> 20;
        println!(
            "{mode:?}: {rate:.0} changes a second for {:.0} s, the last one made {:.3} s after it was sent; {looked} lookups, all \
             right; {grown} MiB of memory more",
            time.as_secs_f64(),
            behind.as_secs_f64(),
        );
        assert!(grown << 20 < MOST_GROWTH, "{grown} MiB");
        Ok(last)
    });
    for (n, gateway) in (0..).zip(result?) {
        let found = tables.routes4.find(changing(n)).and_then(|route| route.next_hop.gateway);
        let expected = if gateway == 0 { ABOVE } else { gateway };
        assert_eq!(found, Some([10, 0, 0, expected].into()), "{}", Ipv4Addr::from(changing(n)));
    }
    Ok(())
}
