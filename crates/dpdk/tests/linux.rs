//! DPDK devices on Linux interfaces, in a network namespace of the test's own; several instances; telemetry.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::netns::{ip, ours, own_namespace, veth};
use common::{child, claim, devices, frame, in_child, is_child, is_root, open, packets, receive, send};
use dpdk::{DpdkDevices, EalOptions, facts};
use io::{Claim, Devices, PoolSize, Refusal};
use packet::{Packet, unaccounted};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

#[test]
fn frames_cross_a_veth_pair() {
    in_child("frames_cross_a_veth_pair", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        ip("link set va mtu 1400");
        let devices = devices(8191, &[]);
        claim(&devices, "af_packet:va");
        claim(&devices, "af_packet:vb");
        devices.start().unwrap();
        let ((a, mut rx_a, mut tx_a), (b, mut rx_b, mut tx_b)) =
            (open(&devices, "af_packet:va"), open(&devices, "af_packet:vb"));
        assert_eq!((a.mtu(), b.mtu(), a.driver().as_str()), (1400, 1500, "af_packet"));
        assert!(a.link().up && a.mac().is_some() && a.mac() != b.mac());
        assert!(ip("link show va").contains("PROMISC") || ip("-d link show va").contains("promiscuity 1"));
        let frames: Vec<_> = (0..100).map(|i| frame(i, 60 + 13 * i as usize)).collect();
        send(&mut *tx_a, packets(&devices.pool(), &frames));
        assert_eq!(receive(&mut *rx_b, 100, ours), frames);
        // Whatever Linux refuses to send is lost, and what comes behind it is sent.
        let odd = [frame(100, 60), frame(101, 2000), vec![1; 9], frame(102, 60)];
        send(&mut *tx_b, packets(&devices.pool(), &odd));
        assert_eq!(receive(&mut *rx_a, 2, ours), [frame(100, 60), frame(102, 60)]);
        assert!(a.stats().tx_packets >= 100 && b.stats().rx_packets >= 100);
        // What Linux sends by itself is received at the other end only.
        ip("address add 10.97.0.1/24 dev va");
        std::net::UdpSocket::bind("10.97.0.1:0").unwrap().send_to(b"x", "10.97.0.2:9").unwrap();
        let is_arp = |p: &Packet| p.data()[12..14] == [8, 6];
        assert_eq!(receive(&mut *rx_b, 1, is_arp).len(), 1);
        assert_eq!(rx_a.rx(32).batch.len(), 0);
        ip("link set vb down");
        wait_until("both are down", || !(a.link().up || b.link().up));
        drop((a, rx_a, tx_a, b, rx_b, tx_b));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
        assert!(ip("-d link show va").contains("promiscuity 0"));
    });
}

#[test]
fn one_receive_queue_reads_what_several_get() {
    in_child("one_receive_queue_reads_what_several_get", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(8191, &[]);
        claim(&devices, "af_packet:va");
        devices.claim("af_packet:vb", Claim { rx_queues: 1, tx_queues: 4, ..Claim::default() }).unwrap();
        devices.start().unwrap();
        let ((a, rx_a, mut tx_a), (b, mut rx_b, tx_b)) =
            (open(&devices, "af_packet:va"), open(&devices, "af_packet:vb"));
        // UDP from 200 ports, which Linux spreads over the four sockets.
        let frames: Vec<Vec<u8>> = (0..200_u16).map(udp).collect();
        send(&mut *tx_a, packets(&devices.pool(), &frames));
        let mut got = receive(&mut *rx_b, 200, |p| p.len() == 60 && p.data()[12..14] == [8, 0]);
        got.sort();
        let mut expected = frames;
        expected.sort();
        assert_eq!(got, expected);
        let mut others: Vec<_> = (1..4).map(|q| b.take_tx(q).unwrap()).collect();
        assert!(b.take_rx(1).is_none());
        for (i, tx) in others.iter_mut().enumerate() {
            send(&mut **tx, packets(&devices.pool(), &[frame(i as u32, 60)]));
        }
        drop((a, rx_a, tx_a, b, rx_b, tx_b, others));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}

/// A UDP packet of 60 bytes in an Ethernet frame, to port 9.
fn udp(source_port: u16) -> Vec<u8> {
    let mut f = frame(0, 60);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..34].copy_from_slice(&[69, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xbd, 10, 0, 0, 1, 10, 0, 0, 2]);
    f[34..36].copy_from_slice(&(10_000 + source_port).to_be_bytes());
    f[36..42].copy_from_slice(&[0, 9, 0, 26, 0, 0]);
    f
}

