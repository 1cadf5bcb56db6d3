//! DPDK devices that need neither huge pages nor privileges.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{claim, devices, frame, in_child, open, packets, receive, send};
use dpdk::{DpdkDevices, EalOptions, register_worker};
use io::pcap::{LinkType, Reader, SNAP_LEN, Writer};
use io::{Claim, Devices, Limits};
use packet::{Batch, Pool, unaccounted};
use std::path::Path;

#[test]
fn a_pool_runs_dry_and_recovers() {
    in_child("a_pool_runs_dry_and_recovers", || {
        let devices = devices(1023, &[]);
        claim(&devices, "net_null0");
        devices.start().unwrap();
        let pool = devices.pool();
        assert_eq!((pool.capacity(), pool.in_use(), pool.data_room()), (1023, 0, 2048));
        for registered in [false, true, false] {
            let worker = registered.then(register_worker);
            assert_eq!(worker.as_ref().map(dpdk::WorkerRegistration::has_cache), registered.then_some(true));
            let mut all = Vec::new();
            loop {
                let batch = pool.alloc_batch(100);
                if batch.is_empty() {
                    break;
                }
                all.push(batch);
            }
            // Nobody else uses the pool; only what the cache of a worker that left holds cannot be had.
            let got: usize = all.iter().map(Batch::len).sum();
            assert_eq!(got, pool.in_use());
            assert!(got >= 1023 - 512, "{got} of 1023 buffers");
            assert!(pool.alloc().is_none());
            all.into_iter().for_each(Batch::free);
            assert_eq!(pool.in_use(), 0);
        }
        drop(pool);
        assert_eq!(devices.close(), 0);
        assert_eq!(unaccounted(), 0);
    });
}

#[test]
fn fresh_packets_are_clean() {
    in_child("fresh_packets_are_clean", || {
        let devices = devices(1023, &[]);
        claim(&devices, "net_null0");
        devices.start().unwrap();
        let pool = devices.pool();
        for _ in 0..3 {
            let mut batch = pool.alloc_batch(256);
            assert_eq!(batch.len(), 256);
            for p in batch.iter_mut() {
                assert_eq!((p.len(), p.headroom(), p.tailroom()), (0, 128, 2048));
                assert_eq!((p.mac_offset(), p.network_offset(), p.transport_offset()), (None, None, None));
                assert_eq!((p.next_hop(), p.flow_hash(), p.dst_ip(), p.timestamp()), (0, 0, 0, 0));
                let mut annos = [1; 48];
                p.read_anno(0, &mut annos);
                assert_eq!(annos, [0; 48]);
                assert!(p.append(&[7; 60]));
                p.set_mac_offset(0);
                p.set_network_offset(14);
                p.set_transport_offset(34);
                p.set_next_hop(5);
                p.set_flow_hash(6);
                p.write_anno(0, &[9; 48]);
                p.set_timestamp(8);
            }
            batch.free();
        }
    });
}

