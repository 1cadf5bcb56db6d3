//! A publisher that finds what an earlier one of the same router has left in the tables.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::netlink::{
    Action, Hop, Hops, Kind, Link, MAIN_TABLE, Message, Neighbour, NextHopObject, ObjectTarget, Route,
    RouteExtras,
};
use control::replicate::{Feed, Frames, Hello, Log, Replica, VERSION};
use control::{Model, Publisher, Tables, set_number};
use epoch::Reader;
use fib::{
    Adjacency, InterfaceMap, Interfaces, LinearTable, NextHop, Prefix4, RouteEvent, RouteTable, Tags, Vrf,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

/// Interfaces of ports 0, 1 and 2.
const LINKS: [u32; 3] = [11, 12, 13];
/// VLANs: on the first port, the second, and on the first of these.
const VLANS: [(u32, u32); 3] = [(14, 11), (15, 12), (16, 14)];
/// All of them.
const PLACES: [u32; 6] = [11, 12, 13, 14, 15, 16];
/// VRFs and their tables.
const VRFS: [(u32, u32); 2] = [(17, 100), (18, 200)];
/// Those that routes may be in.
const TABLES: [u32; 3] = [MAIN_TABLE, 100, 200];

/// The one of which there is always a route, two with neighbours in them, and others.
const PREFIXES: [&str; 6] =
    ["0.0.0.0/0", "10.0.11.0/24", "10.0.12.0/24", "20.0.0.0/16", "21.0.0.0/16", "21.0.0.0/24"];

fn tables() -> Tables {
    Tables::new(LinearTable::new(), LinearTable::new()).with_interfaces(Arc::new(Interfaces::new(1)))
}

fn model(messages: &[Message]) -> Model {
    let mut model = Model::default();
    messages.iter().for_each(|message| model.apply(message.clone(), false));
    model
}

fn publish(publisher: &mut Publisher, model: &mut Model) {
    let mut reader = Reader::new();
    while publisher.publish(model, None, &mut reader) {}
}

/// A new publisher, and all that it does.
fn publish_all(tables: &Tables, messages: &[Message]) -> Publisher {
    let mut publisher = Publisher::new(tables.clone(), &LINKS);
    let mut model = model(messages);
    publisher.sweep();
    publish(&mut publisher, &mut model);
    publisher
}

fn link(index: u32, up: bool, carrier: bool) -> Message {
    let mac = Some([2, 0, 0, 0, 0, index as u8]);
    Message::Link(Action::Add, Link { index, up, carrier, mac, ..Link::default() })
}

fn vlan(index: u32, below: u32, id: u16, master: u32) -> Message {
    let Message::Link(action, link) = link(index, true, true) else { unreachable!() };
    let (vlan, vlan_protocol) = (Some(id), Tags::CUSTOMER);
    Message::Link(action, Link { below, vlan, vlan_protocol, master, name: format!("v{index}"), ..link })
}

fn vrf(index: u32, table: u32) -> Message {
    let link = Link { index, up: true, carrier: true, table: Some(table), ..Link::default() };
    Message::Link(Action::Add, Link { name: format!("vrf{table}"), ..link })
}

fn removed(index: u32) -> Message {
    Message::Link(Action::Remove, Link { index, ..Link::default() })
}

fn neighbour(link: u32, last: u8, state: u16) -> Message {
    let (ip, mac) = ([10, 0, link as u8, last].into(), Some([4, 0, 0, 0, link as u8, last]));
    let action = if state == 0 { Action::Remove } else { Action::Add };
    Message::Neighbour(action, Neighbour { link, ip, mac, state })
}

fn route(action: Action, prefix: &str, hops: Hops) -> Message {
    route_in(MAIN_TABLE, action, prefix, hops)
}

fn route_in(table: u32, action: Action, prefix: &str, hops: Hops) -> Message {
    let prefix = prefix.parse().unwrap();
    let kind = Kind::Unicast;
    Message::Route4(
        action,
        Route {
            table,
            prefix,
            metric: 0,
            tos: 0,
            protocol: 4,
            kind,
            hops,
            mtu: None,
            extras: RouteExtras::default(),
        },
    )
}

fn via(link: u32, last: u8) -> Hop {
    Hop { gateway: Some([10, 0, link as u8, last].into()), link }
}

/// A next hop by port and tags of its interface: numbers of VLANs depend on which there were before.
type Far = (Option<IpAddr>, u32, Tags);
/// An adjacency likewise.
type Near = ([u8; 12], Far);
/// What becomes of packets to a next hop, whatever its number: who gets them, in which shares.
type Meaning = (Option<Far>, Vec<(Far, u32)>, Option<Near>);

fn far(tables: &Tables, hop: NextHop) -> Far {
    let number = u16::try_from(hop.port).ok();
    let all = tables.interfaces.as_ref().unwrap().snapshot(drop).0;
    let place = all.iter().find(|one| Some(one.number) == number).map(|one| (one.port, one.tags));
    let (port, tags) = place.unwrap_or((0, Tags::NONE));
    (hop.gateway, if place.is_some() { port.into() } else { hop.port }, tags)
}

fn near(tables: &Tables, adjacency: Adjacency) -> Near {
    let interface = NextHop { gateway: None, port: adjacency.interface().into() };
    (*adjacency.header.first_chunk().unwrap(), far(tables, interface))
}

fn meaning(tables: &Tables, hop: NextHop) -> Meaning {
    let hops = tables.routes4.next_hop_list();
    let group = tables.adjacencies4.group(hop);
    let members = group.iter().flat_map(|group| group.members());
    let mut members: Vec<_> =
        members.map(|member| (far(tables, hops[member.hop.index()]), member.weight)).collect();
    members.sort_unstable();
    let adjacency = tables.adjacencies4.get(hop).map(|adjacency| near(tables, adjacency));
    (set_number(hop.port).is_none().then_some(far(tables, hop)), members, adjacency)
}

/// By table and prefix.
fn meanings(tables: &Tables) -> BTreeMap<(u32, Prefix4), Meaning> {
    let mut all: BTreeMap<_, _> = tables
        .routes4
        .routes()
        .iter()
        .map(|r| ((MAIN_TABLE, r.prefix), meaning(tables, r.next_hop)))
        .collect();
    let hops = tables.routes4.next_hop_list();
    for vrf in vrfs(tables) {
        for route in vrf.routes4.routes() {
            let hop = hops[Vrf::shared(&route.next_hop).unwrap().index()];
            all.insert((vrf.table, route.prefix), meaning(tables, hop));
        }
    }
    all
}

fn vrfs(tables: &Tables) -> Vec<Arc<Vrf>> {
    tables.interfaces.as_ref().unwrap().with(InterfaceMap::vrfs)
}

/// The neighbours that are known, and the interfaces that there are.
fn known(tables: &Tables) -> (Vec<(Far, Near)>, Vec<String>) {
    let known = tables.adjacencies4.known();
    let mut known: Vec<_> = known.iter().map(|(hop, one)| (far(tables, *hop), near(tables, *one))).collect();
    known.sort_unstable();
    let interfaces = tables.interfaces.as_ref().unwrap();
    let mut all: Vec<_> = interfaces.with(|map| {
        map.iter()
            .map(|(_, one)| format!("{} {} {} {} {:?}", one.name, one.port, one.tags, one.up, one.vrf))
            .collect()
    });
    all.sort_unstable();
    (known, all)
}

/// All that can happen in a small world.
fn message() -> impl Strategy<Value = Message> {
    let state = prop::sample::select(vec![0u16, 2, 2, 2, 0x20]);
    let way = (0..5usize, 1..4u8, 1..4u32).prop_map(|(i, last, weight)| (via(PLACES[i], last), weight));
    let hops = prop_oneof![
        (0..6usize, 1..4u8).prop_map(|(i, last)| Hops::One(via(PLACES[i], last))),
        (0..6usize).prop_map(|i| Hops::One(Hop { gateway: None, link: PLACES[i] })),
        prop::collection::vec(way, 2..4).prop_map(|ways| Hops::Many(ways.into())),
        (1..5u32).prop_map(Hops::Object),
    ];
    let hop = (0..5usize, 1..4u8).prop_map(|(i, last)| ObjectTarget::Hop(via(PLACES[i], last)));
    let group = Just(ObjectTarget::Group(vec![(1, 1), (2, 3)]));
    let object =
        (prop_oneof![(1..4u32, hop), (4..5u32, group)], any::<bool>()).prop_map(|((id, to), there)| {
            Message::NextHop(if there { Action::Replace } else { Action::Remove }, NextHopObject { id, to })
        });
    let master = prop::sample::select(vec![0, 0, VRFS[0].0, VRFS[1].0]);
    prop_oneof![
        6 => (0..TABLES.len(), 0..PREFIXES.len(), hops, 0..4u8).prop_map(|(table, n, hops, kind)| {
            let action = if kind == 0 { Action::Remove } else { Action::Replace };
            route_in(TABLES[table], action, PREFIXES[n], hops)
        }),
        3 => (0..3usize, master).prop_map(|(i, master)| vlan(VLANS[i].0, VLANS[i].1, 50 + i as u16, master)),
        1 => (0..3usize).prop_map(|i| removed(VLANS[i].0)),
        2 => (0..2usize).prop_map(|i| vrf(VRFS[i].0, VRFS[i].1)),
        1 => (0..2usize).prop_map(|i| removed(VRFS[i].0)),
        3 => (0..6usize, 1..4u8, state).prop_map(|(i, last, state)| neighbour(PLACES[i], last, state)),
        1 => (0..3usize, any::<bool>(), any::<bool>()).prop_map(|(i, up, c)| link(LINKS[i], up, up && c)),
        2 => object,
    ]
}

fn messages(count: usize) -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec(message(), 0..count)
}

