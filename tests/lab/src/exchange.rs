//! Sends frames into a router a chunk at a time, and collects everything that comes out.
//!
//! Nothing is timed: after each chunk a *sentinel* follows on every way through the router. Since a router keeps
//! the order of a way, a sentinel that has arrived says that what went before has been dealt with. A chunk is
//! small enough to fit into every queue on the way, so nothing is lost but what the router drops.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::capture::{RawPort, wait_for_frames};
use crate::packets::{ETHERTYPE_ARP, ETHERTYPE_IP, ICMP, Ip, arp_reply, ethernet, icmp};
use crate::packets6::{ETHERTYPE_IP6, ICMP6, Ip6, Neighbour, icmp6};
use crate::topology::{Hosts, Link, Topology};
use crate::view::Frame;
use crate::wait::go_on;
use crate::{Error, Result};

/// Frames in one chunk: fewer than the shortest queue on the way holds (256 in a veth with XDP).
pub const CHUNK: usize = 128;
/// How long sentinels may take.
const LIMIT: Duration = Duration::from_secs(3);
/// How long it must be quiet after the last sentinel. Covers bursts of different ports that are sent in turn.
const QUIET: Duration = Duration::from_millis(1);
/// Starts the data of a sentinel.
const MARK: &[u8] = b"lab sentinel";

/// A frame that came out of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The port of the router by which it came.
    pub port: usize,
    /// All of it, Ethernet header first.
    pub frame: Vec<u8>,
}

/// The hosts' ends of all links of one router.
#[derive(Debug)]
pub struct Exchange {
    ports: Vec<RawPort>,
    hosts: Hosts,
    /// Where sentinels go: to the first of them usually, to all to open the ways.
    ways: &'static [Way],
    round: u32,
}

/// An address at the other end of a link or behind it.
type Way = fn(Link) -> IpAddr;

const HOST: Way = |link| link.host().into();
const WAYS: [Way; 2] = [HOST, |link| link.neighbour().into()];
const WAYS6: [Way; 3] =
    [|link| link.host6().into(), |link| link.neighbour6().into(), |link| link.behind6().into()];

impl Exchange {
    /// Opens the hosts' ends. With silent hosts it answers ARP requests for them.
    pub fn open(topology: &Topology, hosts: Hosts) -> Result<Exchange> {
        let ways = if hosts == Hosts::Live { &WAYS[..1] } else { &WAYS };
        Exchange::at(topology, hosts, ways)
    }

    /// The same for an IPv6 router between silent hosts.
    pub fn open6(topology: &Topology) -> Result<Exchange> {
        Exchange::at(topology, Hosts::Silent, &WAYS6)
    }

    fn at(topology: &Topology, hosts: Hosts, ways: &'static [Way]) -> Result<Exchange> {
        let ports = topology.links().map(|link| topology.raw_port(link)).collect::<Result<_>>()?;
        Ok(Exchange { ports, hosts, ways, round: 0 })
    }

    /// Sends sentinels to all neighbours until every way is open: the router may have to resolve addresses first.
    pub fn open_ways(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let all: Vec<usize> = (0..self.ports.len()).collect();
        for address in self.ways {
            while !self
                .sentinels_pass(&all, *address, Duration::from_millis(300), &mut Vec::new())?
                .is_empty()
            {
                go_on()?;
                if Instant::now() > deadline {
                    return Err(Error::new(format!("the router does not forward after {limit:?}")));
                }
            }
        }
        self.settle(Duration::from_millis(20)).map(drop)
    }

