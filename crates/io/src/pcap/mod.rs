//! Capture files: pcap and pcapng for reading, pcap for writing.
//!
//! Whatever of a file can be understood is read: unknown blocks and options are skipped, an option that is malformed
//! is as if it were not there, and a packet that makes no sense costs only itself as long as the next one can be found.

mod classic;
mod input;
mod ng;
#[cfg(test)]
mod tests;
mod writer;

use classic::Classic;
use input::Input;
use ng::Ng;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

pub use writer::Writer;

/// Bytes of the read and write buffers.
const BUFFER: usize = 1 << 18;
/// The longest packet that is written whole (what tcpdump uses).
pub const SNAP_LEN: u32 = 262_144;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Why a capture cannot be read or written.
#[derive(Debug, Error)]
pub enum PcapError {
    /// The file cannot be opened, read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file is not a capture, or damaged.
    #[error("{}: {what}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// What the packets of a capture begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Anything else; the number of the tcpdump.org link-type list.
    Other(u32),
}

impl LinkType {
    fn of(number: u32) -> LinkType {
        match number {
            1 => LinkType::Ethernet,
            // Raw, as some BSDs number it too, IPv4 and IPv6.
            101 | 12 | 14 | 228 | 229 => LinkType::RawIp,
            n => LinkType::Other(n),
        }
    }

    fn number(self) -> u32 {
        match self {
            LinkType::Ethernet => 1,
            LinkType::RawIp => 101,
            LinkType::Other(n) => n,
        }
    }
}

/// One packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, nanoseconds since the Unix epoch; `None` if the file does not say.
    pub timestamp: Option<u64>,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// What it begins with. Packets of one file can differ in that.
    pub link: LinkType,
    /// The bytes that were captured, of a pcapng file at most [`SNAP_LEN`].
    pub data: Vec<u8>,
}

enum Format {
    Pcap(Classic),
    PcapNg(Ng),
}

/// Reads a capture file packet by packet.
pub struct Reader {
    input: Input,
    format: Format,
    link: LinkType,
    /// The first packet, if it had to be read to know the link type, or why it could not be read.
    ahead: Option<Result<Record, PcapError>>,
}

impl Reader {
    /// Opens a capture; `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read or is not a capture.
    pub fn open(path: &Path) -> Result<Reader, PcapError> {
        let mut input = Input::open(path)?;
        let mut magic = [0; 4];
        match input.fill(&mut magic, "its first octets") {
            Ok(true) => {}
            Err(error @ PcapError::Io { .. }) => return Err(error),
            _ => return Err(input.format("not a capture file (too short)")),
        }
        if magic == ng::MAGIC {
            let format = Format::PcapNg(Ng::open(&mut input)?);
            let mut reader = Reader { input, format, link: LinkType::Ethernet, ahead: None };
            // The link type is that of the interface of the first packet.
            reader.ahead = reader.read().transpose();
            reader.link = match (&reader.ahead, &reader.format) {
                (Some(Ok(record)), _) => record.link,
                (_, Format::PcapNg(ng)) => ng.first_link().unwrap_or(LinkType::Ethernet),
                _ => LinkType::Ethernet,
            };
            return Ok(reader);
        }
        let pcap = Classic::open(&mut input, magic)?;
        let link = pcap.link();
        Ok(Reader { input, format: Format::Pcap(pcap), link, ahead: None })
    }

    /// What the first packet begins with; that of others can differ in a pcapng file.
    pub fn link_type(&self) -> LinkType {
        self.link
    }

    /// Packets that were skipped so far because what the file says of them cannot be.
    pub fn invalid(&self) -> usize {
        match &self.format {
            Format::Pcap(_) => 0,
            Format::PcapNg(ng) => ng.invalid(),
        }
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or ends in the middle of a packet; reading on is not possible then.
    pub fn next_record(&mut self) -> Result<Option<Record>, PcapError> {
        match self.ahead.take() {
            Some(first) => first.map(Some),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Record>, PcapError> {
        match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.input),
            Format::PcapNg(ng) => ng.next(&mut self.input),
        }
    }
}
