//! How nodes are joined: full mesh and k-ary n-fly.
//!
//! A k-ary n-fly has kⁿ rows and n columns. The nodes of column 0 carry the external lines. From column c a node has
//! k links to column c + 1 (column 0 after the last), to the rows that equal its own but for digit c of the row's number
//! written in base k. n links in a row can so reach every row: a packet goes once round, each digit of its row chosen to
//! spread the load, to a random node of column 0 (the relay), and once round again, each digit set to that of its output
//! node. Each way puts at most R/k on each link, so links of 2R/k carry every admissible matrix, and a node handles at
//! most 3R: the bounds of the full mesh (RouteBricks, SOSP 2009, §3.3), which is the N-ary 1-fly.
//!
//! In a full mesh the link from a node to itself is not there: who chooses itself as relay sends directly.

use thiserror::Error;

use crate::header::NODES;

/// Nodes and how they are joined. Nodes are numbered column by column: row r of column c is `c · rows + r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topology {
    radix: u16,
    columns: u16,
    rows: u16,
}

/// Why there is no such topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Nothing to switch between.
    #[error("a cluster has at least one node, and a multi-stage network at least two links out of each")]
    TooSmall,
    /// More nodes than the header can name.
    #[error("more than 4,096 nodes do not fit the internal header")]
    TooLarge,
}

impl Topology {
    /// One node alone.
    pub const ONE: Topology = Topology { radix: 1, columns: 1, rows: 1 };

    /// Every node has a link to every other.
    ///
    /// # Errors
    ///
    /// If there is no node or there are more than 4,096.
    pub fn mesh(nodes: u16) -> Result<Topology, TopologyError> {
        match nodes {
            0 => Err(TopologyError::TooSmall),
            _ if nodes > NODES => Err(TopologyError::TooLarge),
            _ => Ok(Topology { radix: nodes, columns: 1, rows: nodes }),
        }
    }

    /// The k-ary n-fly: `radix` k, `columns` n.
    ///
    /// # Errors
    ///
    /// If k is below 2, n is 0, or there are more than 4,096 nodes.
    pub fn fly(radix: u16, columns: u16) -> Result<Topology, TopologyError> {
        if radix < 2 || columns == 0 {
            return Err(TopologyError::TooSmall);
        }
        let rows = radix.checked_pow(columns.into()).ok_or(TopologyError::TooLarge)?;
        let nodes = rows.checked_mul(columns).ok_or(TopologyError::TooLarge)?;
        if nodes > NODES {
            return Err(TopologyError::TooLarge);
        }
        Ok(Topology { radix, columns, rows })
    }

    /// All nodes.
    pub fn nodes(&self) -> u16 {
        self.rows * self.columns
    }

    /// The nodes with external lines: those numbered below this.
    pub fn edge_nodes(&self) -> u16 {
        self.rows
    }

    /// n: the number of columns.
    pub fn columns(&self) -> u16 {
        self.columns
    }

    /// The column that a node is in.
    pub fn column(&self, node: u16) -> u16 {
        node / self.rows
    }

    /// Whether this is a full mesh.
    pub fn is_mesh(&self) -> bool {
        self.columns == 1
    }

    /// Links out of each node; in a full mesh one of them is to itself and does not exist.
    pub fn radix(&self) -> u16 {
        self.radix
    }

    /// Whether a first way that has come to this node is over: it is a relay.
    pub fn is_relay(&self, node: u16) -> bool {
        node < self.rows
    }

    /// Where link number `link`, below [`Topology::radix`], of a node leads to.
    pub fn peer(&self, node: u16, link: u16) -> u16 {
        let (column, row) = (node / self.rows, node % self.rows);
        let weight = self.radix.pow(column.into());
        let digit = row / weight % self.radix;
        (column + 1) % self.columns * self.rows + row - digit * weight + link * weight
    }

    /// The number of the link that leads from a node to another, if there is one.
    pub fn link_to(&self, node: u16, peer: u16) -> Option<u16> {
        (0..self.radix).find(|&link| node != peer && self.peer(node, link) == peer)
    }

