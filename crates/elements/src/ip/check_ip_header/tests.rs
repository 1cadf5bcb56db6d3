use super::*;
use crate::harness::{self, Bench, Setup};
use graph::Span;
use packet::Pool;
use packet::lanes::four;
use packet::wire::ipv4;
use proptest::prelude::*;

fn header(change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut h =
        b"\x45\x00\x00\x18\x00\x01\x00\x00\x40\x11\x00\x00\x0a\x00\x00\x01\x0a\x00\x00\x02DATA".to_vec();
    change(&mut h);
    ipv4::set_checksum(&mut h);
    h
}

fn outcome(config: &str, bytes: &[u8]) -> String {
    harness::outcome(&format!("CheckIPHeader({config})"), bytes)
}

#[test]
fn every_check() {
    let lost = |reason: &str| format!("i.{reason} = 1");
    let good = header(|_| {});
    let raw = |at: usize, value: u8| {
        let mut h = good.clone();
        h[at] = value;
        h
    };
    assert_eq!(outcome("", &good), "24");
    assert_eq!(outcome("", &[&good[..], b"padding"].concat()), "24");
    assert_eq!(outcome("", &good[..19]), lost("short"));
    assert_eq!(outcome("", &raw(0, 0x65)), lost("bad_version"));
    assert_eq!(outcome("", &raw(0, 0x44)), lost("bad_header_length"));
    assert_eq!(outcome("", &header(|h| h[3] = 19)), lost("bad_length"));
    assert_eq!(outcome("", &good[..23]), lost("bad_length"));
    assert_eq!(outcome("", &raw(0, 0x47)), lost("bad_length"));
    assert_eq!(outcome("", &raw(8, 0x41)), lost("bad_checksum"));
    assert_eq!(outcome("CHECKSUM false", &raw(8, 0x41)), "24");
    assert_eq!(outcome("", &header(|h| h[12..16].fill(0))), lost("bad_source"));
    assert_eq!(outcome("", &header(|h| h[12..16].fill(255))), lost("bad_source"));
    assert_eq!(outcome("GOODDST 10.0.0.2", &header(|h| h[12..16].fill(255))), "24");
    assert_eq!(outcome("BADSRC 127.0.0.0/8", &header(|h| h[12..16].fill(255))), "24");
    assert_eq!(outcome("BADSRC 127.0.0.0/8", &header(|h| h[12] = 127)), lost("bad_source"));
    assert_eq!(outcome("INTERFACES 10.0.0.9/30", &header(|h| h[15] = 11)), lost("bad_source"));
    assert_eq!(outcome("INTERFACES 10.0.0.2/24", &header(|h| h[15] = 255)), "24");
    assert_eq!(outcome("BADDST 127.0.0.0/8", &header(|h| h[16] = 127)), lost("bad_destination"));
    assert_eq!(outcome("1.255.255.255 10.0.0.255", &header(|h| h[15] = 255)), lost("bad_source"));
    let framed = [&[0; 14][..], &good].concat();
    assert_eq!((outcome("14", &framed), outcome("OFFSET 14", &framed)), ("38".into(), "38".into()));
    assert_eq!(outcome("10.0.0.255, 14", &framed), "38");
    assert_eq!(outcome("40", &framed), lost("short"));
}

/// Bytes, network and transport offset, destination address.
type Facts = (Vec<u8>, Option<usize>, Option<usize>, u32);

fn facts(p: &Packet) -> Facts {
    (p.data().to_vec(), p.network_offset(), p.transport_offset(), p.dst_ip())
}

/// A packet at its place among good ones; whether they have plain TTLs.
struct Together<'a> {
    element: &'a CheckIPHeader<true>,
    place: usize,
    bytes: &'a [u8],
    good: &'a [u8],
}

