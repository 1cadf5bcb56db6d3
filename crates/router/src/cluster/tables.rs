//! One FIB on all nodes: the control node hands its tables out, the others follow. What each needs for that.

use super::config::{Cluster, Etcd};
use super::election::etcd::Access;
use super::election::{Candidacy, Standing};
use crate::config::reason;
use crate::run::Service;
use control::Tables;
use control::replicate::{Authority, Client, ClientSettings, Identity};
use io::say;
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// So long a control node that starts waits for the others to tell which numbers next hops had.
pub(super) const ADOPT: Duration = Duration::from_secs(3);
/// How often a node looks whether it still follows.
const LOOK: Duration = Duration::from_millis(100);

/// How a node comes to its tables.
#[derive(Clone, Serialize, Deserialize)]
pub struct Replication {
    /// What it is called.
    pub name: String,
    /// The control node, if it is always the same.
    pub control: String,
    /// Where that listens; if it is elected, where this node does when it is the one.
    pub address: SocketAddr,
    /// The other nodes.
    pub others: Vec<String>,
    /// Who it is.
    pub papers: Identity,
    /// The number of its lines.
    pub lines: usize,
    /// Lines of the whole cluster have numbers below this, also those that come later; VLANs have numbers from there on.
    pub all_lines: usize,
    /// If the control node is elected.
    pub candidacy: Option<Candidacy>,
}

/// Where the control node of a cluster listens, and the papers of some of its nodes.
pub struct Offices {
    /// That of the control node that is always the same.
    address: Option<SocketAddr>,
    /// Those of nodes that can be elected.
    addresses: Vec<(usize, SocketAddr)>,
    /// How to reach etcd, if the control node is elected.
    access: Option<Access>,
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
            _ if cluster.etcd.is_some() => None,
            Some(address) => Some(address),
            None if alone => Some(free_port()?),
            None => return Err("the file must say where the control node listens (`listen`)".to_owned()),
        };
        let authority = alone.then(Authority::new).transpose().map_err(|e| e.to_string())?;
        let access = cluster.etcd.as_ref().map(access).transpose()?;
        let mut offices = Offices { address, addresses: Vec::new(), access, authority, papers: Vec::new() };
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
        self.addresses.retain(|(number, _)| *number != node);
        if self.access.is_some() {
            let name = cluster.name_of(node);
            let address = match cluster.nodes.get(node).and_then(|node| node.listen) {
                Some(address) => address,
                None if self.authority.is_some() || !cluster.may_control(node) => free_port()?,
                None => {
                    return Err(format!(
                        "node {name} alone: the file must say where it hands out its tables (`listen`)"
                    ));
                }
            };
            self.addresses.push((node, address));
        }
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
        let own = self.addresses.iter().find(|(number, _)| *number == node).map(|(_, address)| *address);
        let address = self.address.or(own).ok_or("a node without an address")?;
        Ok(Replication {
            name: name(node),
            control: name(cluster.control),
            address,
            others: others(cluster, node),
            papers,
            lines: cluster.ports(),
            all_lines: cluster.all_lines(),
            candidacy: self.candidacy(cluster, node, address),
        })
    }
}

impl Offices {
    fn candidacy(&self, cluster: &Cluster, node: usize, address: SocketAddr) -> Option<Candidacy> {
        let (access, etcd) = self.access.clone().zip(cluster.etcd.as_ref())?;
        // There are no more than 256.
        let number = |node: usize| u16::try_from(node).unwrap_or(u16::MAX);
        Some(Candidacy {
            access,
            prefix: format!("{}/{}/", etcd.prefix, cluster.name),
            ttl: etcd.ttl,
            hold: etcd.hold,
            me: number(node),
            name: cluster.name_of(node).to_owned(),
            candidate: cluster.may_control(node),
            preferred: number(cluster.control),
            address,
        })
    }
}

/// The names of all nodes but one: those that follow if it is the control node.
pub fn others(cluster: &Cluster, but: usize) -> Vec<String> {
    let others = cluster.there().filter(|(number, _)| *number != but);
    others.map(|(_, node)| node.name.clone()).collect()
}

/// An address of this machine that nobody listens on.
fn free_port() -> Result<SocketAddr, String> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    address.map_err(|e| format!("127.0.0.1: {}", reason(&e)))
}

/// What is in the files that say how to reach etcd.
fn access(etcd: &Etcd) -> Result<Access, String> {
    let text = |file: &Option<std::path::PathBuf>| {
        let read = |file: &std::path::PathBuf| {
            fs::read_to_string(file).map_err(|e| format!("{}: {}", file.display(), reason(&e)))
        };
        file.as_ref().map(read).transpose()
    };
    // The end of the line is not the password's.
    let password = text(&etcd.password)?.map(|text| text.trim_end_matches(['\n', '\r']).to_owned());
    let access = Access {
        endpoints: etcd.endpoints.clone(),
        user: etcd.user.clone().zip(password),
        authority: text(&etcd.authority)?,
        certificate: text(&etcd.certificate)?,
        key: text(&etcd.key)?,
    };
    super::election::check(&access)?;
    Ok(access)
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

/// Follows, and says when it does and when not.
pub struct Following {
    client: Arc<Client>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Starts to follow a control node of this name, address and term, in the current network namespace.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn start(
        replication: &Replication,
        (control, address, term): (&str, SocketAddr, u64),
        tables: &Tables,
        service: &Arc<Service>,
        standing: &Arc<Standing>,
    ) -> Result<Following, String> {
        let settings = ClientSettings {
            control: vec![address],
            control_name: control.to_owned(),
            name: replication.name.clone(),
            identity: replication.papers.clone(),
            term,
        };
        let client = Client::start(&settings, tables.clone());
        let client = Arc::new(client.map_err(|e| format!("cannot follow the control node: {e}"))?);
        let stop = Arc::new(AtomicBool::new(false));
        let (its, also, service, standing) =
            (client.clone(), stop.clone(), service.clone(), standing.clone());
        let thread = thread::Builder::new().name("following".to_owned()).spawn(move || {
            let mut synced = None;
            while !also.load(Ordering::Relaxed) {
                let status = its.status();
                standing.hears.store(status.connected, Ordering::Release);
                if status.synced {
                    standing.whole.store(true, Ordering::Release);
                }
                if synced != Some(status.synced) {
                    synced = Some(status.synced);
                    let why = status.error.map_or(String::new(), |error| format!(": {error}"));
                    let news = if status.synced {
                        "tables are those of the control node".to_owned()
                    } else {
                        format!("tables stay as they are{why}")
                    };
                    say!("routebricks: {news}");
                    service.status(&news);
                }
                thread::sleep(LOOK);
            }
        });
        Ok(Following { client, stop, thread: Some(thread.map_err(|e| e.to_string())?) })
    }

    /// The control node that is followed was elected for this term.
    pub fn set_term(&self, term: u64) {
        self.client.set_term(term);
    }

    /// It is about to be dropped, because another node was elected for this term.
    pub fn leave_for(&self, term: u64) {
        self.client.leave_for(term);
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
