//! `AddressInfo`: gives names to addresses.
//!
//! # Arguments
//! Any number of `NAME ADDRESS [ADDRESS...]`: the name may stand for these addresses in arguments of other elements,
//! wherever one of the kind is read. An address is an IPv4 or IPv6 address, one with a prefix length (`10.1.2.3/8`) or an
//! Ethernet address. Of several of one kind the last counts.
//!
//! | written | stands for |
//! |---|---|
//! | `NAME` | the address of the kind that is read |
//! | `NAME:ip`, `NAME:ip6`, `NAME:eth` | the IPv4, IPv6 or Ethernet address |
//! | `NAME:ipnet`, `NAME:ip6net` | the prefix, with its host bits cleared |
//! | `NAME:bcast` | the last address of the IPv4 prefix |
//!
//! A prefix is also read from the name of an address (all of its bits count) and from `NAME/LENGTH`; an address also from
//! the name of a prefix. In patterns of `IPClassifier` and `IPFilter` a name alone is a host or a network, as it was
//! defined. Handlers do not know the names.
//!
//! Names hold in the compound element that the `AddressInfo` is part of and in those within; the innermost counts. The
//! names of Linux interfaces do not stand for their addresses.
//!
//! # Ports
//! None.
//!
//! # Example
//! ```click
//! AddressInfo(us 10.0.0.1/8 2:0:0:0:0:1, them 10.0.0.2 2:0:0:0:0:2);
//! FastUDPSource(1000, 3, 60, us, us, 1, them, them, 2) -> Unqueue -> Strip(14) -> MarkIPHeader
//!     -> i :: IPClassifier(src us:ip and dst them, -);
//! i[0] -> c :: Counter -> Discard;
//! i[1] -> Discard;
//! // c.count = 3
//! ```

use graph::{Args, Class, ConfigErrors, Configure, Element, LocalCx, Phase, Spec};
use lang::Text;
use lang::args::{ArgError, FromArg, Named, Names, Words, ethernet_address};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct AddressInfo {
    names: Names,
}

/// Nothing happens while the router runs.
#[derive(Debug)]
pub struct LocalAddressInfo;

/// `NAME ADDRESS [ADDRESS...]`.
struct Entry {
    name: String,
    addresses: Vec<Address>,
}

/// One address of any kind.
struct Address(Named);

impl FromArg for Address {
    fn from_arg(arg: &Text) -> Result<Address, ArgError> {
        if let Ok(ether) = ethernet_address(&arg.text) {
            return Ok(Address(Named { ether: Some(ether), ..Named::default() }));
        }
        // A mask of the wrong form says more than that it is no address of the other kind.
        let (ip, ip6) = (FromArg::from_arg(arg), FromArg::from_arg(arg));
        match (ip, ip6) {
            (Ok(ip), _) => Ok(Address(Named { ip: Some(ip), ..Named::default() })),
            (_, Ok(ip6)) => Ok(Address(Named { ip6: Some(ip6), ..Named::default() })),
            (Err(error), Err(_)) if !arg.text.contains(':') => Err(error),
            (_, Err(error)) => Err(error),
        }
    }

    fn placeholder() -> Address {
        Address(Named::default())
    }
}

impl FromArg for Entry {
    fn from_arg(arg: &Text) -> Result<Entry, ArgError> {
        let mut words = Words::new(arg);
        let name: Text = words.take("name")?;
        if Address::from_arg(&name).is_ok() || !Names::is_plain(&name.text) {
            return Err(ArgError::new(format!("'{}' cannot be a name", name.text)).at(name.span));
        }
        let mut addresses = vec![words.take("address")?];
        while !words.is_empty() {
            addresses.push(words.take("address")?);
        }
        Ok(Entry { name: name.text, addresses })
    }

    fn placeholder() -> Entry {
        Entry { name: String::new(), addresses: Vec::new() }
    }
}

impl Class for AddressInfo {
    const SPEC: Spec = Spec { phase: Phase::Info, ..Spec::new("AddressInfo", "0/0", "a/a") };
    type Local = LocalAddressInfo;

