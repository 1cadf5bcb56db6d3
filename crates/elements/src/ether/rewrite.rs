//! What `AdjacencyRewrite` and `IP6AdjacencyRewrite` have in common: everything but the network header.

use super::adjacency_arg::{AdjacencyArg, Target, addresses, hop_text, read_hop};
use super::fence::{Fence, Verdict};
use super::leave::{Leave, Others, Outputs};
use crate::ip::interfaces;
use crate::ip::route_arg::RouteAddress;
use fib::{
    Adjacencies, Adjacency, AdjacencyChanges, Forwarding, HopGroup, Interface, InterfaceMap, Interfaces,
    NextHop, NextHopId, RouteTable, Tags,
};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Loss, Nanos, NodeId,
    Out, Span, Spec, Text, Up, Way,
};
use lang::args::Words;
use packet::wire::ethernet;
use packet::{Batch, Packet};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const NO_HEADER: Loss = Loss(0);
const UNRESOLVED: Loss = Loss(1);
const EXPIRED: Loss = Loss(2);
const TOO_LONG: Loss = Loss(3);
const NO_ROOM: Loss = Loss(4);
const BLACKHOLE: Loss = Loss(5);
const SETTLING: Loss = Loss(6);
/// The port of the next hop that stands for Linux itself, in tables that `control` publishes.
const LINUX: u32 = u32::MAX;
/// Bytes of an Ethernet header.
pub const ETHERNET: usize = Adjacency::HEADER_LEN;
/// Where the network header is behind it.
const AT: u16 = ETHERNET as u16;

/// The network header of the packets that are rewritten.
pub trait Network: Send + Sync + 'static {
    /// Of destinations.
    type Address: RouteAddress;
    /// Class name.
    const CLASS: &'static str;
    /// EtherType.
    const ETHERTYPE: u16;
    /// The least length of the network header.
    const HEADER: usize;

    /// The table of the element that looks up routes.
    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<Self::Address>>>;

    /// Does what nearly all packets need of those that begin with an Ethernet header, to be replaced, and the network header.
    /// `None`, and nothing changed, if the packet is too short or needs more, or the adjacency cannot be used.
    /// `PLAIN`: the packet has a [plain TTL](Batch::has_plain_ttls).
    fn rewrite_usual<const PLAIN: bool>(packet: &mut Packet, adjacency: &Adjacency) -> Option<()>;

    /// Takes one from the TTL or hop limit; false, and nothing changed, if it is 1 or 0. `None` without a header.
    fn decrement(packet: &mut Packet) -> Option<bool>;

    /// A number that is the same for all packets of a flow.
    fn flow_hash(packet: &Packet) -> Option<u32>;

    /// A number that stands for the destination, not 0. `None` without a header.
    fn destination(packet: &Packet) -> Option<u64>;
}

/// See the modules of the classes.
pub struct NextHops<N: Network> {
    lookup: (NodeId, Span),
    routes: OnceLock<Arc<RouteTable<N::Address>>>,
    adjacencies: Arc<Adjacencies>,
    interfaces: Option<Arc<Interfaces>>,
    given: Vec<AdjacencyArg<N>>,
    outputs: usize,
    /// All packets that are rewritten leave by output 0.
    one_output: bool,
    expired: Option<usize>,
    unresolved: Option<usize>,
    too_long: Option<usize>,
    /// How long packets are held behind those that were diverted: see [`Fence`].
    settle: Nanos,
}

/// One worker's part of [`NextHops`].
pub struct LocalNextHops<N: Network> {
    shared: Arc<NextHops<N>>,
    worker: usize,
    /// The output of each packet of a batch. Of no meaning between calls.
    outputs_of: Vec<u16>,
    fence: Fence,
}

