//! What the supervisor has a running node do: lines of JSON on the node's standard input, after its [task](super::node).
//!
//! A node has room for others that may come ([`super::text()`]): elements without a device. An order names the devices, and
//! says which nodes there are; nothing else of the graph changes, and packets pass meanwhile.

use super::node::Twin;
use super::office::Office;
use super::text::{SWITCH, link_elements};
use crate::run::Service;
use ::io::say;
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
    /// The names of all other nodes then.
    pub others: Vec<String>,
    /// Links of other rates than the rest then, as `ClusterSwitch` takes them.
    pub rates: String,
}

/// What happens to another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It comes.
    Join {
        /// The interface that leads there; none in a fly where no link does.
        link: Option<String>,
        /// The twins of its lines, for who can be the control node.
        twins: Vec<Twin>,
    },
    /// It goes.
    Leave {
        /// The twins of its lines, for who can be the control node.
        twins: Vec<Twin>,
    },
}

/// What orders are about.
pub struct Running {
    /// The node's elements.
    pub router: Arc<Router>,
    /// Who hears the answers.
    pub service: Arc<Service>,
    /// What it is in its cluster.
    pub office: Arc<Office>,
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
            Err(e) => return say!("error: an order that cannot be read: {e}"),
        };
        let done = self.follow(&order);
        self.service.answer(ANSWER, &format!("{} {}", order.number, done.err().as_deref().unwrap_or("ok")));
    }

    fn follow(&self, order: &Order) -> Result<(), String> {
        match &order.what {
            What::Join { link, twins } => {
                if let Some(link) = link {
                    let attach = |element: &String| self.office.attach(element, link);
                    link_elements(order.node).iter().try_for_each(attach)?;
                }
                self.office.add(order.node, twins, &order.others)?;
                self.members(order)
            }
            What::Leave { twins } => {
                self.members(order)?;
                self.office.remove(order.node, twins, &order.others)
            }
        }
    }

    fn members(&self, order: &Order) -> Result<(), String> {
        let numbers: Vec<String> = order.members.iter().map(usize::to_string).collect();
        // Before anything goes by a link it has its rate.
        let write = |handler, text: &str| self.router.write(SWITCH, handler, text).map_err(|e| e.to_string());
        write("rates", &order.rates)?;
        write("members", &numbers.join(" "))
    }
}
