//! VLANs on the lines of a cluster: tags are looked at where a packet comes in, and put in where it goes out.

use super::{drive, names, seeds};
use crate::net::{MS, Net};
use crate::setup::{Setup, TAGS};
use cluster::random::Random;

const ORDERS: [&str; 4] = ["strict", "spray", "flowlet", "single-path"];

fn setup(nodes: u16, order: &'static str) -> Setup {
    Setup { kinds: TAGS.len() as u16, ..Setup::mesh(nodes, order) }
}

/// Between each two interfaces: without a tag, with one, with two. What comes out is compared byte by byte.
#[test]
fn packets_cross_between_all_interfaces() {
    for order in ORDERS {
        let mut net = Net::new(Setup { ports: 2, ..setup(2, order) });
        let all = net.setup.interfaces();
        for (input, output) in (0..all).flat_map(|input| (0..all).map(move |output| (input, output))) {
            // Of one length in frames without tags: they fill up to 60 bytes themselves.
            net.offer(input, output, 1, 60);
            net.run_for(MS / 10);
        }
        net.run_for(50 * MS);
        let sent = usize::from(all * all);
        assert_eq!((net.delivered, net.undelivered(), names(&net)), (sent, 0, vec![]), "{order}");
        net.check_books();
    }
}

/// Counters are where the line is: what comes at the input node, what goes at the output node.
#[test]
fn the_node_of_the_line_counts() {
    let mut net = Net::new(setup(2, "strict"));
    // Interfaces 2 and 3 have one tag, on lines 0 and 1.
    for (input, output) in [(2, 3), (2, 3), (3, 3), (0, 3), (1, 2)] {
        net.offer(input, output, 1, 100);
    }
    net.run_for(50 * MS);
    let table = |net: &Net, node: usize| net.nodes[node].router.read("vlan0", "table", "").unwrap();
    let line = |number_and_name: &str, tags: &str, counts: &str| {
        format!("{number_and_name} {tags} 02-02-02-02-02-02 0 up - - {counts}\n")
    };
    let none = "0 0 0 0";
    let want = [line("2 v2", "100", "2 208 1 104"), line("4 v4", "ad:7.5", none), line("6 o0", "ad:7", none)]
        .concat();
    assert_eq!(table(&net, 0), want);
    let want = [line("3 v3", "100", "1 104 4 416"), line("5 v5", "ad:7.5", none), line("7 o1", "ad:7", none)]
        .concat();
    assert_eq!(table(&net, 1), want);
    net.check_books();
}

/// With links that are full, by relays, with packets that come early and queues that fill: order and conservation are as
/// without tags.
#[test]
fn order_is_kept_by_relays_and_in_queues() {
    for seed in seeds(4) {
        for order in ORDERS {
            let mut net = Net::new(setup(4, order));
            let mut random = Random::new(seed);
            net.wire(0, 2).delay = 1_500_000;
            net.wire(2, 1).delay = 900_000;
            // All to the next line, by any of its interfaces: the worst case for direct links.
            drive(&mut net, 60, 0.92, &mut random, |line, random| {
                Some((line + 1) % 4 + 4 * random.below(3) as u16)
            });
            net.run_for(200 * MS);
            let strange = names(&net);
            match order {
                "strict" => assert_eq!((net.reordered, net.undelivered()), (0, 0), "{strange:?}"),
                "single-path" => assert_eq!(net.reordered, 0, "{strange:?}"),
                _ => assert_eq!(net.undelivered(), 0, "{strange:?}"),
            }
            if order == "strict" || order == "spray" {
                assert!(net.relayed * 5 > net.sent.len() * 2, "{} of {}", net.relayed, net.sent.len());
                assert_eq!(strange, [""; 0]);
            }
            net.check_books();
        }
    }
}

/// A line that gets more than it can carry loses the rest by name, wherever it came from.
#[test]
fn what_is_too_much_is_lost_by_name() {
    for order in ["strict", "spray"] {
        let mut net = Net::new(Setup { more: ", BUFFER 20000", ..setup(4, order) });
        let mut random = Random::new(5);
        drive(&mut net, 60, 0.9, &mut random, |_, random| Some(4 * random.below(3) as u16));
        net.run_for(300 * MS);
        let losses = net.losses();
        assert_eq!(net.undelivered() as u64, losses.values().sum::<u64>(), "{losses:?}");
        assert!(losses.get("cluster.line_full").is_some_and(|lost| *lost > 100), "{losses:?}");
        if order == "strict" {
            assert_eq!(net.reordered, 0);
        }
        net.check_books();
    }
}

/// As in a single router: tags that no VLAN has lose the frame; what is not routed goes to the line's twin as it came, and Linux
/// sends frames with tags out of it.
#[test]
fn other_frames_with_tags_go_where_they_go_in_one_router() {
    let mut net = Net::new(setup(3, "strict"));
    let frame = |tags: &[u8], ethertype: [u8; 2]| {
        [&[0xFF; 6][..], &[2, 0, 0, 0, 9, 9], tags, &ethertype, &(0..60).collect::<Vec<u8>>()].concat()
    };
    for (tags, _) in &TAGS[1..] {
        let arp = frame(tags, [8, 6]);
        net.nodes[2].inject("line0", &arp);
        net.nodes[0].inject("twin1", &arp);
        net.run_for(MS);
        net.twins.sort();
        assert_eq!(net.twins, [(2, arp.clone()), (1 | 0x8000, arp)]);
        net.twins.clear();
    }
    net.nodes[1].inject("line0", &frame(&[0x81, 0, 0, 101], [8, 0]));
    net.nodes[1].inject("line0", &frame(&[0x88, 0xA8, 0, 7, 0x81, 0, 0, 6], [8, 0]));
    net.nodes[1].inject("line0", &frame(&[0x81, 0], [0, 100])[..15]);
    net.run_for(MS);
    assert_eq!(net.twins, []);
    let losses = net.losses();
    assert_eq!((losses.len(), losses["vlan0.unknown_vlan"], losses["vlan0.short"]), (2, 2, 1), "{losses:?}");
    net.check_books();
}

/// An output node that does not know the VLAN (any more) loses the packet; one that has another line does, too.
#[test]
fn vlans_that_are_gone_are_stale() {
    let mut net = Net::new(setup(2, "strict"));
    net.nodes[1].set_interfaces(|_| None);
    net.offer(0, 3, 1, 100);
    net.offer(0, 1, 1, 100);
    net.run_for(50 * MS);
    assert_eq!((net.delivered, net.undelivered()), (1, 1));
    assert_eq!(net.losses().into_iter().collect::<Vec<_>>(), [("cluster.stale".to_owned(), 1)]);
    // Out by its own line; between the removal of a VLAN and that of its neighbours they are as good as unknown.
    net.offer(1, 3, 1, 100);
    net.run_for(50 * MS);
    assert_eq!(net.losses().values().sum::<u64>(), 2, "{:?}", net.losses());
    net.check_books();
}
