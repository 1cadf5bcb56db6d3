//! Every class has a reference, and every example in it runs and does what its comments say.

use elements::harness::{Bench, Setup};
use elements::{classes, element_docs};
use io::memory::MemoryDevices;
use io::pcap::{LinkType, SNAP_LEN, Writer};
use io::{Devices, Limits};
use packet::Pool;
use std::sync::Arc;

#[test]
fn every_class_has_a_reference_with_an_example() {
    for class in classes().iter() {
        let name = class.spec().name;
        let doc = element_docs().iter().find(|d| d.class == name);
        let doc = doc.unwrap_or_else(|| panic!("{name} has no reference"));
        assert!(!doc.examples().is_empty(), "{name} has no example");
        for loss in class.spec().losses {
            assert!(doc.text.contains(&format!("`{loss}`")), "{name} does not explain the loss `{loss}`");
        }
    }
}

/// Frames that come in at the device `eth0` of the examples, and stand in their file `in.pcap`, one a second from
/// second 1,000,000,000 on: UDP, ten flows.
fn frames() -> impl Iterator<Item = Vec<u8>> {
    (0..10).map(|i| {
        let mut frame =
            vec![2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 46, 0, i, 0, 0, 64, 17, 0, 0];
        frame.extend([10, 0, 0, 1, 10, 0, 1, 1, 4, i, 0, 53, 0, 26, 0, 0]);
        frame.resize(60, 0);
        frame
    })
}

/// Lines `// element.handler = value` say what must be read after the run.
#[test]
fn examples_do_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = Writer::create(&dir.path().join("in.pcap"), LinkType::Ethernet, SNAP_LEN).unwrap();
    for (second, frame) in (1_000_000_000..).zip(frames()) {
        file.write(second * 1_000_000_000, 60, &frame).unwrap();
    }
    file.flush().unwrap();
    // Where the examples' files are.
    std::env::set_current_dir(dir.path()).unwrap();
    for doc in element_docs() {
        for example in doc.examples() {
            for (workers, burst) in [(1, 32), (1, 1), (2, 32)] {
                check(&example, workers, burst).unwrap_or_else(|e| {
                    panic!("example of {} with {workers} workers, burst {burst}:\n{example}\n{e}", doc.class)
                });
            }
        }
    }
}

fn check(example: &str, workers: usize, burst: usize) -> Result<(), String> {
    let limits = Limits { rx_queues: 1, tx_queues: 1 };
    let devices = Arc::new(MemoryDevices::new(Pool::heap(1 << 16, 9_856), &["eth0", "eth1"], limits));
    let setup = Setup { workers, burst, devices: devices.clone(), ..Setup::default() };
    let mut bench = Bench::new(example, &setup)?;
    for (name, frames) in [("eth0", frames().collect()), ("eth1", Vec::new())] {
        let port = devices.memory(name).ok_or("no such port")?;
        // Without an element that reads the port there is no queue, and nothing comes in.
        for frame in &frames {
            port.inject(&devices.pool(), 0, frame);
        }
        port.finish();
    }
    bench.run()?;
    let mut checked = 0;
    for line in example.lines() {
        if let Some((name, want)) = line.strip_prefix("// ").and_then(|l| l.split_once(" = ")) {
            let got = bench.read(name);
            if got.trim_end() != want {
                return Err(format!("{name} is {got:?}, not {want:?}; losses: {:?}", bench.losses()));
            }
            checked += 1;
        }
    }
    if checked == 0 {
        return Err("the example expects nothing".to_owned());
    }
    bench.end()
}
