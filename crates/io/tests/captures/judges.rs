//! tcpdump reads what we read, and we read what scapy writes.

use super::random::{Made, Random};
use super::{LinkType, read};
use std::path::Path;
use std::process::Command;

/// Time in nanoseconds, length on the wire, bytes.
type Packet = (u64, u32, Vec<u8>);

/// What tcpdump makes of a file, by way of a pcap file with nanoseconds; `None` if there is no tcpdump.
fn by_tcpdump(path: &Path) -> Option<Vec<Packet>> {
    let out = path.with_extension("tcpdump");
    let mut command = Command::new("tcpdump");
    command.args(["--time-stamp-precision=nano", "-r"]).arg(path).arg("-w").arg(&out);
    let Ok(done) = command.output() else { return None };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = std::fs::read(out).unwrap();
    assert_eq!(bytes[..4], 0xa1b2_3c4d_u32.to_ne_bytes());
    let (mut packets, mut rest) = (Vec::new(), &bytes[24..]);
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let number = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().unwrap());
        let (data, next) = behind.split_at(number(8) as usize);
        let time = u64::from(number(0)) * 1_000_000_000 + u64::from(number(4));
        packets.push((time, number(12), data.to_vec()));
        rest = next;
    }
    Some(packets)
}

#[test]
fn tcpdump_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random::new(2);
    for round in 0..100 {
        let path = dir.path().join("file.pcapng");
        let made = Made::new(&mut random, true);
        std::fs::write(&path, &made.file.bytes).unwrap();
        let Some(want) = by_tcpdump(&path) else {
            println!("skipped: there is no tcpdump");
            return;
        };
        let got = read(&path);
        assert_eq!((got.error, got.link), (None, LinkType::Ethernet));
        assert_eq!(got.records.len(), want.len(), "round {round}");
        for (n, (got, (time, wire_len, data))) in got.records.into_iter().zip(want).enumerate() {
            // A packet without time has libpcap's offset of the interface.
            let got = (got.timestamp.unwrap_or(time), got.wire_len, got.data);
            assert_eq!(got, (time, wire_len, data), "round {round}, packet {n}");
        }
    }
}

const WRITER: &str = r#"
import sys
try:
    from scapy.utils import RawPcapNgReader, RawPcapNgWriter, PcapNgWriter
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw
except ImportError:
    print("no scapy")
    sys.exit()
path = sys.argv[1]
writer = PcapNgWriter(path)
for n in range(50):
    packet = Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02", type=0x800 + n) / Raw(bytes([n]) * n)
    packet.time = 1700000000 + n + 0.25
    packet.comment = b"packet %d" % n
    writer.write(packet)
writer.close()
for data, meta in RawPcapNgReader(path):
    units = meta.tshigh << 32 | meta.tslow
    print(units * 10**9 // meta.tsresol, meta.wirelen, data.hex())
"#;

#[test]
fn scapy_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scapy.pcapng");
    // Debian's own Python has Debian's scapy, whatever else is in the path.
    let done = Command::new("/usr/bin/python3").args(["-c", WRITER]).arg(&path).output();
    let Ok(done) = done else {
        println!("skipped: there is no /usr/bin/python3");
        return;
    };
    let text = String::from_utf8_lossy(&done.stdout);
    if text.trim() == "no scapy" {
        println!("skipped: /usr/bin/python3 has no scapy");
        return;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let got = read(&path);
    assert_eq!(got.error, None);
    let line = |r: &io::pcap::Record| {
        let data: String = r.data.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {data}", r.timestamp.unwrap(), r.wire_len)
    };
    let got: Vec<_> = got.records.iter().map(line).collect();
    assert_eq!((got.len(), got), (50, text.lines().map(str::to_owned).collect()));
}
