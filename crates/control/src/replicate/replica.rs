//! The node's side: what the control node says, made in the node's own tables. A state machine without sockets and clocks.
//!
//! A snapshot does not empty the tables. It is made over what is there, each of its routes and neighbours is noted, and at
//! its end those that were not in it go.

use super::change::{self, Change};
use super::log::Snapshot;
use super::message::{Hello, Message, OLDEST, VERSION};
use super::renumber;
use super::wire::ProtocolError;
use crate::publish::Tables;
use fib::{Address, Adjacencies, AdjacencyChanges, Family, HopGroup, NextHop, NextHopId, Prefix, RouteTable};
use serde::Serialize;
use std::collections::HashSet;

/// Where a life begins.
pub const FIRST: u64 = 1;
/// Routes of a family that a snapshot may have.
const MOST_ROUTES: usize = 1 << 25;
/// Neighbours and groups of a family that a snapshot may have.
const MOST_NEIGHBOURS: usize = 1 << 24;
/// Routes of a snapshot that are made at once: tables that take up so many make themselves anew.
const AT_ONCE: usize = 1 << 18;

/// What has been made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Frames of changes.
    pub changes: u64,
    /// Routes that were named in them.
    pub routes: u64,
    /// Snapshots that came whole.
    pub snapshots: u64,
    /// Routes, neighbours and groups that a snapshot did not have any more.
    pub swept: u64,
    /// Numbers of next hops that a snapshot gave to others while they were in use.
    pub renumbered: u64,
}

/// What the frames of a snapshot have named.
#[derive(Debug, Default)]
struct Seen {
    half4: SeenHalf<u32>,
    half6: SeenHalf<u128>,
}

#[derive(Debug)]
struct SeenHalf<A: Address> {
    /// Numbers that are not made yet: they come first, and are made together.
    hops: Vec<(NextHopId, NextHop)>,
    numbered: bool,
    prefixes: Vec<Prefix<A>>,
    adjacencies: HashSet<NextHop>,
    groups: HashSet<NextHop>,
    /// Routes that are not made yet.
    waiting: Vec<(Prefix<A>, Option<NextHopId>)>,
}

impl<A: Address> Default for SeenHalf<A> {
    fn default() -> SeenHalf<A> {
        SeenHalf {
            hops: Vec::new(),
            numbered: false,
            prefixes: Vec::new(),
            adjacencies: HashSet::new(),
            groups: HashSet::new(),
            waiting: Vec::new(),
        }
    }
}

/// The tables of a node that follows.
pub struct Replica {
    tables: Tables,
    /// The life of what is in the tables; 0 if there is nothing whole.
    life: u64,
    position: u64,
    /// Of the control node on this connection, when it has said so.
    current_life: Option<u64>,
    /// How far the control node has come.
    newest: u64,
    seen: Option<Box<Seen>>,
    synced: bool,
    /// On this connection all that is in the tables was told.
    told: bool,
    /// The term of the control node that is wanted, 0 for any, and that of the one on this connection.
    terms: (u64, u64),
    /// What has been made so far.
    pub counts: Counts,
}

/// What a frame asks of whoever has the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing.
    None,
    /// This is to be sent.
    Send(Vec<u8>),
    /// The control node does not want us, and says why.
    Refused(String),
}

impl Replica {
    /// A replica in these tables, which nobody else changes.
    pub fn new(tables: Tables) -> Replica {
        Replica {
            tables,
            life: 0,
            position: 0,
            current_life: None,
            newest: 0,
            seen: None,
            synced: false,
            told: false,
            terms: (0, 0),
            counts: Counts::default(),
        }
    }

    /// The tables have everything up to here; 0 when they have nothing whole.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How far the control node had come when it last said something.
    pub fn newest(&self) -> u64 {
        self.newest.max(self.position)
    }

    /// True if a whole snapshot, or what came after one, is there on this connection.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// True if the control node has accepted this connection.
    pub fn is_welcome(&self) -> bool {
        self.current_life.is_some()
    }

