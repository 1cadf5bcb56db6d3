use super::*;
use crate::harness;
use graph::Span;
use packet::Pool;
use packet::wire::ipv6::Header;
use proptest::prelude::*;

const SOURCE: u128 = 0x2001_0db8 << 96 | 1;

fn packet(next: u8, payload: &[u8], change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut header = Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: payload.len() as u16,
        next_header: next,
        hop_limit: 64,
        source: SOURCE,
        destination: SOURCE + 1,
    };
    change(&mut header);
    [&header.bytes()[..], payload].concat()
}

fn outcome(config: &str, bytes: &[u8]) -> String {
    harness::outcome(&format!("CheckIP6Header({config})"), bytes)
}

#[test]
fn every_check() {
    let lost = |reason: &str| format!("i.{reason} = 1");
    let good = packet(17, b"12345678", |_| {});
    assert_eq!(outcome("", &good), "48");
    assert_eq!(outcome("", &[&good[..], b"padding"].concat()), "48");
    assert_eq!(outcome("", &good[..39]), lost("short"));
    assert_eq!(outcome("", &[&[0x45], &good[1..]].concat()), lost("bad_version"));
    assert_eq!(outcome("", &good[..47]), lost("bad_length"));
    assert_eq!(outcome("", &packet(59, b"", |_| {})), "40");
    let jumbo = packet(0, &[17, 0, 0xc2, 4, 0, 1, 0, 0], |h| h.payload_len = 0);
    assert_eq!(outcome("", &jumbo), lost("jumbogram"));
    assert_eq!(outcome("", &packet(0, b"", |_| {})), lost("bad_extension"));
    assert_eq!(outcome("", &packet(0, &[17, 0, 1, 4, 0, 0, 0, 0], |_| {})), "48");
    assert_eq!(outcome("", &packet(0, &[17, 1, 1, 4, 0, 0, 0, 0], |_| {})), lost("bad_extension"));
    // What other extension headers are like is no business of a node on the way.
    for (next, payload) in [
        (60, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0][..]),
        (60, &[17, 9, 1, 4, 0, 0, 0, 0]),
        (60, &[]),
        (43, &[17, 0, 0, 1, 0, 0, 0, 0]),
        (43, &[17]),
        (44, &[17, 0, 0, 9, 0, 0, 0, 1]),
        (44, &[60, 0, 0, 1, 0, 0]),
        (50, &[1]),
        (51, &[17, 200, 0, 0]),
        (135, &[]),
        (253, &[]),
    ] {
        assert_eq!(outcome("", &packet(next, payload, |_| {})), (40 + payload.len()).to_string(), "{next}");
    }
    assert_eq!(outcome("", &packet(60, &[60, 0, 1, 4, 0, 0, 0, 0].repeat(17), |_| {})), "176");
    assert_eq!(outcome("", &packet(17, b"", |h| h.source = 0)), lost("bad_source"));
    assert_eq!(outcome("", &packet(17, b"", |h| h.source = 0xff02 << 112)), lost("bad_source"));
    assert_eq!(outcome("2001:db8::/64", &good), lost("bad_source"));
    assert_eq!(outcome("2001:db8::/128", &packet(17, b"", |h| h.source = 0)), "40");
    assert_eq!(outcome("BADSRC 2001:db8::1", &good), lost("bad_source"));
    assert_eq!(outcome("BADDST 2001:db8::2", &good), lost("bad_destination"));
    assert_eq!(outcome("BADDST 2001:db8::3", &good), "48");
    let framed = [&[0; 14][..], &good].concat();
    assert_eq!((outcome("14", &framed), outcome("OFFSET 14", &framed)), ("62".into(), "62".into()));
    assert_eq!(outcome("::1, 14", &framed), "62");
    assert_eq!(outcome("60", &framed), lost("short"));
}

fn element(offset: usize, bad_source: &str, bad_destination: &str) -> CheckIP6Header {
    let set = |text: &str| AddressSet6::from_arg(&Text::verbatim(text, Span::default())).unwrap();
    let (bad_source, bad_destination) = (set(bad_source), set(bad_destination));
    let (name, counts) = (String::new(), PerWorker::new(1));
    CheckIP6Header { offset, bad_source, bad_destination, verbose: false, name, counts }
}

/// Bytes, network and transport offset, destination annotation.
type Facts = (Vec<u8>, [Option<usize>; 2], u32);