impl<N: Network> Class for NextHops<N> {
    const SPEC: Spec = Spec {
        losses: &["no_header", "unresolved", "expired", "too_long", "no_room", "blackhole", "settling"],
        ..Spec::new(N::CLASS, "1/1-", "h/h")
    };
    type Local = LocalNextHops<N>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<NextHops<N>, ConfigErrors> {
        let name: String = args.required("LOOKUP");
        let lookup = cx.element(&name);
        if lookup.is_none() {
            args.error("LOOKUP", format!("no element named '{name}'"));
        }
        let lookup = (lookup.unwrap_or(NodeId::new(0)), args.span_of("LOOKUP"));
        let outputs = cx.outputs;
        let one_output = args.keyword("ONE_OUTPUT", false);
        let [expired, unresolved, too_long] = ["EXPIRED", "UNRESOLVED", "TOO_LONG"].map(|keyword| {
            let output: usize = args.keyword_if_given(keyword)?;
            if output >= outputs {
                args.error(keyword, format!("no output {output}, there are {outputs}"));
            }
            Some(output)
        });
        let settle = args.keyword("SETTLE", Duration::ZERO);
        let settle = Nanos::try_from(settle.as_nanos()).unwrap_or(Nanos::MAX);
        let adjacencies = match args.keyword_if_given::<String>("ADJACENCIES") {
            Some(name) => cx.tables.get_or(&name, Adjacencies::default),
            None => Arc::default(),
        };
        let interfaces = interfaces(args, cx);
        let given = args.rest::<AdjacencyArg<N>>("ADJACENCY");
        // Which VLANs there are is not known yet.
        for arg in given.iter().filter(|_| !one_output && interfaces.is_none()) {
            if let Err(message) = arg.fits(outputs) {
                args.error_at(arg.port_span, format!("ADJACENCY: {message}"));
            }
        }
        args.finish()?;
        let routes = OnceLock::new();
        Ok(NextHops {
            lookup,
            routes,
            adjacencies,
            interfaces,
            given,
            outputs,
            one_output,
            expired,
            unresolved,
            too_long,
            settle,
        })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (node, span) = self.lookup;
        let routes = N::table(cx, node).ok_or_else(|| {
            let version = if N::ETHERTYPE == ethernet::IPV4 { 4 } else { 6 };
            ConfigErrors::new(span, format!("LOOKUP: not an element that looks up IPv{version} routes"))
        })?;
        // Initialised once, before anything asks for the table.
        let _ = self.routes.set(routes);
        self.set(&self.given).map_err(|e| ConfigErrors::new(span, format!("ADJACENCY: {e}")))
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalNextHops<N> {
        let fence = Fence::new(if self.unresolved.is_some() { self.settle } else { 0 });
        LocalNextHops { shared: self.clone(), worker: cx.worker, outputs_of: vec![0; Batch::MAX], fence }
    }

    fn handlers(h: &mut Handlers<NextHops<N>>) {
        h.read("table", Self::text);
        h.read("groups", Self::groups_text);
        h.read_with("lookup", |a, text| {
            let hop = read_hop::<N>(text)?;
            Ok(a.adjacencies.get(hop).map_or_else(|| "-".to_owned(), |adjacency| addresses(&adjacency)))
        });
        h.write("set", |a, text, _| {
            a.changeable()?;
            let text = Text::verbatim(text.trim(), Span::default());
            let arg = AdjacencyArg::from_words(Words::new(&text)).map_err(|e| e.message)?;
            if !a.one_output && a.interfaces.is_none() {
                arg.fits(a.outputs)?;
            }
            a.set(&[arg])
        });
        h.write("remove", |a, text, _| {
            a.changeable()?;
            let hop = read_hop::<N>(text)?;
            if a.adjacencies.get(hop).is_none() && a.adjacencies.group(hop).is_none() {
                return Err("no such adjacency".to_owned());
            }
            a.change(AdjacencyChanges { adjacencies: vec![(hop, None)], groups: vec![(hop, None)] });
            Ok(())
        });
    }
}

impl<N: Network> NextHops<N> {
    /// An error if somebody else fills the table.
    fn changeable(&self) -> Result<(), String> {
        self.adjacencies.owner().map_or(Ok(()), |instead| Err(instead.to_owned()))
    }

    fn set(&self, args: &[AdjacencyArg<N>]) -> Result<(), String> {
        let mut changes = AdjacencyChanges::default();
        for arg in args {
            match &arg.to {
                Target::Neighbour(source, destination) => {
                    let tagged = self.port_below(arg.hop.port)?;
                    changes.adjacencies.push((arg.hop, arg.adjacency(*source, *destination, tagged)));
                }
                Target::Group(members) => changes.groups.push((arg.hop, Some(self.group(arg.hop, members)?))),
            }
        }
        self.change(changes);
        Ok(())
    }

