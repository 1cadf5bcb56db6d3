//! Routing table elements: one element over any lookup structure of `fib`.

use super::direct_ip_lookup::DirectRoutes;
use super::linear_ip_lookup::ListedRoutes;
use super::radix_ip_lookup::TrieRoutes;
use super::routes::{self, Routes};
use super::static_ip_lookup::FixedRoutes;
use epoch::Reader;
use fib::{Adjacency, FirstLevel, NextHop, NextHopId, RouteTable};
use graph::{
    Args, Class, ConfigErrors, Configure, Cx, Element, Handlers, Initialize, LocalCx, Loss, NodeId, Out,
    Spec, State, Way,
};
use packet::{Batch, Columns};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

const NO_ROUTE: Loss = Loss(0);

/// Which structure answers the lookups, and how the class is called.
pub trait Structure: Send + Sync + 'static {
    /// Class name.
    const NAME: &'static str;
    /// True if routes may be changed while packets flow.
    const CHANGEABLE: bool;
    /// A table without routes.
    fn table() -> RouteTable<u32>;
}

/// See the modules of the classes, such as `radix_ip_lookup`.
pub struct IPLookup<S> {
    routes: Routes<u32>,
    /// All packets leave by output 0, for an element that knows the adjacencies.
    one_output: bool,
    structure: PhantomData<S>,
}

/// One worker's part of [`IPLookup`].
pub struct LocalIPLookup<S> {
    shared: Arc<IPLookup<S>>,
    /// The next hops in the form in which packets need them, by the bits of their number: first no route.
    ways: Vec<Hop>,
}

/// A next hop in one word, for one load: gateway (0 = none) above, output below.
#[derive(Clone, Copy)]
struct Hop(u64);

/// No route; no element has as many outputs.
const NOWHERE: Hop = Hop(u32::MAX as u64);

impl Hop {
    #[inline]
    fn gateway(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn port(self) -> u32 {
        self.0 as u32
    }
}

impl From<&NextHop> for Hop {
    fn from(hop: &NextHop) -> Hop {
        let gateway = match hop.gateway {
            Some(IpAddr::V4(gateway)) => gateway.to_bits(),
            _ => 0,
        };
        Hop(u64::from(gateway) << 32 | u64::from(hop.port))
    }
}

impl<S: Structure> Class for IPLookup<S> {
    const SPEC: Spec =
        Spec { losses: &["no_route"], state: State::Shared, ..Spec::new(S::NAME, "1/-", "h/h") };
    type Local = LocalIPLookup<S>;

    fn configure(args: &mut Args, cx: &Configure<'_>) -> Result<IPLookup<S>, ConfigErrors> {
        let one_output = args.keyword("ONE_OUTPUT", false);
        let ports = if one_output { usize::from(Adjacency::LOST) } else { cx.outputs };
        let table = match args.keyword_if_given::<String>("TABLE") {
            Some(name) => cx.tables.get_or(&name, S::table),
            None => Arc::new(S::table()),
        };
        let routes = Routes::configure(table, args, cx, ports)?;
        Ok(IPLookup { routes, one_output, structure: PhantomData })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalIPLookup<S> {
        LocalIPLookup { shared: self.clone(), ways: vec![NOWHERE] }
    }

    fn handlers(h: &mut Handlers<IPLookup<S>>) {
        routes::handlers(h, |l| &l.routes, S::CHANGEABLE);
    }
}

/// An element that looks up routes, whatever its structure.
pub(crate) trait LooksUp: Send + Sync {
    /// Where the routes are.
    fn table(&self) -> &Arc<RouteTable<u32>>;

    /// Where lookups begin, for elements before this one, which see destinations earlier; `None` if that is not known, or
    /// depends on more than the destination.
    fn first_level(&self, reader: &Reader) -> Option<FirstLevel>;
}

impl<S: Structure> LooksUp for IPLookup<S> {
    fn table(&self) -> &Arc<RouteTable<u32>> {
        &self.routes.table
    }

