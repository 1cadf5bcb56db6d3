//! Who is the control node, by etcd: asks it, keeps the lease, watches, and says what this node is.
//!
//! ```text
//!   etcd:  PREFIX/CLUSTER/members/NODE    each node, under its lease     ┐ a word: number, name, where it listens, …
//!          PREFIX/CLUSTER/control         the control node, likewise     ┘
//! ```
//!
//! What to do when is [`cluster::election`]; this is the thread that does it. It lives in the caller's namespace, and does
//! nothing else, so that a lease is renewed whatever the node is busy with. What this node is then to be does [`Office`](super::office).

pub mod etcd;

use crate::run::Service;
use cluster::election::{Config, Election, Holder, Present, Role, Step, View};
use etcd::{Access, Entry, Etcd, Failure};
use io::say;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// The variable by which a node tells its supervisor what it knows, as in sd_notify(3).
pub const NEWS: &str = "X_ELECTION";
/// How often the thread looks at what others have noted.
const LOOK: Duration = Duration::from_millis(100);
/// How long a member of etcd may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// After a watch has ended it is begun anew so much later.
const AGAIN: Duration = Duration::from_millis(300);

/// How a node takes part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Candidacy {
    /// How to reach etcd.
    pub access: Access,
    /// What the keys of this cluster begin with, a slash at the end.
    pub prefix: String,
    /// How long a lease lasts.
    pub ttl: Duration,
    /// So long a new control node keeps what it does not know itself.
    pub hold: Duration,
    /// This node.
    pub me: u16,
    /// What it is called.
    pub name: String,
    /// It can be the control node.
    pub candidate: bool,
    /// The node that is preferred.
    pub preferred: u16,
    /// Where this node hands out its tables, if it is the control node.
    pub address: SocketAddr,
}

/// What a node says of itself in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Word {
    node: u16,
    name: String,
    address: SocketAddr,
    #[serde(default)]
    candidate: bool,
    #[serde(default)]
    whole: bool,
}

/// What a node is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not the control node; which one is, is not known.
    Nothing,
    /// The control node of a term.
    Control(u64),
    /// One that follows another.
    Follow {
        /// The number of that.
        node: u16,
        /// What it is called.
        name: String,
        /// Where it listens.
        address: SocketAddr,
        /// Its term.
        term: u64,
    },
}

/// What the rest of the node notes for the election.
#[derive(Debug, Default)]
pub struct Standing {
    /// The tables have been whole.
    pub whole: AtomicBool,
    /// The control node is connected.
    pub hears: AtomicBool,
    /// There are links to other nodes, and none is up.
    pub cut_off: AtomicBool,
    /// The latest term of which a node has said that it follows its control node.
    pub superseded: AtomicU64,
}

/// What a node knows, for its supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct News {
    /// The control node.
    pub control: Option<String>,
    /// Its term.
    pub term: Option<u64>,
    /// The nodes that etcd knows.
    pub present: Vec<String>,
    /// Why etcd does not answer; absent if it does.
    pub silent: Option<String>,
}

/// Takes part until it is dropped; then the lease is given back, and another one need not wait for its end.
#[derive(Debug)]
pub struct Elections {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    wake: Notify,
    stop: AtomicBool,
    changed: AtomicBool,
}

impl Elections {
    /// Starts in the current network namespace. Decisions go to `decisions`.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn start(
        candidacy: Candidacy,
        standing: Arc<Standing>,
        service: Arc<Service>,
        decisions: Sender<Decision>,
    ) -> Result<Elections, String> {
        let etcd = Etcd::new(&candidacy.access, PATIENCE)?;
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        let shared = Arc::new(Shared::default());
        let config = Config {
            me: candidacy.me,
            candidate: candidacy.candidate,
            preferred: candidacy.preferred,
            ttl: nanos(candidacy.ttl),
        };
        let driver = Driver {
            machine: Election::new(config),
            candidacy,
            etcd,
            lease: 0,
            holder: None,
            names: Vec::new(),
            standing,
            service,
            decisions,
            said: None,
            news: News::default(),
            silent: None,
            shared: shared.clone(),
            start: Instant::now(),
        };
        let thread = Builder::new().name("election".to_owned());
        let thread = thread.spawn(move || runtime.block_on(driver.run())).map_err(|e| e.to_string())?;
        Ok(Elections { shared, thread: Some(thread) })
    }
}

impl Drop for Elections {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks whether etcd can be asked this way, without asking it.
///
/// # Errors
/// What to tell the user.
pub fn check(access: &Access) -> Result<(), String> {
    Etcd::new(access, PATIENCE).map(drop)
}

struct Driver {
    candidacy: Candidacy,
    machine: Election,
    etcd: Etcd,
    lease: i64,
    /// Who holds the key, as it says.
    holder: Option<Word>,
    /// Who is there.
    names: Vec<String>,
    standing: Arc<Standing>,
    service: Arc<Service>,
    decisions: Sender<Decision>,
    /// The last decision.
    said: Option<Decision>,
    news: News,
    /// Why etcd does not answer.
    silent: Option<String>,
    shared: Arc<Shared>,
    start: Instant,
}

impl Driver {
    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    async fn run(mut self) {
        let watch =
            tokio::spawn(watch(self.etcd.clone(), self.candidacy.prefix.clone(), self.shared.clone()));
        while !self.shared.stop.load(Ordering::Acquire) {
            self.listen();
            let now = self.now();
            match self.machine.step(now) {
                Step::Wait(until) => {
                    let pause = Duration::from_nanos(until.saturating_sub(now)).min(LOOK);
                    // Whether it was woken or not: the loop looks.
                    let _ = timeout(pause, self.shared.wake.notified()).await;
                }
                step => match self.ask(step, now).await {
                    Ok(()) => self.answers(None),
                    Err(Failure::NoLease) => {
                        self.answers(None);
                        self.machine.lease_is_gone();
                    }
                    Err(failure) => {
                        self.answers(Some(failure.to_string()));
                        self.machine.failed(self.now());
                    }
                },
            }
            self.tell();
        }
        watch.abort();
        if self.lease != 0 {
            // It ends by itself if that does not go.
            let _ = self.etcd.revoke(self.lease).await;
        }
    }