    /// The life of the control node's tables that these here come from; 0 if they have nothing whole.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// From the next connection on, only the control node that was elected for this term is followed; 0: any.
    pub fn want_term(&mut self, term: u64) {
        self.terms.0 = term;
    }

    /// There is a new connection: the frame that it begins with.
    pub fn hello(&mut self, name: &str) -> Vec<u8> {
        self.begin();
        let (oldest, newest) = (OLDEST, VERSION);
        Message::Hello(Hello { oldest, newest, life: self.life, position: self.position, name }).encode()
    }

    /// As [`hello`](Self::hello), to a control side that has no life before this connection: it is only told whether
    /// there is anything in the tables.
    pub fn hello_anew(&mut self, name: &str) -> Vec<u8> {
        self.begin();
        let Tables { routes4, routes6, .. } = &self.tables;
        let has_any = !routes4.next_hop_list().is_empty() || !routes6.next_hop_list().is_empty();
        let (oldest, newest) = (OLDEST, VERSION);
        Message::Hello(Hello { oldest, newest, life: u64::from(has_any), position: 0, name }).encode()
    }

    fn begin(&mut self) {
        // What had come of a snapshot stays in the tables, and the next one finds it there.
        self.seen = None;
        self.current_life = None;
        self.synced = false;
        self.told = false;
        self.terms.1 = 0;
    }

    /// Takes a frame of the control node.
    ///
    /// # Errors
    /// If it is none, or not its turn. What was made before stays.
    pub fn take(&mut self, kind: u8, body: &[u8]) -> Result<Answer, ProtocolError> {
        match Message::decode(kind, body)? {
            Message::Tell if self.current_life.is_none() => return Ok(Answer::Send(self.numbers())),
            Message::TellAll if self.current_life.is_none() => {
                self.told = true;
                return Ok(Answer::Send(self.everything()));
            }
            Message::Refused(why) => return Ok(Answer::Refused(why.to_owned())),
            Message::Term(term) => self.terms.1 = term,
            Message::Welcome { .. } if self.terms.0 != 0 && self.terms.1 != self.terms.0 => {
                let (wanted, is) = self.terms;
                return Ok(Answer::Refused(format!("it is the control node of term {is}, not of {wanted}")));
            }
            Message::Welcome { version, life } if self.current_life.is_none() => {
                if !(OLDEST..=VERSION).contains(&version) {
                    return Err(ProtocolError::Version(version, version));
                }
                self.current_life = Some(life);
                if self.told {
                    // It has begun with what is in these tables.
                    (self.life, self.position) = (life, FIRST);
                }
                self.synced = life == self.life;
            }
            Message::Alive(position) => self.newest = position,
            Message::Unknown | Message::Report(_) => {}
            Message::Snapshot if self.current_life.is_some() => {
                self.seen = Some(Box::default());
                // Until its end the tables are as they were nowhere.
                (self.life, self.position, self.synced) = (0, 0, false);
            }
            Message::End(position) => self.end(position)?,
            Message::Changes(body) => self.change(body)?,
            _ => return Err(ProtocolError::Turn("a message")),
        }
        Ok(Answer::None)
    }

    /// All numbers of next hops, for a control node that does not know them.
    fn numbers(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let lists = [
            (Family::Ipv4, self.tables.routes4.next_hop_list()),
            (Family::Ipv6, self.tables.routes6.next_hop_list()),
        ];
        for (family, hops) in lists {
            let numbered = (0..).zip(hops).filter_map(|(index, hop)| Some((NextHopId::new(index)?, hop)));
            change::next_hops(family, numbered, &mut |frame| out.extend(frame));
        }
        out.extend(Message::Told.encode());
        out
    }

    /// The tables as a snapshot, for a control side that is to go on with them.
    fn everything(&self) -> Vec<u8> {
        let mut out = Message::Welcome { version: VERSION, life: 1 }.encode();
        out.extend(Message::Snapshot.encode());
        Snapshot::of(&self.tables, || FIRST).frames.iter().for_each(|frame| out.extend_from_slice(frame));
        out.extend(Message::End(FIRST).encode());
        out
    }

