//! What `scope` makes of a block: its members and the connections among them.

use crate::ast::{Formal, Requirement};
use crate::source::Span;
use crate::text::Text;

/// All blocks and compound classes of a configuration.
#[derive(Default)]
pub(super) struct Program {
    pub bodies: Vec<Body>,
    pub compounds: Vec<CompoundClass>,
    pub requirements: Vec<Requirement>,
}

/// What a class name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassRef {
    Primitive(String),
    /// Index in [`Program::compounds`].
    Compound(usize),
    /// An error has been reported.
    Unknown,
}

/// A compound class.
pub(super) struct CompoundClass {
    /// Empty for `{ ... }`.
    pub name: String,
    /// The alternatives: indices in [`Program::bodies`].
    pub alternatives: Vec<usize>,
    /// What a last alternative `...` stands for.
    pub otherwise: Option<ClassRef>,
    /// The body it is written in, whose variables it sees.
    pub home: usize,
}

/// Something that has ports: a member, or one side of a compound or group.
pub(super) type NodeId = usize;

/// The inside of a compound: connections from here come from its inputs.
pub(super) const INPUT: NodeId = 0;
/// The inside of a compound: connections to here go to its outputs.
pub(super) const OUTPUT: NodeId = 1;

/// A block whose names have been looked up.
#[derive(Default)]
pub(super) struct Body {
    pub formals: Vec<Formal>,
    pub span: Span,
    pub members: Vec<Member>,
    pub wires: Vec<Wire>,
    /// How many nodes there are; 0 is `input`, 1 is `output`.
    pub nodes: usize,
    /// For groups: what arrives at a node goes on from another.
    pub through: Vec<(NodeId, NodeId)>,
    pub inputs: u32,
    pub outputs: u32,
    pub definitions: Vec<Vec<crate::ast::Definition>>,
}

/// An element of a block, of a primitive or compound class.
pub(super) struct Member {
    pub node: NodeId,
    pub name: String,
    pub span: Span,
    pub class: ClassRef,
    /// The class name as written, for messages.
    pub class_name: String,
    pub config: Text,
    /// Which inputs are connected, and where first.
    pub inputs: PortUse,
    /// Which outputs are connected, and where first.
    pub outputs: PortUse,
}

/// The ports of one side of a node that are connected, in rising order, each with its first place.
#[derive(Default)]
pub(super) struct PortUse(std::collections::BTreeMap<u32, Span>);

impl PortUse {
    pub fn add(&mut self, port: u32, span: Span) {
        self.0.entry(port).or_insert(span);
    }

    /// One more than the highest connected port.
    pub fn count(&self) -> u32 {
        self.0.last_key_value().map_or(0, |(p, _)| p + 1)
    }

    /// The lowest port below `count` which is not connected.
    pub fn gap(&self, count: u32) -> Option<u32> {
        let mut wanted = 0;
        for &port in self.0.range(..count).map(|(p, _)| p) {
            if port != wanted {
                break;
            }
            wanted += 1;
        }
        (wanted < count).then_some(wanted)
    }

    /// The first connected port at or above `count`, and where.
    pub fn beyond(&self, count: u32) -> Option<(u32, Span)> {
        self.0.range(count..).next().map(|(p, s)| (*p, *s))
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub node: NodeId,
    pub port: u32,
    pub span: Span,
}

/// A connection within a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub from: End,
    pub to: End,
    pub span: Span,
}
