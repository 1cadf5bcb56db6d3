//! What is looked up in the namespace of the twins from time to time: packet sockets of programs, and the router's addresses.
//!
//! The kernel tells nobody when a packet socket is opened, so the list is read every [`PAUSE`]. While there is one that listens to
//! IP on a twin, its port shows Linux what such programs (DHCP clients, relays) wait for.

use super::config::set_sockets;
use ::io::say;
use control::link::{link, own_addresses};
use elements::ip::OwnAddresses;
use graph::Router;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

/// How often the list is read.
const PAUSE: Duration = Duration::from_millis(100);
/// So often between two looks at the addresses.
const LOOKS: u32 = 5;
/// The list, of the namespace that the thread is in.
const LIST: &str = "/proc/thread-self/net/packet";
/// Protocols of sockets that listen to IP: all, IPv4, IPv6.
const PROTOCOLS: [u16; 3] = [0x0003, 0x0800, 0x86dd];

/// The thread that looks; dropping it ends it.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts it in the namespace of the twins, which have the names of the `ports`.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(router: &Arc<Router>, ports: &[String], own: Arc<OwnAddresses>) -> io::Result<Watch> {
        let stop = Arc::new(AtomicBool::new(false));
        let (router, ports, stops) = (router.clone(), ports.to_vec(), stop.clone());
        let thread = Builder::new().name("packet-sockets".to_owned()).spawn(move || {
            let mut listening = vec![false; ports.len()];
            let mut addresses = Addresses { own, known: Vec::new() };
            let mut is_told = false;
            for looks in 0_u32.. {
                if looks.is_multiple_of(LOOKS) {
                    addresses.look();
                }
                if stops.load(Ordering::Acquire) {
                    return;
                }
                if let Err(e) = look(&router, &ports, &mut listening)
                    && !std::mem::replace(&mut is_told, true)
                {
                    say!(
                        "warning: programs with packet sockets on the twins do not see DHCP in transit: {e}"
                    );
                }
                thread::park_timeout(PAUSE);
            }
        })?;
        Ok(Watch { stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The router's own addresses.
struct Addresses {
    own: Arc<OwnAddresses>,
    known: Vec<Ipv4Addr>,
}

impl Addresses {
    /// Reads them, and publishes them if they have changed. What cannot be read stays.
    fn look(&mut self) {
        let Ok(mut now) = own_addresses() else { return };
        now.sort_unstable();
        if now != self.known {
            self.own.set(now.iter().copied().map(u32::from));
            self.known = now;
        }
    }
}

/// Reads the list, and tells the router where that has changed.
fn look(router: &Router, ports: &[String], listening: &mut [bool]) -> Result<(), String> {
    let list = fs::read_to_string(LIST).map_err(|e| format!("{LIST}: {e}"))?;
    let interfaces = listened_to(&list);
    for (port, (name, was)) in ports.iter().zip(listening).enumerate() {
        // A twin that is not there has no sockets.
        let on_it = || link(name).is_ok_and(|twin| interfaces.contains(&twin.index));
        let is = interfaces.contains(&0) || (!interfaces.is_empty() && on_it());
        if is != *was {
            set_sockets(router, port, is)?;
            *was = is;
        }
    }
    Ok(())
}

/// The numbers of interfaces that sockets of the list listen to IP on; 0 stands for all.
fn listened_to(list: &str) -> HashSet<u32> {
    let interface = |line: &str| {
        let mut words = line.split_whitespace().skip(3);
        let protocol = u16::from_str_radix(words.next()?, 16).ok()?;
        let interface = words.next()?.parse().ok()?;
        PROTOCOLS.contains(&protocol).then_some(interface)
    };
    list.lines().skip(1).filter_map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_that_listen_to_ip_count() {
        let list = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    0000000000000000 3      3    0003   7     1 0      0      1\n\
                    0000000000000000 3      2    0800   8     1 0      0      2\n\
                    0000000000000000 3      2    86dd   9     1 0      0      3\n\
                    0000000000000000 3      3    88cc   10    1 0      0      4\n\
                    0000000000000000 3      3    0000   11    0 0      0      5\n\
                    0000000000000000 3\n";
        let mut found: Vec<u32> = listened_to(list).into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [7, 8, 9]);
        assert!(listened_to(&list.replace(" 8 ", " 0 ")).contains(&0));
        assert!(listened_to("").is_empty());
    }
}
