//! Keeping a [`Model`] in step with a stream of messages: what to ask for, and when an answer is complete. No I/O, no
//! clock.

use super::Model;
use super::expiry::Expiry;
use crate::netlink::request::{self, Topic};
use crate::netlink::wire::Raw;
use crate::netlink::{Action, Message, decode};
use std::collections::BTreeSet;
use std::time::Duration;

/// After the kernel may have removed things without a word, so long it may go on doing so before we ask.
const SETTLE: Duration = Duration::from_millis(20);
/// An answer that does not go on for so long is given up, and asked for again.
const PATIENCE: Duration = Duration::from_secs(5);
/// So long after a route has ended what is left of its time is shown as 0, which stands for "for ever", too.
const AFTER_END: Duration = Duration::from_millis(100);
/// So long everything is taken to be as it was last read.
const AUDIT: Duration = Duration::from_secs(60);
/// Reading it only to see whether it is takes at most one part in so many of the time.
const AUDIT_SHARE: u32 = 200;
/// `EBUSY` and `EINTR`: ask again.
const ASK_AGAIN: [i32; 2] = [16, 4];

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Messages read, of dumps too.
    pub messages: u64,
    /// Datagrams with a malformed message in them.
    pub malformed: u64,
    /// Dumps completed.
    pub dumps: u64,
    /// Times that messages were lost because we did not read fast enough.
    pub overruns: u64,
    /// Things that a dump showed to be gone.
    pub swept: u64,
}

/// The dump that is under way.
#[derive(Clone, Copy, Debug)]
struct Dump {
    topic: Topic,
    sequence: u32,
    /// Messages were lost since it began, so that it proves nothing.
    spoiled: bool,
    heard: Duration,
}

/// See the module. Times are since any fixed moment.
#[derive(Debug, Default)]
pub struct Follower {
    todo: BTreeSet<Topic>,
    not_before: Duration,
    dump: Option<Dump>,
    sequence: u32,
    expiry: Expiry,
    /// When everything was last asked for only to see whether it is as we know it, and how long that took.
    audit: Audit,
    /// What has happened so far.
    pub counts: Counts,
}

/// Everything is read again from time to time, in case the kernel has removed something without a word in a way that nobody
/// knows of.
#[derive(Clone, Copy, Debug, Default)]
struct Audit {
    begun: Duration,
    ended: Duration,
    is_running: bool,
}

impl Audit {
    /// When the next one is due.
    fn next(&self) -> Duration {
        let took = self.ended.saturating_sub(self.begun);
        self.ended + AUDIT.max(took.saturating_mul(AUDIT_SHARE))
    }
}

impl Follower {
    /// A follower that will ask for everything first.
    pub fn new() -> Follower {
        Follower { todo: Topic::ALL.into(), ..Follower::default() }
    }

    /// True if the model is complete: every dump that was asked for has ended.
    pub fn is_synced(&self) -> bool {
        self.is_idle() || self.audit.is_running
    }

    fn is_idle(&self) -> bool {
        self.todo.is_empty() && self.dump.is_none()
    }

    /// Messages were lost: everything is to be asked for again. Nothing is removed before the answers are there.
    pub fn overrun(&mut self) {
        self.counts.overruns += 1;
        self.audit.is_running = false;
        self.todo.extend(Topic::ALL);
        if let Some(dump) = &mut self.dump {
            dump.spoiled = true;
        }
    }

    /// The next request to send, if it is time for one.
    pub fn request(&mut self, model: &mut Model, now: Duration) -> Option<Vec<u8>> {
        self.look_at_times(model, now);
        if let Some(dump) = self.dump {
            if now.saturating_sub(dump.heard) < PATIENCE {
                return None;
            }
            self.todo.insert(dump.topic);
            self.dump = None;
        }
        if now < self.not_before {
            return None;
        }
        let topic = self.todo.pop_first()?;
        model.mark(topic);
        // 0 is that of news.
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.dump = Some(Dump { topic, sequence: self.sequence, spoiled: false, heard: now });
        Some(request::dump(topic, self.sequence))
    }

    /// How long nothing need be asked for, if no message comes; `None` = for ever.
    pub fn wait(&self, now: Duration) -> Option<Duration> {
        let next = match &self.dump {
            Some(dump) => (dump.heard + PATIENCE).saturating_sub(now),
            None if self.todo.is_empty() => self.audit.next().saturating_sub(now),
            None => self.not_before.saturating_sub(now),
        };
        Some(self.expiry.wait(now).map_or(next, |expiry| expiry.min(next)))
    }

