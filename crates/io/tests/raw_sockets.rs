//! Raw sockets on the two ends of a cable: what is sent arrives as it was, and what cannot be sent blocks nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use io::linux::{Interface, PacketPort};
use io::{Claim, Port, Refusal, RxQueue, TxQueue};
use nix::sched::{CloneFlags, unshare};
use packet::{Batch, Pool};
use std::process::Command;
use std::time::{Duration, Instant};

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Waits for what the kernel does a little later.
fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test in a network namespace of its own, with a cable from `va` to `vb`.
fn on_a_cable(test: fn()) {
    let inside = move || {
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            println!("skipped: no namespaces without privileges");
            return;
        }
        let queues = "numtxqueues 4 numrxqueues 4";
        ip(&format!("link add va {queues} type veth peer name vb {queues}"));
        for name in ["va", "vb"] {
            let _ = std::fs::write(
                format!("/proc/thread-self/net/../../sys/net/ipv6/conf/{name}/disable_ipv6"),
                "1",
            );
            ip(&format!("link set {name} up"));
        }
        test();
    };
    std::thread::spawn(inside).join().unwrap();
}

fn open(name: &str, claim: Claim, pool: &Pool) -> PacketPort {
    PacketPort::open(name, &Interface::find(name).unwrap(), claim, pool.clone()).unwrap()
}

fn queues(rx_queues: u16) -> Claim {
    Claim { rx_queues, tx_queues: 1, promiscuous: true, ..Claim::default() }
}

/// A frame of our own EtherType, unless there is another in `behind`.
fn frame(behind: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(behind);
    bytes.extend([0x88, 0xb5]);
    bytes.resize(len, 7);
    bytes
}

