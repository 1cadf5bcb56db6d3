//! The Ethernet header of internal links.
//!
//! It takes the place of the two addresses of an Ethernet header; the EtherType stays what it was, so a frame does not
//! grow and nobody parses it again. Each address is unicast and locally administered, which leaves 46 bits:
//!
//! ```text
//!             octet 0           1        2         3         4         5
//!  destination ffffff10  nnnnnnnn nnnnpppp  ppppaaaa  aaaaaaaa  aaaaaaaa
//!              flags     node 12      port 8    adjacency 20
//!              flags: version 2, phase 1, class 2, punt 1
//!  source      nnnnnn10  nnnnnnww wwwwiiii  ssssssss  ssssssss  ssssssss
//!              node 12         worker 6  incarnation 4    sequence 24
//! ```
//!
//! The destination says where the frame leaves the cluster: output node, port there, adjacency (what its link-layer
//! header is to be). The source says which stream it belongs to, and its number there.

mod in_frame;

use thiserror::Error;

pub use in_frame::{Glance, Template};

/// The version that this code writes. Versions go 1, 2, 3, 1, …; 0 is never one.
pub const VERSION: u8 = 1;

/// The versions that this code reads: its own, and once there is one, its predecessor.
pub const READS: &[u8] = &[VERSION];

/// Length of the header: two addresses.
pub const LEN: usize = 12;

/// EtherType of frames that travel whole, with their own Ethernet header behind ours: punted and injected ones. One of
/// those that IEEE 802 gives for local experiments.
pub const ETHERTYPE_WHOLE: u16 = 0x88B5;

/// EtherType of hellos and markers ([`crate::message`]).
pub const ETHERTYPE_CONTROL: u16 = 0x88B6;

/// One more than the largest node number.
pub const NODES: u16 = 1 << 12;
/// One more than the largest worker number.
pub const WORKERS: u8 = 1 << 6;
/// One more than the largest class.
pub const CLASSES: u8 = 1 << 2;
/// One more than the largest incarnation.
pub const INCARNATIONS: u8 = 1 << 4;
/// One more than the largest adjacency number.
pub const ADJACENCIES: u32 = 1 << 20;
/// One more than the largest sequence number.
pub const SEQUENCES: u32 = 1 << 24;

/// The bit of the first octet that is set on the way to the output node, and not on that to a relay.
pub const TO_OUTPUT: u8 = 0b10_0000;

/// The bits of the first octet that a class has.
pub const fn class_bits(class: u8) -> u8 {
    (class % CLASSES) << 3
}

/// Unicast, locally administered: the two low bits of the first octet (IEEE 802, 8.2).
const LOCAL_UNICAST: u8 = 0b10;

/// On which of its two ways a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// On the way to a relay, which sends it on.
    ToRelay,
    /// On the way to its output node.
    ToOutput,
}

/// What the two addresses of an internal frame say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// On which of its ways the frame is.
    pub phase: Phase,
    /// What is kept of its order, below [`CLASSES`]: [`crate::class`].
    pub class: u8,
    /// The frame is for, or from, the control node's Linux.
    pub punt: bool,
    /// Output node, below [`NODES`].
    pub node: u16,
    /// External port of the output node.
    pub port: u8,
    /// Adjacency at the output node, below [`ADJACENCIES`].
    pub adjacency: u32,
    /// Input node, below [`NODES`].
    pub source: u16,
    /// Worker of the input node, below [`WORKERS`].
    pub worker: u8,
    /// Which life of the input node, below [`INCARNATIONS`].
    pub incarnation: u8,
    /// Number in the stream, below [`SEQUENCES`].
    pub sequence: u32,
}

