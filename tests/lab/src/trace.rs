//! Frames in pcap files.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::time::Duration;

use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};

use crate::{Context, Result};

/// Writes frames to a pcap file (Ethernet), a microsecond apart.
pub fn write<'a>(path: &Path, frames: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    let file = File::create(path).cannot(|| format!("create {}", path.display()))?;
    let mut writer = PcapWriter::new(BufWriter::new(file)).cannot(|| format!("write {}", path.display()))?;
    for (number, frame) in (0u64..).zip(frames) {
        let length = u32::try_from(frame.len()).cannot(|| format!("write frame {number}"))?;
        let packet = PcapPacket::new(Duration::from_micros(number), length, frame);
        writer.write_packet(&packet).cannot(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Reads all frames of a pcap file.
pub fn read(path: &Path) -> Result<Vec<Vec<u8>>> {
    Ok(read_timed(path)?.into_iter().map(|(_, frame)| frame).collect())
}

/// Reads all frames of a pcap file, each with the time since 1970 at which it was captured.
pub fn read_timed(path: &Path) -> Result<Vec<(Duration, Vec<u8>)>> {
    let file = File::open(path).cannot(|| format!("open {}", path.display()))?;
    let mut reader = PcapReader::new(BufReader::new(file)).cannot(|| format!("read {}", path.display()))?;
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.cannot(|| format!("read frame {} of {}", frames.len(), path.display()))?;
        frames.push((packet.timestamp, packet.data.into_owned()));
    }
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.pcap");
        let frames: Vec<Vec<u8>> = vec![vec![1; 14], vec![2; 1514], vec![3; 60]];
        write(&path, frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(read(&path).unwrap(), frames);
    }
}
