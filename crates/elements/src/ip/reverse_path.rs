//! What `CheckReversePath` and `CheckIP6ReversePath` have in common: everything but the address.

use super::scope::{Scope, interfaces};
use epoch::Reader;
use fib::{Adjacencies, Adjacency, Forwarding, InVrf, NextHop, NextHopId, RouteTable, SourceCheck};
use graph::{
    ArgError, Args, Class, ConfigErrors, Configure, Cx, Element, FromArg, Handlers, Initialize, LocalCx,
    Loss, NodeId, Out, Span, Spec, Text, Way, value,
};
use packet::{Batch, Packet};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

const NO_HEADER: Loss = Loss(0);
const REVERSE_PATH: Loss = Loss(1);
const NEEDS_PORT: &str = "MODE strict needs PORT, the port that packets come from";

/// Where sources are found, and looked up.
pub trait Source: Send + Sync + 'static {
    /// Of sources.
    type Address: InVrf;
    /// Class name.
    const CLASS: &'static str;
    /// The IP version, for messages.
    const VERSION: u8;

    /// The table of the element that looks up routes.
    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<Self::Address>>>;

    /// The source address of a packet; `None` without a header.
    fn source(packet: &mut Packet) -> Option<Self::Address>;
}

/// RFC 3704 §2.2 to §2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Off,
    Loose,
    Strict,
    /// As Linux has it set for the interface of each packet.
    Linux,
}

impl Mode {
    const ALL: [(Mode, &'static str); 4] =
        [(Mode::Off, "off"), (Mode::Loose, "loose"), (Mode::Strict, "strict"), (Mode::Linux, "linux")];

    /// True if it must be known where packets come from.
    fn needs_port(self) -> bool {
        matches!(self, Mode::Strict | Mode::Linux)
    }

    fn name(self) -> &'static str {
        Mode::ALL[self as usize].1
    }
}

impl FromArg for Mode {
    fn from_arg(arg: &Text) -> Result<Mode, ArgError> {
        let found = Mode::ALL.iter().find(|(_, name)| *name == arg.text.trim());
        found.map(|(mode, _)| *mode).ok_or_else(|| ArgError::new("expected strict, loose, linux or off"))
    }

    fn placeholder() -> Mode {
        Mode::Loose
    }
}

/// One that can change while packets flow.
struct ModeNow(AtomicU8);

impl ModeNow {
    fn get(&self) -> Mode {
        // Each batch is checked by one or the other; nothing else goes with it.
        let number = self.0.load(Ordering::Relaxed);
        Mode::ALL.get(usize::from(number)).map_or(Mode::Off, |(mode, _)| *mode)
    }

