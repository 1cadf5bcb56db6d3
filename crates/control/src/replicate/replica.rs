//! The node's side: what the control node says, made in the node's own tables. A state machine without sockets and clocks.
//!
//! A snapshot does not empty the tables. It is made over what is there, each of its routes and neighbours is noted, and at
//! its end those that were not in it go.

use super::change::{self, Change, Named, Topic};
use super::half::{Half, SeenHalf};
use super::message::{Hello, Message, OLDEST, VERSION};
use super::scope::{Scope, SeenScope};
use super::snapshot::Snapshot;
use super::wire::ProtocolError;
use crate::publish::Tables;
use fib::{Family, InterfaceMap, NextHopId};
use serde::Serialize;

/// Where a life begins.
pub const FIRST: u64 = 1;
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
    scope: SeenScope,
}

/// The tables of a node that follows.
pub struct Replica {
    tables: Tables,
    scope: Scope,
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
            scope: Scope::new(tables.interfaces.clone()),
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
        // It does not hear of others, and goes on with these.
        self.scope.reset();
        let Tables { routes4, routes6, interfaces, .. } = &self.tables;
        let is_empty = routes4.next_hop_count() + routes6.next_hop_count() == 0;
        let has_any = !is_empty || interfaces.as_ref().is_some_and(|all| !all.with(InterfaceMap::is_empty));
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
            Message::Tell(version) if self.current_life.is_none() => {
                return Ok(Answer::Send(self.numbers(version)));
            }
            Message::TellAll(version) if self.current_life.is_none() => {
                check_version(version)?;
                self.told = true;
                return Ok(Answer::Send(self.everything(version)));
            }
            Message::Refused(why) => return Ok(Answer::Refused(why.to_owned())),
            Message::Term(term) => self.terms.1 = term,
            Message::Welcome { .. } if self.terms.0 != 0 && self.terms.1 != self.terms.0 => {
                let (wanted, is) = self.terms;
                return Ok(Answer::Refused(format!("it is the control node of term {is}, not of {wanted}")));
            }
            Message::Welcome { version, life } if self.current_life.is_none() => {
                check_version(version)?;
                if version < Topic::Interfaces.since() {
                    // It does not know of any, and will not say when they go.
                    self.scope.clear();
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

    /// All numbers of next hops and interfaces, for a control node of this version that does not know them.
    fn numbers(&self, version: u8) -> Vec<u8> {
        let mut out = Vec::new();
        let lists = [
            (Family::Ipv4, self.tables.routes4.next_hop_list()),
            (Family::Ipv6, self.tables.routes6.next_hop_list()),
        ];
        for (family, hops) in lists {
            let numbered = (0..).zip(hops).filter_map(|(index, hop)| Some((NextHopId::new(index)?, hop)));
            change::next_hops(family, numbered, &mut |frame| out.extend(frame));
        }
        if let Some(interfaces) =
            self.tables.interfaces.as_ref().filter(|_| version >= Topic::Interfaces.since())
        {
            let (all, ()) = interfaces.snapshot(drop);
            change::interfaces(all.iter().map(Named::from), &mut |frame| out.extend(frame));
        }
        out.extend(Message::Told.encode());
        out
    }

    /// The tables as a snapshot, for a control side that is to go on with them.
    fn everything(&self, version: u8) -> Vec<u8> {
        let mut out = Message::Welcome { version, life: 1 }.encode();
        out.extend(Message::Snapshot.encode());
        let all = Snapshot::of(&self.tables, || FIRST);
        all.frames(version).iter().for_each(|frame| out.extend_from_slice(frame));
        out.extend(Message::End(FIRST).encode());
        out
    }

    fn change(&mut self, body: &[u8]) -> Result<(), ProtocolError> {
        let (position, family, change) = change::decode(body)?;
        self.counts.changes += 1;
        self.counts.routes += match &change {
            Change::Routes4(routes) | Change::VrfRoutes4(_, routes) => routes.len() as u64,
            Change::Routes6(routes) | Change::VrfRoutes6(_, routes) => routes.len() as u64,
            _ => 0,
        };
        if self.seen.is_some() {
            self.see(family, change)
        } else if self.synced && position > self.position {
            let (half4, half6) = halves(&self.tables);
            match (family, change) {
                (_, Change::Routes4(routes)) => half4.set_routes(&routes)?,
                (_, Change::Routes6(routes)) => half6.set_routes(&routes)?,
                (_, Change::VrfRoutes4(table, routes)) => self.scope.routes(table, half4.table, &routes)?,
                (_, Change::VrfRoutes6(table, routes)) => self.scope.routes(table, half6.table, &routes)?,
                (_, Change::Vrfs(vrfs)) => self.scope.vrfs(vrfs)?,
                (_, Change::Interfaces(all)) => self.scope.interfaces(all)?,
                (Family::Ipv4, change) => half4.make(change)?,
                (Family::Ipv6, change) => half6.make(change)?,
            }
            self.position = position;
            Ok(())
        } else {
            Err(ProtocolError::Turn("a change"))
        }
    }

    /// Takes a change that is a part of a snapshot.
    fn see(&mut self, family: Family, change: Change) -> Result<(), ProtocolError> {
        let Some(Seen { half4, half6, scope: seen }) = self.seen.as_deref_mut() else { return Ok(()) };
        let (to4, to6) = halves(&self.tables);
        let (scope, counts) = (&mut self.scope, &mut self.counts);
        match (family, change) {
            (_, Change::Routes4(routes)) => half4.routes(&to4, scope, routes, counts),
            (_, Change::Routes6(routes)) => half6.routes(&to6, scope, routes, counts),
            (_, Change::VrfRoutes4(table, routes)) => {
                half4.number(&to4, scope, counts)?;
                scope.see_routes(&mut seen.prefixes4, table, to4.table, &routes)
            }
            (_, Change::VrfRoutes6(table, routes)) => {
                half6.number(&to6, scope, counts)?;
                scope.see_routes(&mut seen.prefixes6, table, to6.table, &routes)
            }
            (_, Change::Vrfs(vrfs)) => scope.see_vrfs(seen, vrfs),
            (_, Change::Interfaces(all)) => {
                scope.make_way(&all);
                seen.interfaces(all);
                Ok(())
            }
            (Family::Ipv4, change) => half4.other(&to4, scope, change, counts),
            (Family::Ipv6, change) => half6.other(&to6, scope, change, counts),
        }
    }

    fn end(&mut self, position: u64) -> Result<(), ProtocolError> {
        let (Some(seen), Some(life)) = (self.seen.take(), self.current_life) else {
            return Err(ProtocolError::Turn("the end of a snapshot"));
        };
        let (to4, to6) = halves(&self.tables);
        let Seen { mut half4, mut half6, scope: seen } = *seen;
        half4.make_all(&to4, &self.scope, &mut self.counts)?;
        half6.make_all(&to6, &self.scope, &mut self.counts)?;
        // Routes before what they lead to.
        self.counts.swept += self.scope.end(seen)?;
        half4.end(&to4, &mut self.counts)?;
        half6.end(&to6, &mut self.counts)?;
        self.counts.snapshots += 1;
        (self.life, self.position, self.synced) = (life, position, true);
        Ok(())
    }
}

fn check_version(version: u8) -> Result<(), ProtocolError> {
    let is_spoken = (OLDEST..=VERSION).contains(&version);
    if is_spoken { Ok(()) } else { Err(ProtocolError::Version(version, version)) }
}

fn halves(tables: &Tables) -> (Half<'_, u32>, Half<'_, u128>) {
    let Tables { routes4, adjacencies4, routes6, adjacencies6, .. } = tables;
    (Half { table: routes4, adjacencies: adjacencies4 }, Half { table: routes6, adjacencies: adjacencies6 })
}
