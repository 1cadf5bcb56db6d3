//! Random pcapng files, and what is in them.

use super::encode::{File, TSOFFSET, TSRESOL};
use super::{LinkType, Record, read_bytes};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

const NANOS: u128 = 1_000_000_000;

/// Random numbers and bytes, the same for a seed everywhere.
pub struct Random(TestRng);

impl Random {
    pub fn new(seed: u8) -> Random {
        Random(TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.bits() % n
    }

    pub fn bytes(&mut self, below: u64) -> Vec<u8> {
        (0..self.below(below)).map(|_| self.bits() as u8).collect()
    }
}

/// An interface of the present section.
struct Interface {
    link: LinkType,
    resolution: u8,
    offset: i64,
}

impl Interface {
    /// Whole seconds and the rest apart, so that it is another sum than the reader's.
    fn nanos(&self, units: u64) -> u64 {
        let units = u128::from(units);
        let exponent = u32::from(self.resolution & 0x7f);
        let per_second = if self.resolution & 0x80 != 0 { 1 << exponent } else { 10_u128.pow(exponent) };
        let nanos = units / per_second * NANOS + units % per_second * NANOS / per_second;
        let nanos = i128::try_from(nanos).unwrap() + i128::from(self.offset) * NANOS as i128;
        u64::try_from(nanos.max(0)).unwrap_or(u64::MAX)
    }
}

/// A file being made, and the packets in it.
pub struct Made {
    pub file: File,
    pub records: Vec<Record>,
    interfaces: Vec<Interface>,
    /// Only what libpcap reads: one link type and byte order, well-formed options, times that are not before 1970 or long
    /// from now.
    plain: bool,
}

impl Made {
    pub fn new(random: &mut Random, plain: bool) -> Made {
        let file = File::new(random.below(2) == 0);
        let mut made = Made { file, records: Vec::new(), interfaces: Vec::new(), plain };
        made.interface(random);
        for _ in 0..random.below(40) {
            made.block(random);
        }
        made
    }

    fn block(&mut self, random: &mut Random) {
        match random.below(12) {
            0 => self.interface(random),
            1 => {
                let big = if self.plain { self.file.is_big() } else { random.below(2) == 0 };
                self.file.section(big, random.bits());
                self.interfaces.clear();
                self.interface(random);
            }
            // Names, statistics, a journal entry, secrets, custom blocks, and what is not known.
            2 | 3 => {
                let kinds = [4, 5, 9, 10, 0xbad, 0x4000_0bad, 0x8000_0001, 0x77, 0];
                let kind = kinds[random.below(kinds.len() as u64) as usize];
                let mut body = random.bytes(200);
                if kind == 5 && self.plain {
                    body.resize(12, 0);
                }
                self.file.block(kind, &body);
            }
            4 => {
                let data = random.bytes(100);
                let wire_len = data.len() as u32;
                self.file.simple(wire_len, &data);
                let link = self.interfaces[0].link;
                self.records.push(Record { timestamp: None, wire_len, link, data });
            }
            kind => self.packet(random, kind == 5),
        }
    }

    fn interface(&mut self, random: &mut Random) {
        let (number, link) = match random.below(3) {
            1 if !self.plain => (101, LinkType::RawIp),
            2 if !self.plain => (147, LinkType::Other(147)),
            _ => (1, LinkType::Ethernet),
        };
        let mut interface = Interface { link, resolution: 6, offset: 0 };
        let mut options = self.options(random);
        if random.below(2) == 0 {
            let decimal = random.below(if self.plain { 13 } else { 20 }) as u8;
            let binary = 0x80 | random.below(if self.plain { 31 } else { 64 }) as u8;
            interface.resolution = [decimal, binary][random.below(2) as usize];
            options.extend(self.file.option(TSRESOL, &[interface.resolution]));
        }
        options.extend(self.options(random));
        if random.below(3) == 0 {
            let wide = if self.plain { random.below(1_000_000) } else { random.bits() >> 20 };
            interface.offset = if self.plain || random.below(2) == 0 { wide as i64 } else { -(wide as i64) };
            options.extend(self.file.option(TSOFFSET, &self.file.u64(interface.offset as u64)));
        }
        match random.below(3) {
            0 => options.extend(self.file.u32(0)),
            1 if !self.plain => options.extend(random.bytes(3)),
            _ => {}
        }
        self.file.interface(number, 262_144, &options);
        self.interfaces.push(interface);
    }

    /// Options that say nothing here.
    fn options(&self, random: &mut Random) -> Vec<u8> {
        let mut options = Vec::new();
        for _ in 0..random.below(3) {
            let codes = [1, 2988, 19_372, 0x7fff, 200];
            let code = codes[random.below(codes.len() as u64) as usize];
            options.extend(self.file.option(code, &random.bytes(20)));
        }
        options
    }

    fn packet(&mut self, random: &mut Random, obsolete: bool) {
        let number = random.below(self.interfaces.len() as u64);
        let interface = &self.interfaces[number as usize];
        let seconds = random.below(2_000_000_000);
        // Not more than 64 bits of units.
        let units = match interface.resolution {
            decimal @ 0..0x80 => u128::from(seconds) * 10_u128.pow(u32::from(decimal)),
            binary => u128::from(seconds) << (binary & 0x7f),
        };
        let units = u64::try_from(units).unwrap_or_else(|_| random.bits());
        let units = units.saturating_add(random.below(u64::from(u32::MAX)) >> random.below(32));
        let timestamp = Some(interface.nanos(units));
        let data = random.bytes(300);
        let wire_len = data.len() as u32 + random.below(3) as u32 * 1_000;
        let options = self.options(random);
        self.records.push(Record { timestamp, wire_len, link: interface.link, data: data.clone() });
        match obsolete {
            true => self.file.obsolete(number as u16, units, wire_len, &data, &options),
            false => self.file.enhanced(number as u32, units, wire_len, &data, &options),
        }
    }
}

#[test]
fn random_files_are_read_as_they_were_written() {
    let mut random = Random::new(1);
    for round in 0..500 {
        let made = Made::new(&mut random, false);
        let got = read_bytes(&made.file.bytes);
        assert_eq!((got.error, got.invalid), (None, 0), "round {round}");
        assert_eq!(got.records, made.records, "round {round}");
    }
}
