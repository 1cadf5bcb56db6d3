//! The arguments about receive-side scaling: what they mean, and where mistakes are shown.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use elements::harness::{Bench, Setup};
use io::memory::MemoryDevices;
use io::{Limits, RssFields, RssOffer};
use packet::Pool;
use std::sync::Arc;

const NIC: RssOffer = RssOffer { fields: RssFields::FLOW, key: 40, table: 128 };

/// An element with these arguments, on a device with 4 queues that offers this, and 3 workers.
fn bench(arguments: &str, offer: Option<RssOffer>) -> Result<Bench, String> {
    let devices = MemoryDevices::new(Pool::heap(64, 2048), &["a"], Limits { rx_queues: 4, tx_queues: 1 });
    let devices = Arc::new(match offer {
        Some(offer) => devices.with_rss(offer),
        None => devices,
    });
    let setup = Setup { workers: 3, burst: 8, devices, ..Setup::default() };
    Bench::new(&format!("in :: FromDPDKDevice(a, {arguments}) -> Discard"), &setup)
}

fn warnings(arguments: &str, offer: Option<RssOffer>) -> Vec<String> {
    let bench = bench(arguments, offer).unwrap();
    bench.router.warnings().iter().map(|d| d.message.clone()).collect()
}

#[test]
fn mistakes_are_told_at_the_argument() {
    let short = format!("RSS_KEY {}", "6d5a".repeat(10));
    for (arguments, want) in [
        ("RSS ip tpc", "RSS: cannot hash `tpc`"),
        ("RSS ip tpc", "did you mean `tcp`?"),
        (
            "RSS nothing",
            "there are: ip tcp udp sctp tunnel inner ethernet vlan mpls gtp ipsec l2tp pppoe all none",
        ),
        ("RSS ip all", "RSS: `all` stands alone"),
        ("RSS none tcp", "RSS: `none` stands alone"),
        (
            "RSS_KEY symetric",
            "RSS_KEY: neither `default` nor `symmetric` nor bytes of two hexadecimal digits each",
        ),
        (
            "RSS_KEY 6d5",
            "RSS_KEY: neither `default` nor `symmetric` nor bytes of two hexadecimal digits each",
        ),
        (&short, "RSS_KEY: the device takes 40 bytes, not 20"),
        ("RSS_QUEUES 0", "RSS_QUEUES: at least one queue is wanted"),
        ("RSS_QUEUES 129", "RSS_QUEUES: the device's redirection table has 128 entries"),
        ("RSS none, RSS_KEY symmetric", "RSS_KEY: of no use with RSS none"),
        ("RSS none, RSS_QUEUES 2", "RSS_QUEUES: of no use with RSS none"),
    ] {
        let error = bench(arguments, Some(NIC)).err().unwrap_or_default();
        assert!(error.contains(want), "{arguments}: {error}");
    }
}

#[test]
fn what_a_device_has_not_is_a_warning() {
    let lacks = "RSS: the device does not hash mpls; it offers: ip tcp udp sctp";
    assert_eq!(warnings("RSS ip mpls", Some(NIC)), [lacks]);
    let none = "RSS_KEY: the device has no RSS: it has no effect here";
    assert_eq!(warnings("RSS_KEY symmetric", Some(RssOffer::default())), [none]);
    let key = format!("RSS all, RSS_KEY {}, RSS_QUEUES 2", "6d:5a:".repeat(20).trim_end_matches(':'));
    for silent in ["RSS all", "RSS ip tcp", "RSS \"ip tcp\"", "RSS none", "RSS_KEY default", &key] {
        assert_eq!(warnings(silent, Some(NIC)), Vec::<String>::new(), "{silent}");
    }
    // Nothing can be said of devices that are not opened, as those of `check`.
    assert_eq!(warnings("RSS all, RSS_KEY 01, RSS_QUEUES 1000", None), Vec::<String>::new());
}

#[test]
fn without_rss_one_queue_is_read_and_spread() {
    for (arguments, queues) in [("RSS none", "1"), ("RSS none, N_QUEUES 2", "2"), ("RSS ip", "3")] {
        let bench = bench(arguments, Some(NIC)).unwrap();
        assert_eq!(bench.read("in.nb_rx_queues"), queues, "{arguments}");
        assert_eq!((bench.read("in.nb_workers"), bench.read("in.rss")), ("3".to_owned(), "none".to_owned()));
    }
}