    /// Sends a chunk of at most [`CHUNK`] frames, each into the port given with it, and gives all that comes out.
    ///
    /// # Errors
    /// If a sentinel is lost: the router has stopped forwarding, or loses good packets.
    pub fn pass<'a>(&mut self, chunk: impl IntoIterator<Item = (usize, &'a [u8])>) -> Result<Vec<Arrival>> {
        go_on()?;
        let mut used = Vec::new();
        for (port, frame) in chunk {
            self.ports[port].send(frame)?;
            if !used.contains(&port) {
                used.push(port);
            }
        }
        let mut arrivals = Vec::new();
        let missing = self.sentinels_pass(&used, self.ways[0], LIMIT, &mut arrivals)?;
        if let Some((from, to)) = missing.first() {
            return Err(Error::new(format!(
                "a good packet from port {from} to port {to} was not forwarded within {LIMIT:?}"
            )));
        }
        arrivals.extend(self.settle(QUIET)?);
        Ok(arrivals)
    }

    /// Collects what still comes until it has been quiet for `quiet`.
    pub fn settle(&mut self, quiet: Duration) -> Result<Vec<Arrival>> {
        let mut arrivals = Vec::new();
        let mut last = Instant::now();
        while last.elapsed() < quiet {
            wait_for_frames(&self.port_refs(), quiet)?;
            let before = arrivals.len();
            self.collect(&mut arrivals, &mut Vec::new())?;
            if arrivals.len() > before {
                last = Instant::now();
            }
        }
        Ok(arrivals)
    }

    /// Sends sentinels from each port in `from` to all others, and gives the ways whose sentinel did not arrive.
    fn sentinels_pass(
        &mut self,
        from: &[usize],
        address: Way,
        limit: Duration,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<Vec<(usize, usize)>> {
        self.round = self.round.wrapping_add(1);
        let mut missing = Vec::new();
        for &from in from {
            for to in (0..self.ports.len()).filter(|port| *port != from).map(|port| Link { port }) {
                self.ports[from].send(&sentinel(Link { port: from }, to, address(to), self.round))?;
                missing.push((from, to.port));
            }
        }
        let deadline = Instant::now() + limit;
        while !missing.is_empty() && Instant::now() < deadline {
            go_on()?;
            wait_for_frames(&self.port_refs(), Duration::from_millis(50))?;
            self.collect(arrivals, &mut missing)?;
        }
        Ok(missing)
    }

    /// Reads all frames that are there. Sentinels of this round are struck off `missing`, older ones ignored.
    fn collect(&self, arrivals: &mut Vec<Arrival>, missing: &mut Vec<(usize, usize)>) -> Result<()> {
        for (port, raw) in self.ports.iter().enumerate() {
            while let Some(frame) = raw.receive()? {
                if let Some((round, from)) = sentinel_of(&frame) {
                    missing.retain(|way| round != self.round || *way != (from, port));
                } else if !self.handle_arp(port, &frame)? && !self.handle_discovery(port, &frame)? {
                    arrivals.push(Arrival { port, frame });
                }
            }
        }
        Ok(())
    }

    /// Answers an ARP request in the name of a silent host. True for every ARP frame.
    fn handle_arp(&self, port: usize, frame: &[u8]) -> Result<bool> {
        let Some(parsed) = Frame::parse(frame).filter(|frame| frame.ethertype == ETHERTYPE_ARP) else {
            return Ok(false);
        };
        let link = Link { port };
        if let Some((asker, asker_address, wanted)) = parsed.arp_request()
            && self.hosts == Hosts::Silent
            && (wanted == link.host() || wanted == link.neighbour())
        {
            self.ports[port].send(&arp_reply(link.host_mac(), wanted, asker, asker_address))?;
        }
        Ok(true)
    }

    /// Answers a neighbour solicitation in the name of a silent host. True for every frame of neighbour or listener
    /// discovery that is from the router.
    fn handle_discovery(&self, port: usize, frame: &[u8]) -> Result<bool> {
        let link = Link { port };
        let Some((parsed, ip)) = Frame::parse(frame).and_then(|parsed| Some((parsed, parsed.ip6()?))) else {
            return Ok(false);
        };
        // Redirects for spoofed sources leave by another link than that of their address.
        let from_router = Link::all().iter().any(|link| link.is_router6(ip.source()));
        if !from_router || !ip.is_of_the_link() {
            return Ok(false);
        }
        let here = [link.host6(), link.neighbour6(), link.host_local()];
        if let Some(wanted) = ip.wanted().filter(|wanted| here.contains(wanted)) {
            let answer = Neighbour::tell(wanted, link.host_mac(), ip.source(), parsed.from);
            self.ports[port].send(&answer)?;
        }
        Ok(true)
    }

    fn port_refs(&self) -> Vec<&RawPort> {
        self.ports.iter().collect()
    }
}

/// An unasked echo reply, which no Linux host answers.
fn sentinel(from: Link, to: Link, address: IpAddr, round: u32) -> Vec<u8> {
    let data = [MARK, &[from.port as u8], &round.to_be_bytes()].concat();
    let (ethertype, packet) = match address {
        IpAddr::V4(address) => {
            let message = icmp(0, 0, [0, 0, 0, to.port as u8], &data);
            (ETHERTYPE_IP, Ip::new(from.host(), address, 0xffff, ICMP, message).build())
        }
        IpAddr::V6(address) => {
            let message = icmp6((from.host6(), address), (129, 0), to.port as u32, &data);
            (ETHERTYPE_IP6, Ip6::new(from.host6(), address, ICMP6, message).build())
        }
    };
    ethernet(from.router_mac(), from.host_mac(), ethertype, &packet)
}

/// Round and port of origin of a sentinel.
fn sentinel_of(frame: &[u8]) -> Option<(u32, usize)> {
    let frame = Frame::parse(frame)?;
    let data = match frame.ethertype {
        ETHERTYPE_IP6 => frame.ip6()?.icmp6().filter(|message| message.kind() == 129)?.data(),
        _ => frame.ip()?.icmp().filter(|message| message.kind() == 0)?.data(),
    };
    let [from, round @ ..] = data.strip_prefix(MARK)? else { return None };
    Some((u32::from_be_bytes(round.try_into().ok()?), usize::from(*from)))
}
