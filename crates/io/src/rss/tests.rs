use super::*;

const NIC: RssOffer = RssOffer { fields: RssFields::FLOW, key: 52, table: 64 };

/// The hash that devices compute: for each bit of the input that is set, the 32 bits of the key from there on.
fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], i: usize| u32::from(bytes[i / 8] >> (7 - i % 8) & 1);
    let window = |at: usize| (at..at + 32).fold(0, |word, i| word << 1 | bit(key, i));
    (0..input.len() * 8).filter(|i| bit(input, *i) == 1).fold(0, |hash, i| hash ^ window(i))
}

/// Source and destination, as a device hashes them.
fn input(addresses: [&[u8]; 2], ports: Option<[u16; 2]>) -> Vec<u8> {
    let ports = ports.into_iter().flatten().flat_map(u16::to_be_bytes);
    addresses.concat().into_iter().chain(ports).collect()
}

/// The key and the vectors of Microsoft's "Verifying the RSS Hash Calculation".
const VERIFICATION_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

#[test]
fn the_reference_computes_what_devices_do() {
    for (source, destination, ports, addresses, with_ports) in [
        ([66, 9, 149, 187], [161, 142, 100, 80], [2794, 1766], 0x323e_8fc2, 0x51cc_c178),
        ([199, 92, 111, 2], [65, 69, 140, 83], [14230, 4739], 0xd718_262a, 0xc626_b0ea),
        ([24, 19, 198, 95], [12, 22, 207, 184], [12898, 38024], 0xd2d0_a5de, 0x5c2b_394a),
        ([38, 27, 205, 30], [209, 142, 163, 6], [48228, 2217], 0x8298_9176, 0xafc7_327f),
        ([153, 39, 163, 191], [202, 188, 127, 2], [44251, 1303], 0x5d18_09c5, 0x10e8_28a2),
    ] {
        let both: [&[u8]; 2] = [&source, &destination];
        assert_eq!(toeplitz(&VERIFICATION_KEY, &input(both, None)), addresses);
        assert_eq!(toeplitz(&VERIFICATION_KEY, &input(both, Some(ports))), with_ports);
    }
    // IPv6: from 3ffe:2501:200:1fff::7 to 3ffe:2501:200:3::1.
    let source = [0x3f, 0xfe, 0x25, 1, 2, 0, 0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 7];
    let destination = [0x3f, 0xfe, 0x25, 1, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1];
    let both: [&[u8]; 2] = [&source, &destination];
    assert_eq!(toeplitz(&VERIFICATION_KEY, &input(both, None)), 0x2cc1_8cd5);
    assert_eq!(toeplitz(&VERIFICATION_KEY, &input(both, Some([2794, 1766]))), 0x4020_7d3d);
}

