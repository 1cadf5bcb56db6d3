//! The end of the control process.

use super::pipe::Pipe;
use crate::priority;
use crate::publish::Tables;
use crate::replicate::change::Topic;
use crate::replicate::channel::ChannelError;
use crate::replicate::client::ALIVE;
use crate::replicate::feed::Feed;
use crate::replicate::log::{Log, Waker};
use crate::replicate::message::{Hello, Message, OLDEST, VERSION, common_version};
use crate::replicate::replica::{Answer, FIRST, Replica};
use crate::replicate::server::waker;
use crate::replicate::wire::ProtocolError;
use fib::{Interfaces, Unread};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The router has so long to say hello, and to tell what is in its tables.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it says how it gets on.
const REPORT: Duration = Duration::from_millis(250);
/// What the router is called among those that follow.
const ROUTER: &str = "router";

/// The control side, connected to its router, with the tables that it is to change.
pub struct Side {
    pipe: Pipe,
    waker: Arc<Waker>,
    log: Arc<Log>,
    versions: (u8, u8),
    /// Its tables began as the router's.
    found: bool,
}

impl Side {
    /// Hears what is in the router's tables. Those here are the same then.
    ///
    /// # Errors
    /// If the other end is no router, or gone.
    pub fn open(stream: UnixStream) -> Result<Side, ChannelError> {
        let (mut pipe, waker) = (Pipe::new(stream)?, waker()?);
        let Heard { tables, versions, found } = hear(&mut pipe, &waker)?;
        let log = Log::new(&tables, Log::ROOM);
        Ok(Side { pipe, waker, log, versions, found })
    }

    /// What is to be changed.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Whether the router had something in its tables.
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// Sends the router what changes, from when the tables are [whole](Log::set_ready), until the router is gone. Some
    /// times a second, and when the router has everything for the first time, it says what `report` says; `None` stops it
    /// from saying that it lives. The calling thread goes before others from now on.
    ///
    /// # Errors
    /// Always, why it has ended: [`Closed`](ChannelError::Closed) when the router is gone.
    pub fn serve(mut self, mut report: impl FnMut() -> Option<Vec<u8>>) -> Result<(), ChannelError> {
        priority::raise();
        let log = self.log.clone();
        log.ring().wake(&self.waker);
        let (oldest, newest) = self.versions;
        let (life, position) = if self.found { (log.life(), FIRST) } else { (0, 0) };
        let hello = Hello { oldest, newest, life, position, name: ROUTER };
        let (mut feed, mut session, mut said, mut is_behind) = (None::<Feed>, 0, None::<Instant>, true);
        loop {
            self.waker.rest();
            if feed.is_none() && log.is_ready() {
                let (begun, resumes) = Feed::new(&log, &hello, self.pipe.out())?;
                session = log.nodes.connect(ROUTER, resumes);
                feed = Some(begun);
            }
            if is_behind && self.pipe.is_idle() && feed.as_ref().is_some_and(|feed| !feed.has_more()) {
                (is_behind, said) = (false, None);
            }
            if said.is_none_or(|said| said.elapsed() >= REPORT) {
                said = Some(Instant::now());
                if let Some(report) = report() {
                    self.pipe.out().extend(Message::Report(&report).encode());
                }
            }
            if let Some(feed) = feed.as_mut().filter(|_| self.pipe.is_idle()) {
                feed.next(self.pipe.out());
            }
            let moved = self.pipe.turn(|kind, body, _| match Message::decode(kind, body)? {
                Message::Ack(position) if position <= log.ring().position() => {
                    log.nodes.acknowledge(ROUTER, session, position);
                    Ok(())
                }
                Message::Unknown => Ok(()),
                _ => Err(ProtocolError::Turn("a message")),
            })?;
            let has_more = self.pipe.is_idle() && feed.as_ref().is_some_and(Feed::has_more);
            if !moved && !has_more {
                self.pipe.wait(&self.waker, REPORT);
            }
        }
    }
}

/// What the router has said.
struct Heard {
    tables: Tables,
    /// Those of the protocol that it speaks.
    versions: (u8, u8),
    /// There was something in its tables.
    found: bool,
}

/// Waits for the hello, and if the router has something in its tables for that.
fn hear(pipe: &mut Pipe, waker: &Waker) -> Result<Heard, ChannelError> {
    let begun = Instant::now();
    let mut heard: Option<(Heard, Replica)> = None;
    while heard.as_ref().is_none_or(|(heard, replica)| heard.found && !replica.is_synced()) {
        if begun.elapsed() >= PATIENCE {
            return Err(ChannelError::Late("the router did not tell what is in its tables", PATIENCE));
        }
        let moved = pipe.turn(|kind, body, out| match (Message::decode(kind, body)?, &mut heard) {
            (Message::Hello(hello), None) => {
                let (version, begun) = begin(&hello)?;
                if begun.0.found {
                    out.extend(Message::TellAll(version).encode());
                }
                heard = Some(begun);
                Ok(())
            }
            (_, Some((Heard { found: true, .. }, replica))) => match replica.take(kind, body)? {
                Answer::None => Ok(()),
                _ => Err(ProtocolError::Turn("a question")),
            },
            _ => Err(ProtocolError::Turn("a message")),
        })?;
        if !moved {
            pipe.wait(waker, ALIVE);
        }
    }
    heard.map(|(heard, _)| heard).ok_or(ChannelError::Closed)
}

/// Empty tables of the kind that the router can follow, and the version to speak with it.
fn begin(hello: &Hello<'_>) -> Result<(u8, (Heard, Replica)), ProtocolError> {
    let versions = (hello.oldest, hello.newest);
    let version = common_version((OLDEST, VERSION), versions)
        .ok_or(ProtocolError::Version(hello.oldest, hello.newest))?;
    let mut tables = Tables::new(Unread, Unread);
    if version >= Topic::Interfaces.since() {
        tables = tables.with_interfaces(Arc::new(Interfaces::unread()));
    }
    let replica = Replica::new(tables.clone());
    Ok((version, (Heard { tables, versions, found: hello.life != 0 }, replica)))
}