    /// The port below the VLAN with this number; `None` if it is a port itself.
    fn port_below(&self, number: u32) -> Result<Option<u16>, String> {
        let Some(interfaces) = &self.interfaces else { return Ok(None) };
        let below = |one: &Interface| (!one.tags.is_empty()).then_some(one.port);
        let tagged = interfaces.with(|map| map.get(number).and_then(below));
        if tagged.is_none() && !self.one_output && number as usize >= self.outputs {
            return Err(format!("port: no output or VLAN {number}, there are {} outputs", self.outputs));
        }
        Ok(tagged)
    }

    fn group(&self, hop: NextHop, members: &[(NextHop, u32)]) -> Result<HopGroup, String> {
        let hops: Vec<NextHop> = members.iter().map(|(hop, _)| *hop).collect();
        let numbers = self.routes.get().map(|routes| routes.numbers(&hops));
        let numbers = numbers.unwrap_or(Ok(Vec::new())).map_err(|e| e.to_string())?;
        let members: Vec<_> = numbers.into_iter().zip(members).map(|(number, (_, w))| (number, *w)).collect();
        // One that is there is changed, so that flows stay with the members that stay.
        if let Some(mut group) = self.adjacencies.group(hop) {
            group.set_members(&members).map_err(|e| e.to_string())?;
            return Ok(group);
        }
        let buckets = HopGroup::buckets_for(members.iter().map(|(_, weight)| *weight));
        HopGroup::new(buckets, &members).map_err(|e| e.to_string())
    }

    fn change(&self, changes: AdjacencyChanges) {
        let hops = self.routes.get().map(|routes| routes.next_hop_list()).unwrap_or_default();
        self.adjacencies.change(changes, &hops);
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (hop, adjacency) in self.adjacencies.known() {
            let _ = writeln!(text, "{} {}", hop_text(&hop), addresses(&adjacency));
        }
        text
    }

    fn groups_text(&self) -> String {
        let hops = self.routes.get().map(|routes| routes.next_hop_list()).unwrap_or_default();
        let mut text = String::new();
        for (hop, group) in self.adjacencies.known_groups() {
            let _ = write!(text, "group {}", hop_text(&hop));
            for member in group.members() {
                let hop = hops.get(member.hop.index()).map(hop_text).unwrap_or_default();
                let _ = write!(text, " {hop} {} ({})", member.weight, member.buckets);
            }
            text.push('\n');
        }
        text
    }

    /// Notes on packets of groups which member they go to, and takes out those that are too long for their output.
    #[inline(never)]
    fn prepare(&self, batch: &mut Batch, forwarding: &Forwarding, out: &mut Out<'_>) {
        if forwarding.has_groups() {
            for packet in batch.iter_mut() {
                let number = forwarding.choose(packet.next_hop(), || flow_hash::<N>(packet));
                packet.set_next_hop(number);
            }
        }
        let (longest, least) = (batch.longest(), usize::from(forwarding.least_mtu()));
        // Nearly always packets begin with the Ethernet header.
        if longest > least && (longest > least + ETHERNET || !batch.have_network_at(AT)) {
            let fits = |p: &mut Packet| if is_too_long(p, forwarding) { Err(()) } else { Ok(()) };
            batch.sift(fits, |packet, ()| {
                self.refuse(packet, TOO_LONG, out);
                None
            });
        }
    }

