//! Longest-prefix match for IPv4 and IPv6.
//!
//! ```text
//!  RouteChange ─▶ RouteTable ─▶ Rib ─▶ Fib (one of the structures below) ◀─ lookup_batch ─ workers
//!                     └─▶ NextHops (gateway, port) by number  ◀────────────── next_hops ───┘
//! ```
//!
//! [`RouteTable`] is what a router uses: transactions on one side, lookups without locks on the other. Which
//! structure answers the lookups is a choice behind the [`Fib`] trait:
//!
//! | | families | lookup | update | memory of a full table, IPv4 | IPv6 |
//! |---|---|---|---|---|---|
//! | [`Dir24_8`] | IPv4 | one access, three below /24 | in place | 9 MB (up to 14 next hops), 18 MB (254), 35 MB (65,534), 69 MB | |
//! | [`RangeTree`] | both, best for IPv6 | one to four accesses and searches of a node | in place | 30 MB | 8 MB |
//! | [`Poptrie`] | both | one to four accesses (IPv4), in small memory | new trie each time | 5 MB | 3 MB |
//! | [`Radix`] | both | one access for each bit that decides | copies a path | none beside the RIB | none |
//! | [`LinearTable`] | both | one access for each route | new list each time | 11 MB | 8 MB |
//!
//! A table can be moved to another structure while it is looked up in, by [name](RouteTable::use_structure) or to the one that is
//! [the quickest](RouteTable::use_quickest) for its routes on the machine.
//!
//! The RIB beside it holds 20 MB (IPv4). A million routes are parsed from text and built into a [`Dir24_8`] in less than 0.4 s on one
//! core (`cargo bench -p fib`).
//!
//! [`RouteCounts`] say how many packets each route was looked up for, if someone [wants](RouteTable::count_routes) to know.
//!
//! [`Adjacencies`] say what a frame to each next hop begins with and where it leaves.
//!
//! A [`HopGroup`] spreads flows over several next hops, by weight, and moves as few as possible when they change. To the
//! table of routes it is one next hop; [`Adjacencies`] know which numbers stand for groups ([`Forwarding::choose`]).
//!
//! [`Interfaces`] say which VLANs of which ports there are, and which of them are in a VRF: each [`Vrf`] has tables of its own.
//!
//! Tables also come from text ([`RouteFile`]), from MRT dumps ([`read_mrt`]) and out of thin air ([`synth()`]);
//! [`stat4`] and [`stat6`] say what they are like.
// But for the module `simd`.
#![deny(unsafe_code)]

mod adjacency;
mod dir24_8;
mod group;
mod interfaces;
mod linear;
mod lookup;
mod mrt;
mod narrow;
mod next_hop;
mod poptrie;
mod prefix;
mod radix;
mod random;
mod range_tree;
mod rib;
mod route_counts;
mod route_file;
mod route_table;
mod simd;
mod stat;
mod structure;
mod synth;
mod unread;

pub use adjacency::{
    Adjacencies, Adjacency, AdjacencyChanges, AdjacencyEvent, AdjacencySnapshot, AdjacencyWatch, Forwarding,
    FramingId,
};
pub use dir24_8::Dir24_8;
pub use group::{GroupError, HopGroup, Member};
pub use interfaces::{
    InVrf, Interface, InterfaceChange, InterfaceCounts, InterfaceMap, InterfaceSettings, InterfaceWatch,
    Interfaces, SourceCheck, Tags, Vrf,
};
pub use linear::LinearTable;
pub use lookup::{Beginnings, Fib, FirstLevel, MemoryPart};
pub use mrt::{MrtDump, MrtError, read_mrt, write_mrt};
pub use next_hop::{NextHop, NextHopId, NextHops, TooManyNextHops};
pub use poptrie::Poptrie;
pub use prefix::{Address, Family, Prefix, Prefix4, Prefix6, PrefixError};
pub use radix::Radix;
pub use random::Random;
pub use range_tree::RangeTree;
pub use rib::{Iter, Rib};
pub use route_counts::{RouteCount, RouteCounts};
pub use route_file::{LineError, MAX_ERRORS, ReadError, RouteError, RouteFile, RouteFileErrors};
pub use route_table::{
    ApplyError, ChangeError, RebuildLimit, Route, RouteChange, RouteEvent, RouteSnapshot, RouteTable,
    RouteWatch, UnfitStructure, UnknownNumber,
};
pub use stat::{LengthRow, MemoryRow, TableStat, stat4, stat6};
pub use structure::{Cost, Structure, Structured, UnknownStructure};
pub use synth::{MAX_ROUTES, Synth, SynthError, synth};
pub use unread::Unread;
