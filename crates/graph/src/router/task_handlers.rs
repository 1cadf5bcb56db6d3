//! The handlers of elements that own a task: `scheduled` and `tickets`.

use super::Router;
use crate::NodeId;
use crate::engine::tasks::MAX_TICKETS;
use crate::plan::Kind;
use std::sync::atomic::Ordering::Relaxed;

/// Their names.
pub(super) const NAMES: [&str; 2] = ["scheduled", "tickets"];

impl Router {
    /// True if the element acts by itself: it pulls and hands on or ends what it gets, or pushes and gets nothing.
    pub(super) fn owns_task(&self, node: NodeId) -> bool {
        let node = self.plan.node(node);
        let pulls = node.inputs.contains(&Kind::Pull) && !node.outputs.contains(&Kind::Pull);
        pulls || node.inputs.is_empty() && node.outputs.contains(&Kind::Push)
    }

    /// Reads one of [`NAMES`].
    pub(super) fn read_task(&self, node: NodeId, handler: &str) -> Option<String> {
        match handler {
            _ if !self.owns_task(node) => None,
            "scheduled" => {
                let on = |worker: &crate::engine::tasks::Shown| {
                    worker.get(node.index()).is_some_and(|shown| shown.load(Relaxed))
                };
                Some(self.scheduled.iter().any(on).to_string())
            }
            "tickets" => self.tickets.get(node.index()).map(|tickets| tickets.load(Relaxed).to_string()),
            _ => None,
        }
    }

    /// Writes one of [`NAMES`]; `None` if it is none of them.
    pub(super) fn write_task(&self, node: NodeId, handler: &str, value: &str) -> Option<Result<(), String>> {
        match handler {
            _ if !self.owns_task(node) => None,
            "scheduled" => {
                Some(crate::handlers::value(value).map(|scheduled| self.schedule(node, scheduled)))
            }
            "tickets" => {
                Some(crate::handlers::value(value).and_then(|tickets| self.set_tickets(node, tickets)))
            }
            _ => None,
        }
    }

    fn schedule(&self, node: NodeId, scheduled: bool) {
        for worker in self.homes.active(node, self.stats.len()) {
            let Some(mailbox) = self.mailboxes.get(worker) else { continue };
            if scheduled {
                mailbox.wake(node);
            } else {
                mailbox.order(Box::new(move |engine| engine.unschedule(node)));
            }
        }
    }

    fn set_tickets(&self, node: NodeId, tickets: u32) -> Result<(), String> {
        if !(1..=MAX_TICKETS).contains(&tickets) {
            return Err(format!("tickets must be between 1 and {MAX_TICKETS}"));
        }
        if let Some(all) = self.tickets.get(node.index()) {
            all.store(tickets, Relaxed);
        }
        for mailbox in &self.mailboxes {
            mailbox.order(Box::new(move |engine| engine.set_tickets(node, tickets)));
        }
        Ok(())
    }
}
