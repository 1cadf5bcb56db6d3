//! What a device says about itself, as handlers.

use graph::{Class, Handlers};
use io::{Port, PortStats};
use packet::wire::ethernet;
use std::sync::Arc;

/// How a class value says which port it uses; `None` before it is initialised.
type PortOf<C> = fn(&C) -> Option<&Arc<dyn Port>>;

/// The handlers that all device elements have: see the reference of `FromDPDKDevice`.
pub fn port_handlers<C: Class>(h: &mut Handlers<C>, port: PortOf<C>) {
    let mut fact = |name: &'static str, text: fn(&dyn Port) -> String| {
        h.read(name, move |c| port(c).map_or_else(String::new, |p| text(&**p)));
    };
    fact("device", |p| p.name().to_owned());
    fact("driver", |p| p.driver());
    fact("mac", |p| p.mac().map_or_else(String::new, |mac| ethernet::text(&mac)));
    fact("mtu", |p| p.mtu().to_string());
    fact("carrier", |p| u8::from(p.link().up).to_string());
    fact("speed", |p| p.link().speed_mbps.map_or_else(|| "unknown".to_owned(), |s| s.to_string()));
    fact("duplex", |p| if p.link().full_duplex { "full".to_owned() } else { "half".to_owned() });
    fact("numa_node", |p| p.numa_node().map_or_else(|| "-1".to_owned(), |n| n.to_string()));
    fact("nb_rx_queues", |p| p.queues().rx_queues.to_string());
    fact("nb_tx_queues", |p| p.queues().tx_queues.to_string());
    h.read_with("xstats", move |c, name| extended(port(c), name.trim()));
}

/// One count of the device as a handler.
pub fn stat_handler<C: Class>(
    h: &mut Handlers<C>,
    name: &'static str,
    port: PortOf<C>,
    value: fn(&PortStats) -> u64,
) {
    h.read(name, move |c| port(c).map_or(0, |p| value(&p.stats())).to_string());
}

/// All of the device's own counts, one a line, or the one of this name.
fn extended(port: Option<&Arc<dyn Port>>, name: &str) -> Result<String, String> {
    let all = port.map(|p| p.extended_stats()).unwrap_or_default();
    if name.is_empty() {
        return Ok(all.iter().map(|(name, value)| format!("{name}: {value}\n")).collect());
    }
    let found = all.iter().find(|(n, _)| n == name).map(|(_, value)| value.to_string());
    found.ok_or_else(|| format!("the device has no count '{name}'"))
}