    /// The nodes at the other ends of a node's links, in or out, in ascending order.
    pub fn neighbours(&self, node: u16) -> Vec<u16> {
        // Links into a node choose the digit of the column before, so they come from the rows that differ in it.
        let (column, row) = (node / self.rows, node % self.rows);
        let before = (column + self.columns - 1) % self.columns;
        let weight = self.radix.pow(before.into());
        let first = before * self.rows + row - row / weight % self.radix * weight;
        let into = (0..self.radix).map(|digit| first + digit * weight);
        let out = (0..self.radix).map(|link| self.peer(node, link));
        let mut all: Vec<u16> = out.chain(into).filter(|&peer| peer != node).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The number of the link that a packet on its second way takes from a node towards its output node.
    pub fn link_towards(&self, node: u16, to: u16) -> u16 {
        to % self.rows / self.radix.pow((node / self.rows).into()) % self.radix
    }

    /// What a node does with packets on their second way: for each output node the number of the link.
    pub fn forwarding_table(&self, node: u16) -> Vec<u16> {
        (0..self.rows).map(|to| self.link_towards(node, to)).collect()
    }

    /// The rate, in bits per second, that every internal link must have to carry every admissible matrix, when each edge
    /// node has `ports` external lines of `line_rate`: 2sR/k, rounded up.
    pub fn link_rate(&self, line_rate: u64, ports: u8) -> u64 {
        let twice = 2 * u128::from(line_rate) * u128::from(ports);
        u64::try_from(twice.div_ceil(u128::from(self.radix))).unwrap_or(u64::MAX)
    }

    /// The node and its port that external line number `line` is, when each edge node has `ports` of them.
    pub fn line(&self, line: u32, ports: u8) -> Option<(u16, u8)> {
        let node = line.checked_div(ports.into())?;
        let node = u16::try_from(node).ok().filter(|&node| node < self.rows)?;
        Some((node, (line % u32::from(ports)) as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(Topology::mesh(0), Err(TopologyError::TooSmall));
        assert_eq!(Topology::mesh(4097), Err(TopologyError::TooLarge));
        assert_eq!(Topology::mesh(4096).unwrap().nodes(), 4096);
        assert_eq!(Topology::fly(1, 3), Err(TopologyError::TooSmall));
        assert_eq!(Topology::fly(2, 0), Err(TopologyError::TooSmall));
        assert_eq!(Topology::fly(2, 16), Err(TopologyError::TooLarge));
        assert_eq!(Topology::fly(16, 4), Err(TopologyError::TooLarge));
        assert_eq!(Topology::fly(7, 1), Topology::mesh(7));
        let fly = Topology::fly(4, 2).unwrap();
        assert_eq!((fly.nodes(), fly.edge_nodes(), fly.radix(), fly.is_mesh()), (32, 16, 4, false));
        // The paper's case: 1,024 lines, 32 links a node, an intermediate node for each.
        let fly = Topology::fly(32, 2).unwrap();
        assert_eq!((fly.edge_nodes(), fly.nodes()), (1024, 2048));
        assert_eq!(fly.link_rate(10_000_000_000, 1), 625_000_000);
    }

    #[test]
    fn a_mesh_has_a_link_for_each_pair() {
        let mesh = Topology::mesh(4).unwrap();
        for node in 0..4 {
            assert_eq!((0..4).map(|link| mesh.peer(node, link)).collect::<Vec<_>>(), [0, 1, 2, 3]);
            assert_eq!(mesh.forwarding_table(node), [0, 1, 2, 3]);
            assert!(mesh.is_relay(node));
        }
        assert_eq!(mesh.link_rate(10, 1), 5);
        assert_eq!(mesh.link_rate(10, 2), 10);
    }

    #[test]
    fn both_ways_of_a_fly_take_one_round() {
        for (radix, columns) in [(2, 3), (3, 2), (4, 2), (5, 1), (2, 1)] {
            let fly = Topology::fly(radix, columns).unwrap();
            let mut into = vec![0; fly.nodes().into()];
            for node in 0..fly.nodes() {
                let mut peers: Vec<u16> = (0..radix).map(|link| fly.peer(node, link)).collect();
                peers.iter().for_each(|&peer| into[usize::from(peer)] += 1);
                peers.dedup();
                assert_eq!(peers.len(), usize::from(radix), "links lead to different nodes");
            }
            assert!(into.iter().all(|&count| count == radix), "as many links in as out");
            for from in 0..fly.edge_nodes() {
                // The first way: each choice of links leads to a relay of its own.
                let mut reached = vec![from];
                for _ in 0..columns {
                    reached = reached
                        .into_iter()
                        .flat_map(|node| (0..radix).map(move |link| fly.peer(node, link)))
                        .collect();
                }
                reached.sort_unstable();
                assert_eq!(reached, (0..fly.edge_nodes()).collect::<Vec<_>>());
                // The second: to each output node.
                for to in 0..fly.edge_nodes() {
                    let mut node = from;
                    for column in 0..columns {
                        assert_eq!(node / fly.edge_nodes(), column);
                        node = fly.peer(node, fly.forwarding_table(node)[usize::from(to)]);
                    }
                    assert_eq!(node, to);
                }
            }
        }
    }

    #[test]
    fn neighbours_are_those_with_a_link_in_or_out() {
        let mesh = Topology::mesh(4).unwrap();
        assert_eq!(mesh.neighbours(2), [0, 1, 3]);
        assert_eq!((mesh.link_to(2, 3), mesh.link_to(2, 2)), (Some(3), None));
        assert_eq!(Topology::ONE.neighbours(0), []);
        // Column 0 has digit 0 of the row to choose, column 1 digit 1.
        let fly = Topology::fly(2, 2).unwrap();
        assert_eq!(fly.neighbours(0), [4, 5, 6]);
        assert_eq!([4, 5, 6].map(|peer| fly.link_to(0, peer)), [Some(0), Some(1), None]);
        assert_eq!([4, 5, 6].map(|peer| fly.link_to(peer, 0)), [Some(0), None, Some(0)]);
        for (radix, columns) in [(2, 3), (3, 2), (4, 2), (5, 1), (2, 1), (2, 5)] {
            let fly = Topology::fly(radix, columns).unwrap();
            for node in 0..fly.nodes() {
                let joined = |&peer: &u16| fly.link_to(node, peer).or(fly.link_to(peer, node)).is_some();
                assert_eq!(fly.neighbours(node), (0..fly.nodes()).filter(joined).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn lines_are_ports_of_nodes() {
        let mesh = Topology::mesh(4).unwrap();
        assert_eq!(mesh.line(5, 2), Some((2, 1)));
        assert_eq!(mesh.line(7, 2), Some((3, 1)));
        assert_eq!(mesh.line(8, 2), None);
        assert_eq!(mesh.line(0, 0), None);
        assert_eq!(mesh.line(u32::MAX, 1), None);
    }
}