#[test]
fn xdp_sockets_work_and_leave_nothing() {
    in_child("xdp_sockets_work_and_leave_nothing", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(16_383, &[]);
        claim(&devices, "af_xdp:va");
        claim(&devices, "af_xdp:vb");
        if let Err(error) = devices.start() {
            println!("skipped: no XDP sockets here: {error}");
            return;
        }
        let ((a, rx_a, mut tx_a), (b, mut rx_b, tx_b)) =
            (open(&devices, "af_xdp:va"), open(&devices, "af_xdp:vb"));
        assert_eq!((a.driver().as_str(), a.mtu(), a.link().up), ("net_af_xdp", 1500, true));
        assert!(a.mac().is_some() && a.mac() != b.mac());
        assert!(ip("-d link show vb").contains("promiscuity 1"));
        let frames: Vec<_> = (0..100).map(|i| frame(i, 60 + i as usize)).collect();
        send(&mut *tx_a, packets(&devices.pool(), &frames));
        assert_eq!(receive(&mut *rx_b, 100, ours), frames);
        assert_eq!((a.stats().tx_packets, b.stats().rx_packets), (100, 100));
        // A link that comes back works again.
        ip("link set va down");
        wait_until("both are down", || !(a.link().up || b.link().up));
        ip("link set va up");
        wait_until("both are up", || a.link().up && b.link().up);
        send(&mut *tx_a, packets(&devices.pool(), &frames));
        assert_eq!(receive(&mut *rx_b, 100, ours), frames);
        drop((a, rx_a, tx_a, b, rx_b, tx_b));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
        let after = ip("-d link show vb");
        assert!(!after.contains("xdp") && after.contains("promiscuity 0"), "{after}");
    });
}

/// Capacity of the pool, and what there is to know, with an XDP socket whose rings hold 2,048 buffers each, and so many
/// devices to come.
fn pool_with_xdp(size: PoolSize, expected: usize) -> (usize, Vec<String>) {
    veth("va", "vb");
    let devices = DpdkDevices::new(EalOptions { args: vec!["--no-huge".to_owned()] });
    devices.set_pool_size(size);
    (0..expected).for_each(|_| devices.expect());
    claim(&devices, "va");
    devices.start().unwrap();
    let found = (devices.pool().capacity(), devices.warnings());
    assert_eq!(devices.close(), 0);
    found
}

#[test]
fn a_pool_is_what_rings_hold_and_some_more() {
    in_child("a_pool_is_what_rings_hold_and_some_more", || {
        if own_namespace() {
            assert_eq!(pool_with_xdp(PoolSize::default(), 0), (4096 + 16_384, vec![]));
        }
    });
}

#[test]
fn a_pool_has_room_for_devices_to_come() {
    in_child("a_pool_has_room_for_devices_to_come", || {
        if own_namespace() {
            assert_eq!(pool_with_xdp(PoolSize::default(), 3), (4096 + 16_384 + 3 * 2048, vec![]));
        }
    });
}

#[test]
fn a_pool_has_no_more_for_many_devices_to_come() {
    in_child("a_pool_has_no_more_for_many_devices_to_come", || {
        if own_namespace() {
            assert_eq!(pool_with_xdp(PoolSize::default(), 252), (4096 + 32_768, vec![]));
        }
    });
}

#[test]
fn what_comes_on_top_can_be_said() {
    in_child("what_comes_on_top_can_be_said", || {
        if own_namespace() {
            let size = PoolSize { spare: Some(1024), ..PoolSize::default() };
            assert_eq!(pool_with_xdp(size, 3), (4096 + 1024, vec![]));
        }
    });
}

#[test]
fn who_asks_for_too_few_buffers_is_told() {
    in_child("who_asks_for_too_few_buffers_is_told", || {
        if own_namespace() {
            let size = PoolSize { buffers: Some(4200), ..PoolSize::default() };
            let told = "of 4200 packet buffers 4096 may be in the rings of devices: packets may stop for want of \
                        others (DPDKInfo)";
            assert_eq!(pool_with_xdp(size, 3), (4200, vec![told.to_owned()]));
        }
    });
}