impl Work for Together<'_> {
    type Output = (Vec<(bool, Facts)>, bool);

    #[inline(always)]
    fn run<V: Lanes<N>, const N: usize>(self) -> Self::Output {
        let pool = Pool::heap(N, 256);
        let bytes = |i| if i == self.place { self.bytes } else { self.good };
        let mut batch = Batch::empty();
        (0..N).for_each(|i| batch.push(pool.packet(bytes(i)).unwrap()));
        let illegal = (self.element.bad_source.few().unwrap(), self.element.bad_destination.few().unwrap());
        let (headers, mut done, mut unplain) = (self.element.headers(), false, V::splat(0));
        let look = |heads: Heads<'_, V, N, _>, destinations: &mut [u32; N]| {
            let found = check_many(heads, destinations, illegal, None, &mut unplain);
            done = found.is_some();
            found
        };
        batch.find_headers(headers, look, |_, _| None, Some);
        let all = batch.iter().map(|packet| (done, facts(packet))).collect();
        batch.free();
        (all, unplain.is_zero())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// The short look agrees with all checks wherever it says that a packet is good, and marks it the same way.
    #[test]
    fn what_is_usual_is_good(
        first in prop_oneof![8 => Just(0x45u8), 1 => any::<u8>()],
        total in prop_oneof![8 => 18u16..50, 1 => any::<u16>()],
        addresses in proptest::array::uniform8(prop_oneof![Just(0u8), Just(10), Just(127), Just(224), Just(255), any::<u8>()]),
        len in 14usize..60,
        offset in prop_oneof![Just(0usize), Just(14)],
        sound in prop_oneof![8 => Just(true), 1 => Just(false)],
        ttl in prop_oneof![4 => Just(64u8), 1 => 0u8..3],
        place in 0usize..4,
    ) {
        let set = |text: &str| AddressSet::from_arg(&Text::verbatim(text, Span::default())).unwrap();
        let element = CheckIPHeader::<true> {
            offset,
            bad_source: set("0.0.0.0 255.255.255.255 10.255.0.255 224.0.0.0/4"),
            good_destination: set("10.0.0.10"),
            bad_destination: set("0.0.0.0/8 127.0.0.0/8"),
            own: None,
            checksum: true,
            verbose: false,
            name: String::new(),
            counts: PerWorker::new(1),
            lookup: OnceLock::new(),
        };
        let mut bytes = vec![0xa5; offset + len];
        let ip = &mut bytes[offset..];
        ip[0] = first;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        ip[8] = ttl;
        for (place, octet) in (12..).zip(addresses) {
            if let Some(byte) = ip.get_mut(place) {
                *byte = octet;
            }
        }
        if sound {
            ipv4::set_checksum(ip);
        }
        let pool = Pool::heap(8, 256);
        let plain = PlainTtls(Cell::new(true));
        let (mut short, mut long) = (pool.packet(&bytes).unwrap(), pool.packet(&bytes).unwrap());
        let (usual, all) = (element.check_usual(&mut short, offset, &plain), element.check(&mut long, None));
        if let Some(destination) = usual {
            prop_assert_eq!(all, Ok(()));
            prop_assert_eq!((short.data(), destination), (long.data(), long.dst_ip()));
            prop_assert_eq!(Some(plain.0.get()), long.data()[offset..].first_chunk().map(ipv4::has_plain_ttl));
        } else {
            prop_assert_eq!(short.data(), &bytes[..]);
        }
        // Others that are good and this one: done with together if and only if this one is plainly good, too.
        let mut good = vec![0xa5; offset + 24];
        good[offset..].copy_from_slice(&header(|h| h[12..20].copy_from_slice(&[11, 0, 0, 1, 12, 0, 0, 1])));
        let source = u32::from_be_bytes(addresses[..4].try_into().unwrap());
        let plainly_good = all.is_ok() && first == 0x45 && !element.bad_source.contains(source);
        let bytes = &bytes[..];
        // By the header itself: `plain` has seen only what the short look found to be good.
        let unplain = plainly_good && !bytes[offset..].first_chunk().is_some_and(ipv4::has_plain_ttl);
        let look = || Together { element: &element, place, bytes, good: &good };
        for together in [four(look()), widest(look())] {
            let (ours, others) = match plainly_good {
                true => (facts(&long), (good[..offset + 24].to_vec(), Some(offset), Some(offset + 20), 0x0c00_0001)),
                false => ((bytes.to_vec(), None, None, 0), (good.clone(), None, None, 0)),
            };
            let (together, are_plain) = together;
            prop_assert_eq!(are_plain, !unplain);
            for (i, (done, facts)) in together.into_iter().enumerate() {
                prop_assert_eq!(done, plainly_good);
                prop_assert_eq!(&facts, if i == place { &ours } else { &others });
            }
        }
        // It must not send everything the long way.
        if all.is_ok() && first == 0x45 && addresses[0] > 10 && addresses[0] < 127 && addresses[4] > 10 && addresses[4] < 127 {
            prop_assert!(usual.is_some());
        }
        short.free();
        long.free();
    }
}

#[test]
fn mistakes_in_arguments() {
    for (arguments, want) in [
        ("14x", "OFFSET: invalid number"),
        ("10.0.0.300", "BADSRC: address: parse error"),
        ("BADSRC 10.0.0.0/40", "BADSRC: address: prefix length out of range, bound 32"),
        ("14, 15", "too many arguments"),
    ] {
        let error = Bench::new(&format!("Idle -> CheckIPHeader({arguments}) -> Idle;"), &Setup::default());
        let error = error.err().unwrap();
        assert!(error.contains(want), "{arguments}: {error}");
    }
}

#[test]
fn options_count_for_the_checksum_and_the_details_say_why() {
    let with_option = |sum: bool| {
        let mut h = header(|_| {});
        h[0] = 0x46;
        if sum {
            ipv4::set_checksum(&mut h);
        }
        h
    };
    assert_eq!(outcome("", &with_option(true)), "24");
    assert_eq!(outcome("", &with_option(false)), "i.bad_checksum = 1");
    let text = "InfiniteSource(DATA 123, LIMIT 40) -> i :: CheckIPHeader -> Discard; i[1] -> bad :: Counter -> Discard;";
    let mut bench = Bench::new(text, &Setup::default()).unwrap();
    bench.run().unwrap();
    assert_eq!((bench.read("bad.count"), bench.read("i.drops")), ("40".into(), "40".into()));
    assert_eq!(bench.read("i.drop_details").lines().next(), Some("             40  tiny packet"));
    bench.write("i.reset_counts", "").unwrap();
    assert_eq!(bench.read("i.drops"), "0");
    bench.end().unwrap();
}
