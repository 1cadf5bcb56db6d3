//! However a model came to what it knows: a full dump makes it what a fresh one would be.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Model;
use control::netlink::request::Topic;
use control::netlink::wire::{Builder, Messages};
use control::netlink::{
    Action, Hop, Hops, Kind, Link, MAIN_TABLE, Message, Neighbour, NextHopObject, ObjectTarget, Route,
    RouteExtras, decode,
};
use fib::{Prefix, Prefix4};
use proptest::prelude::*;
use std::collections::HashSet;

fn hop() -> impl Strategy<Value = Hop> {
    (1..4u32, 0..3u8)
        .prop_map(|(link, gateway)| Hop { gateway: (gateway > 0).then(|| [10, 0, 0, gateway].into()), link })
}

fn route<A: fib::Address>() -> impl Strategy<Value = Route<A>> {
    let hops = prop_oneof![
        hop().prop_map(Hops::One),
        prop::collection::vec((hop(), 1..3u32), 2..4).prop_map(|hops| Hops::Many(hops.into())),
        (1..4u32).prop_map(Hops::Object),
    ];
    (0..4u8, 0..3u32, hops, any::<bool>()).prop_map(|(len, metric, hops, main)| Route {
        table: if main { MAIN_TABLE } else { 10 },
        prefix: Prefix::new(A::default(), len).unwrap(),
        metric,
        tos: 0,
        protocol: 3,
        kind: Kind::Unicast,
        hops,
        mtu: None,
        extras: RouteExtras::default(),
    })
}

fn action() -> impl Strategy<Value = Action> {
    prop::sample::select(vec![Action::Add, Action::Append, Action::Replace, Action::Remove])
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        (action(), 1..4u32, any::<bool>())
            .prop_map(|(action, index, up)| Message::Link(action, Link { index, up, ..Link::default() })),
        (action(), 1..3u32, 1..4u8, 0..9u16).prop_map(|(action, link, ip, state)| {
            let ip = [10, 0, 0, ip].into();
            Message::Neighbour(action, Neighbour { link, ip, mac: Some([2, 0, 0, 0, 0, 1]), state })
        }),
        (action(), 1..4u32, hop()).prop_map(|(action, id, hop)| {
            Message::NextHop(action, NextHopObject { id, to: ObjectTarget::Hop(hop) })
        }),
        (action(), route::<u32>()).prop_map(|(action, route)| Message::Route4(action, route)),
        (action(), route::<u128>()).prop_map(|(action, route)| Message::Route6(action, route)),
    ]
}

/// What a kernel can have: no thing twice, of a dump only additions.
fn dump() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec(message(), 0..30).prop_map(|messages| {
        let mut seen = HashSet::new();
        let mut dump = Vec::new();
        for message in messages {
            let (key, message) = match message {
                Message::Link(_, link) => (format!("{}", link.index), Message::Link(Action::Add, link)),
                Message::Neighbour(_, one) => {
                    (format!("{} {}", one.link, one.ip), Message::Neighbour(Action::Add, one))
                }
                Message::NextHop(_, object) => {
                    (format!("object {}", object.id), Message::NextHop(Action::Add, object))
                }
                Message::Route4(_, route) => (format!("{route:?}"), Message::Route4(Action::Add, route)),
                Message::Route6(_, route) => (format!("6{route:?}"), Message::Route6(Action::Add, route)),
                other => (String::new(), other),
            };
            if seen.insert(key) {
                dump.push(message);
            }
        }
        // The kernel names the routes of a prefix by their metric.
        dump.sort_by_key(|message| match message {
            Message::Route4(_, route) => route.metric,
            Message::Route6(_, route) => route.metric,
            _ => 0,
        });
        dump
    })
}

fn resync(model: &mut Model, dump: &[Message]) {
    Topic::ALL.iter().for_each(|topic| model.mark(*topic));
    dump.iter().for_each(|message| model.apply(message.clone(), true));
    Topic::ALL.iter().for_each(|topic| {
        model.sweep(*topic);
    });
}