#[test]
fn xdp_sockets_use_every_buffer_of_the_pool() {
    in_child("xdp_sockets_use_every_buffer_of_the_pool", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = devices(12_287, &[]);
        claim(&devices, "af_xdp:va");
        claim(&devices, "af_xdp:vb");
        if let Err(error) = devices.start() {
            assert!(!error.message.contains("cannot reach"), "{error}");
            println!("skipped: no XDP sockets here: {error}");
            return;
        }
        let ((a, mut rx_a, mut tx_a), (b, mut rx_b, mut tx_b)) =
            (open(&devices, "af_xdp:va"), open(&devices, "af_xdp:vb"));
        // A thread without a cache gets the buffers in turn, so that each is sent and receives several times.
        for round in 0..600_u32 {
            let frames: Vec<_> = (0..64).map(|i| frame(round * 64 + i, 60)).collect();
            send(&mut *tx_a, packets(&devices.pool(), &frames));
            assert!(receive(&mut *rx_b, 64, ours) == frames, "{round}");
            send(&mut *tx_b, packets(&devices.pool(), &frames));
            assert!(receive(&mut *rx_a, 64, ours) == frames, "{round}");
        }
        let waiting = devices.pool().in_use();
        drop((a, rx_a, tx_a, b, rx_b, tx_b));
        assert!(waiting <= 8192, "{waiting} buffers of four rings of 2,048");
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}

#[test]
fn linux_answers_on_a_tap() {
    in_child("linux_answers_on_a_tap", || {
        if !own_namespace() {
            return;
        }
        let devices = devices(8191, &[]);
        claim(&devices, "tap:rbt0");
        devices.start().unwrap();
        ip("address add 10.98.0.1/24 dev rbt0");
        ip("link set rbt0 up");
        let (port, mut rx, mut tx) = open(&devices, "tap:rbt0");
        assert_eq!(port.driver(), "tap");
        // Who has 10.98.0.1? Tell 10.98.0.2.
        let us = [2, 0, 0, 0, 0, 9];
        let mut request = vec![0xff; 6];
        request.extend(us);
        request.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        request.extend(us);
        request.extend([10, 98, 0, 2, 0, 0, 0, 0, 0, 0, 10, 98, 0, 1]);
        send(&mut *tx, packets(&devices.pool(), &[request]));
        let answers = receive(&mut *rx, 1, |p| p.data().get(12..22) == Some(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]));
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0][28..32], [10, 98, 0, 1]);
        assert_eq!(answers[0][32..38], us);
        drop((port, rx, tx));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
        assert!(!ip("link show").contains("rbt0"));
    });
}

/// A tap whose interface is down, then one that is deleted: frames are dropped by name, and nothing waits behind them.
#[test]
fn a_tap_refuses_by_name() {
    in_child("a_tap_refuses_by_name", || {
        if !own_namespace() {
            return;
        }
        let devices = devices(8191, &[]);
        devices.claim("tap:rbt0", Claim { rx_queues: 1, tx_queues: 3, ..Claim::default() }).unwrap();
        devices.start().unwrap();
        let (port, mut rx, mut tx) = open(&devices, "tap:rbt0");
        assert_eq!((port.queues().rx_queues, port.queues().tx_queues, port.link().up), (1, 3, true));
        let mut refused = |frames: &[Vec<u8>], why: Refusal, packets: u64| {
            let sent = tx.tx(packets_of(&devices, frames));
            assert_eq!((sent.packets, sent.rest.len()), (frames.len(), 0));
            assert_eq!((sent.refused as u64, tx.refusals()[why]), (packets, packets), "{why:?}");
        };
        refused(&[vec![1; 13], frame(1, 60)], Refusal::BadFrame, 1);
        ip("link set rbt0 down");
        assert!(!port.link().up);
        refused(&[frame(1, 60), frame(2, 60), frame(3, 60)], Refusal::LinkDown, 3);
        ip("link set rbt0 name other mtu 9000");
        ip("link set other up");
        assert_eq!((port.mtu(), port.link().up), (9000, true));
        refused(&[frame(1, 1514), frame(2, 1900)], Refusal::DeviceGone, 0);
        // What Linux sends, and is longer than a buffer, is dropped by name, too.
        ip("address add 10.98.0.1/24 dev other");
        ip("neigh add 10.98.0.2 lladdr 02:00:00:00:00:09 dev other");
        let to = std::net::UdpSocket::bind("10.98.0.1:0").unwrap();
        to.send_to(&[7; 4000], "10.98.0.2:9").unwrap();
        to.send_to(&[7; 1000], "10.98.0.2:9").unwrap();
        let arrived = receive(&mut *rx, 1, |p| p.len() == 1042);
        assert_eq!(arrived.len(), 1);
        assert_eq!(rx.losses()[0], ("oversized", 1));
        ip("link del other");
        refused(&[frame(1, 60), frame(2, 60)], Refusal::DeviceGone, 2);
        let counted = port.extended_stats();
        assert!(counted.contains(&("tx_link_down".to_owned(), 3)), "{counted:?}");
        assert_eq!(port.stats().tx_errors, 6);
        drop((port, rx, tx));
        assert_eq!((devices.close(), unaccounted()), (0, 0));
    });
}

