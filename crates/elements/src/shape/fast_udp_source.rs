//! `FastUDPSource`: makes UDP packets in Ethernet frames at a rate, for measuring.
//!
//! # Arguments
//! - `RATE`: packets a second; 0 = as fast as they are pulled.
//! - `LIMIT`: number of packets to send; -1 = no limit.
//! - `LENGTH`: length of the frame in bytes, Ethernet header included; at least 60, at most 65535.
//! - `SRCETH`, `SRCIP`, `SPORT`, `DSTETH`, `DSTIP`, `DPORT`: addresses and ports.
//! - `CHECKSUM`: false = without UDP checksum. Default true.
//! - `INTERVAL`: after so many packets both ports are counted up by 1; 0 = never. Default 0.
//! - `ACTIVE`: false = wait until told to begin. Default true.
//! - `STOP`: true = stop the router after the last packet. Default false.
//!
//! # Ports
//! One pull output.
//!
//! # Handlers
//! | name | | |
//! |---|---|---|
//! | `count` | r | packets sent |
//! | `reset` | w | start from 0 again |
//! | `rate`, `limit`, `active` | rw | see the arguments |
//!
//! # Losses
//! - `no_buffer`: there was no buffer for a packet; it does not count as sent.
//!
//! # Example
//! ```click
//! FastUDPSource(1000, 50, 60, 0:0:0:0:0:1, 10.0.0.1, 1234, 0:0:0:0:0:2, 10.0.0.2, 80)
//!     -> c :: Counter -> Discard;
//! // c.count = 50
//! // c.byte_count = 3000
//! ```

use super::source::{LocalSource, Source, source_handlers};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State};
use packet::wire::{checksum, ethernet, ipv4};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The shortest Ethernet frame, check sequence not counted.
const SHORTEST: u16 = 60;
const TTL: u8 = 64;

/// See the module.
#[derive(Debug)]
pub struct FastUdpSource(Arc<Source>);

/// What the frames say.
#[derive(Clone, Copy, Debug)]
struct Frame {
    length: u16,
    ethernet: ethernet::Header,
    source: (Ipv4Addr, u16),
    destination: (Ipv4Addr, u16),
    checksum: bool,
}

impl Frame {
    /// The frame with both ports counted up by `more`.
    fn bytes(&self, more: u16) -> Vec<u8> {
        let ip_length = self.length - 14;
        let udp_length = ip_length - 20;
        let mut ip = vec![0x45, 0];
        ip.extend(ip_length.to_be_bytes());
        ip.extend([0, 0, 0, 0, TTL, ipv4::UDP, 0, 0]);
        ip.extend(self.source.0.octets());
        ip.extend(self.destination.0.octets());
        ipv4::set_checksum(&mut ip);
        let mut udp = Vec::with_capacity(usize::from(udp_length));
        udp.extend(self.source.1.wrapping_add(more).to_be_bytes());
        udp.extend(self.destination.1.wrapping_add(more).to_be_bytes());
        udp.extend(udp_length.to_be_bytes());
        udp.resize(usize::from(udp_length), 0);
        if self.checksum {
            let (from, to) = (self.source.0.to_bits(), self.destination.0.to_bits());
            let sum = checksum::pseudo_header(from, to, ipv4::UDP, udp_length) + checksum::sum(&udp);
            // 0 would mean "no checksum" (RFC 768).
            let sum = match !checksum::fold(sum) {
                0 => 0xffff,
                sum => sum,
            };
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        [&self.ethernet.bytes()[..], &ip, &udp].concat()
    }
}

impl AsRef<Source> for FastUdpSource {
    fn as_ref(&self) -> &Source {
        &self.0
    }
}

impl Class for FastUdpSource {
    const SPEC: Spec =
        Spec { losses: &["no_buffer"], state: State::Home, ..Spec::new("FastUDPSource", "0/1", "l/l") };
    type Local = LocalSource;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<FastUdpSource, ConfigErrors> {
        let rate = args.required("RATE");
        let limit = args.required("LIMIT");
        let length: u16 = args.required("LENGTH");
        let (source_mac, source_ip, sport) =
            (args.required("SRCETH"), args.required("SRCIP"), args.required("SPORT"));
        let (destination_mac, destination_ip, dport) =
            (args.required("DSTETH"), args.required("DSTIP"), args.required("DPORT"));
        let checksum = args.optional("CHECKSUM", true);
        let interval: u64 = args.optional("INTERVAL", 0);
        let active = args.optional("ACTIVE", true);
        let stop = args.keyword("STOP", false);
        if length < SHORTEST {
            args.warn("LENGTH", format!("less than the shortest frame, so {SHORTEST} is used"));
        }
        args.finish()?;
        let frame = Frame {
            length: length.max(SHORTEST),
            ethernet: ethernet::Header {
                destination: destination_mac,
                source: source_mac,
                ethertype: ethernet::IPV4,
            },
            source: (source_ip, sport),
            destination: (destination_ip, dport),
            checksum,
        };
        let source = Source::new(frame.bytes(0), rate, limit, active, stop, cx.burst).unlimited_at_zero();
        let source = if interval == 0 {
            source
        } else {
            source.varying(Box::new(move |count, data| {
                let turn = count / interval;
                *data = frame.bytes((turn & 0xffff) as u16);
                (turn + 1).saturating_mul(interval)
            }))
        };
        Ok(FastUdpSource(Arc::new(source)))
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalSource {
        LocalSource::new(&self.0, cx)
    }

    fn handlers(h: &mut Handlers<FastUdpSource>) {
        source_handlers(h);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_byte_by_byte() {
        let frame = Frame {
            length: 60,
            ethernet: ethernet::Header { destination: [2; 6], source: [1; 6], ethertype: 0x800 },
            source: (Ipv4Addr::new(10, 0, 0, 1), 1000),
            destination: (Ipv4Addr::new(10, 0, 0, 2), 80),
            checksum: true,
        };
        let bytes = frame.bytes(1);
        assert_eq!(bytes.len(), 60);
        assert_eq!(&bytes[..18], [2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 8, 0, 0x45, 0, 0, 46]);
        assert!(checksum::is_valid(&bytes[14..34]));
        assert_eq!(&bytes[34..40], [0x03, 0xe9, 0, 81, 0, 26]);
        let sum = checksum::pseudo_header(0x0a00_0001, 0x0a00_0002, 17, 26) + checksum::sum(&bytes[34..]);
        assert_eq!(checksum::fold(sum), 0xffff);
        let without = Frame { checksum: false, ..frame }.bytes(0);
        assert_eq!(&without[40..42], [0, 0]);
    }
}