    fn first_level(&self, reader: &Reader) -> Option<FirstLevel> {
        let has_vrfs = self.routes.scope.as_ref().is_some_and(|scope| scope.has_vrfs(reader));
        if has_vrfs { None } else { self.routes.table.first_level(reader) }
    }
}

/// The element as one that looks up routes; `None` if it is something else.
fn lookup_of(cx: &Initialize<'_>, node: NodeId) -> Option<Arc<dyn LooksUp>> {
    fn lookup<S: Structure>(cx: &Initialize<'_>, node: NodeId) -> Option<Arc<dyn LooksUp>> {
        cx.peer::<IPLookup<S>>(node).map(|lookup| lookup as Arc<dyn LooksUp>)
    }
    lookup::<DirectRoutes>(cx, node)
        .or_else(|| lookup::<TrieRoutes>(cx, node))
        .or_else(|| lookup::<FixedRoutes>(cx, node))
        .or_else(|| lookup::<ListedRoutes>(cx, node))
}

/// The table of a lookup element; `None` if it is something else.
pub(crate) fn table_of(cx: &Initialize<'_>, node: NodeId) -> Option<Arc<RouteTable<u32>>> {
    lookup_of(cx, node).map(|lookup| lookup.table().clone())
}

/// The nearest element that looks up routes for packets of output 0.
pub(crate) fn next_lookup(cx: &Initialize<'_>) -> Option<Arc<dyn LooksUp>> {
    cx.downstream(0).into_iter().find_map(|node| lookup_of(cx, node))
}

impl<S: Structure> Element for LocalIPLookup<S> {
    fn push(&mut self, _: usize, mut batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        let IPLookup { routes, one_output, .. } = &*self.shared;
        match routes.scope.as_ref().filter(|scope| scope.has_vrfs(cx.reader)) {
            None => {
                let Columns { destinations, next_hops } = batch.columns();
                routes.table.lookup_batch(cx.reader, destinations, NextHopId::in_bits(next_hops));
            }
            Some(scope) => {
                let mut addresses = [0; Batch::MAX];
                batch.iter().zip(&mut addresses).for_each(|(packet, address)| *address = packet.dst_ip());
                let n = batch.len();
                scope.route(&routes.table, cx.reader, &mut batch, &addresses[..n]);
            }
        }
        if *one_output {
            send_all(batch, out);
        } else {
            self.send_by_port(batch, cx, out);
        }
    }
}

/// Sends all packets, of which the next hop is known, by output 0 but those without a route, which are lost for the
/// element's first reason.
#[inline(always)]
pub(crate) fn send_all(mut batch: Batch, out: &mut Out<'_>) {
    if batch.are_routed() { out.emit(0, batch) } else { send_routed(batch, out) }
}

/// [`send_all`] where some have no route.
#[inline(never)]
fn send_routed(batch: Batch, out: &mut Out<'_>) {
    out.split_by_next_hop(batch, |bits| if bits != 0 { Way::Port(0) } else { Way::Lost(NO_ROUTE) });
}

impl<S: Structure> LocalIPLookup<S> {
    /// Notes what is known of its next hop on each packet, and sends it by the output that its route names.
    fn send_by_port(&mut self, batch: Batch, cx: &Cx<'_>, out: &mut Out<'_>) {
        learn(&mut self.ways, self.shared.routes.table.next_hops(cx.reader));
        let ways = &self.ways[..];
        out.split_routed(batch, |to, bits| {
            let hop = ways.get(bits as usize).copied().unwrap_or(NOWHERE);
            *to = if hop.gateway() == 0 { *to } else { hop.gateway() };
            if hop.port() == NOWHERE.port() { Way::Lost(NO_ROUTE) } else { Way::Port(hop.port() as usize) }
        });
    }
}

/// Copies the next hops that have come since the last call. The list only grows, so what was copied stays right.
#[inline]
fn learn(ways: &mut Vec<Hop>, list: &[NextHop]) {
    if let Some(new) = list.get(ways.len() - 1..).filter(|new| !new.is_empty()) {
        ways.extend(new.iter().map(Hop::from));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use graph::{Agnostic, AnyClass, ClassTable, Handlers, Simple};

    use super::*;
    use crate::harness::{Bench, Setup};

    /// Lets packets pass, and says whether it knows where the routes of those that leave by output 0 are looked up.
    struct Scout(OnceLock<bool>);
    struct LocalScout;

    impl Class for Scout {
        const SPEC: Spec = Spec::new("Scout", "1/-", "a/a");
        type Local = Agnostic<LocalScout>;

        fn configure(args: &mut Args, _: &Configure<'_>) -> Result<Scout, ConfigErrors> {
            args.finish()?;
            Ok(Scout(OnceLock::new()))
        }

        fn initialize(&self, cx: &Initialize<'_>) -> Result<(), ConfigErrors> {
            let first = next_lookup(cx).and_then(|lookup| lookup.first_level(&Reader::new()));
            self.0.set(first.is_some()).unwrap();
            Ok(())
        }

        fn local(self: &Arc<Self>, _: &LocalCx) -> Agnostic<LocalScout> {
            Agnostic(LocalScout)
        }

        fn handlers(h: &mut Handlers<Scout>) {
            h.read("knows", |scout| scout.0.get().is_some_and(|knows| *knows).to_string());
        }
    }

    impl Simple for LocalScout {
        fn act(&mut self, _: &mut Batch, _: &Cx<'_>, _: &mut Out<'_>) {}
    }

    #[test]
    fn the_next_lookup_is_found_behind_others_but_not_behind_a_queue() {
        static SCOUTS: &[&dyn AnyClass] = &[&graph::of::<Scout>()];
        static LAYERS: &[&[&dyn AnyClass]] =
            &[SCOUTS, crate::ip::CLASSES, crate::queue::CLASSES, crate::basic::CLASSES];
        let knows = |behind: &str| {
            let text = format!(
                "i :: Idle -> s :: Scout; table :: DirectIPLookup(0.0.0.0/0 0) -> Discard; {behind} -> table;"
            );
            let classes = ClassTable { layers: LAYERS, aliases: &[] };
            let bench = Bench::with_classes(&text, &Setup::default(), &classes).unwrap();
            let knows = bench.read("s.knows");
            bench.end().unwrap();
            knows
        };
        assert_eq!(knows("s"), "true");
        assert_eq!(knows("s -> Null -> t :: Tee; t[0] -> Discard; t[1]"), "true");
        assert_eq!(knows("s[1] -> Discard; s"), "true");
        assert_eq!(knows("s -> Discard; s[1]"), "false");
        assert_eq!(knows("s -> Queue -> Unqueue"), "false");
        // Where a lookup begins in a list is nowhere in particular.
        assert_eq!(knows("s -> l :: LinearIPLookup(0.0.0.0/0 0)"), "false");
    }

    const CLASSES: [&str; 4] = ["RadixIPLookup", "DirectIPLookup", "StaticIPLookup", "LinearIPLookup"];

    /// Packets to 10.0.0.1, 10.1.0.1, 11.0.0.1 and 12.0.0.1 through a table with three outputs.
    fn config(class: &str, routes: &str) -> String {
        let mut text = format!("rt :: {class}({routes});\n");
        for (i, dst) in ["0a000001", "0a010001", "0b000001", "0c000001"].iter().enumerate() {
            text += &format!("InfiniteSource(DATA \\<{dst}>, LIMIT {}) -> GetIPAddress(0) -> rt;\n", 10 + i);
        }
        for i in 0..3 {
            text += &format!("rt[{i}] -> c{i} :: Counter -> Discard;\n");
        }
        text
    }

    #[test]
    fn packets_leave_by_the_longest_prefix() {
        for class in CLASSES {
            let text =
                config(class, "10.0.0.0/8 0, 10.1.0.0/255.255.0.0 192.168.0.1 2, 11.0.0.0/8 1, 11.0.0.1 2");
            let mut bench = Bench::new(&text, &Setup::default()).unwrap();
            bench.run().unwrap();
            let counts = [0, 1, 2].map(|i| bench.read(&format!("c{i}.count")));
            assert_eq!(counts, ["10", "0", "23"], "{class}");
            assert!(bench.losses().contains(&"rt.no_route = 13".to_owned()), "{class}: {:?}", bench.losses());
            bench.end().unwrap();
        }
    }

    #[test]
    fn a_table_moves_to_another_structure_while_packets_flow() {
        let routes = "10.0.0.0/8 0, 10.1.0.0/16 2, 11.0.0.0/8 1, STRUCTURE quickest";
        for class in CLASSES {
            let mut bench = Bench::new(&config(class, routes), &Setup::default()).unwrap();
            let text = bench.read("rt.structure");
            let mut lines = text.lines();
            let first = lines.next().unwrap().strip_suffix(" quickest").unwrap().to_owned();
            let measured: Vec<&str> = lines.map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(measured, ["dir24_8", "range_tree", "poptrie"], "{text}");
            assert!(measured.contains(&&*first), "{text}");
            for name in ["poptrie", "linear", "radix", "range_tree", "dir24_8"] {
                bench.write("rt.structure", name).unwrap();
                assert_eq!(bench.read("rt.structure"), name);
            }
            bench.run().unwrap();
            let counts = [0, 1, 2].map(|i| bench.read(&format!("c{i}.count")));
            assert_eq!(counts, ["10", "12", "11"], "{class}");
            let error = bench.write("rt.structure", "tree").unwrap_err();
            assert_eq!(
                error,
                "the structures are dir24_8, range_tree, poptrie, radix and linear; or quickest"
            );
            bench.end().unwrap();
        }
        let error = |arguments: &str| {
            Bench::new(&config("DirectIPLookup", arguments), &Setup::default()).err().unwrap()
        };
        assert!(error("10.0.0.0/8 0, STRUCTURE trie").contains("STRUCTURE: the structures are dir24_8"));
    }

    #[test]
    fn handlers_change_the_table_in_transactions() {
        let bench = Bench::new(&config("RadixIPLookup", "10.0.0.0/8 0"), &Setup::default()).unwrap();
        bench.write("rt.add", "10.1.0.0/16 192.168.0.1 2").unwrap();
        let table = "10.0.0.0/8         -               0\n10.1.0.0/16        192.168.0.1     2\n";
        assert_eq!(bench.read("rt.table"), table);
        let lookup = |a: &str| bench.router.read("rt", "lookup", a).map_err(|e| e.to_string());
        assert_eq!((lookup("10.1.2.3"), lookup("10.2.2.3")), (Ok("2 192.168.0.1".into()), Ok("0".into())));
        assert_eq!((lookup("11.0.0.1"), lookup("x")), (Ok("-1".into()), Err("parse error".into())));
        assert_eq!(
            bench.write("rt.add", "10.0.0.0/8 1"),
            Err("there is a route already: 10.0.0.0/8 0".into())
        );
        assert_eq!(bench.write("rt.add", "12.0.0.0/8 3"), Err("port: no output 3, there are 3".into()));
        assert_eq!(
            (lookup(""), bench.write("rt.remove", " ")),
            (Err("value missing".into()), Err("prefix missing".into()))
        );
        let flush = |handler: &str, text: &str| bench.write(handler, text).unwrap_err();
        let nothing = "flush removes all routes and takes nothing, found '10.0.0.0/8'";
        assert_eq!(flush("rt.flush", "10.0.0.0/8"), nothing);
        assert_eq!(flush("rt.ctrl", "flush 10.0.0.0/8"), format!("line 1: {nothing}"));
        let bad = "set 11.0.0.0/8 1\n\nremove 12.0.0.0/8";
        assert_eq!(bench.write("rt.ctrl", bad), Err("line 3: there is no route for 12.0.0.0/8".into()));
        assert_eq!(bench.read("rt.table"), table);
        bench
            .write("rt.ctrl", "set 10.0.0.0/8 1\nremove 10.1.0.0/16 192.168.0.1 2\nadd 11.0.0.0/8 2")
            .unwrap();
        assert_eq!((lookup("10.1.2.3"), lookup("11.0.0.1")), (Ok("1".into()), Ok("2".into())));
        bench.write("rt.remove", "11.0.0.0/8").unwrap();
        bench.write("rt.flush", "").unwrap();
        assert_eq!((bench.read("rt.table"), bench.read("rt.count")), (String::new(), "0".into()));
        bench.end().unwrap();
        let fixed = Bench::new(&config("StaticIPLookup", "10.0.0.0/8 0"), &Setup::default()).unwrap();
        assert_eq!(fixed.write("rt.add", "1.0.0.0/8 0"), Err("no 'rt.add' handler".into()));
        fixed.end().unwrap();
    }

    #[test]
    fn mistakes_are_found_at_their_place() {
        let setup = Setup::default();
        let error = Bench::new(&config("DirectIPLookup", "10.0.0.0/8 3, 1.2.3.4, 0.0.0.0/0 x 1"), &setup)
            .err()
            .unwrap();
        for want in
            ["ROUTE: port: no output 3, there are 3", "ROUTE: port missing", "ROUTE: gateway: parse error"]
        {
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_route_file_is_read_and_its_mistakes_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("routes");
        let with = |routes: &str, more: &str| {
            std::fs::write(&path, routes).unwrap();
            let text = config("DirectIPLookup", &format!("FILE {}{more}", path.display()));
            Bench::new(&text, &Setup::default())
        };
        let mut bench =
            with("# all\r\n10.0.0.0/8 1\r\n10.1.0.0/16 9.9.9.9 0\n2001:db8::/32 7\n", ", 10.1.0.0/16 2")
                .unwrap();
        bench.run().unwrap();
        assert_eq!(
            (bench.read("c1.count"), bench.read("c2.count"), bench.read("rt.count")),
            ("10".into(), "11".into(), "2".into())
        );
        bench.end().unwrap();
        let error = |routes: &str| with(routes, "").err().unwrap();
        assert!(error("10.0.0.0/8 1\n\n10.0.0.0/8").contains("line 3: expected `prefix [gateway] port`"));
        let e = error("10.0.0.0/8 5\n11.0.0.0/8 6\n12.0.0.0/8 7");
        assert!(e.contains("route 10.0.0.0/8 5: no output 5, there are 3 (and 2 more such routes)"), "{e}");
        assert!(
            error("10.0.0.0/8 ::1 1").contains("route 10.0.0.0/8 ::1 1: the gateway is not an IPv4 address")
        );
        let e = error("10.0.0.0/8 x\n11.0.0.0/8");
        assert!(
            e.contains("line 1: `x` is not an output port: expected a number from 0 to 4294967295; line 2: "),
            "{e}"
        );
        let packed = dir.path().join("routes.gz");
        let gzip = std::process::Command::new("gzip").arg("-c").arg(&path).output().unwrap();
        std::fs::write(&packed, gzip.stdout).unwrap();
        let text = config("DirectIPLookup", &format!("FILE {}", packed.display()));
        let e = Bench::new(&text, &Setup::default()).err().unwrap();
        assert!(e.contains("line 1: `x` is not an output port"), "{e}");
        drop(dir);
        let e =
            Bench::new(&config("RadixIPLookup", "FILE /nowhere/routes"), &Setup::default()).err().unwrap();
        assert!(e.contains("FILE: cannot read /nowhere/routes: No such file or directory"), "{e}");
    }
}
