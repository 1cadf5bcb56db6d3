//! Which node is the control node, when a store with leases has the last word (etcd).
//!
//! Each node has a lease in the store, under which it announces itself; it renews it three times as often as it must. The
//! control node is the one whose name is in one key, made only where there is none, under its lease: when the lease ends,
//! the key goes, and another candidate makes it. The number of the store's change that made it is the *term*: it only grows.
//!
//! ```text
//!   grant a lease ─▶ announce ─▶ look ─┬─ nobody holds the key: wait for those before us, campaign ─▶ look
//!        ▲                             ├─ we hold it: control node of its term
//!        └── the lease is gone ◀─ renew┴─ another one does: follow it
//! ```
//!
//! What is not known changes nothing: while the store does not answer, the control node stays what it is, for nobody can tell it from
//! a store that is gone for all. It ends when the store says that another one holds the key, or when a node that follows
//! another one says so ([`Election::superseded`]). At most one node at a time is control node *and* has a lease that it knows
//! to last ([`Election::is_certain`]).
//!
//! A node that hears none of the others by its links is of no use to them. When those that have died are gone from the store, too,
//! after twice the time of a lease, it says that it is no candidate, and campaigns only where nobody else would. If it is the
//! control node it gives its lease back a little later, when others that are cut off have said so, if there is still a candidate.
//!
//! Whoever asks the store does what [`Election::step`] says, and tells what came of it. Time is in nanoseconds of a clock that
//! goes on while the machine sleeps.

/// How often a lease is renewed while it lasts once.
const RENEWALS: u64 = 3;
/// A candidate gives each one that comes before it so long to be faster.
pub const STEP: u64 = 300_000_000;
/// So long a candidate that has never heard of a control node leaves the first word to the preferred one.
pub const SETTLE: u64 = 1_500_000_000;
/// The same for the control node itself, from those who hear it although its key is gone: perhaps all of the store is.
pub const HEARD: u64 = 4 * STEP;
/// How often the store is asked anew when it does not answer.
const RETRY: u64 = 300_000_000;
/// How many times a lease lasts before who is cut off from all others leaves its place to one of them.
const LEASES_CUT_OFF: u64 = 2;

/// A node that has announced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Its number.
    pub node: u16,
    /// It can be the control node.
    pub candidate: bool,
    /// Its tables are whole: it can go on with them.
    pub whole: bool,
}

/// Who holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub node: u16,
    /// The number of the change that made the key.
    pub term: u64,
    /// The key is under the lease that we have now. An earlier life of this node may have left one.
    pub ours: bool,
}

/// What the store says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Who holds the key.
    pub holder: Option<Holder>,
    /// Who is there.
    pub present: Vec<Present>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It does not know who is the control node.
    #[default]
    Waiting,
    /// It follows the control node of a term.
    Follower {
        /// That.
        node: u16,
        /// Its term.
        term: u64,
    },
    /// It is the control node of a term.
    Control {
        /// That.
        term: u64,
    },
}

impl Role {
    /// The control node and its term, as `me` knows it.
    pub fn control(self, me: u16) -> Option<(u16, u64)> {
        match self {
            Role::Waiting => None,
            Role::Follower { node, term } => Some((node, term)),
            Role::Control { term } => Some((me, term)),
        }
    }
}

/// What is to be asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A lease: [`Election::granted`].
    Grant,
    /// To renew the lease: [`Election::renewed`] or [`Election::lease_is_gone`].
    Renew,
    /// To note under the lease that we are here: [`Election::announced`].
    Announce,
    /// What it says: [`Election::saw`].
    Look,
    /// To note under the lease that we are the control node, if nobody is: [`Election::campaigned`].
    Campaign,
    /// To give the lease back, of which [`Election::lease_is_gone`] is to be told before: nobody is certain of one that may be gone.
    Resign,
    /// Nothing until this time, unless something changes there: [`Election::changed`].
    Wait(u64),
}

