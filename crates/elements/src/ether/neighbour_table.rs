//! What `ARPTable` and the elements that ask for Ethernet addresses have in common: a table of neighbours, the arguments that
//! limit it, and its handlers.

use super::effects::Effects;
use super::neighbour_map::Key;
use super::neighbours::{Change, Limits, Neighbours};
use epoch::{Count, PerWorker};
use graph::{Args, Class, Clock, HandlerCx, Handlers, LocalCx, Nanos, NodeId, value};
use lang::Text;
use lang::args::{ArgError, FromArg, Words};
use packet::wire::ethernet::Mac;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Arguments that say how much a table holds and how long.
pub const LIMITS: [&str; 4] = ["CAPACITY", "ENTRY_CAPACITY", "ENTRY_PACKET_CAPACITY", "TIMEOUT"];

/// See the module.
#[derive(Debug)]
pub struct NeighbourTable<K: Key> {
    neighbours: Neighbours<K>,
    /// Packets lost that waited.
    pub drops: PerWorker<Count>,
    /// For handlers: known once there is a worker.
    clock: OnceLock<Arc<Clock>>,
    users: Mutex<Vec<User>>,
}

/// An element that sends what waits, and its poll timeout.
#[derive(Clone, Copy, Debug)]
struct User {
    node: NodeId,
    poll: Nanos,
}

/// `IP ETH`, for the handler `insert`.
struct Mapping<K: Key>(K::Ip, Mac);

impl<K: Key> FromArg for Mapping<K> {
    fn from_arg(arg: &Text) -> Result<Mapping<K>, ArgError> {
        let mut words = Words::new(arg);
        let mapping = Mapping(words.take("IP address")?, words.take("Ethernet address")?);
        words.end()?;
        Ok(mapping)
    }

    fn placeholder() -> Mapping<K> {
        Mapping(K::default().ip(), [0; 6])
    }
}

/// A time in nanoseconds.
pub fn nanos(time: Duration) -> Nanos {
    Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX)
}

/// Reads how much a table holds and how long.
pub fn limits(args: &mut Args) -> Limits {
    Limits {
        packets: args.keyword("CAPACITY", 2048),
        entries: args.keyword("ENTRY_CAPACITY", 0),
        entry_packets: args.keyword("ENTRY_PACKET_CAPACITY", 0),
        timeout: nanos(args.keyword("TIMEOUT", Duration::from_secs(300))),
    }
}

impl<K: Key> NeighbourTable<K> {
    /// An empty table for so many workers.
    pub fn new(limits: Limits, workers: usize) -> NeighbourTable<K> {
        NeighbourTable {
            neighbours: Neighbours::new(limits),
            drops: PerWorker::new(workers),
            clock: OnceLock::new(),
            users: Mutex::default(),
        }
    }

    /// What it holds.
    pub fn neighbours(&self) -> &Neighbours<K> {
        &self.neighbours
    }

    /// An element on one of the workers will carry out what changes ask for.
    pub fn used_by(&self, cx: &LocalCx, poll: Nanos) {
        self.clock.get_or_init(|| cx.clock.clone());
        let mut users = self.users();
        if !users.iter().any(|user| user.node == cx.node) {
            users.push(User { node: cx.node, poll });
        }
    }

    fn users(&self) -> MutexGuard<'_, Vec<User>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        self.clock.get().map_or(0, |clock| clock.now())
    }

    /// The table for a look or a change by handler: addresses are asked for as the most eager user would.
    fn lock(&self) -> Change<'_, K> {
        let polls = self.users().iter().map(|user| user.poll).filter(|poll| *poll > 0).min();
        self.neighbours.lock(polls.unwrap_or(0))
    }

    /// A change by handler: the elements that use the table carry out what it asks for.
    fn change<R>(
        &self,
        cx: &HandlerCx<'_>,
        change: impl FnOnce(&mut Change<'_, K>, &mut Effects<K>) -> R,
    ) -> R {
        let mut effects = Effects::default();
        let mut table = self.lock();
        let result = change(&mut table, &mut effects);
        table.leave(effects);
        drop(table);
        self.users().iter().for_each(|user| cx.wake_element(user.node));
        result
    }

    fn insert(&self, text: &str, cx: &HandlerCx<'_>) -> Result<(), String> {
        let Mapping::<K>(ip, mac) = value(text)?;
        let ip = K::from_ip(ip);
        if ip == K::default() {
            return Err(format!("no host has the address {}", ip.ip()));
        }
        let now = self.now();
        self.change(cx, |table, effects| table.insert(ip, mac, now, effects));
        Ok(())
    }

    fn delete(&self, text: &str, cx: &HandlerCx<'_>) -> Result<(), String> {
        let ip = K::from_ip(value(text)?);
        let found = self.change(cx, |table, effects| table.remove(ip, effects));
        if found { Ok(()) } else { Err(format!("{} is not in the table", ip.ip())) }
    }
}

/// The handlers of a class that has or is a table.
pub fn table_handlers<C: Class, K: Key>(h: &mut Handlers<C>, table: fn(&C) -> &NeighbourTable<K>) {
    h.read("table", move |c| table(c).lock().text(table(c).now()));
    h.read("count", move |c| table(c).lock().entries().to_string());
    h.read("length", move |c| table(c).lock().packets().to_string());
    h.write("insert", move |c, text, cx| table(c).insert(text, cx));
    h.write("delete", move |c, text, cx| table(c).delete(text, cx));
    h.write("clear", move |c, _, cx| {
        table(c).change(cx, |table, effects| table.clear(effects));
        Ok(())
    });
}
