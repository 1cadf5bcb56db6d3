//! Rules of policy routing (`ip rule`): which packets Linux is to route itself, because of rules that the tables do not know.

use super::paths::In;
use crate::kernel::Model;
use crate::netlink::{LOCAL_TABLE, MAIN_TABLE, Rule, Selection};
use fib::{Address, Family, Prefix};
use std::collections::{BTreeMap, BTreeSet};

/// Prefixes of tables that rules name; of more than these everything is Linux's.
const MOST_PREFIXES: usize = 4096;

/// What is Linux's by rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    ipv4: OfFamily<u32>,
    ipv6: OfFamily<u128>,
}

/// The same of one family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfFamily<A> {
    /// Whatever comes in.
    everything: bool,
    /// Whatever comes in by interfaces of these names.
    inputs: BTreeSet<[u8; 16]>,
    /// Whatever is for these, by length.
    prefixes: BTreeMap<u8, BTreeSet<A>>,
    /// Tables that this depends on.
    tables: BTreeSet<u32>,
}

/// The family's part.
pub trait Part: Sized {
    /// Of all.
    fn part(policy: &Policy) -> &OfFamily<Self>;
}

impl Part for u32 {
    fn part(policy: &Policy) -> &OfFamily<u32> {
        &policy.ipv4
    }
}

impl Part for u128 {
    fn part(policy: &Policy) -> &OfFamily<u128> {
        &policy.ipv6
    }
}

impl Policy {
    /// What the kernel's rules come to.
    pub fn of(kernel: &Model) -> Policy {
        Policy { ipv4: OfFamily::of(kernel), ipv6: OfFamily::of(kernel) }
    }

    /// True if a change of the routes of this table may change it.
    pub fn depends_on<A: Part>(&self, table: u32) -> bool {
        A::part(self).tables.contains(&table)
    }

    /// True if Linux routes all packets of a family that come in by the interface of this name.
    pub fn takes_all(&self, family: Family, input: &str) -> bool {
        match family {
            Family::Ipv4 => self.ipv4.takes_all(input),
            Family::Ipv6 => self.ipv6.takes_all(input),
        }
    }

    /// True if Linux routes all packets to this prefix.
    pub fn takes<A: Part + Address>(&self, prefix: Prefix<A>) -> bool {
        A::part(self).takes(prefix)
    }

    /// The prefixes that it has.
    pub fn prefixes<A: Part + Address>(&self) -> impl Iterator<Item = Prefix<A>> {
        A::part(self).prefixes()
    }
}

impl<A: In + Part> OfFamily<A> {
    fn of(kernel: &Model) -> OfFamily<A> {
        let mut rules: Vec<Rule> =
            kernel.rules.iter().map(|(rule, ())| rule).filter(|rule| rule.family == A::FAMILY).collect();
        let mut found = OfFamily::default();
        if rules.is_empty() {
            // They have not been told.
            return found;
        }
        rules.sort_unstable();
        let is_main = |rule: &Rule| (rule.for_packets, rule.table) == (Selection::All, Some(MAIN_TABLE));
        let mut has_main = false;
        for rule in &rules {
            if is_main(rule) {
                // What comes behind it is for packets without a route, which are Linux's anyway.
                has_main = true;
                break;
            }
            found.add(rule, kernel);
        }
        found.everything |= !has_main;
        found
    }

    /// Adds what a rule before that of the table `main` takes.
    fn add(&mut self, rule: &Rule, kernel: &Model) {
        match (rule.for_packets, rule.table) {
            (Selection::None, _) | (Selection::All, Some(LOCAL_TABLE)) => {}
            (Selection::All, Some(table)) => {
                self.tables.insert(table);
                for (count, (prefix, _)) in A::of(kernel).table(table).enumerate() {
                    self.everything |= count >= MOST_PREFIXES;
                    if self.everything {
                        return;
                    }
                    self.add_prefix(prefix);
                }
            }
            (Selection::To(address, len), _) => {
                match A::from_ip(address).and_then(|address| Prefix::new(address, len)) {
                    Some(prefix) => self.add_prefix(prefix),
                    None => self.everything = true,
                }
            }
            (Selection::From(input), _) => {
                self.inputs.insert(input);
            }
            (Selection::Some | Selection::All, _) => self.everything = true,
        }
    }

    fn add_prefix(&mut self, prefix: Prefix<A>) {
        self.prefixes.entry(prefix.len()).or_default().insert(prefix.first());
    }
}

impl<A: Address> OfFamily<A> {
    fn takes_all(&self, input: &str) -> bool {
        let is_named = |name: &[u8; 16]| {
            let len = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            name.get(..len) == Some(input.as_bytes())
        };
        self.everything || self.inputs.iter().any(is_named)
    }

    fn takes(&self, prefix: Prefix<A>) -> bool {
        self.prefixes.range(..=prefix.len()).any(|(len, of_length)| {
            Prefix::new(prefix.first(), *len).is_some_and(|above| of_length.contains(&above.first()))
        })
    }