/// Ports, a VLAN in a VRF, and one in none.
fn beginning() -> Vec<Message> {
    let mut all = LINKS.map(|index| link(index, true, true)).to_vec();
    all.extend([vrf(VRFS[0].0, VRFS[0].1), vlan(VLANS[0].0, VLANS[0].1, 50, VRFS[0].0)]);
    all.push(vlan(VLANS[1].0, VLANS[1].1, 51, 0));
    all
}

/// Which prefixes have been touched since, by table.
fn touched(tables: &Tables) -> Arc<Mutex<BTreeSet<(u32, Prefix4)>>> {
    fn watch(touched: &Arc<Mutex<BTreeSet<(u32, Prefix4)>>>, number: u32, table: &RouteTable<u32>) {
        let note = touched.clone();
        table.watch(Some(Box::new(move |event| {
            if let RouteEvent::Routes(routes) = event {
                note.lock().unwrap().extend(routes.iter().map(|(prefix, _)| (number, *prefix)));
            }
        })));
    }
    let touched = Arc::new(Mutex::new(BTreeSet::new()));
    watch(&touched, MAIN_TABLE, &tables.routes4);
    vrfs(tables).iter().for_each(|vrf| watch(&touched, vrf.table, &vrf.routes4));
    touched
}

/// Tables of another process, which follow.
struct Follower {
    feed: Feed,
    frames: Frames,
    replica: Replica,
    tables: Tables,
}