/// How a node takes part.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// This node.
    pub me: u16,
    /// It can be the control node.
    pub candidate: bool,
    /// The candidate that is preferred where nothing else decides.
    pub preferred: u16,
    /// How long a lease lasts without being renewed.
    pub ttl: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Election {
    config: Config,
    /// Until when our lease lasts at least; none if we have none.
    lease: Option<u64>,
    /// When it was last renewed.
    renewed: u64,
    /// The key was seen under this lease.
    holds: bool,
    announced: bool,
    /// Our tables are whole.
    whole: bool,
    /// The control node is heard, though not by way of the store.
    hears: bool,
    /// Since when no other node has been heard by our links.
    cut_off: Option<u64>,
    /// That has lasted so long that this node is of no use to the others.
    is_apart: bool,
    looked: bool,
    view: View,
    /// When it was first seen that nobody holds the key.
    vacant: Option<u64>,
    /// When we campaigned last: the answer was lost, or comes with the next look.
    campaigned: Option<u64>,
    /// When the store is to be asked again that did not answer.
    retry: Option<u64>,
    role: Role,
}

impl Election {
    /// A node that has asked nothing yet.
    pub fn new(config: Config) -> Election {
        Election {
            config,
            lease: None,
            renewed: 0,
            holds: false,
            announced: false,
            whole: false,
            hears: false,
            cut_off: None,
            is_apart: false,
            looked: false,
            view: View::default(),
            vacant: None,
            campaigned: None,
            retry: None,
            role: Role::Waiting,
        }
    }

    /// What this node is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What the store said last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// This node is the control node, and no other can be: its lease lasts.
    pub fn is_certain(&self, now: u64) -> bool {
        self.holds && self.lease.is_some_and(|until| now < until)
    }

    /// What to ask now.
    pub fn step(&self, now: u64) -> Step {
        if let Some(retry) = self.retry.filter(|retry| now < *retry) {
            return Step::Wait(retry);
        }
        let renew = self.renewed.saturating_add(self.config.ttl / RENEWALS);
        match self.lease {
            None => Step::Grant,
            Some(_) if now >= renew => Step::Renew,
            Some(_) if !self.announced => Step::Announce,
            Some(_) if !self.looked => Step::Look,
            Some(_) if self.resigns(now) => Step::Resign,
            Some(_) => match self.campaign() {
                Some(when) if now >= when => Step::Campaign,
                Some(when) => Step::Wait(when.min(renew)),
                None => Step::Wait(renew),
            },
        }
    }

    /// The other candidates.
    fn others(&self) -> impl Iterator<Item = &Present> {
        self.view.present.iter().filter(|other| other.candidate && other.node != self.config.me)
    }

    /// Whether to leave the place to another one. Those that are cut off just as long have said so by then.
    fn resigns(&self, now: u64) -> bool {
        let is_time = self.is_apart
            && self
                .cut_off
                .is_some_and(|since| now > since.saturating_add(self.patience()).saturating_add(HEARD));
        is_time && self.holds && self.others().any(|other| other.whole)
    }

    /// How long a node that hears no other is a candidate like others.
    fn patience(&self) -> u64 {
        self.config.ttl.saturating_mul(LEASES_CUT_OFF)
    }

    /// When to campaign, if at all.
    fn campaign(&self) -> Option<u64> {
        let since = self.vacant.filter(|_| self.config.candidate)?;
        if self.is_apart && self.others().next().is_some() {
            return None;
        }
        let before = self.others().filter(|other| self.goes_before(other)).count() as u64;
        let patience = match self.role {
            Role::Waiting if self.config.me != self.config.preferred => SETTLE,
            Role::Follower { .. } if self.hears => HEARD,
            _ => 0,
        };
        let when = since.saturating_add(patience).saturating_add(before.saturating_mul(STEP));
        // Once asked, the answer is in what is seen next.
        Some(self.campaigned.map_or(when, |at| when.max(at.saturating_add(STEP))))
    }

