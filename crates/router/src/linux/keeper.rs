//! A process of its own that holds the private namespace, and gives the ports back if the router is killed.
//!
//! The kernel destroys a namespace that nobody holds, and with it the virtual interfaces (veth, macvlan) that are in it.

use super::Port;
use ::io::say;
use control::link::{add_address, change, link};
use control::netlink::Address;
use control::netlink::request::LinkChange;
use control::offload::{Offload, set_offloads};
use nix::sched::{CloneFlags, setns};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
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

/// An interface to be given back, in words `NAME`, `:up`, `:promiscuous` and `:xdp` behind it where they were so, names of
/// [`Offload`]s that were on, and `/ADDRESS/LENGTH` for each of its addresses.
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
    /// What put received segments together for it.
    pub offloads: Vec<Offload>,
    /// Its addresses, with the bits of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
}

const UP: &str = "up";
const PROMISCUOUS: &str = "promiscuous";
const XDP: &str = "xdp";

impl From<&Port> for Kept {
    fn from(port: &Port) -> Kept {
        Kept {
            name: port.name.clone(),
            up: port.up,
            promiscuous: port.promiscuous,
            xdp: port.xdp,
            offloads: port.offloads.clone(),
            addresses: port.addresses.clone(),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let words = [(UP, self.up), (PROMISCUOUS, self.promiscuous), (XDP, self.xdp)];
        words.iter().filter(|(_, set)| *set).try_for_each(|(word, _)| write!(f, ":{word}"))?;
        self.offloads.iter().try_for_each(|offload| write!(f, ":{}", offload.name()))?;
        self.addresses.iter().try_for_each(|(address, length)| write!(f, "/{address}/{length}"))
    }
}

impl FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Kept, String> {
        // The kernel allows neither a slash nor a colon in a name.
        let (flags, addresses) = text.split_once('/').unwrap_or((text, ""));
        let addresses: Vec<&str> = addresses.split('/').filter(|word| !word.is_empty()).collect();
        let address = |pair: &[&str]| match pair {
            [address, length] => Some((address.parse().ok()?, length.parse().ok()?)),
            _ => None,
        };
        let addresses: Option<Vec<_>> = addresses.chunks(2).map(address).collect();
        let addresses = addresses.ok_or_else(|| format!("no addresses: {text}"))?;
        let mut words = flags.split(':');
        let name = words.next().unwrap_or_default().to_owned();
        let mut kept =
            Kept { name, up: false, promiscuous: false, xdp: false, offloads: Vec::new(), addresses };
        for word in words {
            match word {
                UP => kept.up = true,
                PROMISCUOUS => kept.promiscuous = true,
                XDP => kept.xdp = true,
                _ => match Offload::ALL.into_iter().find(|offload| offload.name() == word) {
                    Some(offload) => kept.offloads.push(offload),
                    None => return Err(format!("nothing that an interface may be: {word}")),
                },
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
    let mut back = Vec::new();
    for port in ports {
        let moved = link(&port.name).and_then(|found| {
            if let Err(e) = set_offloads(found.index, &port.offloads, true) {
                say!("warning: {}: offloads cannot be switched on again: {e}", port.name);
            }
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
            Ok(()) => back.push(port),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => result = Err(e),
        }
    }
    setns(caller, CloneFlags::CLONE_NEWNET)?;
    for port in back {
        let index = link(&port.name)?.index;
        for (local, len) in port.addresses.iter().copied() {
            if let Err(e) = add_address(&Address { link: index, local, len }) {
                result = Err(e);
            }
        }
    }
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
        let all =
            ["", ":up", ":promiscuous", ":up:promiscuous", ":xdp", ":up:promiscuous:xdp", ":gro:rx-gro-hw"];
        let addresses = [("10.1.0.1".parse().unwrap(), 24), ("2001:db8::1".parse().unwrap(), 64)];
        for words in all {
            for (text, count) in [("", 0), ("/10.1.0.1/24", 1), ("/10.1.0.1/24/2001:db8::1/64", 2)] {
                let text = format!("a.b-c{words}{text}");
                let kept: Kept = text.parse().unwrap();
                let has = ["up", "promiscuous", "xdp"].map(|word| words.contains(word));
                assert_eq!((kept.to_string(), [kept.up, kept.promiscuous, kept.xdp]), (text, has));
                assert_eq!(kept.addresses, addresses[..count]);
                let gro = [Offload::Gro, Offload::GroHardware];
                assert_eq!(kept.offloads, if words.contains("gro") { &gro[..] } else { &[] });
            }
        }
        for wrong in ["a/10.1.0.1", "a/10.1.0/24", "a/10.1.0.1/24/x"] {
            assert_eq!(wrong.parse::<Kept>(), Err(format!("no addresses: {wrong}")));
        }
        assert_eq!("eth0:UP".parse::<Kept>(), Err("nothing that an interface may be: UP".to_owned()));
    }
}
