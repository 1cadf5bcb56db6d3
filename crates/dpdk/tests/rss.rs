//! What is asked of a device's RSS, read back from it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{devices, in_child, is_root};
use dpdk::DpdkDevices;
use io::{Claim, Devices, Rss, RssFields, RssKey, RssKeyBytes, RssOffer, RssState};

const FLOW: [&str; 15] = [
    "ipv4",
    "ipv4-frag",
    "ipv4-tcp",
    "ipv4-udp",
    "ipv4-sctp",
    "ipv4-other",
    "ipv6",
    "ipv6-frag",
    "ipv6-tcp",
    "ipv6-udp",
    "ipv6-sctp",
    "ipv6-other",
    "ipv6-ex",
    "ipv6-tcp-ex",
    "ipv6-udp-ex",
];

fn fields(words: &str) -> Option<RssFields> {
    words.split(' ').map(|word| RssFields::of(word).unwrap()).reduce(RssFields::or)
}

fn claim(devices: &DpdkDevices, name: &str, rx_queues: u16, rss: Rss) -> Result<(), String> {
    devices.claim(name, Claim { rx_queues, rss, ..Claim::default() }).map_err(|e| e.message)
}

fn by_turns(entries: u16, queues: u16) -> Vec<u16> {
    (0..entries).map(|i| i % queues).collect()
}

/// The state of each device, started with this number of queues and these settings.
fn states<const N: usize>(wishes: [(u16, Rss); N]) -> [Option<RssState>; N] {
    let devices = devices(8191, &[]);
    let names: Vec<String> = (0..N).map(|i| format!("net_null{i}")).collect();
    for (name, (queues, rss)) in names.iter().zip(wishes) {
        claim(&devices, name, queues, rss).unwrap();
    }
    devices.start().unwrap();
    let states = std::array::from_fn(|i| devices.port(&names[i]).unwrap().rss());
    assert_eq!(devices.close(), 0);
    states
}

#[test]
fn what_is_asked_for_is_what_the_device_does() {
    in_child("what_is_asked_for_is_what_the_device_does", || {
        let key: Vec<u8> = (1..=40).collect();
        let bytes = RssKeyBytes::new(&key).map(RssKey::Bytes);
        let [usual, one, set, symmetric, none] = states([
            (3, Rss::UNSAID),
            (1, Rss::UNSAID),
            (4, Rss { fields: fields("udp tunnel mpls"), key: bytes, queues: Some(3) }),
            (2, Rss { key: Some(RssKey::Symmetric), queues: Some(1), ..Rss::UNSAID }),
            (2, Rss { fields: Some(RssFields::NONE), ..Rss::UNSAID }),
        ]);
        let usual = usual.unwrap();
        assert_eq!((usual.hashes.as_slice(), usual.table), (&FLOW[..], by_turns(128, 3)));
        let one = one.unwrap();
        assert_eq!((one.hashes.as_slice(), one.table), (&FLOW[..], vec![0; 128]));
        let hashes = vec!["ipv4-udp", "ipv6-udp", "ipv6-udp-ex", "vxlan", "geneve", "nvgre", "mpls"];
        assert_eq!(set, Some(RssState { hashes, key, table: by_turns(128, 3) }));
        let symmetric = symmetric.unwrap();
        assert_eq!((symmetric.key, symmetric.table), ([0x6d, 0x5a].repeat(20), vec![0; 128]));
        assert_eq!(none, None);
    });
}

#[test]
fn each_word_is_what_dpdk_calls_so() {
    in_child("each_word_is_what_dpdk_calls_so", || {
        let words = ["ip", "tcp", "sctp", "ethernet"];
        let of = words.map(|word| (2, Rss { fields: fields(word), ..Rss::UNSAID }));
        let hashes = states(of).map(|state| state.unwrap().hashes.join(" "));
        assert_eq!(
            hashes,
            [
                "ipv4 ipv4-frag ipv4-other ipv6 ipv6-frag ipv6-other ipv6-ex",
                "ipv4-tcp ipv6-tcp ipv6-tcp-ex",
                "ipv4-sctp ipv6-sctp",
                "l2-payload",
            ]
        );
    });
}

#[test]
fn what_a_device_does_not_take_is_said() {
    in_child("what_a_device_does_not_take_is_said", || {
        let devices = devices(4095, &[]);
        let offers = "ip tcp udp sctp tunnel ethernet mpls";
        let offer = RssOffer { fields: fields(offers).unwrap(), key: 0, table: 128 };
        assert_eq!(devices.rss("net_null0"), Some(offer));
        assert_eq!(devices.rss("net_ring0"), Some(RssOffer::default()));
        let short = Rss { key: RssKeyBytes::new(&[1; 39]).map(RssKey::Bytes), ..Rss::UNSAID };
        let queues = |n| Rss { queues: Some(n), ..Rss::UNSAID };
        let refused = |rss| claim(&devices, "net_null0", 2, rss).unwrap_err();
        assert_eq!(refused(short), "net_null0: RSS_KEY: the device takes 40 bytes, not 39");
        assert_eq!(
            refused(queues(129)),
            "net_null0: RSS_QUEUES: the device's redirection table has 128 entries"
        );
        claim(&devices, "net_null0", 2, queues(3)).unwrap();
        assert_eq!(refused(queues(2)), "net_null0: two elements set RSS_QUEUES differently");
        // A device without RSS works all the same.
        claim(&devices, "net_ring0", 1, short).unwrap();
        let error = devices.start().unwrap_err();
        assert_eq!(error.message, "net_null0: RSS_QUEUES is 3, and 2 of its receive queues are used");
    });
}

#[test]
fn a_device_without_rss_has_none() {
    in_child("a_device_without_rss_has_none", || {
        let devices = devices(4095, &[]);
        claim(&devices, "net_ring0", 1, Rss { fields: Some(RssFields::ALL), ..Rss::UNSAID }).unwrap();
        devices.start().unwrap();
        assert_eq!(devices.port("net_ring0").unwrap().rss(), None);
        assert_eq!(devices.close(), 0);
    });
}

#[test]
fn a_tap_tells_what_it_offers_and_no_more() {
    in_child("a_tap_tells_what_it_offers_and_no_more", || {
        if !is_root() || !common::netns::own_namespace() {
            println!("skipped: a tap takes root");
            return;
        }
        let devices = devices(8191, &[]);
        let offer = RssOffer { fields: fields("ip tcp udp").unwrap(), key: 40, table: 0 };
        assert_eq!(devices.rss("net_tap0,iface=rss0"), Some(offer));
        let refused =
            claim(&devices, "net_tap0,iface=rss0", 1, Rss { queues: Some(1), ..Rss::UNSAID }).unwrap_err();
        let why = "the device has no redirection table that can be written";
        assert_eq!(refused, format!("net_tap0,iface=rss0: RSS_QUEUES: {why}"));
        claim(&devices, "net_tap0,iface=rss0", 1, Rss { key: Some(RssKey::Symmetric), ..Rss::UNSAID })
            .unwrap();
        devices.start().unwrap();
        // Its driver takes settings, and gives none back.
        assert_eq!(devices.port("net_tap0,iface=rss0").unwrap().rss(), Some(RssState::default()));
        assert_eq!(devices.close(), 0);
    });
}
