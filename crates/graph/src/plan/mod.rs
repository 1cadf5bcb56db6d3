//! From a flat configuration to a plan: which port is connected to which, who pushes and who pulls, who lives where.
//! Pure; all mistakes at once.

mod flow;
mod homes;
mod paths;
mod ports;
mod processing;
mod queues;
mod reach;
mod stranger;

use crate::NodeId;
use crate::class::{AnyClass, ClassTable};
use crate::spec::{PortCounts, Spec};
use lang::{Diagnostic, Flat, Span};

pub use flow::{downstream, downstream_storages, upstream_storages};
pub use homes::{Groups, Homes, assign_homes, taker};
pub use queues::Queues;

/// Push or pull, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The upstream element hands packets over.
    Push,
    /// The downstream element asks for packets.
    Pull,
}

/// One element of the plan.
pub struct PlanNode {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: &'static dyn AnyClass,
    /// Where it is declared.
    pub span: Span,
    /// Push or pull of each input.
    pub inputs: Vec<Kind>,
    /// Push or pull of each output.
    pub outputs: Vec<Kind>,
}

impl PlanNode {
    /// What its class says about itself.
    pub fn spec(&self) -> &'static Spec {
        self.class.spec()
    }

    /// `name :: Class`, as messages call it.
    pub fn title(&self) -> String {
        format!("{} :: {}", self.name, self.spec().name)
    }
}

/// A connection: output port of one element to input port of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Element and output.
    pub from: (NodeId, usize),
    /// Element and input.
    pub to: (NodeId, usize),
    /// The place of the arrow.
    pub span: Span,
    /// The place of the output port, or of the element if no port is written.
    pub from_span: Span,
    /// The place of the input port, or of the element if no port is written.
    pub to_span: Span,
}

/// A checked graph.
pub struct Plan {
    /// Elements, in the order of the flat configuration.
    pub nodes: Vec<PlanNode>,
    /// Connections.
    pub connections: Vec<Connection>,
}

impl Plan {
    /// Checks a flat configuration against the classes.
    ///
    /// # Errors
    /// All mistakes in the use of ports, and all unknown classes.
    pub fn new(flat: &Flat, classes: &ClassTable) -> Result<Plan, Vec<Diagnostic>> {
        let unknown = flat.elements.iter().filter(|e| classes.find(&e.class).is_none());
        let unknown =
            unknown.map(|e| Diagnostic::error(e.span, format!("unknown element class '{}'", e.class)));
        let (plan, mut errors) = Plan::checked(flat, classes);
        errors.extend(unknown);
        if errors.is_empty() { Ok(plan) } else { Err(errors) }
    }

    /// The plan with strangers for elements of unknown classes, and all mistakes in the use of ports that do not concern
    /// them. With mistakes it is not to be run.
    pub(crate) fn checked(flat: &Flat, classes: &ClassTable) -> (Plan, Vec<Diagnostic>) {
        let mut errors = Vec::new();
        let nodes = flat.elements.iter().map(|e| PlanNode {
            name: e.name.clone(),
            class: classes.find(&e.class).unwrap_or(&stranger::Stranger),
            span: e.span,
            inputs: Vec::new(),
            outputs: Vec::new(),
        });
        let nodes = nodes.collect();
        let connections = flat.connections.iter().map(|c| Connection {
            from: (NodeId::new(c.from.0), c.from.1 as usize),
            to: (NodeId::new(c.to.0), c.to.1 as usize),
            span: c.span,
            from_span: c.from_span,
            to_span: c.to_span,
        });
        let mut plan = Plan { nodes, connections: connections.collect() };
        let counts = ports::check(&mut plan, &mut errors);
        processing::resolve(&mut plan, &counts, &mut errors);
        ports::check_reuse(&plan, &mut errors);
        (plan, errors)
    }

    /// The element of this number.
    pub fn node(&self, node: NodeId) -> &PlanNode {
        &self.nodes[node.index()]
    }

    /// All element numbers.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::new)
    }

    /// Push or pull of a connection.
    pub fn kind(&self, c: &Connection) -> Kind {
        self.node(c.from.0).outputs[c.from.1]
    }
}

/// Numbers of inputs and outputs that connections use, and at least the fewest that the class demands.
pub(crate) struct Counts {
    pub inputs: usize,
    pub outputs: usize,
}

pub(crate) fn counts_of(spec: &Spec, inputs: usize, outputs: usize) -> Counts {
    let code = PortCounts::parse(spec.ports);
    let inputs = inputs.max(code.inputs.min);
    Counts { inputs, outputs: outputs.max(code.outputs_for(inputs).min) }
}
