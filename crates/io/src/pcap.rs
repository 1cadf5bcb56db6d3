//! Capture files: pcap (microseconds and nanoseconds, either byte order) and pcapng for reading, pcap for writing.

use pcap_file::pcap::{PcapReader, RawPcapPacket};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError as LibError, TsResolution};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Bytes of the read and write buffers.
const BUFFER: usize = 1 << 18;
/// The longest packet that is written whole (what tcpdump uses).
pub const SNAP_LEN: u32 = 262_144;

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
    fn of(link: DataLink) -> LinkType {
        match link {
            DataLink::ETHERNET => LinkType::Ethernet,
            DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => LinkType::RawIp,
            other => match u32::from(other) {
                // LINKTYPE_RAW as some BSDs number it.
                12 | 14 => LinkType::RawIp,
                n => LinkType::Other(n),
            },
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
    /// When it was captured, nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// Its length on the wire in bytes.
    pub wire_len: u32,
    /// The bytes that were captured.
    pub data: Vec<u8>,
}

enum Format {
    Pcap(PcapReader<Box<dyn Read + Send>>),
    PcapNg(PcapNgReader<Box<dyn Read + Send>>),
}

/// Reads a capture file packet by packet.
pub struct Reader {
    path: PathBuf,
    format: Format,
    link: LinkType,
    ahead: Option<Record>,
}

impl Reader {
    /// Opens a capture; `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read or is not a capture.
    pub fn open(path: &Path) -> Result<Reader, PcapError> {
        let io_error = |error| PcapError::Io { path: path.to_owned(), error };
        let mut input: Box<dyn Read + Send> = match path.to_str() {
            Some("-") => Box::new(io::stdin()),
            _ => Box::new(File::open(path).map_err(io_error)?),
        };
        let mut magic = [0; 4];
        input.read_exact(&mut magic).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                PcapError::Format { path: path.to_owned(), what: "not a capture file (too short)".to_owned() }
            }
            _ => io_error(error),
        })?;
        let whole: Box<dyn Read + Send> =
            Box::new(BufReader::with_capacity(BUFFER, Cursor::new(magic).chain(input)));
        let mut reader = Reader::detect(path, magic, whole)?;
        if let Format::PcapNg(_) = reader.format {
            // The link type stands in a block before the first packet.
            reader.ahead = reader.read()?;
        }
        Ok(reader)
    }

    fn detect(path: &Path, magic: [u8; 4], input: Box<dyn Read + Send>) -> Result<Reader, PcapError> {
        let path = path.to_owned();
        if magic == [0x0a, 0x0d, 0x0d, 0x0a] {
            let reader = PcapNgReader::new(input).map_err(|e| library_error(&path, e))?;
            return Ok(Reader {
                path,
                format: Format::PcapNg(reader),
                link: LinkType::Ethernet,
                ahead: None,
            });
        }
        let known = [0xa1b2_c3d4_u32, 0xa1b2_3c4d];
        if !known.contains(&u32::from_be_bytes(magic)) && !known.contains(&u32::from_le_bytes(magic)) {
            let what = "not a capture file (no pcap or pcapng magic number)".to_owned();
            return Err(PcapError::Format { path, what });
        }
        let reader = PcapReader::new(input).map_err(|e| library_error(&path, e))?;
        let link = LinkType::of(reader.header().datalink);
        Ok(Reader { path, format: Format::Pcap(reader), link, ahead: None })
    }

    /// What the packets begin with.
    pub fn link_type(&self) -> LinkType {
        self.link
    }

    /// The next packet; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged or ends in the middle of a packet; reading on is not possible then.
    pub fn next_record(&mut self) -> Result<Option<Record>, PcapError> {
        match self.ahead.take() {
            Some(record) => Ok(Some(record)),
            None => self.read(),
        }
    }

    fn read(&mut self) -> Result<Option<Record>, PcapError> {
        match &mut self.format {
            Format::Pcap(reader) => {
                let header = reader.header();
                match reader.next_raw_packet() {
                    None => Ok(None),
                    Some(Ok(packet)) => raw_record(packet, header.snaplen, header.ts_resolution)
                        .map(Some)
                        .map_err(|what| PcapError::Format { path: self.path.clone(), what }),
                    Some(Err(e)) => Err(library_error(&self.path, e)),
                }
            }
            Format::PcapNg(_) => self.read_block(),
        }
    }

    fn read_block(&mut self) -> Result<Option<Record>, PcapError> {
        let Format::PcapNg(reader) = &mut self.format else { return Ok(None) };
        while let Some(block) = reader.next_block() {
            match block {
                Err(e) => return Err(library_error(&self.path, e)),
                Ok(Block::InterfaceDescription(interface)) => self.link = LinkType::of(interface.linktype),
                Ok(Block::EnhancedPacket(p)) => {
                    return Ok(Some(record(p.timestamp, p.original_len, p.data.into_owned())));
                }
                Ok(Block::SimplePacket(p)) => {
                    return Ok(Some(record(Duration::ZERO, p.original_len, p.data.into_owned())));
                }
                Ok(_) => {}
            }
        }
        Ok(None)
    }
}

