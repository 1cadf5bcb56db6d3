//! A node's process, as its supervisor sees it.

use super::election::{NEWS, News};
use super::node::{COMMAND, Task};
use super::orders::{ANSWER, Order};
use super::requests;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// Bytes of what a node says of itself at once; more is cut off.
const MOST: usize = 1 << 16;
/// Lines that wait for a node to read them, at most.
const UNREAD: usize = 16;

/// A node of this machine, running or not.
#[derive(Debug)]
pub struct Member {
    /// What it is called.
    pub name: String,
    /// What it last said of itself, or how it ended.
    pub state: String,
    /// It forwards packets.
    pub ready: bool,
    /// What it last said about the control node, if that is elected.
    pub election: Option<News>,
    child: Option<Child>,
    /// Where it gets its task and its orders, by a thread: it may not read them, and nothing else waits for that.
    input: Option<SyncSender<Vec<u8>>>,
    /// What it answered last: the number of the order, and what is wrong if anything is.
    answer: Option<(u64, Result<(), String>)>,
    /// Threads that print what it prints.
    printers: Vec<JoinHandle<()>>,
    /// Where it says how it gets on (sd_notify(3)).
    news: UnixDatagram,
    path: PathBuf,
}

impl Member {
    /// A node that does not run yet.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(directory: &Path, cluster: &str, name: &str) -> io::Result<Member> {
        let path = directory.join(format!("cluster-{cluster}.{name}{}", requests::NEWS));
        let _ = fs::remove_file(&path);
        let news = UnixDatagram::bind(&path)?;
        news.set_nonblocking(true)?;
        let state = "not started".to_owned();
        Ok(Member {
            name: name.to_owned(),
            state,
            ready: false,
            election: None,
            child: None,
            input: None,
            answer: None,
            printers: Vec::new(),
            news,
            path,
        })
    }

    /// Starts its process.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(&mut self, task: &Task) -> io::Result<()> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("routebricks").arg(COMMAND).env("NOTIFY_SOCKET", &self.path);
        command.env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        // What a terminal sends to our group is not for it.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let input = child.stdin.take().map(writer).transpose()?;
        let outputs = [child.stdout.take().map(boxed), child.stderr.take().map(boxed)];
        self.printers = outputs
            .into_iter()
            .flatten()
            .map(|output| print(&self.name, output))
            .collect::<Result<_, _>>()?;
        self.child = Some(child);
        self.ready = false;
        self.election = None;
        self.state = "starting".to_owned();
        self.input = input;
        self.write(line(task)?)
    }

    /// Has it do something; [`Member::answer`] will tell how that went.
    ///
    /// # Errors
    /// Those of the system, if it has just ended, or has not read what it got before.
    pub fn order(&mut self, order: &Order) -> io::Result<()> {
        self.write(line(order)?)
    }

    fn write(&self, text: Vec<u8>) -> io::Result<()> {
        let input = self.input.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        input.try_send(text).map_err(|e| match e {
            TrySendError::Full(_) => io::Error::new(io::ErrorKind::WouldBlock, "it does not read them"),
            TrySendError::Disconnected(_) => io::ErrorKind::BrokenPipe.into(),
        })
    }

    /// What it said to an order, if it has.
    pub fn answer(&self, number: u64) -> Option<Result<(), String>> {
        self.answer.as_ref().filter(|(to, _)| *to == number).map(|(_, answer)| answer.clone())
    }

    /// The number of its process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Hears what it has to say, and sees whether it has ended; then, how.
    pub fn look(&mut self) -> Option<ExitStatus> {
        let mut buffer = [0; MOST];
        while let Ok(len) = self.news.recv(&mut buffer) {
            let text = String::from_utf8_lossy(buffer.get(..len).unwrap_or_default());
            for line in text.lines() {
                match line.split_once('=') {
                    Some(("READY", "1")) => self.ready = true,
                    Some(("STOPPING", "1")) => self.ready = false,
                    Some(("STATUS", state)) => self.state = state.to_owned(),
                    Some((ANSWER, text)) => self.answer = answered(text),
                    Some((NEWS, text)) => self.election = serde_json::from_str(text).ok(),
                    _ => {}
                }
            }
        }
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        self.input = None;
        self.ready = false;
        self.state = format!("ended ({status})");
        for printer in self.printers.drain(..) {
            let _ = printer.join();
        }
        Some(status)
    }

    /// Asks it to end.
    pub fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid {
            // It may have ended in between, and waits for us to see it: nobody else has its number.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

impl Member {
    /// Kills its process, if it still runs.
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.look();
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_file(&self.path);
    }
}

/// As a line of JSON.
fn line(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    Ok(text)
}

/// The number of an order, and what came of it.
fn answered(text: &str) -> Option<(u64, Result<(), String>)> {
    let (number, what) = text.split_once(' ')?;
    let done = if what == "ok" { Ok(()) } else { Err(what.to_owned()) };
    Some((number.parse().ok()?, done))
}

/// Writes lines to a node as it reads them, until it has ended or nobody has more for it.
fn writer(mut input: ChildStdin) -> io::Result<SyncSender<Vec<u8>>> {
    let (send, lines) = sync_channel::<Vec<u8>>(UNREAD);
    let write = move || lines.iter().try_for_each(|line| input.write_all(&line));
    thread::Builder::new().name("node's input".to_owned()).spawn(write)?;
    Ok(send)
}

fn boxed(output: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    Box::new(output)
}

/// Prints each line with the node's name in front, until there is no more.
fn print(name: &str, output: Box<dyn Read + Send>) -> io::Result<JoinHandle<()>> {
    let name = name.to_owned();
    thread::Builder::new().name(format!("output {name}")).spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            // A node must not wait for whoever reads what the cluster says.
            ::io::say!("{name}: {}", String::from_utf8_lossy(&line));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_node_that_reads_nothing_holds_nobody_up() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let input = writer(child.stdin.take().unwrap()).unwrap();
        let begun = Instant::now();
        // Each fills the pipe.
        let taken = (0..1000).take_while(|_| input.try_send(vec![b' '; MOST]).is_ok()).count();
        assert!((UNREAD..=UNREAD + 2).contains(&taken), "{taken}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_written_is_read_in_order() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = writer(child.stdin.take().unwrap()).unwrap();
        for number in 0..UNREAD {
            input.try_send(format!("{number}\n").into_bytes()).unwrap();
        }
        drop(input);
        let read = io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert_eq!(
            read.lines().map(|line| line.parse().unwrap()).collect::<Vec<usize>>(),
            (0..UNREAD).collect::<Vec<_>>()
        );
        child.wait().unwrap();
    }
}
