//! Scans of large networks: sessions stay, tables stay within their bounds.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use lab::daemons::Frr;
use lab::netns;
use lab::{Context, Result};

use crate::bgp::{frr_neighbour, frr_ours};
use crate::{alone, networks_reach_each_other, stage};

/// How long it is scanned: longer than the sessions' hold time.
const SCAN: Duration = Duration::from_secs(12);

/// Sends a datagram to one address after the other, as fast as it can; returns how many.
fn scan(address: impl Fn(u32) -> SocketAddr, any: &str) -> Result<u64> {
    let socket = UdpSocket::bind((any, 0)).cannot(|| "make a socket".to_owned())?;
    let (begun, mut sent) = (Instant::now(), 0);
    for n in (0..=u32::MAX).cycle() {
        if n % 256 == 0 && begun.elapsed() > SCAN {
            break;
        }
        sent += u64::from(socket.send_to(b"?", address(n)).is_ok());
    }
    Ok(sent)
}

#[test]
fn scans_of_networks_do_not_end_sessions() -> Result<()> {
    if netns::skipped() || Frr::skipped() {
        return Ok(());
    }
    let _turn = alone();
    let stage = stage(&[])?;
    let directory = stage.directory.path();
    let ours = Frr::start(&stage.inside, directory, &["zebra", "bgpd"], &frr_ours())?;
    let _first = frr_neighbour(&stage.hosts[0], directory, 1)?;
    let _second = frr_neighbour(&stage.hosts[1], directory, 2)?;
    networks_reach_each_other(&stage)?;
    // Networks of a /16 and a /64 on the second link, in which nobody is.
    stage.inside.ip("address add 172.16.0.1/16 dev eth2\naddress add 2001:db8:a::1/64 dev eth2 nodad\n")?;
    stage.hosts[0]
        .ip("route add 172.16.0.0/16 via 10.1.0.1\nroute add 2001:db8:a::/64 via 2001:db8:1::1\n")?;
    let sessions = |family| ours.sessions(family);
    let before = [sessions("ipv4")?, sessions("ipv6")?];
    assert_eq!(before, [2, 2]);
    let flaps =
        || ours.ask("show bgp neighbors json").map(|said| said.matches("\"connectionsDropped\":0").count());
    let unbroken = flaps()?;
    assert_eq!(unbroken, 4);
    let fib = stage.fib()?;
    let from = &stage.hosts[0];
    let (four, six) = std::thread::scope(|scope| {
        let four = scope.spawn(|| {
            let to = |n: u32| SocketAddr::from((Ipv4Addr::from(0xac10_0000 | (n & 0xffff)), 9));
            from.inside(|| scan(to, "0.0.0.0"))
        });
        let six = scope.spawn(|| {
            let to = |n: u32| {
                let address =
                    u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 0)) + u128::from(n) + 2;
                SocketAddr::from((Ipv6Addr::from(address), 9))
            };
            from.inside(|| scan(to, "::"))
        });
        (four.join(), six.join())
    });
    let joined = |result: std::thread::Result<Result<u64>>| result.unwrap_or(Ok(0));
    println!("{} IPv4 and {} IPv6 packets to nobody in {SCAN:?}", joined(four)?, joined(six)?);
    assert_eq!(flaps()?, unbroken);
    assert_eq!([sessions("ipv4")?, sessions("ipv6")?], before);
    // Neighbours that do not answer are nowhere in our tables; the kernel's are bounded by itself.
    let after = stage.fib()?;
    println!("routes: {fib:?} before, {after:?} after");
    assert!(after[0] <= fib[0] + 4 && after[1] <= fib[1] + 4, "{fib:?} {after:?}");
    for family in ["ipv4", "ipv6"] {
        let path = format!("/proc/sys/net/{family}/neigh/default/gc_thresh3");
        let bound = fs::read_to_string(&path).cannot(|| format!("read {path}"))?;
        let bound: usize = bound.trim().parse().cannot(|| format!("read {path}"))?;
        let flag = if family == "ipv4" { "-4" } else { "-6" };
        let neighbours = stage.inside.run("ip", &[flag, "neigh", "show"])?.lines().count();
        println!("{family}: {neighbours} neighbours, the kernel's bound is {bound}");
        assert!(neighbours <= bound, "{neighbours} {bound}");
    }
    networks_reach_each_other(&stage)?;
    stage.end()
}