#[test]
fn the_symmetric_key_hashes_both_directions_alike() {
    let rss = Rss { key: Some(RssKey::Symmetric), ..Rss::UNSAID };
    for key_len in [0, 40, 52] {
        let offer = RssOffer { key: key_len, ..NIC };
        let key = rss.key_bytes(offer).unwrap();
        assert_eq!(key.as_slice().len(), if key_len == 0 { 40 } else { key_len.into() });
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..200_u8 {
            let (a, b) = ([10, i, 3, 4], [192, 168, i.wrapping_mul(7), 9]);
            let (a6, b6) = ([i; 16], [i ^ 0x5a; 16]);
            let ports = [1000 + u16::from(i), 53];
            let back = [53, 1000 + u16::from(i)];
            for [from, to] in [[&a[..], &b[..]], [&a6[..], &b6[..]]] {
                let there = toeplitz(key.as_slice(), &input([from, to], Some(ports)));
                assert_eq!(there, toeplitz(key.as_slice(), &input([to, from], Some(back))));
                assert_eq!(
                    toeplitz(key.as_slice(), &input([from, to], None)),
                    toeplitz(key.as_slice(), &input([to, from], None))
                );
                seen.insert(there);
            }
        }
        assert!(seen.len() > 100, "{} hashes", seen.len());
        // Another key does not.
        let there = toeplitz(&VERIFICATION_KEY, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert_ne!(there, toeplitz(&VERIFICATION_KEY, &[5, 6, 7, 8, 1, 2, 3, 4]));
    }
}

#[test]
fn what_a_device_does_not_take_is_refused() {
    let bytes = |n| Rss { key: RssKeyBytes::new(&vec![7; n]).map(RssKey::Bytes), ..Rss::UNSAID };
    let queues = |n| Rss { queues: Some(n), ..Rss::UNSAID };
    let refused = |name, text: &str| Err((name, text.to_owned()));
    assert_eq!(bytes(52).check(NIC), Ok(()));
    assert_eq!(bytes(40).check(NIC), refused("RSS_KEY", "the device takes 52 bytes, not 40"));
    let silent = RssOffer { key: 0, table: 0, ..NIC };
    assert_eq!(bytes(52).check(silent), refused("RSS_KEY", "the device takes 40 bytes, not 52"));
    assert_eq!(queues(64).check(NIC), Ok(()));
    assert_eq!(queues(65).check(NIC), refused("RSS_QUEUES", "the device's redirection table has 64 entries"));
    assert_eq!(
        queues(1).check(silent),
        refused("RSS_QUEUES", "the device has no redirection table that can be written")
    );
    for rss in [bytes(3), queues(1000)] {
        assert_eq!(rss.check(RssOffer::default()), Ok(()));
    }
    assert_eq!(RssKeyBytes::new(&[]), None);
    assert_eq!(RssKeyBytes::new(&[1; 65]), None);
}

#[test]
fn what_a_device_has_not_is_told() {
    let fields = |fields| Rss { fields: Some(fields), ..Rss::UNSAID };
    let some = RssFields::FLOW.or(RssFields::of("mpls").unwrap());
    assert_eq!(
        fields(some).warning(NIC),
        Some(("RSS", "the device does not hash mpls; it offers: ip tcp udp sctp".to_owned()))
    );
    for silent in [Rss::UNSAID, fields(RssFields::ALL), fields(RssFields::NONE), fields(RssFields::FLOW)] {
        assert_eq!(silent.warning(NIC), None);
    }
    let none = |name| Some((name, "the device has no RSS: it has no effect here".to_owned()));
    let nothing = RssOffer::default();
    assert_eq!(fields(RssFields::ALL).warning(nothing), none("RSS"));
    assert_eq!(Rss { queues: Some(1), ..Rss::UNSAID }.warning(nothing), none("RSS_QUEUES"));
    assert_eq!(Rss { key: Some(RssKey::Symmetric), ..Rss::UNSAID }.warning(nothing), none("RSS_KEY"));
    for silent in [Rss::UNSAID, fields(RssFields::NONE)] {
        assert_eq!(silent.warning(nothing), None);
    }
    assert_eq!(fields(some).hashes(NIC), RssFields::FLOW);
    assert_eq!(Rss::UNSAID.hashes(RssOffer { fields: some, ..NIC }), RssFields::FLOW);
}

#[test]
fn two_wishes_for_one_device_agree_or_conflict() {
    let a = Rss { fields: Some(RssFields::FLOW), queues: Some(2), ..Rss::UNSAID };
    let b = Rss { key: Some(RssKey::Symmetric), queues: Some(2), ..Rss::UNSAID };
    assert_eq!(a.conflict(b), None);
    assert_eq!(
        a.and(b),
        Rss { fields: Some(RssFields::FLOW), key: Some(RssKey::Symmetric), queues: Some(2) }
    );
    assert_eq!(a.conflict(Rss { queues: Some(3), ..b }), Some("RSS_QUEUES"));
    assert_eq!(b.conflict(Rss { key: Some(RssKey::Default), ..b }), Some("RSS_KEY"));
    assert_eq!(a.conflict(Rss { fields: Some(RssFields::NONE), ..a }), Some("RSS"));
}

#[test]
fn states_are_written_in_full() {
    assert_eq!(RssState::default().to_string(), "the driver does not tell\n");
    let state = RssState { hashes: vec!["ipv4", "ipv4-udp"], key: vec![0x6d, 0x05], table: vec![0, 1, 0] };
    assert_eq!(state.to_string(), "hashes: ipv4 ipv4-udp\nkey: 6d05\ntable: 0 1 0\n");
    let silent = RssState { hashes: vec!["ipv4"], ..RssState::default() };
    assert_eq!(silent.to_string(), "hashes: ipv4\nkey: none\ntable: none\n");
    assert_eq!(RssFields::ALL.to_string().split(' ').count(), WORDS.len());
    assert_eq!(RssFields::NONE.to_string(), "none");
}
