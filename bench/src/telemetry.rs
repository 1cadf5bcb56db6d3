//! DPDK's telemetry socket, which every DPDK program has: version, packets, pool.

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr};
use nix::sys::socket::{connect, recv, send, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::Value;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Longest answer.
const MOST: usize = 64 * 1024;

/// A connection to one program.
#[derive(Debug)]
pub struct Telemetry {
    socket: OwnedFd,
    /// The program's DPDK, as it calls itself.
    pub version: String,
}

/// Packets of ports since they were started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
}

/// Where DPDK programs of this user put their sockets.
pub fn runtime_folder() -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/var/run/dpdk");
    }
    std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from).join("dpdk")
}

impl Telemetry {
    /// Connects to the program with this file prefix. `None` if it does not listen (yet).
    pub fn connect(prefix: &str) -> Option<Telemetry> {
        let path = runtime_folder().join(prefix).join("dpdk_telemetry.v2");
        Telemetry::open(&path).ok()
    }

    fn open(path: &Path) -> Result<Telemetry, String> {
        let problem = |e: nix::Error| format!("{}: {e}", path.display());
        let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None);
        let socket = socket.map_err(problem)?;
        let patience = TimeVal::seconds(5);
        setsockopt(&socket, ReceiveTimeout, &patience).map_err(problem)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path).map_err(problem)?).map_err(problem)?;
        let mut telemetry = Telemetry { socket, version: String::new() };
        let greeting = telemetry.receive()?;
        telemetry.version = greeting["version"].as_str().unwrap_or("DPDK").to_owned();
        Ok(telemetry)
    }

    fn receive(&self) -> Result<Value, String> {
        let mut buffer = vec![0; MOST];
        let n = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty());
        let n = n.map_err(|e| format!("telemetry: {e}"))?;
        let bytes = buffer.get(..n).unwrap_or_default();
        serde_json::from_slice(bytes).map_err(|e| format!("telemetry: {e}"))
    }

    fn ask(&self, command: &str) -> Result<Value, String> {
        send(self.socket.as_raw_fd(), command.as_bytes(), MsgFlags::empty())
            .map_err(|e| format!("telemetry: {e}"))?;
        self.receive()
    }

    /// What all ports have received and sent.
    pub fn packets(&self) -> Result<Packets, String> {
        let list = self.ask("/ethdev/list")?;
        let mut all = Packets::default();
        for port in list["/ethdev/list"].as_array().into_iter().flatten().filter_map(Value::as_u64) {
            let answer = self.ask(&format!("/ethdev/stats,{port}"))?;
            let port = packets(&answer).ok_or_else(|| format!("telemetry: no packet counts in {answer}"))?;
            all.received += port.received;
            all.sent += port.sent;
        }
        Ok(all)
    }

    /// Buffers of the largest pool.
    pub fn pool_size(&self) -> Result<u64, String> {
        let list = self.ask("/mempool/list")?;
        let names = list["/mempool/list"].as_array().cloned().unwrap_or_default();
        let mut largest = None;
        for name in names.iter().filter_map(Value::as_str) {
            let info = self.ask(&format!("/mempool/info,{name}"))?;
            largest = largest.max(info["/mempool/info"]["size"].as_u64());
        }
        largest.ok_or_else(|| format!("telemetry: no pool in {list}"))
    }
}

fn packets(answer: &Value) -> Option<Packets> {
    let stats = &answer["/ethdev/stats"];
    Some(Packets { received: stats["ipackets"].as_u64()?, sent: stats["opackets"].as_u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_and_their_lack_is_seen() {
        let answer = serde_json::json!({"/ethdev/stats": {"ipackets": 7, "opackets": 5, "imissed": 0}});
        assert_eq!(packets(&answer), Some(Packets { received: 7, sent: 5 }));
        assert_eq!(packets(&serde_json::json!({"/ethdev/stats": null})), None);
    }
}
