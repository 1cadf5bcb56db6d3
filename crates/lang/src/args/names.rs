//! Names for addresses (`AddressInfo`): what may stand wherever an argument is read as an address.

use super::net::{Ipv4Prefix, Ipv6Prefix};
use crate::flat::Flat;
use crate::suggest::nearest;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// What one name stands for. A bare IP address is a prefix of full length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// `NAME`, `NAME:ip`, `NAME:ipnet`, `NAME:bcast`.
    pub ip: Option<Ipv4Prefix>,
    /// `NAME`, `NAME:ip6`, `NAME:ip6net`.
    pub ip6: Option<Ipv6Prefix>,
    /// `NAME`, `NAME:eth`.
    pub ether: Option<[u8; 6]>,
}

/// The names of one compound element, and those around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    own: BTreeMap<String, Named>,
    outer: Option<Arc<Names>>,
}

/// Which form of an address is meant, behind a name and a colon.
const SUFFIXES: [&str; 7] = ["ip", "ipnet", "ip6", "ip6net", "eth", "bcast", "gw"];

/// `NAME:SUFFIX`; other colons are part of the name.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, suffix)) if SUFFIXES.contains(&suffix) => (name, Some(suffix)),
        _ => (text, None),
    }
}

impl Names {
    /// Whether a name could be told from the form of an address that it asks for.
    pub fn is_plain(name: &str) -> bool {
        split(name).1.is_none()
    }

    /// Adds a name, or to what it stands for; the last address of each kind counts.
    pub fn define(&mut self, name: &str, named: Named) {
        let entry = self.own.entry(name.to_owned()).or_default();
        entry.ip = named.ip.or(entry.ip);
        entry.ip6 = named.ip6.or(entry.ip6);
        entry.ether = named.ether.or(entry.ether);
    }

    /// The innermost definition of a name that has an address of a kind.
    fn find<T>(&self, name: &str, kind: impl Fn(&Named) -> Option<T>) -> Option<T> {
        let mut names = Some(self);
        while let Some(here) = names {
            if let Some(found) = here.own.get(name).and_then(&kind) {
                return Some(found);
            }
            names = here.outer.as_deref();
        }
        None
    }

    /// The IPv4 address that a word stands for.
    pub fn ip(&self, word: &str) -> Option<Ipv4Addr> {
        match split(word) {
            (name, None | Some("ip")) => self.find(name, |n| n.ip).map(|p| p.address),
            (name, Some("bcast")) => self.find(name, |n| n.ip).filter(|p| p.length < 31).map(last),
            _ => None,
        }
    }

    /// The IPv4 prefix that a word stands for.
    pub fn ip_prefix(&self, word: &str) -> Option<Ipv4Prefix> {
        match split(word) {
            (name, None) => self.find(name, |n| n.ip),
            (name, Some("ipnet")) => {
                self.find(name, |n| n.ip).map(|p| Ipv4Prefix { address: p.network(), ..p })
            }
            _ => self.ip(word).map(|address| Ipv4Prefix { address, length: 32 }),
        }
    }

    /// The IPv6 address that a word stands for.
    pub fn ip6(&self, word: &str) -> Option<Ipv6Addr> {
        match split(word) {
            (name, None | Some("ip6")) => self.find(name, |n| n.ip6).map(|p| p.address),
            _ => None,
        }
    }

    /// The IPv6 prefix that a word stands for.
    pub fn ip6_prefix(&self, word: &str) -> Option<Ipv6Prefix> {
        match split(word) {
            (name, None) => self.find(name, |n| n.ip6),
            (name, Some("ip6net")) => {
                self.find(name, |n| n.ip6).map(|p| Ipv6Prefix { address: p.network(), ..p })
            }
            _ => self.ip6(word).map(|address| Ipv6Prefix { address, length: 128 }),
        }
    }

    /// The Ethernet address that a word stands for.
    pub fn ether(&self, word: &str) -> Option<[u8; 6]> {
        match split(word) {
            (name, None | Some("eth")) => self.find(name, |n| n.ether),
            _ => None,
        }
    }

