//! What internal links carry: all the same, but for some.
//!
//! A node weighs a relay by the slower of two links, and has only the first of them itself. What the others carry is therefore
//! in its configuration, too; hellos only say which of them are up.

use super::settings::Settings;
use super::switch::Switch;
use cluster::shares::Links;
use cluster::topology::Topology;
use graph::{ArgError, Args, FromArg, Text, value};
use lang::args::{Bandwidth, Words};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The least rate that is taken, bits per second.
pub const LEAST: u64 = 8000;

/// Links of another rate than the usual one: the nodes at their ends, the lower number first, and bits per second both ways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<(u16, u16), u64>);

/// One rate, or several with spaces between them, in bits per second.
struct Several(Vec<u64>);

impl FromArg for Several {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        // There may be a space before the unit.
        if let Ok(Bandwidth(rate)) = Bandwidth::from_arg(arg) {
            return Ok(Several(vec![rate.saturating_mul(8)]));
        }
        let mut words = Words::new(arg);
        let mut rates = Vec::new();
        while words.peek().is_some() {
            let Bandwidth(rate) = words.take("rate")?;
            rates.push(rate.saturating_mul(8));
        }
        Ok(Several(rates))
    }

    fn placeholder() -> Self {
        Several(Vec::new())
    }
}

/// `0 1 10Mbps 0 2 20Mbps`.
#[derive(Debug)]
struct Pairs(Vec<(u16, u16, u64)>);

impl FromArg for Pairs {
    fn from_arg(arg: &Text) -> Result<Self, ArgError> {
        let mut words = Words::new(arg);
        let mut pairs = Vec::new();
        while words.peek().is_some() {
            let (a, b) = (words.take("node")?, words.take("node")?);
            let Bandwidth(rate) = words.take("rate")?;
            pairs.push((a, b, rate.saturating_mul(8)));
        }
        Ok(Pairs(pairs))
    }

    fn placeholder() -> Self {
        Pairs(Vec::new())
    }
}

fn ends(a: u16, b: u16) -> (u16, u16) {
    (a.min(b), a.max(b))
}

impl Rates {
    /// Reads `LINK_RATE` and `RATES` of a node with these links; gives the rate of all other links, too, if there is one.
    pub fn read(args: &mut Args, topology: &Topology, me: u16, links: &[u16]) -> (Option<u64>, Rates) {
        let given = args.keyword_if_given("LINK_RATE").map_or(Vec::new(), |Several(rates)| rates);
        let mut all = Rates::default();
        if given.iter().any(|rate| *rate < LEAST) {
            args.error("LINK_RATE", "less than 1 kB/s");
        } else if given.len() > 1 && given.len() != links.len() {
            args.error("LINK_RATE", format!("{} rates, the node has {} links", given.len(), links.len()));
        }
        let usual = given.first().copied().filter(|_| given.len() == 1);
        if given.len() > 1 {
            all.0 = links.iter().zip(given).map(|(peer, rate)| (ends(me, *peer), rate)).collect();
        }
        let Pairs(pairs) = args.keyword("RATES", Pairs(Vec::new()));
        if let Err(e) = all.add(&pairs, topology) {
            args.error("RATES", e);
        }
        (usual, all)
    }

    /// Reads what `RATES` may say.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, topology: &Topology) -> Result<Rates, String> {
        let Pairs(pairs) = value(text)?;
        let mut rates = Rates::default();
        rates.add(&pairs, topology).map(|()| rates)
    }

    fn add(&mut self, pairs: &[(u16, u16, u64)], topology: &Topology) -> Result<(), String> {
        for &(a, b, rate) in pairs {
            let nodes = topology.nodes();
            if let Some(node) = [a, b].into_iter().find(|node| *node >= nodes) {
                return Err(format!("no node {node}, there are {nodes}"));
            } else if topology.link_to(a, b).or(topology.link_to(b, a)).is_none() {
                return Err(format!("there is no link between nodes {a} and {b}"));
            } else if rate < LEAST {
                return Err("less than 1 kB/s".to_owned());
            } else if self.0.insert(ends(a, b), rate).is_some() {
                return Err(format!("two rates for the link between nodes {a} and {b}"));
            }
        }
        Ok(())
    }

    /// The rate of the link between two nodes, if it is not the usual one, in bits per second.
    pub fn between(&self, a: u16, b: u16) -> Option<u64> {
        self.0.get(&ends(a, b)).copied()
    }

    /// As [`Rates::parse`] reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for ((a, b), rate) in &self.0 {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{a} {b} {rate}bps");
        }
        text
    }
}