/// Why a frame on an internal link is lost. The text is the name that the loss is counted under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Shorter than an Ethernet header.
    #[error("short")]
    Short,
    /// An address that is not unicast and locally administered: not a frame of ours.
    #[error("foreign")]
    Foreign,
    /// A version that this code does not read.
    #[error("version")]
    Version,
    /// An output node that the cluster does not have.
    #[error("node")]
    Node,
    /// An external port that this node, being the output node, does not have.
    #[error("port")]
    Port,
    /// An input node that the cluster does not have.
    #[error("source")]
    Source,
    /// A worker number that no node uses.
    #[error("worker")]
    Worker,
    /// This node itself is the source: the frame went in a circle.
    #[error("own")]
    Own,
    /// For another node though this was to be its last way.
    #[error("misrouted")]
    Misrouted,
    /// A field of a header to write is too large for its bits.
    #[error("too_large")]
    TooLarge,
}

/// What a node can tell right from wrong by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// This node.
    pub me: u16,
    /// Nodes of the cluster, numbered from 0.
    pub nodes: u16,
    /// External ports of this node.
    pub ports: u8,
    /// Workers of a node, at most.
    pub workers: u8,
    /// Frames for other nodes pass here on their last way, too: in a multi-stage network, not in a full mesh.
    pub transit: bool,
}

impl Header {
    /// The 12 bytes of this header.
    ///
    /// # Errors
    ///
    /// [`HeaderError::TooLarge`] if a field exceeds its bits.
    pub fn encode(&self) -> Result<[u8; LEN], HeaderError> {
        let fits = self.class < CLASSES
            && self.node < NODES
            && self.adjacency < ADJACENCIES
            && self.source < NODES
            && self.worker < WORKERS
            && self.incarnation < INCARNATIONS
            && self.sequence < SEQUENCES;
        if !fits {
            return Err(HeaderError::TooLarge);
        }
        let phase = u64::from(self.phase == Phase::ToOutput);
        let flags = u64::from(VERSION) << 4 | phase << 3 | u64::from(self.class) << 1 | u64::from(self.punt);
        let destination =
            flags << 40 | u64::from(self.node) << 28 | u64::from(self.port) << 20 | u64::from(self.adjacency);
        let source = u64::from(self.source) << 34
            | u64::from(self.worker) << 28
            | u64::from(self.incarnation) << 24
            | u64::from(self.sequence);
        let mut bytes = [0; LEN];
        bytes[..6].copy_from_slice(&to_address(destination));
        bytes[6..].copy_from_slice(&to_address(source));
        Ok(bytes)
    }

    /// Reads the header in front of a frame. What the fields say may still be out of range: [`Header::check`].
    ///
    /// # Errors
    ///
    /// [`HeaderError::Short`], [`HeaderError::Foreign`] or [`HeaderError::Version`].
    pub fn decode(frame: &[u8]) -> Result<Header, HeaderError> {
        let bytes: &[u8; LEN] = frame.first_chunk().ok_or(HeaderError::Short)?;
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *bytes;
        let destination = from_address([d0, d1, d2, d3, d4, d5]).ok_or(HeaderError::Foreign)?;
        let source = from_address([s0, s1, s2, s3, s4, s5]).ok_or(HeaderError::Foreign)?;
        if !READS.contains(&(bits(destination, 44, 2) as u8)) {
            return Err(HeaderError::Version);
        }
        Ok(Header {
            phase: if bits(destination, 43, 1) == 1 { Phase::ToOutput } else { Phase::ToRelay },
            class: bits(destination, 41, 2) as u8,
            punt: bits(destination, 40, 1) == 1,
            node: bits(destination, 28, 12) as u16,
            port: bits(destination, 20, 8) as u8,
            adjacency: bits(destination, 0, 20),
            source: bits(source, 34, 12) as u16,
            worker: bits(source, 28, 6) as u8,
            incarnation: bits(source, 24, 4) as u8,
            sequence: bits(source, 0, 24),
        })
    }

    /// Whether a frame with this header may have come in over an internal link of this node.
    ///
    /// # Errors
    ///
    /// Which field is out of range, the first of them in the order of [`HeaderError`].
    pub fn check(&self, limits: &Limits) -> Result<(), HeaderError> {
        if self.node >= limits.nodes {
            Err(HeaderError::Node)
        } else if self.node == limits.me && self.port >= limits.ports {
            Err(HeaderError::Port)
        } else if self.source >= limits.nodes {
            Err(HeaderError::Source)
        } else if self.worker >= limits.workers {
            Err(HeaderError::Worker)
        } else if self.source == limits.me && !limits.transit {
            // Across several stages a node can be the relay of its own packets.
            Err(HeaderError::Own)
        } else if self.phase == Phase::ToOutput && self.node != limits.me && !limits.transit {
            Err(HeaderError::Misrouted)
        } else {
            Ok(())
        }
    }