/// A packet of a pcap file. (The library's own check refuses packets of which only the beginning was captured.)
fn raw_record(packet: RawPcapPacket<'_>, snap_len: u32, unit: TsResolution) -> Result<Record, String> {
    if packet.incl_len > snap_len.max(SNAP_LEN) {
        return Err(format!("damaged capture: a packet of {} bytes", packet.incl_len));
    }
    let (nanos, in_range) = match unit {
        TsResolution::NanoSecond => (u64::from(packet.ts_frac), packet.ts_frac < 1_000_000_000),
        TsResolution::MicroSecond => (u64::from(packet.ts_frac) * 1_000, packet.ts_frac < 1_000_000),
    };
    if !in_range {
        return Err("damaged capture: a time with more than one second in its fraction".to_owned());
    }
    let timestamp = u64::from(packet.ts_sec) * 1_000_000_000 + nanos;
    Ok(Record { timestamp, wire_len: packet.orig_len, data: packet.data.into_owned() })
}

fn record(timestamp: Duration, wire_len: u32, data: Vec<u8>) -> Record {
    Record { timestamp: u64::try_from(timestamp.as_nanos()).unwrap_or(u64::MAX), wire_len, data }
}

fn library_error(path: &Path, error: LibError) -> PcapError {
    let path = path.to_owned();
    match error {
        LibError::IoError(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            PcapError::Io { path, error }
        }
        LibError::IoError(_) | LibError::IncompleteBuffer => {
            PcapError::Format { path, what: "the file ends in the middle of a packet".to_owned() }
        }
        other => PcapError::Format { path, what: format!("damaged capture: {other}") },
    }
}

/// Writes a pcap file with nanosecond timestamps, in the machine's byte order (the library's writer cannot flush).
pub struct Writer {
    path: PathBuf,
    out: BufWriter<Box<dyn Write + Send>>,
    snap_len: u32,
}

impl Writer {
    /// Creates the file, `-` being the standard output, and writes its header. At most `snap_len` bytes of each packet
    /// will be written.
    ///
    /// # Errors
    /// If the file cannot be created or written.
    pub fn create(path: &Path, link: LinkType, snap_len: u32) -> Result<Writer, PcapError> {
        let io_error = |error| PcapError::Io { path: path.to_owned(), error };
        let out: Box<dyn Write + Send> = match path.to_str() {
            Some("-") => Box::new(io::stdout()),
            _ => Box::new(File::create(path).map_err(io_error)?),
        };
        let mut writer =
            Writer { path: path.to_owned(), out: BufWriter::with_capacity(BUFFER, out), snap_len };
        // Magic number of nanosecond files, version 2.4, no time-zone correction, accuracy 0.
        let mut header = [0; 24];
        header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_ne_bytes());
        header[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        header[6..8].copy_from_slice(&4_u16.to_ne_bytes());
        header[16..20].copy_from_slice(&snap_len.to_ne_bytes());
        header[20..].copy_from_slice(&link.number().to_ne_bytes());
        writer.out.write_all(&header).map_err(io_error)?;
        writer.flush()?;
        Ok(writer)
    }