    /// Hears what others have noted.
    fn listen(&mut self) {
        let now = self.now();
        let (machine, standing) = (&mut self.machine, &self.standing);
        machine.set_reaches(now, !standing.cut_off.load(Ordering::Acquire));
        machine.set_whole(standing.whole.load(Ordering::Acquire));
        machine.set_hears(standing.hears.load(Ordering::Acquire));
        machine.superseded(standing.superseded.load(Ordering::Acquire));
        if self.shared.changed.swap(false, Ordering::AcqRel) {
            machine.changed();
        }
    }

    async fn ask(&mut self, step: Step, now: u64) -> Result<(), Failure> {
        let prefix = &self.candidacy.prefix;
        match step {
            Step::Grant => {
                let (lease, ttl) = self.etcd.grant(self.candidacy.ttl.as_secs()).await?;
                self.lease = lease;
                self.machine.granted(now, nanos(ttl));
            }
            Step::Renew => {
                let ttl = self.etcd.renew(self.lease).await?;
                self.machine.renewed(now, nanos(ttl));
            }
            Step::Announce => {
                let key = format!("{prefix}members/{}", self.candidacy.name);
                self.etcd.put(&key, &self.word(), self.lease).await?;
                self.machine.announced();
            }
            Step::Campaign => {
                let key = format!("{prefix}control");
                self.etcd.make(&key, &self.word(), self.lease).await?;
                self.machine.campaigned(now);
            }
            Step::Resign => {
                say!(
                    "routebricks: no link to another node is up; another one is left to be the control node"
                );
                let lease = std::mem::take(&mut self.lease);
                self.machine.lease_is_gone();
                self.etcd.revoke(lease).await?;
            }
            Step::Look => {
                let found = self.etcd.list(prefix).await?;
                let view = self.read(&found);
                self.machine.saw(self.now(), view);
            }
            Step::Wait(_) => {}
        }
        Ok(())
    }

    fn word(&self) -> String {
        let Candidacy { me, name, address, .. } = &self.candidacy;
        let (candidate, whole) = (self.machine.is_candidate(), self.standing.whole.load(Ordering::Acquire));
        let word = Word { node: *me, name: name.clone(), address: *address, candidate, whole };
        serde_json::to_string(&word).unwrap_or_default()
    }

    /// What the keys of the cluster say. What is none of ours is left alone.
    fn read(&mut self, found: &[Entry]) -> View {
        let mut view = View::default();
        (self.holder, self.names) = (None, Vec::new());
        for entry in found {
            let Some(name) = entry.key.strip_prefix(&self.candidacy.prefix) else { continue };
            let Ok(word) = serde_json::from_slice::<Word>(&entry.value) else { continue };
            if name == "control" {
                view.holder =
                    Some(Holder { node: word.node, term: entry.made, ours: entry.lease == self.lease });
                self.holder = Some(word);
            } else if name.strip_prefix("members/") == Some(&word.name) {
                view.present.push(Present { node: word.node, candidate: word.candidate, whole: word.whole });
                self.names.push(word.name);
            }
        }
        view
    }

    /// Etcd answers, or does not.
    fn answers(&mut self, silent: Option<String>) {
        match (&self.silent, &silent) {
            (None, Some(why)) => say!("routebricks: etcd: {why}; everything stays as it is"),
            (Some(_), None) => say!("routebricks: etcd answers again"),
            _ => {}
        }
        self.silent = silent;
    }

    /// Tells what this node is to be, and its supervisor what is known, if that has changed.
    fn tell(&mut self) {
        let role = self.machine.role();
        let decision = match (role, &self.holder) {
            (Role::Control { term }, _) => Decision::Control(term),
            (Role::Follower { node, term }, Some(word)) if word.node == node => {
                Decision::Follow { node, name: word.name.clone(), address: word.address, term }
            }
            // Who was followed last is gone, and nobody has taken its place yet.
            (Role::Follower { .. }, _) => self.said.clone().unwrap_or(Decision::Nothing),
            (Role::Waiting, _) => Decision::Nothing,
        };
        let (control, term) = match &decision {
            Decision::Nothing => (None, None),
            Decision::Control(term) => (Some(self.candidacy.name.clone()), Some(*term)),
            Decision::Follow { name, term, .. } => (Some(name.clone()), Some(*term)),
        };
        let news = News { control, term, present: self.names.clone(), silent: self.silent.clone() };
        if self.said.as_ref() != Some(&decision) || self.news != news {
            self.service.answer(NEWS, &serde_json::to_string(&news).unwrap_or_default());
            self.news = news;
        }
        if self.said.as_ref() != Some(&decision) {
            // Who does not listen any more is about to end us.
            let _ = self.decisions.send(decision.clone());
            self.said = Some(decision);
        }
    }
}

/// Says when something changes under a prefix, or may have. It only saves time: the driver looks by itself, too.
async fn watch(mut etcd: Etcd, prefix: String, shared: Arc<Shared>) {
    loop {
        etcd.watch(&prefix, || {
            shared.changed.store(true, Ordering::Release);
            shared.wake.notify_one();
        })
        .await;
        etcd.next();
        sleep(AGAIN).await;
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