    /// Turns the header in front of a frame from the first way to the second, all that a relay does to a frame.
    pub fn relay(frame: &mut [u8; LEN]) {
        frame[0] |= TO_OUTPUT;
    }
}

/// `count` bits of `value` from bit `low` on; `count` is at most 32.
fn bits(value: u64, low: u32, count: u32) -> u32 {
    ((value >> low) & ((1 << count) - 1)) as u32
}

/// 46 bits as an address.
fn to_address(value: u64) -> [u8; 6] {
    let [_, _, high, a, b, c, d, e] = value.to_be_bytes();
    [high << 2 | LOCAL_UNICAST, a, b, c, d, e]
}

/// The 46 bits of an address, if it is unicast and locally administered.
fn from_address([first, a, b, c, d, e]: [u8; 6]) -> Option<u64> {
    (first & 0b11 == LOCAL_UNICAST).then(|| u64::from_be_bytes([0, 0, first >> 2, a, b, c, d, e]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        phase: Phase::ToOutput,
        class: 2,
        punt: true,
        node: 0xABC,
        port: 0xDE,
        adjacency: 0xF1234,
        source: 0x567,
        worker: 0x29,
        incarnation: 0x8,
        sequence: 0x9ABCDE,
    };

    const LIMITS: Limits = Limits { me: 1, nodes: 4, ports: 2, workers: 8, transit: false };

    /// Sets fields bit by bit, from the drawing in the module's documentation.
    fn naive(header: &Header) -> [u8; LEN] {
        let number = |value: u32, width: u32| (0..width).rev().map(move |i| value >> i & 1 == 1);
        let destination: Vec<bool> = number(u32::from(VERSION), 2)
            .chain([header.phase == Phase::ToOutput])
            .chain(number(header.class.into(), 2))
            .chain([header.punt])
            .chain(number(header.node.into(), 12))
            .chain(number(header.port.into(), 8))
            .chain(number(header.adjacency, 20))
            .collect();
        let source: Vec<bool> = number(header.source.into(), 12)
            .chain(number(header.worker.into(), 6))
            .chain(number(header.incarnation.into(), 4))
            .chain(number(header.sequence, 24))
            .collect();
        let mut all = Vec::new();
        for mut address in [destination, source] {
            address.splice(6..6, [true, false]);
            all.extend(address.chunks(8).map(|octet| octet.iter().fold(0, |o, &b| o << 1 | u8::from(b))));
        }
        all.try_into().unwrap()
    }

    fn any_header() -> impl Strategy<Value = Header> {
        let destination = (any::<bool>(), 0..CLASSES, any::<bool>(), 0..NODES, any::<u8>(), 0..ADJACENCIES);
        let source = (0..NODES, 0..WORKERS, 0..INCARNATIONS, 0..SEQUENCES);
        (destination, source).prop_map(
            |((output, class, punt, node, port, adjacency), (source, worker, incarnation, sequence))| {
                Header {
                    phase: if output { Phase::ToOutput } else { Phase::ToRelay },
                    class,
                    punt,
                    node,
                    port,
                    adjacency,
                    source,
                    worker,
                    incarnation,
                    sequence,
                }
            },
        )
    }

    #[test]
    fn one_by_hand() {
        // 01 1 10 1 | 10; abc de f1234; 010101 | 10, 100111 10, 1001 1000; 9abcde
        let bytes = [0b0111_0110, 0xAB, 0xCD, 0xEF, 0x12, 0x34, 0b0101_0110, 0x9E, 0x98, 0x9A, 0xBC, 0xDE];
        assert_eq!(HEADER.encode(), Ok(bytes));
        assert_eq!(Header::decode(&bytes), Ok(HEADER));
    }

    proptest! {
        #[test]
        fn every_header_is_read_as_written(header in any_header()) {
            let bytes = header.encode().unwrap();
            prop_assert_eq!(bytes, naive(&header));
            prop_assert_eq!(Header::decode(&bytes), Ok(header));
            let mut relayed = bytes;
            Header::relay(&mut relayed);
            prop_assert_eq!(Header::decode(&relayed), Ok(Header { phase: Phase::ToOutput, ..header }));
            relayed[0] ^= TO_OUTPUT;
            prop_assert_eq!(Header::decode(&relayed), Ok(Header { phase: Phase::ToRelay, ..header }));
            let glance = Glance::new(&bytes);
            let seen = Header {
                phase: glance.phase(),
                class: glance.class(),
                punt: !glance.is_usual(),
                node: glance.node(),
                port: glance.port(),
                adjacency: glance.adjacency(),
                source: glance.source(),
                worker: glance.worker(),
                incarnation: glance.incarnation(),
                sequence: glance.sequence(),
            };
            prop_assert_eq!(seen, header);
            let template = Template::new(&header).unwrap();
            prop_assert_eq!(template.bytes(header.adjacency, header.sequence), bytes);
            prop_assert_eq!(&template.end(header.sequence), &bytes[8..]);
            prop_assert_eq!(template.bytes(header.adjacency | ADJACENCIES, header.sequence | SEQUENCES), bytes);
            let portless = Template::new(&Header { port: 0, ..header }).unwrap();
            prop_assert_eq!(portless.to_port(header.port), template);
        }

        #[test]
        fn what_is_read_is_what_would_be_written(bytes in any::<[u8; LEN]>()) {
            let usual = Header::decode(&bytes).is_ok_and(|header| !header.punt);
            prop_assert_eq!(Glance::new(&bytes).is_usual(), usual);
            let foreign = bytes[0] & 3 != 2 || bytes[6] & 3 != 2;
            let version = bytes[0] >> 6;
            match Header::decode(&bytes) {
                Ok(header) => prop_assert_eq!(header.encode(), Ok(bytes)),
                Err(HeaderError::Foreign) => prop_assert!(foreign),
                Err(HeaderError::Version) => prop_assert!(!foreign && version != VERSION),
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn short_frames_are_refused() {
        let bytes = HEADER.encode().unwrap();
        for length in 0..LEN {
            assert_eq!(Header::decode(&bytes[..length]), Err(HeaderError::Short));
        }
    }

    #[test]
    fn every_field_has_its_bits() {
        let too_large = [
            Header { class: CLASSES, ..HEADER },
            Header { node: NODES, ..HEADER },
            Header { adjacency: ADJACENCIES, ..HEADER },
            Header { source: NODES, ..HEADER },
            Header { worker: WORKERS, ..HEADER },
            Header { incarnation: INCARNATIONS, ..HEADER },
            Header { sequence: SEQUENCES, ..HEADER },
        ];
        for header in too_large {
            assert_eq!(header.encode(), Err(HeaderError::TooLarge));
        }
    }

    #[test]
    fn every_field_out_of_range_has_a_name() {
        let good = Header { node: 1, port: 1, source: 3, worker: 7, ..HEADER };
        assert_eq!(good.check(&LIMITS), Ok(()));
        let to_relay = Header { node: 2, port: 200, phase: Phase::ToRelay, ..good };
        assert_eq!(to_relay.check(&LIMITS), Ok(()), "only the output node knows its ports");
        let bad = [
            (Header { node: 4, ..good }, HeaderError::Node),
            (Header { port: 2, ..good }, HeaderError::Port),
            (Header { source: 4, ..good }, HeaderError::Source),
            (Header { worker: 8, ..good }, HeaderError::Worker),
            (Header { source: 1, ..good }, HeaderError::Own),
            (Header { node: 2, ..good }, HeaderError::Misrouted),
        ];
        for (header, error) in bad {
            assert_eq!(header.check(&LIMITS), Err(error));
        }
        let transit = Limits { transit: true, ..LIMITS };
        assert_eq!(Header { node: 2, source: 1, ..good }.check(&transit), Ok(()));
    }
}
