//! A running cluster of four nodes, a fifth that may come, and a host behind each; or a 2-ary 2-fly with as many hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::probe::Probe;
use crate::checks::Check;
use crate::daemons::Etcd;
use crate::hosts;
use crate::netns::{self, Namespace, succeed, unique_prefix};
use crate::process::Process;
use crate::routebricks::{balance, binary};
use crate::wait::wait_until;
use crate::{Context, Error, Result};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(30);
/// How long the nodes may take to start, with debug builds on a busy machine.
pub const START: Duration = Duration::from_secs(120);

/// What the nodes are called.
pub const NODES: [&str; 4] = ["a", "b", "c", "d"];
/// A fifth, which may come later; its port and its host are there.
pub const FIFTH: &str = "e";
/// Four more without lines, in a 2-ary 2-fly.
pub const BEHIND: [&str; 4] = ["w", "x", "y", "z"];
/// Ports and hosts.
const PORTS: usize = 5;

/// Hosts behind the lines of a cluster: host n is 10.n.0.2 and 2001:db8:n::2, the router's end .1, its twin `extn`.
#[derive(Debug)]
pub struct Stage {
    /// The hosts, by node.
    pub hosts: Vec<Namespace>,
    /// The Linux of the control node.
    pub inside: Namespace,
    /// For logs.
    pub directory: tempfile::TempDir,
    /// What the cluster is called.
    pub name: String,
    /// `cluster up`.
    pub supervisor: Process,
    /// Where the control node is elected, if it is.
    pub etcd: Option<Etcd>,
    /// In the cluster's file: of all, and of each node.
    settings: [String; 2],
    /// Nodes without lines.
    behind: &'static [&'static str],
}

impl Stage {
    /// Starts the cluster, with these settings in its file, and waits until all nodes forward.
    pub fn new(settings: &str) -> Result<Stage> {
        Stage::with([settings, ""], &[], false)
    }

    /// The same with settings for each node, too.
    pub fn of_nodes(settings: &str, of_each: &str) -> Result<Stage> {
        Stage::with([settings, of_each], &[], false)
    }

    /// The four nodes with lines of a 2-ary 2-fly, and the four behind them; perhaps with an etcd.
    pub fn fly(settings: &str, is_elected: bool) -> Result<Stage> {
        Stage::with([&format!("topology = 'fly 2 2'\n{settings}"), ""], &BEHIND, is_elected)
    }

    /// The same with an etcd in the Linux of the nodes, by which their control node is elected.
    pub fn elected(settings: &str) -> Result<Stage> {
        Stage::with([settings, ""], &[], true)
    }

    fn with(settings: [&str; 2], behind: &'static [&str], is_elected: bool) -> Result<Stage> {
        let settings = settings.map(str::to_owned);
        let inside = Namespace::unique("control")?;
        let ports: Vec<String> = (1..=PORTS).map(|n| format!("port{n}")).collect();
        let hosts = hosts::behind(&inside, &ports)?;
        hosts.iter().try_for_each(in_order)?;
        let directory = tempfile::tempdir().map_err(|error| Error::new(error.to_string()))?;
        let name = unique_prefix();
        let file = directory.path().join("cluster.toml");
        fs::write(&file, text(&name, &settings, &NODES, behind))
            .cannot(|| format!("write {}", file.display()))?;
        let etcd = is_elected.then(|| Etcd::start(&inside, directory.path())).transpose()?;
        let supervisor = supervisor(&inside, directory.path(), NODES.len() + behind.len(), is_elected)?;
        Ok(Stage { hosts, inside, directory, name, supervisor, etcd, settings, behind })
    }

    /// The cluster's file, for so many nodes.
    pub fn file(&self, nodes: usize) -> String {
        let all: Vec<&str> = NODES.into_iter().chain([FIFTH]).take(nodes).collect();
        text(&self.name, &self.settings, &all, self.behind)
    }

    /// Writes the cluster's file anew, and has it read; what the command printed.
    pub fn reload(&self, text: &str, words: &[&str]) -> Result<String> {
        let file = self.directory.path().join("cluster.toml");
        fs::write(&file, text).cannot(|| format!("write {}", file.display()))?;
        self.typed(&[&["reload"], words].concat())
    }