proptest! {
    #[test]
    fn a_dump_is_all_that_counts(before in prop::collection::vec(message(), 0..60), dump in dump()) {
        let (mut model, mut fresh) = (Model::default(), Model::default());
        before.iter().for_each(|message| model.apply(message.clone(), false));
        resync(&mut model, &dump);
        resync(&mut fresh, &dump);
        prop_assert_eq!(&model, &fresh);
        // And once more: nothing is swept, nothing is news.
        model.routes4.take_changed();
        let links: HashSet<u32> = model.links.take_changed();
        prop_assert!(links.len() <= 3);
        resync(&mut model, &dump);
        prop_assert_eq!(&model, &fresh);
        prop_assert_eq!(model.links.take_changed().len(), 0);
    }

    #[test]
    fn a_dump_of_what_is_there_disturbs_no_winner(dump in dump()) {
        let mut model = Model::default();
        resync(&mut model, &dump);
        let winners = |model: &Model| -> Vec<_> {
            (0..4).map(|len| model.routes4.get(MAIN_TABLE, Prefix4::new(0, len).unwrap()).next().cloned()).collect()
        };
        let before = winners(&model);
        Topic::ALL.iter().for_each(|topic| model.mark(*topic));
        for message in &dump {
            model.apply(message.clone(), true);
            prop_assert_eq!(winners(&model), before.clone());
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 16..107u16) {
        let mut model = Model::default();
        let message = Builder::new(kind, 0, 0, &bytes).bytes();
        for raw in Messages::new(&message) {
            model.apply(decode(&raw.unwrap()), false);
        }
    }
}

/// What a message of these bytes says.
fn said(kind: u16, flags: u16, body: &[u8], attributes: &[(u16, &[u8])]) -> Message {
    let message =
        attributes.iter().fold(Builder::new(kind, flags, 0, body), |m, (kind, value)| m.with(*kind, value));
    let bytes = message.bytes();
    let raw = Messages::new(&bytes).next().unwrap().unwrap();
    decode(&raw)
}

fn main_route<A: fib::Address>(prefix: &str, hops: Hops) -> Route<A>
where
    Prefix<A>: std::str::FromStr<Err: std::fmt::Debug>,
{
    let prefix = prefix.parse().unwrap();
    Route {
        table: MAIN_TABLE,
        prefix,
        metric: 0,
        tos: 0,
        protocol: 4,
        kind: Kind::Unicast,
        hops,
        mtu: None,
        extras: RouteExtras::default(),
    }
}

#[test]
fn every_kind_of_next_hop_is_read() {
    let body = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let dst: (u16, &[u8]) = (1, &[10, 1, 2, 0]);
    let oif = 5u32.to_ne_bytes();
    let hop = |gateway: Option<&str>, link| Hop { gateway: gateway.map(|ip| ip.parse().unwrap()), link };
    let is = |attributes: &[(u16, &[u8])], hops: Hops| {
        let Message::Route4(Action::Replace, mut route) = said(24, 0x501, &body, attributes) else {
            panic!()
        };
        assert_ne!(std::mem::take(&mut route.extras.variant), 0);
        assert_eq!(route, main_route("10.1.2.0/24", hops));
    };
    is(&[dst, (4, &oif)], Hops::One(hop(None, 5)));
    is(&[dst, (4, &oif), (5, &[10, 0, 0, 9])], Hops::One(hop(Some("10.0.0.9"), 5)));
    // IPv4 via IPv6 (RFC 8950): family, then the address.
    let via = [&[10, 0][..], &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]].concat();
    is(&[dst, (4, &oif), (18, &via)], Hops::One(hop(Some("fe80::1"), 5)));
    is(&[dst, (30, &9u32.to_ne_bytes()), (4, &oif)], Hops::Object(9));
    let way = |weight: u8, link: u32, last: u8| {
        [
            &16u16.to_ne_bytes()[..],
            &[0, weight],
            &link.to_ne_bytes(),
            &8u16.to_ne_bytes(),
            &5u16.to_ne_bytes(),
            &[10, 0, 0, last],
        ]
        .concat()
    };
    let ways = [way(0, 5, 1), way(4, 6, 2)].concat();
    is(&[dst, (9, &ways)], Hops::Many([(hop(Some("10.0.0.1"), 5), 1), (hop(Some("10.0.0.2"), 6), 5)].into()));
    for (kind, is) in [(6, Kind::Blackhole), (7, Kind::Unreachable), (8, Kind::Prohibit), (9, Kind::Throw)] {
        let mut body = body;
        body[7] = kind;
        let Message::Route4(Action::Remove, route) = said(25, 0, &body, &[dst, (4, &oif)]) else { panic!() };
        assert_eq!((route.kind, route.hops), (is, Hops::None));
    }
}

