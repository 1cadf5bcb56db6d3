//! VPP: its start-up file, and what its `vppctl` is told and asked.

use super::told::{ADDRESS, Job, NEXT_HOP, NEXT_HOP_MAC, ask, write_commands};
use crate::program::Console;
use crate::telemetry::Packets;
use fib::Prefix4;
use std::fs;
use std::path::PathBuf;

/// A VPP.
pub struct Vpp {
    client: String,
    socket: String,
    commands: PathBuf,
    prefixes: Vec<Prefix4>,
}

impl Vpp {
    pub fn new(job: &Job<'_>, client: &str) -> Result<Vpp, String> {
        if !job.huge_pages {
            return Err("it wants huge pages, and there are none".to_owned());
        }
        Ok(Vpp {
            client: client.to_owned(),
            socket: job.folder.join("cli.sock").to_string_lossy().into_owned(),
            commands: job.folder.join("commands.vpp"),
            prefixes: job.prefixes.clone(),
        })
    }

    /// Arguments of `vpp`, of a start-up file that this writes.
    pub fn arguments(&self, job: &Job<'_>) -> Result<Vec<String>, String> {
        let file = job.folder.join("startup.conf");
        let text = format!(
            "unix {{ nodaemon nosyslog cli-no-pager cli-listen {socket} runtime-dir {folder} }}\n\
             memory {{ main-heap-size 4G }}\n\
             cpu {{ main-core {core} }}\n\
             statseg {{ socket-name {folder}/stats.sock }}\n\
             plugins {{ plugin default {{ disable }} plugin dpdk_plugin.so {{ enable }} }}\n\
             dpdk {{ no-pci vdev net_pcap0,rx_pcap={trace},infinite_rx=1 }}\n",
            socket = self.socket,
            folder = job.folder.display(),
            core = job.core,
            trace = job.trace.display(),
        );
        fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        Ok(vec!["-c".to_owned(), file.to_string_lossy().into_owned()])
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        ask(&self.client, &[&["-s", &self.socket], words].concat())
    }
}

impl Console for Vpp {
    fn answers(&self) -> bool {
        self.ask(&["show", "version"]).is_ok()
    }

    fn set_up(&self) -> Result<(), String> {
        let interfaces = self.ask(&["show", "interface"])?;
        let port = port(&interfaces).ok_or_else(|| format!("it has no port: {interfaces}"))?;
        let link = [
            format!("set interface state {port} up"),
            format!("set interface ip address {port} {ADDRESS}"),
            format!("ip neighbor {port} {NEXT_HOP} {NEXT_HOP_MAC} static"),
        ];
        let route = |prefix: &Prefix4| format!("ip route add {prefix} via {NEXT_HOP} {port}");
        write_commands(&self.commands, link.into_iter().chain(self.prefixes.iter().map(route)))?;
        self.ask(&["exec", &self.commands.to_string_lossy()])?;
        // It stops at a line that it does not take, and its client does not say so.
        let (has, told) = (routes(&self.ask(&["show", "ip", "fib", "summary"])?), self.prefixes.len());
        if has < told {
            return Err(format!("it has {has} of {told} routes"));
        }
        Ok(())
    }

    fn packets(&self) -> Result<Packets, String> {
        let text = self.ask(&["show", "interface"])?;
        packets(&text).ok_or_else(|| format!("no packet counts in {text}"))
    }
}

/// The first interface that is not VPP's own, of `show interface`. Lines that go on with an interface's counters are
/// indented.
fn port(text: &str) -> Option<&str> {
    let names = text.lines().skip(1).filter(|line| !line.starts_with(char::is_whitespace));
    names.filter_map(|line| line.split_whitespace().next()).find(|name| *name != "local0")
}

/// Counters of all interfaces, of `show interface`.
fn packets(text: &str) -> Option<Packets> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let sum = |direction: &str| -> Option<u64> {
        let counts = words.windows(3).filter(|w| w[0] == direction && w[1] == "packets");
        counts.map(|w| w[2].parse::<u64>().ok()).reduce(|a, b| Some(a? + b?)).flatten()
    };
    Some(Packets { received: sum("rx")?, sent: sum("tx")? })
}

/// Routes of all prefix lengths, of `show ip fib summary`.
fn routes(text: &str) -> usize {
    let row = |line: &str| {
        let mut words = line.split_whitespace().map(str::parse::<usize>);
        match (words.next(), words.next(), words.next()) {
            (Some(Ok(_length)), Some(Ok(count)), None) => count,
            _ => 0,
        }
    };
    text.lines().map(row).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERFACES: &str =
        "              Name               Idx       State          Counter          Count
local0                            0        down
net_pcap0                         1         up       rx packets               6569213
                                                     rx bytes              9928352943
                                                     tx packets                 50384
                                                     tx bytes                 3329279
                                                     drops                       1498
";

    #[test]
    fn counters_and_ports_are_found() {
        assert_eq!(port(INTERFACES), Some("net_pcap0"));
        assert_eq!(packets(INTERFACES), Some(Packets { received: 6_569_213, sent: 50_384 }));
        let idle: String = INTERFACES.lines().take(2).collect::<Vec<_>>().join("\n");
        assert_eq!((port(&idle), packets(&idle)), (None, None));
        assert_eq!(packets(&INTERFACES.replace("50384", "many")), None);
    }

    #[test]
    fn routes_are_counted_by_length() {
        let summary =
            "ipv4-VRF:0, fib_index:0, flow hash:[src dst sport dport proto ] locks:[default-route:1, ]
    Prefix length         Count
                   0               1
                  24             600
                  32               5
";
        assert_eq!(routes(summary), 606);
        assert_eq!(routes("nothing of the kind\n"), 0);
    }
}
