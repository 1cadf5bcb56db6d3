//! A process of its own that holds the private namespace, and gives the ports back if the router is killed.
//!
//! The kernel destroys a namespace that nobody holds, and with it the virtual interfaces (veth, macvlan) that are in it.

use super::Port;
use control::link::{change, link};
use control::netlink::request::LinkChange;
use nix::sched::{CloneFlags, setns};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread::sleep;
use std::time::Duration;

/// The command that such a process runs; nobody types it.
pub const COMMAND: &str = "keep-ports";
/// How often a port's name may be found taken, by the twin of a router that is just ending.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// The process. Dropping it, like the end of this process, lets it give back what is still there, and end.
#[derive(Debug)]
pub struct Keeper(Child);

impl Keeper {
    /// Starts it in the calling thread's namespace. The ports come from, and go back to, the namespace `caller`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(caller: &File, ports: &[Port]) -> io::Result<Keeper> {
        let mut keeper = Command::new("/proc/self/exe");
        keeper.arg0("routebricks").arg(COMMAND).args(ports.iter().map(|port| Kept::from(port).to_string()));
        // It hears of our end by its standard input, and finds the namespace as its standard output. What a terminal sends
        // to our group is not for it.
        keeper.stdin(Stdio::piped()).stdout(caller.try_clone()?).process_group(0);
        keeper.spawn().map(Keeper)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It has ended if somebody killed it, too.
        let _ = self.0.wait();
    }
}

/// An interface to be given back, in words `NAME`, and `:up`, `:promiscuous` and `:xdp` behind it where they were so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its name.
    pub name: String,
    /// It was set up.
    pub up: bool,
    /// It took frames to any address.
    pub promiscuous: bool,
    /// It ran an XDP program.
    pub xdp: bool,
}

const UP: &str = "up";
const PROMISCUOUS: &str = "promiscuous";
const XDP: &str = "xdp";

impl From<&Port> for Kept {
    fn from(port: &Port) -> Kept {
        Kept { name: port.name.clone(), up: port.up, promiscuous: port.promiscuous, xdp: port.xdp }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let words = [(UP, self.up), (PROMISCUOUS, self.promiscuous), (XDP, self.xdp)];
        words.iter().filter(|(_, set)| *set).try_for_each(|(word, _)| write!(f, ":{word}"))
    }
}

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Kept, String> {
        // The kernel allows no colon in a name.
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default().to_owned();
        let mut kept = Kept { name, up: false, promiscuous: false, xdp: false };
        for word in words {
            match word {
                UP => kept.up = true,
                PROMISCUOUS => kept.promiscuous = true,
                XDP => kept.xdp = true,
                _ => return Err(format!("neither {UP}, {PROMISCUOUS} nor {XDP}: {word}")),
            }
        }
        Ok(kept)
    }
}

/// What the process does: waits for the end of its standard input, and gives back what is still there.
///
/// # Errors
/// Those of the system.
pub fn keep(ports: &[Kept]) -> io::Result<()> {
    // However it ends, the router is gone.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    give_back(ports, io::stdout())
}

/// Moves those of the ports that are in the calling thread's namespace to the caller's, where the thread is then, too.
///
/// # Errors
/// Those of the system. What could not be moved stays.
pub fn give_back(ports: &[Kept], caller: impl AsFd) -> io::Result<()> {
    let caller = caller.as_fd();
    let mut result = Ok(());
    for port in ports {
        let moved = link(&port.name).and_then(|found| {
            // In one go: nobody finds it there in another state. A killed driver leaves it promiscuous, and its XDP program:
            // with that, the next one gets no XDP socket.
            let there = LinkChange {
                namespace: Some(caller.as_raw_fd()),
                up: Some(port.up),
                promiscuous: Some(port.promiscuous),
                no_xdp: found.xdp && !port.xdp,
                ..LinkChange::default()
            };
            patiently(|| change(found.index, &there))
        });
        match moved {
            Err(e) if e.kind() != io::ErrorKind::NotFound => result = Err(e),
            _ => {}
        }
    }
    setns(caller, CloneFlags::CLONE_NEWNET)?;
    result
}

/// Does something that fails as long as a name is taken.
fn patiently(what: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..TRIES {
        match what() {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => sleep(PAUSE),
            done => return done,
        }
    }
    what()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_words() {
        let all = ["", ":up", ":promiscuous", ":up:promiscuous", ":xdp", ":up:promiscuous:xdp"];
        for words in all {
            let text = format!("a.b-c{words}");
            let kept: Kept = text.parse().unwrap();
            let has = ["up", "promiscuous", "xdp"].map(|word| words.contains(word));
            assert_eq!((kept.to_string(), [kept.up, kept.promiscuous, kept.xdp]), (text, has));
        }
        assert_eq!("eth0:UP".parse::<Kept>(), Err("neither up, promiscuous nor xdp: UP".to_owned()));
    }
}
