//! What `RouteCounter` and `IP6RouteCounter` have in common: everything but the address.

use super::scope::{Scope, interfaces};
use fib::{Fib, InVrf, NextHopId, RouteTable, Vrf};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Initialize, LocalCx, NodeId, Out, Span, Spec,
};
use packet::Batch;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Where destinations are found, and looked up.
pub trait Destination: Send + Sync + 'static {
    /// Of destinations.
    type Address: InVrf;
    /// Class name.
    const CLASS: &'static str;
    /// The IP version, for messages.
    const VERSION: u8;

    /// What numbers of routes are looked up in.
    type Numbers: Fib<Self::Address> + Default + 'static;

    /// The table of the element that looks up routes.
    fn table(cx: &Initialize<'_>, lookup: NodeId) -> Option<Arc<RouteTable<Self::Address>>>;

    /// The addresses that the packets are looked up by, as many as there are packets.
    fn destinations(batch: &mut Batch, addresses: &mut [Self::Address]);
}

/// See the modules of the classes.
pub struct Counted<D: Destination> {
    lookup: (NodeId, Span),
    routes: OnceLock<Arc<RouteTable<D::Address>>>,
    workers: usize,
    /// Packets may be looked up in VRFs.
    scope: Option<Scope>,
}

/// One worker's part of [`Counted`].
pub struct LocalCounted<D: Destination> {
    shared: Arc<Counted<D>>,
    worker: usize,
    addresses: Box<[D::Address; Batch::MAX]>,
    found: Box<[Option<NextHopId>; Batch::MAX]>,
}

impl<D: Destination> Class for Counted<D> {
    const SPEC: Spec = Spec::new(D::CLASS, "1/1", "h/h");
    type Local = LocalCounted<D>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<Counted<D>, ConfigErrors> {
        let name: String = args.required("LOOKUP");
        let lookup = cx.element(&name);
        if lookup.is_none() {
            args.error("LOOKUP", format!("no element named '{name}'"));
        }
        let lookup = (lookup.unwrap_or(NodeId::new(0)), args.span_of("LOOKUP"));
        let port: Option<u16> = args.keyword_if_given("PORT");
        let interfaces = interfaces(args, cx);
        args.finish()?;
        if let Some(interfaces) = &interfaces {
            interfaces.count_routes();
        }
        let scope = interfaces.map(|interfaces| Scope::new(interfaces, port));
        Ok(Counted { lookup, routes: OnceLock::new(), workers: cx.workers, scope })
    }

    fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
        let (node, span) = self.lookup;
        let routes = D::table(cx, node).ok_or_else(|| {
            ConfigErrors::new(span, format!("LOOKUP: not an element that looks up IPv{} routes", D::VERSION))
        })?;
        routes.count_routes(self.workers, D::Numbers::default);
        // Initialised once, before anything asks for the table.
        let _ = self.routes.set(routes);
        Ok(())
    }

    fn local(self: &Arc<Self>, cx: &LocalCx) -> LocalCounted<D> {
        LocalCounted {
            shared: self.clone(),
            worker: cx.worker,
            addresses: Box::new([D::Address::default(); Batch::MAX]),
            found: Box::new([None; Batch::MAX]),
        }
    }
}

impl<D: Destination> Element for LocalCounted<D> {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        if let Some(routes) = self.shared.routes.get() {
            let n = batch.len();
            let (addresses, found) = (&mut self.addresses[..n], &mut self.found[..n]);
            D::destinations(&mut batch, addresses);
            let mut count = |vrf: Option<&Vrf>, places: Range<usize>| {
                let Some(counts) = vrf.map_or(&**routes, Vrf::routes).counts() else { return };
                let (first, found) = (places.start, &mut found[places.clone()]);
                counts.lookup_batch(cx.reader, &addresses[places], found);
                counts.count(self.worker, found, |place| batch.length_of(first + place) as u64);
            };
            match &self.shared.scope {
                None => count(None, 0..n),
                Some(scope) => scope.each_run(cx.reader, batch.as_slice(), count),
            }
        }
        out.emit(0, batch);
    }
}
