//! Routes as configurations and handlers write them: `addr/mask [gateway] port`.

use fib::{Address, InVrf, NextHop, Prefix, ReadError, Route, RouteChange, RouteFile};
use graph::{ArgError, FromArg, Span, Text};
use lang::args::{Ipv4Prefix, Ipv6Prefix, Words};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// An address family whose routes configurations can write.
pub trait RouteAddress: InVrf {
    /// An address as configurations write it.
    type Ip: FromArg + Into<IpAddr>;
    /// What a wrong address should have been.
    const KIND: &'static str;
    /// Widths of prefix and gateway in tables.
    const WIDTHS: (usize, usize);

    /// Reads a prefix.
    fn prefix(arg: &Text) -> Result<Prefix<Self>, ArgError>;
    /// Why the address cannot be a gateway, if it cannot.
    fn bad_gateway(_: IpAddr) -> Option<&'static str> {
        None
    }
    /// The routes of this family in a file.
    fn routes(file: RouteFile) -> Vec<Route<Self>>;
}

impl RouteAddress for u32 {
    type Ip = Ipv4Addr;
    const KIND: &'static str = "an IPv4 address";
    const WIDTHS: (usize, usize) = (18, 15);

    fn prefix(arg: &Text) -> Result<Prefix<u32>, ArgError> {
        let p = Ipv4Prefix::from_arg(arg)?;
        // The length of a prefix argument is at most 32.
        Ok(Prefix::new(p.address.to_bits(), p.length).unwrap_or_default())
    }

    fn routes(file: RouteFile) -> Vec<Route<u32>> {
        file.v4
    }
}

impl RouteAddress for u128 {
    type Ip = Ipv6Addr;
    const KIND: &'static str = "an IPv6 address";
    const WIDTHS: (usize, usize) = (28, 24);

    fn prefix(arg: &Text) -> Result<Prefix<u128>, ArgError> {
        let p = Ipv6Prefix::from_arg(arg)?;
        // The length of a prefix argument is at most 128.
        Ok(Prefix::new(p.address.to_bits(), p.length).unwrap_or_default())
    }

    /// Such an address is not seen to be an annotation.
    fn bad_gateway(gateway: IpAddr) -> Option<&'static str> {
        let low = matches!(gateway, IpAddr::V6(address) if address.to_bits() >> 96 == 0);
        low.then_some("a gateway cannot begin with four zero octets")
    }

    fn routes(file: RouteFile) -> Vec<Route<u128>> {
        file.v6
    }
}

/// A route, and where its port number stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RouteArg<A: Address> {
    pub route: Route<A>,
    pub port_span: Span,
}

impl<A: RouteAddress> FromArg for RouteArg<A> {
    fn from_arg(arg: &Text) -> Result<RouteArg<A>, ArgError> {
        let mut words = Words::new(arg);
        let PrefixArg(prefix) = words.take("prefix")?;
        let gateway = if words.len() > 1 { words.take::<Gateway<A>>("gateway")?.0 } else { None };
        let port_span = words.peek().map_or(arg.span, |word| word.span);
        let port = words.take("port")?;
        words.end()?;
        Ok(RouteArg { route: Route { prefix, next_hop: NextHop { gateway, port } }, port_span })
    }

    fn placeholder() -> RouteArg<A> {
        let next_hop = NextHop { gateway: None, port: 0 };
        RouteArg { route: Route { prefix: Prefix::default(), next_hop }, port_span: Span::default() }
    }
}

struct PrefixArg<A>(Prefix<A>);

impl<A: RouteAddress> FromArg for PrefixArg<A> {
    fn from_arg(arg: &Text) -> Result<PrefixArg<A>, ArgError> {
        A::prefix(arg).map(PrefixArg)
    }

    fn placeholder() -> PrefixArg<A> {
        PrefixArg(Prefix::default())
    }
}

/// A gateway; `-` and an address of zeros mean that the destination is on the link.
pub(crate) struct Gateway<A>(pub Option<IpAddr>, PhantomData<A>);

impl<A: RouteAddress> FromArg for Gateway<A> {
    fn from_arg(arg: &Text) -> Result<Gateway<A>, ArgError> {
        if arg.text == "-" {
            return Ok(Gateway(None, PhantomData));
        }
        let address: IpAddr = A::Ip::from_arg(arg)?.into();
        let address = (!address.is_unspecified()).then_some(address);
        match address.and_then(A::bad_gateway) {
            Some(message) => Err(ArgError::new(message)),
            None => Ok(Gateway(address, PhantomData)),
        }
    }

    fn placeholder() -> Gateway<A> {
        Gateway(None, PhantomData)
    }
}

/// What the parameter of a handler is: a text of its own, without a place in a configuration.
fn text(line: &str) -> Text {
    Text::verbatim(line.trim(), Span::default())
}

/// A route written to a handler, for an element with `outputs` outputs.
pub(crate) fn route<A: RouteAddress>(line: &str, outputs: usize) -> Result<Route<A>, String> {
    let route = RouteArg::from_arg(&text(line)).map_err(|e| e.message)?.route;
    port_fits(route, outputs)?;
    Ok(route)
}