    /// Appends a packet; `timestamp` in nanoseconds since the Unix epoch.
    ///
    /// # Errors
    /// If the file cannot be written, for instance because the disk is full.
    pub fn write(&mut self, timestamp: u64, wire_len: u32, data: &[u8]) -> Result<(), PcapError> {
        let kept = u32::try_from(data.len()).unwrap_or(u32::MAX).min(self.snap_len);
        // The seconds of a record are 32 bits.
        let seconds = u32::try_from(timestamp / 1_000_000_000).unwrap_or(u32::MAX);
        let nanos = (timestamp % 1_000_000_000) as u32;
        let mut header = [0; 16];
        for (place, value) in header.chunks_exact_mut(4).zip([seconds, nanos, kept, wire_len]) {
            place.copy_from_slice(&value.to_ne_bytes());
        }
        let kept = &data[..usize::try_from(kept).unwrap_or(data.len())];
        let written = self.out.write_all(&header).and_then(|()| self.out.write_all(kept));
        written.map_err(|error| PcapError::Io { path: self.path.clone(), error })
    }

    /// Hands everything written so far to the system.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        self.out.flush().map_err(|error| PcapError::Io { path: self.path.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, link: LinkType, packets: &[(u64, &[u8])]) {
        let mut w = Writer::create(path, link, SNAP_LEN).unwrap();
        for (t, data) in packets {
            w.write(*t, u32::try_from(data.len()).unwrap(), data).unwrap();
        }
        w.flush().unwrap();
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pcap");
        write(&path, LinkType::RawIp, &[(1_700_000_000_123_456_789, b"one"), (0, b"")]);
        let mut r = Reader::open(&path).unwrap();
        assert_eq!(r.link_type(), LinkType::RawIp);
        let first = r.next_record().unwrap().unwrap();
        assert_eq!(
            (first.timestamp, first.wire_len, &first.data[..]),
            (1_700_000_000_123_456_789, 3, &b"one"[..])
        );
        assert_eq!(r.next_record().unwrap().unwrap().data, b"");
        assert_eq!(r.next_record().unwrap(), None);
    }

    #[test]
    fn bad_files_are_refused_with_a_reason() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str, bytes: Option<&[u8]>| {
            let path = dir.path().join(name);
            if let Some(bytes) = bytes {
                std::fs::write(&path, bytes).unwrap();
            }
            let text = Reader::open(&path).err().unwrap().to_string();
            text.rsplit("/").next().unwrap().to_owned()
        };
        assert_eq!(open("none", None), "none: No such file or directory (os error 2)");
        assert_eq!(open("empty", Some(b"")), "empty: not a capture file (too short)");
        assert_eq!(
            open("text", Some(b"hello, world")),
            "text: not a capture file (no pcap or pcapng magic number)"
        );
    }

    #[test]
    fn a_cut_file_ends_with_an_error_after_its_whole_packets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cut.pcap");
        write(&path, LinkType::Ethernet, &[(1, &[7; 60]), (2, &[8; 60])]);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
        let mut r = Reader::open(&path).unwrap();
        assert_eq!(r.next_record().unwrap().unwrap().data, [7; 60]);
        assert!(
            r.next_record().unwrap_err().to_string().ends_with("the file ends in the middle of a packet")
        );
    }

    #[test]
    fn packets_of_which_only_the_beginning_was_captured() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("short.pcap");
        let mut w = Writer::create(&path, LinkType::Ethernet, 20).unwrap();
        w.write(5_000_000_001, 1400, &[7; 60]).unwrap();
        w.flush().unwrap();
        let mut r = Reader::open(&path).unwrap();
        let want = Record { timestamp: 5_000_000_001, wire_len: 1400, data: vec![7; 20] };
        assert_eq!((r.next_record().unwrap(), r.next_record().unwrap()), (Some(want), None));
    }

    #[test]
    fn impossible_times_and_lengths_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.pcap");
        write(&path, LinkType::Ethernet, &[(1, &[7; 60])]);
        let whole = std::fs::read(&path).unwrap();
        for (at, value, want) in [
            (28, 1_000_000_000_u32, "damaged capture: a time with more than one second in its fraction"),
            (32, 300_000, "the file ends in the middle of a packet"),
        ] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            std::fs::write(&path, &bytes).unwrap();
            let error = Reader::open(&path).unwrap().next_record().unwrap_err().to_string();
            assert!(error.ends_with(want), "{error}");
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let result = Writer::create(Path::new("/dev/full"), LinkType::Ethernet, SNAP_LEN);
        assert!(result.err().unwrap().to_string().starts_with("/dev/full: No space left on device"));
    }
}
