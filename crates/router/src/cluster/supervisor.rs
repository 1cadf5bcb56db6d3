//! The process that starts the nodes of this machine, watches them, and puts everything back at the end.
//!
//! Nothing is started again unasked: what ends is told, and waits for `cluster start`. The supervisor holds the nodes'
//! namespaces, so that a node that was killed finds its interfaces again and its peers keep theirs. If the supervisor itself
//! is killed its nodes end with it, and its keepers give the interfaces back.

use super::config::{Cluster, Etcd, Node};
use super::election::News;
use super::life;
use super::node::{Task, Twin};
use super::places::{Place, places, twins};
use super::requests::{self, Desk, NodeState, Request};
use super::seat::{Seat, cables};
use super::tables::Offices;
use super::text::text;
use crate::cli::json_rows;
use crate::run::Service;
use crate::words::counted;
use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long all nodes together may take to start.
pub(super) const START: Duration = Duration::from_secs(120);
/// How long they may take to end.
pub(super) const END: Duration = Duration::from_secs(15);
/// How often the supervisor looks.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Runs all nodes of a file on this machine, or only one of them, until something asks to stop. `etcd` is what the command line
/// says in place of the file.
///
/// # Errors
/// What to tell the user. Whatever was taken has been given back.
pub fn up(file: &Path, cluster: Cluster, only: Option<usize>, etcd: EtcdFlags) -> Result<(), String> {
    ::io::tell_panics();
    let cluster = etcd.apply(cluster)?;
    let here: Vec<usize> = only.map_or_else(|| cluster.members(), |node| vec![node]);
    let directory = requests::directory()?;
    let desk = Desk::open(&directory, &cluster.name)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|e| format!("signals: {e}"))?;
    }
    let reload = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, reload.clone()).map_err(|e| format!("signals: {e}"))?;
    let places = places(&cluster, &here)?;
    links(&cluster, &places, only)?;
    let can_control = here.iter().any(|node| cluster.may_control(*node));
    let twins = can_control.then(|| twins(&cluster, &cluster.members(), &places)).transpose()?;
    let offices = Offices::open(&cluster, &here)?;
    let seats = places.into_iter().map(|place| Seat::new(&directory, &cluster, place));
    let mut seats = seats.collect::<Result<Vec<_>, _>>()?;
    cables(&cluster, &mut seats).map_err(|e| format!("cannot lay the internal links: {e}"))?;
    let mut supervisor = Supervisor {
        file: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
        cluster,
        only,
        etcd,
        seats,
        twins,
        offices,
        directory,
        orders: 0,
        leaving: Vec::new(),
        is_up: false,
        service: Service::from_environment(),
    };
    let ended = supervisor.run(&desk, &stop, &reload);
    supervisor.end();
    // Those who asked for the end hear of it when everything is back where it was.
    let leaving = std::mem::take(&mut supervisor.leaving);
    drop(supervisor);
    drop(leaving);
    ended
}

/// What the command line says about etcd.
#[derive(Clone, Debug, Default)]
pub struct EtcdFlags {
    /// Members, as URLs.
    pub endpoints: Vec<String>,
    /// Who signed their certificates.
    pub authority: Option<PathBuf>,
    /// Our certificate.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// As whom we ask.
    pub user: Option<String>,
    /// A file with the password.
    pub password: Option<PathBuf>,
}

impl EtcdFlags {
    /// The cluster as the file has it, but for this.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn apply(&self, mut cluster: Cluster) -> Result<Cluster, String> {
        if self.endpoints.is_empty() {
            return Ok(cluster);
        }
        let of_file = cluster.etcd.take().unwrap_or_default();
        let etcd = Etcd {
            endpoints: self.endpoints.clone(),
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            ..of_file
        };
        if let Some(mistake) = etcd.mistake() {
            return Err(mistake.to_owned());
        }
        cluster.etcd = Some(etcd);
        Ok(cluster)
    }
}