    /// Another candidate comes before this node: first those whose tables are whole, of these who was the control node so
    /// far, then the preferred one, then by number.
    fn goes_before(&self, other: &Present) -> bool {
        let last = self.role.control(self.config.me).map(|(node, _)| node);
        let order =
            |node: u16, whole: bool| (!whole, last != Some(node), node != self.config.preferred, node);
        order(other.node, other.whole) < order(self.config.me, self.whole)
    }

    /// The store has given a lease for `ttl`, which was asked for at `sent`.
    pub fn granted(&mut self, sent: u64, ttl: u64) {
        self.answered();
        self.lease = Some(sent.saturating_add(ttl));
        self.renewed = sent;
        (self.announced, self.looked) = (false, false);
    }

    /// The store has renewed the lease for `ttl`, as was asked for at `sent`.
    pub fn renewed(&mut self, sent: u64, ttl: u64) {
        self.answered();
        self.lease = Some(sent.saturating_add(ttl));
        self.renewed = sent;
        // Whoever is not told of changes sees them then.
        self.looked = false;
    }

    /// The store has no such lease any more.
    pub fn lease_is_gone(&mut self) {
        self.answered();
        (self.lease, self.holds) = (None, false);
        (self.announced, self.looked) = (false, false);
    }

    /// What we announce is in the store.
    pub fn announced(&mut self) {
        self.answered();
        self.announced = true;
    }

    /// The store has tried; what came of it is seen by looking.
    pub fn campaigned(&mut self, now: u64) {
        self.answered();
        self.campaigned = Some(now);
        self.looked = false;
    }

    /// Something has changed in the store, or may have.
    pub fn changed(&mut self) {
        self.looked = false;
    }

    /// The store does not answer.
    pub fn failed(&mut self, now: u64) {
        self.retry = Some(now.saturating_add(RETRY));
        // Whatever was asked may have been done.
        self.looked = false;
    }

    fn answered(&mut self) {
        self.retry = None;
    }

    /// Our tables are whole, or not.
    pub fn set_whole(&mut self, whole: bool) {
        if self.whole != whole {
            self.whole = whole;
            self.announced = false;
        }
    }

    /// This node is one that others should wait for and leave the place to.
    pub fn is_candidate(&self) -> bool {
        self.config.candidate && !self.is_apart
    }

    /// Any other node is heard by our links, or none; true where there are no links.
    pub fn set_reaches(&mut self, now: u64, reaches: bool) {
        self.cut_off = if reaches { None } else { self.cut_off.or(Some(now)) };
        let is_apart = self.cut_off.is_some_and(|since| now.saturating_sub(since) > self.patience());
        if std::mem::replace(&mut self.is_apart, is_apart) != is_apart {
            self.announced = false;
        }
    }

    /// The control node is heard, or not.
    pub fn set_hears(&mut self, hears: bool) {
        self.hears = hears;
    }

    /// What the store says now.
    pub fn saw(&mut self, now: u64, view: View) {
        self.answered();
        self.looked = true;
        self.holds = view.holder.is_some_and(|holder| holder.ours && holder.node == self.config.me);
        match view.holder {
            Some(Holder { node, term, ours }) => {
                (self.vacant, self.campaigned) = (None, None);
                self.role = match node == self.config.me {
                    true if ours => Role::Control { term },
                    // One that an earlier life left holds the place until it ends.
                    true => Role::Waiting,
                    false => Role::Follower { node, term },
                };
            }
            None => {
                self.vacant.get_or_insert(now);
            }
        }
        self.view = view;
    }

    /// A node says that it follows the control node of this term.
    pub fn superseded(&mut self, term: u64) {
        if matches!(self.role, Role::Control { term: ours } if ours < term) {
            (self.role, self.holds) = (Role::Waiting, false);
            self.looked = false;
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
