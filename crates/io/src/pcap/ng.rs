//! pcapng files: sections of blocks (draft-ietf-opsawg-pcapng).

use super::input::{Input, Order};
use super::{LinkType, NANOS_PER_SECOND, PcapError, Record, SNAP_LEN};

/// Type of the block that a section begins with, the same in either byte order.
pub const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
/// In a section header: tells the byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
/// The obsolete Packet Block.
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// Type and length before the body of a block, and the length again behind it.
const FRAME: u32 = 12;
/// The shortest section header.
const SECTION_LEN: u32 = 28;
const BLOCK: &str = "a block";

/// Options of an interface.
const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// What is known of the section that is being read.
pub struct Ng {
    order: Order,
    /// Those of the section; `None` if the block of one is too short.
    interfaces: Vec<Option<Interface>>,
    /// Packets that were skipped.
    invalid: usize,
}

/// An interface that packets were captured on.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// 0 = no limit.
    snap_len: u32,
    clock: Clock,
}

/// How an interface's timestamps count.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// A unit is 10 to the power of minus this many seconds, or, with the highest bit set, 2 to the power of minus the rest.
    pub resolution: u8,
    /// Seconds to add.
    pub offset: i64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { resolution: 6, offset: 0 }
    }
}

impl Clock {
    /// Nanoseconds since the Unix epoch, or the nearest that there are.
    pub fn nanos(self, units: u64) -> u64 {
        let nanos = u128::from(units) * u128::from(NANOS_PER_SECOND);
        let exponent = u32::from(self.resolution & 0x7f);
        let nanos = if self.resolution & 0x80 != 0 {
            nanos >> exponent
        } else {
            // A unit for which there is no number is too short for any time.
            10_u128.checked_pow(exponent).map_or(0, |per_second| nanos / per_second)
        };
        let nanos = i128::try_from(nanos).unwrap_or(i128::MAX);
        let offset = i128::from(self.offset) * i128::from(NANOS_PER_SECOND);
        let time = nanos.saturating_add(offset).max(0);
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// Where the data of a packet is, as its block tells.
struct Place {
    interface: usize,
    timestamp: Option<u64>,
    captured: u32,
    wire_len: u32,
}

impl Ng {
    /// Reads the header of the first section behind the type of its block.
    pub fn open(input: &mut Input) -> Result<Ng, PcapError> {
        let mut ng = Ng { order: Order::Little, interfaces: Vec::new(), invalid: 0 };
        let length = input.array(BLOCK)?;
        ng.section(input, length)?;
        Ok(ng)
    }

    /// What the packets of the first interface begin with.
    pub fn first_link(&self) -> Option<LinkType> {
        self.interfaces.iter().flatten().next().map(|interface| interface.link)
    }

    /// Packets whose block contradicts itself.
    pub fn invalid(&self) -> usize {
        self.invalid
    }

    /// The next packet; `None` at the end of the file.
    pub fn next(&mut self, input: &mut Input) -> Result<Option<Record>, PcapError> {
        loop {
            let at = input.at();
            let mut head = [0; 8];
            if !input.fill(&mut head, BLOCK)? {
                return Ok(None);
            }
            let kind = self.order.u32_at(&head, 0);
            if kind == SECTION {
                let [.., a, b, c, d] = head;
                self.section(input, [a, b, c, d])?;
                continue;
            }
            let length = self.order.u32_at(&head, 4);
            let Some(body) = length.checked_sub(FRAME) else { return Err(too_short(input, at, length)) };
            let record = match kind {
                INTERFACE => self.interface(input, body).map(|()| None)?,
                ENHANCED | PACKET | SIMPLE => self.packet(input, kind, body)?,
                _ => input.skip(body, BLOCK).map(|()| None)?,
            };
            self.end(input, at, length)?;
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// The rest of a section header, of which type and length are read. Its own length may be unknown; nobody needs it.
    fn section(&mut self, input: &mut Input, length: [u8; 4]) -> Result<(), PcapError> {
        let at = input.at() - 8;
        let magic = input.array(BLOCK)?;
        let Some(order) = Order::of(magic, BYTE_ORDER) else {
            return Err(input.format(format!(
                "damaged capture: no byte-order magic in the section header at octet {at}"
            )));
        };
        self.order = order;
        self.interfaces.clear();
        let length = order.u32(length);
        if length < SECTION_LEN {
            return Err(too_short(input, at, length));
        }
        let version: [u8; 4] = input.array(BLOCK)?;
        let (major, minor) = (order.u16_at(&version, 0), order.u16_at(&version, 2));
        if major != 1 {
            return Err(input.format(format!("version {major}.{minor} of pcapng is not known")));
        }
        input.skip(length - FRAME - 8, BLOCK)?;
        self.end(input, at, length)
    }

    /// The length behind the body of a block.
    fn end(&self, input: &mut Input, at: u64, length: u32) -> Result<(), PcapError> {
        let mut bytes: [u8; 4] = input.array(BLOCK)?;
        // Some writers pad the body without counting that.
        let mut padding = length.next_multiple_of(4).wrapping_sub(length) % 4;
        while self.order.u32(bytes) != length && padding > 0 {
            padding -= 1;
            let [_, a, b, c] = bytes;
            let [d] = input.array(BLOCK)?;
            bytes = [a, b, c, d];
        }
        if self.order.u32(bytes) != length {
            let what = format!("damaged capture: the block at octet {at} does not end with its length");
            return Err(input.format(what));
        }
        Ok(())
    }

    fn interface(&mut self, input: &mut Input, body: u32) -> Result<(), PcapError> {
        let Some(options) = body.checked_sub(8) else {
            // Those behind it keep their numbers.
            self.interfaces.push(None);
            return input.skip(body, BLOCK);
        };
        let header: [u8; 8] = input.array(BLOCK)?;
        let link = LinkType::of(u32::from(self.order.u16_at(&header, 0)));
        let snap_len = self.order.u32_at(&header, 4);
        let clock = self.clock(input, options)?;
        self.interfaces.push(Some(Interface { link, snap_len, clock }));
        Ok(())
    }

    /// What `left` bytes of options say of timestamps. What is malformed is left out, and so is what is behind an
    /// option that does not fit.
    fn clock(&self, input: &mut Input, mut left: u32) -> Result<Clock, PcapError> {
        let mut clock = Clock::default();
        while left >= 4 {
            let header: [u8; 4] = input.array(BLOCK)?;
            left -= 4;
            let (code, length) = (self.order.u16_at(&header, 0), u32::from(self.order.u16_at(&header, 2)));
            if code == END_OF_OPTIONS || length > left {
                break;
            }
            let padded = length.next_multiple_of(4).min(left);
            left -= padded;
            let used = match (code, length) {
                (IF_TSRESOL, 1) => {
                    [clock.resolution] = input.array(BLOCK)?;
                    1
                }
                (IF_TSOFFSET, 8) => {
                    clock.offset = self.order.i64(input.array(BLOCK)?);
                    8
                }
                _ => 0,
            };
            input.skip(padded - used, BLOCK)?;
        }
        input.skip(left, BLOCK)?;
        Ok(clock)
    }

    /// A block with a packet; `None`, and counted, if what it says cannot be.
    fn packet(&mut self, input: &mut Input, kind: u32, body: u32) -> Result<Option<Record>, PcapError> {
        let mut header = [0; 20];
        let header = if kind == SIMPLE { &mut header[..4] } else { &mut header[..] };
        let Some(left) = body.checked_sub(header.len() as u32) else {
            self.invalid += 1;
            return input.skip(body, BLOCK).map(|()| None);
        };
        input.exact(header, BLOCK)?;
        let found = self.place(kind, header, left).filter(|place| place.captured <= left);
        let interface = found.as_ref().and_then(|p| *self.interfaces.get(p.interface)?);
        let (Some(place), Some(interface)) = (found, interface) else {
            self.invalid += 1;
            return input.skip(left, BLOCK).map(|()| None);
        };
        let link = interface.link;
        let timestamp = place.timestamp.map(|units| interface.clock.nanos(units));
        let kept = place.captured.min(SNAP_LEN);
        let data = input.take(kept, BLOCK)?;
        input.skip(left - kept, BLOCK)?;
        Ok(Some(Record { timestamp, wire_len: place.wire_len, link, data }))
    }

    /// Reads the header of a packet that has `left` bytes behind it in its block.
    fn place(&self, kind: u32, header: &[u8], left: u32) -> Option<Place> {
        let u32_at = |at| self.order.u32_at(header, at);
        if kind == SIMPLE {
            // What was captured is not said, but follows from the first interface's limit.
            let limit = match self.interfaces.first()?.as_ref()?.snap_len {
                0 => u32::MAX,
                limit => limit,
            };
            let wire_len = u32_at(0);
            let captured = wire_len.min(limit).min(left);
            return Some(Place { interface: 0, timestamp: None, captured, wire_len });
        }
        let interface = match kind {
            // The other half counts drops.
            PACKET => u32::from(self.order.u16_at(header, 0)),
            _ => u32_at(0),
        };
        Some(Place {
            interface: usize::try_from(interface).ok()?,
            timestamp: Some(u64::from(u32_at(4)) << 32 | u64::from(u32_at(8))),
            captured: u32_at(12),
            wire_len: u32_at(16),
        })
    }
}

fn too_short(input: &Input, at: u64, length: u32) -> PcapError {
    input.format(format!("damaged capture: a block of {length} bytes at octet {at}"))
}
