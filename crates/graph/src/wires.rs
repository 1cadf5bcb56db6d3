//! The connections of a graph as the engine sees them.

use crate::NodeId;

/// Set in a target whose element lives on another worker.
const REMOTE: u64 = 1 << 63;

/// An element's port, packed in one word: stored in pieces it would stall the load that follows (store forwarding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target(u64);

impl Target {
    /// Port `port` of `node`.
    pub fn new(node: NodeId, port: usize) -> Target {
        // The plan refuses graphs with 2^31 ports.
        Target((u64::from(node.0) << 32) | (port as u64 & 0x7fff_ffff))
    }

    /// The element.
    #[inline]
    pub fn node(self) -> NodeId {
        NodeId(((self.0 & !REMOTE) >> 32) as u32)
    }

    /// The port.
    #[inline]
    pub fn port(self) -> usize {
        (self.0 & 0x7fff_ffff) as usize
    }

    /// True if the element lives on another worker.
    #[inline]
    pub fn is_remote(self) -> bool {
        self.0 & REMOTE != 0
    }

    /// The same port as its own worker sees it.
    pub fn local(self) -> Target {
        Target(self.0 & !REMOTE)
    }
}

/// Where a port leads: to a port, or to none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire(u64);

impl Wire {
    /// Leads nowhere.
    pub const NONE: Wire = Wire(u64::MAX);

    /// The port at its end.
    #[inline]
    pub fn target(self) -> Option<Target> {
        (self != Wire::NONE).then_some(Target(self.0))
    }

    /// The port at its end, if its element lives on this worker. One look at the sign, which no other wire lacks.
    #[inline]
    pub fn local(self) -> Option<Target> {
        (self.0 & REMOTE == 0).then_some(Target(self.0))
    }
}

impl Default for Wire {
    fn default() -> Wire {
        Wire::NONE
    }
}

/// One worker's view of all connections.
#[derive(Clone, Debug, Default)]
pub struct Wires {
    outputs: Side,
    inputs: Side,
}

#[derive(Clone, Debug, Default)]
struct Side {
    /// First entry of each node, and one more at the end.
    base: Vec<u32>,
    wires: Vec<Wire>,
}

impl Side {
    fn new(counts: impl Iterator<Item = usize>) -> Side {
        let mut base = vec![0];
        let mut total = 0;
        for n in counts {
            total += n;
            base.push(u32::try_from(total).unwrap_or(u32::MAX));
        }
        Side { base, wires: vec![Wire::NONE; total] }
    }

    #[inline]
    fn index(&self, node: NodeId, port: usize) -> Option<usize> {
        let start = *self.base.get(node.index())? as usize;
        let end = *self.base.get(node.index() + 1)? as usize;
        let i = start.checked_add(port)?;
        (i < end).then_some(i)
    }

    #[inline]
    fn get(&self, node: NodeId, port: usize) -> Wire {
        self.index(node, port).and_then(|i| self.wires.get(i)).copied().unwrap_or_default()
    }

    fn set(&mut self, node: NodeId, port: usize, wire: Wire) {
        if let Some(place) = self.index(node, port).and_then(|i| self.wires.get_mut(i)) {
            *place = wire;
        }
    }

    fn count(&self, node: NodeId) -> usize {
        let at = |i: usize| self.base.get(i).copied().unwrap_or(0) as usize;
        at(node.index() + 1).saturating_sub(at(node.index()))
    }
}

impl Wires {
    /// No connections yet, for nodes with these numbers of inputs and outputs.
    pub fn new(ports: &[(usize, usize)]) -> Wires {
        Wires { inputs: Side::new(ports.iter().map(|p| p.0)), outputs: Side::new(ports.iter().map(|p| p.1)) }
    }

    /// Packets leaving `from` by output `output` enter `to`; `remote` if that lives on another worker.
    pub fn connect_push(&mut self, from: NodeId, output: usize, to: Target, remote: bool) {
        self.outputs.set(from, output, Wire(to.0 | if remote { REMOTE } else { 0 }));
    }

    /// Pulls at input `input` of `to` go to the port `from`.
    pub fn connect_pull(&mut self, to: NodeId, input: usize, from: Target) {
        self.inputs.set(to, input, Wire(from.0));
    }

    /// Where packets go that leave by an output; nowhere if it is not connected or is a pull output.
    #[inline]
    pub fn output(&self, node: NodeId, output: usize) -> Wire {
        self.outputs.get(node, output)
    }

    /// Whom to ask at a pull input.
    #[inline]
    pub fn input(&self, node: NodeId, input: usize) -> Wire {
        self.inputs.get(node, input)
    }

    /// Number of outputs of a node.
    pub fn outputs(&self, node: NodeId) -> usize {
        self.outputs.count(node)
    }
}
