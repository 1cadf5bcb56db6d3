//! Routers that get their ports and routes from a command-line client of theirs: what they have in common.
//!
//! What is typed is what their manuals say. A router that refuses it, or has fewer routes than it was told, is not
//! measured.

use super::grout::Grout;
use super::vpp::Vpp;
use crate::pairs::{Bench, Patience, Run};
use crate::plan::Plan;
use crate::program::{Console, Program, Start};
use fib::Prefix4;
use io::pcap::{Reader, Writer};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The address of the router on its port, and that of the next hop of all routes, which is on the same link.
pub const ADDRESS: &str = "10.255.255.1/30";
pub const NEXT_HOP: &str = "10.255.255.2";
pub const NEXT_HOP_MAC: &str = "02:00:00:00:00:01";
/// Of DPDK's first `net_pcap` port. Routers take only frames that are for them, and this one cannot be changed.
const PORT_MAC: [u8; 6] = [0x02, 0x70, 0x63, 0x61, 0x70, 0x00];
/// A full table, command by command.
const LONGEST_ANSWER_SECONDS: &str = "170";

/// Which router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router {
    Vpp,
    Grout,
}

/// A router that is to be started.
pub struct Job<'a> {
    /// Processor that it may use.
    pub core: usize,
    /// What its port replays.
    pub trace: PathBuf,
    /// Where its files go: of this start alone.
    pub folder: &'a Path,
    /// Where it should have a route for.
    pub prefixes: Vec<Prefix4>,
    /// Whether there are huge pages.
    pub huge_pages: bool,
}

impl Router {
    /// Its own program, and its client.
    pub fn programs(self) -> [&'static str; 2] {
        match self {
            Router::Vpp => ["vpp", "vppctl"],
            Router::Grout => ["grout", "grcli"],
        }
    }

    /// Cycles a packet, start by start, with all routes of the table by one next hop.
    pub fn measure(self, bench: &Bench<'_>, plan: &Plan, patience: Patience) -> Result<Vec<f64>, String> {
        let mut cycles = Vec::new();
        for _ in 0..patience.pairs {
            let folder = tempfile::tempdir_in(bench.folder).map_err(|e| e.to_string())?;
            let trace = folder.path().join("trace.pcap");
            address_to_port(&bench.trace(plan)?, &trace)?;
            let job = Job {
                core: bench.cores.first().copied().unwrap_or_default(),
                trace,
                folder: folder.path(),
                prefixes: bench.table.prefixes(usize::MAX).collect(),
                huge_pages: bench.memory.is_huge(),
            };
            let [program, client] = self.programs();
            cycles.push(self.run(&job, program, client, patience)?.cycles);
        }
        Ok(cycles)
    }

    fn run(self, job: &Job<'_>, program: &str, client: &str, patience: Patience) -> Result<Run, String> {
        let (arguments, console): (_, Box<dyn Console>) = match self {
            Router::Vpp => {
                let vpp = Vpp::new(job, client)?;
                (vpp.arguments(job)?, Box::new(vpp))
            }
            Router::Grout => {
                let grout = Grout::new(job, client)?;
                (grout.arguments(job), Box::new(grout))
            }
        };
        let [name, _] = self.programs();
        let mut command = vec![program.to_owned()];
        command.extend(arguments);
        let prefix = format!("bench-{}-{name}", std::process::id());
        let start = Start { name, command, cores: job.core.to_string(), prefix, folder: job.folder };
        let sample = Program::start_told(&start, console)?.measure(patience.time, 1)?;
        Ok(Run::of(&[sample]))
    }
}

/// Copies a capture, with all frames addressed to the port.
fn address_to_port(from: &Path, to: &Path) -> Result<(), String> {
    let problem = |e: io::pcap::PcapError| format!("{}: {e}", from.display());
    let mut reader = Reader::open(from).map_err(problem)?;
    let mut writer = Writer::create(to, reader.link_type(), 65_535).map_err(problem)?;
    while let Some(record) = reader.next_record().map_err(problem)? {
        let mut frame = record.data;
        frame.get_mut(..PORT_MAC.len()).ok_or("a frame without an address")?.copy_from_slice(&PORT_MAC);
        writer.write(record.timestamp.unwrap_or(0), record.wire_len, &frame).map_err(problem)?;
    }
    writer.flush().map_err(problem)
}

/// Writes a file of commands, one a line.
pub fn write_commands(file: &Path, commands: impl Iterator<Item = String>) -> Result<(), String> {
    let write = || {
        let mut out = BufWriter::new(fs::File::create(file)?);
        for command in commands {
            writeln!(out, "{command}")?;
        }
        out.flush()
    };
    write().map_err(|e| format!("{}: {e}", file.display()))
}