#[test]
fn tables_metrics_and_mtu_are_read() {
    let body = [10, 32, 0, 0, 252, 186, 0, 1, 0, 0, 0, 0];
    let dst = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let metrics = [8u16.to_ne_bytes(), 2u16.to_ne_bytes(), 1400u16.to_ne_bytes(), [0, 0]].concat();
    let said = said(
        24,
        0,
        &body,
        &[(1, &dst), (15, &1000u32.to_ne_bytes()), (6, &77u32.to_ne_bytes()), (8, &metrics)],
    );
    let Message::Route6(Action::Add, route) = said else { panic!("{said:?}") };
    assert_eq!((route.prefix.to_string().as_str(), route.table, route.metric), ("2001:db8::/32", 1000, 77));
    assert_eq!((route.protocol, route.mtu, route.extras.variant), (186, Some(1400), 0));
}

/// The kernel keeps IPv4 routes side by side that differ in nothing but these.
#[test]
fn protocol_scope_source_and_metrics_tell_routes_apart() {
    let body = [2, 24, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let (mut protocol, mut scope) = (body, body);
    (protocol[5], scope[6]) = (2, 253);
    let metrics = [8u16.to_ne_bytes(), 2u16.to_ne_bytes(), 1400u16.to_ne_bytes(), [0, 0]].concat();
    let dst: (u16, &[u8]) = (1, &[10, 1, 2, 0]);
    let source: (u16, &[u8]) = (7, &[10, 0, 0, 1]);
    let variant = |body: &[u8], attributes: &[(u16, &[u8])]| {
        let Message::Route4(_, route) = said(24, 0, body, attributes) else { panic!() };
        route.extras.variant
    };
    let all = [
        variant(&body, &[dst]),
        variant(&protocol, &[dst]),
        variant(&scope, &[dst]),
        variant(&body, &[dst, source]),
        variant(&body, &[dst, (8, &metrics)]),
    ];
    assert_eq!(HashSet::from(all).len(), all.len(), "{all:?}");
    assert_eq!(variant(&body, &[dst]), all[0]);
}

#[test]
fn what_is_no_route_is_left_out() {
    let cloned = [2, 32, 0, 0, 254, 0, 0, 1, 0, 2, 0, 0];
    let by_source = [2, 24, 8, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let too_long = [2, 33, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    for body in [&cloned[..], &by_source, &too_long] {
        assert_eq!(said(24, 0, body, &[(1, &[10, 0, 0, 0])]), Message::Other);
    }
    assert_eq!(said(24, 0, &[2, 24], &[]), Message::Other);
}

#[test]
fn groups_links_and_vrfs_are_read() {
    let member = |id: u32, weight: u8| [&id.to_ne_bytes()[..], &[weight, 0, 0, 0]].concat();
    let group = [member(1, 0), member(2, 2)].concat();
    let object = said(104, 0, &[0; 8], &[(1, &10u32.to_ne_bytes()), (2, &group)]);
    let to = ObjectTarget::Group(vec![(1, 1), (2, 3)]);
    assert_eq!(object, Message::NextHop(Action::Add, NextHopObject { id: 10, to }));
    let mut body = [0; 16];
    body[4] = 7;
    body[8..12].copy_from_slice(&0x1_0001u32.to_ne_bytes());
    let data = Builder::new(0, 0, 0, &[]).with(1, &100u32.to_ne_bytes()).bytes();
    let info = Builder::new(0, 0, 0, &[]).with(1, b"vrf\0").with(2, &data[16..]).bytes();
    let link = said(
        16,
        0,
        &body,
        &[(3, b"red\0"), (1, &[2, 0, 0, 0, 0, 1]), (4, &1500u32.to_ne_bytes()), (18, &info[16..])],
    );
    let expected = Link {
        index: 7,
        name: "red".into(),
        mac: Some([2, 0, 0, 0, 0, 1]),
        mtu: 1500,
        up: true,
        carrier: true,
        kind: "vrf".into(),
        table: Some(100),
        ..Link::default()
    };
    assert_eq!(link, Message::Link(Action::Add, expected));
}
