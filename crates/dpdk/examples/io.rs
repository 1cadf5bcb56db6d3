//! The thinnest forwarder: whatever one port receives leaves by another (or the same), as `dpdk-testpmd
//! --forward-mode=io` does. Prints cycles of thread CPU time per packet.
//!
//! `cargo run --release -p dpdk --example io -- IN OUT PACKETS [-- EAL ARGS]`, for instance
//! `... -- 0 0 100000000 -- --vdev=net_pcap0,rx_pcap=FILE,infinite_rx=1`

use dpdk::{DpdkDevices, EalOptions, register_worker};
use io::{Claim, Devices, OpenError};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const BURST: usize = 32;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let mut own: Vec<String> = args.by_ref().take_while(|a| a != "--").collect();
    let devices = DpdkDevices::new(EalOptions { args: args.collect() });
    let count = own.pop().and_then(|n| n.parse::<u64>().ok());
    let ([rx, tx], Some(count)) = (&own[..], count) else {
        eprintln!("usage: io IN OUT PACKETS [-- EAL ARGS]");
        return ExitCode::from(2);
    };
    if let Err(error) = forward(&devices, rx, tx, count) {
        eprintln!("{error}\n  {}", error.help);
        return ExitCode::FAILURE;
    }
    match devices.close() {
        0 => ExitCode::SUCCESS,
        n => {
            eprintln!("{n} buffers are missing");
            ExitCode::FAILURE
        }
    }
}

/// Forwards until `count` packets were received or nothing came for a second.
fn forward(devices: &DpdkDevices, rx_name: &str, tx_name: &str, count: u64) -> Result<(), OpenError> {
    devices.claim(rx_name, Claim { rx_queues: 1, promiscuous: true, ..Claim::default() })?;
    devices.claim(tx_name, Claim { tx_queues: 1, ..Claim::default() })?;
    devices.start()?;
    let (input, output) = (devices.port(rx_name)?, devices.port(tx_name)?);
    let _worker = register_worker();
    let (Some(mut rx), Some(mut tx)) = (input.take_rx(0), output.take_tx(0)) else {
        return Err(OpenError::new("a queue is missing", ""));
    };
    let (mut received, mut sent, mut polls) = (0_u64, 0_u64, 0_u64);
    let mut last = Instant::now();
    let cpu = thread_seconds();
    while received < count {
        polls += 1;
        let batch = rx.rx(BURST).batch;
        let n = batch.len();
        if n == 0 {
            if polls.is_multiple_of(1 << 16) && last.elapsed() > Duration::from_secs(5) {
                break;
            }
            continue;
        }
        if polls.is_multiple_of(1 << 16) {
            last = Instant::now();
        }
        received += n as u64;
        let gone = tx.tx(batch);
        sent += gone.packets as u64;
        gone.rest.free();
    }
    let seconds = thread_seconds() - cpu;
    println!(
        "{received} received, {sent} sent, {:.2} ns of CPU time per packet",
        seconds * 1e9 / received.max(1) as f64
    );
    println!("{:?} {:?}\n{:?} {:?}", input.link(), input.stats(), output.link(), output.stats());
    println!("{} {:?} MTU {}", input.driver(), input.mac(), input.mtu());
    Ok(())
}

/// CPU time of this thread.
#[allow(unsafe_code)]
fn thread_seconds() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for one structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}
