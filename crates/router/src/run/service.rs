//! What a service manager is told (sd_notify(3)): that the router is ready, that it lives, that it ends.

use ::io::say;
use epoch::Count;
use graph::engine::stats::WorkerStats;
use std::env;
use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A service manager that does not read must not stop the router.
const PATIENCE: Duration = Duration::from_secs(1);
/// Workers are looked at no more often than this: idle ones sleep for up to 100 ms.
const SHORTEST: Duration = Duration::from_millis(200);

/// The service manager that started this process, if one did.
#[derive(Debug, Default)]
pub struct Service {
    socket: Option<UnixDatagram>,
    /// It wants to hear at least this often.
    watchdog: Option<Duration>,
}

impl Service {
    /// As the environment says. The socket belongs to the current network namespace, and works from others too.
    pub fn from_environment() -> Service {
        let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(address) = env::var_os("NOTIFY_SOCKET") else { return Service::default() };
        let socket = connect(&address).inspect_err(|e| say!("warning: NOTIFY_SOCKET: {e}")).ok();
        let meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| meant && *usec > 0).map(Duration::from_micros);
        Service { socket, watchdog }
    }

    fn tell(&self, state: &str) {
        if let Some(socket) = &self.socket {
            // If it is gone there is nobody to tell.
            let _ = socket.send(state.as_bytes());
        }
    }

    /// What the router does, in words.
    pub fn status(&self, words: &str) {
        self.tell(&format!("STATUS={words}"));
    }

    /// What somebody waits for who knows this variable.
    pub fn answer(&self, variable: &str, text: &str) {
        self.tell(&format!("{variable}={}", text.replace('\n', " ")));
    }

    /// Packets flow now.
    pub fn ready(&self, words: &str) {
        self.tell(&format!("READY=1\nSTATUS={words}"));
    }

    /// The router ends.
    pub fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
    }

    /// Tells from now on that the router lives, as long as all workers get on.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn watch(self: &Arc<Service>, workers: &[Arc<WorkerStats>]) -> io::Result<Option<Watch>> {
        let Some(longest) = self.watchdog.filter(|_| self.socket.is_some()) else { return Ok(None) };
        let (end, ended) = channel::<()>();
        let (service, workers) = (self.clone(), workers.to_vec());
        let pause = (longest / 3).max(SHORTEST);
        let thread = Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut before = rounds(&workers);
            service.tell("WATCHDOG=1");
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let now = rounds(&workers);
                match stuck(&before, &now) {
                    None => service.tell("WATCHDOG=1"),
                    Some(worker) => service.status(&format!("worker {worker} does not get on")),
                }
                before = now;
            }
        })?;
        Ok(Some(Watch { end: Some(end), thread: Some(thread) }))
    }
}

/// A path, or behind `@` a name in the abstract name space.
fn connect(address: &OsString) -> io::Result<UnixDatagram> {
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(address)?,
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a path nor an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect_addr(&address)?;
    Ok(socket)
}

fn rounds(workers: &[Arc<WorkerStats>]) -> Vec<u64> {
    workers.iter().map(|worker| Count::get(&worker.rounds)).collect()
}

/// The first worker that has made no round since. Those that sleep make one every 100 ms.
fn stuck(before: &[u64], now: &[u64]) -> Option<usize> {
    before.iter().zip(now).position(|(before, now)| before == now)
}

/// Tells that the router lives, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It has nothing that could panic, and if it did the router ends anyway.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let n = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..n]).into_owned()
    }

    #[test]
    fn paths_and_abstract_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("routebricks-test-{}", process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        let by_name = UnixDatagram::bind_addr(&abstract_address).unwrap();
        for (address, socket) in [(path.into_os_string(), by_path), (format!("@{name}").into(), by_name)] {
            let service = Service { socket: Some(connect(&address).unwrap()), watchdog: None };
            service.ready("2 ports");
            service.stopping();
            assert_eq!(heard(&socket), "READY=1\nSTATUS=2 ports");
            assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=stopping");
        }
        assert!(connect(&"relative".into()).is_err());
        assert!(connect(&"/nowhere/at/all".into()).is_err());
    }

    #[test]
    fn workers_that_stand_still_are_found() {
        assert_eq!(stuck(&[1, 2, 3], &[2, 3, 4]), None);
        assert_eq!(stuck(&[1, 2, 3], &[2, 2, 3]), Some(1));
        assert_eq!(stuck(&[], &[]), None);
    }

    #[test]
    fn a_stuck_worker_silences_the_watchdog() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let connected = connect(&path.into_os_string()).unwrap();
        let service =
            Arc::new(Service { socket: Some(connected), watchdog: Some(Duration::from_millis(300)) });
        let workers = [Arc::new(WorkerStats::new(&[]))];
        let watch = service.watch(&workers).unwrap();
        assert_eq!(heard(&socket), "WATCHDOG=1");
        assert_eq!(heard(&socket), "STATUS=worker 0 does not get on");
        workers[0].rounds.add(1);
        // The look may have been between.
        let next = [heard(&socket), heard(&socket)];
        assert!(next.contains(&"WATCHDOG=1".to_owned()), "{next:?}");
        drop(watch);
    }
}