/// Whether every link has what it needs: interfaces that the file names, or both ends on this machine.
pub(super) fn links(cluster: &Cluster, places: &[Place], only: Option<usize>) -> Result<(), String> {
    for place in places {
        let Some(node) = cluster.nodes.get(place.node) else { continue };
        let needed = cluster.link_mtu();
        if let Some(port) = place.links.iter().find(|port| port.mtu < needed) {
            let (name, mtu) = (&port.name, port.mtu);
            return Err(format!(
                "{name}: its MTU is {mtu}, a link needs {needed}: ip link set {name} mtu {needed}"
            ));
        }
        let missing = cluster.members().into_iter().find(|to| {
            cluster.are_joined(place.node, *to) && node.links.get(*to).is_none_or(Option::is_none)
        });
        if let (Some(_), Some(to)) = (only, missing) {
            return Err(format!(
                "node {} alone: the file must name the interface of its link to {}",
                node.name,
                cluster.name_of(to)
            ));
        }
    }
    Ok(())
}

/// What it keeps.
pub(super) struct Supervisor {
    /// The cluster's file.
    pub file: PathBuf,
    pub cluster: Cluster,
    /// The only node of this machine, if the others are elsewhere.
    pub only: Option<usize>,
    /// In place of what the file says.
    pub etcd: EtcdFlags,
    /// The nodes of this machine, and the places of those that are gone.
    pub seats: Vec<Seat>,
    /// The twins of all lines, if a node is here that is, or can become, the control node.
    pub twins: Option<Vec<Twin>>,
    pub offices: Offices,
    pub directory: PathBuf,
    /// Orders that were given.
    pub orders: u64,
    /// Connections of those who have asked for the end.
    leaving: Vec<UnixStream>,
    /// All nodes forwarded once.
    is_up: bool,
    service: Service,
}

impl Supervisor {
    /// Tells whoever looks.
    pub fn say(&self, what: &str) {
        ::io::say!("cluster {}: {what}", self.cluster.name);
    }

    fn run(&mut self, desk: &Desk, stop: &AtomicBool, reload: &AtomicBool) -> Result<(), String> {
        for i in 0..self.seats.len() {
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
            if reload.swap(false, Ordering::Relaxed) {
                self.reload_on_signal();
            }
            if stop.load(Ordering::Relaxed) || !self.leaving.is_empty() {
                return Ok(());
            }
            sleep(LOOK);
        }
    }

    /// What SIGHUP asks for.
    fn reload_on_signal(&mut self) {
        match self.reload(false) {
            Ok(text) => self.say(&format!(
                "the file was read again{}",
                if text.is_empty() { "; nothing differs" } else { "" }
            )),
            Err(e) => self.say(&format!("error: {e}")),
        }
    }

