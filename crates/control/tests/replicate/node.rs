//! A node that follows, without a socket.

use crate::tables;
use control::Tables;
use control::replicate::{Answer, Feed, Frames, Hello, Log, Message, Replica, VERSION};
use std::sync::Arc;

/// A node and its connection, if it has one.
pub struct Node {
    pub tables: Tables,
    pub replica: Replica,
    pub feed: Option<Feed>,
    frames: Frames,
    /// What was sent and has not come.
    wire: Vec<u8>,
}

impl Node {
    pub fn new() -> Node {
        let tables = tables();
        let replica = Replica::new(tables.clone());
        Node { tables, replica, feed: None, frames: Frames::default(), wire: Vec::new() }
    }

    pub fn connect(&mut self, log: &Arc<Log>) -> Option<u64> {
        let (mut hello, mut bytes) = (None, Vec::new());
        Frames::default()
            .feed(&self.replica.hello("b"), |kind, body| {
                if let Message::Hello(Hello { life, position, .. }) = Message::decode(kind, body)? {
                    hello = Some((life, position));
                }
                Ok(())
            })
            .unwrap();
        let (life, position) = hello.unwrap();
        let hello = Hello { oldest: 1, newest: VERSION, life, position, name: "b" };
        let (feed, resumes) = Feed::new(log, &hello, &mut bytes).unwrap();
        (self.feed, self.frames, self.wire) = (Some(feed), Frames::default(), bytes);
        resumes
    }

    pub fn disconnect(&mut self) {
        self.feed = None;
        self.wire.clear();
    }

    /// Takes some bytes of what was sent; more is sent when nothing is under way.
    pub fn take(&mut self, most: usize) {
        let Some(feed) = &mut self.feed else { return };
        if self.wire.is_empty() {
            feed.next(&mut self.wire);
        }
        let rest = self.wire.split_off(most.min(self.wire.len()));
        let replica = &mut self.replica;
        self.frames
            .feed(&std::mem::replace(&mut self.wire, rest), |kind, body| {
                assert_eq!(replica.take(kind, body)?, Answer::None);
                Ok(())
            })
            .unwrap();
    }

    /// There is more to come, as far as is known.
    pub fn has_more(&self) -> bool {
        self.feed.as_ref().is_some_and(Feed::has_more) || !self.wire.is_empty()
    }

    pub fn catch_up(&mut self) {
        while self.has_more() {
            self.take(usize::MAX);
        }
    }
}