    fn change(&mut self, body: &[u8]) -> Result<(), ProtocolError> {
        let (position, family, change) = change::decode(body)?;
        let Tables { routes4, adjacencies4, routes6, adjacencies6 } = &self.tables;
        self.counts.changes += 1;
        self.counts.routes += match &change {
            Change::Routes4(routes) => routes.len() as u64,
            Change::Routes6(routes) => routes.len() as u64,
            _ => 0,
        };
        let counts = &mut self.counts;
        match &mut self.seen {
            Some(seen) => match (family, change) {
                (_, Change::Routes4(routes)) => seen.half4.routes(routes4, adjacencies4, routes, counts)?,
                (_, Change::Routes6(routes)) => seen.half6.routes(routes6, adjacencies6, routes, counts)?,
                (Family::Ipv4, change) => seen.half4.other(routes4, adjacencies4, change, counts)?,
                (Family::Ipv6, change) => seen.half6.other(routes6, adjacencies6, change, counts)?,
            },
            None if self.synced && position > self.position => {
                match (family, change) {
                    (_, Change::Routes4(routes)) => set_routes(routes4, &routes)?,
                    (_, Change::Routes6(routes)) => set_routes(routes6, &routes)?,
                    (Family::Ipv4, change) => make(routes4, adjacencies4, change)?,
                    (Family::Ipv6, change) => make(routes6, adjacencies6, change)?,
                }
                self.position = position;
            }
            None => return Err(ProtocolError::Turn("a change")),
        }
        Ok(())
    }

    fn end(&mut self, position: u64) -> Result<(), ProtocolError> {
        let Tables { routes4, adjacencies4, routes6, adjacencies6 } = &self.tables;
        let (Some(seen), Some(life)) = (self.seen.take(), self.current_life) else {
            return Err(ProtocolError::Turn("the end of a snapshot"));
        };
        let Seen { half4, half6 } = *seen;
        half4.end(routes4, adjacencies4, &mut self.counts)?;
        half6.end(routes6, adjacencies6, &mut self.counts)?;
        self.counts.snapshots += 1;
        (self.life, self.position, self.synced) = (life, position, true);
        Ok(())
    }
}

fn set_routes<A: Address>(
    table: &RouteTable<A>,
    routes: &[(Prefix<A>, Option<NextHopId>)],
) -> Result<(), ProtocolError> {
    table.set_routes(routes).map_err(|_| ProtocolError::Malformed("the next hop of a route"))
}

fn set_next_hops<A: Address>(
    table: &RouteTable<A>,
    adjacencies: &Adjacencies,
    hops: &[(NextHopId, NextHop)],
) -> Result<(), ProtocolError> {
    table.set_next_hops(hops).map_err(|_| ProtocolError::TooMany("next hops"))?;
    adjacencies.renumber(&table.next_hop_list());
    Ok(())
}

/// Makes a change that is not one of routes.
fn make<A: Address>(
    table: &RouteTable<A>,
    adjacencies: &Adjacencies,
    change: Change,
) -> Result<(), ProtocolError> {
    let hops = table.next_hop_list();
    let known = |group: &HopGroup| group.members().iter().all(|member| member.hop.index() < hops.len());
    match change {
        Change::NextHops(hops) => return set_next_hops(table, adjacencies, &hops),
        Change::Adjacencies(all) => {
            adjacencies.change(AdjacencyChanges { adjacencies: all, groups: Vec::new() }, &hops);
        }
        Change::Groups(groups) => {
            if !groups.iter().filter_map(|(_, group)| group.as_ref()).all(known) {
                return Err(ProtocolError::Malformed("a member of a group"));
            }
            adjacencies.change(AdjacencyChanges { adjacencies: Vec::new(), groups }, &hops);
        }
        Change::Links(mtus, seed) => adjacencies.set_links(&mtus, seed, &hops),
        Change::Routes4(_) | Change::Routes6(_) => {}
    }
    Ok(())
}

