//! Which nodes follow, and how far they have come: what is out of use at all of them can be used anew.

use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So long after a node was lost it may still forward as it was told last.
pub const LINGER: Duration = Duration::from_secs(600);

/// What there is to see of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// There is a connection.
    pub connected: bool,
    /// It has all that there is, or is only behind by some changes.
    pub synced: bool,
    /// Up to this position it has everything in its tables.
    pub position: u64,
    /// How many changes it is behind.
    pub behind: u64,
    /// Times that it was sent everything.
    pub snapshots: u64,
    /// Times that it went on where it had been.
    pub resumptions: u64,
}

#[derive(Debug)]
struct Node {
    /// Counts connections, so that an old one does not speak for the new one.
    session: u64,
    connected: bool,
    synced: bool,
    position: u64,
    /// When it was lost.
    lost: Duration,
    snapshots: u64,
    resumptions: u64,
}

/// The nodes by name.
#[derive(Debug, Default)]
pub struct Nodes(Mutex<BTreeMap<String, Node>>);

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node has connected, with everything up to `position`, or goes on from nothing. Returns the number of the
    /// connection; older ones of the same node are over.
    pub fn connect(&self, name: &str, resumes: Option<u64>) -> u64 {
        let mut nodes = self.lock();
        let node = nodes.entry(name.to_owned()).or_insert(Node {
            session: 0,
            connected: false,
            synced: false,
            position: 0,
            lost: Duration::ZERO,
            snapshots: 0,
            resumptions: 0,
        });
        node.session += 1;
        node.connected = true;
        node.synced = resumes.is_some();
        node.position = resumes.unwrap_or(0);
        node.resumptions += u64::from(resumes.is_some());
        node.session
    }

    fn with(&self, name: &str, session: u64, change: impl FnOnce(&mut Node)) -> bool {
        let mut nodes = self.lock();
        let node = nodes.get_mut(name).filter(|node| node.session == session);
        node.map(change).is_some()
    }

    /// The node gets everything. Returns false if this connection is over.
    pub fn snapshot(&self, name: &str, session: u64) -> bool {
        self.with(name, session, |node| {
            node.synced = false;
            node.snapshots += 1;
        })
    }

    /// The node has everything up to this position. Returns false if this connection is over.
    pub fn acknowledge(&self, name: &str, session: u64, position: u64) -> bool {
        self.with(name, session, |node| {
            node.synced |= position > 0;
            node.position = node.position.max(position);
        })
    }

    /// The connection is over.
    pub fn disconnect(&self, name: &str, session: u64, now: Duration) {
        self.with(name, session, |node| {
            node.connected = false;
            node.lost = now;
        });
    }

    /// The position up to which all nodes have everything; those that were lost long ago do not count. `newest` if there
    /// are none.
    pub fn settled(&self, newest: u64, now: Duration) -> u64 {
        let nodes = self.lock();
        let counts = |node: &&Node| node.connected || now.saturating_sub(node.lost) < LINGER;
        nodes.values().filter(counts).map(|node| node.position).min().unwrap_or(newest)
    }

    /// Forgets all but some.
    pub fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.lock().retain(|name, _| keep(name));
    }

    /// What there is to see.
    pub fn status(&self, newest: u64) -> Vec<NodeStatus> {
        let status = |(name, node): (&String, &Node)| NodeStatus {
            name: name.clone(),
            connected: node.connected,
            synced: node.synced,
            position: node.position,
            behind: newest.saturating_sub(node.position),
            snapshots: node.snapshots,
            resumptions: node.resumptions,
        };
        self.lock().iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_have_is_settled() {
        let (nodes, now) = (Nodes::default(), Duration::from_secs(1000));
        assert_eq!(nodes.settled(50, now), 50);
        let b = nodes.connect("b", Some(40));
        let c = nodes.connect("c", None);
        assert_eq!(nodes.settled(50, now), 0);
        assert!(nodes.snapshot("c", c) && nodes.acknowledge("c", c, 45));
        assert_eq!(nodes.settled(50, now), 40);
        assert!(nodes.acknowledge("b", b, 48));
        assert_eq!(nodes.settled(50, now), 45);
        // A new connection takes the place of the old one, which cannot say anything any more.
        let again = nodes.connect("b", Some(47));
        nodes.disconnect("b", b, now);
        assert!(!nodes.acknowledge("b", b, 50) && !nodes.snapshot("b", b));
        let rows = nodes.status(50);
        let row = |i: usize| (&rows[i].name[..], rows[i].connected, rows[i].position, rows[i].behind);
        assert_eq!((row(0), row(1)), (("b", true, 47, 3), ("c", true, 45, 5)));
        assert_eq!((rows[0].resumptions, rows[1].snapshots), (2, 1));
        // One that is lost counts for a while.
        nodes.disconnect("c", c, now);
        assert!(nodes.acknowledge("b", again, 50));
        assert_eq!(nodes.settled(60, now + LINGER - Duration::from_secs(1)), 45);
        assert_eq!(nodes.settled(60, now + LINGER), 50);
    }
}