    fn prefixes(&self) -> impl Iterator<Item = Prefix<A>> {
        let of_length = |(len, firsts): (&u8, &'_ BTreeSet<A>)| {
            let len = *len;
            firsts.iter().filter_map(move |first| Prefix::new(*first, len)).collect::<Vec<_>>()
        };
        self.prefixes.iter().flat_map(of_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Action, Hop, Hops, Kind, Message, Route, RouteExtras};
    use std::net::{IpAddr, Ipv4Addr};

    fn rule(priority: u32, for_packets: Selection, table: Option<u32>) -> Message {
        let (family, digest) = (Family::Ipv4, u64::from(priority));
        Message::Rule(Action::Add, Rule { family, priority, for_packets, table, digest })
    }

    fn route(table: u32, prefix: &str) -> Message {
        let (prefix, hops) = (prefix.parse().unwrap(), Hops::One(Hop { gateway: None, link: 1 }));
        let (metric, tos, protocol, kind, mtu) = (0, 0, 4, Kind::Unicast, None);
        let extras = RouteExtras::default();
        Message::Route4(Action::Add, Route { table, prefix, metric, tos, protocol, kind, hops, mtu, extras })
    }

    /// The kernel's own rules, and these.
    fn policy(more: impl IntoIterator<Item = Message>) -> Policy {
        let own = [
            rule(0, Selection::All, Some(LOCAL_TABLE)),
            rule(32_766, Selection::All, Some(MAIN_TABLE)),
            rule(32_767, Selection::All, Some(253)),
        ];
        let mut model = Model::default();
        own.into_iter().chain(more).for_each(|message| model.apply(message, false));
        Policy::of(&model)
    }

    fn takes(policy: &Policy, prefix: &str) -> bool {
        policy.takes::<u32>(prefix.parse().unwrap())
    }

    const TO: Selection = Selection::To(IpAddr::V4(Ipv4Addr::new(10, 8, 0, 0)), 13);

    #[test]
    fn the_kernel_s_own_rules_leave_everything_to_the_tables() {
        let plain = policy([]);
        assert_eq!((plain.takes_all(Family::Ipv4, "eth1"), takes(&plain, "10.8.0.0/16")), (false, false));
        assert_eq!(Policy::of(&Model::default()), Policy::default());
    }

    #[test]
    fn a_rule_for_destinations_takes_what_is_under_them() {
        let policy = policy([rule(100, TO, Some(7))]);
        let taken = ["10.8.0.0/13", "10.9.0.0/16", "10.15.255.255/32", "10.0.0.0/8", "10.16.0.0/16"]
            .map(|prefix| takes(&policy, prefix));
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(!policy.takes_all(Family::Ipv4, "eth1"));
        assert_eq!(policy.prefixes::<u32>().collect::<Vec<_>>(), ["10.8.0.0/13".parse().unwrap()]);
    }

    #[test]
    fn a_rule_for_all_takes_the_prefixes_of_its_table() {
        let more = [rule(220, Selection::All, Some(220)), route(220, "20.0.0.0/8"), route(221, "30.0.0.0/8")];
        let found = policy(more);
        assert_eq!((takes(&found, "20.1.0.0/16"), takes(&found, "30.1.0.0/16")), (true, false));
        assert_eq!((found.depends_on::<u32>(220), found.depends_on::<u32>(221)), (true, false));
        let many = (0..=MOST_PREFIXES).map(|i| route(220, &format!("20.{}.{}.0/24", i / 256, i % 256)));
        let everything = policy([rule(220, Selection::All, Some(220))].into_iter().chain(many));
        assert!(everything.takes_all(Family::Ipv4, "eth1"));
    }

    #[test]
    fn other_rules_take_an_interface_or_everything() {
        let mut name = [0; 16];
        name[..4].copy_from_slice(b"eth1");
        let by_input = policy([rule(5, Selection::From(name), Some(7))]);
        let taken = ["eth1", "eth10", "eth"].map(|name| by_input.takes_all(Family::Ipv4, name));
        assert_eq!((taken, by_input.takes_all(Family::Ipv6, "eth1")), ([true, false, false], false));
        assert!(policy([rule(5, Selection::Some, Some(7))]).takes_all(Family::Ipv4, "eth2"));
        // Of no forwarded packet, and behind the rule for the table main.
        assert_eq!(policy([rule(5, Selection::None, Some(7))]), policy([]));
        assert_eq!(policy([rule(40_000, Selection::Some, Some(7))]), policy([]));
    }

    #[test]
    fn without_the_rule_for_the_table_main_linux_routes_everything() {
        let mut model = Model::default();
        model.apply(rule(0, Selection::All, Some(LOCAL_TABLE)), false);
        assert!(Policy::of(&model).takes_all(Family::Ipv4, "eth1"));
    }
}