/// Refuses a route whose port is not an output.
pub(crate) fn port_fits<A: Address>(route: Route<A>, outputs: usize) -> Result<(), String> {
    match (route.next_hop.port as usize) < outputs {
        true => Ok(()),
        false => Err(format!("port: no output {}, there are {outputs}", route.next_hop.port)),
    }
}

/// The routes of one family in a route file, for an element with `outputs` outputs.
pub(crate) fn read_file<A: RouteAddress>(path: &Path, outputs: usize) -> Result<Vec<Route<A>>, String> {
    let file = RouteFile::read(path, None).map_err(|e| match e {
        ReadError::Io(e) => format!("cannot read {}: {e}", path.display()),
        // One line: it is a part of a diagnostic.
        e => format!("{}: {}", path.display(), e.to_string().replace('\n', "; ")),
    })?;
    let routes = A::routes(file);
    for route in &routes {
        let Some(gateway) = route.next_hop.gateway else { continue };
        if A::from_ip(gateway).is_none() {
            return Err(format!("{}: route {route}: the gateway is not {}", path.display(), A::KIND));
        }
        if let Some(message) = A::bad_gateway(gateway) {
            return Err(format!("{}: route {route}: {message}", path.display()));
        }
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
pub(crate) fn removal<A: RouteAddress>(line: &str) -> Result<RouteChange<A>, String> {
    let whole = text(line);
    if whole.words().len() > 1 {
        let route = RouteArg::from_arg(&whole).map_err(|e| e.message)?.route;
        return Ok(RouteChange::Remove(route.prefix, Some(route.next_hop)));
    }
    let PrefixArg(prefix) = Words::new(&whole).take("prefix").map_err(|e| e.message)?;
    Ok(RouteChange::Remove(prefix, None))
}

/// What is wrong with words behind `flush`, which would not mean all routes.
pub(crate) fn flush_takes_nothing(more: &str) -> String {
    format!("flush removes all routes and takes nothing, found '{more}'")
}

/// One line of a transaction: `add|set ROUTE`, `remove ...`, `flush`; `None` for an empty line or a `#` comment.
pub(crate) fn change<A: RouteAddress>(line: &str, outputs: usize) -> Result<Option<RouteChange<A>>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match word {
        "add" => route(rest, outputs).map(RouteChange::Add),
        "set" => route(rest, outputs).map(RouteChange::Set),
        "remove" => removal(rest),
        "flush" => match rest.trim() {
            "" => Ok(RouteChange::Flush),
            more => Err(flush_takes_nothing(more)),
        },
        _ => Err(format!("unknown command '{word}', expected add, set, remove or flush")),
    }
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(line: &str) -> String {
        shown_as::<u32>(line)
    }

    fn shown_as<A: RouteAddress>(line: &str) -> String {
        match change::<A>(line, 3) {
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
        assert_eq!(
            (shown("add 10/8 1"), shown("remove 172.16/12")),
            ("+10.0.0.0/8 1".into(), "-172.16.0.0/12 ".into())
        );
        assert_eq!(shown("add 10.1 1"), "prefix: parse error");
        assert_eq!((shown("remove"), shown("add")), ("prefix missing".into(), "prefix missing".into()));
        assert_eq!(shown("add 10.0.0.0/8 3"), "port: no output 3, there are 3");
        assert_eq!(shown("add 10.0.0.0/33 1"), "prefix: prefix length out of range, bound 32");
        assert_eq!(shown("add 10.0.0.0/8 x 1"), "gateway: parse error");
        assert_eq!(
            shown("delete 10.0.0.0/8"),
            "unknown command 'delete', expected add, set, remove or flush"
        );
    }

    proptest! {
        /// Two crates read prefixes, neither of which may use the other.
        #[test]
        fn a_prefix_means_the_same_in_arguments_and_in_files(
            text in "[0-9]{0,3}(\\.[0-9]{1,3}){0,4}\\.?(/[0-9]{0,3}|/255\\.(0|128|255)\\.0\\.[01])?",
        ) {
            prop_assert_eq!(u32::prefix(&super::text(&text)).ok(), text.parse::<Prefix<u32>>().ok());
        }
    }

    #[test]
    fn lines_about_ipv6() {
        let shown = shown_as::<u128>;
        assert_eq!(shown("add 2001:db8::9/32 fe80::1 1"), "+2001:db8::/32 fe80::1 1");
        assert_eq!(shown("set ::/0 :: 2"), "=::/0 2");
        assert_eq!(shown("remove 2001:db8::/ffff:: 2"), "-2001::/16 2");
        assert_eq!(shown("add 2001:db8:: ::1 0"), "gateway: a gateway cannot begin with four zero octets");
        assert_eq!(shown("add 2001:db8:: 10.0.0.1 0"), "gateway: parse error");
        assert_eq!(shown("add 10.0.0.0/8 0"), "prefix: parse error");
    }
}
