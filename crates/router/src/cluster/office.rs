//! What a node is in its cluster, the control node or one that follows it, and how it becomes the one or the other while
//! packets pass.
//!
//! Who becomes the control node gives the twins to its Linux, notes what it knows of neighbours there, follows Linux from then
//! on, and hands out its tables. These are as it had them while it followed: they change in what this Linux knows better, and
//! what it does not know goes after a while (`hold`). Who ceases to be it takes its twins back, and follows.

use super::carriers::{Carriers, Remote};
use super::election::{Decision, Standing};
use super::node::Twin;
use super::tables::{ADOPT, Following, Replication};
use super::text::{SWITCH, punt_switch, twin_elements};
use crate::linux::{self, Namespaces, Port};
use crate::run::Service;
use ::io::say;
use control::link::{add_neighbour, link};
use control::replicate::{Log, Server, ServerSettings};
use control::{Cables, Control, Settings, Source, Tables};
use graph::Router;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long the first look at the kernel may take before packets flow.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// How often it looks what followers say, and tries again what did not go.
const LOOK: Duration = Duration::from_millis(100);

/// A node's elements, and what they are connected with.
pub struct Office {
    /// The node.
    pub me: usize,
    /// Its elements.
    pub router: Arc<Router>,
    /// Its namespace, and that of twins.
    pub namespaces: Arc<Namespaces>,
    /// Who hears how it gets on.
    pub service: Arc<Service>,
    /// What packets are looked up in.
    pub tables: Tables,
    /// How it comes to its tables.
    pub replication: Replication,
    /// What an election hears of it.
    pub standing: Arc<Standing>,
    /// What changes.
    pub state: Mutex<State>,
}

/// What changes of an [`Office`].
pub struct State {
    /// The twins of all lines of the cluster, if this can be the control node.
    twins: Vec<Twin>,
    /// The names of the other nodes.
    others: Vec<String>,
    part: Part,
}

#[derive(Default)]
enum Part {
    #[default]
    None,
    Follower(Following, Decision),
    Control(Duty),
}

/// What only the control node has, in the order in which it ends.
struct Duty {
    carriers: Carriers,
    control: control::Handle,
    server: Server,
    log: Arc<Log>,
}

impl State {
    /// Of a node that is nothing yet.
    pub fn new(twins: Vec<Twin>, others: Vec<String>) -> State {
        State { twins, others, part: Part::None }
    }
}

impl Office {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Becomes what was decided. The calling thread is in the private namespace then.
    ///
    /// # Errors
    /// What to tell the user. It can be tried again.
    pub fn become_what(&self, decision: &Decision) -> Result<(), String> {
        let mut state = self.state();
        let done = match decision {
            Decision::Nothing => {
                if matches!(state.part, Part::Control(_)) {
                    self.cease(&mut state);
                }
                Ok(())
            }
            Decision::Control(term) => self.take_over(&mut state, *term),
            Decision::Follow { .. } => self.follow(&mut state, decision),
        };
        self.namespaces.enter_private().map_err(|e| e.to_string())?;
        done
    }

    /// Ends whatever it was. The calling thread is in the private namespace then.
    pub fn end(&self) {
        let mut state = self.state();
        self.cease(&mut state);
        // Threads of this process need no other namespace at its end.
        let _ = self.namespaces.enter_private();
    }

    /// Hears what followers say, and whether any other node is heard.
    pub fn look(&self) {
        self.standing.cut_off.store(self.is_cut_off(), Ordering::Release);
        if let Part::Control(duty) = &self.state().part {
            self.standing.superseded.store(duty.server.superseded(), Ordering::Release);
        }
    }

    /// Whether there are links, and none is up.
    fn is_cut_off(&self) -> bool {
        let links = self.router.read(SWITCH, "links", "").unwrap_or_default();
        // A line of headings, and one for each link: the node at its end, and its state.
        let mut states = links.lines().skip(1).map(|line| line.split_whitespace().nth(1)).peekable();
        states.peek().is_some() && states.all(|state| state == Some("down"))
    }

