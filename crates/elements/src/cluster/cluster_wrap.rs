//! `ClusterWrap`: wraps frames that are to cross the cluster whole: for and from the Linux of the control node.
//!
//! At the control node they are frames that Linux sends on the twin of a line, and go to the node that has the line and out
//! by it. At the other nodes they are frames of a line that are for the router itself, and go to the control node and to the
//! line's twin. In front of each comes an Ethernet header of internal links, with an EtherType of its own
//! (`docs/cluster.md`).
//!
//! # Arguments
//! - `SWITCH`: the node's `ClusterSwitch`.
//! - `LINE`: the number of the line in the whole cluster.
//!
//! # Ports
//! One input, one output, to the last input of the `ClusterSwitch`; push or pull.
//!
//! # Losses
//! - `no_room`: the buffer has no room for 14 bytes more.
//!
