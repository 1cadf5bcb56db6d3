//! `ClusterSwitch`: joins this node's lines and internal links: one router of several servers.
//!
//! One element of each node chooses the paths of packets that come in here, relays packets of other nodes, and puts in
//! order and sends out by the node's lines what comes for them (`docs/cluster.md`). All nodes have the same `NODES` or
//! `FLY`, `PORTS`, `CONTROL`, `ORDER`, `CLASSES` and `WORKERS`.
//!
//! Nodes are numbered from 0, lines of the whole cluster too: line `port` of node `n` is number `n * PORTS + port`. The
//! adjacencies that packets have been rewritten with say the line: an adjacency's output is the number of a line.
//!
//! # Arguments
//! - `NODE`: number of this node.
//! - `NODES`: nodes of a full mesh, at most. Or `FLY`: `k n` for a k-ary n-fly.
//! - `MEMBERS`: the nodes that there are, such as `0 1 2`; links to others carry nothing. Default: all.
//! - `PORTS`: lines of each node that has lines. Default 1.
//! - `LINKS`: the nodes at the other ends of the links, in the order of their inputs and outputs, such as `0 2 3`.
//!   Default: all neighbours, in ascending order.
//! - `LINE_RATE`: rate R of a line, such as `10Gbps`. Each frame counts 24 bytes more than it has, as on a wire.
//! - `LINK_RATE`: rate of all internal links; or a rate for each link of this node, in the order of `LINKS`, such as
//!   `10Gbps 1Gbps`. Default: what carries every admissible matrix, 2 `PORTS` R / k, with k links out of a node (the one to itself
//!   counts, and of a full mesh those to members).
//! - `RATES`: links of another rate than that, of any two nodes: `2 3 1Gbps`, perhaps several. Relays are weighed by their second
//!   links, too, so all nodes should know all of them.
//! - `ORDER`: `strict`, `flowlet`, `spray` or `single-path`. Default `strict`.
//! - `CLASSES`: up to three classes of packets that go in another order than `ORDER`, each a name, an order, and code points of
//!   differentiated services (DSCP, 0 to 63): `voice single-path 46 40 bulk spray 8`. They are used while all neighbours know
//!   what classes are.
//! - `POLICY`: `adaptive`, or to compare with it `direct-vlb`, `vlb` or `flow-hash`. Default `adaptive`.
//! - `ADJACENCIES`, `ADJACENCIES6`: the names of the tables that `AdjacencyRewrite` and `IP6AdjacencyRewrite` use, which then make
//!   frames for lines of other nodes with the cluster's header in place of the neighbour's. Default `main` and `main6`.
//! - `INTERFACES`: a name; those of its interfaces that are VLANs have tags, which frames to neighbours there get at the node that
//!   has the line. `routebricks cluster` publishes the VLANs of the control node's Linux in `main`. Ports are lines there.
//! - `CONTROL`: the node whose Linux is the control plane, until another one is. Default 0.
//! - `INCARNATION`: 0 to 15, another one each time that the node starts. Default 0.
//! - `HELLO`: how often each link carries a hello. After three missed ones it is down. Default 5 ms.
//! - `WORKERS`: workers of a node, at most. Default 1.
//! - `WINDOW`: numbers that a resequencer looks ahead. Default 1024 for each node, at least 4096.
//! - `DEADLINE`: how long a packet waits for earlier ones at least; if delays differ by more than half of it, twice the
//!   difference. Default 20 ms.
//! - `GAP`: packets of a flow less than this apart are one flowlet; 0 = twice the difference of delays, at least 10 ms.
//!   Default 100 ms.
//! - `BUFFER`: bytes that may wait for a link or line, for each input node. Default 256000. Where any order is `strict` no more than
//!   `WINDOW`/(2 `NODES`) packets, but at least 32, wait for a link: those of other ways would get too far ahead.
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
//! | p + L + line | optional: frames for the twin of each line of the cluster, while this is the control node |
//!
//! Links need an MTU that is 18 bytes above that of the lines, and devices that take in frames for any address (`PROMISC
//! true`).
//!
//! # Handlers
//! Tables have a line of headings; with `json` as parameter they are JSON.
//!
//! | name | | |
//! |---|---|---|
//! | `links` | r | for each link: the node at its end, up or down, its incarnation, its rate in bits per second, packets and bytes out, what waits |
//! | `lines` | r | for each line of the node: packets and bytes out, what waits |
//! | `shares` | r | for each node with lines and each link: the weight of the link on first ways to it |
//! | `traffic` | r | packets and bytes: for own lines, sent directly, sent to relays, relayed for others, received |
//! | `news` | r | in a fly: what every other node was last heard to say of its links: in which life, how long ago, how many are up; and whether it drains |
//! | `far_links` | r | in a fly: links of other nodes by which nothing is sent: who says so, and whether they are down or settle after they came up |
//! | `classes` | r | for each class, if there are `CLASSES`: its order, its code points, whether it is used, packets and bytes that came in to be sent to lines; the class `default` has all others |
//! | `streams` | r | for each input node: what its resequencer has delivered, holds, gave up and refused; spread of delays |
//! | `drain` | rw | true: the others send nothing by this node that is not for it, where another way leads there |
//! | `members` | rw | the nodes that there are |
//! | `rates` | rw | links of another rate than the others, as in `RATES` |
//! | `control` | rw | the node whose Linux is the control plane: frames that travel whole are from it, or for it |
//!
//! # Losses
//! At the input node:
//! - `unresolved`: the next hop has no adjacency any more.
//! - `no_line`: the adjacency is of a line that the cluster does not have, or its number exceeds 20 bits.
//! - `unreachable`: no path leads to the output node now.
//! - `link_full`: as many bytes as may wait are waiting for the link.
//! - `punt_share`: a frame that travels whole, and such frames take their share of the link already: a 32nd of its rate, and 64 KB at
//!   once, the second half of which is for routing protocols and neighbours (as `PuntLimiter` tells them).
//!
//! On links, a frame with a field out of range:
//! - `short`: shorter than an Ethernet header.
//! - `foreign`: no internal header.
//! - `version`: a version of the header that is not known here.
//! - `node`, `port`, `source`, `worker`: no such output node, line, input node, worker.
//! - `own`: from this node itself.
//! - `misrouted`: for another node though on its last way.
//! - `message`: neither hello nor marker.
//! - `news`: what a hello says of far links has a field out of range. The hello itself holds.
//!
//! At relays:
//! - `relay_full`: as many bytes of its input node as may wait are waiting for the link.
//! - `link_down`: the link to the output node is down, or went down while the packet waited.
//!
//! At the output node:
//! - `late`, `duplicate`, `out_of_window`, `wrong_incarnation`, `no_path`: refused by the resequencer.
//! - `stale`: the adjacency or its VLAN is not known here (any more), or is one of another line.
//! - `no_room`: the buffer has no room for VLAN tags.
//! - `line_full`: as many bytes of its input node as may wait are waiting for the line.
//! - `no_twin`: a frame that travels whole, and there is nobody to hand it to.
//!
//! # Example
//! A router of one node and one line: everything stays.
//! ```click
//! InfiniteSource(DATA \<45000014 00000000 4011a6e9 0a000001 0a010203>, LIMIT 5, STOP true) -> MarkIPHeader(0)
//!   -> GetIPAddress(16) -> rt :: DirectIPLookup(10.1.0.0/16 192.168.0.1 0, ONE_OUTPUT true)
//!   -> AdjacencyRewrite(rt, 0 192.168.0.1 2:0:0:0:0:1 2:0:0:0:0:2, ADJACENCIES main, ONE_OUTPUT true)
//!   -> cluster :: ClusterSwitch(NODE 0, NODES 1, LINE_RATE 1Gbps) -> c :: Counter -> Discard;
//! // c.count = 5
//! // cluster.drain = false
//! // cluster.members = 0
//! // cluster.control = 0
//! ```

