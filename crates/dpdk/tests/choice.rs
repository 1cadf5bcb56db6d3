//! Which driver a Linux interface gets that is named without one, and what that means for IP fragments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::netns::{ip, own_namespace, veth};
use common::{claim, devices, frame, in_child, open, packets, receive, send};
use dpdk::{DpdkDevices, EalOptions};
use io::{Claim, Devices, PoolSize};
use packet::{Packet, unaccounted};

/// The two halves of a UDP datagram with 32 bytes of data, which does not say where it is cut.
fn fragments() -> [Vec<u8>; 2] {
    let half = |offset: u8, checksum: [u8; 2], bytes: &[u8]| {
        let mut f = frame(0, 60)[..14].to_vec();
        f[12..14].copy_from_slice(&[8, 0]);
        f.extend([69, 0, 0, 44, 0, 7, if offset == 0 { 0x20 } else { 0 }, offset, 64, 17]);
        f.extend(checksum);
        f.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        f.extend(bytes);
        f
    };
    let datagram: Vec<u8> = [&[0x27, 0x10, 0, 9, 0, 48, 0, 0][..], &[7; 40]].concat();
    [half(0, [0x46, 0xb8], &datagram[..24]), half(3, [0x66, 0xb5], &datagram[24..])]
}

fn is_ip(p: &Packet) -> bool {
    p.data().get(12..14) == Some(&[8, 0])
}

/// Sends fragments from `va` to `vb`, and gives what comes.
fn pass_fragments(devices: &DpdkDevices, va: &str, vb: &str, count: usize) -> (String, Vec<Vec<u8>>) {
    claim(devices, va);
    claim(devices, vb);
    devices.start().unwrap();
    let ((a, rx_a, mut tx_a), (b, mut rx_b, tx_b)) = (open(devices, va), open(devices, vb));
    send(&mut *tx_a, packets(&devices.pool(), &fragments()));
    let result = (b.driver(), receive(&mut *rx_b, count, is_ip));
    drop((a, rx_a, tx_a, b, rx_b, tx_b));
    assert_eq!((devices.close(), unaccounted()), (0, 0));
    result
}

#[test]
fn fragments_arrive_as_they_were_sent() {
    in_child("fragments_arrive_as_they_were_sent", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(16_383, &[]);
        let (driver, arrived) = pass_fragments(&devices, "va", "vb", 2);
        if driver != "net_af_xdp" {
            println!("skipped: no XDP sockets here: {:?}", devices.warnings());
            return;
        }
        assert_eq!(arrived, fragments());
        assert!(!ip("link show va").contains("xdp"));
    });
}

#[test]
fn raw_sockets_leave_fragments_as_they_are() {
    in_child("raw_sockets_leave_fragments_as_they_are", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(8191, &[]);
        let (driver, arrived) = pass_fragments(&devices, "af_packet:va", "af_packet:vb", 2);
        assert_eq!((driver.as_str(), arrived), ("af_packet", fragments().to_vec()));
        assert_eq!(devices.warnings(), [""; 0]);
    });
}

fn with_room_for_any_frame() -> DpdkDevices {
    let devices = DpdkDevices::new(EalOptions { args: vec!["--no-huge".to_owned()] });
    devices.set_pool_size(PoolSize { buffers: Some(8191), ..PoolSize::default() });
    devices
}

/// Opens `name` and gives the driver and the warnings.
fn opened(name: &str, wish: Claim) -> (String, Vec<String>) {
    let devices = with_room_for_any_frame();
    devices.claim(name, Claim { rx_queues: 1, tx_queues: 1, ..wish }).unwrap();
    devices.start().unwrap();
    let result = (devices.port(name).unwrap().driver(), devices.warnings());
    assert_eq!(devices.close(), 0);
    result
}

/// In a namespace with a wire, after these `ip` commands, `va` is opened by a raw socket for this reason.
fn obstacle(test: &str, commands: &[&str], wish: Claim, reason: &str) {
    in_child(test, || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        commands.iter().for_each(|command| drop(ip(command)));
        let (driver, warnings) = opened("va", wish);
        assert_eq!(driver, "af_packet");
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.starts_with(&format!("va: no XDP socket: {reason}")), "{warning}");
        assert!(warning.ends_with("write af_packet:va if that does no harm"), "{warning}");
    });
}

#[test]
fn linux_keeps_an_interface_with_an_address() {
    let reason = "Linux uses it itself (10.97.0.1), and an XDP socket would take its packets away.";
    obstacle(
        "linux_keeps_an_interface_with_an_address",
        &["address add 10.97.0.1/24 dev va"],
        Claim::default(),
        reason,
    );
}

