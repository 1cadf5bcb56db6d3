//! Three namespaces in a row, source – router – sink, joined by two veth pairs: a place where any router can forward.

use lab::capture::RawPort;
use lab::netns::Namespace;
use lab::packets::Mac;
use lab::veth::{self, End};
use std::fs;

/// The row. Dropping it removes everything.
pub struct Lane {
    /// Frames start here, at [`SOURCE`].
    pub source: Namespace,
    /// Forwards from [`INNER`] to [`OUTER`].
    pub router: Namespace,
    /// Frames end here, at [`SINK`].
    pub sink: Namespace,
}

/// The source's interface.
pub const SOURCE: &str = "src0";
/// The router's interface towards the source.
pub const INNER: &str = "in0";
/// The router's interface towards the sink.
pub const OUTER: &str = "out0";
/// The sink's interface.
pub const SINK: &str = "dst0";

/// Hardware address of the router's interface towards the source: the one in the frames of traces.
pub const INNER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// A neighbour behind the sink's interface. Nobody has the address, so the sink drops frames to it at once.
const NEIGHBOUR_MAC: Mac = Mac([2, 0, 0, 0, 9, 9]);
/// Its address, and that of the router's interface.
const NEIGHBOUR: [&str; 2] = ["10.99.2.2", "10.99.2.1"];

impl Lane {
    /// Lays it out.
    ///
    /// # Errors
    /// If we may not make namespaces, or a program for that is missing.
    pub fn new() -> Result<Lane, String> {
        if let Some(reason) = lab::netns::unavailable() {
            return Err(reason);
        }
        let make = |role: &str| Namespace::unique(role).map_err(|e| e.to_string());
        let lane = Lane { source: make("source")?, router: make("router")?, sink: make("sink")? };
        let end = |namespace, interface, last| End { namespace, interface, mac: mac(last), mtu: 1500 };
        let first = (end(&lane.source, SOURCE, 1), end(&lane.router, INNER, 2));
        let second = (end(&lane.router, OUTER, 3), end(&lane.sink, SINK, 4));
        veth::connect(&[first, second]).map_err(|e| e.to_string())?;
        Ok(lane)
    }

    /// Makes Linux the router, with routes to the prefixes.
    pub fn let_linux_forward(&self, prefixes: impl Iterator<Item = String>) -> Result<(), String> {
        let set = |variable: &str, value: &str| self.router.set(variable, value).map_err(|e| e.to_string());
        set("net/ipv4/ip_forward", "1")?;
        for interface in ["all", "default", INNER, OUTER] {
            set(&format!("net/ipv4/conf/{interface}/rp_filter"), "0")?;
        }
        let [neighbour, own] = NEIGHBOUR;
        let mut lines = format!(
            "address add 10.99.1.1/24 dev {INNER}\naddress add {own}/24 dev {OUTER}\n\
             neigh replace {neighbour} lladdr {NEIGHBOUR_MAC} nud permanent dev {OUTER}\n"
        );
        for prefix in prefixes {
            lines.push_str(&format!("route replace {prefix} via {neighbour}\n"));
        }
        self.router.ip(&lines).map_err(|e| e.to_string())
    }

    /// A raw socket from which frames start.
    pub fn port(&self) -> Result<RawPort, String> {
        RawPort::open(&self.source, SOURCE).map_err(|e| e.to_string())
    }

    /// Packets that have arrived at the sink so far.
    pub fn arrived(&self) -> Result<u64, String> {
        let read = || {
            let text = fs::read_to_string("/proc/thread-self/net/dev");
            text.map_err(|e| lab::Error::new(format!("/proc/thread-self/net/dev: {e}")))
        };
        let text = self.sink.inside(read).map_err(|e| e.to_string())?;
        received(&text, SINK).ok_or_else(|| format!("{SINK} does not count packets"))
    }
}

fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

/// Packets that an interface has received, in the kernel's table of devices.
fn received(table: &str, interface: &str) -> Option<u64> {
    let rest = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_an_interface() {
        let table = "Inter-|   Receive\n face |bytes    packets errs\n    lo: 10 1 0\n  dst0: 6400 100 0 0\n dst01: 1 2\n";
        assert_eq!(received(table, "dst0"), Some(100));
        assert_eq!(received(table, "dst"), None);
    }
}
