//! What a router has counted, element by element.

use super::Router;
use crate::NodeId;
use crate::engine::stats::ENGINE_LOSSES;

/// One element's counts, all workers together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRow {
    /// Element name.
    pub element: String,
    /// Class name.
    pub class: &'static str,
    /// Calls that did something.
    pub calls: u64,
    /// Packets.
    pub packets: u64,
    /// Task runs that found nothing.
    pub empty_polls: u64,
    /// Packets that came into being here.
    pub made: u64,
    /// Packets whose way ended here on purpose.
    pub gone: u64,
    /// TSC cycles per packet over the timed calls; `None` before the first.
    pub cycles_per_packet: Option<f64>,
    /// TSC cycles per call over the timed calls.
    pub cycles_per_call: Option<f64>,
    /// Estimate of all TSC cycles spent here, empty polls not included.
    pub cycles: u64,
    /// Estimate of all TSC cycles spent in empty polls.
    pub empty_cycles: u64,
}

/// Packets lost at one element for one reason, all workers together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossRow {
    /// Element name.
    pub element: String,
    /// Class name.
    pub class: &'static str,
    /// Reason, in snake case.
    pub reason: &'static str,
    /// Packets.
    pub packets: u64,
}

impl Router {
    /// Every element's counts.
    pub fn node_rows(&self) -> Vec<NodeRow> {
        self.plan.ids().map(|id| self.node_row(id)).collect()
    }

    fn node_row(&self, id: NodeId) -> NodeRow {
        let n = self.plan.node(id);
        let mut row = NodeRow { element: n.name.clone(), class: n.spec().name, ..NodeRow::default() };
        let (mut cycles, mut calls, mut packets) = (0, 0, 0);
        for worker in &self.stats {
            let s = &worker.nodes[id.index()];
            row.calls += s.calls.get();
            row.packets += s.packets();
            row.empty_polls += s.empty_polls.get();
            row.made += s.made.get();
            row.gone += s.gone.get();
            cycles += s.timed_cycles.get();
            calls += s.timed_calls.get();
            packets += s.timed_packets.get();
            // One run in so many is timed; the others are taken to cost the same.
            let runs = worker.runs.get() as f64 / worker.timed_runs.get().max(1) as f64;
            row.cycles += (s.timed_cycles.get() as f64 * runs) as u64;
            row.empty_cycles += (s.timed_empty_cycles.get() as f64 * runs) as u64;
        }
        row.cycles_per_packet = (packets > 0).then(|| cycles as f64 / packets as f64);
        row.cycles_per_call = (calls > 0).then(|| cycles as f64 / calls as f64);
        row
    }

    /// Every loss that has happened, by element and reason.
    pub fn loss_rows(&self) -> Vec<LossRow> {
        self.plan.ids().flat_map(|id| self.losses_of(id)).filter(|l| l.packets > 0).collect()
    }

    /// All reasons for which one element may lose packets, with counts.
    pub fn losses_of(&self, node: NodeId) -> Vec<LossRow> {
        let n = self.plan.node(node);
        let reasons = n.spec().losses.iter().chain(&ENGINE_LOSSES);
        let row = |(i, reason): (usize, &&'static str)| LossRow {
            element: n.name.clone(),
            class: n.spec().name,
            reason,
            packets: self.stats.iter().filter_map(|w| w.loss(node.index(), i)).map(epoch::Count::get).sum(),
        };
        reasons.enumerate().map(row).collect()
    }

    /// Packets made, packets that ended on purpose, packets lost. What is neither gone nor lost is held somewhere.
    pub fn balance(&self) -> (u64, u64, u64) {
        let rows = self.node_rows();
        let lost = self.loss_rows().iter().map(|l| l.packets).sum();
        (rows.iter().map(|r| r.made).sum(), rows.iter().map(|r| r.gone).sum(), lost)
    }
}