fn packets_of(devices: &DpdkDevices, frames: &[Vec<u8>]) -> packet::Batch {
    packets(&devices.pool(), frames)
}

#[test]
fn settings_of_an_interface_are_put_back() {
    in_child("settings_of_an_interface_are_put_back", || {
        if !own_namespace() {
            return;
        }
        veth("va", "vb");
        let devices = DpdkDevices::new(EalOptions { args: vec!["--no-huge".to_owned()] });
        devices
            .claim(
                "va",
                Claim { rx_queues: 1, tx_queues: 1, mtu: 4000, promiscuous: true, ..Claim::default() },
            )
            .unwrap();
        devices.claim("vb", Claim { rx_queues: 1, tx_queues: 1, mtu: 4000, ..Claim::default() }).unwrap();
        devices.start().unwrap();
        let ((a, rx_a, mut tx_a), (b, mut rx_b, tx_b)) = (open(&devices, "va"), open(&devices, "vb"));
        assert_eq!(a.mtu(), 4000);
        let frames = [frame(1, 4014), frame(2, 60)];
        send(&mut *tx_a, packets(&devices.pool(), &frames));
        assert_eq!(receive(&mut *rx_b, 2, ours), frames);
        drop((a, rx_a, tx_a, b, rx_b, tx_b));
        assert_eq!(devices.close(), 0);
        let after = ip("-d link show va");
        assert!(after.contains("mtu 1500") && after.contains("promiscuity 0"), "{after}");
    });
}

#[test]
fn an_ordinary_user_is_told_what_is_missing() {
    in_child("an_ordinary_user_is_told_what_is_missing", || {
        if is_root() {
            // SAFETY: plain system call; libc changes all threads.
            #[allow(unsafe_code)]
            let code = unsafe { libc::setresuid(65_534, 65_534, 65_534) };
            assert_eq!(code, 0);
        }
        let devices = devices(1023, &[]);
        claim(&devices, "lo");
        let error = devices.start().unwrap_err();
        assert_eq!(error.message, "cannot open lo by a raw socket: Operation not permitted (os error 1)");
        assert!(error.help.contains("CAP_NET_RAW"), "{}", error.help);
        // Devices that need no privileges are another matter, but not after a failed start.
        assert_eq!(devices.limits("net_null0").unwrap_err().message, "the devices were closed");
    });
}

#[test]
fn two_instances_do_not_disturb_each_other() {
    const NAME: &str = "two_instances_do_not_disturb_each_other";
    if is_child(NAME) {
        let devices = devices(1023, &[]);
        claim(&devices, "net_ring0");
        devices.start().unwrap();
        let (port, mut rx, mut tx) = open(&devices, "net_ring0");
        println!("\nready");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        let frames: Vec<_> = (0..100).map(|i| frame(i, 60)).collect();
        send(&mut *tx, packets(&devices.pool(), &frames));
        assert_eq!(receive(&mut *rx, 100, |_| true), frames);
        drop((port, rx, tx));
        assert_eq!(devices.close(), 0);
        return;
    }
    let mut children: Vec<_> =
        (0..2).map(|_| child(NAME).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()).collect();
    // Both are up at once before either goes on.
    let outputs: Vec<_> = children.iter_mut().map(wait_until_up).collect();
    for child in &mut children {
        writeln!(child.stdin.take().unwrap(), "go").unwrap();
    }
    for (mut child, output) in children.into_iter().zip(outputs) {
        let rest: Vec<String> = output.lines().map(Result::unwrap).collect();
        assert!(child.wait().unwrap().success(), "{rest:#?}");
    }
}

