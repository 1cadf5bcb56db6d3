//! Several servers as one router.
//!
//! N servers (nodes), each with external lines, are joined by internal links. A packet enters at its input node, is looked
//! up there and nowhere else, and crosses to its output node directly or through one other node (Valiant load
//! balancing). This crate is the arithmetic of that: no I/O, no clocks, no packets. Time is an argument, in nanoseconds
//! of any monotonic clock of this node; lengths are bytes; rates are bits per second.
//!
//! ```text
//!  input node                                relay                 output node
//!  ──────────                                ─────                 ───────────
//!  PathChooser: direct, or via whom    ┌──▶  Drr by input  ──┐     Resequencer: puts streams in order
//!  Numbering: numbers, markers    ─────┤     node            ├──▶  Drr by input node, to the line
//!  Header: where to, in 12 bytes       └─────────────────────┘
//!                    Liveness on every link: who is there; Shares: what that leaves
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | [`header`] | the Ethernet header of internal links: 46 bits in each address |
//! | [`class`] | classes of traffic, as that header says them |
//! | [`message`] | hellos and markers |
//! | [`topology`] | full mesh and k-ary n-fly: links, forwarding, external ports |
//! | [`shares`] | how traffic is split over paths when links differ or are down, and what load that can carry |
//! | [`path`] | the choice of a path for each packet: our rule and three to compare with |
//! | [`spread`] | the even split over paths that it rests on |
//! | [`flowlet`] | keeping bursts of a flow on one path |
//! | [`utilisation`] | what a link has carried |
//! | [`numbering`] | sequence numbers at the input node, and markers for idle paths |
//! | [`overhead`] | what of a link is not for traffic |
//! | [`resequence`] | putting a stream back in order at the output node |
//! | [`delay`] | how far apart the delays of paths are: what deadlines are made of |
//! | [`liveness`] | hellos: is the peer there, does it hear us |
//! | [`news`] | in a fly: which far links are down |
//! | [`election`] | which node is the control node, when a store with leases has the last word |
//! | [`fairness`] | deficit round robin, max-min shares, Jain's index |
//! | [`reorder`] | how much reordering: the paper's measure, RFC 4737, RFC 5236 |
//! | [`model`] | a cluster in virtual time, made of all of the above |
#![forbid(unsafe_code)]

pub mod class;
pub mod delay;
pub mod election;
pub mod fairness;
pub mod flowlet;
pub mod header;
pub mod liveness;
pub mod message;
pub mod model;
pub mod news;
pub mod numbering;
pub mod overhead;
pub mod path;
pub mod random;
pub mod reorder;
pub mod resequence;
pub mod shares;
pub mod spread;
pub mod topology;
pub mod utilisation;
