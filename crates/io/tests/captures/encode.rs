//! Writes pcapng files block by block, the wrong ones too.
#![allow(dead_code, reason = "each test that includes this file uses a part of it")]

/// A file that is being written.
#[derive(Clone, Default)]
pub struct File {
    pub bytes: Vec<u8>,
    big: bool,
}

/// Interface options.
pub const TSRESOL: u16 = 9;
pub const TSOFFSET: u16 = 14;

impl File {
    /// A file whose first section has this byte order.
    pub fn new(big: bool) -> File {
        let mut file = File::default();
        file.section(big, u64::MAX);
        file
    }

    /// Begins a section; all ones as its length mean that it is unknown.
    pub fn section(&mut self, big: bool, length: u64) {
        self.big = big;
        let mut body = self.u32(0x1a2b_3c4d);
        body.extend([self.u16(1), self.u16(0)].concat());
        body.extend(self.u64(length));
        body.extend(self.option(3, b"an operating system"));
        self.block(0x0a0d_0d0a, &body);
    }

    pub fn is_big(&self) -> bool {
        self.big
    }

    pub fn u16(&self, n: u16) -> Vec<u8> {
        if self.big { n.to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() }
    }

    pub fn u32(&self, n: u32) -> Vec<u8> {
        if self.big { n.to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() }
    }

    pub fn u64(&self, n: u64) -> Vec<u8> {
        if self.big { n.to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() }
    }

    /// One option, padded.
    pub fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap();
        padded([&self.u16(code)[..], &self.u16(length), value].concat())
    }

    /// Any block.
    pub fn block(&mut self, kind: u32, body: &[u8]) {
        let body = padded(body.to_vec());
        let length = self.u32(u32::try_from(body.len() + 12).unwrap());
        self.bytes.extend([self.u32(kind), length.clone(), body, length].concat());
    }

    pub fn interface(&mut self, link: u16, snap_len: u32, options: &[u8]) {
        let body = [self.u16(link), self.u16(0), self.u32(snap_len), options.to_vec()].concat();
        self.block(1, &body);
    }

    /// An Enhanced Packet Block.
    pub fn enhanced(&mut self, interface: u32, units: u64, wire_len: u32, data: &[u8], options: &[u8]) {
        let body = [self.u32(interface), self.rest_of_packet(units, wire_len, data), options.to_vec()];
        self.block(6, &body.concat());
    }

    /// A Packet Block, which is obsolete.
    pub fn obsolete(&mut self, interface: u16, units: u64, wire_len: u32, data: &[u8], options: &[u8]) {
        let drops = self.u16(0xffff);
        let body = [self.u16(interface), drops, self.rest_of_packet(units, wire_len, data), options.to_vec()];
        self.block(2, &body.concat());
    }

    fn rest_of_packet(&self, units: u64, wire_len: u32, data: &[u8]) -> Vec<u8> {
        let (high, low) = ((units >> 32) as u32, units as u32);
        let length = u32::try_from(data.len()).unwrap();
        let numbers = [high, low, length, wire_len].map(|n| self.u32(n)).concat();
        [numbers, padded(data.to_vec())].concat()
    }

    /// A Simple Packet Block.
    pub fn simple(&mut self, wire_len: u32, data: &[u8]) {
        let body = [self.u32(wire_len), data.to_vec()].concat();
        self.block(3, &body);
    }
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