    /// A packet that needs more than most, and the output that it leaves by: `None` if it does not go on.
    #[inline(never)]
    fn rewrite_other(
        &self,
        mut packet: Packet,
        (worker, fence): (usize, &mut Fence),
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Option<(Packet, u16)> {
        let number = packet.next_hop() as usize;
        if number >= self.adjacencies.read(cx.reader).list().len()
            && let Some(routes) = self.routes.get()
        {
            self.adjacencies.cover(routes.next_hops(cx.reader));
        }
        let forwarding = self.adjacencies.read(cx.reader);
        let number = forwarding.choose(packet.next_hop(), || flow_hash::<N>(&packet));
        packet.set_next_hop(number);
        if fence.is_active(cx.now)
            && let Verdict::Hold(until) = verdict::<N>(fence, &packet, forwarding.list(), cx.now)
        {
            // Its neighbour became usable between the packets of this batch.
            hold(fence, packet, until, out);
            return None;
        }
        let done = match is_too_long(&packet, forwarding) {
            true => Err(TOO_LONG),
            false => {
                let map = self.interfaces.as_ref().map(|interfaces| interfaces.read(cx.reader));
                let list = forwarding.list();
                rewrite::<N>(&mut packet, list, map, (!self.one_output).then_some(worker))
            }
        };
        match done {
            Ok(output) => Some((packet, output)),
            Err(loss) => {
                if loss == UNRESOLVED
                    && self.has_neighbour(&packet, cx)
                    && let Some(key) = N::destination(&packet)
                {
                    fence.note(key, cx.now);
                }
                self.refuse(packet, loss, out);
                None
            }
        }
    }

    /// Whether the route of a packet leads to a neighbour, known or not: where it leads to Linux itself nothing will go directly.
    fn has_neighbour(&self, packet: &Packet, cx: &Cx<'_>) -> bool {
        let hop = NextHopId::from_bits(packet.next_hop());
        let hops = self.routes.get().map(|routes| routes.next_hops(cx.reader));
        let hop = hop.zip(hops).and_then(|(hop, hops)| hops.get(hop.index()));
        hop.is_some_and(|hop| hop.port != LINUX)
    }

    fn refuse(&self, packet: Packet, loss: Loss, out: &mut Out<'_>) {
        let output = match loss {
            EXPIRED => self.expired,
            UNRESOLVED => self.unresolved,
            TOO_LONG => self.too_long,
            _ => None,
        };
        match output {
            Some(output) => out.reject(output, packet, loss),
            None => out.lose(packet, loss),
        }
    }
}

/// Not that of the device, which knows nothing of what an ICMP error is about, and may be another one at the next port.
fn flow_hash<N: Network>(packet: &Packet) -> u32 {
    N::flow_hash(packet).unwrap_or(0)
}

/// Whether a packet has to wait behind others to its destination.
fn verdict<N: Network>(fence: &mut Fence, packet: &Packet, list: &[Adjacency], now: Nanos) -> Verdict {
    let is_usable = list.get(packet.next_hop() as usize).is_some_and(Adjacency::is_usable);
    N::destination(packet).map_or(Verdict::Pass, |key| fence.verdict(key, is_usable, now))
}

#[cold]
fn hold(fence: &mut Fence, packet: Packet, until: Nanos, out: &mut Out<'_>) {
    match fence.hold(packet, until) {
        Ok(()) => fence.due().into_iter().for_each(|due| out.wake_at(due)),
        Err(packet) => out.lose(packet, SETTLING),
    }
}

fn is_too_long(packet: &Packet, forwarding: &Forwarding) -> bool {
    let length = packet.len() - packet.network_offset().unwrap_or(0).min(packet.len());
    forwarding.longest(packet.next_hop()).is_some_and(|longest| length > usize::from(longest))
}

/// Does all that is to be done to a packet, or says why it cannot be done; then the packet is as it came. Returns its
/// output. Frames that are to have tags get them here if this is the `worker` that counts them, else from `ClusterSwitch`.
fn rewrite<N: Network>(
    packet: &mut Packet,
    all: &[Adjacency],
    map: Option<&InterfaceMap>,
    worker: Option<usize>,
) -> Result<u16, Loss> {
    let adjacency = all.get(packet.next_hop() as usize).unwrap_or(&Adjacency::UNRESOLVED);
    let offset = packet.network_offset().ok_or(NO_HEADER)?;
    if packet.data().len() < offset + N::HEADER {
        return Err(NO_HEADER);
    }
    if !adjacency.is_usable() {
        return Err(if *adjacency == Adjacency::BLACKHOLE { BLACKHOLE } else { UNRESOLVED });
    }
    let interface = match adjacency.is_plain() {
        true => None,
        // Between the removal of a VLAN and that of its neighbours they are as good as unknown.
        false => Some(map.and_then(|map| map.get(adjacency.interface().into())).ok_or(UNRESOLVED)?),
    };
    let here = interface.zip(worker);
    let tags = here.map_or(Tags::NONE, |(interface, _)| interface.tags);
    let len = ETHERNET + tags.len();
    if offset + packet.headroom() < len {
        return Err(NO_ROOM);
    }
    if !N::decrement(packet).ok_or(NO_HEADER)? {
        return Err(EXPIRED);
    }
    let moved = if offset < len { packet.push(len - offset) } else { packet.pull(offset - len) };
    let link = packet.data_mut().get_mut(..len).filter(|_| moved).ok_or(NO_ROOM)?;
    put_link(link, adjacency, tags, N::ETHERTYPE);
    if let Some((interface, worker)) = here
        && let Some(tally) = interface.counts.sent.iter().nth(worker)
    {
        tally.add(1, packet.len() as u64);
    }
    packet.set_mac_offset(0);
    Ok(adjacency.port())
}

/// Writes addresses, tags and EtherType.
fn put_link(link: &mut [u8], adjacency: &Adjacency, tags: Tags, ethertype: u16) {
    let (addresses, rest) = link.split_at_mut(ETHERNET - 2);
    addresses.copy_from_slice(&adjacency.header[..ETHERNET - 2]);
    let (between, last) = rest.split_at_mut(tags.len());
    between.copy_from_slice(tags.bytes());
    last.copy_from_slice(&ethertype.to_be_bytes());
}

impl<N: Network> NextHops<N> {
    /// Rewrites the packets of a batch. `PLAIN`: all have [plain TTLs](Batch::has_plain_ttls). `ONE`: nobody asks for their outputs;
    /// else those of packets to several next hops, none of them unusual, are written to `outputs_of`.
    #[inline(always)]
    fn rewrite_all<const PLAIN: bool, const ONE: bool>(
        &self,
        batch: &mut Batch,
        adjacencies: &[Adjacency],
        outputs_of: &mut [u16],
        (worker, fence): (usize, &mut Fence),
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) -> Leave {
        let mut others = Others::NONE;
        let other = |packet: Packet| {
            others.some = true;
            let (packet, output) = self.rewrite_other(packet, (worker, fence), cx, out)?;
            others.outputs = others.outputs.and(output);
            Some(packet)
        };
        let only = batch.only_next_hop::<AT>().and_then(|next_hop| adjacencies.get(next_hop as usize));
        if let Some(&adjacency) = only.filter(|adjacency| adjacency.is_plain()) {
            // A copy, which stays in registers.
            batch.sift_routed::<AT>(|packet, _| N::rewrite_usual::<PLAIN>(packet, &adjacency), other);
            let output = adjacency.output;
            return if others.some { others.beside(Outputs::NONE.and(output)) } else { Leave::By(output) };
        }
        let mut places = outputs_of.iter_mut();
        let usual = |packet: &mut Packet, next_hop: u32| {
            let adjacency = adjacencies.get(next_hop as usize)?;
            N::rewrite_usual::<PLAIN>(packet, adjacency)?;
            if !ONE {
                places.next().into_iter().for_each(|place| *place = adjacency.output);
            }
            Some(())
        };
        batch.sift_routed::<AT>(usual, other);
        if !others.some {
            return Leave::Apart { unusual: false };
        }
        let rest = places.len();
        let written = &outputs_of[..outputs_of.len() - rest];
        others.beside(written.iter().fold(Outputs::NONE, |outputs, output| outputs.and(*output)))
    }

