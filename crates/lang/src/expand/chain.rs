//! Chains: declarations in them, groups, and the connections they make.

use super::body::{End, NodeId, Wire};
use super::ports::{PortSet, Side, pair};
use super::scope::{Group, Resolver, Scope};
use crate::ast::{Block, Chain, Class, Element, Ident, Link, Node, Ports};
use crate::diagnostic::Diagnostic;
use crate::source::Span;
use crate::text::Text;
use std::collections::BTreeMap;

/// What a node of a chain offers to the arrows before and behind it.
struct Offer {
    inputs: Option<Side>,
    outputs: Option<Side>,
}

impl Resolver<'_> {
    pub(super) fn chain(&mut self, scope: &mut Scope, chain: &Chain) {
        let mut left = self.nodes(scope, &chain.first, true);
        for (i, link) in chain.links.iter().enumerate() {
            let last = i + 1 == chain.links.len();
            let right = self.list(scope, &link.nodes, false, last);
            self.connect(scope, &left, &right, link);
            left = right;
        }
    }

    fn nodes(&mut self, scope: &mut Scope, nodes: &[Node], first: bool) -> Vec<Offer> {
        self.list(scope, nodes, first, false)
    }

    fn list(&mut self, scope: &mut Scope, nodes: &[Node], first: bool, last: bool) -> Vec<Offer> {
        nodes.iter().map(|n| self.node(scope, n, first, last)).collect()
    }

    fn node(&mut self, scope: &mut Scope, node: &Node, first: bool, last: bool) -> Offer {
        let (id, span, counts) = match &node.element {
            Element::Outside => return self.outside_node(scope, node, first),
            Element::Name(name) => (self.name(scope, name, first, last), name.span, None),
            Element::Anonymous { class, config } => {
                let span = class_span(class);
                let class = self.class(scope, class);
                let config = config.clone().unwrap_or_else(|| Text::empty(span));
                (Some(self.declare(scope, None, span, class, config)), span, None)
            }
            Element::Declaration { names, class, config } => {
                let span = class_span(class);
                let class = self.class(scope, class);
                let config = config.clone().unwrap_or_else(|| Text::empty(span));
                let mut id = None;
                for name in names {
                    id = Some(self.declare(scope, Some(name), name.span, class.clone(), config.clone()));
                }
                (id, names.last().map_or(span, |n| n.span), None)
            }
            Element::Group(block) => {
                let (id, inputs, outputs) = self.group(scope, block, node.span);
                let open = Span { end: node.span.start + 1, ..node.span };
                (Some(id), open, Some((inputs, outputs)))
            }
        };
        let Some(id) = id else { return Offer { inputs: None, outputs: None } };
        let side = |ports: &Option<Ports>, count: Option<u32>| Side {
            node: id,
            ports: match (ports, count) {
                (Some(p), _) => PortSet::written(p),
                (None, Some(n)) => PortSet::first(n),
                (None, None) => PortSet::Default,
            },
            span: ports.as_ref().map_or(span, |p| p.span),
        };
        Offer {
            inputs: Some(side(&node.inputs, counts.map(|c| c.0))),
            outputs: Some(side(&node.outputs, counts.map(|c| c.1))),
        }
    }

    /// An element of this name, else a new element of the class of this name.
    fn name(&mut self, scope: &mut Scope, name: &Ident, first: bool, last: bool) -> Option<NodeId> {
        if let Some(&(input, output)) = scope.outside.last() {
            match name.name.as_str() {
                "input" if !first => self.wrong_side(name, "input's inputs"),
                "output" if first || !last => self.wrong_side(name, "output's outputs"),
                "input" => return Some(input),
                "output" => return Some(output),
                _ => {}
            }
            if name.name == "input" || name.name == "output" {
                return None;
            }
        }
        if let Some(&member) = scope.names.get(&name.name) {
            return Some(scope.body.members[member].node);
        }
        if self.lookup_class(&name.name).is_none() {
            self.undeclared(scope, name);
            return None;
        }
        let class = (self.named_class(scope, name), name.name.clone());
        Some(self.declare(scope, None, name.span, class, Text::empty(name.span)))
    }

    fn wrong_side(&mut self, name: &Ident, what: &str) {
        let message = format!("{what} may not be used");
        self.error(Diagnostic::error(name.span, message).code("outside"));
    }

    fn outside_node(&mut self, scope: &Scope, node: &Node, first: bool) -> Offer {
        let Some(&(input, output)) = scope.outside.last() else {
            return Offer { inputs: None, outputs: None };
        };
        let side = |id| {
            let ports = node.inputs.as_ref().map_or(PortSet::Default, PortSet::written);
            let span = node.inputs.as_ref().map_or(node.span, |p| p.span);
            Some(Side { node: id, ports, span })
        };
        if first {
            Offer { inputs: None, outputs: side(input) }
        } else {
            Offer { inputs: side(output), outputs: None }
        }
    }

    /// A group makes no scope: only `input` and `output` mean something else inside.
    fn group(&mut self, scope: &mut Scope, block: &Block, span: Span) -> (NodeId, u32, u32) {
        let node = scope.new_node();
        let (input, output) = (scope.new_node(), scope.new_node());
        scope.body.through.push((node, input));
        scope.body.through.push((output, node));
        scope.outside.push((input, output));
        let before = scope.body.wires.len();
        self.block(scope, block);
        scope.outside.pop();
        let (inputs, outputs) = self.outside_ports(scope, input, output, before, Some(span));
        scope.groups.push(Group { node, inputs, outputs, span: Span { end: span.start + 1, ..span } });
        (node, inputs, outputs)
    }

    /// How many inputs and outputs are used inside a compound or (with its place) group; gaps are errors.
    pub(super) fn outside_ports(
        &mut self,
        scope: &Scope,
        input: NodeId,
        output: NodeId,
        since: usize,
        group: Option<Span>,
    ) -> (u32, u32) {
        let mut used = [BTreeMap::new(), BTreeMap::new()];
        for wire in &scope.body.wires[since..] {
            if wire.from.node == input {
                used[0].entry(wire.from.port).or_insert(wire.from.span);
            }
            if wire.to.node == output {
                used[1].entry(wire.to.port).or_insert(wire.to.span);
            }
        }
        let name = if group.is_some() { "<anonymous group>" } else { "<compound>" };
        let count = |map: &BTreeMap<u32, Span>| map.last_key_value().map_or(0, |(p, _)| p + 1);
        for (map, word) in used.iter().zip(["input", "output"]) {
            if map.len() < count(map) as usize {
                let missing = (0..count(map)).find(|p| !map.contains_key(p)).unwrap_or(0);
                let next = map.range(missing..).next().map_or(scope.body.span, |(_, s)| *s);
                let message = format!("'{name}' {word} {missing} missing");
                let note = format!("{word} {missing} is not used, but this one is");
                let at = Diagnostic::error(group.unwrap_or(scope.body.span), message).code("port-gap");
                self.error(at.note(next, note));
            }
        }
        (count(&used[0]), count(&used[1]))
    }

    fn connect(&mut self, scope: &mut Scope, left: &[Offer], right: &[Offer], link: &Link) {
        // A node that could not be understood has been reported; the rest of the list would not fit.
        let sides = |offers: &[Offer], get: fn(&Offer) -> &Option<Side>| -> Option<Vec<Side>> {
            offers.iter().map(|o| get(o).clone()).collect()
        };
        let Some(outputs) = sides(left, |o| &o.outputs) else { return };
        let Some(inputs) = sides(right, |o| &o.inputs) else { return };
        let Some(budget) = self.limits.connections.checked_sub(self.wires) else { return };
        match pair(&outputs, &inputs, link.parallel, budget + 1) {
            Ok(pairs) if pairs.len() > budget => {
                let message = format!("more than {} connections", self.limits.connections);
                self.error(Diagnostic::error(link.span, message).code("limit"));
                self.wires = usize::MAX;
            }
            Ok(pairs) => {
                self.wires += pairs.len();
                for ((l, from), (r, to)) in pairs {
                    self.wire(scope, &outputs[l], from, &inputs[r], to, link.span);
                }
            }
            Err(mismatch) => {
                // Long port lists cost time even where they do not fit.
                self.wires =
                    outputs.iter().chain(&inputs).map(Side::cost).fold(self.wires, usize::saturating_add);
                let mut d = Diagnostic::error(link.span, mismatch.message()).code("mismatch");
                d.help = (!link.parallel).then(|| "use `=>` to connect ports one to one".to_string());
                self.error(d);
            }
        }
    }

    fn wire(&mut self, scope: &mut Scope, output: &Side, from: u32, input: &Side, to: u32, span: Span) {
        let from = End { node: output.node, port: from, span: output.span };
        let to = End { node: input.node, port: to, span: input.span };
        scope.body.wires.push(Wire { from, to, span });
    }
}

/// The class name, or the opening brace.
fn class_span(class: &Class) -> Span {
    match class {
        Class::Name(name) => name.span,
        Class::Compound(c) => Span { end: c.span.start + 1, ..c.span },
    }
}