impl Follower {
    fn of(log: &Arc<Log>) -> Follower {
        let (tables, mut out) = (tables(), Vec::new());
        let hello = Hello { oldest: VERSION, newest: VERSION, life: 0, position: 0, name: "b" };
        let feed = Feed::new(log, &hello, &mut out).unwrap().0;
        let mut replica = Replica::new(tables.clone());
        replica.hello("b");
        let mut follower = Follower { feed, frames: Frames::default(), replica, tables };
        follower.take(&out);
        follower
    }

    fn take(&mut self, bytes: &[u8]) {
        let take = |kind, body: &[u8]| self.replica.take(kind, body).map(drop);
        self.frames.feed(bytes, take).unwrap();
    }

    fn catch_up(&mut self) -> &Tables {
        while self.feed.has_more() {
            let mut out = Vec::new();
            self.feed.next(&mut out);
            self.take(&out);
        }
        &self.tables
    }
}

proptest! {
    #[test]
    fn tables_become_those_of_one_that_began_with_nothing(
        first in messages(40), meanwhile in messages(12), then in messages(12)
    ) {
        let mut all = [&beginning()[..], &first].concat();
        let (tables, other) = (tables(), tables());
        drop(publish_all(&tables, &all));
        let before = meanings(&tables);
        let touched = touched(&tables);
        all.extend(meanwhile);
        let mut ours = publish_all(&tables, &all);
        let log = Log::new(&other, Log::ROOM);
        let mut follower = Follower::of(&log);
        let mut fresh = publish_all(&other, &all);
        prop_assert_eq!(meanings(&tables), meanings(&other));
        prop_assert_eq!(known(&tables), known(&other));
        let groups = |tables: &Tables| tables.adjacencies4.known_groups().len();
        prop_assert_eq!(groups(&tables), groups(&other));
        // What is as it was keeps its number, unless it is a set of which not all ways could be used.
        for prefix in touched.lock().unwrap().iter() {
            let old = before.get(prefix);
            let is_same = old == meanings(&tables).get(prefix);
            prop_assert!(!is_same || old.is_none_or(|(hop, ..)| hop.is_none()), "{:?} {:?}", prefix, old);
        }
        // They go on alike.
        let (mut at, mut at_other) = (model(&all), model(&all));
        let (mut reader, mut other_reader) = (Reader::new(), Reader::new());
        while ours.publish(&mut at, None, &mut reader) {}
        while fresh.publish(&mut at_other, None, &mut other_reader) {}
        for message in then {
            at.apply(message.clone(), false);
            at_other.apply(message, false);
            while ours.publish(&mut at, None, &mut reader) {}
            while fresh.publish(&mut at_other, None, &mut other_reader) {}
            prop_assert_eq!(meanings(&tables), meanings(&other));
            prop_assert_eq!(groups(&tables), groups(&other));
            prop_assert_eq!(known(&tables), known(&other));
            let followed = follower.catch_up();
            prop_assert_eq!(meanings(followed), meanings(&other));
            prop_assert_eq!(known(followed), known(&other));
        }
    }

    #[test]
    fn what_was_not_told_yet_stays_until_all_was(
        first in messages(40), seed in prop::collection::vec(any::<bool>(), 60)
    ) {
        let all = [&beginning()[..], &first].concat();
        let tables = tables();
        drop(publish_all(&tables, &all));
        let before = meanings(&tables);
        let touched = touched(&tables);
        // FRR has told some of its routes again; neighbours and links are the kernel's.
        let is_frr = |message: &Message| matches!(message, Message::Route4(..) | Message::NextHop(..));
        let (mut kernel, mut frr) = (Model::default(), Model::default());
        all.iter().filter(|message| !is_frr(message)).for_each(|message| kernel.apply(message.clone(), false));
        let whole = model(&all);
        let mut publisher = Publisher::new(tables.clone(), &LINKS);
        let mut reader = Reader::new();
        prop_assert_eq!(publisher.is_holding(), !before.is_empty());
        while publisher.publish(&mut kernel, Some(&mut frr), &mut reader) {}
        prop_assert_eq!(&meanings(&tables), &before);
        let objects: Vec<_> = whole.next_hops.iter().map(|(id, to)| (id, to.clone())).collect();
        for (id, to) in objects {
            frr.apply(Message::NextHop(Action::Replace, NextHopObject { id, to }), false);
        }
        while publisher.publish(&mut kernel, Some(&mut frr), &mut reader) {}
        prop_assert_eq!(&meanings(&tables), &before);
        let mut late = Vec::new();
        let of = |table: &u32| whole.routes4.table(*table).map(|found| (*table, found)).collect::<Vec<_>>();
        for (n, (table, (prefix, list))) in TABLES.iter().flat_map(of).enumerate() {
            let entry = list.iter().next().unwrap();
            let message = route_in(table, Action::Replace, &prefix.to_string(), entry.hops.clone());
            if seed[n % seed.len()] { frr.apply(message, false) } else { late.push(message) }
        }
        while publisher.publish(&mut kernel, Some(&mut frr), &mut reader) {}
        prop_assert_eq!(&meanings(&tables), &before);
        late.into_iter().for_each(|message| frr.apply(message, false));
        publisher.sweep();
        while publisher.publish(&mut kernel, Some(&mut frr), &mut reader) {}
        prop_assert_eq!(&meanings(&tables), &before);
        for prefix in touched.lock().unwrap().iter() {
            prop_assert!(before[prefix].0.is_none(), "{:?} was touched", prefix);
        }
        // All of it goes when FRR says so.
        let fresh = tables_of_kernel(&all);
        let mut nothing = Model::default();
        let mut last = Publisher::new(tables.clone(), &LINKS);
        let mut kernel = model(&all.iter().filter(|message| !is_frr(message)).cloned().collect::<Vec<_>>());
        last.sweep();
        while last.publish(&mut kernel, Some(&mut nothing), &mut reader) {}
        prop_assert_eq!(meanings(&tables), meanings(&fresh));
        prop_assert_eq!(tables.adjacencies4.known_groups(), []);
    }
}