    /// Starts the cluster again after its end.
    pub fn start_again(&mut self) -> Result<()> {
        let nodes = NODES.len() + self.behind.len();
        self.supervisor = supervisor(&self.inside, self.directory.path(), nodes, self.etcd.is_some())?;
        Ok(())
    }

    /// `routebricks cluster WORDS --cluster NAME` must succeed; what it printed.
    pub fn typed(&self, words: &[&str]) -> Result<String> {
        succeed(netns::command(binary()?).arg("cluster").args(words).args(["--cluster", &self.name]))
    }

    /// The rows of one of the tables of `cluster status`.
    pub fn rows(&self, table: &str) -> Result<Vec<Value>> {
        let printed = self.typed(&["status", "--json"])?;
        let mut all: Value = serde_json::from_str(&printed).cannot(|| "read the status".to_owned())?;
        if all["schema"] != "routebricks.cluster/1" {
            return Err(Error::new(format!("the status is of another schema: {}", all["schema"])));
        }
        match all["rows"].take() {
            Value::Array(rows) => Ok(rows.into_iter().filter(|row| row["table"] == table).collect()),
            _ => Err(Error::new("the status has no rows")),
        }
    }

    /// The row of a node in the table of nodes.
    pub fn node(&self, name: &str) -> Result<Value> {
        let found = self.rows("nodes")?.into_iter().find(|row| row["node"] == name);
        found.ok_or_else(|| Error::new(format!("no node {name}")))
    }

