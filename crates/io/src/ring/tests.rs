//! Both ends of rings, as elements use them.

use super::memory::Side;
use super::{Geometry, LIMITS, Name, WithRings};
use crate::port::{Claim, Port, RxQueue, TxQueue};
use crate::{Devices, NoDevices};
use packet::{Batch, Packet, Pool};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const BOTH: Claim = Claim {
    rx_queues: 1,
    tx_queues: 1,
    rx_descriptors: 8,
    tx_descriptors: 0,
    promiscuous: false,
    mtu: 0,
    rss: crate::Rss::UNSAID,
};

/// A process with one ring.
struct Process {
    devices: WithRings,
    port: Arc<dyn Port>,
    rx: Box<dyn RxQueue>,
    tx: Box<dyn TxQueue>,
}

impl Process {
    fn start(path: &Path) -> Process {
        let devices = WithRings::new(Arc::new(NoDevices::new("")));
        let name = format!("ring:{}", path.display());
        devices.claim(&name, BOTH).unwrap();
        devices.start().unwrap();
        let port = devices.port(&name).unwrap();
        let (rx, tx) = (port.take_rx(0).unwrap(), port.take_tx(0).unwrap());
        assert!(port.take_rx(0).is_none() && port.take_tx(0).is_none() && port.take_rx(1).is_none());
        Process { devices, port, rx, tx }
    }

    /// Sends these frames; how many are gone, and how many have to wait.
    fn send(&mut self, frames: &[Vec<u8>]) -> (usize, usize) {
        let pool = self.devices.pool();
        let mut batch = Batch::empty();
        frames.iter().for_each(|frame| batch.push(pool.packet(frame).unwrap()));
        let sent = self.tx.tx(batch);
        let rest = sent.rest.len();
        sent.rest.free();
        (sent.packets, rest)
    }

    fn receive(&mut self, max: usize) -> Vec<Vec<u8>> {
        let received = self.rx.rx(max);
        let frames = received.batch.iter().map(|packet| packet.data().to_vec()).collect();
        received.batch.free();
        frames
    }
}

fn frame(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 31 + i) as u8).collect()
}

#[test]
fn frames_cross_whole_and_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring");
    let mut a = Process::start(&path);
    assert!(!a.port.link().up);
    assert_eq!(a.send(&[frame(0, 60)]), (1, 0), "nobody is there: lost");
    let mut b = Process::start(&path);
    assert!(a.port.link().up && b.port.link().up && a.port.mac() != b.port.mac());
    let frames: Vec<_> = [1, 14, 60, 1514, 1536, 1596].iter().map(|len| frame(*len, *len)).collect();
    assert_eq!(a.send(&frames), (6, 0));
    assert_eq!(b.send(&[frame(7, 99), frame(8, 1597)]), (2, 0), "one is too long");
    assert_eq!((b.receive(4), b.receive(64)), (frames[..4].to_vec(), frames[4..].to_vec()));
    assert_eq!((a.receive(64), a.receive(64)), (vec![frame(7, 99)], vec![]));
    let stats = a.port.stats();
    assert_eq!((stats.tx_packets, stats.tx_bytes, stats.tx_errors), (6, 4721, 1));
    assert_eq!((stats.rx_packets, stats.rx_bytes, stats.rx_errors), (1, 99, 0));
    let stats = b.port.stats();
    assert_eq!((stats.tx_packets, stats.tx_errors, stats.rx_packets, stats.rx_bytes), (1, 1, 6, 4721));
    assert_eq!((a.port.queues(), a.port.driver(), a.port.mtu()), (LIMITS, "ring".to_owned(), 1500));
}

#[test]
fn a_full_ring_takes_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring");
    let (mut a, mut b) = (Process::start(&path), Process::start(&path));
    let frames: Vec<_> = (0..10).map(|i| frame(i, 60)).collect();
    assert_eq!(a.send(&frames), (8, 2));
    assert_eq!(a.send(&frames), (0, 10));
    assert_eq!(b.receive(3), frames[..3]);
    assert_eq!(a.send(&frames[8..]), (2, 0));
    assert_eq!(b.receive(64), frames[3..]);
    assert_eq!(a.port.stats().tx_errors, 0);
}