impl<A: Address> SeenHalf<A> {
    /// The numbers have all come: makes them, and sees to it that nothing leads to the wrong next hop meanwhile.
    fn number(
        &mut self,
        table: &RouteTable<A>,
        adjacencies: &Adjacencies,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        if !self.numbered {
            self.numbered = true;
            let hops = std::mem::take(&mut self.hops);
            counts.renumbered += renumber::make_way(table, adjacencies, &hops);
            set_next_hops(table, adjacencies, &hops)?;
        }
        Ok(())
    }

    fn routes(
        &mut self,
        table: &RouteTable<A>,
        adjacencies: &Adjacencies,
        routes: Vec<(Prefix<A>, Option<NextHopId>)>,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        self.number(table, adjacencies, counts)?;
        self.prefixes.extend(routes.iter().filter(|(_, hop)| hop.is_some()).map(|(prefix, _)| *prefix));
        if self.prefixes.len() > MOST_ROUTES {
            return Err(ProtocolError::TooMany("routes"));
        }
        self.waiting.extend(routes);
        if self.waiting.len() >= AT_ONCE { self.make_waiting(table) } else { Ok(()) }
    }

    fn make_waiting(&mut self, table: &RouteTable<A>) -> Result<(), ProtocolError> {
        set_routes(table, &std::mem::take(&mut self.waiting))
    }

    fn other(
        &mut self,
        table: &RouteTable<A>,
        adjacencies: &Adjacencies,
        change: Change,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        match &change {
            Change::NextHops(hops) if !self.numbered => {
                self.hops.extend(hops);
                let many = self.hops.len() > fib::NextHops::LIMIT;
                return if many { Err(ProtocolError::TooMany("next hops")) } else { Ok(()) };
            }
            Change::Adjacencies(all) => self.adjacencies.extend(all.iter().map(|(hop, _)| *hop)),
            Change::Groups(all) => self.groups.extend(all.iter().map(|(hop, _)| *hop)),
            _ => {}
        }
        if self.adjacencies.len().max(self.groups.len()) > MOST_NEIGHBOURS {
            return Err(ProtocolError::TooMany("neighbours"));
        }
        self.number(table, adjacencies, counts)?;
        // A number may get another meaning: first what was said of the old one.
        self.make_waiting(table)?;
        make(table, adjacencies, change)
    }

    /// The snapshot is whole: what it did not name goes, routes before what they lead to.
    fn end(
        mut self,
        table: &RouteTable<A>,
        adjacencies: &Adjacencies,
        counts: &mut Counts,
    ) -> Result<(), ProtocolError> {
        self.number(table, adjacencies, counts)?;
        self.make_waiting(table)?;
        // They came in order, but for the last changes.
        self.prefixes.sort_unstable();
        let mut seen = self.prefixes.iter().peekable();
        let mut stale = Vec::new();
        for (prefix, _) in &table.snapshot(|| ()).rib {
            while seen.next_if(|seen| **seen < prefix).is_some() {}
            if seen.peek() != Some(&&prefix) {
                stale.push((prefix, None));
            }
        }
        set_routes(table, &stale)?;
        let known = adjacencies.snapshot(|| ());
        let gone =
            known.adjacencies.iter().map(|(hop, _)| *hop).filter(|hop| !self.adjacencies.contains(hop));
        let mut changes = AdjacencyChanges::default();
        changes.adjacencies.extend(gone.map(|hop| (hop, None)));
        let gone = known.groups.iter().map(|(hop, _)| *hop).filter(|hop| !self.groups.contains(hop));
        changes.groups.extend(gone.map(|hop| (hop, None)));
        counts.swept += (stale.len() + changes.len()) as u64;
        if !changes.is_empty() {
            adjacencies.change(changes, &table.next_hop_list());
        }
        Ok(())
    }
}
