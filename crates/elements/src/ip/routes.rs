//! What the lookup elements of both address families have in common: routes as arguments and from files, and handlers that
//! show and change them.

use super::route_arg::{self, RouteAddress, RouteArg};
use super::scope::{Scope, interfaces};
use fib::{Cost, Route, RouteChange, RouteCount, RouteCounts, RouteTable, Structure, UnfitStructure, Vrf};
use graph::{Args, ConfigErrors, Configure, Handlers, value};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of no structure, but of whichever is the quickest.
const QUICKEST: &str = "quickest";

/// A routing table, and how many ports its routes may lead to.
pub(crate) struct Routes<A: RouteAddress> {
    pub table: Arc<RouteTable<A>>,
    /// Packets may be looked up in VRFs.
    pub scope: Option<Scope>,
    ports: usize,
}

impl<A: RouteAddress> Routes<A> {
    /// Reads `INTERFACES`, `PORT`, `FILE` and the routes among the arguments, whose ports are below `ports`, into a table,
    /// which is then looked up in as `STRUCTURE` says.
    pub fn configure(
        table: Arc<RouteTable<A>>,
        args: &mut Args,
        cx: &Configure<'_>,
        ports: usize,
    ) -> Result<Routes<A>, ConfigErrors> {
        let port = args.keyword_if_given("PORT");
        let scope = interfaces(args, cx).map(|interfaces| Scope::new(interfaces, port));
        let structure = args.keyword_if_given::<String>("STRUCTURE").map(|name| Wish::of::<A>(&name));
        if let Some(Err(message)) = &structure {
            args.error("STRUCTURE", message);
        }
        let file: Option<PathBuf> = args.keyword_if_given("FILE");
        let mut changes = Vec::new();
        if let Some(path) = &file {
            match route_arg::read_file(path, ports) {
                Ok(routes) => changes.extend(routes.into_iter().map(RouteChange::Set)),
                Err(message) => args.error("FILE", message),
            }
        }
        for RouteArg { route, port_span } in args.rest("ROUTE") {
            match route_arg::port_fits(route, ports) {
                Ok(()) => changes.push(RouteChange::Set(route)),
                Err(message) => args.error_at(port_span, format!("ROUTE: {message}")),
            }
        }
        args.finish()?;
        table.apply(&changes).map_err(|e| ConfigErrors::new(args.span_of("ROUTE"), e.to_string()))?;
        if let Some(Ok(wish)) = structure {
            wish.grant(&table).map_err(|e| ConfigErrors::new(args.span_of("STRUCTURE"), e))?;
        }
        Ok(Routes { table, scope, ports })
    }

    /// These, if they may be changed by hand.
    fn changeable(&self) -> Result<&Routes<A>, String> {
        self.table.owner().map_or(Ok(self), |instead| Err(instead.to_owned()))
    }

    fn apply(&self, changes: &[RouteChange<A>]) -> Result<(), String> {
        self.table.apply(changes).map_err(|e| e.to_string())
    }

    /// Makes the changes of all lines, or none.
    fn transact(&self, lines: &str) -> Result<(), String> {
        let mut changes = Vec::new();
        let mut numbers = Vec::new();
        for (number, line) in (1..).zip(lines.lines()) {
            if let Some(change) =
                route_arg::change(line, self.ports).map_err(|e| format!("line {number}: {e}"))?
            {
                changes.push(change);
                numbers.push(number);
            }
        }
        self.table.apply(&changes).map_err(|e| match numbers.get(e.index) {
            Some(number) => format!("line {number}: {e}"),
            None => e.to_string(),
        })
    }

    /// `port [gateway]`, or -1 where no route leads.
    fn lookup(&self, address: &str) -> Result<String, String> {
        let address = value::<A::Ip>(address)?.into();
        // An address of this family's type is one of this family.
        let route = A::from_ip(address).and_then(|address| self.table.find(address));
        Ok(match route {
            Some(route) => match route.next_hop.gateway {
                Some(gateway) => format!("{} {gateway}", route.next_hop.port),
                None => route.next_hop.port.to_string(),
            },
            None => "-1".to_owned(),
        })
    }

    /// All routes, a line each: prefix, gateway or `-`, port.
    fn text(&self) -> String {
        self.table.routes().iter().map(|route| line(route) + "\n").collect()
    }

    /// The routes of all VRFs, a line each: name and table of the VRF, prefix, gateway or `-`, port.
    fn vrfs(&self) -> String {
        let Some(scope) = &self.scope else { return String::new() };
        let shared = self.table.next_hop_list();
        let mut text = String::new();
        for vrf in scope.vrfs() {
            for mut route in vrf.routes::<A>().routes() {
                let meant = Vrf::shared(&route.next_hop).and_then(|number| shared.get(number.index()));
                let Some(next_hop) = meant else { continue };
                route.next_hop = *next_hop;
                let _ = writeln!(text, "{} {} {}", vrf.name, vrf.table, line(&route));
            }
        }
        text
    }