    fn set(&self, mode: Mode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

/// See the modules of the classes.
pub struct ReversePath<S: Source> {
    lookup: (NodeId, Span),
    routes: OnceLock<Arc<RouteTable<S::Address>>>,
    adjacencies: Arc<Adjacencies>,
    mode: ModeNow,
    /// Without it packets of no port can be checked strictly, unless their interface is noted on them.
    port: Option<u16>,
    /// Packets may be looked up in VRFs, or come from VLANs.
    scope: Option<Scope>,
    nowhere: Option<u32>,
    /// The port of the next hop of sources that somebody else decides about, by the second output.
    policy: Option<u32>,
}

/// One worker's part of [`ReversePath`].
pub struct LocalReversePath<S: Source> {
    shared: Arc<ReversePath<S>>,
    addresses: Box<[S::Address; Batch::MAX]>,
    hops: Box<[Option<NextHopId>; Batch::MAX]>,
    ways: Box<[Way; Batch::MAX]>,
}

impl<S: Source> Class for ReversePath<S> {
    const SPEC: Spec = Spec { losses: &["no_header", "reverse_path"], ..Spec::new(S::CLASS, "1/1-2", "h/h") };
    type Local = LocalReversePath<S>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<ReversePath<S>, ConfigErrors> {
        let name: String = args.required("LOOKUP");
        let lookup = cx.element(&name);
        if lookup.is_none() {
            args.error("LOOKUP", format!("no element named '{name}'"));
        }
        let lookup = (lookup.unwrap_or(NodeId::new(0)), args.span_of("LOOKUP"));
        let mode = args.keyword("MODE", Mode::Strict);
        let port: Option<u16> = args.keyword_if_given("PORT");
        let scope = interfaces(args, cx).map(|interfaces| Scope::new(interfaces, port));
        if mode.needs_port() && port.is_none() && scope.is_none() {
            args.error("LOOKUP", NEEDS_PORT);
        }
        let nowhere = args.keyword_if_given("NOWHERE");
        let policy = args.keyword_if_given("POLICY");
        if policy.is_some() && cx.outputs < 2 {
            args.error("POLICY", "needs a second output");
        }
        let adjacencies = match args.keyword_if_given::<String>("ADJACENCIES") {
            Some(name) => cx.tables.get_or(&name, Adjacencies::default),
            None => Arc::default(),
        };
        args.finish()?;
        let mode = ModeNow(AtomicU8::new(mode as u8));
        Ok(ReversePath { lookup, routes: OnceLock::new(), adjacencies, mode, port, scope, nowhere, policy })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (node, span) = self.lookup;
        let routes = S::table(cx, node).ok_or_else(|| {
            ConfigErrors::new(span, format!("LOOKUP: not an element that looks up IPv{} routes", S::VERSION))
        })?;
        // Initialised once, before anything asks for the table.
        let _ = self.routes.set(routes);
        Ok(())
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalReversePath<S> {
        LocalReversePath {
            shared: self.clone(),
            addresses: Box::new([S::Address::default(); Batch::MAX]),
            hops: Box::new([None; Batch::MAX]),
            ways: Box::new([Way::Port(0); Batch::MAX]),
        }
    }

    fn handlers(h: &mut Handlers<ReversePath<S>>) {
        h.read("mode", |check| check.mode.get().name().to_owned());
        h.write("mode", |check, text, _| {
            let mode: Mode = value(text)?;
            if mode.needs_port() && check.port.is_none() && check.scope.is_none() {
                return Err(NEEDS_PORT.to_owned());
            }
            check.mode.set(mode);
            Ok(())
        });
    }
}

impl<S: Source> ReversePath<S> {
    /// Where packets of interface number `from` go whose source has this lookup.
    fn way(&self, mode: Mode, number: Option<NextHopId>, from: u32, known: (&[NextHop], &Forwarding)) -> Way {
        if mode == Mode::Off {
            return Way::Port(0);
        }
        let Some(number) = number else { return Way::Lost(REVERSE_PATH) };
        let port = known.0.get(number.index()).map(|hop| hop.port);
        if self.policy.is_some() && self.policy == port {
            return Way::Port(1);
        }
        if self.accepts(mode, number, from, known) { Way::Port(0) } else { Way::Lost(REVERSE_PATH) }
    }

    /// True if packets of interface number `from` may come from an address whose lookup gave `number`.
    fn accepts(
        &self,
        mode: Mode,
        number: NextHopId,
        from: u32,
        (hops, forwarding): (&[NextHop], &Forwarding),
    ) -> bool {
        let bits = NextHopId::bits(Some(number));
        let adjacency = forwarding.list().get(bits as usize).copied().unwrap_or(Adjacency::UNRESOLVED);
        let Some(hop) = hops.get(number.index()) else { return false };
        let is_nowhere = self.nowhere == Some(hop.port);
        match (mode, adjacency.output) {
            (Mode::Off | Mode::Linux, _) => true,
            (_, Adjacency::LOST) => false,
            (Mode::Loose, _) => !is_nowhere || hop.gateway.is_some(),
            (Mode::Strict, Adjacency::GROUP) => forwarding.members(bits).is_none_or(|members| {
                let is_ours = |id: NextHopId| hops.get(id.index()).is_some_and(|h| h.widened().port == from);
                members.is_empty() || members.iter().any(|member| is_ours(member.hop))
            }),
            (Mode::Strict, Adjacency::NO_OUTPUT) => {
                let port = hop.widened().port;
                if u16::try_from(port).is_ok() { port == from } else { !is_nowhere }
            }
            (Mode::Strict, _) => u32::from(adjacency.interface()) == from,
        }
    }
}

impl<S: Source> ReversePath<S> {
    /// The mode for packets of an interface.
    fn mode_of(&self, mode: Mode, reader: &Reader, interface: u32) -> Mode {
        if mode != Mode::Linux {
            return mode;
        }
        match self.scope.as_ref().map_or(SourceCheck::Off, |scope| scope.source_check(reader, interface)) {
            SourceCheck::Off => Mode::Off,
            SourceCheck::Strict => Mode::Strict,
            SourceCheck::Loose => Mode::Loose,
        }
    }

    /// True if nothing is checked now.
    fn is_idle(&self, mode: Mode, reader: &Reader) -> bool {
        match mode {
            Mode::Off => true,
            Mode::Linux => !self.scope.as_ref().is_some_and(|scope| scope.checks_sources(reader)),
            _ => false,
        }
    }
}

impl<S: Source> Element for LocalReversePath<S> {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let n = batch.len();
        let mode = self.shared.mode.get();
        if self.shared.is_idle(mode, cx.reader) {
            return out.emit(0, batch);
        }
        let Some(routes) = self.shared.routes.get() else {
            return out.split_by(batch, &self.ways[..n], |_, _| Way::Lost(REVERSE_PATH));
        };
        for ((packet, address), way) in
            batch.iter_mut().zip(self.addresses.iter_mut()).zip(self.ways.iter_mut())
        {
            let source = S::source(packet);
            *way = if source.is_some() { Way::Port(0) } else { Way::Lost(NO_HEADER) };
            *address = source.unwrap_or_default();
        }
        let scope = self.shared.scope.as_ref();
        let (addresses, numbers) = (&self.addresses[..n], &mut self.hops[..n]);
        match scope {
            None => routes.lookup_batch(cx.reader, addresses, numbers),
            Some(scope) => scope.lookup(routes, cx.reader, &batch, addresses, numbers),
        }
        let known = (routes.next_hops(cx.reader), self.shared.adjacencies.read(cx.reader));
        // Packets of one batch come from few directions: an answer holds until another number comes.
        let mut last = (None, None, Way::Port(0));
        let port = self.shared.port.unwrap_or_default().into();
        let mut all = true;
        for ((number, way), packet) in self.hops.iter().zip(self.ways.iter_mut()).zip(batch.iter()) {
            let from = scope.map_or(port, |scope| scope.interface(packet));
            if (*number, Some(from)) != (last.0, last.1) {
                let mode = self.shared.mode_of(mode, cx.reader, from);
                last = (*number, Some(from), self.shared.way(mode, *number, from, known));
            }
            if matches!(way, Way::Port(_)) {
                *way = last.2;
            }
            all &= matches!(way, Way::Port(0));
        }
        if all {
            return out.emit(0, batch);
        }
        out.split_by(batch, &self.ways[..n], |_, way| way);
    }
}