    /// The name that a mistyped one is nearest to.
    pub fn nearest(&self, word: &str) -> Option<&str> {
        let mut all = Vec::new();
        let mut names = Some(self);
        while let Some(here) = names {
            all.extend(here.own.keys().map(String::as_str));
            names = here.outer.as_deref();
        }
        nearest(split(word).0, all)
    }
}

/// The last address of a prefix.
fn last(prefix: Ipv4Prefix) -> Ipv4Addr {
    Ipv4Addr::from_bits(prefix.address.to_bits() | !prefix.mask().to_bits())
}

/// The names that hold in each scope of a configuration, if there are any; `defined` are those that elements define, by
/// element. They hold in the compound that the element is part of, and in those within.
pub fn names_by_scope<'a>(
    flat: &Flat,
    defined: impl IntoIterator<Item = (usize, &'a Names)>,
) -> Vec<Option<Arc<Names>>> {
    let mut own: Vec<Option<Names>> = vec![None; flat.scopes.len()];
    for (element, names) in defined {
        let Some(slot) = flat.elements.get(element).and_then(|e| own.get_mut(e.scope)) else { continue };
        let here = slot.get_or_insert_default();
        names.own.iter().for_each(|(name, named)| here.define(name, *named));
    }
    let mut done: Vec<Option<Option<Arc<Names>>>> = vec![None; flat.scopes.len()];
    for scope in 0..flat.scopes.len() {
        // Outward to one whose names are known, then back inward.
        let mut chain = vec![scope];
        let parent = |s: usize| flat.scopes.get(s).and_then(|s| s.parent);
        while let Some(outer) = chain.last().and_then(|s| parent(*s)).filter(|s| done[*s].is_none()) {
            chain.push(outer);
        }
        for s in chain.into_iter().rev().filter(|s| done[*s].is_none()).collect::<Vec<_>>() {
            let outer = parent(s).and_then(|p| done[p].clone().flatten());
            done[s] = Some(match own[s].take() {
                Some(names) => Some(Arc::new(Names { outer, ..names })),
                None => outer,
            });
        }
    }
    done.into_iter().map(Option::flatten).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ArgError, FromArg, Words};
    use crate::{SourceMap, Span, Text, compile};

    fn prefix(text: &str) -> Ipv4Prefix {
        FromArg::from_arg(&Text::verbatim(text, Span::default())).unwrap()
    }

    fn names() -> Arc<Names> {
        let mut names = Names::default();
        let ip = |text: &str| Named { ip: Some(prefix(text)), ..Named::default() };
        names.define("host", ip("10.0.0.7"));
        names.define("my-net", ip("10.1.2.3/16"));
        let ip6 = Some(Ipv6Prefix { address: "fd00::1".parse().unwrap(), length: 64 });
        names.define("host", Named { ip6, ether: Some([2; 6]), ..Named::default() });
        Arc::new(names)
    }

    fn read<T: FromArg>(text: &str) -> Result<T, ArgError> {
        T::from_arg(&Text::verbatim(text, Span::default()).with_names(names()))
    }

    #[test]
    fn a_name_stands_for_what_is_asked_for() {
        let ip = |text: &str| read::<Ipv4Addr>(text).map(|a| a.to_string()).map_err(|e| e.message);
        assert_eq!(ip("host"), Ok("10.0.0.7".to_owned()));
        assert_eq!(ip("host:ip"), Ok("10.0.0.7".to_owned()));
        assert_eq!(ip("my-net"), Ok("10.1.2.3".to_owned()));
        assert_eq!(ip("my-net:bcast"), Ok("10.1.255.255".to_owned()));
        assert_eq!(ip("9.9.9.9"), Ok("9.9.9.9".to_owned()));
        for bad in ["nobody", "host:bcast", "host:eth", "host:gw", "host:ip6", "host:x", ":ip", ""] {
            assert_eq!(ip(bad), Err("parse error".to_owned()), "{bad}");
        }
        let net = |text: &str| read::<Ipv4Prefix>(text).map(|p| (p.address.to_string(), p.length)).ok();
        assert_eq!(net("my-net"), Some(("10.1.2.3".to_owned(), 16)));
        assert_eq!(net("my-net:ipnet"), Some(("10.1.0.0".to_owned(), 16)));
        assert_eq!(net("my-net:ip"), Some(("10.1.2.3".to_owned(), 32)));
        assert_eq!(net("my-net:bcast"), Some(("10.1.255.255".to_owned(), 32)));
        assert_eq!(net("host"), Some(("10.0.0.7".to_owned(), 32)));
        assert_eq!(net("host/24"), Some(("10.0.0.7".to_owned(), 24)));
        assert_eq!(net("nobody/24"), None);
        assert_eq!(read::<[u8; 6]>("host"), Ok([2; 6]));
        assert_eq!(read::<[u8; 6]>("host:eth"), Ok([2; 6]));
        assert!(read::<[u8; 6]>("my-net").is_err());
        assert_eq!(read::<Ipv6Addr>("host:ip6").unwrap().to_string(), "fd00::1");
        assert_eq!(read::<Ipv6Prefix>("host").unwrap().length, 64);
        assert_eq!(read::<Ipv6Prefix>("host:ip6net").unwrap().address.to_string(), "fd00::");
        assert_eq!(read::<std::net::IpAddr>("host").unwrap().to_string(), "10.0.0.7");
        assert_eq!(read::<Ipv4Addr>("hots").unwrap_err().help.as_deref(), Some("did you mean `host`?"));
    }

    #[test]
    fn words_know_the_names() {
        let route = Text::verbatim("my-net:ipnet host 2", Span::default()).with_names(names());
        let mut words = Words::new(&route);
        assert_eq!(words.take::<Ipv4Prefix>("prefix").unwrap(), prefix("10.1.0.0/16"));
        assert_eq!(words.take::<Ipv4Addr>("gateway").unwrap(), Ipv4Addr::new(10, 0, 0, 7));
    }

    #[test]
    fn names_hold_within_their_compound() {
        let mut sources = SourceMap::new();
        let text = "elementclass In { i :: X -> output; N; }
            elementclass Mid { m :: X -> output; in :: In; in -> X; N; }
            o :: X; mid :: Mid -> o; N;";
        let main = sources.add("config", text);
        let flat = compile(&mut sources, main, &|_: &str, _: &str| Err(String::new()), &["X", "N"], &[]);
        let flat = flat.unwrap();
        let defining: Vec<usize> =
            (0..flat.elements.len()).filter(|i| flat.elements[*i].class == "N").collect();
        let define = |element: usize| {
            let depth = flat.elements[element].name.matches('/').count() as u8;
            let mut names = Names::default();
            let ip = |last| Named { ip: Some(prefix(&format!("10.0.0.{last}"))), ..Named::default() };
            names.define("a", ip(depth));
            names.define(&format!("only{depth}"), ip(depth));
            // At the middle, another kind of address for the same name.
            if depth == 1 {
                names.define("e", Named { ether: Some([1; 6]), ..Named::default() });
            } else {
                names.define("e", ip(depth));
            }
            names
        };
        let defined: Vec<(usize, Names)> = defining.iter().map(|i| (*i, define(*i))).collect();
        let scopes = names_by_scope(&flat, defined.iter().map(|(i, n)| (*i, n)));
        let seen = |element: &str, name: &str| {
            let element = &flat.elements[flat.find(element).unwrap()];
            scopes[element.scope].as_ref().unwrap().ip(name).map(|a| a.octets()[3])
        };
        for (depth, element) in [(0, "o"), (1, "mid/m"), (2, "mid/in/i")] {
            assert_eq!(seen(element, "a"), Some(depth), "{element}");
            for other in 0..3 {
                assert_eq!(
                    seen(element, &format!("only{other}")),
                    (other <= depth).then_some(other),
                    "{element}"
                );
            }
        }
        assert_eq!([seen("o", "e"), seen("mid/m", "e"), seen("mid/in/i", "e")], [Some(0), Some(0), Some(2)]);
    }
}
