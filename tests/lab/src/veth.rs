//! Cables between namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Result;
use crate::netns::{self, Namespace};
use crate::packets::Mac;

/// How often a link that flaps changes.
const FLAP: Duration = Duration::from_millis(50);

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Where it is.
    pub namespace: &'a Namespace,
    /// What it is called there.
    pub interface: &'a str,
    /// Its hardware address.
    pub mac: Mac,
    /// Its MTU in octets.
    pub mtu: u16,
}

/// Lays a cable (a veth pair) between each pair of ends and sets both up, all in one go.
pub fn connect(cables: &[(End, End)]) -> Result<()> {
    lay(cables, || None)
}

/// The same with one number for both ends, which are in different namespaces. The kernel tells of their carriers as it does of a
/// NIC's: at most once a second for all links of the machine, also when they come up. It is quicker with a veth whose ends have
/// different numbers, which it takes for stacked.
pub fn connect_like_nics(cables: &[(End, End)]) -> Result<()> {
    /// Numbers that no other interface of a namespace has.
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    lay(cables, || Some(NEXT.fetch_add(1, Relaxed)))
}

fn lay(cables: &[(End, End)], number: impl Fn() -> Option<u32>) -> Result<()> {
    let mut lines = String::new();
    for (a, b) in cables {
        let number = number().map_or(String::new(), |number| format!(" index {number}"));
        lines.push_str(&format!(
            "link add {}{number} type veth peer {}{number}\n",
            described(a, "dev"),
            described(b, "name")
        ));
    }
    netns::ip(&lines)?;
    for (a, b) in cables {
        for end in [a, b] {
            end.namespace.ip(&format!("link set {} up\n", end.interface))?;
        }
    }
    Ok(())
}

fn described(end: &End, keyword: &str) -> String {
    let End { namespace, interface, mac, mtu } = end;
    format!("{keyword} {interface} netns {} address {mac} mtu {mtu}", namespace.name())
}

/// Makes the kernel finish checksums and segments before a frame leaves by `interface`.
///
/// A veth hands over frames with unfinished checksums and up to 64 KB in one piece, since it never meets a real
/// wire. A router in user space would pass them on as they are, and TCP behind it would discard them. Every end
/// at which a Linux stack sends needs this; ping works without, which makes it easy to forget.
pub fn finish_frames(namespace: &Namespace, interface: &str) -> Result<()> {
    namespace.run("ethtool", &["-K", interface, "tx", "off", "gro", "off"]).map(drop)
}

/// A link in a namespace of its own whose carrier comes and goes until this is dropped. Meanwhile the kernel tells of other
/// links' carriers late.
#[derive(Debug)]
pub struct Flapping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Flapping {
    /// Begins.
    pub fn start() -> Result<Flapping> {
        let namespace = Namespace::unique("flaps")?;
        namespace.ip("link add flap type veth peer name other\nlink set other up\n")?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let flap = move || -> Result<()> {
            while !stopped.load(Relaxed) {
                for state in ["up", "down"] {
                    namespace.ip(&format!("link set flap {state}\n"))?;
                    thread::sleep(FLAP);
                }
            }
            Ok(())
        };
        Ok(Flapping { stop, thread: Some(thread::spawn(flap)) })
    }
}

impl Drop for Flapping {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        // Without it a test would measure something easier.
        assert!(thread::panicking() || matches!(ended, Some(Ok(Ok(())))), "{ended:?}");
    }
}
