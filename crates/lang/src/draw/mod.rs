//! A flat configuration as a picture (SVG), as Graphviz dot, and as JSON.

mod dot;
mod json;
mod layout;
mod order;
mod svg;

pub use dot::dot;
pub use json::json;
pub use svg::svg;

/// How a port works, for the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Drawn black.
    Push,
    /// Drawn white.
    Pull,
    /// Drawn grey: not resolved, or not known.
    Agnostic,
}

/// Tells how a port works: element index, whether it is an output, port number.
pub type Kinds<'a> = dyn Fn(usize, bool, u32) -> PortKind + 'a;