#[test]
fn a_receiver_without_buffers_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring");
    let (mut a, mut b) = (Process::start(&path), Process::start(&path));
    let frames: Vec<_> = (0..4).map(|i| frame(i, 60)).collect();
    assert_eq!(a.send(&frames), (4, 0));
    let pool = b.devices.pool();
    let mut held: Vec<Packet> = std::iter::from_fn(|| pool.alloc()).collect();
    assert!(b.receive(64).is_empty());
    held.pop().unwrap().free();
    assert_eq!(b.receive(64), frames[..1]);
    held.into_iter().for_each(Packet::free);
    assert_eq!(b.receive(64), frames[1..]);
    assert_eq!(b.port.stats().rx_no_buffer, 4 + 3);
}

#[test]
fn names_and_claims_must_fit() {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("ring:{}", directory.path().join("ring").display());
    let devices = WithRings::new(Arc::new(NoDevices::new("no devices")));
    let message = |result: Result<(), crate::OpenError>| result.unwrap_err().message;
    assert_eq!(message(devices.claim("eth0", BOTH)), "no device 'eth0'");
    assert_eq!(
        message(devices.claim(&name, Claim { rx_queues: 2, ..BOTH })),
        format!("{name} has one queue each way; more are asked for")
    );
    devices.claim(&name, BOTH).unwrap();
    assert_eq!(
        message(devices.claim(&format!("{name},mtu=900"), BOTH)),
        format!("{name},mtu=900 and {name} are one ring")
    );
    assert_eq!(devices.port(&name).err().unwrap().message, format!("{name} is not started"));
    devices.claim(&name, Claim { mtu: 20_000, ..BOTH }).unwrap();
    assert_eq!(
        message(devices.start()),
        format!("{name}: its frames need buffers of 20022 bytes, those there are have 9856")
    );
    let port = devices.attach(&name, BOTH).unwrap();
    assert_eq!((port.name(), devices.ports().len()), (name.as_str(), 1));
    assert_eq!(message(devices.claim(&name, BOTH)), format!("{name} is already started"));
}

#[test]
fn names_are_read() {
    let name = |text| Name::parse(text).unwrap().unwrap();
    assert_eq!(name("ring:/run/a-b"), Name { path: "/run/a-b".into(), mtu: None });
    assert_eq!(name("ring:x,mtu=9000"), Name { path: "x".into(), mtu: Some(9000) });
    assert_eq!(Name::parse("tap:x"), None);
    for (text, why) in [
        ("ring:", "the name of a file is missing"),
        ("ring:,mtu=1500", "the name of a file is missing"),
        ("ring:x,mtu=67", "'mtu=67' is no MTU from 68 to 65000, as mtu=1500"),
        ("ring:x,slots=3", "'slots=3' is no MTU from 68 to 65000, as mtu=1500"),
    ] {
        assert_eq!(Name::parse(text).unwrap().unwrap_err().message, format!("{text}: {why}"));
    }
}

#[test]
fn memory_follows_from_what_is_asked_for() {
    let geometry = |text, claim| {
        let Geometry { slots, slot_bytes } = Name::parse(text).unwrap().unwrap().geometry(claim);
        (slots, slot_bytes)
    };
    let none = Claim::default();
    assert_eq!(geometry("ring:x", none), (1024, 25 * 64));
    assert_eq!(geometry("ring:x,mtu=1526", none), (1024, 25 * 64));
    assert_eq!(geometry("ring:x,mtu=65000", none), (1024, 1017 * 64));
    let claim = Claim { rx_descriptors: 100, tx_descriptors: 300, mtu: 9000, ..none };
    assert_eq!(geometry("ring:x", claim), (512, 143 * 64));
    assert_eq!(geometry("ring:x,mtu=100", claim), (512, 3 * 64));
}

