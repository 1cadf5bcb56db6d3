//! One DPDK per process, so each test runs its body in a process of its own.
#![allow(dead_code, reason = "not every test file uses everything")]

pub mod netns;

use dpdk::{DpdkDevices, EalOptions};
use io::{Claim, Devices, PoolSize, Port, RxQueue, TxQueue};
use packet::{Batch, Packet, Pool};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHILD: &str = "DPDK_TEST_CHILD";

/// Runs `body` in a child process; `name` is the test's own name.
pub fn in_child(name: &str, body: impl FnOnce()) {
    if is_child(name) {
        body();
        return;
    }
    let out = child(name).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    text.lines().filter_map(|l| l.find("skipped: ").map(|at| &l[at..])).for_each(|l| println!("{name}: {l}"));
    // What DPDK has to say goes into messages, never straight to the terminal.
    assert!(!text.contains("EAL: ") && !text.contains("Usage: "), "{text}");
    assert!(out.status.success(), "{name} in a child process: {}\n{text}", out.status);
}

/// True in the child process of the test.
pub fn is_child(name: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|n| n == name)
}

/// The command that runs one test's body.
pub fn child(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name).stdin(Stdio::null());
    command
}

/// Devices without huge pages and privileges, with a pool of `buffers`.
pub fn devices(buffers: usize, more: &[&str]) -> DpdkDevices {
    let args = ["--no-huge", "-m", "128"].iter().chain(more).map(|s| (*s).to_owned()).collect();
    let devices = DpdkDevices::new(EalOptions { args });
    devices.set_pool_size(PoolSize { buffers: Some(buffers), data_room: Some(2048), ..PoolSize::default() });
    devices
}

/// Claims one queue each way.
pub fn claim(devices: &DpdkDevices, name: &str) {
    let claim = Claim { rx_queues: 1, tx_queues: 1, promiscuous: true, ..Claim::default() };
    devices.claim(name, claim).unwrap();
}

/// Port and first queues of a started device.
pub fn open(devices: &DpdkDevices, name: &str) -> (Arc<dyn Port>, Box<dyn RxQueue>, Box<dyn TxQueue>) {
    let port = devices.port(name).unwrap();
    let (rx, tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
    (port, rx, tx)
}

/// A frame of `len` bytes from one address to another, of an EtherType of our own, numbered.
pub fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    bytes[14..18].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Packets that hold these frames.
pub fn packets(pool: &Pool, frames: &[Vec<u8>]) -> Batch {
    frames.iter().map(|f| pool.packet(f).unwrap()).collect()
}

/// Sends everything, however often the device says "full".
pub fn send(tx: &mut dyn TxQueue, mut batch: Batch) {
    let end = Instant::now() + Duration::from_secs(5);
    while !batch.is_empty() {
        batch = tx.tx(batch).rest;
        assert!(Instant::now() < end, "the device takes no packets");
    }
}

/// Receives until `count` packets that `wanted` likes have come or nothing came for a while; frees the others.
pub fn receive(rx: &mut dyn RxQueue, count: usize, wanted: impl Fn(&Packet) -> bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut end = Instant::now() + Duration::from_secs(2);
    while frames.len() < count && Instant::now() < end {
        let batch = rx.rx(32).batch;
        if !batch.is_empty() {
            end = Instant::now() + Duration::from_secs(2);
        }
        frames.extend(batch.iter().filter(|p| wanted(p)).map(|p| p.data().to_vec()));
        batch.free();
    }
    frames
}

/// True if this process may do what root may.
pub fn is_root() -> bool {
    // SAFETY: plain system call.
    #[allow(unsafe_code)]
    unsafe {
        libc::geteuid() == 0
    }
}
