//! pcap files: a header, and a header before each packet.

use super::input::{Input, Order};
use super::{LinkType, NANOS_PER_SECOND, PcapError, Record, SNAP_LEN};

const PACKET: &str = "a packet";
/// Packets that are longer mean that the file is damaged, whatever its header says.
const MOST: u32 = 1 << 24;

/// What a magic number says of the file.
struct Variant {
    magic: u32,
    nanos_per_unit: u64,
    /// Bytes in the header of each packet behind the usual 16.
    more: u32,
}

const VARIANTS: [Variant; 3] = [
    Variant { magic: 0xa1b2_c3d4, nanos_per_unit: 1_000, more: 0 },
    Variant { magic: 0xa1b2_3c4d, nanos_per_unit: 1, more: 0 },
    // A. Kuznetzov's: interface, protocol and packet type of each packet.
    Variant { magic: 0xa1b2_cd34, nanos_per_unit: 1_000, more: 8 },
];

/// In which order the captured length and the length on the wire stand; old versions of the format differ.
#[derive(Clone, Copy)]
enum Lengths {
    CapturedFirst,
    WireFirst,
    /// The smaller one is what was captured.
    Either,
}

/// What stands in the header.
pub struct Classic {
    order: Order,
    nanos_per_unit: u64,
    more: u32,
    lengths: Lengths,
    link: LinkType,
    longest: u32,
}

impl Classic {
    /// Reads the header behind the magic number.
    pub fn open(input: &mut Input, magic: [u8; 4]) -> Result<Classic, PcapError> {
        let known = VARIANTS.iter().find_map(|v| Order::of(magic, v.magic).map(|order| (v, order)));
        let Some((variant, order)) = known else { return Err(input.format(foreign(magic))) };
        let header: [u8; 20] = input.array("its header")?;
        let lengths = match (order.u16_at(&header, 0), order.u16_at(&header, 2)) {
            (2, 4) => Lengths::CapturedFirst,
            (2, 3) => Lengths::Either,
            // 543.0 is of DG/UX.
            (2, 0..=2) | (543, 0) => Lengths::WireFirst,
            (major, minor) => {
                return Err(input.format(format!("version {major}.{minor} of pcap is not known")));
            }
        };
        Ok(Classic {
            order,
            nanos_per_unit: variant.nanos_per_unit,
            more: variant.more,
            lengths,
            // The bits above tell the length of the frame check sequence.
            link: LinkType::of(order.u32_at(&header, 16) & 0x03ff_ffff),
            longest: order.u32_at(&header, 12).clamp(SNAP_LEN, MOST),
        })
    }

    /// What packets begin with.
    pub fn link(&self) -> LinkType {
        self.link
    }

    /// The next packet; `None` at the end of the file.
    pub fn next(&self, input: &mut Input) -> Result<Option<Record>, PcapError> {
        let at = input.at();
        let mut header = [0; 16];
        if !input.fill(&mut header, PACKET)? {
            return Ok(None);
        }
        input.skip(self.more, PACKET)?;
        let [seconds, fraction, first, second] = [0, 4, 8, 12].map(|at| self.order.u32_at(&header, at));
        let (captured, wire_len) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::WireFirst => (second, first),
            Lengths::Either => (first.min(second), first.max(second)),
        };
        if captured > self.longest {
            return Err(input.format(format!("damaged capture: a packet of {captured} bytes at octet {at}")));
        }
        // A fraction of more than a second is carried over. The largest sum is far below 2^64.
        let timestamp = u64::from(seconds) * NANOS_PER_SECOND + u64::from(fraction) * self.nanos_per_unit;
        let data = input.take(captured, PACKET)?;
        Ok(Some(Record { timestamp: Some(timestamp), wire_len, link: self.link, data }))
    }
}

/// What a file with another magic number is.
fn foreign(magic: [u8; 4]) -> String {
    let packer = match magic {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd] => "zstd",
        [0x04, 0x22, 0x4d, 0x18] => "lz4",
        [0xfd, b'7', b'z', b'X'] => "xz",
        [b'B', b'Z', b'h', _] => "bzip2",
        _ => return "not a capture file (no pcap or pcapng magic number)".to_owned(),
    };
    format!("compressed with {packer}: unpack it first, or to the standard input, which is the file `-`")
}
