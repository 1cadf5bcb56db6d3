//! The control side of a router on a Unix socket: what it does comes, what it leaves behind its successor takes over.
#![expect(clippy::unwrap_used, reason = "the helpers of a test")]

use control::Tables;
use control::replicate::apart::{ChannelError, Reins, Side, follow};
use control::replicate::{Message, Replica, VERSION};
use fib::{
    Adjacency, AdjacencyChanges, HopGroup, InVrf, Interface, InterfaceMap, Interfaces, NextHop, Prefix4,
    Prefix6, Radix, Route, RouteChange, Tags, Vrf,
};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

fn tables() -> Tables {
    Tables::new(Radix::new(), Radix::new()).with_interfaces(Arc::new(Interfaces::new(1)))
}

fn hop(port: u32) -> NextHop {
    NextHop { gateway: Some([10, 0, 0, port as u8].into()), port }
}

/// Everything that is in tables, with numbers.
fn all(tables: &Tables) -> impl PartialEq + std::fmt::Debug {
    fn routes<A: InVrf>(vrf: &Vrf) -> Vec<String> {
        let all = vrf.routes::<A>().routes();
        all.iter().map(|route| format!("{} {:?}", route.prefix, Vrf::shared(&route.next_hop))).collect()
    }
    let Tables { routes4, adjacencies4, routes6, adjacencies6, interfaces } = tables;
    let (all, vrfs) = interfaces.as_ref().unwrap().snapshot(|vrfs| vrfs);
    let line = |one: &fib::InterfaceChange| {
        let now =
            one.now.as_ref().map(|now| (&now.name, now.mtu, now.up, now.vrf.as_ref().map(|vrf| vrf.table)));
        format!("{} {} {} {now:?}", one.number, one.port, one.tags)
    };
    (
        all.iter().map(line).collect::<Vec<_>>(),
        vrfs.iter()
            .map(|vrf| (vrf.name.clone(), vrf.table, routes::<u32>(vrf), routes::<u128>(vrf)))
            .collect::<Vec<_>>(),
        (routes4.routes(), routes4.next_hop_list(), adjacencies4.snapshot(|| ())),
        (routes6.routes(), routes6.next_hop_list(), adjacencies6.snapshot(|| ())),
    )
}

/// A router: its tables last, connections do not.
struct Router {
    tables: Tables,
    reins: Arc<Reins>,
    following: Option<JoinHandle<(Replica, Result<(), ChannelError>)>>,
    replica: Option<Replica>,
    reports: Arc<AtomicU64>,
}

impl Router {
    fn new() -> Router {
        let tables = tables();
        let replica = Some(Replica::new(tables.clone()));
        let reins = Arc::new(Reins::new().unwrap());
        Router { tables, reins, following: None, replica, reports: Arc::default() }
    }

    /// The other end of a new connection.
    fn connect(&mut self) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut replica, reins, reports) =
            (self.replica.take().unwrap(), self.reins.clone(), self.reports.clone());
        self.following = Some(thread::spawn(move || {
            let ended = follow(ours, &mut replica, &reins, |report, _| {
                assert!(report.is_none_or(|report| report == b"well"));
                reports.fetch_add(u64::from(report.is_some()), Ordering::Relaxed);
            });
            (replica, ended)
        }));
        theirs
    }

    /// Waits for the end of the connection; why it has ended.
    fn ended(&mut self) -> Result<(), ChannelError> {
        let (replica, ended) = self.following.take().unwrap().join().unwrap();
        self.replica = Some(replica);
        ended
    }
}

/// A control side, and the thread that serves the router.
fn start(router: &mut Router, found: bool) -> (Tables, JoinHandle<ChannelError>) {
    let side = Side::open(router.connect()).unwrap();
    assert_eq!(side.has_found(), found);
    let tables = side.log().tables().clone();
    assert_eq!(all(&tables), all(&router.tables));
    let log = side.log().clone();
    let serving = thread::spawn(move || side.serve(|| Some(b"well".to_vec())).unwrap_err());
    log.set_ready();
    (tables, serving)
}

fn wait_until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(1));
    }
}

/// Routes of both families, a neighbour, and a group that has a history.
fn change(tables: &Tables, round: u32) {
    let route = |n: u32, port| {
        let prefix = Prefix4::new((20 << 24) | n << 12, 24).unwrap();
        RouteChange::Set(Route { prefix, next_hop: hop(port) })
    };
    let changes: Vec<_> = (0..5000).map(|n| route(n + 1000 * round, 1 + (n + round) % 7)).collect();
    tables.routes4.apply(&changes).unwrap();
    let gone = Prefix4::new((20 << 24) | (1000 * round) << 12, 24).unwrap();
    tables.routes4.apply(&[RouteChange::Remove(gone, None)]).unwrap();
    let prefix = Prefix6::new(u128::from(0x2001_0db8 + round) << 96, 32).unwrap();
    tables.routes6.apply(&[RouteChange::Set(Route { prefix, next_hop: hop(1) })]).unwrap();
    let members = tables.routes4.numbers(&[hop(1), hop(2), hop(3 + round)]).unwrap();
    let pairs: Vec<_> = members.iter().map(|number| (*number, 1)).collect();
    let mut group = HopGroup::new(64, &pairs).unwrap();
    group.set_members(&pairs[1..]).unwrap();
    group.set_members(&pairs).unwrap();
    let adjacency = Adjacency { header: [round as u8; 14], output: 1 };
    let changes = AdjacencyChanges {
        adjacencies: vec![(hop(1), Some(adjacency)), (hop(round), None)],
        groups: vec![(NextHop { gateway: None, port: 99 }, Some(group))],
    };
    tables.adjacencies4.change(changes, &tables.routes4.next_hop_list());
    tables.adjacencies6.set_links(&[1500, 1400], round, &tables.routes6.next_hop_list());
    change_interfaces(tables, round);
}