    /// Rewrites the packets of a batch, which all leave by output 0.
    #[inline(never)]
    fn push_to_one(
        &self,
        mut batch: Batch,
        forwarding: &Forwarding,
        local: (usize, &mut Fence),
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let adjacencies = forwarding.list();
        match batch.has_plain_ttls() {
            true => self.rewrite_all::<true, true>(&mut batch, adjacencies, &mut [], local, cx, out),
            false => self.rewrite_all::<false, true>(&mut batch, adjacencies, &mut [], local, cx, out),
        };
        batch.note_framed(forwarding.version());
        out.emit(0, batch);
    }

    /// Sends packets by several outputs, some of them unusual.
    #[inline(never)]
    fn send_unusual(&self, batch: Batch, adjacencies: &[Adjacency], cx: &Cx<'_>, out: &mut Out<'_>) {
        // The list may have grown meanwhile.
        let newer = self.adjacencies.read(cx.reader).list();
        out.split(batch, |p| {
            let number = p.next_hop() as usize;
            let usable = |list: &[Adjacency]| list.get(number).copied().filter(Adjacency::is_usable);
            let found = usable(adjacencies).or_else(|| usable(newer));
            found.map_or(Way::Lost(UNRESOLVED), |a| Way::Port(a.port().into()))
        });
    }
}

/// What a worker has of its own: its number, room for outputs, and what is held.
type Local<'a> = (usize, &'a mut [u16], &'a mut Fence);

impl<N: Network> NextHops<N> {
    /// Sends on packets whose groups and lengths have been seen to.
    #[inline(never)]
    fn forward(
        &self,
        mut batch: Batch,
        forwarding: &Forwarding,
        (worker, outputs_of, fence): Local<'_>,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let local = (worker, fence);
        if self.one_output {
            return self.push_to_one(batch, forwarding, local, cx, out);
        }
        let adjacencies = forwarding.list();
        let leave = match batch.has_plain_ttls() {
            true => self.rewrite_all::<true, false>(&mut batch, adjacencies, outputs_of, local, cx, out),
            false => self.rewrite_all::<false, false>(&mut batch, adjacencies, outputs_of, local, cx, out),
        };
        match leave {
            Leave::By(output) => out.emit(output.into(), batch),
            Leave::Apart { unusual: true } => self.send_unusual(batch, adjacencies, cx, out),
            // Each of them has been seen once, in their order.
            Leave::Apart { unusual: false } => out.split_to(batch, outputs_of),
        }
    }

