//! The twins of lines of other nodes lose their carriers with their nodes, so that Linux and its daemons see it.

use super::text::SWITCH;
use control::link::change;
use control::netlink::request::LinkChange;
use graph::Router;
use serde_json::Value;
use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(50);
/// For how many looks in a row a node must be out of reach before its lines lose their carriers. Without one Linux forgets
/// the neighbours, and takes up to a second to begin again; meanwhile packets pass Linux, and come out of order. Nodes that
/// were merely kept from running for some hellos are not worth that.
const PATIENCE: u8 = 6;

/// The twin of a line that another node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The node.
    pub node: usize,
    /// The number of the twin's interface.
    pub twin: u32,
}

/// Keeps carriers as nodes are until it is dropped.
#[derive(Debug)]
pub struct Carriers {
    stop: Arc<AtomicBool>,
    twins: Arc<Mutex<Twins>>,
    thread: Option<JoinHandle<()>>,
}

/// Twins, and what each has.
type Twins = Vec<(Remote, Carrier)>;

impl Carriers {
    /// Starts in the current network namespace, where the twins are.
    ///
    /// # Errors
    /// Those of the system.
    pub fn keep(router: &Arc<Router>, twins: Vec<Remote>) -> io::Result<Carriers> {
        let stop = Arc::new(AtomicBool::new(false));
        // A tap has a carrier at first.
        let all: Twins = twins.into_iter().map(|twin| (twin, Carrier { is: true, misses: 0 })).collect();
        let twins = Arc::new(Mutex::new(all));
        let (router, also, all) = (router.clone(), stop.clone(), twins.clone());
        let thread = Builder::new().name("carriers".to_owned()).spawn(move || {
            while !also.load(Ordering::Relaxed) {
                if let Some(reached) = reached(&router) {
                    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                    all.iter_mut().for_each(|(twin, carrier)| set(*twin, carrier, &reached));
                }
                sleep(LOOK);
            }
        })?;
        Ok(Carriers { stop, twins, thread: Some(thread) })
    }

    /// From now on a node has these twins, and no others.
    pub fn set(&self, node: usize, twins: &[Remote]) {
        let mut all = self.twins.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(twin, _)| twin.node != node);
        all.extend(twins.iter().map(|twin| (*twin, Carrier { is: true, misses: 0 })));
    }
}

/// Whether a twin has one, and for how many looks its node has been out of reach.
#[derive(Debug)]
struct Carrier {
    is: bool,
    misses: u8,
}

impl Carrier {
    /// Whether there is to be one, after one more look at the node.
    fn wanted(&mut self, is_reached: bool) -> bool {
        self.misses = if is_reached { 0 } else { self.misses.saturating_add(1) };
        is_reached || (self.is && self.misses < PATIENCE)
    }
}

fn set(twin: Remote, carrier: &mut Carrier, reached: &HashSet<usize>) {
    let now = carrier.wanted(reached.contains(&twin.node));
    let wanted = LinkChange { carrier: Some(now), ..LinkChange::default() };
    // What cannot be set now can be in the next round.
    if now != carrier.is && change(twin.twin, &wanted).is_ok() {
        carrier.is = now;
    }
}

/// The nodes that packets can be sent to; none if the router cannot say.
fn reached(router: &Router) -> Option<HashSet<usize>> {
    nodes(&router.read(SWITCH, "shares", "json").ok()?)
}

fn nodes(shares: &str) -> Option<HashSet<usize>> {
    let table: Value = serde_json::from_str(shares).ok()?;
    let rows = table["rows"].as_array()?;
    Some(rows.iter().filter_map(|row| usize::try_from(row["to_node"].as_u64()?).ok()).collect())
}

impl Drop for Carriers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It holds the router, whose ports cannot be closed before.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_stays_away_loses_the_carrier() {
        let mut carrier = Carrier { is: true, misses: 0 };
        let looks = [[false, false, false, false, false, true], [false; 6]].concat();
        let seen: Vec<bool> = looks
            .into_iter()
            .map(|is_reached| {
                carrier.is = carrier.wanted(is_reached);
                carrier.is
            })
            .collect();
        assert_eq!(seen, [[true; 6], [true, true, true, true, true, false]].concat());
        assert!(!carrier.wanted(false));
        assert!(carrier.wanted(true));
    }

    #[test]
    fn nodes_with_shares_are_reached() {
        let rows =
            r#"{"rows":[{"to_node":1,"via_node":2},{"to_node":1,"via_node":1},{"to_node":3,"via_node":2}]}"#;
        assert_eq!(nodes(rows), Some(HashSet::from([1, 3])));
        assert_eq!(nodes(r#"{"rows":[]}"#), Some(HashSet::new()));
        assert_eq!(nodes("to_node"), None);
    }
}
