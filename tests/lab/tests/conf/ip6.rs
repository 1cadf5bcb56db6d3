//! The IPv6 router.

use std::fs;
use std::net::Ipv6Addr;
use std::time::Duration;

use lab::packets::{UDP, ethernet};
use lab::packets6::{ETHERTYPE_IP6, ICMP6, Ip6, Neighbour, icmp6};
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::topology::{Hosts, Link, Topology};
use lab::wait::wait_until;
use lab::{Context, Error, Result, netns};

/// The router asks for its neighbours, forwards between them, and tells what it cannot forward.
#[test]
pub fn an_ipv6_router_with_two_interfaces() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let path = directory.path().join("routes.txt");
    fs::write(&path, "2001:db8:1::/64 0\n2001:db8:2::/64 1\n").cannot(|| "write routes".to_owned())?;
    for workers in ["1", "2"] {
        let topology = Topology::of(2, &netns::unique_prefix(), Hosts::Silent)?;
        let launch = Launch::router("ip6-router.click", &topology, &path)?.with(&["-j", workers]);
        let mut router = Routebricks::start(topology.router(), launch, directory.path())?;
        two_ipv6_hosts(&topology)?;
        let mut checks = router.stop()?;
        checks.retain(|check| !check.holds);
        assert!(checks.is_empty(), "-j {workers}: {checks:#?}");
    }
    Ok(())
}

fn two_ipv6_hosts(topology: &Topology) -> Result<()> {
    let links = [0, 1].map(|port| Link { port });
    let ports = [topology.raw_port(links[0])?, topology.raw_port(links[1])?];
    let global = |net: u16, host: u16| Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, host);
    let (a, b) = (global(1, 2), global(2, 2));
    let send = |from: usize, ip: &Ip6| {
        ports[from].send(&ethernet(
            links[from].router_mac(),
            links[from].host_mac(),
            ETHERTYPE_IP6,
            &ip.build(),
        ))
    };
    let expect = |at: usize, frame: Vec<u8>| {
        let mut others = 0;
        wait_until("the packet", Duration::from_secs(5), || {
            while let Some(seen) = ports[at].receive()? {
                if seen == frame {
                    return Ok(Some(()));
                }
                others += 1;
            }
            Ok(None)
        })
        .cannot(|| format!("see {frame:02x?} at port {at}, but {others} others"))
    };
    let forwarded = |at: usize, ip: &Ip6| {
        let ip = Ip6 { hop_limit: ip.hop_limit - 1, ..ip.clone() };
        expect(at, ethernet(links[at].host_mac(), links[at].router_mac(), ETHERTYPE_IP6, &ip.build()))
    };
    for (from, ip) in [(0, Ip6::new(a, b, UDP, vec![1; 30])), (1, Ip6::new(b, a, UDP, vec![2; 30]))] {
        let to = 1 - from;
        let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, to as u16 + 1, 1);
        let ask = Neighbour::ask(own, links[to].router_mac(), ip.destination);
        send(from, &ip)?;
        expect(to, ask)?;
        ports[to].send(&Neighbour::tell(
            ip.destination,
            links[to].host_mac(),
            own,
            links[to].router_mac(),
        ))?;
        forwarded(to, &ip)?;
    }
    let spent = Ip6 { hop_limit: 1, ..Ip6::new(a, b, UDP, vec![3; 30]) };
    send(0, &spent)?;
    let told = |from: Ipv6Addr, to: Ipv6Addr, kind: u8, code: u8, word: u32, quote: &Ip6| {
        Ip6::new(from, to, ICMP6, icmp6((from, to), (kind, code), word, &quote.build()))
    };
    forwarded(0, &told(global(2, 1), a, 3, 0, 0, &spent))?;
    let lost = Ip6::new(b, global(3, 9), UDP, vec![4; 30]);
    send(1, &lost)?;
    forwarded(1, &told(global(1, 1), b, 1, 0, 0, &lost))?;
    // An error about a packet to one of the router's addresses comes from that (RFC 4443 §2.2 (a)).
    let unheard = Ip6::new(a, global(2, 1), UDP, vec![5; 30]);
    send(0, &unheard)?;
    forwarded(0, &told(global(2, 1), a, 1, 4, 0, &unheard))?;
    let ping = Ip6::new(a, global(1, 1), ICMP6, icmp6((a, global(1, 1)), (128, 0), 9, b"are you there?"));
    send(0, &ping)?;
    let reply = icmp6((global(1, 1), a), (129, 0), 9, b"are you there?");
    forwarded(0, &Ip6::new(global(1, 1), a, ICMP6, reply))
}
