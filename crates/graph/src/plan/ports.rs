//! Port numbers: within what the class has, all used, none used twice where that is not possible.

use super::stranger::is_stranger;
use super::{Connection, Counts, Kind, Plan, counts_of};
use crate::NodeId;
use crate::spec::PortCounts;
use lang::Diagnostic;
use std::collections::BTreeMap;

/// The most ports of one element.
const MAX_PORTS: usize = 1 << 16;

/// Checks port numbers; returns each element's port counts. Connections to ports that are not there are taken out.
pub(super) fn check(plan: &mut Plan, errors: &mut Vec<Diagnostic>) -> Vec<Counts> {
    let mut used: Vec<[Side; 2]> = plan.ids().map(|_| Default::default()).collect();
    let connections = std::mem::take(&mut plan.connections);
    plan.connections = connections.into_iter().filter(|c| note_ports(plan, c, &mut used, errors)).collect();
    let mut all = Vec::with_capacity(used.len());
    for (id, [inputs, outputs]) in plan.ids().zip(&used) {
        let counts = counts_of(plan.node(id).spec(), inputs.used.len(), outputs.used.len());
        if !is_stranger(plan.node(id).class) {
            report_unused(plan, id, inputs, counts.inputs, "input", errors);
            report_unused(plan, id, outputs, counts.outputs, "output", errors);
            check_output_count(plan, id, &counts, errors);
        }
        all.push(counts);
    }
    all
}

/// The inputs or the outputs of an element.
#[derive(Clone, Default)]
struct Side {
    used: Vec<bool>,
    /// A connection leads to a port that is not there: one of those that nothing leads to may be meant.
    missed: bool,
}

/// Notes that a connection's ports are used; false if one of them does not exist.
fn note_ports(plan: &Plan, c: &Connection, used: &mut [[Side; 2]], errors: &mut Vec<Diagnostic>) -> bool {
    let mut exist = true;
    for (port, span, what) in [(c.from, c.from_span, "output"), (c.to, c.to_span, "input")] {
        let [inputs, outputs] = &mut used[port.0.index()];
        let side = if what == "output" { outputs } else { inputs };
        if port.1 >= limit(plan, port.0, what) {
            let text = format!("'{}' has no {what} {}", plan.node(port.0).title(), port.1);
            let accepts = accepts(plan, port.0, what);
            errors.push(Diagnostic::error(span, text).code("no-port").help(accepts));
            side.missed = true;
            exist = false;
            continue;
        }
        if side.used.len() <= port.1 {
            side.used.resize(port.1 + 1, false);
        }
        side.used[port.1] = true;
    }
    exist
}

fn limit(plan: &Plan, node: NodeId, what: &str) -> usize {
    let code = PortCounts::parse(plan.node(node).spec().ports);
    let max = match what {
        "input" => code.inputs.max,
        // `=` codes are checked when the inputs are known.
        _ => match code.outputs {
            crate::spec::OutputCount::Range(r) => r.max,
            crate::spec::OutputCount::AsInputs(_) => usize::MAX,
        },
    };
    max.min(MAX_PORTS)
}

fn accepts(plan: &Plan, node: NodeId, what: &str) -> String {
    match limit(plan, node, what) {
        0 => format!("{} has no {what}s", plan.node(node).spec().name),
        1 => format!("{} has one {what}: [0]", plan.node(node).spec().name),
        n => format!("{} has {what}s [0] to [{}]", plan.node(node).spec().name, n - 1),
    }
}

fn report_unused(
    plan: &Plan,
    node: NodeId,
    side: &Side,
    count: usize,
    what: &str,
    errors: &mut Vec<Diagnostic>,
) {
    if side.missed {
        return;
    }
    for port in (0..count).filter(|p| !side.used.get(*p).copied().unwrap_or(false)) {
        let n = plan.node(node);
        let text = format!("'{}' {what} {port} unused", n.title());
        let help = match what {
            "output" => {
                format!("connect it, to Discard if its packets are not wanted: {}[{port}] -> Discard", n.name)
            }
            _ => format!("connect it, to Idle if nothing comes there: Idle -> [{port}]{}", n.name),
        };
        errors.push(Diagnostic::error(n.span, text).code("unused-port").help(help));
    }
}

fn check_output_count(plan: &Plan, node: NodeId, counts: &Counts, errors: &mut Vec<Diagnostic>) {
    let n = plan.node(node);
    let range = PortCounts::parse(n.spec().ports).outputs_for(counts.inputs);
    if counts.outputs > range.max {
        let text = format!(
            "'{}' has {} inputs, so it can have {} outputs, not {}",
            n.title(),
            counts.inputs,
            range.max,
            counts.outputs
        );
        errors.push(Diagnostic::error(n.span, text).code("port-count"));
    }
}

/// A push output and a pull input have exactly one connection.
pub(super) fn check_reuse(plan: &Plan, errors: &mut Vec<Diagnostic>) {
    let mut first = BTreeMap::new();
    for c in &plan.connections {
        let (end, what) = match plan.kind(c) {
            Kind::Push => (c.from, "push output"),
            Kind::Pull => (c.to, "pull input"),
        };
        let here = if what == "push output" { c.from_span } else { c.to_span };
        if let Some(span) = first.insert((what, end), here) {
            let text = format!("illegal reuse of '{}' {what} {}", plan.node(end.0).title(), end.1);
            let help = match what {
                "push output" => "put a Tee there to copy packets",
                _ => "put a scheduler there, for example RoundRobinSched, to pull from several",
            };
            errors.push(
                Diagnostic::error(here, text).code("port-reuse").note(span, "first used here").help(help),
            );
        }
    }
}