#[test]
fn what_is_sent_to_a_ring_comes_back_without_marks() {
    in_child("what_is_sent_to_a_ring_comes_back_without_marks", || {
        let devices = devices(2047, &[]);
        claim(&devices, "net_ring0");
        devices.start().unwrap();
        let (port, mut rx, mut tx) = open(&devices, "net_ring0");
        assert!(port.take_rx(0).is_none() && port.take_rx(1).is_none() && port.take_tx(0).is_none());
        assert_eq!((port.driver().as_str(), port.link().up), ("net_ring", true));
        let frames: Vec<_> = (0..200).map(|i| frame(i, 60 + i as usize)).collect();
        let mut batch = packets(&devices.pool(), &frames);
        for p in batch.iter_mut() {
            p.set_mac_offset(0);
            p.set_network_offset(14);
            p.set_transport_offset(34);
            p.set_next_hop(5);
            p.set_flow_hash(6);
            p.set_dst_ip(7);
        }
        send(&mut *tx, batch);
        // First a few, then many, then the rest: the order stays.
        let mut back = Batch::empty();
        for max in [1, 5, 100, 100, 100, 100] {
            let mut batch = rx.rx(max).batch;
            assert!(max == 100 || batch.len() == max);
            back.append(&mut batch);
        }
        assert_eq!(back.iter().map(|p| p.data().to_vec()).collect::<Vec<_>>(), frames);
        for p in back.iter() {
            assert_eq!((p.mac_offset(), p.network_offset(), p.transport_offset()), (Some(0), None, None));
            assert_eq!((p.next_hop(), p.flow_hash(), p.dst_ip()), (0, 0, 0));
        }
        back.free();
        let stats = port.stats();
        assert_eq!((stats.rx_packets, stats.tx_packets), (200, 200));
        assert!(port.extended_stats().contains(&("rx_good_packets".to_owned(), 200)));
        // Packets that nobody fetches come back when the port closes.
        send(&mut *tx, packets(&devices.pool(), &frames[..10]));
        assert_eq!(devices.pool().in_use(), 10);
        drop((rx, tx, port));
        assert_eq!(devices.close(), 0);
        assert_eq!(unaccounted(), 0);
    });
}

#[test]
fn packets_of_the_heap_are_copied() {
    in_child("packets_of_the_heap_are_copied", || {
        let devices = devices(1023, &[]);
        claim(&devices, "net_ring0");
        devices.start().unwrap();
        let (port, mut rx, mut tx) = open(&devices, "net_ring0");
        let (heap, pool) = (Pool::heap(100, 4000), devices.pool());
        let mut batch = packets(&heap, &[frame(1, 60)]);
        batch.append(&mut packets(&pool, &[frame(2, 60)]));
        // Too long for a buffer of the device.
        batch.append(&mut packets(&heap, &[frame(3, 3000), frame(4, 2048)]));
        let sent = tx.tx(batch);
        assert_eq!((sent.packets, sent.rest.len()), (4, 0));
        assert_eq!(receive(&mut *rx, 3, |_| true), [frame(1, 60), frame(2, 60), frame(4, 2048)]);
        assert_eq!((port.stats().tx_packets, port.stats().tx_errors), (3, 1));
        drop((rx, tx, port));
        assert_eq!((heap.in_use(), pool.in_use(), unaccounted()), (0, 0, 0));
        drop(pool);
        assert_eq!(devices.close(), 0);
    });
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::create(path, LinkType::Ethernet, SNAP_LEN).unwrap();
    for frame in frames {
        writer.write(0, u32::try_from(frame.len()).unwrap(), frame).unwrap();
    }
    writer.flush().unwrap();
}

#[test]
fn captures_are_read_and_written() {
    in_child("captures_are_read_and_written", || {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from.pcap"), dir.path().join("to.pcap"));
        let frames: Vec<_> = (0..1000).map(|i| frame(i, 60 + (i as usize * 7) % 1400)).collect();
        write_capture(&from, &frames);
        let devices = devices(2047, &[]);
        let name = format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display());
        assert_eq!(devices.limits(&name).unwrap(), Limits { rx_queues: 1, tx_queues: 1 });
        claim(&devices, &name);
        devices.start().unwrap();
        // By any of its names.
        let (port, mut rx, mut tx) = open(&devices, "net_pcap0");
        assert!(devices.port("0").unwrap().take_rx(0).is_none());
        let mut got = 0;
        while got < 1000 {
            let batch = rx.rx(64).batch;
            got += batch.len();
            send(&mut *tx, batch);
        }
        assert_eq!(rx.losses(), [("oversized", 0), ("no_buffer", 0)]);
        let bytes: u64 = frames.iter().map(|f| f.len() as u64).sum();
        let stats = port.stats();
        assert_eq!((stats.rx_packets, stats.rx_bytes), (1000, bytes));
        assert_eq!((stats.tx_packets, stats.tx_bytes), (1000, bytes));
        drop((rx, tx, port));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
        let mut reader = Reader::open(&to).unwrap();
        let mut copied = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            copied.push(record.data);
        }
        assert_eq!(copied, frames);
    });
}

