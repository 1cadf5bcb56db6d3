//! Netlink messages: framing, what they say, and requests.

pub mod decode;
pub mod make;
pub mod message;
pub mod netconf;
pub mod numbers;
pub mod request;
mod rule;
pub mod wire;

pub use decode::decode;
pub use message::{
    Action, Address, Hop, Hops, Kind, LOCAL_TABLE, Link, MAIN_TABLE, Message, Neighbour, NextHopObject,
    ObjectTarget, Route, RouteExtras, Rule, Selection,
};
pub use netconf::{ALL, Netconf, PolledSettings, polled};
