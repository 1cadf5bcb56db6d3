//! `ClusterSwitch`: joins this node's lines and internal links: one router of several servers.
//!
//! One element of each node chooses the paths of packets that come in here, relays packets of other nodes, and puts in
//! order and sends out by the node's lines what comes for them (`docs/cluster.md`). All nodes have the same `NODES` or
//! `FLY`, `PORTS`, `CONTROL`, `ORDER` and `WORKERS`.
//!
//! Nodes are numbered from 0, lines of the whole cluster too: line `port` of node `n` is number `n * PORTS + port`. The
//! adjacencies that packets have been rewritten with say the line: an adjacency's output is the number of a line.
//!
//! # Arguments
//! - `NODE`: number of this node.
//! - `NODES`: nodes of a full mesh. Or `FLY`: `"k n"` for a k-ary n-fly.
//! - `PORTS`: lines of each node that has lines. Default 1.
//! - `LINKS`: the nodes at the other ends of the links, in the order of their inputs and outputs, such as `"0 2 3"`.
//!   Default: all neighbours, in ascending order.
//! - `LINE_RATE`: rate R of a line, such as `10Gbps`. Each frame counts 24 bytes more than it has, as on a wire.
//! - `LINK_RATE`: rate of an internal link. Default: what carries every admissible matrix, 2 `PORTS` R / k, with k links
//!   out of a node (the one to itself counts).
//! - `ORDER`: `strict`, `flowlet`, `spray` or `single-path`. Default `strict`.
//! - `POLICY`: `adaptive`, or to compare with it `direct-vlb`, `vlb` or `flow-hash`. Default `adaptive`.
//! - `ADJACENCIES`, `ADJACENCIES6`: the names of the tables that `AdjacencyRewrite` and `IP6AdjacencyRewrite` use. Default
//!   `main` and `main6`.
//! - `CONTROL`: the node whose Linux is the control plane. Default 0.
//! - `INCARNATION`: 0 to 15, another one each time that the node starts. Default 0.
//! - `HELLO`: how often each link carries a hello. After three missed ones it is down. Default 5 ms.
//! - `WORKERS`: workers of a node, at most. Default 1.
//! - `WINDOW`: numbers that a resequencer looks ahead. Default 4096.
//! - `DEADLINE`: how long a packet waits for earlier ones at least; if delays differ by more than half of it, twice the
//!   difference. Default 20 ms.
//! - `GAP`: packets of a flow less than this apart are one flowlet; 0 = twice the difference of delays, at least 10 ms.
//!   Default 100 ms.
//! - `BUFFER`: bytes that may wait for a link or line, for each input node. Default 256000.
//!
//! # Ports
//! Inputs, all push, L being the number of links:
//!
//! | input | |
//! |---|---|
//! | 0 | packets for all lines: frames that `AdjacencyRewrite` or `IP6AdjacencyRewrite` made, with `ONE_OUTPUT true` |
//! | 1 to L | what comes in by the links, in the order of `LINKS` |
//! | L + 1 | optional: frames that travel whole, from `ClusterWrap` |
//!
//! Outputs, all push, p being `PORTS`, or 0 at a node without lines:
//!
//! | output | |
//! |---|---|
//! | 0 to p - 1 | the node's lines |
//! | p to p + L - 1 | its links, in the order of `LINKS` |
//! | p + L + line | at the control node, optional: frames for the twin of each line of the cluster |
//!
//! Links need an MTU that is 18 bytes above that of the lines, and devices that take in frames for any address (`PROMISC
//! true`).
//!
//! # Handlers
//! Tables have a line of headings; with `json` as parameter they are JSON.
//!
//! | name | | |
//! |---|---|---|
//! | `links` | r | for each link: the node at its end, up or down, its incarnation, packets and bytes out, what waits |
//! | `lines` | r | for each line of the node: packets and bytes out, what waits |
//! | `shares` | r | for each node with lines and each link: the weight of the link on first ways to it |
//! | `traffic` | r | packets and bytes: for own lines, sent directly, sent to relays, relayed for others, received |
//! | `streams` | r | for each input node: what its resequencer has delivered, holds, gave up and refused; spread of delays |
//! | `drain` | rw | true: the others choose this node as relay no more |
//!
//! # Losses
//! At the input node:
//! - `unresolved`: the next hop has no adjacency any more.
//! - `no_line`: the adjacency is of a line that the cluster does not have, or its number exceeds 20 bits.
//! - `unreachable`: no path leads to the output node now.
//! - `link_full`: as many bytes as may wait are waiting for the link.
//!
//! On links, a frame with a field out of range:
//! - `short`: shorter than an Ethernet header.
//! - `foreign`: no internal header.
//! - `version`: a version of the header that is not known here.
//! - `node`, `port`, `source`, `worker`: no such output node, line, input node, worker.
//! - `own`: from this node itself.
//! - `misrouted`: for another node though on its last way.
//! - `message`: neither hello nor marker.
//!
//! At relays:
//! - `relay_full`: as many bytes of its input node as may wait are waiting for the link.
//! - `link_down`: the link to the output node is down, or went down while the packet waited.
//!
//! At the output node:
//! - `late`, `duplicate`, `out_of_window`, `wrong_incarnation`, `no_path`: refused by the resequencer.
//! - `stale`: the adjacency is not known here (any more), or is one of another line.
//! - `line_full`: as many bytes of its input node as may wait are waiting for the line.
//! - `no_twin`: a frame that travels whole, and there is nobody to hand it to.
//!
//! # Example
//! Two nodes in one configuration, joined by a link each way.
//! ```click
//! Script(TYPE ACTIVE, stop);
//! ```