    /// Looks at all nodes; the first that has ended.
    pub fn look(&mut self) -> Option<String> {
        let mut first = None;
        for i in 0..self.seats.len() {
            let Some(seat) = self.seats.get_mut(i) else { continue };
            let was_ready = seat.member.ready;
            let ended = seat.member.look();
            let (name, ready) = (seat.name.clone(), seat.member.ready);
            if let (Some(status), false) = (ended, seat.place.is_none()) {
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
        if self.seats.iter().all(|seat| seat.member.ready) {
            let nodes = counted(self.seats.len(), "node");
            let places = self.seats.iter().filter_map(|seat| seat.place.as_ref());
            let lines = counted(places.map(|place| place.lines.len()).sum(), "line");
            self.say(&format!("up: {nodes}, {lines}"));
            self.service.ready(&format!("{nodes}, {lines}"));
            return Ok(true);
        }
        let late = self.seats.iter().find(|seat| !seat.member.ready);
        match late.filter(|_| Instant::now() >= deadline) {
            Some(late) => Err(format!("node {} is still not ready: {}", late.name, late.member.state)),
            None => Ok(false),
        }
    }

    fn answer(&mut self, request: &Request, mut stream: UnixStream) {
        let answer = match request {
            Request::Nodes => self.nodes(),
            Request::File => format!("{}\n", self.file.display()),
            Request::Start(name) => match self.start_again(name) {
                Ok(()) => "ok\n".to_owned(),
                Err(e) => format!("error: {e}\n"),
            },
            Request::Reload { .. } if !self.is_up => "error: the cluster is still starting\n".to_owned(),
            Request::Reload { check } => match self.reload(*check) {
                Ok(text) => format!("{text}ok\n"),
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
        let known = self.known();
        let control = self.control_now();
        let row = |(number, node): (usize, &Node)| {
            let seat = self.seats.iter().find(|seat| seat.node == number);
            let member = seat.map(|seat| &seat.member);
            let state = NodeState {
                node: node.name.clone(),
                number,
                pid: member.and_then(|member| member.pid()),
                state: member.map_or("on another machine", |member| &member.state).to_owned(),
                ready: member.is_some_and(|member| member.ready),
                control: control == Some(number),
                candidate: self.cluster.etcd.is_some() && self.cluster.may_control(number),
                present: known.map(|news| news.present.contains(&node.name)),
                election: member
                    .filter(|member| member.pid().is_some())
                    .and_then(|member| member.election.clone()),
                namespace: seat.map(Seat::namespace_file),
                lines: node.lines.iter().map(|line| line.name.clone()).collect(),
            };
            serde_json::to_value(state).unwrap_or_default()
        };
        json_rows("nodes", &self.cluster.there().map(row).collect::<Vec<_>>())
    }

    /// What the node knows that knows the latest term, of those that hear etcd if there are any.
    fn known(&self) -> Option<&News> {
        let running = self.seats.iter().map(|seat| &seat.member).filter(|member| member.pid().is_some());
        let news = running.filter_map(|member| member.election.as_ref());
        news.max_by_key(|news| (news.silent.is_none(), news.term))
    }

    /// The control node, if it is known.
    pub fn control_now(&self) -> Option<usize> {
        match &self.cluster.etcd {
            None => Some(self.cluster.control),
            Some(_) => self.cluster.node(self.known()?.control.as_deref()?),
        }
    }

    /// The place of a node that is there.
    pub fn seat_of(&self, name: &str) -> Option<usize> {
        self.seats.iter().position(|seat| seat.place.is_some() && seat.name == name)
    }

    fn start_again(&mut self, name: &str) -> Result<(), String> {
        let i = self.seat_of(name).ok_or_else(|| format!("there is no node {name} here"))?;
        if self.seats.get(i).is_some_and(|seat| seat.member.pid().is_some()) {
            return Err(format!("node {name} is running"));
        }
        self.start(i)
    }

    /// Starts a node's process.
    pub fn start(&mut self, i: usize) -> Result<(), String> {
        let Some(seat) = self.seats.get(i) else { return Ok(()) };
        let Some(place) = &seat.place else { return Ok(()) };
        seat.clean(&self.cluster).map_err(|e| format!("node {}: {e}", seat.name))?;
        let task = self.task(seat, place)?;
        let Some(seat) = self.seats.get_mut(i) else { return Ok(()) };
        let (name, member) = (seat.name.clone(), &mut seat.member);
        member.start(&task).map_err(|e| format!("node {name} cannot be started: {e}"))?;
        let pid = member.pid().unwrap_or(0);
        self.say(&format!("node {name} is process {pid}"));
        Ok(())
    }

    fn task(&self, seat: &Seat, place: &Place) -> Result<Task, String> {
        let cluster = &self.cluster;
        let incarnation = life::next(&self.directory, &cluster.name, &seat.name);
        let node = cluster.nodes.get(seat.node);
        Ok(Task {
            node: seat.name.clone(),
            number: seat.node,
            supervisor: i32::try_from(process::id()).unwrap_or(0),
            namespace: seat.namespace_file(),
            text: text(cluster, seat.node, incarnation, &place.lines),
            eal: cluster.eal.clone(),
            workers: node.map_or(1, Node::workers),
            cpus: node.map_or(Vec::new(), |node| node.cpus.clone()),
            replication: self.offices.replication(cluster, seat.node)?,
            twins: self.twins.clone().filter(|_| cluster.may_control(seat.node)).unwrap_or_default(),
        })
    }

    /// Ends all nodes.
    fn end(&mut self) {
        self.service.stopping();
        self.seats.iter().for_each(|seat| seat.member.signal(Signal::SIGTERM));
        let deadline = Instant::now() + END;
        let runs = |seat: &Seat| seat.member.pid().is_some();
        while self.seats.iter().any(runs) && Instant::now() < deadline {
            for seat in &mut self.seats {
                seat.member.look();
            }
            sleep(LOOK);
        }
        for seat in self.seats.iter().filter(|seat| runs(seat)) {
            self.say(&format!("node {} does not end, and is killed", seat.name));
        }
        self.seats.iter_mut().for_each(|seat| seat.member.kill());
        // Its interfaces go back before that is said.
        self.seats.iter_mut().for_each(Seat::leave);
        self.say("down");
    }
}
