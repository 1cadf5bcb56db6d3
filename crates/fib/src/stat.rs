//! What a routing table is like, and what it costs to keep.

use std::collections::HashSet;

use serde::Serialize;

use crate::lookup::Fib;
use crate::prefix::{Address, Family};
use crate::rib::Rib;
use crate::{Dir24_8, LinearTable, NextHops, Poptrie, RangeTree, Route, TooManyNextHops};

/// What a table is like.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TableStat {
    /// The family of its prefixes.
    pub family: Family,
    /// Distinct prefixes.
    pub routes: usize,
    /// Distinct next hops in use.
    pub next_hops: usize,
    /// Routes that lie within another route's prefix.
    pub nested_routes: usize,
    /// The share of all addresses that have a route, 0 to 1.
    pub covered_share: f64,
    /// Routes by length; lengths without routes are left out.
    pub lengths: Vec<LengthRow>,
    /// The memory that each structure would hold.
    pub memory: Vec<MemoryRow>,
}

/// Routes of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LengthRow {
    /// The length in bits.
    pub length: u8,
    /// How many there are.
    pub routes: usize,
}

/// Memory held by one part of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryRow {
    /// Which structure.
    pub structure: &'static str,
    /// Which part of it.
    pub part: &'static str,
    /// How much it holds.
    pub bytes: usize,
}

/// Looks at a table of IPv4 routes. Of two routes for one prefix the later one counts.
pub fn stat4(routes: &[Route<u32>]) -> Result<TableStat, TooManyNextHops> {
    let rib = rib(routes)?;
    let mut stat = stat(&rib);
    stat.add_memory("dir24_8", &Dir24_8::build(&rib));
    stat.add_memory("poptrie", &Poptrie::build(&rib));
    Ok(stat)
}

/// Looks at a table of IPv6 routes. Of two routes for one prefix the later one counts.
pub fn stat6(routes: &[Route<u128>]) -> Result<TableStat, TooManyNextHops> {
    let rib = rib(routes)?;
    let mut stat = stat(&rib);
    stat.add_memory("range tree", &RangeTree::build(&rib));
    stat.add_memory("poptrie", &Poptrie::build(&rib));
    Ok(stat)
}

fn rib<A: Address>(routes: &[Route<A>]) -> Result<Rib<A>, TooManyNextHops> {
    let mut hops = NextHops::default();
    let mut rib = Rib::new();
    for route in routes {
        rib.insert(route.prefix, hops.intern(route.next_hop)?);
    }
    Ok(rib)
}

/// All but the memory of structures that exist for one family only.
fn stat<A: Address>(rib: &Rib<A>) -> TableStat {
    let mut lengths = vec![0; A::BITS as usize + 1];
    let mut hops = HashSet::new();
    let mut nested_routes = 0;
    // The prefixes that cover the one at hand.
    let mut covering: Vec<crate::Prefix<A>> = Vec::new();
    for (prefix, hop) in rib {
        lengths[usize::from(prefix.len())] += 1;
        hops.insert(hop);
        while covering.pop_if(|outer| !outer.covers(prefix)).is_some() {}
        nested_routes += usize::from(!covering.is_empty());
        covering.push(prefix);
    }
    let mut covered = 0.0;
    rib.ranges(Default::default(), |first, last, hop| {
        if hop.is_some() {
            covered += last.to_f64() - first.to_f64() + 1.0;
        }
    });
    let lengths = (0..).zip(lengths).filter(|&(_, routes)| routes > 0);
    let mut stat = TableStat {
        family: A::FAMILY,
        routes: rib.len(),
        next_hops: hops.len(),
        nested_routes,
        covered_share: covered / ((!A::default()).to_f64() + 1.0),
        lengths: lengths.map(|(length, routes)| LengthRow { length, routes }).collect(),
        memory: vec![MemoryRow { structure: "rib", part: "nodes", bytes: rib.memory_bytes() }],
    };
    let linear = LinearTable::new();
    linear.update(rib, &[]);
    stat.add_memory("linear", &linear);
    stat
}

impl TableStat {
    fn add_memory<A: Address>(&mut self, structure: &'static str, fib: &dyn Fib<A>) {
        let rows = fib.memory().into_iter();
        self.memory.extend(rows.map(|row| MemoryRow { structure, part: row.part, bytes: row.bytes }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RouteFile;

    #[test]
    fn counts_lengths_next_hops_nesting_and_coverage() {
        let text = b"0.0.0.0/2 1\n10.0.0.0/8 2\n10.1.0.0/16 1\n128.0.0.0/2 9\n128.0.0.0/2 1\n8000::/1 3\n";
        let file = RouteFile::parse(text, None).unwrap();
        let stat = stat4(&file.v4).unwrap();
        assert_eq!((stat.routes, stat.next_hops, stat.nested_routes, stat.covered_share), (4, 2, 2, 0.5));
        let rows = [(2, 2), (8, 1), (16, 1)].map(|(length, routes)| LengthRow { length, routes });
        assert_eq!(stat.lengths, rows);
        let bytes = |structure: &str| {
            let rows = stat.memory.iter().filter(|row| row.structure == structure);
            rows.map(|row| row.bytes).sum::<usize>()
        };
        assert_eq!((bytes("dir24_8") >> 20, bytes("poptrie") >> 20, bytes("linear")), (8, 1, 4 * 12));
        let stat = stat6(&file.v6).unwrap();
        assert_eq!((stat.family, stat.routes, stat.covered_share), (Family::Ipv6, 1, 0.5));
        let json = serde_json::to_value(&stat).unwrap();
        assert_eq!((&json["family"], &json["lengths"][0]["length"]), (&"ipv6".into(), &1.into()));
    }
}
