//! A process of its own that holds the private namespace, and gives the ports back if the router is killed.
//!
//! The kernel destroys a namespace that nobody holds, and with it the virtual interfaces (veth, macvlan) that are in it. The process
//! holds it by a file, too, for the case that it is killed with the router.

use super::Port;
use super::interface_state;
use super::pin::{Identity, Pin, Process, Record, enter_first_mounts};
use ::io::say;
use control::link::{change, link};
use control::netlink::request::LinkChange;
use control::offload::set_offloads;
use nix::sched::{CloneFlags, setns};
use nix::unistd::getppid;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

/// The command that such a process runs; nobody types it.
pub const COMMAND: &str = "keep-ports";
/// How often a port's name may be found taken, by the twin of a router that is just ending.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(50);
/// How long the process may take to read what it is told.
const PATIENCE: Duration = Duration::from_secs(1);
/// The longest name of an interface.
const LONGEST_NAME: usize = 15;

/// The process. Dropping it, like the end of this process, lets it give back what is still there, and end.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    /// Closed to have it end.
    stream: Option<UnixStream>,
    /// Names of its ports.
    names: Vec<String>,
}

impl Keeper {
    /// Starts it in the calling thread's namespace. The ports come from, and go back to, the namespace `caller`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(caller: &File, ports: &[Port]) -> io::Result<Keeper> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(PATIENCE))?;
        let mut keeper = Command::new("/proc/self/exe");
        // It hears of our end by its standard input, and finds the namespace as its standard output. What a terminal sends
        // to our group is not for it.
        keeper.arg0("routebricks").arg(COMMAND);
        keeper.stdin(OwnedFd::from(theirs)).stdout(caller.try_clone()?).process_group(0);
        let names = ports.iter().map(|port| port.name.clone()).collect();
        let mut keeper = Keeper { process: keeper.spawn()?, stream: Some(ours), names };
        keeper.tell(ports);
        Ok(keeper)
    }

    /// How its ports are to be given back, one line for all; others among them are not its.
    pub fn tell(&mut self, ports: &[Port]) {
        let own: Vec<&Port> = ports.iter().filter(|port| self.names.contains(&port.name)).collect();
        let Ok(mut line) = serde_json::to_vec(&own) else { return };
        line.push(b'\n');
        // One that was killed does not read; one that reads half a line goes on with what it knows.
        if let Some(stream) = &mut self.stream
            && stream.write_all(&line).is_err()
        {
            self.stream = None;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stream.take());
        // It has ended if somebody killed it, too.
        let _ = self.process.wait();
    }
}

/// What the process does: reads how the ports are to be given back until its standard input ends, and gives back what is still there.
///
/// # Errors
/// Those of the system.
pub fn keep() -> io::Result<()> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let processes = [Process::of(getppid().as_raw()), Process::of(own)];
    enter_first_mounts();
    let caller = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut record = Record { processes, caller: Identity::of(&caller)?, ports: Vec::new() };
    let pin = Pin::new();
    if let Err(e) = &pin {
        say!(
            "warning: if all processes of this router are killed at once, virtual interfaces among the ports are lost: \
             {}: {e}",
            super::pin::DIRECTORY
        );
    }
    for line in BufReader::new(io::stdin()).split(b'\n').map_while(Result::ok) {
        let Ok(ports) = serde_json::from_slice(&line) else { continue };
        record.ports = ports;
        if let Ok(pin) = &pin
            && let Err(e) = pin.write(&record)
        {
            say!("warning: cannot write down where the ports belong: {e}");
        }
    }
    // However it ended, the router is gone, or has given everything back.
    let done = give_back(&record.ports, &caller);
    if let Ok(pin) = pin {
        match &done {
            Ok(()) => pin.remove(),
            Err(_) => say!("error: what was not given back stays in {}", pin.namespace().display()),
        }
    }
    done
}

/// Moves those of the ports that are in the calling thread's namespace to the caller's, where the thread is then, too. One
/// whose name is taken there gets another.
///
/// # Errors
/// Those of the system, with the interface's name. What could not be moved stays.
pub fn give_back(ports: &[Port], caller: impl AsFd) -> io::Result<()> {
    let caller = caller.as_fd();
    let mut result = Ok(());
    let (mut back, mut names) = (Vec::new(), Vec::new());
    for port in ports {
        match move_to(port, &caller) {
            Ok(name) => {
                back.push(port.clone());
                names.push(name);
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => result = Err(io::Error::new(e.kind(), format!("{}: {e}", port.name))),
        }
    }
    setns(caller, CloneFlags::CLONE_NEWNET)?;
    interface_state::put(&back, &names, false)?;
    result
}

/// Moves a port; returns the name that it got.
fn move_to(port: &Port, caller: &impl AsRawFd) -> io::Result<String> {
    let found = link(&port.name)?;
    if let Err(e) = set_offloads(found.index, &port.offloads, true) {
        say!("warning: {}: offloads cannot be switched on again: {e}", port.name);
    }
    // It is set up when everything that is set for it is. A killed driver leaves it promiscuous, and its XDP program: with that,
    // the next one gets no XDP socket.
    let there = LinkChange {
        namespace: Some(caller.as_raw_fd()),
        up: Some(false),
        promiscuous: Some(port.promiscuous),
        no_xdp: found.xdp && !port.xdp,
        ..LinkChange::default()
    };
    for _ in 0..TRIES {
        match change(found.index, &there) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => sleep(PAUSE),
            done => return done.map(|()| port.name.clone()),
        }
    }
    for number in 0..TRIES {
        let name = other_name(&port.name, number);
        match change(found.index, &LinkChange { name: Some(&name), ..there.clone() }) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
            Ok(()) => {
                say!(
                    "warning: {} is given back as {name}: another interface has its name; `ip link set {name} name NAME` gives \
                     it another",
                    port.name
                );
                return Ok(name);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Another name for an interface.
fn other_name(name: &str, number: u32) -> String {
    let end = format!("-rb{number}");
    let room = LONGEST_NAME.saturating_sub(end.len());
    let mut len = name.len().min(room);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    format!("{}{end}", name.get(..len).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_fit() {
        assert_eq!(other_name("eth1", 0), "eth1-rb0");
        assert_eq!(other_name("abcdefghijklmno", 12), "abcdefghij-rb12");
        assert_eq!(other_name("äääääääa", 3), "äääää-rb3");
    }
}
