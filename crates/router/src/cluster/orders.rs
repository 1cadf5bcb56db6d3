//! What the supervisor has a running node do: lines of JSON on the node's standard input, after its [task](super::node).
//!
//! A node has room for others that may come ([`super::text()`]): elements without a device. An order names the devices, and
//! says which nodes there are; nothing else of the graph changes, and packets pass meanwhile.

use super::carriers::{Carriers, Remote};
use super::node::Twin;
use super::tables::Replica;
use super::text::{SWITCH, link_elements, twin_elements};
use crate::linux::{self, Namespaces};
use crate::run::Service;
use graph::Router;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// The variable by which a node answers, as in sd_notify(3): the number of the order, and `ok` or what is wrong.
pub const ANSWER: &str = "X_ORDER";

/// How often the thread looks whether it is to end, in milliseconds.
const LOOK: u16 = 50;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number, for the answer.
    pub number: u64,
    /// The node that it is about.
    pub node: usize,
    /// What it is about that node.
    pub what: What,
    /// The numbers of all nodes that there are then.
    pub members: Vec<usize>,
    /// The names of those that follow the control node.
    pub others: Vec<String>,
}

/// What happens to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It comes.
    Join {
        /// The interface that leads there.
        link: String,
        /// The twins of its lines, for the control node.
        twins: Vec<Twin>,
    },
    /// It goes.
    Leave {
        /// The twins of its lines, for the control node.
        twins: Vec<Twin>,
    },
}

/// What orders are about.
pub struct Running {
    /// The node's elements.
    pub router: Arc<Router>,
    /// Its namespace, and that of twins.
    pub namespaces: Arc<Namespaces>,
    /// Who hears the answers.
    pub service: Arc<Service>,
    /// If it is the control node, who follows Linux.
    pub control: Option<control::Handle>,
    /// The same for carriers of the others' lines.
    pub carriers: Option<Carriers>,
    /// The tables of all nodes.
    pub replica: Replica,
}

/// Does what comes in until it is dropped.
pub struct Post {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    /// Starts in the calling thread's namespace, which is the node's.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(running: Running) -> io::Result<Post> {
        let stop = Arc::new(AtomicBool::new(false));
        let also = stop.clone();
        // With a buffer of its own: that of `io::stdin` does not tell whether a line is in it.
        let mut input = BufReader::new(File::from(io::stdin().as_fd().try_clone_to_owned()?));
        let thread = Builder::new().name("orders".to_owned()).spawn(move || {
            while let Some(line) = next(&mut input, &also) {
                running.take(&line);
            }
            // Not before: what is in `running` lives as long as this thread.
            while !also.load(Ordering::Relaxed) {
                std::thread::park();
            }
        })?;
        Ok(Post { stop, thread: Some(thread) })
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It holds the router, whose ports cannot be closed before.
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The next line, unless there is none any more, or the node ends.
fn next(input: &mut BufReader<File>, stop: &AtomicBool) -> Option<String> {
    while !stop.load(Ordering::Relaxed) {
        let mut fds = [PollFd::new(input.get_ref().as_fd(), PollFlags::POLLIN)];
        // Interrupted is as good as nothing there.
        let has_come = poll(&mut fds, PollTimeout::from(LOOK)).unwrap_or(0) > 0;
        if has_come || !input.buffer().is_empty() {
            let mut line = String::new();
            return input.read_line(&mut line).ok().filter(|len| *len > 0).map(|_| line);
        }
    }
    None
}

impl Running {
    fn take(&self, line: &str) {
        let order: Order = match serde_json::from_str(line) {
            Ok(order) => order,
            Err(e) => return eprintln!("error: an order that cannot be read: {e}"),
        };
        let done = self.follow(&order);
        self.service.answer(ANSWER, &format!("{} {}", order.number, done.err().as_deref().unwrap_or("ok")));
    }

    fn follow(&self, order: &Order) -> Result<(), String> {
        match &order.what {
            What::Join { link, twins } => {
                for element in link_elements(order.node) {
                    self.attach(&element, link)?;
                }
                self.replica.set_others(&order.others);
                self.add_twins(order.node, twins)?;
                self.members(order)
            }
            What::Leave { twins } => {
                self.members(order)?;
                let removed = self.remove_twins(order.node, twins);
                self.replica.set_others(&order.others);
                removed
            }
        }
    }

    fn members(&self, order: &Order) -> Result<(), String> {
        let numbers: Vec<String> = order.members.iter().map(usize::to_string).collect();
        self.router.write(SWITCH, "members", &numbers.join(" ")).map_err(|e| e.to_string())
    }

    /// Gives an element its device, unless it has it.
    fn attach(&self, element: &str, device: &str) -> Result<(), String> {
        if self.router.read(element, "device", "").is_ok_and(|has| has == device) {
            return Ok(());
        }
        self.router.write(element, "attach", device).map_err(|e| e.to_string())
    }

    fn add_twins(&self, node: usize, twins: &[Twin]) -> Result<(), String> {
        let Some(control) = &self.control else { return Ok(()) };
        let mut remote = Vec::new();
        for twin in twins {
            for element in twin_elements(twin.line) {
                self.attach(&element, &format!("tap:{}", twin.port.tap))?;
            }
            let ports = [twin.port.clone()];
            let numbers = linux::hand_over(&self.namespaces, &ports);
            let back = self.namespaces.enter_private();
            let numbers = numbers.and_then(|numbers| back.map(|()| numbers));
            let numbers = numbers.map_err(|e| format!("{}: no twin can be made: {e}", twin.port.name))?;
            for number in numbers {
                control.set_port(twin.line, Some(number));
                remote.push(Remote { node, twin: number });
            }
        }
        self.carriers.iter().for_each(|carriers| carriers.set(node, &remote));
        Ok(())
    }

    fn remove_twins(&self, node: usize, twins: &[Twin]) -> Result<(), String> {
        let Some(control) = &self.control else { return Ok(()) };
        self.carriers.iter().for_each(|carriers| carriers.set(node, &[]));
        for twin in twins {
            control.set_port(twin.line, None);
            let done = linux::take_back(&self.namespaces, &twin.port);
            let back = self.namespaces.enter_private();
            done.and(back).map_err(|e| format!("{}: the twin stays: {e}", twin.port.name))?;
        }
        Ok(())
    }
}
