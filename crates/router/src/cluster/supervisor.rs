//! The process that starts the nodes of this machine, watches them, and puts everything back at the end.
//!
//! Nothing is started again unasked: what ends is told, and waits for `cluster start`. The supervisor holds the nodes'
//! namespaces, so that a node that was killed finds its interfaces again and its peers keep theirs. If the supervisor itself
//! is killed its nodes end with it, and its keepers give the interfaces back.

use super::config::Cluster;
use super::life;
use super::member::Member;
use super::node::{Task, Twin};
use super::places::{Place, places, twins};
use super::requests::{self, Desk, NodeState, Request};
use super::tables::Offices;
use super::text::{link_name, text};
use crate::cli::json_rows;
use crate::linux::{Namespaces, Port, Twins};
use crate::run::Service;
use crate::words::counted;
use control::link::{change, connect, link};
use control::netlink::make::VethEnd;
use control::netlink::request::LinkChange;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long all nodes together may take to start.
const START: Duration = Duration::from_secs(120);
/// How long they may take to end.
const END: Duration = Duration::from_secs(15);
/// How often the supervisor looks.
const LOOK: Duration = Duration::from_millis(20);

/// Runs all nodes on this machine, or only one of them, until something asks to stop.
///
/// # Errors
/// What to tell the user. Whatever was taken has been given back.
pub fn up(cluster: &Cluster, only: Option<usize>) -> Result<(), String> {
    let here: Vec<usize> = only.map_or_else(|| (0..cluster.nodes.len()).collect(), |node| vec![node]);
    let directory = requests::directory()?;
    let desk = Desk::open(&directory, &cluster.name)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|e| format!("signals: {e}"))?;
    }
    let places = places(cluster, &here)?;
    links(cluster, &places, only)?;
    let of_control = here.contains(&cluster.control).then(|| twins(cluster, &places)).transpose()?;
    let offices = Offices::open(cluster, &here)?;
    let made = places.iter().map(|place| Namespaces::new(&place.taken())).collect::<io::Result<Vec<_>>>();
    let namespaces = made.map_err(|e| format!("cannot make a network namespace: {e}"))?;
    let taken: Vec<Twins<'_>> = (namespaces.iter().zip(&places))
        .map(|(namespaces, place)| Twins::take(namespaces, &place.taken()))
        .collect::<Result<_, _>>()?;
    cables(cluster, &places, &namespaces).map_err(|e| format!("cannot lay the internal links: {e}"))?;
    let member = |place: &Place| Member::new(&directory, &cluster.name, &cluster.nodes[place.node].name);
    let members = places.iter().map(member).collect::<io::Result<_>>().map_err(|e| e.to_string())?;
    let mut supervisor = Supervisor {
        cluster,
        places: &places,
        namespaces: &namespaces,
        twins: of_control,
        offices,
        directory: &directory,
        members,
        leaving: Vec::new(),
        is_up: false,
        service: Service::from_environment(),
    };
    let ended = supervisor.run(&desk, &stop);
    supervisor.end();
    // Those who asked for the end hear of it when everything is back where it was.
    let leaving = std::mem::take(&mut supervisor.leaving);
    drop(supervisor);
    drop(taken);
    drop(namespaces);
    drop(leaving);
    ended
}

/// Whether every link has what it needs: interfaces that the file names, or both ends on this machine.
fn links(cluster: &Cluster, places: &[Place], only: Option<usize>) -> Result<(), String> {
    for place in places {
        let node = &cluster.nodes[place.node];
        let needed = cluster.link_mtu();
        if let Some(port) = place.links.iter().find(|port| port.mtu < needed) {
            let (name, mtu) = (&port.name, port.mtu);
            return Err(format!(
                "{name}: its MTU is {mtu}, a link needs {needed}: ip link set {name} mtu {needed}"
            ));
        }
        let missing = (0..cluster.nodes.len())
            .find(|to| *to != place.node && node.links.get(*to).is_none_or(Option::is_none));
        if let (Some(_), Some(to)) = (only, missing) {
            let to = &cluster.nodes[to].name;
            return Err(format!(
                "node {} alone: the file must name the interface of its link to {to}",
                node.name
            ));
        }
    }
    Ok(())
}

