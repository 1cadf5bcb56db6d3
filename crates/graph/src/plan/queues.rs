//! Which worker has which queue of a device: one core for each queue, and one for each packet as far as there are queues.

use super::homes::Homes;
use super::reach::reach;
use super::{Kind, Plan};
use crate::NodeId;

/// Queues of a device that an element has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// So many that it reads.
    Receive(usize),
    /// So many that it sends by.
    Send(usize),
}

/// Says which worker has which queue, and to whom the others hand their packets.
pub(super) fn assign_queues(plan: &Plan, workers: usize, queues: &[Option<Queues>], homes: &mut Homes) {
    homes.queues = vec![Vec::new(); plan.nodes.len()];
    let mut reading = vec![0; workers];
    let mut senders = Vec::new();
    for (id, queues) in plan.ids().zip(queues) {
        match queues {
            Some(Queues::Receive(n)) => homes.queues[id.index()] = readers(*n, homes, id, &mut reading),
            Some(Queues::Send(n)) => senders.push((id, *n)),
            None => {}
        }
    }
    let reach = reach(plan, workers, homes);
    let brought = |id: NodeId| &reach[id.index()];
    // Those that leave least choice first.
    senders.sort_by_key(|(id, _)| brought(*id).iter().filter(|b| **b).count());
    let mut sending = vec![0; workers];
    for (id, n) in senders {
        let owners = match homes.task[id.index()] {
            Some(home) => vec![home],
            None => owners(n, brought(id), &mut sending),
        };
        let takers = takers(&owners, workers);
        let all_send = takers.iter().enumerate().all(|(worker, taker)| worker == *taker);
        if plan.node(id).inputs.contains(&Kind::Push) && !all_send {
            homes.packets[id.index()] = Some(takers.into());
        }
        homes.queues[id.index()] = owners;
    }
}

/// Workers for `n` receive queues: by turns, or those that read least so far if there are more workers than queues.
fn readers(n: usize, homes: &Homes, id: NodeId, reading: &mut [usize]) -> Vec<usize> {
    let share: Vec<usize> = homes.share[id.index()].workers().collect();
    let mut readers = share.clone();
    if n < share.len() {
        readers.sort_by_key(|worker| reading[*worker]);
        readers.truncate(n);
        readers.iter().for_each(|worker| reading[*worker] += 1);
    }
    readers.into_iter().cycle().take(n).collect()
}

/// Workers for at most `n` send queues, a queue each: those that bring packets, of these those that send least so far.
fn owners(n: usize, brought: &[bool], sending: &mut [usize]) -> Vec<usize> {
    let mut owners: Vec<usize> = (0..brought.len()).collect();
    owners.sort_by_key(|worker| (!brought[*worker], sending[*worker]));
    owners.truncate(n);
    owners.iter().filter(|worker| brought[**worker]).for_each(|worker| sending[*worker] += 1);
    owners.sort_unstable();
    owners
}

/// Who sends for each worker: itself if it has a queue, else the owners by turns.
fn takers(owners: &[usize], workers: usize) -> Vec<usize> {
    let mut others = owners.iter().copied().cycle();
    (0..workers)
        .map(|worker| if owners.contains(&worker) { worker } else { others.next().unwrap_or(worker) })
        .collect()
}
