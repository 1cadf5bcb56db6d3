//! The vocabulary: the element classes of the Click language, one file each, in folders by layer.
//!
//! Each file begins with the class's reference: a line of what it does, then arguments, ports, handlers and an example
//! that is run as a test (`tests/examples.rs`). `build.rs` gathers these texts for `routebricks elements`.

// They panic if nobody reads any more; `io::say!` does not.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod analysis;
mod anno_offset;
pub mod basic;
pub mod classify;
pub mod cluster;
mod color;
pub mod device;
mod docs;
pub mod ether;
mod flow_hash;
pub mod harness;
pub mod icmp;
pub mod ip;
pub mod ip6;
pub mod queue;
mod quota;
pub mod shape;
#[cfg(test)]
mod testing;

use graph::{AnyClass, ClassTable};

pub use docs::{ElementDoc, element_docs};

/// All classes of this crate, by layer.
static LAYERS: &[&[&dyn AnyClass]] = &[
    device::CLASSES,
    ether::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    icmp::CLASSES,
    classify::CLASSES,
    queue::CLASSES,
    shape::CLASSES,
    cluster::CLASSES,
    analysis::CLASSES,
    basic::CLASSES,
    #[cfg(test)]
    testing::CLASSES,
];

/// Other names of classes.
static ALIASES: &[(&str, &str)] = &[("FullNoteQueue", "Queue"), ("NullElement", "Null")];

/// The classes that configurations may use.
pub fn classes() -> ClassTable {
    ClassTable { layers: LAYERS, aliases: ALIASES }
}