fn facts(packet: &Packet) -> Facts {
    (packet.data().to_vec(), [packet.network_offset(), packet.transport_offset()], packet.dst_ip())
}

/// First octet, payload length, next header, first octets of source and destination, bytes from the header on.
fn any_head() -> impl Strategy<Value = (u8, u16, u8, [u8; 2], usize)> {
    (
        prop_oneof![30 => Just(0x60u8), 1 => any::<u8>()],
        prop_oneof![10 => 0u16..40, 1 => any::<u16>()],
        prop_oneof![30 => Just(17u8), 1 => Just(6), 1 => Just(58), 1 => Just(59), 1 => Just(0), 1 => any::<u8>()],
        proptest::array::uniform2(
            prop_oneof![30 => Just(0x20u8), 1 => Just(0), 1 => Just(0xff), 1 => Just(0xfe)],
        ),
        prop_oneof![30 => 60usize..80, 1 => 34usize..60],
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// The short look agrees with all checks wherever it says that a packet is good, and marks it the same way.
    #[test]
    fn what_is_usual_is_good(
        first in prop_oneof![8 => Just(0x60u8), 1 => any::<u8>()],
        length in prop_oneof![8 => 0u16..30, 1 => any::<u16>()],
        next in prop_oneof![3 => Just(17u8), 1 => any::<u8>(), 1 => Just(0), 1 => Just(44)],
        octets in proptest::array::uniform2(prop_oneof![Just(0u8), Just(0x20), Just(0xff), any::<u8>()]),
        len in 34usize..80,
        offset in prop_oneof![Just(0usize), Just(14)],
    ) {
        let element = element(offset, ":: ff00::/8", "::/8");
        let mut bytes = vec![0; offset + len];
        let fields = [(0, first), (4, length.to_be_bytes()[0]), (5, length.to_be_bytes()[1]), (6, next), (8, octets[0]), (24, octets[1])];
        for (place, value) in fields {
            if let Some(byte) = bytes.get_mut(offset + place) {
                *byte = value;
            }
        }
        let pool = Pool::heap(8, 256);
        let (mut short, mut long) = (pool.packet(&bytes).unwrap(), pool.packet(&bytes).unwrap());
        let usual = element.is_usual(&mut short, offset);
        let all = element.check(&mut long);
        if usual {
            prop_assert_eq!(all, Ok(()));
            prop_assert_eq!(short.data(), long.data());
            let Headers { network, transport } = element.headers();
            let marked = (long.network_offset(), long.transport_offset(), long.dst_ip());
            prop_assert_eq!(marked, (Some(network.into()), Some(transport.into()), 0));
        } else {
            prop_assert_eq!(short.data(), &bytes[..]);
        }
        short.free();
        long.free();
    }

    /// A batch is its packets: what all checks say of each is what becomes of it.
    #[test]
    fn together_as_one_by_one(
        heads in proptest::collection::vec(any_head(), 0..40),
        offset in prop_oneof![Just(0usize), Just(14)],
        many in any::<bool>(),
    ) {
        let element = element(offset, if many { "100::/8 200::/8 300::/8 fe00::/8 ff00::/8" } else { ":: ff00::/8" }, "fe80::/10");
        prop_assert_eq!(element.bad_source.few_octets().is_some(), !many);
        prop_assert!(element.bad_destination.few_octets().is_some());
        let pool = Pool::heap(128, 256);
        let (mut batch, mut want, mut faults) = (Batch::empty(), Vec::new(), Vec::new());
        for (first, length, next, octets, len) in heads {
            let mut bytes = vec![0xa5; offset + len];
            let [high, low] = length.to_be_bytes();
            for (place, value) in [(0, first), (4, high), (5, low), (6, next), (8, octets[0]), (24, octets[1])] {
                bytes[offset + place] = value;
            }
            batch.push(pool.packet(&bytes).unwrap());
            let mut alone = pool.packet(&bytes).unwrap();
            match element.check(&mut alone) {
                Ok(()) => want.push(facts(&alone)),
                Err(fault) => faults.push(fault),
            }
            alone.free();
        }
        let mut found = Vec::new();
        element.look(&mut batch, |mut packet| match element.check(&mut packet) {
            Ok(()) => Some(packet),
            Err(fault) => {
                found.push(fault);
                packet.free();
                None
            }
        });
        prop_assert_eq!(found, faults);
        prop_assert_eq!(batch.iter().map(facts).collect::<Vec<_>>(), want);
        batch.free();
        prop_assert_eq!(pool.in_use(), 0);
    }
}
