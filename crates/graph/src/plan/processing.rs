//! Push or pull: agnostic ports take it over from what they are connected to (`click/language.md` §1.8).

use super::{Counts, Kind, Plan};
use crate::NodeId;
use crate::spec::{Processing, flows, processing};
use lang::Diagnostic;
use std::collections::BTreeSet;

struct Ports {
    inputs: Vec<Option<Kind>>,
    outputs: Vec<Option<Kind>>,
}

/// Decides every port of the plan.
pub(super) fn resolve(plan: &mut Plan, counts: &[Counts], errors: &mut Vec<Diagnostic>) {
    let mut ports: Vec<Ports> =
        plan.nodes.iter().zip(counts).map(|(n, c)| given(n.spec().processing, c)).collect();
    let mut bad = BTreeSet::new();
    let mut changed = true;
    while changed {
        changed = false;
        for i in 0..plan.connections.len() {
            changed |= agree_on_connection(plan, i, &mut ports, &mut bad, errors);
        }
        for id in plan.ids() {
            changed |= agree_inside(plan, id, &mut ports, &mut bad, errors);
        }
    }
    for (node, p) in plan.nodes.iter_mut().zip(ports) {
        node.inputs = p.inputs.into_iter().map(|k| k.unwrap_or(Kind::Push)).collect();
        node.outputs = p.outputs.into_iter().map(|k| k.unwrap_or(Kind::Push)).collect();
    }
}

/// What the class says by itself.
fn given(code: &str, counts: &Counts) -> Ports {
    let side = |outputs: bool, n: usize| {
        let kind = |port| match processing(code, outputs, port) {
            Processing::Push => Some(Kind::Push),
            Processing::Pull => Some(Kind::Pull),
            Processing::Agnostic => None,
        };
        (0..n).map(kind).collect()
    };
    Ports { inputs: side(false, counts.inputs), outputs: side(true, counts.outputs) }
}

/// Mistakes already reported: connections and elements.
type Reported = BTreeSet<(bool, usize)>;

fn agree_on_connection(
    plan: &Plan,
    i: usize,
    ports: &mut [Ports],
    bad: &mut Reported,
    errors: &mut Vec<Diagnostic>,
) -> bool {
    let c = plan.connections[i];
    let from = ports[c.from.0.index()].outputs[c.from.1];
    let to = ports[c.to.0.index()].inputs[c.to.1];
    match (from, to) {
        (Some(kind), None) => ports[c.to.0.index()].inputs[c.to.1] = Some(kind),
        (None, Some(kind)) => ports[c.from.0.index()].outputs[c.from.1] = Some(kind),
        (Some(a), Some(b)) if a != b => {
            if bad.insert((true, i)) {
                errors.push(conflict(plan, i, a, b, ports));
            }
            return false;
        }
        _ => return false,
    }
    true
}

fn conflict(plan: &Plan, i: usize, a: Kind, b: Kind, ports: &[Ports]) -> Diagnostic {
    let c = plan.connections[i];
    let (from, to) = (plan.node(c.from.0), plan.node(c.to.0));
    let help = match a {
        Kind::Push => "put a Queue between them, to store packets until they are asked for",
        Kind::Pull => "put an Unqueue between them, to ask for packets and push them on",
    };
    let agnostic = |outputs, node: NodeId, port| {
        processing(plan.node(node).spec().processing, outputs, port) == Processing::Agnostic
    };
    // An agnostic element that was pushed into one mood from one side meets the other mood on this side.
    let text = if agnostic(true, c.from.0, c.from.1) {
        let input = ports[c.from.0.index()].inputs.iter().position(|k| *k == Some(a)).unwrap_or(0);
        mixed(&from.name, a, input, b, c.from.1)
    } else if agnostic(false, c.to.0, c.to.1) {
        let output = ports[c.to.0.index()].outputs.iter().position(|k| *k == Some(b)).unwrap_or(0);
        mixed(&to.name, a, c.to.1, b, output)
    } else {
        format!(
            "'{}' {} output {} connected to '{}' {} input {}",
            from.name,
            word(a),
            c.from.1,
            to.name,
            word(b),
            c.to.1
        )
    };
    Diagnostic::error(c.span, text).code("push-pull").help(help)
}

fn agree_inside(
    plan: &Plan,
    id: NodeId,
    ports: &mut [Ports],
    bad: &mut Reported,
    errors: &mut Vec<Diagnostic>,
) -> bool {
    let spec = plan.node(id).spec();
    let p = &mut ports[id.index()];
    let mut changed = false;
    for i in 0..p.inputs.len() {
        for o in 0..p.outputs.len() {
            let linked = processing(spec.processing, false, i) == Processing::Agnostic
                && processing(spec.processing, true, o) == Processing::Agnostic
                && flows(spec.flow, i, o);
            if !linked {
                continue;
            }
            match (p.inputs[i], p.outputs[o]) {
                (Some(kind), None) => p.outputs[o] = Some(kind),
                (None, Some(kind)) => p.inputs[i] = Some(kind),
                (Some(a), Some(b)) if a != b => {
                    if bad.insert((false, id.index())) {
                        let node = plan.node(id);
                        let error = Diagnostic::error(node.span, mixed(&node.name, a, i, b, o));
                        errors.push(error.code("push-pull"));
                    }
                    continue;
                }
                _ => continue,
            }
            changed = true;
        }
    }
    changed
}

fn mixed(name: &str, a: Kind, input: usize, b: Kind, output: usize) -> String {
    format!("agnostic '{name}' in mixed context: {} input {input}, {} output {output}", word(a), word(b))
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Push => "push",
        Kind::Pull => "pull",
    }
}
