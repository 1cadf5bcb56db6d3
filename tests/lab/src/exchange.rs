//! Sends frames into a router a chunk at a time, and collects everything that comes out.
//!
//! Nothing is timed: after each chunk a *sentinel* follows on every way through the router. Since a router keeps
//! the order of a way, a sentinel that has arrived says that what went before has been dealt with. A chunk is
//! small enough to fit into every queue on the way, so nothing is lost but what the router drops.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::capture::{RawPort, wait_for_frames};
use crate::packets::{ETHERTYPE_ARP, ETHERTYPE_IP, ICMP, Ip, arp_reply, ethernet, icmp};
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
    round: u32,
}

impl Exchange {
    /// Opens the hosts' ends. With silent hosts it answers ARP requests for them.
    pub fn open(topology: &Topology, hosts: Hosts) -> Result<Exchange> {
        let ports = topology.links().map(|link| topology.raw_port(link)).collect::<Result<_>>()?;
        Ok(Exchange { ports, hosts, round: 0 })
    }

    /// Sends sentinels to all neighbours until every way is open: the router may have to resolve addresses first.
    pub fn open_ways(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        let neighbours: &[fn(Link) -> Ipv4Addr] = match self.hosts {
            Hosts::Live => &[Link::host],
            Hosts::Silent => &[Link::host, Link::neighbour],
        };
        let all: Vec<usize> = (0..self.ports.len()).collect();
        for address in neighbours {
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
        let missing = self.sentinels_pass(&used, Link::host, LIMIT, &mut arrivals)?;
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
        address: fn(Link) -> Ipv4Addr,
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
                } else if !self.handle_arp(port, &frame)? {
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

    fn port_refs(&self) -> Vec<&RawPort> {
        self.ports.iter().collect()
    }
}

/// An unasked echo reply, which no Linux host answers.
fn sentinel(from: Link, to: Link, address: Ipv4Addr, round: u32) -> Vec<u8> {
    let data = [MARK, &[from.port as u8], &round.to_be_bytes()].concat();
    let message = icmp(0, 0, [0, 0, 0, to.port as u8], &data);
    let packet = Ip::new(from.host(), address, 0xffff, ICMP, message);
    ethernet(from.router_mac(), from.host_mac(), ETHERTYPE_IP, &packet.build())
}

/// Round and port of origin of a sentinel.
fn sentinel_of(frame: &[u8]) -> Option<(u32, usize)> {
    let message = Frame::parse(frame)?.ip()?.icmp().filter(|message| message.kind() == 0)?;
    let [from, round @ ..] = message.data().strip_prefix(MARK)? else { return None };
    Some((u32::from_be_bytes(round.try_into().ok()?), usize::from(*from)))
}
