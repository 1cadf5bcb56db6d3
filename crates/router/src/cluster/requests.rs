//! How commands talk to the supervisor of a cluster: a line of text each way, over a Unix socket.
//!
//! | request | answer |
//! |---|---|
//! | `nodes` | `{"schema":"routebricks.nodes/1","rows":[…]}` |
//! | `start NODE` | `ok`, or what is wrong |
//! | `file` | the cluster's file |
//! | `reload`, `reload check` | lines about what changes or would, then `ok`, or `error: ` and what is wrong |
//! | `down` | nothing; the connection ends when the cluster has |

use super::election::News;
use crate::api::socket;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a cluster may take to end, and anything else.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nodes may take to come and go.
const PATIENCE_FOR_NODES: Duration = Duration::from_secs(300);
/// How long a client may take to say what it wants.
const REQUEST: Duration = Duration::from_millis(500);
/// Bytes of a request, and of an answer.
const MOST: u64 = 1 << 20;

const PREFIX: &str = "cluster-";
const SUFFIX: &str = ".sock";
/// How the names of the sockets end (`cluster-CLUSTER.NODE.notify`) by which nodes tell how they get on.
pub const NEWS: &str = ".notify";

/// A node, as the supervisor knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its name.
    pub node: String,
    /// Its number.
    #[serde(default)]
    pub number: usize,
    /// The number of its process; absent if it does not run.
    pub pid: Option<u32>,
    /// What it says of itself, or how it ended.
    pub state: String,
    /// It forwards packets.
    pub ready: bool,
    /// It is the control node.
    pub control: bool,
    /// It can be elected control node.
    #[serde(default)]
    pub candidate: bool,
    /// Etcd knows it; absent without etcd.
    #[serde(default)]
    pub present: Option<bool>,
    /// What it knows of the election; absent without etcd.
    #[serde(default)]
    pub election: Option<News>,
    /// Its namespace, as a file; absent if it is on another machine.
    pub namespace: Option<PathBuf>,
    /// The names of its lines.
    pub lines: Vec<String>,
}

/// What a supervisor is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// How the nodes are.
    Nodes,
    /// Start a node that has ended.
    Start(String),
    /// The file that it was started with.
    File,
    /// Take that file again.
    Reload {
        /// Only say what would change.
        check: bool,
    },
    /// End the cluster.
    Down,
}

impl Request {
    fn line(&self) -> String {
        match self {
            Request::Nodes => "nodes\n".to_owned(),
            Request::Start(node) => format!("start {node}\n"),
            Request::File => "file\n".to_owned(),
            Request::Reload { check: false } => "reload\n".to_owned(),
            Request::Reload { check: true } => "reload check\n".to_owned(),
            Request::Down => "down\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Request> {
        match line.trim_end().split_once(' ').unwrap_or((line.trim_end(), "")) {
            ("nodes", "") => Some(Request::Nodes),
            ("down", "") => Some(Request::Down),
            ("file", "") => Some(Request::File),
            ("reload", "") => Some(Request::Reload { check: false }),
            ("reload", "check") => Some(Request::Reload { check: true }),
            ("start", node) if !node.is_empty() => Some(Request::Start(node.to_owned())),
            _ => None,
        }
    }
}

/// Where this user's sockets are; made if it is not there.
///
/// # Errors
/// What to tell the user.
pub fn directory() -> Result<PathBuf, String> {
    use std::os::unix::fs::DirBuilderExt;
    let directory = socket::directory().ok_or("XDG_RUNTIME_DIR is not set")?;
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(&directory);
    made.map_err(|e| format!("cannot make {}: {e}", directory.display()))?;
    Ok(directory)
}

/// The supervisor's end.
#[derive(Debug)]
pub struct Desk {
    listener: UnixListener,
    path: PathBuf,
}

impl Desk {
    /// Opens it, if no cluster of this name runs here.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn open(directory: &Path, cluster: &str) -> Result<Desk, String> {
        let path = directory.join(format!("{PREFIX}{cluster}{SUFFIX}"));
        if UnixStream::connect(&path).is_ok() {
            return Err(format!("cluster {cluster} is running already"));
        }
        remove_left_over(directory);
        let open = || -> io::Result<UnixListener> {
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = open().map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        Ok(Desk { listener, path })
    }

    /// The next request, if there is one, and who waits for an answer. What is none gets no answer.
    pub fn next(&self) -> Option<(Request, UnixStream)> {
        let (stream, _) = self.listener.accept().ok()?;
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(REQUEST)).ok()?;
        stream.set_write_timeout(Some(REQUEST)).ok()?;
        let mut line = String::new();
        BufReader::new(&stream).take(MOST).read_line(&mut line).ok()?;
        Some((Request::parse(&line)?, stream))
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // If somebody else removed it there is nothing left to do.
        let _ = fs::remove_file(&self.path);
    }
}