    /// Waits until the tables have been whole, or for so long.
    pub fn wait(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.standing.whole.load(Ordering::Acquire) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn say(&self, what: &str) {
        say!("routebricks: {what}");
        self.service.status(what);
    }

    /// Where punted packets of own lines go, and frames that travel whole.
    fn tell_elements(&self, control: usize) -> Result<(), String> {
        if self.replication.candidacy.is_none() {
            return Ok(());
        }
        let is_control = control == self.me;
        let write = |element: &str, handler: &str, value: &str| {
            self.router.write(element, handler, value).map_err(|e| e.to_string())
        };
        let lines = self.router_lines();
        let punt = |output: &str| lines.iter().try_for_each(|i| write(&punt_switch(*i), "switch", output));
        // What is punted meanwhile goes to the twin or to the other node, never back out of its line.
        if is_control {
            punt("0")?;
        }
        write(SWITCH, "control", &control.to_string())?;
        if !is_control && self.is_candidate() {
            punt("1")?;
        }
        Ok(())
    }

    fn is_candidate(&self) -> bool {
        self.replication.candidacy.as_ref().is_some_and(|candidacy| candidacy.candidate)
    }

    /// The numbers of own lines, from 0, that have a switch for what is punted.
    fn router_lines(&self) -> Vec<usize> {
        let lines = if self.is_candidate() { self.replication.lines } else { 0 };
        (0..lines).collect()
    }

    fn follow(&self, state: &mut State, decision: &Decision) -> Result<(), String> {
        let Decision::Follow { node, name, address, term } = decision else { return Ok(()) };
        if let Part::Follower(following, Decision::Follow { name: old, address: at, .. }) = &state.part
            && (old, at) == (name, address)
        {
            following.set_term(*term);
            return Ok(());
        }
        if let Part::Follower(following, _) = &state.part {
            following.leave_for(*term);
        }
        self.cease(state);
        self.tell_elements(usize::from(*node))?;
        self.namespaces.enter_caller().map_err(|e| e.to_string())?;
        let following = Following::start(
            &self.replication,
            (name, *address, *term),
            &self.tables,
            &self.service,
            &self.standing,
        )?;
        state.part = Part::Follower(following, decision.clone());
        self.say(&format!("follows node {name}"));
        Ok(())
    }

    /// Is nothing any more; the tables stay.
    fn cease(&self, state: &mut State) {
        self.standing.hears.store(false, Ordering::Release);
        let Part::Control(duty) = std::mem::take(&mut state.part) else { return };
        drop(duty);
        for twin in &state.twins {
            if let Err(e) = linux::take_back(&self.namespaces, &twin.port) {
                say!("error: {}: the twin stays: {e}", twin.port.name);
            }
        }
        self.say("control node no more");
    }

    fn take_over(&self, state: &mut State, term: u64) -> Result<(), String> {
        if let Part::Control(duty) = &state.part {
            duty.log.set_term(term);
            return Ok(());
        }
        self.attach_twins(&state.twins)?;
        // A Linux that has them from another node would lose them.
        self.are_free(&state.twins)?;
        self.cease(state);
        let done = self.serve_and_control(state, term);
        match done {
            Ok(duty) => {
                state.part = Part::Control(duty);
                self.standing.whole.store(true, Ordering::Release);
                if term != 0 {
                    self.say(&format!("control node of term {term}"));
                }
                Ok(())
            }
            Err(e) => {
                self.give_up(&state.twins);
                Err(e)
            }
        }
    }

    /// Gives the elements of twins their devices, unless they have them. The calling thread is in the private namespace then.
    fn attach_twins(&self, twins: &[Twin]) -> Result<(), String> {
        self.namespaces.enter_private().map_err(|e| e.to_string())?;
        for twin in twins {
            for element in twin_elements(twin.line) {
                self.attach(&element, &format!("tap:{}", twin.port.tap))?;
            }
        }
        Ok(())
    }

    /// Gives an element its device, unless it has it. The calling thread is in the private namespace.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn attach(&self, element: &str, device: &str) -> Result<(), String> {
        if self.router.read(element, "device", "").is_ok_and(|has| has == device) {
            return Ok(());
        }
        self.router.write(element, "attach", device).map_err(|e| e.to_string())
    }