/// Port 0, and on it another VLAN each round, in a VRF that stays and has other routes.
fn change_interfaces(tables: &Tables, round: u32) {
    let interfaces = tables.interfaces.as_ref().unwrap();
    let red = interfaces.with(InterfaceMap::vrfs).into_iter().find(|vrf| vrf.table == 10);
    let red = red.unwrap_or_else(|| interfaces.vrf("red", 10));
    let number = tables.routes4.numbers(&[hop(1 + round)]).unwrap()[0];
    let route = |n: u32| {
        let prefix = Prefix4::new((30 << 24) | n << 8, 24).unwrap();
        RouteChange::Set(Route { prefix, next_hop: Vrf::hop(number) })
    };
    let changes: Vec<_> = (0..100).map(|n| route(n + 10 * round)).collect();
    red.routes4.apply(&changes).unwrap();
    let one = |number: u16, vrf| {
        let tags = Tags::NONE.then(Tags::CUSTOMER, number).unwrap_or_default();
        let (name, counts) = (format!("eth0.{number}"), interfaces.counts_of(number));
        Some(Interface {
            name,
            port: 0,
            tags,
            mac: [2; 6],
            mtu: 1500,
            up: true,
            settings: fib::InterfaceSettings::default(),
            vrf,
            counts,
        })
    };
    let mut list = vec![one(0, None)];
    list.resize_with(round as usize + 1, || None);
    list.push(one(round as u16 + 1, Some(red)));
    interfaces.set(list);
}

#[test]
fn one_after_the_other_goes_on_with_what_is_there() {
    let mut router = Router::new();
    let mut first_vrf = None;
    for round in 0..4 {
        let (tables, serving) = start(&mut router, round > 0);
        change(&tables, 2 * round);
        wait_until(|| all(&tables) == all(&router.tables));
        let vrfs = router.tables.interfaces.as_ref().unwrap().with(InterfaceMap::vrfs);
        first_vrf = first_vrf.or(vrfs.into_iter().next());
        change(&tables, 2 * round + 1);
        wait_until(|| all(&tables) == all(&router.tables));
        wait_until(|| router.reports.load(Ordering::Relaxed) > u64::from(round));
        router.reins.pull();
        assert!(router.ended().is_ok());
        assert!(matches!(serving.join().unwrap(), ChannelError::Closed));
    }
    let replica = router.replica.unwrap();
    // One snapshot at the beginning, never another; so workers' VRF is the same one all the time.
    assert_eq!((replica.counts.snapshots, replica.counts.swept, replica.counts.renumbered), (1, 0, 0));
    let interfaces = router.tables.interfaces.as_ref().unwrap();
    assert_eq!(interfaces.with(|map| map.iter().map(|(number, _)| number).collect::<Vec<_>>()), [0, 8]);
    assert!(first_vrf.is_some_and(|vrf| Arc::ptr_eq(&vrf, &interfaces.with(InterfaceMap::vrfs)[0])));
}

#[test]
fn one_that_ends_early_has_done_no_harm() {
    let mut router = Router::new();
    let (tables, _serving) = start(&mut router, false);
    change(&tables, 0);
    wait_until(|| all(&tables) == all(&router.tables));
    router.reins.pull();
    assert!(router.ended().is_ok());
    let before = format!("{:?}", all(&router.tables));
    // It ends at once; it asks and ends; it asks, and says what is no frame; it says that it knows all and ends.
    let welcome = Message::Welcome { version: VERSION, life: 5 }.encode();
    let ask = Message::TellAll(VERSION).encode();
    let nonsense = vec![0xff; 8];
    for words in [vec![], ask.clone(), [&ask[..], &nonsense].concat(), [&ask[..], &welcome].concat()] {
        let mut theirs = router.connect();
        theirs.write_all(&words).unwrap();
        thread::sleep(Duration::from_millis(5));
        drop(theirs);
        let ended = router.ended().unwrap_err();
        assert_eq!(matches!(ended, ChannelError::Protocol(_)), words.ends_with(&nonsense), "{ended}");
        assert_eq!(format!("{:?}", all(&router.tables)), before);
    }
    // The next one finds everything.
    let (tables, _serving) = start(&mut router, true);
    change(&tables, 1);
    wait_until(|| all(&tables) == all(&router.tables));
    router.reins.pull();
    assert!(router.ended().is_ok());
}

#[test]
fn whoever_is_no_router_is_refused() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(&Message::Ack(1).encode()).unwrap();
    assert!(matches!(Side::open(ours).err(), Some(ChannelError::Protocol(_))));
    let (ours, theirs) = UnixStream::pair().unwrap();
    drop(theirs);
    assert!(matches!(Side::open(ours).err(), Some(ChannelError::Closed)));
}