#[derive(Clone, Debug)]
enum Step {
    /// Side, frames, and how long they are.
    Send(bool, usize, usize),
    Receive(bool, usize),
    /// A side's process ends in good order, and another comes.
    Restart(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<bool>(), 0_usize..12, 1_usize..1597).prop_map(|(a, n, len)| Step::Send(a, n, len)),
        6 => (any::<bool>(), 1_usize..12).prop_map(|(a, n)| Step::Receive(a, n)),
        1 => any::<bool>().prop_map(Step::Restart),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    /// Against two lists.
    #[test]
    fn it_is_as_two_lists_would_be(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let mut processes = [Some(Process::start(&path)), Some(Process::start(&path))];
        let mut lists: [Vec<Vec<u8>>; 2] = Default::default();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Send(side, count, length) => {
                    let frames: Vec<_> = (0..count).map(|i| frame(number + i, length)).collect();
                    number += count;
                    let room = 8 - lists[usize::from(side)].len();
                    let taken = count.min(room);
                    let process = processes[usize::from(side)].as_mut().unwrap();
                    prop_assert_eq!(process.send(&frames), (taken, count - taken));
                    lists[usize::from(side)].extend_from_slice(&frames[..taken]);
                }
                Step::Receive(side, max) => {
                    let list = &mut lists[usize::from(!side)];
                    let expected: Vec<_> = list.drain(..max.min(list.len())).collect();
                    let process = processes[usize::from(side)].as_mut().unwrap();
                    prop_assert_eq!(process.receive(max), expected);
                }
                Step::Restart(side) => {
                    drop(processes[usize::from(side)].take());
                    let other = processes[usize::from(!side)].as_mut().unwrap();
                    prop_assert!(!other.port.link().up);
                    prop_assert_eq!(other.send(&[frame(0, 60)]), (1, 0));
                    processes[usize::from(side)] = Some(Process::start(&path));
                    // What was sent to the one before is not for it; what that one sent is still there.
                    lists[usize::from(!side)].clear();
                }
            }
        }
    }

    /// The other end writes what it likes into the memory: whatever comes of it are frames that fit, and packets that are counted.
    #[test]
    fn nothing_of_the_other_end_is_trusted(
        writes in proptest::collection::vec((0_usize..12, 0_u32..8, any::<u32>(), any::<bool>()), 1..40),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring");
        let (mut ours, theirs) = (Process::start(&path), Process::start(&path));
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let memory = super::memory::Memory::open(&file).unwrap().unwrap();
        for (what, slot, value, is_small) in writes {
            let value = if is_small { value % 2000 } else { value };
            let word = match what {
                0..3 => memory.produced(Side::Second),
                3..6 => memory.consumed(Side::First),
                6 => memory.state(Side::Second),
                _ => memory.length(Side::Second, slot),
            };
            word.store(value, Ordering::Relaxed);
            let (packets, rest) = ours.send(&[frame(1, 60), frame(2, 60)]);
            prop_assert_eq!(packets + rest, 2);
            let received = ours.rx.rx(64);
            prop_assert!(received.batch.len() + received.lost <= 8);
            prop_assert!(received.batch.iter().all(|packet| (1..=1596).contains(&packet.len())));
            received.batch.free();
        }
        let stats = ours.port.stats();
        prop_assert_eq!(ours.rx.losses(), &[("rx_error", stats.rx_errors)]);
        // Whoever keeps to the rules again is heard again.
        drop(theirs);
        let mut theirs = Process::start(&path);
        ours.receive(64);
        prop_assert_eq!(theirs.send(&[frame(3, 77)]), (1, 0));
        prop_assert_eq!(ours.receive(64), vec![frame(3, 77)]);
        prop_assert_eq!(ours.devices.pool().in_use(), 0);
    }
}

/// As fast as two threads can.
#[test]
fn nothing_is_torn_or_lost_under_load() {
    const FRAMES: usize = 200_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring");
    let (mut a, mut b) = (Process::start(&path), Process::start(&path));
    let content = |number: usize| frame(number, 20 + number % 200);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let pool = Pool::heap(64, 2048);
            let mut number = 0;
            while number < FRAMES {
                let mut batch = Batch::empty();
                (number..FRAMES.min(number + 5))
                    .for_each(|number| batch.push(pool.packet(&content(number)).unwrap()));
                let sent = a.tx.tx(batch);
                number += sent.packets;
                sent.rest.free();
                if sent.packets == 0 {
                    std::thread::yield_now();
                }
            }
            assert_eq!(a.port.stats().tx_packets, FRAMES as u64);
            // Until the other has all.
            while a.port.link().up {
                std::thread::yield_now();
            }
        });
        scope.spawn(move || {
            let mut number = 0;
            while number < FRAMES {
                for received in b.receive(7) {
                    assert_eq!(received, content(number));
                    number += 1;
                }
            }
        });
    });
}
