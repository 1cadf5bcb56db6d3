//! A Linux interface named without a driver: IP fragments pass as they are, and Linux keeps what it needs itself.

use std::time::{Duration, Instant};

use lab::capture::{RawPort, wait_for_frames};
use lab::netns::{self, Namespace};
use lab::packets::{ETHERTYPE_IP, Ip, MORE_FRAGMENTS, Mac, UDP, ethernet};
use lab::routebricks::{Launch, Routebricks};
use lab::router::Router;
use lab::veth::{self, End};
use lab::{Error, Result};

/// Bytes of IP payload in each fragment but the last.
const PIECE: usize = 200;
/// Packets that are sent in pieces.
const PACKETS: u16 = 20;

fn end<'a>(namespace: &'a Namespace, interface: &'a str, number: u8) -> End<'a> {
    End { namespace, interface, mac: Mac([2, 0, 0, 0, 0, number]), mtu: 1500 }
}

/// A packet of 500 bytes behind its header, and the fragments that make it up.
fn packet(id: u16) -> (Vec<u8>, Vec<Vec<u8>>) {
    let payload: Vec<u8> = (0..500_u16).map(|i| (i + id) as u8).collect();
    let frame =
        |ip: &Ip| ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 0]), ETHERTYPE_IP, &ip.build());
    let whole = Ip::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), id, UDP, payload);
    let pieces = whole.payload.chunks(PIECE).enumerate().map(|(n, bytes)| {
        let mut piece = whole.clone();
        let more = (n + 1) * PIECE < whole.payload.len();
        piece.fragment = (n * PIECE / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
        piece.payload = bytes.to_vec();
        frame(&piece)
    });
    (frame(&whole), pieces.collect())
}

/// What comes out of `h2`, sorted, when packets go into `h1` in fragments, through `conf/forward.click` with these
/// ports and workers; and what the router said.
fn forwarded(ports: [&str; 2], workers: &str, count: usize, setup: &str) -> Result<(Vec<Vec<u8>>, String)> {
    let (outside, inside) = (Namespace::unique("hosts")?, Namespace::unique("forward")?);
    let cable = |host, port, n| (end(&outside, host, n), end(&inside, port, n + 2));
    veth::connect(&[cable("h1", "eth1", 0), cable("h2", "eth2", 1)])?;
    inside.ip(setup)?;
    let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
    let variables = [format!("A={}", ports[0]), format!("B={}", ports[1])];
    let launch = Launch::conf("forward.click", &[&variables[0], &variables[1], "-j", workers])?;
    let mut router = Routebricks::start(&inside, launch, directory.path())?;
    let (from, to) = (RawPort::open(&outside, "h1")?, RawPort::open(&outside, "h2")?);
    for fragment in (0..PACKETS).flat_map(|id| packet(id).1) {
        from.send(&fragment)?;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut arrived = Vec::new();
    while arrived.len() < count && Instant::now() < deadline {
        wait_for_frames(&[&to], Duration::from_millis(50))?;
        while let Some(frame) = to.receive()? {
            arrived.push(frame);
        }
    }
    arrived.sort();
    let checks = router.stop()?;
    assert!(checks.iter().all(|check| check.holds), "{checks:?}");
    Ok((arrived, router.process().printed()?))
}

fn sorted(frames: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = frames.collect();
    frames.sort();
    frames
}

#[test]
fn fragments_pass_as_they_are() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let fragments = sorted((0..PACKETS).flat_map(|id| packet(id).1));
    for workers in ["1", "2"] {
        let (arrived, said) = forwarded(["eth1", "eth2"], workers, fragments.len(), "")?;
        assert!(!said.contains("warning:"), "{said}");
        assert_eq!(arrived, fragments, "-j {workers}");
    }
    Ok(())
}

/// With raw sockets as well, whatever the number of their queues (RFC 1812, 5.2.6).
#[test]
fn fragments_pass_raw_sockets_as_they_are() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let fragments = sorted((0..PACKETS).flat_map(|id| packet(id).1));
    for workers in ["1", "2", "3"] {
        let ports = ["af_packet:eth1", "af_packet:eth2"];
        let (arrived, said) = forwarded(ports, workers, fragments.len(), "")?;
        assert!(!said.contains("warning:"), "{said}");
        assert_eq!(arrived, fragments, "-j {workers}");
    }
    Ok(())
}

/// An interface that carries a bridge stays with Linux, which is told once.
#[test]
fn a_bridge_keeps_its_interface() -> Result<()> {
    if netns::skipped() {
        return Ok(());
    }
    let fragments = sorted((0..PACKETS).flat_map(|id| packet(id).1));
    let setup = "link add br7 type bridge\nlink set eth1 master br7\nlink set br7 up\n";
    let (arrived, said) = forwarded(["eth1", "eth2"], "1", fragments.len(), setup)?;
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning:")).collect();
    let expected = "warning: eth1: no XDP socket: Linux uses it itself (br7), and an XDP socket would take its \
                    packets away. A raw socket takes its place, which is slower; write af_packet:eth1 if that does \
                    no harm";
    assert_eq!(warnings, [expected]);
    assert_eq!(arrived, fragments);
    Ok(())
}
