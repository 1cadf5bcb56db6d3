//! The configuration of a complete router, as a Click text.

use super::twins::Port;
use std::fmt::Write;

/// The configuration for these ports.
///
/// For each port: IPv4 packets to its address are checked, looked up in the table that all ports share, and leave with
/// the header of their next hop. Everything else, and what is for the router itself, has no known neighbour or lived too
/// long, goes to the twin as it came; what Linux sends on the twin leaves by the port.
pub fn text(ports: &[Port]) -> String {
    let mut text = String::from(
        "// A router with Linux as its control plane.\n\n// Routes that say so lead here.\nblackhole :: Discard;\n",
    );
    for (i, port) in ports.iter().enumerate() {
        let Port { name, tap, .. } = port;
        let _ = write!(
            text,
            "\n// {name}: the port, and its twin in Linux.\n\
             in{i} :: FromDPDKDevice({name});\n\
             out{i} :: ToDPDKDevice({name});\n\
             punt{i} :: ToDPDKDevice(tap:{tap});\n\
             inject{i} :: FromDPDKDevice(tap:{tap}) -> out{i};\n",
        );
    }
    for (i, port) in ports.iter().enumerate() {
        let mac = port.mac.map(|byte| format!("{byte:02x}")).concat();
        let _ = write!(
            text,
            "\n// From {name}. The classifier lets IPv4 to the port's own address pass.\n\
             in{i} -> class{i} :: Classifier(0/{mac} 12/0800, -)\n\
             \x20 -> CheckIPHeader(14)\n\
             \x20 -> rt{i} :: DirectIPLookup(TABLE main, ONE_OUTPUT true)\n\
             \x20 -> next{i} :: AdjacencyRewrite(rt{i}, ADJACENCIES main, UNRESOLVED {punt}, EXPIRED {punt});\n\
             class{i}[1] -> punt{i};\n",
            name = port.name,
            punt = ports.len() + 1,
        );
        for output in 0..ports.len() {
            let _ = writeln!(text, "next{i}[{output}] -> out{output};");
        }
        let _ = write!(
            text,
            "next{i}[{}] -> blackhole;\nnext{i}[{}] -> punt{i};\n",
            ports.len(),
            ports.len() + 1
        );
    }
    text
}