/// A fragment of an IPv4 packet of UDP, of so many bytes, from this host.
fn fragment(host: u8, offset: u16, more: bool, payload: usize) -> Vec<u8> {
    let place = (offset / 8) | if more { 0x2000 } else { 0 };
    let mut f = frame(&[], 12);
    f.truncate(12);
    f.extend([8, 0, 0x45, 0]);
    f.extend((payload as u16 + 20).to_be_bytes());
    f.extend([0, host]);
    f.extend(place.to_be_bytes());
    f.extend([64, 17, 0, 0, 10, 0, 0, host, 10, 0, 1, 1]);
    let sum: u32 = f[14..34].chunks(2).map(|b| u32::from(u16::from_be_bytes([b[0], b[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f.resize(34 + payload, host);
    f
}

fn packets(pool: &Pool, frames: &[Vec<u8>]) -> Batch {
    frames.iter().map(|f| pool.packet(f).unwrap()).collect()
}

fn is_ours(frame: &[u8]) -> bool {
    frame[..6] == [2, 0, 0, 0, 0, 1]
}

/// What the queues bring until nothing has come for a while.
fn receive(rx: &mut [Box<dyn RxQueue>], count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut all = vec![Vec::new(); rx.len()];
    let mut end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        for (queue, got) in rx.iter_mut().zip(&mut all) {
            let batch = queue.rx(32).batch;
            got.extend(batch.iter().map(|p| p.data().to_vec()).filter(|f| is_ours(f)));
            batch.free();
        }
        if all.iter().map(Vec::len).sum::<usize>() >= count {
            // Nor does more come than was sent.
            end = end.min(Instant::now() + Duration::from_millis(100));
        }
    }
    all
}

fn sorted(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = frames.into_iter().collect();
    frames.sort();
    frames
}

#[test]
fn fragments_are_left_as_they_are_by_any_number_of_queues() {
    on_a_cable(|| {
        for count in [1, 2, 4, 7] {
            let pool = Pool::heap(4096, 2048);
            let (a, b) = (open("va", queues(1), &pool), open("vb", queues(count), &pool));
            let mut tx = a.take_tx(0).unwrap();
            let mut rx: Vec<_> = (0..count).map(|q| b.take_rx(q).unwrap()).collect();
            assert!(b.take_rx(count).is_none() && b.take_rx(0).is_none());
            // In order, the other way round, and some that lack the rest.
            let whole = |host| {
                [(0, true, 1480), (1480, true, 1480), (2960, false, 40)]
                    .map(|(o, m, p)| fragment(host, o, m, p))
            };
            let mut frames: Vec<_> = (1..60).flat_map(whole).collect();
            frames.extend((60..90).flat_map(whole).rev());
            frames.extend((90..120).map(|host| fragment(host, 8, true, 800)));
            for some in frames.chunks(40) {
                assert_eq!(tx.tx(packets(&pool, some)).rest.len(), 0);
            }
            let got = receive(&mut rx, frames.len());
            let used = got.iter().filter(|frames| !frames.is_empty()).count();
            assert!(used > usize::from(count) / 2, "{used} of {count} queues");
            for (i, of_one) in got.iter().enumerate() {
                for f in of_one {
                    let elsewhere = got.iter().enumerate().filter(|(j, _)| *j != i);
                    assert!(
                        elsewhere.flat_map(|(_, f)| f).all(|g| g[29] != f[29]),
                        "a host's fragments by two queues"
                    );
                }
            }
            assert_eq!(sorted(got.into_iter().flatten()), sorted(frames));
            let stats = b.stats();
            assert_eq!((stats.rx_missed, stats.rx_errors, a.stats().tx_errors), (0, 0, 0));
            drop((rx, tx));
            a.stop();
            b.stop();
            assert_eq!(pool.in_use(), 0);
        }
    });
}

#[test]
fn tags_stand_where_they_stood() {
    on_a_cable(|| {
        let pool = Pool::heap(1024, 2048);
        let (a, b) = (open("va", queues(1), &pool), open("vb", queues(1), &pool));
        let (mut tx, mut rx) = (a.take_tx(0).unwrap(), [b.take_rx(0).unwrap()]);
        let frames = [
            frame(&[], 60),
            frame(&[0x81, 0, 0, 0], 64),
            frame(&[0x81, 0, 0xe0, 100], 64),
            frame(&[0x88, 0xa8, 0, 5], 64),
            frame(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9], 1514),
            frame(&[0x81, 0, 0, 5], 1518),
        ];
        assert_eq!(tx.tx(packets(&pool, &frames)).refused, 0);
        assert_eq!(receive(&mut rx, frames.len()), [frames]);
    });
}

/// Sends frames, of which so many are refused for this reason, and none comes back.
fn refused(tx: &mut dyn TxQueue, pool: &Pool, frames: &[Vec<u8>], count: usize, why: Refusal) {
    let before = tx.refusals()[why];
    let sent = tx.tx(packets(pool, frames));
    assert_eq!((sent.packets, sent.refused, sent.rest.len()), (frames.len(), count, 0), "{why:?}");
    assert_eq!(tx.refusals()[why] - before, count as u64, "{why:?}");
}

#[test]
fn what_cannot_be_sent_or_received_blocks_nothing() {
    on_a_cable(|| {
        let (pool, large) = (Pool::heap(1024, 2048), Pool::heap(1024, 9856));
        let (a, b) = (open("va", queues(1), &large), open("vb", queues(1), &pool));
        let (mut tx, mut rx) = (a.take_tx(0).unwrap(), [b.take_rx(0).unwrap()]);
        assert_eq!((a.max_mtu(), b.max_mtu(), a.mtu()), (9834, 2026, 1500));
        // Longer than the MTU, and no frame at all, between those that can be sent.
        let [good, long] = [frame(&[], 60), frame(&[], 1600)];
        let frames = [good.clone(), long.clone(), long, good.clone()];
        refused(&mut *tx, &large, &frames, 2, Refusal::Oversized);
        refused(&mut *tx, &large, &[vec![2; 13], good.clone()], 1, Refusal::BadFrame);
        assert_eq!(receive(&mut rx, 3), [[good.clone(), good.clone(), good.clone()]]);
        // The MTU is what it is now; what is longer than a buffer is dropped by name.
        ip("link set va mtu 9000");
        ip("link set vb mtu 9000");
        assert_eq!(a.mtu(), 9000);
        let frames = [frame(&[], 9014), frame(&[], 2048), frame(&[], 2049), good.clone()];
        refused(&mut *tx, &large, &frames, 0, Refusal::Oversized);
        assert_eq!(receive(&mut rx, 2), [[frame(&[], 2048), good.clone()]]);
        assert_eq!(rx[0].losses()[0], ("oversized", 2));
        // Without a carrier, down, up again, gone.
        ip("link set vb down");
        wait_until(|| !a.link().up);
        refused(&mut *tx, &large, &[good.clone(), good.clone()], 2, Refusal::LinkDown);
        ip("link set vb up");
        ip("link set va down");
        refused(&mut *tx, &large, &[good.clone(), good.clone()], 2, Refusal::LinkDown);
        ip("link set va up");
        // The kernel drops what is sent before it has heard of the carrier.
        wait_until(|| ip("link show va").contains("state UP"));
        refused(&mut *tx, &large, &[good.clone(), good.clone()], 0, Refusal::LinkDown);
        assert_eq!(receive(&mut rx, 2), [[good.clone(), good.clone()]]);
        ip("link del va");
        refused(&mut *tx, &large, &[good.clone(), good.clone()], 2, Refusal::DeviceGone);
        // The kernel may have sent something of its own.
        assert!(rx[0].rx(32).batch.iter().all(|packet| packet.data() != good));
        assert!(a.extended_stats().contains(&("tx_link_down".to_owned(), 4)));
    });
}

#[test]
fn a_port_puts_back_what_it_has_changed() {
    on_a_cable(|| {
        let pool = Pool::heap(1024, 9856);
        let a = open("va", Claim { mtu: 4000, ..queues(3) }, &pool);
        let shown = ip("-d link show va");
        assert!(shown.contains("mtu 4000") && shown.contains("promiscuity 1"), "{shown}");
        let rx = a.take_rx(1).unwrap();
        a.stop();
        assert!(a.take_rx(2).is_none() && a.take_tx(0).is_none());
        let shown = ip("-d link show va");
        assert!(shown.contains("mtu 1500") && shown.contains("promiscuity 0"), "{shown}");
        drop(rx);
    });
}