/// Tables of a router whose FRR has no routes.
fn tables_of_kernel(all: &[Message]) -> Tables {
    let (tables, mut reader) = (tables(), Reader::new());
    let is_frr = |message: &Message| matches!(message, Message::Route4(..) | Message::NextHop(..));
    let mut kernel = model(&all.iter().filter(|message| !is_frr(message)).cloned().collect::<Vec<_>>());
    let mut publisher = Publisher::new(tables.clone(), &LINKS);
    while publisher.publish(&mut kernel, Some(&mut Model::default()), &mut reader) {}
    tables
}

#[test]
fn a_set_is_known_by_its_members() {
    let tables = tables();
    let mut all = LINKS.map(|index| link(index, true, true)).to_vec();
    all.extend([neighbour(11, 1, 2), neighbour(12, 1, 2), neighbour(13, 1, 2)]);
    let ways = |ways: &[(u32, u32)]| {
        Hops::Many(ways.iter().map(|(link, weight)| (via(*link, 1), *weight)).collect())
    };
    all.push(route(Action::Add, "20.0.0.0/16", ways(&[(11, 1), (12, 2)])));
    all.push(route(Action::Add, "20.1.0.0/16", ways(&[(11, 1), (13, 1)])));
    drop(publish_all(&tables, &all));
    let hop = |prefix: &str| tables.routes4.get(prefix.parse().unwrap()).unwrap().next_hop;
    let (first, second) = (hop("20.0.0.0/16"), hop("20.1.0.0/16"));
    // Buckets have a history: they stay as they are.
    let mut publisher = publish_all(&tables, &all);
    let mut at = model(&all);
    publish(&mut publisher, &mut at);
    at.apply(neighbour(12, 1, 0x20), false);
    publish(&mut publisher, &mut at);
    at.apply(neighbour(12, 1, 2), false);
    publish(&mut publisher, &mut at);
    let group = tables.adjacencies4.group(first);
    all.push(neighbour(13, 1, 0x20));
    let after = publish_all(&tables, &all);
    assert_eq!((hop("20.0.0.0/16"), tables.adjacencies4.group(first)), (first, group));
    // Of the second one a way was gone when it was looked at, so that it was known; the next time it is not.
    assert_eq!((hop("20.1.0.0/16"), meaning(&tables, second).1.len()), (second, 1));
    drop(after);
    drop(publish_all(&tables, &all));
    let third = hop("20.1.0.0/16");
    assert_ne!(third, second);
    assert_eq!((meaning(&tables, third).1.len(), tables.adjacencies4.group(second)), (1, None));
    assert_eq!(hop("20.0.0.0/16"), first);
}

