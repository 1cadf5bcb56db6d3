//! Daemons in network namespaces: FRR and BIRD, which route, and etcd.

mod bird;
mod etcd;
mod frr;
mod table;

pub use bird::Bird;
pub use etcd::Etcd;
pub use frr::Frr;
pub use table::{Family, SynthTable};