#[test]
fn a_chain_that_fits_no_buffer_is_lost_by_name() {
    in_child("a_chain_that_fits_no_buffer_is_lost_by_name", || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jumbo.pcap");
        let frames = [frame(1, 60), frame(2, 4000), frame(3, 2048), frame(4, 2049), frame(5, 61)];
        write_capture(&path, &frames);
        let devices = devices(1023, &[]);
        let name = format!("net_pcap0,rx_pcap={}", path.display());
        claim(&devices, &name);
        devices.start().unwrap();
        let (port, mut rx, tx) = open(&devices, &name);
        let got = receive(&mut *rx, 3, |_| true);
        assert_eq!(got, [frames[0].clone(), frames[2].clone(), frames[4].clone()]);
        assert_eq!(rx.losses(), [("oversized", 2), ("no_buffer", 0)]);
        drop((rx, tx, port));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}

#[test]
fn many_queues_and_many_packets() {
    in_child("many_queues_and_many_packets", || {
        let devices = devices(4095, &["--vdev=net_null0,size=100", "--vdev=net_null1"]);
        for (name, rx_queues, tx_queues) in [("0", 3, 1), ("net_null0", 1, 2)] {
            devices.claim(name, Claim { rx_queues, tx_queues, ..Claim::default() }).unwrap();
        }
        devices.claim("1", Claim { tx_queues: 1, ..Claim::default() }).unwrap();
        devices.start().unwrap();
        let (null, sink) = (devices.port("0").unwrap(), devices.port("net_null1").unwrap());
        assert_eq!(null.queues(), Limits { rx_queues: 3, tx_queues: 2 });
        // One receive queue is set up though none was asked for: drivers want it.
        assert_eq!(sink.queues(), Limits { rx_queues: 1, tx_queues: 1 });
        std::thread::scope(|scope| {
            for queue in 0..3 {
                let null = &null;
                scope.spawn(move || {
                    let _worker = register_worker();
                    let (mut rx, mut tx) = (null.take_rx(queue).unwrap(), null.take_tx(queue));
                    for _ in 0..1000 {
                        let mut batch = rx.rx(32).batch;
                        assert_eq!(batch.len(), 32);
                        assert!(batch.iter().all(|p| p.len() == 100));
                        if let Some(tx) = &mut tx {
                            let sent = tx.tx(batch);
                            assert_eq!(sent.packets, 32);
                            batch = sent.rest;
                        }
                        batch.free();
                    }
                });
            }
        });
        assert_eq!((null.stats().rx_packets, null.stats().tx_packets), (96_000, 64_000));
        assert_eq!(sink.stats().rx_packets, 0);
        drop((null, sink));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}

#[test]
fn mistakes_are_explained() {
    in_child("mistakes_are_explained", || {
        let devices = devices(1023, &["--vdev=net_null0"]);
        let refused = |name: &str| {
            let e = devices.limits(name).unwrap_err();
            (e.message, e.help)
        };
        let (message, help) = refused("etherbunny");
        assert_eq!(message, "there is no device 'etherbunny'");
        assert!(help.contains("lo") && help.contains("DPDK ports: net_null0;"), "{help}");
        assert_eq!(
            refused("7"),
            ("there is no DPDK port 7".to_owned(), "there are: 0 (net_null0)".to_owned())
        );
        let (message, _) = refused("net_pcap0,rx_pcap=/does/not/exist");
        assert!(
            message.starts_with("cannot open net_pcap0,rx_pcap=/does/not/exist: ")
                && message.contains("/does/not/exist: No such file or directory"),
            "{message}"
        );
        let (message, help) = refused("0000:ff:1f.6");
        assert!(message.starts_with("cannot open 0000:ff:1f.6: "), "{message}");
        assert!(help.contains("dpdk-devbind.py --bind=vfio-pci 0000:ff:1f.6"), "{help}");
        let (message, _) = refused("net_nosuchdriver0");
        assert!(message.starts_with("cannot open net_nosuchdriver0: "), "{message}");
        let error = devices.claim("0", Claim { rx_queues: 2000, ..Claim::default() }).unwrap_err();
        assert_eq!(error.message, "0 has no more than 1024 receive queues; 2000 are asked for");
        let error = devices.port("0").err().unwrap();
        assert_eq!(error.message, "0 is not started");
    });
}

#[test]
fn a_process_has_one_dpdk() {
    in_child("a_process_has_one_dpdk", || {
        let first = devices(1023, &[]);
        first.limits("net_null0").unwrap();
        let second = devices(1023, &[]);
        // Without a device it needs no DPDK.
        assert_eq!(
            second.pool().packet(b"abc").map(|p| {
                let n = p.len();
                p.free();
                n
            }),
            Some(3)
        );
        let error = second.limits("net_null1").unwrap_err();
        assert_eq!(error.message, "DPDK was already started in this process");
        drop(first);
        assert_eq!(devices(1023, &[]).limits("net_null2").unwrap_err(), error);
    });
}

#[test]
fn bad_eal_arguments_are_shown_as_eal_puts_it() {
    in_child("bad_eal_arguments_are_shown_as_eal_puts_it", || {
        let devices = DpdkDevices::new(EalOptions { args: vec!["--no-such-option".to_owned()] });
        let error = devices.limits("net_null0").unwrap_err();
        assert!(error.message.starts_with("DPDK does not start: "), "{error}");
        assert!(error.message.contains("unrecognized option '--no-such-option'"), "{error}");
        assert!(error.help.starts_with("EAL was given: "), "{}", error.help);
        let dir = format!("/var/run/dpdk/routebricks-{}", std::process::id());
        assert!(!Path::new(&dir).exists());
        // And again the same, since there is no second try.
        assert_eq!(devices.limits("net_null0").unwrap_err(), error);
    });
}

#[test]
fn too_large_a_pool_is_explained() {
    in_child("too_large_a_pool_is_explained", || {
        let devices = devices(500_000, &[]);
        claim(&devices, "net_null0");
        let error = devices.start().unwrap_err();
        assert_eq!(
            error.message,
            "no memory for 500000 packet buffers of 2048 bytes: Cannot allocate memory"
        );
        assert!(error.help.starts_with("1222 MB are needed: "), "{}", error.help);
    });
}

#[test]
fn threads_are_left_alone() {
    in_child("threads_are_left_alone", || {
        let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let cpus = || status().lines().find(|l| l.starts_with("Cpus_allowed:")).unwrap().to_owned();
        let before = cpus();
        let devices = devices(1023, &["--lcores=0@0"]);
        claim(&devices, "net_null0");
        devices.start().unwrap();
        assert_eq!(cpus(), before);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let first = register_worker();
                // A second registration of the same thread has no effect, nor has its end.
                let second = register_worker();
                assert!(first.has_cache() && !second.has_cache());
                drop(second);
                assert_eq!(cpus(), before);
            });
        });
        assert_eq!(devices.close(), 0);
        assert!(!register_worker().has_cache());
    });
}

#[test]
fn what_is_still_in_use_stays_valid() {
    in_child("what_is_still_in_use_stays_valid", || {
        let devices = devices(1023, &[]);
        claim(&devices, "net_ring0");
        devices.start().unwrap();
        let (port, mut rx, mut tx) = open(&devices, "net_ring0");
        let kept = devices.pool().packet(b"kept").unwrap();
        send(&mut *tx, packets(&devices.pool(), &[frame(1, 60)]));
        // The kept packet and the one in the ring.
        assert_eq!(devices.close(), 2);
        drop(devices);
        assert_eq!(kept.data(), b"kept");
        kept.free();
        assert_eq!(receive(&mut *rx, 1, |_| true), [frame(1, 60)]);
        assert!(port.take_rx(0).is_none());
        drop((rx, tx, port));
        assert_eq!(unaccounted(), 0);
    });
}