/// Runs a client once, and gives what it printed.
pub fn ask(client: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new("timeout")
        .arg(LONGEST_ANSWER_SECONDS)
        .arg(client)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start {client}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let last = err.lines().chain(out.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
    Err(format!("{client} {}: {}: {}", words.join(" "), output.status, last.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::frame;
    use io::pcap::LinkType;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    /// A router that only uses its processor.
    const BUSY: &str = "#!/bin/sh\nwhile :; do :; done\n";
    /// Answers as VPP's does, in a state that lies beside it: packets flow when routes were told.
    const VPPCTL: &str = r#"#!/bin/sh
state=$(dirname "$0")
shift 2
case "$*" in
"show version") echo "vpp v1" ;;
"show interface") printf '   Name   Idx  State  MTU (L3/IP4/IP6/MPLS)  Counter  Count\nlocal0  0  down  0/0/0/0\nnet_pcap0  1  up  9000/0/0/0  '
    if [ -e "$state/routes" ]; then n=$(date +%s%N); printf 'rx packets  %s\n   rx bytes 64\n  tx packets  %s\n' $n $n; fi ;;
exec*) cp "$2" "$state/commands"; grep -c '^ip route add' "$2" >"$state/routes" ;;
"show ip fib summary") printf 'ipv4-VRF:0, fib_index:0\n    Prefix length         Count\n          0     1\n         24     %s\n' "$(cat "$state/routes")" ;;
*) exit 1 ;;
esac
"#;
    const GRCLI: &str = r#"#!/bin/sh
state=$(dirname "$0")
shift 2
case "$*" in
"interface show") echo NAME ;;
"-e -f "*) cp "$3" "$state/commands"; touch "$state/routes" ;;
"stats show hardware") if [ -e "$state/routes" ]; then n=$(date +%s%N); printf 'p0:rx_good_packets %s\np0:tx_good_packets %s\n' $n $n; fi ;;
*) echo "unknown command" >&2; exit 1 ;;
esac
"#;

    /// Runs stand-ins for a router and its client; gives the cycles and the commands that the client was handed.
    fn run(router: Router, client: &str, prefixes: &[&str]) -> Result<(f64, String), String> {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path.to_string_lossy().into_owned()
        };
        let (program, client) = (script("program", BUSY), script("client", client));
        let job = Job {
            core: 0,
            trace: folder.path().join("trace.pcap"),
            folder: folder.path(),
            prefixes: prefixes.iter().map(|p| p.parse().unwrap()).collect(),
            huge_pages: true,
        };
        let patience = Patience { pairs: 1, time: Duration::from_millis(50) };
        let run = router.run(&job, &program, &client, patience)?;
        Ok((run.cycles, fs::read_to_string(folder.path().join("commands")).unwrap()))
    }

    #[test]
    fn vpp_is_told_its_routes_and_measured() {
        let (cycles, commands) = run(Router::Vpp, VPPCTL, &["192.0.2.0/24", "10.0.0.0/8"]).unwrap();
        assert!(cycles > 0.0, "{cycles}");
        assert_eq!(
            commands,
            "set interface state net_pcap0 up\nset interface ip address net_pcap0 10.255.255.1/30\n\
             ip neighbor net_pcap0 10.255.255.2 02:00:00:00:00:01 static\n\
             ip route add 192.0.2.0/24 via 10.255.255.2 net_pcap0\n\
             ip route add 10.0.0.0/8 via 10.255.255.2 net_pcap0\n"
        );
    }

    #[test]
    fn vpp_with_fewer_routes_than_it_was_told_is_not_measured() {
        let forgets = VPPCTL.replace("\"$(cat \"$state/routes\")\"", "1");
        let why = run(Router::Vpp, &forgets, &["192.0.2.0/24", "10.0.0.0/8", "11.0.0.0/8"]).unwrap_err();
        assert!(why.contains("it has 2 of 3 routes"), "{why}");
    }

    #[test]
    fn grout_is_told_its_routes_and_measured() {
        let (cycles, commands) = run(Router::Grout, GRCLI, &["192.0.2.0/24"]).unwrap();
        assert!(cycles > 0.0, "{cycles}");
        let commands: Vec<&str> = commands.lines().collect();
        assert_eq!(commands.len(), 5);
        assert_eq!(commands[0], "affinity cpus set control 0 datapath 0");
        assert!(
            commands[1].starts_with("interface add port p0 devargs net_pcap0,rx_pcap=/"),
            "{}",
            commands[1]
        );
        assert_eq!(commands[4], "route add 192.0.2.0/24 via id 1");
    }

    #[test]
    fn a_client_that_refuses_is_heard() {
        let refuses = GRCLI.replace("cp \"$3\"", "echo 'error: no such device' >&2; exit 1; cp \"$3\"");
        let why = run(Router::Grout, &refuses, &["192.0.2.0/24"]).unwrap_err();
        assert!(why.contains("error: no such device"), "{why}");
    }

    #[test]
    fn a_capture_is_addressed_to_the_port() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from.pcap", "to.pcap"].map(|name| folder.path().join(name));
        let mut writer = Writer::create(&from, LinkType::Ethernet, 65_535).unwrap();
        let sent = frame(0x0a00_0001, 64);
        writer.write(7, 64, &sent).unwrap();
        writer.flush().unwrap();
        drop(writer);
        address_to_port(&from, &to).unwrap();
        let mut reader = Reader::open(&to).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((&record.data[..6], &record.data[6..]), (&PORT_MAC[..], &sent[6..]));
        assert!(reader.next_record().unwrap().is_none());
    }
}
