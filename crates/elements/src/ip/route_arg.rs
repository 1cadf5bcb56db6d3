//! Routes as configurations and handlers write them: `addr/mask [gateway] port`.

use fib::{NextHop, Prefix4, Route, RouteChange, RouteFile};
use graph::{ArgError, FromArg, Span, Text};
use lang::args::{Ipv4Prefix, Words};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

/// A route, and where its port number stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteArg {
    pub route: Route<u32>,
    pub port_span: Span,
}

impl FromArg for RouteArg {
    fn from_arg(arg: &Text) -> Result<RouteArg, ArgError> {
        let mut words = Words::new(arg);
        let prefix = prefix(words.take("prefix")?);
        let gateway = if words.len() > 1 { words.take::<Gateway>("gateway")?.0 } else { None };
        let port_span = words.peek().map_or(arg.span, |word| word.span);
        let port = words.take("port")?;
        words.end()?;
        Ok(RouteArg { route: Route { prefix, next_hop: NextHop { gateway, port } }, port_span })
    }

    fn placeholder() -> RouteArg {
        let next_hop = NextHop { gateway: None, port: 0 };
        RouteArg { route: Route { prefix: Prefix4::default(), next_hop }, port_span: Span::default() }
    }
}

/// A gateway; `-` and `0.0.0.0` mean that the destination is on the link.
pub(crate) struct Gateway(pub Option<IpAddr>);

impl FromArg for Gateway {
    fn from_arg(arg: &Text) -> Result<Gateway, ArgError> {
        if arg.text == "-" {
            return Ok(Gateway(None));
        }
        let address = Ipv4Addr::from_arg(arg)?;
        Ok(Gateway((!address.is_unspecified()).then_some(address.into())))
    }

    fn placeholder() -> Gateway {
        Gateway(None)
    }
}

fn prefix(p: Ipv4Prefix) -> Prefix4 {
    // The length of a prefix argument is at most 32.
    Prefix4::new(p.address.to_bits(), p.length).unwrap_or_default()
}

/// What the parameter of a handler is: a text of its own, without a place in a configuration.
fn text(line: &str) -> Text {
    Text::verbatim(line.trim(), Span::default())
}

/// A route written to a handler, for an element with `outputs` outputs.
pub(crate) fn route(line: &str, outputs: usize) -> Result<Route<u32>, String> {
    let route = RouteArg::from_arg(&text(line)).map_err(|e| e.message)?.route;
    port_fits(route, outputs)?;
    Ok(route)
}

/// Refuses a route whose port is not an output.
pub(crate) fn port_fits(route: Route<u32>, outputs: usize) -> Result<(), String> {
    match (route.next_hop.port as usize) < outputs {
        true => Ok(()),
        false => Err(format!("port: no output {}, there are {outputs}", route.next_hop.port)),
    }
}

/// The IPv4 routes of a route file, for an element with `outputs` outputs.
pub(crate) fn read_file(path: &Path, outputs: usize) -> Result<Vec<Route<u32>>, String> {
    let text = fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let routes = RouteFile::parse(&text, None).map_err(|e| format!("{}: {e}", path.display()))?.v4;
    let gateway_fits = |r: &Route<u32>| !matches!(r.next_hop.gateway, Some(IpAddr::V6(_)));
    if let Some(route) = routes.iter().find(|r| !gateway_fits(r)) {
        return Err(format!("{}: route {route}: the gateway is not an IPv4 address", path.display()));
    }
    let mut bad = routes.iter().filter(|r| r.next_hop.port as usize >= outputs);
    let Some(route) = bad.next() else { return Ok(routes) };
    let more = match bad.count() {
        0 => String::new(),
        n => format!(" (and {n} more such routes)"),
    };
    let port = route.next_hop.port;
    Err(format!("{}: route {route}: no output {port}, there are {outputs}{more}", path.display()))
}

/// What `remove` is given: `addr/mask [[gateway] port]`.
pub(crate) fn removal(line: &str) -> Result<RouteChange<u32>, String> {
    let whole = text(line);
    if whole.words().len() > 1 {
        let route = RouteArg::from_arg(&whole).map_err(|e| e.message)?.route;
        return Ok(RouteChange::Remove(route.prefix, Some(route.next_hop)));
    }
    let p = Ipv4Prefix::from_arg(&whole).map_err(|e| e.message)?;
    Ok(RouteChange::Remove(prefix(p), None))
}

/// One line of a transaction: `add|set ROUTE`, `remove ...`, `flush`; `None` for an empty line or a `#` comment.
pub(crate) fn change(line: &str, outputs: usize) -> Result<Option<RouteChange<u32>>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word {
        "add" => route(rest, outputs).map(RouteChange::Add),
        "set" => route(rest, outputs).map(RouteChange::Set),
        "remove" => removal(rest),
        "flush" => Ok(RouteChange::Flush),
        _ => Err(format!("unknown command '{word}', expected add, set, remove or flush")),
    }
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        match change(line, 3) {
            Ok(Some(RouteChange::Add(r))) => format!("+{r}"),
            Ok(Some(RouteChange::Set(r))) => format!("={r}"),
            Ok(Some(RouteChange::Remove(p, hop))) => {
                format!("-{p} {}", hop.map(|h| h.to_string()).unwrap_or_default())
            }
            Ok(Some(RouteChange::Flush)) => "flush".to_owned(),
            Ok(None) => String::new(),
            Err(e) => e,
        }
    }

    #[test]
    fn lines_of_a_transaction() {
        assert_eq!(shown("add 10.1.2.3/8 1"), "+10.0.0.0/8 1");
        assert_eq!(shown(" set 10.0.0.0/255.0.0.0 192.168.0.1 2 "), "=10.0.0.0/8 192.168.0.1 2");
        assert_eq!(
            (shown("add 1.2.3.4 - 0"), shown("add 1.2.3.4 0.0.0.0 0")),
            ("+1.2.3.4/32 0".into(), "+1.2.3.4/32 0".into())
        );
        assert_eq!(
            (shown("remove 10.0.0.0/8"), shown("remove 10.0.0.0/8 2")),
            ("-10.0.0.0/8 ".into(), "-10.0.0.0/8 2".into())
        );
        assert_eq!((shown("# no"), shown(""), shown("flush")), ("".into(), "".into(), "flush".into()));
        assert_eq!(shown("add 10.0.0.0/8 3"), "port: no output 3, there are 3");
        assert_eq!(shown("add 10.0.0.0/33 1"), "prefix: prefix length out of range, bound 32");
        assert_eq!(shown("add 10.0.0.0/8 x 1"), "gateway: parse error");
        assert_eq!(
            shown("delete 10.0.0.0/8"),
            "unknown command 'delete', expected add, set, remove or flush"
        );
    }
}
