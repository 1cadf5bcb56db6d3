//! The adjacencies of one call, of both network protocols.

use cluster::header::ADJACENCIES;
use epoch::Reader;
use fib::{Adjacency, Forwarding, FramingId};
use packet::Packet;
use packet::wire::ethernet::{self, HEADER_LEN};

/// What next hops need, IPv4 and IPv6. Read when it is asked for: most batches need one of them. So who asks twice may get a
/// newer list the second time.
#[derive(Debug, Clone, Copy)]
pub struct Adjacencies<'a> {
    pub v4: &'a fib::Adjacencies,
    pub v6: &'a fib::Adjacencies,
    pub reader: &'a Reader,
}

/// The adjacencies of one network protocol.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    /// As it stands in a frame.
    pub ethertype: [u8; 2],
    list: &'a [Adjacency],
}

impl<'a> Adjacencies<'a> {
    #[inline(always)]
    fn forwarding(self, ethertype: u16) -> &'a Forwarding {
        if ethertype == ethernet::IPV6 { self.v6.read(self.reader) } else { self.v4.read(self.reader) }
    }

    /// Those of the network protocol of a frame.
    #[inline(always)]
    pub fn of(self, head: &[u8; HEADER_LEN]) -> &'a [Adjacency] {
        let [.., a, b] = *head;
        self.forwarding(u16::from_be_bytes([a, b])).list()
    }

    /// For frames of the network protocol of this one, with numbers that headers have bits for.
    #[inline]
    pub fn network(self, packet: &Packet) -> Option<Network<'a>> {
        let [.., a, b] = *packet.head::<HEADER_LEN>(0)?;
        Some(self.network_of([a, b]))
    }

    /// For frames of this EtherType, as it stands there.
    #[inline]
    pub fn network_of(self, ethertype: [u8; 2]) -> Network<'a> {
        Network::new(ethertype, self.forwarding(u16::from_be_bytes(ethertype)))
    }

    /// For frames that were made by the list of this version, if that has the headers of these framings (IPv4, IPv6).
    #[inline]
    pub fn network_framed_by(self, version: u64, framings: [FramingId; 2]) -> Option<Network<'a>> {
        let mut all = [ethernet::IPV4, ethernet::IPV6].into_iter().zip(framings);
        all.find_map(|(ethertype, framing)| {
            let forwarding = self.forwarding(ethertype);
            let is_it = forwarding.version() == version && forwarding.framing() == framing;
            is_it.then(|| Network::new(ethertype.to_be_bytes(), forwarding))
        })
    }
}

impl<'a> Network<'a> {
    #[inline(always)]
    fn new(ethertype: [u8; 2], forwarding: &'a Forwarding) -> Network<'a> {
        let list = forwarding.list();
        Network { ethertype, list: list.get(..ADJACENCIES as usize).unwrap_or(list) }
    }

    /// The adjacency of this number, if the frame is of this protocol.
    #[inline(always)]
    pub fn get(&self, head: &[u8; HEADER_LEN], number: usize) -> Option<&'a Adjacency> {
        let [.., a, b] = *head;
        if [a, b] == self.ethertype { self.at(number) } else { None }
    }

    /// The adjacency of this number.
    #[inline(always)]
    pub fn at(&self, number: usize) -> Option<&'a Adjacency> {
        self.list.get(number)
    }
}
