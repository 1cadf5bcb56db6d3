//! What the lookup elements of both address families have in common: routes as arguments and from files, and handlers that
//! show and change them.

use super::route_arg::{self, RouteAddress, RouteArg};
use fib::{RouteChange, RouteTable};
use graph::{Args, ConfigErrors, Handlers, value};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A routing table, and how many ports its routes may lead to.
pub(crate) struct Routes<A: RouteAddress> {
    pub table: Arc<RouteTable<A>>,
    ports: usize,
}

impl<A: RouteAddress> Routes<A> {
    /// Reads `FILE` and the routes among the arguments, whose ports are below `ports`, into a table.
    pub fn configure(
        table: Arc<RouteTable<A>>,
        args: &mut Args,
        ports: usize,
    ) -> Result<Routes<A>, ConfigErrors> {
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
        Ok(Routes { table, ports })
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
        let (wide, middle) = A::WIDTHS;
        let mut text = String::new();
        for route in self.table.routes() {
            let gateway = route.next_hop.gateway.map_or("-".to_owned(), |g| g.to_string());
            let (prefix, port) = (route.prefix.to_string(), route.next_hop.port);
            let _ = writeln!(text, "{prefix:<wide$} {gateway:<middle$} {port}");
        }
        text
    }
}

/// The handlers of a class with routes; those that change them if they may change while packets flow.
pub(crate) fn handlers<C: 'static, A: RouteAddress>(
    h: &mut Handlers<C>,
    routes: fn(&C) -> &Routes<A>,
    changeable: bool,
) {
    h.read("table", move |c| routes(c).text());
    h.read("count", move |c| routes(c).table.len().to_string());
    h.read_with("lookup", move |c, address| routes(c).lookup(address));
    if !changeable {
        return;
    }
    h.write("add", move |c, line, _| {
        let routes = routes(c);
        routes.apply(&[RouteChange::Add(route_arg::route(line, routes.ports)?)])
    });
    h.write("set", move |c, line, _| {
        let routes = routes(c);
        routes.apply(&[RouteChange::Set(route_arg::route(line, routes.ports)?)])
    });
    h.write("remove", move |c, line, _| routes(c).apply(&[route_arg::removal(line)?]));
    h.write("ctrl", move |c, lines, _| routes(c).transact(lines));
    h.write("flush", move |c, _, _| routes(c).apply(&[RouteChange::Flush]));
}