    /// What was counted for each route, a line each: prefix, packets, bytes.
    fn counts(&self) -> String {
        self.table.counts().map_or(String::new(), |counts| counts.counts().iter().map(count).collect())
    }

    /// The same of all VRFs, with name and table of the VRF before it.
    fn vrf_counts(&self) -> String {
        let mut text = String::new();
        for vrf in self.scope.iter().flat_map(Scope::vrfs) {
            for one in vrf.routes::<A>().counts().into_iter().flat_map(RouteCounts::counts) {
                let _ = write!(text, "{} {} {}", vrf.name, vrf.table, count(&one));
            }
        }
        text
    }
}

/// Prefix, packets, bytes.
fn count<A: RouteAddress>(one: &RouteCount<A>) -> String {
    let wide = A::WIDTHS.0;
    format!("{:<wide$} {} {}\n", one.prefix.to_string(), one.packets, one.bytes)
}

/// What a table is to be looked up in.
enum Wish {
    Quickest,
    Named(Structure),
}

impl Wish {
    fn of<A: RouteAddress>(name: &str) -> Result<Wish, String> {
        if name == QUICKEST {
            return Ok(Wish::Quickest);
        }
        let structure = name.parse().map_err(|e| format!("{e}; or {QUICKEST}"))?;
        match A::fib(structure) {
            Some(_) => Ok(Wish::Named(structure)),
            None => Err(UnfitStructure(structure).to_string()),
        }
    }

    fn grant<A: RouteAddress>(&self, table: &RouteTable<A>) -> Result<(), String> {
        match self {
            Wish::Quickest => table.use_quickest(epoch::tsc),
            Wish::Named(structure) => table.use_structure(*structure).map_err(|e| e.to_string())?,
        }
        Ok(())
    }
}

/// What a table is looked up in; then, if that is the quickest, what each cost that was measured.
fn structure<A: RouteAddress>(table: &RouteTable<A>) -> String {
    let mut text = table.structure().map_or("-", Structure::name).to_owned();
    let Some(costs) = table.costs() else { return text };
    text.push_str(&format!(" {QUICKEST}\n"));
    let seconds = |ticks: u64| ticks as f64 / epoch::tsc_hz() as f64;
    for Cost { structure, ticks_per_lookup, build_ticks, bytes } in costs {
        let _ = writeln!(
            text,
            "{structure:<10} {ticks_per_lookup:>7.1} cycles {:>7.3} s {bytes:>10} bytes",
            seconds(build_ticks)
        );
    }
    text
}

/// Prefix, gateway or `-`, port.
fn line<A: RouteAddress>(route: &Route<A>) -> String {
    let (wide, middle) = A::WIDTHS;
    let gateway = route.next_hop.gateway.map_or("-".to_owned(), |g| g.to_string());
    let (prefix, port) = (route.prefix.to_string(), route.next_hop.port);
    format!("{prefix:<wide$} {gateway:<middle$} {port}")
}

/// The handlers of a class with routes; those that change them if they may change while packets flow.
pub(crate) fn handlers<C: 'static, A: RouteAddress>(
    h: &mut Handlers<C>,
    routes: fn(&C) -> &Routes<A>,
    changeable: bool,
) {
    h.read("table", move |c| routes(c).text());
    h.read("vrfs", move |c| routes(c).vrfs());
    h.read("counts", move |c| routes(c).counts());
    h.read("vrf_counts", move |c| routes(c).vrf_counts());
    h.read("count", move |c| routes(c).table.len().to_string());
    h.read_with("lookup", move |c, address| routes(c).lookup(address));
    h.read("structure", move |c| structure(&routes(c).table));
    h.write("structure", move |c, name, _| Wish::of::<A>(name.trim())?.grant(&routes(c).table));
    if !changeable {
        return;
    }
    h.write("add", move |c, line, _| {
        let routes = routes(c).changeable()?;
        routes.apply(&[RouteChange::Add(route_arg::route(line, routes.ports)?)])
    });
    h.write("set", move |c, line, _| {
        let routes = routes(c).changeable()?;
        routes.apply(&[RouteChange::Set(route_arg::route(line, routes.ports)?)])
    });
    h.write("remove", move |c, line, _| routes(c).changeable()?.apply(&[route_arg::removal(line)?]));
    h.write("ctrl", move |c, lines, _| routes(c).changeable()?.transact(lines));
    h.write("flush", move |c, more, _| match more.trim() {
        "" => routes(c).changeable()?.apply(&[RouteChange::Flush]),
        more => Err(route_arg::flush_takes_nothing(more)),
    });
}
