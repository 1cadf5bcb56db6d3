//! Writes pcap files.

use super::{BUFFER, LinkType, PcapError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a pcap file with nanosecond timestamps, in the machine's byte order.
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