/// A node that is elected does not have the VLANs and VRFs of the one before in its Linux yet.
#[test]
fn vlans_stay_until_linux_has_them_or_the_time_is_over() {
    let tables = tables();
    let mut messages = beginning();
    messages.extend([neighbour(14, 2, 2), neighbour(15, 2, 2)]);
    messages.push(route_in(100, Action::Add, "20.0.0.0/16", Hops::One(via(14, 2))));
    messages.push(route(Action::Add, "21.0.0.0/16", Hops::One(via(15, 2))));
    publish_all(&tables, &messages);
    let before = (meanings(&tables), known(&tables));
    assert_eq!((before.0.len(), before.1.0.len(), before.1.1.len()), (8, 3, 5), "{before:?}");
    let mtu = || {
        let reader = Reader::new();
        [3, 4].map(|number| tables.adjacencies4.read(&reader).mtu(number))
    };
    let mtus = mtu();

    let mut publisher = Publisher::new(tables.clone(), &LINKS);
    publisher.hold_interfaces();
    let mut model = model(&LINKS.map(|index| link(index, true, true)));
    publish(&mut publisher, &mut model);
    assert_eq!((meanings(&tables), known(&tables)), before);
    assert_eq!((mtu(), publisher.take_strangers()), (mtus, vec![]));
    // One comes, with another number in this Linux: its neighbour is told of, and stays until Linux knows better.
    for message in [vrf(27, 100), vlan(24, 11, 50, 27)] {
        model.apply(message, false);
        publish(&mut publisher, &mut model);
    }
    let neighbour = (24, [10, 0, 14, 2].into(), [4, 0, 0, 0, 14, 2]);
    assert_eq!(publisher.take_strangers(), [neighbour]);
    assert_eq!((meanings(&tables), known(&tables).0), (before.0, before.1.0));
    let (link, ip, mac) = neighbour;
    let told = |state, mac| Message::Neighbour(Action::Add, Neighbour { link, ip, mac, state });
    model.apply(told(4, Some(mac)), false);
    publish(&mut publisher, &mut model);
    let of_vrf = || meanings(&tables).get(&(100, "20.0.0.0/16".parse().unwrap())).map(|meaning| meaning.2);
    assert_eq!(of_vrf().flatten().unwrap().0, [4, 0, 0, 0, 14, 2, 2, 0, 0, 0, 0, 24]);
    assert_eq!(publisher.take_strangers(), []);
    // The other does not, nor do routes.
    publisher.sweep();
    publish(&mut publisher, &mut model);
    let names = |tables: &Tables| {
        let all = tables.interfaces.as_ref().unwrap();
        all.with(|map| map.iter().map(|(number, one)| format!("{number} {}", one.name)).collect::<Vec<_>>())
    };
    assert_eq!(names(&tables), ["0 ", "1 ", "2 ", "3 v24"]);
    assert_eq!((of_vrf(), vrfs(&tables).len(), known(&tables).0.len()), (None, 1, 2));
}