    /// Removes routes that have ended, and asks again for what may be another than we know.
    fn look_at_times(&mut self, model: &mut Model, now: Duration) {
        let due = self.expiry.step(now);
        let has_ended = !due.ended.is_empty();
        for route in due.ended {
            model.routes6.apply(Action::Remove, route, false);
        }
        if due.ask {
            self.todo.insert(Topic::Routes6);
            if has_ended {
                self.not_before = now + AFTER_END;
            }
        }
        if !self.is_idle() || self.counts.dumps == 0 {
            return;
        }
        if self.audit.ended.is_zero() {
            self.audit = Audit { begun: now, ended: now.max(Duration::from_nanos(1)), is_running: false };
        } else if self.audit.begun > self.audit.ended {
            self.audit = Audit { ended: now, is_running: false, ..self.audit };
        } else if now >= self.audit.next() {
            self.todo.extend(Topic::ALL);
            self.audit = Audit { begun: now, is_running: true, ..self.audit };
        }
    }

    /// Takes one message.
    pub fn take(&mut self, raw: &Raw<'_>, model: &mut Model, now: Duration) {
        self.counts.messages += 1;
        let ours = self.dump.filter(|dump| dump.sequence == raw.sequence);
        if let Some(dump) = &mut self.dump
            && ours.is_some()
        {
            dump.heard = now;
        }
        match (decode(raw), ours) {
            (Message::Done { interrupted, .. }, Some(dump)) => {
                self.dump = None;
                if interrupted || dump.spoiled {
                    self.todo.insert(dump.topic);
                } else {
                    self.counts.dumps += 1;
                    self.counts.swept += model.sweep(dump.topic) as u64;
                }
            }
            (Message::Answer { errno, .. }, Some(dump)) if errno != 0 => {
                self.dump = None;
                if ASK_AGAIN.contains(&errno) {
                    self.ask(&[dump.topic], now);
                }
            }
            (mut message, ours) => {
                self.expiry.note(&mut message, now);
                if ours.is_none() && removes_in_silence(&message, model) {
                    self.ask(&[Topic::NextHops, Topic::Routes4, Topic::Routes6], now);
                } else if ours.is_none() && is_advertised(&message) {
                    self.ask(&[Topic::Routes6], now);
                }
                model.apply(message, ours.is_some());
            }
        }
    }

    fn ask(&mut self, topics: &[Topic], now: Duration) {
        self.audit.is_running = false;
        self.todo.extend(topics);
        self.not_before = now + SETTLE;
        if let Some(dump) = &mut self.dump
            && topics.contains(&dump.topic)
        {
            dump.spoiled = true;
        }
    }
}

/// A route of a router advertisement is told of before the kernel sets the time when it ends.
fn is_advertised(message: &Message) -> bool {
    /// `RTPROT_RA`.
    const RA: u8 = 9;
    matches!(message, Message::Route6(action, route) if *action != Action::Remove && route.protocol == RA)
}

/// IPv4 routes over a link that goes down, or with a source address that goes, are removed by the kernel without a
/// message for each; so are next-hop objects, also when a link loses its carrier, and with a sysctl IPv6 routes. With the MTU of
/// a link those of IPv6 routes over it change; with its master they go to another table.
fn removes_in_silence(message: &Message, model: &Model) -> bool {
    match message {
        Message::Link(Action::Remove, _) | Message::Address(Action::Remove, _) => true,
        Message::Link(_, link) => model.links.get(link.index).is_some_and(|old| {
            let lost = old.carrier && !link.carrier;
            lost || (old.up, old.mtu, old.master) != (link.up, link.mtu, link.master)
        }),
        // With an object, the routes over it.
        Message::NextHop(Action::Remove, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::numbers::NLMSG_DONE;

    const SECOND: Duration = Duration::from_secs(1);

    /// Has the follower ask for all that it wants, and answers with nothing; how many requests there were.
    fn answer_all(follower: &mut Follower, model: &mut Model, now: Duration) -> usize {
        let mut requests = 0;
        while follower.request(model, now).is_some() {
            requests += 1;
            let (kind, flags, sequence, body) = (NLMSG_DONE, 0, follower.sequence, &[0; 4][..]);
            follower.take(&Raw { kind, flags, sequence, body }, model, now);
        }
        requests
    }

    #[test]
    fn everything_is_read_again_once_a_minute_and_counts_as_known_meanwhile() {
        let (mut follower, mut model) = (Follower::new(), Model::default());
        assert!(!follower.is_synced());
        assert_eq!(answer_all(&mut follower, &mut model, SECOND), Topic::ALL.len());
        assert!(follower.is_synced());
        assert_eq!(answer_all(&mut follower, &mut model, 60 * SECOND), 0);
        assert!(follower.request(&mut model, 62 * SECOND).is_some());
        assert!(follower.is_synced());
        // Unless something was lost.
        follower.overrun();
        assert!(!follower.is_synced());
    }

    #[test]
    fn an_audit_that_takes_long_is_not_repeated_soon() {
        let audit = Audit { begun: 100 * SECOND, ended: 101 * SECOND, is_running: false };
        assert_eq!(audit.next(), 301 * SECOND);
        let quick = Audit { ended: 100 * SECOND, ..audit };
        assert_eq!(quick.next(), 160 * SECOND);
    }
}
