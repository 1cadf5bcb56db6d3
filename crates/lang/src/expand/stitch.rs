//! Joining connections through compounds and groups.

use super::body::NodeId;
use crate::flat::FlatConnection;
use crate::source::Span;
use std::collections::{HashMap, HashSet};

/// Steps after which stitching gives up; each follows one connection.
const MAX_STEPS: usize = 50_000_000;

/// A connection between nodes of the whole expansion.
#[derive(Clone, Copy)]
pub(super) struct Strand {
    pub from: (NodeId, u32),
    pub to: (NodeId, u32),
    pub span: Span,
    pub from_span: Span,
    pub to_span: Span,
}

/// The nodes of the whole expansion: elements, and the sides of compounds and groups.
pub(super) struct Stitcher {
    strands: Vec<Strand>,
    /// The element a node is, if it is one.
    element: Vec<Option<usize>>,
    /// Where what arrives at a node goes on, if it is a side.
    onward: Vec<Option<NodeId>>,
    limit: usize,
}

impl Stitcher {
    pub fn new(limit: usize) -> Stitcher {
        Stitcher { strands: Vec::new(), element: Vec::new(), onward: Vec::new(), limit }
    }

    /// Adds nodes and returns the number of the first.
    pub fn add_nodes(&mut self, count: usize) -> NodeId {
        let base = self.element.len();
        self.element.resize(base + count, None);
        self.onward.resize(base + count, None);
        base
    }

    pub fn set_element(&mut self, node: NodeId, element: usize) {
        self.element[node] = Some(element);
    }

    /// What arrives at `arrive` goes on from `leave`.
    pub fn join(&mut self, arrive: NodeId, leave: NodeId) {
        self.onward[arrive] = Some(leave);
    }

    /// False if there are too many.
    pub fn add(&mut self, strand: Strand) -> bool {
        self.strands.push(strand);
        self.strands.len() <= self.limit
    }

    /// The connections between elements, each once; or where there were too many.
    pub fn connections(&self) -> Result<Vec<FlatConnection>, Span> {
        let mut leaving: HashMap<(NodeId, u32), Vec<usize>> = HashMap::new();
        for (i, s) in self.strands.iter().enumerate() {
            if self.element[s.from.0].is_none() {
                leaving.entry(s.from).or_default().push(i);
            }
        }
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let mut steps = 0;
        for start in &self.strands {
            let Some(from) = self.element[start.from.0] else { continue };
            // Compounds that only pass through may form a ring; each of their ports is visited once.
            let mut visited = HashSet::new();
            let mut open = vec![start];
            while let Some(strand) = open.pop() {
                steps += 1;
                if steps > MAX_STEPS || all.len() > self.limit {
                    return Err(start.span);
                }
                if let Some(to) = self.element[strand.to.0] {
                    let ends = ((from, start.from.1), (to, strand.to.1));
                    if seen.insert(ends) {
                        all.push(FlatConnection {
                            from: ends.0,
                            to: ends.1,
                            span: start.span,
                            from_span: start.from_span,
                            to_span: strand.to_span,
                        });
                    }
                } else if let Some(next) = self.onward[strand.to.0] {
                    let port = (next, strand.to.1);
                    if visited.insert(port) {
                        let on = leaving.get(&port).map_or(&[][..], Vec::as_slice);
                        open.extend(on.iter().rev().map(|&i| &self.strands[i]));
                    }
                }
            }
        }
        // The same connections in the same order, however groups and compounds are written.
        all.sort_by_key(|c| (c.from, c.to));
        Ok(all)
    }
}
