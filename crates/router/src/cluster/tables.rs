//! One FIB on all nodes: the control node hands its tables out, the others follow.

use super::config::Cluster;
use crate::config::reason;
use crate::run::Service;
use control::Tables;
use control::replicate::{Authority, Client, ClientSettings, Identity, Log, Server, ServerSettings};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So long a control node that starts waits for the others to tell which numbers next hops had.
const ADOPT: Duration = Duration::from_secs(3);
/// So long another node that starts waits for its first tables. Without them it starts all the same.
const FIRST: Duration = Duration::from_secs(10);
/// How often a node looks whether it still follows.
const LOOK: Duration = Duration::from_millis(250);

/// How a node comes to its tables.
#[derive(Clone, Serialize, Deserialize)]
pub struct Replication {
    /// What it is called.
    pub name: String,
    /// The control node.
    pub control: String,
    /// Where that listens.
    pub address: SocketAddr,
    /// The other nodes.
    pub others: Vec<String>,
    /// Who it is.
    pub papers: Identity,
}

/// Where the control node of a cluster listens, and the papers of some of its nodes.
pub struct Offices {
    address: SocketAddr,
    /// Makes papers, if all nodes are here.
    authority: Option<Authority>,
    papers: Vec<(usize, Identity)>,
}

impl Offices {
    /// For nodes `here`. If these are all nodes, papers are made; else they are in the files that `cluster.toml` names.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn open(cluster: &Cluster, here: &[usize]) -> Result<Offices, String> {
        let alone = here.len() == cluster.there().count();
        let address = match cluster.listen {
            Some(address) => address,
            None if alone => free_port().map_err(|e| format!("127.0.0.1: {}", reason(&e)))?,
            None => return Err("the file must say where the control node listens (`listen`)".to_owned()),
        };
        let authority = alone.then(Authority::new).transpose().map_err(|e| e.to_string())?;
        let mut offices = Offices { address, authority, papers: Vec::new() };
        here.iter().try_for_each(|node| offices.admit(cluster, *node))?;
        Ok(offices)
    }

    /// Another node has papers from now on.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn admit(&mut self, cluster: &Cluster, node: usize) -> Result<(), String> {
        let papers = match &self.authority {
            Some(authority) => authority.issue(cluster.name_of(node)).map_err(|e| e.to_string())?,
            None => read(cluster, node)?,
        };
        self.papers.retain(|(number, _)| *number != node);
        self.papers.push((node, papers));
        Ok(())
    }

    /// What a node is told.
    ///
    /// # Errors
    /// If it is not one of the nodes that these were opened for.
    pub fn replication(&self, cluster: &Cluster, node: usize) -> Result<Replication, String> {
        let papers = self.papers.iter().find(|(number, _)| *number == node);
        let papers = papers.map(|(_, papers)| papers.clone()).ok_or("a node without papers")?;
        let name = |node: usize| cluster.name_of(node).to_owned();
        Ok(Replication {
            name: name(node),
            control: name(cluster.control),
            address: self.address,
            others: others(cluster),
            papers,
        })
    }
}

/// The names of all nodes that follow the control node.
pub fn others(cluster: &Cluster) -> Vec<String> {
    let others = cluster.there().filter(|(number, _)| *number != cluster.control);
    others.map(|(_, node)| node.name.clone()).collect()
}

/// An address of this machine that nobody listens on.
fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The papers that a node has in files.
fn read(cluster: &Cluster, node: usize) -> Result<Identity, String> {
    let node = &cluster.nodes[node];
    let text = |file: &Option<std::path::PathBuf>, what: &str| {
        let missing = || format!("node {} alone: the file must name its {what}", node.name);
        let file: &Path = file.as_deref().ok_or_else(missing)?;
        fs::read_to_string(file).map_err(|e| format!("{}: {}", file.display(), reason(&e)))
    };
    Ok(Identity {
        authority: text(&cluster.authority, "`authority`")?,
        certificate: text(&node.certificate, "`certificate`")?,
        key: text(&node.key, "`key`")?,
    })
}

/// What keeps a node's tables as those of all; dropping it ends that.
pub struct Replica {
    /// The control node's: what changes in its tables is recorded here.
    pub log: Option<Arc<Log>>,
    server: Option<Server>,
    /// Another node's.
    _following: Option<Following>,
}

impl Replica {
    /// Nodes that may follow, if this is the control node's.
    pub fn set_others(&self, others: &[String]) {
        self.server.iter().for_each(|server| server.set_nodes(others));
    }
}

/// Starts it, in the current network namespace. At the control node before anybody publishes into the tables.
///
/// # Errors
/// What to tell the user.
pub fn start(replication: &Replication, tables: &Tables, service: &Arc<Service>) -> Result<Replica, String> {
    let Replication { name, control, address, others, papers } = replication.clone();
    if name == control {
        let settings = ServerSettings { listen: address, identity: papers, nodes: others, adopt: ADOPT };
        service.status("waiting for the other nodes");
        let log = Log::new(tables, Log::ROOM);
        let server = Server::start(&settings, log.clone());
        let server = server.map_err(|e| format!("cannot hand out tables at {address}: {e}"))?;
        return Ok(Replica { log: Some(log), server: Some(server), _following: None });
    }
    let settings = ClientSettings { control: vec![address], control_name: control, name, identity: papers };
    let client = Client::start(&settings, tables.clone())
        .map_err(|e| format!("cannot follow the control node: {e}"))?;
    service.status("waiting for tables");
    client.wait(FIRST);
    Ok(Replica { log: None, server: None, _following: Some(Following::new(client, service.clone())?) })
}

/// Follows, and says when it does and when not.
pub struct Following {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    fn new(client: Client, service: Arc<Service>) -> Result<Following, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let also = stop.clone();
        let thread = thread::Builder::new().name("following".to_owned()).spawn(move || {
            let mut synced = None;
            while !also.load(Ordering::Relaxed) {
                let status = client.status();
                if synced != Some(status.synced) {
                    synced = Some(status.synced);
                    let why = status.error.map_or(String::new(), |error| format!(": {error}"));
                    let news = if status.synced {
                        "tables are those of the control node".to_owned()
                    } else {
                        format!("tables stay as they are{why}")
                    };
                    eprintln!("routebricks: {news}");
                    service.status(&news);
                }
                thread::sleep(LOOK);
            }
        });
        Ok(Following { stop, thread: Some(thread.map_err(|e| e.to_string())?) })
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