    /// The process of a node.
    pub fn pid(&self, name: &str) -> Result<i32> {
        let pid = self.node(name)?["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.ok_or_else(|| Error::new(format!("node {name} does not run")))
    }

    /// The rows of `routebricks show WHAT` of a node.
    pub fn shown(&self, node: &str, what: &str) -> Result<Vec<Value>> {
        let pid = self.pid(node)?.to_string();
        let printed = succeed(netns::command(binary()?).args(["show", what, "--json", "--pid", &pid]))?;
        let mut table: Value = serde_json::from_str(&printed).cannot(|| format!("read the table {what}"))?;
        match table["rows"].take() {
            Value::Array(rows) => Ok(rows),
            _ => Err(Error::new(format!("the table {what} has no rows"))),
        }
    }

    /// Runs `ip link set` in the namespace of a node.
    pub fn link_set(&self, node: &str, words: &[&str]) -> Result<()> {
        let row = self.node(node)?;
        let namespace = format!("--net={}", row["namespace"].as_str().unwrap_or_default());
        succeed(Command::new("nsenter").args([&namespace, "ip", "link", "set"]).args(words)).map(drop)
    }

    /// What `tcpdump` prints about so many frames that come in by an interface of a node.
    pub fn frames(&self, node: &str, interface: &str, count: u32) -> Result<String> {
        let row = self.node(node)?;
        let namespace = format!("--net={}", row["namespace"].as_str().unwrap_or_default());
        let count = count.to_string();
        let words =
            [&namespace, "timeout", "10", "tcpdump", "-n", "-e", "-Q", "in", "-c", &count, "-i", interface];
        succeed(Command::new("nsenter").args(words))
    }

    /// The sum of a number over all rows of a table that `choose` chooses.
    pub fn sum(&self, table: &str, key: &str, choose: impl Fn(&Value) -> bool) -> Result<u64> {
        Ok(self.rows(table)?.iter().filter(|row| choose(row)).filter_map(|row| row[key].as_u64()).sum())
    }

    /// Packets that a node, or all of them, has relayed.
    pub fn relayed(&self, node: Option<&str>) -> Result<u64> {
        self.sum("traffic", "packets", |row| {
            row["way"] == "relayed" && node.is_none_or(|node| row["node"] == node)
        })
    }

    /// Kills the process of a node, which has no time to clean up.
    pub fn kill(&self, node: &str) -> Result<()> {
        let pid = Pid::from_raw(self.pid(node)?);
        kill(pid, Signal::SIGKILL).cannot(|| format!("kill node {node}"))?;
        wait_until("the supervisor's word", LIMIT, || Ok(self.node(node)?["pid"].is_null().then_some(())))
    }

    /// Starts a node again, and waits until it forwards.
    ///
    /// # Errors
    /// With what the cluster says of itself.
    pub fn start(&self, node: &str) -> Result<()> {
        let line = format!(": node {node} forwards");
        let times = || Ok::<_, Error>(self.supervisor.printed()?.matches(&line).count());
        let before = times()?;
        self.typed(&["start", node])?;
        // To ask all nodes all the time would take the processor from the one that starts.
        let forwards = || Ok((times()? > before && self.node(node)?["ready"] == true).then_some(()));
        wait_until(&format!("node {node}"), START, forwards).map_err(|error| self.with_state(&error))
    }

    /// Waits until all nodes say of all their links that they are up.
    pub fn wait_for_all_links(&self) -> Result<()> {
        let up = || Ok(self.rows("links")?.iter().all(|row| row["state"] == "up").then_some(()));
        wait_until("all links", LIMIT, up)
    }

    /// A probe for each of these pairs, of packets with `length` bytes of payload, so many a second.
    pub fn probes(&self, pairs: &[(usize, usize)], length: usize, rate: u32) -> Result<Vec<Probe>> {
        let one = |(number, (from, to)): (u16, &(usize, usize))| {
            let address = Stage::host_address(*to);
            Probe::start(&self.hosts[*from], &self.hosts[*to], &address, number, length, rate)
        };
        (0..).zip(pairs).map(one).collect()
    }

    /// The IPv4 address of a host.
    pub fn host_address(host: usize) -> String {
        format!("10.{}.0.2", host + 1)
    }

    /// Whether one ping from a host is answered within half a second.
    pub fn pings(&self, host: usize, to: &str) -> Result<bool> {
        Ok(self.hosts[host].output("ping", &["-n", "-c1", "-W0.5", to])?.status.success())
    }

    /// Waits until pings from a host are answered, or are not.
    ///
    /// # Errors
    /// With what the cluster says of itself.
    pub fn wait_for_ping(&self, host: usize, to: &str, answered: bool) -> Result<()> {
        let what = format!("ping from h{} to {to}: {answered}", host + 1);
        let waited = wait_until(&what, LIMIT, || Ok((self.pings(host, to)? == answered).then_some(())));
        waited.map_err(|error| self.with_state(&error))
    }

    /// An error, and what the cluster says of itself.
    fn with_state(&self, error: &Error) -> Error {
        let status = self.typed(&["status"]).unwrap_or_default();
        Error::new(format!("{error}\n{status}{}", self.supervisor.last_lines()))
    }

    /// All pairs of hosts, each way.
    pub fn pairs() -> impl Iterator<Item = (usize, usize)> {
        (0..4).flat_map(|from| (0..4).map(move |to| (from, to))).filter(|(from, to)| from != to)
    }

    /// Waits until every host reaches every other, by both protocols.
    pub fn wait_for_all_pings(&self) -> Result<()> {
        for (from, to) in Stage::pairs() {
            self.wait_for_ping(from, &format!("10.{}.0.2", to + 1), true)?;
            self.wait_for_ping(from, &format!("2001:db8:{}::2", to + 1), true)?;
        }
        Ok(())
    }

    /// Ends the cluster, which must give the interfaces back and leave nothing behind.
    ///
    /// # Errors
    /// Those of a test if it has not.
    pub fn end(mut self) -> Result<()> {
        let checks = self.stop()?;
        let printed = self.supervisor.printed()?;
        match checks.iter().all(|check| check.holds) && !printed.contains("error:") {
            true => Ok(()),
            false => Err(Error::new(format!("{checks:?}\n{printed}"))),
        }
    }

    /// Ends the cluster, and says what was found: its exit code, the books and buffers of each node, the interfaces, files.
    pub fn stop(&mut self) -> Result<Vec<Check>> {
        self.typed(&["down"])?;
        let status = wait_until("the end of the cluster", LIMIT, || self.supervisor.ended())?;
        let printed = self.supervisor.printed()?;
        let mut checks = vec![Check::same("how the cluster ended", "exit status: 0", status)];
        let fifth = printed.contains(&format!(": node {FIFTH} is process ")).then_some(FIFTH);
        for node in NODES.into_iter().chain(fifth).chain(self.behind.iter().copied()) {
            let start = format!("{node}: routebricks: stopped: ");
            let line = printed.lines().rev().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
            let missing = line.rsplit(", ").next().filter(|end| !end.is_empty()).unwrap_or("nothing said");
            let name = format!("node {node}: packet buffers");
            checks.push(Check::same(name, "0 buffers missing", missing));
            checks.extend(balance(&format!("node {node}: its books"), line));
        }
        self.are_back()?;
        checks.push(Check::same("the interfaces", "back in Linux", "back in Linux"));
        self.nothing_is_left()?;
        Ok(checks)
    }

    /// The interfaces are there, as they were.
    pub fn are_back(&self) -> Result<()> {
        for n in 1..=PORTS {
            let name = format!("port{n}");
            wait_until(&format!("{name} is back"), LIMIT, || {
                let shown = self.inside.output("ip", &["-o", "link", "show", &name])?;
                let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
                let mac = format!("02:00:00:00:00:{n:02x}");
                let as_it_was = !shown.contains("xdp") && !shown.contains("PROMISC");
                Ok((shown.contains(&mac) && shown.contains("UP") && as_it_was).then_some(()))
            })?;
        }
        Ok(())
    }

    /// The files of the cluster.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir("/run/routebricks").into_iter().flatten().flatten();
        let ours = |path: &PathBuf| path.to_string_lossy().contains(&format!("cluster-{}.", self.name));
        entries.map(|entry| entry.path()).filter(ours).collect()
    }