#[test]
fn one_xdp_socket_does_not_read_several_queues() {
    obstacle(
        "one_xdp_socket_does_not_read_several_queues",
        &["link del va", "link add va numrxqueues 4 type veth peer name vb numtxqueues 4", "link set va up"],
        Claim::default(),
        "it has 4 receive queues, of which an XDP socket reads one.",
    );
}

#[test]
fn xdp_sockets_are_not_for_jumbo_frames() {
    obstacle(
        "xdp_sockets_are_not_for_jumbo_frames",
        &["link set va mtu 9000"],
        Claim::default(),
        "its MTU is 9000, more than 1770.",
    );
}

#[test]
fn an_mtu_that_is_asked_for_counts() {
    obstacle(
        "an_mtu_that_is_asked_for_counts",
        &[],
        Claim { mtu: 2000, ..Claim::default() },
        "its MTU is 2000, more than 1770.",
    );
}

#[test]
fn what_the_kernel_refuses_falls_back() {
    obstacle(
        "what_the_kernel_refuses_falls_back",
        &["link set vb mtu 9000"],
        Claim::default(),
        "cannot set up a receive queue: ",
    );
}

#[test]
fn jumbo_frames_elsewhere_make_buffers_too_large() {
    in_child("jumbo_frames_elsewhere_make_buffers_too_large", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        ip("link set va mtu 9000");
        let devices = with_room_for_any_frame();
        claim(&devices, "af_packet:va");
        claim(&devices, "vb");
        devices.start().unwrap();
        assert_eq!(devices.port("vb").unwrap().driver(), "af_packet");
        let warning = devices.warnings().concat();
        let reason = "XDP sockets take buffers of up to 3584 bytes, and these have 9024.";
        assert!(warning.starts_with(&format!("vb: no XDP socket: {reason}")), "{warning}");
        assert_eq!(devices.close(), 0);
    });
}

#[test]
fn an_xdp_socket_that_is_asked_for_is_not_replaced() {
    in_child("an_xdp_socket_that_is_asked_for_is_not_replaced", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        ip("link set vb mtu 9000");
        ip("address add 10.97.0.1/24 dev va");
        let devices = devices(16_383, &[]);
        claim(&devices, "af_xdp:va");
        let error = devices.start().unwrap_err();
        assert!(error.message.starts_with("af_xdp:va: cannot set up a receive queue: "), "{error}");
    });
}

#[test]
fn an_interface_has_one_driver() {
    in_child("an_interface_has_one_driver", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(16_383, &[]);
        claim(&devices, "va");
        let error = devices.limits("af_packet:va").unwrap_err();
        assert_eq!(error.message, "va and af_packet:va are one interface by two drivers");
        claim(&devices, "af_packet:vb");
        // Without a driver it is the one that has been named.
        claim(&devices, "vb");
        assert_eq!(devices.limits("vb").unwrap().rx_queues, 64);
        devices.start().unwrap();
        assert_eq!((devices.ports().len(), devices.warnings()), (2, vec![]));
        assert_eq!(devices.close(), 0);
    });
}

/// DPDK has 32 devices: who finds none left is named, with the limit; a Linux interface is read without DPDK, and taps need none.
#[test]
fn more_ports_than_dpdk_has_devices() {
    in_child("more_ports_than_dpdk_has_devices", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(16_383, &[]);
        (0..32).for_each(|i| claim(&devices, &format!("net_null{i}")));
        let error = devices.limits("net_null32").unwrap_err();
        let limit = "DPDK has no more than 32 devices (RTE_MAX_ETHPORTS), and all are taken";
        assert_eq!(error.message, format!("net_null32: {limit}"));
        for name in ["va", "vb", "tap:many0", "tap:many1"] {
            claim(&devices, name);
        }
        devices.start().unwrap();
        assert_eq!(devices.ports().len(), 36);
        let warnings = devices.warnings();
        for name in ["va", "vb"] {
            let reason = format!("{name}: no XDP socket: {limit}. A raw socket takes its place");
            assert!(warnings.iter().any(|warning| warning.starts_with(&reason)), "{warnings:?}");
        }
        let ((a, rx_a, mut tx_a), (b, mut rx_b, tx_b)) = (open(&devices, "va"), open(&devices, "vb"));
        send(&mut *tx_a, packets(&devices.pool(), &fragments()));
        assert_eq!(receive(&mut *rx_b, 2, is_ip), fragments());
        drop((a, rx_a, tx_a, b, rx_b, tx_b));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}
