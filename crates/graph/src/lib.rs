//! The engine: what an element is, how batches move through a graph of elements, and how a graph is made of a
//! configuration.
//!
//! * A [`Class`] is the part of an element that all workers share: configuration, tables, counters. An [`Element`] is
//!   the part that one worker owns. [`Agnostic`] makes an element of a [`Simple`] that works the same pushed or pulled.
//! * [`Plan`] checks a flat configuration; [`Router`] is a configured graph; [`Engine`] runs one worker's share of it.
//! * Elements never call each other: what they send goes into [`Out`] and is delivered after the call, depth first.
//! * There is no `unsafe` here, and no clock or I/O: time comes in through [`Clock`], packets through `io`.

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod class;
mod element;
pub mod engine;
mod handlers;
mod notify;
mod out;
mod plan;
mod router;
mod spec;
mod tables;
mod time;
mod wires;

pub use class::{
    AnyClass, AnyShared, Class, ClassTable, ConfigErrors, Configure, Initialize, LocalCx, Of, Placement,
    Share, of,
};
pub use element::{Agnostic, Cx, Element, Loss, Simple};
pub use engine::{Engine, Round};
pub use handlers::{Handler, HandlerCx, HandlerError, Handlers, value};
pub use lang::args::{ArgError, Args, FromArg};
pub use lang::{Diagnostic, Span, Text};
pub use notify::{Listener, Notifier};
pub use out::{Out, Up, Way};
pub use plan::{Kind, Plan, Queues};
pub use router::{LossRow, NodeRow, Options, Router};
pub use spec::{Phase, PortCounts, Processing, Spec, State};
pub use tables::Tables;
pub use time::{Clock, Nanos, SECOND, SIMULATED_START};

/// Number of an element in its graph: its place in the flat configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// From an index into a list of elements.
    pub fn new(index: usize) -> NodeId {
        // Configurations are far below 2^32 elements: the language limits expansion.
        NodeId(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// As an index into a list of elements.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