    /// Lets those go on whose time has come.
    #[cold]
    fn release(&self, (worker, outputs_of, fence): Local<'_>, cx: &Cx<'_>, out: &mut Out<'_>) {
        let forwarding = self.adjacencies.read(cx.reader);
        loop {
            let mut batch = Batch::empty();
            while batch.room() > 0
                && let Some(packet) = fence.release(cx.now)
            {
                batch.push(packet);
            }
            if batch.is_empty() {
                break;
            }
            self.forward(batch, forwarding, (worker, &mut *outputs_of, &mut *fence), cx, out);
        }
        fence.due().into_iter().for_each(|due| out.wake_at(due));
    }

    /// Takes out those that have to wait.
    #[cold]
    fn sift(
        &self,
        batch: &mut Batch,
        forwarding: &Forwarding,
        fence: &mut Fence,
        cx: &Cx<'_>,
        out: &mut Out<'_>,
    ) {
        let mut held = Vec::new();
        let pass = |packet: &mut Packet| match verdict::<N>(fence, packet, forwarding.list(), cx.now) {
            Verdict::Pass => Ok(()),
            Verdict::Hold(until) => Err(until),
        };
        batch.sift(pass, |packet, until| {
            held.push((packet, until));
            None
        });
        for (packet, until) in held {
            hold(fence, packet, until, out);
        }
    }
}

impl<N: Network> Element for LocalNextHops<N> {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let LocalNextHops { shared, worker, outputs_of, fence } = self;
        let is_fenced = fence.is_active(cx.now);
        if is_fenced {
            shared.release((*worker, outputs_of, fence), cx, out);
        }
        let forwarding = shared.adjacencies.read(cx.reader);
        if forwarding.is_more_than_a_list() {
            shared.prepare(&mut batch, forwarding, out);
        }
        if is_fenced {
            shared.sift(&mut batch, forwarding, fence, cx, out);
        }
        shared.forward(batch, forwarding, (*worker, outputs_of, fence), cx, out);
    }

    fn run(&mut self, cx: &Cx<'_>, _: &mut Up<'_>, out: &mut Out<'_>) -> bool {
        let LocalNextHops { shared, worker, outputs_of, fence } = self;
        shared.release((*worker, outputs_of, fence), cx, out);
        true
    }
}
