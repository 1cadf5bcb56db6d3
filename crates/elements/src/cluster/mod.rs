//! Elements that make one router of several servers.

mod adjacencies;
mod alike;
mod classes;
mod cluster_switch;
mod cluster_wrap;
mod directly;
mod egress;
mod far;
mod frames;
mod ingress;
mod lanes;
mod links;
mod losses;
mod manners;
mod markers;
mod members;
mod outlet;
mod punts;
mod rates;
mod settings;
mod status;
mod switch;
mod table;
mod tags;
mod usual;
mod ways;

use graph::{AnyClass, of};

pub use cluster_switch::ClusterSwitch;
pub use cluster_wrap::ClusterWrap;

/// The classes of this layer.
pub(crate) static CLASSES: &[&dyn AnyClass] = &[&of::<ClusterSwitch>(), &of::<ClusterWrap>()];