use super::frames::framing;
use super::losses;
use super::members::Members;
use super::rates::Rates;
use super::settings::Settings;
use super::status::Status;
use super::switch::LocalClusterSwitch;
use crate::ip::interfaces;
use fib::{Adjacencies, FramingId, Interfaces};
use graph::{Args, Class, ConfigErrors, Configure, Handlers, LocalCx, Spec, State, value};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Debug)]
pub struct ClusterSwitch {
    settings: Arc<Settings>,
    pub(super) adjacencies: Arc<Adjacencies>,
    pub(super) adjacencies6: Arc<Adjacencies>,
    /// Of these two: what says with which headers frames cross the cluster.
    pub(super) framings: [FramingId; 2],
    /// What says which tags frames have.
    pub(super) interfaces: Option<Arc<Interfaces>>,
    drains: AtomicBool,
    /// The control node.
    control: AtomicU16,
    pub(super) members: Members,
    pub(super) status: Mutex<Status>,
}

impl Class for ClusterSwitch {
    const SPEC: Spec =
        Spec { losses: losses::NAMES, state: State::Home, ..Spec::new("ClusterSwitch", "1-/0-", "h/h") };
    type Local = LocalClusterSwitch;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ClusterSwitch, ConfigErrors> {
        let settings = Settings::read(args);
        let table = |args: &mut Args, keyword, default: &str| {
            let name = args.keyword(keyword, default.to_owned());
            cx.tables.get_or(&name, Adjacencies::default)
        };
        let adjacencies = table(args, "ADJACENCIES", "main");
        let adjacencies6 = table(args, "ADJACENCIES6", "main6");
        let interfaces = interfaces(args, cx);
        let (links, first_twin) = (settings.links.len(), settings.first_twin());
        let inputs = [links + 1, links + 2];
        let outputs = [first_twin, first_twin + settings.all_lines()];
        for (what, there, wanted) in [("input", cx.inputs, &inputs), ("output", cx.outputs, &outputs)] {
            if !wanted.contains(&there) {
                let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
                let wanted = wanted.join(" or ");
                args.error("NODE", format!("{there} {what}s, a node with {links} links has {wanted}"));
            }
        }
        args.finish()?;
        let (drains, status) = (AtomicBool::new(false), Mutex::default());
        let control = AtomicU16::new(settings.control);
        let members = Members::new(&settings.members, &settings.rates);
        let framings = [&adjacencies, &adjacencies6].map(|all| all.set_framing(framing(&settings)));
        let settings = Arc::new(settings);
        Ok(ClusterSwitch {
            settings,
            adjacencies,
            adjacencies6,
            framings,
            interfaces,
            drains,
            control,
            members,
            status,
        })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalClusterSwitch {
        LocalClusterSwitch::new(self.clone())
    }

    fn handlers(h: &mut Handlers<ClusterSwitch>) {
        h.read_with("links", |c, text| c.status().links(&c.settings).show(text));
        h.read_with("lines", |c, text| c.status().lines(&c.settings).show(text));
        h.read_with("shares", |c, text| c.status().shares(&c.settings).show(text));
        h.read_with("traffic", |c, text| c.status().traffic().show(text));
        h.read_with("news", |c, text| c.status().news(&c.settings).show(text));
        h.read_with("far_links", |c, text| c.status().far_links().show(text));
        h.read_with("classes", |c, text| c.status().classes(&c.settings).show(text));
        h.read_with("streams", |c, text| c.status().streams(&c.settings).show(text));
        h.read("drain", |c| c.drains().to_string());
        h.write("drain", |c, text, _| {
            c.drains.store(value(text)?, Relaxed);
            Ok(())
        });
        h.read("control", |c| c.control().to_string());
        h.write("control", |c, text, _| {
            c.control.store(c.settings.read_control(text)?, Relaxed);
            Ok(())
        });
        h.read("members", |c| c.members.text());
        h.write("members", |c, text, _| {
            c.members.set(c.settings.read_members(text)?);
            Ok(())
        });
        h.read("rates", |c| c.members.get().1.text());
        h.write("rates", |c, text, _| {
            c.members.set_rates(Rates::parse(text, &c.settings.topology)?);
            Ok(())
        });
    }
}

impl ClusterSwitch {
    /// What the configuration says.
    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The node whose Linux is the control plane now.
    pub(super) fn control(&self) -> u16 {
        self.control.load(Relaxed)
    }

    /// The others are asked to send nothing by this node that is not for it.
    pub(super) fn drains(&self) -> bool {
        self.drains.load(Relaxed)
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
