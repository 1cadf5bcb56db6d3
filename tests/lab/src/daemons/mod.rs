//! Routing daemons in network namespaces: FRR and BIRD.

mod bird;
mod frr;
mod table;

pub use bird::Bird;
pub use frr::Frr;
pub use table::{Family, SynthTable};