/// Waits for what Linux tells the other end of a cable in its own time.
fn wait_until(what: &str, mut happens: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !happens() {
        assert!(Instant::now() < end, "not after 5 s: {what}");
    }
}

/// Waits until a child process has printed that it is up; gives what it prints then.
fn wait_until_up(child: &mut Child) -> BufReader<ChildStdout> {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != "ready" {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0);
    }
    output
}

#[test]
fn what_killed_instances_left_is_swept() {
    const NAME: &str = "what_killed_instances_left_is_swept";
    if is_child(NAME) {
        let devices = devices(1023, &[]);
        claim(&devices, "net_null0");
        devices.start().unwrap();
        println!("\nready");
        // Until it is killed, or told to end.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        assert_eq!(devices.close(), 0);
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = child(NAME);
        command.env("RUNTIME_DIRECTORY", base.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let dir = |child: &Child| base.path().join(format!("dpdk/routebricks-{}", child.id()));
    let mut killed: Vec<_> = (0..2).map(|_| start()).collect();
    for child in &mut killed {
        wait_until_up(child);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(dir(child).join("dpdk_telemetry.v2").exists());
    }
    // Several start at once, and sweep at once; each keeps its own.
    let mut living: Vec<_> = (0..4).map(|_| start()).collect();
    let outputs: Vec<_> = living.iter_mut().map(wait_until_up).collect();
    for child in &killed {
        assert!(!dir(child).exists());
    }
    for child in &mut living {
        assert!(
            dir(child).join("dpdk_telemetry.v2").exists() && dir(child).join("routebricks.lock").exists()
        );
    }
    for child in &mut living {
        writeln!(child.stdin.take().unwrap(), "end").unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!dir(child).exists());
    }
    drop(outputs);
}

#[test]
fn statistics_can_be_read_from_outside() {
    in_child("statistics_can_be_read_from_outside", || {
        if facts().huge_pages.iter().all(|h| h.free * h.size_kib < 128 << 10) || !is_root() {
            println!("skipped: no free huge pages, or not root");
            return;
        }
        let devices = DpdkDevices::new(EalOptions::default());
        devices.set_pool_size(PoolSize { buffers: Some(1023), ..PoolSize::default() });
        claim(&devices, "net_null0");
        devices.start().unwrap();
        let (port, mut rx, tx) = open(&devices, "net_null0");
        let batch = rx.rx(77).batch;
        assert_eq!(batch.len(), 77);
        batch.free();
        let dir = format!("/var/run/dpdk/routebricks-{}", std::process::id());
        let answer = telemetry(&format!("{dir}/dpdk_telemetry.v2"), "/ethdev/stats,0");
        assert!(answer.contains("\"ipackets\": 77") || answer.contains("\"ipackets\":77"), "{answer}");
        drop((port, rx, tx));
        assert_eq!(devices.close(), 0);
        assert!(!Path::new(&dir).exists());
    });
}

/// Asks DPDK's telemetry socket.
#[allow(unsafe_code)]
fn telemetry(path: &str, question: &str) -> String {
    // SAFETY: all-zero is a valid address.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = u16::try_from(libc::AF_UNIX).unwrap();
    assert!(path.len() < address.sun_path.len());
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: plain system call; the result is checked.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0) };
    assert!(fd >= 0);
    // SAFETY: just made, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let size = u32::try_from(size_of::<libc::sockaddr_un>()).unwrap();
    // SAFETY: a valid address of that size.
    assert_eq!(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), size) }, 0);
    let receive = || {
        let mut bytes = vec![0_u8; 16_384];
        // SAFETY: room for that many bytes.
        let n = unsafe { libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        bytes.truncate(usize::try_from(n).unwrap());
        String::from_utf8(bytes).unwrap()
    };
    receive();
    // SAFETY: valid for that many bytes.
    let n = unsafe { libc::send(socket.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) };
    assert_eq!(usize::try_from(n).unwrap(), question.len());
    receive()
}
