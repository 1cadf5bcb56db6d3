//! What the control node says to one node: a state machine without sockets and clocks.

use super::change;
use super::log::Log;
use super::message::{Hello, Message, OLDEST, VERSION, common_version};
use super::snapshot::Snapshot;
use super::wire::ProtocolError;
use std::sync::Arc;

/// So many bytes are asked of the log at once.
const PORTION: usize = 128 * 1024;

/// What a node is sent.
pub struct Feed {
    log: Arc<Log>,
    /// The version that the node is spoken to in.
    version: u8,
    /// A snapshot that is under way, and how many of its frames were sent.
    snapshot: Option<(Arc<Snapshot>, usize)>,
    /// All changes up to here were sent, or are in the snapshot.
    position: u64,
    /// Snapshots begun.
    pub snapshots: u64,
}

impl Feed {
    /// The answer to a hello, and what is to be sent from then on. The second value is where the node goes on, if it does
    /// not begin anew.
    ///
    /// # Errors
    /// If the node speaks another version.
    pub fn new(
        log: &Arc<Log>,
        hello: &Hello<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(Feed, Option<u64>), ProtocolError> {
        let version = common_version((OLDEST, VERSION), (hello.oldest, hello.newest))
            .ok_or(ProtocolError::Version(hello.oldest, hello.newest))?;
        out.extend(Message::Welcome { version, life: log.life() }.encode());
        let mut feed =
            Feed { log: log.clone(), version, snapshot: None, position: hello.position, snapshots: 0 };
        // A node that has nothing is at no position.
        let resumes =
            hello.life == log.life() && hello.position > 0 && log.ring().has_all_after(hello.position);
        if !resumes {
            feed.begin_snapshot(out);
        }
        Ok((feed, resumes.then_some(hello.position)))
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        out.extend(Message::Snapshot.encode());
        let snapshot = self.log.snapshot();
        self.position = snapshot.begin();
        self.snapshot = Some((snapshot, 0));
        self.snapshots += 1;
    }

    /// True if there is something to be sent.
    pub fn has_more(&self) -> bool {
        self.snapshot.is_some() || self.position != self.log.ring().position()
    }

    /// Adds what is to be sent next to `out`, some 100 KB of it at most. Adds nothing when there is nothing new.
    pub fn next(&mut self, out: &mut Vec<u8>) {
        let most = out.len() + PORTION;
        if let Some((snapshot, sent)) = &mut self.snapshot {
            let frames = snapshot.frames(self.version);
            while out.len() < most
                && let Some(frame) = frames.get(*sent)
            {
                out.extend_from_slice(frame);
                *sent += 1;
            }
            if *sent < frames.len() {
                return;
            }
        }
        let Some(news) = self.log.ring().after(self.position, PORTION) else {
            // It was too slow: what it has not got is not there any more.
            return self.begin_snapshot(out);
        };
        let mut unsaid = false;
        for (position, topic, frame) in news.frames {
            let known = self.snapshot.as_ref().map_or(0, |(snapshot, _)| snapshot.position(topic));
            let is_said = topic.since() <= self.version;
            if position > known && is_said {
                out.extend_from_slice(&frame);
            }
            self.position = position;
            unsaid = !is_said && self.snapshot.is_none();
            // From here on the tables of the node are as they were here at one moment.
            self.end_snapshot(out);
        }
        if unsaid {
            // So that it comes to this position.
            out.extend(change::nothing(self.position));
        }
        self.end_snapshot(out);
    }

    fn end_snapshot(&mut self, out: &mut Vec<u8>) {
        if let Some((snapshot, _)) = &self.snapshot
            && self.position >= snapshot.end()
        {
            out.extend(Message::End(self.position).encode());
            self.snapshot = None;
        }
    }
}
