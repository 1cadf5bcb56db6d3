//! grout: what its `grcli` is told and asked.

use super::told::{ADDRESS, Job, NEXT_HOP, NEXT_HOP_MAC, ask, write_commands};
use crate::program::Console;
use crate::telemetry::Packets;
use std::path::PathBuf;

/// A grout.
pub struct Grout {
    client: String,
    socket: String,
    commands: PathBuf,
}

impl Grout {
    /// Writes the file of what it will be told.
    pub fn new(job: &Job<'_>, client: &str) -> Result<Grout, String> {
        let commands = job.folder.join("commands.grout");
        let (core, trace) = (job.core, job.trace.display());
        let link = [
            format!("affinity cpus set control {core} datapath {core}"),
            format!("interface add port p0 devargs net_pcap0,rx_pcap={trace},infinite_rx=1"),
            format!("address add {ADDRESS} iface p0"),
            format!("nexthop add l3 iface p0 id 1 address {NEXT_HOP} mac {NEXT_HOP_MAC}"),
        ];
        let routes = job.prefixes.iter().map(|prefix| format!("route add {prefix} via id 1"));
        write_commands(&commands, link.into_iter().chain(routes))?;
        let socket = job.folder.join("grout.sock").to_string_lossy().into_owned();
        Ok(Grout { client: client.to_owned(), socket, commands })
    }

    /// Arguments of `grout`.
    pub fn arguments(&self, job: &Job<'_>) -> Vec<String> {
        let mut arguments = vec!["--poll-mode".to_owned(), "--socket".to_owned(), self.socket.clone()];
        // What it calls so is to do without huge pages.
        arguments.extend((!job.huge_pages).then(|| "--test-mode".to_owned()));
        arguments
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        ask(&self.client, &[&["-s", &self.socket], words].concat())
    }
}

impl Console for Grout {
    fn answers(&self) -> bool {
        self.ask(&["interface", "show"]).is_ok()
    }

    fn set_up(&self) -> Result<(), String> {
        // With `-e` it fails at the first command that is refused.
        self.ask(&["-e", "-f", &self.commands.to_string_lossy()]).map(|_| ())
    }

    fn packets(&self) -> Result<Packets, String> {
        let text = self.ask(&["stats", "show", "hardware"])?;
        packets(&text).ok_or_else(|| format!("no packet counts in {text}"))
    }
}

/// Counters of its port, of `stats show hardware`.
fn packets(text: &str) -> Option<Packets> {
    let count = |name: &str| {
        let mut words = text.split_whitespace().skip_while(|word| !word.ends_with(name));
        words.nth(1)?.parse().ok()
    };
    Some(Packets { received: count("rx_good_packets")?, sent: count("tx_good_packets")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found() {
        let text = "p0:rx_good_packets 1234567\np0:tx_good_packets 1234560\np0:rx_good_bytes 123456789\n";
        assert_eq!(packets(text), Some(Packets { received: 1_234_567, sent: 1_234_560 }));
        assert_eq!(packets("p0:rx_good_packets 7\n"), None);
        assert_eq!(packets("p0:rx_good_packets x\np0:tx_good_packets 1\n"), None);
    }
}