/// Lays the links for which the file names no interfaces, and sets them up.
fn cables(cluster: &Cluster, places: &[Place], namespaces: &[Namespaces]) -> io::Result<()> {
    let all: Vec<(&Place, &Namespaces)> = places.iter().zip(namespaces).collect();
    for (i, (place, namespace)) in all.iter().enumerate() {
        for (peer, other) in all.iter().skip(i + 1) {
            let (from, to) = (place.node, peer.node);
            if cluster.nodes[from].links.get(to).is_some_and(Option::is_some) {
                continue;
            }
            let names = [link_name(cluster, from, to), link_name(cluster, to, from)];
            let end = VethEnd { name: &names[0], namespace: namespace.private() };
            connect([&end, &VethEnd { name: &names[1], namespace: other.private() }], cluster.link_mtu())?;
        }
    }
    for (place, namespace) in all {
        within(namespace, || {
            for name in place.devices(cluster) {
                change(link(&name)?.index, &LinkChange { up: Some(true), ..LinkChange::default() })?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Does something in the private namespace.
fn within<T>(namespaces: &Namespaces, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    namespaces.enter_private()?;
    let done = work();
    namespaces.enter_caller()?;
    done
}

struct Supervisor<'a> {
    cluster: &'a Cluster,
    places: &'a [Place],
    namespaces: &'a [Namespaces],
    /// The twins of all lines, if the control node is here.
    twins: Option<Vec<Port>>,
    offices: Offices,
    directory: &'a Path,
    members: Vec<Member>,
    /// Connections of those who have asked for the end.
    leaving: Vec<UnixStream>,
    /// All nodes forwarded once.
    is_up: bool,
    service: Service,
}

impl Supervisor<'_> {
    fn say(&self, what: &str) {
        // If standard error is gone there is nobody to tell.
        let _ = writeln!(io::stderr(), "cluster {}: {what}", self.cluster.name);
    }

    fn run(&mut self, desk: &Desk, stop: &AtomicBool) -> Result<(), String> {
        for i in 0..self.members.len() {
            self.start(i)?;
        }
        let deadline = Instant::now() + START;
        loop {
            let ended = self.look();
            if !self.is_up {
                self.is_up = self.comes_up(ended, deadline)?;
            }
            if let Some((request, stream)) = desk.next() {
                self.answer(&request, stream);
            }
            if stop.load(Ordering::Relaxed) || !self.leaving.is_empty() {
                return Ok(());
            }
            sleep(LOOK);
        }
    }

    /// Looks at all nodes; the first that has ended.
    fn look(&mut self) -> Option<String> {
        let mut first = None;
        for i in 0..self.members.len() {
            let Some(member) = self.members.get_mut(i) else { continue };
            let was_ready = member.ready;
            let ended = member.look();
            let (name, ready) = (member.name.clone(), member.ready);
            if let Some(status) = ended {
                self.say(&format!(
                    "node {name} ended ({status}); `routebricks cluster start {name}` starts it again"
                ));
                first.get_or_insert(name);
            } else if ready && !was_ready {
                self.say(&format!("node {name} forwards"));
            }
        }
        first
    }

    /// Whether all nodes forward, for the first time.
    fn comes_up(&self, ended: Option<String>, deadline: Instant) -> Result<bool, String> {
        if let Some(name) = ended {
            return Err(format!("node {name} did not start"));
        }
        if self.members.iter().all(|member| member.ready) {
            let nodes = counted(self.members.len(), "node");
            let lines = counted(self.places.iter().map(|place| place.lines.len()).sum(), "line");
            self.say(&format!("up: {nodes}, {lines}"));
            self.service.ready(&format!("{nodes}, {lines}"));
            return Ok(true);
        }
        let late = self.members.iter().find(|member| !member.ready);
        match late.filter(|_| Instant::now() >= deadline) {
            Some(late) => Err(format!("node {} is still not ready: {}", late.name, late.state)),
            None => Ok(false),
        }
    }

    fn answer(&mut self, request: &Request, mut stream: UnixStream) {
        let answer = match request {
            Request::Nodes => self.nodes(),
            Request::Start(name) => match self.start_again(name) {
                Ok(()) => "ok\n".to_owned(),
                Err(e) => format!("error: {e}\n"),
            },
            Request::Down => {
                self.leaving.push(stream);
                return;
            }
        };
        // Who does not listen any more is not told.
        let _ = stream.write_all(answer.as_bytes());
    }

    /// All nodes of the cluster, in the order of their numbers.
    fn nodes(&self) -> String {
        let row = |(number, node): (usize, &super::config::Node)| {
            let here = self.places.iter().position(|place| place.node == number);
            let member = here.and_then(|i| self.members.get(i));
            let state = NodeState {
                node: node.name.clone(),
                pid: member.and_then(Member::pid),
                state: member.map_or("on another machine", |member| &member.state).to_owned(),
                ready: member.is_some_and(|member| member.ready),
                control: number == self.cluster.control,
                namespace: here.and_then(|i| self.namespaces.get(i)).map(namespace_file),
                lines: node.lines.iter().map(|line| line.name.clone()).collect(),
            };
            serde_json::to_value(state).unwrap_or_default()
        };
        json_rows("nodes", &self.cluster.nodes.iter().enumerate().map(row).collect::<Vec<_>>())
    }

    fn start_again(&mut self, name: &str) -> Result<(), String> {
        let found = self.members.iter().position(|member| member.name == name);
        let i = found.ok_or_else(|| format!("there is no node {name} here"))?;
        if self.members.get(i).is_some_and(|member| member.pid().is_some()) {
            return Err(format!("node {name} is running"));
        }
        self.start(i)
    }

    /// Starts a node's process.
    fn start(&mut self, i: usize) -> Result<(), String> {
        let (Some(place), Some(namespaces)) = (self.places.get(i), self.namespaces.get(i)) else {
            return Ok(());
        };
        within(namespaces, || {
            // A killed driver leaves its XDP program, and with that the next one gets no XDP socket.
            for name in place.devices(self.cluster) {
                let found = link(&name)?;
                if found.xdp {
                    change(found.index, &LinkChange { no_xdp: true, ..LinkChange::default() })?;
                }
            }
            Ok(())
        })
        .map_err(|e| format!("node {}: {e}", self.cluster.nodes[place.node].name))?;
        let task = self.task(place, namespaces)?;
        let Some(member) = self.members.get_mut(i) else { return Ok(()) };
        member.start(&task).map_err(|e| format!("node {} cannot be started: {e}", member.name))?;
        let (name, pid) = (member.name.clone(), member.pid().unwrap_or(0));
        self.say(&format!("node {name} is process {pid}"));
        Ok(())
    }

    fn task(&self, place: &Place, namespaces: &Namespaces) -> Result<Task, String> {
        let (cluster, node) = (self.cluster, &self.cluster.nodes[place.node]);
        let incarnation = life::next(self.directory, &cluster.name, &node.name);
        let twin = |(port, (owner, line)): (&Port, (usize, &super::config::Line))| Twin {
            port: port.clone(),
            node: owner,
            device: (owner == place.node).then(|| line.device.clone()),
        };
        let twins = self.twins.as_ref().filter(|_| place.node == cluster.control);
        Ok(Task {
            node: node.name.clone(),
            supervisor: i32::try_from(process::id()).unwrap_or(0),
            namespace: namespace_file(namespaces),
            text: text(cluster, place.node, incarnation, &place.lines),
            eal: cluster.eal.clone(),
            replication: self.offices.replication(cluster, place.node)?,
            twins: twins.map(|twins| twins.iter().zip(cluster.lines()).map(twin).collect()),
        })
    }

    /// Ends all nodes.
    fn end(&mut self) {
        self.service.stopping();
        self.members.iter().for_each(|member| member.signal(Signal::SIGTERM));
        let deadline = Instant::now() + END;
        while self.members.iter().any(|member| member.pid().is_some()) && Instant::now() < deadline {
            for member in &mut self.members {
                member.look();
            }
            sleep(LOOK);
        }
        for member in self.members.iter().filter(|member| member.pid().is_some()) {
            self.say(&format!("node {} does not end, and is killed", member.name));
        }
        self.members.clear();
        self.say("down");
    }
}

/// Where others find the namespace.
fn namespace_file(namespaces: &Namespaces) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", process::id(), namespaces.private()))
}
