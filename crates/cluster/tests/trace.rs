//! Flowlets on real traffic: the paper's experiment of §6.2, everything between one input and one output.
//!
//! The capture is replayed at its recorded speed with R = 12 Mbit/s. It is looked for in the folder that `ROUTEBRICKS_DATA` names,
//! or in `../shared/data` beside the repository.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cluster::delay::DelaySpread;
use cluster::flowlet::PAPER_GAP;
use cluster::model::{Model, Packet, Setup};
use cluster::path::{Order, Policy};
use cluster::reorder::ReorderMeter;
use cluster::topology::Topology;

const R: u64 = 12_000_000;

/// The packets with the flows and times that they have in the capture.
fn trace() -> Option<Vec<Packet>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder =
        std::env::var_os("ROUTEBRICKS_DATA").map_or_else(|| root.join("../shared/data"), PathBuf::from);
    let file = folder.join("real-traffic.pcap.gz");
    if !file.exists() {
        println!("skipped: there is no real-traffic.pcap.gz");
        return None;
    }
    let mut gzip = Command::new("gzip").arg("-dc").arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut bytes = Vec::new();
    gzip.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    assert!(gzip.wait().unwrap().success());
    let mut reader = pcap_file::pcap::PcapReader::new(bytes.as_slice()).unwrap();
    let mut flows = std::collections::HashMap::new();
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        let next = flows.len() as u64;
        let (flow, numbers) = flows.entry(flow(&packet.data)).or_insert((next, 0));
        let at = u64::try_from(packet.timestamp.as_nanos()).unwrap();
        packets.push(Packet { input: 0, output: 1, len: packet.orig_len, flow: *flow, number: *numbers, at });
        *numbers += 1;
    }
    let first = packets[0].at;
    packets.iter_mut().for_each(|packet| packet.at -= first);
    // The line that they come in by sends no faster than R either.
    let mut free = 0;
    for packet in &mut packets {
        free = free.max(packet.at) + u64::from(packet.len) * 8_000_000_000 / R;
        packet.at = free;
    }
    Some(packets)
}

/// Addresses, protocol and ports, behind VLAN tags; other frames are a flow for each pair of stations.
fn flow(frame: &[u8]) -> Vec<u8> {
    let mut at = 12;
    while frame.get(at..at + 2) == Some(&[0x81, 0x00]) {
        at += 4;
    }
    let (kind, packet) = (frame.get(at..at + 2), frame.get(at + 2..).unwrap_or_default());
    match (kind, packet) {
        (Some([0x08, 0x00]), packet) if packet.len() >= 20 => {
            let header = usize::from(packet[0] & 15) * 4;
            let ports = if matches!(packet[9], 6 | 17) { packet.get(header..header + 4) } else { None };
            [&packet[12..20], &packet[9..10], ports.unwrap_or_default()].concat()
        }
        _ => frame.get(..at + 2).unwrap_or(frame).to_vec(),
    }
}

fn setup(policy: Policy, order: Order, gap: u64) -> Setup {
    let setup = Setup::new(Topology::mesh(4).unwrap(), R, policy, order);
    Setup { gap, line_buffer: 1_000_000, link_buffer: 1_000_000, ..setup }
}

/// Replays it, prints a row, and gives events per packet and the spread of delays.
fn row(name: &str, packets: &[Packet], setup: Setup) -> (f64, u64) {
    let mut model = Model::new(setup);
    let mut meter = ReorderMeter::default();
    let mut spread = DelaySpread::new(u64::MAX);
    let last = packets[packets.len() - 1].at;
    for packet in packets {
        model.offer(*packet);
        for (now, packet) in model.drain() {
            meter.packet(packet.flow, packet.number);
            spread.note(packet.at, now);
        }
    }
    model.run_until(last + 10_000_000_000);
    model.drain().for_each(|(_, packet)| meter.packet(packet.flow, packet.number));
    let (report, totals) = (meter.report(), model.totals());
    println!(
        "{name:28} events {:7.4} %, {:4} of {} flows, RFC 4737 {:7.4} %, relayed {:4.1} %, delay {:3} ms",
        report.event_ratio() * 100.0,
        report.flows_hit,
        report.flows,
        report.reordered_ratio() * 100.0,
        totals.relayed as f64 * 100.0 / totals.offered as f64,
        totals.delay / 1_000_000,
    );
    assert_eq!((totals.all_lost(), totals.delivered), (0, packets.len() as u64), "{:?}", totals.lost);
    (report.event_ratio(), spread.deadline(last, 1_000_000))
}

#[test]
fn flowlets_reorder_less_than_the_papers() {
    let Some(packets) = trace() else { return };
    let (adaptive, paper) = (Policy::Adaptive, Policy::DirectVlb);
    let (spray, spread) = row("spray", &packets, setup(adaptive, Order::Spray, 0));
    let (flowlets, _) = row("flowlet, 100 ms", &packets, setup(adaptive, Order::Flowlet, PAPER_GAP));
    // What the delays of whole packets differ by, queue of the line included: more than paths alone.
    let (derived, spread_then) = row("flowlet, 10 ms", &packets, setup(adaptive, Order::Flowlet, 10_000_000));
    assert!(derived < spray, "a gap that is too short still helps");
    let name = format!("flowlet, {} ms as measured", spread_then.max(spread) / 1_000_000);
    let (derived, _) = row(&name, &packets, setup(adaptive, Order::Flowlet, spread_then.max(spread)));
    let (strict, _) = row("strict", &packets, setup(adaptive, Order::Strict, 0));
    let (single, _) = row("single path", &packets, setup(adaptive, Order::SinglePath, 0));
    row("the paper's rule, spray", &packets, setup(paper, Order::Spray, 0));
    row("the paper's rule, flowlet", &packets, setup(paper, Order::Flowlet, PAPER_GAP));
    assert!(spray > 0.05, "{spray}");
    assert!(flowlets <= 0.0015 && derived <= 0.0015, "{flowlets} {derived}");
    assert_eq!((strict, single), (0.0, 0.0));
}