/// A running cluster, for commands.
#[derive(Clone, Debug)]
pub struct Running {
    /// What it is called.
    pub name: String,
    socket: PathBuf,
}

impl Running {
    /// The cluster of this name, or the only one that runs here.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn find(name: Option<&str>) -> Result<Running, String> {
        let directory = socket::directory().ok_or("XDG_RUNTIME_DIR is not set")?;
        let mut all = running(&directory);
        if let Some(name) = name {
            let found = all.into_iter().find(|cluster| cluster.name == name);
            return found.ok_or_else(|| format!("no cluster {name} is running here"));
        }
        match (all.pop(), all.is_empty()) {
            (None, _) => Err("no cluster is running here".to_owned()),
            (Some(one), true) => Ok(one),
            (Some(last), false) => {
                let mut names: Vec<String> =
                    all.into_iter().chain([last]).map(|cluster| cluster.name).collect();
                names.sort();
                Err(format!("several clusters are running: choose one with --cluster: {}", names.join(", ")))
            }
        }
    }

    /// What the supervisor answers.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn ask(&self, request: &Request) -> Result<String, String> {
        let ask = || -> io::Result<String> {
            let mut stream = UnixStream::connect(&self.socket)?;
            let patience = match request {
                Request::Reload { .. } => PATIENCE_FOR_NODES,
                _ => PATIENCE,
            };
            stream.set_read_timeout(Some(patience))?;
            stream.write_all(request.line().as_bytes())?;
            let mut answer = String::new();
            stream.take(MOST).read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().map_err(|e| format!("cluster {} does not answer: {e}", self.name))
    }

    /// How its nodes are.
    ///
    /// # Errors
    /// If there is no answer.
    pub fn nodes(&self) -> Result<Vec<NodeState>, String> {
        #[derive(Deserialize)]
        struct Table {
            rows: Vec<NodeState>,
        }
        let answer = self.ask(&Request::Nodes)?;
        let table: Table =
            serde_json::from_str(&answer).map_err(|e| format!("the supervisor's answer: {e}"))?;
        Ok(table.rows)
    }
}

/// Removes what clusters left that were killed: their sockets, and those of their nodes.
fn remove_left_over(directory: &Path) {
    for cluster in sockets(directory) {
        if UnixStream::connect(&cluster.socket).is_err() {
            let _ = fs::remove_file(&cluster.socket);
            let of_nodes = format!("{PREFIX}{}.", cluster.name);
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            for file in entries.map(|entry| entry.file_name().to_string_lossy().into_owned()) {
                if file.starts_with(&of_nodes) && file.ends_with(NEWS) {
                    let _ = fs::remove_file(directory.join(file));
                }
            }
        }
    }
}

fn running(directory: &Path) -> Vec<Running> {
    sockets(directory).into_iter().filter(|cluster| UnixStream::connect(&cluster.socket).is_ok()).collect()
}

fn sockets(directory: &Path) -> Vec<Running> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let name = |path: &Path| {
        Some(path.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.to_owned())
    };
    let found = entries.flatten().map(|entry| entry.path());
    found.filter_map(|socket| Some(Running { name: name(&socket)?, socket })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        let reload = [true, false].map(|check| Request::Reload { check });
        let others = [Request::Nodes, Request::Start("b".to_owned()), Request::File, Request::Down];
        for request in others.into_iter().chain(reload) {
            assert_eq!(Request::parse(&request.line()), Some(request));
        }
        for line in ["", "nodes b", "begin", "start", "reload now"] {
            assert_eq!(Request::parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_cluster_runs_once() {
        let directory = tempfile::tempdir().unwrap();
        assert!(running(directory.path()).is_empty());
        let desk = Desk::open(directory.path(), "c").unwrap();
        assert_eq!(Desk::open(directory.path(), "c").err().unwrap(), "cluster c is running already");
        let found = running(directory.path());
        assert_eq!((found.len(), found[0].name.as_str()), (1, "c"));
        drop(desk);
        assert!(running(directory.path()).is_empty());
        // What a killed one left does not matter.
        drop(UnixListener::bind(directory.path().join("cluster-c.sock")).unwrap());
        assert!(running(directory.path()).is_empty());
        fs::write(directory.path().join("cluster-c.a.notify"), "").unwrap();
        Desk::open(directory.path(), "d").unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