    fn configure(args: &mut Args, _: &Configure<'_>) -> Result<AddressInfo, ConfigErrors> {
        args.keywords(&[]);
        let entries: Vec<Entry> = args.rest("ENTRY");
        args.finish()?;
        let mut names = Names::default();
        for Entry { name, addresses } in entries {
            addresses.iter().for_each(|Address(named)| names.define(&name, *named));
        }
        Ok(AddressInfo { names })
    }

    fn local(self: &Arc<Self>, _: &LocalCx) -> LocalAddressInfo {
        LocalAddressInfo
    }

    fn names(&self) -> Option<&Names> {
        Some(&self.names)
    }
}

impl Element for LocalAddressInfo {}

#[cfg(test)]
mod tests {
    use crate::testing::{Lab, errors};

    /// The values of handlers of a configuration that has just been made.
    fn read(config: &str, handlers: &[&str]) -> Vec<String> {
        let lab = Lab::with_workers(config, 1);
        let values = handlers.iter().map(|h| lab.0.read(h).trim().to_owned()).collect();
        lab.end();
        values
    }

    #[test]
    fn names_stand_in_all_kinds_of_arguments() {
        let config = "AddressInfo(me 10.0.0.1/24 2:0:0:0:0:1, far 10.9.0.0/16, gw 10.0.0.254);
            Idle -> r :: RadixIPLookup(far gw 1, me:ipnet 0, me:ip 2, far:bcast 2, 0.0.0.0/0 gw 1)
                -> Discard; r[1] -> Discard; r[2] -> Discard;
            Idle -> a :: ARPResponder(me far me) -> Discard;
            Idle -> c :: IPClassifier(src host gw, dst net far, gw or far, src far/24, ether src me, -);
            c[0] -> Discard; c[1] -> Discard; c[2] -> Discard; c[3] -> Discard; c[4] -> Discard; c[5] -> Discard;
            Idle -> d :: IPClassifier(src host 10.0.0.254, dst net 10.9.0.0/16, 10.0.0.254 or 10.9.0.0/16,
                src 10.9.0.0/24, ether src 2:0:0:0:0:1, -);
            d[0] -> Discard; d[1] -> Discard; d[2] -> Discard; d[3] -> Discard; d[4] -> Discard; d[5] -> Discard;";
        let values = read(config, &["r.table", "a.table", "c.program", "d.program"]);
        let mut table: Vec<String> =
            values[0].lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        table.sort_unstable();
        let wanted = [
            "0.0.0.0/0 10.0.0.254 1",
            "10.0.0.0/24 - 0",
            "10.0.0.1/32 - 2",
            "10.9.0.0/16 10.0.0.254 1",
            "10.9.255.255/32 - 2",
        ];
        assert_eq!(table, wanted);
        assert_eq!(values[1], "10.0.0.0/24 02-00-00-00-00-01\n10.9.0.0/16 02-00-00-00-00-01");
        assert_eq!(values[2], values[3]);
    }

    #[test]
    fn the_innermost_name_counts() {
        let config = "AddressInfo(a 10.0.0.1);
            elementclass In { AddressInfo(a 10.0.0.2); input -> r :: ARPResponder(a 1:1:1:1:1:1) -> output; }
            elementclass Plain { input -> r :: ARPResponder(a 1:1:1:1:1:1) -> output; }
            Idle -> in :: In -> plain :: Plain -> Discard;";
        let values = read(config, &["in/r.table", "plain/r.table"]);
        assert_eq!(values, ["10.0.0.2/32 01-01-01-01-01-01", "10.0.0.1/32 01-01-01-01-01-01"]);
    }

    #[test]
    fn mistakes() {
        let text = errors("AddressInfo(a, 10.0.0.1 10.0.0.2, a:ip 10.0.0.1, b 10.0.0.0/33, c x, d 1:2);");
        for want in [
            "ENTRY: address missing",
            "ENTRY: '10.0.0.1' cannot be a name",
            "ENTRY: 'a:ip' cannot be a name",
            "ENTRY: address: prefix length out of range, bound 32",
            "ENTRY: address: parse error",
        ] {
            assert!(text.contains(want), "{want}\n{text}");
        }
        let text =
            errors("AddressInfo(router 10.0.0.1); Idle -> ARPResponder(ruoter 1:1:1:1:1:1) -> Discard;");
        assert!(text.contains("prefix: parse error") && text.contains("did you mean `router`?"), "{text}");
    }
}
