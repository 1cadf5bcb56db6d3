//! The end of the control process.

use super::pipe::Pipe;
use crate::publish::Tables;
use crate::replicate::channel::ChannelError;
use crate::replicate::client::ALIVE;
use crate::replicate::feed::Feed;
use crate::replicate::log::{Log, Waker};
use crate::replicate::message::{Hello, Message};
use crate::replicate::replica::{Answer, FIRST, Replica};
use crate::replicate::server::waker;
use crate::replicate::wire::ProtocolError;
use fib::Unread;
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
        let tables = Tables::new(Unread, Unread);
        let (versions, found) = hear(&mut pipe, &waker, &tables)?;
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
    /// from saying that it lives.
    ///
    /// # Errors
    /// Always, why it has ended: [`Closed`](ChannelError::Closed) when the router is gone.
    pub fn serve(mut self, mut report: impl FnMut() -> Option<Vec<u8>>) -> Result<(), ChannelError> {
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

/// Waits for the hello, and if the router has something in its tables for that. Returns the versions that the router
/// speaks, and whether it had something.
fn hear(pipe: &mut Pipe, waker: &Waker, tables: &Tables) -> Result<((u8, u8), bool), ChannelError> {
    let begun = Instant::now();
    let mut replica = Replica::new(tables.clone());
    let mut hello = None;
    while hello.is_none_or(|(_, found)| found && !replica.is_synced()) {
        if begun.elapsed() >= PATIENCE {
            return Err(ChannelError::Late("the router did not tell what is in its tables", PATIENCE));
        }
        let moved = pipe.turn(|kind, body, out| match (Message::decode(kind, body)?, hello) {
            (Message::Hello(said), None) => {
                hello = Some(((said.oldest, said.newest), said.life != 0));
                if said.life != 0 {
                    out.extend(Message::TellAll.encode());
                }
                Ok(())
            }
            (_, Some((_, true))) => match replica.take(kind, body)? {
                Answer::None => Ok(()),
                _ => Err(ProtocolError::Turn("a question")),
            },
            _ => Err(ProtocolError::Turn("a message")),
        })?;
        if !moved {
            pipe.wait(waker, ALIVE);
        }
    }
    hello.ok_or(ChannelError::Closed)
}