impl Settings {
    /// What a link carries that is not one of [`Rates`], in bits per second, while there are so many nodes.
    pub fn link_rate(&self, members: usize) -> u64 {
        let mesh = u16::try_from(members).ok().and_then(|members| Topology::mesh(members).ok());
        let topology = mesh.filter(|_| self.topology.is_mesh()).unwrap_or(self.topology);
        self.link_rate.unwrap_or_else(|| topology.link_rate(self.line_rate, self.ports))
    }
}

impl Switch {
    /// The rate of the link to a neighbour, in bits per second.
    pub(super) fn rate_to(&self, node: u16) -> u64 {
        self.rates.between(self.me, node).unwrap_or(self.link_rate)
    }

    /// Sends at the rates that links have while there are so many nodes.
    pub(super) fn set_rates(&mut self, members: usize) {
        self.link_rate = self.settings.link_rate(members);
        let own = usize::from(self.settings.own_lines());
        for place in 0..self.neighbours.len() {
            let rate = self.rate_to(self.neighbours[place].node);
            self.outlets[own + place].set_rate(rate);
            let link = self.settings.topology.link_to(self.me, self.neighbours[place].node);
            let share = link.and_then(|link| self.shares.get_mut(usize::from(link)));
            share.into_iter().for_each(|share| share.set_rate(rate));
        }
        if self.is_mesh {
            let rate = self.settings.line_rate.saturating_mul(self.settings.ports.into());
            self.chooser.set_quota(rate / members.max(1) as u64);
        }
    }

    /// All links of the cluster, as if all were up.
    pub(super) fn all_links(&self) -> Links {
        let topology = self.settings.topology;
        let mut links = Links::new(topology, self.link_rate);
        for ((a, b), rate) in &self.rates.0 {
            for (from, to) in [(*a, *b), (*b, *a)] {
                topology.link_to(from, to).into_iter().for_each(|link| links.set(from, link, *rate));
            }
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_written() {
        let mesh = Topology::mesh(4).unwrap();
        let rates = Rates::parse(" 2 0 10Mbps 1 3 8kBps ", &mesh).unwrap();
        assert_eq!(rates.text(), "0 2 10000000bps 1 3 64000bps");
        assert_eq!(Rates::parse(&rates.text(), &mesh), Ok(rates.clone()));
        let all = [(0, 2), (2, 0), (1, 3), (0, 1)].map(|(a, b)| rates.between(a, b));
        assert_eq!(all, [Some(10_000_000), Some(10_000_000), Some(64_000), None]);
        assert_eq!(Rates::parse("", &mesh).unwrap().text(), "");
        for (text, wrong) in [
            ("0", "node missing"),
            ("0 1", "rate missing"),
            ("0 4 1Mbps", "no node 4, there are 4"),
            ("3 3 1Mbps", "there is no link between nodes 3 and 3"),
            ("0 1 10bps", "less than 1 kB/s"),
            ("0 1 1Mbps 1 0 1Mbps", "two rates for the link between nodes 1 and 0"),
        ] {
            assert_eq!(Rates::parse(text, &mesh).unwrap_err(), wrong, "{text}");
        }
        let fly = Topology::fly(2, 2).unwrap();
        assert_eq!(Rates::parse("6 0 1Mbps", &fly).unwrap().between(0, 6), Some(1_000_000));
        assert!(Rates::parse("0 7 1Mbps", &fly).is_err(), "no link either way");
    }
}