    /// No files are there but those that outlive a cluster.
    fn nothing_is_left(&self) -> Result<()> {
        let mut left = self.files();
        left.retain(|path| path.extension().is_none_or(|extension| extension != "life"));
        if left.is_empty() { Ok(()) } else { Err(Error::new(format!("files are left: {left:?}"))) }
    }
}

/// Lets one processor take in whatever comes for a host. Else each does what it was handed itself, and Linux changes the
/// order of packets when their sender, a node's worker, moves to another processor. A kernel for one processor has no such
/// setting.
fn in_order(host: &Namespace) -> Result<()> {
    let words = ["-c", "f=/sys/class/net/eth0/queues/rx-0/rps_cpus; [ ! -e $f ] || echo 1 > $f"];
    host.run("sh", &words).map(drop)
}

fn supervisor(inside: &Namespace, directory: &Path, nodes: usize, is_elected: bool) -> Result<Process> {
    let program = binary()?.display().to_string();
    let file = directory.join("cluster.toml").display().to_string();
    let mut words = ["cluster", "up", &file].map(str::to_owned).to_vec();
    if is_elected {
        // Nobody answers at the first.
        words.extend(["--etcd".to_owned(), format!("http://127.0.0.1:1,{}", Etcd::ENDPOINT)]);
    }
    let mut supervisor = Process::start(inside, "supervisor", &program, &words, directory)?;
    supervisor.wait_for_line(&format!(": up: {nodes} nodes, 4 lines"), START)?;
    Ok(supervisor)
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.supervisor.kill();
        // Numbers of lives outlive a cluster; those of a test are nobody's.
        for file in self.files() {
            let _ = fs::remove_file(file);
        }
    }
}

fn text(name: &str, [settings, of_each]: &[String; 2], nodes: &[&str], behind: &[&str]) -> String {
    let mut text = format!(
        "[cluster]\nname = '{name}'\ncontrol = 'a'\neal = ['--no-huge', '--no-shconf', '--no-telemetry', '--no-pci', '-m', '256']\n{settings}\n"
    );
    for (node, n) in nodes.iter().zip(1..) {
        text += &format!(
            "[[node]]\nname = '{node}'\n\
             ports = [{{ name = 'ext{n}', device = 'port{n}', address = ['10.{n}.0.1/24', '2001:db8:{n}::1/64'] }}]\n{of_each}"
        );
    }
    behind.iter().for_each(|node| text += &format!("[[node]]\nname = '{node}'\n{of_each}"));
    text
}
