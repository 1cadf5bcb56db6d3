//! A packet as tests see it.

use super::expr::{Base, Field};
use packet::Packet;
use packet::wire::ipv4::{self, Ipv4};
use packet::wire::{be16, be32};

/// A packet's headers, found once for all tests. Whatever is not there or not whole counts as absent.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    network: &'a [u8],
    ip: Option<Ipv4<'a>>,
    /// What is behind the IP header, unless the packet is a later fragment.
    transport: &'a [u8],
    ether: Option<&'a [u8; 12]>,
}

impl<'a> View<'a> {
    /// Views the IP packet at a packet's network header, or at its start if none is marked.
    #[inline]
    pub fn of(packet: &'a Packet) -> View<'a> {
        let network = packet.network().unwrap_or(packet.data());
        View::new(network, packet.mac_bytes::<12>())
    }

    /// Views an IP packet, and the addresses of its Ethernet frame.
    #[inline]
    pub fn new(network: &'a [u8], ether: Option<&'a [u8; 12]>) -> View<'a> {
        let ip = Ipv4::new(network).filter(|ip| ip.version() == 4 && ip.header_len() >= ipv4::MIN_HEADER_LEN);
        let transport = match &ip {
            Some(ip) if ip.is_first_fragment() => {
                // A total length that is wrong must not hide what is there: the check of headers is not done here.
                network.get(ip.header_len()..).unwrap_or(&[])
            }
            _ => &[],
        };
        View { network, ip, transport, ether }
    }

    /// A number of the packet.
    #[inline]
    pub fn load(&self, field: Field) -> Option<u32> {
        match field {
            Field::Version => self.network.first().map(|b| u32::from(b >> 4)),
            Field::HeaderLen => self.ip.map(|ip| (ip.header_len() / 4) as u32),
            Field::Tos => self.ip.map(|ip| u32::from(ip.tos())),
            Field::Dscp => self.ip.map(|ip| u32::from(ip.tos() >> 2)),
            Field::TotalLen => self.ip.map(|ip| u32::from(ip.total_len())),
            Field::Id => self.ip.map(|ip| u32::from(ip.id())),
            Field::Fragment => self.ip.map(|ip| u32::from(ip.fragment_word())),
            Field::Ttl => self.ip.map(|ip| u32::from(ip.ttl())),
            Field::Protocol => self.ip.map(|ip| u32::from(ip.protocol())),
            Field::Source => self.ip.map(|ip| ip.source()),
            Field::Destination => self.ip.map(|ip| ip.destination()),
            Field::SourcePort => self.port(0),
            Field::DestinationPort => self.port(2),
            Field::TcpFlags => self.of_protocol(ipv4::TCP)?.get(13).map(|b| u32::from(*b)),
            Field::TcpWindow => be16(self.of_protocol(ipv4::TCP)?, 14).map(u32::from),
            Field::IcmpType => self.of_protocol(ipv4::ICMP)?.first().map(|b| u32::from(*b)),
            Field::EtherDestinationHigh => be16(self.ether?, 0).map(u32::from),
            Field::EtherDestinationLow => be32(self.ether?, 2),
            Field::EtherSourceHigh => be16(self.ether?, 6).map(u32::from),
            Field::EtherSourceLow => be32(self.ether?, 8),
            Field::Bytes { base, at, len } => {
                let from = match base {
                    Base::Ip => self.network,
                    Base::Transport => self.transport,
                    Base::Protocol(p) => self.of_protocol(p)?,
                };
                let bytes = from.get(usize::from(at)..)?.get(..usize::from(len))?;
                Some(bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b)))
            }
        }
    }

    fn port(&self, at: usize) -> Option<u32> {
        matches!(self.ip?.protocol(), ipv4::TCP | ipv4::UDP).then_some(())?;
        be16(self.transport, at).map(u32::from)
    }

    fn of_protocol(&self, protocol: u8) -> Option<&'a [u8]> {
        (self.ip?.protocol() == protocol).then_some(self.transport)
    }
}