    /// Whether twins can get their names. The calling thread is in the caller's namespace then.
    fn are_free(&self, twins: &[Twin]) -> Result<(), String> {
        self.namespaces.enter_caller().map_err(|e| e.to_string())?;
        for twin in twins {
            let name = &twin.port.name;
            match link(name) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(format!("{name}: {e}")),
                Ok(_) => return Err(format!("{name}: there is an interface of that name already")),
            }
        }
        Ok(())
    }

    /// Takes twins back that were handed over.
    fn give_up(&self, twins: &[Twin]) {
        for twin in twins {
            let is_away = self.namespaces.enter_private().is_ok() && link(&twin.port.tap).is_err();
            if is_away && let Err(e) = linux::take_back(&self.namespaces, &twin.port) {
                say!("error: {}: the twin stays: {e}", twin.port.name);
            }
        }
    }

    fn serve_and_control(&self, state: &State, term: u64) -> Result<Duty, String> {
        let (twins, tables) = (&state.twins, &self.tables);
        self.namespaces.enter_private().map_err(|e| e.to_string())?;
        let own = twins.iter().filter(|twin| twin.node == self.me);
        let own = own.map(|twin| Ok((link(&twin.device)?.index, twin.line))).collect::<io::Result<Vec<_>>>();
        let cables = own.and_then(Cables::open_some).map_err(|e| format!("carriers of the lines: {e}"))?;
        self.namespaces.enter_caller().map_err(|e| e.to_string())?;
        let is_whole = !(tables.routes4.is_empty() && tables.routes6.is_empty());
        let log = Log::new(tables, Log::ROOM);
        log.set_term(term);
        let Replication { address, papers, .. } = self.replication.clone();
        // Who has followed knows the numbers of next hops.
        let adopt = if is_whole { Duration::ZERO } else { ADOPT };
        let settings =
            ServerSettings { listen: address, identity: papers, nodes: state.others.clone(), adopt };
        if !is_whole {
            self.service.status("waiting for the other nodes");
        }
        let server = Server::start(&settings, log.clone());
        let server = server.map_err(|e| format!("cannot hand out tables at {address}: {e}"))?;
        let ports: Vec<Port> = twins.iter().map(|twin| twin.port.clone()).collect();
        let numbers =
            linux::hand_over(&self.namespaces, &ports).map_err(|e| format!("cannot make the twins: {e}"))?;
        self.tell_elements(self.me)?;
        // Who is elected later gives VLANs the same numbers, whatever lines there are then.
        let mut by_line = vec![0; self.replication.all_lines.min(fib::Interfaces::MOST)];
        for (twin, number) in twins.iter().zip(&numbers) {
            if let Some(place) = by_line.get_mut(twin.line) {
                *place = *number;
            }
        }
        self.introduce(&by_line);
        self.service.status("reading the kernel's routes");
        let settings = Settings { ports: by_line, source: Source::Kernel, buffer: Settings::BUFFER };
        let control = match &self.replication.candidacy {
            Some(candidacy) if is_whole => {
                Control::start_taking_over(&settings, Some(cables), &log, candidacy.hold)
            }
            _ => Control::start_replicated(&settings, Some(cables), &log),
        };
        let control = control.map_err(|e| format!("netlink: {e}"))?;
        if !control.wait(FIRST_LOOK) {
            return Err("the kernel's routes cannot be read".to_owned());
        }
        let remote = twins.iter().zip(&numbers).filter(|(twin, _)| twin.node != self.me);
        let remote = remote.map(|(twin, number)| Remote { node: twin.node, twin: *number }).collect();
        let carriers = Carriers::keep(&self.router, remote).map_err(|e| e.to_string())?;
        Ok(Duty { carriers, control, server, log })
    }

    /// Notes in Linux the neighbours that the tables have, behind the interfaces of these numbers, by line: it need not find
    /// them out while packets for them wait.
    fn introduce(&self, numbers: &[u32]) {
        for (line, ip, mac) in self.tables.neighbours() {
            let number =
                usize::try_from(line).ok().and_then(|line| numbers.get(line)).filter(|number| **number != 0);
            // One that Linux does not take it finds out when it is needed.
            let _ = number.map(|number| add_neighbour(*number, ip, mac));
        }
    }

    /// A node comes, with these twins; what others are called then. The calling thread is in the private namespace.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn add(&self, node: usize, twins: &[Twin], others: &[String]) -> Result<(), String> {
        let mut state = self.state();
        state.others = others.to_vec();
        state.twins.retain(|twin| twin.node != node);
        state.twins.extend(twins.iter().cloned());
        let Part::Control(Duty { carriers, control, server, .. }) = &state.part else { return Ok(()) };
        server.set_nodes(others);
        let mut remote = Vec::new();
        self.attach_twins(twins)?;
        for twin in twins {
            let numbers = linux::hand_over(&self.namespaces, std::slice::from_ref(&twin.port));
            let back = self.namespaces.enter_private();
            let numbers = numbers.and_then(|numbers| back.map(|()| numbers));
            let numbers = numbers.map_err(|e| format!("{}: no twin can be made: {e}", twin.port.name))?;
            for number in numbers {
                control.set_port(twin.line, Some(number));
                remote.push(Remote { node, twin: number });
            }
        }
        carriers.set(node, &remote);
        Ok(())
    }

    /// A node goes; what others are called then. The calling thread is in the private namespace.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn remove(&self, node: usize, twins: &[Twin], others: &[String]) -> Result<(), String> {
        let mut state = self.state();
        state.others = others.to_vec();
        state.twins.retain(|twin| twin.node != node);
        let Part::Control(Duty { carriers, control, server, .. }) = &state.part else { return Ok(()) };
        carriers.set(node, &[]);
        let mut result = Ok(());
        for twin in twins {
            control.set_port(twin.line, None);
            let done = linux::take_back(&self.namespaces, &twin.port);
            let back = self.namespaces.enter_private();
            let done = done.and(back).map_err(|e| format!("{}: the twin stays: {e}", twin.port.name));
            result = result.and(done);
        }
        server.set_nodes(others);
        result
    }
}

/// Does what is decided, until it is dropped.
#[derive(Debug)]
pub struct Clerk {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clerk {
    /// Starts in the private namespace.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(office: Arc<Office>, decisions: Receiver<Decision>) -> io::Result<Clerk> {
        let stop = Arc::new(AtomicBool::new(false));
        let also = stop.clone();
        let thread = Builder::new().name("office".to_owned()).spawn(move || {
            let (mut wanted, mut said) = (None::<Decision>, None);
            while !also.load(Ordering::Acquire) {
                match decisions.recv_timeout(LOOK) {
                    Ok(decision) => wanted = Some(decisions.try_iter().last().unwrap_or(decision)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
                }
                if let Some(decision) = &wanted {
                    match office.become_what(decision) {
                        Ok(()) => (wanted, said) = (None, None),
                        Err(e) if said.as_ref() == Some(&e) => {}
                        Err(e) => {
                            say!("warning: {e}; it is tried again");
                            said = Some(e);
                        }
                    }
                }
                office.look();
            }
            office.end();
        })?;
        Ok(Clerk { stop, thread: Some(thread) })
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // It holds the router, whose ports cannot be closed before.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
